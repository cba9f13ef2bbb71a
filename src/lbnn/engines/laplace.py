"""Gaussian approximation of the posterior in Bartlett coordinates: mode and curvature."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import optimize

from lbnn._base.types import Array
from lbnn.engines.target import Target

LARGEST_CURVATURE = 1500  # dimensions above which a dense Hessian costs more than it brings
_WIDEST = 2.0  # standard deviation allowed in a direction; the prior's is one
_DIFFERENCE = 1e-4
# The posterior is skewed and its tails are broader than the Gaussian's. Widening every direction by this over
# √D costs a quarter of the effective draws of a Gaussian target in any dimension D, and gains several times
# as many of the actual ones; without it, errors in narrow networks were understated.
_INFLATION = 0.5


@dataclass(frozen=True)
class GaussianProposal:
    """N(mean, root rootᵀ): a centre and a linear map from white coordinates ξ to u."""

    mean: Array  # (D,)
    root: Array | None  # (D, D), None for the identity
    log_determinant: float  # log |det root|

    def place(self, white: Array) -> Array:
        """From white coordinates ξ to u = mean + root ξ, (m, D)."""
        return self.mean + (white if self.root is None else white @ self.root.T)

    def whiten(self, u: Array) -> Array:
        """From u to white coordinates ξ = root⁻¹ (u − mean), (m, D)."""
        centred = u - self.mean
        return centred if self._inverse_root is None else centred @ self._inverse_root.T

    def pull_back(self, gradient: Array) -> Array:
        """Gradient in ξ from the gradient in u, (m, D)."""
        return gradient if self.root is None else gradient @ self.root

    @cached_property
    def _inverse_root(self) -> Array | None:
        return None if self.root is None else np.asarray(np.linalg.inv(self.root), float)


def laplace_proposal(target: Target, start: Array | None = None) -> GaussianProposal:
    """The Gaussian at the posterior mode with its curvature; the prior itself in very many dimensions.

    The mode is sought from `start`, by default the centre of the prior.
    """
    begin = np.zeros(target.dimension) if start is None else start
    if target.dimension > LARGEST_CURVATURE:
        return GaussianProposal(begin, None, 0.0)
    mean = find_mode(target, begin)
    values, vectors = np.linalg.eigh(curvature(target, mean))
    inflation = 1 + _INFLATION / np.sqrt(target.dimension)
    deviations = inflation / np.sqrt(np.maximum(values, _WIDEST**-2))
    return GaussianProposal(mean, (vectors * deviations) @ vectors.T, float(np.log(deviations).sum()))


def gaussian_of(points: Array) -> GaussianProposal:
    """The Gaussian with the moments of draws (m, D): their covariance, or its diagonal for few."""
    count, dimension = points.shape
    variance = np.maximum(points.var(axis=0), 1e-6)
    if dimension > LARGEST_CURVATURE or count < 2 * dimension:
        deviations = np.sqrt(variance)
        return GaussianProposal(points.mean(axis=0), np.diag(deviations), float(np.log(deviations).sum()))
    trust = count / (count + 10.0 * dimension)
    covariance = trust * np.atleast_2d(np.cov(points.T)) + (1 - trust) * np.diag(variance)
    root = np.linalg.cholesky(covariance)
    return GaussianProposal(points.mean(axis=0), root, float(np.log(np.diagonal(root)).sum()))


def find_mode(target: Target, start: Array) -> Array:
    """Maximise the log posterior."""

    def negative(u: Array) -> tuple[float, Array]:
        value, gradient = target.value_and_gradient(u[None])
        return -float(value[0]), -gradient[0]

    result = optimize.minimize(negative, start, jac=True, method="L-BFGS-B", options={"maxiter": 2000})
    return result.x


def curvature(target: Target, mean: Array) -> Array:
    """Hessian of the negative log posterior, by central differences of the gradient, (D, D)."""
    steps = _DIFFERENCE * np.eye(target.dimension)
    ahead = target.value_and_gradient(mean + steps)[1]
    behind = target.value_and_gradient(mean - steps)[1]
    hessian = (behind - ahead) / (2 * _DIFFERENCE)
    return (hessian + hessian.T) / 2
