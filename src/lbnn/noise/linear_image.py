"""The law of A L Aᵀ behind that of L."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from lbnn._base.types import Array, ComplexArray
from lbnn.scale.measure import Exponent, Law, ScaleMeasure
from lbnn.scale.phases import Phases


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
            axes, sizes, _ = np.linalg.svd(
                self.matrix @ vectors * np.sqrt(eigenvalues)[:, None, :], full_matrices=False
            )
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
        own = replace(measure, matrices=measure.image(np.asarray(back, float)), law=self.law)
        found = (
            replace(each, mean_scale=self.matrix @ each.mean_scale @ self.matrix.T) for each in own.phases()
        )
        return Phases(tuple(found))
