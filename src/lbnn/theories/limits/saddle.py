"""The saddle point of the prior's rate + log likelihood over positive definite matrices."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import optimize
from scipy.sparse import linalg

from lbnn._base.types import Array
from lbnn.likelihood.root import RootLikelihood
from lbnn.theories.limits.wide_prior import WidePrior

#: Largest derivative left over, relative to the number of hidden units. Rounding leaves up to
#: 2e-16 times the condition number of L.
TOLERANCE = 1e-8
_DIFFERENCE = 1e-5  # of differences of the gradient along a direction
_MOST_NEWTON_STEPS = 20
_MOST_SEARCHES = 50  # each ends higher than the last; one or two were enough in 200 hostile problems
_SCAN_STEP = 0.25  # of log l: the log likelihood is a sum of logistic curves of log l, whose width is one
_SMALLEST_GAIN = 1e-6  # of Φ: above its rounding, and maxima this close in height have the same weight


@dataclass(frozen=True)
class LogScaleObjective:
    """Φ(L) = Σ_j ψ(l_j) + log p(Y | L) as a function of the symmetric matrix H = log L."""

    prior: WidePrior
    likelihood: RootLikelihood  # of L, or of the hidden kernel in the dual problem
    size: int

    @property
    def strength(self) -> float:
        """Number of hidden units, in whose units derivatives are judged."""
        return float(sum(self.prior.widths))

    def value_and_gradient(self, coordinates: Array) -> tuple[float, Array]:
        """Φ and its derivative in the coordinates (k,) of H.

        dL = V [Λ ∘ (Vᵀ dH V)] Vᵀ with the divided differences Λ_jk of the exponential (Daleckii and Krein).
        """
        logs, vectors = np.linalg.eigh(self.matrix(coordinates))
        values = np.exp(logs)
        roots = np.sqrt(values)
        value, gradient = self.likelihood.value_and_gradient((vectors * roots)[None])
        inner = vectors.T @ gradient[0] / (2 * roots)  # ∂/∂F = 2 (∂/∂L) F at F = V diag(√l)
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


#: For l (n,), V (n, n) and a grid (k,): the change (k, n) of the log likelihood at V diag(l) Vᵀ where one l_j
#: takes each value of the grid and the others stay.
ChangeAlongAxes = Callable[[Array, Array, Array], Array]


def find_saddle(
    prior: WidePrior,
    likelihood: RootLikelihood,
    change: ChangeAlongAxes,
    log_range: tuple[float, float],
    axes: Array,
) -> Array:
    """The L (n, n) that maximises Φ: quasi-Newton, then Newton to rounding, and a scan of each eigenvalue.

    Φ may have several maxima: a direction of the targets is fitted, or left to the noise. Where moving one
    eigenvalue leads higher, the search goes on from there.

    Parameters
    ----------
    prior, likelihood, change
        ψ, log p(Y | L) and its change along axes.
    log_range : tuple of float
        Logarithms between which eigenvalues are scanned.
    axes : (n, n)
        Eigenvectors to begin with.
    """
    objective = LogScaleObjective(prior, likelihood, len(axes))
    grid = np.exp(np.arange(log_range[0], log_range[1] + _SCAN_STEP, _SCAN_STEP))
    values, vectors = np.full(len(axes), prior.variance), axes
    for search in range(_MOST_SEARCHES):
        moved = _highest_on_axes(prior, change, grid, values, vectors)
        if search and (moved == values).all():
            return (vectors * values) @ vectors.T
        logs, vectors = np.linalg.eigh(_stationary_near(objective, (vectors * np.log(moved)) @ vectors.T))
        values = np.exp(logs)
    raise ArithmeticError(
        f"the highest saddle point must be found in {_MOST_SEARCHES} searches, got a higher point after each"
    )


def _highest_on_axes(
    prior: WidePrior, change: ChangeAlongAxes, grid: Array, values: Array, vectors: Array
) -> Array:
    """Eigenvalues (n,) from which no move of one of them to the grid (k,) leads higher."""
    while True:
        gains = (prior.rate(grid)[:, None] - prior.rate(values)) + change(values, vectors, grid)
        place, axis = np.unravel_index(gains.argmax(), gains.shape)
        if not gains[place, axis] > _SMALLEST_GAIN:
            return values
        values = np.where(np.arange(len(values)) == axis, grid[place], values)


def _stationary_near(objective: LogScaleObjective, start: Array) -> Array:
    """log L (n, n) at the maximum of Φ that a search from another log L (n, n) ends in."""
    strength = objective.strength

    def loss(u: Array) -> tuple[float, Array]:
        """The negative objective and its gradient at u (k,), in units of the strength."""
        value, gradient = objective.value_and_gradient(u)
        return -value / strength, -gradient / strength

    near = optimize.minimize(loss, objective.coordinates(start), jac=True, method="L-BFGS-B").x
    best = _newton(lambda u: loss(u)[1], near)
    residual = float(np.abs(objective.value_and_gradient(best)[1]).max()) / strength
    if not residual < TOLERANCE:
        raise ArithmeticError(f"the saddle point must be stationary to {TOLERANCE:g}, got {residual:.2g}")
    return objective.matrix(best)


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
