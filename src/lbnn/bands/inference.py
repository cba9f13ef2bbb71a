"""The posterior of a block of targets: rounds of directions, until the stated errors are as small as asked.

For every direction and target five numbers are kept: the log of the integral, E ω, E ω², E s and E τ along
it, with ω = s/(s + τ). All answers are weighted sums of them, so that weights may change as rules are
added. A round looks where targets whose errors are too large have their mass, makes clusters of them, and
adds a rule for each cluster.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lbnn._base.arrays import add_to_columns, device_of, namespace, take, take_rows, to_numpy
from lbnn._base.threads import on_every_core
from lbnn._base.types import AnyArray, Array, IndexArray, Mask
from lbnn.bands.data import BandKernels, BandTargets
from lbnn.bands.prior import BandPriors
from lbnn.bands.quadrature import Conditional, Directions, Eigensystem
from lbnn.bands.simplex import (
    SETS,
    Rule,
    first_rules,
    log_directions,
    log_weights,
    points_for_one,
    rules_for,
    set_numbers,
)

_LOOKED_AT = 2000  # targets that a round looks at to make clusters
_TEMPERATURES = 4.0 ** np.arange(0, 8)
_NEGLIGIBLE = 1e-7  # weight of a direction below which it is left out of intervals and predictions
_HOST_ROOM, _DEVICE_ROOM = 1 << 27, 5 << 30  # floats of eigenvectors that are kept: 1 GB and 43 GB
_ABSOLUTE = 1e-9  # error of a share that is always small enough: rounding
#: Places, in posterior deviations from the mean, at which distribution functions of shares are kept.
_PLACES = np.sinh(np.linspace(-2.8, 2.8, 57)) / 1.2


@dataclass(frozen=True)
class Effort:
    """Standard error aimed at, most directions, seed, and the function that reports progress."""

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
    weights : (J, V)
        Posterior probabilities of the directions.
    log_evidence, log_evidence_error, noise_mean, effective_directions : (V,)
        In units of the targets.
    scale_mean : (V, K)
        For kernels of mean diagonal one.
    share_mean, share_deviation, share_error : (V, K)
    share_places, share_distribution : (V, K, values)
        Distribution functions of the shares.
    dual_coefficients : (K, r, V) on the device of the data
        Coefficients of the kernels in the posterior mean.
    """

    log_directions: Array
    weights: Array
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


@dataclass
class _Kept:
    """Numbers of every direction and target; each list has an array (V,) for each direction."""

    log_integral: list[AnyArray] = field(default_factory=list)
    fraction: list[AnyArray] = field(default_factory=list)
    fraction_square: list[AnyArray] = field(default_factory=list)
    scale: list[AnyArray] = field(default_factory=list)
    noise: list[AnyArray] = field(default_factory=list)


def infer_block(
    kernels: BandKernels, targets: BandTargets, priors: BandPriors, effort: Effort
) -> BlockPosterior:
    """The posterior of a block of targets."""
    rng, bands = np.random.default_rng(effort.seed), len(kernels.used)
    rounds = _Rounds(Directions(kernels, targets, priors))
    rounds.add(_first(priors, bands, rng), effort)
    while bands > 1:
        summary = rounds.summary()
        open_targets = np.flatnonzero(~summary.fine(effort.target_error))
        left = effort.most_directions - rounds.count
        if not len(open_targets) or left < 8 * SETS:
            break
        chosen = rng.permutation(open_targets)[:_LOOKED_AT]
        means, covariances = rounds.moments(np.sort(chosen))
        # the number of directions at least doubles from round to round: a rule as fine as the last would add
        # little
        fewest, most = min(left, rounds.count), min(left, 2 * rounds.count)
        rounds.add(rules_for(means, covariances, fewest, most, rng), effort)
    return rounds.finish(effort)


def _first(priors: BandPriors, bands: int, rng: np.random.Generator) -> list[Rule]:
    if bands == 1:
        return [Rule(np.zeros(0), np.zeros((0, 0)), np.zeros((1, 0)))]
    return first_rules(priors.mean, priors.variance, round(points_for_one(bands - 1)), rng)


@dataclass(frozen=True)
class _Summary:
    """Weighted sums over all directions so far, on the device of the data; (V,) or (K, V) each."""

    weights: AnyArray  # (J, V)
    log_evidence: AnyArray
    log_evidence_error: AnyArray
    share_mean: AnyArray
    share_deviation: AnyArray
    share_error: AnyArray

    def fine(self, target_error: float) -> Mask:
        """Mask (V,) of targets whose errors are small enough."""
        xp = namespace(self.weights)
        shares = xp.all(self.share_error <= target_error * self.share_deviation + _ABSOLUTE, axis=0)
        return np.asarray(to_numpy(shares & (self.log_evidence_error <= target_error)), bool)


