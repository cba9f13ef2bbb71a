"""The posterior of a block of targets: rounds of directions, until the stated errors are as small as asked.

For every direction and target a few numbers are kept (`direction_sums`). The first rules serve all targets.
With two bands the answers are weighted sums of these numbers over the directions; with more, they are
interpolated between directions (`interpolated`). Targets whose errors are too large go on with further
directions: they are divided into clusters that have their mass in one place, and each cluster has a rule of
its own.
"""

from __future__ import annotations

import numpy as np

from lbnn._base.types import Array
from lbnn.bands.assembly import assemble
from lbnn.bands.block_posterior import BlockPosterior
from lbnn.bands.data import BandKernels, BandTargets
from lbnn.bands.direction_sums import Group, Summary
from lbnn.bands.interpolated import surfaces
from lbnn.bands.prior import BandPriors
from lbnn.bands.search import Search
from lbnn.bands.simplex import FEWEST_POINTS, Rule, fine_rules, first_rules, rules_for

#: Effective directions of answers without interpolation. With fewer, two halves agree by chance now and then
#: (one of 44 answers was off by twelve stated errors), and distribution functions have steps.
_FEWEST_EFFECTIVE = 12.0
_ENOUGH = 2.0  # times the points that a rule is thought to need, after which it is not doubled again
#: Part of the points that a rule was thought to need below which new rules for those targets that it does not
#: serve take its place: they have their mass in a corner of it.
_ELSEWHERE = 1.0
_MOST_POINTS = 8192  # of a lattice of interpolated directions
_DEVICE_POINTS = 32768  # the same on devices, where products of matrices cost little
_LOCATED = 3  # times that lattices are placed anew around the mass found on the one before


def infer_block(
    kernels: BandKernels,
    targets: BandTargets,
    priors: BandPriors,
    target_error: float,
    most_directions: int,
    seed: np.random.SeedSequence,
) -> BlockPosterior:
    """The posterior of a block of targets: errors aimed at, and directions of a target at most."""
    rng, bands = np.random.default_rng(seed), len(kernels.used)
    search = Search(kernels, targets, priors, target_error)
    everything = Group(np.arange(targets.count), np.zeros((0, bands)), (), np.zeros(0, int), None)
    if bands > 2:  # answers are interpolated; in one dimension a finer rule costs little
        everything = search.with_faces(everything)
    first = _first(priors, bands, most_directions, rng)
    for rule in first:
        everything = search.with_rule(everything, rule)
    waiting: list[Group] = [everything]
    finished: list[tuple[Group, Summary]] = []
    while waiting:
        group = waiting.pop()
        left, last = most_directions - group.count, group.rules[-1]
        begun = len(group.rules) > len(first)  # there is a rule for these targets
        doubling = begun and len(last.points) < _ENOUGH * last.wanted
        ending = bands == 1 or left < (len(last.points) if doubling else FEWEST_POINTS)
        finish = _between if bands > 2 else _by_sums
        group, moments = finish(search, group, ending, finished, rng)
        if not len(group.columns):
            continue
        # a rule as fine as the last would add little
        refinement = 1.0 if doubling else _ENOUGH ** (len(group.rules) - len(first))
        clusters = rules_for(*moments, refinement, min(left, group.count), search.price, rng)
        if doubling and sum(rule.wanted for _, rule in clusters) > _ELSEWHERE * last.wanted:
            waiting.append(search.with_rule(group, last.doubled()))
            continue
        for members, rule in clusters:
            waiting.append(search.with_rule(group.some(members), rule))
    return assemble(search, [each for each in finished if len(each[0].columns)])


def _by_sums(
    search: Search,
    group: Group,
    everything: bool,
    finished: list[tuple[Group, Summary]],
    rng: np.random.Generator,
) -> tuple[Group, tuple[Array, Array]]:
    """Finish targets, or everything, by sums over directions.

    The others are returned, with means (V, K − 1) and covariances (V, K − 1, K − 1) of z.
    """
    summary = group.summary()
    fine = summary.fine(search.target_error)
    if group.count > 1:
        fine &= summary.effective_directions >= _FEWEST_EFFECTIVE
    fine |= everything
    members = np.flatnonzero(fine)
    finished.append((group.some(members), summary.some(members)))
    others = group.some(np.flatnonzero(~fine))
    return others, others.moments()


def _between(
    search: Search,
    group: Group,
    everything: bool,
    finished: list[tuple[Group, Summary]],
    rng: np.random.Generator,
) -> tuple[Group, tuple[Array, Array]]:
    """Finish targets, or everything, by interpolation between directions.

    The others are returned, with means (V, K − 1) and covariances (V, K − 1, K − 1) of z.
    """
    rest = []
    most = _MOST_POINTS if search.device.host else _DEVICE_POINTS
    for members, surface in surfaces(search, group):
        own = group.some(members)
        means, covariances = surface.moments(own, search)
        waiting, left = np.arange(len(members)), []  # numbers of members
        for attempt in range(1 + _LOCATED):
            again = []
            for some, fine in fine_rules(means[waiting], covariances[waiting], most, rng):
                here = waiting[some]
                part = own.some(here)
                answers = surface.some(here).answers(part, search, fine, everything, attempt == _LOCATED)
                finished.append((part.some(np.flatnonzero(answers.finished)), answers.summary))
                means[here], covariances[here] = answers.means, answers.covariances
                again.append(here[answers.coarse])
                left.append(here[~answers.finished & ~answers.coarse])
            waiting = np.sort(np.concatenate(again))
            if not len(waiting):
                break
        numbers = np.concatenate(left)
        rest.append((members[numbers], means[numbers], covariances[numbers]))
    joined = [np.concatenate(each) for each in zip(*rest, strict=True)]
    order = np.argsort(joined[0])
    return group.some(joined[0][order]), (joined[1][order], joined[2][order])


def _first(priors: BandPriors, bands: int, most: int, rng: np.random.Generator) -> list[Rule]:
    """The rules that serve all targets."""
    if bands == 1:
        return [Rule(np.zeros(0), np.zeros((0, 0)), np.zeros(0), np.zeros((1, 0)), 1.0)]
    return first_rules(priors.mean, priors.variance, most, rng)
