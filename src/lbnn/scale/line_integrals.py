"""Integrals over x = log λ of many integrands at once, each on nodes of its own.

Densities and tail probabilities of one output are averages over the law of log λ,

    I_a = ∫ exp(log ρ(x) + h_a(x)) dx,    a = 1, ..., P,

and what is far from the data puts the mass of its integrand where ρ itself has none. Both terms are analytic
in x up to ± iπ, so that they vary on scales of order one: a scan in steps of a quarter sees where an
integrand is large, and its second differences say how narrow it is there. The trapezoid rule then converges
geometrically on an interval at whose ends the integrand has dropped. The scan reaches as far as bounds of h_a
allow mass to be.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

import numpy as np

from lbnn._base.log_sums import log_sum_exp
from lbnn._base.types import Array, IndexArray, Mask
from lbnn.scale.density_table import TABLE_DEVIATIONS, DensityTable
from lbnn.scale.measure import DensityLaw, ScaleMeasure

_SCAN_STEP = 0.25  # of the scale on which integrands vary
_DROP = 40.0  # e-folds below its largest value at which an integrand is left out: e⁻⁴⁰ = 4e-18
_MARGIN = 5.0  # more of them that the bound of what lies beyond the scan has dropped
_FARTHEST = 690.0  # |log λ| that a double can hold
_STEP = 0.6  # deviations of a Gaussian peak: the rule errs by 2e-6 on every other node, by 1e-23 on all
_HALF_STEP_CHANGE = 1e-5  # of the sum over every other node; geometric convergence squares it
_ZOOM_NODES = 257  # with which an interval is looked at that is to be narrowed
_MOST_NODES = (1 << 15) + 1
_ROUNDS = 40

RealFunction = Callable[[Array], Array]


class Factors(Protocol):
    """Functions h_a of x = log λ, a = 1, ..., P."""

    def at(self, x: Array) -> Array:
        """h_a at common points (n,), (P, n)."""
        ...

    def at_own(self, rows: IndexArray, x: Array) -> Array:
        """Some of them (k,), each at points of its own (k, n), (k, n)."""
        ...

    def bound_below(self, x: float) -> Array:
        """Upper bounds of log ρ + h_a below x, relative to log ρ(x), (P,)."""
        ...

    def bound_above(self, x: float) -> Array:
        """Upper bounds of log ρ + h_a above x, relative to log ρ(x), (P,)."""
        ...


class LogScaleDensity:
    """The density of x = log λ behind quadrature nodes, at few points and at very many."""

    def __init__(self, law: DensityLaw, deviation: float) -> None:
        self.law, self._table = law, DensityTable(law, min(1.0, TABLE_DEVIATIONS * deviation))

    def few(self, x: Array) -> Array:
        """Log density at points (n,), from the law itself."""
        return self.law.log_density(x)

    def many(self, x: Array) -> Array:
        """Log density at points of any shape, from a table that is made once."""
        values = self._table.log_density(x)
        return values if self._table.accurate else self.law.log_density(x.ravel()).reshape(x.shape)


def log_scale_density(measure: ScaleMeasure) -> LogScaleDensity | None:
    """That of a measure of one output, made once; None where its law has no density or there is no law."""
    law = measure.law
    if measure.scales.shape[1] != 1 or not isinstance(law, DensityLaw):
        return None
    known = vars(law).get("_log_scale_density")
    if known is None:
        x = np.log(measure.scales[:, 0, 0])
        deviation = math.sqrt(float(measure.weights @ (x - measure.weights @ x) ** 2))
        known = vars(law)["_log_scale_density"] = LogScaleDensity(law, deviation)
    return known


def log_integrals(density: LogScaleDensity, factors: Factors, low: float, high: float) -> tuple[Array, Mask]:
    """Log I_a, (P,), and where they have converged; ρ falls outward from both ends of [low, high]."""
    x, values = _scan(density.few, factors, low, high)
    result, settled = np.full(len(values), -np.inf), np.zeros(len(values), bool)
    start, end, step = _interval(np.broadcast_to(x, values.shape), values)
    pending, narrowing = np.arange(len(values)), np.ones(len(values), bool)
    for _ in range(_ROUNDS):
        counts = _counts(start, end, step, narrowing)
        done = np.zeros(len(pending), bool)
        for count in np.unique(counts):
            group = np.flatnonzero(counts == count)
            for part in np.array_split(group, math.ceil(len(group) * count / (1 << 18))):
                rows = pending[part]
                own = np.linspace(start[part], end[part], count, axis=1)
                here = density.many(own) + factors.at_own(rows, own)
                spacing = (end[part] - start[part]) / (count - 1)
                result[rows] = log_sum_exp(here, axis=1) + np.log(spacing)
                done[part] = (spacing <= 1.01 * step[part]) & _resolved(here)
                tight = spacing <= 1.01 * step[part]
                first, last, finer = _interval(own, here)
                narrowing[part] = last - first < 0.7 * (end[part] - start[part])
                start[part], end[part] = first, last
                step[part] = np.where(tight, np.minimum(finer, spacing / 2), finer)
        settled[pending[done]] = True
        pending, narrowing = pending[~done], narrowing[~done]
        start, end, step = start[~done], end[~done], step[~done]
        if not len(pending):
            break
    return result, settled


def _scan(log_density: RealFunction, factors: Factors, low: float, high: float) -> tuple[Array, Array]:
    """Points (n,) that reach as far as any integrand can have mass, and the log integrands there (P, n)."""
    while True:
        x = np.linspace(low, high, math.ceil((high - low) / _SCAN_STEP) + 1)
        values = log_density(x) + factors.at(x)
        ends, allowed = log_density(x[[0, -1]]), values.max(axis=1) - (_DROP + _MARGIN)
        below = bool((ends[0] + factors.bound_below(low) > allowed).any())
        above = bool((ends[1] + factors.bound_above(high) > allowed).any())
        if not (below or above):
            return x, values
        if (below and low <= -_FARTHEST) or (above and high >= _FARTHEST):
            raise ValueError(
                "densities and quantiles must rest on scales that fit into double precision, |log λ| < 690, "
                "got a point or a level so far out that they do not: ask nearer to the mean, or rescale the "
                "data"
            )
        reach = max(5.0, 0.25 * (high - low))
        low, high = max(low - reach * below, -_FARTHEST), min(high + reach * above, _FARTHEST)


def _interval(x: Array, values: Array) -> tuple[Array, Array, Array]:
    """Where log integrands (P, n) at evenly spaced x (P, n) may matter, and the step that resolves them.

    Between nodes a log integrand exceeds the nearer one by at most an eighth of its second difference, where
    that varies slowly; a quarter is allowed for.
    """
    second = np.zeros_like(values)
    second[:, 1:-1] = values[:, :-2] - 2 * values[:, 1:-1] + values[:, 2:]
    second[:, 0], second[:, -1] = second[:, 1], second[:, -2]
    largest = values.max(axis=1, keepdims=True)
    keep = values + np.maximum(-second, 0.0) / 4 > largest - _DROP
    count, rows = values.shape[1], np.arange(len(values))
    first = np.maximum(keep.argmax(axis=1) - 1, 0)
    last = np.minimum(count - keep[:, ::-1].argmax(axis=1), count - 1)
    spacing = x[:, 1] - x[:, 0]
    curvature = np.where(keep, np.abs(second), 0.0).max(axis=1) / spacing**2
    return x[rows, first], x[rows, last], _STEP / np.sqrt(np.maximum(curvature, 1.0))


def _counts(start: Array, end: Array, step: Array, narrowing: Mask) -> IndexArray:
    """Numbers of nodes 2ᵏ + 1 for steps at most as asked; a few for intervals that become narrower still."""
    wanted = np.ceil((end - start) / step)
    counts = 2 ** np.ceil(np.log2(np.maximum(wanted, 16))).astype(int) + 1
    return np.minimum(counts, np.where(narrowing, _ZOOM_NODES, _MOST_NODES))


def _resolved(log_values: Array) -> Mask:
    """Whether the sum over every other node is the same, (P, n) -> (P,)."""
    terms = np.exp(log_values - log_values.max(axis=1, keepdims=True))
    change = np.abs(2 * terms[:, ::2].sum(axis=1) / terms.sum(axis=1) - 1)
    return np.asarray(change <= _HALF_STEP_CHANGE)
