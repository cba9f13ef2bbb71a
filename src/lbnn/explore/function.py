"""The predictive band on a line, beside that of the Gaussian process: numbers and picture."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from bokeh.models import ColumnDataSource, PointDrawTool, Range1d
from bokeh.palettes import Plasma

from lbnn._base.colours import COLOURS
from lbnn._base.types import Array
from lbnn.explore.answer import Value, evidence_of, written
from lbnn.explore.problem import network
from lbnn.explore.state import FARTHEST, Point, State
from lbnn.explore.style import INK, add_hover, new_figure
from lbnn.network import Network
from lbnn.posterior import Posterior

_DRAWS = 8
GRID = np.linspace(-FARTHEST, FARTHEST, 161)
LEVELS = (0.05, 0.25, 0.75, 0.95)
_EDGE = -1  # point of the grid whose numbers are named


@dataclass(frozen=True)
class Band:
    """Mean (161,) and quantiles (4, 161) along the grid."""

    mean: Array
    quantiles: Array

    @property
    def width(self) -> float:
        """From 5 to 95% at the last point of the grid."""
        return float(self.quantiles[-1, _EDGE] - self.quantiles[0, _EDGE])


@dataclass(frozen=True)
class Draws:
    """Functions drawn from the posterior: first a scale λ, then a function of the process with that scale.

    Attributes
    ----------
    scales : (k,)
        λ of each, in increasing order.
    functions : (k, 161)
        Along the grid.
    """

    scales: Array
    functions: Array


@dataclass(frozen=True)
class FunctionNumbers:
    """The network and the Gaussian process on the same points; draws come later."""

    points: tuple[Point, ...]
    posterior: Posterior
    process: Posterior
    band: Band
    process_band: Band
    draws: Draws | None = None

    @property
    def values(self) -> tuple[Value, ...]:
        return (
            evidence_of(self.posterior),
            Value("log evidence of the process", self.process.log_evidence),
            Value("E λ", float(self.posterior.scale.mean)),
            Value("upper 95% at x = 5", float(self.band.quantiles[-1, _EDGE])),
            Value("upper 95% of the process at x = 5", float(self.process_band.quantiles[-1, _EDGE])),
        )

    @property
    def sentence(self) -> str:
        ratio = self.band.width / self.process_band.width
        return (
            f"Far from the points the network's 90% band is {written(round(ratio, 3))} times as wide as the "
            "process's: the network takes its scale from the data, the process cannot. Each thin curve is a "
            "function drawn from the posterior, brighter for a larger scale λ. Drag the points up and down."
        )

    @property
    def messages(self) -> tuple[str, ...]:
        return self.posterior.diagnostics.messages


def kernel(a: Array, b: Array) -> Array:
    """exp(−(a − b)²/2)."""
    return np.exp(-0.5 * (a[:, None] - b) ** 2)


def numbers(state: State) -> Iterator[FunctionNumbers]:
    """The numbers of the picture: first the bands, then draws."""
    x, y = (np.array(column) for column in zip(*state.points, strict=True))
    total = float(np.prod(state.prior_variances))
    networks = network(state), Network((), [total])
    posteriors = [each.condition_gram(kernel(x, x), y, state.beta) for each in networks]
    bands = [_band(each, x) for each in posteriors]
    found = FunctionNumbers(state.points, posteriors[0], posteriors[1], bands[0], bands[1])
    yield found
    if state.depth > 1:
        yield replace(found, draws=_draws(posteriors[0], state.prior_variances[0], x, y, state.beta))


def _draws(posterior: Posterior, first_variance: float, x: Array, y: Array, beta: float) -> Draws:
    """Scales from their law, and one function each: given λ the network is a process of variance σ_1² λ."""
    rng = np.random.default_rng(0)
    scales = np.sort(np.asarray(posterior.scale.sample(_DRAWS, seed=rng), float).ravel())
    grams = {"cross_gram": kernel(GRID, x), "test_gram": kernel(GRID, GRID)}
    functions = [
        Network((), [first_variance * scale]).condition_gram(kernel(x, x), y, beta).predict(**grams)
        for scale in scales
    ]
    paths = np.array([np.ravel(each.sample(1, seed=rng)) for each in functions])
    return Draws(scales, paths)


def _band(posterior: Posterior, x: Array) -> Band:
    predictive = posterior.predict(cross_gram=kernel(GRID, x), test_gram=kernel(GRID, GRID))
    quantiles = np.array([predictive.quantile(level) for level in LEVELS])
    return Band(np.asarray(predictive.mean), quantiles)


# ---------------------------------------------------------------------- picture

#: From small to large scales.
_OF_DRAWS = Plasma[10][1:9]
_COLUMNS = ("mean", "q5", "q25", "q75", "q95")


class FunctionPicture:
    """Network and Gaussian process on the same points, which can be dragged, added and removed."""

    def __init__(self) -> None:
        made = new_figure(
            "band",
            "Mean, 50% and 90% bands",
            "input x",
            "output",
            toolbar_location="above",
            height=400,
        )
        made.x_range = Range1d(-FARTHEST, FARTHEST, bounds=(-FARTHEST, FARTHEST))
        made.y_range = Range1d(-2.5, 2.5)
        made.toolbar.autohide = False
        self._bands = ColumnDataSource(_columns(_FLAT, _FLAT), name="bands")
        self._make_band(made, "process", COLOURS[1], "dashed", "Gaussian process", filled=False)
        self._make_band(made, "network", COLOURS[0], "solid", "network", filled=True)
        self._functions = ColumnDataSource({"x": [], "y": [], "colour": [], "scale": []})
        curves = made.multi_line(
            "x", "y", source=self._functions, line_color="colour", line_width=1.2, line_alpha=0.9
        )
        add_hover(made, [("λ", "@scale{0.000}")], [curves])
        self.points = ColumnDataSource({"x": [], "y": []}, name="points")
        dots = made.scatter("x", "y", source=self.points, size=13, color=INK, fill_alpha=0.75)
        tool = PointDrawTool(
            renderers=[dots], add=True, num_objects=0, description="Drag, add and remove points"
        )
        made.add_tools(tool)
        made.toolbar.active_tap = made.toolbar.active_drag = tool
        made.legend.location = "top_left"
        self.band = made
        self.figures = [made]

    def _make_band(self, made: Any, who: str, colour: str, dash: str, name: str, *, filled: bool) -> None:
        """Areas where filled, else lines at their edges: distinguished without colour."""
        source = self._bands
        for low, high, alpha in (("q5", "q95", 0.18), ("q25", "q75", 0.3)):
            edges = f"{who} {low}", f"{who} {high}"
            if filled:
                made.varea("x", *edges, fill_color=colour, fill_alpha=alpha, source=source)
                continue
            for edge in edges:
                made.line("x", edge, color=colour, line_dash="dotted", line_width=4 * alpha, source=source)
        made.line(
            "x", f"{who} mean", color=colour, line_dash=dash, line_width=2.5, legend_label=name, source=source
        )

    def draw(self, numbers: FunctionNumbers) -> None:
        """Show the numbers; the points are the browser's."""
        self._bands.data = _columns(numbers.band, numbers.process_band)
        heights = np.array([y for _, y in numbers.points])
        bands = [numbers.band.quantiles.ravel(), numbers.process_band.quantiles.ravel()]
        shown = np.concatenate([heights, *bands])
        low, high = float(shown.min()), float(shown.max())
        margin = 0.08 * (high - low) or 1.0
        self.band.y_range.start, self.band.y_range.end = low - margin, high + margin
        draws = numbers.draws
        if draws is not None:
            self._functions.data = {
                "x": [GRID] * len(draws.scales),
                "y": list(draws.functions),
                "colour": [_OF_DRAWS[number % len(_OF_DRAWS)] for number in range(len(draws.scales))],
                "scale": draws.scales,
            }
        elif not numbers.posterior.prior.widths:  # depth one: the process itself
            self._functions.data = {"x": [], "y": [], "colour": [], "scale": []}


_FLAT = Band(np.zeros_like(GRID), np.zeros((len(_COLUMNS) - 1, len(GRID))))


def _columns(network: Band, process: Band) -> dict[str, Any]:
    return {"x": GRID} | {
        f"{who} {name}": values
        for who, band in (("network", network), ("process", process))
        for name, values in zip(_COLUMNS, (band.mean, *band.quantiles), strict=True)
    }
