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
            "Mean, 50% and 90% bands",
            "input x",
            "output",
            toolbar_location="above",
            height=400,
        )
        made.x_range = Range1d(-FARTHEST, FARTHEST, bounds=(-FARTHEST, FARTHEST))
        made.y_range = Range1d(-2.5, 2.5)  # the page fits it, but not while a point is dragged
        made.toolbar.autohide = False
        self._bands = ColumnDataSource(_columns(_FLAT, _FLAT), name="bands")
        self._make_band(made, "process", COLOURS[1], "dashed", "Gaussian process", filled=False)
        self._make_band(made, "network", COLOURS[0], "solid", "network", filled=True)
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

    def _make_band(self, made: Any, who: str, colour: str, dash: str, name: str, *, filled: bool) -> None:
        """Areas where filled, else lines at their edges: told apart without colour."""
        options: dict[str, Any] = {"source": self._bands}
        for low, high, alpha in (("q5", "q95", 0.18), ("q25", "q75", 0.3)):
            if filled:
                made.varea(
                    "x", f"{who} {low}", f"{who} {high}", fill_color=colour, fill_alpha=alpha, **options
                )
            else:
                for edge in (low, high):
                    width = 1.2 if alpha < 0.2 else 0.8
                    made.line(
                        "x", f"{who} {edge}", color=colour, line_dash="dotted", line_width=width, **options
                    )
        made.line(
            "x", f"{who} mean", color=colour, line_dash=dash, line_width=2.5, legend_label=name, **options
        )

    def draw(self, numbers: Any) -> None:
        """Show the numbers; the points are the browser's."""
        assert isinstance(numbers, FunctionNumbers)
        self._bands.data = _columns(numbers.band, numbers.process_band)


_FLAT = Band(np.zeros_like(GRID), np.zeros((len(_COLUMNS) - 1, len(GRID))))


def _columns(network: Band, process: Band) -> dict[str, Any]:
    return {"x": GRID} | {
        f"{who} {name}": values
        for who, band in (("network", network), ("process", process))
        for name, values in zip(_COLUMNS, (band.mean, *band.quantiles), strict=True)
    }
