"""Predictive: what every predictive answers, and what can be written once for all of them.

Every predictive is a mixture of Gaussians over points and outputs, so that its quantiles follow from the
means and deviations of its components at each point (`marginals`), and most else from a few statistics.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from lbnn._base import check
from lbnn._base.arrays import Device, namespace
from lbnn._base.blocks import blocks
from lbnn._base.html import card, density_picture
from lbnn._base.types import AnyArray, Array, IndexArray, Mask
from lbnn._base.warn import warn
from lbnn.predict.given import PointLaw, condition, log_gaussian
from lbnn.predict.quantile import mixture_quantile, tail_quantile
from lbnn.scale.measure import effective_atoms

_LARGEST_EXPONENT = 709.0  # whose exponential is a double
_MARGINAL_FLOATS = 1 << 21  # means of one block of points given every atom
_FEWEST_ATOMS = 25.0  # effective draws that a conditional law should rest on
_SETTLED_POINTS = 4096  # of which far quantiles are solved for together


@dataclass(frozen=True)
class LogTails:
    """Tail probabilities and densities at points, in logarithms, and where atoms did not give them."""

    probability: Array  # (k,)
    density: Array  # (k,)
    anew: Mask  # (k,)

    @classmethod
    def unknown(cls, count: int) -> LogTails:
        """Of so many points, to be filled."""
        return cls(np.full(count, np.nan), np.full(count, np.nan), np.zeros(count, bool))


class Predictive(ABC):
    """The law of outputs at p̂ test points: of the function, or after `with_noise()` of observations.

    Shapes below lose the output axis when Y was one-dimensional. Arrays with a row for every test point are
    of the library and on the device of X_test; single numbers are Python's.

    Examples
    --------
    >>> import numpy as np, lbnn
    >>> rng = np.random.default_rng(0)
    >>> X, X_test = rng.normal(size=(10, 30)), rng.normal(size=(3, 30))
    >>> pred = lbnn.Network(widths=(20, 20)).condition(X, X[:, 0], beta=100.0).predict(X_test)
    >>> isinstance(pred, lbnn.Predictive)
    True
    >>> low, high = pred.interval(0.9)
    >>> bool((low < pred.mean).all() and (pred.mean < high).all())
    True
    """

    # ------------------------------------------------------------------ what it is

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """(p̂, n_d)."""

    @property
    @abstractmethod
    def device(self) -> Device:
        """Library and device of the test points."""

    @property
    @abstractmethod
    def single_output(self) -> bool:
        """Whether results drop the output axis."""

    @property
    @abstractmethod
    def noisy(self) -> bool:
        """Whether these are observations rather than the function."""

    def __repr__(self) -> str:
        """One line: points and outputs."""
        return f"{type(self).__name__}(points={self.shape[0]}, outputs={self.shape[1]}, noisy={self.noisy})"

    def _repr_html_(self) -> str:
        """A small table with a picture of the scale's law, for notebooks."""
        mean = self._mean
        deviation = np.sqrt(np.diagonal(self._output_covariance, axis1=1, axis2=2))
        rows = [
            ("points × outputs", f"{self.shape[0]} × {self.shape[1]}"),
            ("of", "observations" if self.noisy else "the function"),
            ("means", f"{mean.min():.4g} to {mean.max():.4g}"),
            ("standard deviations", f"{deviation.min():.4g} to {deviation.max():.4g}"),
        ]
        return card(type(self).__name__, rows, density_picture(*self._scale_values(), "scale"))

    @abstractmethod
    def _scale_values(self) -> tuple[Array, Array]:
        """Eigenvalues of the scales behind the mixture and their weights, (k,) each: for a picture."""

    # ------------------------------------------------------------------ moments

    @property
    def mean(self) -> AnyArray:
        """⟨F̂⟩, (p̂, n_d)."""
        return self._given_back(self._mean)

    @property
    def output_covariance(self) -> AnyArray:
        """Covariance across outputs at each point, (p̂, n_d, n_d)."""
        return self.device.put(self._output_covariance.copy())

    @property
    def covariance(self) -> AnyArray:
        """Covariance over points and outputs, (p̂, n_d, p̂, n_d), or (p̂, p̂) when Y was one-dimensional."""
        full = self._covariance
        return full[:, 0, :, 0] if self.single_output else full

    @property
    def variance(self) -> AnyArray:
        """Variance of every output at every point, (p̂, n_d)."""
        return self._given_back(self._variance)

    @property
    def standard_deviation(self) -> AnyArray:
        """Square root of `variance`, (p̂, n_d)."""
        variance = self.variance
        return namespace(variance).sqrt(variance)

    @property
    @abstractmethod
    def _mean(self) -> Array:
        """(p̂, n_d), as NumPy."""

    @property
    def _variance(self) -> Array:
        """(p̂, n_d), as NumPy."""
        return np.diagonal(self._output_covariance, axis1=1, axis2=2).copy()

    @property
    @abstractmethod
    def _output_covariance(self) -> Array:
        """(p̂, n_d, n_d), as NumPy."""

    @property
    @abstractmethod
    def _covariance(self) -> AnyArray:
        """(p̂, n_d, p̂, n_d), where the test points are."""

    # ------------------------------------------------------------------ densities

    def log_density(self, F: ArrayLike) -> float:
        """Joint log density over all points and outputs at F, shaped like the mean.

        Infinite where narrow layers give the density a pole.

        Raises
        ------
        ValueError
            If the law has no density because some outputs are determined by others (linearly dependent
            points) or by the data (training points at zero temperature), or if it is not available.
        """
        return self._log_density(check.like_mean(F, self.shape, self.single_output, "F"))

    def pointwise_log_density(self, F: ArrayLike) -> AnyArray:
        """Log density at each point by itself, jointly over outputs, (p̂,).

        Computed from the atoms of the scale. Where few of them are effective, as at outliers, it is a
        separate integral, as `log_density` at that point would be.
        """
        values = check.like_mean(F, self.shape, self.single_output, "F")
        return self.device.put(self._pointwise_log_density(values))

    @abstractmethod
    def _log_density(self, values: Array) -> float:
        """At values (p̂, n_d)."""

    @abstractmethod
    def _pointwise_log_density(self, values: Array) -> Array:
        """At values (p̂, n_d)."""

    def _integral_work(self) -> float:
        """Operations of a gradient of an integral for the density at one point, where these are bounded."""
        return 0.0

    # ------------------------------------------------------------------ quantiles and draws

    def _point_terms(self, values: Array, *, rows: slice = slice(None)) -> Array | None:
        """Log of weight and density of atoms at some points, (atoms, rows); None where there are none."""
        return None

    @abstractmethod
    def marginals(self, rows: slice) -> tuple[Array, Array, Array]:
        """Weights (atoms,), means and standard deviations (atoms, rows, n_d) of the Gaussians at points."""

    def quantile(self, q: ArrayLike) -> AnyArray:
        """Quantiles of every output at every point, of shape np.shape(q) + shape of the mean."""
        levels = check.probability(q, "q")
        result = self._quantiles([float(level) for level in levels.ravel()])
        return self._given_back(result.reshape(levels.shape + self.shape))

    def interval(self, probability: float = 0.95) -> tuple[AnyArray, AnyArray]:
        """Equal-tailed interval of every output at every point: two ends, each shaped like the mean."""
        level = float(check.probability(probability, "probability"))
        low, high = self._quantiles([(1 - level) / 2, (1 + level) / 2])
        return self._given_back(low), self._given_back(high)

    def _quantiles(self, levels: Sequence[float]) -> Array:
        """(levels, p̂, n_d). Marginals have work of their own for every atom: few, large blocks of points."""
        result, atoms = np.empty((len(levels), *self.shape)), len(self.marginals(slice(0, 1))[0])
        for rows in blocks(self.shape[0], atoms * max(self.shape[1], 8), _MARGINAL_FLOATS):
            marginals = self.marginals(rows)
            for number, level in enumerate(levels):
                result[number, rows] = mixture_quantile(level, *marginals)
        for number, level in enumerate(levels):
            self._settle_quantiles(level, result[number])
        return result

    def _settle_quantiles(self, level: float, values: Array) -> None:
        """Improve, in place, quantiles (p̂, 1) that the atoms do not resolve, as in far tails."""
        sign = 1.0 if level <= 0.5 else -1.0
        for rows in blocks(self.shape[0], 1, _SETTLED_POINTS):
            index = np.arange(self.shape[0])[rows]
            tails = self.log_tails(index, values[index, 0], sign) if self.shape[1] == 1 else None
            if tails is not None and tails.anew.any():
                far = index[tails.anew]

                def log_tails(here: IndexArray, q: Array, far: IndexArray = far) -> tuple[Array, Array]:
                    """Log probabilities and densities at q (k,) of the points `here` (k,)."""
                    found = self.log_tails(far[here], q, sign)
                    assert found is not None
                    return found.probability, found.density

                values[far, 0] = tail_quantile(level, values[far, 0], log_tails)

    def log_tails(self, rows: IndexArray, values: Array, sign: float) -> LogTails | None:
        """Probabilities below (sign 1) or above (−1) a value (k,) of one output at some points.

        None where the atoms are all that is known.
        """
        return None

    def sample(self, size: int, seed: int | np.random.Generator) -> AnyArray:
        """Draw jointly over points and outputs.

        Parameters
        ----------
        size : int
        seed : int or numpy.random.Generator

        Returns
        -------
        (size, p̂, n_d) array, or (size, p̂) when Y was one-dimensional
        """
        return self._given_back(self._sample(check.positive_integer(size, "size"), check.generator(seed)))

    @abstractmethod
    def _sample(self, size: int, rng: np.random.Generator) -> Array:
        """(size, p̂, n_d)."""

    # ------------------------------------------------------------------ generating functions

    def mgf(self, J: ArrayLike) -> float:
        """Z(J) = E exp(tr JᵀF̂), for J shaped like the mean; inf where the integral diverges.

        With R the part of G_x̂x̂ that the training inputs leave unexplained: at depth two it converges
        where the largest eigenvalue of JᵀRJ is below n_1, in deeper networks only where RJ = 0.
        """
        exponent = self.cgf(J)
        return math.exp(exponent) if exponent < _LARGEST_EXPONENT else math.inf

    def cgf(self, J: ArrayLike) -> float:
        """Log Z(J), the cumulant generating function, J shaped like the mean; inf where Z diverges."""
        return self._cgf(check.like_mean(J, self.shape, self.single_output, "J"))

    def characteristic(self, J: ArrayLike) -> complex:
        """E exp(i tr JᵀF̂), for J shaped like the mean; exists for every J."""
        return self._characteristic(check.like_mean(J, self.shape, self.single_output, "J"))

    @abstractmethod
    def _cgf(self, source: Array) -> float:
        """At a source (p̂, n_d)."""

    @abstractmethod
    def _characteristic(self, source: Array) -> complex:
        """At a source (p̂, n_d)."""

    # ------------------------------------------------------------------ known outputs, observations

    @abstractmethod
    def gaussians(self, row: int) -> tuple[Array, Array, Array]:
        """The Gaussians at one point: log weights (m,), means (m, n_d) and covariances (m, n_d, n_d)."""

    def given(self, Y_partial: ArrayLike) -> ConditionedPredictive:
        """The predictive of each point given the outputs that are known there.

        Parameters
        ----------
        Y_partial : shaped like the mean
            Values of known outputs, NaN for the others. For measured values call `with_noise()` first.

        Returns
        -------
        ConditionedPredictive
            The exact conditional distribution: the atoms are reweighted by the known values, and each
            Gaussian is conditioned on them.
        """
        known = check.like_mean_or_missing(Y_partial, self.shape, self.single_output, "Y_partial")
        return ConditionedPredictive(self, known)

    @abstractmethod
    def with_noise(self) -> Predictive:
        """The predictive of observations rather than of the function."""

    def _given_back(self, values: Array) -> AnyArray:
        """Values (..., p̂, n_d) without the output axis where Y had none, instead of the test points."""
        return self.device.put(values[..., 0] if self.single_output else values)


