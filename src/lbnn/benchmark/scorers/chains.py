"""Draws of several chains: their checks, the effective number of them, and r̂.

The effective number is N/τ with τ = 1 + 2 Σ_t ρ_t summed by Geyer's initial monotone sequence. What a user
would claim takes ρ_t about the chains' own mean and variance, with the variance between chains (as Stan
does). The *true* one takes the exact mean and variance: a chain that stays in one phase has ρ_t that never
falls.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import fft

from lbnn._base.types import Array
from lbnn.benchmark.task import Task

_FEWEST_DRAWS = 10  # per chain
FEWEST = 40  # effective draws; fewer are not judged


def check_draws(draws: Any, task: Task) -> Array:
    """Draws as an array (chains, draws, dimension), or an error that says what is wrong."""
    array = np.asarray(draws)
    if array.dtype.kind not in "fiu":
        raise TypeError(f"draws must be an array of real numbers, got dtype {array.dtype}")
    expected = f"(chains, draws, {task.dimension})"
    if array.ndim != 3 or array.shape[2] != task.dimension:
        raise ValueError(
            f"draws of {task.name} must have the shape {expected}, got {array.shape}: "
            "docs/packages.md shows it for other packages"
        )
    if array.shape[0] < 2:
        raise ValueError(
            f"draws must come from at least two chains, {expected}, got one: run more chains, or split "
            f"independent draws by draws.reshape(4, -1, {task.dimension})"
        )
    if array.shape[1] < _FEWEST_DRAWS:
        raise ValueError(f"every chain needs at least {_FEWEST_DRAWS} draws, {expected}, got {array.shape}")
    bad = int(np.count_nonzero(~np.isfinite(array).all(axis=2)))
    if bad:
        raise ValueError(
            f"draws must be finite, got NaN or infinity in {bad} of {array.shape[0] * array.shape[1]} draws: "
            "a sampler that diverged has no distribution to judge; remove the chain or report it as failed"
        )
    return array.astype(float, copy=False)


@dataclass(frozen=True, eq=False)
class Chains:
    """Function values (chains, draws, functions) of checked draws, and what follows from them."""

    values: Array
    phases: Array  # (chains, draws), index of the phase
    task: Task

    @classmethod
    def of(cls, draws: Array, task: Task) -> Chains:
        """Evaluate the functions."""
        return cls(task.functions(draws), np.asarray(task.phase_of(draws), float), task)

    @property
    def count(self) -> int:
        """Number of draws in all."""
        return self.values.shape[0] * self.values.shape[1]

    @cached_property
    def claimed(self) -> Array:
        """Effective draws of every function by the chains' own mean and variance."""
        return effective_draws(self.values)

    @cached_property
    def true(self) -> Array:
        """Effective draws of every function by the exact mean and variance."""
        known = self.task.expectations
        return effective_draws_about(self.values, known.mean, known.standard_deviation)

    @cached_property
    def independent(self) -> Array:
        """Values (n, functions) thinned by the largest autocorrelation time: about independent draws.

        Values that do not vary at all are one draw.
        """
        fewest = float(np.nan_to_num(self.claimed, nan=1.0).min())
        step = max(1, math.ceil(self.count / max(fewest, 1.0) - 0.25))
        return self.values[:, ::step].reshape(-1, self.values.shape[2])


def effective_draws(values: Array) -> Array:
    """Effective draws of values (chains, draws, functions): N/τ; NaN where nothing varies."""
    chains, length, functions = values.shape
    covariance = _autocovariance(values - values.mean(axis=1, keepdims=True))
    within = covariance[:, 0].mean(axis=0) * length / (length - 1)
    total = within * (length - 1) / length + values.mean(axis=1).var(axis=0, ddof=1)
    result = np.full(functions, np.nan)
    for index in np.flatnonzero(total > 0):
        correlation = 1 - (within[index] - covariance[:, :, index].mean(axis=0)) / total[index]
        result[index] = chains * length / _time(correlation, chains * length)
    return result


def effective_draws_about(values: Array, mean: Array, deviation: Array) -> Array:
    """Effective draws by the exact mean and standard deviation of every function."""
    chains, length, _ = values.shape
    correlation = _autocovariance((values - mean) / deviation).mean(axis=0)  # (draws, functions)
    sizes = [_time(column, chains * length, float(column[0])) for column in correlation.T]
    return chains * length / np.array(sizes)


def _autocovariance(centred: Array) -> Array:
    """Σ_s x_s x_{s+t} / draws along axis 1."""
    length = centred.shape[1]
    padded = fft.next_fast_len(2 * length)
    power = np.abs(np.asarray(fft.rfft(centred, padded, axis=1))) ** 2
    return np.asarray(fft.irfft(power, padded, axis=1))[:, :length] / length


def _time(correlation: Array, count: int, at_zero: float = 1.0) -> float:
    """τ by Geyer's initial monotone sequence, at least 1/log10(count)."""
    values = correlation.copy()
    values[0] = at_zero
    pairs = values[: len(values) // 2 * 2].reshape(-1, 2).sum(axis=1)
    negative = np.flatnonzero(pairs <= 0)
    kept = np.minimum.accumulate(pairs[: negative[0] if len(negative) else len(pairs)])
    return max(-at_zero + 2 * float(kept.sum()), at_zero / math.log10(max(count, 10)))


def split_r_hat(values: Array) -> Array:
    """√(total variance/variance within) of half chains, for values (chains, draws, functions)."""
    half = values.shape[1] // 2
    parts = np.concatenate([values[:, :half], values[:, half : 2 * half]])
    within, between = parts.var(axis=1, ddof=1).mean(axis=0), parts.mean(axis=1).var(axis=0, ddof=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.sqrt((half - 1) / half + between / within)
