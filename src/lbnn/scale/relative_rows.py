"""Bartlett coordinates with the rows of T_d below its square block measured by that block.

Behind a layer of k < n_d units T_d = [C; B] with C (k, k) lower triangular and B (n_d − k, k). Data in which
k directions of the outputs are far above the noise determine the space that these span, B C⁻¹, to a relative
error of 1/√(signal to noise), and C, the covariance within it, to 1/√(2p) only. B itself has the errors of
both, as a product: in B and C the posterior is far from Gaussian. So the coordinates are those of C and

    b = B C⁻¹ C₀ / r,    that is   B = r b K,  K = C₀⁻¹ C,  r the prior deviation of an entry,

with a fixed C₀, which only sets the unit. The Jacobian of (C, b) ↦ (C, B) is |det K|^{n_d − k}. (50 outputs,
five units, 300 rows: effective share of a Gaussian at the mode 0.0006 in B and C, 0.64 in b and C.)
"""

from __future__ import annotations

import numpy as np

from lbnn._base.types import Array, Mask
from lbnn.scale.bartlett import BartlettCoordinates


class RelativeCoordinates(BartlettCoordinates):
    """The map v ↦ (T_d, ..., T_2), for batches of v (m, dimension); for NumPy arrays.

    Parameters
    ----------
    plain : BartlettCoordinates
        Whose first factor has more rows than columns.
    reference : (k, k)
        C₀, lower triangular with a positive diagonal.
    """

    def __init__(self, plain: BartlettCoordinates, reference: Array) -> None:
        """From the plain coordinates and C₀, square and lower triangular, (n, n)."""
        super().__init__(plain.shapes)
        self.plain, self.reference = plain, reference
        self.inverse = np.linalg.inv(reference)
        first = self.blocks[0]
        self.k, self.lower = first.columns, first.rows - first.columns
        start = self.k * (self.k + 1) // 2  # below come the diagonal of C and what C has below it
        self.rows_below = slice(start, start + self.lower * self.k)  # of v: b, row by row

    @classmethod
    def at(cls, plain: BartlettCoordinates, u: Array) -> RelativeCoordinates:
        """With the unit C₀ of a point u (dimension,)."""
        k = plain.shapes[0].columns
        return cls(plain, plain.factors(u[None])[0][0, :k])

    def to_plain(self, v: Array) -> Array:
        """u of points v, (m, dimension) each."""
        u = v.copy()
        u[:, self.rows_below] = (self._below(v) @ self._ratio(self._square(v))).reshape(len(v), -1)
        return u

    def of_plain(self, u: Array) -> Array:
        """v of points u, (m, dimension) each."""
        v, ratio = u.copy(), self._ratio(self._square(u))
        below = np.linalg.solve(ratio.swapaxes(1, 2), self._below(u).swapaxes(1, 2)).swapaxes(1, 2)
        v[:, self.rows_below] = below.reshape(len(u), -1)
        return v

    def factors_and_slopes(self, v: Array) -> tuple[list[Array], list[Array]]:
        """The factors, and the derivatives of the logs of their diagonals in v, each (m, columns)."""
        return self.plain.factors_and_slopes(self.to_plain(v))

    def locate(self, factors: list[Array]) -> Array:
        """v of given factors with positive diagonals, (m, dimension): the inverse of `factors`."""
        return self.of_plain(self.plain.locate(factors))

    def plausible(self, v: Array) -> Mask:
        """Where neither factors nor their inverses overflow, (m,)."""
        fine = self.plain.plausible(v)  # of C, before rows are multiplied by it
        fine[fine] = self.plain.plausible(self.to_plain(v[fine]))
        return fine

    def log_prior(self, v: Array) -> tuple[Array, Array]:
        """Log prior density of v up to a constant (m,), and its gradient (m, dimension)."""
        u = self.to_plain(v)
        factors, slopes = self.plain.factors_and_slopes(u)
        value, gradient = self.plain.log_prior(u)
        diagonal = np.diagonal(factors[0][:, : self.k], axis1=1, axis2=2)
        jacobian = self.lower * np.log(diagonal / np.diagonal(self.reference)).sum(axis=1)
        gradient = self._chained(factors[0], slopes[0], gradient)
        gradient[:, : self.k] += self.lower * slopes[0]
        return value + jacobian, gradient

    def pull_back(self, factors: list[Array], slopes: list[Array], gradient: Array) -> Array:
        """Gradient in v (m, dimension) from the gradient in T (m, n_d, columns of T_2)."""
        return self._chained(factors[0], slopes[0], self.plain.pull_back(factors, slopes, gradient))

    def _chained(self, factor: Array, slope: Array, gradient: Array) -> Array:
        """Gradient in v from that in u, both (m, dimension), at T_d (m, n_d, k): through b K and C."""
        root, square = self.blocks[0].root, factor[:, : self.k]
        ratio = self._ratio(square)
        below = np.linalg.solve(ratio.swapaxes(1, 2), factor[:, self.k :].swapaxes(1, 2) / root)  # bᵀ
        change = self._below(gradient)
        result = gradient.copy()
        result[:, self.rows_below] = (change @ ratio.swapaxes(1, 2)).reshape(len(gradient), -1)
        by_square = self.inverse.T @ (below @ change)  # ∂/∂C through K = C₀⁻¹ C
        diagonal = np.arange(self.k)
        result[:, : self.k] += by_square[:, diagonal, diagonal] * square[:, diagonal, diagonal] * slope
        inside = np.tril_indices(self.k, -1)
        result[:, self.k : self.rows_below.start] += root * by_square[:, *inside]
        return result

    def _below(self, points: Array) -> Array:
        """What points (m, dimension) have for the rows below the square block, (m, n_d − k, k)."""
        return points[:, self.rows_below].reshape(len(points), self.lower, self.k)

    def _square(self, points: Array) -> Array:
        """C (m, k, k), which u and v have in common."""
        first = self.blocks[0]
        return first.factor_and_slope(points[:, : first.size])[0][:, : self.k]

    def _ratio(self, square: Array) -> Array:
        """K = C₀⁻¹ C, (m, k, k)."""
        return np.asarray(self.inverse @ square, float)
