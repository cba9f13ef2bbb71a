"""A noise variance 1/β_j for each output, under the same prior of the network as with one for all.

In units of the noise, D = diag(√β_j), the targets are Y D = F D + noise of variance one, and given L the
function F D is MN(0, G, D L D): in these units the likelihood and all predictions are those of independent
noise, with D L D instead of L. The prior stays that of L. So the engines integrate over L, the factor
takes L to D L D, and predictions take the law of L to that of D L D, and the outputs back by D⁻¹. Densities
of Y are those of Y D times Π_j β_j^{p/2}.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from lbnn._base import check
from lbnn._base.types import Array, ComplexArray
from lbnn.data.spectrum import Spectrum
from lbnn.likelihood.gaussian import GaussianLikelihood
from lbnn.likelihood.plain import PlainLikelihood
from lbnn.noise.independent import IndependentNoise
from lbnn.noise.kind import Noise, targets_outside
from lbnn.scale.measure import Exponent, Law, ScaleMeasure
from lbnn.scale.phases import Phases
from lbnn.scale.prior import ScalePrior


@dataclass(frozen=True, repr=False)
class PerOutputNoise(Noise):
    """Noise of the covariance diag(1/β_j)."""

    betas: Array  # (n_d,)
    residuals: Array  # squares of the targets outside the range of G, (n_d,)

    kind: ClassVar[str] = "per_output"

    @property
    def variance(self) -> float:
        """One, in units of the noise."""
        return 1.0

    @property
    def deviations(self) -> Array:
        """Standard deviations of the noise, 1/√β_j, (n_d,)."""
        return 1 / np.sqrt(self.betas)

    @property
    def root(self) -> Array:
        """diag(1/√β), (n_d, n_d)."""
        return np.diag(self.deviations)

    def require(self, prior: ScalePrior, spectrum: Spectrum) -> None:
        """With finite noise every network has a posterior."""

    def in_units(self, spectrum: Spectrum) -> Spectrum:
        """Y D; no new eigendecomposition."""
        roots, residual = np.sqrt(self.betas), float((self.residuals * self.betas).sum())
        return spectrum.with_scaled_targets(roots, spectrum.targets * roots, residual, None)

    def scale_in_units(self, measure: ScaleMeasure, depth: int) -> ScaleMeasure:
        """The law of D L D."""
        units = np.sqrt(self.betas)
        law = None if measure.law is None else LinearImage(measure.law, np.diag(units), depth)
        return replace(measure, scales=units[:, None] * measure.scales * units, law=law)

    def with_rows(self, spectrum: Spectrum) -> PerOutputNoise:
        return replace(self, residuals=(targets_outside(spectrum, self.kind) ** 2).sum(axis=0))

    def likelihood(self, spectrum: Spectrum) -> GaussianLikelihood:
        """That of independent noise of variance one at D L D, times the Jacobian."""
        data = self.in_units(spectrum)
        return GaussianLikelihood(
            data.eigenvalues,
            data.targets,
            data.residual,
            data.examples,
            1.0,
            gauss_rule=data.gauss_rule,
            units=np.sqrt(self.betas),
            log_jacobian=0.5 * data.examples * float(np.log(self.betas).sum()) + data.log_jacobian,
        )

    def plain_likelihood(self, spectrum: Spectrum) -> PlainLikelihood:
        """Rows of the covariance diag(1/β) + g L."""
        unseen = spectrum.examples - spectrum.rank
        return PlainLikelihood(
            spectrum.eigenvalues,
            spectrum.targets,
            1 / self.betas,
            0.0,
            np.diag(np.sqrt(self.residuals)),
            unseen,
            spectrum.log_jacobian,
        )

    def packed(self) -> tuple[dict[str, Any], dict[str, Array]]:
        return {"kind": self.kind}, {"noise.betas": self.betas, "noise.residuals": self.residuals}

    @classmethod
    def unpacked(cls, header: dict[str, Any], arrays: dict[str, Array]) -> PerOutputNoise:
        betas, residuals = arrays["noise.betas"], arrays["noise.residuals"]
        if betas.shape != residuals.shape or not ((betas > 0) & np.isfinite(betas)).all():
            raise ValueError(f"noise variances must be positive and finite, got beta={betas}")
        return cls(betas, residuals)

    @classmethod
    def of(cls, beta: Any, spectrum: Spectrum) -> Noise:
        """Beta is a vector of positive finite numbers, one for each output; if all are equal, one for all."""
        betas, outputs = check.real_array(beta, "beta"), spectrum.outputs
        with np.errstate(all="ignore"):  # what has no variance is refused
            finite = np.isfinite(1 / betas)
        if betas.shape != (outputs,) or not ((betas > 0) & finite).all():
            raise ValueError(
                f"with noise='per_output' beta must be a vector of {outputs} positive numbers, one for each "
                f"output, got beta={beta!r}"
            )
        if (betas == betas[0]).all():
            return IndependentNoise(1 / float(betas[0]))
        return cls(betas, (targets_outside(spectrum, cls.kind) ** 2).sum(axis=0))


@dataclass(frozen=True)
class LinearImage:
    """The law of A L Aᵀ behind that of L."""

    law: Law
    matrix: Array  # A, (n_d, n_d), invertible
    depth: int

    def log_expect_exp(self, log_factor: Exponent) -> complex:
        """Log E exp(log_factor(A L Aᵀ))."""

        def of_scale(eigenvalues: Array, vectors: Array) -> Array | ComplexArray:
            """The exponent at A L Aᵀ for eigenvalues (m, n_d) and eigenvectors (m, n_d, n_d) of L, (m,)."""
            axes, sizes, _ = np.linalg.svd(self.matrix @ vectors * np.sqrt(eigenvalues)[:, None, :])
            return log_factor(sizes**2, axes)

        return self.law.log_expect_exp(of_scale)

    def sample(self, size: int, rng: np.random.Generator) -> Array:
        """Draws of A L Aᵀ, (size, n_d, n_d)."""
        return np.asarray(self.matrix @ self.law.sample(size, rng) @ self.matrix.T)

    def sample_factors(self, size: int, rng: np.random.Generator) -> list[Array]:
        """A T_d, T_{d−1}, ..., T_2, (size, rows, columns) each, whose product is a root of A L Aᵀ."""
        last, *others = self.law.sample_factors(size, rng)
        return [self.matrix @ last, *others]

    def partial_products(self, layer: int) -> Array:
        """T_ℓ ⋯ T_2 (m, rows, columns), with A before the product of all, whose rows are the outputs."""
        products = self.law.partial_products(layer)
        return self.matrix @ products if layer == self.depth else products

    def phases(self, measure: ScaleMeasure) -> Phases:
        """Those of the law of L, with the means of A L Aᵀ."""
        back = np.linalg.inv(self.matrix)
        own = replace(measure, scales=back @ measure.scales @ back.T, law=self.law)
        found = (
            replace(each, mean_scale=self.matrix @ each.mean_scale @ self.matrix.T) for each in own.phases()
        )
        return Phases(tuple(found))
