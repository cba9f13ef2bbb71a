"""Predictives in the user's units: affine images of `Predictive`, with a level, and mixtures of them.

A model in the user's units is Y = 1bᵀ + F Aᵀ + noise: a network F in units of its own, a matrix A back to the
outputs, and a level b. Under a flat prior of b the level of centred data is N(mean of Y, (τ/p) A Aᵀ) given
everything else, independent of F: one shift shared by all points. Noise that passes through the network has
the covariance A (ν L) Aᵀ given the scale L, and its level A (ν L/p) Aᵀ: both act as further inputs of the
network and are kept in the projection of the test points.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy import special

from lbnn._base import check
from lbnn._base.blocks import blocks
from lbnn._base.types import Array
from lbnn.data.projection import GramProjection, PrivateProjection
from lbnn.predict.mixture import Predictive
from lbnn.predict.quantile import mixture_quantile

LOG_TWO_PI = math.log(2 * math.pi)
_FEWEST_ATOMS = 5  # effective draws under which the error of a log density is about half a nat


@dataclass(frozen=True)
class AffinePredictive:
    """Outputs F̂ Aᵀ + offset + shift at p̂ points, F̂ a `Predictive` and the shift one Gaussian for all points.

    Attributes
    ----------
    predictive : Predictive
        F̂ in the network's own units.
    matrix : (n_d, n_d)
        A, invertible.
    offset : (n_d,)
        What is added to every point.
    level_variance : float
        The shift is N(0, level_variance · A Aᵀ).
    single_output : bool
        Whether results drop the output axis.
    coupled_noise : float
        ν; the projection of the predictive is then a `PrivateProjection`.

    Examples
    --------
    >>> import numpy as np, lbnn
    >>> from lbnn.predict.affine import AffinePredictive
    >>> rng = np.random.default_rng(0)
    >>> X, Y, X_test = rng.normal(size=(10, 30)), rng.normal(size=(10, 2)), rng.normal(size=(3, 30))
    >>> inner = lbnn.Network(widths=(20,)).condition(X, Y, beta=4.0).predict(X_test)
    >>> outer = AffinePredictive(inner, 10 * np.eye(2), np.array([1.0, 2.0]), 0.1)
    >>> bool(np.allclose(outer.mean, 10 * inner.mean + [1.0, 2.0]))
    True
    """

    predictive: Predictive
    matrix: Array
    offset: Array
    level_variance: float = 0.0
    single_output: bool = False
    coupled_noise: float = 0.0

    def __repr__(self) -> str:
        """One line: points and outputs."""
        return f"AffinePredictive(points={self.shape[0]}, outputs={self.shape[1]}, noisy={self.noisy})"

    @property
    def shape(self) -> tuple[int, int]:
        """(p̂, n_d)."""
        return self.predictive.shape

    @property
    def noisy(self) -> bool:
        """Whether these are observations rather than the function."""
        private = self.predictive.projection
        return self.predictive.observation_noise > 0 or (
            isinstance(private, PrivateProjection) and private.own > 0
        )

    # ------------------------------------------------------------------ moments

    @property
    def mean(self) -> Array:
        """(p̂, n_d), or (p̂,) when Y was one-dimensional."""
        return self._shaped(self.predictive.mean.reshape(self.shape) @ self.matrix.T + self.offset)

    @property
    def variance(self) -> Array:
        """Variance of every output at every point, shaped like the mean."""
        return self._shaped(np.diagonal(self.output_covariance, axis1=1, axis2=2).copy())

    @property
    def standard_deviation(self) -> Array:
        """Square root of `variance`."""
        return np.sqrt(self.variance)

    @cached_property
    def output_covariance(self) -> Array:
        """Covariance across outputs at each point, (p̂, n_d, n_d)."""
        return self.matrix @ self.predictive.output_covariance @ self.matrix.T + self._level_covariance

    @property
    def covariance(self) -> Array:
        """(p̂, n_d, p̂, n_d), or (p̂, p̂) when Y was one-dimensional."""
        points, outputs = self.shape
        inner = self.predictive.covariance.reshape(points, outputs, points, outputs)
        total = np.einsum("ja,manb,kb->mjnk", self.matrix, inner, self.matrix, optimize=True)
        total += self._level_covariance[:, None, :]
        return total[:, 0, :, 0] if self.single_output else total

    @property
    def _level_covariance(self) -> Array:
        return self.level_variance * self.matrix @ self.matrix.T

    # ------------------------------------------------------------------ densities

    def log_density(self, Y: Any) -> float:
        """Joint log density over all points and outputs at Y, shaped like the mean.

        Exact for observations (`with_noise()`), and for the function where there is no level to shift it: the
        function with an uncertain level is not offered.
        """
        values = check.like_mean(Y, self.shape, self.single_output, "Y")
        inner = (values - self.offset) @ np.linalg.inv(self.matrix).T
        log_volume = self.shape[0] * np.linalg.slogdet(self.matrix)[1]
        if self.level_variance == 0:
            return self.predictive.log_density(self._inner_shaped(inner)) - log_volume
        if not self.noisy:
            raise ValueError(
                "the joint density of a function with an uncertain level is not offered, got a noise-free "
                "predictive: use with_noise(), or pointwise_log_density"
            )
        root, log_determinant = self._level_root()
        balanced = replace(self.predictive, projection=_rotated(self.predictive, root))
        return (
            balanced.log_density(self._inner_shaped(root @ inner))
            + self.shape[1] * log_determinant
            - log_volume
        )

    def _level_root(self) -> tuple[Array, float]:
        """C = (I + ε 11ᵀ)^{−½} with ε = level/noise, and log det C: C whitens noise and shift over points.

        Noise and shift have the covariance τ (I + ε 11ᵀ) over points and none across outputs.
        """
        points = self.shape[0]
        growth = 1 + points * self.level_variance / self.predictive.observation_noise
        return np.eye(points) + (growth**-0.5 - 1) / points, -0.5 * math.log(growth)

    def pointwise_log_density(self, Y: Any) -> Array:
        """Log density at each point by itself, jointly over outputs, (p̂,).

        The mixture over the atoms of the scale, with an `AccuracyWarning` where few of them count, as at
        outliers; `log_density` at one point may choose atoms anew.
        """
        values = check.like_mean(Y, self.shape, self.single_output, "Y")
        measure, terms = self.predictive.measure, self.point_log_densities(values)
        measure.warn_of_few(terms, _FEWEST_ATOMS)
        return _log_average(measure.weights, terms)

    def point_log_densities(self, values: Array) -> Array:
        """Log density of values (p̂, n_d) at each point given each atom, (atoms, p̂).

        Given an atom V diag(l) Vᵀ the outputs at a point, rotated by V, are independent with the variances
        R l_j + Σ_i φ_i² s_ij + noise + level.
        """
        inner = (values - self.offset) @ np.linalg.inv(self.matrix).T
        scale_values, vectors = self.predictive.measure.eigen
        result = np.empty((len(scale_values), len(inner)))
        for block in blocks(
            len(result), self.shape[0] * self.shape[1] + self.predictive.process.targets.size
        ):
            means, variances = self._rotated_moments(scale_values[block], vectors[block])
            deviations = inner @ vectors[block] - means
            result[block] = -0.5 * (LOG_TWO_PI + np.log(variances) + deviations**2 / variances).sum(2)
        return result - np.linalg.slogdet(self.matrix)[1]

    def _rotated_moments(self, scale_values: Array, vectors: Array) -> tuple[Array, Array]:
        """Means and variances along the eigenvectors of each atom, (atoms, p̂, n_d) each."""
        projection, process = self.predictive.projection, self.predictive.process
        means = projection.explained @ process.rotated_mean(scale_values, vectors)
        own = projection.unexplained_diagonal[:, None] * scale_values[:, None, :]
        seen = projection.explained**2 @ process.shrunken_scale(scale_values)
        return means, own + seen + self.predictive.observation_noise + self.level_variance

    # ------------------------------------------------------------------ quantiles and draws

    def quantile(self, q: Any) -> Array:
        """Quantiles of every output at every point, of shape np.shape(q) + shape of the mean."""
        return _quantile(self, q)

    def interval(self, probability: float = 0.95) -> tuple[Array, Array]:
        """Equal-tailed interval of every output at every point: lower and upper ends."""
        return _interval(self, probability)

    def marginals(self, rows: slice) -> tuple[Array, Array, Array]:
        """Weights (atoms,), means and standard deviations (atoms, rows, n_d) of the Gaussians at some points.

        The variance of output k given an atom is Σ_j (AV)_kj² (variance along the eigenvector j).
        """
        part = replace(self, predictive=replace(self.predictive, projection=_rows(self.predictive, rows)))
        scale_values, vectors = self.predictive.measure.eigen
        rotated = self.matrix @ vectors
        means, deviations = [], []
        for block in blocks(len(rotated), math.prod(part.shape) + self.predictive.process.targets.size):
            mean, variance = part._rotated_moments(scale_values[block], vectors[block])
            means.append(mean @ rotated[block].swapaxes(1, 2) + self.offset)
            deviations.append(np.sqrt(variance @ (rotated[block] ** 2).swapaxes(1, 2)))
        return self.predictive.measure.weights, np.concatenate(means), np.concatenate(deviations)

    def sample(self, size: int, rng: Any) -> Array:
        """Draw jointly over points and outputs, (size, p̂, n_d), or (size, p̂) when Y was one-dimensional."""
        count, generator = check.positive_integer(size, "size"), check.generator(rng)
        inner = self.predictive.sample(count, generator).reshape(count, *self.shape)
        shift = math.sqrt(self.level_variance) * generator.standard_normal((count, 1, self.shape[1]))
        draws = (inner + shift) @ self.matrix.T + self.offset
        return draws[..., 0] if self.single_output else draws

    def with_noise(self) -> AffinePredictive:
        """The predictive of observations rather than of the function."""
        noisy, projection = self.predictive.with_noise(), self.predictive.projection
        if isinstance(projection, PrivateProjection):
            noisy = replace(noisy, projection=replace(projection, own=self.coupled_noise))
        return replace(self, predictive=noisy)

    def _shaped(self, values: Array) -> Array:
        return values[:, 0] if self.single_output else values

    def _inner_shaped(self, values: Array) -> Array:
        return values[:, 0] if self.predictive.measure.single_output else values


@dataclass(frozen=True)
class MixturePredictive:
    """A mixture of predictives at the same points: a Bayesian average over models.

    Attributes
    ----------
    components : tuple of AffinePredictive
    weights : (models,)
        Posterior probabilities of the models; they sum to one.
    """

    components: tuple[AffinePredictive, ...]
    weights: Array

    def __repr__(self) -> str:
        """One line: models, points and outputs."""
        return (
            f"MixturePredictive(models={len(self.components)}, points={self.shape[0]}, "
            f"outputs={self.shape[1]}, noisy={self.noisy})"
        )

    @property
    def shape(self) -> tuple[int, int]:
        """(p̂, n_d)."""
        return self.components[0].shape

    @property
    def noisy(self) -> bool:
        """Whether these are observations rather than the function."""
        return self.components[0].noisy

    @property
    def single_output(self) -> bool:
        """Whether results drop the output axis."""
        return self.components[0].single_output

    @property
    def mean(self) -> Array:
        """Shaped like the components' means."""
        return self._average([component.mean for component in self.components])

    @property
    def variance(self) -> Array:
        """Variance of every output at every point: within models and between them."""
        within = self._average([component.variance for component in self.components])
        return within + self._average([(component.mean - self.mean) ** 2 for component in self.components])

    @property
    def standard_deviation(self) -> Array:
        """Square root of `variance`."""
        return np.sqrt(self.variance)

    @property
    def output_covariance(self) -> Array:
        """Covariance across outputs at each point, (p̂, n_d, n_d)."""
        within = self._average([component.output_covariance for component in self.components])
        return within + np.einsum("s,smj,smk->mjk", self.weights, self._deviations, self._deviations)

    @property
    def covariance(self) -> Array:
        """(p̂, n_d, p̂, n_d), or (p̂, p̂) when Y was one-dimensional."""
        within = self._average([component.covariance for component in self.components])
        between = np.einsum("s,smj,snk->mjnk", self.weights, self._deviations, self._deviations)
        return within + (between[:, 0, :, 0] if self.single_output else between)

    @property
    def _deviations(self) -> Array:
        means = np.stack([component.mean.reshape(self.shape) for component in self.components])
        return means - self._average(list(means))

    def log_density(self, Y: Any) -> float:
        """Joint log density over all points and outputs."""
        terms = np.array([component.log_density(Y) for component in self.components])
        return float(_log_average(self.weights, terms))

    def pointwise_log_density(self, Y: Any) -> Array:
        """Log density at each point by itself, jointly over outputs, (p̂,)."""
        terms = np.stack([component.pointwise_log_density(Y) for component in self.components])
        return _log_average(self.weights, terms)

    def quantile(self, q: Any) -> Array:
        """Quantiles of every output at every point, of shape np.shape(q) + shape of the mean."""
        return _quantile(self, q)

    def interval(self, probability: float = 0.95) -> tuple[Array, Array]:
        """Equal-tailed interval of every output at every point: lower and upper ends."""
        return _interval(self, probability)

    def marginals(self, rows: slice) -> tuple[Array, Array, Array]:
        """Weights, means and standard deviations of all Gaussians of all models at some points."""
        parts = [component.marginals(rows) for component in self.components]
        weights = [share * part[0] for share, part in zip(self.weights, parts, strict=True)]
        means, deviations = ([part[k] for part in parts] for k in (1, 2))
        return np.concatenate(weights), np.concatenate(means), np.concatenate(deviations)

    def sample(self, size: int, rng: Any) -> Array:
        """Draw jointly over points and outputs, each draw from a model of its own."""
        count, generator = check.positive_integer(size, "size"), check.generator(rng)
        chosen = generator.choice(len(self.weights), size=count, p=self.weights)
        draws = np.empty((count, *self.mean.shape))
        for number, component in enumerate(self.components):
            here = chosen == number
            if here.any():
                draws[here] = component.sample(int(here.sum()), generator)
        return draws

    def with_noise(self) -> MixturePredictive:
        """The predictive of observations rather than of the function."""
        return replace(self, components=tuple(component.with_noise() for component in self.components))

    def _average(self, values: Sequence[Array]) -> Array:
        return np.tensordot(self.weights, np.stack(values), axes=1)


