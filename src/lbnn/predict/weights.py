"""Exact posterior draws of all weights.

Given the Bartlett factors, everything else is prior or conjugate. With P_d = I and for ℓ = d, ..., 2,

    P_ℓ W_ℓ = T_ℓ Q_ℓ,   Q_ℓ with orthonormal rows, uniformly distributed and independent of T_ℓ,

rows of W_ℓ outside the span of P_ℓ keep their prior, and P_{ℓ−1} = Q_ℓ. At the bottom P_1 W_1 sees the data
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
from lbnn.predict.conditional import ConditionalProcess
from lbnn.scale.bartlett import product


def sample_weights(
    size: int,
    factors: list[Array],
    widths: tuple[int, ...],
    variances: tuple[float, ...],
    process: ConditionalProcess,
    basis: InputBasis,
    rng: np.random.Generator,
) -> list[Array]:
    """W_1, ..., W_d given `size` draws of T_d, ..., T_2 (no factors at depth one, where T = I).

    `widths` are n_1..n_{d−1}, `variances` σ_2²..σ_d²; the first layer's variance is in the basis.
    """
    rows = np.broadcast_to(np.eye(process.outputs), (size, process.outputs, process.outputs))
    weights = []
    for factor, width, variance in zip(factors, reversed(widths), reversed(variances), strict=True):
        inner = orthonormal_rows(size, factor.shape[2], width, rng)
        fresh = rng.standard_normal((size, rows.shape[2], width))
        weights.append(_replace_rows(fresh, math.sqrt(variance / width), rows, factor @ inner))
        rows = inner
    total = product(factors)
    weights.append(_first_layer(rows if total is None else total, rows, process, basis, rng))
    return weights[::-1]


def orthonormal_rows(size: int, rows: int, columns: int, rng: np.random.Generator) -> Array:
    """Uniform (Haar) matrices with orthonormal rows, (size, rows, columns)."""
    q, r = np.linalg.qr(rng.standard_normal((size, columns, rows)))
    signs = np.sign(np.diagonal(r, axis1=1, axis2=2))
    return (q * signs[:, None, :]).swapaxes(1, 2)


def _replace_rows(fresh: Array, deviation: float, rows: Array, content: Array) -> Array:
    """deviation · `fresh`, its part in the span of the orthonormal `rows` replaced: PᵀC + (I − PᵀP) fresh.

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
