"""Answers by interpolation between directions, for three bands and more.

The log of the integral less the log prior at E log s,

    h(θ) − Σ_k log π_k(E log s + log θ_k),

is the part of the likelihood. It is smooth on the whole simplex, its faces included, however narrow the
posterior is, and the prior is known. Answers are sums over a lattice of many more points around the mass of
each target. Their errors are differences of the answers from interpolations of two halves of the directions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from lbnn._base.arrays import namespace, take, take_rows, to_numpy
from lbnn._base.blocks import blocks
from lbnn._base.types import AnyArray, Array, IndexArray, Mask
from lbnn.bands.direction_sums import (
    FRACTION,
    LOG_INTEGRAL,
    LOG_NOISE,
    LOG_SCALE,
    MEANS,
    NOISE,
    ROWS,
    SCALE,
    Group,
    Summary,
    half_signs,
    moments_of,
    share_sums,
    sums,
    with_errors,
)
from lbnn.bands.distributions import distributions
from lbnn.bands.search import Search
from lbnn.bands.simplex import (
    MOST_USED,
    SETS,
    Interpolation,
    Rule,
    log_directions,
    log_weights,
    set_numbers,
)

#: Effective points of interpolated answers, at least; points cost little.
_FEWEST_EFFECTIVE = 50.0
_LOCATING = 2048  # points, about, among which the mass of targets is located
_PART = 0.5  # of the error aimed at that sums over interpolated directions may have


@dataclass(frozen=True)
class Interpolated:
    """Answers by interpolation for V targets.

    Attributes
    ----------
    finished : (V,) of bool
        Targets whose answers are precise enough, or that are finished all the same.
    coarse : (V,) of bool
        Others that a better lattice may help.
    summary : Summary
        Of the finished targets.
    means, covariances : (V, d), (V, d, d)
        Moments of z of all targets.
    """

    finished: Mask
    coarse: Mask
    summary: Summary
    means: Array
    covariances: Array

    @classmethod
    def joined(cls, parts: Sequence[Interpolated]) -> Interpolated:
        """Of all targets, from parts of them."""
        first, xp = parts[0].summary, namespace(parts[0].summary.weights)
        summary = Summary(
            *(xp.concat([getattr(each.summary, name) for each in parts], axis=-1) for name in vars(first))
        )
        names = "finished", "coarse", "means", "covariances"
        rest = {name: np.concatenate([getattr(each, name) for each in parts]) for name in names}
        return cls(summary=summary, **rest)


class _Lattice:
    """The points of a fine rule, and the matrices that take values at directions to values at its points."""

    def __init__(self, rule: Rule, ways: Sequence[Interpolation], put: Callable[[Array], AnyArray]) -> None:
        self.rule, self.bands = rule, rule.points.shape[1] + 1
        self.log_theta = log_directions(rule.points)
        self.theta = np.exp(self.log_theta)
        self.log_base = log_weights([rule]) + 0.5 * math.log(self.bands)
        self.matrices = [put(each.matrix(self.log_theta)) for each in ways]
        self.nearest = put(ways[0].nearest(self.log_theta))
        self.signs = put(half_signs(set_numbers([rule])))

    def group(self, columns: IndexArray, found: AnyArray) -> Group:
        """Targets (V,) with the points as directions, along which (13, M, V) was found."""
        count = len(self.theta)
        return Group(columns, np.zeros((0, self.bands)), (self.rule,), np.arange(count), found)


@dataclass(frozen=True)
class Surface:
    """What was found along the directions of a group, as functions of the direction.

    Attributes
    ----------
    ways : three Interpolations
        From all directions and from either half.
    smooth : (13, J, V) on the device of the data
        The values of `_smooth`.
    """

    ways: tuple[Interpolation, ...]
    smooth: AnyArray

    def some(self, members: IndexArray) -> Surface:
        """For some of the targets, members (k,)."""
        return replace(self, smooth=take(self.smooth, members, axis=2))

    def moments(self, group: Group, search: Search) -> tuple[Array, Array]:
        """Posterior means (V, d) and covariances (V, d, d) of z, from points around those of the group."""
        rules = []
        for rule in group.rules:
            finer = rule
            while len(finer.points) * len(group.rules) < _LOCATING:
                finer = finer.doubled()
            rules.append(finer)
        z = np.concatenate([rule.points for rule in rules])
        log_theta, put = log_directions(z), search.device.put
        matrix, base = put(self.ways[0].matrix(log_theta)), put(log_weights(rules))[:, None]
        found = []
        for part in blocks(len(group.columns), 1, search.chunk(len(z))):
            some = self.smooth[:, :, part]
            prior = search.log_prior(log_theta, matrix @ some[LOG_SCALE, ...], group.columns[part])
            found.append(moments_of(z, matrix @ some[LOG_INTEGRAL, ...] + prior + base))
        return np.concatenate([each[0] for each in found]), np.concatenate([each[1] for each in found])

    def answers(self, group: Group, search: Search, rule: Rule, everything: bool, last: bool) -> Interpolated:
        """Answers from the points of a fine rule, for targets that are precise enough then, or for all.

        Unless it is the last time, those for which the fine rule is not good enough are left.
        """
        lattice = _Lattice(rule, self.ways, search.device.put)
        parts = [
            _answers_on(lattice, search, group.columns[part], self.smooth[:, :, part], everything, last)
            for part in blocks(len(group.columns), 1, search.chunk(len(rule.points)))
        ]
        return Interpolated.joined(parts)


def surfaces(search: Search, group: Group) -> list[tuple[IndexArray, Surface]]:
    """Targets (V,), as positions, that share coordinates of interpolation, and the interpolation."""
    log_theta, sets, below = group.log_theta, group.sets, _below(group)
    xp, put = namespace(group.found), search.device.put
    smooth = _smooth(group.found, search.log_prior(log_theta, group.found[LOG_SCALE, ...], group.columns))
    best = xp.argmax(group.found[LOG_INTEGRAL, ...], axis=0)[None, :]
    scale, noise = (
        to_numpy(take_rows(group.found[i, ...], best)[0, :]) for i in (LOG_SCALE, LOG_NOISE)
    )  # along the best direction
    kinds, numbers = np.unique(search.floors(scale, noise, group.columns), axis=0, return_inverse=True)
    masks = sets < SETS, *((sets == half) | (sets < 0) for half in range(SETS))
    most = MOST_USED, *(MOST_USED // SETS for _ in range(SETS))
    found = []
    for number, floors in enumerate(kinds):
        ways = tuple(
            Interpolation(log_theta, np.exp(floors), mask, below, count)
            for mask, count in zip(masks, most, strict=True)
        )
        members = np.flatnonzero(numbers.reshape(-1) == number)
        found.append((members, Surface(ways, take(smooth, put(members), axis=2))))
    return found


def _below(group: Group) -> Array:
    """E-folds of every direction (J,) below the maximum of the target to which it matters most."""
    logs, xp = group.found[LOG_INTEGRAL, ...], namespace(group.found)
    return -to_numpy(xp.max(logs - xp.max(logs, axis=0, keepdims=True), axis=1))


def _answers_on(
    lattice: _Lattice, search: Search, columns: IndexArray, smooth: AnyArray, everything: bool, last: bool
) -> Interpolated:
    """Answers on a lattice for targets (V,) with the values `smooth` (13, J, V) at the directions."""
    xp, target_error, matrices = namespace(smooth), search.target_error, lattice.matrices
    base, theta = lattice.log_base, lattice.theta

    def with_prior(matrix: AnyArray) -> tuple[AnyArray, AnyArray]:
        """Log integrals and E ω at the points, (M, V) each."""
        prior = search.log_prior(lattice.log_theta, matrix @ smooth[LOG_SCALE, ...], columns)
        return matrix @ smooth[LOG_INTEGRAL, ...] + prior, matrix @ smooth[FRACTION, ...]

    values = xp.stack([matrices[0] @ smooth[i, ...] for i in ROWS])
    found = _unsmooth(values, search.log_prior(lattice.log_theta, values[LOG_SCALE, ...], columns))
    group, whole = lattice.group(columns, found), sums(found, base, theta)
    first, second = (share_sums(*with_prior(matrix), base, theta) for matrix in matrices[1:])
    of_sums = group.errors(whole, theta)
    # with all directions splines of order five err by less than 2^(−3/d) of the error with half of them; with
    # four bands or more both halves may err in the same sense (a band of width two among four of one column:
    # 0.16 nats and 0.006 of a share, five times what the difference of the halves and that factor gave)
    less = 2.0 ** (-3 / (lattice.bands - 1)) if lattice.bands < 4 else 1.0
    evidence, shares = (
        xp.sqrt((less * _apart(all_of_it, one, other)) ** 2 + of_sum**2)
        for all_of_it, one, other, of_sum in zip(
            (whole.log_evidence, whole.share_mean), first[:2], second[:2], of_sums, strict=True
        )
    )
    answers = with_errors(whole, evidence, shares)
    mean_weights = matrices[0].T @ whole.weights
    few = answers.effective_directions < _FEWEST_EFFECTIVE
    finished = answers.fine(target_error) & ~few
    finished &= _linear_error(found, smooth, whole.weights, mean_weights) <= target_error
    imprecise = ~with_errors(whole, *of_sums).fine(_PART * target_error)
    coarse = ~finished & (imprecise | few) & (not last)
    finished |= everything & ~coarse
    members = np.flatnonzero(finished)
    answers = answers.some(members)
    summary = replace(
        answers,
        weights=lattice.nearest.T @ answers.weights,
        distribution=distributions(answers, take(found, members, axis=2), theta),
        mean_weights=take(mean_weights, members, axis=1),
        error_weights=_error_weights(
            lattice, answers.weights, [take(each[2], members, axis=1) for each in (first, second)]
        ),
    )
    return Interpolated(finished, coarse, summary, *group.moments())


def _error_weights(lattice: _Lattice, weights: AnyArray, halves: Sequence[AnyArray]) -> AnyArray:
    """Weights (J, V) of directions in errors of means, from weights (M, V) of all and of either half."""
    # Predictions are less smooth, and with four bands or more both halves may err in the same sense: with the
    # difference over √2, the error of each if they were independent, 28 of 32 deviations were within two
    # stated errors and one was off by 5.3; with the whole difference 191 of 192 means and deviations are.
    # With three bands all of 192 are within 1.1 whole differences, most far below.
    half = math.sqrt(0.5) if lattice.bands < 4 else 1.0
    whole, first, second = lattice.matrices
    # errors of interpolation and of the sums are independent: with signs as they come, squares add
    sums_of_halves = whole.T @ (lattice.signs[:, None] * weights)
    return sums_of_halves + half * (first.T @ halves[0]) - half * (second.T @ halves[1])


def _apart(whole: AnyArray, first: AnyArray, second: AnyArray) -> AnyArray:
    """Size of the errors of answers from either half of the directions, of any shape.

    Their difference, which is √2 errors, or that of one of them from the answer of all directions. Two halves
    that both miss something agree with each other, but not with the whole.
    """
    xp = namespace(whole)
    halves = xp.abs(first - second) / math.sqrt(2)
    return xp.maximum(halves, xp.maximum(xp.abs(first - whole), xp.abs(second - whole)))


def _linear_error(found: AnyArray, smooth: AnyArray, weights: AnyArray, mean_weights: AnyArray) -> Array:
    """Largest relative error (V,) of E s and E τ when they themselves are interpolated, not their logarithms.

    Predictive variances are interpolated themselves and are s and τ times numbers that vary less. From the
    values found (13, M, V) at interpolated directions with weights (M, V), and the values `smooth` (13, J, V)
    of `_smooth` at directions with weights (J, V).
    """
    xp = namespace(found)
    errors = [
        xp.abs(
            xp.sum(mean_weights * xp.exp(smooth[i, ...]), axis=0) / xp.sum(weights * found[i, ...], axis=0)
            - 1
        )
        for i in (SCALE, NOISE)
    ]
    return to_numpy(xp.maximum(*errors))


def _smooth(found: AnyArray, log_prior: AnyArray) -> AnyArray:
    """What was found (13, J, V) in forms that vary slowly with the direction.

    The log integral less the log prior (J, V) at E log s, variances in the place of second moments, and
    logarithms of E s and E τ.
    """
    xp, rows = namespace(found), [found[i, ...] for i in ROWS]
    rows[LOG_INTEGRAL] = rows[LOG_INTEGRAL] - log_prior
    for mean in MEANS:
        rows[mean + 1] = rows[mean + 1] - rows[mean] * rows[mean]
    for positive in (SCALE, NOISE):
        rows[positive] = xp.log(rows[positive])
    return xp.stack(rows)


def _unsmooth(values: AnyArray, log_prior: AnyArray) -> AnyArray:
    """The inverse of `_smooth`, (13, J, V)."""
    xp, rows = namespace(values), [values[i, ...] for i in ROWS]
    rows[LOG_INTEGRAL] = rows[LOG_INTEGRAL] + log_prior
    for mean in MEANS:  # interpolated variances may be below zero
        variance = xp.maximum(rows[mean + 1], xp.zeros_like(rows[mean]))
        rows[mean + 1] = rows[mean] * rows[mean] + variance
    for positive in (SCALE, NOISE):
        rows[positive] = xp.exp(rows[positive])
    return xp.stack(rows)
