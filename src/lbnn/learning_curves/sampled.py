"""Averages over data sets by Monte Carlo: draws in bidiagonal form, an integral over λ for each.

Given a data set the posterior of x = log λ is prior law × likelihood, integrated by the trapezoid rule on a
grid of x that all draws of a batch share (it converges geometrically, and halving the grid checks it).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from lbnn._base.types import Array
from lbnn.engines.pareto import pareto_k
from lbnn.learning_curves.bidiagonal import LikelihoodTable, likelihood_table
from lbnn.learning_curves.gaussian_data import BidiagonalData, Teacher, sample_data
from lbnn.learning_curves.limits import Asymptotics
from lbnn.learning_curves.scale_law import DROP, FARTHEST, Panels, ScaleLaw, at_one_scale, integrate
from lbnn.scale.gamma_product import GammaProduct

#: What is averaged over data sets, in the order of the columns of a draw.
QUANTITIES = ("scale_mean", "log_evidence", "error", "gibbs_error")

_BATCH_FLOATS = 200_000  # random numbers of one kind in a batch ...
_LARGEST_BATCH = 256  # ... and data sets
_FLOATS = 1 << 21  # of one array over draws × nodes × r
FEWEST_DRAWS = 8
_FEWEST_FOR_TAIL = 200  # draws from which the tail index of the error is looked at
_HEAVY = 0.7  # tail index above which averages are not to be trusted (Vehtari et al., 2024)


@dataclass(frozen=True)
class Point:
    """One point of a curve: means over data sets and their errors, (4,) each.

    `values` (m, 4) are those of every data set that was drawn, none where the averages are integrals.
    Networks with the same seed have the same data sets, row by row.
    """

    mean: Array
    error: Array
    values: Array
    messages: tuple[str, ...]


@dataclass(frozen=True)
class Problem:
    """One point of a curve: sizes, teacher, noise variance τ > 0 assumed, and the network's law of the scale.

    `law` is the law of x = log λσ_1², None at depth one where λσ_1² = `variance`.
    """

    examples: int
    inputs: int
    teacher: Teacher
    temperature: float
    law: GammaProduct | None
    norm_law: GammaProduct
    variance: float
    first_variance: float


def sample_point(problem: Problem, target_error: float, max_draws: int, seed: int) -> Point:
    """Draw data sets until every average is known to `target_error`, or `max_draws` are drawn."""
    rng = np.random.default_rng([seed, problem.examples, problem.inputs])
    rank = min(problem.examples, problem.inputs)
    batch = max(1, min(_LARGEST_BATCH, _BATCH_FLOATS // rank, max_draws))
    rows: list[Array] = []
    while True:
        size = min(batch, max_draws - sum(map(len, rows)))
        data = sample_data(problem.examples, problem.inputs, problem.teacher, problem.norm_law, size, rng)
        rows.append(_answers(problem, data))
        values = np.concatenate(rows)
        mean, error = values.mean(axis=0), _standard_error(values)
        if len(values) >= FEWEST_DRAWS and (error <= target_error * _allowance(mean)).all():
            break
        if len(values) >= max_draws:
            break
    return Point(mean, error, values, _messages(problem, values, mean, error, target_error))


def _standard_error(values: Array) -> Array:
    """Of the mean over draws (n, k), (k,); a Student law's standard deviation, as n is small."""
    count = len(values)
    if count < 4:
        return np.full(values.shape[1], math.inf)
    return values.std(axis=0, ddof=1) / math.sqrt(count) * math.sqrt((count - 1) / (count - 3))


def _allowance(mean: Array) -> Array:
    """What the target error is relative to, shaped like the mean.

    The average; for log evidence at least one.
    """
    scale = np.abs(mean)
    scale[1] = max(scale[1], 1.0)
    return scale


def _messages(
    problem: Problem, values: Array, mean: Array, error: Array, target_error: float
) -> tuple[str, ...]:
    """What to say of averages (k,) of draws (n, k) with errors (k,)."""
    where, found = f"at {problem.examples} examples", []
    late = [
        f"{name} ({each:.2g} of it)"
        for name, each, good in zip(
            QUANTITIES,
            error / np.maximum(_allowance(mean), 1e-300),
            error <= target_error * _allowance(mean),
            strict=True,
        )
        if not good
    ]
    if late:
        found.append(
            f"{where} the target error of {target_error:g} is not reached with {len(values)} draws for "
            f"{', '.join(late)}: raise max_draws or target_error"
        )
    positive = values[:, 2] > 0
    if positive.sum() >= _FEWEST_FOR_TAIL:
        index = pareto_k(np.log(values[positive, 2]))
        if index > _HEAVY:
            found.append(
                f"{where} the error over data sets has so heavy a tail (Pareto k = {index:.2f}) that "
                f"neither its average nor the stated error is reliable: use a smaller beta"
            )
    return tuple(found)


