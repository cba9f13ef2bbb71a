"""A referee that shares no code with the library: prior draws of weights, and dense Gaussian algebra."""

from __future__ import annotations

import numpy as np


def prior_scales(widths, channels, count, rng):
    """L = W_d ⋯ W_2 W_2ᵀ ⋯ W_dᵀ of weights drawn one by one, (count, M, M)."""
    product, above = np.broadcast_to(np.eye(channels), (count, channels, channels)), channels
    for width in reversed(widths):
        product = product @ (rng.standard_normal((count, above, width)) / np.sqrt(width))
        above = width
    return product @ product.swapaxes(1, 2)


def covariance(views, scale, noise):
    """τ δ + Σ_mm' L_mm' ⟨ψ_m, ψ_m'⟩/n0, entry by entry."""
    count, channels, dimension = views.shape
    result = noise * np.eye(count)
    for m in range(channels):
        for n in range(channels):
            result += scale[m, n] * views[:, m] @ views[:, n].T / dimension
    return result


def log_gaussian(y, matrix):
    """log N(y; 0, C)."""
    sign, logs = np.linalg.slogdet(matrix)
    assert sign > 0
    return -0.5 * (logs + y @ np.linalg.solve(matrix, y) + len(y) * np.log(2 * np.pi))


def log_likelihoods(views, y, scales, noise):
    """log p(y | L) of many scales, (count,)."""
    count, dimension = len(views), views.shape[2]
    grams = np.einsum("ami,bni->mnab", views, views) / dimension
    result = np.empty(len(scales))
    for start in range(0, len(scales), 2000):
        part = np.tensordot(scales[start : start + 2000], grams, axes=2) + noise * np.eye(count)
        lower = np.linalg.cholesky(part)
        white = np.linalg.solve(lower, np.broadcast_to(y, (len(part), count))[..., None])[..., 0]
        logs = np.log(np.diagonal(lower, axis1=1, axis2=2)).sum(axis=1)
        result[start : start + 2000] = -0.5 * (white**2).sum(axis=1) - logs - 0.5 * count * np.log(2 * np.pi)
    return result


def evidence_by_prior_draws(views, y, widths, noise, count, rng):
    """Log evidence, its standard error, E L and the effective number of draws."""
    scales = prior_scales(widths, views.shape[1], count, rng)
    logs = log_likelihoods(views, y, scales, noise)
    top = logs.max()
    terms = np.exp(logs - top)
    shares = terms / terms.sum()
    error = terms.std() / terms.mean() / np.sqrt(count)
    return top + np.log(terms.mean()), error, np.tensordot(shares, scales, axes=1), 1 / (shares**2).sum()
