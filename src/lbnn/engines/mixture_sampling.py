"""Importance sampling from a mixture over all phases of the posterior of T: several outputs, any depth.

The mixture is fitted in rounds of a thousand draws until enough of them count, for the evidence and for E L;
then as many are drawn as the target error asks for, in independent groups whose spread is the stated error.
"""

from __future__ import annotations

import math
import time
from dataclasses import replace

import numpy as np

from lbnn._base.types import Array, IndexArray
from lbnn.engines.estimate import Call, Estimate
from lbnn.engines.mixture import Mixture, MixtureSample, adapted, guidance, mixture_of_draws
from lbnn.engines.policy import GROUPS, POLICY
from lbnn.engines.target import Target, log_diagonal, turned_points
from lbnn.engines.total_target import FactorSpace
from lbnn.engines.verdict import reaches

_LARGEST_ROUGH = 512  # most draws per group of a rough answer
_PILOT = 64  # draws per group in rounds of fitting
_ROUNDS = 8
_REFITS = 2  # times that a mixture is fitted anew to a larger sample which showed that it leaves out a tail
_LARGEST_TO_REFIT = 512  # draws per group of such a sample
_ENOUGH, _ENOUGH_FOR_MEANS = 0.25, 0.08  # effective draws per draw at which fitting ends
_GROW = 0.15  # effective draws per draw below which a part is added
_LARGEST = 1 << 25  # floats that the coordinates of all draws may fill
#: rough operations for one row of one factor, its inner draws and all densities: at depth two, and deeper
_ROW_WORK = (1e3, 1e4)
_FITTED_FROM = 2048  # draws of another estimate to which a mixture over all factors is fitted at first
_CHECK_ROUNDS, _CHECK_SIZE, _UNFITTED_SIZE = 4, 256, 32  # rounds of fitting, draws per group, of checks


def mixture_estimate(mixture: Mixture, call: Call) -> tuple[Estimate, Mixture]:
    """Fit a mixture to the posterior of T and draw until the target error is reached or out of reach.

    Rough draws are enough when `Policy.rough_effective` of them count.
    """
    began, rng, rough = time.perf_counter(), call.stream(mixture.space.name), call.options.rough
    rounds = _ROUNDS if mixture.space.dimension <= call.policy.most_fitted else 1
    refits = _REFITS if rounds > 1 else 0
    mixture, sample = _fitted_afresh(mixture, rounds, rng, call)
    estimate = _estimate(sample, began)
    while not (reaches(estimate, call) or (rough and _is_rough(estimate, call))):
        size = _next_size(estimate, mixture, call)
        size = min(size, _LARGEST_ROUGH) if rough else size
        if size * GROUPS <= len(estimate.log_weights):
            break
        size = min(size, _LARGEST_TO_REFIT) if refits else size
        dimension = mixture.space.target.dimension
        call.progress.say(f"importance sampling, {GROUPS * size} points in {dimension} dimensions")
        sample = _sample(mixture, size, rng, call)
        estimate = _estimate(sample, began)
        tails = estimate.heavy_tailed or bool((estimate.mean_tails >= estimate.largest_mean_k).any())
        if refits and tails:  # more of the same would not help: some tail has no proposal
            refits -= 1
            mixture, sample = _fitted_afresh(adapted(sample, True), rounds, rng, call)
            estimate = _estimate(sample, began)
        elif tails and size >= _LARGEST_TO_REFIT:  # nor would more draws: the index does not fall with them
            break
        elif size == _LARGEST_TO_REFIT:
            refits = 0
    return estimate, mixture


def _fitted_afresh(
    mixture: Mixture, rounds: int, rng: np.random.Generator, call: Call
) -> tuple[Mixture, MixtureSample]:
    """A fitted mixture with a sample; a new one where that of the fit would be an answer.

    The best of some rounds is good by chance too: it may not have seen a tail.
    """
    mixture, sample = _fitted(mixture, rounds, rng, call)
    if reaches(_estimate(sample, 0.0), call):
        sample = _sample(mixture, _PILOT, rng, call)
    return mixture, sample


