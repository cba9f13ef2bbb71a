"""The Gaussian process given one scale: the paper's μ_L and Σ_L in the eigenbasis.

With L = V diag(l) Vᵀ, z = ỹV, noise variance τ = 1/β and test points Φ, R (see `projection`),

    μ_L = Φ M,   M = [√g_i l_j z_ij / (τ + g_i l_j)] Vᵀ,
    Σ_L = R ⊗ L + Σ_i φ_i φ_iᵀ ⊗ V diag_j(s_ij) Vᵀ,   s_ij = l_j / (1 + g_i l_j / τ).

Σ_L is a sum of positive terms, so nothing cancels at training points or at large β.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lbnn._base.types import Array
from lbnn.data.projection import RANK_TOLERANCE


@dataclass(frozen=True)
class ConditionalProcess:
    """Gaussian processes given scales, for one data set and one noise variance."""

    eigenvalues: Array  # g, (r,)
    targets: Array  # ỹ, (r, n_d)
    noise_variance: float  # τ

    @property
    def outputs(self) -> int:
        """n_d."""
        return self.targets.shape[-1]

    def rotated_mean(self, scale_values: Array, scale_vectors: Array) -> Array:
        """M V: the mean's coefficients along the eigenvectors of each scale, (m, r, n_d).

        At zero temperature the gain l_j/(τ + g_i l_j) is 1/g_i even where l_j underflows.
        """
        gain = 1 / self.eigenvalues[:, None]
        if self.noise_variance:
            scale = scale_values[:, None, :]
            gain = scale / (self.noise_variance + self.eigenvalues[:, None] * scale)
        return self.targets @ scale_vectors * (np.sqrt(self.eigenvalues)[:, None] * gain)

    def learned_features(self, scale_values: Array, scale_vectors: Array) -> Array:
        """√(g_i l_j) z_ij / (τ + g_i l_j), (m, r, n_d): what the data teach the first layer.

        At zero temperature directions in which L is singular carry no targets and teach nothing.
        """
        scale = scale_values[:, None, :]
        variance = self.noise_variance + self.eigenvalues[:, None] * scale
        taught = variance > 0
        if self.noise_variance == 0:  # smaller eigenvalues of L count as zero
            taught = scale > RANK_TOLERANCE * scale.shape[2] * scale.max(axis=2, keepdims=True)
        gain = np.divide(
            np.sqrt(self.eigenvalues[:, None] * scale), variance, out=np.zeros_like(variance), where=taught
        )
        return (self.targets @ scale_vectors) * gain

    def shrinkage(self, scale_values: Array) -> Array:
        """1 / (1 + g_i l_j / τ), (m, r, n_d): one at β = 0, zero at zero temperature."""
        if self.noise_variance == 0:
            return np.zeros((len(scale_values), len(self.eigenvalues), scale_values.shape[1]))
        return 1 / (1 + self.eigenvalues[:, None] * scale_values[:, None, :] / self.noise_variance)