AnyPredictive = AffinePredictive | MixturePredictive


def _log_average(weights: Array, log_values: Array) -> Array:
    """log Σ_s w_s exp(log_values_s) over the leading axis; weights may be zero or tiny."""
    with np.errstate(divide="ignore"):
        log_weights = np.log(weights).reshape(-1, *(1,) * (log_values.ndim - 1))
    return special.logsumexp(log_values + log_weights, axis=0)


def _quantile(law: AnyPredictive, q: Any) -> Array:
    levels = check.probability(q, "q")
    result = np.empty((levels.size, *law.shape))
    for row, level in zip(result, levels.ravel(), strict=True):
        row[...] = _quantile_at(law, float(level))
    return (result[..., 0] if law.single_output else result).reshape(levels.shape + law.mean.shape)


def _interval(law: AnyPredictive, probability: float) -> tuple[Array, Array]:
    level = float(check.probability(probability, "probability"))
    low, high = _quantile(law, [(1 - level) / 2, (1 + level) / 2])
    return low, high


def _quantile_at(law: AnyPredictive, level: float) -> Array:
    result, atoms = np.empty(law.shape), len(law.marginals(slice(0, 1))[0])
    for rows in blocks(law.shape[0], atoms * max(law.shape[1], 8)):
        result[rows] = mixture_quantile(level, *law.marginals(rows))
    return result


def _rows(predictive: Predictive, rows: slice) -> GramProjection:
    """The test points of some rows: marginals need diag R only."""
    projection = predictive.projection
    return GramProjection(projection.explained[rows], np.diag(projection.unexplained_diagonal[rows]))


def _rotated(predictive: Predictive, root: Array) -> GramProjection:
    """Test points combined by a matrix C: CΦ and CRCᵀ."""
    projection = predictive.projection
    return GramProjection(root @ projection.explained, root @ projection.unexplained_gram @ root.T)
