"""Every limit theory of the paper, returning what the exact inference returns.

| function | limit | fixed | temperature, depth |
|---|---|---|---|
| `infinite_width` | n → ∞ | p, n_d | any |
| `infinite_data` | p → ∞ | n, n_d | zero; any depth |
| `proportional` | n, p → ∞ | n_d | any |
| `proportional_expansion` | n, p → ∞, then γ → 0 | n_d | zero; any depth |
| `many_outputs` | n, n_d → ∞ | p | any |

`view_saddle` is the saddle point of one hidden layer seen through views (gated, convolutional networks).

With α = p/n_1, γ = n_d/n_1, S = Yᵀ G_xx⁻¹ Y, G_yy = YYᵀ/n_d. The theories are in `lbnn.theories.limits`.
"""

from lbnn.theories.limits.regimes import (
    infinite_data,
    infinite_width,
    many_outputs,
    proportional,
    proportional_expansion,
)
from lbnn.theories.limits.theory import Theory
from lbnn.theories.views import ViewSaddle, view_saddle

__all__ = [
    "Theory",
    "ViewSaddle",
    "infinite_data",
    "infinite_width",
    "many_outputs",
    "proportional",
    "proportional_expansion",
    "view_saddle",
]
