"""NetworkPredictive: the posterior (or prior) of a network's outputs at test points.

A mixture of matrix Gaussians over a `ScaleMeasure`: every statistic is that of the mixture, none is a
Gaussian approximation.
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from lbnn._base.arrays import Device, add_to_diagonal, device_of, like, namespace, times, to_numpy
from lbnn._base.blocks import blocks
from lbnn._base.types import AnyArray, Array, IndexArray, Mask
from lbnn.data.projection import Projection
from lbnn.predict.conditional import ConditionalProcess
from lbnn.predict.curves import AtomCurves, PointCurves, curves_of
from lbnn.predict.density import conditional_log_density
from lbnn.predict.generating_function import characteristic_exponent, cumulant_exponent, source_in_domain
from lbnn.predict.one_output import Densities, PointsGivenScale, Tails, log_averages
from lbnn.predict.pointwise import doubtful_points, integrated_anew, warn_without_law
from lbnn.predict.predictive import LogTails, Predictive, log_average
from lbnn.scale.line_integrals import log_scale_density
from lbnn.scale.measure import ScaleMeasure

LOG_TWO_PI = math.log(2 * math.pi)
_POINT_FLOATS = 1 << 19  # of a block of points given every atom: 4 MB for each array that is made of it


@dataclass(frozen=True, repr=False)
class NetworkPredictive(Predictive):
    """Outputs of a network at p̂ test points, as a mixture of Gaussian processes over the scale.

    Returned by `Posterior.predict` and `Network.prior`.

    Attributes
    ----------
    projection : Projection
        Test points projected on the training inputs.
    process : ConditionalProcess
        The Gaussian process given L, with its noise variance τ.
    measure : ScaleMeasure
        The law of L.
    noisy : bool
        Whether these are observations.
    coupling : float
        ν: an observation given L has the noise τ I + ν L.
    units : (n_d,) array or 1
        The measure is that of D L D, D = diag(units), for an L with the tails of the measure.

    Examples
    --------
    >>> import numpy as np, lbnn
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(10, 30)), rng.normal(size=10)
    >>> pred = lbnn.Network(widths=(20, 20)).condition(X, y, beta=100.0).predict(X[:3])
    >>> pred
    NetworkPredictive(points=3, outputs=1, noisy=False)
    >>> bool(np.allclose(pred.with_noise().variance, pred.variance + 1 / 100))
    True
    """

    projection: Projection
    process: ConditionalProcess
    measure: ScaleMeasure
    noisy: bool = False
    coupling: float = 0.0
    units: Array | float = 1.0

    @property
    def shape(self) -> tuple[int, int]:
        """(p̂, n_d)."""
        return self.projection.explained.shape[0], self.process.outputs

    @property
    def device(self) -> Device:
        """That of the test points."""
        return device_of(self.projection.explained)

    @property
    def single_output(self) -> bool:
        """Whether Y was one-dimensional."""
        return self.measure.single_output

    @property
    def observation_noise(self) -> float:
        """τ for observations, 0 for the function."""
        return self.process.noise_variance if self.noisy else 0.0

    def _scale_values(self) -> tuple[Array, Array]:
        """Eigenvalues of all atoms."""
        values = self.measure.eigen[0]
        return values.ravel(), np.repeat(self.measure.weights, values.shape[1])

    # ------------------------------------------------------------------ moments

    @property
    def _mean(self) -> Array:
        """⟨F̂⟩ = E μ_L, (p̂, n_d)."""
        return times(self.projection.explained, self._mean_coefficients)

    @property
    def _covariance(self) -> AnyArray:
        """cov(F̂_μj, F̂_νk): average of Σ_L plus the covariance of the μ_L (law of total covariance)."""
        points, outputs = self.shape
        explained, mean_scale = self.projection.explained, self.measure.average(self.measure.scales)
        xp, shrunken = namespace(explained), like(self._mean_shrunken, explained)
        parts = [
            self.projection.unexplained_gram * float(mean_scale[j, k])
            + (explained * shrunken[:, j, k]) @ explained.T
            for j in range(outputs)
            for k in range(outputs)
        ]
        total = xp.permute_dims(xp.reshape(xp.stack(parts), (outputs, outputs, points, points)), (2, 0, 3, 1))
        flat = xp.reshape(total, (points * outputs, points * outputs))
        for deviations in self._mean_deviations():
            columns = like(deviations.reshape(len(deviations), -1), explained)
            flat = flat + columns.T @ columns
        flat = add_to_diagonal(flat, self.observation_noise)
        return xp.reshape(flat, (points, outputs, points, outputs))

    @cached_property
    def _output_covariance(self) -> Array:
        mean_scale = self.measure.average(self.measure.scales)
        total = self.projection.unexplained_diagonal[:, None, None] * mean_scale
        total = total + at_points(self.projection.explained**2, self._mean_shrunken)
        for deviations in self._mean_deviations():
            total += np.einsum("smj,smk->mjk", deviations, deviations)
        return total + self.observation_noise * np.eye(self.shape[1])

    @property
    def _variance(self) -> Array:
        return self.variance_of(np.eye(self.shape[1]))

    def variance_of(self, matrix: Array) -> Array:
        """Variances of outputs F̂ Aᵀ at every point, (p̂, outputs)."""
        if len(self.measure.weights) == 1 and self._curves is not None:
            # given one scale: Σ_j (AV)_kj² (R l_j + Σ_i φ_i² s_ij), and the noise
            values, vectors = self.measure.eigen
            seen = times(self.projection.explained**2, self.process.shrunken_scale(values)[0])
            along = np.outer(self.projection.unexplained_diagonal, values[0]) + seen
            return along @ ((matrix @ vectors[0]) ** 2).T + self.observation_noise * (matrix**2).sum(axis=1)
        average = matrix @ self.measure.average(self.measure.scales) @ matrix.T
        total = np.outer(self.projection.unexplained_diagonal, np.diagonal(average))
        if self._curves is not None:
            shrunken = self._curves.mean_shrunken_along(matrix)
        else:
            shrunken = np.einsum("kj,ijl,kl->ik", matrix, self._mean_shrunken, matrix, optimize=True)
        total += times(self.projection.explained**2, shrunken)
        if len(self.measure.weights) > 1 and self._points is not None:
            total += self._points.spread_of_means(matrix)
        return total + self.observation_noise * (matrix**2).sum(axis=1)

    @cached_property
    def _curves(self) -> AtomCurves | None:
        """Averages over atoms as curves in log g; None at the ends of the temperatures, which need none."""
        return curves_of(self.process, self.measure) if 0 < self.process.noise_variance < math.inf else None

    @cached_property
    def _points(self) -> PointCurves | None:
        return None if self._curves is None else self._curves.points(self.projection.explained)

    @property
    def _mean_coefficients(self) -> Array:
        """E M, (r, n_d); at the ends of the temperatures the same for every scale."""
        if self._curves is not None and len(self.measure.weights) == 1:  # one scale needs no curves
            values, vectors = self.measure.eigen
            return np.asarray(self.process.rotated_mean(values, vectors)[0] @ vectors[0].T)
        if self._curves is not None:
            return self._curves.mean_coefficients
        if self.process.noise_variance == 0:
            return self.process.targets / np.sqrt(self.process.eigenvalues)[:, None]
        return np.zeros_like(self.process.targets)

    @property
    def _mean_shrunken(self) -> Array:
        """E V diag_j(s_ij) Vᵀ, (r, n_d, n_d): nothing at zero temperature, E L at β = 0."""
        if self._curves is not None:
            return self._curves.mean_shrunken
        left = self.measure.average(self.measure.scales) * (0.0 if self.process.noise_variance == 0 else 1.0)
        return np.broadcast_to(left, (len(self.process.targets), *left.shape))

    def _mean_deviations(self) -> Iterator[Array]:
        """√w_s (μ_{L_s} − E μ_L), in blocks of shape (atoms, p̂, n_d)."""
        if len(self.measure.weights) == 1 or self._points is None:
            return
        for block, deviations in self._points.deviations(np.eye(self.shape[1])):
            yield deviations * np.sqrt(self.measure.weights[block, None, None])

    # ------------------------------------------------------------------ densities and quantiles

    def _log_density(self, values: Array) -> float:
        self._require_full_rank()
        alone = self.shape == (1, 1) and log_scale_density(self.measure) is not None
        if alone and self.points_given_scale(np.arange(1)).spread[0] > 0:  # else the message below
            return float(self._pointwise_with_level(values, 0.0)[0])
        factor = conditional_log_density(
            self.projection, self.process, self.observation_noise, values, self.measure.typical
        )
        if not factor.bounded_average(self.measure.tails.narrowest):
            return math.inf
        return self.measure.log_expect_exp(factor).real

    def _require_full_rank(self) -> None:
        """Raise for the function behind a bottleneck, which has no density over all outputs."""
        if self.observation_noise == 0 and self.measure.tails.narrowest < self.shape[1]:
            raise ValueError(
                "behind a hidden layer narrower than the outputs, noise-free outputs have no density here, "
                f"got width {self.measure.tails.narrowest} for {self.shape[1]} outputs: use with_noise()"
            )

    def _pointwise_log_density(self, values: Array) -> Array:
        return self._pointwise_with_level(values, 0.0)

    def _pointwise_with_level(self, values: Array, level_variance: float) -> Array:
        """Log density of values (p̂, n_d) at each point with a level of this variance, (p̂,)."""
        if not level_variance:
            self._require_full_rank()
        if self.shape[1] == 1 and self.measure.deterministic:
            result, doubtful = self._one_output(values, level_variance)
        else:
            result, doubtful = self._from_draws(values, level_variance)
        warn_without_law(self.measure, doubtful)
        noise = self.observation_noise + level_variance
        for point, density in integrated_anew(
            self.projection, self.process, self.measure, noise, values, result, doubtful
        ):
            result[point] = density
        return result

    def _one_output(self, values: Array, level_variance: float) -> tuple[Array, Mask]:
        """Densities (p̂,) of one output over quadrature nodes, and where they need another integral."""
        result, doubtful = np.empty(len(values)), np.zeros(len(values), bool)
        for rows in blocks(len(values), self._floats_each, _POINT_FLOATS):
            points = self.points_given_scale(np.arange(len(values))[rows], level_variance)
            _refuse_determined(points.spread == 0)
            factors = Densities(points, values[rows, 0])
            pole = factors.poles(self.measure.tails.narrowest)
            result[rows], anew = log_averages(self.measure, factors)
            result[rows][pole] = math.inf
            doubtful[rows] = anew & ~pole
        if log_scale_density(self.measure) is not None or self.measure.law is None:
            doubtful[:] = False  # integrated already, or one atom, which needs no integral
        return result, doubtful

    def points_given_scale(self, rows: IndexArray, level_variance: float = 0.0) -> PointsGivenScale:
        """One output at some points, rows (k,), as functions of the scale."""
        noise = self.observation_noise + level_variance
        return PointsGivenScale.of(self.projection, self.process, self.measure, noise, rows)

    def _from_draws(self, values: Array, level_variance: float) -> tuple[Array, Mask]:
        """Densities (p̂,) from the atoms, and where too few of them count."""
        result, doubtful = np.empty(len(values)), np.zeros(len(values), bool)
        for rows in blocks(len(values), self._floats_each, _POINT_FLOATS):
            terms = self.point_log_densities(values[rows], level_variance, rows)
            result[rows] = log_average(self.measure.weights, terms)
            doubtful[rows] = doubtful_points(self.measure, terms)
        return result, doubtful

    @property
    def _floats_each(self) -> int:
        """Of one point given every atom, and of its coefficients."""
        rank = self.projection.explained.shape[1]
        return len(self.measure.weights) * self.shape[1] + rank * (1 + self.shape[1])

    def _point_terms(
        self, values: Array, level_variance: float = 0.0, rows: slice = slice(None)
    ) -> Array | None:
        """Log of weight and density of draws at some points, (atoms, rows); None for quadrature nodes."""
        if self.measure.deterministic:
            return None
        with np.errstate(divide="ignore"):
            log_weights = np.log(self.measure.weights)[:, None]
        return log_weights + self.point_log_densities(values, level_variance, rows)

    def point_log_densities(
        self, values: Array, level_variance: float = 0.0, rows: slice = slice(None)
    ) -> Array:
        """Log density of values (rows, n_d) at some points given each atom, (atoms, rows).

        Given an atom V diag(l) Vᵀ the outputs at a point, rotated by V, are independent with the variances
        R l_j + Σ_i φ_i² s_ij + noise + level. With coupled noise an atom may be singular in double precision:
        it has no density at values away from its mean. A point that every atom determines has none at all.
        """
        if not level_variance:
            self._require_full_rank()
        vectors = self.measure.eigen[1]
        result, determined = np.empty((len(vectors), len(values))), np.ones(len(values), bool)
        for block, means, variances in self._rotated_moments(rows, level_variance):
            deviations, positive = values @ vectors[block] - means, (variances > 0).all(axis=2)
            with np.errstate(divide="ignore", invalid="ignore"):
                exponents = -0.5 * (LOG_TWO_PI + np.log(variances) + deviations**2 / variances).sum(2)
            result[block] = np.where(positive, exponents, -np.inf)
            determined &= ~positive.any(axis=0)
        _refuse_determined(determined)
        return result

    def _rotated_moments(
        self, rows: slice, level_variance: float = 0.0
    ) -> Iterator[tuple[slice, Array, Array]]:
        """Means and variances along the eigenvectors of blocks of atoms, (atoms, rows, n_d) each."""
        explained, (scale_values, vectors) = self.projection.explained[rows, :], self.measure.eigen
        own = self.projection.unexplained_diagonal[rows, None]
        noise = self.observation_noise + level_variance
        if self._curves is None:
            mean = times(explained, self._mean_coefficients)
            if self.process.noise_variance:
                own = own + times(explained**2, np.ones((explained.shape[1], 1)))
            for block in blocks(len(scale_values), 4 * mean.size):
                yield block, mean @ vectors[block], own * scale_values[block, None, :] + noise
            return
        for block, means, seen in self._curves.points(explained).rotated():
            yield block, means, own * scale_values[block, None, :] + seen + noise

    def marginals(self, rows: slice) -> tuple[Array, Array, Array]:
        """Weights of the atoms, and the Gaussians at some points given each of them."""
        return self.marginals_of(rows, np.eye(self.shape[1]), 0.0)

    def marginals_of(self, rows: slice, matrix: Array, level_variance: float) -> tuple[Array, Array, Array]:
        """`marginals` of outputs F̂ Aᵀ, A (k, n_d), with a level of this variance.

        The variance of output k given an atom is Σ_j (AV)_kj² (variance along the eigenvector j).
        """
        vectors, points = self.measure.eigen[1], len(range(self.shape[0])[rows])
        means, deviations = np.empty((2, len(vectors), points, len(matrix)))
        for block, mean, variance in self._rotated_moments(rows, level_variance):
            outward = (matrix @ vectors[block]).swapaxes(1, 2)
            means[block] = mean @ outward
            deviations[block] = np.sqrt(variance @ outward**2)
        return self.measure.weights, means, deviations

    def log_tails(self, rows: IndexArray, values: Array, sign: float) -> LogTails | None:
        """Of one output over quadrature nodes; None for draws, whose atoms are all that is known."""
        return self.log_tails_with_level(rows, values, sign, 0.0)

    def log_tails_with_level(
        self, rows: IndexArray, values: Array, sign: float, level_variance: float
    ) -> LogTails | None:
        """`log_tails` at points rows (k,) and values (k,), with a level of this variance."""
        if log_scale_density(self.measure) is None:
            return None
        points, tails = self.points_given_scale(rows, level_variance), LogTails.unknown(len(rows))
        random = np.flatnonzero(points.spread > 0)  # elsewhere the law is one point
        points, values = points.take(random), values[random]
        tails.probability[random], tails.anew[random] = log_averages(
            self.measure, Tails(points, values, sign)
        )
        densities = Densities(points, values)
        regular = np.flatnonzero(~densities.poles(self.measure.tails.narrowest))
        tails.density[random] = math.inf
        tails.density[random[regular]] = log_averages(self.measure, densities.take(regular))[0]
        return tails

    def gaussians(self, row: int) -> tuple[Array, Array, Array]:
        """The Gaussians at one point given each atom."""
        return self._gaussians_of(row, np.eye(self.shape[1]), 0.0)

    def _gaussians_of(self, row: int, matrix: Array, level_variance: float) -> tuple[Array, Array, Array]:
        """`gaussians` of outputs F̂ Aᵀ, A (k, n_d), at one point, with a level of this variance."""
        scale_values, vectors = self.measure.eigen
        explained = to_numpy(self.projection.explained[row : row + 1, :])
        means = (explained @ self.process.rotated_mean(scale_values, vectors))[:, 0]
        own = self.projection.unexplained_diagonal[row] * scale_values
        seen = (explained**2 @ self.process.shrunken_scale(scale_values))[:, 0]
        variances, outward = own + seen + self.observation_noise + level_variance, matrix @ vectors
        with np.errstate(divide="ignore"):  # weights may have underflowed to zero
            log_weights = np.log(self.measure.weights)
        return (
            log_weights,
            (outward @ means[:, :, None])[:, :, 0],
            (outward * variances[:, None, :]) @ outward.swapaxes(1, 2),
        )

    # ------------------------------------------------------------------ samples

    def _sample(self, size: int, rng: np.random.Generator) -> Array:
        scales = self.measure._sample(size, rng)
        draws = np.empty((size, *self.shape))
        for block in blocks(size, max(draws[0].size, self.process.targets.size)):
            draws[block] = self._sample_given(scales[block], rng)
        return draws

    def _sample_given(self, scales: Array, rng: np.random.Generator) -> Array:
        """One draw from N(μ_L, Σ_L) for each scale: along each eigenvector of L, Φ(mean + √s ξ) + E √l ξ'."""
        values, vectors = np.linalg.eigh(scales)
        values = np.maximum(values, 0.0)
        explained, rest = self.projection.explained, self.projection.unexplained_root
        spread = np.sqrt(self.process.shrunken_scale(values))
        coefficients = self.process.rotated_mean(values, vectors) + spread * rng.standard_normal(spread.shape)
        fresh = rng.standard_normal((len(scales), rest.shape[1], self.shape[1])) * np.sqrt(values)[:, None, :]
        rotated = atoms_at_points(explained, coefficients) + atoms_at_points(rest, fresh)
        function = rotated @ vectors.swapaxes(1, 2)
        return function + math.sqrt(self.observation_noise) * rng.standard_normal(function.shape)

    # ------------------------------------------------------------------ generating functions

    def _cgf(self, source: Array) -> float:
        informed = not math.isinf(self.process.noise_variance)
        if not source_in_domain(
            self.projection, source * self.units, self.measure.tails.exponential_rate, informed
        ):
            return math.inf
        exponent = cumulant_exponent(self.projection, self.process, source)
        return self.measure.log_expect_exp(exponent).real + 0.5 * self.observation_noise * float(
            (source**2).sum()
        )

    def _characteristic(self, source: Array) -> complex:
        exponent = characteristic_exponent(self.projection, self.process, source)
        blur = 0.5 * self.observation_noise * float((source**2).sum())
        return cmath.exp(self.measure.log_expect_exp(exponent) - blur)

    # ------------------------------------------------------------------ observations

    def with_noise(self) -> NetworkPredictive:
        """The predictive of observations Ŷ = F̂ + noise of the covariance τ I + ν L given L."""
        if math.isinf(self.process.noise_variance):
            raise ValueError("observations have finite variance only for beta > 0, got beta=0")
        return replace(self, projection=self.projection.observed(self.coupling), noisy=True)


def _refuse_determined(determined: Mask) -> None:
    """Raise where outputs at a point, (p̂,), are determined and have no density."""
    if determined.any():
        raise ValueError(
            "outputs have a density only at points that the training data do not determine, got "
            f"{np.count_nonzero(determined)} points of variance zero: use with_noise()"
        )


def at_points(features: AnyArray, coefficients: Array) -> Array:
    """Features (p̂, r) times coefficients (r, ...) as one matrix product, NumPy of shape (p̂, ...)."""
    flat = times(features, coefficients.reshape(len(coefficients), math.prod(coefficients.shape[1:])))
    return flat.reshape(len(flat), *coefficients.shape[1:])


def atoms_at_points(features: AnyArray, coefficients: Array) -> Array:
    """Features (p̂, r) times coefficients of atoms (m, r, n_d), NumPy of shape (m, p̂, n_d)."""
    return at_points(features, coefficients.transpose(1, 0, 2)).transpose(1, 0, 2)
