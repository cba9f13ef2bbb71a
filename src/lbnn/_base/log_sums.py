"""Sums in logarithms: scipy.special.logsumexp is general, which costs more than small sums do."""

from __future__ import annotations

from typing import Any

import numpy as np

from lbnn._base.types import Array


def log_sum_exp(terms: Array, axis: int | None = None, weights: Array | None = None) -> Any:
    """log Σ weights · exp(terms) for terms of any shape, over an axis or all; −inf where every term is."""
    top = np.max(terms, axis=axis, keepdims=True)
    finite = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore", over="ignore"):
        sizes = np.exp(terms - finite)
        total = np.sum(sizes if weights is None else weights * sizes, axis=axis)
        return np.log(total) + np.squeeze(finite, axis=axis)


def normalised(log_weights: Array) -> Array:
    """Weights of sum one from their logarithms, (m,)."""
    weights = np.exp(log_weights - np.max(log_weights))
    return np.asarray(weights / weights.sum(), float)
