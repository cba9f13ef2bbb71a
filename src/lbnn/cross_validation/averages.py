"""Averages over the scale without one example: the atoms of the posterior, weighted anew."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from scipy import special

from lbnn._base.blocks import PRODUCT_FLOATS, blocks
from lbnn._base.types import Array, IndexArray
from lbnn.cross_validation.examples import LeftOut
from lbnn.engines.pareto import pareto_smoothed
from lbnn.scale.measure import ScaleMeasure

_WEIGHT_FLOATS = 1 << 18  # of one block of weights, (examples, atoms): 2 MB for each array of that size


class WeightedAtoms(Protocol):
    """Atoms with weights: draws, or the nodes of a deterministic rule."""

    @property
    def weights(self) -> Array:
        """(m,)."""

    @property
    def deterministic(self) -> bool:
        """Whether they are nodes."""


@dataclass(frozen=True)
class Scores:
    """Averages over ρ_{−a}, the posterior of the scale without example a, for some examples."""

    residual: Array  # y_a less its mean, (rows, n_d)
    variance: Array  # (rows, n_d)
    log_density: Array  # (rows,)
    log_density_error: Array  # (rows,)
    pareto_k: Array  # (rows,)

    def of_rows(self, weights: Array, outputs: int) -> Scores:
        """Scores in the units of the targets, from those of rows multiplied by √w, w (rows,)."""
        return replace(
            self,
            residual=self.residual / np.sqrt(weights)[:, None],
            variance=self.variance / weights[:, None],
            log_density=self.log_density + 0.5 * outputs * np.log(weights),
        )

    @property
    def fields(self) -> tuple[Array, ...]:
        """In the order of the constructor: (rows, n_d) twice, then (rows,)."""
        return self.residual, self.variance, self.log_density, self.log_density_error, self.pareto_k


def score(measure: ScaleMeasure, examples: LeftOut, matrix: Array) -> Scores:
    """Scores of the examples, with moments of Y Aᵀ for A (outputs, n_d): atoms are weighted by ρ_{−a}/ρ."""
    log_density = np.concatenate([examples.log_density(*eigen) for eigen, _ in _atoms(measure, examples)], 1)
    weights, *densities = _reweighted(measure, log_density)
    return Scores(*moments(measure, examples, weights, matrix), *densities)


def score_atoms(measure: ScaleMeasure, precision: Array, residual: Array) -> Scores:
    """Scores of single numbers y_a from their precision and residual given each atom, (rows, m) each."""
    log_density = 0.5 * (np.log(precision / (2 * np.pi)) - residual**2 * precision)
    weights, *densities = _reweighted(measure, log_density)
    mean = (weights * residual).sum(axis=1)
    variance = (weights * (1 / precision + (residual - mean[:, None]) ** 2)).sum(axis=1)
    return Scores(mean[:, None], variance[:, None], *densities)


def _reweighted(measure: ScaleMeasure, log_density: Array) -> tuple[Array, Array, Array, Array]:
    """Weights of ρ_{−a} (rows, m); log E p(y_a | L), its standard error and Pareto k, (rows,) each.

    From the log density of y_a given each atom, (rows, m). With w the weights of ρ_{−a} the error is that of
    Σ_s (w_s p_s / E p − w_s), to first order.
    """
    log_weights, shapes = left_out_log_weights(measure, log_density)
    average = special.logsumexp(log_weights + log_density, axis=1)
    weights, shares = np.exp(log_weights), np.exp(log_weights + log_density - average[:, None])
    return weights, average, group_error(shares - weights, measure.groups), shapes


def left_out_log_weights(measure: WeightedAtoms, log_density: Array) -> tuple[Array, Array]:
    """Normalised log weights of ρ_{−a} on the atoms (rows, m), smoothed for draws, and Pareto k (rows,)."""
    with np.errstate(divide="ignore"):  # weights may have underflowed to zero
        log_weights = np.log(measure.weights) - log_density
    shapes = np.full(len(log_weights), -np.inf)
    if not measure.deterministic:
        for row, values in enumerate(log_weights):
            log_weights[row], shapes[row] = pareto_smoothed(values)
    return log_weights - special.logsumexp(log_weights, axis=1, keepdims=True), shapes


def moments(measure: ScaleMeasure, examples: LeftOut, weights: Array, matrix: Array) -> tuple[Array, Array]:
    """Mean residual and variance of Y Aᵀ (rows, outputs), by the law of total variance.

    Residuals are taken relative to that of one atom, so that their spread is not lost to rounding.
    """
    heaviest = [int(measure.weights.argmax())]
    values, vectors = measure.eigen
    reference = examples.moments(values[heaviest], vectors[heaviest], matrix)[0]  # (1, rows, n_d)
    shift, second = np.zeros(reference.shape[1:]), np.zeros(reference.shape[1:])
    for eigen, block in _atoms(measure, examples):
        residual, variance = examples.moments(*eigen, matrix)
        deviation = residual - reference
        shift += np.einsum("am,mak->ak", weights[:, block], deviation)
        second += np.einsum("am,mak->ak", weights[:, block], variance + deviation**2)
    return reference[0] + shift, second - shift**2


def group_error(terms: Array, groups: IndexArray | None) -> Array:
    """Standard error of Σ_s terms (rows, m) of mean zero, from the spread of independent groups, (rows,)."""
    if groups is None:
        return np.zeros(len(terms))
    labels, index = np.unique(groups, return_inverse=True)
    if len(labels) < 2:
        return np.full(len(terms), np.inf)
    parts = terms @ (index[:, None] == np.arange(len(labels)))
    return np.sqrt((parts**2).sum(axis=1) * len(labels) / (len(labels) - 1))


def _atoms(measure: ScaleMeasure, examples: LeftOut) -> Iterator[tuple[tuple[Array, Array], slice]]:
    """Eigenvalues (m, n_d) and eigenvectors of the scales in blocks that fit the matrix products."""
    values, vectors = measure.eigen
    each = values.shape[1] * max(examples.extent)
    return (((values[block], vectors[block]), block) for block in blocks(len(values), each, PRODUCT_FLOATS))


def row_blocks(count: int, measure: ScaleMeasure) -> Iterator[slice]:
    """Blocks of examples whose weights fit into memory."""
    return blocks(count, len(measure.weights), _WEIGHT_FLOATS)
