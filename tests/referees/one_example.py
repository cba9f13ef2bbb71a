"""Exact evidence and E L for one example and any number of outputs: integrals over one number; numpy, scipy.

With one example x the hidden activities have squared lengths h_ℓ = h_{ℓ−1} σ_ℓ² χ²(n_ℓ)/n_{ℓ−1}, h_0 = ‖x‖²,
and Y | h_{d−1} ~ N(0, (k + 1/β) I), k = σ_d² h_{d−1}/n_{d−1}. Densities of log k, also weighted by 1/h_ℓ, are
inverse Mellin transforms: lines through a saddle point, by the trapezoid rule.

E L: W_ℓ acts on h_{ℓ−1}, which the chain fixes, and independently on its complement. Averaging over the
complements leaves A_ℓ A_ℓᵀ (A_ℓ = W_ℓ ⋯ W_2) = a_ℓ on the direction of h_ℓ and b_ℓ on the others, with
b_ℓ = b_{ℓ−1} (n_{ℓ−1} − 1) σ_ℓ²/n_{ℓ−1} and a_ℓ = a_{ℓ−1} h_ℓ/h_{ℓ−1} + b_ℓ, so that with f the output before
noise E L = b_d I + E[f fᵀ Σ_{ℓ<d} b_ℓ/h_ℓ].
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, special

Array = NDArray[np.float64]

NODES, LINE = 601, 251


@dataclass(frozen=True)
class Exact:
    """Log evidence and E L."""

    log_evidence: float
    scale_mean: Array


def log_density_of_sum(x: Array, shapes: Array) -> Array:
    """Log density of x = Σ log Gamma(shape), where shapes below zero stand for Γ-ratios without a law.

    The inverse Mellin transform of ∏ Γ(shape + s) at x, not divided by ∏ Γ(shape).
    """
    return np.array([_line(float(value), shapes) for value in x])


def _line(x: float, shapes: Array) -> float:
    """Log of (1/2πi) ∫ exp(−s x) ∏ Γ(shape + s) ds through the saddle point."""
    low = -float(shapes.min())

    def slope(t: float) -> float:
        return float(np.sum(special.digamma(shapes + low + math.exp(t)))) - x

    centre = low + math.exp(optimize.brentq(slope, -60.0, 60.0, xtol=1e-12))
    curvature = float(np.sum(special.polygamma(1, shapes + centre)))
    reach = _reach(shapes + centre, curvature)
    t = np.linspace(-reach, reach, LINE)
    top = float(np.sum(special.gammaln(shapes + centre)))
    logs = np.sum(special.loggamma(shapes[:, None] + centre + 1j * t), 0) - top - 1j * t * x
    total = float(np.sum(np.exp(logs).real)) * (t[1] - t[0]) / (2 * math.pi)
    return top - centre * x + math.log(total)


def _reach(shapes: Array, curvature: float) -> float:
    """Where the integrand has fallen by forty nats."""
    reach = 8 / math.sqrt(curvature)
    top = np.sum(special.gammaln(shapes))
    while np.sum(special.loggamma(shapes + 1j * reach).real) - top > -40:
        reach *= 1.3
    return reach


def one_example(problem: Any) -> Exact:
    """Integrate over log k; `problem` has one row in `X` and `Y`."""
    widths, variances = np.asarray(problem.widths, float), np.asarray(problem.variances)
    noise, y = 1 / problem.beta, problem.Y[0]
    unit = float(np.sum(problem.X**2)) / problem.X.shape[1] * variances.prod() * np.prod(2 / widths)
    x = np.linspace(*_range(widths / 2), NODES)
    k = unit * np.exp(x)
    given = -0.5 * (len(y) * np.log(2 * math.pi * (k + noise)) + y @ y / (k + noise))
    prior = log_density_of_sum(x, widths / 2) - special.gammaln(widths / 2).sum()
    step = x[1] - x[0]
    log_evidence = special.logsumexp(prior + given) + math.log(step)
    posterior = given - log_evidence + math.log(step)
    return Exact(float(log_evidence), _scale_mean(problem, x, k, posterior))


def _range(shapes: Array) -> tuple[float, float]:
    """Ends at which the prior density of the sum of log Gammas is e^−60 of its top."""
    mean = float(special.digamma(shapes).sum())
    low = mean - 70 / shapes.min() - 5
    high = mean + len(shapes) * math.log(2 + 70 / len(shapes) / shapes.min()) + 3
    return low, high


def _scale_mean(problem: Any, x: Array, k: Array, posterior: Array) -> Array:
    """`posterior` holds log of (likelihood × step / evidence), to be added to log prior densities."""
    widths, variances = np.asarray(problem.widths, float), np.asarray(problem.variances)
    noise, y = 1 / problem.beta, problem.Y[0]
    shrink = k / (k + noise)
    free = np.cumprod(np.r_[1.0, (widths - 1) * variances[1:] / widths])  # b_1 .. b_d
    along, across = 0.0, 0.0
    for layer in range(1, len(widths) + 1):
        inverse = np.exp(posterior + _log_inverse_length(problem, x, layer))
        along += free[layer - 1] * float(inverse @ shrink**2)
        across += free[layer - 1] * float(inverse @ (shrink * noise))
    return along * np.outer(y, y) + (across + free[-1]) * np.eye(len(y))


def _log_inverse_length(problem: Any, x: Array, layer: int) -> Array:
    """Log of the density of x = Σ log Gamma times E[1/h_layer | x]."""
    widths = np.asarray(problem.widths, float)
    shapes = widths / 2
    lowered = shapes - (np.arange(len(shapes)) < layer)
    inputs = problem.X.shape[1]
    sizes = np.r_[inputs, widths][:layer]
    factors = 2 * np.array(problem.variances[:layer]) / sizes
    log_unit = float(np.log(np.sum(problem.X**2)) + np.log(factors).sum())
    if layer == len(widths):
        return log_density_of_sum(x, shapes) - special.gammaln(shapes).sum() - x - log_unit
    return log_density_of_sum(x, lowered) - special.gammaln(shapes).sum() - log_unit
