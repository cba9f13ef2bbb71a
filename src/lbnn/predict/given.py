"""Predictives given some of the outputs at each point.

A predictive at one point is a mixture of Gaussians over atoms s with weights w_s, means m_s and covariances
C_s across outputs. Given the values y_K of the outputs K there, it is again one, of the other outputs U,
exactly:

    w_s' ∝ w_s N(y_K; m_sK, C_sKK),    mean m_sU + B_s (y_K − m_sK),    covariance C_sUU − B_s C_sKU,

with B_s = C_sUK C_sKK⁻¹: what was measured says which scales are probable as well as where the others are.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from lbnn._base import check
from lbnn._base.arrays import Device
from lbnn._base.types import AnyArray, Array, IndexArray
from lbnn._base.warn import warn
from lbnn.predict.predictive import Predictive
from lbnn.predict.quantile import mixture_quantile
from lbnn.scale.measure import effective_atoms

LOG_TWO_PI = math.log(2 * math.pi)
_FEWEST_ATOMS = 25.0  # effective draws that a conditional law should rest on


class Conditionable(Predictive):
    """A predictive that can be told outputs."""

    @abstractmethod
    def with_noise(self) -> Conditionable:
        """The predictive of observations rather than of the function."""

    @abstractmethod
    def gaussians(self, row: int) -> tuple[Array, Array, Array]:
        """The Gaussians at one point: log weights (m,), means (m, n_d) and covariances (m, n_d, n_d)."""

    def given(self, Y_partial: ArrayLike) -> ConditionedPredictive:
        """The predictive of each point given the outputs that are known there.

        Parameters
        ----------
        Y_partial : shaped like the mean
            Values of known outputs, NaN for the others. Measured values are known of observations: ask
            `with_noise()` first.

        Returns
        -------
        ConditionedPredictive
            The atoms weighted anew by what is known at the point, then each Gaussian conditioned: exact.
        """
        known = check.like_mean_or_missing(Y_partial, self.shape, self.single_output, "Y_partial")
        return ConditionedPredictive(self, known)


@dataclass(frozen=True)
class PointLaw:
    """The mixture of Gaussians of the unknown outputs at one point."""

    unknown: IndexArray  # numbers of the outputs, (u,)
    log_weights: Array  # normalised, (atoms,)
    means: Array  # (atoms, u)
    covariances: Array  # (atoms, u, u)

    @property
    def weights(self) -> Array:
        return np.exp(self.log_weights)

    @property
    def mean(self) -> Array:
        return self.weights @ self.means

    @property
    def covariance(self) -> Array:
        within = np.tensordot(self.weights, self.covariances, axes=1)
        deviations = self.means - self.mean
        return within + np.einsum("s,sj,sk->jk", self.weights, deviations, deviations)


@dataclass(frozen=True, repr=False)
class ConditionedPredictive(Predictive):
    """Outputs at p̂ points, each given the outputs that are known at that point.

    Returned by `Predictive.given`. Known outputs have their values and no variance. Points are taken one by
    one: what is known at one says nothing of another, and joint laws over points are not offered.

    Attributes
    ----------
    predictive : Conditionable
        Before anything was known.
    known : (p̂, n_d)
        Values of the known outputs, NaN for the others.

    Examples
    --------
    >>> import numpy as np, lbnn
    >>> rng = np.random.default_rng(0)
    >>> X, common = rng.normal(size=(40, 5)), rng.normal(size=(40, 1))
    >>> Y = common @ np.ones((1, 2)) + 0.1 * rng.normal(size=(40, 2))
    >>> post = lbnn.Network(widths=(20,)).condition(X, Y, beta=1.0, noise="coupled")
    >>> law = post.predict(X[:1]).with_noise()
    >>> told = law.given([[2.0, np.nan]])
    >>> bool(told.standard_deviation[0, 1] < 0.5 * law.standard_deviation[0, 1])
    True
    """

    predictive: Conditionable
    known: Array

    @property
    def shape(self) -> tuple[int, int]:
        """(p̂, n_d)."""
        return self.predictive.shape

    @property
    def device(self) -> Device:
        """That of the test points."""
        return self.predictive.device

    @property
    def single_output(self) -> bool:
        """Whether results drop the output axis."""
        return self.predictive.single_output

    @property
    def noisy(self) -> bool:
        """Whether these are observations rather than the function."""
        return self.predictive.noisy

    def _scale_values(self) -> tuple[Array, Array]:
        """Before anything was known."""
        return self.predictive._scale_values()

    # ------------------------------------------------------------------ one point after the other

    def point_laws(self) -> Iterator[PointLaw]:
        """The law of the unknown outputs at each point."""
        few = 0
        for row in range(self.shape[0]):
            log_weights, means, covariances = self.predictive.gaussians(row)
            law = condition(log_weights, means, covariances, self.known[row])
            fewest = min(_FEWEST_ATOMS, 0.5 * float(effective_atoms(log_weights)))
            few += int(len(log_weights) > 1 and float(effective_atoms(law.log_weights)) < fewest)
            yield law
        if few:
            warn(
                f"what is known at {few} of {self.shape[0]} points leaves fewer than {_FEWEST_ATOMS:g} "
                "effective draws of the scale: condition with a smaller target_error, or doubt the values"
            )

    @cached_property
    def _moments(self) -> tuple[Array, Array]:
        outputs = self.shape[1]
        mean = np.where(np.isnan(self.known), 0.0, self.known)
        covariance = np.zeros((len(mean), outputs, outputs))
        for row, law in enumerate(self.point_laws()):
            mean[row, law.unknown] = law.mean
            covariance[row][np.ix_(law.unknown, law.unknown)] = law.covariance
        return mean, covariance

    @property
    def _mean(self) -> Array:
        """(p̂, n_d)."""
        return self._moments[0].copy()

    @property
    def _output_covariance(self) -> Array:
        """Covariance across outputs at each point, (p̂, n_d, n_d); zero for known outputs."""
        return self._moments[1]

    @property
    def _covariance(self) -> AnyArray:
        """Offered for one point only."""
        if self.shape[0] > 1:
            self._refuse("covariance over points")
        return self.device.put(self._moments[1][0][None, :, None, :])

    def _quantiles(self, levels: Sequence[float]) -> Array:
        result = np.stack([np.where(np.isnan(self.known), 0.0, self.known)] * len(levels))
        for row, law in enumerate(self.point_laws()):
            if len(law.unknown):
                deviations = np.sqrt(np.diagonal(law.covariances, axis1=1, axis2=2))
                for number, level in enumerate(levels):
                    solved = mixture_quantile(level, law.weights, law.means, deviations)
                    result[number, row, law.unknown] = solved
        return result

    def marginals(self, rows: slice) -> tuple[Array, Array, Array]:
        """For one point: weights of the atoms, means and deviations; known outputs have their values."""
        law = self._only_law("common weights of points")
        means = np.broadcast_to(self.known, (len(law.weights), *self.shape)).copy()
        deviations = np.zeros_like(means)
        means[:, 0, law.unknown] = law.means
        deviations[:, 0, law.unknown] = np.sqrt(np.diagonal(law.covariances, axis1=1, axis2=2))
        return law.weights, means[:, rows], deviations[:, rows]

    def _sample(self, size: int, rng: np.random.Generator) -> Array:
        """Each point by itself."""
        draws = np.broadcast_to(np.where(np.isnan(self.known), 0.0, self.known), (size, *self.shape)).copy()
        for row, law in enumerate(self.point_laws()):
            if len(law.unknown):
                atoms = rng.choice(len(law.weights), size=size, p=law.weights / law.weights.sum())
                values, vectors = np.linalg.eigh(law.covariances[atoms])
                noise = np.sqrt(np.maximum(values, 0.0)) * rng.standard_normal((size, len(law.unknown)))
                draws[:, row, law.unknown] = law.means[atoms] + (vectors @ noise[:, :, None])[:, :, 0]
        return draws

    def _pointwise_log_density(self, values: Array) -> Array:
        """Of the unknown outputs; those that are known are not looked at."""
        result = np.zeros(self.shape[0])
        for row, law in enumerate(self.point_laws()):
            if len(law.unknown):
                terms = log_gaussian(values[row, law.unknown] - law.means, law.covariances)
                result[row] = special.logsumexp(law.log_weights + terms)
        return result

    def _log_density(self, values: Array) -> float:
        if self.shape[0] > 1:
            self._refuse("a joint density over points")
        return float(self._pointwise_log_density(values)[0])

    def _cgf(self, source: Array) -> float:
        return float(self._log_transform(source + 0j).real)

    def _characteristic(self, source: Array) -> complex:
        return complex(np.exp(self._log_transform(1j * source)))

    def _log_transform(self, source: Any) -> complex:
        """Log E exp(Σ_j J_j F̂_j) at one point, a sum over Gaussians."""
        law = self._only_law("generating functions")
        inner = source[0, law.unknown]
        linear = law.means @ inner + 0.5 * np.einsum("j,sjk,k->s", inner, law.covariances, inner)
        known = ~np.isnan(self.known[0])
        fixed = (source[0, known] * self.known[0, known]).sum()
        return complex(special.logsumexp(linear + law.log_weights) + fixed)

    def _only_law(self, what: str) -> PointLaw:
        if self.shape[0] > 1:
            self._refuse(what)
        return next(iter(self.point_laws()))

    def with_noise(self) -> ConditionedPredictive:
        """Itself, where what is known are observations."""
        if not self.noisy:
            raise ValueError(
                "what is known must be observations if observations are predicted, got a function given "
                "some of its values: use with_noise().given(...)"
            )
        return self

    def _refuse(self, what: str) -> NoReturn:
        raise ValueError(
            f"given some outputs, points are taken one by one and {what} are not offered, got "
            f"{self.shape[0]} points: use output_covariance, quantile, sample or pointwise_log_density"
        )


def condition(log_weights: Array, means: Array, covariances: Array, known: Array) -> PointLaw:
    """The mixture (atoms,), (atoms, n_d), (atoms, n_d, n_d) given values (n_d,), NaN where unknown."""
    unknown, given = np.flatnonzero(np.isnan(known)), np.flatnonzero(~np.isnan(known))
    if not len(given) or not len(unknown):
        return PointLaw(unknown, log_weights, means[:, unknown], covariances[:, unknown][:, :, unknown])
    own = covariances[:, given][:, :, given]
    cross = covariances[:, unknown][:, :, given]
    deviation = known[given] - means[:, given]
    gain = np.linalg.solve(own, cross.swapaxes(1, 2)).swapaxes(1, 2)
    log_new = log_weights + log_gaussian(deviation, own)
    return PointLaw(
        unknown,
        log_new - special.logsumexp(log_new),
        means[:, unknown] + (gain @ deviation[:, :, None])[:, :, 0],
        covariances[:, unknown][:, :, unknown] - gain @ cross.swapaxes(1, 2),
    )


def log_gaussian(deviations: Array, covariances: Array) -> Array:
    """log N(deviation; 0, C) for (atoms, k) and (atoms, k, k), (atoms,)."""
    root = np.linalg.cholesky(covariances)
    white = np.linalg.solve(root, deviations[:, :, None])[:, :, 0]
    log_determinant = np.log(np.diagonal(root, axis1=1, axis2=2)).sum(axis=1)
    return -0.5 * (white**2).sum(axis=1) - log_determinant - 0.5 * deviations.shape[1] * LOG_TWO_PI
