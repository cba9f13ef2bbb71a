"""Canonical matrix generalised inverse Gaussians, MGIG(diag(δ), I, ν), ν ≥ 0: one class for each way.

The density is ∝ det(X)^{ν − (N+1)/2} etr(−½ Δ X⁻¹ − ½ X), Δ = diag(δ). With X = T Tᵀ the factor etr(−½X)
makes the entries of T below the diagonal standard normal and, with the power of the determinant and the
Jacobian, T_ii a χ variable of 2ν − i + 1 degrees of freedom. At least one degree is taken, and the difference
kept as a power: what is left is a `Scatter`, and bounded. So the law is sampled as a posterior of the scale.

Every class computes the log normaliser, the diagonals of E X and E X⁻¹ (the law does not change when the sign
of a coordinate does, so both are diagonal), their errors, and weighted independent draws.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from scipy import optimize, stats

from lbnn._base.types import Array
from lbnn.engines.estimate import Answer
from lbnn.engines.importance import GaussianProposal, laplace_proposal, weighted_draws
from lbnn.engines.inference import Diagnostics, InferenceOptions
from lbnn.engines.run import draw_posterior
from lbnn.engines.target import Target
from lbnn.likelihood.root import Scatter
from lbnn.scale.bartlett import BartlettCoordinates, FactorShape
from lbnn.scale.measure import ScaleMeasure

Estimate = tuple[Array, Array]  # value and standard error


class Canonical(Protocol):
    """A canonical law, however computed."""

    @property
    def diagnostics(self) -> Diagnostics: ...

    @property
    def log_normalizer(self) -> tuple[float, float]: ...

    @property
    def mean(self) -> Estimate: ...

    @property
    def inverse_mean(self) -> Estimate: ...

    def weighted_sample(self, size: int, rng: np.random.Generator) -> Estimate: ...


def solve_canonical(delta: Array, nu: float, options: InferenceOptions) -> Canonical:
    """Choose how to compute the canonical law of δ (N,).

    Closed form (δ = 0 or N = 1), quadrature (N = 2) or sampling.
    """
    if not delta.any():
        return WishartCanonical(delta, nu)
    if len(delta) == 1:
        return ScalarCanonical(float(delta[0]), nu)
    if len(delta) == 2:
        return PlanarCanonical(delta, nu)
    return SampledCanonical(delta, nu, options)


def bartlett_target(delta: Array, nu: float) -> Target:
    """MGIG(diag(δ), I, ν) in coordinates u of T, X = T Tᵀ, δ (N,) ascending.

    T may be taken in any frame where no degree of freedom depends on the place of a zero δ.
    """
    exact = 2 * nu - np.arange(len(delta))
    degrees = np.where(delta > 0, np.maximum(exact, 1.0), exact)
    shape = FactorShape(len(delta), len(delta), 1, 1.0, tuple(map(float, degrees)))
    likelihood = Scatter(np.diag(np.sqrt(delta)), degrees - exact)
    any_frame = bool((delta > 0).all() or 2 * nu >= len(delta))
    return Target(BartlettCoordinates((shape,)), likelihood, np.eye(len(delta)), any_frame)


def log_base(target: Target) -> float:
    """Log ∫ of the kernel without likelihood: 2^N Π 2^{d_i/2 − 1} Γ(d_i/2) · (2π)^{N(N−1)/4}."""
    degrees, size = target.coordinates.shapes[0].degrees, target.rows
    diagonal = sum((d / 2 - 1) * math.log(2) + math.lgamma(d / 2) for d in degrees)
    return size * math.log(2) + diagonal + size * (size - 1) / 4 * math.log(2 * math.pi)


@dataclass(frozen=True)
class WishartCanonical:
    """δ = 0: the Wishart law with 2ν degrees of freedom."""

    delta: Array
    nu: float

    @property
    def diagnostics(self) -> Diagnostics:
        return Diagnostics("wishart", math.inf)

    @property
    def log_normalizer(self) -> tuple[float, float]:
        return log_base(bartlett_target(self.delta, self.nu)), 0.0

    @property
    def mean(self) -> Estimate:
        return np.full(len(self.delta), 2 * self.nu), np.zeros(len(self.delta))

    @property
    def inverse_mean(self) -> Estimate:
        excess = 2 * self.nu - len(self.delta) - 1
        return np.full(len(self.delta), 1 / excess if excess > 0 else math.inf), np.zeros(len(self.delta))

    def weighted_sample(self, size: int, rng: np.random.Generator) -> Estimate:
        target = bartlett_target(self.delta, self.nu)
        return target.scales(rng.standard_normal((size, target.dimension))), np.zeros(size)


@dataclass(frozen=True)
class ScalarCanonical:
    """N = 1: the generalised inverse Gaussian, in Bessel functions K."""

    delta: float
    nu: float

    @property
    def diagnostics(self) -> Diagnostics:
        return Diagnostics("bessel", math.inf)

    @property
    def log_normalizer(self) -> tuple[float, float]:
        root = math.sqrt(self.delta)
        return math.log(2) + log_bessel_k(self.nu, root) + self.nu * math.log(root), 0.0

    @property
    def mean(self) -> Estimate:
        return self._moment(1)

    @property
    def inverse_mean(self) -> Estimate:
        return self._moment(-1)

    def _moment(self, power: int) -> Estimate:
        root = math.sqrt(self.delta)
        log_ratio = log_bessel_k(self.nu + power, root) - log_bessel_k(self.nu, root)
        return np.array([root**power * math.exp(log_ratio)]), np.zeros(1)

    def weighted_sample(self, size: int, rng: np.random.Generator) -> Estimate:
        root = math.sqrt(self.delta)
        draws = stats.geninvgauss.rvs(self.nu, root, scale=root, size=size, random_state=rng)
        return draws[:, None, None], np.zeros(size)


class PlanarCanonical:
    """N = 2: T_21 integrates out and the logs of the diagonal take a tensor trapezoid rule."""

    diagnostics = Diagnostics("quadrature", math.inf)

    def __init__(self, delta: Array, nu: float) -> None:
        """Of δ (2,)."""
        self.delta, self.nu = delta, nu

    @cached_property
    def _nodes(self) -> tuple[Array, Array, Array, float]:
        """Squares of T_11 and T_22, variance of T_21 given them, log terms with their step: (a, b) each."""
        v, steps = zip(*(self._axis(index) for index in range(2)), strict=True)
        first, second = np.exp(2 * v[0])[:, None], np.exp(2 * v[1])[None, :]
        spread = 1 / (1 + self.delta[0] / (first * second))
        log_terms = 2 * self.nu * v[0][:, None] + (2 * self.nu - 1) * v[1][None, :] + 0.5 * np.log(spread)
        log_terms = log_terms - 0.5 * (first + second + self.delta[0] / first + self.delta[1] / second)
        constant = math.log(4 * steps[0] * steps[1]) + 0.5 * math.log(2 * math.pi)
        squares = np.broadcast_to(first, spread.shape), np.broadcast_to(second, spread.shape)
        return squares[0], squares[1], spread, log_terms + constant

    def _axis(self, index: int) -> tuple[Array, float]:
        """Grid (k,) of v = log T_ii and its step.

        It covers the density and its moments, and is fine enough for the curvature.
        """
        delta = float(self.delta[index])
        slopes = [2 * self.nu - index + tilt for tilt in (-2.5, 0.0, 3.5)]
        slopes = slopes if delta > 0 else [max(slope, min(0.25, self.nu)) for slope in slopes]
        ends = [_reach(slope, delta, side) for slope in slopes for side in (-1.0, 1.0)]
        curvature = 2 * math.sqrt(max(slope**2 for slope in slopes) + 4 * delta)
        step = min(0.1, 0.3 / math.sqrt(curvature + 2))
        return np.arange(min(ends) - step, max(ends) + 2 * step, step), step

    @property
    def log_normalizer(self) -> tuple[float, float]:
        log_terms = self._nodes[3]
        top = float(np.max(log_terms))
        return top + math.log(float(np.exp(log_terms - top).sum())), 0.0

    @property
    def mean(self) -> Estimate:
        first, second, spread, _ = self._nodes
        return self._averages(first, second + spread)

    @property
    def inverse_mean(self) -> Estimate:
        first, second, spread, _ = self._nodes
        exists = self.delta > 0 if self.nu <= 1 else np.ones(2, bool)
        value, error = self._averages(1 / first + spread / (first * second), 1 / second)
        return np.where(exists, value, math.inf), error

    def _averages(self, *values: Array) -> Estimate:
        weights = np.exp(self._nodes[3] - self.log_normalizer[0])
        return np.array([float((weights * value).sum()) for value in values]), np.zeros(2)

    def weighted_sample(self, size: int, rng: np.random.Generator) -> Estimate:
        target = bartlett_target(self.delta, self.nu)
        points, log_weights = weighted_draws(target, laplace_proposal(target), size, rng)
        return target.scales(points), log_weights


class SampledCanonical:
    """N ≥ 3: importance sampling in Bartlett coordinates, sequential Monte Carlo where that fails."""

    def __init__(self, delta: Array, nu: float, options: InferenceOptions) -> None:
        """Of δ (N,)."""
        self.delta, self.nu, self.options = delta, nu, options
        self.target = bartlett_target(delta, nu)

    @cached_property
    def _draws(self) -> Answer:
        return draw_posterior(self.target, self.options)

    @cached_property
    def _measure(self) -> ScaleMeasure:
        target = self._draws.estimate.target or self.target
        scales = target.scales(self._draws.points)
        return ScaleMeasure(scales, self._draws.weights, False, groups=self._draws.estimate.groups)

    @cached_property
    def _proposal(self) -> GaussianProposal:
        return laplace_proposal(self.target)

    @property
    def diagnostics(self) -> Diagnostics:
        return self._draws.diagnostics

    @property
    def log_normalizer(self) -> tuple[float, float]:
        return self._draws.log_evidence + log_base(self.target), self._draws.log_evidence_error

    @property
    def mean(self) -> Estimate:
        return self._diagonal(np.diagonal(self._measure.scales, axis1=1, axis2=2))

    @property
    def inverse_mean(self) -> Estimate:
        inverse = np.linalg.inv(self._measure.scales)
        value, error = self._diagonal(np.diagonal(inverse, axis1=1, axis2=2))
        missing = int((self.delta == 0).sum())
        exists = (self.delta > 0) | (2 * self.nu > missing + 1)
        return np.where(exists, value, math.inf), np.where(exists, error, 0.0)

    def _diagonal(self, values: Array) -> Estimate:
        """Average and standard error (N,) of values (m, N)."""
        return self._measure.average(values), self._measure.standard_error(values)

    def weighted_sample(self, size: int, rng: np.random.Generator) -> Estimate:
        if self.diagnostics.engine == "smc":
            index = rng.choice(len(self._draws.points), size=size, p=self._draws.weights)
            return self._measure.scales[index], np.zeros(size)
        points, log_weights = weighted_draws(self.target, self._proposal, size, rng)
        return self.target.scales(points), log_weights


def log_bessel_k(order: float, argument: float) -> float:
    """log K_ν(z) for z > 0 and any order: half of ∫ exp(−z cosh t + ν t) dt, by the trapezoid rule."""
    order = abs(order)
    peak = math.asinh(order / argument)
    width = (order**2 + argument**2) ** -0.25
    farthest = math.asinh((2 * order + 100) / argument) + 2
    step = min(0.1, 0.3 * width)
    nearest = max(-farthest, peak - 60 * max(width, 1 / max(order, 0.1)))
    t = np.arange(nearest, farthest + step, step)
    log_terms = order * (t - peak) - 2 * argument * np.sinh((t - peak) / 2) * np.sinh((t + peak) / 2)
    total = float(np.exp(np.maximum(log_terms, -700.0)).sum()) * step
    return order * peak - argument * math.cosh(peak) + math.log(total / 2)


def _reach(slope: float, delta: float, side: float) -> float:
    """Where s v − ½(e^{2v} + δ e^{−2v}), concave in v, has dropped by 60 on one side of its peak."""
    square = (
        (slope + math.sqrt(slope**2 + 4 * delta)) / 2
        if slope >= 0
        else (2 * delta / (math.sqrt(slope**2 + 4 * delta) - slope))
    )
    peak = 0.5 * math.log(square)

    def left_over(distance: float) -> float:
        change = math.expm1(2 * side * distance)
        back = math.expm1(-2 * side * distance)
        return 60 + slope * side * distance - 0.5 * (square * change + delta / square * back)

    farthest = 1e-3
    while left_over(farthest) > 0:
        farthest *= 2
    return peak + side * float(optimize.brentq(left_over, 0.0, farthest))
