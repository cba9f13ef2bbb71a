"""The scale before and after the data, densities of λ or the law of the matrix L: numbers and picture."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from bokeh.models import ColumnDataSource, Legend, LegendItem, Span

from lbnn._base.colours import COLOURS
from lbnn._base.types import Array
from lbnn.explore.answer import Value, evidence_of, written
from lbnn.explore.problem import posterior
from lbnn.explore.state import State
from lbnn.explore.style import INK, add_hover, new_figure
from lbnn.plots.scale import log_scale_density, posterior_range, prior_range
from lbnn.posterior import Posterior
from lbnn.scale.measure import ScaleMeasure
from lbnn.scale.prior import ScalePrior

#: Depths shown beside the one of the controls.
COMPANIONS = (2, 4, 10)
_POINTS = 160  # of a curve
_DRAWS = 40
_ANGLES = np.linspace(0, 2 * math.pi, 73)


@dataclass(frozen=True)
class Curve:
    """The density of log λ along λ."""

    depth: int
    when: str  # "before" or "after" the data
    scale: Array
    density: Array


@dataclass(frozen=True)
class DensityNumbers:
    """One output: densities of log λ at the depth of the controls and at others.

    Where the depth is one the scale is fixed, and `fixed` is its value.
    """

    posterior: Posterior
    curves: tuple[Curve, ...]
    fixed: float | None

    @property
    def values(self) -> tuple[Value, ...]:
        return (
            Value("E λ", float(self.posterior.scale.mean)),
            Value("E λ before the data", self.posterior.prior.variance),
            evidence_of(self.posterior),
            Value("effective draws", self.posterior.diagnostics.effective_sample_size),  # ∞: nothing is drawn
        )

    @property
    def sentence(self) -> str:
        before, after = self.posterior.prior.variance, float(self.posterior.scale.mean)
        if self.fixed is not None:
            return "At depth one no scale is learned: λ is fixed, and the network is the Gaussian process."
        if written(before) == written(after):
            moved = f"The data leave the mean of λ at {written(before)}"
        else:
            change = " by less than 2%," if abs(after / before - 1) < 0.02 else ""
            moved = f"The data change the mean of λ{change} from {written(before)} to {written(after)}"
        return (
            f"{moved}. Dashed: before the data; solid: after. The prior of a deeper network is wider, so "
            "that its scale depends more on the data."
        )

    @property
    def messages(self) -> tuple[str, ...]:
        return self.posterior.diagnostics.messages


@dataclass(frozen=True)
class MatrixNumbers:
    """Two outputs: ellipses {x : xᵀ L⁻¹ x = 1}.

    Attributes
    ----------
    draws : (k, 73, 2)
        Ellipses of posterior draws.
    mean, before : (73, 2)
        Those of E L after and before the data.
    """

    posterior: Posterior
    draws: Array
    mean: Array
    before: Array

    @property
    def values(self) -> tuple[Value, ...]:
        measure = self.posterior.scale
        known = measure.mean_error if measure.groups is not None else self.posterior.log_evidence_error
        mean, error = np.asarray(measure.mean), np.broadcast_to(known, np.shape(measure.mean))
        entries = [
            Value(f"E L {row + 1}{column + 1}", float(mean[row, column]), float(error[row, column]))
            for row in range(len(mean))
            for column in range(row + 1)
        ]
        draws = Value("effective draws", self.posterior.diagnostics.effective_sample_size)
        return (*entries, evidence_of(self.posterior), draws)

    @property
    def sentence(self) -> str:
        values = np.linalg.eigvalsh(np.asarray(self.posterior.scale.mean))
        # zero but for rounding behind a narrow layer
        ratio = math.inf if values[0] <= 1e-13 * values[-1] else float(np.sqrt(values[-1] / values[0]))
        return (
            f"The axes of E L have ratio {written(ratio)}: one where the data favour no direction of the "
            "outputs. Thin: draws from the posterior; dashed: the prior."
        )

    @property
    def messages(self) -> tuple[str, ...]:
        return self.posterior.diagnostics.messages


def numbers(state: State) -> Iterator[DensityNumbers | MatrixNumbers]:
    """The numbers of the picture, all at once."""
    here = posterior(state)
    yield _densities(state, here) if here.prior.outputs == 1 else _matrices(here)


def _densities(state: State, here: Posterior) -> DensityNumbers:
    depths = [state.depth, *(depth for depth in COMPANIONS if depth != state.depth)]
    curves: list[Curve] = []
    for depth in depths:
        if depth > 1:
            each = posterior(replace(state, depth=depth))
            x = posterior_range(each, _POINTS)
            curves.append(Curve(depth, "after", np.exp(x), np.exp(log_scale_density(each, x))))
            curves.append(_before(depth, each.prior))
    return DensityNumbers(here, tuple(curves), here.prior.variance if state.depth == 1 else None)


@lru_cache(maxsize=256)
def _before(depth: int, prior: ScalePrior) -> Curve:
    x = prior_range(prior, _POINTS)
    return Curve(depth, "before", np.exp(x), np.exp(prior.log_scale_law.log_density(x)))


def _matrices(here: Posterior) -> MatrixNumbers:
    matrices = _resampled(here.scale), np.asarray(here.scale.mean), here.prior.mean
    return MatrixNumbers(here, *map(ellipse, matrices))


def _resampled(measure: ScaleMeasure) -> Array:
    """Draws of the law, or of the atoms where nothing else is known."""
    if measure.law is not None:
        return np.asarray(measure.sample(_DRAWS, seed=0))
    chosen = np.random.default_rng(0).choice(len(measure.weights), _DRAWS, p=measure.weights)
    return measure.scales_of(chosen)


def ellipse(matrix: Array) -> Array:
    """Points (..., 73, 2) of {x : xᵀ M⁻¹ x = 1} for M (..., 2, 2), positive semi-definite."""
    values, vectors = np.linalg.eigh(matrix)
    circle = np.stack([np.cos(_ANGLES), np.sin(_ANGLES)])  # (2, 73)
    root = vectors * np.sqrt(np.maximum(values, 0.0))[..., None, :]
    return np.asarray((root @ circle).swapaxes(-1, -2))


# ---------------------------------------------------------------------- picture

_OTHERS = dict(zip(COMPANIONS, (COLOURS[1], COLOURS[2], COLOURS[3]), strict=True))
_HERE = COLOURS[0]


class ScalePicture:
    """The scale before and after the data."""

    def __init__(self) -> None:
        self._make_density()
        self._make_ellipse()
        self.ellipse.visible = False  # until there are two outputs
        self.figures = [self.density, self.ellipse]

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
        self._fixed = Span(location=1.0, dimension="height", line_color=INK, line_width=3, visible=False)
        made.add_layout(self._fixed)
        self.density = made

    def _make_ellipse(self) -> None:
        made = new_figure(
            "ellipse", "L of the two outputs", "output 1", "output 2", match_aspect=True, aspect_scale=1
        )
        self._draws, self._mean, self._before = (ColumnDataSource({"x": [], "y": []}) for _ in range(3))
        made.multi_line("x", "y", source=self._draws, color=_HERE, alpha=0.25)
        for source, colour, dash, name in (
            (self._before, COLOURS[1], "dashed", "before"),
            (self._mean, _HERE, "solid", "after"),
        ):
            made.line(
                "x", "y", source=source, color=colour, line_dash=dash, line_width=2.5, legend_label=name
            )
        self.ellipse = made

    def draw(self, numbers: DensityNumbers | MatrixNumbers) -> None:
        """Show the numbers."""
        one = isinstance(numbers, DensityNumbers)
        self.density.visible, self.ellipse.visible = one, not one
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
