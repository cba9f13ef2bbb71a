"""Averages over data sets by Monte Carlo: draws of the bidiagonal form, a deterministic integral over λ for each.

Given a data set the posterior of x = log λ is prior law × likelihood, integrated by the trapezoid rule on a grid
of x that all draws of a batch share (it converges geometrically, and halving the grid checks it). A test input
has coordinates ξ in the frame of B: along δ = m − w, the error of the mean, the coordinate c is integrated over
equally probable values, which takes most of the variance out of the coverage of intervals.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from lbnn._base.types import Array
from lbnn.engines.pareto import pareto_k
from lbnn.learning_curves.bidiagonal import LikelihoodTable, Panels, covariances, likelihood_table
from lbnn.learning_curves.gaussian_data import BidiagonalData, Teacher, draw_data
from lbnn.learning_curves.limits import Asymptotics
from lbnn.scale.gamma_product import GammaProduct

#: What is averaged over data sets, in the order of the columns of a draw.
QUANTITIES = ("scale_mean", "log_evidence", "error", "gibbs_error", "interval_width", "coverage")

_DROP = 45.0  # e-folds below its peak at which a tail of the posterior is left out: e⁻⁴⁵ is 3e-20
_FIRST_POINTS = 65  # of the grid; doubled until nothing changes
_MOST_POINTS = 1 << 15
_TOLERANCE = 1e-9  # relative change of the evidence and of E λ when the grid is halved
_FARTHEST = 650.0  # |log λ| that leaves room in double precision
_BATCH_FLOATS = 200_000  # random numbers of one kind in a batch ...
_LARGEST_BATCH = 256  # ... and data sets
_FLOATS = 1 << 21  # of one array over draws × nodes × r
_STRATA = 64  # values of a test input along the error of the mean
_BISECTIONS = 40  # of an end of an interval: 1e-12 of its first bracket
FEWEST_DRAWS = 8
_FEWEST_FOR_TAIL = 200  # draws from which the tail index of the error is looked at
_HEAVY = 0.7  # tail index above which averages are not to be trusted (Vehtari et al., 2024)


@dataclass(frozen=True)
class SampledPoint:
    """Means, standard errors and standard deviations over data sets, (6,) each, and what is wrong with them."""

    mean: Array
    error: Array
    deviation: Array
    draws: int
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
    level: float


def sample_point(problem: Problem, target_error: float, max_draws: int, seed: int) -> SampledPoint:
    """Draw data sets until every average is known to `target_error`, or `max_draws` are drawn."""
    rng = np.random.default_rng([seed, problem.examples, problem.inputs])
    rank = min(problem.examples, problem.inputs)
    batch = max(1, min(_LARGEST_BATCH, _BATCH_FLOATS // rank, max_draws))
    rows: list[Array] = []
    while True:
        size = min(batch, max_draws - sum(map(len, rows)))
        data = draw_data(
            problem.examples, problem.inputs, problem.teacher, problem.norm_law, size, rng
        )
        rows.append(_answers(problem, data, rng))
        values = np.concatenate(rows)
        mean, error = values.mean(axis=0), _standard_error(values)
        if len(values) >= FEWEST_DRAWS and (error <= target_error * _allowance(mean)).all():
            break
        if len(values) >= max_draws:
            break
    deviation = values.std(axis=0, ddof=1) if len(values) > 1 else np.full(6, math.nan)
    messages = _messages(problem, values, mean, error, target_error)
    return SampledPoint(mean, error, deviation, len(values), messages)


def _standard_error(values: Array) -> Array:
    """Of the mean; a Student law's standard deviation, as the variance is estimated from few draws."""
    count = len(values)
    if count < 4:
        return np.full(values.shape[1], math.inf)
    return values.std(axis=0, ddof=1) / math.sqrt(count) * math.sqrt((count - 1) / (count - 3))


def _allowance(mean: Array) -> Array:
    """What the target error is relative to: the average; for log evidence and coverage at least one."""
    scale = np.abs(mean)
    scale[1] = max(scale[1], 1.0)
    scale[5] = 1.0
    return scale


def _messages(
    problem: Problem, values: Array, mean: Array, error: Array, target_error: float
) -> tuple[str, ...]:
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
            f"{', '.join(late)}: raise max_draws, or ask for less"
        )
    positive = values[:, 2] > 0
    if positive.sum() >= _FEWEST_FOR_TAIL:
        index = pareto_k(np.log(values[positive, 2]))
        if index > _HEAVY:
            found.append(
                f"{where} the error over data sets has so heavy a tail (Pareto k = {index:.2f}) that its "
                "average and the stated error are not to be trusted: a smaller beta tames it"
            )
    return tuple(found)


