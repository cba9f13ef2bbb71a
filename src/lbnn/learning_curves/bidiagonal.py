"""What a one-output network needs of data sets in bidiagonal form, at a few values of log λ.

All of it comes from tridiagonal matrices: τ + λG, G = B Bᵀ/n0, for the likelihood and the mean, and for
variances the inverse covariance n0/λ + BᵀB/τ of the linear map (prior variance less what the data explain
would cancel). The systems of all draws and all λ make one long tridiagonal system, whose blocks do not touch,
so that LAPACK's LDLᵀ (`pttrf`) needs one call and O(r) operations for each.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import lapack

from lbnn._base.types import Array
from lbnn.learning_curves.gaussian_data import BidiagonalData


class Tridiagonal:
    """Positive definite tridiagonal matrices (m, k, r): their LDLᵀ, all in one."""

    def __init__(self, diagonal: Array, beside: Array) -> None:
        """Matrices with this diagonal (..., n) and entries beside it (..., n), the last of them zero."""
        self.shape = diagonal.shape
        self._diagonal, self._beside = diagonal, beside  # beside[..., -1] is zero
        self.pivots, self._factor = _factorised(diagonal.ravel(), beside.ravel())

    def log_determinant(self) -> Array:
        """(m, k)."""
        return np.log(self.pivots).reshape(self.shape).sum(axis=-1)

    def solve(self, right: Array) -> Array:
        """Solutions for right-hand sides (m, r), the same for all k, or (m, k, r): (m, k, r)."""
        every = right if right.ndim == 3 else np.broadcast_to(right[:, None], self.shape)
        flat = np.array(every, order="C").reshape(-1, 1)
        solution, info = lapack.dpttrs(self.pivots, self._factor, flat, overwrite_b=True)
        assert not info
        return solution.reshape(self.shape)

    def inverse_trace(self) -> Array:
        """Σ_i (T⁻¹)_ii = Σ_i 1/(d⁺_i + d⁻_i − t_i), pivots from the top and from the bottom, (m, k)."""
        backwards, _ = _factorised(self._diagonal.ravel()[::-1], self._beside.ravel()[-2::-1])
        inverse = 1 / (self.pivots + backwards[::-1] - self._diagonal.ravel())
        return inverse.reshape(self.shape).sum(axis=-1)


def _factorised(diagonal: Array, beside: Array) -> tuple[Array, Array]:
    """Pivots (n,) and multipliers (n − 1,) of a matrix with diagonal (n,).

    `beside` may have one entry too many.
    """
    pivots, factor, info = lapack.dpttrf(diagonal, beside[: len(diagonal) - 1])
    if info:
        raise ArithmeticError(
            "τ + λG must be positive definite in double precision, got a pivot that is not: raise 1/beta"
        )
    return pivots, factor


@dataclass(frozen=True)
class LikelihoodTable:
    """A(λ) and B(λ) of every draw at nodes of log λ, and the solutions (τ + λG)⁻¹y behind them."""

    log_determinant: Array  # log det(τ + λG) on the range of G, (m, k)
    square: Array  # yᵀ(τ + λG)⁻¹y on it, (m, k)
    solutions: Array  # (m, k, r)
    matrices: Tridiagonal  # τ + λG


def likelihood_table(data: BidiagonalData, nodes: Array, temperature: float) -> LikelihoodTable:
    """At nodes of log λ (k,)."""
    diagonal, beside = data.gram()
    scale = np.exp(nodes)[:, None]
    matrices = Tridiagonal(temperature + scale * diagonal[:, None], scale * beside[:, None])
    solutions = matrices.solve(data.targets)
    square = np.einsum("mr,mkr->mk", data.targets, solutions)
    return LikelihoodTable(matrices.log_determinant(), square, solutions, matrices)
