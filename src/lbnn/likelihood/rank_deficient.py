"""Zero temperature with targets of deficient rank: the singularity taken out of the integrand.

With q = rank(Y) < n_d rotate the outputs so that the first m = n_d − q targets are zero. Then det(L)^{−p/2}
is singular where the leading block C of L is, and nothing in the data keeps L away from there. Since the
Bartlett factors are triangular, det(C)^{−p/2} only takes p degrees of freedom off their first m diagonal
entries: it belongs to the prior (`ScalePrior.tilted_coordinates`), and what remains is bounded.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from lbnn._base.arrays import Device, like, namespace, transposed
from lbnn._base.small_matrices import one_sign
from lbnn._base.types import AnyArray, Array
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
        """ỹᵀỹ, (n_d, n_d)."""
        return self.likelihood.target_moment

    @property
    def device(self) -> Device:
        """That of the likelihood."""
        return self.likelihood.device

    def log_value(self, eigenvalues: AnyArray, vectors: AnyArray) -> AnyArray:
        """log p(Y | L) + ½ p log det C, less the constant, (m,)."""
        return self.value_and_gradient(eigenvalues, vectors)[0]

    def value_and_gradient(self, eigenvalues: AnyArray, vectors: AnyArray) -> tuple[AnyArray, AnyArray]:
        """The value (m,) and its gradient in L (m, n_d, n_d)."""
        value, gradient = self.likelihood.value_and_gradient(eigenvalues, vectors)
        xp, null = namespace(vectors), like(self.null, vectors)
        rows = null.T @ vectors
        sizes, axes = xp.linalg.eigh((rows * eigenvalues[:, None, :]) @ transposed(rows))
        inside = sizes[:, 0] > 0  # else C is singular to rounding, and so far out that it does not matter
        sizes = xp.where(inside[:, None], sizes, xp.ones_like(sizes))
        half = self.likelihood.examples / 2
        gradient = gradient + half * (null @ ((axes / sizes[:, None, :]) @ transposed(axes)) @ null.T)
        determinant = half * xp.sum(xp.log(sizes), axis=1)
        return xp.where(inside, value + determinant, xp.full_like(value, -math.inf)), gradient


def zeros_first(likelihood: GaussianLikelihood) -> Array:
    """Rotation of the outputs (n_d, n_d) after which zero targets come first."""
    rank = int(np.linalg.matrix_rank(likelihood.targets))
    right = np.linalg.svd(likelihood.targets, full_matrices=True).Vh
    return one_sign(np.concatenate([right[rank:], right[:rank]]).T)
