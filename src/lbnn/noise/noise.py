"""The noise of an observation: of the covariance τ I + ν L given the scale L, in units of the outputs.

Every kind is one of these, with the outputs Y B⁻ᵀ in the place of Y:

    independent   τ = 1/β, for 0 ≤ τ ≤ ∞; τ = 0 is zero temperature,
    per output    τ = 1, B = D = diag(1/√β_j),
    a covariance  τ = 1, B = Q D for Σ = Q D² Qᵀ,
    coupled       τ = 0, ν = 1/β: noise that passes through the network.

The prior of the network does not change under rotations of the outputs: the scale of Y Q has the prior of L.
So the engines integrate over Qᵀ L Q, the likelihood takes it to D⁻¹ Qᵀ L Q D⁻¹, and predictions take outputs
back by B. Densities of Y are those of Y Q D⁻¹ times |D|^{−p}.
`through_network` says what coupled noise does to data.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from lbnn._base.types import Array
from lbnn.data.missing import MissingCells
from lbnn.data.private_inputs import with_private_inputs
from lbnn.data.projection import Projection
from lbnn.data.spectrum import Spectrum
from lbnn.likelihood.existence import require_zero_temperature
from lbnn.likelihood.gaussian import GaussianLikelihood
from lbnn.likelihood.plain import PlainLikelihood
from lbnn.noise import through_network
from lbnn.noise.linear_image import LinearImage
from lbnn.scale.measure import ScaleMeasure
from lbnn.scale.prior import ScalePrior


@dataclass(frozen=True, repr=False)
class Noise:
    """Noise of the covariance B (τ I + ν L̃) Bᵀ given the scale B L̃ Bᵀ; made by `lbnn.noise.make.make_noise`.

    Attributes
    ----------
    kind : str
        Its name.
    variance : float
        τ, which does not depend on L: 0 at zero temperature, inf at β = 0.
    coupling : float
        ν, the share of L in an observation's covariance.
    deviations : (n_d,) or None
        D; ones by default.
    axes : (n_d, n_d) or None
        Q, orthonormal columns; the identity by default.
    """

    kind: str
    variance: float
    coupling: float = 0.0
    deviations: Array | None = None
    axes: Array | None = None

    @classmethod
    def independent(cls, variance: float) -> Noise:
        """Of the covariance τ I."""
        return cls("independent", variance)

    @classmethod
    def coupled(cls, nu: float) -> Noise:
        """Of the covariance ν L given L."""
        return cls("coupled", 0.0, nu)

    def __repr__(self) -> str:
        """One line: the kind and its size."""
        units = "" if self.deviations is None else f", deviations={self.deviations.tolist()}"
        return f"Noise({self.kind!r}, variance={self.variance:g}, coupling={self.coupling:g}{units})"

    @property
    def root(self) -> Array | None:
        """B (n_d, n_d): with the outputs Y B⁻ᵀ the noise is τ I + ν L; None for the identity."""
        if self.deviations is None:
            return None
        return np.diag(self.deviations) if self.axes is None else self.axes * self.deviations

    def require(self, prior: ScalePrior, spectrum: Spectrum) -> None:
        """Raise a ValueError that states the rule where the posterior does not exist."""
        if self.coupling:
            through_network.require(prior, spectrum, self.coupling)
        elif not self.variance:
            require_zero_temperature(prior, spectrum)

    # ------------------------------------------------------------------ data and scales in units of the noise

    def _turned(self, spectrum: Spectrum) -> Spectrum:
        """Y Q."""
        return spectrum if self.axes is None else spectrum.turned(self.axes)

    def in_units(self, spectrum: Spectrum) -> Spectrum:
        """Y B⁻ᵀ; no new eigendecomposition."""
        if self.deviations is None:
            return spectrum
        data, factors = self._turned(spectrum), 1 / self.deviations
        outside = targets_outside(data, self.kind) * factors
        return data.with_scaled_targets(factors, data.targets * factors, float((outside**2).sum()), outside)

    def scale_in_units(self, measure: ScaleMeasure, depth: int) -> ScaleMeasure:
        """The law D⁻¹ L D⁻¹ of the scales that engines integrate."""
        return measure if self.deviations is None else image(measure, np.diag(1 / self.deviations), depth)

    def scale_of_outputs(self, measure: ScaleMeasure, depth: int) -> ScaleMeasure:
        """The law Q L Qᵀ for the user's outputs."""
        return measure if self.axes is None else image(measure, self.axes, depth)

    def eigenvalues(self, spectrum: Spectrum) -> Array:
        """Of the Gram matrix that the noise leaves: g + ν, (r,)."""
        return spectrum.eigenvalues + self.coupling if self.coupling else spectrum.eigenvalues

    def transform_projection(self, projection: Projection, spectrum: Spectrum) -> Projection:
        """Private inputs of training examples do not reach test points: Φ shrinks by √(g/(g + ν))."""
        if not self.coupling:
            return projection
        total = self.eigenvalues(spectrum)
        return projection.behind(spectrum.eigenvalues / total, self.coupling / total)

    def mean_covariance(self, scale_mean: Array) -> Array:
        """τ I + ν E L, (n_d, n_d)."""
        return np.diag(np.full(len(scale_mean), self.variance)) + self.coupling * scale_mean

    # ------------------------------------------------------------------ likelihoods

    def likelihood(self, spectrum: Spectrum) -> GaussianLikelihood:
        """log p(Y | L) of data in the user's units, as a function of the L that engines integrate."""
        if self.coupling:
            return through_network.likelihood(spectrum, self.coupling)
        data, log_jacobian = self.in_units(spectrum), spectrum.log_jacobian
        units = None
        if self.deviations is not None:
            units = 1 / self.deviations
            log_jacobian -= data.examples * float(np.log(self.deviations).sum())
        return GaussianLikelihood(
            data.eigenvalues,
            data.targets,
            data.residual,
            data.examples,
            self.variance,
            gauss_rule=data.gauss_rule,
            units=units,
            log_jacobian=log_jacobian,
        )

    def plain_likelihood(self, spectrum: Spectrum) -> PlainLikelihood:
        """The same by the plain formula, with which the integrand of every answer is compared.

        Rows of the covariance τ D² + (g + ν) L. Where the noise is the same for all outputs, the total
        square of the targets outside the range of G is enough.
        """
        data, outputs = self._turned(spectrum), spectrum.outputs
        unseen = data.examples - data.rank
        if self.coupling:
            outside = through_network.outside_rows(data)
        elif self.deviations is None:
            outside = np.full((1, outputs), math.sqrt(data.residual / outputs))
        else:
            outside = np.diag(np.linalg.norm(targets_outside(data, self.kind), axis=0))
        scale = np.ones(outputs) if self.deviations is None else self.deviations**2
        noise, jacobian = self.variance * scale, data.log_jacobian
        return PlainLikelihood(
            data.eigenvalues, data.targets, noise, self.coupling, outside, unseen, jacobian
        )

    # ------------------------------------------------------------------ tables with missing cells

    def require_table(self, prior: ScalePrior, cells: MissingCells) -> None:
        """Raise a ValueError that states the rule where a table with missing cells has no posterior."""
        if self.coupling:
            through_network.require_table(prior, cells)
        elif not 0 < self.variance < math.inf:
            raise ValueError(
                f"missing targets need noise, 0 < beta < inf, got a noise variance of {self.variance:g}"
            )

    def table_data(self, spectrum: Spectrum, cells: MissingCells) -> Spectrum:
        """The data of a table with missing cells, with noise of the covariance τ I alone."""
        if not self.coupling:
            return spectrum
        return with_private_inputs(spectrum, cells.targets, self.coupling, cells.centred)


def image(measure: ScaleMeasure, matrix: Array, depth: int) -> ScaleMeasure:
    """The law of A L Aᵀ for a matrix A (n_d, n_d)."""
    law = None if measure.law is None else LinearImage(measure.law, matrix, depth)
    return replace(measure, matrices=measure.image(matrix), law=law)


def targets_outside(spectrum: Spectrum, kind: str) -> Array:
    """Rows (any, n_d) with the moments of the targets outside the range of G; they must be known."""
    if spectrum.outside is None:
        raise ValueError(
            f"noise={kind!r} needs the targets outside the range of the Gram matrix output by output, got a "
            "spectrum that keeps their total square only: condition on X and Y, or use noise='independent'"
        )
    return spectrum.outside
