"""Theories that put all mass on one scale matrix; predictor and kernels are those of any measure of L."""

from __future__ import annotations

import numpy as np

from lbnn._base.types import Array
from lbnn.data.projection import Projection
from lbnn.engines.laws import FactorLaw
from lbnn.predict.feature_kernel import average_feature_kernel, average_layer_kernel
from lbnn.predict.predictive import Predictive
from lbnn.predict.process import Process
from lbnn.scale.draws import Draws
from lbnn.scale.measure import Exponent, ScaleMeasure
from lbnn.theories.limits.setting import Setting
from lbnn.theories.limits.theory import PredictiveOf, Theory


class AlignedLaw(FactorLaw):
    """One atom with its Bartlett factors T_ℓ = V diag(√c_ℓ) Vᵀ, which share the eigenvectors V of L."""

    def log_expect_exp(self, log_factor: Exponent) -> complex:
        """The value at the atom: nothing is averaged."""
        return complex(log_factor(*self.atoms.eigen)[0])


def from_scale(
    name: str, setting: Setting, scale: Array, log_evidence: float | None, *, aligned: bool
) -> Theory:
    """The theory with all mass on one scale (n_d, n_d).

    `aligned` if every layer's C_ℓ follows from it by `WidePrior`.
    """
    measure = ScaleMeasure.atom(scale, setting.spectrum.single_output)
    if aligned:
        measure = measure._with_law(_aligned_law(setting, measure))

    def kernel_at(projection: Projection, layer: int) -> Array:
        """⟨K_ℓ⟩, (p̂, p̂)."""
        return average_layer_kernel(
            projection, setting.process, measure, setting.widths, setting.variances, layer
        )

    layers = len(setting.widths) if aligned else 1
    return Theory(
        name, setting.spectrum, measure, log_evidence, layers, kernel_at, _predictive(setting, measure)
    )


def at_infinite_width(name: str, setting: Setting, log_evidence: float) -> Theory:
    """L = v I, and to first order in 1/n ⟨K_ℓ⟩ = v_ℓ [G + Δ_v Σ_{k≤ℓ} 1/n_k] (eqn:37 for ℓ = 1).

    Every layer up to ℓ adds the same correction, so that the ℓ layers act as one of harmonic width.
    """
    scale = setting.variance * np.eye(setting.spectrum.outputs)
    measure = ScaleMeasure.atom(scale, setting.spectrum.single_output)

    def kernel_at(projection: Projection, layer: int) -> Array:
        """⟨K_ℓ⟩ (p̂, p̂) to first order in 1/n."""
        harmonic = 1 / sum(1 / width for width in setting.widths[:layer])
        gain = float(np.prod(setting.variances[: layer - 1]))
        return gain * average_feature_kernel(projection, setting.process, measure, harmonic)

    predictive = _predictive(setting, measure)
    return Theory(name, setting.spectrum, measure, log_evidence, len(setting.widths), kernel_at, predictive)


def _predictive(setting: Setting, measure: ScaleMeasure) -> PredictiveOf:
    spectrum = setting.spectrum
    draws = Draws.of(measure, setting.noise_variance)
    process = Process.of(draws, spectrum.eigenvalues, spectrum.targets)
    return lambda projection: Predictive.of(process, projection, spectrum.single_output)


def _aligned_law(setting: Setting, measure: ScaleMeasure) -> AlignedLaw:
    values, vectors = measure.eigen
    roots = np.sqrt(
        setting.wide_prior.layer_values(values) * np.asarray(setting.variances)
    )  # (1, n_d, layers)
    factors = [
        (vectors * roots[:, None, :, layer]) @ vectors.swapaxes(1, 2)
        for layer in reversed(range(len(setting.widths)))
    ]
    return AlignedLaw(measure.weights, measure.scales, factors)
