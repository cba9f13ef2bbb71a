"""Scale, predictor and evidence to first order in 1/n: the leading corrections to the Gaussian process.

With v = Σ_ℓ 2/n_ℓ the prior of L is I + δ to first order, with E δ = 0 and

    E δ_ij δ_kl = (v/2)(δ_ik δ_jl + δ_il δ_jk),

the variance v along every orthonormal direction of symmetric matrices. A posterior expectation is then

    E f(L) = f(I) + v [⟨∇f, ∇ℓ⟩ + ½ Δf] + O(v²),   ℓ(L) = log p(Y | L),

with gradient and Laplacian over these directions. For one output this is f(1) + v (f′ℓ′ + ½ f″). With the
shares s_i = g_i/(τ + g_i) of the signal and t_i = 1 − s_i of the noise along every direction i of the data,
the matrices that occur expand as

    g_i L (τ + g_i L)⁻¹ = s_i + t_i s_i (δ − s_i δ²),     τ L (τ + g_i L)⁻¹ = t_i + t_i² (δ − s_i δ²),

and E δ² = (v/2)(n_d + 1) I. Prior variances of the layers in L stand with the eigenvalues g_i.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from lbnn._base.types import Array
from lbnn.data.projection import Projection
from lbnn.predict.dense_part import DensePart
from lbnn.predict.predictive import Predictive
from lbnn.scale.measure import ScaleMeasure
from lbnn.theories.limits.setting import Setting
from lbnn.theories.limits.theory import Theory


@dataclass(frozen=True)
class FirstOrder:
    """The expansion for one network and one data set."""

    setting: Setting

    @property
    def spread(self) -> float:
        """v = Σ_ℓ 2/n_ℓ."""
        return sum(2 / width for width in self.setting.widths)

    @property
    def square(self) -> float:
        """E δ² = (v/2)(n_d + 1), a multiple of the identity."""
        return 0.5 * self.spread * (self.setting.spectrum.outputs + 1)

    @property
    def shares(self) -> tuple[Array, Array]:
        """s_i and t_i = 1 − s_i, (r,) each."""
        if np.isinf(self.setting.noise_variance):
            return np.zeros(len(self._strengths)), np.ones(len(self._strengths))
        total = self.setting.noise_variance + self._strengths
        return self._strengths / total, self.setting.noise_variance / total

    @property
    def _strengths(self) -> Array:
        """Eigenvalues g_i of the Gram matrix times the prior variances in L, (r,)."""
        return self.setting.variance * self.setting.spectrum.eigenvalues

    @property
    def slope(self) -> Array:
        """∇ℓ = ½ Σ_i s_i [ỹ_iᵀỹ_i/(τ + g_i) − I], (n_d, n_d)."""
        signal, _ = self.shares
        targets = self.setting.spectrum.targets
        weights = signal / (self.setting.noise_variance + self._strengths)  # zero where all is noise
        return 0.5 * ((targets.T * weights) @ targets - signal.sum() * np.eye(targets.shape[1]))

    def scale(self) -> Array:
        """E L = v_L (I + v ∇ℓ), (n_d, n_d), v_L the prior variance."""
        outputs = self.setting.spectrum.outputs
        mean = self.setting.variance * (np.eye(outputs) + self.spread * self.slope)
        smallest = float(np.linalg.eigvalsh(mean)[0])
        if smallest <= 0:
            raise ValueError(
                "an expansion in 1/n needs widths for which the mean scale E L is positive definite, got "
                f"widths={self.setting.widths} and a smallest eigenvalue of {smallest:.3g}: the data move "
                "the scale by more than its prior mean; use order=0, or lbnn.asymptotics.proportional"
            )
        return mean

    def log_evidence(self) -> float:
        """ℓ(I) + ½ v (|∇ℓ|² + Δℓ)."""
        spectrum = self.setting.spectrum
        signal, _ = self.shares
        scale = self.setting.variance * np.eye(spectrum.outputs)
        fit = (spectrum.targets**2).sum(axis=1) / (self.setting.noise_variance + self._strengths)
        curvature = self.square * float(signal**2 @ (0.25 * spectrum.outputs - 0.5 * fit))  # ½ v Δℓ
        steepness = 0.5 * self.spread * float((self.slope**2).sum())
        return self.setting.log_likelihood(scale) + steepness + curvature

    def predictive(self, projection: Projection) -> Predictive:
        """The Gaussian law that has mean and covariance of the predictor to first order."""
        spectrum, outputs = self.setting.spectrum, self.setting.spectrum.outputs
        signal, noise = self.shares
        shift = self.spread * self.slope  # of L / v_L
        eye = np.eye(outputs)
        explained = np.asarray(projection.explained)
        reach = explained / np.sqrt(spectrum.eigenvalues)
        # ŷ at L = I; then the coefficients of δ and of −δ² in it, (p̂, n_d) each
        plain, moved, squared = (
            (reach * weight) @ spectrum.targets for weight in (signal, noise * signal, noise * signal**2)
        )
        mean = plain + moved @ shift - self.square * squared
        # E of the covariance given L, R L + Σ_i φ_i φ_iᵀ [t + t² (δ − s δ²)], and the covariance of the mean
        inside = self.setting.variance * explained
        unexplained = self.setting.variance * np.asarray(projection.unexplained_gram)
        isotropic = unexplained + (inside * (noise - self.square * noise**2 * signal)) @ explained.T
        isotropic += 0.5 * self.spread * moved @ moved.T
        coupled = unexplained + (inside * noise**2) @ explained.T
        covariance = (
            isotropic[:, None, :, None] * eye[None, :, None, :]
            + coupled[:, None, :, None] * shift[None, :, None, :]
            + 0.5 * self.spread * moved[:, None, None, :] * moved.T[None, :, :, None]
        )
        single = np.einsum("iaib->iab", covariance)
        smallest = float(np.linalg.eigvalsh(single).min(initial=0.0))
        if smallest < -1e-10 * np.abs(single).max(initial=0.0):  # rounding leaves 1e-15 of the largest
            raise ValueError(
                "an expansion in 1/n needs widths for which variances to first order are positive, got "
                f"widths={self.setting.widths} and a variance of {smallest:.3g}: use order=0"
            )
        part = DensePart(
            np.ones(1),
            mean[None],
            lambda points: single[None, points],
            lambda _: covariance.reshape(mean.size, mean.size),
            self.scale()[None],
            (self.setting.noise_variance, 0.0),
        )
        return Predictive((part,), spectrum.single_output)


def to_first_order(name: str, process: Theory, setting: Setting) -> Theory:
    """The theory at infinite width, with its kernels, and the rest to first order in 1/n."""
    expansion = FirstOrder(setting)
    measure = ScaleMeasure.atom(expansion.scale(), setting.spectrum.single_output)
    return replace(
        process,
        name=name,
        scale=measure,
        log_evidence=expansion.log_evidence(),
        _predictive_at=expansion.predictive,
    )
