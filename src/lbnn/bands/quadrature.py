"""All targets along one direction of the simplex: the integral over the total scale and the noise variance.

With λ_k = s θ_k, e^u = s/τ and the eigenvalues g_i of Σ_k θ_k G_k,

    log p(y | θ, u, τ) = −½ D(u) − (p/2) log 2πτ − Q(u)/(2τ),
    D(u) = Σ_i log(1 + e^u g_i),   Q(u) = Σ_i ỹ_i²/(1 + e^u g_i) + |y outside the range|².

Q is one product of matrices for all targets on a common lattice of u. The integrand is analytic in u and in
log τ and decays at both ends, so that the trapezoid rule converges geometrically. A survey on a coarse
lattice finds the interval where each target has mass; there the integrand is computed on a fine lattice, of
which targets that need less take every other point, every third, …. For every u the integrand is log-concave
in t = log τ; it is integrated around its mode.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from scipy import special

from lbnn._base.arrays import add_to_columns, device_of, eigh, namespace, take, take_rows, to_numpy
from lbnn._base.blocks import blocks
from lbnn._base.types import AnyArray, Array, IndexArray, Mask
from lbnn.bands.data import BandKernels, BandTargets
from lbnn.bands.prior import BandPriors, PriorTable

_SURVEY = 4  # of so many points of the lattice one is looked at to find the interval
_CURVED = 12.0  # e-folds below its maximum down to which the curvature of the integrand sets the step
_WIDEST_STEP = 0.5  # the singularities of D and Q are π away from the real line: e^(−2π · π/0.5) = 7e-18
_CLOSE = 0.9  # of the step: a Gaussian is then integrated to 2 exp(−2π² · 0.81/deviations²), 1e-14 or 4e-6
_ROOM = 1.0  # by which the range of the next direction is larger than those before
_EXTENSION = 4.0  # by which the lattice grows at a time
_FARTHEST = 600.0  # |u| that the lattice may reach: e^u and its products stay doubles
_NEWTON = 40  # most steps towards the mode in t
_NEAR = 0.2  # distance from the mode, in widths, at which they end: nodes reach far beyond
#: What is left out beyond the last node, in units of its mass: the integrand falls like e^(−|u|/2) at least,
#: and nodes are at most 1/2 apart, so that it is 1/(1 − e^(−1/4)).
_BEYOND = 4.5
_CACHED = 1 << 15  # values of the integrand over t that are held at a time on the host
_FINER = 1e-3  # of the error of a rule for t: that of the rule with which it is compared
_FEW_EXAMPLES = 20  # from here on the integrand in t is close enough to a Gaussian for Gauss-Hermite nodes


@dataclass(frozen=True)
class Precision:
    """How finely to integrate along one direction.

    Attributes
    ----------
    drop : float
        E-folds below its maximum at which the integrand is left out.
    deviations : float
        Largest step in u in units of 1/√curvature: a Gaussian is integrated to 2 exp(−2π²/deviations²).
    noise_error : float
        Relative error of integrals over t.
    table_step : float
        Step of the tables of prior densities, for laws no narrower than that of a Gamma of shape 8: splines
        err by 5/384 step⁴ times the fourth derivative.
    """

    drop: float
    deviations: float
    noise_error: float
    table_step: float


#: To 1e-9, where the directions themselves are integrated as finely: one band or two.
FINE = Precision(drop=27.0, deviations=0.7, noise_error=1e-9, table_step=1 / 128)
#: To 1e-5, far below the errors of directions in two and more dimensions.
QUICK = Precision(drop=15.0, deviations=1.1, noise_error=1e-5, table_step=1 / 24)


@dataclass(frozen=True)
class Eigensystem:
    """Eigenvalues (r,), as NumPy, and eigenvectors (r, r) of Σ_k θ_k G_k."""

    values: Array
    vectors: AnyArray

    @classmethod
    def of(cls, kernels: BandKernels, direction: Array) -> Eigensystem:
        """Of one direction θ (K,)."""
        values, vectors = eigh(kernels.combined(direction), overwrite=len(direction) > 1)
        return cls(np.maximum(values, 0.0), vectors)


@dataclass(frozen=True)
class Conditional:
    """The integrals of some targets along one direction, on a lattice of u.

    Attributes
    ----------
    lattice : (M,)
        The values of u.
    stride : (V,)
        Of so many points of the lattice one, beginning with the first, is a node of the target's rule.
    log_integral : (V,)
        Log of the integral over log s and log τ of prior times likelihood.
    mass : (M, V)
        Posterior probabilities of the nodes; zero at other points.
    noise : (M, V)
        E[τ | u] in squared units of the targets; zero where there is no mass.
    noise_spread : (M, V)
        Standard deviation of log τ given u.
    rule_error : (V,)
        Relative error of the integral, from coarser and finer rules.
    """

    lattice: Array
    stride: IndexArray
    log_integral: AnyArray
    mass: AnyArray
    noise: AnyArray
    noise_spread: AnyArray
    rule_error: AnyArray

    def moments(self, xp: Any) -> tuple[AnyArray, ...]:
        """E ω, E ω², E s, E τ, two moments of log s, log τ and u, skewness of u, and the error of the rule.

        (V,) each; ω = e^u/(1 + e^u) is the share of the signal.
        """
        u, variance = device_of(self.mass).put(self.lattice)[:, None], self.noise_spread**2
        fraction = 1 / (1 + xp.exp(-u))
        # given u log τ is nearly normal
        log_noise = xp.log(xp.where(self.noise > 0, self.noise, xp.ones_like(variance))) - 0.5 * variance
        log_scale = log_noise + u
        powers = (log_scale, log_scale**2 + variance, log_noise, log_noise**2 + variance, u, u * u)
        found = [
            xp.sum(self.mass * each, axis=0)
            for each in (fraction, fraction * fraction, self.noise * xp.exp(u), self.noise, *powers)
        ]
        away = u - found[-2][None, :]
        second, third = (xp.sum(self.mass * away**power, axis=0) for power in (2, 3))
        skewness = third / xp.maximum(second, xp.full_like(second, 1e-60)) ** 1.5
        return *found, skewness, self.rule_error


@dataclass(frozen=True)
class Line:
    """A direction of the simplex: log θ (K,), the eigensystem and the prior along it."""

    log_direction: Array
    system: Eigensystem
    table: PriorTable


class Directions:
    """Integrals along directions for some targets; the range of the lattice is remembered."""

    def __init__(self, kernels: BandKernels, targets: BandTargets, priors: BandPriors) -> None:
        self.kernels, self.targets, self.priors = kernels, targets, priors
        self.xp, self.device = namespace(targets.values), device_of(targets.values)
        self.precision = FINE if len(kernels.used) <= 2 else QUICK
        # With known noise the curvature in u is at most p/2 plus that of the prior, about the sum of its
        # shapes. Otherwise it is p/4 plus the precision of log s − log τ, of which log τ has p/2. Where the
        # targets are far larger than the prior's, `given` takes a smaller step.
        sharp, half = (
            sum(float((law.shapes * law.multiplicity).sum()) for law in priors.laws),
            0.5 * targets.examples,
        )
        curvature = half + sharp if targets.given_noise else 0.5 * half + half * sharp / (half + sharp)
        self.step = min(_WIDEST_STEP, self.precision.deviations / math.sqrt(curvature))
        self.range: tuple[float, float] | None = None

    def line(self, log_direction: Array) -> Line:
        """What one direction (K,) has for all targets."""
        system = Eigensystem.of(self.kernels, np.exp(log_direction))
        table = self.priors.along(log_direction, self.precision.table_step, self.device)
        return Line(log_direction, system, table)

    def given(self, line: Line, targets: BandTargets | None = None) -> Conditional:
        """The integrals of some targets, by default all, along a direction."""
        data = self.targets if targets is None else targets
        projected = line.system.vectors.T @ data.values
        squares = projected * projected  # ỹ_i², (r, V)
        positive = line.system.values[line.system.values > 0]
        middle = -math.log(float(positive.mean())) if len(positive) else 0.0
        low, high = self.range or (middle - 8.0, middle + 8.0)
        while True:  # until the lattice holds the mass of all targets
            coarse = self._lattice(low, high)
            size = self.device.block_floats * (16 if self.device.host else 1) // (_SURVEY * len(coarse))
            pieces = list(blocks(data.count, 1, max(1, size)))
            surveys = [self._survey(line, data, squares, piece, coarse) for piece in pieces]
            inside, steps = (np.concatenate(each, axis=-1) for each in zip(*surveys, strict=True))
            left, right = inside[0].any(), inside[-1].any()
            if not left and not right and steps.min() > _CLOSE * self.step:
                break
            low, high = low - _EXTENSION * left, high + _EXTENSION * right
            self.step = min(self.step, float(steps.min()))
        # the fine lattice spans what some target needs, and a coarse cell more
        rows = np.flatnonzero(inside.any(axis=1))
        first, last = int(rows[0]) - 1, int(rows[-1]) + 1
        ends = float(coarse[first]) - _ROOM, float(coarse[last]) + _ROOM
        before = self.range or ends
        self.range = min(before[0], ends[0]), max(before[1], ends[1])
        lattice = coarse[first] + self.step * np.arange(_SURVEY * (last - first) + 1)
        stride = np.maximum(np.floor(steps / self.step), 1).astype(np.int64)
        nodes = _nodes(inside[first : last + 1], stride)
        parts = [
            self._piece(line, data, squares, piece, lattice, nodes[:, piece], stride[piece])
            for piece in pieces
        ]
        joined = (
            parts[0] if len(parts) == 1 else [self.xp.concat(e, axis=-1) for e in zip(*parts, strict=True)]
        )
        log_integral, mass, noise, spread, error = joined
        return Conditional(lattice, stride, log_integral, mass, noise, spread, error)

    def _lattice(self, low: float, high: float) -> Array:
        """The coarse lattice (M,): multiples of `_SURVEY` steps."""
        if not -_FARTHEST < low < high < _FARTHEST:
            raise ValueError(
                "the ratio of signal and noise must be a double, |log s/τ| < 600, got mass beyond it: "
                "rescale the kernels or the targets"
            )
        cell = _SURVEY * self.step
        return np.asarray(cell * np.arange(math.floor(low / cell), math.ceil(high / cell) + 1), np.float64)

    def _sums(
        self, line: Line, data: BandTargets, squares: AnyArray, piece: slice, lattice: Array
    ) -> tuple[AnyArray, AnyArray]:
        """D/2 (M,) and Q (M, V) on a lattice of u."""
        xp, values = self.xp, self.device.put(line.system.values)
        signal = self.device.put(np.exp(lattice))[:, None] * values[None, :]  # e^u g_i, (M, r)
        quadratic = (1 / (1 + signal)) @ squares[:, piece] + data.residual[None, piece]
        return 0.5 * xp.sum(xp.log1p(signal), axis=1), quadratic

    def _integrand(self, line: Line, data: BandTargets, piece: slice) -> _Integrand:
        units = data.log_units[None, piece]
        return _Integrand(data.examples, data.given_noise, line.table, units, self.precision, self.xp)

    def _survey(
        self, line: Line, data: BandTargets, squares: AnyArray, piece: slice, coarse: Array
    ) -> tuple[Mask, Array]:
        """Where on the lattice (M,) the targets have mass (M, v), and the largest distance of nodes (v,)."""
        half_determinant, quadratic = self._sums(line, data, squares, piece, coarse)
        integrand = self._integrand(line, data, piece)
        values = integrand.roughly(self.device.put(coarse)[:, None], half_determinant[:, None], quadratic)
        inside = values > self.xp.max(values, axis=0, keepdims=True) - self.precision.drop
        return np.asarray(to_numpy(inside), bool), to_numpy(self._largest_step(values))

    def _piece(
        self,
        line: Line,
        data: BandTargets,
        squares: AnyArray,
        piece: slice,
        lattice: Array,
        nodes: Mask,
        stride: IndexArray,
    ) -> tuple[AnyArray, ...]:
        """The integral for some of the targets at their nodes, (M, v) of the points of a lattice (M,)."""
        xp, put = self.xp, self.device.put
        half_determinant, quadratic = self._sums(line, data, squares, piece, lattice)
        integrand, u, flat = self._integrand(line, data, piece), put(lattice), np.flatnonzero(nodes)
        found = []
        # some nodes at a time on the host, where arrays stay in the cache; all at other points, in few calls
        for part in blocks(len(flat), 1, _CACHED if self.device.host else len(flat)):
            row, column = np.divmod(flat[part], nodes.shape[1])
            some = replace(integrand, log_units=take(integrand.log_units[0, :], put(column), axis=0))
            there, half = (take(each, put(row), axis=0) for each in (u, half_determinant))
            own = take(xp.reshape(quadratic, (-1,)), put(flat[part]), axis=0)
            found.append(xp.stack(some.over_noise(there, half, own)))
        values = found[0] if len(found) == 1 else xp.concat(found, axis=1)
        on_lattice = add_to_columns(self.device.zeros(3, nodes.size), flat, values)
        log_mass, noise, spread = (xp.reshape(on_lattice[i, :], nodes.shape) for i in range(3))
        log_mass = xp.where(put(nodes), log_mass, xp.full_like(log_mass, -math.inf))
        top = xp.max(log_mass, axis=0)
        mass = xp.exp(log_mass - top[None, :])
        total = xp.sum(mass, axis=0)
        log_integral, mass = top + xp.log(total * put(self.step * stride)), mass / total[None, :]
        error = self._trapezoid_error(mass, nodes, stride)
        if not data.given_noise:
            peak = xp.argmax(mass, axis=0)
            own = take_rows(quadratic, peak[None, :])[0, :]
            here = replace(integrand, log_units=integrand.log_units[0, :])
            finer = here.over_noise(
                take(u, peak, axis=0), take(half_determinant, peak, axis=0), own, finer=True
            )
            error = error + xp.abs(take_rows(log_mass, peak[None, :])[0, :] - finer[0])
        return log_integral, mass, noise, spread, error

    def _trapezoid_error(self, mass: AnyArray, nodes: Mask, stride: IndexArray) -> AnyArray:
        """Relative error (V,) of the trapezoid rule from its terms (M, V): of the step, and beyond the ends.

        Half of the step squares the error, or more: that of every other node is squared.
        """
        xp, put, rows = self.xp, self.device.put, np.arange(len(nodes))[:, None]
        every_other = xp.sum(xp.where(put(rows % (2 * stride) == 0), mass, xp.zeros_like(mass)), axis=0)
        first, last = np.argmax(nodes, axis=0), len(nodes) - 1 - np.argmax(nodes[::-1], axis=0)
        ends = xp.sum(take_rows(mass, put(np.stack([first, last]))), axis=0)
        return (2 * every_other - 1) ** 2 + _BEYOND * ends

    def _largest_step(self, survey: AnyArray) -> AnyArray:
        """Largest distance of nodes, by the largest curvature where the mass is, (V,)."""
        xp, spacing = self.xp, _SURVEY * self.step
        bend = (2 * survey[1:-1, :] - survey[:-2, :] - survey[2:, :]) / spacing**2
        near = survey[1:-1, :] > xp.max(survey, axis=0, keepdims=True) - _CURVED
        curvature = xp.max(xp.where(near, bend, xp.zeros_like(bend)), axis=0)
        step = self.precision.deviations / xp.sqrt(xp.maximum(curvature, xp.full_like(curvature, 1e-6)))
        return xp.clip(step, 0.0, _WIDEST_STEP)


def _nodes(inside: Mask, stride: IndexArray) -> Mask:
    """Nodes of the targets on the fine lattice, (M, V), from the points (C, V) of the coarse one with mass.

    From a coarse cell before the first to one after the last, every `stride` (V,) points.
    """
    first, last = np.argmax(inside, axis=0) - 1, len(inside) - np.argmax(inside[::-1], axis=0)
    rows = np.arange(_SURVEY * (len(inside) - 1) + 1)[:, None]
    return np.asarray((rows >= _SURVEY * first) & (rows <= _SURVEY * last) & (rows % stride == 0), bool)


@dataclass(frozen=True)
class _Integrand:
    """Prior times likelihood as a function of u and t = log τ, both in units of the targets."""

    examples: int
    given_noise: bool
    table: PriorTable
    log_units: AnyArray  # (1, V), or (nodes,)
    precision: Precision
    xp: Any

    def roughly(self, u: AnyArray, half_determinant: AnyArray, quadratic: AnyArray) -> AnyArray:
        """Log of the integrand over u by Laplace's method in t, (nodes, v), up to a constant.

        A narrow prior of s = e^(u + t) holds u + t, so that t at the mode of the likelihood alone would show
        the width of the prior in u, not that of the posterior.
        """
        offset = u + self.log_units
        if self.given_noise:
            return -half_determinant - 0.5 * quadratic + self.table.value(offset, self.xp)
        mode, width = self._mode(offset, quadratic)
        return self._log_value(mode, offset, quadratic) + self.xp.log(width) - half_determinant

    def over_noise(
        self, u: AnyArray, half_determinant: AnyArray, quadratic: AnyArray, finer: bool = False
    ) -> tuple[AnyArray, AnyArray, AnyArray]:
        """Log of the integral over t, E[τ | u] and the deviation of t given u, (nodes,) each."""
        xp = self.xp
        offset = u + self.log_units
        constant = -half_determinant - 0.5 * self.examples * math.log(2 * math.pi)
        if self.given_noise:
            value = constant - 0.5 * quadratic + self.table.value(offset, xp)
            return value, xp.ones_like(value), xp.zeros_like(value)
        mode, width = self._mode(offset, quadratic)
        top = self._log_value(mode, offset, quadratic)
        total, first, second = (xp.zeros_like(top) for _ in range(3))
        noise = xp.zeros_like(top)
        places, log_weights = _rule(self.examples, self.precision.noise_error, finer)
        here = device_of(top)
        at_once = max(1, _CACHED // top.shape[0]) if here.host else len(places)
        for part in blocks(len(places), 1, at_once):
            place = here.put(places[part])[:, None]
            t = mode[None, :] + place * width[None, :]
            value = self._log_value(t, offset[None, :], quadratic[None, :]) - top[None, :]
            term = xp.exp(value + here.put(log_weights[part])[:, None])
            total, first = total + xp.sum(term, axis=0), first + xp.sum(place * term, axis=0)
            second = second + xp.sum(place * place * term, axis=0)
            noise = noise + xp.sum(term * xp.exp(t), axis=0)
        spread = width * xp.sqrt(xp.maximum(second / total - (first / total) ** 2, xp.zeros_like(total)))
        return constant + top + xp.log(total * width), noise / total, spread

    def _log_value(self, t: AnyArray, offset: AnyArray, quadratic: AnyArray) -> AnyArray:
        """Log of the integrand at t, (nodes, v)."""
        xp = self.xp
        prior = self.table.value(offset + t, xp) + _log_noise_density(t, xp)
        return prior - 0.5 * self.examples * t - 0.5 * quadratic * xp.exp(-t)

    def _mode(self, offset: AnyArray, quadratic: AnyArray) -> tuple[AnyArray, AnyArray]:
        """Mode in t and the width 1/√curvature there, (nodes, v) each; the log integrand is concave in t."""
        xp = self.xp
        t = self._start(offset, quadratic)
        for _ in range(_NEWTON):
            slope, curvature = self._derivatives(t, offset, quadratic)
            t = t + xp.clip(slope / curvature, -1.0, 1.0)
            if float(xp.max(xp.abs(slope) / xp.sqrt(curvature))) < _NEAR:
                break
        return t, 1 / xp.sqrt(curvature)  # of the last step but one, which is near enough

    def _start(self, offset: AnyArray, quadratic: AnyArray) -> AnyArray:
        """The mode in t if the prior were that of a Gamma with the same mode and curvature, (nodes, v).

        With w = e^t, a the shape and c = offset − peak, a (c + t) − a e^(c + t) − h t − Q/(2w) is stationary
        where a e^c w² + (h − a) w = Q/2; h is p/2 less the slope of the prior of t.
        """
        xp = self.xp
        t = xp.log(quadratic / self.examples)
        linear = 0.5 * self.examples + 0.5 * xp.tanh(0.5 * t) - self.table.shape
        square = self.table.shape * xp.exp(xp.clip(offset - self.table.peak, -_FARTHEST, _FARTHEST))
        root = xp.sqrt(linear * linear + 2 * square * quadratic)
        # of the two forms of the root the one that does not cancel
        return xp.log(xp.where(linear > 0, quadratic / (linear + root), (root - linear) / (2 * square)))

    def _derivatives(self, t: AnyArray, offset: AnyArray, quadratic: AnyArray) -> tuple[AnyArray, AnyArray]:
        """Slope and −(second derivative) of the log integrand in t, (nodes, v) each."""
        xp = self.xp
        _, slope, bend = self.table(offset + t, xp)
        half, turn = 0.5 * quadratic * xp.exp(-t), xp.tanh(0.5 * t)
        curvature = half + 0.25 * (1 - turn * turn) - bend
        return slope - 0.5 * turn - 0.5 * self.examples + half, xp.maximum(curvature, 0.05 + 0 * t)


def _log_noise_density(t: AnyArray, xp: Any) -> AnyArray:
    """Log density of t = log τ, of any shape, when √τ is half-Cauchy of scale one: 1/(2π cosh(t/2))."""
    size = xp.abs(t)
    return -0.5 * size - xp.log1p(xp.exp(-size)) - math.log(math.pi)


@lru_cache(maxsize=8)
def _rule(examples: int, error: float, finer: bool) -> tuple[Array, Array]:
    """Nodes and log weights (k,) of an integral over t in units of its width around the mode.

    With many examples the likelihood exp(−½p(t + e^−t)), in t from its mode, is nearly Gaussian: as many
    Gauss-Hermite nodes as its integral, Γ(½p)(½p)^(−½p), needs. With few it has exponential tails: the
    trapezoid rule after t = 2 sinh(v/2), which reaches 33 widths on either side. The finer of two rules, with
    which the other is compared, has a thousandth of its error, or half of its step.
    """
    half = 0.5 * examples
    if examples >= _FEW_EXAMPLES:
        exact = special.gammaln(half) - half * math.log(half)
        for nodes in range(3, 22, 2):
            places, weights = special.roots_hermitenorm(nodes)
            log_weights = np.log(weights) + 0.5 * places**2
            t = places / math.sqrt(half)
            found = special.logsumexp(log_weights - half * (t + np.exp(-t))) - 0.5 * math.log(half)
            if abs(found - exact) < (_FINER * error if finer else error):
                return places, log_weights
    step = 0.2 if finer else 0.4
    v = step * np.arange(-round(7.2 / step), round(7.2 / step) + 1)
    return 2 * np.sinh(v / 2), np.log(step * np.cosh(v / 2))
