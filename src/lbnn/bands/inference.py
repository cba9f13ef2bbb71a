"""The posterior of a block of targets: rounds of directions, until the stated errors are as small as asked.

For every direction and target 13 numbers are kept: the log of the integral, E ω, E ω², E s, E τ, two moments
of log s, log τ and u = log s/τ along it, skewness of u and of log τ, with ω = s/(s + τ). The first rules
serve all targets. With two bands the answers are weighted sums of these numbers over the directions. With
more, they are interpolated between directions. The log of the integral less the log prior at E log s,

    h(θ) − Σ_k log π_k(E log s + log θ_k),

is the part of the likelihood. It is smooth on the whole simplex, its faces included, however narrow the
posterior is (`Interpolation`), and the prior is known. Answers are sums over a lattice of many more points
around the mass of each target; their errors are differences of the answers from interpolations of two halves
of the directions. Targets whose errors are too large go on with further directions: they are divided into
clusters that have their mass in one place, and each cluster has a rule of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from lbnn._base.arrays import (
    add_to_columns,
    device_of,
    free_floats,
    largest_rows,
    namespace,
    partial_sums,
    take,
    take_rows,
    to_numpy,
)
from lbnn._base.blocks import blocks
from lbnn._base.threads import on_every_core, one_ahead
from lbnn._base.types import AnyArray, Array, IndexArray, Mask
from lbnn.bands.data import BandKernels, BandTargets
from lbnn.bands.prior import BandPriors, PriorTable
from lbnn.bands.quadrature import QUICK, Conditional, Directions, Eigensystem, Line
from lbnn.bands.simplex import (
    FEWEST_POINTS,
    SETS,
    Interpolation,
    Rule,
    contrasts,
    face_directions,
    fine_rules,
    first_rules,
    log_directions,
    log_weights,
    rules_for,
    set_numbers,
)

_TEMPERATURES = 4.0 ** np.arange(0, 8)
#: Weight of a direction below which it is left out of intervals and predictions: a thousand of them move a
#: probability by less than 0.001.
_NEGLIGIBLE = 1e-6
#: Effective directions of answers without interpolation. With fewer, two halves agree by chance now and then
#: (one of 44 answers was off by twelve stated errors), and distribution functions have steps.
_FEWEST_EFFECTIVE = 12.0
_FEWEST_FINE = 50.0  # the same of interpolated answers, whose directions cost little
_ENOUGH = 2.0  # times the points that a rule is thought to need, after which it is not doubled again
#: Part of the points that a rule was thought to need below which new rules for those targets that it does not
#: serve take its place: they have their mass in a corner of it.
_ELSEWHERE = 1.0
_MOST_POINTS = 8192  # of a lattice of interpolated directions
_DEVICE_POINTS = 32768  # the same on devices, where products of matrices cost little
_LOCATING = 2048  # points, about, among which the mass of targets is located
_PART = 0.5  # of the error aimed at that sums over interpolated directions may have
_LOCATED = 3  # times that lattices are placed anew around the mass found on the one before
#: Floors of the coordinates of interpolation for a band of white noise, by τ/s of the targets.
_FLOORS = np.array([1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001])
_PRIOR_STEP = math.log(3.0)  # of the logs of floors that are set by priors
_MOST_USED = 512  # directions, at most, between which there is interpolation: it costs their number cubed
_SMALL = 1e-4  # as `_NEGLIGIBLE`, of weights, of either sign, of directions in interpolated means
_MIXED = 1024  # directions with the largest weights of which distribution functions of interpolations consist
_ABSOLUTE = 1e-9  # error of a share that is always small enough: rounding
#: Places, in posterior deviations from the mean, at which distribution functions of shares are kept.
PLACES = np.sinh(np.linspace(-2.8, 2.8, 57)) / 1.2
_NEAR_END = 0.2  # deviations; places around the mean are a tenth apart, so that each is 0.6 of the next


_SPARSE = "weights", "mean_weights", "error_weights"  # matrices of a posterior
_SPARSE_PARTS = "data", "indices", "indptr"


@dataclass(frozen=True)
class Effort:
    """Standard error aimed at, most directions of a target, seed, and the function that reports progress."""

    target_error: float
    most_directions: int
    seed: int
    say: Callable[[str], None] = lambda message: None


@dataclass(frozen=True)
class BlockPosterior:
    """The posterior of a block of V targets with K bands that are not zero, as NumPy.

    Attributes
    ----------
    log_directions : (J, K)
    weights : sparse (J, V)
        Probabilities of the directions, where they are not negligible: posterior means are averages with
        these weights, roughly if answers are interpolated between directions.
    mean_weights, error_weights : sparse (J, V)
        Of either sign. The posterior mean of a function of the direction is its sum with `mean_weights`, and
        the numerical error of that the sum of its differences from the mean with `error_weights`.
    direction_count : (V,)
        Directions that were computed for each target.
    log_evidence, log_evidence_error, noise_mean, effective_directions : (V,)
        In units of the targets.
    scale_mean, log_scale_mean, log_scale_deviation : (V, K)
        Of λ_k and log λ_k, for kernels of mean diagonal one.
    log_noise_mean, log_noise_deviation : (V,)
    share_mean, share_deviation, share_error : (V, K)
    share_places, share_distribution : (V, K, places)
        Distribution functions of the shares.
    log_distribution : (V, K + 1, places)
        Distribution functions of log λ_k and log τ at means + `PLACES` deviations, where answers are
        interpolated between directions; else NaN.
    dual_coefficients : (K, r, V) on the device of the data
        Coefficients of the kernels in the posterior mean.
    """

    log_directions: Array
    weights: sparse.csr_array
    mean_weights: sparse.csr_array
    error_weights: sparse.csr_array
    direction_count: IndexArray
    log_evidence: Array
    log_evidence_error: Array
    noise_mean: Array
    effective_directions: Array
    scale_mean: Array
    log_scale_mean: Array
    log_scale_deviation: Array
    log_noise_mean: Array
    log_noise_deviation: Array
    share_mean: Array
    share_deviation: Array
    share_error: Array
    share_places: Array
    share_distribution: Array
    log_distribution: Array
    dual_coefficients: AnyArray

    def ok(self, target_error: float) -> Mask:
        """Whether all stated errors are at most what was asked for, (V,)."""
        allowed = target_error * self.share_deviation + _ABSOLUTE
        return (self.log_evidence_error <= target_error) & (self.share_error <= allowed).all(axis=1)

    def by_direction(self) -> Iterator[tuple[Array, IndexArray, Array]]:
        """Directions with weight: log θ (K,), their targets (v,), and the weights of three kinds (3, v).

        `weights`, `mean_weights` and `error_weights`, for all targets to which one of them is not negligible.
        """
        kinds = self.weights, self.mean_weights, self.error_weights
        for j, log_theta in enumerate(self.log_directions):
            rows = [row_of(matrix, j) for matrix in kinds]
            columns = np.unique(np.concatenate([each for each, _ in rows]))
            if len(columns):
                own = np.zeros((len(kinds), len(columns)))
                for weights, (some, values) in zip(own, rows, strict=True):
                    weights[np.searchsorted(columns, some)] = values
                yield log_theta, columns, own

    def arrays(self) -> dict[str, Array]:
        """All of it as NumPy arrays by name, for a file."""
        plain = {name: to_numpy(value) for name, value in vars(self).items() if name not in _SPARSE}
        parts = {
            f"{name}.{part}": getattr(getattr(self, name), part) for name in _SPARSE for part in _SPARSE_PARTS
        }
        return plain | parts

    @classmethod
    def of_arrays(cls, arrays: dict[str, Array]) -> BlockPosterior:
        """From arrays by name."""
        plain = {name: value for name, value in arrays.items() if "." not in name}
        shape = len(arrays["log_directions"]), len(arrays["log_evidence"])
        matrices = {
            name: sparse.csr_array(tuple(arrays[f"{name}.{part}"] for part in _SPARSE_PARTS), shape=shape)
            for name in _SPARSE
        }
        return cls(**matrices, **plain)  # type: ignore[arg-type]


def row_of(matrix: sparse.csr_array, number: int) -> tuple[IndexArray, Array]:
    """Columns (v,) and values (v,) of one row of a sparse matrix."""
    row = slice(matrix.indptr[number], matrix.indptr[number + 1])
    return matrix.indices[row].astype(np.int64), matrix.data[row]


def infer_block(
    kernels: BandKernels, targets: BandTargets, priors: BandPriors, effort: Effort
) -> BlockPosterior:
    """The posterior of a block of targets."""
    rng, bands = np.random.default_rng(effort.seed), len(kernels.used)
    search = _Search(kernels, targets, priors, effort)
    everything = _Group(np.arange(targets.count), np.zeros((0, bands)), (), np.zeros(0, int), None)
    if bands > 2:  # answers are interpolated; in one dimension a finer rule costs little
        everything = search.look_at_faces(everything)
    first = _first(priors, bands, rng)
    for rule in first:
        everything = search.look(everything, rule)
    waiting: list[_Group] = [everything]
    finished: list[tuple[_Group, _Summary]] = []
    while waiting:
        group = waiting.pop()
        left, last = effort.most_directions - group.count, group.rules[-1]
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
            waiting.append(search.look(group, last.doubled()))
            continue
        for members, rule in clusters:
            waiting.append(search.look(group.some(members), rule))
    return search.posterior([each for each in finished if len(each[0].columns)])


def _by_sums(
    search: _Search,
    group: _Group,
    everything: bool,
    finished: list[tuple[_Group, _Summary]],
    rng: np.random.Generator,
) -> tuple[_Group, tuple[Array, Array]]:
    """Finish targets, or everything, by sums over directions.

    The others are returned, with means (V, K − 1) and covariances (V, K − 1, K − 1) of z.
    """
    summary = group.summary()
    fine = summary.fine(search.effort.target_error)
    if group.count > 1:
        fine &= summary.effective >= _FEWEST_EFFECTIVE
    fine |= everything
    members = np.flatnonzero(fine)
    finished.append((group.some(members), summary.some(members)))
    others = group.some(np.flatnonzero(~fine))
    return others, others.moments()


def _between(
    search: _Search,
    group: _Group,
    everything: bool,
    finished: list[tuple[_Group, _Summary]],
    rng: np.random.Generator,
) -> tuple[_Group, tuple[Array, Array]]:
    """Finish targets, or everything, by interpolation between directions.

    The others are returned, with means (V, K − 1) and covariances (V, K − 1, K − 1) of z.
    """
    rest = []
    most = _MOST_POINTS if search.device.host else _DEVICE_POINTS
    for members, surface in _surfaces(search, group):
        own = group.some(members)
        means, covariances = surface.moments(own, search)
        waiting, left = np.arange(len(members)), []  # numbers of members
        for attempt in range(1 + _LOCATED):
            again = []
            for some, fine in fine_rules(means[waiting], covariances[waiting], most, rng):
                here = waiting[some]
                part = own.some(here)
                answers = surface.some(here).answers(part, search, fine, everything, attempt == _LOCATED)
                finished.append((part.some(answers.members), answers.summary))
                means[here], covariances[here] = answers.means, answers.covariances
                again.append(here[answers.again])
                left.append(here[np.setdiff1d(answers.others, answers.again)])
            waiting = np.sort(np.concatenate(again))
            if not len(waiting):
                break
        numbers = np.concatenate(left)
        rest.append((members[numbers], means[numbers], covariances[numbers]))
    joined = [np.concatenate(each) for each in zip(*rest, strict=True)]
    order = np.argsort(joined[0])
    return group.some(joined[0][order]), (joined[1][order], joined[2][order])


def _surfaces(search: _Search, group: _Group) -> list[tuple[IndexArray, _Surface]]:
    """Targets (V,), as positions, that share coordinates of interpolation, and the interpolation."""
    log_theta, sets, near = group.log_theta, group.sets, _nearest(group)
    xp, put = namespace(group.found), search.device.put
    smooth = _smooth(group.found, search.log_prior(log_theta, group.found[5, ...], group.columns))
    # log s and log τ along the best direction
    best = xp.argmax(group.found[0, ...], axis=0)[None, :]
    scale, noise = (to_numpy(take_rows(group.found[i, ...], best)[0, :]) for i in (5, 7))
    levels = search.floors(scale, noise, group.columns)
    kinds, numbers = np.unique(levels, axis=0, return_inverse=True)
    numbers = numbers.reshape(-1)
    found = []
    for number, floors in enumerate(kinds):
        masks = near, *(near & ((sets == half) | (sets < 0)) for half in range(SETS))
        ways = tuple(Interpolation(log_theta, np.exp(floors), mask) for mask in masks)
        members = np.flatnonzero(numbers == number)
        found.append((members, _Surface(ways, take(smooth, put(members), axis=2))))
    return found


def _nearest(group: _Group) -> Mask:
    """The `_MOST_USED` directions (J,) that are fewest e-folds below the maximum of a target at least."""
    logs, xp = group.found[0, ...], namespace(group.found)
    below = to_numpy(xp.max(logs - xp.max(logs, axis=0, keepdims=True), axis=1))
    near = np.zeros(group.count, bool)
    near[np.argsort(-below, kind="stable")[:_MOST_USED]] = True
    return near


def _first(priors: BandPriors, bands: int, rng: np.random.Generator) -> list[Rule]:
    if bands == 1:
        return [Rule(np.zeros(0), np.zeros((0, 0)), np.zeros(0), np.zeros((1, 0)), 1.0)]
    return first_rules(priors.mean, priors.variance, rng)


@dataclass(frozen=True)
class _Summary:
    """Weighted sums over the directions of a group, on the device of the data; (V,) or (K, V) each."""

    weights: AnyArray  # (J, V)
    log_evidence: AnyArray
    log_evidence_error: AnyArray
    share_mean: AnyArray
    share_deviation: AnyArray
    share_error: AnyArray
    scale_mean: AnyArray
    noise_mean: AnyArray
    log_scale_mean: AnyArray
    log_scale_deviation: AnyArray
    log_noise_mean: AnyArray
    log_noise_deviation: AnyArray
    #: Where interpolated: of shares at `PLACES`, (K, places, V); of log λ_k and log τ, (K + 1, places, V).
    distribution: AnyArray | None = None
    log_distribution: AnyArray | None = None
    #: Of the directions in means and in the errors of means, (J, V), of either sign; `weights` are at least
    #: zero. None without interpolation: `weights`, and the same with the sign of their half.
    mean_weights: AnyArray | None = None
    error_weights: AnyArray | None = None

    def fine(self, target_error: float) -> Mask:
        """Mask (V,) of targets whose errors are small enough."""
        xp = namespace(self.weights)
        shares = xp.all(self.share_error <= target_error * self.share_deviation + _ABSOLUTE, axis=0)
        return np.array(to_numpy(shares & (self.log_evidence_error <= target_error)), bool)

    @property
    def effective(self) -> Array:
        """Effective number of directions, (V,)."""
        return to_numpy(1 / namespace(self.weights).sum(self.weights * self.weights, axis=0))

    def some(self, members: IndexArray) -> _Summary:
        """For some of the targets, members (k,)."""
        return _Summary(
            *(
                None if each is None else take(each, members, axis=each.ndim - 1)
                for each in vars(self).values()
            )
        )


@dataclass(frozen=True)
class _Interpolated:
    """Answers by interpolation: those of `members`, finished; the moments of z of all, for the others."""

    members: IndexArray
    others: IndexArray
    again: IndexArray  # those of the others that a better rule of interpolated directions may help
    summary: _Summary
    means: Array  # (V, d)
    covariances: Array  # (V, d, d)


@dataclass(frozen=True)
class _Group:
    """Targets that share their directions, and what was found along these.

    Attributes
    ----------
    columns : (V,)
        The targets, as columns of the block.
    faces : (F, K)
        log θ of directions without weight in sums, the first of all.
    rules : tuple of Rule
    numbers : (J,)
        The directions, as numbers of the search.
    found : (13, J, V) on the device of the data
        Along every direction: log of the integral and `Conditional.moments`. None before the first.
    """

    columns: IndexArray
    faces: Array
    rules: tuple[Rule, ...]
    numbers: IndexArray
    found: AnyArray

    @property
    def count(self) -> int:
        """Directions so far."""
        return len(self.numbers)

    @property
    def log_theta(self) -> Array:
        """The directions, (J, K)."""
        return np.concatenate([self.faces, *(log_directions(rule.points) for rule in self.rules)])

    @property
    def sets(self) -> IndexArray:
        """The half, 0 or 1, that every direction belongs to, (J,); −1 for those of both."""
        return np.concatenate([np.full(len(self.faces), -1), set_numbers(self.rules)])

    def some(self, members: IndexArray) -> _Group:
        """Some of the targets, members (k,), with the same directions."""
        if len(members) == len(self.columns):
            return self
        return replace(self, columns=self.columns[members], found=take(self.found, members, axis=2))

    def _log_weights(self) -> Array:
        """Log weights (directions,) of the directions in ∫ d log λ_1 ⋯ d log λ_K."""
        bands = self.rules[0].points.shape[1] + 1
        if bands == 1:
            return np.zeros(1)
        inside = log_weights(self.rules) + 0.5 * math.log(bands)
        return np.concatenate([np.full(len(self.faces), -math.inf), inside])

    def summary(self) -> _Summary:
        """Answers and their errors from all directions so far."""
        theta = np.exp(self.log_theta)
        answers = _sums(self.found, self._log_weights(), theta)
        if self.count == 1:
            share = answers.share_mean
            return replace(answers, share_error=0 * share, log_evidence_error=0 * share[0, :])
        return _with_errors(answers, *self._halves(answers, theta))

    def _halves(self, answers: _Summary, theta: Array) -> tuple[AnyArray, AnyArray]:
        """Errors of the log evidence and the shares from two halves of the directions, (V,) and (K, V)."""
        xp, put = namespace(self.found), device_of(self.found).put
        members = put((self.sets == np.arange(SETS)[:, None]).astype(float))  # (SETS, J)
        there, weights, share = put(theta), answers.weights, answers.share_mean
        evidence = _standard_error(members @ weights - 1 / SETS, xp)
        parts = [
            members @ (weights * (there[:, k, None] * self.found[1, ...] - share[k, None, :]))
            for k in range(there.shape[1])
        ]
        return evidence, xp.stack([_standard_error(each, xp) for each in parts])

    def moments(self) -> tuple[Array, Array]:
        """Posterior means (V, d) and covariances (V, d, d) of z, as NumPy, from the weights."""
        z, put = self.log_theta @ contrasts(self.rules[0].points.shape[1] + 1), device_of(self.found).put
        return _moments(z, self.found[0, ...] + put(self._log_weights())[:, None])


def _moments(z: Array, logs: AnyArray) -> tuple[Array, Array]:
    """Means (V, d) and covariances (V, d, d) of points z (J, d) with log weights (J, V), as NumPy.

    From the weights to the power 1/T, with the lowest of some temperatures T at which enough points count:
    a Gaussian that is narrow among the points has T times its covariance then.
    """
    xp, put, size, count = namespace(logs), device_of(logs).put, z.shape[1], int(logs.shape[1])
    powers = put(np.concatenate([z, (z[:, :, None] * z[:, None, :]).reshape(len(z), -1)], axis=1))
    wanted, waiting = 3.0 * (size + 1), np.arange(count)
    sums, heat = np.empty((count, size + size**2)), np.empty(count)
    for temperature in _TEMPERATURES:
        own = take(logs, waiting, axis=1)
        weights = xp.exp((own - xp.max(own, axis=0, keepdims=True)) / float(temperature))
        weights = weights / xp.sum(weights, axis=0, keepdims=True)
        sums[waiting], heat[waiting] = to_numpy(weights.T @ powers), temperature
        waiting = waiting[to_numpy(1 / xp.sum(weights * weights, axis=0)) < wanted]
        if not len(waiting):
            break
    means = sums[:, :size]
    squares = sums[:, size:].reshape(count, size, size) - means[:, :, None] * means[:, None, :]
    return means, squares / heat[:, None, None] + 1e-10 * np.eye(size)


@dataclass(frozen=True)
class _Surface:
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

    def some(self, members: IndexArray) -> _Surface:
        """For some of the targets, members (k,)."""
        return replace(self, smooth=take(self.smooth, members, axis=2))

    def moments(self, group: _Group, search: _Search) -> tuple[Array, Array]:
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
            prior = search.log_prior(log_theta, matrix @ some[5, ...], group.columns[part])
            found.append(_moments(z, matrix @ some[0, ...] + prior + base))
        return np.concatenate([each[0] for each in found]), np.concatenate([each[1] for each in found])

    def answers(
        self, group: _Group, search: _Search, fine: Rule, everything: bool, last: bool
    ) -> _Interpolated:
        """Answers from the points of a fine rule, for targets that are precise enough then, or for all.

        Unless it is the last time, those for which the fine rule is not good enough are left.
        """
        target_error, put = search.effort.target_error, search.device.put
        xp, dimension = namespace(self.smooth), fine.points.shape[1]
        log_theta = log_directions(fine.points)
        theta, base = np.exp(log_theta), log_weights([fine]) + 0.5 * math.log(dimension + 1)
        matrices = [put(each.matrix(log_theta)) for each in self.ways]
        nearest, signs = put(self.ways[0].nearest(log_theta)), put(_signs(set_numbers([fine])))
        parts, chosen, moments, again = [], [], [], []
        # with all directions splines of order five err by less than 2^(−3/d) of the error with half of them
        less = 2.0 ** (-3 / dimension)
        # Predictions are less smooth, and with four bands or more both halves may err in the same sense:
        # with the difference over √2, the error of each if they were independent, 28 of 32 deviations were
        # within two stated errors and one was off by 5.3; with the whole difference 191 of 192 means and
        # deviations are. With three bands all of 192 are within 1.1 whole differences, most far below
        half = math.sqrt(0.5) if dimension < 3 else 1.0
        for part in blocks(len(group.columns), 1, search.chunk(len(theta))):
            columns, smooth = group.columns[part], self.smooth[:, :, part]
            values = [
                xp.stack([matrix @ smooth[i, ...] for i in functions])
                for matrix, functions in zip(matrices, (range(13), (0, 5, 1), (0, 5, 1)), strict=True)
            ]
            found = _unsmooth(values[0], search.log_prior(log_theta, values[0][5, ...], columns))
            whole = _sums(found, base, theta)
            first, second = (
                _share_sums(each[0, ...] + prior, each[2, ...], base, theta)
                for each in values[1:]
                for prior in (search.log_prior(log_theta, each[1, ...], columns),)
            )
            lattice = _Group(columns, group.faces[:0], (fine,), np.arange(len(theta)), found)
            errors = lattice._halves(whole, theta)
            evidence, shares = (
                xp.sqrt((less * _apart(all_of_it, one, other)) ** 2 + of_sums**2)
                for all_of_it, one, other, of_sums in (
                    (whole.log_evidence, first[0], second[0], errors[0]),
                    (whole.share_mean, first[1], second[1], errors[1]),
                )
            )
            answers = _with_errors(whole, evidence, shares)
            mean_weights = matrices[0].T @ whole.weights
            own = answers.fine(target_error) & (answers.effective >= _FEWEST_FINE)
            own &= _linear_error(found, smooth, whole.weights, mean_weights) <= target_error
            # errors of the sums themselves
            coarse = ~_with_errors(whole, *errors).fine(_PART * target_error)
            coarse = ~own & (coarse | (answers.effective < _FEWEST_FINE)) & (not last)
            own |= everything & ~coarse
            again.append(coarse)
            members = np.flatnonzero(own)
            moments.append(lattice.moments())
            answers, halves = (
                answers.some(members),
                [take(each[2], members, axis=1) for each in (first, second)],
            )
            distribution, log_distribution = _distributions(answers, take(found, members, axis=2), theta)
            weights, mean_weights = nearest.T @ answers.weights, take(mean_weights, members, axis=1)
            # errors of interpolation and of the sums are independent: with signs as they come, squares add
            error_weights = matrices[0].T @ (signs[:, None] * answers.weights)
            for sign, matrix, own_weights in zip((half, -half), matrices[1:], halves, strict=True):
                error_weights = error_weights + sign * (matrix.T @ own_weights)
            parts.append(
                replace(
                    answers,
                    weights=weights,
                    distribution=distribution,
                    log_distribution=log_distribution,
                    mean_weights=mean_weights,
                    error_weights=error_weights,
                )
            )
            chosen.append(own)
        summary = _Summary(
            *(xp.concat([getattr(each, name) for each in parts], axis=-1) for name in vars(parts[0]))
        )
        mask = np.concatenate(chosen)
        means, covariances = (np.concatenate(each) for each in zip(*moments, strict=True))
        done, others, coarser = (np.flatnonzero(each) for each in (mask, ~mask, np.concatenate(again)))
        return _Interpolated(done, others, coarser, summary, means, covariances)


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
        for i in (3, 4)
    ]
    return to_numpy(xp.maximum(*errors))


def _sums(found: AnyArray, log_base: Array, theta: Array) -> _Summary:
    """Weighted sums over directions θ (J, K) of what was found (13, J, V); without errors."""
    xp, put = namespace(found), device_of(found).put
    logs, fraction, square, scale, noise, *powers = (found[i, ...] for i in range(13))
    log_terms, there = logs + put(log_base)[:, None], put(theta)
    top = xp.max(log_terms, axis=0)
    terms = xp.exp(log_terms - top[None, :])
    total = xp.sum(terms, axis=0)
    weights = terms / total[None, :]
    share = there.T @ (weights * fraction)  # Σ_j W_j θ_jk E_j ω
    variance = xp.maximum((there * there).T @ (weights * square) - share * share, xp.zeros_like(share))
    return _Summary(
        weights,
        top + xp.log(total),
        xp.zeros_like(top),
        share,
        xp.sqrt(variance),
        xp.zeros_like(share),
        there.T @ (weights * scale),
        xp.sum(weights * noise, axis=0),
        *_logs_of_scales(weights, powers[0], powers[1], put(np.log(theta))),
        *(
            each[0, ...]
            for each in _logs_of_scales(weights, powers[2], powers[3], put(np.zeros((len(theta), 1))))
        ),
    )


def _logs_of_scales(
    weights: AnyArray, mean: AnyArray, square: AnyArray, log_theta: AnyArray
) -> tuple[AnyArray, AnyArray]:
    """Mean and deviation (K, V) of log s + log θ_k from weights (J, V) and moments (J, V) of log s."""
    xp = namespace(weights)
    # from the middle, so that little is lost in differences of squares
    middle = xp.sum(weights * mean, axis=0)
    variance = xp.sum(weights * (square - 2 * mean * middle + middle * middle), axis=0)
    offset = log_theta.T @ weights
    both = log_theta.T @ (weights * (mean - middle))
    variance = variance + 2 * both + (log_theta * log_theta).T @ weights - offset * offset
    return middle + offset, xp.sqrt(xp.maximum(variance, xp.zeros_like(variance)))


def _signs(sets: IndexArray) -> Array:
    """±1 for directions (J,) of the first and of the second half, 0 for those of both.

    With two halves the standard error of Σ_j w_j x_j = 0, `_standard_error`, is |Σ_j ±w_j x_j|.
    """
    return np.where(sets < 0, 0.0, 1.0 - 2.0 * sets)


def _share_sums(
    logs: AnyArray, fraction: AnyArray, log_base: Array, theta: Array
) -> tuple[AnyArray, AnyArray, AnyArray]:
    """Log evidence (V,), means of shares (K, V) and weights (M, V) from log integrals and E ω at θ (M, K)."""
    xp, put = namespace(logs), device_of(logs).put
    log_terms = logs + put(log_base)[:, None]
    top = xp.max(log_terms, axis=0)
    terms = xp.exp(log_terms - top[None, :])
    total = xp.sum(terms, axis=0)
    share = (put(theta).T @ (terms * fraction)) / total[None, :]
    return top + xp.log(total), share, terms / total[None, :]


def _with_errors(answers: _Summary, evidence: AnyArray, shares: AnyArray) -> _Summary:
    """Answers with the errors of the log evidence (V,) and the shares (K, V).

    Two halves differ little by chance now and then; all K + 1 differences of a target are one size in units
    of deviations, and no stated error is below their root mean square.
    """
    xp, deviation = namespace(evidence), answers.share_deviation
    # all weight on one direction has no deviation: no such error is small, and its square is a double
    relative = xp.clip(shares / xp.maximum(deviation, xp.full_like(deviation, 1e-300)), 0.0, 1e100)
    typical = xp.sqrt((evidence**2 + xp.sum(relative**2, axis=0)) / (1 + shares.shape[0]))
    errors = xp.maximum(evidence, typical), xp.maximum(shares, typical[None, :] * deviation)
    return replace(answers, log_evidence_error=errors[0], share_error=errors[1])


def _smooth(found: AnyArray, log_prior: AnyArray) -> AnyArray:
    """The numbers (13, directions, v) of every direction in forms that vary slowly.

    Log integral less the log prior (directions, v) at E log s, mean and variance of ω, logarithms of E s and
    E τ, mean and variance of log s, log τ and u, skewness of u and of log τ.
    """
    logs, fraction, square, scale, noise, *powers = (found[i, ...] for i in range(13))
    variances = [powers[i + 1] - powers[i] * powers[i] for i in (0, 2, 4)]
    xp = namespace(found)
    return xp.stack(
        [
            logs - log_prior,
            fraction,
            square - fraction * fraction,
            xp.log(scale),
            xp.log(noise),
            powers[0],
            variances[0],
            powers[2],
            variances[1],
            powers[4],
            variances[2],
            powers[6],
            powers[7],
        ]
    )


def _unsmooth(values: AnyArray, log_prior: AnyArray) -> AnyArray:
    """The inverse of `_smooth`, (13, directions, v)."""
    xp = namespace(values)
    logs, fraction, variance, scale, noise, *powers = (values[i, ...] for i in range(13))
    square = fraction * fraction + xp.maximum(variance, xp.zeros_like(variance))
    squares = [powers[i] * powers[i] + xp.maximum(powers[i + 1], xp.zeros_like(variance)) for i in (0, 2, 4)]
    return xp.stack(
        [
            logs + log_prior,
            fraction,
            square,
            xp.exp(scale),
            xp.exp(noise),
            powers[0],
            squares[0],
            powers[2],
            squares[1],
            powers[4],
            squares[2],
            powers[6],
            powers[7],
        ]
    )


def _distributions(answers: _Summary, found: AnyArray, theta: Array) -> tuple[AnyArray, AnyArray]:
    """Distribution functions of shares (K, places, V), and of log λ_k and log τ (K + 1, places, V).

    At `PLACES`. Along each of the directions with the largest weights log s is taken as normal, u and log τ
    as lognormal from some point on, with their own means, variances and skewness.
    """
    xp, device, bands = namespace(found), device_of(found), theta.shape[1]
    steps = device.put(PLACES)[None, :, None]
    means = xp.concat([answers.log_scale_mean, answers.log_noise_mean[None, :]], axis=0)
    deviations = xp.concat([answers.log_scale_deviation, answers.log_noise_deviation[None, :]], axis=0)
    logs = means[:, None, :] + deviations[:, None, :] * steps
    places = _share_places(answers.share_mean[:, None, :], answers.share_deviation[:, None, :], steps)
    result, result_logs = xp.zeros_like(places), xp.zeros_like(logs)
    waiting, count = np.arange(int(places.shape[2])), len(theta)
    while len(waiting):
        # of all points, or of half, a quarter …, which are lattices too, the heaviest if they are enough
        some = take(answers.weights, waiting, axis=1)[:count, :]
        order = largest_rows(some, _MIXED)
        weights, total = take_rows(some, order), xp.sum(some, axis=0)
        enough = np.array(to_numpy(xp.sum(weights, axis=0) > 0.999 * total), bool) | (count <= _MIXED)
        own, columns = np.flatnonzero(enough), waiting[enough]
        if len(own):
            order, weights = take(order, own, axis=1), take(weights, own, axis=1)
            weights = weights / xp.sum(weights, axis=0, keepdims=True)
            (scale, scale_spread), (noise, noise_spread), (u, spread) = (
                _mean_and_deviation(found, first, columns, order) for first in (5, 7, 9)
            )
            of_u, of_noise = (
                _skewed(take_rows(take(found[i, ...], columns, axis=1), order)) for i in (11, 12)
            )
            there, there_logs = (take(each, columns, axis=2) for each in (places, logs))
            below, below_logs = [], []
            for k in range(bands):
                direction = xp.reshape(
                    take(device.put(np.ascontiguousarray(theta[:, k])), xp.reshape(order, (-1,)), axis=0),
                    order.shape,
                )
                middle, rows, log_rows = scale + xp.log(direction), [], []
                for i in range(len(PLACES)):
                    # share ≤ place ⟺ u ≤ log(part/(1 − part)), part = place/θ_k
                    part = xp.clip(there[k, i, ...][None, :] / direction, 1e-300, 1 - 1e-15)
                    rows.append(weights * of_u((xp.log(part / (1 - part)) - u) / spread))
                    away = (there_logs[k, i, ...][None, :] - middle) / scale_spread
                    log_rows.append(weights * _normal_distribution(away))
                below.append(xp.stack([xp.sum(each, axis=0) for each in rows]))
                below_logs.append(xp.stack([xp.sum(each, axis=0) for each in log_rows]))
            noisy = [
                xp.sum(weights * of_noise((place[None, :] - noise) / noise_spread), axis=0)
                for place in (there_logs[bands, i, ...] for i in range(len(PLACES)))
            ]
            below_logs.append(xp.stack(noisy))
            result = add_to_columns(result, columns, xp.stack(below))
            result_logs = add_to_columns(result_logs, columns, xp.stack(below_logs))
        waiting, count = waiting[~enough], count // 2
    return result, result_logs


def _share_places(mean: AnyArray, deviation: AnyArray, steps: AnyArray) -> AnyArray:
    """Places between 0 and 1 for shares: mean + deviation · steps, of shapes that fit together.

    Closer to 0 or 1 than `_NEAR_END` deviations they approach it geometrically: the density of the share of a
    band that is nearly switched off grows without bound towards 0, like the power −1/2 for width one.
    """
    xp = namespace(mean)
    straight, near = mean + deviation * steps, _NEAR_END * deviation + 1e-300
    low, high = (near * xp.exp(xp.clip(each / near - 1, -600.0, 0.0)) for each in (straight, 1 - straight))
    return xp.where(straight < near, low, xp.where(1 - straight < near, 1 - high, straight))


def _mean_and_deviation(
    found: AnyArray, first: int, columns: IndexArray, order: AnyArray
) -> tuple[AnyArray, AnyArray]:
    """Of a quantity along directions in an order (rows, v), from its moments in found (13, J, V)."""
    xp = namespace(found)
    mean, square = (take_rows(take(found[i, ...], columns, axis=1), order) for i in (first, first + 1))
    return mean, xp.sqrt(xp.maximum(square - mean * mean, xp.full_like(square, 1e-24)))


def _normal_distribution(z: AnyArray) -> AnyArray:
    """Φ(z) to 1.5e-4, of any shape."""
    xp = namespace(z)
    z = xp.clip(z, -9.0, 9.0)
    return 1 / (1 + xp.exp(-z * (1.5976 + 0.070566 * z * z)))


def _skewed(skewness: AnyArray) -> Callable[[AnyArray], AnyArray]:
    """Distribution function of ± a lognormal from some point on, standardised, with a skewness of any shape.

    (e^Y − E e^Y)/deviation ≤ z ⟺ (Y − E Y)/σ ≤ log(√w (1 + q z))/√log w with w = e^(σ²) = 1 + q², and the
    skewness is (w + 2) q.
    """
    xp = namespace(skewness)
    sign = xp.where(skewness < 0.0, -xp.ones_like(skewness), xp.ones_like(skewness))
    size = xp.clip(xp.abs(skewness), 1e-3, 4.0)
    root = (1 + 0.5 * size * size + size * xp.sqrt(1 + 0.25 * size * size)) ** (1 / 3)
    w = root + 1 / root - 1
    q, half = xp.sqrt(w - 1), 0.5 * xp.log(w)

    def distribution(z: AnyArray) -> AnyArray:
        """At z, shaped like the skewness."""
        start = xp.maximum(sign * q * z, xp.full_like(z, -1 + 1e-9))
        return _normal_distribution(sign * (xp.log1p(start) + half) / xp.sqrt(2 * half))

    return distribution


class _Search:
    """The directions of a block of targets: looked along once for the answers, and once for their weights."""

    def __init__(
        self, kernels: BandKernels, targets: BandTargets, priors: BandPriors, effort: Effort
    ) -> None:
        self.kernels, self.targets, self.priors, self.effort = kernels, targets, priors, effort
        self.device = device_of(targets.values)
        self.log_theta: list[Array] = []
        self.lines: dict[int, Line] = {}  # those that are still there in the second pass
        self._room = free_floats(self.device) // 2

    @property
    def price(self) -> float:
        """Cost of an eigendecomposition in units of that of a target along a direction.

        Operations of `eigh` count 10 r³ on the host and 50 r³ on other devices; a target has 2r² of
        projections and nodes that take the time of some 3·10⁵ (measured at r = 30 to 500 on one core, 2000 on
        an H200).
        """
        rank = self.kernels.rank
        return (10.0 if self.device.host else 50.0) * rank**3 / (2 * rank**2 + 3e5)

    def chunk(self, points: int) -> int:
        """Targets whose values at so many points are held at a time."""
        return max(1, self.device.block_floats * (16 if self.device.host else 1) // points)

    def floors(self, log_scale: Array, log_noise: Array, columns: IndexArray) -> Array:
        """Logs (V, K) of the shares θ_k of the signal at which a band begins to matter, in coarse steps.

        For targets (V,) with these logs of the total scale and of the noise variance. To the likelihood it
        matters where its variance along its own eigenvectors, tr G²/tr G times s θ_k, is that of the noise:
        as a function of θ_k the likelihood is singular at −τ/(s g) for eigenvalues g of the band. To the
        prior it matters where s θ_k is the prior mean of λ_k: from there on a larger θ_k makes s smaller.
        Below, the log density of log λ_k is a straight line.
        """
        levels = np.log(_FLOORS)
        nearest = levels[np.argmin(np.abs(log_noise - log_scale - levels[:, None]), axis=0)]
        noise = nearest[:, None] + self._whiteness
        units = to_numpy(self.targets.log_units)[columns]
        prior = self._prior_means - (log_scale + units)[:, None]
        return np.where(prior < noise, _PRIOR_STEP * np.floor(prior / _PRIOR_STEP), noise)

    @cached_property
    def _prior_means(self) -> Array:
        """Logs of the prior means of λ_k, (K,), for kernels of mean diagonal one."""
        return np.array([law.shift for law in self.priors.laws]) + self.priors.log_sizes

    @cached_property
    def _whiteness(self) -> Array:
        """Logs of tr G/tr G², (K,), one for white noise."""
        xp = namespace(self.kernels.grams[0])
        squares = np.array([float(xp.sum(gram * gram)) for gram in self.kernels.grams])
        return np.asarray(np.log(self.kernels.examples / squares), np.float64)

    @cached_property
    def _tables(self) -> tuple[PriorTable, ...]:
        return self.priors.each(QUICK.table_step, self.device)

    def log_prior(self, log_theta: Array, log_scale: AnyArray, columns: IndexArray) -> AnyArray:
        """Σ_k log π_k(log s + log θ_k) for directions (M, K) and log s (M, v) of some targets (v,)."""
        xp, put = namespace(log_scale), self.device.put
        x = log_scale + take(self.targets.log_units, put(columns), axis=0)[None, :]
        total = xp.zeros_like(x)
        for k, table in enumerate(self._tables):
            total = total + table.value(x + put(np.ascontiguousarray(log_theta[:, k]))[:, None], xp)
        return total

    def look_at_faces(self, group: _Group) -> _Group:
        """Look along directions on the faces of the simplex, the first of all."""
        faces = face_directions(len(self.kernels.used))
        numbers, found = self._along(group, faces)
        return replace(group, faces=faces, numbers=numbers, found=found)

    def look(self, group: _Group, rule: Rule) -> _Group:
        """Look along the points of a further rule, or the further ones of the last, for some targets."""
        again = bool(group.rules) and group.rules[-1].shift is rule.shift
        new = rule.points[len(group.rules[-1].points) if again else 0 :]
        numbers, found = self._along(group, log_directions(new))
        both = [each for each in (group.found, found) if each is not None]
        all_found = both[0] if len(both) == 1 else namespace(found).concat(both, axis=1)
        rules = (*(group.rules[:-1] if again else group.rules), rule)
        return replace(group, rules=rules, numbers=np.concatenate([group.numbers, numbers]), found=all_found)

    def _along(self, group: _Group, logs: Array) -> tuple[IndexArray, AnyArray]:
        """Numbers (n,) of directions log θ (n, K), and what is found along them for targets, (13, n, V)."""
        everything = len(group.columns) == self.targets.count
        targets = self.targets if everything else self.targets.some(group.columns)
        directions = Directions(self.kernels, targets, self.priors)
        found: list[AnyArray | None] = [None] * len(logs)
        before, xp = len(self.log_theta), directions.xp

        def integrate(number: int, line: Line) -> None:
            if (1 + len(self.lines)) * self.kernels.rank**2 <= self._room:
                self.lines[before + number] = line
            conditional = directions.given(line)
            found[number] = xp.stack([conditional.log_integral, *conditional.moments(xp)])
            done = before + sum(each is not None for each in found)
            self.effort.say(f"{done} directions, now for {targets.count} of {self.targets.count} targets")

        if self.device.host:
            integrate(0, directions.line(logs[0]))  # sets the range of the lattice
            on_every_core(
                lambda number: integrate(number, directions.line(logs[number])), range(1, len(logs))
            )
        else:
            for number, line in enumerate(one_ahead(directions.line, list(logs))):
                integrate(number, line)
        self.log_theta.extend(logs)
        return before + np.arange(len(logs)), xp.stack(found, axis=1)

    # ------------------------------------------------------------------ what needs the final weights

    def posterior(self, finished: Sequence[tuple[_Group, _Summary]]) -> BlockPosterior:
        """Answers, distribution functions of shares and coefficients of predictions."""
        order = np.argsort(np.concatenate([group.columns for group, _ in finished]))

        def joined(name: str) -> Array:
            """A quantity of all targets, (V, ...), in their order."""
            parts = [to_numpy(getattr(summary, name)).T for _, summary in finished]
            return np.concatenate(parts)[order]

        mean, deviation = joined("share_mean"), joined("share_deviation")
        places = _share_places(mean[..., None], deviation[..., None], PLACES)
        weights, mean_weights, error_weights = (self._sparse(finished, name) for name in _SPARSE)
        summed = np.concatenate([np.full(len(g.columns), s.distribution is None) for g, s in finished])
        dual, distribution = self._second_pass(mean_weights, places, summed[order])
        logs = np.full((len(mean), mean.shape[1] + 1, len(PLACES)), np.nan)
        for group, summary in finished:
            if summary.distribution is not None:
                distribution[group.columns] = np.moveaxis(to_numpy(summary.distribution), 2, 0)
                logs[group.columns] = np.moveaxis(to_numpy(summary.log_distribution), 2, 0)
        effective = [
            to_numpy(1 / namespace(summary.weights).sum(summary.weights**2, axis=0))
            for _, summary in finished
        ]
        counts = [np.full(len(group.columns), group.count) for group, _ in finished]
        return BlockPosterior(
            np.array(self.log_theta),
            weights,
            mean_weights,
            error_weights,
            np.concatenate(counts)[order],
            joined("log_evidence"),
            joined("log_evidence_error"),
            joined("noise_mean"),
            np.concatenate(effective)[order],
            joined("scale_mean"),
            joined("log_scale_mean"),
            joined("log_scale_deviation"),
            joined("log_noise_mean"),
            joined("log_noise_deviation"),
            mean,
            deviation,
            joined("share_error"),
            places,
            distribution,
            logs,
            dual,
        )

    def _sparse(self, finished: Sequence[tuple[_Group, _Summary]], name: str) -> sparse.csr_array:
        """Weights of this name that are not negligible, (J, V)."""
        rows, columns, values = [], [], []
        for group, summary in finished:
            given, negligible = getattr(summary, name), _NEGLIGIBLE if name == "weights" else _SMALL
            if given is None:  # sums over directions
                signs = _signs(group.sets) if name == "error_weights" else np.ones(group.count)
                given = device_of(summary.weights).put(signs)[:, None] * summary.weights
                negligible = _NEGLIGIBLE
            weights = to_numpy(given)
            own, target = np.nonzero(np.abs(weights) > negligible)
            kept = weights[own, target]
            total = np.bincount(target, kept, weights.shape[1])
            if name == "error_weights":  # of differences from the mean
                total[:] = 1.0
            rows.append(group.numbers[own])
            columns.append(group.columns[target])
            values.append(kept / total[target])
        places = np.concatenate(rows), np.concatenate(columns)
        shape = len(self.log_theta), self.targets.count
        return sparse.csr_array((np.concatenate(values), places), shape=shape)

    def _second_pass(self, weights: sparse.csr_array, places: Array, summed: Mask) -> tuple[AnyArray, Array]:
        """Dual coefficients (K, r, V) and, where summed (V,), distribution functions of shares.

        The latter are (V, K, places); the weights (J, V) are those of means.
        """
        directions = Directions(self.kernels, self.targets, self.priors)
        xp, put, rank = directions.xp, self.device.put, self.kernels.rank
        dual = self.device.zeros(len(self.kernels.used), rank, self.targets.count)
        there = put(np.ascontiguousarray(np.moveaxis(places, 0, 2)))  # (K, places, V)
        distribution = xp.zeros_like(there)
        relevant = np.flatnonzero(np.diff(weights.indptr))
        lines = one_ahead(
            lambda j: self.lines.pop(j, None) or directions.line(self.log_theta[j]), relevant.tolist()
        )
        for number, (j, line) in enumerate(zip(relevant, lines, strict=True)):
            columns, values = row_of(weights, int(j))
            own = put(values)
            part, theta = self.targets.some(columns), np.exp(self.log_theta[j])
            conditional = directions.given(line, part)
            alpha = line.system.vectors @ (shrunk(line.system, conditional, part, xp) * own[None, :])
            dual = add_to_columns(dual, columns, xp.stack([float(each) * alpha for each in theta]))
            some = summed[columns]
            if some.any():
                below = _shares_below(conditional, theta, take(there, put(columns), axis=2), xp)
                distribution = add_to_columns(distribution, columns, below * own[None, None, :])
            self.effort.say(f"intervals and coefficients: {number + 1} of {len(relevant)} directions")
        return dual, np.moveaxis(to_numpy(distribution), 2, 0)


def shrunk(system: Eigensystem, conditional: Conditional, targets: BandTargets, xp: Any) -> AnyArray:
    """E[e^u/(1 + e^u g_i)] ỹ_i, (r, V): the posterior mean of one direction in its eigenbasis."""
    device = device_of(targets.values)
    factors = 1 / (np.exp(-conditional.lattice)[None, :] + system.values[:, None])  # (r, M)
    averages = device.put(factors) @ conditional.on_lattice(conditional.mass, xp)
    return averages * (system.vectors.T @ targets.values)


def _shares_below(conditional: Conditional, theta: Array, places: AnyArray, xp: Any) -> AnyArray:
    """P(share of band k ≤ place) along one direction, (K, places, v): share_k = θ_k e^u/(1 + e^u).

    The probability of a node is spread evenly over its cell.
    """
    mass, count = conditional.mass, conditional.mass.shape[0]
    step = float(conditional.lattice[1] - conditional.lattice[0]) * xp.astype(conditional.stride, xp.float64)
    total = partial_sums(mass)
    found = []
    for k, largest in enumerate(theta):
        share = places[k, ...]
        ratio = share / xp.maximum(float(largest) - share, xp.full_like(share, 1e-300))
        edge = xp.log(xp.maximum(ratio, xp.full_like(ratio, 1e-300)))  # u at which the share is the place
        position = xp.clip((edge - conditional.u[0, :] + step / 2) / step, 0.0, float(count))
        cell = xp.clip(xp.astype(xp.floor(position), xp.int64), 0, count - 1)
        inside = position - xp.astype(cell, xp.float64)
        found.append(take_rows(total, cell) + take_rows(mass, cell) * inside)
    return xp.stack(found)


def _standard_error(of_sets: AnyArray, xp: Any) -> AnyArray:
    """Standard error of a sum whose parts from each of the sets (SETS, V) would all have mean zero."""
    return xp.sqrt(SETS / (SETS - 1) * xp.sum(of_sets * of_sets, axis=0))