def unfitted_estimate(mixture: Mixture, call: Call) -> Estimate:
    """A few draws of a mixture that has not been fitted."""
    began = time.perf_counter()
    rng = call.stream(f"a few of: {mixture.space.name}")
    return _estimate(_sample(mixture, _UNFITTED_SIZE, rng, call), began)


def factors_estimate(
    space: FactorSpace, axes: Target, points: Array, labels: IndexArray, call: Call
) -> Estimate:
    """A mixture over the coordinates of all factors, fitted at first to draws u of another estimate.

    `points` (m, D) are in the coordinates of `axes`, with the phase of each, `labels`.
    """
    began, target = time.perf_counter(), space.target
    rng = call.stream(space.name)
    call.progress.say(f"cross-check: {space.name}")
    mixture = mixture_of_draws(space, turned_points(points, axes, target), labels)
    mixture, _ = _fitted(mixture, _CHECK_ROUNDS, rng, call)
    estimate = _estimate(_sample(mixture, _CHECK_SIZE, rng, call), began)
    return estimate if axes is target else _along_other_axes(estimate, target, axes)


def _along_other_axes(estimate: Estimate, target: Target, axes: Target) -> Estimate:
    """The same draws, E L along the axes of another frame of the outputs."""
    return replace(estimate, log_diagonal=log_diagonal(target, estimate.points, axes.rotation), target=target)


def _is_rough(estimate: Estimate, call: Call) -> bool:
    return estimate.effective_sample_size >= call.policy.rough_effective


def _fitted(
    mixture: Mixture, rounds: int, rng: np.random.Generator, call: Call
) -> tuple[Mixture, MixtureSample]:
    """The best mixture of some rounds of fitting, with its sample."""
    best: MixtureSample | None = None
    merit = -1.0
    for number in range(rounds):
        call.progress.say(f"fitting proposals, round {number + 1} with {len(mixture.parts)} parts")
        sample = _sample(mixture, _PILOT, rng, call)
        guide = guidance(sample)
        own = min(float(guide.shares[0]) / _ENOUGH, guide.worst / _ENOUGH_FOR_MEANS)
        if own > merit:
            best, merit = sample, own
        if own >= 1:
            break
        if number + 1 < rounds:
            mixture = adapted(sample, guide.shares[0] < _GROW or guide.worst < _ENOUGH_FOR_MEANS)
    assert best is not None
    return best.mixture, best


def _sample(mixture: Mixture, size: int, rng: np.random.Generator, call: Call) -> MixtureSample:
    call.spend(size * GROUPS * _operations(mixture))
    return mixture.sample(size, GROUPS, rng)


def _operations(mixture: Mixture) -> float:
    """Rough number of operations of one draw with all of its densities."""
    target = mixture.space.target
    layers = len(target.coordinates.shapes)
    each = _ROW_WORK[layers > 1] * layers * target.rows + target.operations / 3
    return each * max(1.0, len(mixture.parts) / 3)  # every part has a density at every draw


def _next_size(estimate: Estimate, mixture: Mixture, call: Call) -> int:
    """Draws per group that the target error asks for, a power of two, as far as memory and time go."""
    wanted = call.effective / estimate.effective_sample_size
    wanted = max(wanted, (estimate.log_evidence_error / call.target_error) ** 2, 4 / 3)
    wanted = max(wanted, call.policy.fewest_for_means / float(estimate.mean_sizes.min()))
    count = 1.5 * len(estimate.log_weights) * wanted
    most = min(
        _LARGEST / mixture.space.target.dimension, call.work(call.policy.mixture_work) / _operations(mixture)
    )
    return 1 << math.ceil(math.log2(max(min(count, most) / GROUPS, _PILOT)))


def _estimate(sample: MixtureSample, began: float) -> Estimate:
    space = sample.mixture.space
    estimate = Estimate.of_weights(
        space.name,
        sample.log_weights,
        space.log_diagonal(sample.roots),
        lambda: sample.points,
        seconds=time.perf_counter() - began,
    )
    return replace(estimate, largest_mean_k=POLICY.largest_mean_k)
