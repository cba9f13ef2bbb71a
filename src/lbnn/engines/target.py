"""The posterior of the scale in Bartlett coordinates: standard normal prior times likelihood."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np

from lbnn._base.blocks import blocks
from lbnn._base.small_matrices import gram_eigen
from lbnn._base.threads import on_every_core
from lbnn._base.types import Array
from lbnn.likelihood.gaussian import GaussianLikelihood
from lbnn.likelihood.thin_root import ThinLikelihood, thin_likelihood
from lbnn.likelihood.zero_temperature import ScatterLikelihood
from lbnn.scale.bartlett import BartlettCoordinates, product

_SAME_AXES = 0.98  # cosine from which two axes are one


class Likelihood(Protocol):
    """A log likelihood as a function of a scale, given by eigenvalues (m, n) and eigenvectors (m, n, n)."""

    @property
    def operations(self) -> float:
        """Rough number of floating-point operations of one gradient."""
        ...

    @property
    def target_moment(self) -> Array:
        """Second moment of the targets along the directions of the scale, (n, n)."""
        ...

    def log_value(self, eigenvalues: Array, vectors: Array) -> Array: ...

    def value_and_gradient(self, eigenvalues: Array, vectors: Array) -> tuple[Array, Array]: ...


class Target(Protocol):
    """A posterior over coordinates u in which its prior is nearly standard normal."""

    @property
    def dimension(self) -> int:
        """Number of coordinates."""
        ...

    @property
    def rows(self) -> int:
        """Size of the matrices that the coordinates stand for."""
        ...

    @property
    def operations(self) -> float:
        """Rough number of floating-point operations of one gradient."""
        ...

    @property
    def coordinates(self) -> BartlettCoordinates:
        """The map from u to the factors T_d, ..., T_2."""
        ...

    @property
    def rotation(self) -> Array:
        """The frame of the coordinates u: orthonormal axes of the outputs as columns (rows, rows)."""
        ...

    @property
    def frames(self) -> list[Array]:
        """Frames in which phases are looked for, `rotation` first."""
        ...

    @property
    def any_frame(self) -> bool:
        """Whether the prior is the same in every frame, so that T may be taken in any."""
        ...

    def in_frame(self, frame: Array) -> Target:
        """The same posterior with coordinates in another frame; itself where frames are not free."""
        ...

    def scales(self, u: Array) -> Array:
        """The positive semi-definite matrices at u, (m, rows, rows)."""
        ...

    def log_likelihood(self, total: Array, frame: Array) -> Array:
        """Log of what multiplies the prior of T (m, rows, columns) taken in the given frame, (m,)."""
        ...

    def likelihood_gradient(self, total: Array, frame: Array) -> tuple[Array, Array]:
        """`log_likelihood` and its gradient in T."""
        ...

    def log_density(self, u: Array) -> Array:
        """Log density up to a constant, (m,)."""
        ...

    def value_and_gradient(self, u: Array) -> tuple[Array, Array]:
        """`log_density` and its gradient in u."""
        ...


@dataclass(frozen=True)
class ScaleTarget:
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
        rows, layers = self.rows, len(self.coordinates.shapes)
        if self._thin is not None:
            share = self._columns / rows
            return (
                5e4 + 12.0 * layers * share * rows**3 + share * (40.0 * rows**2 + self.likelihood.operations)
            )
        return 5e4 + 12.0 * layers * rows**3 + 40.0 * rows**3 + self.likelihood.operations

    def scales(self, u: Array) -> Array:
        """L(u), (m, n_d, n_d)."""
        root = self.rotation @ _product(self.coordinates.factors(u))
        return root @ root.swapaxes(1, 2)

    def factors(self, u: Array) -> list[Array]:
        """O T_d, T_{d−1}, ..., T_2, whose product is a root of L."""
        first, *others = self.coordinates.factors(u)
        return [self.rotation @ first, *others]

    @property
    def frames(self) -> list[Array]:
        """The axes of the data, and those of the plain targets: where these are small, L collapses."""
        if not self.any_frame:
            return [self.rotation]
        plain = np.linalg.eigh(self.likelihood.target_moment).eigenvectors[:, ::-1]
        overlap = np.abs(plain.T @ self.rotation).max(axis=0)
        return [self.rotation] if overlap.min() > _SAME_AXES else [self.rotation, plain]

    def in_frame(self, frame: Array) -> ScaleTarget:
        """The same posterior with coordinates in another frame."""
        return replace(self, rotation=frame) if self.any_frame else self

    def log_likelihood(self, total: Array, frame: Array) -> Array:
        """Log p(Y | L) at L = O T Tᵀ Oᵀ for any frame O, (m,)."""
        if self._scatter is not None:
            return self._scatter.log_value(total, frame)
        root = frame @ total
        if self._thin is not None:
            return self._thin.log_value(root)
        return self.likelihood.log_value(*gram_eigen(root @ root.swapaxes(1, 2)))

    def likelihood_gradient(self, total: Array, frame: Array) -> tuple[Array, Array]:
        """`log_likelihood` and its gradient in T: ∂/∂T = 2 Oᵀ (∂/∂L) O T."""
        if self._scatter is not None:
            return self._scatter.value_and_gradient(total, frame)
        root = frame @ total
        if self._thin is not None:
            value, gradient = self._thin.value_and_gradient(root)
            return value, frame.swapaxes(-1, -2) @ gradient
        value, gradient = self.likelihood.value_and_gradient(*gram_eigen(root @ root.swapaxes(1, 2)))
        return value, 2 * frame.swapaxes(-1, -2) @ gradient @ root

    @cached_property
    def _scatter(self) -> ScatterLikelihood | None:
        """The likelihood as a function of T where that needs no eigenvectors: no noise, square factors."""
        own = self.likelihood
        if (
            isinstance(own, GaussianLikelihood)
            and own.noise == 0
            and self.coordinates.square
            and not own.flat
        ):
            return ScatterLikelihood.of(own)
        return None

    @cached_property
    def _thin(self) -> ThinLikelihood | None:
        """The likelihood as a function of O T where a layer is narrower than the outputs."""
        return thin_likelihood(self.likelihood) if self._columns < self.rows else None

    @property
    def _columns(self) -> int:
        """Of T: the narrowest layer, or n_d."""
        return self.coordinates.shapes[-1].columns

    def log_density(self, u: Array) -> Array:
        """Log posterior up to a constant, (m,); −inf where factors or their inverses would overflow."""
        result = np.full(len(u), -np.inf)

        def fill(block: slice) -> None:
            fine = np.flatnonzero(self.coordinates.plausible(u[block]))
            points = u[block][fine]
            log_likelihood = self.log_likelihood(_product(self.coordinates.factors(points)), self.rotation)
            result[block][fine] = self.coordinates.log_prior(points)[0] + log_likelihood

        on_every_core(fill, blocks(len(u), self._floats_each))
        return result

    def value_and_gradient(self, u: Array) -> tuple[Array, Array]:
        """`log_density` and its gradient in u (zero where factors would overflow)."""
        value, gradient = np.full(len(u), -np.inf), np.zeros_like(u)

        def fill(block: slice) -> None:
            fine = np.flatnonzero(self.coordinates.plausible(u[block]))
            value[block][fine], gradient[block][fine] = self._differentiate(u[block][fine])

        on_every_core(fill, blocks(len(u), self._floats_each))
        return value, gradient

    def _differentiate(self, u: Array) -> tuple[Array, Array]:
        """Chain rule: the gradient in T, then through the product to the coordinates."""
        factors, slopes = self.coordinates.factors_and_slopes(u)
        value, gradient = self.likelihood_gradient(_product(factors), self.rotation)
        log_prior, prior_slope = self.coordinates.log_prior(u)
        return log_prior + value, prior_slope + self.coordinates.pull_back(factors, slopes, gradient)

    @property
    def _floats_each(self) -> int:
        columns = self._columns if self._thin is not None else self.rows
        return 4 * len(self.coordinates.shapes) * self.rows * columns


def _product(factors: list[Array]) -> Array:
    """T, the product of all factors."""
    total = product(factors)
    assert total is not None  # engines that sample have at least one hidden layer
    return total
