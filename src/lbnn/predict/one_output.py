"""One output at single points, given λ: Gaussians whose mean and variance are functions of x = log λ.

    m(λ) = Σ_i φ_i √g_i λ ỹ_i/(τ + g_i λ),    v(λ) = R λ + Σ_i φ_i² τλ/(τ + g_i λ) + noise.

Averages of densities and of tail probabilities over the law of log λ are taken from the quadrature nodes of
the posterior where these resolve the integrand and can miss no mass, and on nodes of their own where not.
With v growing in λ, a density is at most 1/√(2πv), so that

    ∫_A ρ(x) N(y; m, v) dx ≤ ∫_A ρ(x)/√(2πv) dx

for every set A of log λ: what lies between or beyond nodes that are too far apart to see it is bounded by the
posterior itself, which they do resolve.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy import special

from lbnn._base.arrays import take, times
from lbnn._base.blocks import blocks
from lbnn._base.log_sums import log_sum_exp
from lbnn._base.types import AnyArray, Array, IndexArray, Mask
from lbnn._base.warn import warn
from lbnn.data.projection import Projection
from lbnn.predict.conditional import ConditionalProcess
from lbnn.predict.curves import PointCurves, curves_of
from lbnn.scale.line_integrals import log_integrals, log_scale_density
from lbnn.scale.measure import ScaleMeasure, unresolved

LOG_TWO_PI = math.log(2 * math.pi)
_WIDEST_GAP = 0.5  # of nodes in x that see every peak: integrands vary on scales of order one
_MISSED = 1e-12  # share of an answer that nodes farther apart may hold, or miss
_NEEDLE = 4.0  # second difference of a log integrand from which a peak may hide between nodes


@dataclass(frozen=True)
class PointsGivenScale:
    """The Gaussians of one output at P points as functions of log λ."""

    process: ConditionalProcess
    explained: AnyArray  # Φ, (P, r)
    own: Array  # R, (P,)
    noise_variance: float  # of an observation, and of the level
    curves: PointCurves | None  # None at the ends of the temperatures, where means do not depend on λ

    @classmethod
    def of(
        cls,
        projection: Projection,
        process: ConditionalProcess,
        measure: ScaleMeasure,
        noise_variance: float,
        rows: IndexArray,
    ) -> PointsGivenScale:
        """Some of the test points, rows (k,)."""
        explained = take(projection.explained, rows, axis=0)
        finite = 0 < process.noise_variance < math.inf
        curves = curves_of(process, measure).points(explained) if finite else None
        return cls(process, explained, projection.unexplained_diagonal[rows], noise_variance, curves)

    def take(self, rows: IndexArray) -> PointsGivenScale:
        """Some of the points, rows (j,)."""
        return replace(
            self,
            explained=take(self.explained, rows, axis=0),
            own=self.own[rows],
            curves=None if self.curves is None else self.curves.take(rows),
        )

    def at(self, x: Array) -> tuple[Array, Array]:
        """Means and variances at common x (n,), (P, n) each."""
        scale = np.exp(x)
        own = self.own[:, None] * scale + self.noise_variance
        if self.curves is None:
            mean, slope = self._without_curves
            return np.broadcast_to(mean[:, None], own.shape), own + slope[:, None] * scale
        mean, seen = self.curves.of_numbers(scale)
        return mean, own + seen

    def at_own(self, rows: IndexArray, x: Array) -> tuple[Array, Array]:
        """Means and variances of some points, each at x of its own (k, n), (k, n) each."""
        scale = np.exp(x)
        own = self.own[rows, None] * scale + self.noise_variance
        if self.curves is None:
            mean, slope = self._without_curves
            return np.broadcast_to(mean[rows, None], x.shape), own + slope[rows, None] * scale
        mean, seen = self.curves.of_own_numbers(rows, scale)
        return mean, own + seen

    @property
    def spread(self) -> Array:
        """A variance that is zero only where the data determine the output, (P,)."""
        left = np.zeros(len(self.own))
        if self.process.noise_variance > 0:
            left = times(self.explained**2, np.ones((self.explained.shape[1], 1)))[:, 0]
        return self.own + left + self.noise_variance

    @property
    def _without_curves(self) -> tuple[Array, Array]:
        """Means and Σ_i φ_i² s_i/λ at the ends of the temperatures, (P,) each."""
        values, targets = self.process.eigenvalues, self.process.targets
        if self.process.noise_variance == 0:
            return times(self.explained, targets / np.sqrt(values)[:, None])[:, 0], np.zeros(len(self.own))
        square = times(self.explained**2, np.ones((len(values), 1)))[:, 0]
        return np.zeros(len(self.own)), square

    def largest_mean(self, x: float) -> Array:
        """Bound of |m| for all smaller λ: Σ_i |φ_i √g_i ỹ_i| λ/(τ + g_i λ), which grows with λ, (P,)."""
        if self.curves is None:
            return np.abs(self._without_curves[0])
        scale, process = math.exp(x), self.process
        gain = np.sqrt(process.eigenvalues) * scale / (process.noise_variance + process.eigenvalues * scale)
        return times(abs(self.explained), np.abs(process.targets) * gain[:, None])[:, 0]


@dataclass(frozen=True)
class Densities:
    """Log densities of one value at each point, as functions of x = log λ."""

    points: PointsGivenScale
    values: Array  # (P,)

    def take(self, rows: IndexArray) -> Densities:
        """Those of some points, rows (j,)."""
        return Densities(self.points.take(rows), self.values[rows])

    def at(self, x: Array) -> Array:
        """Log densities at x = log λ (n,) for all points, (k, n)."""
        mean, variance = self.points.at(x)
        return _log_normal(self.values[:, None] - mean, variance)

    def at_own(self, rows: IndexArray, x: Array) -> Array:
        """Log densities of points rows (j,) at x (j, n) of their own."""
        mean, variance = self.points.at_own(rows, x)
        return _log_normal(self.values[rows, None] - mean, variance)

    def poles(self, narrowest: float) -> Mask:
        """Mask (k,) of infinite densities of the function, behind one hidden unit.

        They are infinite at the value that λ → 0 leaves.
        """
        if self.points.noise_variance > 0 or narrowest >= 2:
            return np.zeros(len(self.values), bool)
        limit = self.points._without_curves[0] if self.points.curves is None else 0.0
        return np.asarray(self.values == limit)

    def ceiling(self, x: Array) -> Array:
        """Log of 1/√(2πv), (P, n)."""
        return _log_normal(0.0, self.points.at(x)[1])

    def bound_below(self, x: float) -> Array:
        """Bound (k,) for scales below x.

        With a deviation of at least D it is −½ log v − D²/2v, which grows with v while v < D².

        Otherwise 1/√(2πv): as v/λ does not grow with λ, ρ/√v falls towards small λ where ρ falls as √λ does,
        and a prior of any widths does.
        """
        variance = self.points.at(np.array([x]))[1][:, 0]
        if self.points.curves is None:
            least = np.abs(self.values - self.points.at(np.array([x]))[0][:, 0])
        else:
            least = np.maximum(np.abs(self.values) - self.points.largest_mean(x), 0.0)
        return _log_normal(np.where(variance <= least**2, least, 0.0), variance)

    def bound_above(self, x: float) -> Array:
        """Bound (k,) above x: 1/√(2πv), which falls with λ."""
        return _log_normal(0.0, self.points.at(np.array([x]))[1][:, 0])


@dataclass(frozen=True)
class Tails:
    """Log probabilities below (sign 1) or above (−1) a value at each point, as functions of x = log λ."""

    points: PointsGivenScale
    values: Array  # (P,)
    sign: float

    def take(self, rows: IndexArray) -> Tails:
        """Those of some points, rows (j,)."""
        return Tails(self.points.take(rows), self.values[rows], self.sign)

    def at(self, x: Array) -> Array:
        """Log probabilities at x = log λ (n,) for all points, (k, n)."""
        mean, variance = self.points.at(x)
        return special.log_ndtr(self.sign * (self.values[:, None] - mean) / np.sqrt(variance))

    def at_own(self, rows: IndexArray, x: Array) -> Array:
        """Log probabilities of points rows (j,) at x (j, n) of their own."""
        mean, variance = self.points.at_own(rows, x)
        return special.log_ndtr(self.sign * (self.values[rows, None] - mean) / np.sqrt(variance))

    def ceiling(self, x: Array) -> Array:
        """Probabilities are at most one, (P, n)."""
        return np.zeros((len(self.values), len(x)))

    def bound_below(self, x: float) -> Array:
        """Bound (k,) below x: a probability is at most one."""
        return np.zeros(len(self.values))

    def bound_above(self, x: float) -> Array:
        """Bound (k,) above x: a probability is at most one."""
        return np.zeros(len(self.values))


def log_averages(measure: ScaleMeasure, factors: Densities | Tails) -> tuple[Array, Mask]:
    """Log E exp h_a over the law of one output's scale, (P,), and where that needed nodes of its own."""
    x = np.log(measure.scales[:, 0, 0])
    with np.errstate(divide="ignore"):  # weights may have underflowed to zero
        log_weights = np.log(measure.weights)
    result, anew = np.empty(len(factors.values)), np.zeros(len(factors.values), bool)
    for block in blocks(len(result), len(x)):
        rows = np.arange(len(result))[block]
        part = factors.take(rows)
        terms = log_weights + part.at(x)
        result[block] = log_sum_exp(terms, axis=1)
        if len(x) > 1:  # one atom is the whole law
            anew[block] = _doubtful(x, terms, log_weights + part.ceiling(x), result[block])
    density = log_scale_density(measure)
    if density is not None and anew.any():
        rows, converged = np.flatnonzero(anew), True
        for block in blocks(len(rows), 256):
            here = rows[block]
            result[here], settled = log_integrals(density, factors.take(here), x[0], x[-1])
            converged &= bool(settled.all())
        if not converged:
            warn(
                "the integral over the scale did not converge for some points, which are too far from the "
                "mean"
            )
    return result, anew


def _doubtful(x: Array, terms: Array, ceilings: Array, totals: Array) -> Mask:
    """Where nodes x (n,) with log terms (P, n) may not give the integral, whose log they make `totals`."""
    gaps = np.diff(x)
    coarse = np.append(gaps, np.inf) > _WIDEST_GAP
    coarse |= np.insert(gaps, 0, np.inf) > _WIDEST_GAP  # the outermost ones too
    missed = log_sum_exp(ceilings[:, coarse], axis=1) > totals + math.log(_MISSED)
    second = terms[:, :-2] - 2 * terms[:, 1:-1] + terms[:, 2:]
    with np.errstate(invalid="ignore"):  # weights of zero
        highest = np.where(second < -_NEEDLE, terms[:, 1:-1] - second / 4, -np.inf).max(axis=1)
    return np.asarray(missed | unresolved(terms.T) | (highest > totals + math.log(_MISSED)))


def _log_normal(deviation: Array | float, variance: Array) -> Array:
    """log N(deviation; 0, variance), arrays of the same shape."""
    return -0.5 * (LOG_TWO_PI + np.log(variance) + deviation**2 / variance)
