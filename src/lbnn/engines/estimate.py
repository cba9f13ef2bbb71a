"""What every sampler returns: weighted draws of the scale, with the log evidence and E L and their errors.

A sampler is a function (target, proposal or start, budget, stream) → `Estimate`. The draws are points u in
the coordinates of the target (`target.coordinates`), which `target.coordinates.locate(factors)` gives for
lower trapezoidal factors T_d, ..., T_2 with L = O T Tᵀ Oᵀ, T = T_d ⋯ T_2, O = `target.rotation`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lbnn._base.log_sums import log_sum_exp, normalised
from lbnn._base.types import Array, IndexArray
from lbnn.engines.pareto import pareto_k
from lbnn.scale.measure import effective_atoms
from lbnn.scale.phases import standard_error


@dataclass(frozen=True)
class Estimate:
    """Weighted draws of the posterior of the scale, and what they say of its evidence and mean.

    Attributes
    ----------
    method : str
        How the draws were made, in words.
    points : (m, D)
        Draws in the coordinates u of the target.
    log_weights : (m,)
        Logs of their weights, normalised or not.
    groups : (m,)
        Independent replicate of every draw, 0, 1, ...; errors are taken from the spread between them.
    log_diagonal : (m, n)
        log L_jj along the axes of the data: E L and its error are taken from these.
    log_evidence, log_evidence_error : float
        Log of the integral of prior times likelihood (less its constant), and its standard error.
    efficiency : float
        Independent draws per draw, where draws are correlated (moves of a Markov chain); one otherwise.
    has_weights : bool
        Whether the weights are those of importance sampling, so that their tail index says something.
    complete : bool
        False where the work allotted ended before the moves had converged.
    stages : int
        Steps of temperature of sequential Monte Carlo; 0 otherwise.
    seconds : float
        Wall-clock time that it took.
    """

    method: str
    points: Array
    log_weights: Array
    groups: IndexArray
    log_diagonal: Array
    log_evidence: float
    log_evidence_error: float
    efficiency: float = 1.0
    has_weights: bool = True
    complete: bool = True
    stages: int = 0
    seconds: float = 0.0

    @cached_property
    def weights(self) -> Array:
        """Normalised weights, (m,)."""
        return normalised(self.log_weights)

    @cached_property
    def effective_sample_size(self) -> float:
        """(Σw)²/Σw², times the independent draws per draw."""
        return self.efficiency * float(effective_atoms(self.log_weights))

    @property
    def effective_share(self) -> float:
        """Effective draws per draw."""
        return self.effective_sample_size / len(self.log_weights)

    @cached_property
    def pareto_k(self) -> float | None:
        """Tail index of the weights; None where they are not those of importance sampling."""
        return pareto_k(self.log_weights) if self.has_weights else None

    @cached_property
    def mean_effective_sizes(self) -> Array:
        """Effective draws of E L_jj along every axis of the data, (n,)."""
        return self.efficiency * effective_atoms(self._log_terms)

    @cached_property
    def mean_pareto_k(self) -> float | None:
        """Largest tail index of w L_jj over the axes of the data."""
        return max(pareto_k(column) for column in self._log_terms.T) if self.has_weights else None

    @cached_property
    def scale_mean(self) -> tuple[Array, Array]:
        """E L_jj along the axes of the data, and its standard errors, each (n,).

        No smaller than those of as many independent draws as are effective.
        """
        values = np.exp(self.log_diagonal)
        mean = self.weights @ values
        spread = self.weights[:, None] ** 2 * (values - mean) ** 2
        independent = np.sqrt(spread.sum(axis=0) / self.efficiency)
        return mean, np.maximum(standard_error(values, self.weights, self.groups), independent)

    @property
    def _log_terms(self) -> Array:
        return self.log_weights[:, None] + self.log_diagonal


def group_spread(log_weights: Array, groups: int) -> tuple[float, float]:
    """Log of the mean weight, and its standard error from the spread between groups of equal size."""
    by_group = log_sum_exp(log_weights.reshape(groups, -1), axis=1)
    total = float(log_sum_exp(by_group))
    ratios = np.exp(by_group - total) * groups
    return total - math.log(len(log_weights)), float(ratios.std(ddof=1) / math.sqrt(groups))
