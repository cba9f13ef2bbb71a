"""What is measured of a forecast: errors, densities and coverage, each for outputs alone and together.

Everything is in units of the training targets' standard deviations and averaged over test points; densities
are per output, so that sets with many outputs and few can be read side by side.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from scipy import special, stats
from sklearn.metrics import mean_squared_error

LEVEL = 0.9
MEASURES = ("rmse", "marginal", "joint", "covers", "covers jointly")
DRAWS = 2000
ROWS = 16  # points whose mixtures are held at once
MOST_INTEGRATED = 10  # outputs up to which densities are integrated point by point


class Forecast(Protocol):
    """A distribution of the outputs at p̂ test points."""

    @property
    def mean(self) -> np.ndarray:
        """(p̂, n_d)."""
        ...

    def marginal_log_density(self, Y: np.ndarray) -> np.ndarray:
        """Of every output alone, (p̂, n_d)."""
        ...

    def joint_log_density(self, Y: np.ndarray) -> np.ndarray:
        """Of the outputs together at each point, (p̂,)."""
        ...

    def inside(self, Y: np.ndarray) -> np.ndarray:
        """Whether every target lies in its equal-tailed interval, (p̂, n_d)."""
        ...

    def inside_jointly(self, Y: np.ndarray) -> np.ndarray:
        """Whether the targets of a point lie in the ellipsoid about the mean that holds LEVEL, (p̂,)."""
        ...


@dataclass(frozen=True)
class Gaussian:
    """Normal at each point: mean (p̂, n_d), covariance across outputs (p̂, n_d, n_d)."""

    mean: np.ndarray
    covariance: np.ndarray

    @classmethod
    def independent(cls, mean: np.ndarray, deviation: np.ndarray) -> Gaussian:
        """Outputs that know nothing of each other: standard deviations shaped like the mean."""
        return cls(mean, deviation[:, :, None] ** 2 * np.eye(mean.shape[1]))

    @classmethod
    def constant(cls, mean: np.ndarray, covariance: np.ndarray) -> Gaussian:
        """The same covariance (n_d, n_d) at every point."""
        return cls(mean, np.broadcast_to(covariance, (len(mean), *covariance.shape)))

    @property
    def deviation(self) -> np.ndarray:
        return np.sqrt(np.diagonal(self.covariance, axis1=1, axis2=2))

    def marginal_log_density(self, Y: np.ndarray) -> np.ndarray:
        return stats.norm.logpdf(Y, self.mean, self.deviation)

    def joint_log_density(self, Y: np.ndarray) -> np.ndarray:
        log_determinant = np.linalg.slogdet(self.covariance)[1]
        constant = Y.shape[1] * math.log(2 * math.pi)
        return -0.5 * (squared_distance(self.covariance, Y - self.mean) + log_determinant + constant)

    def inside(self, Y: np.ndarray) -> np.ndarray:
        return np.abs(Y - self.mean) <= stats.norm.ppf((1 + LEVEL) / 2) * self.deviation

    def inside_jointly(self, Y: np.ndarray) -> np.ndarray:
        return squared_distance(self.covariance, Y - self.mean) <= stats.chi2.ppf(LEVEL, Y.shape[1])


@dataclass(frozen=True)
class Mixture:
    """What `LBNNRegressor.predictive(X_test).with_noise()` says; the ellipsoid's size is taken from draws."""

    predictive: Any
    mean: np.ndarray
    covariance: np.ndarray  # across outputs at each point, (p̂, n_d, n_d)
    log_evidence: float = math.nan  # of the model whose forecast it is

    @classmethod
    def of(cls, predictive: Any, log_evidence: float = math.nan) -> Mixture:
        """With its moments computed, as the peers' are."""
        return cls(predictive, _as_matrix(predictive.mean), predictive.output_covariance, log_evidence)

    def marginal_log_density(self, Y: np.ndarray) -> np.ndarray:
        return self._by_rows(Y, _log_density)

    def _by_rows(self, Y: np.ndarray, of: Callable[..., np.ndarray]) -> np.ndarray:
        """A function of Y, weights, means and deviations, for some points at a time."""
        blocks = [slice(row, row + ROWS) for row in range(0, len(Y), ROWS)]
        return np.concatenate([of(Y[rows], *self.predictive.marginals(rows)) for rows in blocks])

    def joint_log_density(self, Y: np.ndarray) -> np.ndarray:
        """Points at which few draws of the scale count are integrated anew, if that takes seconds.

        With many outputs, or an average over many models, each such point takes a minute: there it is the
        density of the mixture of all draws, a forecast as well, the one that intervals and ellipsoid are of.
        """
        single = len(self.predictive.parts) == 1
        if single and Y.shape[1] <= MOST_INTEGRATED:
            return self.predictive.pointwise_log_density(Y.reshape(self.predictive.mean.shape))
        parts = self.predictive.parts
        terms = [math.log(part.share) + _terms(part, Y) for part in parts if part.share]
        return special.logsumexp(np.concatenate(terms), axis=0)

    def inside(self, Y: np.ndarray) -> np.ndarray:
        """By the distribution function, which is quicker than the ends of `interval` and says the same."""
        return np.abs(2 * self._by_rows(Y, _distribution) - 1) <= LEVEL

    def inside_jointly(self, Y: np.ndarray) -> np.ndarray:
        draws = self.predictive.sample(DRAWS, 0).reshape(DRAWS, *Y.shape)
        distances = squared_distance(self.covariance, draws - self.mean)
        return squared_distance(self.covariance, Y - self.mean) <= np.quantile(distances, LEVEL, axis=0)


