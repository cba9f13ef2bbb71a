"""A mixture of Student laws over the modes of a posterior, each in a frame of its own, and the prior.

Student tails are heavier than those of the posterior, so that the weights stay bounded where a Gaussian's
would not; a part that is close to the prior keeps them bounded everywhere else. The mixture is fitted to the
posterior by what its own weighted draws say (population Monte Carlo). The weights that guide it are those of
the evidence and of E L together: between the size of the targets and that of the prior the law of L can be a
power, whose mean is carried by a region where the density has little mass.

`mixture_estimate` fits in rounds of a thousand draws until enough of them count, for the evidence and for
E L; then as many are drawn as the target error asks for, in independent groups whose spread is the stated
error.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy import special

from lbnn._base.log_sums import log_sum_exp, normalised
from lbnn._base.quasi_random import uniform_points
from lbnn._base.small_matrices import one_sign
from lbnn._base.types import Array, IndexArray
from lbnn.engines.estimate import Call, Estimate
from lbnn.engines.grow import grow, missing_for, power_of_two
from lbnn.engines.modes import WIDEST, Mode, find_modes, find_tails, scan_axes
from lbnn.engines.policy import GROUPS
from lbnn.engines.target import Target, log_diagonal, turned_points
from lbnn.engines.total_target import FactorSpace, Space, TotalTarget
from lbnn.engines.verdict import reaches
from lbnn.scale.measure import effective_atoms
from lbnn.scale.total_factor import TotalFactorLaw

_FEWEST_DEGREES = 5.0
_PRIOR_SHARE = 0.1
_LEAST_SHARE = 0.01
_TAIL_SHARE = 0.25  # of all parts for means of L that live in a tail
_INFLATION = 0.5  # parts are wider than the curvature says by this over √dimension
_MOST_PARTS = 14
_NEAREST = 20  # neighbours per dimension from which a new part takes its shape
_EXTRA = 2  # uniforms beside those of the coordinates: choice of the part, radius of the Student law
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
_CHECK_ROUNDS, _CHECK_SIZE = 4, 256  # rounds of fitting, draws per group, of checks


@dataclass(frozen=True)
class StudentPart:
    """Student's law around a mode: θ = mean + root ξ."""

    frame: Array
    mean: Array  # (dimension,)
    root: Array  # (dimension, dimension)

    @property
    def degrees(self) -> float:
        """Degrees of freedom: with the dimension, since heavy tails cost draws in many dimensions."""
        return max(_FEWEST_DEGREES, float(len(self.mean)))

    @cached_property
    def _inverse_root(self) -> Array:
        """Inverse of the root, (k, k)."""
        return np.asarray(np.linalg.inv(self.root), float)

    @cached_property
    def _log_constant(self) -> float:
        degrees, dimension = self.degrees, len(self.mean)
        gammas = math.lgamma((degrees + dimension) / 2) - math.lgamma(degrees / 2)
        log_root = float(np.linalg.slogdet(self.root)[1])
        return gammas - dimension / 2 * math.log(degrees * math.pi) - log_root

    def place(self, uniform: Array, rng: np.random.Generator) -> Array:
        """Points (m, k) from uniforms (m, k + 1): normal draws over the root of a χ² draw."""
        square = 2 * special.gammaincinv(self.degrees / 2, uniform[:, -1:]) / self.degrees
        return self.mean + (special.ndtri(uniform[:, :-1]) / np.sqrt(square)) @ self.root.T

    def square_distance(self, theta: Array) -> Array:
        """‖ξ‖² at θ, (m,)."""
        return (((theta - self.mean) @ self._inverse_root.T) ** 2).sum(axis=1)

    def log_density(self, theta: Array) -> Array:
        """Log density of θ, (m,)."""
        power = (self.degrees + len(self.mean)) / 2
        return self._log_constant - power * np.log1p(self.square_distance(theta) / self.degrees)


