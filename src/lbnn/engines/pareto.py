"""Tail index of importance weights, and their smoothing (Vehtari, Simpson, Gelman, Yao & Gabry, 2024)."""

from __future__ import annotations

import math

import numpy as np
from scipy import optimize, special

from lbnn._base.log_sums import normalised
from lbnn._base.types import Array

_LIGHT_TAIL = -0.5  # Pareto k below which weights are bounded so sharply that there is nothing to smooth


def pareto_k(log_weights: Array) -> float:
    """Shape of the generalised Pareto law of the largest of the weights (m,).

    Above 0.7 averages are not to be trusted.

    The estimator is that of Zhang & Stephens (2009), with the weak prior towards 1/2 of the reference.
    """
    count = _tail_size(log_weights)
    if count < 5:
        return float("inf")
    ordered = np.sort(log_weights)[-count - 1 :]
    excess = np.exp(ordered[1:] - ordered[-1]) - np.exp(ordered[0] - ordered[-1])
    if excess[-1] <= 1e-10:
        return float("-inf")  # all large weights are equal up to rounding: no tail
    return _zhang_stephens(np.maximum(excess, np.finfo(float).tiny))


def _tail_size(log_weights: Array) -> int:
    """How many of the largest of the weights (m,) make the tail."""
    return min(int(3 * math.sqrt(len(log_weights))), len(log_weights) // 5)


def _zhang_stephens(excess: Array) -> float:
    """Posterior mean of the shape for sorted positive excesses (m,) (Zhang and Stephens)."""
    count = len(excess)
    points = 30 + int(np.sqrt(count))
    quarter = excess[int(count / 4 + 0.5) - 1]
    theta = 1 / excess[-1] + (1 - np.sqrt(points / (np.arange(1, points + 1) - 0.5))) / (3 * quarter)
    shapes = np.log1p(-theta[:, None] * excess).mean(axis=1)
    profile = count * (np.log(-theta / shapes) - shapes - 1)
    best = float(normalised(profile) @ theta)
    shape = float(np.log1p(-best * excess).mean())
    return (count * shape + 10 * 0.5) / (count + 10)


def pareto_smoothed(log_weights: Array) -> tuple[Array, float]:
    """Log weights (m,), the largest replaced by quantiles of the Pareto law of their tail, and its shape."""
    shape = pareto_k(log_weights)
    if not _LIGHT_TAIL < shape < math.inf:
        return log_weights, shape
    count = _tail_size(log_weights)
    order = np.argsort(log_weights)[-count - 1 :]
    top, cutoff = log_weights[order[-1]], math.exp(log_weights[order[0]] - log_weights[order[-1]])
    if cutoff == 0:  # beyond double precision, and beyond all use
        return log_weights, shape
    excess = np.exp(log_weights[order[1:]] - top) - cutoff
    upper = 1 - (np.arange(count) + 0.5) / count  # probability to exceed each quantile
    quantiles = pareto_scale(excess, shape) * special.boxcox(1 / upper, shape)  # ((1/upper)^k − 1)/k
    smoothed = log_weights.copy()
    smoothed[order[1:]] = top + np.minimum(np.log(cutoff + quantiles), 0.0)
    return smoothed, shape


def pareto_scale(excess: Array, shape: float) -> float:
    """Maximum-likelihood scale σ for excesses (m,) of a generalised Pareto law of known shape k."""
    positive = excess[excess > 0]  # some may have underflowed
    largest = float(positive.max())
    floor = max(-shape, 0.0) * largest  # σ is above it, or the largest would be out of range

    def slope(scale: float) -> float:
        return float(((1 + shape) * positive / (scale + shape * positive)).mean()) - 1

    lower = upper = largest
    while slope(lower) <= 0:  # σ may be smaller than the largest by many orders
        lower, upper = floor + (lower - floor) / 8, lower
    if lower == upper:
        return largest
    return float(optimize.brentq(slope, lower, upper, xtol=1e-300, rtol=1e-12))
