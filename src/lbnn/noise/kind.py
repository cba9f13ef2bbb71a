"""What every kind of noise answers.

Given the scale L an observation is function plus noise of the covariance τ I + ν L, in units of the outputs
in which this is so. Whatever the kind, inference and predictions need of it: the data and the scales in those
units, τ, ν, the likelihood factor, and how test points look.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np

from lbnn._base.types import Array
from lbnn.data.missing import MissingCells
from lbnn.data.projection import Projection
from lbnn.data.spectrum import Spectrum
from lbnn.likelihood.gaussian import GaussianLikelihood
from lbnn.likelihood.plain import PlainLikelihood
from lbnn.scale.measure import ScaleMeasure
from lbnn.scale.prior import ScalePrior


class Noise(ABC):
    """One kind of noise with its parameters; made by `lbnn.noise.make.make_noise`."""

    kind: ClassVar[str]

    def __repr__(self) -> str:
        """One line: the kind and its size."""
        units = "" if self.deviations is None else f", deviations={self.deviations.tolist()}"
        return f"{type(self).__name__}(variance={self.variance:g}, coupling={self.coupling:g}{units})"

    @property
    @abstractmethod
    def variance(self) -> float:
        """τ, the variance that does not depend on L: 0 at zero temperature, inf at β = 0."""

    @property
    def coupling(self) -> float:
        """ν, the share of L in an observation's covariance."""
        return 0.0

    @property
    def deviations(self) -> Array | None:
        """Units of the outputs (n_d,) in which the noise is τ I + ν L; None for the user's own."""
        return None

    @property
    def root(self) -> Array | None:
        """B (n_d, n_d): with the outputs Y B⁻ᵀ the noise is τ I + ν L; None for the identity."""
        return None

    @abstractmethod
    def require(self, prior: ScalePrior, spectrum: Spectrum) -> None:
        """Raise a ValueError that states the rule where the posterior does not exist."""

    @abstractmethod
    def likelihood(self, spectrum: Spectrum) -> GaussianLikelihood:
        """log p(Y | L) of data in the user's units, as a function of L in the user's units.

        Outputs with noise that is correlated are taken in the axes of the noise.
        """

    @abstractmethod
    def plain_likelihood(self, spectrum: Spectrum) -> PlainLikelihood:
        """The same by the plain formula, with which the integrand of every answer is compared."""

    def in_units(self, spectrum: Spectrum) -> Spectrum:
        """The data with the outputs in units of `deviations`."""
        return spectrum

    def scale_in_units(self, measure: ScaleMeasure, depth: int) -> ScaleMeasure:
        """The law that engines integrate, with the outputs in units of `deviations`."""
        return measure

    def scale_of_outputs(self, measure: ScaleMeasure, depth: int) -> ScaleMeasure:
        """The law that engines integrate, for the user's outputs."""
        return measure

    def eigenvalues(self, spectrum: Spectrum) -> Array:
        """Of the Gram matrix that the noise leaves: g + ν, (r,)."""
        return spectrum.eigenvalues + self.coupling if self.coupling else spectrum.eigenvalues

    def with_rows(self, spectrum: Spectrum) -> Noise:
        """The same noise for data with more rows (`Spectrum.with_rows`)."""
        return self

    def transform_projection(self, projection: Projection, spectrum: Spectrum) -> Projection:
        """The projection of test points for this noise."""
        return projection

    def require_table(self, prior: ScalePrior, cells: MissingCells) -> None:
        """Raise a ValueError that states the rule where a table with missing cells has no posterior."""
        if not 0 < self.variance < math.inf:
            raise ValueError(
                f"missing targets need noise, 0 < beta < inf, got a noise variance of {self.variance:g}"
            )

    def table_data(self, spectrum: Spectrum, cells: MissingCells) -> Spectrum:
        """The data of a table with missing cells, with noise of the covariance τ I alone."""
        return spectrum

    def mean_covariance(self, scale_mean: Array) -> Array:
        """τ I + ν E L in the units of `deviations`, (n_d, n_d)."""
        covariance = np.diag(np.full(len(scale_mean), self.variance))
        return covariance + self.coupling * scale_mean if self.coupling else covariance

    @abstractmethod
    def packed(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """A header for JSON and arrays, for `unpacked`."""

    @classmethod
    @abstractmethod
    def unpacked(cls, header: dict[str, Any], arrays: dict[str, Array]) -> Noise:
        """The noise that was packed; a ValueError where that is none."""

    @classmethod
    @abstractmethod
    def of(cls, beta: Any, spectrum: Spectrum) -> Noise:
        """From the user's beta, for these data."""


def targets_outside(spectrum: Spectrum, kind: str) -> Array:
    """Rows (any, n_d) with the moments of the targets outside the range of G; they must be known."""
    if spectrum.outside is None:
        raise ValueError(
            f"noise={kind!r} needs the targets outside the range of the Gram matrix output by output, got a "
            "spectrum that keeps their total square only: condition on X and Y, or use noise='independent'"
        )
    return spectrum.outside
