"""Signal and noise, each with a covariance of its own: tempered sequential Monte Carlo, and its answer.

Paths lead from a Gaussian to the posterior: start^{1−t} posterior^t. The answer starts from a Gaussian that
was fitted to the posterior, or for few rows and outputs from the prior; the path that checks it starts from
another one.
Particles are on independent islands; between two temperatures they are resampled and moved by Hamiltonian
Monte Carlo, with the covariance of the particles as units. The evidence is that of a chain of bridges
(Bennett) over all states of two neighbouring temperatures, its error from leaving out one island at a time.

Draws are kept in the basis that makes signal and noise diagonal together: Σ = M Mᵀ, L = M diag(l) Mᵀ.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
from scipy import optimize, special

from lbnn._base.types import Array, IndexArray
from lbnn.engines.estimate import Call, Estimate
from lbnn.engines.importance import GaussianProposal, bounded_root, curvature
from lbnn.engines.inference import Diagnostics, InferenceOptions
from lbnn.engines.policy import POLICY
from lbnn.engines.signal_noise_target import SignalNoiseTarget, aligned, fitted_starts, mode_from
from lbnn.engines.smc import ISLANDS, Particles, Path, in_rounds
from lbnn.engines.target import Target
from lbnn.engines.verdict import TAKE_OR_RAISE, evidence_agrees, verdict
from lbnn.likelihood.signal_and_noise import Roots, check_integrand
from lbnn.scale.draws import Draws
from lbnn.scale.phases import standard_error

_TRAJECTORY = 1.5  # length of a trajectory in standard deviations: a quarter of a period is π/2
_ACCEPTANCE = 0.8
_STEP_SHARE = 0.25  # effective draws, of all, after a step of temperature: bridges need no more overlap
_MOST_ROUNDS = 12
FROM_PRIOR, FROM_FIT = (
    "sequential Monte Carlo from the prior",
    "sequential Monte Carlo from a fitted Gaussian",
)
FROM_OTHER = "sequential Monte Carlo from another Gaussian"
_TRUSTED = 0.2  # weight of the covariance of few states beside its diagonal from which it is used
_NO_DENSITY = -1e9
#: Deviation of a coordinate at a mode, times the root of the number of targets, under which the mode is
#: called a spike: 0.1 belongs to a ratio of signal to noise of 100. Six rows of seven outputs have 0.001 to
#: 0.08, 30 to 100 rows of 10 to 20 outputs 0.8 to 1.3, and 0.2 where the noise is a tenth of the signal.
_NARROWEST = 0.1
_FIT_PAIRS = 32  # pairs of opposite draws that a Gaussian is fitted by; twice as many save no temperature ...
_FIT_STEPS = 40  # ... nor do more steps


@dataclass(frozen=True)
class Effort:
    """How much work a run does.

    Attributes
    ----------
    particles : int
        On each island.
    moves : int
        Of every particle at each temperature; the second half of its states is kept.
    more : int
        Moves in addition at the posterior, whose states are all kept.
    """

    particles: int
    moves: int
    more: int


# Particles that move too little lag behind the path, and the evidence is low, the more the longer the path:
# from the prior, with `FINAL`, by 0.5 for 50 rows of 10 outputs, by 2.7 and 3.8 for 100 of 20 and by 27 for
# 80 of 35, with stated errors of 0.5, 0.6 and 7.7. From a fitted Gaussian and from another one, whose
# particles move twice as often: −574.9 ± 0.2 and −574.5 ± 0.3 for 50 of 10, −3440.6 ± 0.3 and −3440.7 ± 0.2
# for 120 of 35. Of 8 particles of 4 moves and 4 of 8, which cost the same, the second are less low: few
# particles and long chains therefore.
#: To compare networks.
SCREENING = Effort(4, 8, 0)
FINAL = Effort(4, 12, 12)
#: The same for few rows and outputs, where calls of NumPy take the time: sixteen times the particles take
#: four times as long.
_FINAL_SMALL = Effort(32, 12, 12)
_SMALL = 6e4  # operations of a gradient: two outputs, twelve rows
#: Mean square of the coordinates of a mode, about one for a draw of the prior, from which no path starts from
#: the prior: with targets of 1e4 and noise of one in eight rows 1e7 temperatures lie between.
_NEAR = 10.0
_SAME_MODE = 0.7  # largest difference of log L_jj and log Σ_jj of modes that are one: a factor of two
_NEGLIGIBLE = 15.0  # nats below the largest bound of the evidence: bounds of two phases are equally loose


@dataclass(frozen=True)
class SignalNoiseInference:
    """Draws of signal and noise, the log evidence, and diagnostics."""

    draws: Draws
    log_evidence: float
    log_evidence_error: float
    diagnostics: Diagnostics


def infer_signal_noise(target: SignalNoiseTarget, options: InferenceOptions) -> SignalNoiseInference:
    """The posterior of signal and noise, with a second estimate by another path where that is asked for."""
    call = Call(options)
    found, mode = aligned(target)
    effort, most = (SCREENING, 1) if options.rough else (final_effort(target), _MOST_ROUNDS)
    phases = [Phase(mode, *final_start(found, mode))] if options.rough else phases_of(found, mode)
    estimate, check = over_phases(found, phases, call, effort, most), None
    if not options.rough:
        found, estimate, check = checked(target, found, estimate, call, effort, most)
    answer = verdict("smc", estimate, check, call, needs_check=not options.rough, advice=TAKE_OR_RAISE)
    chosen = answer.estimate
    checked_integrand(found, chosen)
    constant = target.likelihood.log_constant
    draws = diagonal_draws(found.roots(chosen.points), chosen.weights, chosen.groups)
    return SignalNoiseInference(
        draws,
        constant + answer.log_evidence,
        answer.log_evidence_error,
        answer.diagnostics.shifted(constant),
    )


def checked(
    target: SignalNoiseTarget,
    found: SignalNoiseTarget,
    estimate: Estimate,
    call: Call,
    effort: Effort,
    most: int,
) -> tuple[SignalNoiseTarget, Estimate, Estimate]:
    """Coordinates of the answer, the answer, and a second estimate of the posterior of `target`.

    The first estimate has the coordinates `found`. The second path starts from a Gaussian that was fitted at
    a mode that was sought from another start, in the axes of that mode, or for few rows and outputs from one
    of the prior's size half way to that mode; half as many particles move twice as often, so that two paths
    whose particles lag behind differ. Where the two contradict each other the higher is the answer: particles
    that lag, or that miss a mode, make a log evidence low, not high.
    """
    other, mode = aligned(target, seed=1)
    largest = call.policy.largest_check_error * call.target_error  # a check may be less accurate
    checking = Call(replace(call.options, target_error=largest), progress=call.progress)
    longer = replace(effort, particles=effort.particles // 2, moves=2 * effort.moves, more=2 * effort.more)
    first, *more = phases_of(other, mode)
    near = target.operations < _SMALL and _is_near_the_prior(first.mode)  # as in `final_start`
    start = GaussianProposal(0.5 * first.mode, None, 0.0) if near else fitted_start(other, first.mode)
    check = over_phases(other, [Phase(first.mode, start, FROM_OTHER), *more], checking, longer, most)
    if evidence_agrees(estimate, check, call.policy) or check.log_evidence < estimate.log_evidence:
        return found, estimate, check
    return other, check, estimate


def rounds(
    target: SignalNoiseTarget, start: GaussianProposal, call: Call, effort: Effort, method: str, most: int
) -> Estimate:
    """Rounds of islands until the target error is reached, or `most` of them."""

    def one(number: int) -> Estimate:
        """A round, with a stream of its own."""
        name = method if number == 1 else f"{method}, round {number}"
        return tempered(target, start, call, effort, name)

    return in_rounds(one, call, most)


@dataclass(frozen=True)
class Phase:
    """A mode u (D,) of the posterior, and where a path to the posterior around it starts."""

    mode: Array
    start: GaussianProposal
    method: str


def phases_of(target: SignalNoiseTarget, mode: Array) -> list[Phase]:
    """The phases of the posterior, that of the mode (D,) among them, nearest to the prior first.

    Searches start where the network of the signal, and that of the noise, fit none of the axes of the data,
    the strongest or all. A phase is left out where the lower bound of its evidence is negligible beside the
    largest.
    """
    found = [mode]
    for begin in fitted_starts(target, mode):
        other = mode_from(target, begin)
        logs = target.log_diagonals(np.array([other, *found]))
        if (np.abs(logs[1:] - logs[0]).max(axis=1) > _SAME_MODE).all():
            found.append(other)
    if len(found) > 1:
        fits = [_fitted(target, each, _axes_at(target, each)) for each in found]
        largest = max(bound for _, bound in fits)
        pairs = zip(found, fits, strict=True)
        kept = [(each, fit[0]) for each, fit in pairs if fit[1] > largest - _NEGLIGIBLE]
        kept.sort(key=lambda pair: float(pair[0] @ pair[0]))
        found, others = [each for each, _ in kept], [start for _, start in kept[1:]]
    else:
        others = []
    first = Phase(found[0], *final_start(target, found[0]))
    return [first, *(Phase(*each, FROM_FIT) for each in zip(found[1:], others, strict=True))]


def over_phases(
    target: SignalNoiseTarget, phases: list[Phase], call: Call, effort: Effort, most: int
) -> Estimate:
    """Paths from every phase, as one estimate: each of the mass that is nearest to where it started.

    The draws of one path, whatever they have visited, are weighted such that averages of any function are
    those of the posterior, the share of a part of the space among them. So the integral is the sum, over a
    partition of the space, of what one path each says of its part. A point belongs to the Gaussian that is
    highest there, times the evidence that its path has found.
    """
    found = [
        rounds(target, phase.start, call, effort, f"{phase.method}{f', phase {k + 1}' if k else ''}", most)
        for k, phase in enumerate(phases)
    ]
    if len(found) == 1:
        return found[0]
    logs, squares, weights, groups, diagonals, points = [], [], [], [], [], []
    for k, estimate in enumerate(found):
        heights = [
            other.log_evidence
            - 0.5 * (phase.start.whiten(estimate.points) ** 2).sum(axis=1)
            - phase.start.log_determinant
            for phase, other in zip(phases, found, strict=True)
        ]
        own, islands = np.argmax(heights, axis=0) == k, estimate.groups % ISLANDS
        share = float(estimate.weights @ own)
        if not share:  # the path has left its phase, which others have visited, too
            continue
        error = float(standard_error(own.astype(float), estimate.weights, islands)) / share
        logs.append(estimate.log_evidence + math.log(share))
        squares.append(estimate.log_evidence_error**2 + error**2)
        weights.append(np.log(estimate.weights[own]) + estimate.log_evidence)
        groups.append(islands[own])
        diagonals.append(estimate.log_diagonal[own])
        points.append(estimate.points[own])
    shares, together = special.softmax(logs), np.concatenate(points)
    return replace(
        found[0],
        method=f"{found[0].method} and {len(found) - 1} more",
        log_weights=np.concatenate(weights),
        groups=np.concatenate(groups),
        log_diagonal=np.concatenate(diagonals),
        locate=lambda: together,
        log_evidence=float(special.logsumexp(logs)),
        log_evidence_error=math.sqrt(float(shares**2 @ np.array(squares))),
        efficiency=min(each.efficiency for each in found),
        stages=max(each.stages for each in found),
        seconds=sum(each.seconds for each in found),
    )


def final_effort(target: SignalNoiseTarget) -> Effort:
    """Of an answer that is integrated in full."""
    return _FINAL_SMALL if target.operations < _SMALL else FINAL


def final_start(target: SignalNoiseTarget, mode: Array) -> tuple[GaussianProposal, str]:
    """Where the path of an answer starts, and its name.

    From the prior a small problem has two or three temperatures, and particles do not lag; from a Gaussian
    with the posterior's curvature, one, and a tail of the posterior may be missed (low by 0.16 in one of
    twenty, where 0.05 was stated).
    """
    if target.operations < _SMALL and _is_near_the_prior(mode):
        return prior_start(target), FROM_PRIOR
    return fitted_start(target, mode), FROM_FIT


def _is_near_the_prior(mode: Array) -> bool:
    """Whether a path from the prior to a posterior with that mode (D,) is not too long."""
    return float(mode @ mode) < _NEAR * len(mode)


def diagonal_draws(roots: Roots, weights: Array, groups: IndexArray) -> Draws:
    """Draws from roots of the two covariances with weights (m,): one generalised eigenproblem for each."""
    root = np.linalg.cholesky(roots.noise_covariance)
    white = np.linalg.solve(root, roots.signal)
    values, vectors = np.linalg.eigh(white @ white.swapaxes(1, 2))
    return Draws(root @ vectors, np.maximum(values, 0.0), weights, groups)


def checked_integrand(target: SignalNoiseTarget, estimate: Estimate) -> None:
    """Compare the integrand with the plain formula at the draw of largest weight and at two others."""
    count = len(estimate.weights)
    few = np.unique([int(estimate.weights.argmax()), count // 3, 2 * count // 3])
    points = estimate.points[few]
    check_integrand(target.likelihood, target.roots(points), target.integrand(points))


def prior_start(target: SignalNoiseTarget) -> GaussianProposal:
    """The prior itself."""
    return GaussianProposal(np.zeros(target.dimension), None, 0.0)


def fitted_start(target: SignalNoiseTarget, mode: Array) -> GaussianProposal:
    """The Gaussian nearest to the posterior of those with the axes of the curvature at a mode (D,).

    Mean and deviations along the axes have the largest lower bound of the log evidence (ELBO), an average
    over draws that are kept. In 60 to 100 dimensions a mode is no typical point: paths from the Gaussian with
    its curvature have twice as many temperatures.

    The prior where the mode is a spike, as with few rows whose targets a signal can fit without noise: there
    it has next to no mass.
    """
    likelihood, axes = target.likelihood, _axes_at(target, mode)
    narrowest = _NARROWEST / math.sqrt(likelihood.examples * likelihood.outputs)
    if float(np.linalg.norm(axes, axis=0).min()) < narrowest and _is_near_the_prior(mode):
        return prior_start(target)
    return _fitted(target, mode, axes)[0]


def _axes_at(target: SignalNoiseTarget, mode: Array) -> Array:
    """Axes of the curvature at a mode (D,), as columns of the length of the deviations, (D, D)."""
    hessian = np.eye(target.dimension)
    if target.dimension <= POLICY.most_for_curvature:
        hessian = curvature(cast(Target, target), mode)
    axes, deviations, _ = np.linalg.svd(bounded_root(hessian, target.dimension)[0])
    return axes * deviations


def _fitted(target: SignalNoiseTarget, mode: Array, axes: Array) -> tuple[GaussianProposal, float]:
    """The Gaussian of `fitted_start` with axes (D, D), and its bound of the log evidence up to a constant."""
    half = np.random.default_rng(27).standard_normal((_FIT_PAIRS, target.dimension))
    white = np.concatenate([half, -half])

    def negative(parameters: Array) -> tuple[float, Array]:
        """Minus the bound, up to a constant, and its gradient in shifts and log deviations (2 D,)."""
        shift, log_widths = np.split(parameters, 2)
        widths = np.exp(log_widths)
        value, gradient = target.value_and_gradient(mode + (shift + widths * white) @ axes.T)
        along = gradient @ axes
        slopes = np.concatenate([along.mean(axis=0), widths * (white * along).mean(axis=0) + 1])
        return -float(np.maximum(value, _NO_DENSITY).mean() + log_widths.sum()), -slopes

    found = optimize.minimize(
        negative,
        np.zeros(2 * target.dimension),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": _FIT_STEPS},
    )
    shift, log_widths = np.split(found.x, 2)
    log_volume = float(np.log(np.linalg.norm(axes, axis=0)).sum())
    proposal = GaussianProposal(
        mode + axes @ shift, axes * np.exp(log_widths), log_volume + float(log_widths.sum())
    )
    return proposal, log_volume - float(found.fun)


def tempered(
    target: SignalNoiseTarget, start: GaussianProposal, call: Call, effort: Effort, method: str
) -> Estimate:
    """One path from a start to the posterior."""
    return _Path(target, start, call, effort, method).round()


class _Path(Path):
    """A path to the posterior of signal and noise, with as many moves at every temperature."""

    share, acceptance = _STEP_SHARE, _ACCEPTANCE

    def __init__(
        self, target: SignalNoiseTarget, start: GaussianProposal, call: Call, effort: Effort, method: str
    ) -> None:
        super().__init__(cast(Target, target), start, call, method)
        self.both, self.moves = target, effort.moves
        self.per_island, self.more = effort.particles, effort.more
        self.step = 0.8 * max(target.dimension, 1) ** -0.25

    def evaluate(self, white: Array) -> Particles:
        """Log density and gradient at white coordinates (m, k)."""
        found = super().evaluate(white)  # minus infinity times a step of zero would be no number
        return replace(found, log_target=np.maximum(found.log_target, _NO_DENSITY))

    def forget(self, particles: Particles, temperature: float) -> list[Particles]:
        """So many moves, the second half of whose states is kept."""
        states = []
        for _ in range(self.moves):
            particles = self.move(particles, temperature)
            states.append(particles)
        return states[-(self.moves // 2) :]

    def move(self, particles: Particles, temperature: float) -> Particles:
        """One Hamiltonian Monte Carlo move of every particle, over the same length."""
        self.steps = max(1, round(_TRAJECTORY / self.step))
        moved = super().move(particles, temperature)
        self.step = min(self.step, _TRAJECTORY)
        return moved

    def spread(self, pool: Particles, before: Array, chosen: Particles) -> Array:
        """Units of moves (D,) or (D, D), from all particles with log weights (islands, m)."""
        return _units(pool.white, before.ravel())

    def diagonal(self, points: Array) -> Array:
        """log L_jj and log Σ_jj at points (m, D), (m, any)."""
        return self.both.log_diagonals(points)

    def summaries(self, state: Particles) -> Array:
        """Log density and ‖ξ‖², (m, 2)."""
        return np.stack([state.log_target, (state.white**2).sum(axis=1)], axis=1)


def _units(white: Array, log_weights: Array) -> Array:
    """Units of moves from weighted states: a root of their covariance (D, D), or deviations (D,)."""
    weights = np.exp(log_weights - special.logsumexp(log_weights))
    centred = white - weights @ white
    size, dimension = 1 / float((weights**2).sum()), white.shape[1]
    trust = size / (size + 2 * dimension)
    variances = np.maximum(weights @ centred**2, 1e-6)
    if trust < _TRUSTED:
        return np.sqrt(variances)
    covariance = centred.T @ (centred * weights[:, None])
    return np.asarray(np.linalg.cholesky(trust * covariance + (1 - trust) * np.diag(variances)), float)
