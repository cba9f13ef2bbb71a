"""Noise-free and coupled likelihoods from a triangular root of the scale, without eigenvectors.

At τ = 0 the data enter through the scatter S = Σ_i ỹ_i ỹ_iᵀ/g_i = RᵀR alone. With L = O T TᵀOᵀ, T triangular,

    log p(Y | L) = −k Σ_i log T_ii − ½ ‖T⁻¹ OᵀRᵀ‖² + constant,   k rows (times their multiplicity),

so that log det L is read off the diagonal and the rest is one forward substitution, which keeps its digits
however small a direction of L is.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lbnn._base.types import Array
from lbnn.likelihood.gaussian import GaussianLikelihood


@dataclass(frozen=True)
class ScatterLikelihood:
    """log p(Y | L) less `GaussianLikelihood.log_constant`, for scales given by T (m, n, n) in frames O."""

    root: Array  # R, (≤ n_d, n_d)
    rows: float  # k
    constant: float

    @classmethod
    def of(cls, likelihood: GaussianLikelihood) -> ScatterLikelihood:
        """Of a likelihood without noise."""
        scaled = likelihood.targets / np.sqrt(likelihood.eigenvalues)[:, None]
        logs = likelihood.multiplicity * float(np.log(likelihood.eigenvalues).sum())
        rows = likelihood.multiplicity * len(likelihood.eigenvalues)
        return cls(
            np.asarray(np.linalg.qr(scaled, mode="r"), float), rows, -0.5 * likelihood.targets.shape[1] * logs
        )

    def log_value(self, total: Array, frame: Array) -> Array:
        """At T in one frame for all (n, n), or one for each (m, n, n), (m,)."""
        return self._solved(total, frame)[0]

    def value_and_gradient(self, total: Array, frame: Array) -> tuple[Array, Array]:
        """The value (m,) and its gradient in T (m, n_d, n_d), T⁻ᵀ (W Wᵀ − k I) with W = T⁻¹ OᵀRᵀ."""
        value, white = self._solved(total, frame)
        inner = white @ white.swapaxes(1, 2)
        index = np.arange(total.shape[1])
        inner[:, index, index] -= self.rows
        return value, _solve_transposed(total, inner)

    def _solved(self, total: Array, frame: Array) -> tuple[Array, Array]:
        """The value, and W (m, n, ·)."""
        seen = frame.swapaxes(-1, -2) @ self.root.T
        white = _solve(total, np.broadcast_to(seen, (len(total), *seen.shape[-2:])))
        logs = np.log(np.diagonal(total, axis1=1, axis2=2)).sum(axis=1)
        return self.constant - self.rows * logs - 0.5 * (white**2).sum(axis=(1, 2)), white


def _solve(lower: Array, right: Array) -> Array:
    """Forward substitution for a batch: lower (m, n, n), right (m, n, k)."""
    result = np.empty(right.shape)
    for i in range(lower.shape[1]):
        known = (lower[:, i, None, :i] @ result[:, :i])[:, 0]
        result[:, i] = (right[:, i] - known) / lower[:, i, i, None]
    return result


def _solve_transposed(lower: Array, right: Array) -> Array:
    """Backward substitution with the transposed matrices: lower (m, n, n), right (m, n, k)."""
    result = np.empty(right.shape)
    for i in range(lower.shape[1] - 1, -1, -1):
        known = (lower[:, None, i + 1 :, i] @ result[:, i + 1 :])[:, 0]
        result[:, i] = (right[:, i] - known) / lower[:, i, i, None]
    return result
