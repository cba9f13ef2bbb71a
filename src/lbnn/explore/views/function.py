"""The predictive band, with points that can be dragged, added and removed."""

from __future__ import annotations

from typing import Any

import numpy as np
from bokeh.models import ColumnDataSource, PointDrawTool, Range1d

from lbnn._base.colours import COLOURS
from lbnn.explore.numbers.function import GRID, Band, FunctionNumbers
from lbnn.explore.state import FARTHEST
from lbnn.explore.views.style import new_figure

_COLUMNS = ("mean", "q5", "q25", "q75", "q95")


class FunctionView:
    """Network and Gaussian process on the same points."""

    def __init__(self) -> None:
        made = new_figure(
            "band",
            "Mean, 50% and 90% bands; dots are the data",
            "input x",
            "output",
            toolbar_location="above",
            height=400,
        )
        made.x_range = Range1d(-FARTHEST, FARTHEST, bounds=(-FARTHEST, FARTHEST))
        made.toolbar.autohide = False
        self._bands = {
            "process": self._make_band(made, COLOURS[1], "dashed", "Gaussian process", filled=False),
            "network": self._make_band(made, COLOURS[0], "solid", "network", filled=True),
        }
        self.points = ColumnDataSource({"x": [], "y": []}, name="points")
        dots = made.scatter("x", "y", source=self.points, size=13, line_width=2, fill_alpha=0.75)
        dots.glyph.tags = ["ink"]
        tool = PointDrawTool(
            renderers=[dots], add=True, num_objects=0, description="Drag, add and remove points"
        )
        made.add_tools(tool)
        made.toolbar.active_tap = made.toolbar.active_drag = tool
        made.legend.location = "top_left"
        self.band = made
        self.figures = [made]

    def _make_band(self, made: Any, colour: str, dash: str, name: str, *, filled: bool) -> ColumnDataSource:
        """Areas where filled, lines at their edges otherwise, so that the two can be told apart without colour."""
        source = ColumnDataSource({"x": GRID} | {column: np.zeros_like(GRID) for column in _COLUMNS})
        for low, high, alpha in (("q5", "q95", 0.18), ("q25", "q75", 0.3)):
            if filled:
                made.varea("x", low, high, source=source, fill_color=colour, fill_alpha=alpha)
            else:
                for edge in (low, high):
                    width = 1.2 if alpha < 0.2 else 0.8
                    made.line("x", edge, source=source, color=colour, line_dash="dotted", line_width=width)
        made.line("x", "mean", source=source, color=colour, line_dash=dash, line_width=2.5, legend_label=name)
        return source

    def draw(self, numbers: Any) -> None:
        """Show the numbers; the points are the browser's."""
        assert isinstance(numbers, FunctionNumbers)
        self._bands["network"].data = self._columns(numbers.band)
        self._bands["process"].data = self._columns(numbers.process_band)

    def _columns(self, band: Band) -> dict[str, Any]:
        return {"x": GRID, "mean": band.mean} | dict(zip(_COLUMNS[1:], band.quantiles, strict=True))
