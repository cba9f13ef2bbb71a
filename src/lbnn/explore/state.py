"""The state of the page: everything the controls can say, checked, and as an address that restores it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields, replace
from typing import Any
from urllib.parse import parse_qsl, urlencode

from lbnn.theories.comparison import QUANTITIES

VIEWS = ("scale", "function", "theories")
#: What grows in the picture of the theories.
GROWTHS = ("width", "data", "width and data")

#: Range of every number that a control holds.
RANGES: dict[str, tuple[float, float]] = {
    "depth": (1, 20),
    "widths": (1, 1000),
    "variances": (0.01, 100.0),
    "examples": (1, 200),
    "inputs": (1, 400),
    "outputs": (1, 2),  # four behind many layers took ten seconds
    "size": (0.0, 100.0),
    "noise": (0.0, 10.0),
    "rank": (1, 4),
    "seed": (0, 9999),
}
SMALLEST_BETA, LARGEST_BETA = 1e-6, 1e6  # beside 0 and infinity, which are allowed
MOST_POINTS, FARTHEST, HIGHEST = 60, 5.0, 1000.0
_LONGEST_ADDRESS = 4000

Point = tuple[float, float]

DEFAULT_POINTS: tuple[Point, ...] = (
    (-3.2, -0.6),
    (-2.6, -1.1),
    (-1.7, -0.7),
    (-0.9, 0.4),
    (-0.2, 1.2),
    (0.6, 0.9),
    (1.3, -0.2),
)


@dataclass(frozen=True)
class State:
    """What is on the page. Values outside their range are a ValueError that states the rule.

    Attributes
    ----------
    view : str
        One of `VIEWS`.
    depth : int
        Number of weight matrices, d.
    widths : tuple of int
        Hidden widths from the first layer on; the last one goes on for deeper layers, and those beyond the
        depth wait unused. So (20,) is width 20 everywhere.
    beta : float
        Inverse temperature, 0 and infinity included.
    variances : tuple of float
        Prior variances σ_1², ..., by the same rule as the widths.
    examples, inputs, outputs : int
        p, n_0, n_d.
    size, noise : float
        Root mean square of the teacher's outputs at typical inputs, and the noise added to them.
    rank : int
        Rank of the teacher; more than the outputs is full rank.
    seed : int
    quantity, growth : str
        What the theories are compared in, and what grows.
    points : tuple of (x, y)
        The training points of the picture of the function.

    Examples
    --------
    >>> from lbnn.explore.state import State
    >>> State(depth=5, beta=float("inf")).address()
    'depth=5&beta=inf'
    >>> State.from_address("depth=5&beta=inf").network_widths
    (20, 20, 20, 20)
    """

    view: str = "scale"
    depth: int = 3
    widths: tuple[int, ...] = (20,)
    beta: float = 25.0
    variances: tuple[float, ...] = (1.0,)
    examples: int = 40
    inputs: int = 80
    outputs: int = 1
    size: float = 0.5
    noise: float = 0.2
    rank: int = 4
    seed: int = 0
    quantity: str = "kernel"
    growth: str = "width"
    points: tuple[Point, ...] = field(default=DEFAULT_POINTS)

    def __post_init__(self) -> None:
        _require_choice("view", self.view, VIEWS)
        _require_choice("quantity", self.quantity, tuple(QUANTITIES))
        _require_choice("growth", self.growth, GROWTHS)
        for name, (low, high) in RANGES.items():
            given = getattr(self, name)
            for value in given if isinstance(given, tuple) else (given,):
                if not low <= value <= high:  # also refuses NaN
                    each = f"every one of the {name}" if name in ("widths", "variances") else name
                    raise ValueError(f"{each} must be from {low:g} to {high:g}, got {_shortened(str(value))}")
        _require_count("widths", self.widths, 19)
        _require_count("variances", self.variances, 20)
        if not (self.beta in (0.0, math.inf) or SMALLEST_BETA <= self.beta <= LARGEST_BETA):
            raise ValueError(
                f"beta must be 0, from {SMALLEST_BETA:g} to {LARGEST_BETA:g}, or inf, got {self.beta:g}"
            )
        _require_points(self.points)

    @property
    def network_widths(self) -> tuple[int, ...]:
        """Hidden widths n_1..n_{d−1}."""
        return carried_on(self.widths, self.depth - 1)

    @property
    def prior_variances(self) -> tuple[float, ...]:
        """σ_1²..σ_d²."""
        return carried_on(self.variances, self.depth)

    @property
    def unused(self) -> tuple[str, ...]:
        """What is said of widths and prior variances beyond the depth."""
        given = ("widths", self.widths, self.depth - 1), ("prior variances", self.variances, self.depth)
        beyond = ((name, values[max(count, 1) :]) for name, values, count in given)
        return tuple(
            f"{name} {', '.join(f'{value:g}' for value in values)} are not used: depth {self.depth} has "
            f"{self.depth - 1} hidden layer{'s' * (self.depth != 2)}"
            for name, values in beyond
            if values
        )

    def core(self) -> State:
        """The fields that the posterior depends on; the others at their defaults, so that caches agree."""
        untouched = {name: _DEFAULTS[name] for name in ("view", "quantity", "growth", "points")}
        return replace(self, **untouched)

    def address(self) -> str:
        """The query part of an address that restores this state: what differs from the defaults."""
        changed = [
            (name, as_text(getattr(self, name)))
            for name in _DEFAULTS
            if getattr(self, name) != _DEFAULTS[name]
        ]
        return urlencode(changed, safe=":,")

    @classmethod
    def from_address(cls, query: str) -> State:
        """The state that an address holds."""
        if len(query) > _LONGEST_ADDRESS:
            raise ValueError(
                f"an address may have {_LONGEST_ADDRESS} characters, got {len(query)}: use fewer points"
            )
        try:
            pairs = parse_qsl(query.removeprefix("?"), keep_blank_values=True, max_num_fields=len(_DEFAULTS))
        except ValueError as problem:
            raise ValueError(f"the address cannot be read: {problem}") from problem
        names = [name for name, _ in pairs]
        unknown = [name for name in names if name not in _DEFAULTS]
        if unknown:
            raise ValueError(
                f"the address may name {', '.join(_DEFAULTS)}, got {_shortened(unknown[0])!r}; remove it"
            )
        if len(set(names)) < len(names):
            raise ValueError("the address may name every control once, got one of them twice")
        return cls(**{name: _from_text(name, text) for name, text in pairs})


_DEFAULTS: dict[str, Any] = {each.name: each.default for each in fields(State)}


def carried_on(values: tuple[Any, ...], count: int) -> tuple[Any, ...]:
    """The first `count` values, with the last one going on where there are fewer."""
    return (*values, *(values[-1],) * count)[:count]


def as_text(value: Any) -> str:
    """A value of the state as the address writes it."""
    if isinstance(value, tuple):
        return ",".join(
            ":".join(as_text(part) for part in each) if isinstance(each, tuple) else as_text(each)
            for each in value
        )
    return f"{value:g}" if isinstance(value, float) and float(f"{value:g}") == value else str(value)


def _from_text(name: str, text: str) -> Any:
    default = _DEFAULTS[name]
    if isinstance(default, str):
        return text
    try:
        if name == "points":
            return tuple(_point(each) for each in text.split(",") if each)
        if isinstance(default, tuple):
            kind: type[int] | type[float] = type(default[0])
            return tuple(kind(part) for part in text.split(","))
        return int(text) if isinstance(default, int) else float(text.replace("∞", "inf"))
    except ValueError as problem:
        rule = {int: "a whole number", float: "a number", tuple: "numbers separated by commas"}[type(default)]
        rule = "points x:y separated by commas" if name == "points" else rule
        raise ValueError(f"{name} must be {rule}, got {_shortened(text)!r}") from problem


def _point(text: str) -> Point:
    x, y = text.split(":")
    return float(x), float(y)


def _shortened(text: str) -> str:
    return text if len(text) <= 40 else text[:37] + "..."


# ---------------------------------------------------------------------- rules


def _require_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(choices)}, got {_shortened(str(value))!r}")


def _require_count(name: str, values: tuple[Any, ...], most: int) -> None:
    if not 1 <= len(values) <= most:
        raise ValueError(f"{name} must be 1 to {most} numbers, got {len(values)}")


def _require_points(points: tuple[Point, ...]) -> None:
    if not 1 <= len(points) <= MOST_POINTS:
        raise ValueError(f"points must be 1 to {MOST_POINTS}, got {len(points)}")
    for x, y in points:
        if not (abs(x) <= FARTHEST and abs(y) <= HIGHEST):
            raise ValueError(
                f"points must have x from {-FARTHEST:g} to {FARTHEST:g} and y from {-HIGHEST:g} to "
                f"{HIGHEST:g}, got {x:g}:{y:g}"
            )
