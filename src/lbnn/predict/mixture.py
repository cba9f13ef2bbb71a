"""What every predictive answers: statistics of a mixture of Gaussians over points and outputs."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from lbnn._base import check
from lbnn._base.arrays import Device, namespace
from lbnn._base.html import card
from lbnn._base.types import AnyArray, Array
from lbnn._base.warn import collected

_LARGEST_EXPONENT = 709.0  # whose exponential is a double


def jackknife_squares(values: Sequence[Any]) -> Array:
    """Squared standard error (...) of a statistic from its values (...) without each of G groups.

    (G − 1)/G Σ_g |θ_g − θ̄|² (Quenouille and Tukey): for smooth statistics that of the spread over groups.
    """
    every = np.asarray(values)
    spread = (np.abs(every - every.mean(axis=0)) ** 2).sum(axis=0)
    return np.asarray((len(every) - 1) / len(every) * spread)


class Mixture(ABC):
    """The law of outputs at p̂ test points: of the function, or after `with_noise()` of observations.

    Shapes below lose the output axis when Y was one-dimensional. Arrays with a row for every test point are
    of the library and on the device of X_test; single numbers are Python's.
    """

    single_output: bool

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
    def noisy(self) -> bool:
        """Whether these are observations rather than the function."""

    def __repr__(self) -> str:
        """One line: points and outputs."""
        return f"{type(self).__name__}(points={self.shape[0]}, outputs={self.shape[1]}, noisy={self.noisy})"

    def _repr_html_(self) -> str:
        """A small table for notebooks."""
        mean, deviation = self._mean, np.sqrt(self._variance)
        rows = [
            ("points × outputs", f"{self.shape[0]} × {self.shape[1]}"),
            ("of", "observations" if self.noisy else "the function"),
            ("means", f"{mean.min():.4g} to {mean.max():.4g}"),
            ("standard deviations", f"{deviation.min():.4g} to {deviation.max():.4g}"),
        ]
        return card(type(self).__name__, rows)

    # ------------------------------------------------------------------ moments

    @property
    def mean(self) -> AnyArray:
        """⟨F̂⟩, (p̂, n_d)."""
        return self._given_back(self._mean)

    @property
    def variance(self) -> AnyArray:
        """Variance of every output at every point, (p̂, n_d)."""
        return self._given_back(self._variance.copy())

    @property
    def standard_deviation(self) -> AnyArray:
        """Square root of `variance`, (p̂, n_d)."""
        variance = self.variance
        return namespace(variance).sqrt(variance)

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
    @abstractmethod
    def _mean(self) -> Array:
        """(p̂, n_d), as NumPy."""

    @property
    @abstractmethod
    def _variance(self) -> Array:
        """(p̂, n_d), as NumPy."""

    @property
    @abstractmethod
    def _output_covariance(self) -> Array:
        """(p̂, n_d, n_d), as NumPy."""

    @property
    @abstractmethod
    def _covariance(self) -> AnyArray:
        """(p̂, n_d, p̂, n_d), where the test points are."""

    # ------------------------------------------------------------------ densities

    def log_density(self, F: ArrayLike, return_error: bool = False) -> Any:
        """Joint log density over all points and outputs at F, shaped like the mean.

        Infinite where narrow layers give the density a pole. With `return_error` also its Monte Carlo
        standard error, as every method below that has this argument: zero where the draws carry none.

        Raises
        ------
        ValueError
            If the law has no density because some outputs are determined by others (linearly dependent
            points) or by the data (training points at zero temperature), or if it is not available.
        """
        values = check.like_mean(F, self.shape, self.single_output, "F")
        return self._asked(lambda law: law._log_density(values), return_error)

    def pointwise_log_density(self, F: ArrayLike, return_error: bool = False) -> Any:
        """Log density at each point by itself, jointly over outputs, (p̂,).

        Computed from the draws of the scale. Where quadrature nodes miss its mass it is an integral of its
        own; where few draws count, as at outliers, the difference of two log evidences, for up to 20 points.
        A warning names the others.
        """
        values = check.like_mean(F, self.shape, self.single_output, "F")
        return self._asked(lambda law: law._pointwise_log_density(values), return_error, self.device.put)

    @abstractmethod
    def _log_density(self, values: Array) -> float:
        """At values (p̂, n_d)."""

    @abstractmethod
    def _pointwise_log_density(self, values: Array) -> Array:
        """At values (p̂, n_d)."""

    # ------------------------------------------------------------------ quantiles and draws

    def quantile(self, q: ArrayLike, return_error: bool = False) -> Any:
        """Quantiles of every output at every point, of shape np.shape(q) + shape of the mean."""
        levels = check.probability(q, "q")
        every = [float(level) for level in levels.ravel()]

        def given_back(found: Array) -> AnyArray:
            """Values (levels, p̂, n_d) in the shape of q."""
            return self._given_back(found.reshape(levels.shape + self.shape))

        return self._asked(lambda law: law._quantiles(every), return_error, given_back)

    def interval(self, probability: float = 0.95) -> tuple[AnyArray, AnyArray]:
        """Equal-tailed interval of every output at every point: two ends, each shaped like the mean."""
        level = float(check.probability(probability, "probability"))
        low, high = self._quantiles([(1 - level) / 2, (1 + level) / 2])
        return self._given_back(low), self._given_back(high)

    @abstractmethod
    def _quantiles(self, levels: Sequence[float]) -> Array:
        """(levels, p̂, n_d)."""

    @abstractmethod
    def marginals(self, rows: slice) -> tuple[Array, Array, Array]:
        """Weights (m,), means and standard deviations (m, rows, n_d) of the Gaussians at points."""

    @abstractmethod
    def gaussians(self, row: int) -> tuple[Array, Array, Array]:
        """The Gaussians at one point: log weights (m,), means (m, n_d) and covariances (m, n_d, n_d)."""

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

    def mgf(self, J: ArrayLike, return_error: bool = False) -> Any:
        """Z(J) = E exp(tr JᵀF̂), for J shaped like the mean; inf where the integral diverges.

        With R the part of G_x̂x̂ that the training inputs leave unexplained: at depth two it converges
        where the largest eigenvalue of JᵀRJ is below n_1, in deeper networks only where RJ = 0.
        """
        source = check.like_mean(J, self.shape, self.single_output, "J")

        def of_law(law: Mixture) -> float:
            """Z(J)."""
            exponent = law._cgf(source)
            return math.exp(exponent) if exponent < _LARGEST_EXPONENT else math.inf

        return self._asked(of_law, return_error)

    def cgf(self, J: ArrayLike, return_error: bool = False) -> Any:
        """Log Z(J), the cumulant generating function, J shaped like the mean; inf where Z diverges."""
        source = check.like_mean(J, self.shape, self.single_output, "J")
        return self._asked(lambda law: law._cgf(source), return_error)

    def characteristic(self, J: ArrayLike, return_error: bool = False) -> Any:
        """E exp(i tr JᵀF̂), for J shaped like the mean; exists for every J. Its error is of the modulus."""
        source = check.like_mean(J, self.shape, self.single_output, "J")
        return self._asked(lambda law: law._characteristic(source), return_error)

    @abstractmethod
    def _cgf(self, source: Array) -> float:
        """At a source (p̂, n_d)."""

    @abstractmethod
    def _characteristic(self, source: Array) -> complex:
        """At a source (p̂, n_d)."""

    # ------------------------------------------------------------------ known outputs, observations

    @abstractmethod
    def given(self, Y_partial: ArrayLike) -> Mixture:
        """The predictive of each point given the outputs (p̂, n_d) that are known there, NaN where not."""

    @abstractmethod
    def with_noise(self) -> Mixture:
        """The predictive of observations rather than of the function."""

    # ------------------------------------------------------------------ errors

    @abstractmethod
    def _without_groups(self) -> Iterator[list[Mixture]]:
        """For every part with draws: this law without one of their independent groups, each in turn."""

    def _asked(
        self,
        statistic: Callable[[Mixture], Any],
        return_error: bool,
        given_back: Callable[[Any], Any] = lambda found: found,
    ) -> Any:
        """A statistic, and its standard error by the jackknife, if that is asked for."""
        value = statistic(self)
        if not return_error:
            return given_back(value)
        squares = np.zeros(np.shape(value))
        with collected(), np.errstate(invalid="ignore"):  # what is said of the whole is said once
            for laws in self._without_groups():
                squares += jackknife_squares([statistic(law) for law in laws])
        error = np.sqrt(np.where(np.isfinite(value), squares, 0.0))  # infinite values are exact
        return given_back(value), given_back(error if error.ndim else float(error))

    def _given_back(self, values: Array) -> Any:
        """Values (..., p̂, n_d) without the output axis where Y had none, instead of the test points."""
        return self.device.put(values[..., 0] if self.single_output else values)
