"""What all figures share: tools, fonts, and ink for light and dark pages."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from bokeh.models import (
    Axis,
    ColorBar,
    Grid,
    HoverTool,
    Legend,
    PanTool,
    ResetTool,
    Span,
    Title,
    WheelZoomTool,
)
from bokeh.palettes import RdBu11, interp_palette
from bokeh.plotting import figure

#: From blue (negative) to red (positive), told apart by the colour-blind.
DIVERGING = interp_palette(RdBu11, 129)
FONT = "system-ui, -apple-system, 'Segoe UI', sans-serif"


@dataclass(frozen=True)
class Scheme:
    """Colours of words and lines on a light or a dark page."""

    ink: str
    soft: str
    faint: str


SCHEMES = {
    "light": Scheme("#1b1f24", "#55606e", "#d0d5dc"),
    "dark": Scheme("#e6e9ee", "#a7b0bd", "#3a424d"),
}


def new_figure(name: str, title: str, x: str, y: str, **options: Any) -> figure:
    """A figure as wide as its place, that pans and zooms, with its title above and its axes named."""
    made = figure(
        name=name,
        title=title,
        x_axis_label=x,
        y_axis_label=y,
        sizing_mode="stretch_width",
        height=options.pop("height", 340),
        tools=[],
        toolbar_location=options.pop("toolbar_location", "right"),
        output_backend="canvas",
        **options,
    )
    made.add_tools(PanTool(), WheelZoomTool(), ResetTool())
    made.toolbar.logo = None
    made.toolbar.autohide = True
    made.min_border_right = 12
    return made


def add_hover(made: figure, tooltips: list[tuple[str, str]], renderers: list[Any]) -> None:
    """Numbers under the pointer."""
    made.add_tools(HoverTool(tooltips=tooltips, renderers=renderers))


def paint(figures: Iterable[figure], scheme: Scheme) -> None:
    """Give words and lines the ink of the page; grounds are left to the page."""
    for each in figures:
        each.background_fill_color = None
        each.border_fill_color = None
        each.outline_line_color = scheme.faint
        for model in each.references():
            _paint_one(model, scheme)


def _paint_one(model: Any, scheme: Scheme) -> None:
    if isinstance(model, Axis):
        model.axis_line_color = model.major_tick_line_color = scheme.soft
        model.minor_tick_line_color = None
        model.axis_label_text_color = model.major_label_text_color = scheme.ink
        model.axis_label_text_font_style = "normal"
        model.axis_label_text_font = model.major_label_text_font = FONT
        model.axis_label_text_font_size = "14px"
        model.major_label_text_font_size = "12px"
    elif isinstance(model, Grid):
        model.grid_line_color = scheme.faint
        model.grid_line_alpha = 0.5
    elif isinstance(model, Legend):
        model.background_fill_alpha = 0
        model.border_line_color = None
        model.label_text_color = scheme.ink
        model.label_text_font = FONT
        model.label_text_font_size = "12px"
    elif isinstance(model, Title):
        model.text_color = scheme.ink
        model.text_font = FONT
        model.text_font_size = "14px"
    elif isinstance(model, ColorBar):
        model.background_fill_alpha = 0
        model.title_text_color = model.major_label_text_color = scheme.ink
        model.title_text_font = model.major_label_text_font = FONT
        model.major_tick_line_color = scheme.ink
    elif isinstance(model, Span):
        model.line_color = scheme.ink
    elif "ink" in model.tags:  # marks in the colour of the words
        for part in ("line_color", "fill_color", "text_color"):
            if hasattr(model, part):
                setattr(model, part, scheme.ink)
