"""What noisy values of a linear function leave of its variance, without cancellation.

A Gaussian process given a scale is z·w with standard normal w and features z. Given values at rows Z with
noise of the variance τ its covariance at test features ẑ is the prior's ẑẑᵀ less what is explained,
ẑZᵀ(ZZᵀ + τ)⁻¹Zẑᵀ. The difference is known to rounding of the prior's: where far less is left, at small noise,
it has no digits. With Z = U S Vᵀ it is a sum of positive terms,

    ẑ(I − VVᵀ)ẑᵀ + ẑV τ/(S² + τ) Vᵀẑᵀ.
"""

from __future__ import annotations

import numpy as np

from lbnn._base.types import Array, Mask

#: Of the prior variance, below which a difference from it has lost nine of its digits, or twelve.
_CANCELLED, _LOST = 1e-9, 1e-12


def cancelled(left: Array, prior: Array) -> Mask:
    """Where a difference from the prior variance, both (m, ...), should be computed in another way."""
    return np.asarray(left < _CANCELLED * prior)


def lost(left: Array, prior: Array) -> Mask:
    """Where it, (m, ...), should not be trusted."""
    return np.asarray(left < _LOST * prior)


def left_over(rows: Array, test: Array, noise: float) -> Array:
    """Covariance (p̂, p̂) at test features (p̂, D) given values at rows (q, D) with noise of this variance."""
    _, sizes, axes = np.linalg.svd(rows, full_matrices=False)
    axes = axes[sizes > np.finfo(float).eps * sizes.max(initial=0.0)]
    sizes = sizes[: len(axes)]
    seen = test @ axes.T
    rest = test - seen @ axes
    rest -= (rest @ axes.T) @ axes  # once more: what rounding left of the first time
    shrunk = seen * np.sqrt(noise / (sizes**2 + noise))
    return np.asarray(rest @ rest.T + shrunk @ shrunk.T)


def root_of(scale: Array) -> Array:
    """A root (M, M) of a scale (M, M)."""
    values, vectors = np.linalg.eigh(scale)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))
