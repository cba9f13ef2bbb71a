"""Predictives in the user's units: affine images of `NetworkPredictive`, with a level.

A model in the user's units is Y = 1bᵀ + F Aᵀ + noise: a network F in units of its own, a matrix A back to the
outputs, and a level b. Under a flat prior of b the level of centred data is N(mean of Y, (τ/p) A Aᵀ) given
everything else, independent of F: one shift shared by all points. Noise that passes through the network has
the covariance A (ν L) Aᵀ given the scale L, and its level A (ν L/p) Aᵀ: both act as further inputs of the
network and are kept in the projection of the test points.
"""

from __future__ import annotations

import cmath
import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from lbnn._base.arrays import Device, like, namespace
from lbnn._base.types import AnyArray, Array, IndexArray
from lbnn.data.projection import GramProjection
from lbnn.predict.atoms import AtomPredictive
from lbnn.predict.network import NetworkPredictive
from lbnn.predict.predictive import LogTails, Predictive

_ROUNDING = 1e-6  # relative distance from the plane of dependent outputs that is not held against them


@dataclass(frozen=True, repr=False)
class AffinePredictive(Predictive):
    """Outputs F̂ Aᵀ + offset + shift at p̂ points, F̂ of a network and the shift one Gaussian for all points.

    Attributes
    ----------
    predictive : NetworkPredictive or AtomPredictive
        F̂ in the network's own units.
    matrix : (n_d, q)
        A, of full column rank. With q < n_d outputs fulfil n_d − q linear relations, and densities are those
        in the plane of the outputs that do.
    offset : (n_d,)
        What is added to every point.
    level_variance : float
        The shift is N(0, level_variance · A Aᵀ).
    single_output : bool
        Whether results drop the output axis.
    leverage : (p̂,), optional
        Variance of the function at each point, relative to the largest that a training row has given the
        other rows: above one the point is farther out than every training row. None where training rows are
        not known.

    Examples
    --------
    >>> import numpy as np, lbnn
    >>> rng = np.random.default_rng(0)
    >>> X, Y, X_test = rng.normal(size=(10, 30)), rng.normal(size=(10, 2)), rng.normal(size=(3, 30))
    >>> inner = lbnn.Network(widths=(20,)).condition(X, Y, beta=4.0).predict(X_test)
    >>> outer = lbnn.AffinePredictive(inner, 10 * np.eye(2), np.array([1.0, 2.0]), 0.1)
    >>> bool(np.allclose(outer.mean, 10 * inner.mean + [1.0, 2.0]))
    True
    """

    predictive: NetworkPredictive | AtomPredictive
    matrix: Array
    offset: Array
    level_variance: float = 0.0
    single_output: bool = False
    leverage: Array | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """(p̂, n_d)."""
        return self.predictive.shape[0], len(self.matrix)

    @property
    def device(self) -> Device:
        """That of the test points."""
        return self.predictive.device

    @property
    def noisy(self) -> bool:
        """Whether these are observations rather than the function."""
        return self.predictive.noisy

    def _scale_values(self) -> tuple[Array, Array]:
        """Of the network, in units of its own."""
        return self.predictive._scale_values()

    # ------------------------------------------------------------------ moments

    @property
    def _mean(self) -> Array:
        """(p̂, n_d)."""
        return self.predictive._mean @ self.matrix.T + self.offset

    @cached_property
    def _output_covariance(self) -> Array:
        """A (covariance of the network) Aᵀ and that of the level, (p̂, n_d, n_d)."""
        return self.matrix @ self.predictive._output_covariance @ self.matrix.T + self._level_covariance

    @property
    def _variance(self) -> Array:
        """The diagonals of these alone."""
        return self.predictive.variance_of(self.matrix) + np.diagonal(self._level_covariance)

    @property
    def _covariance(self) -> AnyArray:
        """A along both output axes, and the level shared by all points."""
        inner = self.predictive._covariance
        xp, across = namespace(inner), like(self.matrix.T.copy(), inner)
        half = xp.permute_dims(inner @ across, (2, 3, 0, 1))  # (p̂, k, p̂, a)
        total = xp.permute_dims(half @ across, (2, 3, 0, 1))
        return total + like(self._level_covariance[:, None, :], inner)

    @property
    def _level_covariance(self) -> Array:
        """Covariance of the level across outputs, (n_d, n_d)."""
        return self.level_variance * self.matrix @ self.matrix.T

    # ------------------------------------------------------------------ densities

    def _log_density(self, values: Array) -> float:
        """Exact for observations, and for the function where there is no level to shift it."""
        inner, log_volume = self._inner(values), self.shape[0] * self._log_volume
        if self.level_variance == 0:
            return self.predictive._log_density(inner) - log_volume
        if not self.noisy:
            raise ValueError(
                "the joint density of a function with an uncertain level is not available, got a noise-free "
                "predictive: use with_noise(), or pointwise_log_density"
            )
        if isinstance(self.predictive, AtomPredictive):
            return self.predictive.log_density_with_level(inner, self.level_variance) - log_volume
        root, log_determinant = self._level_root()
        balanced = replace(self.predictive, projection=_rotated(self.predictive, root))
        return balanced._log_density(root @ inner) + self.matrix.shape[1] * log_determinant - log_volume

    def _level_root(self) -> tuple[Array, float]:
        """C = (I + ε 11ᵀ)^{−½} (p̂, p̂) with ε = level/noise, and log det C: C whitens noise and shift.

        Noise and shift have the covariance τ (I + ε 11ᵀ) over points and none across outputs.
        """
        points = self.shape[0]
        growth = 1 + points * self.level_variance / self.predictive.observation_noise
        return np.eye(points) + (growth**-0.5 - 1) / points, -0.5 * math.log(growth)

    def _pointwise_log_density(self, values: Array) -> Array:
        inner = self.predictive._pointwise_with_level(self._inner(values), self.level_variance)
        return inner - self._log_volume

    def _integral_work(self) -> float:
        return self.predictive._integral_work()

    def _point_terms(self, values: Array, *, rows: slice = slice(None)) -> Array | None:
        """Log of weight and density of draws at some points, (atoms, rows); None for quadrature nodes."""
        terms = self.predictive._point_terms(self._inner(values), self.level_variance, rows)
        return None if terms is None else terms - self._log_volume

    def point_log_densities(self, values: Array) -> Array:
        """Log density of values (p̂, n_d) at each point given each atom, (atoms, p̂)."""
        inner = self.predictive.point_log_densities(self._inner(values), self.level_variance)
        return inner - self._log_volume

    def _inner(self, values: Array) -> Array:
        """Values (p̂, n_d) in the network's units."""
        inner = (values - self.offset) @ np.linalg.pinv(self.matrix).T
        outside = np.abs(values - self.offset - inner @ self.matrix.T).max(axis=1)
        allowed = _ROUNDING * (np.abs(values).max(axis=1) + np.abs(self.matrix).sum(axis=1).max())
        if len(self.matrix) > self.matrix.shape[1] and (outside > allowed).any():
            raise ValueError(
                "outputs that fulfil a linear relation have a density only where it holds, got "
                f"{np.count_nonzero(outside > allowed)} of {len(values)} rows that are off by up to "
                f"{outside.max():.3g}: leave an output out, or correct the rows"
            )
        return inner

    @property
    def _log_volume(self) -> float:
        return float(np.log(np.linalg.svd(self.matrix, compute_uv=False)).sum())

    # ------------------------------------------------------------------ quantiles and draws

    def marginals(self, rows: slice) -> tuple[Array, Array, Array]:
        """Weights of the atoms, and the Gaussians at some points given each of them."""
        weights, means, deviations = self.predictive.marginals_of(rows, self.matrix, self.level_variance)
        return weights, means + self.offset, deviations

    def log_tails(self, rows: IndexArray, values: Array, sign: float) -> LogTails | None:
        """Those of the network at the value in its units, mirrored where A < 0."""
        if self.matrix.shape != (1, 1):
            return None
        slope = float(self.matrix[0, 0])
        tails = self.predictive.log_tails_with_level(
            rows, (values - self.offset[0]) / slope, math.copysign(sign, sign * slope), self.level_variance
        )
        return None if tails is None else replace(tails, density=tails.density - math.log(abs(slope)))

    def gaussians(self, row: int) -> tuple[Array, Array, Array]:
        """The Gaussians at one point given each atom."""
        log_weights, means, covariances = self.predictive._gaussians_of(row, self.matrix, self.level_variance)
        return log_weights, means + self.offset, covariances

    def _sample(self, size: int, rng: np.random.Generator) -> Array:
        inner = self.predictive._sample(size, rng)
        shift = math.sqrt(self.level_variance) * rng.standard_normal((size, 1, self.matrix.shape[1]))
        return (inner + shift) @ self.matrix.T + self.offset

    # ------------------------------------------------------------------ generating functions

    def _cgf(self, source: Array) -> float:
        """That of the network at JA, of the offset and of the shift, which are independent."""
        total = source.sum(axis=0)
        spread = 0.5 * self.level_variance * float(((total @ self.matrix) ** 2).sum())
        return self.predictive._cgf(source @ self.matrix) + float(total @ self.offset) + spread

    def _characteristic(self, source: Array) -> complex:
        total = source.sum(axis=0)
        spread = 0.5 * self.level_variance * float(((total @ self.matrix) ** 2).sum())
        turn = cmath.exp(1j * float(total @ self.offset) - spread)
        return self.predictive._characteristic(source @ self.matrix) * turn

    # ------------------------------------------------------------------ observations

    def with_noise(self) -> AffinePredictive:
        """The predictive of observations rather than of the function."""
        return replace(self, predictive=self.predictive.with_noise())


def _rotated(predictive: NetworkPredictive, root: Array) -> GramProjection:
    """Test points combined by a matrix C (p̂, p̂): CΦ and CRCᵀ."""
    projection, there = predictive.projection, like(root, predictive.projection.explained)
    return GramProjection(there @ projection.explained, there @ projection.unexplained_gram @ there.T)
