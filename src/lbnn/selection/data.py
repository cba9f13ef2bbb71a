"""The data of the search, and the log likelihood given a scale as a function of the hyperparameters.

Outputs are whitened by the units u_j of their noise: Y_w = Y diag(u)^{−½} = F + noise of variance τ, F a
network of prior scale κ. With finite noise τ = 1 and u_j is the noise variance of output j; without noise
τ = 0 and the units are fixed. In the eigenbases of G and L, with z = ỹ_w V and D_ij = τ + κ g_i l_j,

    f(h; L) = −½ Σ_ij [log D_ij + z_ij²/D_ij] − ½ Σ_j residual_j/u_j − (p/2) Σ_j log u_j + constant,

the last sum the Jacobian of the whitening. The hyperparameters are h = (log u_1, ..., log u_{n_d}, log κ).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from lbnn._base.types import Array
from lbnn.data.spectrum import Spectrum
from lbnn.likelihood.gaussian import GaussianLikelihood
from lbnn.likelihood.hidden_kernel import dual
from lbnn.likelihood.root import Gaussian, RootLikelihood, Scatter
from lbnn.noise.noise import Noise


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
        return Noise.independent(self.noise_variance)

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

    def slopes(self, h: Array, roots: Array) -> Array:
        """∂f/∂h at scales F Fᵀ with roots F (m, n_d, k), (m, n_d + 1).

        By Fisher's identity their average over the posterior of L is the gradient of the log evidence. The
        prior scale multiplies L, and the square roots of the units divide the targets.
        """
        own = self.likelihood(h).of_root
        by_unit = own.target_slopes(roots) if isinstance(own, Scatter) else own.target_slopes(roots, 1)
        return self._slopes(h, own, roots, by_unit)

    def dual_slopes(self, h: Array, roots: Array) -> Array:
        """∂f/∂h at hidden kernels F Fᵀ with roots F (m, r, k) instead of L, (m, n_d + 1); needs noise."""
        own = replace(dual(self.likelihood(h)), gauss_rule=None).of_root  # every output is a row
        assert isinstance(own, Gaussian)
        return self._slopes(h, own, roots, own.target_slopes(roots, 2))

    def _slopes(self, h: Array, own: RootLikelihood, roots: Array, by_unit: Array) -> Array:
        """∂f/∂h (m, n_d + 1) from roots (m, n, k) and Σ ỹ ∂/∂ỹ of every output (m, n_d)."""
        by_scale = 0.5 * (roots * own.value_and_gradient(roots)[1]).sum(axis=(1, 2))
        return np.column_stack([self._slopes_outside(h) - 0.5 * by_unit, by_scale])

    def _slopes_outside(self, h: Array) -> Array:
        """∂f/∂log u_j of the terms without L: the Jacobian and the targets outside the range of G, (n_d,)."""
        seen = 0.5 * self.residuals / np.exp(h[:-1]) if self.noise_variance else np.zeros(self.outputs)
        return seen - 0.5 * self.spectrum.examples
