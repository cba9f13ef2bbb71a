"""Integrals over positive definite 2 × 2 matrices, by the trapezoid rule on a grid.

With M = T Tᵀ, T = [[e^a, 0], [c, e^b]], the volume element is dM = 4 e^{3a + 2b} da db dc. Densities of the
Wishart kind are analytic in (a, b, c) and decay in every direction, so that the trapezoid rule converges
geometrically. The grid follows the peak and the curvature there, stretched so that it reaches the tails.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import optimize, special

from lbnn._base.types import Array

#: A log density of matrices (m, 2, 2) to values (m,).
LogDensity = Callable[[Array], Array]

REACH = 3.4  # sinh(3.4) = 15 standard deviations in each direction
BLOCK = 1 << 16


def integrate(log_density: LogDensity, points: int = 69) -> tuple[Array, Array, float]:
    """Nodes (m, 2, 2), normalised weights (m,) and the log integral of a density over the cone."""

    def log_integrand(u: Array) -> Array:
        values: Array = log_density(_matrices(u)) + 3 * u[:, 0] + 2 * u[:, 1] + np.log(4)
        return values

    peak, frame = _peak(log_integrand)
    v = np.linspace(-REACH, REACH, points)
    grid = np.stack(np.meshgrid(v, v, v, indexing="ij"), axis=-1).reshape(-1, 3)
    u = peak + np.sinh(grid) @ frame.T
    starts = range(0, len(u), BLOCK)
    values = np.concatenate([log_integrand(u[start : start + BLOCK]) for start in starts])
    logs = values + np.log(np.cosh(grid)).sum(axis=1) + np.linalg.slogdet(frame)[1] + 3 * np.log(v[1] - v[0])
    weights = np.exp(logs - logs.max())
    kept = weights > 1e-20
    log_integral = float(logs.max() + np.log(weights.sum()))
    return _matrices(u[kept]), weights[kept] / weights.sum(), log_integral


def log_wishart(M: Array, mean: Array, degrees: int) -> Array:
    """Log density of Wishart_2(mean/degrees, degrees)."""
    constant = degrees * math.log(degrees / 2) - float(special.multigammaln(degrees / 2, 2))
    trace = np.einsum("ij,mji->m", np.linalg.inv(mean), M)
    log_dets = (degrees - 3) * np.linalg.slogdet(M)[1] - degrees * np.linalg.slogdet(mean)[1]
    return np.asarray(constant + 0.5 * log_dets - 0.5 * degrees * trace)


def average(nodes: Array, weights: Array, function: Callable[[Array], Any]) -> Array:
    """Σ w function(M) for a function of one matrix or of a stack of them, (m, ...)."""
    return np.tensordot(weights, np.asarray(function(nodes)), axes=1)


def _matrices(u: Array) -> Array:
    a, b, c = np.exp(u[:, 0]), np.exp(u[:, 1]), u[:, 2]
    return np.stack([a * a, a * c, a * c, c * c + b * b], axis=1).reshape(-1, 2, 2)


def _peak(log_integrand: LogDensity) -> tuple[Array, Array]:
    """Where the integrand is largest, and a square root of the inverse curvature there."""

    def negative(u: Array) -> float:
        return -float(log_integrand(u[None])[0])

    found = optimize.minimize(negative, np.zeros(3), method="Nelder-Mead", options={"xatol": 1e-6})
    steps = 1e-3 * np.eye(3)

    def mixed(i: Array, j: Array) -> float:
        corners = negative(found.x + i + j) + negative(found.x - i - j)
        return corners - negative(found.x + i - j) - negative(found.x - i + j)

    hessian = np.array([[mixed(i, j) for j in steps] for i in steps]) / 4e-6
    return found.x, np.asarray(np.linalg.cholesky(np.linalg.inv(hessian)), np.float64)
