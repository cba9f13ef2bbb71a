"""The saddle point of the prior's rate + log likelihood over positive definite matrices."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy import optimize
from scipy.sparse import linalg

from lbnn._base.types import Array
from lbnn.theories.limits.wide_prior import WidePrior

#: Largest derivative left over, relative to the number of units and examples. Rounding leaves up to
#: 2e-16 times the condition number of L.
TOLERANCE = 1e-8
_DIFFERENCE = 1e-5  # of differences of the gradient along a direction
_MOST_NEWTON_STEPS = 20


class Likelihood(Protocol):
    """A log likelihood with its gradient: of L, or of the hidden kernel in the dual problem."""

    def value_and_gradient(self, eigenvalues: Array, vectors: Array) -> tuple[Array, Array]:
        """Values (m,) and gradients (m, n, n) at V diag(l) Vᵀ."""
        ...


@dataclass(frozen=True)
class LogScaleObjective:
    """Φ(L) = Σ_j ψ(l_j) + log p(Y | L) as a function of the symmetric matrix H = log L."""

    prior: WidePrior
    likelihood: Likelihood
    size: int

    def value_and_gradient(self, coordinates: Array) -> tuple[float, Array]:
        """Φ and its derivative in the coordinates (k,) of H.

        dL = V [Λ ∘ (Vᵀ dH V)] Vᵀ with the divided differences Λ_jk of the exponential (Daleckii and Krein).
        """
        logs, vectors = np.linalg.eigh(self.matrix(coordinates))
        values = np.exp(logs)
        value, gradient = self.likelihood.value_and_gradient(values[None], vectors[None])
        inner = vectors.T @ gradient[0] @ vectors
        inner[np.diag_indices(self.size)] += self.prior.log_slope(values) / values
        slope = vectors @ (inner * _divided_differences(logs)) @ vectors.T
        return float(self.prior.rate(values).sum() + value[0]), self.coordinates(slope)

    def matrix(self, coordinates: Array) -> Array:
        """H (n, n) from its lower triangle; off-diagonal entries count √2, so that lengths agree."""
        matrix = np.zeros((self.size, self.size))
        matrix[np.tril_indices(self.size)] = coordinates
        return np.diag(np.diagonal(matrix)) + (np.tril(matrix, -1) + np.tril(matrix, -1).T) / np.sqrt(2)

    def coordinates(self, matrix: Array) -> Array:
        """The lower triangle (k,) of a symmetric matrix (n, n), off-diagonal entries times √2."""
        scaled = np.sqrt(2) * matrix
        scaled[np.diag_indices(self.size)] /= np.sqrt(2)
        return scaled[np.tril_indices(self.size)]


def find_saddle(prior: WidePrior, likelihood: Likelihood, standardised: Array, count: int) -> Array:
    """The L (n, n) that maximises Φ: quasi-Newton, then Newton to rounding.

    Parameters
    ----------
    prior, likelihood
        ψ and log p(Y | L).
    standardised : (n, any)
        Targets over the root of their prior variance, A: A Aᵀ stands for S in a first guess.
    count : int
        The likelihood falls as l^{−count/2} in each eigenvalue: examples, or outputs in the dual problem.
    """
    start = _first_guess(prior, standardised, count)
    objective = LogScaleObjective(prior, likelihood, len(start))
    strength = float(sum(prior.widths) + count)

    def loss(u: Array) -> tuple[float, Array]:
        """The negative objective and its gradient at u (k,), in units of the strength."""
        value, gradient = objective.value_and_gradient(u)
        return -value / strength, -gradient / strength

    near = optimize.minimize(loss, objective.coordinates(start), jac=True, method="L-BFGS-B").x
    best = _newton(lambda u: loss(u)[1], near)
    residual = float(np.abs(objective.value_and_gradient(best)[1]).max()) / strength
    if not residual < TOLERANCE:
        raise ArithmeticError(f"the saddle point must be stationary to {TOLERANCE:g}, got {residual:.2g}")
    logs, vectors = np.linalg.eigh(objective.matrix(best))
    return (vectors * np.exp(logs)) @ vectors.T


def _first_guess(prior: WidePrior, standardised: Array, count: int) -> Array:
    """log L (n, n) at zero temperature, with `count` kept below every width so that it exists."""
    vectors, singular, _ = np.linalg.svd(standardised)
    squares = np.zeros(len(standardised))
    squares[: len(singular)] = singular**2
    values = prior.stationary(squares, min(count, 0.9 * min(prior.widths)))
    return (vectors * np.log(values)) @ vectors.T


def _newton(gradient: Callable[[Array], Array], point: Array) -> Array:
    """Newton's steps from a point (k,) while they help.

    Each step by conjugate gradients on differences of the gradient.
    """
    slope = gradient(point)
    for _ in range(_MOST_NEWTON_STEPS):

        def curvature(direction: Array, at: Array = point, here: Array = slope) -> Array:
            """The curvature times a direction (k,)."""
            length = float(np.linalg.norm(direction)) or 1.0
            return (gradient(at + _DIFFERENCE / length * direction) - here) * (length / _DIFFERENCE)

        size = len(point)
        operator = linalg.LinearOperator((size, size), matvec=curvature, dtype=np.float64)
        next_point = point - linalg.cg(operator, slope, rtol=1e-6)[0]
        next_slope = gradient(next_point)
        if not np.abs(next_slope).max() < 0.5 * np.abs(slope).max():
            break
        point, slope = next_point, next_slope
    return point


def _divided_differences(logs: Array) -> Array:
    """(e^a − e^b)/(a − b) = e^{(a+b)/2} sinh(δ)/δ, δ = (a − b)/2, for all pairs of logs (n,), (n, n)."""
    half = (logs[:, None] - logs) / 2
    ratio = np.ones_like(half)
    np.divide(np.sinh(half), half, out=ratio, where=np.abs(half) > 1e-8)
    return np.exp((logs[:, None] + logs) / 2) * ratio
