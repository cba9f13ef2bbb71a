"""The law of x = log λ for a product of independent Gamma variables, by Mellin inversion.

One output: λ = variance · Π_ℓ χ²(n_ℓ)/n_ℓ. Its density is a Gamma (one factor), a Bessel K (two) or a
Meijer G-function (any number). All of them are one inverse Mellin transform,

    π(x) = (2πi)⁻¹ ∫ e^{−s(x − log variance)} Π_ℓ Γ(a_ℓ + s) / (Γ(a_ℓ) a_ℓ^s) ds,   a_ℓ = n_ℓ / 2,

taken with the trapezoid rule along the parabola that touches the path of steepest descent at the saddle
point. On it the integrand neither oscillates nor cancels, so 48 points give the density to rounding,
relative to itself, in both tails and for every width; a vertical line fails for one narrow layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from scipy import special

from lbnn._base.blocks import blocks
from lbnn._base.types import Array, ComplexArray, IndexArray

_CONTOUR_POINTS = 48
_CONTOUR_STEP = 0.25  # in standard deviations of the integrand at the saddle point
_COARSE = 4  # of so many entries of the saddle table one has a standard deviation
_STIRLING_FROM = 100.0  # where three terms of Stirling's series are exact to rounding


class GammaProduct:
    """The law of x = log λ, λ = variance · Π_ℓ χ²(n_ℓ)/n_ℓ, over at least one width."""

    def __init__(self, widths: Sequence[float], variance: float = 1.0) -> None:
        self.widths = tuple(widths)
        self.shapes, self.multiplicity = np.unique(np.asarray(widths, float) / 2, return_counts=True)
        self.shift = float(np.log(variance))

    @property
    def left_exponent(self) -> float:
        """The density of x falls like e^{left_exponent · x} (times a power of x) as x → −∞."""
        return float(self.shapes[0])

    def log_density(self, x: Array) -> Array:
        """Log density of x = log λ, elementwise over x of shape (m,)."""
        centred = x - self.shift
        if len(self.widths) == 1:
            return _log_gamma_density(self.left_exponent, centred)
        own, crossing = self._crossings(centred)  # points near each other share a contour
        gap = self._near_saddle(crossing)
        spread, bend = self._contour_shape(gap)
        y = spread[:, None] * (_CONTOUR_STEP * np.arange(_CONTOUR_POINTS))
        step = 1j * y - bend[:, None] * y**2  # s − c along the parabola
        integrand = np.exp(self._exponent_along(gap, crossing, step)) * (1 + 2j * bend[:, None] * y)
        integrand[:, 0] *= 0.5  # the other half of the contour is the complex conjugate
        away = centred - crossing[own]
        result = np.empty_like(centred)
        for block in blocks(len(result), 4 * _CONTOUR_POINTS):
            here = own[block]
            terms = integrand[here] * np.exp(-step[here] * away[block, None])
            result[block] = np.log(terms.real.sum(axis=1))
        height = self._exponent_at_saddle(gap, crossing) + np.log(spread * (_CONTOUR_STEP / np.pi))
        return result + height[own] - (gap - self.shapes[0])[own] * away

    def _crossings(self, centred: Array) -> tuple[IndexArray, Array]:
        """Number (m,) of the crossing point of each x (m,), and the crossing points (k,).

        Neighbours are within a quarter of the standard deviation that x has under the law tilted to them,
        where a contour through the saddle point of one neither oscillates nor cancels for the other.
        """
        if len(centred) < 2 or not np.isfinite(centred).all():
            return np.arange(len(centred)), centred
        order = np.argsort(centred)
        deviation = np.interp(centred[order], self._saddle_table[1][::_COARSE], self._deviation_table)
        between = np.minimum(deviation[1:], deviation[:-1])
        place = np.concatenate([[0.0], np.cumsum(np.diff(centred[order]) / between)])
        starts = np.concatenate([[True], np.diff(np.floor(2 * place)) > 0])
        own = np.empty(len(centred), np.intp)
        own[order] = np.cumsum(starts) - 1
        first = np.flatnonzero(starts)
        last = np.append(first[1:], len(centred)) - 1
        return own, 0.5 * (centred[order][first] + centred[order][last])

    @cached_property
    def _deviation_table(self) -> Array:
        """Standard deviation of x at some of the tilts of the saddle table, (k,)."""
        arguments = self._arguments(np.exp(self._saddle_table[0][::_COARSE]))
        return np.sqrt((self.multiplicity * special.polygamma(1, arguments)).sum(-1))

    def saddle_log_density(self, x: Array) -> Array:
        """Leading-order saddle-point approximation of `log_density` at x (m,): cheap, to place nodes."""
        centred = x - self.shift
        gap = self.saddle_gap(centred)
        second = (self.multiplicity * special.polygamma(1, self._arguments(gap))).sum(-1)
        return self._exponent_at_saddle(gap, centred) - 0.5 * np.log(2 * np.pi * second)

    def location(self, tilt: float) -> float:
        """Centre of the density times e^{tilt · x}, for tilt > −left_exponent: where its saddle point is."""
        return float(self._location(np.array([self.left_exponent + tilt]))[0]) + self.shift

    def spread(self, tilt: float) -> float:
        """Standard deviation of x under the density times e^{tilt · x}."""
        spread, _ = self._contour_shape(np.array([self.left_exponent + tilt]))
        return 1 / float(spread[0])

    def split(self, x: Array, rng: np.random.Generator) -> Array:
        """Draw log χ²(n_ℓ)/n_ℓ of every factor given x = log λ, (m, factors), last width first; exact.

        Given the product, tilting every Gamma by λ^c changes nothing, so c is chosen such that the sum is
        typical. All factors but the broadest are drawn, the sum gives that one, and its density accepts.
        """
        return split_given(self.widths, x - self.shift, self.saddle_gap(x - self.shift), rng)

    def saddle_gap(self, centred: Array) -> Array:
        """Distance (m,) from the rightmost pole to the saddle point: solves Σ_ℓ ψ(a_ℓ + c) − log a_ℓ = x.

        Newton's method in log(gap); any point near the saddle is as good a crossing point, since the
        integral does not depend on it.
        """
        log_gap = np.log(self._near_saddle(centred))
        for _ in range(3):
            gap = np.exp(log_gap)
            slope = gap * (self.multiplicity * special.polygamma(1, self._arguments(gap))).sum(-1)
            log_gap = log_gap + np.clip((centred - self._location(gap)) / slope, -1.0, 1.0)
        return np.exp(log_gap)

    def _near_saddle(self, centred: Array) -> Array:
        """`saddle_gap` (m,) from a table, within hundredths of the integrand's width."""
        grid, values = self._saddle_table
        return np.exp(np.interp(centred, values, grid))

    @cached_property
    def _saddle_table(self) -> tuple[Array, Array]:
        """Logarithms of distances to the pole, and the x at which the saddle point is there, (k,) each."""
        grid = np.concatenate([np.linspace(-9.0, 30.0, 300), np.linspace(30.5, 705.0, 700)])
        return grid, self._location(np.exp(grid))

    def _arguments(self, gap: Array) -> Array:
        """a_ℓ + c of shape gap.shape + (distinct widths,), without cancellation near the pole."""
        return (self.shapes - self.shapes[0]) + gap[..., None]

    def _location(self, gap: Array) -> Array:
        """The x, shaped like gap, whose saddle point is at this distance from the pole."""
        terms = special.digamma(self._arguments(gap)) - np.log(self.shapes)
        return (self.multiplicity * terms).sum(-1)

    def _contour_shape(self, gap: Array) -> tuple[Array, Array]:
        """Width of the integrand at the saddle points (m,), and curvature of the steepest descent there."""
        arguments = self._arguments(gap)
        second = (self.multiplicity * special.polygamma(1, arguments)).sum(-1)
        third = (self.multiplicity * special.polygamma(2, arguments)).sum(-1)
        return 1 / np.sqrt(second), -third / (6 * second)

    def _exponent_at_saddle(self, gap: Array, centred: Array) -> Array:
        """Log of e^{−c x} Π Γ(a_ℓ + c) / (Γ(a_ℓ) a_ℓ^c), (m,)."""
        tilt = gap - self.shapes[0]
        increments = log_gamma_increment(self.shapes, tilt[:, None]).real
        return (self.multiplicity * increments).sum(-1) - tilt * centred

    def _exponent_along(self, gap: Array, centred: Array, step: ComplexArray) -> ComplexArray:
        """The exponent at c + step, less its value at c; shape of step, (m, contour points)."""
        arguments = self._arguments(gap)
        offset = centred - (self.multiplicity * _log_ratio(arguments, self.shapes)).sum(-1)
        exponent = -step * offset[:, None]
        for column, count in enumerate(self.multiplicity):
            exponent = exponent + count * log_gamma_increment(arguments[:, column, None], step)
        return exponent


