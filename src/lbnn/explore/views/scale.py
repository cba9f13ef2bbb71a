"""Densities of λ, or ellipses and eigenvalues of L."""

from __future__ import annotations

from typing import Any

import numpy as np
from bokeh.models import ColumnDataSource, Legend, LegendItem, Range1d, Span

from lbnn._base.colours import COLOURS
from lbnn.explore.numbers.scale import COMPANIONS, Curve, DensityNumbers, MatrixNumbers
from lbnn.explore.views.style import add_hover, new_figure

_OTHERS = dict(zip(COMPANIONS, (COLOURS[1], COLOURS[2], COLOURS[3]), strict=True))
_HERE = COLOURS[0]


class ScaleView:
    """The scale before and after the data."""

    def __init__(self) -> None:
        self._make_density()
        self._make_ellipse()
        self._make_eigenvalues()
        self.ellipse.visible = self.eigenvalues.visible = False  # until there are several outputs
        self.figures = [self.density, self.ellipse, self.eigenvalues]

    def _make_density(self) -> None:
        made = new_figure(
            "density",
            "Before (dashed) and after the data",
            "scale λ",
            "density of log λ",
            x_axis_type="log",
        )
        made.y_range.start = 0
        self._curves = ColumnDataSource(_lines([]))
        lines = made.multi_line(
            "x", "y", source=self._curves, line_color="colour", line_width="width", line_dash="dash"
        )
        add_hover(made, [("depth", "@depth"), ("λ", "$x{0.000}"), ("density", "$y{0.000}")], [lines])
        # one line for each entry of the legend, which stays while the curves move
        names = [("yours", _HERE, 3.0), *((f"depth {depth}", _OTHERS[depth], 1.3) for depth in COMPANIONS)]
        items = [
            LegendItem(label=name, renderers=[made.line([np.nan], [np.nan], color=colour, line_width=width)])
            for name, colour, width in names
        ]
        made.add_layout(Legend(items=items, orientation="horizontal"), "above")
        self._fixed = Span(location=1.0, dimension="height", line_width=3, visible=False)
        made.add_layout(self._fixed)
        self.density = made

    def _make_ellipse(self) -> None:
        made = new_figure(
            "ellipse", "L of the first two outputs", "output 1", "output 2", match_aspect=True, aspect_scale=1
        )
        self._draws = ColumnDataSource({"x": [], "y": []})
        self._mean, self._before = (ColumnDataSource({"x": [], "y": []}) for _ in range(2))
        made.multi_line("x", "y", source=self._draws, color=_HERE, alpha=0.25)
        made.line(
            "x",
            "y",
            source=self._before,
            line_dash="dashed",
            color=COLOURS[1],
            width=2,
            legend_label="before",
        )
        made.line("x", "y", source=self._mean, color=_HERE, width=3, legend_label="after")
        self.ellipse = made

    def _make_eigenvalues(self) -> None:
        made = new_figure(
            "eigenvalues",
            "Eigenvalues of L (90%, 50%, median)",
            "eigenvalue, largest first",
            "",
            y_axis_type="log",
        )
        made.x_range = Range1d(0.4, 2.6)
        made.xaxis.ticker = [1, 2, 3, 4]
        columns = ("x", "low", "quarter", "median", "three", "high")
        self._eigenvalues = {}
        for when, colour in (("before", COLOURS[1]), ("after", _HERE)):
            source = self._eigenvalues[when] = ColumnDataSource({name: [] for name in columns})
            made.segment("x", "low", "x", "high", source=source, color=colour, line_width=2)
            made.segment("x", "quarter", "x", "three", source=source, color=colour, line_width=8, alpha=0.45)
            made.scatter(
                "x", "median", source=source, size=10, line_color=colour, line_width=2, marker="circle",
                fill_color=colour if when == "after" else None, legend_label=when,
            )  # fmt: skip
        self.eigenvalues = made

    def draw(self, numbers: DensityNumbers | MatrixNumbers) -> None:
        """Show the numbers."""
        one = isinstance(numbers, DensityNumbers)
        self.density.visible, self.ellipse.visible, self.eigenvalues.visible = one, not one, not one
        if isinstance(numbers, DensityNumbers):
            depth = len(numbers.posterior.prior.widths) + 1
            self._curves.data = _lines([(curve, curve.depth == depth) for curve in numbers.curves])
            self._fixed.visible = numbers.fixed is not None
            if numbers.fixed is not None:
                self._fixed.location = numbers.fixed
        else:
            self._draws.data = {"x": list(numbers.draws[:, :, 0]), "y": list(numbers.draws[:, :, 1])}
            self._mean.data = {"x": numbers.mean[:, 0], "y": numbers.mean[:, 1]}
            self._before.data = {"x": numbers.before[:, 0], "y": numbers.before[:, 1]}
            self.eigenvalues.x_range.end = len(numbers.eigenvalues) + 0.6
            for when, values, shift in (
                ("before", numbers.eigenvalues_before, -0.12),
                ("after", numbers.eigenvalues, 0.12),
            ):
                names = ("low", "quarter", "median", "three", "high")
                columns = dict(zip(names, values.T, strict=True))
                self._eigenvalues[when].data = {"x": np.arange(1, len(values) + 1) + shift, **columns}


def _lines(curves: list[tuple[Curve, bool]]) -> dict[str, list[Any]]:
    """Columns of the curves, each with whether it is that of the controls: thick, and drawn last."""
    ordered = sorted(curves, key=lambda each: each[1])
    return {
        "x": [curve.scale for curve, _ in ordered],
        "y": [curve.density for curve, _ in ordered],
        "depth": [curve.depth for curve, _ in ordered],
        "colour": [_HERE if here else _OTHERS[curve.depth] for curve, here in ordered],
        "width": [
            (3.0 if here else 1.3) * (1.0 if curve.when == "after" else 0.5) for curve, here in ordered
        ],
        "dash": ["solid" if curve.when == "after" else "dashed" for curve, _ in ordered],
    }
