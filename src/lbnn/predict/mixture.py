"""Predictive: the posterior (or prior) of the network's outputs at test points.

A mixture of matrix Gaussians over a `ScaleMeasure`: every statistic is that of the mixture, none is a
Gaussian approximation.
"""

from __future__ import annotations

import cmath
import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from lbnn._base import check
from lbnn._base.blocks import PRODUCT_FLOATS, blocks
from lbnn._base.types import Array
from lbnn.data.projection import Projection
from lbnn.predict.conditional import ConditionalProcess
from lbnn.predict.density import conditional_log_density
from lbnn.predict.generating_function import characteristic_exponent, cumulant_exponent, source_in_domain
from lbnn.predict.quantile import mixture_quantile
from lbnn.scale.measure import ScaleMeasure


@dataclass(frozen=True)
class Predictive:
    """Outputs at p̂ test points, as a mixture of Gaussian processes over the scale.

    Returned by `Posterior.predict` and `Network.prior`. Shapes below lose the output axis when Y was
    one-dimensional.

    Examples
    --------
    >>> import numpy as np, lbnn
    >>> rng = np.random.default_rng(0)
    >>> X, X_test = rng.normal(size=(10, 30)), rng.normal(size=(3, 30))
    >>> pred = lbnn.Network(widths=(20, 20)).condition(X, X[:, 0], beta=100.0).predict(X_test)
    >>> low, high = pred.interval(0.9)
    >>> bool((low < pred.mean).all() and (pred.mean < high).all())
    True
    """

    projection: Projection
    process: ConditionalProcess
    measure: ScaleMeasure
    observation_noise: float = 0.0

    def __repr__(self) -> str:
        """One line: points and outputs."""
        return (
            f"Predictive(points={self.shape[0]}, outputs={self.shape[1]}, noise={self.observation_noise:g})"
        )

    @property
    def shape(self) -> tuple[int, int]:
        """(p̂, n_d)."""
        return len(self.projection.explained), self.process.outputs

    # ------------------------------------------------------------------ moments

    @property
    def mean(self) -> Array:
        """⟨F̂⟩ = E μ_L, (p̂, n_d)."""
        return self._shaped(self.projection.explained @ self._mean_coefficients)

    @property
    def variance(self) -> Array:
        """Variance of every output at every point, (p̂, n_d)."""
        return self._shaped(np.diagonal(self._output_covariance, axis1=1, axis2=2).copy())

    @property
    def output_covariance(self) -> Array:
        """Covariance across outputs at each point, (p̂, n_d, n_d)."""
        return self._output_covariance.copy()

    @property
    def covariance(self) -> Array:
        """cov(F̂_μj, F̂_νk), (p̂, n_d, p̂, n_d), or (p̂, p̂) when Y was one-dimensional.

        The law of total covariance: average of Σ_L plus the covariance of the μ_L.
        """
        points, outputs = self.shape
        explained = self.projection.explained
        mean_scale = self.measure.average(self.measure.scales)
        total = np.einsum("mn,jk->mjnk", self.projection.unexplained_gram, mean_scale)
        total += np.einsum("mi,ijk,ni->mjnk", explained, self._mean_shrunken, explained, optimize=True)
        flat = total.reshape(points * outputs, points * outputs)
        for deviations in self._mean_deviations():
            columns = deviations.reshape(len(deviations), -1)
            flat += columns.T @ columns
        flat[np.diag_indices_from(flat)] += self.observation_noise
        return flat if self.measure.single_output else total

    @cached_property
    def _output_covariance(self) -> Array:
        mean_scale = self.measure.average(self.measure.scales)
        total = self.projection.unexplained_diagonal[:, None, None] * mean_scale
        total = total + np.tensordot(self.projection.explained**2, self._mean_shrunken, axes=1)
        for deviations in self._mean_deviations():
            total += np.einsum("smj,smk->mjk", deviations, deviations)
        return total + self.observation_noise * np.eye(self.shape[1])

    @cached_property
    def _mean_coefficients(self) -> Array:
        """E M, (r, n_d)."""
        total = np.zeros_like(self.process.targets)
        for block in self._atom_blocks():
            coefficients = self.process.mean_coefficients(*self._eigen(block))
            total += np.tensordot(self.measure.weights[block], coefficients, axes=1)
        return total

    @cached_property
    def _mean_shrunken(self) -> Array:
        """E V diag_j(s_ij) Vᵀ, (r, n_d, n_d)."""
        rank, outputs = self.process.targets.shape
        total = np.zeros((rank, outputs * outputs))
        if self.process.noise == 0:  # the data leave nothing of the scale
            return total.reshape(rank, outputs, outputs)
        for block in self._atom_blocks(outputs * max(rank, outputs * outputs)):
            values, vectors = self._eigen(block)
            weighted = self.measure.weights[block, None, None] * self.process.shrunken_scale(values)
            squares = np.einsum("sja,ska->sajk", vectors, vectors).reshape(-1, outputs * outputs)
            total += weighted.transpose(1, 0, 2).reshape(rank, len(squares)) @ squares
        return total.reshape(rank, outputs, outputs)

    def _mean_deviations(self) -> Any:
        """√w_s (μ_{L_s} − E μ_L), in blocks of shape (atoms, p̂, n_d)."""
        if len(self.measure.weights) == 1:
            return
        typical = float(np.trace(self.measure.average(self.measure.scales))) / self.shape[1]
        average = np.zeros_like(self.process.targets)
        for block in self._atom_blocks():
            varying = self.process.varying_coefficients(*self._eigen(block), typical)
            average += np.tensordot(self.measure.weights[block], varying, axes=1)
        for block in self._atom_blocks(max(self.process.targets.size, math.prod(self.shape))):
            deviations = self.process.varying_coefficients(*self._eigen(block), typical) - average
            deviations *= np.sqrt(self.measure.weights[block, None, None])
            yield _at_points(self.projection.explained, deviations)

    # ------------------------------------------------------------------ densities and quantiles

    def log_density(self, F: Any) -> float:
        """Joint log density at F, shaped like the mean; inf where narrow layers give the density a pole.

        Raises
        ------
        ValueError
            If the law has no density because some outputs are determined by others (linearly dependent
            points) or by the data (training points at zero temperature).
        """
        values = check.like_mean(F, self.shape, self.measure.single_output, "F")
        if self.observation_noise == 0 and self.measure.tails.narrowest < self.shape[1]:
            raise ValueError(
                "behind a hidden layer narrower than the outputs, noise-free outputs have no density here, "
                f"got width {self.measure.tails.narrowest} for {self.shape[1]} outputs: use with_noise()"
            )
        factor = conditional_log_density(self.projection, self.process, self.observation_noise, values)
        if not factor.bounded_average(self.measure.tails.narrowest):
            return math.inf
        return self.measure.log_expect_exp(factor).real

    def quantile(self, q: Any) -> Array:
        """Quantiles of every output at every point, of shape np.shape(q) + shape of the mean."""
        levels = check.probability(q, "q")
        result = np.empty((levels.size, *self.mean.shape))
        for row, level in zip(result, levels.ravel(), strict=True):
            row[...] = self._quantile(float(level))
        return result.reshape(levels.shape + self.mean.shape)

    def interval(self, probability: float = 0.95) -> tuple[Array, Array]:
        """Equal-tailed interval of every output at every point: lower and upper ends."""
        level = float(check.probability(probability, "probability"))
        return self._quantile((1 - level) / 2), self._quantile((1 + level) / 2)

    def _quantile(self, level: float) -> Array:
        result = np.empty(self.shape)
        for rows in blocks(self.shape[0], len(self.measure.weights) * max(*self.shape[1:], 8)):
            means, deviations = self._marginals(rows)
            result[rows] = mixture_quantile(level, self.measure.weights, means, deviations)
        return self._shaped(result)

    def _marginals(self, rows: slice) -> tuple[Array, Array]:
        """Mean and standard deviation of every output at some points given every atom, (atoms, rows, n_d)."""
        explained = self.projection.explained[rows]
        unexplained = self.projection.unexplained_diagonal[rows, None]
        means, variances = [], []
        for block in self._atom_blocks():
            values, vectors = self._eigen(block)
            means.append(_at_points(explained, self.process.mean_coefficients(values, vectors)))
            own_scale = np.diagonal(self.measure.scales[block], axis1=1, axis2=2)
            shrunken = self.process.shrunken_scale(values) @ (vectors**2).swapaxes(1, 2)
            variances.append(unexplained * own_scale[:, None, :] + _at_points(explained**2, shrunken))
        return np.concatenate(means), np.sqrt(np.concatenate(variances) + self.observation_noise)

    # ------------------------------------------------------------------ samples

    def sample(self, size: int, rng: Any) -> Array:
        """Draw outputs jointly over points and outputs.

        Parameters
        ----------
        size : int
        rng : int or numpy.random.Generator

        Returns
        -------
        (size, p̂, n_d) array, or (size, p̂) when Y was one-dimensional
        """
        count, generator = check.positive_integer(size, "size"), check.generator(rng)
        scales = self.measure.draw(count, generator)
        draws = np.empty((count, *self.shape))
        for block in blocks(count, max(draws[0].size, self.process.targets.size)):
            draws[block] = self._sample_given(scales[block], generator)
        return draws[..., 0] if self.measure.single_output else draws

    def _sample_given(self, scales: Array, rng: np.random.Generator) -> Array:
        """One draw from N(μ_L, Σ_L) for each scale: along each eigenvector of L, Φ(mean + √s ξ) + E √l ξ'."""
        values, vectors = np.linalg.eigh(scales)
        values = np.maximum(values, 0.0)
        explained, rest = self.projection.explained, self.projection.unexplained_root
        spread = np.sqrt(self.process.shrunken_scale(values))
        coefficients = self.process.rotated_mean(values, vectors) + spread * rng.standard_normal(spread.shape)
        fresh = rng.standard_normal((len(scales), rest.shape[1], self.shape[1])) * np.sqrt(values)[:, None, :]
        function = (explained @ coefficients + rest @ fresh) @ vectors.swapaxes(1, 2)
        return function + math.sqrt(self.observation_noise) * rng.standard_normal(function.shape)

    # ------------------------------------------------------------------ generating functions

    def mgf(self, J: Any) -> float:
        """Z(J) = E exp(tr JᵀF̂), for J shaped like the mean; inf where the integral diverges.

        With R the part of G_x̂x̂ that the training inputs leave unexplained: at depth two it converges
        where the largest eigenvalue of JᵀRJ is below n_1, in deeper networks only where RJ = 0.
        """
        exponent = self.cgf(J)
        return math.exp(exponent) if exponent < 709.0 else math.inf

    def cgf(self, J: Any) -> float:
        """Log Z(J), the cumulant generating function; inf where the integral diverges."""
        source = check.like_mean(J, self.shape, self.measure.single_output, "J")
        informed = not math.isinf(self.process.noise)
        if not source_in_domain(self.projection, source, self.measure.tails.exponential_rate, informed):
            return math.inf
        exponent = cumulant_exponent(self.projection, self.process, source)
        return self.measure.log_expect_exp(exponent).real + 0.5 * self.observation_noise * float(
            (source**2).sum()
        )

    def characteristic(self, J: Any) -> complex:
        """E exp(i tr JᵀF̂), for J shaped like the mean; exists for every J."""
        source = check.like_mean(J, self.shape, self.measure.single_output, "J")
        exponent = characteristic_exponent(self.projection, self.process, source)
        blur = 0.5 * self.observation_noise * float((source**2).sum())
        return cmath.exp(self.measure.log_expect_exp(exponent) - blur)

    # ------------------------------------------------------------------ observations

    def with_noise(self) -> Predictive:
        """The predictive of observations Ŷ = F̂ + noise of variance 1/β."""
        if math.isinf(self.process.noise):
            raise ValueError("observations have finite variance only for beta > 0, got beta=0")
        return replace(self, observation_noise=self.process.noise)

    def _atom_blocks(self, floats_each: int | None = None) -> Any:
        return blocks(len(self.measure.weights), floats_each or self.process.targets.size, PRODUCT_FLOATS)

    def _eigen(self, block: slice) -> tuple[Array, Array]:
        values, vectors = self.measure.eigen
        return values[block], vectors[block]

    def _shaped(self, values: Array) -> Array:
        return values[:, 0] if self.measure.single_output else values


def _at_points(features: Array, coefficients: Array) -> Array:
    """Features (p̂, r) times coefficients (m, r, n_d) as one matrix product, (m, p̂, n_d)."""
    atoms, rank, outputs = coefficients.shape
    flat = features @ coefficients.transpose(1, 0, 2).reshape(rank, atoms * outputs)
    return flat.reshape(len(features), atoms, outputs).transpose(1, 0, 2)
