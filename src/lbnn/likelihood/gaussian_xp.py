"""The Gaussian likelihood of a batch of scales, on arrays of any library.

The formulas are those of `gaussian`, which computes them for NumPy in place and in blocks that fit into the
cache (written as here, NumPy was 15 to 20% slower). Other devices are faster with few large calls.
"""

from __future__ import annotations

from lbnn._base.arrays import device_of, namespace, transposed
from lbnn._base.gauss_rule import GaussRule
from lbnn._base.types import AnyArray


def log_value(rows: GaussRule, noise_variance: float, eigenvalues: AnyArray, vectors: AnyArray) -> AnyArray:
    """−½ Σ_ij [log D_ij + z_ij²/D_ij] with D_ij = τ + g_i l_j, (m,): l (m, n_d), V (m, n_d, n_d)."""
    nodes, counts, values, targets = rows.device_cache.at(device_of(vectors))
    scale = eigenvalues[:, None, :]
    return _value(counts, noise_variance + nodes * scale, targets @ vectors, noise_variance + values * scale)


def value_and_gradient(
    rows: GaussRule, noise_variance: float, eigenvalues: AnyArray, vectors: AnyArray
) -> tuple[AnyArray, AnyArray]:
    """`log_value` (m,) and its gradient in L (m, n_d, n_d): see `GaussianLikelihood.value_and_gradient`."""
    nodes, counts, values, targets = rows.device_cache.at(device_of(vectors))
    scale = eigenvalues[:, None, :]
    spread, variance = noise_variance + nodes * scale, noise_variance + values * scale
    rotated = targets @ vectors
    weighted = namespace(vectors).sqrt(values) * rotated / variance
    slopes = ((0.5 * counts) * nodes[:, 0]) @ (1 / spread)  # ½ Σ_i g_i/D_ij, (m, n_d)
    half = vectors @ (transposed(weighted) @ (0.5 * weighted)) - vectors * slopes[:, None, :]
    return _value(counts, spread, rotated, variance), half @ transposed(vectors)


def _value(counts: AnyArray, spread: AnyArray, rotated: AnyArray, variance: AnyArray) -> AnyArray:
    """−½ (Σ counts log spread + Σ z²/variance), (m,): spread (m, a, n_d), z and variance (m, q, n_d)."""
    xp = namespace(rotated)
    logs = xp.sum(counts @ xp.log(spread), axis=1)
    return -0.5 * (logs + xp.sum(rotated * rotated / variance, axis=(1, 2)))
