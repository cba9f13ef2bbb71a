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
from lbnn.likelihood.gaussian import GaussianLikelihood


@dataclass(frozen=True)
class RegularLikelihood:
    """A zero-temperature likelihood times det(C)^{p/2}, C = NᵀLN the block of L with zero targets."""

    likelihood: GaussianLikelihood
    null: Array  # N, (n_d, zeros), orthonormal

    @property
    def operations(self) -> float:
        """Rough number of floating-point operations of one gradient."""
        return self.likelihood.operations

    @property
    def target_moment(self) -> Array:
        """ỹᵀỹ."""
        return self.likelihood.target_moment

    def log_value(self, eigenvalues: Array, vectors: Array) -> Array:
        """log p(Y | L) + ½ p log det C, less the constant, (m,)."""
        return self.value_and_gradient(eigenvalues, vectors)[0]

    def value_and_gradient(self, eigenvalues: Array, vectors: Array) -> tuple[Array, Array]:
        """The value and its gradient in L."""
        value, gradient = self.likelihood.value_and_gradient(eigenvalues, vectors)
        rows = self.null.T @ vectors
        sizes, axes = np.linalg.eigh((rows * eigenvalues[:, None, :]) @ rows.swapaxes(1, 2))
        inside = sizes[:, 0] > 0  # else C is singular to rounding, and so far out that it does not matter
        sizes = np.where(inside[:, None], sizes, 1.0)
        half = self.likelihood.examples / 2
        inverse = (axes / sizes[:, None, :]) @ axes.swapaxes(1, 2)
        gradient = gradient + half * self.null @ inverse @ self.null.T
        value = np.where(inside, value + half * np.log(sizes).sum(axis=1), -np.inf)
        return value, gradient


def zeros_first(likelihood: GaussianLikelihood) -> Array:
    """Rotation of the outputs (n_d, n_d) after which zero targets come first."""
    rank = int(np.linalg.matrix_rank(likelihood.targets))
    right = np.linalg.svd(likelihood.targets, full_matrices=True).Vh
    return np.concatenate([right[rank:], right[:rank]]).T
