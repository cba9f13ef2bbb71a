"""The dual factor: integrate the last layer out instead of the first, for more outputs than examples.

The training outputs in the eigenbasis are diag(√g) T b with T Tᵀ = Λ, the kernel of the last hidden layer,
and b (k, n_d) standard normal, the last layer along the features. So

    ỹ | Λ ~ MN(0, K + τ I, I_{n_d}),   K = diag(√g) Λ diag(√g),

a Bartlett problem of the size r of the data rather than n_d of the outputs, which shares nothing with the
primal factor. Seen from the data the layers come in reverse: Λ is the scale of a network with the same widths
in reverse order and r outputs. Its factors U_1 ⋯ U_{d−1} = T (U_1 next to the data) are triangular parts of
Gaussian matrices, A_ℓ = U_ℓ Q_ℓ, and what lies outside of Q_ℓ in the next layer keeps its prior. So every
draw of them becomes an exact draw of the factors of L, from the last layer down (`primal_factors`): in the
bases Q_ℓ of the hidden layers

    W_d ∝ [bᵀ, fresh],   then for ℓ = d−1, ..., 2, with W_{ℓ+1} = T_{ℓ+1} P:   P W_ℓ ∝ [P_seen U_ℓᵀ, fresh].
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from lbnn._base.arrays import Device, like, namespace, transposed
from lbnn._base.blocks import in_blocks
from lbnn._base.small_matrices import lower_root
from lbnn._base.types import AnyArray, Array
from lbnn.likelihood.gaussian import GaussianLikelihood
from lbnn.scale.bartlett import product
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
    def device(self) -> Device:
        """That of the data."""
        return self.primal.device

    def log_value(self, eigenvalues: AnyArray, vectors: AnyArray) -> AnyArray:
        """−½ n_d log det(K + τ) − ½ tr (K + τ)⁻¹ ỹỹᵀ, (m,)."""
        return self.value_and_gradient(eigenvalues, vectors)[0]

    def value_and_gradient(self, eigenvalues: AnyArray, vectors: AnyArray) -> tuple[AnyArray, AnyArray]:
        """The value (m,) and its gradient in Λ (m, r, r).

        The gradient is diag(√g) [−½ n_d M + ½ M ỹỹᵀ M] diag(√g) with M = (K + τ)⁻¹.
        """
        value, gradient = in_blocks(
            self._value_and_gradient, len(self.primal.eigenvalues) ** 2, eigenvalues, vectors
        )
        return value, gradient

    def _value_and_gradient(self, eigenvalues: AnyArray, vectors: AnyArray) -> tuple[AnyArray, AnyArray]:
        """The same for one block of kernels, (m,) and (m, r, r)."""
        root, square = like(np.sqrt(self.primal.eigenvalues), vectors), like(self.target_moment, vectors)
        outputs = self.primal.targets.shape[1]
        inverse, log_determinant = self._inverse(eigenvalues, vectors)
        fit = inverse @ square
        value = -0.5 * (outputs * log_determinant + namespace(fit).linalg.trace(fit))
        return value, 0.5 * root[:, None] * (fit @ inverse - outputs * inverse) * root

    def _inverse(self, eigenvalues: AnyArray, vectors: AnyArray) -> tuple[AnyArray, AnyArray]:
        """(K + τ)⁻¹ (m, r, r) and log det(K + τ) (m,); without noise from the eigenvalues of Λ."""
        xp, root = namespace(vectors), np.sqrt(self.primal.eigenvalues)
        roots = like(np.outer(root, root), vectors)
        if self.primal.noise_variance == 0:
            inverse = (vectors / eigenvalues[:, None, :]) @ transposed(vectors) / roots
            return inverse, xp.sum(xp.log(eigenvalues), axis=1) + 2 * float(np.log(root).sum())
        values, axes = xp.linalg.eigh(roots * ((vectors * eigenvalues[:, None, :]) @ transposed(vectors)))
        values = xp.maximum(values, xp.zeros_like(values)) + self.primal.noise_variance
        return (axes / values[:, None, :]) @ transposed(axes), xp.sum(xp.log(values), axis=1)


def dual_prior(prior: ScalePrior, rank: int) -> ScalePrior:
    """Law of Λ (r, r): that of L with hidden layers in reverse order and the rank r of the data for n_d."""
    return ScalePrior(prior.widths[::-1], rank, prior.layer_variances[::-1])


def primal_factors(
    kernel_factors: list[Array], prior: ScalePrior, factor: GaussianLikelihood, rng: np.random.Generator
) -> list[Array]:
    """T_d, ..., T_2 (m, rows, columns) of L given the data and the factors of Λ.

    Of the factors of Λ the one next to the data comes first.
    """
    total = product(kernel_factors)
    assert total is not None
    seen = _seen_last_layer(total, factor, rng)  # (m, n_d, k)
    variances = prior.layer_variances or (1.0,) * len(prior.widths)
    factors: list[Array] = []
    for layer in range(len(prior.widths) - 1, -1, -1):
        width, root = prior.widths[layer], math.sqrt(variances[layer] / prior.widths[layer])
        lower, turn = lower_root(_with_unseen(seen, width, rng))
        factors.append(root * lower)
        if layer:  # U_ℓ as a matrix of standard normal law
            own = kernel_factors[layer] / math.sqrt(variances[layer] / width)
            seen = turn[:, : own.shape[2]].swapaxes(1, 2) @ own.swapaxes(1, 2)
    return factors


def _with_unseen(seen: Array, width: int, rng: np.random.Generator) -> Array:
    """A Gaussian matrix (m, rows, width) up to a rotation of its rows: some columns known, the rest drawn."""
    count, rows, columns = seen.shape
    if width == columns:
        return seen
    unseen = ScalePrior((width - columns,), rows).coordinates
    fresh = unseen.factors(rng.standard_normal((count, unseen.dimension)))[0]
    return np.concatenate([seen, math.sqrt(width - columns) * fresh], axis=2)


def _seen_last_layer(kernel_factor: Array, factor: GaussianLikelihood, rng: np.random.Generator) -> Array:
    """bᵀ given T and the data, (m, n_d, k): with diag(√g) T = A D Bᵀ one-dimensional regressions along B.

    An output in units of its own has the design d_j diag(√g) T: the same axes, d_j times as long.
    """
    design = np.sqrt(factor.eigenvalues)[:, None] * kernel_factor
    left, sizes, right = np.linalg.svd(design, full_matrices=False)
    values = sizes[:, :, None] * factor.output_units
    variance = factor.noise_variance + values**2
    mean = values * (left.swapaxes(1, 2) @ factor.targets) / variance
    noise = np.sqrt(factor.noise_variance / variance) * rng.standard_normal(mean.shape)
    return (mean + noise).swapaxes(1, 2) @ right
