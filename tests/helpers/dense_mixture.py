"""One output by brute force: a fine uniform grid in log λ and dense linear algebra at every node.

Shares with the library the prior density of λ only (which has references of its own): no eigenbasis, no
adapted nodes, and a grid that reaches far beyond where the posterior has mass.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy import special

import lbnn
from lbnn.scale.gamma_product import GammaProduct
from tests.helpers.problems import Array, Problem


class DenseMixture:
    """Posterior mixture over λ at the test points of `data`; β = 0 is the prior, β = ∞ zero temperature."""

    def __init__(self, network: lbnn.Network, data: Problem, beta: float, *, step: float = 0.02) -> None:
        self.x = np.arange(-90.0, 30.0, step)
        scales, first = np.exp(self.x)[:, None, None], network.prior_variances[0]
        gram, cross, test_gram = first * data.gram, first * data.cross, first * data.test_gram
        log_prior = network.scale_prior(1).log_density(scales[:, 0, 0]) + self.x + math.log(step)
        if beta == 0:
            self.log_evidence, self.log_weights = -math.inf, log_prior
            self.means, self.covariances = np.zeros((len(scales), len(test_gram))), scales * test_gram
            return
        noisy = scales * gram + np.eye(len(gram)) / beta
        solved = np.linalg.solve(noisy, np.concatenate([data.columns, cross], axis=1))
        log_terms = log_prior + _log_gaussian(
            data.Y @ solved[..., 0].T, np.linalg.slogdet(noisy)[1], len(gram)
        )
        self.log_evidence = float(special.logsumexp(log_terms))
        self.log_weights = log_terms - self.log_evidence
        self.means = scales[:, 0] * (solved[..., 0] @ cross)
        self.covariances = scales * test_gram - scales**2 * (cross.T @ solved[..., 1:])

    @property
    def weights(self) -> Array:
        return np.exp(self.log_weights)

    def log_density(self, F: Array, noise: float = 0.0) -> float:
        """Log Σ_s w_s N(F; μ_s, Σ_s + noise)."""
        covariances = self.covariances + noise * np.eye(len(F))
        rest = F - self.means
        quadratic = np.einsum("si,si->s", rest, np.linalg.solve(covariances, rest[..., None])[..., 0])
        log_det = np.linalg.slogdet(covariances)[1]
        return float(special.logsumexp(self.log_weights + _log_gaussian(quadratic, log_det, len(F))))

    def log_distribution(self, q: float, point: int, noise: float = 0.0) -> tuple[float, float]:
        """Log P(F ≤ q) and log P(F > q) at one point."""
        deviations = np.sqrt(self.covariances[:, point, point] + noise)
        scores = (q - self.means[:, point]) / deviations
        tails = [special.logsumexp(self.log_weights + special.log_ndtr(sign * scores)) for sign in (1, -1)]
        return float(tails[0]), float(tails[1])

    def distribution_along(self, direction: Array, values: Array, noise: float = 0.0) -> Array:
        """P(direction · F ≤ v) for every v of `values`."""
        relevant = self.log_weights > -30
        means = self.means[relevant] @ direction
        variances = np.einsum("i,sij,j->s", direction, self.covariances[relevant], direction)
        deviations = np.sqrt(variances + noise * direction @ direction)
        return special.ndtr((values[:, None] - means) / deviations) @ self.weights[relevant]

    def characteristic(self, J: Array) -> complex:
        """Σ_s w_s exp(i Jᵀμ_s − ½ JᵀΣ_s J)."""
        return complex(np.sum(self.weights * np.exp(1j * self.means @ J - 0.5 * self._quadratic(J))))

    def log_generating_function(self, J: Array) -> float:
        """Log Σ_s w_s exp(Jᵀμ_s + ½ JᵀΣ_s J)."""
        return float(special.logsumexp(self.log_weights + self.means @ J + 0.5 * self._quadratic(J)))

    def _quadratic(self, J: Array) -> Array:
        return np.einsum("i,sij,j->s", J, self.covariances, J)


def _log_gaussian(quadratic: Array, log_det: Array, size: int) -> Array:
    return -0.5 * (quadratic + log_det + size * math.log(2 * math.pi))


def log_evidence_by_mellin(widths: Sequence[int], variance: float, gram: Array, y: Array) -> float:
    """Zero temperature without quadrature: S = yᵀG⁻¹y = λ χ²(p), a product with one more factor of width p.

    p(y) = (2π)^{−p/2} |G|^{−1/2} E λ^{−p/2} e^{−S/2λ}, and the density of S is S^{p/2−1} / (2^{p/2} Γ(p/2))
    times the same expectation; so with π the density of log(S/p),

        log p(y) = log π(log S/p) + log Γ(p/2) − (p/2) log(π S) − ½ log |G|.
    """
    p, S = len(y), float(y @ np.linalg.solve(gram, y))
    law = GammaProduct((*widths, p), variance)
    log_density = float(law.log_density(np.array([math.log(S / p)]))[0])
    log_det = float(np.linalg.slogdet(gram)[1])
    return log_density + float(special.gammaln(p / 2)) - 0.5 * p * math.log(math.pi * S) - 0.5 * log_det
