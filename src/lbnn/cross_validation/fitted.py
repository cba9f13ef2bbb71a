"""What leave-one-out scores need of a posterior."""

from __future__ import annotations

from typing import Protocol

from lbnn.data.spectrum import Spectrum
from lbnn.engines import Diagnostics
from lbnn.noise.kind import Noise
from lbnn.scale.measure import ScaleMeasure
from lbnn.scale.prior import ScalePrior


class Fitted(Protocol):
    """Prior, data, noise and the law of the scale given the data."""

    @property
    def prior(self) -> ScalePrior:
        """Law of the scale before the data."""

    @property
    def spectrum(self) -> Spectrum:
        """The data."""

    @property
    def noise(self) -> Noise:
        """Kind and size of the noise."""

    @property
    def log_evidence(self) -> float:
        """log p(Y)."""

    @property
    def log_evidence_error(self) -> float:
        """Its Monte Carlo standard error."""

    @property
    def diagnostics(self) -> Diagnostics:
        """Of the inference."""

    @property
    def _scale_in_units(self) -> ScaleMeasure:
        """Law of the scale given the data, in units of `noise.deviations`."""
