"""Deterministic quadrature over x = log λ: one output, any depth, any temperature.

The integrand is analytic and decays at both ends, so the trapezoid rule converges geometrically. The nodes
x = peak + width · sinh(v), uniform in v, resolve a narrow peak and a slow tail alike. They reach as far as
λ^{−1}, λ and λ² times the density have mass: in a deep, narrow network E λ lives dozens of standard
deviations away from the density's own peak.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import integrate, interpolate, special

from lbnn._base.blocks import blocks
from lbnn._base.log_sums import log_sum_exp
from lbnn._base.types import Array, ComplexArray, IndexArray, Mask
from lbnn._base.warn import warn
from lbnn.engines.inference import Diagnostics, ScaleInference
from lbnn.likelihood.gaussian import GaussianLikelihood
from lbnn.scale.gamma_product import GammaProduct
from lbnn.scale.measure import Exponent, ScaleMeasure, Tails
from lbnn.scale.phases import LogScaleDensity, Phase, Phases, modes
from lbnn.scale.prior import ScalePrior

_DROP = 60.0  # e-folds below its peak at which a tail is left out
_SCAN_STEP = 0.5  # log p(Y|λ) and the log prior have structure of order one in log λ
_FARTHEST = 690.0  # |log λ| that a double can hold
_FIRST_STEP = 0.5  # in v
_HALVINGS = 8
_ROUNDING = 64 * float(np.finfo(float).eps)
_TOLERANCE = 1e-9  # change of a log normaliser at the last halving; geometric convergence squares it

_TOO_FAR = "got targets or inputs too far from what the network expects: rescale the data"

RealFunction = Callable[[Array], Array]
AnyFunction = Callable[[Array], Array | ComplexArray]


def infer_quadrature(
    prior: ScalePrior, likelihood: GaussianLikelihood, single_output: bool
) -> ScaleInference:
    """Posterior of λ for one output and at least one hidden layer."""
    law = QuadratureLaw(prior, likelihood)
    nodes = law.nodes
    tails = Tails(law.inverse_integrable, prior.exponential_rate, min(prior.widths))
    measure = ScaleMeasure(np.exp(nodes.x)[:, None, None], nodes.weights, single_output, tails, law)
    diagnostics = Diagnostics("quadrature", math.inf, ok=nodes.converged, messages=nodes.messages)
    return ScaleInference(measure, likelihood.log_constant + nodes.log_total, 0.0, diagnostics)


@dataclass(frozen=True)
class Nodes:
    """Nodes x = log λ of a converged quadrature, uniform in v, with the log of integrand · dx/dv · step."""

    v: Array
    x: Array
    log_terms: Array | ComplexArray
    converged: bool

    @cached_property
    def log_total(self) -> float:
        return float(log_sum_exp(self.log_terms.real))

    @cached_property
    def weights(self) -> Array:
        weights = np.exp(self.log_terms.real - self.log_total)
        return weights / weights.sum()

    @property
    def messages(self) -> tuple[str, ...]:
        return () if self.converged else (_NOT_CONVERGED,)


_NOT_CONVERGED = (
    "quadrature over the scale did not converge to 1e-9; the integrand has structure finer than its nodes. "
    "Try another engine, or rescale the data"
)


class QuadratureLaw:
    """The continuous posterior of λ behind the nodes: prior law of log λ times likelihood."""

    def __init__(self, prior: ScalePrior, likelihood: GaussianLikelihood) -> None:
        self.prior, self.law, self.likelihood = prior, prior.log_scale_law, likelihood

    @cached_property
    def nodes(self) -> Nodes:
        """Nodes good for the density times 1, λ and λ², and λ⁻¹ where that is integrable."""
        powers = (-1, 0, 1, 2) if self.inverse_integrable else (0, 1, 2)
        return self._integrate(None, powers)

    @property
    def inverse_integrable(self) -> bool:
        """Whether E λ⁻¹ is finite: by the prior, or as targets at zero temperature keep λ from 0."""
        hard_edge = self.likelihood.noise == 0
        lost = len(self.likelihood.eigenvalues) / 2 if hard_edge else 0.0
        return (hard_edge and bool(self.likelihood.targets.any())) or self.law.left_exponent - lost > 1

    def log_expect_exp(self, exponent: Exponent) -> complex:
        """Log E exp(exponent(λ)), on nodes placed where this integrand has its mass."""
        tilted = self._integrate(lambda x: exponent(np.exp(x)[:, None], np.ones((len(x), 1, 1))), (0,))
        if not tilted.converged:
            warn(_NOT_CONVERGED)
        total = special.logsumexp(tilted.log_terms.astype(complex))
        return complex(total) - self.nodes.log_total

    def log_density(self, x: Array) -> Array:
        """Log density of x = log λ, at any λ that a double holds."""
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            data = self.likelihood.log_value(np.exp(x)[:, None], np.ones((len(x), 1, 1)))
            smallest = self.likelihood.noise + self.likelihood.eigenvalues.min(initial=np.inf) * np.exp(x)
            beyond = ~np.isfinite(data) | (smallest < np.finfo(float).tiny)  # g_i λ is no double
            data[beyond] = log_value_in_logs(self.likelihood, x[beyond])
            return self.law.log_density(x) + data - self.nodes.log_total

    def phases(self, measure: ScaleMeasure) -> Phases:
        """Modes of the density of x, cut at the minima between them."""
        density = LogScaleDensity(
            self.log_density, self._slope, self._rounding, float(self.nodes.x[0]), float(self.nodes.x[-1])
        )
        found = modes(density)
        if not all(mode.converged for mode in found):
            warn(_NOT_CONVERGED)
        return Phases(
            tuple(
                Phase(
                    mode.mass,
                    0.0,
                    mode.mean_scale if measure.single_output else np.array([[mode.mean_scale]]),
                    int(self._signal(mode.location) > self.likelihood.noise),
                )
                for mode in found
            )
        )

    def _slope(self, x: Array) -> Array:
        """Derivative of `log_density`: π′/π = a (1 − π₊/π), π₊ with one width n = 2a raised by two."""
        widths, narrowest = sorted(self.prior.widths), min(self.prior.widths)
        growth = (narrowest + 2) / narrowest
        raised = GammaProduct((narrowest + 2, *widths[1:]), self.prior.variance * growth)
        ratio = np.exp(raised.log_density(x) - self.law.log_density(x))
        return narrowest / 2 * (1 - ratio) + data_slope(self.likelihood, x)

    def _rounding(self, x: Array) -> Array:
        """What rounding may do to `log_density`: so many units of the last place of its terms."""
        return _ROUNDING * (1 + np.abs(self.law.log_density(x)) + size_of_terms(self.likelihood, x))

    def _signal(self, x: float) -> float:
        """Variance of the function along the strongest direction of the data, max_i g_i λ."""
        return float(self.likelihood.eigenvalues.max(initial=0.0)) * math.exp(x)

    def sample(self, size: int, rng: np.random.Generator) -> Array:
        """Independent draws by inversion of the distribution function."""
        return np.exp(self._inverse_distribution(rng.random(size)))[:, None, None]

    def sample_factors(self, size: int, rng: np.random.Generator) -> list[Array]:
        """Draws of T_d, ..., T_2 (numbers here): the factors of a product given the product."""
        log_squares = self.law.split(np.log(self.sample(size, rng)[:, 0, 0]), rng)
        roots = [math.sqrt(variance) for variance in reversed(self.prior.layer_variances)]
        return [
            root * np.exp(column / 2)[:, None, None]
            for root, column in zip(roots, log_squares.T, strict=True)
        ]

    def partial_products(self, layer: int) -> Array:
        """√E[(T_ℓ ⋯ T_2)² | λ] at every node, (m, 1, 1): all that a kernel needs, since it is quadratic.

        Weighting by χ²(n)/n raises n by two, so that the conditional mean is a ratio of two densities.
        """
        widths, variances = self.prior.widths, self.prior.layer_variances
        raised = [width + 2 if number < layer - 1 else width for number, width in enumerate(widths)]
        growth = math.prod(new / old for new, old in zip(raised, widths, strict=True))
        weighted = GammaProduct(raised, self.prior.variance * growth)
        ratio = np.exp(weighted.log_density(self.nodes.x) - self.law.log_density(self.nodes.x))
        return np.sqrt(math.prod(variances[: layer - 1]) * ratio)[:, None, None]

    @cached_property
    def _inverse_distribution(self) -> Callable[[Array], Array]:
        """Quantile function of x: a spline through the log density in v, integrated on a fine grid."""
        nodes = self.nodes
        fine = np.linspace(nodes.v[0], nodes.v[-1], 16 * len(nodes.v) + 1)
        density = np.exp(interpolate.CubicSpline(nodes.v, nodes.log_terms - nodes.log_total)(fine))
        distribution = integrate.cumulative_trapezoid(density, fine, initial=0)
        rising = np.concatenate([[True], np.diff(distribution) > 0])
        x = interpolate.CubicSpline(nodes.v, nodes.x)(fine)[rising]
        return interpolate.PchipInterpolator(distribution[rising] / distribution[-1], x)

    def _integrate(self, tilt: AnyFunction | None, powers: tuple[int, ...]) -> Nodes:
        rough = self._with(self.law.saddle_log_density, tilt)
        scout: RealFunction = lambda x: np.real(rough(x))  # noqa: E731
        low, high, peaks = survey(scout, *self._first_range(scout, powers), powers)
        best = max(peaks, key=lambda peak: peak.height)
        return trapezoid(self._with(self.law.log_density, tilt), best, low, high, powers)

    def _with(self, log_prior: RealFunction, tilt: AnyFunction | None) -> AnyFunction:
        def log_integrand(x: Array) -> Array | ComplexArray:
            value = log_prior(x) + self.likelihood.log_value(np.exp(x)[:, None], np.ones((len(x), 1, 1)))
            return value if tilt is None else value + tilt(x)

        return log_integrand

    def _first_range(self, scout: RealFunction, powers: tuple[int, ...]) -> tuple[float, float]:
        """A range that holds every peak of e^{power · x + scout(x)} and sees it drop at both ends."""
        region = (self.law.location(-self.law.left_exponent / 2), self.law.location(2.0))
        turning = self.likelihood.turning_region() or region
        return extend(scout, min(region[0], turning[0]), max(region[1], turning[1]), powers)


def log_value_in_logs(likelihood: GaussianLikelihood, x: Array) -> Array:
    """`GaussianLikelihood.log_value` at x = log λ, (m,), with fewer digits but without under- or overflow."""
    log_variance = np.logaddexp(np.log(likelihood.noise), np.log(likelihood.eigenvalues) + x[:, None])
    squares = np.exp(2 * np.log(np.abs(likelihood.targets[:, 0])) - log_variance)
    return -0.5 * (likelihood.multiplicity * log_variance + squares).sum(axis=1)


def data_slope(likelihood: GaussianLikelihood, x: Array) -> Array:
    """Derivative of log p(Y | λ) in x = log λ: −½ Σ_i (1 − y_i²/v_i) g_i λ/v_i with v_i = τ + g_i λ, (m,)."""
    result = np.zeros_like(x)
    for here, signal, variance in _data_blocks(likelihood, x):
        missing = likelihood.multiplicity - likelihood.targets[:, 0] ** 2 / variance
        result[here] = -0.5 * (missing * signal / variance).sum(axis=1)
    return result


def size_of_terms(likelihood: GaussianLikelihood, x: Array) -> Array:
    """½ Σ_i |log v_i| + y_i²/v_i, (m,): the sizes of what log p(Y | λ) is a sum of."""
    result = np.zeros_like(x)
    for here, _, variance in _data_blocks(likelihood, x):
        logs = likelihood.multiplicity * np.abs(np.log(variance))
        result[here] = 0.5 * (logs + likelihood.targets[:, 0] ** 2 / variance).sum(axis=1)
    return result


def _data_blocks(likelihood: GaussianLikelihood, x: Array) -> Iterator[tuple[slice, Array, Array]]:
    """g_i λ and v_i = τ + g_i λ for blocks of x, each (block, r); nothing where the data say nothing."""
    if not likelihood.flat:
        for here in blocks(len(x), len(likelihood.eigenvalues)):
            signal = likelihood.eigenvalues * np.exp(x[here, None])
            yield here, signal, likelihood.noise + signal


@dataclass(frozen=True)
class Peak:
    """A local maximum of a log integrand, with its width 1/√curvature."""

    location: float
    width: float
    height: float


def extend(scout: RealFunction, low: float, high: float, powers: tuple[int, ...]) -> tuple[float, float]:
    """Move the ends out until every integrand has dropped there; the range holds all of their peaks."""
    while True:
        low, high = max(low, -_FARTHEST), min(high, _FARTHEST)
        x = _scan(low, high)
        left, right = _still_high(scout(x), x, powers)
        if not (left or right):
            return low, high
        if (left and low == -_FARTHEST) or (right and high == _FARTHEST):
            raise ValueError(
                "the law of the scale must fit into double precision, |log λ| < 690, got mass beyond it: "
                "rescale the data, or make the network less deep or less narrow"
            )
        reach = max(5.0, 0.5 * (high - low))
        low, high = low - reach * left, high + reach * right


def survey(
    scout: RealFunction, low: float, high: float, powers: tuple[int, ...]
) -> tuple[float, float, list[Peak]]:
    """The part of the range that matters, and all peaks of the scan.

    Ends move in while that still helps, on a finer and finer scan. A peak may be a needle between two points
    of the scan, so that every local maximum is climbed before anything is dropped.
    """
    while True:
        x = _scan(low, high)
        values = scout(x)
        if not np.isfinite(values).any():
            raise ValueError(f"the density of log λ must be representable as a double, {_TOO_FAR}")
        summits = _local_maxima(values)
        peaks = [find_peak(scout, x[max(i - 1, 0)], x[min(i + 1, len(x) - 1)]) for i in summits]
        first, last = np.flatnonzero(_relevant(x, values, summits, peaks, powers))[[0, -1]]
        new_low, new_high = x[max(first - 1, 0)], x[min(last + 1, len(x) - 1)]
        if new_high - new_low > 0.7 * (high - low):
            return float(new_low), float(new_high), peaks
        low, high = new_low, new_high


def _local_maxima(values: Array) -> IndexArray:
    """Indices of values that no neighbour exceeds."""
    padded = np.concatenate([[-np.inf], np.where(np.isnan(values), -np.inf, values), [-np.inf]])
    inner = padded[1:-1]
    highest = (inner >= padded[:-2]) & (inner >= padded[2:]) & np.isfinite(inner)
    return np.flatnonzero(highest)


def _relevant(
    x: Array, values: Array, summits: IndexArray, peaks: list[Peak], powers: tuple[int, ...]
) -> Mask:
    """Where some integrand e^{power · x + values} is within `_DROP` of its maximum, climbed peaks too."""
    keep = np.zeros(len(x), bool)
    for power in powers:
        tilted = values + power * x
        heights = np.array([peak.height + power * peak.location for peak in peaks])
        top = max(float(np.nanmax(tilted)), float(heights.max()))
        keep |= tilted >= top - _DROP
        keep[summits[heights >= top - _DROP]] = True
    return keep


def find_peak(scout: RealFunction, low: float, high: float) -> Peak:
    """The highest peak between two points, by zooming in on a scan."""
    while True:
        x = np.linspace(low, high, 33)
        values = scout(x)
        best = int(np.clip(np.nanargmax(values), 1, len(x) - 2))
        around = values[best - 1 : best + 2]
        if around.max() - around.min() < 0.5:
            break
        if x[best + 1] - x[best - 1] < 1e-15 * (1 + abs(x[best])):
            raise ValueError(f"the posterior of log λ must be wider than the spacing of doubles, {_TOO_FAR}")
        low, high = x[best - 1], x[best + 1]
    curvature = (2 * around[1] - around[0] - around[2]) / (x[best + 1] - x[best]) ** 2
    width = 1 / math.sqrt(curvature) if curvature > 0 else float(high - low)
    return Peak(float(x[best]), width, float(around.max()))


def trapezoid(
    log_integrand: AnyFunction, highest: Peak, low: float, high: float, powers: tuple[int, ...]
) -> Nodes:
    """Trapezoid rule in v, x = peak + width · sinh(v), the step halved until no normaliser moves."""
    peak, width = highest.location, highest.width
    start, end = math.asinh((low - peak) / width), math.asinh((high - peak) / width)
    count = math.ceil((end - start) / _FIRST_STEP) + 1
    v = np.linspace(start, end, count)
    log_values: Array | ComplexArray = _in_v(log_integrand, v, peak, width)
    totals = _log_totals(v, log_values, peak, width, powers)
    for _ in range(_HALVINGS):
        v = np.linspace(start, end, 2 * len(v) - 1)
        log_values = _merge(log_values, _in_v(log_integrand, v[1::2], peak, width))
        previous, totals = totals, _log_totals(v, log_values, peak, width, powers)
        rounding = 16 * np.finfo(float).eps * float(np.abs(log_values.real[np.argmax(log_values.real)]))
        sizes = _log_totals(v, log_values.real, peak, width, powers).real
        change = np.abs(np.exp(totals - sizes) - np.exp(previous - sizes)).max()
        converged = bool(change < _TOLERANCE + rounding)
        if converged:
            break
    return Nodes(v, peak + width * np.sinh(v), log_values + math.log(v[1] - v[0]), converged)


def _in_v(log_integrand: AnyFunction, v: Array, peak: float, width: float) -> Array | ComplexArray:
    return log_integrand(peak + width * np.sinh(v)) + np.log(width * np.cosh(v))


def _log_totals(
    v: Array, log_values: Array | ComplexArray, peak: float, width: float, powers: tuple[int, ...]
) -> ComplexArray:
    """Log Σ integrand · λ^power · step, for every power."""
    x = peak + width * np.sinh(v)
    totals = []
    for power in powers:
        terms = log_values + power * x
        top = terms.real.max()
        totals.append(top + np.log(np.exp(terms - top).sum() + 0j))
    return np.asarray(totals, np.complex128) + math.log(v[1] - v[0])


def _merge(even: Array | ComplexArray, odd: Array | ComplexArray) -> Array | ComplexArray:
    """Interleave values at old points and at the midpoints between them."""
    merged = np.empty(len(even) + len(odd), np.result_type(even, odd))
    merged[::2], merged[1::2] = even, odd
    return merged


def _scan(low: float, high: float) -> Array:
    return np.linspace(low, high, max(65, math.ceil((high - low) / _SCAN_STEP) + 1))


def _still_high(values: Array, x: Array, powers: tuple[int, ...]) -> tuple[bool, bool]:
    """Whether the values at the left and right end are within `_DROP` of the maximum, for any power."""
    left = right = False
    for power in powers:
        tilted = values + power * x
        left |= bool(tilted[0] >= tilted.max() - _DROP)
        right |= bool(tilted[-1] >= tilted.max() - _DROP)
    return left, right
