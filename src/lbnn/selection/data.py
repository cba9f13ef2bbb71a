"""The data of the search, and the log likelihood given a scale as a function of the hyperparameters.

Outputs are whitened by the units u_j of their noise: Y_w = Y diag(u)^{−½} = F + noise of variance τ, F a
network of prior scale κ. With finite noise τ = 1 and u_j is the noise variance of output j; without noise
τ = 0 and the units are fixed. In the eigenbases of G and L, with z = ỹ_w V and D_ij = τ + κ g_i l_j,

    f(h; L) = −½ Σ_ij [log D_ij + z_ij²/D_ij] − ½ Σ_j residual_j/u_j − (p/2) Σ_j log u_j + constant,

the last sum the Jacobian of the whitening. The hyperparameters are h = (log u_1, ..., log u_{n_d}, log κ).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from lbnn._base.blocks import blocks
from lbnn._base.types import Array
from lbnn.data.spectrum import Spectrum
from lbnn.likelihood.gaussian import GaussianLikelihood
from lbnn.noise.independent import IndependentNoise
from lbnn.noise.kind import Noise


@dataclass(frozen=True)
class EvidenceData:
    """Centred data after their one eigendecomposition; every candidate is computed from them."""

    spectrum: Spectrum
    outside: Array  # rows with the moments of the targets outside the range of G, (≤ n_d, n_d)
    noise_variance: float = 1.0  # τ in whitened units: 1, or 0 without noise
    #: Maxima at infinite width that `gaussian_process` has found, by `NoiseSpec`: kinds of noise share them.
    found: dict[Any, Any] = field(init=False, default_factory=dict, repr=False, compare=False)

    @property
    def outputs(self) -> int:
        """n_d."""
        return self.spectrum.outputs

    @cached_property
    def residuals(self) -> Array:
        """Squared norm of each output outside the range of G, (n_d,)."""
        return (self.outside**2).sum(axis=0)

    def whitened(self, h: Array) -> Spectrum:
        """The data in units of the noise at h (n_d + 1,); no new eigendecomposition."""
        units = np.exp(h[:-1])
        residual, roots = float((self.residuals / units).sum()), np.sqrt(units)
        return self.spectrum.with_scaled_targets(
            1 / roots, self.spectrum.targets / roots, residual, self.outside / np.exp(h[:-1] / 2)
        )

    def noise_at(self, h: Array) -> Noise:
        """The noise of whitened data, at h (n_d + 1,)."""
        return IndependentNoise(self.noise_variance)

    def log_jacobian(self, h: Array) -> float:
        """−(p/2) Σ_j log u_j at h (n_d + 1,), from densities of whitened targets to those of targets."""
        return -0.5 * self.spectrum.examples * float(h[:-1].sum())

    def likelihood(self, h: Array) -> GaussianLikelihood:
        """log p(Y_w | L) at h (n_d + 1,), with the prior scale in the eigenvalues of G."""
        data = self.whitened(h)
        eigenvalues = math.exp(h[-1]) * data.eigenvalues
        return GaussianLikelihood(
            eigenvalues,
            data.targets,
            data.residual,
            data.examples,
            self.noise_variance,
            gauss_rule=data.gauss_rule and data.gauss_rule.scaled(math.exp(h[-1])),
            log_jacobian=data.log_jacobian,
        )

    def slopes(self, h: Array, scale_values: Array, vectors: Array) -> Array:
        """∂f/∂h at scales V diag(l) Vᵀ: l (m, k), V (m, n_d, k) -> (m, n_d + 1); k < n_d needs noise.

        By Fisher's identity their average over the posterior of L is the gradient of the log evidence. The
        targets outside of V have the variance τ.
        """
        likelihood, result = self.likelihood(h), np.empty((len(scale_values), self.outputs + 1))
        outside, thin = self._slopes_outside(h), vectors.shape[2] < self.outputs
        all_noise = 0.5 * (likelihood.targets**2).sum(axis=0) / self.noise_variance if thin else 0.0
        for block in blocks(len(result), likelihood.targets.size):
            signal = likelihood.eigenvalues[:, None] * scale_values[block, None, :]
            variance = self.noise_variance + signal
            rotated = likelihood.targets @ vectors[block]
            fit = rotated / variance
            if thin:
                fitted = rotated * signal / variance / self.noise_variance  # z/τ − z/D
                by_unit = all_noise - 0.5 * (vectors[block] * (likelihood.targets.T @ fitted)).sum(2)
            else:
                by_unit = 0.5 * (vectors[block] * (likelihood.targets.T @ fit)).sum(2)
            by_scale = -0.5 * (signal / variance * (1 - rotated * fit)).sum((1, 2))
            result[block] = np.column_stack([by_unit + outside, by_scale])
        return result

    def dual_slopes(self, h: Array, kernels: Array) -> Array:
        """∂f/∂h given the hidden kernel Λ (m, r, r) instead of L, (m, n_d + 1); for finite noise.

        See `likelihood.hidden_kernel`. With M = (diag(√κg) Λ diag(√κg) + τ)⁻¹, f is ½ n_d log det M −
        ½ tr M ỹỹᵀ plus terms without Λ.
        """
        likelihood, result = self.likelihood(h), np.empty((len(kernels), self.outputs + 1))
        root, identity = np.sqrt(likelihood.eigenvalues), np.eye(len(likelihood.eigenvalues))
        for block in blocks(len(result), 4 * identity.size):
            inverse = np.linalg.inv(root[:, None] * kernels[block] * root + self.noise_variance * identity)
            fit = inverse @ likelihood.targets
            misfit = (likelihood.targets * fit).sum(1)
            taken = len(root) - self.noise_variance * np.trace(inverse, axis1=1, axis2=2)
            by_scale = misfit.sum(1) - self.noise_variance * (fit**2).sum((1, 2)) - self.outputs * taken
            result[block] = np.column_stack([0.5 * misfit + self._slopes_outside(h), 0.5 * by_scale])
        return result

    def _slopes_outside(self, h: Array) -> Array:
        """∂f/∂log u_j of the terms without L: the Jacobian and the targets outside the range of G, (n_d,)."""
        seen = 0.5 * self.residuals / np.exp(h[:-1]) if self.noise_variance else np.zeros(self.outputs)
        return seen - 0.5 * self.spectrum.examples
