"""The scale of one output in closed form, and averages over it by adaptive quadrature.

λ = Π_ℓ χ²(n_ℓ)/n_ℓ: a Gamma at depth two, a Bessel K at depth three, an integral over it at depth four.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import integrate, special, stats

from lbnn._base.types import Array

LogDensity = Callable[[float], float]


def log_prior_density(widths: tuple[int, ...]) -> LogDensity:
    """Log ϖ as a density of λ, for one, two or three hidden layers."""
    laws: dict[int, Callable[..., float]] = {1: _log_gamma, 2: _log_bessel, 3: _log_three_factors}
    return lambda scale: laws[len(widths)](scale, *(width / 2 for width in widths))


def _log_gamma(scale: float, a: float) -> float:
    return float(stats.gamma.logpdf(scale, a, scale=1 / a))


def _log_bessel(scale: float, a: float, b: float) -> float:
    """2 (ab)^{(a+b)/2} λ^{(a+b)/2 − 1} K_{a−b}(2 √(abλ)) / (Γ(a) Γ(b)), of two Gammas of mean one."""
    argument = 2 * math.sqrt(a * b * scale)
    log_k = math.log(special.kve(a - b, argument)) - argument
    power = 0.5 * (a + b) * math.log(a * b) + (0.5 * (a + b) - 1) * math.log(scale)
    return math.log(2) + power + log_k - math.lgamma(a) - math.lgamma(b)


def _log_three_factors(scale: float, a: float, b: float, c: float) -> float:
    """∫ bessel(λ/t) gamma(t) dt/t."""

    def log_integrand(log_t: float) -> float:
        t = math.exp(log_t)
        return _log_bessel(scale / t, a, b) + _log_gamma(t, c)

    return log_integral(log_integrand)


def inverse_gaussian_moment(order: float, power: int, a: float, b: float) -> float:
    """E λ^power under the GIG law ∝ λ^{order − 1} exp(−(a λ + b/λ)/2)."""
    argument = math.sqrt(a * b)
    ratio = special.kve(order + power, argument) / special.kve(order, argument)
    return float((b / a) ** (power / 2) * ratio)


def log_inverse_gaussian_normaliser(order: float, a: float, b: float) -> float:
    """Log ∫ λ^{order − 1} exp(−(a λ + b/λ)/2) dλ = log 2 K_order(√(ab)) (b/a)^{order/2}."""
    argument = math.sqrt(a * b)
    log_k = math.log(special.kve(order, argument)) - argument
    return math.log(2) + log_k + 0.5 * order * math.log(b / a)


def log_integral(log_integrand: LogDensity) -> float:
    """Log ∫ exp(log_integrand(t)) dt over t = log of a positive number."""
    low, high, peak = _reach(log_integrand)
    value, _ = integrate.quad(
        lambda t: math.exp(log_integrand(t) - peak), low, high, epsabs=0.0, epsrel=1e-13, limit=400
    )
    return peak + math.log(value)


def average(log_weight: LogDensity, function: Callable[[float], Any]) -> Array:
    """∫ function(λ) w(λ) dλ / ∫ w(λ) dλ, for an array-valued function and a weight given by its logarithm."""
    shape = np.shape(function(1.0))

    def log_integrand(t: float) -> float:
        return log_weight(math.exp(t)) + t

    low, high, peak = _reach(log_integrand)

    def integrand(t: float) -> Array:
        values = np.append(1.0, np.ravel(function(math.exp(t))))
        return math.exp(log_integrand(t) - peak) * values

    integrals = integrate.quad_vec(integrand, low, high, epsabs=0.0, epsrel=1e-12, limit=2000)[0]
    return np.asarray(integrals[1:] / integrals[0]).reshape(shape)


def _reach(log_integrand: LogDensity) -> tuple[float, float, float]:
    """Where the integrand is above e^{−50} of its peak, and its peak on a grid."""
    low = -30.0
    while True:
        grid = np.linspace(low, 12.0, 421)
        with np.errstate(all="ignore"):
            values = np.array([_guarded(log_integrand, t) for t in grid])
        peak = float(values.max())
        if values[0] <= peak - 50 or low < -400:
            break
        low *= 2
    kept = np.flatnonzero(values > peak - 50)
    return float(grid[max(kept[0] - 1, 0)]), float(grid[min(kept[-1] + 1, len(grid) - 1)]), peak


def _guarded(log_integrand: LogDensity, t: float) -> float:
    """The log integrand, −inf where its terms under- or overflow."""
    try:
        value = log_integrand(t)
    except (OverflowError, ValueError):
        return -math.inf
    return value if math.isfinite(value) else -math.inf
