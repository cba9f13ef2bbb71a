"""Discrepancies: relative errors for deterministic routes, standard errors for simulations."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import stats

from lbnn._types import Array


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
    values = draws.reshape(len(draws), -1)
    shares = np.full(len(values), 1 / len(values)) if weights is None else weights / weights.sum()
    mean = shares @ values
    error = np.sqrt(shares**2 @ (values - mean) ** 2)
    return float((np.abs(mean - np.ravel(exact)) / error).max())


def score_limit(comparisons: int, family_error: float = 1e-4) -> float:
    """Two-sided threshold in standard errors over that many comparisons (Šidák)."""
    per_comparison = -math.expm1(math.log1p(-family_error) / comparisons)
    return float(stats.norm.isf(per_comparison / 2))
