"""Integrals of exp(f(x)) and exp(f(x) + power · x) over the real line, for a batch of functions f at once.

Every f is analytic and falls at both ends, so that the trapezoid rule converges geometrically. The nodes
x = peak + width · sinh(v), uniform in v, resolve a narrow peak and a slow tail alike. They reach as far as
the integrand of any of the powers has mass. A cheap approximation of f places the nodes (`rough`); the
integrals are those of f itself (`exact`).

A function of the batch is called as f(x, which): x (k, n) holds n points for each of the k members `which`
(k,), and the values are (k, n). Values may be complex; the nodes then follow the real part of `rough`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from lbnn._base.log_sums import log_sum_exp
from lbnn._base.types import Array, ComplexArray, IndexArray, Mask

_DROP = 60.0  # e-folds below its peak at which a tail is left out: e⁻⁶⁰ is far below rounding
_SCAN_STEP = 0.5  # log densities of log λ have structure of order one in log λ
_FEWEST_SCANNED = 65
_FARTHEST = 690.0  # |x| = |log λ| that a double can hold
_FIRST_STEP = 0.5  # in v
_HALVINGS = 8
_TOLERANCE = 1e-9  # relative change of an integral at the last halving; geometric convergence squares it
_ZOOM = np.linspace(0.0, 1.0, 33)
_WIDEST = 4.0  # width of a peak: of a plateau, whose ends are as sharp as any, the steps would stay too long
_RESOLVED = 0.5  # difference of f between neighbours of a peak from which its curvature is read

#: f(x, which): (k, n), (k,) -> (k, n).
LogFunction = Callable[[Array, IndexArray], Array | ComplexArray]

#: What may stand in the way of an integral, for `Integrals.problem`.
NONE, BEYOND, NOT_FINITE, TOO_NARROW = range(4)

_REASONS = {
    BEYOND: "the law of the scale must fit into double precision, |log λ| < 690, got mass beyond it: "
    "rescale the data, or make the network less deep or less narrow",
    NOT_FINITE: "the density of log λ must be representable as a double, got targets or inputs too far from "
    "what the network expects: rescale the data",
    TOO_NARROW: "the posterior of log λ must be wider than the spacing of doubles, got targets or inputs too "
    "far from what the network expects: rescale the data",
}


@dataclass(frozen=True)
class Nodes:
    """Nodes x of one integral, uniform in v, with the log of integrand · dx/dv · step, (n,) each."""

    v: Array
    x: Array
    log_terms: Array | ComplexArray
    converged: bool

    @cached_property
    def log_total(self) -> float:
        """Log of the integral of |exp f|."""
        return float(log_sum_exp(self.log_terms.real))

    @cached_property
    def weights(self) -> Array:
        """Shares of the nodes in the integral of |exp f|, (n,)."""
        weights = np.exp(self.log_terms.real - self.log_total)
        return weights / weights.sum()


@dataclass(frozen=True)
class Integrals:
    """Integrals of every member of a batch (m,)."""

    powers: tuple[int, ...]
    log_totals: ComplexArray  # (powers, m); real parts are logs of sizes
    converged: Mask  # (m,)
    problem: IndexArray  # (m,): NONE, BEYOND, NOT_FINITE or TOO_NARROW
    nodes: tuple[Nodes | None, ...]  # None where there is a problem

    def log_total(self, power: int = 0) -> Array:
        """Log of the integral of exp(f(x) + power · x), (m,): its size where f is complex."""
        return self.log_totals[self.powers.index(power)].real

    def require(self) -> None:
        """Raise a ValueError that states the first problem, if there is one."""
        if self.problem.any():
            raise ValueError(_REASONS[int(self.problem[self.problem != NONE][0])])

    def one(self) -> Nodes:
        """The nodes of a batch of one; a ValueError where there is a problem."""
        self.require()
        (nodes,) = self.nodes
        assert nodes is not None
        return nodes


def integrate(
    exact: LogFunction, rough: LogFunction, low: Array, high: Array, powers: tuple[int, ...] = (0,)
) -> Integrals:
    """Integrate exp(exact(x) + power · x) for every power and every member of a batch.

    Parameters
    ----------
    exact, rough : LogFunction
        The logarithm of the integrand, and an approximation of it that places the nodes.
    low, high : (m,) arrays
        Ends of a range that holds every peak of exp(rough(x) + power · x), or reaches its flanks.
    powers : tuple of int

    Examples
    --------
    >>> import numpy as np
    >>> def f(x, which):
    ...     return -0.5 * (x - np.array([0.0, 3.0])[which, None]) ** 2  # two normal densities
    >>> found = integrate(f, f, np.array([-1.0, 2.0]), np.array([1.0, 4.0]))
    >>> np.allclose(found.log_total(), 0.5 * np.log(2 * np.pi), atol=1e-14), found.converged.all()
    (True, np.True_)
    """
    search = _Search(rough, low, high, powers)
    return _trapezoid(exact, search, powers)


class _Search:
    """For every member the range of x that matters and the highest peak of `rough` in it."""

    def __init__(self, rough: LogFunction, low: Array, high: Array, powers: tuple[int, ...]) -> None:
        """Search the ranges low to high (k,) of k integrands."""
        self._rough, self._powers = rough, powers
        self.low, self.high = np.array(low, float), np.array(high, float)
        self.peak, self.width = np.zeros(len(low)), np.ones(len(low))
        self.problem = np.full(len(low), NONE)
        with np.errstate(invalid="ignore"):  # −inf − (−inf), where a density is no double at all
            open_ = self._extend()
            while len(open_):
                open_ = self._narrow(open_, *self._scan(open_))

    def _values(self, x: Array, which: IndexArray) -> Array:
        """Logarithms of the integrands `which` (j,) at x (j, n), −inf where they are not numbers."""
        values = np.real(self._rough(x, which))
        return np.where(np.isnan(values), -np.inf, values)

    def _scan(self, which: IndexArray) -> tuple[Array, Array]:
        """Equidistant points from low to high of the members `which`, and the values there, (k, n) each."""
        length = float((self.high - self.low)[which].max())
        share = np.linspace(0.0, 1.0, max(_FEWEST_SCANNED, math.ceil(length / _SCAN_STEP) + 1))
        x = self.low[which, None] + (self.high - self.low)[which, None] * share
        return x, self._values(x, which)

    def _extend(self) -> IndexArray:
        """Extend the ranges (k,) until every integrand has dropped at their ends: all peaks are inside.

        Returns the members whose range can still be narrowed.
        """
        open_, wide = np.arange(len(self.low)), []
        while len(open_):
            self.low[open_] = np.maximum(self.low[open_], -_FARTHEST)
            self.high[open_] = np.minimum(self.high[open_], _FARTHEST)
            x, values = self._scan(open_)
            left, right = np.zeros(len(open_), bool), np.zeros(len(open_), bool)
            for power in self._powers:
                tilted = values + power * x
                least = tilted.max(axis=1) - _DROP
                left |= (tilted[:, 0] >= least) & np.isfinite(least)
                right |= (tilted[:, -1] >= least) & np.isfinite(least)
            stuck = left & (self.low[open_] == -_FARTHEST) | right & (self.high[open_] == _FARTHEST)
            self.problem[open_[stuck]] = BEYOND
            more, held = (left | right) & ~stuck, ~(left | right)
            wide.append(self._narrow(open_[held], x[held], values[held]))
            reach = np.maximum(5.0, 0.5 * (self.high - self.low)[open_])
            self.low[open_] -= np.where(more & left, reach, 0.0)
            self.high[open_] += np.where(more & right, reach, 0.0)
            open_ = open_[more]
        return np.concatenate(wide)

    def _narrow(self, which: IndexArray, x: Array, values: Array) -> IndexArray:
        """Find the highest peak of a scan (k, n) and move the ends in; return the members where that helped.

        A peak may be a needle between two points of the scan, so that every local maximum is climbed before
        anything is dropped. A narrower range is scanned again, more finely.
        """
        possible = np.isfinite(values).any(axis=1)
        self.problem[which[~possible]] = NOT_FINITE
        which, x, values = which[possible], x[possible], values[possible]
        if not len(which):
            return which
        padded = np.pad(values, ((0, 0), (1, 1)), constant_values=-np.inf)
        summit = (values >= padded[:, :-2]) & (values >= padded[:, 2:]) & np.isfinite(values)
        row, column = np.nonzero(summit)
        last = x.shape[1] - 1
        climbed = self._climb(
            which[row], x[row, np.maximum(column - 1, 0)], x[row, np.minimum(column + 1, last)]
        )
        self._keep_highest(which, row, *climbed)
        keep = self._relevant(x, values, row, column, climbed[0], climbed[2])
        first, end = keep.argmax(axis=1), last - keep[:, ::-1].argmax(axis=1)
        rows = np.arange(len(which))
        low, high = x[rows, np.maximum(first - 1, 0)], x[rows, np.minimum(end + 1, last)]
        helped = high - low <= 0.7 * (self.high - self.low)[which]
        self.low[which], self.high[which] = low, high
        return which[helped & (self.problem[which] == NONE)]

    def _climb(self, which: IndexArray, low: Array, high: Array) -> tuple[Array, Array, Array]:
        """Location, width 1/√curvature and height of the highest peak between two points, (k,) each."""
        low, high = low.copy(), high.copy()
        place, width, height = np.zeros(len(which)), np.ones(len(which)), np.full(len(which), -np.inf)
        still = np.arange(len(which))
        while len(still):
            x = low[still, None] + (high - low)[still, None] * _ZOOM
            values = self._values(x, which[still])
            rows, best = np.arange(len(still)), np.clip(values.argmax(axis=1), 1, len(_ZOOM) - 2)
            around = np.stack([values[rows, best + step] for step in (-1, 0, 1)])
            flat = np.ptp(around, axis=0) < _RESOLVED
            ended = still[flat]
            place[ended], height[ended] = x[rows, best][flat], around.max(axis=0)[flat]
            fall, step = 2 * around[1] - around[0] - around[2], x[rows, best + 1] - x[rows, best]
            curved = np.where(fall > 0, step / np.sqrt(np.where(fall > 0, fall, 1.0)), (high - low)[still])
            width[ended] = np.minimum(curved, _WIDEST)[flat]
            spacing = x[rows, best + 1] - x[rows, best - 1]
            lost = ~flat & (spacing < 1e-15 * (1 + np.abs(x[rows, best])))
            self.problem[which[still[lost]]] = TOO_NARROW
            low[still], high[still] = x[rows, best - 1], x[rows, best + 1]
            still = still[~flat & ~lost]
        return place, width, height

    def _keep_highest(
        self, which: IndexArray, row: IndexArray, place: Array, width: Array, height: Array
    ) -> None:
        """The highest of the peaks of every member: row (peaks,) is its position in `which`."""
        best = np.full(len(which), -np.inf)
        np.maximum.at(best, row, height)
        top = np.flatnonzero(height == best[row])[::-1]  # of equal ones the first, which is written last
        self.peak[which[row[top]]], self.width[which[row[top]]] = place[top], width[top]

    def _relevant(
        self, x: Array, values: Array, row: IndexArray, column: IndexArray, place: Array, height: Array
    ) -> Mask:
        """Where some exp(values + power · x) is within `_DROP` of its maximum, climbed peaks too, (k, n)."""
        keep = np.zeros(x.shape, bool)
        for power in self._powers:
            tilted, summits = values + power * x, height + power * place
            highest = tilted.max(axis=1)
            np.maximum.at(highest, row, summits)
            keep |= tilted >= highest[:, None] - _DROP
            near = summits >= highest[row] - _DROP
            keep[row[near], column[near]] = True
        return keep


def _trapezoid(exact: LogFunction, search: _Search, powers: tuple[int, ...]) -> Integrals:
    """Uniform steps in v, halved until no integral of a member moves."""
    count = len(search.peak)
    start = np.arcsinh((search.low - search.peak) / search.width)
    end = np.arcsinh((search.high - search.peak) / search.width)
    open_ = np.flatnonzero(search.problem == NONE)
    totals = np.full((len(powers), count), -np.inf + 0j)
    converged = np.zeros(count, bool)
    nodes: list[Nodes | None] = [None] * count

    def in_v(which: IndexArray, share: Array) -> tuple[Array, Array, Array | ComplexArray]:
        """v, x, and the log of integrand · dx/dv at shares of the way from start to end, (k, n) each."""
        v = start[which, None] + (end - start)[which, None] * share
        width = search.width[which, None]
        x = search.peak[which, None] + width * np.sinh(v)
        return v, x, exact(x, which) + np.log(width * np.cosh(v))

    if not len(open_):
        return Integrals(powers, totals, converged, search.problem, tuple(nodes))
    intervals = max(1, math.ceil(float((end - start)[open_].max()) / _FIRST_STEP))
    v, x, values = in_v(open_, np.arange(intervals + 1) / intervals)
    for halving in range(_HALVINGS + 1):
        log_step = np.log((end - start)[open_] / intervals)
        sizes = np.stack([log_sum_exp(values.real + power * x, axis=1) for power in powers]) + log_step
        new = np.stack([_log_sum(values + power * x) for power in powers]) + log_step
        if halving:
            height = np.abs(values.real[np.arange(len(open_)), values.real.argmax(axis=1)])
            change = np.abs(np.exp(new - sizes) - np.exp(totals[:, open_] - sizes)).max(axis=0)
            converged[open_] = change < _TOLERANCE + 16 * np.finfo(float).eps * height
        totals[:, open_] = new
        done = converged[open_] | (halving == _HALVINGS)
        for row in np.flatnonzero(done):
            member = int(open_[row])
            nodes[member] = Nodes(v[row], x[row], values[row] + log_step[row], bool(converged[member]))
        open_ = open_[~done]
        if not len(open_):
            break
        between = in_v(open_, (np.arange(intervals) + 0.5) / intervals)
        v, x = _interleaved(v[~done], between[0]), _interleaved(x[~done], between[1])
        values = _interleaved(values[~done], between[2])
        intervals *= 2
    return Integrals(powers, totals, converged, search.problem, tuple(nodes))


def _log_sum(terms: Array | ComplexArray) -> ComplexArray:
    """Log Σ exp(terms) over the last axis, (k, n) -> (k,)."""
    top = terms.real.max(axis=1)
    return top + np.log(np.exp(terms - top[:, None]).sum(axis=1) + 0j)


def _interleaved(even: Any, odd: Any) -> Any:
    """Values at old points and at the midpoints between them, (k, n + 1) and (k, n) -> (k, 2n + 1)."""
    merged = np.empty((len(even), even.shape[1] + odd.shape[1]), np.result_type(even, odd))
    merged[:, ::2], merged[:, 1::2] = even, odd
    return merged
