"""The matrix generalised inverse Gaussian in Bartlett coordinates.

In canonical form the density is ∝ det(X)^{ν − (N+1)/2} etr(−½ Δ X⁻¹ − ½ X) with Δ diagonal and ν ≥ 0. With
X = T Tᵀ the factor etr(−½X) makes the entries of T below the diagonal standard normal and, with the power of
the determinant and the Jacobian, T_ii a χ variable of 2ν − i + 1 degrees of freedom (at least one is taken,
and the difference kept as a power). What is left is bounded:

    f(T) = −½ tr Δ T⁻ᵀ T⁻¹ + Σ_i (2ν − i + 1 − d_i) log T_ii.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lbnn._base.blocks import blocks
from lbnn._base.types import Array
from lbnn.scale.bartlett import BartlettCoordinates, FactorShape


@dataclass(frozen=True)
class CanonicalTarget:
    """MGIG(diag(delta), I, nu) in coordinates u; delta ascending, so that weak directions come first."""

    delta: Array  # (N,)
    nu: float

    @property
    def rows(self) -> int:
        """N."""
        return len(self.delta)

    @cached_property
    def degrees(self) -> Array:
        """d_i, degrees of freedom of the χ variables on the diagonal."""
        exact = 2 * self.nu - np.arange(self.rows)
        return np.where(self.delta > 0, np.maximum(exact, 1.0), exact)

    @cached_property
    def powers(self) -> Array:
        """What the degrees of freedom leave of the power of T_ii."""
        return 2 * self.nu - np.arange(self.rows) - self.degrees

    @cached_property
    def coordinates(self) -> BartlettCoordinates:
        """u ↦ T."""
        shape = FactorShape(self.rows, self.rows, 1, 1.0, tuple(float(d) for d in self.degrees))
        return BartlettCoordinates((shape,))

    @cached_property
    def log_base(self) -> float:
        """log ∫ of the kernel for f = 0: 2^N Π 2^{d_i/2 − 1} Γ(d_i/2) · (2π)^{N(N−1)/4}."""
        diagonal = sum((d / 2 - 1) * math.log(2) + math.lgamma(d / 2) for d in self.degrees)
        return self.rows * math.log(2) + diagonal + self.rows * (self.rows - 1) / 4 * math.log(2 * math.pi)

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
        factor = self.coordinates.factors(u)[0]
        return factor @ factor.swapaxes(1, 2)

    def log_density(self, u: Array) -> Array:
        """Log density of u, (m,); −inf beyond any plausible u."""
        result = np.full(len(u), -np.inf)
        for block in blocks(len(u), 4 * self.rows**2):
            fine = np.flatnonzero(self.coordinates.plausible(u[block]))
            points = u[block][fine]
            log_factor, _ = self._log_factor(self.coordinates.factors(points)[0])
            result[block][fine] = self.coordinates.log_prior(points)[0] + log_factor
        return result

    def value_and_gradient(self, u: Array) -> tuple[Array, Array]:
        """`log_density` and its gradient in u (zero beyond any plausible u)."""
        value, gradient = np.full(len(u), -np.inf), np.zeros_like(u)
        for block in blocks(len(u), 4 * self.rows**2):
            fine = np.flatnonzero(self.coordinates.plausible(u[block]))
            value[block][fine], gradient[block][fine] = self._differentiate(u[block][fine])
        return value, gradient

    def _differentiate(self, u: Array) -> tuple[Array, Array]:
        """∂f/∂T = T⁻ᵀ T⁻¹ Δ T⁻ᵀ and the powers on the diagonal, then through the coordinates."""
        factors, slopes = self.coordinates.factors_and_slopes(u)
        log_prior, pull = self.coordinates.log_prior(u)
        log_factor, inverse = self._log_factor(factors[0])
        slope = inverse.swapaxes(1, 2) @ inverse @ (self.delta[:, None] * inverse.swapaxes(1, 2))
        index = np.arange(self.rows)
        slope[:, index, index] += self.powers * inverse[:, index, index]
        return log_prior + log_factor, pull + self.coordinates.pull_back(factors, slopes, slope)

    def _log_factor(self, factor: Array) -> tuple[Array, Array]:
        """f(T) (m,), and T⁻¹ (m, N, N)."""
        inverse = np.asarray(np.linalg.inv(factor), float)
        square = ((inverse**2) * self.delta).sum(axis=(1, 2))
        logs = np.log(np.diagonal(factor, axis1=1, axis2=2))
        return -0.5 * square + logs @ self.powers, inverse
