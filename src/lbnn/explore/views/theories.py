"""Errors of the limit theories along a size, and the phase diagram."""

from __future__ import annotations

import math
from collections.abc import Iterable

from bokeh.core.properties import value
from bokeh.models import ColorBar, ColumnDataSource, FixedTicker, LogTicker, Span
from bokeh.palettes import Viridis256
from bokeh.transform import log_cmap

from lbnn._base.colours import COLOURS
from lbnn.explore.numbers.phase import ALPHAS, GAMMAS, Cell
from lbnn.explore.numbers.theories import TheoryNumbers, slope_of
from lbnn.explore.views.style import add_hover, new_figure
from lbnn.theories.limits.regimes import THEORIES

_MARKERS = ("circle", "square", "triangle", "diamond", "inverted_triangle", "hex")
_SMALLEST = 1e-12  # smaller errors stand at the lower edge
_STEP = math.sqrt(2.0)  # half a cell of the coarse map


class TheoriesView:
    """Where each theory is close to the exact answer."""

    def __init__(self, coarse: Iterable[Cell]) -> None:
        self._make_errors()
        self._make_phase(list(coarse))
        self.figures = [self.errors, self.phase]

    def _make_errors(self) -> None:
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
        for name, colour, marker in zip(THEORIES, COLOURS, _MARKERS, strict=True):
            source = self._curves[name] = ColumnDataSource({each: [] for each in ("x", "y", "low", "high")})
            made.line("x", "y", source=source, color=colour, line_width=2, legend_label=name)
            dots = made.scatter(
                "x", "y", source=source, color=colour, marker=marker, size=9, legend_label=name
            )
            add_hover(made, [("theory", name), ("size", "@x"), ("error", "@y")], [dots])
            made.segment("x", "low", "x", "high", source=source, color=colour, line_width=2)
        self._here = Span(location=1, dimension="height", line_dash="dotted", line_width=2)
        made.add_layout(self._here)
        mark = made.line(
            [math.nan], [math.nan], line_dash="dotted", line_width=2, legend_label="where you are"
        )
        mark.glyph.tags = ["ink"]
        self._items = {
            item.label.value: item for item in made.legend[0].items if item.label.value in self._curves
        }
        made.legend.click_policy = "hide"
        made.add_layout(made.legend[0], "below")
        self.errors = made

    def _make_phase(self, coarse: list[Cell]) -> None:
        made = new_figure(
            "phase", "‖⟨K⟩ − G‖ / ‖G‖; tap to refine", "data per width, α",
            "outputs per width, γ", x_axis_type="log", y_axis_type="log", height=380,
            x_range=(ALPHAS[0] / 3, ALPHAS[-1] * 3), y_range=(GAMMAS[0] / 3, GAMMAS[-1] * 3),
        )  # fmt: skip
        low, high = min(cell.change for cell in coarse), max(cell.change for cell in coarse)
        colour = log_cmap("change", list(Viridis256), low, high)
        source = ColumnDataSource(_columns(coarse))
        squares = made.quad(
            "left", "right", "top", "bottom", source=source, fill_color=colour, line_color=None
        )
        self._finer = ColumnDataSource(_columns([]))
        finer = made.scatter(
            "alpha",
            "gamma",
            source=self._finer,
            size=14,
            fill_color=colour,
            line_color="white",
            marker="circle",
        )
        self._place = ColumnDataSource({"alpha": [], "gamma": [], "change": []})
        here = made.scatter(
            "alpha", "gamma", source=self._place, size=22, marker="star", line_width=2, fill_color=colour
        )
        here.glyph.line_color = "#D55E00"
        add_hover(made, [("α", "@alpha"), ("γ", "@gamma"), ("change", "@change")], [squares, finer, here])
        bar = ColorBar(color_mapper=colour["transform"], ticker=LogTicker(), width=10, padding=2)
        made.add_layout(bar, "right")
        self.phase = made

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
        self._place.data = {
            "alpha": [numbers.alpha], "gamma": [numbers.gamma], "change": [numbers.change]
        }  # fmt: skip

    def refine(self, cells: Iterable[Cell]) -> None:
        """Add a finer map."""
        known = list(zip(*(self._finer.data[name] for name in ("alpha", "gamma", "change")), strict=True))
        both = {(alpha, gamma): Cell(alpha, gamma, change) for alpha, gamma, change in known}
        both |= {(cell.alpha, cell.gamma): cell for cell in cells}
        self._finer.data = _columns(list(both.values())[-300:])


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


def _columns(cells: list[Cell]) -> dict[str, list[float]]:
    return {
        "alpha": [cell.alpha for cell in cells],
        "gamma": [cell.gamma for cell in cells],
        "change": [cell.change for cell in cells],
        "left": [cell.alpha / _STEP for cell in cells],
        "right": [cell.alpha * _STEP for cell in cells],
        "bottom": [cell.gamma / _STEP for cell in cells],
        "top": [cell.gamma * _STEP for cell in cells],
    }
