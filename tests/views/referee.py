"""A referee that shares no code with the library: prior draws of weights, and dense Gaussian algebra."""

from __future__ import annotations

import itertools

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


def evidence_by_annealing(views, y, widths, noise, rng, groups=8, particles=128, steps=150):
    """Log evidence and its standard error, by sequential Monte Carlo in the raw weights from their prior.

    Weights are standard normal before the data. Temperatures grow with the sixth power (most of the way is
    at small ones), particles are resampled where half of them are lost, and each step has two Hamiltonian
    moves. The error is the spread over independent groups.
    """
    count, channels, dimension = views.shape
    sizes = [channels, *reversed(widths), dimension]  # W_d first
    shapes = list(itertools.pairwise(sizes))
    total = groups * particles
    weights = [rng.standard_normal((total, *shape)) for shape in shapes]
    # [W_d ⋯ W_1 ψ_m]_m with entries N(0, 1/columns)
    flat = views.reshape(count, -1)

    def fit(weights):
        """Log likelihood (total,) and its gradient."""
        parts = [each / np.sqrt(each.shape[2]) for each in weights]
        before = [None]
        for part in parts[:-1]:
            before.append(part if before[-1] is None else before[-1] @ part)
        product = parts[-1] if before[-1] is None else before[-1] @ parts[-1]
        rest = y - product.reshape(total, -1) @ flat.T
        value = -0.5 * (rest**2).sum(axis=1) / noise
        after = (rest @ flat).reshape(total, channels, dimension) / noise  # derivative in the product
        slopes = []
        for number in range(len(parts) - 1, -1, -1):
            head = before[number]
            own = after if head is None else head.swapaxes(1, 2) @ after
            slopes.append(own / np.sqrt(parts[number].shape[2]))
            after = after @ parts[number].swapaxes(1, 2)
        return value, slopes[::-1]

    logs, current = np.zeros((groups, particles)), fit(weights)
    evidence = np.zeros(groups)
    temperatures = np.linspace(0, 1, steps + 1) ** 6
    size = 0.3
    for below, above in itertools.pairwise(temperatures):
        logs += (above - below) * current[0].reshape(groups, particles)
        top = logs.max(axis=1, keepdims=True)
        shares = np.exp(logs - top)
        if ((shares.sum(axis=1) ** 2 / (shares**2).sum(axis=1)) < particles / 2).any():
            evidence += top[:, 0] + np.log(shares.mean(axis=1))
            index = np.concatenate(
                [
                    g * particles + rng.choice(particles, particles, p=shares[g] / shares[g].sum())
                    for g in range(groups)
                ]
            )
            weights = [each[index] for each in weights]
            current = current[0][index], [each[index] for each in current[1]]
            logs[:] = 0.0
        for _ in range(2):
            weights, current, accepted = _hamiltonian(weights, current, fit, above, size, rng)
            size *= np.exp(0.3 * (accepted - 0.8))
    top = logs.max(axis=1, keepdims=True)
    evidence += top[:, 0] + np.log(np.exp(logs - top).mean(axis=1))
    constant = -0.5 * count * np.log(2 * np.pi * noise)
    high = evidence.max()
    means = np.exp(evidence - high)
    error = means.std(ddof=1) / means.mean() / np.sqrt(groups)
    return constant + high + np.log(means.mean()), error


def _hamiltonian(weights, current, fit, temperature, size, rng, leaps=6):
    """One Hamiltonian move of every particle under prior × likelihood to a temperature."""
    speeds = [rng.standard_normal(each.shape) for each in weights]
    steps = size * rng.uniform(0.5, 1.5, size=(len(weights[0]), 1, 1))

    def energy(places, value, speeds):
        squares = sum((each**2).sum(axis=(1, 2)) for each in [*places, *speeds])
        return temperature * value - 0.5 * squares

    begin = energy(weights, current[0], speeds)
    places, state = weights, current
    with np.errstate(over="ignore", invalid="ignore"):
        for _ in range(leaps):
            speeds = [
                v + 0.5 * steps * (temperature * g - w)
                for v, g, w in zip(speeds, state[1], places, strict=True)
            ]
            places = [w + steps * v for w, v in zip(places, speeds, strict=True)]
            state = fit(places)
            speeds = [
                v + 0.5 * steps * (temperature * g - w)
                for v, g, w in zip(speeds, state[1], places, strict=True)
            ]
        change = energy(places, state[0], speeds) - begin
    kept = np.log(rng.random(len(change))) < np.where(np.isfinite(change), change, -np.inf)
    pick = kept[:, None, None]
    weights = [np.where(pick, new, old) for new, old in zip(places, weights, strict=True)]
    slopes = [np.where(pick, new, old) for new, old in zip(state[1], current[1], strict=True)]
    return weights, (np.where(kept, state[0], current[0]), slopes), kept.mean()
