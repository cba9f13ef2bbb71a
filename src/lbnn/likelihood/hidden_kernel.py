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

import numpy as np

from lbnn._base.gauss_rule import GaussRule
from lbnn._base.small_matrices import lower_root
from lbnn._base.types import Array
from lbnn.likelihood.gaussian import GaussianLikelihood
from lbnn.likelihood.observed import CellsOfKernel
from lbnn.scale.bartlett import product
from lbnn.scale.prior import ScalePrior


def dual(likelihood: GaussianLikelihood) -> GaussianLikelihood:
    """log p(Y | Λ) as a function of the hidden kernel Λ (r, r): the outputs as rows, in units √g.

    All n_d rows have the strength one, so that a triangle of at most r rows has the same sums.
    """
    if likelihood.units is not None:
        raise ValueError("the hidden kernel has one noise variance for all outputs, got units of the outputs")
    rows = likelihood.targets.T
    triangle = np.asarray(np.linalg.qr(rows, mode="r"), float)
    return GaussianLikelihood(
        np.ones(len(rows)),
        rows,
        0.0,
        len(rows),
        likelihood.noise_variance,
        gauss_rule=GaussRule(np.ones(1), np.full(1, float(len(rows))), np.ones(len(triangle)), triangle),
        units=np.sqrt(likelihood.eigenvalues),
        log_jacobian=likelihood.log_constant + 0.5 * rows.size * math.log(2 * math.pi),  # the same constant
        of_kernel=True,
    )


def dual_prior(prior: ScalePrior, rank: int) -> ScalePrior:
    """Law of Λ (r, r): that of L with hidden layers in reverse order and the rank r of the data for n_d."""
    return ScalePrior(prior.widths[::-1], rank, prior.layer_variances[::-1])


def primal_factors(
    kernel_factors: list[Array],
    prior: ScalePrior,
    factor: GaussianLikelihood | CellsOfKernel,
    rng: np.random.Generator,
) -> list[Array]:
    """T_d, ..., T_2 (m, rows, columns) of L given the data and the factors of Λ.

    Of the factors of Λ the one next to the data comes first.
    """
    total = product(kernel_factors)
    assert total is not None
    if isinstance(factor, CellsOfKernel):
        seen = factor.last_layer(total, rng)  # (m, n_d, k)
    else:
        seen = _seen_last_layer(total, factor, rng)
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
