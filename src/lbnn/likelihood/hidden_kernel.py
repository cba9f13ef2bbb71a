"""The dual factor: integrate the last layer out instead of the first, for more outputs than examples.

At depth two the training outputs in the eigenbasis are diag(√g) T b with T Tᵀ = Λ, the kernel of the hidden
layer, Λ ~ Wishart_r(σ_2² I/n_1, n_1), and b (r, n_d) standard normal, the last layer as features see it. So

    ỹ | Λ ~ MN(0, K + τ I, I_{n_d}),   K = diag(√g) Λ diag(√g),

a Bartlett problem of the size r of the data rather than n_d of the outputs, which shares nothing with the
primal factor. Given Λ and the data b is Gaussian, and what the features do not see of W_2 keeps its prior:
with k = min(r, n_1) every draw of Λ becomes an exact draw of

    L = W_2 W_2ᵀ = (σ_2²/n_1) (bᵀb + Wishart_{n_d}(I, n_1 − k)).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from lbnn._base.arrays import Place, like, namespace, transposed
from lbnn._base.blocks import in_blocks
from lbnn._base.types import AnyArray, Array
from lbnn.likelihood.gaussian import GaussianLikelihood
from lbnn.scale.prior import ScalePrior


@dataclass(frozen=True)
class HiddenKernelLikelihood:
    """log p(Y | Λ) as a function of the hidden kernel Λ (r, r), less the primal factor's constant."""

    primal: GaussianLikelihood

    @property
    def operations(self) -> float:
        """Rough number of floating-point operations of one gradient."""
        return 20.0 * len(self.primal.eigenvalues) ** 3

    @property
    def target_moment(self) -> Array:
        """ỹỹᵀ, (r, r): what it costs to leave targets to the noise."""
        return self.primal.targets @ self.primal.targets.T

    @property
    def place(self) -> Place:
        """That of the data."""
        return self.primal.place

    def log_value(self, eigenvalues: AnyArray, vectors: AnyArray) -> AnyArray:
        """−½ n_d log det(K + τ) − ½ tr (K + τ)⁻¹ ỹỹᵀ, (m,)."""
        return self.value_and_gradient(eigenvalues, vectors)[0]

    def value_and_gradient(self, eigenvalues: AnyArray, vectors: AnyArray) -> tuple[AnyArray, AnyArray]:
        """The value and its gradient in Λ: diag(√g) [−½ n_d M + ½ M ỹỹᵀ M] diag(√g) with M = (K + τ)⁻¹."""
        value, gradient = in_blocks(
            self._value_and_gradient, len(self.primal.eigenvalues) ** 2, eigenvalues, vectors
        )
        return value, gradient

    def _value_and_gradient(self, eigenvalues: AnyArray, vectors: AnyArray) -> tuple[AnyArray, AnyArray]:
        root, square = like(np.sqrt(self.primal.eigenvalues), vectors), like(self.target_moment, vectors)
        outputs = self.primal.targets.shape[1]
        inverse, log_determinant = self._inverse(eigenvalues, vectors)
        fit = inverse @ square
        value = -0.5 * (outputs * log_determinant + namespace(fit).linalg.trace(fit))
        return value, 0.5 * root[:, None] * (fit @ inverse - outputs * inverse) * root

    def _inverse(self, eigenvalues: AnyArray, vectors: AnyArray) -> tuple[AnyArray, AnyArray]:
        """(K + τ)⁻¹ and log det(K + τ); at zero temperature from the eigenvalues of Λ, however small."""
        xp, root = namespace(vectors), np.sqrt(self.primal.eigenvalues)
        roots = like(np.outer(root, root), vectors)
        if self.primal.noise == 0:
            inverse = (vectors / eigenvalues[:, None, :]) @ transposed(vectors) / roots
            return inverse, xp.sum(xp.log(eigenvalues), axis=1) + 2 * float(np.log(root).sum())
        values, axes = xp.linalg.eigh(roots * ((vectors * eigenvalues[:, None, :]) @ transposed(vectors)))
        values = xp.maximum(values, xp.zeros_like(values)) + self.primal.noise
        return (axes / values[:, None, :]) @ transposed(axes), xp.sum(xp.log(values), axis=1)


def dual_prior(prior: ScalePrior, rank: int) -> ScalePrior:
    """Law of Λ (r, r): that of L with the rank r of the data in the place of n_d."""
    return ScalePrior(prior.widths, rank, prior.layer_variances)


def last_layer_factor(
    kernel_factor: Array, prior: ScalePrior, factor: GaussianLikelihood, rng: np.random.Generator
) -> Array:
    """For draws of T, T Tᵀ = Λ, draws of T_2, T_2 T_2ᵀ = L, given the data, (m, n_d, min(n_d, n_1))."""
    seen = _seen_last_layer(kernel_factor, factor, rng)
    count, outputs, columns = seen.shape
    width = prior.widths[0]
    parts = [seen]
    if width > columns:
        unseen = ScalePrior((width - columns,), outputs).coordinates
        fresh = unseen.factors(rng.standard_normal((count, unseen.dimension)))[0]
        parts.append(math.sqrt(width - columns) * fresh)
    root = math.sqrt(prior.variance / width) * np.concatenate(parts, axis=2)
    triangular: Array = np.linalg.qr(root.swapaxes(1, 2)).R
    return triangular.swapaxes(1, 2)


def _seen_last_layer(kernel_factor: Array, factor: GaussianLikelihood, rng: np.random.Generator) -> Array:
    """bᵀ given T and the data, (m, n_d, k): with diag(√g) T = A D Bᵀ one-dimensional regressions along B."""
    design = np.sqrt(factor.eigenvalues)[:, None] * kernel_factor
    left, values, right = np.linalg.svd(design, full_matrices=False)
    variance = (factor.noise + values**2)[:, :, None]
    mean = values[:, :, None] * (left.swapaxes(1, 2) @ factor.targets) / variance
    noise = np.sqrt(factor.noise / variance) * rng.standard_normal(mean.shape)
    return (mean + noise).swapaxes(1, 2) @ right
