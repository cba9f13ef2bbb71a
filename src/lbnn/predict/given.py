"""Predictives given some of the outputs at each point: draws weighted anew, each Gaussian conditioned."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from lbnn._base import check
from lbnn._base.arrays import Device
from lbnn._base.types import AnyArray, Array
from lbnn._base.warn import warn
from lbnn.predict.gaussian import PointLaw, condition, log_gaussian
from lbnn.predict.mixture import Mixture
from lbnn.predict.quantile import mixture_quantile
from lbnn.scale.measure import effective_atoms

_FEWEST_DRAWS = 25.0  # effective draws that a conditional law should rest on


@dataclass(frozen=True, repr=False)
class Given(Mixture):
    """Outputs at p̂ points, each given the outputs that are known at that point.

    Returned by `Predictive.given`. Known outputs have their values and no variance. Points are taken one by
    one: what is known at one point says nothing about another, and joint distributions over points are not
    available.

    Attributes
    ----------
    predictive : Mixture
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
    >>> conditioned = law.given([[2.0, np.nan]])
    >>> bool(conditioned.standard_deviation[0, 1] < 0.5 * law.standard_deviation[0, 1])
    True
    """

    predictive: Mixture
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
    def single_output(self) -> bool:  # type: ignore[override]
        """Whether results drop the output axis."""
        return self.predictive.single_output

    @property
    def noisy(self) -> bool:
        """Whether these are observations rather than the function."""
        return self.predictive.noisy

    def given(self, Y_partial: ArrayLike) -> Given:
        """The same with more known outputs; values of one output at one point must not contradict.

        Parameters
        ----------
        Y_partial : shaped like the mean
            Values of known outputs, NaN for the others.
        """
        more = check.like_mean_or_missing(Y_partial, self.shape, self.single_output, "Y_partial")
        both = ~np.isnan(more) & ~np.isnan(self.known)
        if (more[both] != self.known[both]).any():
            raise ValueError(
                "an output that is known at a point cannot be given another value, got "
                f"{np.count_nonzero(more[both] != self.known[both])} values that differ: start from the "
                "predictive without them"
            )
        return replace(self, known=np.where(np.isnan(more), self.known, more))

    def gaussians(self, row: int) -> tuple[Array, Array, Array]:
        """The Gaussians at one point; known outputs have their values and no variance."""
        law = condition(*self.predictive.gaussians(row), self.known[row])
        count, outputs = len(law.log_weights), self.shape[1]
        means = np.broadcast_to(self.known[row], (count, outputs)).copy()
        covariances = np.zeros((count, outputs, outputs))
        means[:, law.unknown] = law.means
        covariances[:, law.unknown[:, None], law.unknown] = law.covariances
        return law.log_weights, means, covariances

    # ------------------------------------------------------------------ one point after the other

    def _point_laws(self) -> Iterator[PointLaw]:
        """The law of the unknown outputs at each point."""
        few = 0
        for row in range(self.shape[0]):
            log_weights, means, covariances = self.predictive.gaussians(row)
            law = condition(log_weights, means, covariances, self.known[row])
            fewest = min(_FEWEST_DRAWS, 0.5 * float(effective_atoms(log_weights)))
            few += int(len(log_weights) > 1 and float(effective_atoms(law.log_weights)) < fewest)
            yield law
        if few:
            warn(
                f"what is known at {few} of {self.shape[0]} points leaves fewer than {_FEWEST_DRAWS:g} "
                "effective draws of the scale: use a smaller target_error, or do not rely on the values"
            )

    @cached_property
    def _moments(self) -> tuple[Array, Array]:
        """Means (p̂, n_d) and covariances across outputs (p̂, n_d, n_d)."""
        outputs = self.shape[1]
        mean = np.where(np.isnan(self.known), 0.0, self.known)
        covariance = np.zeros((len(mean), outputs, outputs))
        for row, law in enumerate(self._point_laws()):
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
    def _variance(self) -> Array:
        return np.diagonal(self._moments[1], axis1=1, axis2=2).copy()

    @property
    def _covariance(self) -> AnyArray:
        """Offered for one point only."""
        if self.shape[0] > 1:
            self._refuse("covariance over points")
        return self.device.put(self._moments[1][0][None, :, None, :])

    def _quantiles(self, levels: Sequence[float]) -> Array:
        result = np.stack([np.where(np.isnan(self.known), 0.0, self.known)] * len(levels))
        for row, law in enumerate(self._point_laws()):
            if len(law.unknown):
                deviations = law.deviations
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
        deviations[:, 0, law.unknown] = law.deviations
        return law.weights, means[:, rows], deviations[:, rows]

    def _sample(self, size: int, rng: np.random.Generator) -> Array:
        """Each point by itself."""
        draws = np.broadcast_to(np.where(np.isnan(self.known), 0.0, self.known), (size, *self.shape)).copy()
        for row, law in enumerate(self._point_laws()):
            if len(law.unknown):
                atoms = rng.choice(len(law.weights), size=size, p=law.weights / law.weights.sum())
                values, vectors = np.linalg.eigh(law.covariances[atoms])
                noise = np.sqrt(np.maximum(values, 0.0)) * rng.standard_normal((size, len(law.unknown)))
                draws[:, row, law.unknown] = law.means[atoms] + (vectors @ noise[:, :, None])[:, :, 0]
        return draws

    def _pointwise_log_density(self, values: Array) -> Array:
        """Of the unknown outputs; those that are known are not looked at."""
        result = np.zeros(self.shape[0])
        for row, law in enumerate(self._point_laws()):
            if len(law.unknown):
                terms = log_gaussian(values[row, law.unknown] - law.means, law.covariances)
                result[row] = special.logsumexp(law.log_weights + terms)
        return result

    def _log_density(self, values: Array) -> float:
        if self.shape[0] > 1:
            self._refuse("a joint density over points")
        return float(self._pointwise_log_density(values)[0])

    def _cgf(self, source: Array) -> float:
        """Infinite where it is before anything was known.

        Along directions of the scale that leave the known outputs as they are, large scales are no less
        probable given these, up to powers.
        """
        result = float(self._log_transform(source + 0j).real)
        unknown = np.where(np.isnan(self.known), source, 0.0)
        return result if math.isfinite(self.predictive._cgf(unknown)) else math.inf

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
        return next(iter(self._point_laws()))

    def _without_groups(self) -> Iterator[list[Mixture]]:
        for laws in self.predictive._without_groups():
            yield [replace(self, predictive=law) for law in laws]

    def with_noise(self) -> Given:
        """Itself, where what is known are observations."""
        if not self.noisy:
            raise ValueError(
                "what is known must be observations if observations are predicted, got a function given "
                "some of its values: use with_noise().given(...)"
            )
        return self

    def _refuse(self, what: str) -> NoReturn:
        raise ValueError(
            f"given some outputs, points are taken one by one and {what} are not available, got "
            f"{self.shape[0]} points: use output_covariance, quantile, sample or pointwise_log_density"
        )
