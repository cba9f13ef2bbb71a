"""The posterior of the scale in Bartlett coordinates: standard normal prior times likelihood."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np

from lbnn._base.blocks import blocks
from lbnn._base.small_matrices import one_sign
from lbnn._base.threads import on_every_core
from lbnn._base.types import Array
from lbnn.likelihood.gaussian import GaussianLikelihood
from lbnn.likelihood.missing import PartialLikelihood
from lbnn.likelihood.root import RootLikelihood
from lbnn.likelihood.views import ViewLikelihood
from lbnn.scale.bartlett import BartlettCoordinates, product
from lbnn.scale.total_factor import rotate_factors

_SAME_AXES = 0.98  # cosine from which two axes are one


class Likelihood(Protocol):
    """A log likelihood as a function of a scale."""

    @property
    def operations(self) -> float:
        """Rough number of floating-point operations of one gradient."""
        ...

    @property
    def target_moment(self) -> Array:
        """Second moment of the targets along the directions of the scale, (n, n)."""
        ...

    def in_frame(self, frame: Array) -> RootLikelihood:
        """log p(Y | L), less a constant, as a function of T, L = O T Tᵀ Oᵀ: O (n, n) or (m, n, n)."""
        ...


#: Likelihoods of data as functions of the scale L; those of the hidden kernel are others.
ScaleLikelihood = GaussianLikelihood | ViewLikelihood | PartialLikelihood


@dataclass(frozen=True)
class Target:
    """log posterior(u) = log prior(u) + log p(Y | L(u)), up to a constant, with L(u) = O T Tᵀ Oᵀ.

    The prior does not change under rotations O of the outputs. In the axes of the data L is close to diagonal
    and its factors are nearly independent; in others, weak directions make them tightly bound to each other.
    """

    coordinates: BartlettCoordinates
    likelihood: Likelihood
    rotation: Array  # O, (n_d, n_d)
    any_frame: bool = True

    @property
    def dimension(self) -> int:
        """Number of coordinates."""
        return self.coordinates.dimension

    @property
    def rows(self) -> int:
        """n_d."""
        return self.coordinates.shapes[0].rows

    @property
    def operations(self) -> float:
        """Rough number of floating-point operations of one gradient."""
        rows, columns, own = self.rows, self.columns, self.likelihood.operations
        if not isinstance(self.likelihood, ViewLikelihood | PartialLikelihood):
            own *= columns / rows
        products = 12.0 * len(self.coordinates.shapes) * rows**2 * columns
        return 5e4 + products + 40.0 * rows * columns**2 + own

    def scales(self, u: Array) -> Array:
        """L(u), (m, n_d, n_d)."""
        root = self.roots(u)
        return root @ root.swapaxes(1, 2)

    def held(self, u: Array) -> Array:
        """What a measure holds of L(u): itself, or its root where that has fewer columns than rows."""
        return self.roots(u) if self.columns < self.rows else self.scales(u)

    def roots(self, u: Array) -> Array:
        """O T, (m, n_d, columns), whose Gram matrix is L(u)."""
        total = _product(self.coordinates.factors(u))
        turned = self.rotation @ total.transpose(1, 0, 2).reshape(self.rows, -1)  # one product for all draws
        return turned.reshape(self.rows, len(total), -1).transpose(1, 0, 2)

    def factors(self, u: Array) -> list[Array]:
        """O T_d, T_{d−1}, ..., T_2, (m, rows, columns) each, whose product is a root of L."""
        first, *others = self.coordinates.factors(u)
        return [self.rotation @ first, *others]

    @property
    def frames(self) -> list[Array]:
        """Axes (n, n) of the data, and those of the plain targets: where these are small, L collapses."""
        if not self.any_frame:
            return [self.rotation]
        plain = one_sign(np.linalg.eigh(self.likelihood.target_moment).eigenvectors[:, ::-1])
        overlap = np.abs(plain.T @ self.rotation).max(axis=0)
        return [self.rotation] if overlap.min() > _SAME_AXES else [self.rotation, plain]

    def in_frame(self, frame: Array) -> Target:
        """The same posterior with coordinates in another frame (n, n)."""
        return replace(self, rotation=frame) if self.any_frame else self

    def log_likelihood(self, total: Array, frame: Array) -> Array:
        """Log p(Y | L) at L = O T Tᵀ Oᵀ, T (m, n, columns), for any frame O, (m,)."""
        return self._in(frame).log_value(total)

    def likelihood_gradient(self, total: Array, frame: Array) -> tuple[Array, Array]:
        """`log_likelihood` (m,) and its gradient in T (m, n, columns)."""
        return self._in(frame).value_and_gradient(total)

    def integrand(self, u: Array) -> Array:
        """The log likelihood at u (m,)."""
        return self.log_likelihood(_product(self.coordinates.factors(u)), self.rotation)

    def log_density(self, u: Array) -> Array:
        """Log posterior up to a constant, (m,); −inf where factors or their inverses would overflow."""
        result = np.full(len(u), -np.inf)

        def fill(block: slice) -> None:
            fine = np.flatnonzero(self.coordinates.plausible(u[block]))
            points = u[block][fine]
            result[block][fine] = self.coordinates.log_prior(points)[0] + self.integrand(points)

        on_every_core(fill, blocks(len(u), self._floats_each))
        return result

    def value_and_gradient(self, u: Array) -> tuple[Array, Array]:
        """`log_density` (m,) and its gradient in u (m, k) (zero where factors would overflow)."""
        value, gradient = np.full(len(u), -np.inf), np.zeros_like(u)

        def fill(block: slice) -> None:
            fine = np.flatnonzero(self.coordinates.plausible(u[block]))
            points = u[block][fine]
            factors, slopes = self.coordinates.factors_and_slopes(points)
            log_prior, prior_slope = self.coordinates.log_prior(points)
            log_likelihood, local = self._own.value_and_gradient(_product(factors))
            value[block][fine] = log_prior + log_likelihood
            gradient[block][fine] = prior_slope + self.coordinates.pull_back(factors, slopes, local)

        on_every_core(fill, blocks(len(u), self._floats_each))
        return value, gradient

    def _in(self, frame: Array) -> RootLikelihood:
        """The likelihood as a function of T in a frame (n, n), or one for each draw (m, n, n)."""
        return self._own if frame is self.rotation else self.likelihood.in_frame(frame)

    @cached_property
    def _own(self) -> RootLikelihood:
        """The likelihood as a function of T in the own frame."""
        return self.likelihood.in_frame(self.rotation)

    @property
    def columns(self) -> int:
        """Of T: the narrowest layer, or n_d."""
        return self.coordinates.shapes[-1].columns

    @property
    def _floats_each(self) -> int:
        return 4 * len(self.coordinates.shapes) * self.rows * self.columns


def _product(factors: list[Array]) -> Array:
    """T (m, n, columns), the product of all factors."""
    total = product(factors)
    assert total is not None  # engines that sample have at least one hidden layer
    return total


def log_diagonal(target: Target, points: Array, axes: Array) -> Array:
    """Logs of the diagonal of L along the given axes of the outputs (columns), (m, n), at u (m, D)."""
    total = _product(target.coordinates.factors(points))
    seen = total if axes is target.rotation else (axes.T @ target.rotation) @ total
    with np.errstate(divide="ignore"):
        return np.log((seen**2).sum(axis=2))


def turned_points(points: Array, target: Target, other: Target) -> Array:
    """The same factors, points (m, k), in the coordinates of another frame."""
    if other is target:
        return points
    factors = rotate_factors(target.coordinates.factors(points), other.rotation.T @ target.rotation)
    return other.coordinates.locate(factors)
