"""Quantiles of mixtures of Gaussians, elementwise."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy import special
from scipy.optimize import elementwise

from lbnn._base.types import Array, IndexArray, Mask

_NEWTON_STEPS = 20
_MOST_STEPS = 60
_SETTLED = 1e-11  # of the length on which a tail falls by e: the next Newton step would be its square
_POINT = 1e-12  # width of an atom that is a point, relative to the means: above their rounding
_ROUNDING = 1e-14  # relative step at which Newton's method has converged (it does so quadratically)


def mixture_quantile(level: float, weights: Array, means: Array, deviations: Array) -> Array:
    """Solve Σ_s w_s Φ((q − mean_s)/deviation_s) = level; means and deviations (atoms, ...) -> (...).

    An atom with a deviation of zero is a point. If all of them are the same point, so is the quantile. Else
    they are taken for Gaussians of the width `_POINT`, relative to the means, and so near is the quantile.
    """
    shape = means.shape[1:]
    means, deviations = means.reshape(len(weights), -1), deviations.reshape(len(weights), -1)
    result = means[0].copy()
    smooth = (deviations > 0).all(axis=0)
    stepped = ~smooth & ((deviations > 0).any(axis=0) | (np.ptp(means, axis=0) > 0))
    if smooth.any():
        result[smooth] = _solve(level, weights, means[:, smooth], deviations[:, smooth])
    if stepped.any():
        centres = means[:, stepped]
        widths = np.maximum(deviations[:, stepped], _POINT * np.abs(centres).max(axis=0))
        result[stepped] = _bracketed(level, weights, centres, widths)
    return result.reshape(shape)


def _solve(level: float, weights: Array, means: Array, deviations: Array) -> Array:
    """Quantiles (k,) of mixtures (m, k).

    Newton's method on the log of the shorter tail, else a bracketed search.
    """
    if len(weights) == 1:
        return means[0] + deviations[0] * special.ndtri(level)
    result, settled = _newton(level, weights, means, deviations)
    if not settled.all():
        result[~settled] = _bracketed(level, weights, means[:, ~settled], deviations[:, ~settled])
    return result


def _newton(level: float, weights: Array, means: Array, deviations: Array) -> tuple[Array, Mask]:
    """Quantiles (k,), and where the steps have come down to rounding."""
    sign, tail = (1.0, level) if level <= 0.5 else (-1.0, 1 - level)
    centre = weights @ means
    spread = np.sqrt(weights @ (deviations**2 + (means - centre) ** 2))
    q, settled = centre + spread * special.ndtri(level), np.zeros(len(centre), bool)
    for _ in range(_NEWTON_STEPS):
        scores = (q - means) / deviations
        probability = weights @ special.ndtr(sign * scores)
        density = weights @ (np.exp(-0.5 * scores**2) / deviations) / math.sqrt(2 * math.pi)
        with np.errstate(divide="ignore", invalid="ignore"):
            step = sign * np.log(probability / tail) * probability / density
        q = q - step
        settled = np.abs(step) <= _ROUNDING * (np.abs(q) + spread)
        if settled.all() or not np.isfinite(q).all():
            break
    return q, settled


def _bracketed(level: float, weights: Array, means: Array, deviations: Array) -> Array:
    """Quantiles (k,) of mixtures (m, k) by a search between the components' quantiles."""
    sign, tail = (1.0, level) if level <= 0.5 else (-1.0, 1 - level)
    components = means + deviations * special.ndtri(level)
    log_weights = np.log(weights, where=weights > 0, out=np.full(len(weights), -np.inf))[:, None]

    def excess(q: Array, column: Array) -> Array:
        """Log of the tail probability at q (j,) of the mixtures `column` (j,), less that of the level."""
        index = column.astype(int)
        scores = sign * (q - means[:, index]) / deviations[:, index]
        return special.logsumexp(log_weights + special.log_ndtr(scores), axis=0) - np.log(tail)

    margin = 1e-6 * deviations.max(axis=0)  # keeps rounding from spoiling the signs at the ends
    low, high = components.min(axis=0) - margin, components.max(axis=0) + margin
    result = 0.5 * (low + high)
    wide = np.flatnonzero(high - low > 4 * np.finfo(float).eps * np.abs(result))  # else all agree to rounding
    solution = elementwise.find_root(excess, (low[wide], high[wide]), args=(wide.astype(float),))
    if not solution.success.all():
        raise RuntimeError("a quantile could not be bracketed; please report this with your data")
    result[wide] = solution.x
    return result


def tail_quantile(
    level: float, start: Array, log_tails: Callable[[IndexArray, Array], tuple[Array, Array]]
) -> Array:
    """Solve for quantiles (k,) from a start, by Newton's method on the log of the shorter tail's probability.

    `log_tails` gives log probability and log density at values of some of the points. The log probability of
    a tail is monotone, so that every value seen bounds the solution; steps beyond a bound halve the interval.
    """
    sign, tail = (1.0, math.log(level)) if level <= 0.5 else (-1.0, math.log1p(-level))
    q, pending = start.copy(), np.arange(len(start))
    low, high = np.full(len(start), -np.inf), np.full(len(start), np.inf)
    for _ in range(_MOST_STEPS):
        probability, density = log_tails(pending, q[pending])
        excess = probability - tail
        beyond = sign * excess > 0  # the solution is smaller
        high[pending] = np.where(beyond, np.minimum(high[pending], q[pending]), high[pending])
        low[pending] = np.where(beyond, low[pending], np.maximum(low[pending], q[pending]))
        with np.errstate(over="ignore"):
            new = q[pending] - sign * excess * np.exp(probability - density)
        outside = ~((new >= low[pending]) & (new <= high[pending]))
        middle = 0.5 * (low[pending] + high[pending])
        new = np.where(outside & np.isfinite(middle), middle, new)
        unit = np.exp(probability - density)  # over which the tail falls by about e
        moved = np.abs(new - q[pending]) > _ROUNDING * np.abs(new) + _SETTLED * unit
        q[pending] = new
        pending = pending[moved]
        if not len(pending):
            return q
    raise RuntimeError("a quantile did not converge; please report this with your data")
