"""One output by brute force: a dense grid over log λ, 64-bit mantissas, elimination of dense matrices.

Shares no code and no formula with the library: the priors are a Gamma density and, for two hidden layers, a
Bessel function; given λ the covariance of training and test observations is eliminated row by row, whose
last pivot is the predictive variance and whose last residual the deviation from the predictive mean.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import special

Wide = np.ndarray  # of np.longdouble
_POINTS = 2001
_DROP = 70.0  # e-folds below the largest value that a grid keeps
_LOG_TWO_PI = np.log(2 * np.pi * np.longdouble(1))


def log_prior(x: Wide, widths: tuple[int, ...], variance: float) -> Wide:
    """Log density of x = log λ, λ = variance · Π χ²(n)/n over one or two widths."""
    u = x - np.log(np.longdouble(variance))
    a = [np.longdouble(n) / 2 for n in widths]
    if len(a) == 1:
        return a[0] * (np.log(a[0]) + u) - a[0] * np.exp(u) - math.lgamma(float(a[0]))
    log_t = u + np.log(a[0] * a[1])
    z, order = 2 * np.exp(log_t / 2), abs(float(a[0] - a[1]))
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        log_bessel = np.log(special.kve(order, z.astype(float))).astype(np.longdouble) - z
    small = ~np.isfinite(log_bessel) & (z < 1)
    if order:
        log_bessel[small] = math.lgamma(order) + order * np.log(2 / z[small]) - np.log(np.longdouble(2))
    else:
        log_bessel[small] = np.log(np.log(2 / z[small]) - np.longdouble(np.euler_gamma))
    return (
        np.log(np.longdouble(2))
        + (a[0] + a[1]) / 2 * log_t
        + log_bessel
        - math.lgamma(float(a[0]))
        - math.lgamma(float(a[1]))
    )


@dataclass(frozen=True)
class Line:
    """Inputs X (p, n0), targets y (p,), one test input, a network of one or two hidden layers, noise τ."""

    X: np.ndarray
    y: np.ndarray
    test: np.ndarray
    widths: tuple[int, ...]
    variances: tuple[float, ...]
    noise: float

    def eliminated(self, x: Wide, noisy: bool) -> tuple[Wide, Wide, Wide]:
        """Log p(y | λ), and mean and variance of the test point given y and λ, (n,) each."""
        rows = np.concatenate([self.X, self.test[None]]).astype(np.longdouble)
        gram = self.variances[0] * rows @ rows.T / rows.shape[1]
        size, scale = len(rows), np.exp(x)
        matrix = gram * scale[:, None, None]
        own = np.full(size, np.longdouble(self.noise))
        own[-1] = self.noise if noisy else 0.0
        matrix[:, np.arange(size), np.arange(size)] += own
        values = np.zeros((len(x), size), np.longdouble)
        values[:, :-1] = self.y.astype(np.longdouble)
        log_value = np.zeros(len(x), np.longdouble)
        for k in range(size - 1):
            pivot = matrix[:, k, k]
            log_value -= 0.5 * (_LOG_TWO_PI + np.log(pivot) + values[:, k] ** 2 / pivot)
            for i in range(k + 1, size):
                factor = matrix[:, i, k] / pivot
                matrix[:, i, k:] -= factor[:, None] * matrix[:, k, k:]
                values[:, i] -= factor * values[:, k]
        return log_value, -values[:, -1], matrix[:, -1, -1]

    def log_posterior(self, x: Wide) -> Wide:
        """Unnormalised."""
        return log_prior(x, self.widths, math.prod(self.variances[1:])) + self.eliminated(x, True)[0]

    def log_density(self, value: float, noisy: bool) -> float:
        """Log density of the test point at a value."""

        def tilted(x: Wide) -> Wide:
            log_value, mean, variance = self.eliminated(x, noisy)
            prior = log_prior(x, self.widths, math.prod(self.variances[1:]))
            deviation = np.longdouble(value) - mean
            return prior + log_value - 0.5 * (_LOG_TWO_PI + np.log(variance) + deviation**2 / variance)

        return float(log_integral(tilted) - log_integral(self.log_posterior))

    def log_tail(self, value: float, sign: float, noisy: bool) -> float:
        """Log probability below (sign 1) or above (−1) a value."""

        def tilted(x: Wide) -> Wide:
            log_value, mean, variance = self.eliminated(x, noisy)
            prior = log_prior(x, self.widths, math.prod(self.variances[1:]))
            z = sign * (np.longdouble(value) - mean) / np.sqrt(variance)
            return prior + log_value + special.log_ndtr(z.astype(float))

        return float(log_integral(tilted) - log_integral(self.log_posterior))

    def moments(self, noisy: bool) -> tuple[float, float]:
        """Mean and variance of the test point."""
        x, _ = grid(lambda x: np.logaddexp(self.log_posterior(x), self.log_posterior(x) + 2 * x))
        with np.errstate(all="ignore"):
            posterior = self.log_posterior(x)
        x, posterior = x[np.isfinite(posterior)], posterior[np.isfinite(posterior)]
        weights = np.exp(posterior - posterior.max())
        weights /= weights.sum()
        _, means, variances = self.eliminated(x, noisy)
        middle = means[int(weights.argmax())]
        shift = (weights * (means - middle)).sum()
        spread = (weights * (variances + (means - middle - shift) ** 2)).sum()
        return float(middle + shift), float(spread)

    def lost_digits(self, noisy: bool) -> float:
        """Error that 64-bit mantissas leave in log densities, at the posterior's largest λ.

        Relative in the last pivot, and so absolute in the size of the log likelihood, of which a misfit makes
        many nats.
        """
        x, values = grid(self.log_posterior)
        scale = np.exp(x[values > values.max() - 40].max())
        rows = np.concatenate([self.X, self.test[None]])
        largest = float(self.variances[0] * (rows**2).sum() / rows.shape[1] * scale) + self.noise
        log_value, _, last = self.eliminated(np.log(np.array([scale])), noisy)
        return 1e-19 * largest / float(last[0]) * (1 + abs(float(log_value[0]))) if last[0] > 0 else math.inf


def grid(function: Callable[[Wide], Wide]) -> tuple[Wide, Wide]:
    """Points where a log integrand is within `_DROP` of its maximum, found by zooming in, and its values."""
    low, high = np.longdouble(-150), np.longdouble(90)
    points = 4 * _POINTS
    while True:
        x = low + (high - low) * np.arange(points, dtype=np.longdouble) / (points - 1)
        with np.errstate(all="ignore"):
            values = function(x)
        values = np.where(np.isfinite(values), values, -np.inf)
        kept = np.flatnonzero(values > values.max() - _DROP)
        first, last = max(kept[0] - 2, 0), min(kept[-1] + 2, points - 1)
        if last - first > 0.5 * points:
            return x, values
        low, high, points = x[first], x[last], _POINTS


def log_integral(function: Callable[[Wide], Wide]) -> np.longdouble:
    """Log of the integral of exp(function) by the trapezoid rule."""
    x, values = grid(function)
    top = values.max()
    return top + np.log(np.exp(values - top).sum()) + np.log(x[1] - x[0])
