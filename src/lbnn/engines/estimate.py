"""What every sampler returns: weighted draws of the scale, with the log evidence and E L and their errors.

A sampler is a function (target, proposal or start, call) → `Estimate`; the `Call` holds what is asked, the
work that is left and the random streams, which have names and are never shared. Draws are points u in the
coordinates of the target (`target.coordinates`), which `target.coordinates.locate(factors)` gives for lower
trapezoidal factors T_d, ..., T_2 with L = O T Tᵀ Oᵀ, T = T_d ⋯ T_2, O = `target.rotation`.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from lbnn._base.log_sums import log_sum_exp, normalised
from lbnn._base.progress import Progress
from lbnn._base.types import Array, IndexArray
from lbnn.engines.inference import Diagnostics, EvidenceEstimate, InferenceOptions
from lbnn.engines.pareto import pareto_k
from lbnn.engines.policy import GROUPS, POLICY, Policy
from lbnn.engines.target import Target
from lbnn.scale.measure import effective_atoms
from lbnn.scale.phases import error_of_independent, standard_error

#: Effective draws per draw from which the spread of groups of quasi-random points is their error; where it
#: was less, narrow networks had errors that were too small.
_EVEN = 0.3


@dataclass
class Call:
    """One call of the engines: what is asked, the work that is left, and named random streams."""

    options: InferenceOptions
    policy: Policy = POLICY
    progress: Progress = field(default_factory=Progress)
    prefix: str = ""
    spent: list[float] = field(default_factory=list)
    names: set[str] = field(default_factory=set)

    @property
    def target_error(self) -> float:
        """Standard error aimed at."""
        return self.options.target_error

    @property
    def effective(self) -> float:
        """Effective draws that the target error asks of importance sampling."""
        return max(self.target_error**-2, self.policy.fewest_effective)

    def stream(self, name: str) -> np.random.Generator:
        """The random stream of that name; no two estimates of one call can have the same."""
        full = self.prefix + name
        if full in self.names:
            raise RuntimeError(f"the random stream {full!r} is in use already: every estimate has its own")
        self.names.add(full)
        return np.random.default_rng([self.options.seed, zlib.crc32(full.encode())])

    def work(self, most: float) -> float:
        """Operations that an estimate may take: its own limit, or what is left of the whole call's."""
        return min(most, max(self.policy.work - sum(self.spent), 0.0))

    def spend(self, operations: float) -> None:
        """Count operations that were done."""
        self.spent.append(operations)

    def within(self, prefix: str) -> Call:
        """The same call, with streams of another part of it."""
        return replace(self, prefix=f"{self.prefix}{prefix}: ")


