"""A network and data as the limit theories need them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from lbnn._base.types import Array
from lbnn.data.spectrum import Spectrum
from lbnn.likelihood.gaussian import GaussianLikelihood
from lbnn.network import Network
from lbnn.noise.noise import Noise
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
        return Noise.independent(self.noise_variance).likelihood(self.spectrum)

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

    def log_scale_range(self) -> tuple[float, float]:
        """Logarithms between which every maximum of prior and likelihood lies, at a finite temperature.

        In log l of one direction the slope of the likelihood is between −½ n_d Σ_i g_i l/τ and
        ½ Σ_ij ỹ_ij²/(g_i l). That of the prior is larger: than the first below the lower end, than the second
        above the upper end.
        """
        prior, values = self.wide_prior, self.spectrum.eigenvalues
        low = self.variance * 2.0 ** -len(self.widths)
        pull = 2 * self.spectrum.outputs * float(values.sum()) / self.noise_variance
        squares = np.array([(self.spectrum.targets**2 / values[:, None]).sum()])
        high = max(float(prior.stationary(squares, 0.0)[0]), self.variance)
        return math.log(low / max(1.0, low * pull / min(self.widths))), math.log(high)

    def change_along_axes(self, values: Array, vectors: Array, grid: Array) -> Array:
        """The change (k, n_d) of log p(Y | L) where one eigenvalue of L takes each value of a grid (k,).

        In fixed axes, the eigenvectors (n_d, n_d), the likelihood is a product over them; eigenvalues (n_d,).
        """
        squares = (self.spectrum.targets @ vectors) ** 2

        def terms(scales: Array) -> Array:
            """log p of every axis, (..., n_d), for scales that broadcast with (n_d,)."""
            variances = self.noise_variance + self.spectrum.eigenvalues[:, None] * scales[..., None, :]
            return -0.5 * (np.log(variances) + squares / variances).sum(axis=-2)

        return terms(grid[:, None]) - terms(values)

    def log_likelihood(self, scale: Array) -> float:
        """log p(Y | L) for a scale (n_d, n_d)."""
        values, vectors = np.linalg.eigh(scale[None])
        return self.likelihood.log_constant + float(self.likelihood.log_value(values, vectors)[0])
