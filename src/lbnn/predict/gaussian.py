"""Densities of Gaussians, and Gaussians given some of their numbers.

A predictive at one point is a mixture of Gaussians over draws s with weights w_s, means m_s and covariances
C_s across outputs. Given the values y_K of the outputs K there it is one, of the other outputs U, exactly:

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
    log_weights: Array  # normalised, (m,)
    means: Array  # (m, u)
    covariances: Array  # (m, u, u)

    @property
    def weights(self) -> Array:
        """(m,), which sum to one."""
        return np.exp(self.log_weights)

    @property
    def deviations(self) -> Array:
        """Of the unknown outputs, (m, u): zero where the known ones determine them, up to rounding."""
        return np.sqrt(np.maximum(np.diagonal(self.covariances, axis1=1, axis2=2), 0.0))

    @property
    def mean(self) -> Array:
        """(u,)."""
        return self.weights @ self.means

    @property
    def covariance(self) -> Array:
        """(u, u)."""
        deviations = self.means - self.mean
        spread = np.einsum("s,sj,sk->jk", self.weights, deviations, deviations)
        return np.tensordot(self.weights, self.covariances, axes=1) + spread


def condition(log_weights: Array, means: Array, covariances: Array, known: Array) -> PointLaw:
    """The mixture (m,), (m, n_d), (m, n_d, n_d) given values (n_d,), NaN where unknown."""
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
    """log N(deviation; 0, C) for (m, k) and (m, k, k), (m,)."""
    root = np.linalg.cholesky(covariances)
    white = np.linalg.solve(root, deviations[:, :, None])[:, :, 0]
    log_determinant = np.log(np.diagonal(root, axis1=1, axis2=2)).sum(axis=1)
    return -0.5 * (white**2).sum(axis=1) - log_determinant - 0.5 * deviations.shape[1] * LOG_TWO_PI


def checked_log_gaussian(deviations: Array, covariances: Array) -> Array:
    """The same, (m,); a ValueError where an output is determined and has no density."""
    try:
        return log_gaussian(deviations, covariances)
    except np.linalg.LinAlgError as error:
        raise ValueError(
            "outputs have a density only where neither the data nor other points determine them, got a "
            "covariance that is singular: use with_noise()"
        ) from error