def _answers(problem: Problem, data: BidiagonalData) -> Array:
    """The quantities of every draw, (m, 4)."""
    low, high = _first_range(problem, data)
    size = len(data.norms)
    each = max(1, _FLOATS // (Panels.over(low, high).nodes.size * data.columns))
    starts = range(0, size, each)
    return np.concatenate([_answers_of(problem, data.take(slice(s, s + each)), low, high) for s in starts])


def _first_range(problem: Problem, data: BidiagonalData) -> tuple[float, float]:
    """Range of log λ to begin with, from the likelihood at infinite size.

    At finite size the log likelihood differs from it by fluctuations of order √p: as far down as ten of these
    below the usual drop the range keeps everything, second peaks too.
    """
    if problem.law is None:
        return (math.log(problem.variance),) * 2
    margin = DROP + 10 * math.sqrt(problem.examples)
    law = problem.law
    x = np.linspace(law.location(-law.left_exponent * 0.9) - 40, law.location(2.0) + 40, 1025)
    x = x[np.abs(x) < FARTHEST]
    log_prior = law.saddle_log_density(x)
    low, high = math.inf, -math.inf
    for norm in np.unique(np.quantile(data.norms, [0.0, 0.5, 1.0])):
        limit = Asymptotics(
            problem.examples, problem.inputs, norm**2, problem.teacher.noise**2, problem.temperature
        )
        values = log_prior + limit.log_likelihood(np.exp(x))
        for power in (0, 1):
            tilted = values + power * x
            near = np.flatnonzero(tilted >= np.nanmax(tilted) - margin)
            low = min(low, x[max(near[0] - 1, 0)])
            high = max(high, x[min(near[-1] + 1, len(x) - 1)])
    return float(low), float(high)


@dataclass(frozen=True)
class _Posterior:
    """The posterior of x = log λσ_1² of every draw, and the likelihood at the nodes of its panels."""

    panels: Panels
    table: LikelihoodTable
    law: ScaleLaw
    spread: Array  # values at panel nodes to values at the grid, (n, k)


def _posterior(problem: Problem, data: BidiagonalData, low: float, high: float) -> _Posterior:
    """On a range that begins as given."""
    panels, table = Panels.over(low, high), None

    def likelihood(low: float, high: float) -> Callable[[Array], Array]:
        nonlocal panels, table
        panels = Panels.over(low, high)
        table = likelihood_table(data, panels.nodes, problem.temperature)
        at_nodes = -0.5 * (table.log_determinant + table.square)
        return lambda x: at_nodes @ panels.weights(x).T

    if problem.law is None:
        law = at_one_scale(low, likelihood(low, low))
    else:
        law = integrate(problem.law, likelihood, low, high)
    assert table is not None
    return _Posterior(panels, table, law, panels.weights(law.x))


def _answers_of(problem: Problem, data: BidiagonalData, low: float, high: float) -> Array:
    """The quantities of draws that are worked on together, (m, 4), from a first range of log λ."""
    found = _posterior(problem, data, low, high)
    temperature, rank = problem.temperature, data.diagonal.shape[1]
    missing = problem.examples - rank
    log_evidence = found.law.log_total - 0.5 * (
        problem.examples * math.log(2 * math.pi)
        + missing * math.log(temperature)
        + data.residual / temperature
    )
    scale = np.exp(found.panels.nodes)  # (k,)
    averages = found.law.weights @ found.spread  # weights of the nodes, (m, k)
    means = _means(data, found.table.solutions * scale[:, None] / data.inputs)  # m_λ − w, (m, k, columns)
    mean = np.einsum("mk,mkc->mc", averages, means)
    error = (mean**2).sum(axis=1)
    # tr[(λ/n0)(1 − Xᵀ(τ + λG)⁻¹X λ/n0)] = (λ/n0) [n0 − r + τ tr(τ + λG)⁻¹], both terms positive
    trace = scale / data.inputs * (data.inputs - rank + temperature * found.table.matrices.inverse_trace())
    gibbs = (averages * ((means**2).sum(axis=2) + trace)).sum(axis=1)
    scale_mean = found.law.scale_mean / problem.first_variance
    return np.stack([scale_mean, log_evidence, error, gibbs], axis=1)


def _means(data: BidiagonalData, solutions: Array) -> Array:
    """Bᵀ times every solution, less the teacher, (m, k, columns)."""
    draws, nodes, rank = solutions.shape
    result = np.zeros((draws, nodes, data.columns))
    result[:, :, :rank] = data.diagonal[:, None] * solutions
    result[:, :, 1:] += (data.upper[:, None] * solutions)[:, :, : data.columns - 1]
    result[:, :, 0] -= data.norms[:, None]
    return result
