"""What all figures share: tools, and the colour of words and marks."""

from __future__ import annotations

from typing import Any

from bokeh.models import HoverTool, PanTool, ResetTool, SaveTool, WheelZoomTool
from bokeh.plotting import figure

INK = "#1b1f24"


def new_figure(name: str, title: str, x: str, y: str, **options: Any) -> figure:
    """A figure as wide as its place, that pans and zooms, with its title above and its axes named."""
    made = figure(
        name=name,
        title=title,
        x_axis_label=x,
        y_axis_label=y,
        sizing_mode="stretch_width",
        height=options.pop("height", 340),
        tools=[PanTool(), WheelZoomTool(), ResetTool(), SaveTool()],
        toolbar_location=options.pop("toolbar_location", "right"),
        **options,
    )
    made.toolbar.logo = None
    made.toolbar.autohide = True
    made.toolbar.active_drag = None  # a finger that passes over the figure moves the page
    made.min_border_right = 12
    return made


def add_hover(made: figure, tooltips: list[tuple[str, str]], renderers: list[Any]) -> None:
    """Numbers under the pointer."""
    made.add_tools(HoverTool(tooltips=tooltips, renderers=renderers))
