"""Zero temperature with targets of deficient rank: the singularity taken out of the integrand.

With q = rank(Y) < n_d rotate the outputs so that the first m = n_d − q targets are zero. Then det(L)^{−p/2}
is singular where the leading block C of L is, and nothing in the data keeps L away from there. Since the
Bartlett factors are triangular, det(C)^{−p/2} only takes p degrees of freedom off their first m diagonal
entries: it belongs to the prior (`ScalePrior.tilted_coordinates`), and what remains is bounded.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lbnn._base.types import Array
from lbnn.likelihood.gaussian import LikelihoodFactor


@dataclass(frozen=True)
class RegularFactor:
    """A zero-temperature factor times det(C)^{p/2}, C = NᵀLN the block of L on which the targets are zero."""

    factor: LikelihoodFactor
    null: Array  # N, (n_d, zeros), orthonormal

    @property
    def operations(self) -> float:
        """Rough number of floating-point operations of one gradient."""
        return self.factor.operations

    @property
    def target_moment(self) -> Array:
        """ỹᵀỹ."""
        return self.factor.target_moment

    def log_value(self, eigenvalues: Array, vectors: Array) -> Array:
        """log p(Y | L) + ½ p log det C, less the constant, (m,)."""
        return self.value_and_gradient(eigenvalues, vectors)[0]

    def value_and_gradient(self, eigenvalues: Array, vectors: Array) -> tuple[Array, Array]:
        """The value and its gradient in L."""
        value, gradient = self.factor.value_and_gradient(eigenvalues, vectors)
        rows = self.null.T @ vectors
        sizes, axes = np.linalg.eigh((rows * eigenvalues[:, None, :]) @ rows.swapaxes(1, 2))
        inside = sizes[:, 0] > 0  # else C is singular to rounding, and so far out that it does not matter
        sizes = np.where(inside[:, None], sizes, 1.0)
        half = self.factor.examples / 2
        inverse = (axes / sizes[:, None, :]) @ axes.swapaxes(1, 2)
        gradient = gradient + half * self.null @ inverse @ self.null.T
        value = np.where(inside, value + half * np.log(sizes).sum(axis=1), -np.inf)
        return value, gradient


def zeros_first(factor: LikelihoodFactor) -> Array:
    """Rotation of the outputs (n_d, n_d) after which zero targets come first."""
    rank = int(np.linalg.matrix_rank(factor.targets))
    right = np.linalg.svd(factor.targets, full_matrices=True).Vh
    return np.concatenate([right[rank:], right[:rank]]).T