@dataclass(frozen=True)
class PriorPart:
    """A law close to the prior of T."""

    frame: Array
    law: TotalFactorLaw

    def place(self, uniform: Array, rng: np.random.Generator) -> Array:
        """Points (m, k) of plain draws: the law has no simple quantiles."""
        return self.law.sample_typical(len(uniform), rng)

    def log_density(self, theta: Array) -> Array:
        """Log density of θ, (m,)."""
        return self.law.log_drawn(theta)


#: One part of a mixture: a law of θ in a frame.
Part = StudentPart | PriorPart


@dataclass(frozen=True)
class Mixture:
    """Parts with their shares."""

    space: Space
    parts: tuple[Part, ...]
    shares: Array  # (parts,), sum 1
    modes: int = 0  # how many of the first parts stand for modes
    tails: bool = False  # whether there are parts for means of L that live in a tail

    def log_densities(self, roots: Array) -> Array:
        """Log density of every part at scales given by roots, in the frameless measure, (m, parts)."""
        columns = []
        for part in self.parts:
            theta = self.space.to_coordinates(roots, part.frame)
            inside = np.isfinite(theta).all(axis=1)
            column = np.full(len(roots), -np.inf)
            column[inside] = part.log_density(theta[inside]) - self.space.log_volume(theta[inside])
            columns.append(column)
        return np.stack(columns, axis=1)

    def labels(self, roots: Array) -> IndexArray:
        """The part that is most responsible for each of the scales given by roots, (m,)."""
        with np.errstate(divide="ignore"):  # a part may have no share
            return np.argmax(self.log_densities(roots) + np.log(self.shares), axis=1)

    def sample(self, size: int, groups: int, rng: np.random.Generator) -> MixtureSample:
        """Weighted points in independent groups of so many each: shifted Sobol points through the parts."""
        dimension = self.space.dimension + _EXTRA
        uniform = np.concatenate([uniform_points(size, dimension, stream) for stream in rng.spawn(groups)])
        bounds = np.cumsum(self.shares)
        chosen = np.minimum(np.searchsorted(bounds, uniform[:, 0]), len(self.parts) - 1)
        thetas = np.empty((len(uniform), self.space.dimension))
        log_posterior, own = np.empty(len(uniform)), np.empty(len(uniform))
        points = np.empty((len(uniform), self.space.target.dimension))
        pieces: list[tuple[IndexArray, Array]] = []
        for index, (part, stream) in enumerate(zip(self.parts, rng.spawn(len(self.parts)), strict=True)):
            here = np.flatnonzero(chosen == index)
            thetas[here] = part.place(uniform[here, 1:], stream)
            own[here] = part.log_density(thetas[here]) - self.space.log_volume(thetas[here])
            evaluated = self.space.evaluate(thetas[here], part.frame, stream)
            pieces.append((here, self.space.roots(thetas[here], part.frame)))
            log_posterior[here], points[here] = evaluated.log_posterior, evaluated.points
        roots = np.empty((len(uniform), *pieces[0][1].shape[1:]))
        for here, drawn in pieces:
            roots[here] = drawn
        groups_of = np.repeat(np.arange(groups), size)
        return MixtureSample(self, roots, points, log_posterior, groups_of, chosen, own)


