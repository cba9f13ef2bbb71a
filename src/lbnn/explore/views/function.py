"""The predictive band, with points that can be dragged, added and removed."""

from __future__ import annotations

from typing import Any

import numpy as np
from bokeh.models import ColumnDataSource, PointDrawTool, Range1d
from bokeh.palettes import Plasma

from lbnn._base.colours import COLOURS
from lbnn.explore.numbers.function import GRID, Band, FunctionNumbers
from lbnn.explore.state import FARTHEST
from lbnn.explore.views.style import add_hover, new_figure

#: From small to large scales.
_OF_DRAWS = Plasma[10][1:9]
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
        self._functions = ColumnDataSource({"x": [], "y": [], "colour": [], "scale": []})
        curves = made.multi_line(
            "x", "y", source=self._functions, line_color="colour", line_width=1.2, line_alpha=0.9
        )
        add_hover(made, [("λ", "@scale{0.000}")], [curves])
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
        self._make_law()
        self.figures = [made, self.law]

    def _make_law(self) -> None:
        """Density of the scale, with a dot for each function that is drawn."""
        made = new_figure(
            "law",
            "The law of λ behind the band",
            "scale λ",
            "density of log λ",
            x_axis_type="log",
            height=220,
        )
        made.y_range.start = 0
        empty: dict[str, list[float]] = {"x": [], "y": []}
        self._before, self._after = ColumnDataSource(dict(empty)), ColumnDataSource(dict(empty))
        made.line("x", "y", source=self._before, color=COLOURS[1], line_dash="dashed", legend_label="before")
        made.line(
            "x", "y", source=self._after, color=COLOURS[0], line_width=2.5, legend_label="after the data"
        )
        self._dots = ColumnDataSource({"x": [], "y": [], "colour": []})
        dots = made.scatter("x", "y", source=self._dots, size=11, fill_color="colour", line_color=None)
        add_hover(made, [("λ of a drawn function", "@x{0.000}")], [dots])
        made.legend.location = "top_left"
        self.law = made

    def _make_band(self, made: Any, who: str, colour: str, dash: str, name: str, *, filled: bool) -> None:
        """Areas where filled, else lines at their edges: distinguished without colour."""
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

    def draw(self, numbers: FunctionNumbers) -> None:
        """Show the numbers; the points are the browser's."""
        self._bands.data = _columns(numbers.band, numbers.process_band)
        law, draws = numbers.law, numbers.draws
        self.law.visible = numbers.posterior.prior.widths != ()
        if not self.law.visible:  # depth one: the process itself
            self._functions.data = {"x": [], "y": [], "colour": [], "scale": []}
        if law is None or draws is None:
            return  # those of the state before stay until the new ones are there
        self._before.data = {"x": law.scale_before, "y": law.before}
        self._after.data = {"x": law.scale_after, "y": law.after}
        colours = [_OF_DRAWS[number % len(_OF_DRAWS)] for number in range(len(draws.scales))]
        self._dots.data = {"x": draws.scales, "y": draws.heights, "colour": colours}
        self._functions.data = {
            "x": [GRID] * len(draws.scales),
            "y": list(draws.functions),
            "colour": colours,
            "scale": draws.scales,
        }


_FLAT = Band(np.zeros_like(GRID), np.zeros((len(_COLUMNS) - 1, len(GRID))))


def _columns(network: Band, process: Band) -> dict[str, Any]:
    return {"x": GRID} | {
        f"{who} {name}": values
        for who, band in (("network", network), ("process", process))
        for name, values in zip(_COLUMNS, (band.mean, *band.quantiles), strict=True)
    }
