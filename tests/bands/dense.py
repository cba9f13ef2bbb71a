"""A referee for two bands: plain sums over a grid of (log λ_1, log λ_2, log τ).

Shares no code with lbnn.bands: Gamma densities of SciPy (depth two), the generalised eigenvalue problem of
the two kernels for each ratio, and the trapezoid rule on a uniform grid that is refined around the mass.
"""

from __future__ import annotations

import numpy as np
from scipy import linalg, special


def log_gamma_density(x, width, variance=1.0):
    """Log density of x = log λ for λ = variance · χ²(width)/width."""
    a = width / 2
    z = x - np.log(variance) + np.log(a)
    return a * z - np.exp(z) - special.gammaln(a)


def two_bands(G1, G2, y, widths, noise_scale, steps=91, reach=12.0):
    """Log evidence, E λ_1, E λ_2, E τ and means and deviations of both shares, by a grid of three dimensions.

    The grid is centred on the mass and shrinks to where its marginal densities are above 1e-8 of their
    maxima.
    """
    p = len(y)
    sizes = np.array([np.trace(G1), np.trace(G2)]) / p
    centre, half = np.array([*(-np.log(sizes) + np.log(y @ y / p)), np.log(y @ y / p)]), np.full(3, reach)
    for count in (31, 31, steps):  # two surveys, then the sum
        grids = [np.linspace(c - h, c + h, count) for c, h in zip(centre, half, strict=True)]
        logs = _log_posterior(G1, G2, y, widths, noise_scale, *grids)
        top = logs.max()
        mass = np.exp(logs - top)
        cells = np.prod([grid[1] - grid[0] for grid in grids])
        total = mass.sum()
        evidence = top + np.log(total * cells)
        weight = mass / total
        marginals = [weight.sum(axis=tuple(j for j in range(3) if j != i)) for i in range(3)]
        if count < steps:
            for i, (grid, marginal) in enumerate(zip(grids, marginals, strict=True)):
                inside = np.flatnonzero(marginal > 1e-8 * marginal.max())
                low = grid[max(inside[0] - 1, 0)] - (inside[0] == 0) * half[i]
                high = grid[min(inside[-1] + 1, count - 1)] + (inside[-1] == count - 1) * half[i]
                centre[i], half[i] = (low + high) / 2, (high - low) / 2
    l1, l2, tau = (np.exp(grid) for grid in grids)
    parts = l1[:, None, None] * sizes[0], l2[None, :, None] * sizes[1], tau[None, None, :]
    whole = sum(parts)
    shares = [part / whole for part in parts[:2]]
    means = [(weight * share).sum() for share in shares]
    squares = [(weight * share**2).sum() for share in shares]
    return {
        "log_evidence": evidence,
        "scale_mean": np.array([marginals[0] @ l1, marginals[1] @ l2]),
        "noise_mean": marginals[2] @ tau,
        "share_mean": np.array(means),
        "share_deviation": np.sqrt(np.array(squares) - np.array(means) ** 2),
    }


def _log_posterior(G1, G2, y, widths, noise_scale, x1, x2, t):
    """(x1, x2, t) grid of log density of (log λ_1, log λ_2, log τ) and y."""
    result = np.empty((len(x1), len(x2), len(t)))
    prior = log_gamma_density(x1, widths[0])[:, None] + log_gamma_density(x2, widths[1])[None, :]
    z = (t - 2 * np.log(noise_scale)) / 2
    noise = -np.log(2 * np.pi) - np.logaddexp(z, -z) + np.log(2)
    tau = np.exp(t)
    for i, a in enumerate(x1):
        for j, b in enumerate(x2):
            g, U = linalg.eigh(np.exp(a) * G1 + np.exp(b) * G2)
            v = tau[None, :] + np.maximum(g, 0)[:, None]
            e = (U.T @ y) ** 2
            result[i, j] = prior[i, j] + noise - 0.5 * (np.log(2 * np.pi * v) + e[:, None] / v).sum(axis=0)
    return result
