"""Learning curves of infinite size: p, n0 → ∞ at α = p/n0, with the scale that a limit theory gives.

With ρ = τ/λ, the resolvent of Gaussian data has a deterministic equivalent: κ ≥ 0 solves
ρ = ακ − κ/(1 + κ), and with y = X w + σ ε (λ with the first layer's variance in it)

    log det(τ + λG)    → p log λ + n0 [log((1 + κ)/κ) + α log(ακ) + ρ/κ − α]
    yᵀ(τ + λG)⁻¹y      → n0 [|w|²/(1 + κ) + σ²/κ]/λ
    error of the mean  → [|w|² κ²/(1 + κ)² + σ² γ]/(1 − γ),   γ = 1/(α(1 + κ)²)
    posterior variance → λ κ/(1 + κ).

The first two are stationary in κ, so that the rest are their derivatives; at zero temperature κ = 1/α − 1. If
the widths grow in proportion, the scale concentrates at the saddle point of the prior's rate plus half of the
first two lines. This is the replica result of Zavatone-Veth, Tong and Pehlevan (2022, arXiv:2203.00573): at
zero temperature λ = Π_ℓ [1 − (p/n_ℓ)(1 − ŝ/λ)] with ŝ = |w|² + σ²/(1 − α). At infinite width λ stays at its
prior mean, and the curve is that of ridge regression.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import optimize

from lbnn._base.types import Array
from lbnn.theories.limits.wide_prior import WidePrior

_SCAN = np.linspace(-60.0, 60.0, 1201)  # log λ/v of the scan for the saddle: steps of a tenth of an e-fold


@dataclass(frozen=True)
class LimitCurve:
    """A learning curve of infinite size.

    Attributes
    ----------
    scale_mean, log_evidence, error, gibbs_error : (m,) arrays
        As in `LearningCurve`; NaN where the theory does not apply.
    """

    scale_mean: Array
    log_evidence: Array
    error: Array
    gibbs_error: Array


@dataclass(frozen=True)
class Asymptotics:
    """Sums over data of infinite size, for one number of examples; `scale` is λ times σ_1²."""

    examples: int
    inputs: int
    square: float  # |w|²
    noise_variance: float  # σ²
    temperature: float  # τ = 1/β

    def kappa(self, scale: Array) -> Array:
        """The root κ of ακ² + (α − 1 − ρ)κ − ρ = 0, shaped like the scale, without cancellation."""
        alpha, rho = self.examples / self.inputs, self.temperature / scale
        linear = 1 + rho - alpha
        root = np.hypot(linear, 2 * np.sqrt(alpha * rho))  # ρ² may be beyond doubles
        with np.errstate(divide="ignore", invalid="ignore"):
            falling = np.where(rho > 0, 2 * rho / (root - linear), 0.0)
        return np.where(linear > 0, (linear + root) / (2 * alpha), falling)

    def log_likelihood(self, scale: Array) -> Array:
        """log p(y | λ), shaped like the scale."""
        alpha, kappa = self.examples / self.inputs, self.kappa(scale)
        # p log λ + n0 log((1+κ)/κ) + p log(ακ) with the two logs of κ joined: they cancel for p near n0
        logs = np.log1p(kappa) - (1 - alpha) * np.log(kappa) + alpha * math.log(alpha)
        determinant = self.examples * np.log(scale) + self.inputs * (
            logs + self.temperature / (scale * kappa) - alpha
        )
        square = self.inputs * (self.square / (1 + kappa) + self.noise_variance / kappa) / scale
        return -0.5 * (self.examples * math.log(2 * math.pi) + determinant + square)

    def error(self, scale: Array) -> Array:
        """|m − w|² of the predictive mean m, shaped like the scale."""
        alpha, kappa = self.examples / self.inputs, self.kappa(scale)
        gamma = 1 / (alpha * (1 + kappa) ** 2)
        bias = self.square * (kappa / (1 + kappa)) ** 2
        return (bias + self.noise_variance * gamma) / (1 - gamma)

    def variance(self, scale: Array) -> Array:
        """Posterior variance of the function at a new input, shaped like the scale."""
        kappa = self.kappa(scale)
        return scale * kappa / (1 + kappa)

    @property
    def exists(self) -> bool:
        """Whether the covariance τ + λG is invertible."""
        return self.temperature > 0 or self.examples < self.inputs


def saddle(data: Asymptotics, widths: tuple[int, ...], variance: float) -> tuple[float, float]:
    """The scale that maximises the log likelihood less the prior's rate, and the rate there."""
    prior = WidePrior(widths, variance)

    def exponent(log_ratio: Array) -> Array:
        """Exponent at log λ/variance (k,), (k,)."""
        scale = variance * np.exp(np.atleast_1d(log_ratio))
        return prior.rate(scale) + data.log_likelihood(scale)

    values = exponent(_SCAN)
    best = int(np.clip(np.nanargmax(values), 1, len(_SCAN) - 2))
    found = optimize.minimize_scalar(
        lambda x: -float(exponent(np.array(x))[0]),
        bounds=(_SCAN[best - 1], _SCAN[best + 1]),
        method="bounded",
        options={"xatol": 1e-12},
    )
    scale = variance * math.exp(found.x)
    return scale, float(prior.rate(np.array([scale]))[0])


def _infinite_data(data: Asymptotics, widths: tuple[int, ...], variance: float) -> tuple[float, float]:
    """λ = yᵀG⁻¹y/p: zero temperature only."""
    if data.temperature > 0:
        return math.nan, math.nan
    scale = data.square + data.noise_variance / (1 - data.examples / data.inputs)
    return (scale, 0.0) if scale > 0 else (math.nan, math.nan)


def _first_order(data: Asymptotics, widths: tuple[int, ...], variance: float) -> tuple[float, float]:
    """λ = v Π_ℓ (1 − p/n_ℓ): zero temperature, fewer examples than the narrowest layer has units."""
    if data.temperature > 0 or data.examples >= min(widths):
        return math.nan, math.nan
    return variance * math.prod(1 - data.examples / width for width in widths), math.nan


#: The scale (with σ_1² in it) and the rate of the prior there, by theory; names as in `lbnn.compare`.
LIMITS: dict[str, Callable[[Asymptotics, tuple[int, ...], float], tuple[float, float]]] = {
    "infinite width": lambda data, widths, variance: (variance, 0.0),
    "infinite data": _infinite_data,
    "proportional": saddle,
    "proportional, first order": _first_order,
}


def limit_curve(
    theory: str, points: list[Asymptotics], widths: tuple[int, ...], variances: tuple[float, ...]
) -> LimitCurve:
    """The curve of one theory; `variances` are those of all layers."""
    total = math.prod(variances)
    columns = [_limit_point(LIMITS[theory], each, widths, total, variances[0]) for each in points]
    return LimitCurve(*np.array(columns).reshape(len(points), 4).T)


def _limit_point(
    rule: Callable[..., tuple[float, float]],
    data: Asymptotics,
    widths: tuple[int, ...],
    variance: float,
    first: float,
) -> tuple[float, ...]:
    """E λ, log evidence, error and Gibbs error."""
    if not data.exists:
        return (math.nan,) * 4
    scale, rate = rule(data, widths, variance) if widths else (variance, 0.0)
    if math.isnan(scale):
        return (math.nan,) * 4
    at = np.array([scale])
    error, spread = float(data.error(at)[0]), float(data.variance(at)[0])
    return scale / first, float(data.log_likelihood(at)[0]) + rate, error, error + spread
