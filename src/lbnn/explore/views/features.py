"""Kernels as images, and their alignment with the targets along the layers."""

from __future__ import annotations

from typing import Any

import numpy as np
from bokeh.models import ColumnDataSource, FixedTicker, LinearColorMapper, Range1d, Span

from lbnn._base.colours import COLOURS
from lbnn.explore.numbers.features import FeatureNumbers
from lbnn.explore.views.style import DIVERGING, add_hover, new_figure

_IMAGES = {
    "gram": "Inputs, G",
    "kernel": "Learned, ⟨K⟩",
    "difference": "Change, ⟨K⟩ − G",
    "targets": "Targets, YYᵀ",
}


class FeaturesView:
    """G, ⟨K⟩, ⟨K⟩ − G and YYᵀ; alignment."""

    def __init__(self) -> None:
        self._sources: dict[str, ColumnDataSource] = {}
        self._edge = Range1d(0, 1)
        images = [self._make_image(name, title) for name, title in _IMAGES.items()]
        self._make_alignment()
        self.figures = [*images, self.alignment]

    def _make_image(self, name: str, title: str) -> Any:
        made = new_figure(
            name,
            title,
            "",
            "",
            height=240,
            aspect_ratio=1,
            x_range=self._edge,
            y_range=self._edge,
            toolbar_location=None,
        )
        made.axis.visible = False
        made.grid.visible = False
        source = self._sources[name] = ColumnDataSource({"image": [np.zeros((1, 1), np.uint8)]})
        mapper = LinearColorMapper(palette=list(DIVERGING), low=0, high=255)
        made.image("image", source=source, x=0, y=0, dw=1, dh=1, color_mapper=mapper)
        return made

    def _make_alignment(self) -> None:
        made = new_figure(
            "alignment",
            "Alignment with YYᵀ (0: inputs)",
            "hidden layer",
            "alignment",
            height=260,
        )
        made.y_range = Range1d(0, 1.03)
        self._ticks = made.xaxis.ticker = FixedTicker(
            ticks=[]
        )  # kept: a new model would cost a walk over all of them
        self._alignments = ColumnDataSource({"layer": [], "alignment": []})
        line = made.line("layer", "alignment", source=self._alignments, color=COLOURS[0], line_width=2)
        dots = made.scatter("layer", "alignment", source=self._alignments, color=COLOURS[0], size=9)
        add_hover(made, [("layer", "@layer"), ("alignment", "@alignment{0.0000}")], [dots, line])
        self._here = Span(location=1, dimension="height", line_dash="dotted")
        made.add_layout(self._here)
        self.alignment = made

    def draw(self, numbers: FeatureNumbers) -> None:
        """Show the numbers. G and ⟨K⟩ have one scale of colours, the others their own."""
        limit = float(max(np.abs(numbers.before).max(), np.abs(numbers.learned).max()))
        difference = numbers.learned - numbers.before
        for name, matrix, bound in (
            ("gram", numbers.before, limit),
            ("kernel", numbers.learned, limit),
            ("difference", difference, float(np.abs(difference).max())),
            ("targets", numbers.targets, float(np.abs(numbers.targets).max())),
        ):
            shades = np.round(127.5 * (1 + matrix[::-1] / (bound or 1.0)))  # a byte for each is enough to see
            self._sources[name].data = {"image": [shades.astype(np.uint8)]}
        layers = np.arange(len(numbers.alignments))
        known = np.isfinite(numbers.alignments)
        self._alignments.data = {"layer": layers[known], "alignment": numbers.alignments[known]}
        self._ticks.ticks = layers[:: 1 + len(layers) // 10].tolist()
        self._here.location = numbers.layer
