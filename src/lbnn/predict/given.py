"""Predictives given some of the outputs at each point.

A predictive at one point is a mixture of Gaussians over atoms s with weights w_s, means m_s and covariances
C_s across outputs. Given the values y_K of the outputs K there, it is again one, of the other outputs U,
exactly:

    w_s' ∝ w_s N(y_K; m_sK, C_sKK),    mean m_sU + B_s (y_K − m_sK),    covariance C_sUU − B_s C_sKU,

with B_s = C_sUK C_sKK⁻¹: what was measured says which scales are probable as well as where the others are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from lbnn._base.types import Array, IndexArray

LOG_TWO_PI = math.log(2 * math.pi)


@dataclass(frozen=True)
class PointLaw:
    """The mixture of Gaussians of the unknown outputs at one point."""

    unknown: IndexArray  # numbers of the outputs, (u,)
    log_weights: Array  # normalised, (atoms,)
    means: Array  # (atoms, u)
    covariances: Array  # (atoms, u, u)

    @property
    def weights(self) -> Array:
        """(atoms,), which sum to one."""
        return np.exp(self.log_weights)

    @property
    def deviations(self) -> Array:
        """Of the unknown outputs, (atoms, u): zero where the known ones determine them, up to rounding."""
        return np.sqrt(np.maximum(np.diagonal(self.covariances, axis1=1, axis2=2), 0.0))

    @property
    def mean(self) -> Array:
        """(u,), of the unknown outputs."""
        return self.weights @ self.means

    @property
    def covariance(self) -> Array:
        """(u, u), of the unknown outputs."""
        within = np.tensordot(self.weights, self.covariances, axes=1)
        deviations = self.means - self.mean
        return within + np.einsum("s,sj,sk->jk", self.weights, deviations, deviations)


def condition(log_weights: Array, means: Array, covariances: Array, known: Array) -> PointLaw:
    """The mixture (atoms,), (atoms, n_d), (atoms, n_d, n_d) given values (n_d,), NaN where unknown."""
    unknown, given = np.flatnonzero(np.isnan(known)), np.flatnonzero(~np.isnan(known))
    if not len(given) or not len(unknown):
        return PointLaw(unknown, log_weights, means[:, unknown], covariances[:, unknown][:, :, unknown])
    own = covariances[:, given][:, :, given]
    cross = covariances[:, unknown][:, :, given]
    deviation = known[given] - means[:, given]
    gain = np.linalg.solve(own, cross.swapaxes(1, 2)).swapaxes(1, 2)
    log_new = log_weights + log_gaussian(deviation, own)
    return PointLaw(
        unknown,
        log_new - special.logsumexp(log_new),
        means[:, unknown] + (gain @ deviation[:, :, None])[:, :, 0],
        covariances[:, unknown][:, :, unknown] - gain @ cross.swapaxes(1, 2),
    )


def log_gaussian(deviations: Array, covariances: Array) -> Array:
    """log N(deviation; 0, C) for (atoms, k) and (atoms, k, k), (atoms,)."""
    root = np.linalg.cholesky(covariances)
    white = np.linalg.solve(root, deviations[:, :, None])[:, :, 0]
    log_determinant = np.log(np.diagonal(root, axis1=1, axis2=2)).sum(axis=1)
    return -0.5 * (white**2).sum(axis=1) - log_determinant - 0.5 * deviations.shape[1] * LOG_TWO_PI
