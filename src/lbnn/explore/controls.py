"""The controls of the page: a slider's stops, and the words beside it."""

from __future__ import annotations

from dataclasses import dataclass

from lbnn.explore.state import GROWTHS, VIEWS
from lbnn.theories.comparison import QUANTITIES


@dataclass(frozen=True)
class Control:
    """A slider with a field beside it, or a choice.

    Attributes
    ----------
    name : str
        Of the field of `State`.
    label, help : str
    stops : tuple of str
        Where a slider stops; the field takes every value that the state allows.
    choices : tuple of str
        Of a list to choose from, instead of a slider.
    views : tuple of str
        Where the control does something.
    """

    name: str
    label: str
    help: str
    stops: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    views: tuple[str, ...] = VIEWS


def _whole(*values: int) -> tuple[str, ...]:
    return tuple(str(value) for value in values)


def _decades(first: int, last: int, steps: tuple[float, ...] = (1, 1.5, 2, 3, 5, 7)) -> tuple[str, ...]:
    """1, 1.5, 2, 3, 5, 7 times the powers of ten, up to the last power itself."""
    values = [step * 10.0**power for power in range(first, last) for step in steps]
    return tuple(f"{value:g}".replace("e+0", "e") for value in (*values, 10.0**last))


_DATA = ("scale", "theories")

CONTROLS: tuple[Control, ...] = (
    Control("depth", "Depth d", "number of weight matrices", _whole(*range(1, 21))),
    Control(
        "widths",
        "Width n",
        "of every hidden layer; or one per layer in the field, as 20,10,5 (the last is repeated)",
        _whole(*range(1, 11), 12, 15, 20, 25, 30, 40, 50, 60, 80, 100, 150, 200, 300, 400, 500, 700, 1000),
    ),
    Control(
        "beta",
        "Inverse temperature β",
        "0: the data are ignored; inf: zero temperature (no noise)",
        ("0", *_decades(-3, 6), "inf"),
    ),
    Control(
        "variances",
        "Prior variance σ²",
        "of every layer; or one per layer in the field, as 1,2,0.5",
        _decades(-1, 1),
    ),
    Control(
        "examples",
        "Examples p",
        "",
        _whole(*range(1, 11), *range(12, 41, 2), *range(45, 101, 5), *range(110, 201, 10)),
        views=_DATA,
    ),
    Control(
        "inputs",
        "Inputs n₀",
        "",
        _whole(*range(1, 10), *range(10, 100, 5), *range(100, 401, 20)),
        views=_DATA,
    ),
    Control("outputs", "Outputs", "two with a Monte Carlo error", _whole(1, 2), views=_DATA),
    Control(
        "size",
        "Size of the targets",
        "1 is what unit variances expect",
        ("0", *_decades(-2, 2)),
        views=_DATA,
    ),
    Control("noise", "Noise of the targets", "standard deviation", ("0", *_decades(-2, 1)), views=_DATA),
    Control("rank", "Rank of the targets", "of the teacher; 4 is full rank", _whole(1, 2, 3, 4), views=_DATA),
    Control("seed", "Seed", "of the data", _whole(*range(0, 51)), views=_DATA),
    Control("quantity", "Compared in", "", choices=tuple(QUANTITIES), views=("theories",)),
    Control("growth", "What grows", "", choices=GROWTHS, views=("theories",)),
)
