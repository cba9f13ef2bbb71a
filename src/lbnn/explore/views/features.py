"""Kernels as images, and their alignment with the targets along the layers."""

from __future__ import annotations

from typing import Any

import numpy as np
from bokeh.models import ColumnDataSource, LinearColorMapper, Range1d, Span

from lbnn._base.colours import COLOURS
from lbnn._base.types import Array
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
        self._mappers: dict[str, LinearColorMapper] = {}
        self._edge = Range1d(0, 1)
        images = [self._make_image(name, title) for name, title in _IMAGES.items()]
        self._titles = dict(zip(_IMAGES, [each.title for each in images], strict=True))
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
        source = self._sources[name] = ColumnDataSource({"image": [np.zeros((1, 1), np.float32)]})
        mapper = self._mappers[name] = LinearColorMapper(palette=list(DIVERGING), low=-1, high=1)
        image = made.image("image", source=source, x=0, y=0, dw=1, dh=1, color_mapper=mapper)
        add_hover(made, [("value", "@image{0.000}")], [image])
        return made

    def _make_alignment(self) -> None:
        made = new_figure(
            "alignment",
            "Alignment with YYᵀ, layer by layer (0: the inputs)",
            "hidden layer",
            "alignment",
            height=260,
        )
        made.y_range = Range1d(0, 1.03)
        self._alignments = ColumnDataSource({"layer": [], "alignment": []})
        line = made.line("layer", "alignment", source=self._alignments, color=COLOURS[0], line_width=2)
        dots = made.scatter("layer", "alignment", source=self._alignments, color=COLOURS[0], size=9)
        add_hover(made, [("layer", "@layer"), ("alignment", "@alignment{0.0000}")], [dots, line])
        self._here = Span(location=1, dimension="height", line_dash="dotted")
        made.add_layout(self._here)
        self.alignment = made

    def draw(self, numbers: Any) -> None:
        """Show the numbers. G and ⟨K⟩ have one scale of colours, the others their own."""
        assert isinstance(numbers, FeatureNumbers)
        limit = float(max(np.abs(numbers.before).max(), np.abs(numbers.learned).max()))
        difference = numbers.learned - numbers.before
        for name, matrix, bound in (
            ("gram", numbers.before, limit),
            ("kernel", numbers.learned, limit),
            ("difference", difference, float(np.abs(difference).max())),
            ("targets", numbers.targets, float(np.abs(numbers.targets).max())),
        ):
            self._draw_image(name, matrix, bound or 1.0)
        layers = np.arange(len(numbers.alignments))
        known = np.isfinite(numbers.alignments)
        self._alignments.data = {"layer": layers[known], "alignment": numbers.alignments[known]}
        self.alignment.xaxis.ticker = layers[:: 1 + len(layers) // 10].tolist()
        self._here.location = numbers.layer

    def _draw_image(self, name: str, matrix: Array, bound: float) -> None:
        self._mappers[name].update(low=-bound, high=bound)
        self._sources[name].data = {"image": [matrix[::-1].astype(np.float32)]}
        self._titles[name].text = f"{_IMAGES[name]} (±{bound:.3g})"
