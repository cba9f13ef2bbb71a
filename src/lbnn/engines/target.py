"""The posterior of the scale in Bartlett coordinates: standard normal prior times likelihood."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np

from lbnn._base.arrays import (
    HOST,
    Device,
    DeviceCache,
    device_of,
    namespace,
    on_batches,
    to_numpy,
    transposed,
)
from lbnn._base.blocks import blocks
from lbnn._base.small_matrices import gram_eigen, one_sign
from lbnn._base.threads import on_every_core
from lbnn._base.types import AnyArray, Array
from lbnn.likelihood.gaussian import GaussianLikelihood
from lbnn.likelihood.missing import PartialLikelihood
from lbnn.likelihood.thin_root import ThinLikelihood, thin_likelihood
from lbnn.likelihood.views import ViewLikelihood
from lbnn.likelihood.zero_temperature import ScatterLikelihood
from lbnn.scale.bartlett import BartlettCoordinates, product
from lbnn.scale.total_factor import rotate_factors

_SAME_AXES = 0.98  # cosine from which two axes are one
_WORTH_MOVING = 1e8  # operations from which a batch is moved to the device of the data: some ten milliseconds


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

    @property
    def device(self) -> Device:
        """Where large batches are evaluated."""
        ...

    def log_value(self, eigenvalues: AnyArray, vectors: AnyArray) -> AnyArray:
        """log p(Y | L), less a constant, (m,), at l (m, n_d), V (m, n_d, n_d)."""
        ...

    def value_and_gradient(self, eigenvalues: AnyArray, vectors: AnyArray) -> tuple[AnyArray, AnyArray]:
        """The value (m,) and its gradient in L (m, n_d, n_d)."""
        ...


#: Likelihoods of data as functions of the scale L; those of the hidden kernel and ratios are others.
ScaleLikelihood = GaussianLikelihood | ViewLikelihood | PartialLikelihood


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
        """Frames (n, n) in which phases are searched, `rotation` first."""
        ...

    @property
    def any_frame(self) -> bool:
        """Whether the prior is the same in every frame, so that T may be taken in any."""
        ...

    def in_frame(self, frame: Array) -> Target:
        """The same posterior with coordinates in another frame (n, n); itself where frames are not free."""
        ...

    def scales(self, u: Array) -> Array:
        """The positive semi-definite matrices at u, (m, rows, rows)."""
        ...

    def log_likelihood(self, total: Array, frame: Array) -> Array:
        """Log of what multiplies the prior of T (m, rows, columns) taken in the given frame, (m,)."""
        ...

    def likelihood_gradient(self, total: Array, frame: Array) -> tuple[Array, Array]:
        """`log_likelihood` (m,) and its gradient in T (m, n, columns)."""
        ...

    def log_density(self, u: Array) -> Array:
        """Log density up to a constant, (m,)."""
        ...

    def value_and_gradient(self, u: Array) -> tuple[Array, Array]:
        """`log_density` (m,) and its gradient in u (m, k)."""
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

    def scales(self, u: AnyArray) -> AnyArray:
        """L(u), (m, n_d, n_d)."""
        root = self.roots(u)
        return root @ transposed(root)

    def roots(self, u: AnyArray) -> AnyArray:
        """O T, (m, n_d, columns), whose Gram matrix is L(u)."""
        (frame,) = self._rotation.at(device_of(u))
        return frame @ _product(self.coordinates.factors(u))

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

    def in_frame(self, frame: Array) -> ScaleTarget:
        """The same posterior with coordinates in another frame (n, n)."""
        return replace(self, rotation=frame) if self.any_frame else self

    def log_likelihood(self, total: Array, frame: Array) -> Array:
        """Log p(Y | L) at L = O T Tᵀ Oᵀ for any frame O, (m,)."""
        if self._scatter is not None:
            return self._scatter.log_value(total, frame)
        if self._thin is not None:
            return self._thin.log_value(frame @ total)
        root = self._device(len(total)).put(frame @ total)
        return to_numpy(self.likelihood.log_value(*gram_eigen(root @ transposed(root))))

    def integrand(self, u: Array, count: int) -> Array:
        """The log likelihood at u (m,), by the route and instead of a batch of `count` points."""
        device = self._device(count)
        if not device.host:
            return self._on_device(device, self._log_density_at, u)[0] - self.coordinates.log_prior(u)[0]
        return self.log_likelihood(_product(self.coordinates.factors(u)), self.rotation)

    def likelihood_gradient(self, total: Array, frame: Array) -> tuple[Array, Array]:
        """`log_likelihood` (m,) and its gradient in T (m, n, columns)."""
        device = self._device(len(total))
        value, gradient = self._gradient_at(device.put(total), device.put(frame))
        return to_numpy(value), to_numpy(gradient)

    def _gradient_at(self, total: AnyArray, frame: AnyArray) -> tuple[AnyArray, AnyArray]:
        """`likelihood_gradient` of T (m, n, columns) in its library: ∂/∂T = 2 Oᵀ (∂/∂L) O T."""
        if self._scatter is not None:
            return self._scatter.value_and_gradient(total, frame)
        root = frame @ total
        if self._thin is not None:
            value, gradient = self._thin.value_and_gradient(root)
            return value, transposed(frame) @ gradient
        value, gradient = self.likelihood.value_and_gradient(*gram_eigen(root @ transposed(root)))
        return value, 2 * transposed(frame) @ gradient @ root

    @cached_property
    def _rotation(self) -> DeviceCache:
        return DeviceCache(self.rotation)

    @cached_property
    def _scatter(self) -> ScatterLikelihood | None:
        """The likelihood as a function of T where that needs no eigenvectors: no noise, square factors."""
        own = self.likelihood
        if (
            isinstance(own, GaussianLikelihood)
            and own.noise_variance == 0
            and self.coordinates.square
            and own.units is None
            and not own.flat
        ):
            return ScatterLikelihood.of(own)
        return None

    @cached_property
    def _thin(self) -> ThinLikelihood | None:
        """The likelihood as a function of O T where a layer is narrower than the outputs, for NumPy."""
        narrow = self._columns < self.rows and self.likelihood.device.host
        return thin_likelihood(self.likelihood) if narrow else None

    @property
    def _columns(self) -> int:
        """Of T: the narrowest layer, or n_d."""
        return self.coordinates.shapes[-1].columns

    def log_density(self, u: Array) -> Array:
        """Log posterior up to a constant, (m,); −inf where factors or their inverses would overflow."""
        device = self._device(len(u))
        if not device.host:
            return self._on_device(device, self._log_density_at, u)[0]
        result = np.full(len(u), -np.inf)

        def fill(block: slice) -> None:
            fine = np.flatnonzero(self.coordinates.plausible(u[block]))
            points = u[block][fine]
            log_likelihood = self.log_likelihood(_product(self.coordinates.factors(points)), self.rotation)
            result[block][fine] = self.coordinates.log_prior(points)[0] + log_likelihood

        on_every_core(fill, blocks(len(u), self._floats_each))
        return result

    def value_and_gradient(self, u: Array) -> tuple[Array, Array]:
        """`log_density` (m,) and its gradient in u (m, k) (zero where factors would overflow)."""
        device = self._device(len(u))
        if not device.host:
            found = self._on_device(device, self.value_and_gradient_at, u)
            return found[0], found[1]
        value, gradient = np.full(len(u), -np.inf), np.zeros_like(u)

        def fill(block: slice) -> None:
            fine = np.flatnonzero(self.coordinates.plausible(u[block]))
            points = u[block][fine]
            log_prior, prior_slope = self.coordinates.log_prior(points)
            log_likelihood, slope = self._differentiate(points)
            value[block][fine], gradient[block][fine] = log_prior + log_likelihood, prior_slope + slope

        on_every_core(fill, blocks(len(u), self._floats_each))
        return value, gradient

    def _differentiate(self, u: AnyArray) -> tuple[AnyArray, AnyArray]:
        """Log likelihood (m,) and its gradient in u (m, k): the gradient in T, then through the product."""
        factors, slopes = self.coordinates.factors_and_slopes(u)
        value, gradient = self._gradient_at(_product(factors), *self._rotation.at(device_of(u)))
        return value, self.coordinates.pull_back(factors, slopes, gradient)

    def _device(self, count: int) -> Device:
        """Where so many points are evaluated: where the data are, if copying pays."""
        there = self.likelihood.device
        stay = there.host or self._scatter is not None or count * self.operations < _WORTH_MOVING
        return HOST if stay else there

    def _on_device(
        self, device: Device, function: Callable[[AnyArray], tuple[AnyArray, ...]], u: Array
    ) -> tuple[Array, ...]:
        """A function of points (m, k) on a device, as NumPy: few large batches, each moved there once."""
        fine = np.flatnonzero(self.coordinates.plausible(u))
        if len(fine) < len(u):
            whole = np.full(len(u), -np.inf), np.zeros_like(u)
            found = self._on_device(device, function, u[fine]) if len(fine) else ()
            for each, part in zip(whole, found, strict=False):
                each[fine] = part
            return whole
        program = self._programs.setdefault((device, function.__name__), on_batches(function, device))
        parts = [program(u[block]) for block in blocks(len(u), self._floats_each, device.block_floats)]
        found = parts[0] if len(parts) == 1 else tuple(map(np.concatenate, zip(*parts, strict=True)))
        self.coordinates.add_tails(u, *found)
        return found

    @cached_property
    def _programs(self) -> dict[tuple[Device, str], Callable[[Array], tuple[Array, ...]]]:
        return {}

    def _log_density_at(self, u: AnyArray) -> tuple[AnyArray]:
        """`log_density` (m,) in the library of the points (m, k), with a normal prior in the tails."""
        log_likelihood = self.likelihood.log_value(*gram_eigen(self.scales(u)))
        return (log_likelihood - 0.5 * namespace(u).sum(u * u, axis=1),)

    def value_and_gradient_at(self, u: AnyArray) -> tuple[AnyArray, AnyArray]:
        """`value_and_gradient` in the library of the points (m, k), with a normal prior in the tails."""
        log_likelihood, slope = self._differentiate(u)
        return log_likelihood - 0.5 * namespace(u).sum(u * u, axis=1), slope - u

    @property
    def _floats_each(self) -> int:
        columns = self._columns if self._thin is not None else self.rows
        return 4 * len(self.coordinates.shapes) * self.rows * columns


def _product(factors: list[AnyArray]) -> AnyArray:
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