def _log_density(Y: np.ndarray, weights: np.ndarray, means: np.ndarray, deviations: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore"):  # weights may have underflowed to zero
        terms = np.log(weights)[:, None, None] + stats.norm.logpdf(Y, means, deviations)
    return special.logsumexp(terms, axis=0)


def _distribution(
    Y: np.ndarray, weights: np.ndarray, means: np.ndarray, deviations: np.ndarray
) -> np.ndarray:
    return np.tensordot(weights, special.ndtr((Y - means) / deviations), axes=1)


def _terms(part: Any, Y: np.ndarray) -> np.ndarray:
    """Log of weight and density of every draw at each point, (draws, p̂)."""
    with np.errstate(divide="ignore"):
        return np.log(part.weights)[:, None] + part.point_terms(Y, slice(None))


def squared_distance(covariance: np.ndarray, deviation: np.ndarray) -> np.ndarray:
    """δᵀ C⁻¹ δ at each point, for covariances (p̂, n_d, n_d) and deviations (..., p̂, n_d)."""
    whitening = np.linalg.inv(np.linalg.cholesky(covariance))
    return (np.einsum("mjk,...mk->...mj", whitening, deviation) ** 2).sum(axis=-1)


def measures(forecast: Forecast, Y: np.ndarray) -> dict[str, float]:
    """The five measures of one forecast."""
    values = (
        math.sqrt(
            mean_squared_error(Y, forecast.mean)
        ),  # over all outputs; scikit-learn has no other of these
        -forecast.marginal_log_density(Y).mean(),
        -forecast.joint_log_density(Y).mean() / Y.shape[1],
        forecast.inside(Y).mean(),
        forecast.inside_jointly(Y).mean(),
    )
    return dict(zip(MEASURES, map(float, values), strict=True))


def mean_and_error(values: np.ndarray, train: int, test: int) -> tuple[float, float]:
    """Mean over random splits and its standard error, by the corrected resampled variance.

    Splits share examples, so s²/J is too small; Nadeau and Bengio (2003) put s² (1/J + test/train).
    """
    values = np.asarray(values, float)
    return float(values.mean()), float(values.std(ddof=1) * math.sqrt(1 / len(values) + test / train))


def _as_matrix(values: np.ndarray) -> np.ndarray:
    return values[:, None] if values.ndim == 1 else values