@dataclass(frozen=True)
class MixtureSample:
    """Points of a mixture with the posterior there."""

    mixture: Mixture
    roots: Array  # O T, (m, n, r)
    points: Array  # u, (m, D)
    log_posterior: Array  # (m,)
    groups: IndexArray
    chosen: IndexArray  # the part of every point, (m,)
    own: Array  # its log density there, (m,)

    @cached_property
    def log_densities(self) -> Array:
        """Log density of every part, (m, parts): of its own part before rounding of frames moves the point.

        A part that is narrower than this rounding would not see the points that it has drawn.
        """
        usable = np.isfinite(self.log_posterior) & np.isfinite(self.roots).reshape(len(self.roots), -1).all(
            axis=1
        )
        result = np.zeros((len(usable), len(self.mixture.parts)))
        result[usable] = self.mixture.log_densities(self.roots[usable])
        result[usable, self.chosen[usable]] = self.own[usable]
        return result

    @cached_property
    def log_mixture(self) -> Array:
        """Log density of the mixture, (m,)."""
        return log_sum_exp(self.log_densities, axis=1, weights=self.mixture.shares)

    @property
    def responsibilities(self) -> Array:
        """Share of every part in the density of the mixture at every point, (m, parts)."""
        seen = np.where(np.isfinite(self.log_mixture), self.log_mixture, np.inf)
        return self.mixture.shares * np.exp(self.log_densities - seen[:, None])

    @cached_property
    def log_weights(self) -> Array:
        """Posterior over mixture, in logs, (m,); −inf where a draw has left double precision."""
        return np.where(np.isfinite(self.log_mixture), self.log_posterior - self.log_mixture, -np.inf)


# ---------------------------------------------------------------- made from modes, and fitted to draws


def laplace_mixture(target: TotalTarget) -> Mixture:
    """One Student part at every mode, shares by Laplace's mass; parts for tails; the prior."""
    scans = scan_axes(target, target.axes)
    modes = laplace_mixture_of(target, find_modes(target, scans))
    tails = [laplace_part(mode) for mode in find_tails(target, scans)]
    rest = _PRIOR_SHARE + _TAIL_SHARE * bool(tails)
    shares = [*((1 - rest) * modes.shares), *[_TAIL_SHARE / max(len(tails), 1)] * len(tails), _PRIOR_SHARE]
    every = (*modes.parts, *tails, PriorPart(target.axes, target.law))
    return Mixture(target, every, _floored(np.array(shares)), len(modes.parts), bool(tails))


def laplace_mixture_of(target: TotalTarget, modes: list[Mode]) -> Mixture:
    """One Student part at every mode, shares by Laplace's mass."""
    parts = [laplace_part(mode) for mode in modes]
    log_roots = [float(np.linalg.slogdet(part.root)[1]) for part in parts]
    shares = normalised(np.array([mode.height + log for mode, log in zip(modes, log_roots, strict=True)]))
    return Mixture(target, tuple(parts), np.asarray(shares, float), len(parts))


def laplace_part(mode: Mode) -> StudentPart:
    """Student's law with the curvature at a mode, somewhat wider."""
    values, vectors = np.linalg.eigh(mode.hessian)
    deviations = (1 + _INFLATION / math.sqrt(len(values))) / np.sqrt(np.maximum(values, WIDEST**-2))
    # one sign: otherwise rounding would decide it, and with it all draws
    return StudentPart(mode.frame, mode.theta, mode.units[:, None] * one_sign(vectors) * deviations)


@dataclass(frozen=True)
class Guidance:
    """How well a sample serves the evidence and the mean of L, and the weights that say where it does not."""

    shares: Array  # effective draws per draw: of the evidence, then of every E L_jj
    log_weights: Array  # (m,), normalised: the average of these integrands' weights

    @property
    def worst(self) -> float:
        """Smallest of the shares."""
        return float(self.shares.min())


def guidance(sample: MixtureSample) -> Guidance:
    """Weights of 1 and of every L_jj in the frame of the coordinates u."""
    logs = sample.mixture.space.log_diagonal(sample.roots)
    tilted = np.concatenate([np.zeros((len(logs), 1)), logs], axis=1)
    log_terms = np.where(
        np.isfinite(sample.log_weights)[:, None], sample.log_weights[:, None] + tilted, -np.inf
    )
    log_terms = log_terms - log_sum_exp(log_terms, axis=0)
    shares = effective_atoms(log_terms) / len(log_terms)
    return Guidance(shares, log_sum_exp(log_terms, axis=1) - math.log(log_terms.shape[1]))


