"""Draws of the matrix generalised inverse Gaussian, beside two published samplers.

N = 15, ν = 10, Φ = I and three Ψ, the scenarios of Hamura, Irie & Sugasawa, "Gibbs sampler for matrix
generalized inverse Gaussian distributions". Compared are `MatrixGIG.weighted_sample`, with and without its
set-up (mode, curvature, diagnostics); their Gibbs sampler, over X = A D Aᵀ with A unit lower triangular; and
the importance sampler of Fazayeli & Banerjee, a Wishart law whose mode is that of the target. The published
samplers are ports to NumPy from their descriptions; many Gibbs chains run side by side, so that the
interpreter costs them little, and their burn-in is not counted.

Effective draws of tr X and of log det X, the smaller of the two, per CPU second on one thread (on an idle
machine these are seconds, on a busy one they leave out the others). For weighted draws the variance of the
function over the variance of its weighted average (delta method), for chains over that of chain means. The
ratio is to the better of the published samplers, and the aim is ten in every scenario.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable

import numpy as np
import threadpoolctl
from scipy import special, stats

import lbnn

SIZE, NU, AIM = 15, 10.0, 10.0
SCENARIOS = {
    "I": np.eye(SIZE),
    "diag(1 x 13, 10, 50)": np.diag([1.0] * 13 + [10.0, 50.0]),
    "diag(1..15)": np.diag(np.arange(1.0, SIZE + 1)),
}
DRAWS = 16_384
CHAINS, SWEEPS, BURN_IN = 256, 40, 20
RUNS = 3  # of every sampler, at most: medians over them


def run(repeats: int) -> None:
    print(
        f"{'Ψ':>21} {'set-up s':>9} {'lbnn':>9} {'with set-up':>12} {'Gibbs':>9} {'Wishart':>9} "
        f"{'ratio':>7} {'with set-up':>12}"
    )
    for name, psi in SCENARIOS.items():
        samplers: dict[str, Callable[[int], tuple[float, float]]] = {
            "set-up": lambda seed, psi=psi: (math.nan, set_up(psi, seed)),
            "own": lambda seed, psi=psi: own(psi, seed),
            "gibbs": lambda seed, psi=psi: gibbs(psi, seed),
            "wishart": lambda seed, psi=psi: wishart(psi, seed),
        }
        rates: dict[str, list[tuple[float, float]]] = {key: [] for key in samplers}
        with threadpoolctl.threadpool_limits(1):
            for seed in range(min(repeats, RUNS)):
                for key, sampler in samplers.items():
                    rates[key].append(sampler(seed))
        report(name, rates)


def report(name: str, rates: dict[str, list[tuple[float, float]]]) -> None:
    median = {
        key: statistics.median(size / seconds for size, seconds in pairs)
        for key, pairs in rates.items()
        if key != "set-up"
    }
    start = statistics.median(seconds for _, seconds in rates["set-up"])
    with_start = statistics.median(size / (seconds + start) for size, seconds in rates["own"])
    best = max(median["gibbs"], median["wishart"])
    ratios = median["own"] / best, with_start / best
    verdict = "ok" if ratios[0] >= AIM else "below the aim"
    print(
        f"{name:>21} {start:9.2f} {median['own']:9.0f} {with_start:12.0f} {median['gibbs']:9.0f} "
        f"{median['wishart']:9.0f} {ratios[0]:7.1f} {ratios[1]:12.1f}   {verdict}",
        flush=True,
    )


# ---------------------------------------------------------------- this library


def set_up(psi: np.ndarray, seed: int) -> float:
    """Seconds until the first draw."""
    started = time.process_time()
    lbnn.MatrixGIG(psi, np.eye(SIZE), NU, target_error=0.05, seed=seed).weighted_sample(1, seed)
    return time.process_time() - started


def own(psi: np.ndarray, seed: int) -> tuple[float, float]:
    """Effective draws and seconds of `DRAWS` weighted draws."""
    law = lbnn.MatrixGIG(psi, np.eye(SIZE), NU, target_error=0.05, seed=seed)
    law.weighted_sample(1, seed)
    started = time.process_time()
    draws, log_weights = law.weighted_sample(DRAWS, seed)
    seconds = time.process_time() - started
    return effective_weighted(draws, log_weights), seconds


# ---------------------------------------------------------------- Fazayeli & Banerjee


def wishart(psi: np.ndarray, seed: int) -> tuple[float, float]:
    """Wishart proposals with 2ν degrees of freedom (powers of det X cancel) and the mode of the target.

    The mode solves X² − (2ν − N − 1) X = Ψ; that of a Wishart law with scale S is (2ν − N − 1) S.
    """
    rng = np.random.default_rng(seed)
    started = time.process_time()
    values, axes = np.linalg.eigh(psi)
    excess = 2 * NU - SIZE - 1
    mode = (excess + np.sqrt(excess**2 + 4 * values)) / 2
    degrees = 2 * NU - np.arange(SIZE)
    T = np.tril(rng.standard_normal((DRAWS, SIZE, SIZE)), -1)
    index = np.arange(SIZE)
    T[:, index, index] = np.sqrt(rng.chisquare(degrees, size=(DRAWS, SIZE)))
    T *= np.sqrt(mode / excess)[:, None]
    inverse = np.linalg.inv(T)
    X = T @ T.swapaxes(1, 2)
    exponent = (inverse**2 * values).sum(axis=(1, 2))
    exponent += ((1 - excess / mode) * np.diagonal(X, axis1=1, axis2=2)).sum(axis=1)
    X = axes @ X @ axes.T
    seconds = time.process_time() - started
    return effective_weighted(X, -0.5 * exponent), seconds


# ---------------------------------------------------------------- Hamura, Irie & Sugasawa


def gibbs(psi: np.ndarray, seed: int) -> tuple[float, float]:
    """Effective draws and seconds of the sweeps after burn-in."""
    rng = np.random.default_rng(seed)
    A = np.broadcast_to(np.eye(SIZE), (CHAINS, SIZE, SIZE)).copy()
    B, d = A.copy(), np.full((CHAINS, SIZE), 2 * NU)
    for _ in range(BURN_IN):
        sweep(A, B, d, psi, rng)
    kept = np.empty((CHAINS, SWEEPS, 2))
    started = time.process_time()
    for step in range(SWEEPS):
        sweep(A, B, d, psi, rng)
        kept[:, step, 0] = (A**2 * d[:, None, :]).sum(axis=(1, 2))
        kept[:, step, 1] = np.log(d).sum(axis=1)
    seconds = time.process_time() - started
    spread = kept.reshape(-1, 2).var(axis=0)
    return float((CHAINS * spread / kept.mean(axis=1).var(axis=0, ddof=1)).min()), seconds


def sweep(A: np.ndarray, B: np.ndarray, d: np.ndarray, psi: np.ndarray, rng: np.random.Generator) -> None:
    """D given A: independent generalised inverse Gaussians. Then the columns of A: Gaussian, since A⁻¹ = B is
    affine in each of them. In place; Φ = I.
    """
    large, small = (A**2).sum(axis=1), ((B @ psi) * B).sum(axis=2)
    order = NU + (SIZE - 1) / 2 - np.arange(SIZE)
    d[:] = np.sqrt(small / large) * draw_gig(np.broadcast_to(order, d.shape), np.sqrt(small * large), rng)
    for j in range(SIZE - 1):
        below = slice(j + 1, None)
        trailing, row = B[:, below, below], B[:, j]
        free = B[:, below] + (trailing @ A[:, below, j, None]) * row[:, None, :]
        weighted = trailing.swapaxes(1, 2) / d[:, None, below]
        through = row @ psi
        precision = weighted @ trailing * (through * row).sum(axis=1)[:, None, None]
        index = np.arange(SIZE - 1 - j)
        precision[:, index, index] += d[:, j, None]
        root = np.linalg.cholesky(precision)
        linear = weighted @ (free @ through[:, :, None])
        white = np.linalg.solve(root, linear) + rng.standard_normal(linear.shape)
        column = np.linalg.solve(root.swapaxes(1, 2), white)
        A[:, below, j] = column[:, :, 0]
        B[:, below] = free - (trailing @ column) * row[:, None, :]


def draw_gig(order: np.ndarray, omega: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Density ∝ x^{λ−1} exp(−ω(x + 1/x)/2), elementwise and exact: log x is log-concave, so rejection from a
    uniform centre between two exponential tails (after Devroye, 2014).
    """
    curve = np.sqrt(order**2 + omega**2)
    mode = np.arcsinh(order / omega)

    def height(t: np.ndarray, mode: np.ndarray, order: np.ndarray, omega: np.ndarray) -> np.ndarray:
        """Log density of t = log x less its maximum."""
        return order * (t - mode) - omega * (np.cosh(t) - np.cosh(mode))

    def slope(t: np.ndarray) -> np.ndarray:
        return order - omega * np.sinh(t)

    reach = 1.0 / np.sqrt(curve)
    left, right = mode - reach, mode + reach
    left_height, right_height = (height(end, mode, order, omega) for end in (left, right))
    left_slope, right_slope = slope(left), -slope(right)
    # tangents at both ends meet the top at these points
    left_start, right_start = left - left_height / left_slope, right + right_height / right_slope
    left_start, right_start = np.minimum(left_start, mode), np.maximum(right_start, mode)
    masses = np.stack([1 / left_slope, right_start - left_start, 1 / right_slope])
    edges = np.cumsum(masses, axis=0) / masses.sum(axis=0)
    result = np.empty(order.shape)
    open_ = np.ones(order.shape, bool)
    while open_.any():
        count = int(open_.sum())
        pick, first, second = rng.random(count), rng.standard_exponential(count), rng.random(count)
        low, high = left_start[open_], right_start[open_]
        in_left, in_right = pick < edges[0][open_], pick >= edges[1][open_]
        t = low + second * (high - low)
        t = np.where(in_left, low - first / left_slope[open_], t)
        t = np.where(in_right, high + first / right_slope[open_], t)
        envelope = np.where(in_left | in_right, -first, 0.0)
        log_ratio = height(t, mode[open_], order[open_], omega[open_]) - envelope
        accepted = -rng.standard_exponential(count) < log_ratio
        where = np.flatnonzero(open_)
        result.flat[where[accepted]] = np.exp(t[accepted])
        open_.flat[where[accepted]] = False
    return result


# ---------------------------------------------------------------- judging


def effective_weighted(draws: np.ndarray, log_weights: np.ndarray) -> float:
    """Variance of a function over the variance of its weighted average; the least of the two functions."""
    weights = np.exp(log_weights - special.logsumexp(log_weights))
    values = np.stack([np.trace(draws, axis1=1, axis2=2), np.linalg.slogdet(draws)[1]], axis=1)
    centred = values - weights @ values
    return float(((weights @ centred**2) / (weights**2 @ centred**2)).min())


def check() -> None:
    """The ports against each other and SciPy: not part of the benchmark, run by hand."""
    rng = np.random.default_rng(0)
    for order, omega in ((-3.0, 0.5), (0.0, 2.0), (12.0, 3.0), (3.0, 1e-3)):
        draws = draw_gig(np.full(4000, order), np.full(4000, omega), rng)
        print(order, omega, stats.kstest(draws, stats.geninvgauss(order, omega).cdf).pvalue)


if __name__ == "__main__":
    check()
