"""A referee for two bands: plain sums over a grid of (log ratio of the scales, log of their sum, log τ).

Shares no code with lbnn.bands: Gamma densities of SciPy (depth two), one dense eigendecomposition for each
ratio, and the trapezoid rule on a uniform grid in three dimensions that is refined around the mass. The sum
over every other point of the grid shows how accurate it is.
"""

from __future__ import annotations

import numpy as np
from scipy import linalg, special


def log_gamma_density(x, width, variance=1.0):
    """Log density of x = log λ for λ = variance · χ²(width)/width."""
    a = width / 2
    z = x - np.log(variance) + np.log(a)
    return a * z - np.exp(z) - special.gammaln(a)


def two_bands(G1, G2, y, widths, noise_scale, counts=(121, 81, 61), reach=14.0):
    """Log evidence, means of λ_1, λ_2 and τ, means and deviations of both shares, by a grid in 3 dimensions.

    The grid is centred on the mass and shrinks to where its marginal densities are above 1e-8 of their
    maxima. "halved" is the change of the log evidence with every other point.
    """
    p = len(y)
    sizes = np.array([np.trace(G1), np.trace(G2)]) / p
    size = np.log(y @ y / p)
    centre, half = np.array([0.0, size, size]), np.full(3, reach)
    for number in range(4):  # three surveys, then the sum
        final = number == 3
        grids = [
            np.linspace(c - h, c + h, count if final else 41)
            for c, h, count in zip(centre, half, counts, strict=True)
        ]
        logs = _log_posterior(G1 / sizes[0], G2 / sizes[1], y, widths, sizes, noise_scale, *grids)
        top = logs.max()
        mass = np.exp(logs - top)
        cell = np.prod([grid[1] - grid[0] for grid in grids])
        weight = mass / mass.sum()
        marginals = [weight.sum(axis=tuple(j for j in range(3) if j != i)) for i in range(3)]
        if not final:
            for i, (grid, marginal) in enumerate(zip(grids, marginals, strict=True)):
                inside = np.flatnonzero(marginal > 1e-8 * marginal.max())
                low = grid[max(inside[0] - 1, 0)] - (inside[0] == 0) * half[i]
                high = grid[min(inside[-1] + 1, 40)] + (inside[-1] == 40) * half[i]
                centre[i], half[i] = (low + high) / 2, (high - low) / 2
    evidence = top + np.log(mass.sum() * cell)
    coarse = top + np.log(mass[::2, ::2, ::2].sum() * 8 * cell)
    ratio, total, tau = grids[0], np.exp(grids[1]), np.exp(grids[2])
    whole = total[None, :, None] / (total[None, :, None] + tau[None, None, :])
    parts = special.expit(ratio)[:, None, None], special.expit(-ratio)[:, None, None]
    means = np.array([(weight * part * whole).sum() for part in parts])
    squares = np.array([(weight * (part * whole) ** 2).sum() for part in parts])
    scales = [(weight * part * total[None, :, None]).sum() for part in parts]
    return {
        "log_evidence": evidence,
        "halved": abs(evidence - coarse),
        "scale_mean": np.array(scales) / sizes,
        "noise_mean": marginals[2] @ tau,
        "share_mean": means,
        "share_deviation": np.sqrt(squares - means**2),
    }


def _log_posterior(G1, G2, y, widths, sizes, noise_scale, ratios, totals, t):
    """Grid (ratios, totals, t) of the log density of these coordinates and y.

    Kernels have mean diagonal one. With log ratio r and total s: λ_1 = s/(1 + e^−r), λ_2 = s/(1 + e^r), and
    d log λ_1 d log λ_2 = dr d log s.
    """
    result = np.empty((len(ratios), len(totals), len(t)))
    z = (t - 2 * np.log(noise_scale)) / 2
    noise = -np.log(2 * np.pi) - np.logaddexp(z, -z) + np.log(2)  # √τ half-Cauchy
    s, tau = np.exp(totals), np.exp(t)
    for i, r in enumerate(ratios):
        logs = [totals - np.logaddexp(0, -r), totals - np.logaddexp(0, r)]
        prior = sum(
            log_gamma_density(each - np.log(size), width)
            for each, size, width in zip(logs, sizes, widths, strict=True)
        )
        g, U = linalg.eigh(special.expit(r) * G1 + special.expit(-r) * G2)
        e = (U.T @ y) ** 2
        for j in range(len(s)):
            v = tau[:, None] + s[j] * np.maximum(g, 0)
            fit = np.log(2 * np.pi * v).sum(axis=1) + (e / v).sum(axis=1)
            result[i, j] = prior[j] + noise - 0.5 * fit
    return result
