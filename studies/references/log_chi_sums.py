"""Layers' log-diagonals of one row of the Bartlett factors, given their sum; only numpy and scipy.

Row i of T = T_d ⋯ T_2 has the diagonal entry ∏ χ_ℓ s_ℓ with k_ℓ = n_{ℓ−1} − i + 1 degrees of freedom. Given
the sum S of the logs the summands are drawn one after the other, last layer first, from tables of the
conditional densities (log-concave, so that a grid between two drops of the log density holds them). The
tables need not be exact: `log_proposal` is the density of the tables themselves, so importance weights put
right what they miss.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import interpolate, special

Array = NDArray[np.float64]
Indices = NDArray[np.intp]

SUMS, CELLS, DROP = 240, 96, 18.0


def log_chi_density(u: Array, degrees: float, scale: float) -> Array:
    """Log density of u = log(scale · χ_degrees)."""
    v = u - math.log(scale)
    with np.errstate(over="ignore"):
        tail = np.minimum(0.5 * np.exp(2 * v), 1e200)
    return math.log(2) * (1 - degrees / 2) - math.lgamma(degrees / 2) + degrees * v - tail


@dataclass(frozen=True)
class Stage:
    """Histograms of u_m in units (u − mean(S))/deviation(S), one for each S of the grid."""

    mean: Array
    log_deviation: Array
    first: Array
    """Centre of the first cell, (SUMS,)."""
    width: Array
    cumulative: Array
    """(SUMS, CELLS)."""
    mass: Array

    def locate(self, position: Array) -> tuple[Indices, Array, Array, Array]:
        """Left neighbour on the grid of S, the share of the right one, mean and log deviation there."""
        left = np.clip(position.astype(int), 0, len(self.mean) - 2)
        share = np.clip(position - left, 0.0, 1.0)
        mean = self.mean[left] * (1 - share) + self.mean[left + 1] * share
        return left, share, mean, _between(self.log_deviation, left, share)

    def sample(self, position: Array, rng: np.random.Generator) -> Array:
        left, share, mean, log_deviation = self.locate(position)
        row = np.where(rng.random(len(position)) < share, left + 1, left)
        cell = _first_above(self.cumulative, row, rng.random(len(position)))
        unit = self.first[row] + self.width[row] * (cell + rng.random(len(position)) - 0.5)
        return mean + np.exp(log_deviation) * unit

    def log_density(self, u: Array, position: Array) -> Array:
        left, share, mean, log_deviation = self.locate(position)
        unit = (u - mean) * np.exp(-log_deviation)
        density = (1 - share) * self._histogram(left, unit) + share * self._histogram(left + 1, unit)
        with np.errstate(divide="ignore"):
            return np.log(density) - log_deviation

    def _histogram(self, row: Indices, unit: Array) -> Array:
        cell = np.rint(np.clip((unit - self.first[row]) / self.width[row], -1, CELLS)).astype(int)
        inside = (cell >= 0) & (cell < CELLS)
        return np.where(inside, self.mass[row, np.clip(cell, 0, CELLS - 1)] / self.width[row], 0.0)


def _between(values: Array, left: Indices, share: Array) -> Array:
    return values[left] * (1 - share) + values[left + 1] * share


def _first_above(cumulative: Array, row: Indices, uniform: Array) -> Indices:
    """Index of the first entry of cumulative[row] that is not below `uniform`, by bisection."""
    low, high = np.zeros(len(row), int), np.full(len(row), CELLS - 1)
    while np.any(low < high):
        middle = (low + high) // 2
        below = cumulative[row, middle] < uniform
        low, high = np.where(below, middle + 1, low), np.where(below, high, middle)
    return low


class LogChiSum:
    """Sum of independent log(scale_m · χ_{degrees_m}): its log density, and the summands given the sum."""

    def __init__(self, degrees: Array, scales: Array, low: float, high: float) -> None:
        self.degrees, self.scales, self.low, self.high = degrees, scales, low, high
        self.mean = float(np.sum(np.log(scales) + 0.5 * (special.digamma(degrees / 2) + math.log(2))))
        self.variance = float(np.sum(0.25 * special.polygamma(1, degrees / 2)))
        self.sums = np.linspace(low, high, SUMS)
        self.stages: list[Stage] = []
        self.log_density: Callable[[Array], Array] = lambda s: log_chi_density(s, degrees[0], scales[0])
        for layer in range(1, len(degrees)):
            self._add(layer)

    def _add(self, layer: int) -> None:
        """Extend the law of the sum by one summand, and keep the conditional law of that summand."""

        def log_joint(u: Array) -> Array:
            own = log_chi_density(u, self.degrees[layer], self.scales[layer])
            return own + self.log_density(self.sums[:, None] - u)

        u, values = _bracket(log_joint, *self._first_bracket(layer))
        top, cell = values.max(1), u[:, 1] - u[:, 0]
        weights = np.exp(values - top[:, None])
        total = weights.sum(1)
        mean = np.sum(weights * u, 1) / total
        deviation = np.sqrt(np.sum(weights * (u - mean[:, None]) ** 2, 1) / total + cell**2 / 12)
        mass = weights / total[:, None]
        first, width = (u[:, 0] - mean) / deviation, cell / deviation
        self.stages.append(Stage(mean, np.log(deviation), first, width, np.cumsum(mass, 1), mass))
        self.log_density = _linear_outside(self.sums, top + np.log(total * cell))

    def _first_bracket(self, layer: int) -> tuple[Array, Array]:
        """Eight deviations about the conditional mode, at which k_ℓ − e^{2u_ℓ}/s_ℓ² is one number."""
        k, scales = self.degrees[: layer + 1], self.scales[: layer + 1]
        target = 2 * (self.sums - np.log(scales).sum())
        low, high = np.full(SUMS, -700.0), np.full(SUMS, 60.0)
        for _ in range(70):
            middle = (low + high) / 2
            above = np.sum(np.log(k - k.min() + np.exp(middle)[:, None]), 1) > target
            low, high = np.where(above, low, middle), np.where(above, middle, high)
        squares = k - k.min() + np.exp(high)[:, None]
        mode = 0.5 * np.log(squares[:, layer]) + math.log(scales[layer])
        inverse = 1 / (2 * np.maximum(squares, 0.02))
        deviation = np.sqrt(inverse[:, layer] * (1 - inverse[:, layer] / inverse.sum(1)))
        span = 8 * np.maximum(deviation, 1e-3)
        return mode - span, mode + span

    def _position(self, rest: Array) -> Array:
        return np.clip((rest - self.low) / (self.sums[1] - self.sums[0]), 0, SUMS - 1.0)

    def sample(self, total: Array, rng: np.random.Generator) -> Array:
        """Summands (draws, layers) with the given totals."""
        u, rest = np.empty((len(total), len(self.degrees))), total
        for layer in range(len(self.degrees) - 1, 0, -1):
            u[:, layer] = self.stages[layer - 1].sample(self._position(rest), rng)
            rest = rest - u[:, layer]
        u[:, 0] = rest
        return u

    def log_proposal(self, u: Array) -> Array:
        """Log density of `sample` given the total."""
        result, rest = np.zeros(len(u)), u.sum(1)
        for layer in range(len(self.degrees) - 1, 0, -1):
            result += self.stages[layer - 1].log_density(u[:, layer], self._position(rest))
            rest = rest - u[:, layer]
        return result

    def log_prior(self, u: Array) -> Array:
        parts = zip(u.T, self.degrees, self.scales, strict=True)
        return np.sum([log_chi_density(*part) for part in parts], axis=0)

    def prior_sample(self, size: int, rng: np.random.Generator) -> Array:
        return 0.5 * np.log(rng.chisquare(self.degrees, (size, len(self.degrees)))) + np.log(self.scales)

    def typical(self, total: Array) -> Array:
        """Conditional means given the total, one after the other: (..., layers)."""
        u, rest = np.empty((*total.shape, len(self.degrees))), total
        for layer in range(len(self.degrees) - 1, 0, -1):
            u[..., layer] = np.interp(rest, self.sums, self.stages[layer - 1].mean)
            rest = rest - u[..., layer]
        u[..., 0] = rest
        return u


def _bracket(log_joint: Callable[[Array], Array], low: Array, high: Array) -> tuple[Array, Array]:
    """Grid (SUMS, CELLS) that just holds what lies less than DROP below the maximum."""
    steps, rows = np.linspace(0, 1, CELLS), np.arange(len(low))
    for _ in range(5):
        u = low[:, None] + (high - low)[:, None] * steps
        values = log_joint(u)
        inside = values > values.max(1, keepdims=True) - DROP
        first, last = inside.argmax(1), CELLS - 1 - inside[:, ::-1].argmax(1)
        span = high - low
        low = np.where(first == 0, low - span, u[rows, np.maximum(first - 1, 0)])
        high = np.where(last == CELLS - 1, high + span, u[rows, np.minimum(last + 1, CELLS - 1)])
    return u, values


def _linear_outside(x: Array, y: Array) -> Callable[[Array], Array]:
    """Cubic spline, continued by its tangents."""
    spline = interpolate.CubicSpline(x, y)
    left, right = float(spline(x[0], 1)), float(spline(x[-1], 1))

    def value(s: Array) -> Array:
        inner = spline(np.clip(s, x[0], x[-1]))
        return inner + left * np.minimum(s - x[0], 0) + right * np.maximum(s - x[-1], 0)

    return value
