"""Importance sampling from a mixture over all phases of the posterior of T: several outputs, any depth.

The mixture is fitted in rounds of a thousand draws until enough of them count, for the evidence and for E L;
then as many are drawn as the target error asks for, in independent groups whose spread is the stated error.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from lbnn._base.log_sums import log_sum_exp
from lbnn._base.progress import Progress
from lbnn._base.types import Array, IndexArray
from lbnn.engines.adaptation import adapted, guidance
from lbnn.engines.inference import Witness
from lbnn.engines.mixture import Mixture, MixtureSample
from lbnn.engines.pareto import pareto_k
from lbnn.scale.measure import effective_atoms

GROUPS = 16
ROUGH = 64  # effective draws of one of many models in a mixture, ...
_LARGEST_ROUGH = 512  # ... and the most draws per group that are made for them
LARGEST_K = 0.7
_PILOT = 64  # draws per group in rounds of fitting
_ROUNDS = 8
_REFITS = 2  # times that a mixture is fitted anew to a larger sample which showed that it leaves out a tail
_LARGEST_TO_REFIT = 512  # draws per group of such a sample
MOST_FITTED = 21  # coordinates up to which a thousand draws tell more than the curvature at a mode
_ENOUGH, _ENOUGH_FOR_MEANS = 0.25, 0.08  # effective draws per draw at which fitting ends
_GROW = 0.15  # effective draws per draw below which a part is added
FEWEST_FOR_MEANS = 200  # effective draws of E L along every axis
_FEWEST_TO_TESTIFY = 100  # effective draws under which an estimate cannot bear witness
_FEWEST_EFFECTIVE = 400  # draws under which the diagnostics themselves are not to be trusted
_LARGEST = 1 << 25  # floats that the coordinates of all draws may fill
_WORK = 1e10  # rough floating-point operations that a last round may take: ten seconds or so
#: rough operations for one row of one factor, its inner draws and all densities: at depth two, and deeper
_ROW_WORK = (1e3, 1e4)


@dataclass(frozen=True)
class WeightedDraws:
    """Weighted points in Bartlett coordinates in independent groups of equal size."""

    points: Array  # u, (m, D)
    log_weights: Array  # (m,), prior × likelihood / proposal
    groups: IndexArray
    sizes_of_means: Array = field(
        default_factory=lambda: np.full(1, np.inf)
    )  # effective draws of E L_jj, ...
    k_of_means: float = -np.inf  # ... and the largest tail index of w L_jj
    largest_k: float = LARGEST_K  # tail index from which weights are not trusted

    @property
    def log_evidence(self) -> float:
        """Log of the mean weight."""
        return float(log_sum_exp(self.log_weights)) - math.log(len(self.log_weights))

    @cached_property
    def log_evidence_error(self) -> float:
        """Standard error, from the spread between groups."""
        count = int(self.groups[-1]) + 1
        by_group = log_sum_exp(self.log_weights.reshape(count, -1), axis=1)
        ratios = np.exp(by_group - log_sum_exp(by_group)) * count
        return float(ratios.std(ddof=1) / math.sqrt(count))

    @cached_property
    def effective_sample_size(self) -> float:
        """(Σw)² / Σw²."""
        return float(effective_atoms(self.log_weights))

    @cached_property
    def pareto_k(self) -> float:
        """Tail index of the weights."""
        return pareto_k(self.log_weights)

    @property
    def heavy_tailed(self) -> bool:
        """Whether the weights, or those of E L along some axis, have too heavy a tail to be trusted."""
        return self.pareto_k >= self.largest_k or self.k_of_means >= LARGEST_K

    @property
    def serves_means(self) -> bool:
        """Whether enough draws count for E L along every axis of the data."""
        return float(self.sizes_of_means.min()) >= FEWEST_FOR_MEANS and self.k_of_means < LARGEST_K

    def reaches(self, target_error: float) -> bool:
        """Whether evidence and averages are as accurate as asked, and k allows to say so."""
        return (
            self.pareto_k < self.largest_k
            and self.effective_sample_size >= max(target_error**-2, _FEWEST_EFFECTIVE)
            and self.log_evidence_error <= target_error
            and self.serves_means
        )


@dataclass(frozen=True)
class MixtureDraws:
    """The answer of mixture sampling: draws, and the mixture they are from."""

    draws: WeightedDraws
    mixture: Mixture


def testimony(method: str, log_weights: Array, spread: float) -> Witness | None:
    """The estimate of weights that can be trusted; its error is no smaller than that of independent draws."""
    effective, count = float(effective_atoms(log_weights)), len(log_weights)
    if pareto_k(log_weights) > LARGEST_K or effective < _FEWEST_TO_TESTIFY:
        return None
    error = max(spread, math.sqrt(max(1 / effective - 1 / count, 0.0)))
    return Witness(method, float(log_sum_exp(log_weights)) - math.log(count), error)


def mixture_sample(
    mixture: Mixture, target_error: float, seed: int, progress: Progress, rough: bool = False
) -> MixtureDraws:
    """Fit a mixture to the posterior of T and draw until the target error is reached or out of reach.

    `rough` draws are enough when `ROUGH` of them count.
    """
    rng = np.random.default_rng([seed, 4])
    target = mixture.space.target
    rounds = _ROUNDS if mixture.space.dimension <= MOST_FITTED else 1
    refits = _REFITS if rounds > 1 else 0
    mixture, sample = fitted_mixture(mixture, rounds, rng, progress)
    draws = _weighted(sample)
    while not draws.reaches(target_error) and not (rough and draws.effective_sample_size >= ROUGH):
        size = _next_size(draws, target_error, mixture)
        size = min(size, _LARGEST_ROUGH) if rough else size
        if size * GROUPS <= len(draws.log_weights):
            break
        size = min(size, _LARGEST_TO_REFIT) if refits else size
        progress.say(f"importance sampling, {GROUPS * size} points in {target.dimension} dimensions")
        sample = mixture.sample(size, GROUPS, rng)
        draws = _weighted(sample)
        if refits and draws.heavy_tailed:  # more of the same would not help: some tail has no proposal
            refits -= 1
            mixture, sample = fitted_mixture(adapted(sample, True), rounds, rng, progress)
            draws = _weighted(sample)
        elif size == _LARGEST_TO_REFIT:
            refits = 0
    return MixtureDraws(draws, mixture)


def fitted_mixture(
    mixture: Mixture, rounds: int, rng: np.random.Generator, progress: Progress
) -> tuple[Mixture, MixtureSample]:
    """The best mixture of some rounds of fitting, with its sample."""
    best: MixtureSample | None = None
    merit = -1.0
    for number in range(rounds):
        progress.say(f"fitting proposals, round {number + 1} with {len(mixture.parts)} parts")
        sample = mixture.sample(_PILOT, GROUPS, rng)
        guide = guidance(sample)
        own = min(float(guide.shares[0]) / _ENOUGH, guide.worst / _ENOUGH_FOR_MEANS)
        if own > merit:
            best, merit = sample, own
        if own >= 1:
            break
        mixture = adapted(sample, guide.shares[0] < _GROW or guide.worst < _ENOUGH_FOR_MEANS)
    assert best is not None
    return best.mixture, best


def _next_size(draws: WeightedDraws, target_error: float, mixture: Mixture) -> int:
    """Draws per group that the target error asks for, a power of two, as far as memory and time go."""
    wanted = max(target_error**-2, _FEWEST_EFFECTIVE) / draws.effective_sample_size
    wanted = max(wanted, (draws.log_evidence_error / target_error) ** 2, 4 / 3)
    wanted = max(wanted, FEWEST_FOR_MEANS / float(draws.sizes_of_means.min()))
    count = 1.5 * len(draws.log_weights) * wanted
    target = mixture.space.target
    layers = len(target.coordinates.shapes)
    each = _ROW_WORK[layers > 1] * layers * target.rows + target.operations / 3
    each *= max(1.0, len(mixture.parts) / 3)  # every part has a density at every draw
    most = min(_LARGEST / target.dimension, _WORK / each)
    return 1 << math.ceil(math.log2(max(min(count, most) / GROUPS, _PILOT)))


def _weighted(sample: MixtureSample) -> WeightedDraws:
    log_terms = sample.log_weights[:, None] + sample.mixture.space.log_diagonal(sample.roots)
    sizes = effective_atoms(log_terms)
    largest = max(pareto_k(column) for column in log_terms.T)
    return WeightedDraws(sample.points, sample.log_weights, sample.groups, sizes, largest)
