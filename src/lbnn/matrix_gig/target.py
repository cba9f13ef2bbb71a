"""The matrix generalised inverse Gaussian in Bartlett coordinates.

In canonical form the density is ∝ det(X)^{ν − (N+1)/2} etr(−½ Δ X⁻¹ − ½ X) with Δ diagonal and ν ≥ 0. With
X = T Tᵀ the factor etr(−½X) makes the entries of T below the diagonal standard normal and, with the power of
the determinant and the Jacobian, T_ii a χ variable of 2ν − i + 1 degrees of freedom (at least one is taken,
and the difference kept as a power). What is left is bounded:

    f(T) = −½ tr Δ T⁻ᵀ T⁻¹ + Σ_i (2ν − i + 1 − d_i) log T_ii.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from lbnn._base.blocks import blocks
from lbnn._base.small_matrices import solve_lower
from lbnn._base.types import Array
from lbnn.scale.bartlett import BartlettCoordinates, FactorShape


@dataclass(frozen=True)
class CanonicalTarget:
    """MGIG(diag(delta), I, nu) in coordinates u of T, X = O T Tᵀ Oᵀ; delta ascending."""

    delta: Array  # (N,)
    nu: float
    turn: Array | None = None  # O, (N, N); None for the identity

    @property
    def rows(self) -> int:
        """N."""
        return len(self.delta)

    @cached_property
    def degrees(self) -> Array:
        """d_i (N,), degrees of freedom of the χ variables on the diagonal."""
        exact = 2 * self.nu - np.arange(self.rows)
        return np.where(self.delta > 0, np.maximum(exact, 1.0), exact)

    @cached_property
    def powers(self) -> Array:
        """2ν − i + 1 − d_i (N,): the power of T_ii that the χ density of d_i degrees does not take up."""
        return 2 * self.nu - np.arange(self.rows) - self.degrees

    @cached_property
    def coordinates(self) -> BartlettCoordinates:
        """The map from u to the triangular factor T."""
        shape = FactorShape(self.rows, self.rows, 1, 1.0, tuple(float(d) for d in self.degrees))
        return BartlettCoordinates((shape,))

    @cached_property
    def log_base(self) -> float:
        """log ∫ of the kernel for f = 0: 2^N Π 2^{d_i/2 − 1} Γ(d_i/2) · (2π)^{N(N−1)/4}."""
        diagonal = sum((d / 2 - 1) * math.log(2) + math.lgamma(d / 2) for d in self.degrees)
        return self.rows * math.log(2) + diagonal + self.rows * (self.rows - 1) / 4 * math.log(2 * math.pi)

    @property
    def rotation(self) -> Array:
        """O, (N, N)."""
        return np.eye(self.rows) if self.turn is None else self.turn

    @property
    def frames(self) -> list[Array]:
        """The axes of Δ, (N, N)."""
        return [self.rotation]

    @property
    def any_frame(self) -> bool:
        """Whether T may be taken in any frame: no degree of freedom depends on the place of a zero δ."""
        return bool((self.delta > 0).all() or 2 * self.nu >= self.rows)

    def in_frame(self, frame: Array) -> CanonicalTarget:
        """The same law with coordinates in another frame (N, N)."""
        return replace(self, turn=frame) if self.any_frame else self

    @property
    def dimension(self) -> int:
        """N(N + 1)/2."""
        return self.coordinates.dimension

    @property
    def operations(self) -> float:
        """Rough number of floating-point operations of one gradient."""
        return 5e4 + 20.0 * self.rows**3

    def scales(self, u: Array) -> Array:
        """X, (m, N, N)."""
        root = self.rotation @ self.coordinates.factors(u)[0]
        return root @ root.swapaxes(1, 2)

    def log_likelihood(self, total: Array, frame: Array) -> Array:
        """f(T) in a frame, (m,)."""
        return self._log_factor(total, frame)[0]

    def likelihood_gradient(self, total: Array, frame: Array) -> tuple[Array, Array]:
        """f(T) (m,) in a frame and its gradient (m, N, N).

        T⁻ᵀ T⁻¹ (OᵀΔO) T⁻ᵀ, and the powers on the diagonal.
        """
        log_factor, inverse, spread = self._log_factor(total, frame)
        slope = inverse.swapaxes(1, 2) @ (inverse @ spread)
        index = np.arange(self.rows)
        slope[:, index, index] += self.powers * inverse[:, index, index]
        return log_factor, np.tril(slope)

    def log_density(self, u: Array) -> Array:
        """Log density of u, (m,); −inf where T or its inverse would overflow."""
        result = np.full(len(u), -np.inf)
        for block in blocks(len(u), 4 * self.rows**2):
            fine = np.flatnonzero(self.coordinates.plausible(u[block]))
            points = u[block][fine]
            log_factor = self.log_likelihood(self.coordinates.factors(points)[0], self.rotation)
            result[block][fine] = self.coordinates.log_prior(points)[0] + log_factor
        return result

    def value_and_gradient(self, u: Array) -> tuple[Array, Array]:
        """`log_density` (m,) and its gradient in u (m, k) (zero where T would overflow)."""
        value, gradient = np.full(len(u), -np.inf), np.zeros_like(u)
        for block in blocks(len(u), 4 * self.rows**2):
            fine = np.flatnonzero(self.coordinates.plausible(u[block]))
            value[block][fine], gradient[block][fine] = self._differentiate(u[block][fine])
        return value, gradient

    def _differentiate(self, u: Array) -> tuple[Array, Array]:
        """The same for u (m, k) where nothing overflows: the gradient in T, through the coordinates."""
        factors, slopes = self.coordinates.factors_and_slopes(u)
        log_prior, prior_slope = self.coordinates.log_prior(u)
        log_factor, slope = self.likelihood_gradient(factors[0], self.rotation)
        return log_prior + log_factor, prior_slope + self.coordinates.pull_back(factors, slopes, slope)

    def _log_factor(self, total: Array, frame: Array) -> tuple[Array, Array, Array]:
        """f(T) (m,), T⁻¹ (m, N, N), and OᵀΔO T⁻ᵀ (m, N, N)."""
        # Column by column: LAPACK exchanges rows, and finds T singular where its rows differ by far in size.
        inverse = solve_lower(total, np.broadcast_to(np.eye(self.rows), total.shape))
        spread = (frame.swapaxes(-1, -2) * self.delta) @ frame @ inverse.swapaxes(1, 2)
        square = (inverse * spread.swapaxes(1, 2)).sum(axis=(1, 2))
        logs = np.log(np.diagonal(total, axis1=1, axis2=2))
        return -0.5 * square + logs @ self.powers, inverse, spread
