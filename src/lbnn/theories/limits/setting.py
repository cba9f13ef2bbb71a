"""A network and data as the limit theories need them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lbnn._base.types import Array
from lbnn.data.spectrum import Spectrum
from lbnn.likelihood.gaussian import GaussianLikelihood
from lbnn.network import Network
from lbnn.noise.independent import IndependentNoise
from lbnn.predict.conditional import ConditionalProcess
from lbnn.theories.limits.wide_prior import WidePrior


@dataclass(frozen=True)
class Setting:
    """A network and its data; the first layer's variance is in the spectrum."""

    network: Network
    spectrum: Spectrum
    noise_variance: float

    @property
    def widths(self) -> tuple[int, ...]:
        """n_1..n_{d−1}."""
        return self.network.widths

    @property
    def variances(self) -> tuple[float, ...]:
        """σ_2²..σ_d²."""
        return self.network.prior_variances[1:]

    @property
    def variance(self) -> float:
        """v = Π σ_ℓ² over the layers in L."""
        return float(np.prod(self.variances))

    @property
    def process(self) -> ConditionalProcess:
        """The Gaussian process given a scale."""
        return ConditionalProcess(self.spectrum.eigenvalues, self.spectrum.targets, self.noise_variance)

    @property
    def likelihood(self) -> GaussianLikelihood:
        """log p(Y | L)."""
        return IndependentNoise(self.noise_variance).likelihood(self.spectrum)

    @property
    def wide_prior(self) -> WidePrior:
        """The rate of the scale's prior."""
        return WidePrior(self.widths, self.variance)

    @property
    def target_square(self) -> Array:
        """S = Yᵀ G_xx⁻¹ Y, (n_d, n_d)."""
        root = self.spectrum.targets / np.sqrt(self.spectrum.eigenvalues)[:, None]
        return root.T @ root

    @property
    def standardised_targets(self) -> Array:
        """Targets over the root of their prior variance, ỹ_ij/√(g_i + τ/v), (r, n_d)."""
        return (
            self.spectrum.targets
            / np.sqrt(self.spectrum.eigenvalues + self.noise_variance / self.variance)[:, None]
        )

    def log_likelihood(self, scale: Array) -> float:
        """log p(Y | L) for a scale (n_d, n_d)."""
        values, vectors = np.linalg.eigh(scale[None])
        return self.likelihood.log_constant + float(self.likelihood.log_value(values, vectors)[0])
