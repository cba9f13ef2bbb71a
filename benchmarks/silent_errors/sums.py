"""Sums of networks on incomplete tables of at most thirty observed cells, with noise known and unknown.

Referee: draws of all weights from the prior with dense likelihoods of the observed cells. Compared are the
log evidence and the posterior mean of a cell, a missing one if there is any. Problems for which fewer than
`_FEWEST` of the draws count are left out.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

import lbnn
from benchmarks.silent_errors.judgement import Judgement

Array = np.ndarray
_DRAWS, _BLOCK, _FEWEST = 200_000, 20_000, 1_000
_NAMES = ("log evidence", "mean of a cell")


@dataclass(frozen=True)
class Problem:
    """Networks, inputs (None: the identity), the table, and noise variances or None."""

    name: str
    widths: tuple[tuple[int, ...], ...]
    variances: tuple[tuple[float, ...], ...]
    inputs: tuple[Array | None, ...]
    Y: Array
    observed: Array
    noise: Array | None
    target_error: float = 0.1
    seed: int = 0

    @property
    def cell(self) -> tuple[int, int]:
        """The cell whose mean is compared."""
        places = np.argwhere(~self.observed)
        row, output = places[0] if len(places) else (0, 0)
        return int(row), int(output)

    def condition(self) -> lbnn.SumPosterior:
        """The answer."""
        networks = [lbnn.Network(*each) for each in zip(self.widths, self.variances, strict=True)]
        return lbnn.condition_sum(
            networks,
            self.inputs,
            self.Y,
            self.noise,
            observed=self.observed,
            target_error=self.target_error,
            seed=self.seed,
        )


def problems(count: int, seed: int) -> Iterator[Problem]:
    """One and two networks, known and unknown noise in turn."""
    return (problem_of(number, seed) for number in range(count))


def problem_of(number: int, seed: int) -> Problem:
    """One of them."""
    rng = np.random.default_rng([seed, number, 47])
    while True:
        p, outputs = int(rng.integers(4, 11)), int(rng.integers(1, 5))
        observed = rng.random((p, outputs)) >= rng.uniform(0.0, 0.8)
        if observed.any(axis=0).all() and observed.any(axis=1).all() and observed.sum() <= 30:
            break
    blocks = 1 + number % 2
    widths, variances, inputs = [], [], []
    for block in range(blocks):
        depth = int(rng.integers(2, 5))
        widths.append(tuple(int(each) for each in rng.integers(1, min(p, 5), depth - 1)))
        variances.append(tuple(float(each) for each in rng.choice([0.5, 1.0, 2.0], depth)))
        own = block and rng.random() < 0.6
        inputs.append(None if own else rng.standard_normal((p, int(rng.integers(2, 9)))))
    rank = rng.standard_normal((p, 1)) * rng.standard_normal((1, outputs))
    Y = rng.choice([0.3, 1.0]) * rng.standard_normal((p, outputs)) + rng.choice([0.0, 1.0, 2.0]) * rank
    kind = (number // 2) % 3
    noise = None if kind == 0 else np.full(outputs, 0.3) if kind == 1 else rng.uniform(0.1, 1.0, outputs)
    size = f"{p} × {outputs}, {int(observed.sum())} observed"
    name = f"{number}: {size}, widths {widths}, noise {'unknown' if noise is None else noise.round(2)}"
    return Problem(name, tuple(widths), tuple(variances), tuple(inputs), Y, observed, noise, seed=number)


def judge(problem: Problem) -> list[Judgement]:
    """Log evidence and the mean of a cell, if enough draws of the referee count."""
    rows = referee(problem)
    weights = np.exp(rows[0] - rows[0].max())
    if weights.sum() ** 2 / (weights**2).sum() < _FEWEST:
        return []
    average = weights.mean()
    log_evidence = rows[0].max() + math.log(average)
    evidence_error = weights.std() / average / math.sqrt(len(weights))
    mean = (weights * rows[1]).mean() / average
    mean_error = (weights * (rows[1] - mean)).std() / average / math.sqrt(len(weights))
    start = time.process_time()
    post = problem.condition()
    seconds = time.process_time() - start
    row, output = problem.cell
    answers = (post.log_evidence, post.cells.mean[row, output])
    errors = (post.log_evidence_error, post.cells.mean_error[row, output])
    truths = ((log_evidence, evidence_error), (mean, mean_error))
    return [
        Judgement(
            f"{problem.name}, {name}", float(answer), float(error), *truth, post.diagnostics.ok, seconds=took
        )
        for name, answer, error, truth, took in zip(
            _NAMES, answers, errors, truths, (seconds, 0.0), strict=True
        )
    ]


def referee(problem: Problem) -> Array:
    """Log likelihood and mean of the cell given each draw of the prior, (2, draws)."""
    rng = np.random.default_rng([problem.seed, 1])
    return np.concatenate([_some(problem, _BLOCK, rng) for _ in range(_DRAWS // _BLOCK)], axis=1)


def _some(problem: Problem, count: int, rng: np.random.Generator) -> Array:
    """The same for so many draws."""
    p, outputs = problem.Y.shape
    rows, columns = np.nonzero(problem.observed)
    row, output = problem.cell
    places, j = np.append(rows, row), np.append(columns, output)
    covariance = np.zeros((count, len(j), len(j)))
    for widths, variances, X in zip(problem.widths, problem.variances, problem.inputs, strict=True):
        gram = np.eye(p) if X is None else X @ X.T / X.shape[1]
        scale = _scales(widths, variances[1:], outputs, count, rng)
        covariance += variances[0] * gram[np.ix_(places, places)] * scale[:, j[:, None], j]
    if problem.noise is None:
        squares = np.where(problem.observed, problem.Y, 0.0) ** 2
        rate = 0.5 * squares.sum(axis=0) / problem.observed.sum(axis=0)
        noise = rate / rng.gamma(2.0, size=(count, outputs))
        covariance *= np.sqrt(noise[:, j, None] * noise[:, None, j])
    else:
        noise = np.broadcast_to(problem.noise, (count, outputs))
    y = problem.Y[rows, columns]
    inner = covariance[:, :-1, :-1] + np.eye(len(y)) * noise[:, columns][:, None]
    root = np.linalg.cholesky(inner)
    white = np.linalg.solve(inner, np.broadcast_to(y, (count, len(y)))[..., None])[..., 0]
    logs = -0.5 * white @ y - np.log(np.diagonal(root, axis1=1, axis2=2)).sum(axis=1)
    logs -= 0.5 * len(y) * math.log(2 * math.pi)
    return np.stack([logs, (covariance[:, -1, :-1] * white).sum(axis=1)])


def _scales(
    widths: tuple[int, ...], variances: tuple[float, ...], outputs: int, count: int, rng: np.random.Generator
) -> Array:
    """L (count, n_d, n_d) from weights of all layers but the first."""
    sizes = (*widths, outputs)
    product = np.broadcast_to(np.eye(sizes[0]), (count, sizes[0], sizes[0]))
    for before, after, variance in zip(sizes[:-1], sizes[1:], variances, strict=True):
        product = math.sqrt(variance / before) * rng.standard_normal((count, after, before)) @ product
    return product @ product.swapaxes(1, 2)
