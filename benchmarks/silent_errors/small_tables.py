"""Small tables behind layers of one to three units in any order, against draws of the prior.

Two to six outputs, three to eight rows, two to four layers, complete or with up to 60% of the cells missing.
The referee draws weights layer by layer and evaluates the Gaussian density of the observed cells: by a dense
Cholesky factor of their covariance, and for complete tables row by row in the eigenbasis of the Gram matrix.
It draws until its error is small, and 4e6 times at most; where its own effective draws are few, or its two
halves differ, the problem is left out (no judgement).
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

import lbnn
from benchmarks.silent_errors.judgement import Judgement
from lbnn._base.types import Array, Mask

_BLOCK, _MOST = 1 << 16, 4_000_000
_ERROR = 0.01  # of the referee's log evidence at which it stops: a fifth of the library's target
_FEWEST = 1000.0  # effective draws under which the referee is not relied on: its error is then 0.032
#: Blocks after which it gives up where so many times the most draws would not be enough.
_PILOT, _HOPELESS = 4, 4.0
_LARGEST_SHARE = 0.02  # of one draw in all weights beyond which it is not relied on either


@dataclass(frozen=True)
class Problem:
    """A table with the network that it is put behind."""

    seed: int
    widths: tuple[int, ...]
    variances: tuple[float, ...]  # σ_1², ..., σ_d²
    X: Array
    Y: Array
    observed: Mask
    beta: float

    def __str__(self) -> str:
        """Enough to find it again."""
        missing = int((~self.observed).sum())
        return (
            f"seed {self.seed}, widths {self.widths}, {self.Y.shape[0]} x {self.Y.shape[1]} cells, "
            f"{missing} missing, beta {self.beta:.3g}"
        )


def problems(count: int, seed: int) -> Iterator[Problem]:
    """Every second table is complete; targets of their own model, of low rank, or noise."""
    for number in range(count):
        own = 100_000 * seed + number
        rng = np.random.default_rng(own)
        rows, outputs = int(rng.integers(3, 9)), int(rng.integers(2, 7))
        if number % 2:
            rows = min(rows, 30 // outputs)  # a dense factor of 30 cells takes 5 µs, of 48 cells 100
        widths = tuple(int(width) for width in rng.integers(1, 4, int(rng.integers(1, 4))))
        # every third problem has layers of equal variance
        spread = 0.0 if rng.random() < 1 / 3 else 0.7
        variances = tuple(float(each) for each in np.exp(spread * rng.standard_normal(len(widths) + 1)))
        inputs = int(rng.integers(2, 12))
        X = rng.normal(size=(rows, inputs)) * np.exp(rng.normal(size=inputs) * rng.choice([0.0, 0.7]))
        beta = float(10 ** rng.uniform(-0.5, 1.5))
        observed = np.ones((rows, outputs), bool)
        if number % 2:
            observed = rng.random((rows, outputs)) > rng.uniform(0, 0.6)
            observed[rng.integers(rows, size=outputs), np.arange(outputs)] = True  # one in every column ...
            observed[np.arange(rows), rng.integers(outputs, size=rows)] = True  # ... and row
        Y = _targets(rng, X, widths, variances, outputs) + rng.normal(size=(rows, outputs)) / math.sqrt(beta)
        yield Problem(own, widths, variances, X, Y, observed, beta)


def _targets(
    rng: np.random.Generator, X: Array, widths: tuple[int, ...], variances: tuple[float, ...], outputs: int
) -> Array:
    """Of the network itself, of rank one or two, or nothing but noise, (rows, outputs)."""
    kind = rng.integers(3)
    if kind == 0:
        root = prior_roots((X.shape[1], *widths), variances, outputs, 1, rng)[0]
        return np.asarray(X @ root.T)
    if kind == 1:
        rank = int(rng.integers(1, 3))
        size = float(np.exp(0.5 * rng.standard_normal()))
        return np.asarray(size * rng.normal(size=(len(X), rank)) @ rng.normal(size=(rank, outputs)))
    return np.asarray(0.8 * rng.random() * rng.normal(size=(len(X), outputs)))


def prior_roots(
    widths: tuple[int, ...], variances: tuple[float, ...], outputs: int, count: int, rng: np.random.Generator
) -> Array:
    """Products of Gaussian weights, (count, outputs, widths[0])."""
    product: Array | None = None
    for below, above, variance in zip(widths, (*widths[1:], outputs), variances, strict=True):
        weights = math.sqrt(variance / below) * rng.standard_normal((count, above, below))
        product = weights if product is None else weights @ product
    assert product is not None
    return product


def log_densities(roots: Array, problem: Problem) -> Array:
    """log N(observed cells; 0, G ⊗ L + 1/β) at roots (m, n, k) of scales, (m,)."""
    gram = problem.variances[0] * problem.X @ problem.X.T / problem.X.shape[1]
    if problem.observed.all():
        return _of_rows(roots, gram, problem)
    scales = roots @ roots.swapaxes(1, 2)
    row, output = np.nonzero(problem.observed)
    values = problem.Y[problem.observed]
    count = len(values)
    # one more row, of the targets: its entries in the factor are the white targets
    joint = np.empty((len(scales), count + 1, count + 1))
    joint[:, :count, :count] = gram[np.ix_(row, row)] * scales[:, output[:, None], output]
    joint[:, np.arange(count), np.arange(count)] += 1 / problem.beta
    joint[:, count, :count] = joint[:, :count, count] = values
    joint[:, count, count] = 1 + problem.beta * values @ values  # above what makes it positive
    factor = np.linalg.cholesky(joint)
    half_log_determinant = np.log(np.diagonal(factor, axis1=1, axis2=2)[:, :count]).sum(axis=1)
    white = factor[:, count, :count]
    return -half_log_determinant - 0.5 * (white**2).sum(axis=1) - 0.5 * count * math.log(2 * math.pi)


def _of_rows(roots: Array, gram: Array, problem: Problem) -> Array:
    """The same for complete tables, whose rows ỹ_i ~ N(0, 1/β + g_i F Fᵀ) are independent."""
    strengths, vectors = np.linalg.eigh(gram)
    inner, total = roots.swapaxes(1, 2) @ roots, np.zeros(len(roots))
    for strength, row in zip(np.maximum(strengths, 0.0), vectors.T @ problem.Y, strict=True):
        ratio = strength * problem.beta
        factor = np.linalg.cholesky(np.eye(inner.shape[1]) + ratio * inner)
        seen = np.linalg.solve(factor, (roots.swapaxes(1, 2) @ row)[:, :, None])[:, :, 0]
        half_log_determinant = np.log(np.diagonal(factor, axis1=1, axis2=2)).sum(axis=1)
        square = problem.beta * (row @ row - ratio * (seen**2).sum(axis=1))
        total -= half_log_determinant + 0.5 * square
    return total + 0.5 * problem.Y.size * math.log(problem.beta / (2 * math.pi))


@dataclass(frozen=True)
class Reference:
    """Log evidence and E tr L by draws of the prior, with their errors."""

    log_evidence: float
    error: float
    trace: float
    trace_error: float


def reference(problem: Problem) -> Reference | None:
    """The referee's answer, or None where it is not reliable."""
    rng = np.random.default_rng([problem.seed, 1])
    logs, traces = np.empty(0), np.empty(0)
    outputs, uppers = problem.Y.shape[1], problem.variances[1:]
    while True:
        roots = prior_roots(problem.widths, uppers, outputs, _BLOCK, rng)
        pieces = [log_densities(each, problem) for each in np.split(roots, 16)]
        logs = np.concatenate([logs, *pieces])
        traces = np.append(traces, (roots**2).sum(axis=(1, 2)))
        weights = np.exp(logs - logs.max())
        total, square = weights.sum(), (weights**2).sum()
        error = math.sqrt(max(square / total**2 - 1 / len(logs), 0.0))
        hopeless = total**2 / square * _HOPELESS * _MOST / len(logs) < _FEWEST
        if error < _ERROR or len(logs) >= _MOST or (len(logs) >= _PILOT * _BLOCK and hopeless):
            break
    halves = weights[::2].sum(), weights[1::2].sum()
    differs = abs(halves[0] - halves[1]) / total > 4.5 * error
    if error > _FEWEST**-0.5 or weights.max() / total > _LARGEST_SHARE or differs:
        return None
    trace = float(weights @ traces / total)
    spread = weights * (traces - trace)
    trace_error = float(np.sqrt((spread**2).sum()) / total)
    share = float(np.abs(spread).max() / np.abs(spread).sum())
    log_evidence = float(logs.max() + math.log(total / len(logs)))
    return Reference(log_evidence, error, trace, trace_error if share < _LARGEST_SHARE else math.inf)


def judge(problem: Problem) -> list[Judgement]:
    """Log evidence, and the mean of tr L where the referee has it; nothing where it is not reliable."""
    truth = reference(problem)
    if truth is None:
        return []
    began = time.process_time()
    network = lbnn.Network(problem.widths, problem.variances)
    observed = None if problem.observed.all() else problem.observed
    filled = np.where(problem.observed, problem.Y, 0.0)
    posterior = network.condition(problem.X, filled, problem.beta, observed=observed, seed=problem.seed)
    seconds, ok = time.process_time() - began, posterior.diagnostics.ok
    answer, error = posterior.log_evidence, posterior.log_evidence_error
    found = [
        Judgement(
            f"{problem}, log evidence", answer, error, truth.log_evidence, truth.error, ok, seconds=seconds
        )
    ]
    if math.isfinite(truth.trace_error):
        mean, spread = posterior.scale.expect_with_error(np.trace)
        name = f"{problem}, E tr L"
        found.append(Judgement(name, float(mean), float(spread), truth.trace, truth.trace_error, ok))
    return found
