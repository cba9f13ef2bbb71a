"""Quadrature over log λ for many noise variances at once: one output, one network, one set of data.

What `quadrature` does for one posterior is done for all noise variances together, as arrays: the scan for
peaks, climbing them, the trapezoid rule in a stretched log λ, halving its step until every normaliser stands.
The law of the prior is interpolated (`DensityTable`), the data are the few rows of their condensed form.
Points that do not converge here, or whose law leaves the scan, are marked for the single quadrature.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from lbnn._base.condensed import Condensed
from lbnn._base.types import Array, IndexArray, Mask
from lbnn.likelihood.gaussian import GaussianLikelihood
from lbnn.scale.density_table import DensityTable
from lbnn.scale.gamma_product import GammaProduct

_DROP = 60.0  # e-folds below its peak at which a tail is left out
_SCAN_STEP = 0.5
_FARTHEST = 600.0  # |log λ| up to which points are taken here
_FIRST_STEP = 0.25  # in v
_HALVINGS = 4
_TOLERANCE = 1e-9  # change of a log normaliser at the last halving, as in `quadrature`
_ZOOM = np.linspace(0.0, 1.0, 17)
_ZOOMS = 24
_FLOATS = 1 << 18  # of one block of points × nodes × rows


@dataclass(frozen=True)
class GridIntegrals:
    """Logs of the integrals of prior × likelihood × λ^power for every noise variance, (m,) each."""

    log_total: Array
    log_first: Array
    log_inverse: Array  # +inf where that integral diverges
    converged: Mask


def integrate_grid(law: GammaProduct, likelihoods: list[GaussianLikelihood]) -> GridIntegrals:
    """The integrals for likelihoods that differ in their noise alone, all with 0 < noise < inf."""
    problem = _Problem(law, likelihoods)
    found = _survey(problem)
    return _trapezoid(problem, found)


class _Problem:
    """The log integrand of every noise variance."""

    def __init__(self, law: GammaProduct, likelihoods: list[GaussianLikelihood]) -> None:
        self.law, self.table = law, DensityTable.of_product(law)
        self.noise = np.array([each.noise for each in likelihoods])
        first = likelihoods[0]
        self.rows = first.condensed or Condensed(
            first.eigenvalues, np.ones(len(first.eigenvalues)), first.eigenvalues, first.targets
        )
        self.squares = self.rows.targets[:, 0] ** 2
        self.turns = _turns(first, self.noise)
        self.powers = (-1, 0, 1, 2) if law.left_exponent > 1 else (0, 1, 2)

    def log_values(self, x: Array, which: IndexArray) -> Array:
        """Log prior × likelihood at x (k, nodes), row by row for the noise variances `which` (k,)."""
        return self.table.log_density(x) + self.log_likelihood(x, which)

    def log_likelihood(self, x: Array, which: IndexArray) -> Array:
        """−½ Σ_i [log(τ + g_i λ) + ỹ_i²/(τ + g_i λ)], over condensed rows, (k, nodes)."""
        result = np.empty(x.shape)
        for rows in self._blocks(x):
            noise = self.noise[which[rows], None, None]
            scale = np.exp(x[rows])[:, :, None]
            logs = np.log(noise + scale * self.rows.nodes) @ self.rows.counts
            result[rows] = -0.5 * (logs + (1 / (noise + scale * self.rows.eigenvalues)) @ self.squares)
        return result

    def _blocks(self, x: Array) -> Iterator[slice]:
        each = max(1, _FLOATS // (x.shape[1] * len(self.rows.nodes)))
        return (slice(start, start + each) for start in range(0, len(x), each))


def _turns(likelihood: GaussianLikelihood, noise: Array) -> tuple[float, float]:
    """Range of log λ outside which no likelihood turns: `turning_region` for all noise variances."""
    peaks = ((likelihood.targets[:, 0] ** 2)[:, None] - noise) / likelihood.eigenvalues[:, None]
    turns = np.log(np.append(peaks[peaks > 0], noise / likelihood.eigenvalues.sum()))
    return float(turns.min()), float(turns.max())


@dataclass(frozen=True)
class _Places:
    """Where nodes belong for every noise variance: the highest peak, its width, and the ends, (m,) each."""

    peak: Array
    width: Array
    low: Array
    high: Array
    usable: Mask


def _survey(problem: _Problem) -> _Places:
    """Scan the range that holds every peak, climb all of them, and find where the tails have dropped."""
    x, values = _scan(problem)
    inside = np.where(np.isnan(values), -np.inf, values)
    padded = np.pad(inside, ((0, 0), (1, 1)), constant_values=-np.inf)
    summit = (inside >= padded[:, :-2]) & (inside >= padded[:, 2:]) & np.isfinite(inside)
    which, index = np.nonzero(summit)
    place, width, height, found = _climb(
        problem, which, x[np.maximum(index - 1, 0)], x[np.minimum(index + 1, len(x) - 1)]
    )
    count = len(values)
    best, peak, spread = np.full(count, -np.inf), np.zeros(count), np.ones(count)
    usable: Mask = np.asarray(np.isfinite(values).all(axis=1))
    keep: Mask = np.zeros(values.shape, bool)
    np.logical_and.at(usable, which, found)
    np.maximum.at(best, which, height)
    top = height == best[which]
    peak[which[top]], spread[which[top]] = place[top], width[top]
    for power in problem.powers:
        tilted = inside + power * x
        highest = tilted.max(axis=1)
        np.maximum.at(highest, which, height + power * place)
        keep |= tilted >= highest[:, None] - _DROP
        near = height + power * place >= highest[which] - _DROP
        keep[which[near], index[near]] = True
    first, last = keep.argmax(axis=1), keep.shape[1] - 1 - keep[:, ::-1].argmax(axis=1)
    usable &= (first > 0) & (last < len(x) - 1)
    return _Places(peak, spread, x[np.maximum(first - 1, 0)], x[np.minimum(last + 1, len(x) - 1)], usable)


def _scan(problem: _Problem) -> tuple[Array, Array]:
    """A lattice of x that holds every peak and sees it drop, (n,), and the log integrands on it, (m, n)."""
    law, every = problem.law, np.arange(len(problem.noise))
    region = [law.location(-law.left_exponent / 2), law.location(2.0), *problem.turns]
    low, high = min(region), max(region)
    while True:
        low, high = max(low, -_FARTHEST), min(high, _FARTHEST)
        x = np.linspace(low, high, max(65, math.ceil((high - low) / _SCAN_STEP) + 1))
        likelihood = problem.log_likelihood(np.broadcast_to(x, (len(every), len(x))), every)
        values: Array = likelihood + law.saddle_log_density(x)  # rough, to place nodes
        left = right = False
        for power in problem.powers:
            tilted = values + power * x
            top = np.nanmax(tilted, axis=1) - _DROP
            left |= bool((tilted[:, 0] >= top).any())
            right |= bool((tilted[:, -1] >= top).any())
        stuck = (left and low == -_FARTHEST) or (right and high == _FARTHEST)
        if not (left or right) or stuck:
            return x, values
        reach = max(5.0, 0.5 * (high - low))
        low, high = low - reach * left, high + reach * right


def _climb(problem: _Problem, which: IndexArray, low: Array, high: Array) -> tuple[Array, Array, Array, Mask]:
    """Places, widths and heights of the highest peaks between pairs of points, and which were found."""
    low, high = low.copy(), high.copy()
    place, width, height = np.zeros(len(which)), np.ones(len(which)), np.full(len(which), -np.inf)
    still = np.arange(len(which))
    for _ in range(_ZOOMS):
        x = low[still, None] + (high - low)[still, None] * _ZOOM
        values = problem.log_values(x, which[still])
        values = np.where(np.isnan(values), -np.inf, values)
        best = np.clip(values.argmax(axis=1), 1, len(_ZOOM) - 2)
        rows = np.arange(len(still))
        around = np.stack([values[rows, best + step] for step in (-1, 0, 1)])
        step = (high - low)[still] / (len(_ZOOM) - 1)
        with np.errstate(divide="ignore", invalid="ignore"):  # of peaks that doubles do not resolve
            curvature = (2 * around[1] - around[0] - around[2]) / step**2
            flat = np.ptp(around, axis=0) < 0.5
        done = still[flat]
        place[done], height[done] = x[rows, best][flat], around.max(axis=0)[flat]
        fallback = (high - low)[still]
        width[done] = np.where(curvature > 0, 1 / np.sqrt(np.maximum(curvature, 1e-300)), fallback)[flat]
        low[still], high[still] = x[rows, best - 1], x[rows, best + 1]
        still = still[~flat]
        if not len(still):
            break
    found = np.isfinite(height)
    return place, width, height, found


def _trapezoid(problem: _Problem, found: _Places) -> GridIntegrals:
    """x = peak + width · sinh(v), uniform in v for every noise variance; the step halves until all stands."""
    start = np.arcsinh((found.low - found.peak) / found.width)
    end = np.arcsinh((found.high - found.peak) / found.width)
    intervals = math.ceil(float((end - start).max()) / _FIRST_STEP)
    count, powers = len(start), problem.powers
    totals = np.full((len(powers), count), -np.inf)
    converged, open_ = np.zeros(count, bool), np.flatnonzero(found.usable)
    log_values, x = _nodes(problem, found, start, end, open_, np.arange(intervals + 1) / intervals)
    for halving in range(_HALVINGS + 1):
        log_step = np.log((end - start)[open_] / intervals)
        new = np.stack([_log_sum(log_values + power * x) + log_step for power in powers])
        if halving:
            rounding = 16 * np.finfo(float).eps * np.abs(log_values.max(axis=1))
            stands = np.abs(np.expm1(totals[:, open_] - new)).max(axis=0) < _TOLERANCE + rounding
            converged[open_[stands]] = True
        totals[:, open_] = new
        if halving:
            open_, log_values, x = open_[~stands], log_values[~stands], x[~stands]
        if not len(open_) or halving == _HALVINGS:
            break
        between, where = _nodes(problem, found, start, end, open_, (np.arange(intervals) + 0.5) / intervals)
        log_values, x = _interleaved(log_values, between), _interleaved(x, where)
        intervals *= 2
    by_power = dict(zip(powers, totals, strict=True))
    inverse = by_power.get(-1, np.full(count, np.inf))
    return GridIntegrals(by_power[0], by_power[1], inverse, converged & problem.table.accurate)


def _nodes(
    problem: _Problem, found: _Places, start: Array, end: Array, which: IndexArray, share: Array
) -> tuple[Array, Array]:
    """Log of integrand · dx/dv at shares of the way from start to end, and x there, (k, nodes) each."""
    v = start[which, None] + (end - start)[which, None] * share
    width = found.width[which, None]
    x = found.peak[which, None] + width * np.sinh(v)
    return problem.log_values(x, which) + np.log(width * np.cosh(v)), x


def _interleaved(even: Array, odd: Array) -> Array:
    merged = np.empty((len(even), even.shape[1] + odd.shape[1]))
    merged[:, ::2], merged[:, 1::2] = even, odd
    return merged


def _log_sum(terms: Array) -> Array:
    top = terms.max(axis=1)
    return top + np.log(np.exp(terms - top[:, None]).sum(axis=1))
