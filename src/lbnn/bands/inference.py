"""The posterior of a block of targets: rounds of directions, until the stated errors are as small as asked.

For every direction and target five numbers are kept: the log of the integral, E ω, E ω², E s and E τ along
it, with ω = s/(s + τ). All answers are weighted sums of them, so that weights may change as rules are
added. The first rules serve all targets. Those whose errors are small enough are finished; the others are
divided into clusters that have their mass in one place, and each cluster goes on with a rule of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from lbnn._base.arrays import add_to_columns, free_floats, namespace, place_of, take, take_rows, to_numpy
from lbnn._base.threads import on_every_core
from lbnn._base.types import AnyArray, Array, IndexArray, Mask
from lbnn.bands.data import BandKernels, BandTargets
from lbnn.bands.prior import BandPriors
from lbnn.bands.quadrature import Conditional, Directions, Eigensystem, Line
from lbnn.bands.simplex import (
    FEWEST_POINTS,
    SETS,
    Rule,
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
_ENOUGH = 2.0  # times the points that a rule is thought to need, after which it is not doubled again
_ABSOLUTE = 1e-9  # error of a share that is always small enough: rounding
#: Places, in posterior deviations from the mean, at which distribution functions of shares are kept.
_PLACES = np.sinh(np.linspace(-2.8, 2.8, 57)) / 1.2


@dataclass(frozen=True)
class Effort:
    """How far to go: standard error aimed at, directions of a target at most, the seed, and who is told."""

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
        Posterior probabilities of the directions, where they are not negligible.
    direction_count : (V,)
        Directions that were looked at for each target.
    log_evidence, log_evidence_error, noise_mean, effective_directions : (V,)
        In units of the targets.
    scale_mean : (V, K)
        For kernels of mean diagonal one.
    share_mean, share_deviation, share_error : (V, K)
    share_places, share_distribution : (V, K, places)
        Distribution functions of the shares.
    dual_coefficients : (K, r, V) at the place of the data
        Coefficients of the kernels in the posterior mean.
    """

    log_directions: Array
    weights: sparse.csr_array
    direction_count: IndexArray
    log_evidence: Array
    log_evidence_error: Array
    noise_mean: Array
    effective_directions: Array
    scale_mean: Array
    share_mean: Array
    share_deviation: Array
    share_error: Array
    share_places: Array
    share_distribution: Array
    dual_coefficients: AnyArray

    def ok(self, target_error: float) -> Mask:
        """Whether all stated errors are at most what was asked for, (V,)."""
        allowed = target_error * self.share_deviation + _ABSOLUTE
        return (self.log_evidence_error <= target_error) & (self.share_error <= allowed).all(axis=1)

    def arrays(self) -> dict[str, Array]:
        """All of it as NumPy arrays by name, for a file."""
        plain = {name: to_numpy(value) for name, value in vars(self).items() if name != "weights"}
        parts = {f"weights.{name}": getattr(self.weights, name) for name in ("data", "indices", "indptr")}
        return plain | parts

    @classmethod
    def of_arrays(cls, arrays: dict[str, Array]) -> BlockPosterior:
        """From arrays by name."""
        plain = {name: value for name, value in arrays.items() if not name.startswith("weights.")}
        shape = len(arrays["log_directions"]), len(arrays["log_evidence"])
        parts = tuple(arrays[f"weights.{name}"] for name in ("data", "indices", "indptr"))
        return cls(weights=sparse.csr_array(parts, shape=shape), **plain)


def infer_block(
    kernels: BandKernels, targets: BandTargets, priors: BandPriors, effort: Effort
) -> BlockPosterior:
    """The posterior of a block of targets."""
    rng, bands = np.random.default_rng(effort.seed), len(kernels.used)
    search = _Search(kernels, targets, priors, effort)
    everything = _Group(np.arange(targets.count), (), np.zeros(0, int), None)
    first = _first(priors, bands, rng)
    for rule in first:
        everything = search.look(everything, rule)
    waiting, finished = [everything], []
    while waiting:
        group = waiting.pop()
        summary = group.summary()
        fine, left = summary.fine(effort.target_error), effort.most_directions - group.count
        last = group.rules[-1]
        if bands == 1 or left < FEWEST_POINTS:
            fine[:] = True  # as fine as it gets
        if fine.any():
            finished.append((group.some(np.flatnonzero(fine)), summary.some(np.flatnonzero(fine))))
        if fine.all():
            continue
        others = group.some(np.flatnonzero(~fine))
        if len(group.rules) > len(first) and len(last.points) < _ENOUGH * last.wanted:
            if len(last.points) <= left:
                waiting.append(search.look(others, last.doubled()))
            else:
                finished.append((others, summary.some(np.flatnonzero(~fine))))
            continue
        # a rule as fine as the last would add little
        refinement = _ENOUGH ** (len(group.rules) - len(first))
        for members, rule in rules_for(*others.moments(), refinement, left, search.price, rng):
            waiting.append(search.look(others.some(members), rule))
    return search.posterior(finished)


