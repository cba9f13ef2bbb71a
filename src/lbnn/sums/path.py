"""The log evidence along a path from the prior to the posterior, and back.

The likelihood is raised to powers 0 = t_0 < t_1 < ... < t_S = 1. Sixteen independent groups of particles go
along the same powers: at each, `parents` particles of a group are drawn by weight from all its states at the
power before (waste-free sequential Monte Carlo, Dau & Chopin 2022), make `length` sweeps, and all states are
kept. Ratios of normalising constants are Bennett's. Then every group goes back from its posterior states
through the same powers. Where chains are too short for a change of phase the way up and the way back lag on
opposite sides, and the two estimates differ, which the spread between groups alone does not show.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lbnn._base.types import Array, IndexArray
from lbnn.engines.policy import GROUPS
from lbnn.sums.chain import Block, State, draw_prior, features, join
from lbnn.sums.moves import sweep
from lbnn.sums.table import Table

_SHARE = 0.5  # effective share of the states under the weights of the next power
_SMALLEST = -60.0  # log of the smallest power that is tried
_BISECTIONS = 30


@dataclass(frozen=True)
class Stage:
    """All states of all groups at one power: `length` sweeps of GROUPS · parents particles.

    Attributes
    ----------
    state : State
        length · GROUPS · parents particles, sweep by sweep, group by group.
    values, squares : (n_d, particles, K)
        What the likelihood at every power is made of.
    parents : int
    """

    state: State
    values: Array
    squares: Array
    parents: int

    def log_likelihood(self, table: Table, t: float) -> Array:
        """By group, (GROUPS, states)."""
        return self.by_group(table.log_likelihood(self.values, self.squares, t))

    def by_group(self, numbers: Any) -> Any:
        """Numbers (particles,) as (GROUPS, states)."""
        return numbers.reshape(-1, GROUPS, self.parents).swapaxes(0, 1).reshape(GROUPS, -1)

    def chosen(self, log_weights: Array, rng: np.random.Generator) -> State:
        """Parents by systematic resampling in every group, from log weights (GROUPS, states)."""
        ends = np.cumsum(np.exp(log_weights - log_weights.max(axis=1, keepdims=True)), axis=1)
        points = (rng.random((GROUPS, 1)) + np.arange(self.parents)) / self.parents * ends[:, -1:]
        index = self.by_group(np.arange(log_weights.size))
        taken = [
            own[np.minimum(np.searchsorted(end, point), len(own) - 1)]
            for own, end, point in zip(index, ends, points, strict=True)
        ]
        return self.state.take(np.concatenate(taken))


@dataclass(frozen=True)
class Path:
    """Both ways along the path.

    Attributes
    ----------
    up, back : (GROUPS,)
        Log evidence of every group.
    powers : tuple of float
        t_1, ..., 1.
    final : State
        Posterior states of both ways; `groups` (particles,) has the group of each, and `log_likelihood`
        (particles,) what it says.
    """

    up: Array
    back: Array
    powers: tuple[float, ...]
    final: State
    groups: IndexArray
    log_likelihood: Array

    def by_group(self, numbers: Any) -> Any:
        """Numbers (particles,) of the final states as (GROUPS, states)."""
        return numbers[np.argsort(self.groups, kind="stable")].reshape(GROUPS, -1)

    @property
    def log_evidence(self) -> float:
        """Mean of both ways over the groups."""
        return float(0.5 * (self.up + self.back).mean())

    @property
    def spread(self) -> float:
        """Standard error of `log_evidence` from the spread between groups."""
        return float((0.5 * (self.up + self.back)).std(ddof=1) / math.sqrt(GROUPS))

    @property
    def difference(self) -> float:
        """Way up less way back."""
        return float((self.up - self.back).mean())


def follow(
    table: Table, blocks: Sequence[Block], parents: int, length: int, rng: np.random.Generator
) -> Path:
    """The path with so many parents in each group and so many sweeps at each power."""
    m = GROUPS * parents
    prior = _prior_stage(table, blocks, parents, length, rng)
    stage, t, powers = prior, 0.0, []
    up, back = np.zeros(GROUPS), np.zeros(GROUPS)
    start = stage.state
    while t < 1:
        before = stage.log_likelihood(table, t)
        following = _next_power(table, stage, t)
        ahead = stage.log_likelihood(table, following) - before
        start = stage.chosen(ahead, rng)
        stage = _stage(table, blocks, start, following, length, parents, rng)
        behind = stage.log_likelihood(table, following) - stage.log_likelihood(table, t)
        up += bennett(ahead, behind)
        t = following
        powers.append(t)
    top, even = stage, np.zeros((GROUPS, m * length // GROUPS))
    returned = _stage(table, blocks, top.chosen(even, rng), 1.0, length, parents, rng)
    stage = returned
    for lower, here in zip(reversed([0.0, *powers[:-1]]), reversed(powers), strict=True):
        behind = stage.log_likelihood(table, here) - stage.log_likelihood(table, lower)
        if lower > 0:
            stage = _stage(table, blocks, stage.chosen(-behind, rng), lower, length, parents, rng)
        else:
            stage = prior  # whose draws are exact
        ahead = stage.log_likelihood(table, here) - stage.log_likelihood(table, lower)
        back += bennett(ahead, behind)
    groups = np.tile(np.repeat(np.arange(GROUPS), parents), 2 * length)
    heights = [table.log_likelihood(each.values, each.squares, 1.0) for each in (top, returned)]
    return Path(up, back, tuple(powers), join([top.state, returned.state]), groups, np.concatenate(heights))


def _prior_stage(
    table: Table, blocks: Sequence[Block], parents: int, length: int, rng: np.random.Generator
) -> Stage:
    """Independent draws of the prior, as many as a stage has states."""
    drawn = [draw_prior(blocks, GROUPS * parents, rng) for _ in range(length)]
    fits = [table.regressions(features(blocks, each)) for each in drawn]
    return _joined(drawn, [each.values for each in fits], [each.moments for each in fits], parents)


def _stage(
    table: Table,
    blocks: Sequence[Block],
    start: State,
    t: float,
    length: int,
    parents: int,
    rng: np.random.Generator,
) -> Stage:
    """`length` sweeps from the parents, all of whose states are kept."""
    state, fits = start, table.regressions(features(blocks, start))
    states, values, moments = [], [], []
    for _ in range(length):
        state, fits = sweep(table, blocks, state, fits, t, rng)
        states.append(state)
        values.append(fits.values)
        moments.append(fits.moments)
    return _joined(states, values, moments, parents)


def posterior_stage(
    table: Table, blocks: Sequence[Block], start: State, length: int, parents: int, rng: np.random.Generator
) -> Stage:
    """Sweeps at the posterior from any start; the first `length` are left out."""
    warm = _stage(table, blocks, start, 1.0, length, parents, rng)
    last = np.arange(start.latent[0].shape[1]) - start.latent[0].shape[1] + warm.values.shape[1]
    return _stage(table, blocks, warm.state.take(last), 1.0, length, parents, rng)


def _joined(states: list[State], values: list[Array], moments: list[Array], parents: int) -> Stage:
    return Stage(join(states), np.concatenate(values, axis=1), np.concatenate(moments, axis=1) ** 2, parents)


def _next_power(table: Table, stage: Stage, t: float) -> float:
    """The largest power up to one at which the states keep an effective share of `_SHARE`."""
    before = table.log_likelihood(stage.values, stage.squares, t)

    def share(power: float) -> float:
        change = table.log_likelihood(stage.values, stage.squares, power) - before
        weights = np.exp(change - change.max())
        return float(weights.sum() ** 2 / (weights**2).sum() / len(weights))

    if share(1.0) >= _SHARE:
        return 1.0
    low, high = math.log(t) if t else _SMALLEST, 0.0
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if share(math.exp(middle)) >= _SHARE else (low, middle)
    return math.exp(low)


def bennett(ahead: Array, behind: Array) -> Array:
    """Log ratio of normalising constants by group, by Bennett's acceptance ratio (1976).

    ahead, behind : (groups, states), unnormalised log densities of the second law less those of the first, at
    states of the first and of the second.
    """
    offset = math.log(ahead.shape[1] / behind.shape[1])
    low = np.minimum(ahead.min(axis=1), behind.min(axis=1)) - 10.0
    high = np.maximum(ahead.max(axis=1), behind.max(axis=1)) + 10.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        first = np.exp(-np.logaddexp(0.0, middle[:, None] + offset - ahead)).sum(axis=1)
        second = np.exp(-np.logaddexp(0.0, behind - middle[:, None] - offset)).sum(axis=1)
        low, high = np.where(first > second, middle, low), np.where(first > second, high, middle)
    return 0.5 * (low + high)
