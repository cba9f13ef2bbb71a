"""Noise with a covariance of its own, given or unknown: two phases, and an outlying row of steep columns.

Referees. *Two phases, given*: one output, or a layer of one unit, so that L = v vᵀ. |v|² is a product of χ²
whose law is a sum over a grid of logarithms, the direction of v is uniform, and the likelihood of a row is
that of a rank-one change of Σ: a quadrature in log |v|² and, for two and three outputs, the direction. *Two
phases, unknown*: the same with one output, and a grid of the noise variance. *Outliers*: draws of all weights
from the prior with dense likelihoods, and where too few of these count, sequential Monte Carlo from the prior
on independent islands, with moves that leave the prior invariant (Cotter et al. 2013).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from scipy import special

import lbnn
from benchmarks.silent_errors.judgement import Judgement

Array = np.ndarray
_PRIOR_DRAWS, _FEWEST = 400_000, 2_000
_ISLANDS, _PARTICLES, _MOVES = 16, 250, 12
_STEP = 0.05  # of grids in a logarithm


@dataclass(frozen=True)
class Problem:
    """Network, data and noise: the covariance, or beta and the widths of the network of the noise."""

    name: str
    widths: tuple[int, ...]
    variances: tuple[float, ...]
    X: Array
    Y: Array
    covariance: Array | None
    beta: float | None = None
    noise_width: int = 0
    noise_variance: float = 1.0  # prior variance of the second layer of that network
    seed: int = 0

    def condition(self) -> lbnn.Posterior:
        """The answer."""
        network = lbnn.Network(self.widths, self.variances)
        options: dict[str, object] = {"noise": "free", "seed": self.seed}
        if self.covariance is not None:
            return network.condition(self.X, self.Y, noise_covariance=self.covariance, **options)
        own = lbnn.Network((self.noise_width,), (1.0, self.noise_variance))
        return network.condition(self.X, self.Y, self.beta, noise_network=own, **options)

    @property
    def rows(self) -> tuple[Array, Array]:
        """Eigenvalues g (p,) of the Gram matrix, and the targets in its eigenbasis (p, n_d)."""
        values, axes = np.linalg.eigh(self.variances[0] * self.X @ self.X.T / self.X.shape[1])
        return np.maximum(values, 0.0), axes.T @ self.Y


# ---------------------------------------------------------------------- problems


def problems(count: int, seed: int) -> Iterator[Problem]:
    """In turn: two phases, an outlier; a third of each with an unknown covariance."""
    return (problem_of(number, seed) for number in range(count))


def problem_of(number: int, seed: int) -> Problem:
    """One of them."""
    rng = np.random.default_rng([seed, number, 44])
    return (_two_phases if number % 2 == 0 else _outlier)(rng, number, number % 6 >= 4)


def _two_phases(rng: np.random.Generator, number: int, unknown: bool) -> Problem:
    """Depth three or four, prior variances of 0.01, targets at a size where both phases count."""
    while True:
        outputs = 1 if unknown else int(rng.integers(1, 4))
        widths = [int(each) for each in rng.integers(1, 7, rng.integers(2, 4))]
        if outputs > 1:
            widths[rng.integers(len(widths))] = 1
        variances = (1.0, *(0.01 for _ in widths))
        rows, inputs = int(rng.integers(1, 6)), int(rng.integers(1, 5))
        if unknown:  # noise may explain few rows as well as a signal does
            rows, inputs = rows + 3, 1
        X = rng.normal(size=(rows, inputs))
        root = 0.5 * rng.uniform(0.3, 1.5) * (np.eye(outputs) + 0.4 * rng.normal(size=(outputs, outputs)))
        covariance = root @ root.T + 0.01 * np.eye(outputs)
        signal = X @ rng.normal(size=(inputs, 1)) @ rng.normal(size=(1, outputs))
        signal /= np.abs(signal).max()
        noise = rng.normal(size=(rows, outputs)) @ np.linalg.cholesky(covariance).T
        kind = "unknown" if unknown else "given"
        name = f"two phases {number}, {kind}, widths {tuple(widths)}, {rows} rows of {outputs}"
        found = Problem(name, tuple(widths), variances, X, noise, covariance, seed=number)
        if unknown:
            beta, variance = float(1 / np.diag(covariance).mean()), float(rng.choice([0.1, 1.0]))
            width = int(rng.integers(1, 4))
            found = replace(
                found, covariance=None, beta=beta, noise_width=width, noise_variance=variance / beta
            )
        for size in rng.permutation(np.geomspace(1.0, 30.0, 30))[:15]:
            sized = replace(found, Y=size * signal + noise)
            if _both_phases_count(sized):
                return sized


def _both_phases_count(problem: Problem) -> bool:
    """Whether the law of log |v|² has two modes, with at least 2% of the mass on either side of a minimum."""
    logs = _log_density_of_size(problem, True)[1]
    density = np.exp(logs - logs.max())
    peaks = np.flatnonzero((density[1:-1] > density[:-2]) & (density[1:-1] >= density[2:])) + 1
    if len(peaks) != 2:
        return False
    cut = peaks[0] + int(density[peaks[0] : peaks[1]].argmin())
    mass = density[cut:].sum() / density.sum()
    return bool(0.02 < mass < 0.98)


def _outlier(rng: np.random.Generator, number: int, unknown: bool) -> Problem:
    """Widths (4, 4), about ten rows, one of them outlying, columns that fall as 10^(−j^0.7)."""
    rows, outputs = int(rng.integers(8, 13)), int(rng.integers(2, 5))
    X = rng.normal(size=(rows, int(rng.integers(3, 9))))
    root = np.eye(outputs) + 0.5 * rng.normal(size=(outputs, outputs)) / math.sqrt(outputs)
    covariance = rng.choice([0.1, 0.3, 1.0]) * (root @ root.T)
    Y = rng.normal(size=(rows, outputs)) * 10.0 ** (-(np.arange(1, outputs + 1) ** 0.7))
    Y = X @ rng.normal(size=(X.shape[1], outputs)) * np.abs(Y[:1]) + 3 * Y
    Y[rng.integers(rows)] *= rng.choice([5.0, 15.0])
    name = f"outlier {number}, {'unknown' if unknown else 'given'}, {rows} rows of {outputs}"
    own, beta = (None, float(1 / np.diag(covariance).mean())) if unknown else (covariance, None)
    return Problem(name, (4, 4), (1.0, 1.0, 1.0), X, Y, own, beta, 2 * unknown, seed=number)


# ---------------------------------------------------------------------- L = v vᵀ


def _log_chi_square(freedom: int) -> tuple[float, Array]:
    """Log density of log χ² on a grid: its first point, and the values."""
    low, high = -90.0, 8.0
    x = np.arange(round((high - low) / _STEP) + 1) * _STEP + low
    logs = 0.5 * freedom * x - 0.5 * np.exp(x) - 0.5 * freedom * math.log(2) - special.gammaln(0.5 * freedom)
    return low, logs


def _size_prior(problem: Problem) -> tuple[Array, Array]:
    """A grid of log |v|² (m,), and the prior density there.

    With a layer k of one unit W_d ⋯ W_2 is a vector: every matrix above it, seen from below, and every matrix
    below it, seen from above, multiplies a length by the root of σ²χ²/n, with as many degrees of freedom as
    the side that is turned away has units.
    """
    sizes = [*problem.widths, problem.Y.shape[1]]
    if 1 not in sizes:
        raise ValueError(f"a layer of one unit is needed, got {sizes}")
    narrow, constant = sizes.index(1), 0.0
    start, density = 0.0, np.array([1 / _STEP])
    outputs = problem.Y.shape[1]
    for layer in range(1, len(sizes)):  # W maps sizes[layer − 1] units to sizes[layer]
        constant += math.log(problem.variances[layer] / sizes[layer - 1])
        freedom = sizes[layer] if layer > narrow else sizes[layer - 1]
        low, own = _log_chi_square(freedom)
        start, density = start + low, np.convolve(density, np.exp(own)) * _STEP
    assert outputs == sizes[-1]
    grid = constant + start + _STEP * np.arange(len(density))
    kept = (density > 0) & (grid > -60.0)  # with three layers of one unit 2e-5 of the prior lie below e⁻³⁵
    return grid[kept], density[kept]


def _directions(targets: Array, coarse: bool) -> tuple[Array, Array]:
    """Points of half the unit sphere (k, n_d), with weights (k,), finest at the strongest direction."""
    outputs = targets.shape[1]
    if outputs == 1:
        return np.ones((1, 1)), np.ones(1)
    axes = np.linalg.svd(targets, full_matrices=True)[2]
    if outputs == 2:
        angle = math.pi * np.arange(200 if coarse else 3000) / (200 if coarse else 3000)
        points = np.stack([np.cos(angle), np.sin(angle)], axis=1)
        return points @ axes, np.full(len(angle), 1 / len(angle))
    nodes, weights = np.polynomial.legendre.leggauss(24 if coarse else 160)
    height, around = (
        0.5 * (nodes + 1),
        2 * math.pi * np.arange(24 if coarse else 160) / (24 if coarse else 160),
    )
    side = np.sqrt(1 - height**2)[:, None]
    shape = (len(height), len(around))
    points = np.stack(
        [np.broadcast_to(height[:, None], shape), side * np.cos(around), side * np.sin(around)], axis=2
    )
    each = np.broadcast_to(0.5 * weights[:, None] / len(around), shape)
    return points.reshape(-1, 3) @ axes, each.ravel()


def _log_size_likelihood(problem: Problem, covariance: Array, grid: Array, coarse: bool) -> Array:
    """log of the average over directions of p(Y | v) at log |v|² (m,), (m,)."""
    values, targets = problem.rows
    root = np.linalg.cholesky(covariance)
    white = np.linalg.solve(root, targets.T).T
    points, weights = _directions(targets, coarse)
    seen = np.linalg.solve(root, points.T).T  # B⁻¹ω, (k, n_d)
    length, along = (seen**2).sum(axis=1), (seen @ white.T) ** 2  # (k,), (k, p)
    total = np.full(len(grid), -np.inf)
    for some in np.array_split(np.arange(len(points)), max(1, len(points) * len(grid) // 4_000_000)):
        log_terms = np.zeros((len(grid), len(some)))
        for g, fits in zip(values, along[some].T, strict=True):
            strength = g * np.exp(grid)[:, None]
            spread = 1 + strength * length[some]
            log_terms -= 0.5 * (np.log(spread) - strength * fits / spread)
        total = np.logaddexp(total, special.logsumexp(log_terms, b=weights[some], axis=1))
    rows, outputs = targets.shape
    constant = -0.5 * float((white**2).sum()) - 0.5 * rows * outputs * math.log(2 * math.pi)
    return total + constant - rows * float(np.log(np.diagonal(root)).sum())


def _noises(problem: Problem, step: int) -> list[tuple[float, Array]]:
    """Log weights and covariances of the noise: one that is given, or with one output 1/β + λ on a grid."""
    if problem.covariance is not None:
        return [(0.0, problem.covariance)]
    assert problem.beta is not None
    low, own = _log_chi_square(problem.noise_width)
    log_size = low + _STEP * np.arange(len(own)) + math.log(problem.noise_variance / problem.noise_width)
    kept = np.flatnonzero(log_size > -30.0)[::step]
    return [
        (
            float(own[place]) + math.log(step * _STEP),
            np.array([[1 / problem.beta + math.exp(log_size[place])]]),
        )
        for place in kept
    ]


def _log_density_of_size(problem: Problem, coarse: bool) -> tuple[Array, Array, float]:
    """A grid of log |v|², log p(Y, log |v|²) there, and the step of the grid."""
    grid, prior = _size_prior(problem)
    step = 4 if coarse else 1
    grid, total = grid[::step], np.full(len(grid[::step]), -np.inf)
    for log_weight, covariance in _noises(problem, step):
        own = _log_size_likelihood(problem, covariance, grid, coarse)
        total = np.logaddexp(total, log_weight + own)
    return grid, np.log(prior[::step]) + total, step * _STEP


def by_quadrature(problem: Problem) -> tuple[float, float]:
    """log p(Y) and E tr L."""
    grid, logs, step = _log_density_of_size(problem, False)
    evidence = float(special.logsumexp(logs))
    return evidence + math.log(step), float(np.exp(special.logsumexp(logs + grid) - evidence))


def _log_mean(logs: Array) -> tuple[float, float]:
    """Log of the mean of exp(logs) (m,), and its standard error."""
    weights = np.exp(logs - logs.max())
    error = float(weights.std() / weights.mean()) / math.sqrt(len(logs))
    return float(logs.max()) + math.log(float(weights.mean())), error


# ---------------------------------------------------------------------- draws


def _log_likelihood(problem: Problem) -> tuple[int, Callable[[Array], Array]]:
    """Number of weights, and log p(Y | weights) of standard normal weights (m, k), (m,), by dense algebra."""
    values, targets = problem.rows
    sizes = [*problem.widths, targets.shape[1]]
    shapes = [(sizes[layer], sizes[layer - 1]) for layer in range(1, len(sizes))]
    noise_shape = (targets.shape[1], problem.noise_width)
    lengths = [math.prod(each) for each in (*shapes, noise_shape)]
    ends = np.cumsum(lengths)

    def function(u: Array) -> Array:
        total = np.eye(sizes[0])
        for layer, (shape, end, length) in enumerate(zip(shapes, ends, lengths, strict=False), 1):
            W = u[:, end - length : end].reshape(len(u), *shape)
            total = math.sqrt(problem.variances[layer] / shape[1]) * W @ total
        signal = total @ total.swapaxes(1, 2)
        if problem.covariance is not None:
            noise = np.broadcast_to(problem.covariance, signal.shape)
        else:
            factor = u[:, ends[-1] - lengths[-1] :].reshape(len(u), *noise_shape)
            noise = problem.noise_variance / problem.noise_width * factor @ factor.swapaxes(1, 2)
            noise = noise + np.eye(len(noise[0])) / problem.beta
        logs = np.zeros(len(u))
        for g, row in zip(values, targets, strict=True):
            root = np.linalg.cholesky(g * signal + noise)
            white = np.linalg.solve(root, np.broadcast_to(row[:, None], (len(u), len(row), 1)))[:, :, 0]
            logs -= np.log(np.diagonal(root, axis1=1, axis2=2)).sum(axis=1) + 0.5 * (white**2).sum(axis=1)
        return logs - 0.5 * targets.size * math.log(2 * math.pi)

    return int(ends[-1]), function


def by_draws(problem: Problem) -> tuple[float, float]:
    """log p(Y) and its standard error: draws of the prior, or sequential Monte Carlo from it."""
    size, function = _log_likelihood(problem)
    rng = np.random.default_rng([problem.seed, 2])
    logs = np.concatenate(
        [function(rng.standard_normal((20_000, size))) for _ in range(_PRIOR_DRAWS // 20_000)]
    )
    weights = special.softmax(logs)
    if 1 / float((weights**2).sum()) > _FEWEST:
        return _log_mean(logs)
    return _log_mean(np.array([_tempered(size, function, rng) for _ in range(_ISLANDS)]))


def _tempered(size: int, function: Callable[[Array], Array], rng: np.random.Generator) -> float:
    """An unbiased estimate of p(Y), as its log, from one island of particles.

    The sizes of the moves u → √(1 − s²) u + s ξ are spread over all lengths, so that none is ever tuned.
    """
    u = rng.standard_normal((_PARTICLES, size))
    logs, power, evidence = function(u), 0.0, 0.0
    while power < 1:
        low, high = 0.0, 1 - power
        for _ in range(50):
            middle = 0.5 * (low + high)
            weights = special.softmax(middle * logs)
            low, high = (middle, high) if 1 / (weights**2).sum() > 0.7 * len(u) else (low, middle)
        step = 1 - power if high == 1 - power else low
        evidence += float(special.logsumexp(step * logs)) - math.log(len(u))
        weights = special.softmax(step * logs)
        places = np.searchsorted(np.cumsum(weights), (np.arange(len(u)) + rng.random()) / len(u))
        index = np.minimum(places, len(u) - 1)
        u, logs, power = u[index], logs[index], power + step
        for _ in range(_MOVES):
            s = 10.0 ** rng.uniform(-2.0, 0.0, (len(u), 1))
            new = np.sqrt(1 - s**2) * u + s * rng.standard_normal(u.shape)
            proposed = function(new)
            taken = np.log(rng.random(len(u))) < power * (proposed - logs)
            u, logs = np.where(taken[:, None], new, u), np.where(taken, proposed, logs)
    return evidence


# ---------------------------------------------------------------------- judgements


def judge(problem: Problem) -> list[Judgement]:
    """The log evidence, and with two phases and a given covariance also E tr L."""
    began = time.process_time()
    post = problem.condition()
    seconds = time.process_time() - began
    ok, two_phases = post.diagnostics.ok, problem.name.startswith("two phases")
    trace = None
    if not two_phases:
        truth, truth_error = by_draws(problem)
    else:
        (truth, trace), truth_error = by_quadrature(problem), 1e-6
    answer = post.log_evidence, post.log_evidence_error
    found = [Judgement(problem.name, *answer, truth, truth_error, ok, seconds=seconds)]
    if trace is not None and problem.covariance is not None:
        value, error = post.scale.expect_with_error(lambda scale: np.trace(np.atleast_2d(scale)))
        name = f"{problem.name}, E tr L"
        found.append(Judgement(name, float(value), float(error), trace, 1e-6 * trace, ok, 1e-6, seconds=0.0))
    return found
