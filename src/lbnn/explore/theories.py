"""Limit theories against the exact answer at growing sizes: numbers and picture."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from bokeh.core.properties import value
from bokeh.models import ColumnDataSource, FixedTicker, Span

from lbnn._base.colours import COLOURS
from lbnn.explore.answer import Value, written
from lbnn.explore.problem import TARGET_ERROR, data, network, posterior
from lbnn.explore.state import State
from lbnn.explore.style import INK, add_hover, new_figure
from lbnn.theories.comparison import compare
from lbnn.theories.limits.regimes import THEORIES

#: A saddle point over matrices of the examples: at depth three, and at depth two with 200 examples, it was
#: seen to take ten seconds and more; with 40 examples at depth two at most 1.2 s.
_SLOW, _MOST_EXAMPLES = "many outputs", 40
_FACTORS = (0.125, 0.25, 0.5, 2.0, 4.0, 8.0)  # of the size of the controls


@dataclass(frozen=True)
class Errors:
    """Errors of theories at one size, each with the Monte Carlo error of the exact side; who is left out."""

    size: int
    rows: tuple[tuple[str, float, float], ...]
    left_out: tuple[tuple[str, str], ...]
    messages: tuple[str, ...]


@dataclass(frozen=True)
class TheoryNumbers:
    """Errors along the size that grows, and how far the data change the kernel of the present network.

    Attributes
    ----------
    here : Errors
        At the size of the controls.
    sizes : tuple of Errors
        At all sizes done so far, `here` included, in increasing order.
    change : float
        ‖⟨K⟩ − G‖/‖G‖ of the present network.
    """

    state: State
    here: Errors
    sizes: tuple[Errors, ...]
    change: float

    @property
    def values(self) -> tuple[Value, ...]:
        errors = tuple(Value(name, error, monte_carlo) for name, error, monte_carlo in self.here.rows)
        return (*errors, Value("change of the kernel", self.change))

    @property
    def sentence(self) -> str:
        if not self.here.rows:
            return "No limit theory applies here; the reasons are below."
        unit = " nats" if self.state.quantity == "log evidence" else ""
        closest = closest_of(self.here.rows)
        name, error, _ = closest[0]
        if len(closest) == 1:
            found = (
                f"Of the theories that apply, “{name}” is closest in {self.state.quantity}: off by "
                f"{written(abs(error))}{unit}"
            )
        else:
            names = ", ".join(f"“{each}” ({written(abs(off))}{unit})" for each, off, _ in closest)
            found = (
                f"The Monte Carlo error of the exact answer does not distinguish between {names} in "
                f"{self.state.quantity}: they are closest together"
            )
        return (
            f"{found}. Errors fall where a theory's own size grows, with the slopes in the legend; the "
            f"dotted "
            "line marks where you are, bars are two Monte Carlo errors of the exact side."
        )

    @property
    def messages(self) -> tuple[str, ...]:
        reasons = tuple(f"{name} does not apply: {reason}" for name, reason in self.here.left_out)
        return self.here.messages + reasons


def closest_of(rows: Sequence[tuple[str, float, float]]) -> list[tuple[str, float, float]]:
    """The theory with the smallest error, and those within two Monte Carlo errors of it.

    Examples
    --------
    >>> [name for name, _, _ in closest_of([("a", 0.10, 0.01), ("b", -0.11, 0.01), ("c", 0.2, 0.01)])]
    ['a', 'b']
    """
    ordered = sorted(rows, key=lambda row: abs(row[1]))
    _, best, noise = ordered[0]
    return [row for row in ordered if abs(row[1]) - abs(best) <= 2 * max(noise, row[2])]


def slope_of(theory: str, sizes: Sequence[Errors]) -> float | None:
    """Slope of log error against log size, by least squares over the sizes where the error is not noise.

    None where there are fewer than three of them.
    """
    points = [
        (math.log(each.size), math.log(abs(error)))
        for each in sizes
        for name, error, noise in each.rows
        if name == theory and math.isfinite(error) and abs(error) > max(4 * noise, 1e-12)
    ]
    if len(points) < 3:
        return None
    x, y = np.array(points).T
    return float(np.polyfit(x, y, 1)[0])


def numbers(state: State) -> Iterator[TheoryNumbers]:
    """First the size of the controls, then the others one by one."""
    if state.depth == 1:
        raise ValueError("theories are compared at depth 2 or more, got depth 1")
    change = posterior(state).kernel_change()
    here = _errors(state)
    found = {here.size: here}
    yield TheoryNumbers(state, here, (here,), change)
    for other in (grown(state, factor) for factor in _FACTORS):
        errors = None if other is None else _errors_or_none(other)
        if errors is not None:
            found[errors.size] = errors
            yield TheoryNumbers(state, here, tuple(found[size] for size in sorted(found)), change)


def grown(state: State, factor: float) -> State | None:
    """The problem with its sizes multiplied, or None where that leaves the range of the controls."""
    changes: dict[str, object] = {}
    if "width" in state.growth:
        changes["widths"] = tuple(_times(width, factor) for width in state.widths)
    if "data" in state.growth:
        changes |= {"examples": _times(state.examples, factor), "inputs": _times(state.inputs, factor)}
    if any(value == 0 or (isinstance(value, tuple) and 0 in value) for value in changes.values()):
        return None
    try:
        return replace(state, **changes)  # type: ignore[arg-type]
    except ValueError:  # outside the range of the controls
        return None


def _times(size: int, factor: float) -> int:
    """The size times the factor where that is a whole number, else 0."""
    return int(size * factor) if (size * factor).is_integer() else 0


def grown_size(state: State) -> int:
    """The number on the axis."""
    return state.examples if state.growth == "data" else state.network_widths[0]


def _errors(state: State) -> Errors:
    return _cached_errors(state.core(), state.quantity, grown_size(state))


def _errors_or_none(state: State) -> Errors | None:
    """None where the exact answer does not exist at that size."""
    try:
        return _errors(state)
    except ValueError:
        return None


@lru_cache(maxsize=512)
def _cached_errors(state: State, quantity: str, size: int) -> Errors:
    X, Y = data(state)
    quick = state.depth == 2 and state.examples <= _MOST_EXAMPLES
    names = tuple(name for name in THEORIES if name != _SLOW or quick)
    result = compare(
        network(state), X, Y, state.beta, quantities=(quantity,), theories=names, target_error=TARGET_ERROR
    )
    rows = tuple((row.theory, row.error, row.monte_carlo) for row in result.rows)
    left_out = dict(result.left_out)
    if not quick:
        left_out[_SLOW] = (
            f"the page compares it at depth 2 with up to {_MOST_EXAMPLES} examples, since it takes long; "
            "use lbnn.compare"
        )
    return Errors(size, rows, tuple(left_out.items()), result.exact.diagnostics.messages)


# ---------------------------------------------------------------------- picture

_MARKERS = ("circle", "circle_dot", "square", "triangle", "diamond", "inverted_triangle", "hex")
_SMALLEST = 1e-12  # smaller errors stand at the lower edge


class TheoriesPicture:
    """Where each theory is close to the exact answer."""

    def __init__(self) -> None:
        made = new_figure(
            "errors",
            "Distance to the exact answer",
            "size",
            "error",
            x_axis_type="log",
            y_axis_type="log",
            height=480,  # with the legend in one column, as a phone is wide
        )
        self._ticks = made.xaxis.ticker = FixedTicker(ticks=[])
        self._curves: dict[str, ColumnDataSource] = {}
        for name, colour, marker in zip(THEORIES, (*COLOURS, INK), _MARKERS, strict=True):
            source = self._curves[name] = ColumnDataSource({each: [] for each in ("x", "y", "low", "high")})
            made.line("x", "y", source=source, color=colour, line_width=2, legend_label=name)
            dots = made.scatter(
                "x", "y", source=source, color=colour, marker=marker, size=9, legend_label=name
            )
            add_hover(made, [("theory", name), ("size", "@x"), ("error", "@y")], [dots])
            made.segment("x", "low", "x", "high", source=source, color=colour, line_width=2)
        self._here = Span(location=1, dimension="height", line_color=INK, line_dash="dotted", line_width=2)
        made.add_layout(self._here)
        made.line(
            [math.nan], [math.nan], color=INK, line_dash="dotted", line_width=2, legend_label="where you are"
        )
        self._items = {
            item.label.value: item for item in made.legend[0].items if item.label.value in self._curves
        }
        made.legend.click_policy = "hide"
        made.add_layout(made.legend[0], "below")
        self.errors = made
        self.figures = [made]

    def draw(self, numbers: TheoryNumbers) -> None:
        """Show the numbers."""
        for name, source in self._curves.items():
            source.data = _curve(numbers, name)
        for name, item in self._items.items():
            slope = slope_of(name, numbers.sizes)
            item.visible = bool(self._curves[name].data["x"])
            text = name if slope is None else f"{name}, slope {slope:.1f}".replace("-", "−")
            item.label = value(text)  # a string alone is taken for a column of the data
        self._here.location = numbers.here.size
        self._ticks.ticks = [each.size for each in numbers.sizes]
        self.errors.xaxis.axis_label = f"{numbers.state.growth}: " + (
            "examples p" if numbers.state.growth == "data" else "hidden width n₁"
        )
        # words of the axis that are longer than the axis would be cut off
        self.errors.title.text = f"Distance to the exact {numbers.state.quantity}"
        nats = numbers.state.quantity == "log evidence"
        self.errors.yaxis.axis_label = "error, nats" if nats else "relative error"


def _curve(numbers: TheoryNumbers, theory: str) -> dict[str, list[float]]:
    rows = [
        (each.size, max(abs(error), _SMALLEST), monte_carlo)
        for each in numbers.sizes
        for name, error, monte_carlo in each.rows
        if name == theory and math.isfinite(error)
    ]
    return {
        "x": [size for size, _, _ in rows],
        "y": [error for _, error, _ in rows],
        "low": [max(error - 2 * noise, error / 30) for _, error, noise in rows],
        "high": [error + 2 * noise for _, error, noise in rows],
    }