def adapted(sample: MixtureSample, grow: bool) -> Mixture:
    """Shares, centres and shapes moved towards the weighted draws; one part more where few draws dominate."""
    log_weights = _tempered(guidance(sample).log_weights, 6 * sample.mixture.space.dimension)
    weights = np.exp(log_weights)
    mixture, responsibilities = sample.mixture, sample.responsibilities
    parts = [
        _moved(part, sample, weights * responsibilities[:, index]) if isinstance(part, StudentPart) else part
        for index, part in enumerate(mixture.parts)
    ]
    shares = 0.9 * weights @ responsibilities + 0.1 * mixture.shares
    new = _new_part(sample, weights) if grow and len(parts) < _MOST_PARTS else None
    if new is not None:
        parts.insert(0, new)
        shares = np.append(0.25, 0.75 * shares)
    return Mixture(mixture.space, tuple(parts), _floored(shares))


def _moved(part: StudentPart, sample: MixtureSample, weights: Array) -> StudentPart:
    """One step of expectation maximisation with weights (m,) for a Student part.

    It goes as far as the number of effective draws allows.
    """
    largest = float(weights.max())
    if largest <= 0:
        return part
    weights = weights / largest  # they may be so small that their squares underflow
    total = float(weights.sum())
    dimension = len(part.mean)
    effective = total**2 / float((weights**2).sum())
    trust = min(1.0, effective / (20 * dimension))
    if effective < 4 * dimension:
        return part
    theta, weights = _finite(sample.mixture.space.to_coordinates(sample.roots, part.frame), weights)
    pulled = weights * (part.degrees + dimension) / (part.degrees + part.square_distance(theta))
    mean = trust * (pulled @ theta / pulled.sum()) + (1 - trust) * part.mean
    centred = theta - mean
    spread = (centred * pulled[:, None]).T @ centred / total
    return StudentPart(part.frame, mean, _root(trust * spread + (1 - trust) * part.root @ part.root.T))


def mixture_of_draws(space: FactorSpace, points: Array, labels: IndexArray) -> Mixture:
    """Student parts shaped by other draws u (m, k), one for each of the labels (m,), and a wider one."""
    parts: list[Part] = []
    shares = []
    overall = _covariance(points)
    for label in np.unique(labels):
        own = points[labels == label]
        trust = min(1.0, len(own) / (20 * points.shape[1]))
        spread = trust * _covariance(own) + (1 - trust) * overall if len(own) > 1 else overall
        parts.append(StudentPart(space.axes, own.mean(axis=0), _root(spread)))
        shares.append((1 - _PRIOR_SHARE) * len(own) / len(points))
    parts.append(StudentPart(space.axes, points.mean(axis=0), 2 * _root(overall)))  # for the tails
    return Mixture(space, tuple(parts), _floored(np.append(shares, _PRIOR_SHARE)))


def _covariance(points: Array) -> Array:
    """Covariance of draws (m, D), a matrix for one coordinate too."""
    return np.atleast_2d(np.cov(points.T))


