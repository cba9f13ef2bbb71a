"""Averages over draws without one example: those of the posterior, weighted anew."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy import special

from lbnn._base.blocks import PRODUCT_FLOATS, blocks
from lbnn._base.types import Array, IndexArray
from lbnn.cross_validation.examples import Examples
from lbnn.engines.pareto import pareto_smoothed
from lbnn.scale.draws import Draws

_WEIGHT_FLOATS = 1 << 18  # of one block of weights, (examples, draws): 2 MB for each array of that size


@dataclass(frozen=True)
class Scores:
    """Averages over ρ_{−a}, the posterior of the scale without example a, for some examples."""

    residual: Array  # y_a less its mean, (rows, n_d)
    variance: Array  # (rows, n_d)
    log_density: Array  # (rows,)
    log_density_error: Array  # (rows,)
    pareto_k: Array  # (rows,)

    @property
    def fields(self) -> tuple[Array, ...]:
        """In the order of the constructor: (rows, n_d) twice, then (rows,)."""
        return self.residual, self.variance, self.log_density, self.log_density_error, self.pareto_k


def score(examples: Examples, draws: Draws, matrix: Array) -> Scores:
    """Scores of the examples, with moments of Y Aᵀ for A (outputs, n_d): draws are weighted by ρ_{−a}/ρ.

    Residuals are taken relative to that of one draw, so that their spread is not lost to rounding.
    """
    parts = [examples.log_density(draws, some) for some in _every(draws, examples)]
    weights, *densities = reweighted(draws.weights, draws.groups, np.concatenate(parts, axis=1))
    heaviest = int(draws.weights.argmax())
    start = examples.moments(draws, slice(heaviest, heaviest + 1), matrix)[0][0]  # (rows, outputs)
    shift, second = np.zeros(start.shape), np.zeros(start.shape)
    for some in _every(draws, examples):
        residual, variance = examples.moments(draws, some, matrix)
        shift += np.einsum("am,mak->ak", weights[:, some], residual - start)
        second += np.einsum("am,mak->ak", weights[:, some], variance + (residual - start) ** 2)
    return Scores(start + shift, second - shift**2, *densities)


def _every(draws: Draws, examples: Examples) -> Iterator[slice]:
    """All draws, in blocks that fit the matrix products."""
    each = draws.ratios.shape[1] * max(examples.vectors.shape)
    return blocks(len(draws.weights), each, PRODUCT_FLOATS)


def reweighted(
    weights: Array, groups: IndexArray | None, log_density: Array
) -> tuple[Array, Array, Array, Array]:
    """Weights of ρ_{−a} (rows, m); log E p(y_a | L), its standard error and Pareto k, (rows,) each.

    From weights and groups (m,) of draws and the log density of y_a given each of them, (rows, m). With w
    the weights of ρ_{−a} the error is that of Σ_s (w_s p_s / E p − w_s), to first order.
    """
    log_weights, shapes = left_out_log_weights(weights, log_density, smooth=groups is not None)
    average = special.logsumexp(log_weights + log_density, axis=1)
    own, shares = np.exp(log_weights), np.exp(log_weights + log_density - average[:, None])
    return own, average, _group_error(shares - own, groups), shapes


def left_out_log_weights(weights: Array, log_density: Array, *, smooth: bool) -> tuple[Array, Array]:
    """Normalised log weights of ρ_{−a} (rows, m), smoothed for draws, and Pareto k (rows,)."""
    with np.errstate(divide="ignore"):  # weights may have underflowed to zero
        log_weights = np.log(weights) - log_density
    shapes = np.full(len(log_weights), -np.inf)
    for row, values in enumerate(log_weights if smooth else ()):
        log_weights[row], shapes[row] = pareto_smoothed(values)
    return log_weights - special.logsumexp(log_weights, axis=1, keepdims=True), shapes


def _group_error(terms: Array, groups: IndexArray | None) -> Array:
    """Standard error of Σ_s terms (rows, m) of mean zero, from the spread of independent groups, (rows,)."""
    if groups is None:
        return np.zeros(len(terms))
    labels, index = np.unique(groups, return_inverse=True)
    if len(labels) < 2:
        return np.full(len(terms), np.inf)
    parts = terms @ (index[:, None] == np.arange(len(labels)))
    return np.sqrt((parts**2).sum(axis=1) * len(labels) / (len(labels) - 1))


def row_blocks(count: int, draws: int) -> Iterator[slice]:
    """Blocks of examples whose weights fit into memory."""
    return blocks(count, draws, _WEIGHT_FLOATS)
