"""What a one-output network needs of data sets in bidiagonal form, at a few values of log λ.

All of it comes from tridiagonal matrices: τ + λG, G = B Bᵀ/n0, for the likelihood and the mean, and the inverse
covariance n0/λ + BᵀB/τ of the linear map for variances (without the cancellation of prior variance less what
the data explain). Systems of all draws and all λ are strung together to one long tridiagonal system, whose
blocks do not touch, so that LAPACK's LDLᵀ (`pttrf`) needs one call and O(r) operations for each.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.polynomial import chebyshev
from scipy.linalg import lapack

from lbnn._base.row_curves import nodes_for
from lbnn._base.types import Array
from lbnn.learning_curves.gaussian_data import BidiagonalData

_PANEL = 3.0  # widest range of log λ on one polynomial, as in `row_curves`


@dataclass(frozen=True)
class Panels:
    """Chebyshev points x (k,) in panels of a range of log λ, and what each weighs at other points.

    All functions here are analytic in log λ up to ± iπ, the singularities of 1/(τ + λg).
    """

    nodes: Array
    low: float
    high: float
    count: int  # of panels
    each: int  # nodes of a panel

    @classmethod
    def over(cls, low: float, high: float) -> Panels:
        """For a range of log λ; a single point where the range is one."""
        if high <= low:
            return cls(np.array([low]), low, low, 1, 1)
        count = math.ceil((high - low) / _PANEL)
        half = (high - low) / count / 2
        each = max(4, nodes_for(half))
        centres = low + half * (2 * np.arange(count) + 1)
        return cls((centres[:, None] + half * chebyshev.chebpts1(each)).ravel(), low, high, count, each)

    def weights(self, x: Array) -> Array:
        """Values at x (n,) are these weights (n, k) times values at the nodes."""
        if self.high <= self.low:
            return np.ones((len(x), 1))
        half = (self.high - self.low) / self.count / 2
        panel = np.clip(((x - self.low) / (2 * half)).astype(int), 0, self.count - 1)
        place = (x - self.low) / half - (2 * panel + 1)
        degree = self.each - 1
        transform = np.linalg.inv(chebyshev.chebvander(chebyshev.chebpts1(self.each), degree))
        result = np.zeros((len(x), self.count, self.each))
        result[np.arange(len(x)), panel] = chebyshev.chebvander(place, degree) @ transform
        return result.reshape(len(x), -1)


class Tridiagonal:
    """Positive definite tridiagonal matrices (m, k, r): their LDLᵀ, all in one."""

    def __init__(self, diagonal: Array, beside: Array) -> None:
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
    """Pivots and multipliers; `beside` may have one entry too many."""
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


def likelihood_table(data: BidiagonalData, nodes: Array, temperature: float) -> LikelihoodTable:
    """At nodes of log λ (k,)."""
    diagonal, beside = data.gram()
    scale = np.exp(nodes)[:, None]
    matrices = Tridiagonal(temperature + scale * diagonal[:, None], scale * beside[:, None])
    solutions = matrices.solve(data.targets)
    square = np.einsum("mr,mkr->mk", data.targets, solutions)
    return LikelihoodTable(matrices.log_determinant(), square, solutions)


def covariances(data: BidiagonalData, nodes: Array, temperature: float) -> Tridiagonal:
    """n0/λ + BᵀB/τ at nodes of log λ: inverse covariance of the linear map where the data see it."""
    diagonal, beside = data.moments()
    prior = (data.inputs * np.exp(-nodes))[:, None]
    every = np.broadcast_to(
        (beside / temperature)[:, None], (len(beside), len(nodes), beside.shape[1])
    )
    return Tridiagonal(prior + diagonal[:, None] / temperature, np.ascontiguousarray(every))
