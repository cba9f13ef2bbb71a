"""When the zero-temperature posterior exists.

At β = ∞ the network interpolates, which needs an invertible Gram matrix, and the prior density of the
targets, E_ϖ[det(L)^{−p/2} etr(−½ YᵀG⁻¹Y L⁻¹)] up to constants, must be finite. Let q = rank(Y). Rotate the
outputs so that the first m = n_d − q of them are zero. The Bartlett factors are lower triangular, so their
diagonal blocks multiply separately: the Schur complement P of the first block C in L is independent of C, and
det L = det C det P. The targets depend on P only, where the exponential closes the singularity; what is left
is

    E det(C)^{−p/2} = Π_ℓ E det(W_ℓ)^{−p/2},   W_ℓ Wishart of size m with n_ℓ degrees of freedom,

which is finite if and only if n_ℓ ≥ n_d + p − q for every hidden layer. Nothing is left for q = n_d. The dual
representation (see `dual`) exchanges p and n_d, so nothing is left for q = p either. In every case a layer
narrower than min(p, n_d) forbids interpolation of generic targets. So the posterior exists if and only if

    every n_ℓ ≥ min(p, n_d), and: q = min(p, n_d) or every n_ℓ ≥ n_d + p − q.
"""

from __future__ import annotations

import numpy as np

from lbnn.data.spectrum import Spectrum
from lbnn.scale.prior import ScalePrior


def require_zero_temperature(prior: ScalePrior, spectrum: Spectrum) -> None:
    """Raise a ValueError that names the rule that is broken."""
    require_invertible_gram(spectrum)
    if prior.widths:
        _require_wide_enough(prior, spectrum)


def require_invertible_gram(spectrum: Spectrum) -> None:
    """Raise unless G is invertible: at zero temperature every network interpolates the targets."""
    if spectrum.rank < spectrum.examples:
        raise ValueError(
            "zero temperature (beta=inf) needs an invertible Gram matrix, so that the training data can be "
            f"interpolated, got rank {spectrum.rank} with p = {spectrum.examples} examples: use a finite beta"
        )


def _require_wide_enough(prior: ScalePrior, spectrum: Spectrum) -> None:
    smaller = min(spectrum.examples, prior.outputs)
    rank = int(np.linalg.matrix_rank(spectrum.targets))
    given = f"got widths={prior.widths}, p = {spectrum.examples}, n_d = {prior.outputs}, rank(Y) = {rank}"
    if min(prior.widths) < smaller:
        raise ValueError(
            f"at zero temperature every hidden width must be at least min(p, n_d) = {smaller} for targets "
            f"to have a density, {given}: use a finite beta"
        )
    needed = prior.outputs + spectrum.examples - rank
    if rank < smaller and min(prior.widths) < needed:
        raise ValueError(
            "at zero temperature with targets of rank q < min(p, n_d) the posterior exists only if every "
            f"hidden width is at least n_d + p − q = {needed}, {given}: use a finite beta"
        )