@dataclass(frozen=True, repr=False)
class PredictiveOfAnother(Predictive):
    """A predictive made from another one, at the same points and of the same outputs."""

    predictive: Predictive

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


@dataclass(frozen=True, repr=False)
class ConditionedPredictive(PredictiveOfAnother):
    """Outputs at p̂ points, each given the outputs that are known at that point.

    Returned by `Predictive.given`. Known outputs have their values and no variance. Points are taken one by
    one: what is known at one point says nothing about another, and joint distributions over points are not
    available.

    Attributes
    ----------
    predictive : Predictive
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

    known: Array

    def _scale_values(self) -> tuple[Array, Array]:
        """Before anything was known."""
        return self.predictive._scale_values()

    def given(self, Y_partial: ArrayLike) -> ConditionedPredictive:
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
                "effective draws of the scale: use a smaller target_error, or do not rely on the values"
            )

    @cached_property
    def _moments(self) -> tuple[Array, Array]:
        """Means (p̂, n_d) and covariances across outputs (p̂, n_d, n_d)."""
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
            f"given some outputs, points are taken one by one and {what} are not available, got "
            f"{self.shape[0]} points: use output_covariance, quantile, sample or pointwise_log_density"
        )


def average(weights: Array, values: Sequence[Array]) -> Array:
    """Σ_s w_s values_s, weights (m,) and m arrays of the same shape."""
    return np.tensordot(weights, np.stack(values), axes=1)


def log_average(weights: Array, log_values: Array) -> Array:
    """log Σ_s w_s exp(log_values_s) over the leading axis of (m, ...); weights (m,) may be zero or tiny."""
    with np.errstate(divide="ignore"):
        log_weights = np.log(weights).reshape(-1, *(1,) * (log_values.ndim - 1))
    return special.logsumexp(log_values + log_weights, axis=0)