@dataclass(frozen=True)
class Estimate:
    """Weighted draws of the posterior of the scale, and what they say of its evidence and mean.

    Attributes
    ----------
    method : str
        How the draws were made, in words.
    log_weights : (m,)
        Logs of their weights, normalised or not.
    groups : (m,)
        Independent replicate of every draw, 0, 1, ...; errors are taken from the spread between them.
    log_diagonal : (m, n)
        log L_jj along the axes of the data: E L and its error are taken from these.
    locate : function () -> (m, D)
        The draws in the coordinates u of `target`; asked for by the answer only.
    log_evidence, log_evidence_error : float
        Log of the integral of prior times likelihood (less its constant), and its standard error.
    limit, mean_limit : str
        Names of the thresholds in `Policy`: tail indices from which the weights, and those of E L, are not
        trusted.
    efficiency : float
        Independent draws per draw, where draws are correlated (moves of a Markov chain); one otherwise.
    weighted : bool
        Whether the weights are those of importance sampling, so that their tail index says something.
    complete : bool
        False where the work allotted ended before the moves had converged.
    stages : int
        Steps of temperature of sequential Monte Carlo; 0 otherwise.
    seconds : float
        Wall-clock time that it took.
    target : Target, optional
        The target whose coordinates the draws have, where that is not the one that was sampled for (the same
        posterior in another frame of the outputs).
    """

    method: str
    log_weights: Array
    groups: IndexArray
    log_diagonal: Array
    locate: Callable[[], Array]
    log_evidence: float
    log_evidence_error: float
    limit: str = "largest_k"
    mean_limit: str = "largest_k"
    efficiency: float = 1.0
    weighted: bool = True
    complete: bool = True
    stages: int = 0
    seconds: float = 0.0
    target: Target | None = None

    @classmethod
    def of_weights(
        cls,
        method: str,
        log_weights: Array,
        log_diagonal: Array,
        locate: Callable[[], Array],
        limit: str = "largest_k",
        seconds: float = 0.0,
        target: Target | None = None,
        *,
        quasi_random: bool = False,
    ) -> Estimate:
        """From log prior × likelihood / proposal (m,) of draws in `GROUPS` groups of equal size.

        The error is the spread between the groups, and no smaller than that of independent draws unless they
        are `quasi_random` and large weights are not rare: otherwise most groups have none of them, and their
        spread is too small (widths (3, 2), noise per output: 0.008, where the log evidence was low by 0.040).
        """
        log_evidence, error = group_spread(log_weights, GROUPS)
        if not quasi_random or effective_atoms(log_weights) < _EVEN * len(log_weights):
            error = max(error, independent_error(log_weights))
        groups = np.repeat(np.arange(GROUPS), len(log_weights) // GROUPS)
        return cls(
            method,
            log_weights,
            groups,
            log_diagonal,
            locate,
            log_evidence,
            error,
            limit,
            seconds=seconds,
            target=target,
        )

    @cached_property
    def points(self) -> Array:
        """The draws in the coordinates u of the target, (m, D)."""
        return self.locate()

    def stored(self) -> Estimate:
        """The same without what it was made from."""
        return replace(self, locate=Located(self.points))

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
        return pareto_k(self.log_weights) if self.weighted else None

    def heavy_tailed(self, policy: Policy) -> bool:
        """Whether the weights have too heavy a tail for the log evidence."""
        return self.pareto_k is not None and self.pareto_k >= getattr(policy, self.limit)

    def heavy_tailed_means(self, policy: Policy) -> bool:
        """Whether those of E L have, along some axis of the data."""
        return not bool((self.mean_tails < getattr(policy, self.mean_limit)).all())

    @cached_property
    def mean_sizes(self) -> Array:
        """Effective draws of E L_jj along every axis of the data, (n,)."""
        return self.efficiency * effective_atoms(self._log_terms)

    @cached_property
    def mean_tails(self) -> Array:
        """Tail indices of w L_jj along every axis of the data, (n,); −inf without importance weights."""
        if not self.weighted:
            return np.full(self.log_diagonal.shape[1], -np.inf)
        return np.array([pareto_k(column) for column in self._log_terms.T])

    @cached_property
    def scale_mean(self) -> tuple[Array, Array]:
        """E L_jj along the axes of the data, and its standard errors, each (n,).

        No smaller than those of as many independent draws as are effective.
        """
        values = np.exp(self.log_diagonal)
        independent = error_of_independent(values, self.weights) / math.sqrt(self.efficiency)
        errors = np.maximum(standard_error(values, self.weights, self.groups), independent)
        return self.weights @ values, errors

    @property
    def independent_error(self) -> float:
        """Error of the log evidence, no smaller than that of as many independent draws."""
        if not self.weighted:
            return self.log_evidence_error
        return max(self.log_evidence_error, independent_error(self.log_weights))

    @property
    def evidence(self) -> EvidenceEstimate:
        """What it says of the log evidence."""
        return EvidenceEstimate(self.method, self.log_evidence, self.log_evidence_error)

    @property
    def _log_terms(self) -> Array:
        """Log of weight times L_jj, (m, n)."""
        return self.log_weights[:, None] + self.log_diagonal


@dataclass(frozen=True)
class Located:
    """Draws whose coordinates are known already: can be copied to another process, as a closure cannot."""

    points: Array

    def __call__(self) -> Array:
        """The coordinates, (m, k)."""
        return self.points


@dataclass(frozen=True)
class Answer:
    """The estimate that is returned, the error that is stated, and the diagnostics."""

    estimate: Estimate
    log_evidence_error: float
    diagnostics: Diagnostics

    @property
    def log_evidence(self) -> float:
        """Log of the integral of prior times likelihood, less its constant."""
        return self.estimate.log_evidence

    @property
    def points(self) -> Array:
        """u, (m, D)."""
        return self.estimate.points

    @property
    def weights(self) -> Array:
        """Normalised, (m,)."""
        return self.estimate.weights


def group_spread(log_weights: Array, groups: int) -> tuple[float, float]:
    """Log of the mean weight (m,), and its standard error from the spread between groups of equal size."""
    by_group = log_sum_exp(log_weights.reshape(groups, -1), axis=1)
    total = float(log_sum_exp(by_group))
    ratios = np.exp(by_group - total) * groups
    return total - math.log(len(log_weights)), float(ratios.std(ddof=1) / math.sqrt(groups))


def independent_error(log_weights: Array) -> float:
    """Standard error of the log of the mean of independent weights (m,): √(1/ESS − 1/m)."""
    effective = float(effective_atoms(log_weights))
    return math.sqrt(max(1 / effective - 1 / len(log_weights), 0.0))