def _first(priors: BandPriors, bands: int, rng: np.random.Generator) -> list[Rule]:
    if bands == 1:
        return [Rule(np.zeros(0), np.zeros((0, 0)), np.zeros(0), np.zeros((1, 0)), 1.0)]
    return first_rules(priors.mean, priors.variance, rng)


@dataclass(frozen=True)
class _Summary:
    """Weighted sums over the directions of a group, at the place of the data; (V,) or (K, V) each."""

    weights: AnyArray  # (J, V)
    log_evidence: AnyArray
    log_evidence_error: AnyArray
    share_mean: AnyArray
    share_deviation: AnyArray
    share_error: AnyArray
    scale_mean: AnyArray
    noise_mean: AnyArray

    def fine(self, target_error: float) -> Mask:
        xp = namespace(self.weights)
        shares = xp.all(self.share_error <= target_error * self.share_deviation + _ABSOLUTE, axis=0)
        return np.array(to_numpy(shares & (self.log_evidence_error <= target_error)), bool)

    def some(self, members: IndexArray) -> _Summary:
        """For some of the targets."""
        return _Summary(*(take(each, members, axis=each.ndim - 1) for each in vars(self).values()))


@dataclass(frozen=True)
class _Group:
    """Targets that share their directions, and what was found along these.

    Attributes
    ----------
    columns : (V,)
        The targets, as columns of the block.
    rules : tuple of Rule
    numbers : (J,)
        The directions, as numbers of the search.
    found : (5, J, V) at the place of the data
        Along every direction: log of the integral, E ω, E ω², E s, E τ.
    """

    columns: IndexArray
    rules: tuple[Rule, ...]
    numbers: IndexArray
    found: AnyArray

    @property
    def count(self) -> int:
        """Directions so far."""
        return len(self.numbers)

    def some(self, members: IndexArray) -> _Group:
        """Some of the targets, with the same directions."""
        if len(members) == len(self.columns):
            return self
        return _Group(self.columns[members], self.rules, self.numbers, take(self.found, members, axis=2))

    def _log_weights(self) -> Array:
        """Log weights of the directions in ∫ d log λ_1 ⋯ d log λ_K."""
        bands = self.rules[0].points.shape[1] + 1
        return np.zeros(1) if bands == 1 else log_weights(self.rules) + 0.5 * math.log(bands)

    def summary(self) -> _Summary:
        """Answers and their errors from all directions so far."""
        xp, put = namespace(self.found), place_of(self.found).put
        logs, fraction, square, scale, noise = (self.found[i, ...] for i in range(5))
        log_terms = logs + put(self._log_weights())[:, None]
        top = xp.max(log_terms, axis=0)
        terms = xp.exp(log_terms - top[None, :])
        total = xp.sum(terms, axis=0)
        weights = terms / total[None, :]
        theta = put(np.exp(np.concatenate([log_directions(rule.points) for rule in self.rules])))
        share = theta.T @ (weights * fraction)  # Σ_j W_j θ_jk E_j ω
        variance = xp.maximum((theta * theta).T @ (weights * square) - share * share, xp.zeros_like(share))
        deviation = xp.sqrt(variance)
        evidence, error = self._errors(weights, theta, fraction, share, deviation)
        return _Summary(
            weights,
            top + xp.log(total),
            evidence,
            share,
            deviation,
            error,
            theta.T @ (weights * scale),
            xp.sum(weights * noise, axis=0),
        )

    def _errors(
        self, weights: AnyArray, theta: AnyArray, fraction: AnyArray, share: AnyArray, deviation: AnyArray
    ) -> tuple[AnyArray, AnyArray]:
        """Standard errors of the log evidence (V,) and of the shares (K, V), from two sets of directions."""
        xp, put = namespace(weights), place_of(weights).put
        if self.count == 1:
            return xp.zeros_like(share[0, :]), xp.zeros_like(share)
        members = put((set_numbers(self.rules) == np.arange(SETS)[:, None]).astype(float))  # (SETS, J)
        evidence = _standard_error(members @ weights - 1 / SETS, xp)
        error = xp.stack(
            [
                _standard_error(members @ (weights * (theta[:, k, None] * fraction - share[k, None, :])), xp)
                for k in range(theta.shape[1])
            ]
        )
        # Two sets differ little by chance now and then; all K + 1 differences of a target are one size in
        # units of deviations, and no stated error is below their root mean square.
        relative = error / xp.maximum(deviation, xp.full_like(deviation, 1e-300))
        typical = xp.sqrt((evidence**2 + xp.sum(relative**2, axis=0)) / (1 + error.shape[0]))
        return xp.maximum(evidence, typical), xp.maximum(error, typical[None, :] * deviation)

    def moments(self) -> tuple[Array, Array]:
        """Posterior means (V, d) and covariances (V, d, d) of z, as NumPy.

        From the weights to the power 1/T, with the lowest of some temperatures T at which enough directions
        count: a Gaussian that is narrow among the directions has T times its covariance then.
        """
        xp, put = namespace(self.found), place_of(self.found).put
        z = np.concatenate([rule.points for rule in self.rules])
        size = z.shape[1]
        powers = put(np.concatenate([z, (z[:, :, None] * z[:, None, :]).reshape(len(z), -1)], axis=1))
        base, wanted = put(self._log_weights())[:, None], 3.0 * (size + 1)
        logs, waiting = self.found[0, ...] + base, np.arange(len(self.columns))
        sums, heat = np.empty((len(waiting), size + size**2)), np.empty(len(waiting))
        for temperature in _TEMPERATURES:
            own = take(logs, waiting, axis=1)
            weights = xp.exp((own - xp.max(own, axis=0, keepdims=True)) / float(temperature))
            weights = weights / xp.sum(weights, axis=0, keepdims=True)
            sums[waiting], heat[waiting] = to_numpy(weights.T @ powers), temperature
            waiting = waiting[to_numpy(1 / xp.sum(weights * weights, axis=0)) < wanted]
            if not len(waiting):
                break
        means = sums[:, :size]
        squares = sums[:, size:].reshape(-1, size, size) - means[:, :, None] * means[:, None, :]
        return means, squares / heat[:, None, None] + 1e-10 * np.eye(size)


