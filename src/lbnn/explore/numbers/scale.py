"""The scale before and after the data: densities of λ, or the law of the matrix L."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from lbnn._base.types import Array
from lbnn.explore.numbers.answer import Value, evidence_of, written
from lbnn.explore.problem import posterior, rough_posterior
from lbnn.explore.state import State
from lbnn.explore.table import Table
from lbnn.plots.scale import log_scale_density, posterior_range, prior_range
from lbnn.posterior import Posterior
from lbnn.scale.measure import ScaleMeasure
from lbnn.scale.prior import ScalePrior

#: Depths shown beside the one of the controls.
COMPANIONS = (2, 4, 10)
_POINTS = 160  # of a curve
_DRAWS, _PRIOR_DRAWS = 40, 4000
_LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
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

    def table(self) -> tuple[Sequence[str], Iterable[Sequence[object]]]:
        lines = (
            (curve.depth, curve.when, x, y)
            for curve in self.curves
            for x, y in zip(curve.scale, curve.density, strict=True)
        )
        return ("depth", "data", "scale", "density of log scale"), lines


@dataclass(frozen=True)
class MatrixNumbers:
    """Several outputs: ellipses {x : xᵀ L⁻¹ x = 1} of the first two outputs, and quantiles of eigenvalues.

    Attributes
    ----------
    draws : (k, 73, 2)
        Ellipses of posterior draws.
    mean, before : (73, 2)
        Those of E L after and before the data.
    eigenvalues, eigenvalues_before : (n_d, 5)
        Quantiles of each eigenvalue of L, largest first, at 5, 25, 50, 75 and 95%.
    """

    posterior: Posterior
    draws: Array
    mean: Array
    before: Array
    eigenvalues: Array
    eigenvalues_before: Array

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
        values = _above_rounding(np.linalg.eigvalsh(np.asarray(self.posterior.scale.mean)))
        ratio = math.inf if math.isnan(values[0]) else float(np.sqrt(values[-1] / values[0]))
        return (
            f"The axes of E L have ratio {written(ratio)}: one where the "
            "data favour no direction of the outputs. Thin: draws from the posterior; dashed: the "
            "prior; beside: each eigenvalue of L, before (hollow) and after the data."
        )

    @property
    def messages(self) -> tuple[str, ...]:
        return self.posterior.diagnostics.messages

    def table(self) -> tuple[Sequence[str], Iterable[Sequence[object]]]:
        parts = (("before", self.eigenvalues_before), ("after", self.eigenvalues))
        lines = (
            (when, number + 1, *quantiles) for when, each in parts for number, quantiles in enumerate(each)
        )
        return ("data", "eigenvalue", *(f"quantile {level:g}" for level in _LEVELS)), lines


def numbers(state: State, table: Table | None = None) -> Iterator[DensityNumbers | MatrixNumbers]:
    """The numbers of the view of the scale."""
    here = posterior(state, table)
    yield _densities(state, table, here) if here.prior.outputs == 1 else _matrices(here)


def rough(state: State, table: Table | None = None) -> MatrixNumbers:
    """Several outputs at once, from weighted draws of the prior."""
    return _matrices(rough_posterior(state, table))


def _densities(state: State, table: Table | None, here: Posterior) -> DensityNumbers:
    depths = [state.depth, *(depth for depth in COMPANIONS if depth != state.depth)]
    curves: list[Curve] = []
    for depth in depths:
        if depth > 1:
            each = posterior(state.at_depth(depth), table)
            x = posterior_range(each, _POINTS)
            curves.append(Curve(depth, "after", np.exp(x), np.exp(log_scale_density(each, x))))
            curves.append(_before(depth, each.prior))
    return DensityNumbers(here, tuple(curves), here.prior.variance if state.depth == 1 else None)


@lru_cache(maxsize=256)
def _before(depth: int, prior: ScalePrior) -> Curve:
    x = prior_range(prior, _POINTS)
    return Curve(depth, "before", np.exp(x), np.exp(prior.log_scale_law.log_density(x)))


def _matrices(here: Posterior) -> MatrixNumbers:
    draws = _resampled(here.scale)
    values = _above_rounding(np.sort(here.scale.eigen[0], axis=1)[:, ::-1])
    return MatrixNumbers(
        here,
        ellipse(draws[:, :2, :2]),
        ellipse(np.asarray(here.scale.mean)[:2, :2]),
        ellipse(here.prior.mean[:2, :2]),
        np.array([_weighted_quantiles(column, here.scale.weights) for column in values.T]),
        _prior_quantiles(here.prior),
    )


def _resampled(measure: ScaleMeasure) -> Array:
    """Draws of the law, or of the atoms where nothing else is known."""
    if measure.law is not None:
        return np.asarray(measure.sample(_DRAWS, seed=0))
    chosen = np.random.default_rng(0).choice(len(measure.weights), _DRAWS, p=measure.weights)
    return measure.scales[chosen]


def ellipse(matrix: Array) -> Array:
    """Points (..., 73, 2) of {x : xᵀ M⁻¹ x = 1} for M (..., 2, 2), positive semi-definite."""
    values, vectors = np.linalg.eigh(matrix)
    circle = np.stack([np.cos(_ANGLES), np.sin(_ANGLES)])  # (2, 73)
    root = vectors * np.sqrt(np.maximum(values, 0.0))[..., None, :]
    return np.asarray((root @ circle).swapaxes(-1, -2))


def _weighted_quantiles(values: Array, weights: Array) -> Array:
    order = np.argsort(values)
    mass = np.cumsum(weights[order])
    return values[order][np.searchsorted(mass, np.array(_LEVELS) * mass[-1])]


@lru_cache(maxsize=256)
def _prior_quantiles(prior: ScalePrior) -> Array:
    draws = np.linalg.eigvalsh(prior.sample(_PRIOR_DRAWS, seed=0))[:, ::-1]
    return np.quantile(_above_rounding(draws), _LEVELS, axis=0).T


def _above_rounding(values: Any) -> Array:
    """Eigenvalues (..., n_d), NaN where they are zero but for rounding, behind a narrow layer."""
    largest = values.max(axis=-1, keepdims=True)
    return np.where(values > 1e-13 * largest, values, np.nan)
