"""Referees: a grid for two bands, importance sampling for more. They share no code with lbnn.bands.

Two bands: plain sums over a grid of (log ratio of the scales, log of their sum, log τ). Gamma densities of
SciPy (depth two), one dense eigendecomposition for each ratio, and the trapezoid rule on a uniform grid in
three dimensions that is refined around the mass. The sum over every other point of the grid shows how
accurate it is.
"""

from __future__ import annotations

import numpy as np
from scipy import linalg, optimize, special, stats


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


def weighted_draws(G, y, widths, noise_scale, count=4096, seed=0):
    """Draws of (log λ_1, …, log λ_K, log τ) (count, K + 1) and weights (count,) of their posterior, K bands.

    Importance sampling with a scrambled Sobol sequence: Student's t of four degrees of freedom around the
    maximum, the covariance from weighted draws of a first, wider one.
    """
    size, p = len(G), len(y)

    def log_density(draws):
        z = (draws[:, size] - 2 * np.log(noise_scale)) / 2
        total = -np.log(np.pi) - np.logaddexp(z, -z)  # √τ half-Cauchy, as a density of log τ
        for k, width in enumerate(widths):
            total = total + log_gamma_density(draws[:, k], width)
        roots = np.linalg.cholesky(_covariances(G, draws))
        solved = np.linalg.solve(roots, np.broadcast_to(y, (len(draws), p))[..., None])[..., 0]
        logs = np.log(np.diagonal(roots, axis1=1, axis2=2)).sum(axis=1)
        return total - logs - 0.5 * (solved**2).sum(axis=1) - 0.5 * p * np.log(2 * np.pi)

    start = np.append(np.zeros(size), np.log(y @ y / p) - 1)
    found = optimize.minimize(lambda x: -log_density(x[None])[0], start, method="Nelder-Mead")
    centre, covariance = found.x, np.eye(size + 1)
    for number in range(4):
        uniform = stats.qmc.Sobol(size + 2, rng=seed + number).random(count if number == 3 else count // 4)
        normal, chi2 = special.ndtri(uniform[:, :-1]), stats.chi2(4).ppf(uniform[:, -1:])
        student = stats.multivariate_t(centre, covariance, 4)
        draws = centre + normal @ np.linalg.cholesky(covariance).T * np.sqrt(4 / chi2)
        logs = log_density(draws) - student.logpdf(draws)
        weights = np.exp(logs - special.logsumexp(logs))
        centre = weights @ draws
        covariance = 1.3 * np.einsum("s,si,sj->ij", weights, draws - centre, draws - centre)
    return draws, weights


def _covariances(G, draws):
    """τ I + Σ_k λ_k G_k, (draws, p, p)."""
    return np.einsum("sk,kij->sij", np.exp(draws[:, :-1]), G) + np.exp(draws[:, -1])[:, None, None] * np.eye(
        G.shape[1]
    )


def mixture_at(G, cross, diagonals, y, draws):
    """Means and variances (draws, m) of the function at new inputs: cross (K, m, p), diagonals (K, m)."""
    scales = np.exp(draws[:, :-1])
    there = np.einsum("sk,kmp->smp", scales, cross)
    both = np.concatenate([np.broadcast_to(y, (len(draws), 1, len(y))), there], axis=1)  # (draws, 1 + m, p)
    solved = np.linalg.solve(_covariances(G, draws), np.swapaxes(both, 1, 2))  # (draws, p, 1 + m)
    means = np.einsum("smp,sp->sm", there, solved[:, :, 0])
    explained = np.einsum("smp,spm->sm", there, solved[:, :, 1:])
    return means, scales @ diagonals - explained