def _log_gamma_density(shape: float, x: Array) -> Array:
    """Log density of x = log λ, of any shape, for λ ~ Gamma(shape)/shape, which has a closed form."""
    if shape >= _STIRLING_FROM:
        constant = 0.5 * np.log(shape / (2 * np.pi)) - float(_binet(np.asarray(shape)))
    else:
        constant = shape * np.log(shape) - shape - float(special.gammaln(shape))
    series = x**2 / 2 * (1 + x / 3 * (1 + x / 4 * (1 + x / 5 * (1 + x / 6 * (1 + x / 7 * (1 + x / 8))))))
    return constant - shape * np.where(np.abs(x) < 0.02, series, np.expm1(x) - x)


def split_given(widths: Sequence[float], centred: Array, gap: Array, rng: np.random.Generator) -> Array:
    """`GammaProduct.split` (m, factors) at a given tilt.

    Every gap (m,) is exact; one near the saddle point accepts most often.
    """
    shapes = np.asarray(widths[::-1], float) / 2
    tilted = shapes - shapes.min() + gap[:, None]  # (m, factors)
    result = np.empty((len(centred), len(shapes)))
    open_rows = np.arange(len(centred))
    while len(open_rows):
        draws, accepted = _split_once(centred[open_rows], shapes, tilted[open_rows], rng)
        result[open_rows[accepted]] = draws[accepted]
        open_rows = open_rows[~accepted]
    return result


