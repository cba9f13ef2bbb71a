"""Tempered sequential Monte Carlo with Hamiltonian moves: narrow, deep, many outputs.

Particles start from a Gaussian close to the posterior (white coordinates ξ, density q = N(0, I)) and follow
q^{1−t} π^t to the posterior π at t = 1. Temperatures are chosen so that the effective sample size stays at
half, and moves are made until the particles have forgotten where they were copied from; the states on the way
are particles too (waste-free: the next population is chosen among all of them, and they all count in the
evidence). At every temperature the moves take their units from the spread of the particles, and the length of
trajectories follows how fast they forget. The evidence is a chain of bridges between neighbouring
temperatures. Particles are on islands that resample among themselves: leaving out one island at a time gives
an error that holds.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy import optimize, special

from lbnn._base.types import Array, IndexArray, Mask
from lbnn.engines.estimate import Call, Estimate
from lbnn.engines.importance import GaussianProposal
from lbnn.engines.target import Target, log_diagonal
from lbnn.engines.verdict import SEQUENTIAL, reaches

ISLANDS, PER_ISLAND = 16, 32
_FIRST_STEPS, _FEWEST_STEPS, _MOST_STEPS = 8, 4, 64  # leapfrog steps of a trajectory
_LARGEST_AUTOCORRELATION = (
    0.1  # correlation with the state after resampling below which it counts as forgotten; 0.3 was biased
)
_FEWEST_MOVES, _MOST_MOVES = 2, 30
_STATES_KEPT = 4  # states kept of every particle at one temperature; as many again are made at t = 1
_PER_DIMENSION = 8  # particles per dimension from which the units of moves are a full covariance
_SMALLEST_STEP = 1e-7  # of temperature
_HURRIED_SHARE = 0.1  # effective sample size of a step of temperature when in a hurry, else a half
_MOST_ROUNDS = 16
_OVERHEAD = 5e4  # operations that every gradient is counted with; what is beyond counts five times (LAPACK)


#: log π₂/π₁ at the particles before and after one step of temperature, each (islands, particles)
Bridge = tuple[Array, Array]


@dataclass(frozen=True)
class Particles:
    """White coordinates with the log posterior density there and its gradient."""

    white: Array  # ξ, (m, D)
    log_target: Array  # (m,)
    gradient: Array  # (m, D)

    @property
    def log_start(self) -> Array:
        """Log q = −½‖ξ‖², (m,)."""
        return -0.5 * (self.white**2).sum(axis=1)

    @property
    def log_ratio(self) -> Array:
        """log π − log q, (m,)."""
        return self.log_target - self.log_start

    def take(self, index: IndexArray) -> Particles:
        """The particles with index (k,)."""
        return Particles(self.white[index], self.log_target[index], self.gradient[index])

    def where(self, mask: Mask, other: Particles) -> Particles:
        """Own particles where the mask (m,) holds, the other's where not."""
        return Particles(
            np.where(mask[:, None], self.white, other.white),
            np.where(mask, self.log_target, other.log_target),
            np.where(mask[:, None], self.gradient, other.gradient),
        )


def smc_estimate(
    target: Target, proposal: GaussianProposal, call: Call, axes: Target | None = None
) -> Estimate:
    """Run rounds of islands until the target error is reached, or the work allotted is done.

    E L is taken along the axes of the outputs of `axes`, by default the same target.
    """
    path = Path(target, proposal, call, axes=axes)
    estimate = in_rounds(lambda _: path.round(), call, _MOST_ROUNDS, lambda: path.work <= path.most)
    call.spend(path.work)
    return estimate


def in_rounds(
    one: Callable[[int], Estimate], call: Call, most: int, allowed: Callable[[], bool] = lambda: True
) -> Estimate:
    """Rounds, by their numbers, until together they reach the target error or no more are allowed."""
    rounds = [one(1)]
    estimate = rounds[0]
    while not reaches(estimate, call) and len(rounds) < most and allowed():
        call.progress.say(
            f"{estimate.method}, round {len(rounds) + 1}, error {estimate.log_evidence_error:.2g}"
        )
        rounds.append(one(len(rounds) + 1))
        estimate = combined(rounds)
    return estimate


