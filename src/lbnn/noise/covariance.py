"""Noise of any covariance Σ = Q diag(1/β) Qᵀ: in the axes Q of the noise a noise variance for each output.

The prior of the network does not change under rotations of the outputs. So the targets Y Q have noise that is
independent across outputs, and their scale Qᵀ L Q has the prior of L: likelihood and predictions are those of
`per_output` in these axes, with evidences that are those of Y, as |det Q| = 1. The scale and the outputs are
turned back by Q.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from lbnn._base import check
from lbnn._base.types import Array
from lbnn.data.spectrum import Spectrum
from lbnn.likelihood.plain import PlainLikelihood
from lbnn.noise.kind import Noise, targets_outside
from lbnn.noise.per_output import LinearImage, PerOutputNoise
from lbnn.scale.measure import ScaleMeasure

_SMALLEST = 1e-12  # relative eigenvalue of a noise covariance that is called singular


@dataclass(frozen=True, repr=False)
class NoiseCovariance(PerOutputNoise):
    """Noise of a covariance that is given; `betas` and `residuals` are along its axes."""

    axes: Array  # Q, (n_d, n_d), orthonormal columns

    kind: ClassVar[str] = "free"

    @property
    def root(self) -> Array:
        """Q diag(1/√β), (n_d, n_d)."""
        return self.axes * self.deviations

    def in_units(self, spectrum: Spectrum) -> Spectrum:
        """Y Q D."""
        return super().in_units(spectrum.turned(self.axes))

    def with_rows(self, spectrum: Spectrum) -> PerOutputNoise:
        return super().with_rows(spectrum.turned(self.axes))

    def plain_likelihood(self, spectrum: Spectrum) -> PlainLikelihood:
        """Rows of the covariance diag(1/β) + g QᵀLQ."""
        return super().plain_likelihood(spectrum.turned(self.axes))

    def scale_of_outputs(self, measure: ScaleMeasure, depth: int) -> ScaleMeasure:
        """The law of L for that of QᵀLQ."""
        law = None if measure.law is None else LinearImage(measure.law, self.axes, depth)
        return replace(measure, scales=self.axes @ measure.scales @ self.axes.T, law=law)

    def packed(self) -> tuple[dict[str, Any], dict[str, Array]]:
        header, arrays = super().packed()
        return header, arrays | {"noise.axes": self.axes}

    @classmethod
    def unpacked(cls, header: dict[str, Any], arrays: dict[str, Array]) -> NoiseCovariance:
        alone, axes = PerOutputNoise.unpacked(header, arrays), arrays["noise.axes"]
        if axes.shape != 2 * alone.betas.shape or not np.allclose(axes.T @ axes, np.eye(len(axes))):
            raise ValueError(f"axes of the noise must be orthonormal, got an array of shape {axes.shape}")
        return cls(alone.betas, alone.residuals, axes)

    @classmethod
    def of(cls, beta: Any, spectrum: Spectrum) -> Noise:
        """A kind of noise that has no beta."""
        raise ValueError(
            "noise='free' is given by noise_covariance or noise_network, which condition and condition_gram "
            f"take, got beta={beta!r} alone"
        )

    @classmethod
    def given(cls, noise_covariance: Any, spectrum: Spectrum) -> Noise:
        """Noise of the covariance (n_d, n_d); where it is diagonal, that of `PerOutputNoise.of`."""
        matrix = checked_covariance(noise_covariance, spectrum.outputs)
        if not np.any(matrix - np.diag(np.diagonal(matrix))):
            return PerOutputNoise.of(1 / np.diagonal(matrix), spectrum)
        values, axes = np.linalg.eigh(matrix)
        residuals = (targets_outside(spectrum.turned(axes), cls.kind) ** 2).sum(axis=0)
        return cls(1 / values, residuals, axes)


def checked_covariance(noise_covariance: Any, outputs: int) -> Array:
    """A covariance (n_d, n_d), if it is positive definite."""
    matrix = check.real_array(noise_covariance, "noise_covariance")
    if matrix.shape != (outputs, outputs) or not np.allclose(matrix, matrix.T, rtol=1e-10, atol=0):
        raise ValueError(
            f"noise_covariance must be a symmetric ({outputs}, {outputs}) matrix, got shape {matrix.shape}"
        )
    values = np.linalg.eigvalsh(matrix)
    if not values[0] > _SMALLEST * values[-1]:
        raise ValueError(
            "noise_covariance must be positive definite, got smallest and largest eigenvalues "
            f"{values[0]:.3g} and {values[-1]:.3g}: leave out outputs that others determine"
        )
    return matrix
