"""Averages of exponentials over draws: how many of them count, and integrals where nodes miss the mass."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import special

from lbnn._base.log_integrals import integrate
from lbnn._base.types import Array, ComplexArray, IndexArray, Mask
from lbnn.scale.draws import Line

_HALF_STEP = 1e-8  # change of a quadrature on every other node; geometric convergence squares it
_ENDS = 1e-12  # share of a sum that the outermost nodes may hold, or that may lie beyond them
_FALLEN = 45.0  # e-folds below its maximum at which an integrand is left out: 3e-20
_STEP = 0.25  # of the scan: integrands, analytic in x up to ± iπ, vary on scales of order one
_FEWEST = 16  # nodes that an integrand must be seen by
_FIRST = 129  # nodes of the first rule
_MOST = 1 << 10  # ... and of the last: an integrand that needs more is a narrow peak
_AGREED = 1e-10  # of two rules, the finer of which has half the step: its own error is the square


#: Log integrands as functions of x = log λ, (m,) -> (m, k).
OfNumber = Callable[[Array], Array]


@dataclass(frozen=True)
class Averages:
    """Log averages of integrands, with the log of sums of squared terms of draws."""

    log_value: ComplexArray  # (k,)
    log_squares: Array  # (k,), −inf for quadrature nodes
    anew: Mask  # (k,): integrated anew

    @classmethod
    def unknown(cls, count: int) -> Averages:
        """Of so many integrands, to be filled."""
        return cls(np.zeros(count, complex), np.full(count, -np.inf), np.zeros(count, bool))

    def take(self, rows: IndexArray, log_terms: Array, deterministic: bool) -> None:
        """Fill in some of them from log terms (m, rows)."""
        self.log_value[rows] = special.logsumexp(log_terms.astype(complex), axis=0)
        if np.isrealobj(log_terms):
            self.log_value[rows] = special.logsumexp(log_terms, axis=0)
        if not deterministic:
            self.log_squares[rows] = special.logsumexp(2 * log_terms.real, axis=0)


def unresolved_nodes(log_terms: Array, totals: Array) -> Mask:
    """Integrands (k,) that nodes (m,) do not resolve: half of them differ, or mass is at the ends."""
    if len(log_terms) == 1:
        return np.zeros(len(totals), bool)
    with np.errstate(invalid="ignore"):
        shares = np.exp(log_terms - totals)
        half = np.abs(2 * shares[::2].sum(axis=0) - shares.sum(axis=0))
        return ~((half < _HALF_STEP) & (np.abs(shares[[0, -1]]).max(axis=0) < _ENDS))


def mass_beyond(line: Line, terms: OfNumber, totals: Array) -> Mask:
    """Integrands (k,) that are not small beyond the nodes, where posteriors of outlying points may be."""
    x = line.beyond
    heights = line.log_density(x)[:, None] + terms(x).real
    return np.asarray((heights > totals + math.log(_ENDS)).any(axis=0))


def average_anew(line: Line, along: Callable[[IndexArray], OfNumber], count: int) -> ComplexArray:
    """Log ∫ exp(log density + terms) dx of so many integrands, terms (m, k) at x (m,) of some of them (k,).

    On one grid for all, as wide as they need; those that it does not resolve by `log_integrals`, one by one.
    Infinite where the integrand grows down to the smallest number.
    """
    every, x = np.arange(count), np.concatenate([line.beyond, line.nodes])
    at = _integrands(line, along(every))
    low, high = _reached(x, at(x).real, float(line.nodes[0]), float(line.nodes[-1]))
    while True:
        low, high = max(low - 4.0, -FARTHEST), min(high + 4.0, FARTHEST)
        x = np.linspace(low, high, math.ceil((high - low) / _STEP) + 1)
        values = at(x).real
        inside = values > np.nanmax(np.where(np.isnan(values), -np.inf, values), axis=0) - _FALLEN
        if not ((inside[0].any() and low > -FARTHEST) or (inside[-1].any() and high < FARTHEST)):
            break
        reach = 0.5 * (high - low)
        low, high = low - reach * bool(inside[0].any()), high + reach * bool(inside[-1].any())
    diverges = inside[0]  # at a pole: behind one hidden unit the mass at scale zero is infinite
    found, settled = _refined(at, *_reached(x, values, high, low))
    for number in np.flatnonzero(~(settled | diverges)):
        own = _integrands(line, along(every[[number]]))

        def batch(x: Array, _: IndexArray, own: OfNumber = own) -> ComplexArray:
            """The integrand as `integrate` asks for it, at x (j, n)."""
            return np.concatenate([own(row).T for row in x])

        one = integrate(batch, batch, np.array([low]), np.array([high]))
        one.require()
        found[number] = one.log_totals[0][0]
    return np.where(diverges, math.inf, found)


def _reached(x: Array, values: Array, low: float, high: float) -> tuple[float, float]:
    """The range of low, high, and all x (m,), with neighbours, at which an integrand (m, k) is large."""
    top = np.where(np.isnan(values), -np.inf, values).max(axis=0) - _FALLEN
    order = np.argsort(x)
    inside = np.flatnonzero((values[order] > top).any(axis=1))
    if not len(inside):
        return min(low, high), max(low, high)
    x = x[order]
    return min(low, float(x[max(inside[0] - 1, 0)])), max(high, float(x[min(inside[-1] + 1, len(x) - 1)]))


def _integrands(line: Line, terms: OfNumber) -> OfNumber:
    """Log density and terms, (m, k) at x (m,)."""
    return lambda x: line.log_density(x)[:, None] + terms(x)


def _refined(at: OfNumber, low: float, high: float) -> tuple[ComplexArray, Mask]:
    """Log integrals (k,) over a range by rules of ever smaller steps, and where two of them agree."""
    count, known = _FIRST, None
    while True:
        x = np.linspace(low, high, count)
        values = at(x)
        found = special.logsumexp(values.astype(complex), axis=0) + math.log(x[1] - x[0])
        if known is not None:
            settled = np.abs(found - known) < _AGREED * np.maximum(1.0, np.abs(found))
            settled &= np.isfinite(found)
            settled &= (values.real > values.real.max(axis=0) - _FALLEN).sum(axis=0) > _FEWEST
            if settled.all() or count > _MOST:
                return np.asarray(found), np.asarray(settled)
        known, count = found, 2 * count - 1


#: |log λ| that a double can hold.
FARTHEST = 680.0
