"""Leave-one-out scores from one posterior, with refits only where digits would be lost.

Given a draw, noise τ M Mᵀ and scale M diag(l) Mᵀ, the targets Y M⁻ᵀ are independent, and the j-th has the
covariance l_j G + τ over the examples. Its inverse is diagonal in the eigenbasis of G = U diag(g) Uᵀ,

    P_j = U diag_i(1/(τ + g_i l_j)) Uᵀ + (I − UUᵀ)/τ,

and the example a given all others has the variance 1/(P_j)_aa and the residual (P_j Y M⁻ᵀ)_a/(P_j)_aa. An
intercept of flat prior, by centring, leaves I − 11ᵀ/p − UUᵀ in the last term (universal kriging). The law of
the draws without example a is that with it, weighted:

    ρ_{−a}(L) ∝ ρ(L) / p(y_a | Y_{−a}, L),     p(y_a | Y_{−a}) = 1 / E_ρ[1 / p(y_a | Y_{−a}, L)].

Weights of draws are smoothed, and their tail index says whether they can be trusted. Where the quadrature
nodes do not resolve or do not reach ρ_{−a}, or a bound of rounding says that dividing by p(y_a | Y_{−a}, L)
loses digits, the data without the example are decomposed anew. Where draws do not reach it, a message says
so.

`scores` computes them, `boundary` checks its arguments, `fitted` says what they need of a posterior,
`examples` are predictions of left-out examples given a draw, `cells` of rows of tables with missing cells,
`averages` over draws, `refits` predictions from the data without an example. Imports `predict`, `engines`
and what stands before them.
"""

from lbnn.cross_validation.boundary import kept_targets
from lbnn.cross_validation.scores import LeaveOneOut, left_out_scores

__all__ = ["LeaveOneOut", "kept_targets", "left_out_scores"]
