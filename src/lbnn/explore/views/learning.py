"""The learning curve: errors against the number of examples."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from bokeh.models import ColumnDataSource, FixedTicker, Span

from lbnn._base.colours import COLOURS
from lbnn.explore.numbers.learning import LearningNumbers
from lbnn.explore.views.style import add_hover, new_figure
from lbnn.learning_curves.limits import LIMITS

_CURVES = {"error": "error of the mean", "gibbs_error": "error of a draw"}


class LearningView:
    """Errors of the network and of the limit theories."""

    def __init__(self) -> None:
        self._ticks = FixedTicker(ticks=[])
        self.curve = new_figure(
            "curve",
            "Average error at a new input",
            "examples p",
            "squared error",
            x_axis_type="log",
            y_axis_type="log",
            height=380,
        )
        self._exact = {}
        for (name, label), colour in zip(_CURVES.items(), COLOURS, strict=False):
            source = self._exact[name] = _points(self.curve, colour, label)
            dots = self.curve.scatter("x", "y", source=source, color=colour, size=8, legend_label=label)
            add_hover(self.curve, [("", label), ("examples", "@x"), ("error", "@y")], [dots])
        self._limits = {}
        for theory, colour in zip(LIMITS, COLOURS[len(_CURVES) :], strict=False):
            source = self._limits[theory] = ColumnDataSource({"x": [], "y": []})
            self.curve.line(
                "x", "y", source=source, color=colour, line_dash="dashed", line_width=2, legend_label=theory
            )
        self.figures = [self.curve]
        self._here = []
        for made in self.figures:
            self._here.append(Span(location=1, dimension="height", line_dash="dotted", line_width=2))
            made.add_layout(self._here[-1])
            made.xaxis.ticker = self._ticks
        self.curve.add_layout(self.curve.legend[0], "below")
        self.curve.legend.ncols = 2
        self.curve.legend.click_policy = "hide"

    def draw(self, numbers: LearningNumbers) -> None:
        """Show the numbers."""
        curve = numbers.curve
        for name, source in self._exact.items():
            source.data = _columns(curve.examples, getattr(curve, name), getattr(curve, f"{name}_error"))
        for theory, source in self._limits.items():
            limit = curve.limits[theory].error
            shown = np.isfinite(limit) & (limit > 0)
            source.data = {"x": curve.examples[shown].tolist(), "y": limit[shown].tolist()}
        for item in self.curve.legend[0].items:
            if item.label.value in self._limits:
                item.visible = bool(self._limits[item.label.value].data["x"])
        self._ticks.ticks = curve.examples.tolist()
        for each in self._here:
            each.location = numbers.state.examples


def _points(made: Any, colour: str, label: str) -> ColumnDataSource:
    source = ColumnDataSource({each: [] for each in ("x", "y", "low", "high")})
    made.line("x", "y", source=source, color=colour, line_width=2, legend_label=label)
    made.segment("x", "low", "x", "high", source=source, color=colour, line_width=2)
    return source


def _columns(x: Any, y: Any, error: Any) -> dict[str, list[float]]:
    """Points with bars of two standard errors; those that are infinite or zero are left out."""
    rows = [
        (float(a), float(b), float(c))
        for a, b, c in zip(x, y, error, strict=True)
        if math.isfinite(b) and b > 0
    ]
    return {
        "x": [a for a, _, _ in rows],
        "y": [b for _, b, _ in rows],
        "low": [max(b - 2 * c, b / 30) for _, b, c in rows],
        "high": [b + 2 * c for _, b, c in rows],
    }