def combined(rounds: list[Estimate]) -> Estimate:
    """All rounds as one, each with the same weight."""
    count = len(rounds)
    return Estimate(
        rounds[0].method,
        np.concatenate([each.log_weights for each in rounds]),
        np.concatenate([each.groups + ISLANDS * number for number, each in enumerate(rounds)]),
        np.concatenate([each.log_diagonal for each in rounds]),
        lambda: np.concatenate([each.points for each in rounds]),
        sum(each.log_evidence for each in rounds) / count,
        math.sqrt(sum(each.log_evidence_error**2 for each in rounds)) / count,
        efficiency=min(each.efficiency for each in rounds),
        weighted=False,
        complete=all(each.complete for each in rounds),
        stages=max(each.stages for each in rounds),
        seconds=sum(each.seconds for each in rounds),
        target=rounds[0].target,
    )


class Path:
    """The path of densities q^{1−t} π^t, with the random stream and what its moves have learned.

    Attributes
    ----------
    per_island : int
        Particles on each of `ISLANDS` islands.
    more : int
        Moves in addition at t = 1, whose states are all kept.
    share : float
        Effective sample size of a step of temperature.
    acceptance : float
        Of moves, to which their step is adapted.
    """

    per_island, more, share, acceptance = PER_ISLAND, _STATES_KEPT, 0.5, 0.85

    def __init__(
        self,
        target: Target,
        proposal: GaussianProposal,
        call: Call,
        method: str = SEQUENTIAL,
        axes: Target | None = None,
    ) -> None:
        self.target, self.proposal, self.progress, self.method = target, proposal, call.progress, method
        self.axes, self.rng = axes or target, call.stream(method)
        self.most, self.most_before_cut = call.work(call.policy.smc_work), call.work(call.policy.smc_work_cut)
        self.step = 0.5 * max(target.dimension, 1) ** -0.25
        self.steps = _FIRST_STEPS
        self.units = np.ones(target.dimension)  # of the moves: deviations (D,), or a root of the covariance
        self.work, self.hurried = 0.0, False

    def round(self) -> Estimate:
        """One pass from q to π on every island, and the states collected there."""
        began = time.perf_counter()
        states = [self.evaluate(self.rng.standard_normal((ISLANDS * self.per_island, self.target.dimension)))]
        temperature = 0.0
        bridges: list[Bridge] = []
        while temperature < 1:
            pool = _pooled(states)
            share = _HURRIED_SHARE if self.hurried else self.share
            step = temperature_step(pool.log_ratio, 1 - temperature, share)
            step = max(step, min(_SMALLEST_STEP, 1 - temperature))  # many particles may have no density
            before = (step * pool.log_ratio).reshape(ISLANDS, -1)
            temperature = min(1.0, temperature + step)
            chosen = pool.take(resample(before, self.rng, self.per_island))
            self.units = self.spread(pool, before, chosen)
            states = self.forget(chosen, temperature)
            bridges.append((before, (step * _pooled(states).log_ratio).reshape(ISLANDS, -1)))
            self.progress.say(f"{self.method}, stage {len(bridges)}, temperature {temperature:.3f}")
        return replace(self._collect(states, bridges), seconds=time.perf_counter() - began)

    def spread(self, pool: Particles, before: Array, chosen: Particles) -> Array:
        """Units of moves (D,) or (D, D), from particles with log weights (islands, m), or those chosen."""
        return _spread(chosen.white)

    def diagonal(self, points: Array) -> Array:
        """Logs of the variances whose means are compared, at points (m, D): of L along the axes, (m, n)."""
        return log_diagonal(self.target, points, self.axes.rotation)

    def evaluate(self, white: Array) -> Particles:
        """Density and gradient of the posterior, as functions of ξ (m, k)."""
        u = self.proposal.place(white)
        value, gradient = self.target.value_and_gradient(u)
        self.work += len(u) * (_OVERHEAD + 5 * max(self.target.operations - _OVERHEAD, 0.0))
        return Particles(white, value + self.proposal.log_determinant, self.proposal.pull_back(gradient))

    def forget(self, particles: Particles, temperature: float) -> list[Particles]:
        """Move until log density and norm no longer remember the state before: the last states on the way."""
        start, states = particles, []
        for count in range(1, _MOST_MOVES + 1):
            particles = self.move(particles, temperature)
            states.append(particles)
            memory = max(
                _correlation(start.log_target, particles.log_target),
                _correlation(start.log_start, particles.log_start),
            )
            out_of_time = self.work > self.most_before_cut
            if count >= _FEWEST_MOVES and (memory < _LARGEST_AUTOCORRELATION or out_of_time):
                self.hurried |= memory >= _LARGEST_AUTOCORRELATION
                break
        self._tune(len(states))
        return states[-_STATES_KEPT:]

    def _tune(self, moves: int) -> None:
        """Longer trajectories where many moves were needed, shorter ones where the fewest were."""
        if moves > 2 * _FEWEST_MOVES:
            self.steps = min(2 * self.steps, _MOST_STEPS)
        elif moves == _FEWEST_MOVES or self.hurried:
            self.steps = max(self.steps // 2, _FEWEST_STEPS)

    def move(self, particles: Particles, temperature: float) -> Particles:
        """One Hamiltonian Monte Carlo move of every particle, adapting the step to the acceptance."""
        momentum = self.rng.standard_normal(particles.white.shape)
        step = self.step * self.rng.uniform(0.8, 1.2)
        with np.errstate(over="ignore", invalid="ignore"):  # diverged trajectories are rejected below
            end, end_momentum = self._leapfrog(particles, momentum, temperature, step)
            gain = _energy(end, end_momentum, temperature) - _energy(particles, momentum, temperature)
        probability = np.exp(np.minimum(np.where(np.isnan(gain), -np.inf, gain), 0.0))
        self.step *= math.exp(float(probability.mean()) - self.acceptance)
        return end.where(self.rng.random(len(probability)) < probability, particles)

    def _leapfrog(
        self, particles: Particles, momentum: Array, temperature: float, step: float
    ) -> tuple[Particles, Array]:
        """Particles and momentum (m, k) at the end of a trajectory."""
        force = _force(particles, temperature)
        for _ in range(self.steps):
            momentum = momentum + 0.5 * step * _times(force, self.units.T)
            particles = self.evaluate(particles.white + step * _times(momentum, self.units))
            force = _force(particles, temperature)
            momentum = momentum + 0.5 * step * _times(force, self.units.T)
        return particles, momentum

    def _collect(self, states: list[Particles], bridges: list[Bridge]) -> Estimate:
        """Make a few more states of every particle at t = 1, and measure how fast they decorrelate."""
        states = list(states)
        for _ in range(self.more):
            states.append(self.move(states[-1], 1.0))
        groups = np.tile(np.repeat(np.arange(ISLANDS), self.per_island), len(states))
        points = self.proposal.place(np.concatenate([state.white for state in states]))
        efficiency = chain_efficiency(np.stack([self.summaries(state) for state in states]))
        island_weights = np.sum([special.logsumexp(before, axis=1) for before, _ in bridges], axis=0)
        log_evidence, error = chain_of_bridges(bridges)
        sizes = sum(math.log(before.shape[1]) for before, _ in bridges)
        log_weights = island_weights[groups] - sizes
        return Estimate(
            self.method,
            log_weights,
            groups,
            self.diagonal(points),
            lambda: points,
            log_evidence,
            error,
            efficiency=efficiency,
            weighted=False,
            complete=not self.hurried,
            stages=len(bridges),
            target=self.target,
        )

    def summaries(self, state: Particles) -> Array:
        """Log density, log trace and log determinant of L, whose correlations stand for all, (m, 3)."""
        values = np.linalg.eigvalsh(self.target.scales(self.proposal.place(state.white)))
        floor = np.finfo(float).eps * values[:, -1:]  # a bottleneck leaves L singular
        log_values = np.log(np.maximum(values, floor))
        return np.stack([state.log_target, log_values[:, -1], log_values.sum(axis=1)], axis=1)


def _pooled(states: list[Particles]) -> Particles:
    """All states as one population, island by island."""

    def joined(name: str) -> Array:
        """A field of all states, (m, ...), grouped by islands."""
        parts = [getattr(state, name) for state in states]
        shape = (ISLANDS, -1, *parts[0].shape[1:])
        return np.concatenate([part.reshape(shape) for part in parts], axis=1).reshape(-1, *shape[2:])

    return Particles(joined("white"), joined("log_target"), joined("gradient"))


def _spread(white: Array) -> Array:
    """Units of moves: a root of the covariance of the particles (D, D), or deviations."""
    count, dimension = white.shape
    deviations = np.maximum(white.std(axis=0), 1e-3)
    if count < _PER_DIMENSION * dimension:
        return deviations
    covariance = np.atleast_2d(np.cov(white.T))
    shrunk = 0.9 * covariance + 0.1 * np.diag(deviations**2)  # copies among the particles
    return np.asarray(np.linalg.cholesky(shrunk), float)


def _times(rows: Array, units: Array) -> Array:
    """Rows (m, k) times units (k,) or (k, k)."""
    return rows * units if units.ndim == 1 else rows @ units.T


def temperature_step(ratio: Array, remaining: float, share: float = 0.5) -> float:
    """The step in t that brings the effective sample size of ratios (m,) down to a share, or what remains.

    Particles where the posterior has no density (−inf) are lost at any step: the share is of the others.
    """
    ratio = ratio[np.isfinite(ratio)]

    def excess(step: float) -> float:
        log_weights = step * ratio
        log_size = 2 * special.logsumexp(log_weights) - special.logsumexp(2 * log_weights)
        return float(log_size) - math.log(len(ratio) * share)

    if excess(remaining) > 0:
        return remaining
    return float(optimize.brentq(excess, 0.0, remaining, xtol=1e-12))


def chain_of_bridges(bridges: list[Bridge]) -> tuple[float, float]:
    """log evidence along the path, and its standard error by leaving out one island at a time."""

    def total(islands: IndexArray) -> float:
        """Log ratio of normalisers from the islands (k,)."""
        return sum(bridge(before[islands].ravel(), after[islands].ravel()) for before, after in bridges)

    everyone = np.arange(ISLANDS)
    without = np.array([total(np.delete(everyone, island)) for island in everyone])
    return total(everyone), math.sqrt(ISLANDS - 1) * float(without.std())


def bridge(before: Array, after: Array) -> float:
    """log ∫π₂ − log ∫π₁ from log π₂/π₁ at draws (a,) of π₁ and (b,) of π₂ (Bennett's acceptance ratio).

    Draws of π₁ where π₂ has no density have −inf.
    """
    more = math.log(after.size / before.size)
    found = before[np.isfinite(before)]

    def imbalance(log_ratio: float) -> float:
        shifted = log_ratio - more
        return float(special.expit(before - shifted).sum() - special.expit(shifted - after).sum())

    low, high = min(found.min(), after.min()) - abs(more), max(found.max(), after.max()) + abs(more)
    if found.size < before.size:  # the ratio is at least that of the others times their share
        low -= math.log(before.size)
    return float(optimize.brentq(imbalance, low, high)) if low < high else float(low)


def resample(log_weights: Array, rng: np.random.Generator, size: int | None = None) -> IndexArray:
    """Systematic resampling within every island: log weights (islands, n) -> indices (islands · size,)."""
    islands, count = log_weights.shape
    size = count if size is None else size
    weights = np.exp(log_weights - special.logsumexp(log_weights, axis=1, keepdims=True))
    bounds = np.cumsum(weights, axis=1)
    positions = (np.arange(size) + rng.random((islands, 1))) / size * bounds[:, -1:]
    index = (positions[:, :, None] > bounds[:, None, :]).sum(axis=2)
    return (np.minimum(index, count - 1) + count * np.arange(islands)[:, None]).ravel()


def chain_efficiency(states: Array) -> float:
    """Independent draws per state, at most one: (length, chains, summaries) -> worst summary."""
    centred = states - states.mean(axis=(0, 1))
    variance = (centred**2).mean(axis=(0, 1))
    time = np.ones(states.shape[2])
    for lag in range(1, len(states)):
        time += 2 * (1 - lag / len(states)) * (centred[lag:] * centred[:-lag]).mean(axis=(0, 1)) / variance
    return float(min(1.0, 1 / time.max())) if time.max() > 0 else 1.0


def _force(particles: Particles, temperature: float) -> Array:
    """Gradient of the log density along the path, (m, k)."""
    return temperature * particles.gradient - (1 - temperature) * particles.white


def _energy(particles: Particles, momentum: Array, temperature: float) -> Array:
    """Log density of position and momentum (m, k) along the path, (m,)."""
    log_density = temperature * particles.log_target + (1 - temperature) * particles.log_start
    return log_density - 0.5 * (momentum**2).sum(axis=1)


def _correlation(before: Array, after: Array) -> float:
    """Absolute correlation of two arrays of the same shape."""
    before, after = before - before.mean(), after - after.mean()
    scale = math.sqrt(float((before**2).sum() * (after**2).sum()))
    return abs(float((before * after).sum())) / scale if scale > 0 else 0.0
