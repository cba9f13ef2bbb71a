"""The posterior of x = log λ for many data sets at once, on one grid of x.

Prior law × likelihood is analytic in x and decays at both ends, so that the trapezoid rule converges
geometrically; the grid is doubled until neither the evidence nor E λ of any data set changes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.polynomial import chebyshev

from lbnn._base.chebyshev_panels import nodes_for
from lbnn._base.types import Array
from lbnn.scale.gamma_product import GammaProduct

#: e-folds below its peak at which a tail of the posterior is left out: e⁻⁴⁵ is 3e-20.
DROP = 45.0
#: |log λ| that leaves room in double precision.
FARTHEST = 650.0

_FIRST_POINTS = 65
_MOST_POINTS = 1 << 15
_TOLERANCE = 1e-9  # relative change when the grid is halved; geometric convergence squares it
_PANEL = 3.0  # widest range of log λ on one polynomial, as in `chebyshev_panels`


@dataclass(frozen=True)
class Panels:
    """Chebyshev points x (k,) in panels of a range, and what each weighs at other points.

    For functions that are analytic in x up to ± iπ at least, as 1/(τ + e^x g) is, or a share of that.
    """

    nodes: Array
    low: float
    high: float
    count: int  # of panels
    each: int  # nodes of a panel

    @classmethod
    def over(cls, low: float, high: float, strip: float = math.pi) -> Panels:
        """For a range of x and functions analytic up to ± i strip; one node where the range is a point."""
        if high <= low:
            return cls(np.array([low]), low, low, 1, 1)
        widest = _PANEL * strip / math.pi
        count = math.ceil((high - low) / widest)
        half = (high - low) / count / 2
        each = max(4, nodes_for(half * math.pi / strip))
        centres = low + half * (2 * np.arange(count) + 1)
        return cls((centres[:, None] + half * chebyshev.chebpts1(each)).ravel(), low, high, count, each)

    def weights(self, x: Array) -> Array:
        """Values at x (n,) are these weights (n, k) times values at the nodes."""
        if self.high <= self.low:
            return np.ones((len(x), 1))
        panel, rows = self._rows(x)
        result = np.zeros((len(x), self.count, self.each))
        result[np.arange(len(x)), panel] = rows
        return result.reshape(len(x), -1)

    def interpolate(self, values: Array, x: Array) -> Array:
        """Values at x (n,) from values (k,) at the nodes."""
        if self.high <= self.low:
            return np.full(len(x), values[0])
        panel, rows = self._rows(x)
        return np.einsum("nk,nk->n", rows, values.reshape(self.count, self.each)[panel])

    def _rows(self, x: Array) -> tuple[Array, Array]:
        """The panel of every x, and the weights of its nodes, (n, each)."""
        half = (self.high - self.low) / self.count / 2
        panel = np.clip(((x - self.low) / (2 * half)).astype(int), 0, self.count - 1)
        place = (x - self.low) / half - (2 * panel + 1)
        degree = self.each - 1
        transform = np.linalg.inv(chebyshev.chebvander(chebyshev.chebpts1(self.each), degree))
        return panel, chebyshev.chebvander(place, degree) @ transform


@dataclass(frozen=True)
class ScaleLaw:
    """Posteriors of x = log λ of m data sets: points x (n,), weights (m, n), log ∫ and E λ, (m,) each."""

    x: Array
    weights: Array
    log_total: Array
    scale_mean: Array


def at_one_scale(x: float, log_likelihood: Callable[[Array], Array]) -> ScaleLaw:
    """The law of a scale that is known."""
    log_total = log_likelihood(np.array([x]))[:, 0]
    one = np.ones((len(log_total), 1))
    return ScaleLaw(np.array([x]), one, log_total, math.exp(x) * one[:, 0])


def integrate(
    law: GammaProduct,
    likelihood_over: Callable[[float, float], Callable[[Array], Array]],
    low: float,
    high: float,
) -> ScaleLaw:
    """Prior law × likelihood.

    Parameters
    ----------
    law : GammaProduct
    likelihood_over : function (low, high) -> (function of x (n,) -> (m, n))
        Log likelihoods of all data sets on a range of x.
    low, high : float
        Range to begin with; it is extended until the integrand has dropped at both ends, also λ times it.
    """
    while True:
        log_likelihood = likelihood_over(low, high)
        x = np.linspace(low, high, _FIRST_POINTS)
        values = law.log_density(x) + log_likelihood(x)
        left, right = _still_high(x, values)
        if not (left or right):
            break
        if (left and low <= -FARTHEST) or (right and high >= FARTHEST):
            raise ValueError(
                f"the law of the scale must fit into double precision, |log λ| < {FARTHEST:g}, got mass "
                "beyond it: make the network less deep or less narrow, or the teacher less large or small"
            )
        reach = max(0.5 * (high - low), 0.1)
        low, high = max(low - reach * left, -FARTHEST), min(high + reach * right, FARTHEST)
    while True:
        log_step = math.log(x[1] - x[0])
        totals = [log_sum(values + power * x) + log_step for power in (0, 1)]
        coarse = [log_sum((values + power * x)[:, ::2]) + log_step + math.log(2) for power in (0, 1)]
        rounding = 64 * np.finfo(float).eps * np.abs(values.max(axis=1))
        if (np.abs(np.subtract(totals, coarse)).max(axis=0) < _TOLERANCE + rounding).all():
            break
        if len(x) > _MOST_POINTS:
            raise ArithmeticError(
                f"the posterior of log λ must be resolved by {_MOST_POINTS} points, got a narrower one: "
                "rescale the teacher or the noise"
            )
        between = 0.5 * (x[1:] + x[:-1])
        new = law.log_density(between) + log_likelihood(between)
        x, values = _interleaved(x[None], between[None])[0], _interleaved(values, new)
    weights = np.exp(values - (totals[0] - log_step)[:, None])
    return ScaleLaw(x, weights, totals[0], np.exp(totals[1] - totals[0]))


def _interleaved(even: Array, odd: Array) -> Array:
    """Columns of (n, a) and (n, b) in turn, (n, a + b)."""
    merged = np.empty((len(even), even.shape[1] + odd.shape[1]))
    merged[:, ::2], merged[:, 1::2] = even, odd
    return merged


def _still_high(x: Array, values: Array) -> tuple[bool, bool]:
    """Whether values (n, k) at x (k,), or λ times them, have not dropped at either end for some data set."""
    left = right = False
    for power in (0, 1):
        tilted = values + power * x
        top = tilted.max(axis=1) - DROP
        left |= bool((tilted[:, 0] > top).any())
        right |= bool((tilted[:, -1] > top).any())
    return left, right


def log_sum(terms: Array) -> Array:
    """Log of the sums of exponentials over the last axis, (m,)."""
    top = terms.max(axis=1)
    return top + np.log(np.exp(terms - top[:, None]).sum(axis=1))
