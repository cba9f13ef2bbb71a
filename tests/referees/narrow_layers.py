"""Exact evidence behind narrow layers, by deterministic integrals in two and three dimensions; numpy and
scipy.

`width_one`: with a hidden layer of one unit L = l u uᵀ, u uniform on the sphere and l a product of χ²
variables, so that p(Y) is an integral over log l of the normaliser of a Bingham law, itself an integral
along a line in the complex plane.

`two_examples`: with two examples and one hidden layer of n_1 ≥ 2 units the hidden kernel Λ is a 2 × 2
Wishart matrix, and the outputs given it are independent, N(0, τ I + D Λ D), D = diag(√g): an integral over
the three entries of its Cholesky factor.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, special

from .one_example import log_density_of_sum

Array = NDArray[np.float64]

_LEVELS, _LINE = 500, 400


def log_bingham_average(exponents: Array) -> float:
    """log E exp(Σ a_i u_i²), u uniform on the sphere: Γ(n/2)/(2πi) ∫ e^s ∏ (s − a_i)^{−1/2} ds."""
    top, size = float(exponents.max()), len(exponents)
    gaps = top - exponents

    def slope(log_shift: float) -> float:
        return 0.5 * float(np.sum(1 / (math.exp(log_shift) + gaps))) - 1

    shift = math.exp(optimize.brentq(slope, math.log(0.4), math.log(0.5 * size + 1)))
    curvature = 0.5 * float(np.sum((shift + gaps) ** -2))
    bend = float(np.sum((shift + gaps) ** -3)) / (6 * curvature)
    y = np.linspace(0.0, 12.0, _LINE) / math.sqrt(curvature)
    s = shift + 1j * y - bend * y**2
    # the argument of each factor goes continuously from 0 towards π: the logs need no unwinding
    exponent = s - 0.5 * np.sum(np.log(s[:, None] + gaps), axis=1)
    values = (np.exp(exponent - exponent[0].real) * (1 + 2j * bend * y)).real
    values[0] *= 0.5
    integral = float(np.sum(values)) * (y[1] - y[0]) / math.pi
    return float(special.gammaln(size / 2)) + top + float(exponent[0].real) + math.log(integral)


def width_one(g: Array, targets: Array, noise: float, widths: Sequence[int], variance: float = 1.0) -> float:
    """log p(Y) for eigenvalues g (r,), targets (r, n_d) in the eigenbasis and widths of which one is 1."""
    rows, outputs = targets.shape
    degrees = list(widths)
    degrees.remove(1)
    shapes = np.array([*degrees, outputs], float) / 2
    centre = float(special.digamma(shapes).sum())
    low, high = (
        centre - 45 / float(shapes.min()) - 5,
        centre + len(shapes) * math.log(2 + 40 / len(shapes)) + 3,
    )
    log_unit = math.log(variance) - sum(math.log(width / 2) for width in degrees) + math.log(2)
    for _ in range(2):  # a scan, and the range in which the integrand counts
        x = np.linspace(low, high, _LEVELS)
        prior = log_density_of_sum(x, shapes) - special.gammaln(shapes).sum()
        logs = np.array(
            [
                a + _given_size(g, targets, noise, math.exp(b + log_unit))
                for a, b in zip(prior, x, strict=True)
            ]
        )
        counted = np.flatnonzero(logs > logs.max() - 35)
        low, high = float(x[max(counted[0] - 1, 0)]), float(x[min(counted[-1] + 1, len(x) - 1)])
    constant = -0.5 * rows * outputs * math.log(2 * math.pi * noise) - 0.5 * float((targets**2).sum()) / noise
    return float(special.logsumexp(logs)) + math.log(x[1] - x[0]) + constant


def _given_size(g: Array, targets: Array, noise: float, size: float) -> float:
    ratio = 1 + g * size / noise
    moment = (targets * (0.5 / noise * (1 - 1 / ratio))[:, None]).T @ targets
    return log_bingham_average(np.linalg.eigvalsh(moment)) - 0.5 * float(np.sum(np.log(ratio)))


def two_examples(g: Array, targets: Array, noise: float, width: int, nodes: int = 70) -> float:
    """log p(Y) for eigenvalues g (2,), targets (2, n_d) and one hidden layer of at least two units."""
    outputs = targets.shape[1]
    second = targets @ targets.T

    def log_integrand(first: Array, below: Array, last: Array) -> Array:
        a, c = np.exp(first), np.exp(last)  # Λ = T Tᵀ/n_1, T = [[a, 0], [below, c]] in units of one deviation
        prior = -0.5 * (a**2 + c**2 + below**2) + width * first + (width - 1) * last
        k11 = noise + g[0] * a**2 / width
        k12 = math.sqrt(g[0] * g[1]) * a * below / width
        k22 = noise + g[1] * (below**2 + c**2) / width
        determinant = k11 * k22 - k12**2
        fit = (k22 * second[0, 0] - 2 * k12 * second[0, 1] + k11 * second[1, 1]) / determinant
        return prior - 0.5 * outputs * np.log(determinant) - 0.5 * fit

    middle = 0.5 * math.log(width)
    ranges = [
        (middle - 9, middle + 3),
        (-4 - 3 * math.sqrt(width), 4 + 3 * math.sqrt(width)),
        (middle - 14, middle + 3),
    ]
    for attempt in range(3):
        axes = [np.linspace(*ends, nodes) for ends in ranges]
        logs = log_integrand(axes[0][:, None, None], axes[1][None, :, None], axes[2][None, None, :])
        near = logs > logs.max() - 36
        if attempt < 2:
            for number, axis in enumerate(axes):
                kept = np.flatnonzero(near.any(axis=tuple(k for k in range(3) if k != number)))
                ranges[number] = float(axis[max(kept[0] - 1, 0)]), float(axis[min(kept[-1] + 1, nodes - 1)])
    volume = sum(math.log(axis[1] - axis[0]) for axis in axes)
    norm = 0.5 * math.log(2 * math.pi) + sum(
        float(special.gammaln(0.5 * k)) + (0.5 * k - 1) * math.log(2) for k in (width, width - 1)
    )
    return float(special.logsumexp(logs)) + volume - norm - outputs * math.log(2 * math.pi)