def _split_once(
    centred: Array, shapes: Array, tilted: Array, rng: np.random.Generator
) -> tuple[Array, np.ndarray[tuple[int], np.dtype[np.bool_]]]:
    """Propose factors (m, factors) that sum to `centred` (m,), and accept or reject them.

    Accepted by the density of the broadest factor over its peak.
    """
    draws = np.log(rng.standard_gamma(tilted)) - np.log(shapes)
    broadest = int(np.argmin(shapes))
    draws[:, broadest] = 0.0
    draws[:, broadest] = centred - draws.sum(axis=1)
    own = tilted[:, broadest]
    scaled = draws[:, broadest] + np.log(shapes[broadest]) - np.log(own)  # zero at the peak of the density
    log_acceptance = own * (scaled - np.expm1(scaled))
    return draws, np.log(rng.random(len(centred))) < log_acceptance


def log_gamma_increment(base: Array, step: Array | ComplexArray) -> ComplexArray:
    """Log Γ(base + step) − log Γ(base) − step · log(base), arrays of any shape, without cancellation."""
    base, step = np.broadcast_arrays(base, np.asarray(step, complex))
    end = base + step
    large = (base >= _STIRLING_FROM) & (np.abs(end) >= _STIRLING_FROM / 2) & (end.real > 0)
    result = np.empty(step.shape, complex)
    b, s, e = base[large], step[large], end[large]
    result[large] = b * _entropy(s / b) - 0.5 * special.log1p(s / b) + _binet(e) - _binet(b)
    b, s, e = base[~large], step[~large], end[~large]
    result[~large] = special.loggamma(e) - special.gammaln(b) - s * np.log(b)
    return result


def _entropy(ratio: Array | ComplexArray) -> Array | ComplexArray:
    """(1 + r) log(1 + r) − r, for r of any shape, by its series where the terms would cancel."""
    small = np.abs(ratio) < 1e-3
    r = np.where(small, ratio, 0.0)
    series = r**2 * (1 / 2 - r * (1 / 6 - r * (1 / 12 - r * (1 / 20 - r / 30))))
    return np.where(small, series, (1 + ratio) * special.log1p(ratio) - ratio)


def _binet(z: ComplexArray | Array) -> ComplexArray | Array:
    """Log Γ(z) − (z − ½) log z + z − ½ log 2π, for z of any shape, by Stirling's series."""
    inverse = 1 / z
    square = inverse**2
    return (1 / 12 - square * (1 / 360 - square / 1260)) * inverse


def _log_ratio(argument: Array, base: Array) -> Array:
    """log(argument/base), arrays of the same shape."""
    return np.log1p((argument - base) / base)
