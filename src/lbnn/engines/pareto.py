"""Tail index of importance weights (Vehtari, Simpson, Gelman, Yao & Gabry, 2024)."""

from __future__ import annotations

import numpy as np

from lbnn._types import Array


def pareto_k(log_weights: Array) -> float:
    """Shape of the generalised Pareto law of the largest weights: above 0.7 averages are not to be trusted.

    The estimator is that of Zhang & Stephens (2009), with the weak prior towards 1/2 of the reference.
    """
    count = min(int(3 * np.sqrt(len(log_weights))), len(log_weights) // 5)
    if count < 5:
        return float("inf")
    ordered = np.sort(log_weights)[-count - 1 :]
    excess = np.exp(ordered[1:] - ordered[-1]) - np.exp(ordered[0] - ordered[-1])
    if excess[-1] <= 1e-10:
        return float("-inf")  # all large weights are equal up to rounding: no tail
    return _zhang_stephens(np.maximum(excess, np.finfo(float).tiny))


def _zhang_stephens(excess: Array) -> float:
    """Posterior mean of the shape under Zhang & Stephens' data-dependent prior; excess sorted, positive."""
    count = len(excess)
    points = 30 + int(np.sqrt(count))
    quarter = excess[int(count / 4 + 0.5) - 1]
    theta = 1 / excess[-1] + (1 - np.sqrt(points / (np.arange(1, points + 1) - 0.5))) / (3 * quarter)
    shapes = np.log1p(-theta[:, None] * excess).mean(axis=1)
    profile = count * (np.log(-theta / shapes) - shapes - 1)
    weights = 1 / np.exp(profile - profile[:, None]).sum(axis=1)
    best = float((weights * theta).sum() / weights.sum())
    shape = float(np.log1p(-best * excess).mean())
    return (count * shape + 10 * 0.5) / (count + 10)