class _Rounds:
    """Directions that have been looked at, and what they say."""

    def __init__(self, directions: Directions) -> None:
        self.directions, self.xp, self.device = directions, directions.xp, directions.device
        self.rules: list[Rule] = []
        self.kept = _Kept()
        self.systems: dict[int, Eigensystem] = {}  # eigenvectors that are still there in the second pass
        self._room = _HOST_ROOM if self.device.host else _DEVICE_ROOM

    @property
    def count(self) -> int:
        return len(self.kept.log_integral)

    def add(self, rules: list[Rule], effort: Effort) -> None:
        """Look along the points of rules."""
        logs = np.concatenate([log_directions(rule.points) for rule in rules])
        found: list[tuple[AnyArray, ...] | None] = [None] * len(logs)
        before = self.count

        def work(number: int) -> None:
            system, conditional = self.directions.along(logs[number])
            if (1 + len(self.systems)) * system.vectors.shape[0] ** 2 <= self._room:
                self.systems[before + number] = system
            found[number] = (conditional.log_integral, *conditional.moments(self.xp))
            done = before + sum(each is not None for each in found)
            effort.say(
                f"{done} of {before + len(logs)} directions for {self.directions.targets.count} targets"
            )

        if self.device.host and len(logs) > 1:
            work(0)  # sets the range of the lattice
            on_every_core(work, range(1, len(logs)))
        else:
            for number in range(len(logs)):
                work(number)
        self.rules += rules
        for each in found:
            assert each is not None
            for name, values in zip(vars(self.kept), each, strict=True):
                getattr(self.kept, name).append(values)

    @property
    def log_theta(self) -> Array:
        """Logarithms of all directions so far, (directions, K)."""
        return np.concatenate([log_directions(rule.points) for rule in self.rules])

    def _stacked(self, name: str) -> AnyArray:
        """A kept quantity of all directions, (directions, V)."""
        return self.xp.stack(getattr(self.kept, name))

    def _log_weights(self) -> Array:
        """Log weights (directions,) of the directions in ∫ d log λ_1 ⋯ d log λ_K."""
        bands = self.rules[0].points.shape[1] + 1
        return np.zeros(1) if bands == 1 else log_weights(self.rules) + 0.5 * math.log(bands)

    def summary(self) -> _Summary:
        """Answers and their errors from all directions so far."""
        xp, put = self.xp, self.device.put
        log_terms = self._stacked("log_integral") + put(self._log_weights())[:, None]
        top = xp.max(log_terms, axis=0)
        terms = xp.exp(log_terms - top[None, :])
        total = xp.sum(terms, axis=0)
        weights, theta = terms / total[None, :], put(np.exp(self.log_theta))
        fraction, square = self._stacked("fraction"), self._stacked("fraction_square")
        share = theta.T @ (weights * fraction)  # Σ_j W_j θ_jk E_j ω
        variance = xp.maximum((theta * theta).T @ (weights * square) - share * share, xp.zeros_like(share))
        if len(self.rules) == 1 and len(self.rules[0].points) == 1:
            zero = xp.zeros_like(total)
            return _Summary(
                weights, top + xp.log(total), zero, share, xp.sqrt(variance), xp.zeros_like(share)
            )
        members = put((set_numbers(self.rules) == np.arange(SETS)[:, None]).astype(float))  # (SETS, J)
        of_sets = members @ weights
        errors = [
            _standard_error(members @ (weights * (theta[:, k, None] * fraction - share[k, None, :])), xp)
            for k in range(theta.shape[1])
        ]
        evidence, deviation, error = (
            _standard_error(of_sets - 1 / SETS, xp),
            xp.sqrt(variance),
            xp.stack(errors),
        )
        # Two sets differ little by chance now and then; all K + 1 differences of a target are one size in
        # units of
        # deviations, and no stated error is below their root mean square.
        relative = error / xp.maximum(deviation, xp.full_like(deviation, 1e-300))
        typical = xp.sqrt((evidence**2 + xp.sum(relative**2, axis=0)) / (1 + error.shape[0]))
        return _Summary(
            weights,
            top + xp.log(total),
            xp.maximum(evidence, typical),
            share,
            deviation,
            xp.maximum(error, typical[None, :] * deviation),
        )

    def moments(self, columns: IndexArray) -> tuple[Array, Array]:
        """Posterior means (v, d) and covariances (v, d, d) of z for some targets.

        From p^(1/T) with the lowest of some temperatures T at which enough directions count: a Gaussian's
        has T times its covariance.
        """
        z = np.concatenate([rule.points for rule in self.rules])
        logs = to_numpy(take(self._stacked("log_integral"), self.device.put(columns), axis=1))
        base, wanted = self._log_weights()[:, None], 3.0 * (z.shape[1] + 1)
        means, covariances = np.empty((len(columns), z.shape[1])), np.empty((len(columns), *[z.shape[1]] * 2))
        waiting = np.arange(len(columns))
        for temperature in _TEMPERATURES:
            tempered = base + (logs[:, waiting] - logs[:, waiting].max(axis=0)) / temperature
            weights = np.exp(tempered - tempered.max(axis=0))
            weights /= weights.sum(axis=0)
            done = (1 / (weights**2).sum(axis=0) >= wanted) | (temperature == _TEMPERATURES[-1])
            own = weights[:, done].T  # (v, J)
            mean = own @ z
            square = np.einsum("vj,ja,jb->vab", own, z, z) - mean[:, :, None] * mean[:, None, :]
            means[waiting[done]], covariances[waiting[done]] = mean, square / temperature
            waiting = waiting[~done]
            if not len(waiting):
                break
        return means, covariances + 1e-10 * np.eye(z.shape[1])

    # ------------------------------------------------------------------ what needs the final weights

    def finish(self, effort: Effort) -> BlockPosterior:
        """Answers, distribution functions of shares and coefficients of predictions."""
        xp, put, summary = self.xp, self.device.put, self.summary()
        weights, theta = to_numpy(summary.weights), put(np.exp(self.log_theta))
        scale = theta.T @ (summary.weights * self._stacked("scale"))
        noise = xp.sum(summary.weights * self._stacked("noise"), axis=0)
        mean, deviation = to_numpy(summary.share_mean).T, to_numpy(summary.share_deviation).T
        values = np.clip(mean[..., None] + deviation[..., None] * _PLACES, 0.0, 1.0)
        dual, distribution = self._second_pass(weights, values, effort)
        return BlockPosterior(
            self.log_theta,
            weights,
            to_numpy(summary.log_evidence),
            to_numpy(summary.log_evidence_error),
            to_numpy(noise),
            1 / (weights**2).sum(axis=0),
            to_numpy(scale).T,
            mean,
            deviation,
            to_numpy(summary.share_error).T,
            values,
            distribution,
            dual,
        )

    def _second_pass(self, weights: Array, values: Array, effort: Effort) -> tuple[AnyArray, Array]:
        """Dual coefficients (K, r, V) and distribution functions (V, K, values) of the shares."""
        xp, data, kernels = self.xp, self.directions.targets, self.directions.kernels
        bands, logs = len(kernels.used), self.log_theta
        dual = self.device.zeros(bands, kernels.rank, data.count)
        there = self.device.put(np.ascontiguousarray(np.moveaxis(values, 0, 2)))  # (K, places, V)
        distribution = xp.zeros_like(there)
        relevant = [j for j in range(len(logs)) if (weights[j] > _NEGLIGIBLE).any()]
        for number, j in enumerate(relevant):
            columns = np.flatnonzero(weights[j] > _NEGLIGIBLE)
            part, theta = data.some(columns), np.exp(logs[j])
            system = self.systems.get(j) or Eigensystem.of(kernels, theta)
            conditional = self.directions.given(system, logs[j], part)
            own = self.device.put(weights[j, columns])
            alpha = system.vectors @ (shrunk(system, conditional, part, xp) * own[None, :])
            dual = add_to_columns(dual, columns, xp.stack([float(each) * alpha for each in theta]))
            below = _shares_below(conditional, theta, take(there, self.device.put(columns), axis=2), xp)
            distribution = add_to_columns(distribution, columns, below * own[None, None, :])
            effort.say(f"intervals and coefficients: {number + 1} of {len(relevant)} directions")
        return dual, np.moveaxis(to_numpy(distribution), 2, 0)


