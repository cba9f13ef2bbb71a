"""Discrepancies and tolerances: relative errors for deterministic routes, standard errors for simulations."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypedDict

import numpy as np
from scipy import stats

from lbnn._base.types import Array


def relative_error(value: Any, reference: Any) -> float:
    """Largest |value − reference| as a fraction of the largest |reference|."""
    values, references = np.asarray(value), np.asarray(reference)
    if values.shape != references.shape:
        raise ValueError(f"shapes differ: {values.shape} and {references.shape}")
    return float(np.abs(values - references).max() / np.abs(references).max())


def absolute_error(value: Any, reference: Any) -> float:
    """Largest |value − reference|: for logarithms, whose zero means nothing."""
    return float(np.abs(np.asarray(value) - np.asarray(reference)).max())


def log_ratio_error(value: Any, reference: Any) -> float:
    """Largest |value − reference| of log densities, relative where they are large in size."""
    values, references = np.asarray(value), np.asarray(reference)
    return float((np.abs(values - references) / np.maximum(1.0, np.abs(references))).max())


def worst_score(exact: Any, draws: Array, weights: Array | None = None) -> float:
    """Largest |mean of the draws − exact| in standard errors; weights are normalised likelihoods."""
    mean, error = weighted_mean_and_error(draws, weights)
    return float((np.abs(mean - np.ravel(exact)) / error).max())


def weighted_mean_and_error(draws: Array, weights: Array | None = None) -> Estimate:
    """Mean of independent draws (the leading axis), weighted by likelihoods, and its standard error."""
    values = draws.reshape(len(draws), -1)
    shares = np.full(len(values), 1 / len(values)) if weights is None else weights / weights.sum()
    mean = shares @ values
    return mean, np.sqrt(shares**2 @ (values - mean) ** 2)


Estimate = tuple[Array, Array]  # means and their standard errors


def score_between(first: Estimate, second: Estimate) -> float:
    """Largest difference of two independent estimates in standard errors of the difference."""
    return float((np.abs(first[0] - second[0]) / np.hypot(first[1], second[1])).max())


def score_against(exact: Any, estimate: Estimate) -> float:
    """Largest |estimate − exact| in standard errors of the estimate."""
    return float((np.abs(estimate[0] - np.asarray(exact)) / estimate[1]).max())


def mean_and_error(replicates: Any) -> Estimate:
    """Mean over independent replicates (the leading axis) and its standard error."""
    values = np.asarray(replicates, float)
    return values.mean(axis=0), values.std(axis=0, ddof=1) / math.sqrt(len(values))


def extrapolate(value: Callable[[int], Array | float], size: int) -> Array:
    """The limit of value(n) = a + b/n + c/n² + O(1/n³) from n, 2n and 4n."""
    return (8 * np.asarray(value(4 * size)) - 6 * np.asarray(value(2 * size)) + np.asarray(value(size))) / 3


# ---------------------------------------------------------------------- tolerances

FAMILY_ERROR = 1e-4  # probability that a claim that is true fails by chance


class Limit(TypedDict):
    """The two arguments of `claim` that belong together: how far, and why so far."""

    tolerance: float
    tolerance_reason: str


def rounding(tolerance: float) -> Limit:
    """Both routes are exact: what is left is rounding, times the condition numbers of dense matrices."""
    reason = "both routes are exact: rounding (2·10⁻¹⁶) times the condition numbers of the dense matrices"
    return Limit(tolerance=tolerance, tolerance_reason=reason)


def quadrature(tolerance: float) -> Limit:
    """The reference is an integral."""
    reason = (
        "the reference is a numerical integral with a relative error of 10⁻¹² to 10⁻¹³, then divided and "
        "subtracted"
    )
    return Limit(tolerance=tolerance, tolerance_reason=reason)


def standard_errors(comparisons: int, replicates: int | None = None) -> Limit:
    """Two-sided limit on the largest of that many scores; Student's t where replicates give the error."""
    law = "normal" if replicates is None else f"Student t with {replicates - 1} degrees of freedom"
    counted = "one comparison" if comparisons == 1 else f"{comparisons} comparisons (Šidák)"
    reason = f"standard errors: two-sided, {law}, a false alarm in 10⁴ runs over {counted}"
    return Limit(tolerance=score_limit(comparisons, replicates), tolerance_reason=reason)


def score_limit(comparisons: int, replicates: int | None = None) -> float:
    """Two-sided threshold in standard errors over that many comparisons (Šidák)."""
    per_comparison = -math.expm1(math.log1p(-FAMILY_ERROR) / comparisons)
    law = stats.norm if replicates is None else stats.t(replicates - 1)
    return float(law.isf(per_comparison / 2))
