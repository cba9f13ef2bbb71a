"""AtomPredictive: a mixture of Gaussians over draws of the scale, where these share no eigenvectors.

Views and missing cells leave no basis in which the Gaussian process given a scale is diagonal. So each draw s
has a mean and a covariance of its own at the test points, computed once from the data.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy import special

from lbnn._base.arrays import HOST, Device
from lbnn._base.types import AnyArray, Array, IndexArray, Mask
from lbnn._base.warn import warn
from lbnn.likelihood.views import ViewLikelihood
from lbnn.predict.given import log_gaussian
from lbnn.predict.predictive import LogTails, Predictive, log_average
from lbnn.scale.measure import ExtendableLaw, Law, effective_atoms

#: Operations of a gradient, summed over the points and models that are integrated anew in one call: about a
#: minute (57 s for nine models at one point, 141 observations).
MOST_WORK = 1.2e8
_FEWEST_ATOMS = 50.0  # effective draws that a density should rest on, as for complete tables


@dataclass(frozen=True, repr=False)
class AtomPredictive(Predictive):
    """Outputs at p̂ test points given weighted draws of the scale.

    Attributes
    ----------
    weights : (m,)
        Of the draws, normalised.
    means : (m, p̂, n)
        Given each draw.
    covariances : function of a slice of points -> (m, rows, n, n)
        Across outputs at single points, given each draw, of the function.
    joint : function of the number of a draw -> (p̂ n, p̂ n)
        Over points and outputs, of the function.
    scales : (m, M, M)
        The draws.
    noise : float
        Noise variance τ of an observation.
    single_output : bool
    noisy : bool
        Whether these are observations.
    coupling : float
        ν: given a draw L, of all outputs, an observation has noise of the covariance τ I + ν L.
    law : Law, optional
        The posterior behind the draws.
    extended : function of (point, values (n,), noise variance, ν) -> ViewLikelihood, optional
        Likelihood of the data and of one point with them. Where few draws count for a point, its log density
        is the log evidence of both less that of the data.
    """

    weights: Array
    means: Array
    covariances: Callable[[slice], Array]
    joint: Callable[[int], Array]
    scales: Array
    noise: float
    single_output: bool = True
    noisy: bool = False
    coupling: float = 0.0
    law: Law | None = None
    extended: Callable[[int, Array, float, float], ViewLikelihood] | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """(p̂, n)."""
        return self.means.shape[1], self.means.shape[2]

    @property
    def device(self) -> Device:
        """NumPy."""
        return HOST

    @property
    def observation_noise(self) -> float:
        """τ for observations, 0 for the function."""
        return self.noise if self.noisy else 0.0

    @property
    def _coupling(self) -> float:
        """ν for observations, 0 for the function."""
        return self.coupling if self.noisy else 0.0

    def _joint_observed(self, number: int) -> Array:
        """Covariance over points and outputs given one draw, with noise, (p̂ n, p̂ n)."""
        points, outputs = self.shape
        own = self.observation_noise * np.eye(points * outputs)
        if self._coupling:
            own += np.kron(np.eye(points), self._coupling * self.scales[number])
        return self.joint(number) + own

    def _scale_values(self) -> tuple[Array, Array]:
        """Eigenvalues of all draws."""
        values = np.asarray(np.linalg.eigvalsh(self.scales), float)
        return values.ravel(), np.repeat(self.weights, values.shape[1])

    # ------------------------------------------------------------------ moments

    @property
    def _mean(self) -> Array:
        return np.asarray(np.tensordot(self.weights, self.means, axes=1))

    @cached_property
    def _output_covariance(self) -> Array:
        """Law of total covariance, (p̂, n, n)."""
        return self._covariance_with(np.eye(self.shape[1]), 0.0)

    def _covariance_with(self, matrix: Array, level_variance: float) -> Array:
        """Of outputs F̂ Aᵀ with a level of this variance, (p̂, outputs, outputs)."""
        within = np.tensordot(self.weights, self.covariances(slice(None)), axes=1)
        within = within + (self.observation_noise + level_variance) * np.eye(self.shape[1])
        if self._coupling:
            within = within + self._coupling * np.tensordot(self.weights, self.scales, axes=1)
        deviations = np.sqrt(self.weights)[:, None, None] * (self.means - self._mean)
        between = np.einsum("smj,smk->mjk", deviations, deviations)
        return np.asarray(matrix @ (within + between) @ matrix.T)

    def variance_of(self, matrix: Array) -> Array:
        """Variances of outputs F̂ Aᵀ at every point, (p̂, outputs)."""
        return np.diagonal(self._covariance_with(matrix, 0.0), axis1=1, axis2=2).copy()

    @property
    def _covariance(self) -> AnyArray:
        points, outputs = self.shape
        deviations = np.sqrt(self.weights)[:, None] * (self.means - self._mean).reshape(len(self.means), -1)
        total = deviations.T @ deviations
        for number in np.flatnonzero(self.weights):
            total += self.weights[number] * self._joint_observed(int(number))
        return total.reshape(points, outputs, points, outputs)

    # ------------------------------------------------------------------ densities

    def _log_density(self, values: Array) -> float:
        return self.log_density_with_level(values, 0.0)

    def log_density_with_level(self, values: Array, level_variance: float) -> float:
        """Joint log density of values (p̂, n_d) with a level of this variance that all points share."""
        points, outputs = self.shape
        if points == 1:
            return float(self._pointwise_with_level(values, level_variance)[0])
        level = level_variance * np.kron(np.ones((points, points)), np.eye(outputs))
        terms = np.full(len(self.weights), -np.inf)
        for number in np.flatnonzero(self.weights):
            deviation = (values - self.means[number]).reshape(1, -1)
            whole = self._joint_observed(int(number)) + level
            terms[number] = _checked_log_gaussian(deviation, whole[None])[0]
        warn_of_few(self.rest_on_few(terms[:, None]))
        return float(log_average(self.weights, terms))

    def _pointwise_log_density(self, values: Array) -> Array:
        return self._pointwise_with_level(values, 0.0)

    def _pointwise_with_level(self, values: Array, level_variance: float) -> Array:
        """Log density of values (p̂, n) at each point with a level of this variance, (p̂,)."""
        terms = self.point_log_densities(values, level_variance)
        result = log_average(self.weights, terms)
        few = self.rest_on_few(terms)
        if self.extended is not None and isinstance(self.law, ExtendableLaw):
            noise, work = self.observation_noise + level_variance, 0.0
            for point in np.flatnonzero(few).tolist():
                joint = self.extended(point, values[point], noise, self._coupling)
                work += joint.operations
                if work > MOST_WORK:
                    break
                result[point], few[point] = self.law.log_ratio(joint), False
        warn_of_few(few)
        return result

    def _integral_work(self) -> float:
        if self.extended is None or not isinstance(self.law, ExtendableLaw):
            return 0.0
        return self.extended(0, self._mean[0], self.observation_noise, self._coupling).operations

    def rest_on_few(self, terms: Array) -> Mask:
        """Where few draws count in log densities (atoms, k), as at outliers, (k,)."""
        if len(self.weights) == 1:
            return np.zeros(terms.shape[1], bool)
        with np.errstate(divide="ignore"):
            log_terms = np.log(self.weights)[:, None] + terms
        fewest = min(_FEWEST_ATOMS, 0.5 / float((self.weights**2).sum()))
        return np.asarray(effective_atoms(log_terms) < fewest)

    def _point_terms(
        self, values: Array, level_variance: float = 0.0, rows: slice = slice(None)
    ) -> Array | None:
        """Log of weight and density of draws at some points, (m, rows)."""
        with np.errstate(divide="ignore"):
            log_weights = np.log(self.weights)[:, None]
        return np.asarray(log_weights + self.point_log_densities(values, level_variance, rows))

    def point_log_densities(
        self, values: Array, level_variance: float = 0.0, rows: slice = slice(None)
    ) -> Array:
        """Log density of values (rows, n) at some points given each draw, (m, rows)."""
        covariances = self._observed(rows, level_variance)
        count, points, outputs = covariances.shape[:3]
        deviations = (values - self.means[:, rows]).reshape(-1, outputs)
        flat = _checked_log_gaussian(deviations, covariances.reshape(-1, outputs, outputs))
        return flat.reshape(count, points)

    def _observed(self, rows: slice, level_variance: float) -> Array:
        """Covariances (atoms, rows, n_d, n_d) with noise and level."""
        own = self.observation_noise + level_variance
        result = self.covariances(rows) + own * np.eye(self.shape[1])
        return result + self._coupling * self.scales[:, None] if self._coupling else np.asarray(result)

    # ------------------------------------------------------------------ quantiles and draws

    def marginals(self, rows: slice) -> tuple[Array, Array, Array]:
        """Weights of the draws, and the Gaussians at some points given each of them."""
        return self.marginals_of(rows, np.eye(self.shape[1]), 0.0)

    def marginals_of(self, rows: slice, matrix: Array, level_variance: float) -> tuple[Array, Array, Array]:
        """`marginals` of outputs F̂ Aᵀ, A (k, n_d), with a level of this variance."""
        variances = np.einsum(
            "kj,smjl,kl->smk", matrix, self._observed(rows, level_variance), matrix, optimize=True
        )
        return self.weights, self.means[:, rows] @ matrix.T, np.sqrt(variances)

    def log_tails_with_level(
        self, rows: IndexArray, values: Array, sign: float, level_variance: float
    ) -> LogTails | None:
        """None, for points rows (k,) and values (k,): there is nothing beside the draws."""
        return None

    def gaussians(self, row: int) -> tuple[Array, Array, Array]:
        """The Gaussians at one point given each draw."""
        return self._gaussians_of(row, np.eye(self.shape[1]), 0.0)

    def _gaussians_of(self, row: int, matrix: Array, level_variance: float) -> tuple[Array, Array, Array]:
        """`gaussians` of outputs F̂ Aᵀ, A (k, n_d), at one point, with a level of this variance."""
        covariances = self._observed(slice(row, row + 1), level_variance)[:, 0]
        with np.errstate(divide="ignore"):  # weights may have underflowed to zero
            log_weights = np.log(self.weights)
        return log_weights, self.means[:, row] @ matrix.T, matrix @ covariances @ matrix.T

    def _sample(self, size: int, rng: np.random.Generator) -> Array:
        chosen, counts = np.unique(
            rng.choice(len(self.weights), size=size, p=self.weights), return_counts=True
        )
        parts = []
        for number, count in zip(chosen, counts, strict=True):
            values, vectors = np.linalg.eigh(self._joint_observed(int(number)))
            white = np.sqrt(np.maximum(values, 0.0)) * rng.standard_normal((count, len(values)))
            parts.append(self.means[number] + (white @ vectors.T).reshape(count, *self.shape))
        return np.concatenate(parts)[rng.permutation(size)]

    # ------------------------------------------------------------------ generating functions

    def _cgf(self, source: Array) -> float:
        """Where it is infinite depends on the scales that no draw reaches: not offered."""
        raise ValueError(
            "moment generating functions are not available for draws without common axes, which do not say "
            "where they are infinite: use characteristic, which exists everywhere"
        )

    def _characteristic(self, source: Array) -> complex:
        flat = source.ravel()
        phases = self.means.reshape(len(self.means), -1) @ flat
        joints = map(self._joint_observed, range(len(self.weights)))
        spreads = np.array([flat @ joint @ flat for joint in joints])
        return complex(np.exp(special.logsumexp(1j * phases - 0.5 * spreads, b=self.weights)))

    # ------------------------------------------------------------------ observations

    def with_noise(self) -> AtomPredictive:
        """The predictive of observations rather than of the function."""
        return replace(self, noisy=True)


def warn_of_few(few: Mask, fewest: float = _FEWEST_ATOMS) -> None:
    """Warn of densities (k,) for which only few draws count."""
    if few.any():
        warn(
            f"{np.count_nonzero(few)} of {len(few)} densities rest on fewer than {fewest:g} effective "
            "draws of the scale, as at outliers: do not rely on them, or on averages that include them; the "
            "log evidence with these rows among the data minus that without them is exact"
        )


def _checked_log_gaussian(deviations: Array, covariances: Array) -> Array:
    """log N(deviation; 0, C), (k,); a ValueError where an output is determined and has no density."""
    try:
        return log_gaussian(deviations, covariances)
    except np.linalg.LinAlgError as error:
        raise ValueError(
            "outputs have a density only where neither the data nor other points determine them, got a "
            "covariance that is singular: use with_noise()"
        ) from error