def _new_part(sample: MixtureSample, weights: Array) -> StudentPart | None:
    """A part around the draw of largest weight (m,), shaped by its neighbours (incremental mixtures).

    None where the draws have no spread along some coordinate, since all weight is on one of them.
    """
    space = sample.mixture.space
    peak = int(np.argmax(weights))
    frame = space.diagonalising_frame(sample.roots[peak])
    centre = space.to_coordinates(sample.roots[peak, None], frame)[0]
    theta, weights = _finite(space.to_coordinates(sample.roots, frame), weights)
    centred = theta - centre
    spread = (centred * weights[:, None]).T @ centred
    if not (np.diagonal(spread) > 0).all():
        return None
    distance = (np.linalg.solve(_root(spread), centred.T) ** 2).sum(axis=0)
    near = np.argsort(distance)[: max(_NEAREST * theta.shape[1], len(theta) // 10)]
    local = 0.5 * weights[near] / weights[near].sum() + 0.5 / len(near)
    return StudentPart(frame, centre, _root((centred[near] * local[:, None]).T @ centred[near]))


def _finite(theta: Array, weights: Array) -> tuple[Array, Array]:
    """Points θ (m, k) with finite entries in a frame (T_ii = 0 has no logarithm), with their weights."""
    fine = np.isfinite(theta).all(axis=1)
    return theta[fine], weights[fine]


def _root(spread: Array) -> Array:
    """A root (k, k) of a covariance (k, k), kept from singular ones by rounding of its diagonal."""
    scale = np.sqrt(np.diagonal(spread))
    values, vectors = np.linalg.eigh(spread / np.outer(scale, scale))
    return np.asarray(scale[:, None] * one_sign(vectors) * np.sqrt(np.maximum(values, 1e-10)), float)


def _tempered(log_weights: Array, fewest: float) -> Array:
    """Normalised log weights (m,), flattened until so many draws count."""
    power = 1.0
    while power > 0.02:
        flattened = power * log_weights
        flattened = flattened - log_sum_exp(flattened)
        if effective_atoms(flattened) >= fewest:
            break
        power *= 0.8
    return flattened


def _floored(shares: Array) -> Array:
    """Shares (parts,) of which none is negligible, so that a part that was found stays in use."""
    raised = np.maximum(shares, _LEAST_SHARE)
    return raised / raised.sum()


# ---------------------------------------------------------------- estimates


def mixture_estimate(mixture: Mixture, call: Call) -> tuple[Estimate, Mixture]:
    """Fit a mixture to the posterior of T and draw until the target error is reached or out of reach."""
    began, rng, space = time.perf_counter(), call.stream(mixture.space.name), mixture.space
    rounds = _ROUNDS if space.dimension <= call.policy.most_fitted else 1
    refits = _REFITS if rounds > 1 else 0

    def heavy(found: Estimate) -> bool:
        """Whether the weights have a tail that no part of the mixture covers."""
        return found.heavy_tailed(call.policy) or found.heavy_tailed_means(call.policy)

    def draw(size: int) -> Estimate:
        """A new sample; where more of the same would not help, a new mixture with a small one."""
        nonlocal mixture, refits
        size = min(power_of_two(size), _LARGEST_TO_REFIT) if refits else power_of_two(size)
        call.progress.say(
            f"importance sampling, {GROUPS * size} points in {space.target.dimension} dimensions"
        )
        sample = _sample(mixture, size, rng, call)
        found = _estimate(sample, began)
        if refits and heavy(found):
            refits -= 1
            mixture, sample = _fitted_afresh(adapted(sample, True), rounds, rng, call)
            return _estimate(sample, began)
        if size == _LARGEST_TO_REFIT:
            refits = 0
        return found

    def enough(found: Estimate) -> bool:
        """The target error is reached, or more draws would not help: a tail index does not fall with them."""
        hopeless = not refits and len(found.log_weights) >= GROUPS * _LARGEST_TO_REFIT and heavy(found)
        return reaches(found, call) or hopeless

    mixture, sample = _fitted_afresh(mixture, rounds, rng, call)
    work = call.work(call.policy.mixture_work) / _operations(mixture)
    most = min(_LARGEST / space.target.dimension, work) / GROUPS
    return grow(draw, _estimate(sample, began), most, missing_for(call), enough, math.inf), mixture


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
    if axes is target:
        return estimate
    return replace(estimate, log_diagonal=log_diagonal(target, estimate.points, axes.rotation), target=target)


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


def _estimate(sample: MixtureSample, began: float) -> Estimate:
    space = sample.mixture.space
    estimate = Estimate.of_weights(
        space.name,
        sample.log_weights,
        space.log_diagonal(sample.roots),
        lambda: sample.points,
        seconds=time.perf_counter() - began,
        quasi_random=True,
    )
    return replace(estimate, mean_limit="largest_mean_k")
