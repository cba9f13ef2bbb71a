"""One noise variance for all outputs, 1/β; β = ∞ is zero temperature."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from lbnn._base import check
from lbnn._base.types import Array
from lbnn.data.spectrum import Spectrum
from lbnn.likelihood.existence import require_zero_temperature
from lbnn.likelihood.gaussian import GaussianLikelihood
from lbnn.likelihood.plain import PlainLikelihood
from lbnn.noise.kind import Noise
from lbnn.scale.prior import ScalePrior


@dataclass(frozen=True, repr=False)
class IndependentNoise(Noise):
    """Noise of the covariance τ I, τ = 1/β."""

    tau: float

    kind: ClassVar[str] = "independent"

    @property
    def variance(self) -> float:
        """τ."""
        return self.tau

    def require(self, prior: ScalePrior, spectrum: Spectrum) -> None:
        """Raise at zero temperature unless the network can interpolate these targets."""
        if self.tau == 0:
            require_zero_temperature(prior, spectrum)

    def likelihood(self, spectrum: Spectrum) -> GaussianLikelihood:
        """From the rows of the range of G and the square of the rest."""
        return GaussianLikelihood(
            spectrum.eigenvalues,
            spectrum.targets,
            spectrum.residual,
            spectrum.examples,
            self.tau,
            gauss_rule=spectrum.gauss_rule,
            log_jacobian=spectrum.log_jacobian,
        )

    def plain_likelihood(self, spectrum: Spectrum) -> PlainLikelihood:
        """Rows of the covariance τ + g L; of those outside the range of G the total square is known."""
        outputs = spectrum.outputs
        return PlainLikelihood(
            spectrum.eigenvalues,
            spectrum.targets,
            np.full(outputs, self.tau),
            0.0,
            np.full((1, outputs), math.sqrt(spectrum.residual / outputs)),
            spectrum.examples - spectrum.rank,
            spectrum.log_jacobian,
        )

    def packed(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """See `Noise.packed`."""
        return {"kind": self.kind, "variance": self.tau}, {}

    @classmethod
    def unpacked(cls, header: dict[str, Any], arrays: dict[str, Array]) -> IndependentNoise:
        variance = float(header["variance"])
        if not variance >= 0:
            raise ValueError(f"a noise variance must not be negative, got {variance}")
        return cls(variance)

    @classmethod
    def of(cls, beta: Any, spectrum: Spectrum) -> IndependentNoise:
        """Beta is a number in [0, inf]."""
        number = check.inverse_temperature(beta)
        return cls(1 / number if number else math.inf)