class _Search:
    """The directions of a block of targets: looked along once for the answers, and once for their weights."""

    def __init__(
        self, kernels: BandKernels, targets: BandTargets, priors: BandPriors, effort: Effort
    ) -> None:
        self.kernels, self.targets, self.priors, self.effort = kernels, targets, priors, effort
        self.place = place_of(targets.values)
        self.log_theta: list[Array] = []
        self.lines: dict[int, Line] = {}  # those that are still there in the second pass
        self._room = free_floats(self.place) // 2

    @property
    def price(self) -> float:
        """Cost of an eigendecomposition in units of that of a target along a direction.

        Operations of `eigh` count 10 r³ on the host and 50 r³ elsewhere; a target has 2r² of projections and
        nodes that take the time of some 3·10⁵ (measured at r = 30 to 500 on one core, 2000 on an H200).
        """
        rank = self.kernels.rank
        return (10.0 if self.place.host else 50.0) * rank**3 / (2 * rank**2 + 3e5)

    def look(self, group: _Group, rule: Rule) -> _Group:
        """Look along the points of a further rule, or the further ones of the last, for a group of targets."""
        again = bool(group.rules) and group.rules[-1].shift is rule.shift
        logs = log_directions(rule.points)[len(group.rules[-1].points) if again else 0 :]
        everything = len(group.columns) == self.targets.count
        targets = self.targets if everything else self.targets.some(group.columns)
        directions = Directions(self.kernels, targets, self.priors)
        found: list[AnyArray | None] = [None] * len(logs)
        before, xp = len(self.log_theta), directions.xp

        def work(number: int) -> None:
            line = directions.line(logs[number])
            if (1 + len(self.lines)) * self.kernels.rank**2 <= self._room:
                self.lines[before + number] = line
            conditional = directions.given(line)
            found[number] = xp.stack([conditional.log_integral, *conditional.moments(xp)])
            done = before + sum(each is not None for each in found)
            self.effort.say(f"{done} directions, now for {targets.count} of {self.targets.count} targets")

        if self.place.host and len(logs) > 1:
            work(0)  # sets the range of the lattice
            on_every_core(work, range(1, len(logs)))
        else:
            for number in range(len(logs)):
                work(number)
        self.log_theta.extend(logs)
        numbers = np.concatenate([group.numbers, before + np.arange(len(logs))])
        both = [each for each in (group.found, xp.stack(found, axis=1)) if each is not None]
        all_found = both[0] if len(both) == 1 else xp.concat(both, axis=1)
        rules = (*(group.rules[:-1] if again else group.rules), rule)
        return _Group(group.columns, rules, numbers, all_found)

    # ------------------------------------------------------------------ what needs the final weights

    def posterior(self, finished: Sequence[tuple[_Group, _Summary]]) -> BlockPosterior:
        """Answers, distribution functions of shares and coefficients of predictions."""
        order = np.argsort(np.concatenate([group.columns for group, _ in finished]))

        def joined(name: str) -> Array:
            parts = [to_numpy(getattr(summary, name)).T for _, summary in finished]
            return np.concatenate(parts)[order]

        mean, deviation = joined("share_mean"), joined("share_deviation")
        places = np.clip(mean[..., None] + deviation[..., None] * _PLACES, 0.0, 1.0)
        weights = self._weights(finished)
        dual, distribution = self._second_pass(weights, places)
        effective = [
            to_numpy(1 / namespace(summary.weights).sum(summary.weights**2, axis=0))
            for _, summary in finished
        ]
        counts = [np.full(len(group.columns), group.count) for group, _ in finished]
        return BlockPosterior(
            np.array(self.log_theta),
            weights,
            np.concatenate(counts)[order],
            joined("log_evidence"),
            joined("log_evidence_error"),
            joined("noise_mean"),
            np.concatenate(effective)[order],
            joined("scale_mean"),
            mean,
            deviation,
            joined("share_error"),
            places,
            distribution,
            dual,
        )

    def _weights(self, finished: Sequence[tuple[_Group, _Summary]]) -> sparse.csr_array:
        """Weights that are not negligible, (J, V)."""
        rows, columns, values = [], [], []
        for group, summary in finished:
            weights = to_numpy(summary.weights)
            own, target = np.nonzero(weights > _NEGLIGIBLE)
            rows.append(group.numbers[own])
            columns.append(group.columns[target])
            values.append(weights[own, target])
        places = np.concatenate(rows), np.concatenate(columns)
        shape = len(self.log_theta), self.targets.count
        return sparse.csr_array((np.concatenate(values), places), shape=shape)

    def _second_pass(self, weights: sparse.csr_array, places: Array) -> tuple[AnyArray, Array]:
        """Dual coefficients (K, r, V) and distribution functions (V, K, places) of the shares."""
        directions = Directions(self.kernels, self.targets, self.priors)
        xp, put, rank = directions.xp, self.place.put, self.kernels.rank
        dual = self.place.zeros(len(self.kernels.used), rank, self.targets.count)
        there = put(np.ascontiguousarray(np.moveaxis(places, 0, 2)))  # (K, places, V)
        distribution = xp.zeros_like(there)
        relevant = np.flatnonzero(np.diff(weights.indptr))
        for number, j in enumerate(relevant):
            row = slice(weights.indptr[j], weights.indptr[j + 1])
            columns, own = weights.indices[row].astype(np.int64), put(weights.data[row])
            part, theta = self.targets.some(columns), np.exp(self.log_theta[j])
            line = self.lines.pop(int(j), None) or directions.line(self.log_theta[j])
            conditional = directions.given(line, part)
            alpha = line.system.vectors @ (shrunk(line.system, conditional, part, xp) * own[None, :])
            dual = add_to_columns(dual, columns, xp.stack([float(each) * alpha for each in theta]))
            below = _shares_below(conditional, theta, take(there, put(columns), axis=2), xp)
            distribution = add_to_columns(distribution, columns, below * own[None, None, :])
            self.effort.say(f"intervals and coefficients: {number + 1} of {len(relevant)} directions")
        return dual, np.moveaxis(to_numpy(distribution), 2, 0)


def shrunk(system: Eigensystem, conditional: Conditional, targets: BandTargets, xp: Any) -> AnyArray:
    """E[e^u/(1 + e^u g_i)] ỹ_i, (r, V): the posterior mean of one direction in its eigenbasis."""
    place = place_of(targets.values)
    factors = 1 / (np.exp(-conditional.lattice)[None, :] + system.values[:, None])  # (r, M)
    averages = place.put(factors) @ conditional.on_lattice(conditional.mass, xp)
    return averages * (system.vectors.T @ targets.values)


def _shares_below(conditional: Conditional, theta: Array, places: AnyArray, xp: Any) -> AnyArray:
    """P(share of band k ≤ place) along one direction, (K, places, v): share_k = θ_k e^u/(1 + e^u).

    The probability of a node is spread evenly over its cell.
    """
    mass, count = conditional.mass, conditional.mass.shape[0]
    step = float(conditional.lattice[1] - conditional.lattice[0]) * xp.astype(conditional.stride, xp.float64)
    total = xp.cumulative_sum(mass, axis=0, include_initial=True)
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