def _answers(problem: Problem, data: BidiagonalData, rng: np.random.Generator) -> Array:
    """The quantities of every draw, (m, 6)."""
    size, columns = len(data.norms), data.columns
    # random numbers for all draws first, so that they do not depend on how the work is cut
    inputs = rng.standard_normal((size, columns))
    unseen = data.inputs - columns
    outside = rng.chisquare(unseen, size) if unseen else np.zeros(size)
    offsets = rng.random(size)
    low, high = _first_range(problem, data)
    each = max(1, _FLOATS // (Panels.over(low, high).nodes.size * columns))
    parts = []
    for start in range(0, size, each):
        rows = slice(start, start + each)
        parts.append(
            _answers_of(
                problem, data.take(rows), low, high, inputs[rows], outside[rows], offsets[rows]
            )
        )
    return np.concatenate(parts)


def _first_range(problem: Problem, data: BidiagonalData) -> tuple[float, float]:
    """Range of log λ to begin with, from the likelihood at infinite size.

    At finite size the log likelihood differs from it by fluctuations of order √p: as far down as ten of these
    below the usual drop the range keeps everything, second peaks too.
    """
    if problem.law is None:
        return (math.log(problem.variance),) * 2
    margin = _DROP + 10 * math.sqrt(problem.examples)
    law = problem.law
    x = np.linspace(law.location(-law.left_exponent * 0.9) - 40, law.location(2.0) + 40, 1025)
    x = x[np.abs(x) < _FARTHEST]
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
    """The posterior of x = log λσ_1² of every draw on a grid of x: weights (m, n)."""

    panels: Panels
    table: LikelihoodTable
    weights: Array
    log_total: Array
    scale_mean: Array
    spread: Array  # values at panel nodes to values at the grid, (n, k)


def _posterior(problem: Problem, data: BidiagonalData, low: float, high: float) -> _Posterior:
    """On a range that is extended until every draw's posterior has dropped at both ends, then on fine points."""
    law = problem.law
    if law is None:
        panels = Panels.over(low, high)
        table = likelihood_table(data, panels.nodes, problem.temperature)
        log_total = -0.5 * (table.log_determinant + table.square)[:, 0]
        one = np.ones((len(log_total), 1))
        return _Posterior(panels, table, one, log_total, math.exp(low) * one[:, 0], np.ones((1, 1)))
    while True:
        panels = Panels.over(low, high)
        table = likelihood_table(data, panels.nodes, problem.temperature)
        at_nodes = -0.5 * (table.log_determinant + table.square)
        x, values, spread = _on_grid(law, panels, at_nodes, _FIRST_POINTS)
        ends = _still_high(x, values)
        if not any(ends):
            break
        if (ends[0] and low <= -_FARTHEST) or (ends[1] and high >= _FARTHEST):
            raise ValueError(
                "the law of the scale must fit into double precision, |log λ| < 650, got mass beyond it: "
                "make the network less deep or less narrow, or the teacher less large or small"
            )
        reach = max(0.5 * (high - low), 0.1)
        low, high = max(low - reach * ends[0], -_FARTHEST), min(high + reach * ends[1], _FARTHEST)
    while True:
        log_step = math.log(x[1] - x[0])
        totals = [_log_sum(values + power * x) + log_step for power in (0, 1)]
        halved = [
            _log_sum((values + power * x)[:, ::2]) + log_step + math.log(2) for power in (0, 1)
        ]
        rounding = 64 * np.finfo(float).eps * np.abs(values.max(axis=1))
        change = np.abs(np.subtract(totals, halved)).max(axis=0)
        if (change < _TOLERANCE + rounding).all():
            break
        if len(x) > _MOST_POINTS:
            raise ArithmeticError(
                f"the posterior of log λ must be resolved by {_MOST_POINTS} points, got a narrower one: "
                "rescale the teacher or the noise"
            )
        x, values, spread = _on_grid(law, panels, at_nodes, 2 * len(x) - 1)
    weights = np.exp(values - (totals[0] - log_step)[:, None])
    return _Posterior(panels, table, weights, totals[0], np.exp(totals[1] - totals[0]), spread)


def _on_grid(law: GammaProduct, panels: Panels, at_nodes: Array, count: int) -> tuple[Array, Array, Array]:
    x = np.linspace(panels.low, panels.high, count)
    spread = panels.weights(x)
    return x, law.log_density(x) + at_nodes @ spread.T, spread


def _still_high(x: Array, values: Array) -> tuple[bool, bool]:
    """Whether the integrand, or λ times it, has not dropped at the left or the right end for some draw."""
    left = right = False
    for power in (0, 1):
        tilted = values + power * x
        top = tilted.max(axis=1) - _DROP
        left |= bool((tilted[:, 0] > top).any())
        right |= bool((tilted[:, -1] > top).any())
    return left, right


def _log_sum(terms: Array) -> Array:
    top = terms.max(axis=1)
    return top + np.log(np.exp(terms - top[:, None]).sum(axis=1))


def _answers_of(
    problem: Problem,
    data: BidiagonalData,
    low: float,
    high: float,
    inputs: Array,
    outside: Array,
    offsets: Array,
) -> Array:
    """The quantities of draws that are worked on together, (m, 6).

    Parameters
    ----------
    low, high : float
        Range of log λ to begin with.
    inputs : (m, columns)
        Coordinates of a test input for each draw where the data see it.
    outside : (m,)
        Its squared norm elsewhere.
    offsets : (m,)
        Uniform numbers that shift the strata.
    """
    found = _posterior(problem, data, low, high)
    temperature, rank = problem.temperature, data.diagonal.shape[1]
    missing = problem.examples - rank
    log_evidence = found.log_total - 0.5 * (
        problem.examples * math.log(2 * math.pi)
        + missing * math.log(temperature)
        + data.residual / temperature
    )
    scale = np.exp(found.panels.nodes)  # (k,)
    averages = found.weights @ found.spread  # weights of the nodes, (m, k)
    means = _means(data, found.table.solutions * scale[:, None] / data.inputs)  # m_λ − w, (m, k, columns)
    mean = np.einsum("mk,mkc->mc", averages, means)
    error = (mean**2).sum(axis=1)
    inverse = covariances(data, found.panels.nodes, temperature)
    trace = inverse.inverse_trace() + scale / data.inputs * (data.inputs - data.columns)
    gibbs = (averages * ((means**2).sum(axis=2) + trace)).sum(axis=1)

    # a test input ξ + cu along the unit vector u of the error: (m_λ − w)ᵀξ + c (m_λ − w)ᵀu, variance q_0 + 2c q_1 + c² q_2
    size = np.sqrt(error)[:, None]
    along = np.divide(mean, size, out=np.zeros_like(mean), where=size > 0)
    along[size[:, 0] == 0, 0] = 1.0
    chance = (inputs * along).sum(axis=1)
    across = inputs - chance[:, None] * along
    solved = inverse.solve(across)
    at_nodes = np.stack(
        [
            np.einsum("mkc,mc->mk", means, across),
            np.einsum("mkc,mc->mk", means, along),
            np.einsum("mc,mkc->mk", across, solved) + scale / data.inputs * outside[:, None],
            np.einsum("mc,mkc->mk", along, solved),
            np.einsum("mc,mkc->mk", along, inverse.solve(along)),
        ]
    )
    a, b, q0, q1, q2 = at_nodes @ found.spread.T  # (m, n) each
    strata = special.ndtri((np.arange(_STRATA) + offsets[:, None]) / _STRATA)
    inside = np.zeros(len(a))
    for c in strata.T[:, :, None]:
        below = (found.weights * special.ndtr(-(a + c * b) / _root(q0 + 2 * c * q1 + c**2 * q2))).sum(axis=1)
        inside += np.abs(below - 0.5) <= problem.level / 2
    c = chance[:, None]
    ends = _quantiles(problem.level, found.weights, a + c * b, _root(q0 + 2 * c * q1 + c**2 * q2))
    return np.stack(
        [
            found.scale_mean / problem.first_variance,
            log_evidence,
            error,
            gibbs,
            ends[1] - ends[0],
            inside / _STRATA,
        ],
        axis=1,
    )


def _means(data: BidiagonalData, solutions: Array) -> Array:
    """Bᵀ times every solution, less the teacher, (m, k, columns)."""
    draws, nodes, rank = solutions.shape
    result = np.zeros((draws, nodes, data.columns))
    result[:, :, :rank] = data.diagonal[:, None] * solutions
    result[:, :, 1:] += (data.upper[:, None] * solutions)[:, :, : data.columns - 1]
    result[:, :, 0] -= data.norms[:, None]
    return result


def _root(squares: Array) -> Array:
    """Square roots of variances, which interpolation may have left at −0."""
    return np.sqrt(np.maximum(squares, np.finfo(float).tiny))


def _quantiles(level: float, weights: Array, means: Array, deviations: Array) -> tuple[Array, Array]:
    """Ends of the equal-tailed interval of mixtures, each row of its own, (m,) each; by bisection."""
    reach = special.ndtri((1 + level) / 2)
    first, last = (means - reach * deviations).min(axis=1), (means + reach * deviations).max(axis=1)
    ends = []
    for tail in ((1 - level) / 2, (1 + level) / 2):
        low, high = first.copy(), last.copy()
        for _ in range(_BISECTIONS):
            middle = 0.5 * (low + high)
            below = (weights * special.ndtr((middle[:, None] - means) / deviations)).sum(axis=1) < tail
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        ends.append(0.5 * (low + high))
    return ends[0], ends[1]
