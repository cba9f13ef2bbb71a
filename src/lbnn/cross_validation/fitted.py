"""What leave-one-out scores need of a posterior."""

from __future__ import annotations

from typing import Protocol

from lbnn.data.spectrum import Spectrum
from lbnn.engines import Diagnostics
from lbnn.scale.draws import Draws
from lbnn.scale.prior import ScalePrior


class Fitted(Protocol):
    """Prior, data, and draws of signal and noise given the data."""

    @property
    def prior(self) -> ScalePrior:
        """Law of the scale before the data."""

    @property
    def spectrum(self) -> Spectrum:
        """The data."""

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
    def _left_out_draws(self) -> Draws:
        """Of signal and noise given the data, with square M."""
