"""Integrals over x = log λ of many integrands at once, each on nodes of its own.

Densities and tail probabilities of one output are averages over the law of log λ,

    I_a = ∫ exp(log ρ(x) + h_a(x)) dx,    a = 1, ..., P,

and what is far from the data puts the mass of its integrand where ρ itself has none. Both terms are analytic
in x up to ± iπ, so that they vary on scales of order one: a scan in steps of a quarter finds where an
integrand is large. `_base.log_integrals` then places the nodes. The scan reaches as far as bounds of h_a
allow mass to be, which a drop of the integrand itself does not show where it has two peaks.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

import numpy as np

from lbnn._base.log_integrals import integrate
from lbnn._base.types import Array, IndexArray, Mask
from lbnn.scale.density_table import TABLE_DEVIATIONS, DensityTable
from lbnn.scale.measure import DensityLaw, ScaleMeasure

_SCAN_STEP = 0.25  # of the scale on which integrands vary
_DROP = 40.0  # e-folds below its largest value at which an integrand is left out: e⁻⁴⁰ = 4e-18
_MARGIN = 5.0  # more of them that the bound of what lies beyond the scan has dropped
_FARTHEST = 690.0  # |log λ| that a double can hold

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
    low, high, count = _range(density.few, factors, low, high)

    def log_integrand(x: Array, which: IndexArray) -> Array:
        """Log of the density and the factors `which` (j,) at x (j, n)."""
        return density.many(x) + factors.at_own(which, x)

    ends = np.full((2, count), [[low], [high]])
    found = integrate(log_integrand, log_integrand, *ends)
    found.require()
    return found.log_total(), found.converged


def _range(log_density: RealFunction, factors: Factors, low: float, high: float) -> tuple[float, float, int]:
    """Ends that reach as far as any integrand can have mass, and the number of integrands."""
    while True:
        x = np.linspace(low, high, math.ceil((high - low) / _SCAN_STEP) + 1)
        values = log_density(x) + factors.at(x)
        ends, allowed = log_density(x[[0, -1]]), values.max(axis=1) - (_DROP + _MARGIN)
        below = bool((ends[0] + factors.bound_below(low) > allowed).any())
        above = bool((ends[1] + factors.bound_above(high) > allowed).any())
        if not (below or above):
            return low, high, len(values)
        if (below and low <= -_FARTHEST) or (above and high >= _FARTHEST):
            raise ValueError(
                "densities and quantiles must rest on scales that fit into double precision, |log λ| < 690, "
                "got a point or a level so far out that they do not: choose one nearer to the mean, or "
                "rescale the data"
            )
        reach = max(5.0, 0.25 * (high - low))
        low, high = max(low - reach * below, -_FARTHEST), min(high + reach * above, _FARTHEST)
