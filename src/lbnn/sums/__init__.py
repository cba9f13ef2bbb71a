"""Sums of networks on incomplete tables: Y = Σ_b H_b T_bᵀ + noise on the observed cells.

`chain` holds a network cut at its narrowest layer and the states of all of them, `table` the observed cells
and their regressions on the features, `moves` the Gibbs moves, `path` the log evidence from the prior to the
posterior, `start` states that fit the data, `effort` how long a path is made and whether its answer is ok,
`draws` and `posterior` what is answered, `condition` the entry. Imports `data`, moves and diagnostics of
`engines`, and quantiles of `predict`; not networks.
"""

from lbnn.sums.condition import condition_sum
from lbnn.sums.posterior import SumPosterior, SumPredictive

__all__ = ["SumPosterior", "SumPredictive", "condition_sum"]
