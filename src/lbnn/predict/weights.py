"""Exact posterior draws of all weights.

Given the Bartlett factors, everything else is prior or conjugate. With P_d = I and for ℓ = d, ..., 2,

    P_ℓ W_ℓ = T_ℓ Q_ℓ,   Q_ℓ with orthonormal rows, uniformly distributed and independent of T_ℓ,

rows of W_ℓ outside the span of P_ℓ keep their prior, and P_{ℓ−1} = Q_ℓ. At the bottom P_1 W_1 enters the data
through T = T_d ⋯ T_2 = V diag(√l) Oᵀ alone: along input direction i and column j of O it is regression on one
variable.
"""

from __future__ import annotations

import math

import numpy as np

from lbnn._base.arrays import device_of, to_numpy
from lbnn._base.blocks import blocks
from lbnn._base.types import Array
from lbnn.data.bases import InputBasis
from lbnn.data.view_data import ViewData
from lbnn.predict.conditional import ConditionalProcess
from lbnn.scale.bartlett import product
from lbnn.scale.prior import ScalePrior


def sample_weights(
    size: int,
    factors: list[Array],
    widths: tuple[int, ...],
    variances: tuple[float, ...],
    process: ConditionalProcess,
    basis: InputBasis,
    rng: np.random.Generator,
) -> list[Array]:
    """W_1, ..., W_d, (size, n_ℓ, n_{ℓ−1}) each, given draws of T_d, ..., T_2.

    There are no factors at depth one, where T = I.

    `widths` are n_1..n_{d−1}, `variances` σ_2²..σ_d²; the first layer's variance is in the basis.
    """
    weights, total, rows = _upper_layers(size, process.outputs, factors, widths, variances, rng)
    return [_first_layer(total, rows, process, basis, rng), *weights]


def sample_view_weights(
    size: int,
    factors: list[Array],
    prior: ScalePrior,
    data: ViewData,
    noise: float,
    rng: np.random.Generator,
) -> list[Array]:
    """W_1, ..., W_d, (size, n_ℓ, n_{ℓ−1}) each, for observations through views, of noise variance τ.

    Given T the observations are linear in B = P_1 W_1: y_μ = Σ_m [T B ψ_m]_m + noise. So with a draw B_0 of
    its prior and one of the noise, B = B_0 + Zᵀ C⁻¹ (y − Z B_0 − noise) is one of its posterior (Matheron's
    rule).
    """
    assert data.features is not None
    rows_of_data, _, dimension = data.features.shape
    layers = prior.widths, prior.layer_variances or (1.0,) * len(prior.widths)
    weights, total, rows = _upper_layers(size, prior.outputs, factors, *layers, rng)
    deviation = math.sqrt(data.variance / dimension)
    if not factors:
        total = math.sqrt(prior.variance) * total
    inner = rng.standard_normal((size, total.shape[2], dimension))  # B_0 in units of its deviation
    for block in blocks(size, rows_of_data * (total.shape[2] * dimension + 2 * rows_of_data)):
        features = np.einsum("qmi,smk->sqki", data.features, total[block], optimize=True)
        features = features.reshape(len(features), rows_of_data, -1)  # Z, (k, q, columns · n0)
        flat = inner[block].reshape(len(features), -1)
        covariance = features @ features.swapaxes(1, 2) + noise * np.eye(rows_of_data)
        drawn = math.sqrt(noise) * rng.standard_normal((len(features), rows_of_data))
        misfit = data.observations - (features @ flat[:, :, None])[:, :, 0] - drawn
        change = np.linalg.solve(covariance, misfit[:, :, None])
        inner[block] += (features.swapaxes(1, 2) @ change).reshape(inner[block].shape)
    first = rng.standard_normal((size, rows.shape[2], dimension))
    return [_replace_rows(first, deviation, rows, deviation * inner), *weights]


def _upper_layers(
    size: int,
    outputs: int,
    factors: list[Array],
    widths: tuple[int, ...],
    variances: tuple[float, ...],
    rng: np.random.Generator,
) -> tuple[list[Array], Array, Array]:
    """W_2, ..., W_d, (size, n_ℓ, n_{ℓ−1}) each, given T_d, ..., T_2.

    Also T (the identity without factors) and P_1.
    """
    rows = np.broadcast_to(np.eye(outputs), (size, outputs, outputs))
    weights: list[Array] = []
    for factor, width, variance in zip(factors, reversed(widths), reversed(variances), strict=True):
        inner = orthonormal_rows(size, factor.shape[2], width, rng)
        fresh = rng.standard_normal((size, rows.shape[2], width))
        weights.insert(0, _replace_rows(fresh, math.sqrt(variance / width), rows, factor @ inner))
        rows = inner
    total = product(factors)
    return weights, rows if total is None else total, rows


def orthonormal_rows(size: int, rows: int, columns: int, rng: np.random.Generator) -> Array:
    """Uniform (Haar) matrices with orthonormal rows, (size, rows, columns)."""
    q, r = np.linalg.qr(rng.standard_normal((size, columns, rows)))
    signs = np.sign(np.diagonal(r, axis1=1, axis2=2))
    return (q * signs[:, None, :]).swapaxes(1, 2)


def _replace_rows(fresh: Array, deviation: float, rows: Array, content: Array) -> Array:
    """deviation · fresh (m, a, b) with its part along orthonormal rows (m, k, a) replaced by content.

    PᵀC + (I − PᵀP) fresh, with P the rows and C the content (m, k, b).

    In place, in blocks that stay in the cache: the first layer has nearly all of the numbers.
    """
    for block in blocks(len(fresh), 3 * fresh[0].size):
        part = fresh[block]
        part *= deviation
        part += rows[block].swapaxes(1, 2) @ (content[block] - rows[block] @ part)
    return fresh


def _first_layer(
    total: Array, rows: Array, process: ConditionalProcess, basis: InputBasis, rng: np.random.Generator
) -> Array:
    """W_1 (size, n_1, n0) given T: rows in P_1 from their conjugate posterior, others from the prior."""
    size, dimension = len(total), basis.dimension
    prior_root = math.sqrt(basis.scale)
    left, roots, right = np.linalg.svd(total, full_matrices=False)
    values = roots**2
    mean = process.learned_features(values, left)  # (size, r, columns)
    spread = np.sqrt(process.shrinkage(values))
    seen = mean + spread * rng.standard_normal(mean.shape)
    fresh = rng.standard_normal((size, total.shape[2], dimension))
    flat = fresh.reshape(-1, dimension)
    there = device_of(basis.example)
    drawn = to_numpy(basis.directions.coordinates(there.put(flat)))
    change = there.put(seen.swapaxes(1, 2).reshape(len(flat), -1) - drawn)
    posterior = (flat + to_numpy(basis.directions.combine(change))).reshape(fresh.shape)
    content = prior_root * (right.swapaxes(1, 2) @ posterior)
    prior = rng.standard_normal((size, rows.shape[2], dimension))
    return _replace_rows(prior, prior_root, rows, content)
