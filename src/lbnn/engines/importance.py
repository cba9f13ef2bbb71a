"""Importance sampling from the Laplace approximation: several outputs, widths well above them.

Scrambled Sobol points through the Gaussian at the mode, mixed with the prior (a defensive mixture: the
weights stay bounded, since the likelihood is). Independent scrambles give honest errors of every average.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from scipy import special

from lbnn._base.log_sums import log_sum_exp
from lbnn._base.progress import Progress
from lbnn._base.quasi_random import uniform_points
from lbnn._base.types import Array, IndexArray
from lbnn.engines.laplace import GaussianProposal
from lbnn.engines.pareto import pareto_k
from lbnn.engines.target import Target
from lbnn.scale.measure import effective_atoms

REPLICATES = 16  # with eight, two means of heavy-tailed laws were off by more than five of their errors
LARGEST_K = 0.7
_FIRST, _GROWTH = 64, 8  # points per replicate in the first round, and factor to the next
_LARGEST = 1 << 26  # floats that a round may fill
_DEFENSIVE = 0.1  # share of points drawn from the prior
_FEWEST_EFFECTIVE = 200  # draws under which the diagnostics themselves are not to be trusted


@dataclass(frozen=True)
class ImportanceSample:
    """Weighted points in Bartlett coordinates, in `REPLICATES` independent groups of equal size."""

    largest_k: ClassVar[float] = LARGEST_K  # tail index from which weights are not trusted
    points: Array  # (m, D)
    log_weights: Array  # (m,), prior × likelihood / proposal

    @property
    def groups(self) -> IndexArray:
        """Replicate of every point."""
        return np.repeat(np.arange(REPLICATES), len(self.log_weights) // REPLICATES)

    @cached_property
    def log_evidence(self) -> float:
        """Log of the mean weight."""
        return float(log_sum_exp(self.log_weights)) - math.log(len(self.log_weights))

    @cached_property
    def log_evidence_error(self) -> float:
        """Standard error, from the spread between replicates."""
        per_replicate = log_sum_exp(self.log_weights.reshape(REPLICATES, -1), axis=1)
        ratios = np.exp(per_replicate - log_sum_exp(per_replicate)) * REPLICATES
        return float(ratios.std(ddof=1) / math.sqrt(REPLICATES))

    @cached_property
    def effective_sample_size(self) -> float:
        """(Σw)² / Σw²."""
        return float(effective_atoms(self.log_weights))

    @property
    def effective_share(self) -> float:
        """Effective draws per draw."""
        return self.effective_sample_size / len(self.log_weights)

    @cached_property
    def pareto_k(self) -> float:
        """Tail index of the weights."""
        return pareto_k(self.log_weights)

    def reaches(self, target_error: float) -> bool:
        """Whether evidence and averages are as accurate as asked, and k allows to say so."""
        return (
            self.pareto_k < self.largest_k
            and self.effective_sample_size >= max(target_error**-2, _FEWEST_EFFECTIVE)
            and self.log_evidence_error <= target_error
        )

    def could_reach(self, target_error: float) -> bool:
        """Whether the effective draws, scaled up to the last round, would meet the target error."""
        growth = _last_size(target_error, self.points.shape[1]) * REPLICATES / len(self.log_weights)
        return growth * self.effective_sample_size >= target_error**-2


def importance_sample(
    target: Target, proposal: GaussianProposal, target_error: float, seed: int, progress: Progress
) -> ImportanceSample:
    """Sample in growing rounds until the target error is reached or out of reach."""
    size = _FIRST
    while True:
        progress.say(f"importance sampling, {REPLICATES * size} points in {target.dimension} dimensions")
        sample = _round(target, proposal, size, seed)
        if (
            size >= _last_size(target_error, target.dimension)
            or sample.reaches(target_error)
            or not sample.could_reach(target_error)
        ):
            return sample
        size = min(size * _GROWTH, _last_size(target_error, target.dimension))


def _last_size(target_error: float, dimension: int) -> int:
    """Points per replicate in the last round: in proportion to target_error⁻², as far as memory goes."""
    size = 512 if target_error >= 0.02 else 4096 if target_error >= 0.002 else 32768
    return max(_FIRST, min(size, _LARGEST // (REPLICATES * max(dimension, 1))))


def _round(target: Target, proposal: GaussianProposal, size: int, seed: int) -> ImportanceSample:
    streams = np.random.default_rng([seed, size]).spawn(REPLICATES)
    dimension = len(proposal.mean) + 1
    points = np.concatenate([_mixture(proposal, uniform_points(size, dimension, each)) for each in streams])
    return ImportanceSample(points, _log_weights(target, proposal, points))


def importance_round(target: Target, proposal: GaussianProposal, seed: int) -> ImportanceSample:
    """One first round from a given proposal."""
    return _round(target, proposal, _FIRST, seed)


def weighted_draws(
    target: Target, proposal: GaussianProposal, size: int, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Independent draws (size, D) with their log weights."""
    points = _mixture(proposal, rng.random((size, len(proposal.mean) + 1)))
    return points, _log_weights(target, proposal, points)


def _log_weights(target: Target, proposal: GaussianProposal, points: Array) -> Array:
    log_normal = -0.5 * (points**2).sum(axis=1)
    log_gauss = -0.5 * (proposal.whiten(points) ** 2).sum(axis=1) - proposal.log_determinant
    log_mixture = np.logaddexp(math.log1p(-_DEFENSIVE) + log_gauss, math.log(_DEFENSIVE) + log_normal)
    return target.log_density(points) - log_mixture


def _mixture(proposal: GaussianProposal, uniform: Array) -> Array:
    """Points of the mixture: the last uniform chooses the component, the others the point."""
    white = special.ndtri(uniform[:, :-1])
    from_prior = uniform[:, -1:] < _DEFENSIVE
    return np.where(from_prior, white, proposal.place(white))
