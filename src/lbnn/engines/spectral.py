"""Sequential Monte Carlo over noise variances, for targets behind a layer no wider than the outputs.

Particles go from the prior (infinite noise variance) to the posterior by lowering the noise variance τ,
with the Gibbs moves of `spectral_moves` at every stage: each stage is the posterior of the same network at
more noise, so that strong directions of the targets are fitted first and weaker ones follow. Between two
stages the particles are also transported: rows of F along noisy axes of the data shrink like √τ, and so do
eigenvalues l of L that are not fitted. The maps have Jacobians in closed form, which enter the weights;
their coefficients are those that make the logs of the weights vary least, from a regression on the
particles (each half of the groups uses the coefficients of the other half, which keeps the estimate of the
evidence nearly unbiased).

Particles form independent groups: resampling never mixes them, and the spread of their evidences is the
stated error.

`reverse_evidence` goes the opposite way with particles that start from a fully fitted state. Sequential
Monte Carlo that misses a part of the posterior is low; the reverse estimate is high where its start is not
the posterior: a difference speaks against both, agreement is strong evidence (Grosse, Ghahramani and Adams
2015, arXiv:1511.02543).
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from lbnn._base.log_sums import log_sum_exp
from lbnn._base.types import Array, IndexArray
from lbnn.engines.estimate import Call, Estimate
from lbnn.engines.inference import EvidenceEstimate
from lbnn.engines.smc import resample
from lbnn.engines.spectral_moves import (
    NarrowPosterior,
    Particles,
    draw_prior,
    inner_roots,
    join,
    log_likelihood,
    log_prior,
    log_vandermonde,
    narrow_posterior,
    particles_of,
    precisions,
    sweep,
)
from lbnn.engines.target import Target
from lbnn.likelihood.gaussian import GaussianLikelihood
from lbnn.scale.layer_factors import factors_of_known
from lbnn.scale.measure import effective_atoms
from lbnn.scale.phases import standard_error

GROUPS = 16  # independent groups of a round: the error of the stated error is a fifth
#: Relative variance of the weights of one stage: effective share 0.96. Every second stage makes `move_column`
#: and `move_root` only, which change the weights of the next stage most for their time. Squared error times
#: seconds of a round, over those of steps of 0.08 with all moves at every stage, was 0.66 to 1.0 in seven
#: problems (mean 0.84). Longer steps save nothing: 0.92 to 1.29 in three at 0.16 with all moves.
_STEP_VARIANCE = 0.04
_START_VARIANCE = 0.08  # of log weights of prior draws at the noise variance where a path begins
_TOO_MUCH = 1.5  # times that variance from which a stage is tried again with a shorter step
_LONGEST_STEP = 1.5  # in log τ, over which derivatives are not to be trusted
_RESAMPLE_BELOW = 0.7  # effective share of a group
_RIDGE = 0.01  # of the regression, in variances of its variables
_LARGEST_COEFFICIENT = 1.0  # rows shrink like τ^{1/2} where they shrink; more is noise of the regression
_CENTRES = (0.0, -2.0, 2.0, -4.0, 4.0)  # c of the spectral maps, in e-folds from τ/ḡ
_THROUGH = 3  # of these also through all layers
_CHANGING = 0.003  # variance of the fitted share along an axis; where it is less, a sweep forgets the scores
_SNAPSHOTS = 4  # sweeps at the end of a round after each of which the particles are kept as draws
_START_SWEEPS = 40  # from the fitted state
_COPIES, _COPY_SWEEPS = 4, 5  # of every such particle, and sweeps after which copies go their own ways
#: Noise variances of one round or of one way back. All rounds of a problem of the benchmark together take 21
#: to 430, one round for targets 1e11 times the noise 150. Beyond it rounding of the log likelihood makes
#: steps ever shorter.
_MOST_STAGES = 400
#: Operations of one move of a column with its angle, and of its other moves in a layer: as many as other
#: engines do in that time; measured with 17 to 49 outputs behind 8 to 11 units, within a fifth.
_COLUMN_WORK, _ROW_WORK = 2.3e4, 8e3
_HOPELESS = 2.0  # times the work allowed beyond which no further round is made
_ROUNDS, _USUAL_ERROR, _MOST_ROUNDS = 12, 0.05, 32  # rounds allowed for that target error; most for any
SPECTRAL = "sequential Monte Carlo over noise variances"
_PARTICLES = 512  # of a round or of the reverse way, unless told


@dataclass(frozen=True)
class NarrowSample:
    """Weighted posterior draws of L = F Fᵀ with the log evidence.

    Attributes
    ----------
    roots : (m, n_d, k) array
        F of every draw, k the width of the narrowest layer.
    inner : list of (m, k, k) arrays
        S_1, …, S_K of every draw (see `spectral_moves`), from which `factors_of` gets the Bartlett factors.
    log_weights : (m,) array
        Logs of the weights, normalised.
    groups : (m,) array of int
        Independent group of every draw.
    group_log_evidence : (groups,) array
        log p(Y) by every group, with its constants.
    stages : int
        Noise variances visited, in all rounds together.
    work : float
        Rough number of operations of all moves.
    """

    roots: Array
    inner: list[Array]
    log_weights: Array
    groups: IndexArray
    group_log_evidence: Array
    stages: int
    work: float

    @property
    def scales(self) -> Array:
        """L of every draw, (m, n_d, n_d)."""
        return self.roots @ self.roots.swapaxes(1, 2)

    @property
    def log_evidence(self) -> float:
        """log p(Y) with its constants."""
        return _mean_and_error(self.group_log_evidence)[0]

    @property
    def log_evidence_error(self) -> float:
        """Its standard error, from the spread between groups."""
        return _mean_and_error(self.group_log_evidence)[1]

    @cached_property
    def effective_sample_size(self) -> float:
        """Independent draws that would give the same means with the same spread between groups.

        The mean of two ratios: of log tr L, and the median over the logs of L's diagonal. With G groups one
        ratio alone has a relative error of √(2/G).
        """
        weights = np.exp(self.log_weights)
        squares = self.roots**2
        diagonal = np.log(squares.sum(axis=2) + np.finfo(float).tiny)
        values = np.column_stack([np.log(squares.sum(axis=(1, 2))), diagonal])
        spread = standard_error(values, weights, self.groups) ** 2
        ratios = weights @ (values - weights @ values) ** 2 / spread
        return min(1 / float((weights**2).sum()), float(0.5 * (ratios[0] + np.median(ratios[1:]))))

    def reaches(self, target_error: float) -> bool:
        """Whether log evidence and averages are as accurate as asked."""
        return self.log_evidence_error <= target_error and self.effective_sample_size >= target_error**-2


def sample_narrow(
    posterior: NarrowPosterior,
    rng: np.random.Generator,
    target_error: float = 0.05,
    particles: int = _PARTICLES,
    most_rounds: int = 4,
    most_work: float = math.inf,
) -> NarrowSample:
    """Draw from the posterior of L behind a layer no wider than the outputs.

    Parameters
    ----------
    posterior : NarrowPosterior
    rng : numpy.random.Generator
    target_error : float
        Standard error of the log evidence after which no further round is made; averages need
        target_error⁻² effective draws.
    particles : int
        Particles of a round; later ones have half as many where these are enough.
    most_rounds : int
        Rounds after which the sample is returned whatever its error.
    most_work : float
        Operations beyond which no further round leads; none is made where the target is far beyond it.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> targets = rng.normal(size=(8, 1)) @ rng.normal(size=(1, 5))
    >>> posterior = narrow_posterior(np.ones(8), targets, 0.1, (2,))
    >>> sample_narrow(posterior, rng, particles=128, most_rounds=1).roots.shape[1:]
    (5, 2)
    """
    sample = _round(posterior, particles, rng)
    if sample.stages > _MOST_STAGES:  # another round would be cut as well
        return sample
    for number in range(1, most_rounds):
        needed = sample.work * (sample.log_evidence_error / target_error) ** 2
        beyond = sample.work * (1 + 1 / number) > most_work or needed > _HOPELESS * most_work
        if sample.reaches(target_error) or beyond:
            break
        have = len(sample.group_log_evidence)
        missing = have * ((sample.log_evidence_error / target_error) ** 2 - 1)
        groups = GROUPS // 2 if missing <= GROUPS // 2 else GROUPS
        sample = _merge(sample, _round(posterior, particles, rng, groups))
    return sample


def reverse_evidence(
    posterior: NarrowPosterior, rng: np.random.Generator, particles: int = _PARTICLES
) -> tuple[float, float]:
    """Log evidence with its standard error by annealing from the posterior to the prior.

    Particles start where every column of F is fitted to an axis of the data, and are independent of those of
    `sample_narrow`.
    """
    log_noise = math.log(posterior.noise)
    few = max(1, round(particles / GROUPS / _COPIES)) * GROUPS
    start = _Path(posterior, _fitted(posterior, few, rng), log_noise, rng)
    start.sweep(_START_SWEEPS)
    copies = start.particles.take(np.repeat(np.arange(few), _COPIES))  # next to each other: groups stay apart
    path = _Path(posterior, copies, log_noise, rng)
    path.sweep(_COPY_SWEEPS)
    prior = draw_prior(posterior, len(copies), rng)
    path.climb(_start(posterior, prior))
    logs = log_likelihood(posterior, prior.values, prior.projections, path.noise).reshape(GROUPS, -1)
    return _mean_and_error(path.log_evidence + log_sum_exp(logs, axis=1) - math.log(logs.shape[1]))


def spectral_estimate(target: Target, call: Call, beside: float = math.inf) -> Estimate:
    """The estimate of a scale behind a narrow layer.

    Where `verdict` pools its log evidence with another of error `beside`, the two together have to reach the
    target error; the estimate has at least half of the weight.
    """
    began, shapes = time.perf_counter(), target.coordinates.shapes[::-1]
    rng, for_factors = call.stream("spectral smc"), call.stream("factors of spectral draws")
    rounds = _ROUNDS * (_USUAL_ERROR / min(call.target_error, _USUAL_ERROR)) ** 2
    call.progress.say("sequential Monte Carlo over noise variances")
    posterior = _posterior(target)
    own_error = call.target_error / math.sqrt(1 - min((call.target_error / beside) ** 2, 0.5))
    most_rounds = min(math.ceil(rounds), _MOST_ROUNDS)
    left = call.work(call.policy.work)
    sample = sample_narrow(posterior, rng, own_error, most_rounds=most_rounds, most_work=left)
    call.spend(sample.work)
    widths, variances = [shape.width for shape in shapes], [shape.variance for shape in shapes]

    def locate() -> Array:
        """The draws in the coordinates of the target, (m, D)."""
        factors = factors_of(sample.roots, sample.inner, widths, for_factors, variances)
        return target.coordinates.locate(factors)

    with np.errstate(divide="ignore"):
        diagonal = np.log((sample.roots**2).sum(axis=2))
    return Estimate(
        SPECTRAL,
        sample.log_weights,
        sample.groups,
        diagonal,
        locate,
        sample.log_evidence - _constant(posterior),
        sample.log_evidence_error,
        efficiency=sample.effective_sample_size / float(effective_atoms(sample.log_weights)),
        weighted=False,
        stages=sample.stages,
        seconds=time.perf_counter() - began,
    )


def reverse_estimate(target: Target, call: Call) -> EvidenceEstimate:
    """The log evidence by `reverse_evidence`, which checks `spectral_estimate`."""
    call.progress.say("cross-check: annealing from the posterior to the prior")
    rng, largest = call.stream("reverse annealing"), call.policy.largest_check_error * call.target_error
    posterior = _posterior(target)
    log_evidence, error = reverse_evidence(posterior, rng)
    if largest < error <= 2 * largest:  # four times as many particles halve it
        log_evidence, error = reverse_evidence(posterior, rng, 4 * _PARTICLES)
    method = "annealing from the posterior to the prior"
    return EvidenceEstimate(method, log_evidence - _constant(posterior), error)


def _posterior(target: Target) -> NarrowPosterior:
    """What is sampled for a target, in the axes of its frame."""
    likelihood, shapes = target.likelihood, target.coordinates.shapes[::-1]
    assert isinstance(likelihood, GaussianLikelihood)
    return narrow_posterior(
        likelihood.eigenvalues,
        likelihood.targets @ target.rotation,
        likelihood.noise_variance,
        [shape.width for shape in shapes],
        math.prod(shape.variance for shape in shapes),
    )


def _constant(posterior: NarrowPosterior) -> float:
    """What log p(Y | L) has beyond `GaussianLikelihood.log_value` in the range of the Gram matrix."""
    return -0.5 * posterior.targets.size * math.log(2 * math.pi)


def _round(
    posterior: NarrowPosterior, particles: int, rng: np.random.Generator, groups: int = GROUPS
) -> NarrowSample:
    """Some groups, each a sixteenth of the particles, from the prior to the posterior; a few sweeps there."""
    size = max(1, round(particles / GROUPS)) * groups
    start = draw_prior(posterior, size, rng)
    path = _Path(posterior, start, _start(posterior, start), rng, groups)
    path.weigh(path.log_likelihood())
    path.anneal(math.log(posterior.noise))
    snapshots = []
    for _ in range(_SNAPSHOTS):
        path.sweep(1)
        snapshots.append(path.particles.take(slice(None)))
    drawn = join(snapshots)
    log_weights = (path.log_weights + path.log_evidence[:, None]).ravel()
    return NarrowSample(
        posterior.axes @ drawn.roots,
        drawn.inner,
        _normalised(np.tile(log_weights, _SNAPSHOTS)),
        np.tile(np.repeat(np.arange(groups), path.per_group), _SNAPSHOTS),
        path.log_evidence,
        path.stages,
        path.work,
    )


def _merge(first: NarrowSample, second: NarrowSample) -> NarrowSample:
    """Both samples as one, every group with the weight of its evidence."""
    shares = [
        each.log_weights + float(log_sum_exp(each.group_log_evidence)) for each in (first, second)
    ]  # both with equally many groups' draws per group
    return NarrowSample(
        np.concatenate([first.roots, second.roots]),
        [np.concatenate(pair) for pair in zip(first.inner, second.inner, strict=True)],
        _normalised(np.concatenate(shares)),
        np.concatenate([first.groups, second.groups + len(first.group_log_evidence)]),
        np.concatenate([first.group_log_evidence, second.group_log_evidence]),
        first.stages + second.stages,
        first.work + second.work,
    )


def _normalised(log_weights: Array) -> Array:
    """Log weights (m,) of sum one; weights too small for a double keep their logs."""
    return log_weights - float(log_sum_exp(log_weights))


def _mean_and_error(log_evidence: Array) -> tuple[float, float]:
    """Log of the mean of the groups' evidences (groups,), and its standard error.

    The error of a logarithm is the relative error while that is small. Beyond a half, where one or two groups
    are all of the mean, it is the standard deviation of the groups' log evidences.
    """
    total = float(log_sum_exp(log_evidence)) - math.log(len(log_evidence))
    ratios = np.exp(log_evidence - total)
    relative = float(ratios.std(ddof=1) / math.sqrt(len(ratios)))
    return total, relative if relative < 0.5 else max(relative, float(log_evidence.std(ddof=1)))


def _start(posterior: NarrowPosterior, prior: Particles) -> float:
    """log τ from which annealing starts: the lowest at which weights of prior draws vary little."""
    total = float((posterior.targets**2).sum()) / posterior.outputs

    def varies(log_noise: float) -> bool:
        logs = log_likelihood(posterior, prior.values, prior.projections, math.exp(log_noise))
        return bool(logs.var() > _START_VARIANCE)

    log_noise = math.log(max(total, posterior.noise))
    while varies(log_noise):
        log_noise += 0.5
    while log_noise > math.log(posterior.noise) and not varies(log_noise - 0.1):
        log_noise -= 0.1
    return max(log_noise, math.log(posterior.noise))


def _fitted(posterior: NarrowPosterior, size: int, rng: np.random.Generator) -> Particles:
    """Every column of F along an axis of the data at its least-squares size, the layers sharing it evenly."""
    columns, outputs = posterior.columns, posterior.outputs
    strength = (posterior.targets[:, :columns] ** 2).sum(axis=0) / posterior.eigenvalues.sum()
    sizes = np.maximum(strength, posterior.noise / posterior.eigenvalues.max())
    roots = np.zeros((size, outputs, columns))
    roots[:, np.arange(columns), np.arange(columns)] = np.sqrt(sizes)
    expected = posterior.base * np.cumprod(posterior.degrees)  # E S_k and E FᵀF are multiples of the identity
    inner = [
        np.sqrt(mean * (sizes / expected[-1]) ** share)
        for mean, share in zip(expected[:-1], posterior.shares, strict=True)
    ]
    diagonal = [np.broadcast_to(np.diag(each), (size, columns, columns)) for each in inner]
    return particles_of(posterior, roots.swapaxes(1, 2), diagonal, rng)


class _Path:
    """Groups of weighted particles on their way through noise variances."""

    def __init__(
        self,
        posterior: NarrowPosterior,
        particles: Particles,
        log_noise: float,
        rng: np.random.Generator,
        groups: int = GROUPS,
    ) -> None:
        self.posterior, self.particles, self.log_noise, self.rng = posterior, particles, log_noise, rng
        self.groups, self.per_group = groups, len(particles) // groups
        self.log_weights = np.full((self.groups, self.per_group), -math.log(self.per_group))
        self.log_evidence = np.zeros(self.groups)
        self.stages, self.work = 0, 0.0
        self.shrinking = _axis_sets(posterior)

    @property
    def noise(self) -> float:
        """τ."""
        return math.exp(self.log_noise)

    def log_likelihood(self) -> Array:
        """log p(Y | L) of every particle at the present noise variance, (N,)."""
        return log_likelihood(self.posterior, self.particles.values, self.particles.projections, self.noise)

    def weigh(self, log_ratios: Array) -> None:
        """Multiply the weights by exp of log ratios (N,).

        Their mean in every group enters its evidence.
        """
        joint = self.log_weights + log_ratios.reshape(self.groups, -1)
        totals = log_sum_exp(joint, axis=1)
        self.log_evidence = self.log_evidence + totals
        self.log_weights = joint - totals[:, None]

    def resample(self) -> None:
        """Systematic resampling in the groups whose weights have become uneven."""
        index = np.arange(len(self.particles)).reshape(self.groups, -1)
        shares = 1 / (np.exp(2 * self.log_weights).sum(axis=1) * self.per_group)
        uneven = np.flatnonzero(shares < _RESAMPLE_BELOW)
        if len(uneven):
            drawn = resample(self.log_weights[uneven], self.rng).reshape(len(uneven), -1)
            index[uneven] = drawn % self.per_group + self.per_group * uneven[:, None]
            self.log_weights[uneven] = -math.log(self.per_group)
        self.particles = self.particles.take(index.ravel())

    def sweep(self, times: int) -> None:
        """Gibbs moves at the present noise variance."""
        for _ in range(times):
            self._move(whole=True)

    def _move(self, whole: bool) -> None:
        """All Gibbs moves, or those that change the weights of the next stage most for their time."""
        own = self.posterior
        axes = self._changing_axes() if own.layers else ()
        each = _COLUMN_WORK * len(axes) + _ROW_WORK * (1 + own.layers) + 8.0 * own.targets.size
        self.work += len(self.particles) * own.columns * each
        self.particles = sweep(self.posterior, self.particles, self.noise, self.rng, axes, whole)

    def _changing_axes(self) -> list[int]:
        """Axes of the data along which particles differ most in how far they are fitted, at most two.

        There columns go between phases, and `move_column` shortens the way.
        """
        along = (self.particles.directions**2 * self.particles.values[:, :, None]).sum(axis=1)
        typical = math.exp(float(np.log(self.posterior.eigenvalues).mean()))
        spread = (along / (along + self.noise / typical)).var(axis=0)
        first, second = np.argsort(-spread, kind="stable")[:2]
        if spread[first] < _CHANGING:
            return []
        return [int(first), int(second)] if spread[second] > 0.3 * spread[first] else [int(first)]

    def anneal(self, log_noise: float) -> None:
        """Take the particles down to a lower noise variance in stages; measure the evidence on the way."""
        while True:
            self.resample()
            self._move(whole=self.stages % 2 == 0)
            self.stages += 1
            if self.log_noise == log_noise:
                return
            self.weigh(self._step(self._maps(), log_noise))

    def climb(self, log_noise: float) -> None:
        """Take the particles up to a higher noise variance in stages, and measure the evidence on the way.

        Weights on the way up have heavy tails, since every stage is wider than the one before. They only
        choose the particles; the ratio of two evidences is the mean of weights on the way down again, of
        particles that have been moved at the higher noise variance.
        """
        measured, before = np.zeros(self.groups), self.log_noise
        while True:
            self.resample()
            self._move(whole=self.stages % 2 == 0)
            self.stages += 1
            maps = self._maps()
            if before < self.log_noise:
                down = self._log_ratios(maps, before)[1].reshape(self.groups, -1)
                measured += log_sum_exp(self.log_weights + down, axis=1)
            if self.log_noise == log_noise:
                self.log_evidence = measured
                return
            before = self.log_noise
            self.weigh(self._step(maps, log_noise))

    def _maps(self) -> tuple[Array, Array, float]:
        """Log densities (N,), coefficients of the transport (N, maps), and a standard deviation.

        The deviation is that of the slope of log weights.
        """
        weights = np.exp(self.log_weights).ravel() / self.groups
        chain = precisions(self.posterior, self.particles)
        here = self.log_likelihood() + log_prior(self.posterior, self.particles, chain)
        slope, scores = _noise_score(self.posterior, self.particles, self.noise), self._scores(chain)
        coefficients = self._coefficients(slope, scores, weights)
        left = slope + (scores * coefficients).sum(axis=1)
        return here, coefficients, math.sqrt(float(weights @ (left - weights @ left) ** 2))

    def _log_ratios(self, maps: tuple[Array, Array, float], there: float) -> tuple[Particles, Array]:
        """The particles transported to another log τ, and their log weights (N,) there."""
        here, coefficients, _ = maps
        moved, log_jacobian = self._transport(coefficients * (there - self.log_noise))
        likelihood = log_likelihood(self.posterior, moved.values, moved.projections, math.exp(there))
        prior = log_prior(self.posterior, moved, precisions(self.posterior, moved))
        return moved, likelihood + prior + log_jacobian - here

    def _step(self, maps: tuple[Array, Array, float], end: float) -> Array:
        """Go as far towards `end` as the weights allow; the log weights (N,).

        After `_MOST_STAGES` the rest is one step without transport, whose weights show in the stated error.
        """
        if self.stages >= _MOST_STAGES:
            here, coefficients, deviation = maps
            moved, log_ratios = self._log_ratios((here, np.zeros_like(coefficients), deviation), end)
            self.particles, self.log_noise = moved, end
            return log_ratios
        weights = np.exp(self.log_weights).ravel() / self.groups
        length = min(math.sqrt(_STEP_VARIANCE) / max(maps[2], 1e-9), _LONGEST_STEP)
        while True:
            last = length >= abs(end - self.log_noise)
            there = end if last else self.log_noise + math.copysign(length, end - self.log_noise)
            moved, log_ratios = self._log_ratios(maps, there)
            if _relative_variance(log_ratios, weights) < _TOO_MUCH * _STEP_VARIANCE:
                break
            length = 0.6 * min(length, abs(end - self.log_noise))
        self.particles, self.log_noise = moved, there
        return log_ratios

    def _scores(self, chain: list[Array]) -> Array:
        """Derivatives of log density and Jacobian along the maps of `_transport`, (N, maps); means zero.

        With `precisions` (N, m, m) in `chain`.
        """
        rows, columns = _scale_scores(self.posterior, self.particles, self.noise, chain[-1])
        shapes, slopes = _shapes(self.posterior, self.particles.values, self.noise)
        own = (shapes * columns).sum(axis=2) + self.posterior.outputs * shapes.sum(axis=2)
        own += (slopes * self.particles.values).sum(axis=2)
        parts = [rows @ self.shrinking, own.T]
        if self.posterior.layers:
            along = _inner_scores(self.posterior, self.particles, chain)
            parts.append((own[:_THROUGH] + (shapes[:_THROUGH] * along).sum(axis=2)).T)
        return np.concatenate(parts, axis=1)

    def _coefficients(self, slope: Array, scores: Array, weights: Array) -> Array:
        """Coefficients of the maps for every particle, from the other half of the groups; (N, maps)."""
        result = np.empty_like(scores)
        upper = np.arange(len(slope)) >= len(slope) // 2
        for half in (upper, ~upper):
            share = weights[half] / weights[half].sum()
            centred = scores[half] - share @ scores[half]
            units = np.sqrt(share @ centred**2) + np.finfo(float).tiny
            centred = centred / units
            normal = (centred * share[:, None]).T @ centred + _RIDGE * np.eye(len(units))
            fitted = np.linalg.solve(normal, centred.T @ (share * (slope[half] - share @ slope[half])))
            result[~half] = np.clip(-fitted / units, -_LARGEST_COEFFICIENT, _LARGEST_COEFFICIENT)
        return result

    def _transport(self, change: Array) -> tuple[Particles, Array]:
        """Spectral maps, then rows of F scaled along the axes of the data; with the log Jacobian (N,)."""
        posterior, rows = self.posterior, self.shrinking.shape[1]
        moved, log_jacobian = _spectral_map(posterior, self.particles, self.noise, change[:, rows:])
        log_scale = change[:, :rows] @ self.shrinking.T  # (N, n_d)
        roots = np.sqrt(moved.values)[:, :, None] * moved.directions * np.exp(log_scale)[:, None, :]
        return (
            particles_of(posterior, roots, inner_roots(moved), self.rng),
            log_jacobian + posterior.columns * log_scale.sum(axis=1),
        )


def _relative_variance(log_values: Array, weights: Array) -> float:
    """Variance over squared mean of exp of log values (N,) with weights (N,)."""
    ratios = np.exp(log_values - log_values.max())
    mean = weights @ ratios
    return float(weights @ (ratios / mean - 1) ** 2)  # NaN where a map folds


def _axis_sets(posterior: NarrowPosterior) -> Array:
    """Axes whose rows of F are scaled together, (n_d, sets): the first m + 1 alone, all others as one."""
    alone = min(posterior.columns + 1, posterior.outputs)
    sets = np.zeros((posterior.outputs, alone + (posterior.outputs > alone)))
    sets[:alone, :alone] = np.eye(alone)
    sets[alone:, alone:] = 1.0
    return sets


def _noise_score(posterior: NarrowPosterior, particles: Particles, noise: float) -> Array:
    """Derivative of log p(Y | L) in log τ, (N,)."""
    variance = noise + posterior.eigenvalues * particles.values[:, :, None]
    squares = particles.projections**2
    inactive = posterior.targets.size - len(posterior.eigenvalues) * posterior.columns
    rest = float((posterior.targets**2).sum()) - squares.sum(axis=(1, 2))
    terms = 0.5 * noise * (squares / variance - 1) / variance
    result: Array = terms.sum(axis=(1, 2)) - 0.5 * inactive + 0.5 / noise * rest
    return result


def _scale_scores(
    posterior: NarrowPosterior, particles: Particles, noise: float, precision: Array
) -> tuple[Array, Array]:
    """Derivative of log density and Jacobian in log scales of rows of F, (N, n_d), and of columns, (N, m).

    With ∇ = 2 (∂ log p/∂L) F − F S_K⁻¹, row a has Σ_j F_aj ∇_aj + m. Of a column Σ_a F_aj ∇_aj alone: its
    Jacobian depends on how others move with it. `precision` is S_K⁻¹, (N, m, m).
    """
    g, values, directions = posterior.eigenvalues, particles.values[:, :, None], particles.directions
    variance = noise + g * values
    weighted = g * particles.projections / variance  # g_i z_ij/(τ + g_i l_j), (N, m, r)
    explained = weighted @ (values * weighted).swapaxes(1, 2)
    size, columns, rows = weighted.shape
    gradient = (weighted.reshape(-1, rows) @ posterior.targets).reshape(size, columns, -1)
    gradient -= explained @ directions
    gradient /= noise
    gradient -= directions * (g / variance).sum(axis=2)[:, :, None]  # 2 (∂ log p/∂L) u_j
    roots = np.sqrt(values) * directions
    terms = directions * values * gradient - (precision @ roots) * roots
    return terms.sum(axis=1) + columns, terms.sum(axis=2)


def _inner_scores(posterior: NarrowPosterior, particles: Particles, chain: list[Array]) -> Array:
    """The same in the log scale of row and column j of all S_k, each with the power k/(K + 1), (N, m).

    ν_k − ν_{k+1} − (S_{k−1}⁻¹ S_k)_jj + (S_k⁻¹ S_{k+1})_jj for one of them, with S_{K+1} = FᵀF and inverses
    (N, m, m) in `chain`.
    """
    result = np.zeros_like(particles.values)
    for k, degrees in enumerate(posterior.degrees):
        if k < posterior.layers:
            diagonal = (chain[k] * particles.inner[k]).sum(axis=2)
            above = posterior.shares[k]
        else:
            diagonal = np.diagonal(chain[k], axis1=1, axis2=2) * particles.values
            above = 0.0
        below = posterior.shares[k - 1] if k else 0.0
        result += (above - below) * (degrees - diagonal)
    return result


def _shapes(posterior: NarrowPosterior, values: Array, noise: float) -> tuple[Array, Array]:
    """Functions φ(l) of the spectral maps, (maps, N, m), and Σ_i φ[l_j, l_i] (1 + δ_ij) of each.

    φ[·, ·] are divided differences: the Jacobian of F → F + ε F φ(FᵀF) is
    1 + ε (n_d Σ_j φ_j + Σ_ij l_j φ[l_j, l_i] (1 + δ_ij)).

    φ = 1/(1 + ḡ l/(τ e^c)): eigenvalues that are not fitted move with the noise, fitted ones do not.
    """
    typical = math.exp(float(np.log(posterior.eigenvalues).mean())) / noise
    rates = typical * np.exp(-np.array(_CENTRES))[:, None, None]
    shapes = 1 / (1 + rates * values)
    return shapes, -rates * shapes * (shapes.sum(axis=2, keepdims=True) + shapes)


def _spectral_map(
    posterior: NarrowPosterior, particles: Particles, noise: float, change: Array
) -> tuple[Particles, Array]:
    """log l_j → log l_j + 2 δ_j with its log Jacobian (N,).

    δ_j = Σ_k change_k φ_k(l_j), change (N, maps) or (1, maps).

    The last coefficients, for the first shapes again, move S_k along: S_k → D S_k D, D = diag(e^{δ k/(K+1)}).
    """
    shapes, _ = _shapes(posterior, particles.values, noise)
    alone, through = change[:, : len(shapes)].T[:, :, None], change[:, len(shapes) :].T[:, :, None]
    moves = alone.copy()
    moves[: len(through)] += through
    own = (moves * shapes).sum(axis=0)
    stretch = 1 - 2 * (moves * shapes * (1 - shapes)).sum(axis=0)  # d log l'/d log l
    values = particles.values * np.exp(2 * own)
    log_jacobian = (posterior.outputs - posterior.columns + 1) * own.sum(axis=1)
    log_jacobian += log_vandermonde(values) - log_vandermonde(particles.values)
    with np.errstate(
        divide="ignore", invalid="ignore"
    ):  # a map that folds has no Jacobian: NaN, and a shorter step
        log_jacobian += np.log(stretch).sum(axis=1)
    inner = particles.inner
    if posterior.layers:
        along = (through * shapes[: len(through)]).sum(axis=0)
        scales = [np.exp(along * share) for share in posterior.shares]
        inner = [
            scale[:, :, None] * each * scale[:, None, :] for scale, each in zip(scales, inner, strict=True)
        ]
        log_jacobian += float(posterior.shares.sum()) * (posterior.columns + 1) * along.sum(axis=1)
    return Particles(particles.directions, values, particles.projections, inner), log_jacobian


def factors_of(
    roots: Array,
    inner: Sequence[Array],
    widths: Sequence[int],
    rng: np.random.Generator,
    layer_variances: Sequence[float] = (),
) -> list[Array]:
    """Bartlett factors T_d, …, T_2 of given draws, L = T Tᵀ with T = T_d ⋯ T_2.

    Parameters
    ----------
    roots, inner
        F (N, n_d, m) and S_1, …, S_K (N, m, m), as `NarrowSample` has them.
    widths : sequence of int
        n_1, …, n_{d−1}.
    rng : numpy.random.Generator
        For the weights outside the activities that F and S_k determine; L does not depend on them.
    layer_variances : sequence of float
        σ_2², …, σ_d²; ones by default.
    """
    variances = np.asarray(tuple(layer_variances) or (1.0,) * len(widths))
    deviations = np.sqrt(variances / np.asarray(widths))  # of W_2, …, W_d
    narrowest = int(np.argmin(widths))
    base = float((deviations**2).prod())
    identity: Array = np.broadcast_to(np.eye(roots.shape[2]), (len(roots), roots.shape[2], roots.shape[2]))
    chain = [identity, *(each / base for each in inner)]  # Gram matrices of weights of variance one
    below, above = chain[: narrowest + 1], chain[narrowest:]
    values, vectors = np.linalg.eigh(below[-1])
    symmetric = (vectors * np.sqrt(values)[:, None, :]) @ vectors.swapaxes(1, 2)
    # activities of the layers above the narrowest one, in bases that start with their span
    activities = [symmetric, *(np.linalg.cholesky(each).swapaxes(1, 2) for each in above[1:])]
    output = _times_inverse(roots / math.sqrt(base), activities[-1])
    steps = [_times_inverse(after, before) for before, after in pairwise(activities)]
    factors, turn = factors_of_known(output, steps[::-1], list(widths[narrowest:])[::-1], rng)
    previous: Array = identity
    for gram in below[1:]:
        lower = np.asarray(np.linalg.cholesky(turn @ gram @ turn.swapaxes(1, 2)), float)
        factors.append(np.asarray(np.linalg.solve(previous, lower), float))
        previous = lower
    return [factor * unit for factor, unit in zip(factors, deviations[::-1], strict=True)]


def _times_inverse(left: Array, right: Array) -> Array:
    """Left times the inverse of right, both (N, …)."""
    return np.asarray(np.linalg.solve(right.swapaxes(1, 2), left.swapaxes(1, 2)).swapaxes(1, 2), float)