def shrunk(system: Eigensystem, conditional: Conditional, targets: BandTargets, xp: Any) -> AnyArray:
    """E[e^u/(1 + e^u g_i)] ỹ_i, (r, V): the posterior mean of one direction in its eigenbasis."""
    device = device_of(targets.values)
    factors = 1 / (np.exp(-conditional.lattice)[None, :] + system.values[:, None])  # (r, M)
    averages = device.put(factors) @ conditional.on_lattice(conditional.mass, xp)
    return averages * (system.vectors.T @ targets.values)


def _shares_below(conditional: Conditional, theta: Array, values: AnyArray, xp: Any) -> AnyArray:
    """P(share of band k ≤ value) along one direction, (K, places, v): share_k = θ_k e^u/(1 + e^u).

    The probability of a node is spread evenly over its cell.
    """
    mass, count = conditional.mass, conditional.mass.shape[0]
    step = float(conditional.lattice[1] - conditional.lattice[0]) * xp.astype(conditional.stride, xp.float64)
    total = xp.cumulative_sum(mass, axis=0, include_initial=True)
    found = []
    for k, largest in enumerate(theta):
        share = values[k, ...]
        ratio = share / xp.maximum(float(largest) - share, xp.full_like(share, 1e-300))
        edge = xp.log(xp.maximum(ratio, xp.full_like(ratio, 1e-300)))  # u at which the share is the value
        position = xp.clip((edge - conditional.u[0, :] + step / 2) / step, 0.0, float(count))
        cell = xp.clip(xp.astype(xp.floor(position), xp.int64), 0, count - 1)
        inside = position - xp.astype(cell, xp.float64)
        found.append(take_rows(total, cell) + take_rows(mass, cell) * inside)
    return xp.stack(found)


def _standard_error(of_sets: AnyArray, xp: Any) -> AnyArray:
    """Standard error of a sum whose parts from each of the sets (SETS, V) would all have mean zero."""
    return xp.sqrt(SETS / (SETS - 1) * xp.sum(of_sets * of_sets, axis=0))
