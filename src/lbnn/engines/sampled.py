"""Posterior draws in Bartlett coordinates: which estimator serves, and which one vouches for it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from lbnn._base.log_sums import log_sum_exp
from lbnn._base.progress import Progress
from lbnn._base.quasi_random import normal_points
from lbnn._base.types import Array, IndexArray
from lbnn.engines.adaptation import laplace_mixture
from lbnn.engines.importance import LARGEST_K, ImportanceSample, importance_sample, weighted_draws
from lbnn.engines.inference import Diagnostics, Witness
from lbnn.engines.laplace import LARGEST_CURVATURE, GaussianProposal, gaussian_of, laplace_proposal
from lbnn.engines.many_outputs import RowAnswer, draw_rows, interdecile, rough_rows
from lbnn.engines.mixture import Mixture
from lbnn.engines.mixture_sampling import (
    FEWEST_FOR_MEANS,
    GROUPS,
    MOST_FITTED,
    ROUGH,
    MixtureDraws,
    WeightedDraws,
    mixture_sample,
)
from lbnn.engines.pareto import pareto_k
from lbnn.engines.smc import SmcSample, smc_sample
from lbnn.engines.target import Target
from lbnn.engines.total_target import FactorSpace, TotalTarget
from lbnn.engines.witness import (
    gaussian_witness,
    means_agree,
    mixture_witness,
    prior_witness,
    second_witness,
    testify,
    turned_points,
    weighted_means,
)
from lbnn.scale.measure import effective_atoms
from lbnn.scale.total_factor import TotalFactorLaw

LARGEST_SAMPLE = 1 << 25  # floats that atoms or their coordinates may fill
_MOST_ATOMS = 8192
_FEWEST_OF_PRIOR = 1024
LARGEST_FITTED = 36  # coordinates of T up to which phases are looked for and a mixture is made
_NEARLY_GAUSSIAN = 0.3  # effective draws per draw of a Gaussian that serves by itself
_GAUSSIAN_ENOUGH = 0.1  # effective draws per draw from which a Gaussian in many dimensions needs no witness
_PILOT = 128  # draws by which two starts of sequential Monte Carlo are compared
_MOST_ERROR = 3.0  # error of a second witness, in target errors, above which it says nothing
_MEANS_DIFFER = (
    "two estimates of the mean of the scale that share no proposal contradict each other: one of them misses "
    "a part of the posterior in which the mean lives; do not trust E L and what rests on it"
)
_SMC = "sequential Monte Carlo"
_TRY_SMC = "try engine='smc'"
_TAKE_OR_RAISE = "take the stated errors as they are, or raise target_error"
_ALONE = (
    "no second estimate of the log evidence that shares no proposal could be had: the answer supports itself "
    "but nothing else does; compare seeds, or engine='smc'"
)
_CUT_SHORT_MESSAGE = (
    "the work allotted ran out and moves were cut short, so that even these figures may be too good"
)


@dataclass(frozen=True)
class Effort:
    """How hard to try: the standard error aimed at, of log evidence and of means in posterior deviations."""

    target_error: float
    seed: int
    engine: str = "auto"  # "auto", "importance" or "smc"
    rough: bool = False  # a few dozen draws without a witness are enough: one of many models in a mixture


@dataclass(frozen=True)
class Draws:
    """Weighted posterior draws of one target, with the log normaliser and diagnostics."""

    points: Array  # u, (m, D)
    log_weights: Array
    groups: IndexArray
    log_total: float  # log E_prior exp(log_value)
    log_total_error: float
    diagnostics: Diagnostics

    @property
    def weights(self) -> Array:
        """Normalised weights."""
        weights = np.exp(self.log_weights - log_sum_exp(self.log_weights))
        return weights / weights.sum()


def draw_posterior(target: Target, effort: Effort) -> Draws:
    """Draws by one estimator, vouched for by another that shares no proposal with it.

    1. Where one mode is found and the Gaussian there serves, draws of it; the witness is a mixture on T.
    2. Otherwise draws of a mixture over all phases of T; the witness works on all factors.
    3. Where that does not reach the target error, sequential Monte Carlo; the witness is the mixture.

    Beyond the size for which mixtures are made, the Gaussian alone, then sequential Monte Carlo.
    """
    progress = Progress()
    try:
        if TotalTarget(target).dimension > LARGEST_FITTED:
            return _draw_in_many_dimensions(target, effort, progress)
        narrow = _draw_narrow(target, effort, progress)
        if narrow is not None:
            return narrow
        progress.say("modes of the posterior")
        mixture = laplace_mixture(TotalTarget(target))
        if effort.engine != "smc":
            plain = _draw_gaussian(target, mixture, effort, progress)
            if plain is not None:
                return plain
        return _draw_mixture(target, mixture, effort, progress)
    finally:
        progress.close()


def _draw_narrow(target: Target, effort: Effort, progress: Progress) -> Draws | None:
    """Rows of T behind the one narrow layer of a network, where a mixture would not be fitted; if they serve.

    With one hidden layer there are no phases to be looked for.
    """
    law = TotalFactorLaw(target.coordinates.shapes)
    deep_or_wide = len(law.shapes) > 1 or law.columns == law.rows
    if effort.engine == "smc" or deep_or_wide or law.dimension <= MOST_FITTED:
        return None
    if effort.rough:
        return _draw_rough(target, effort, progress)
    rows = draw_rows(target, effort.target_error, effort.seed, progress)
    if rows is None or not rows.sample.weighted.reaches(effort.target_error):
        return None
    answer = _from_rows(rows, target, effort)
    return answer if answer.diagnostics.ok else None


def _draw_rough(target: Target, effort: Effort, progress: Progress) -> Draws | None:
    """A few dozen effective draws by rows, without a witness; None where these cannot be had."""
    few = rough_rows(target, effort.seed, progress)
    if few is None:
        return None
    return _from_mixture(replace(few.weighted, points=few.points), few.own_witness, None, effort)


def _draw_gaussian(target: Target, mixture: Mixture, effort: Effort, progress: Progress) -> Draws | None:
    """Draws of the Gaussian at the only mode if that is nearly the posterior and a mixture on T agrees."""
    if mixture.modes > 1:
        return None
    frame = mixture.parts[0].frame
    turned_target = target.in_frame(frame)
    proposal = laplace_proposal(turned_target, mixture.start(turned_target.coordinates))
    sample = importance_sample(turned_target, proposal, effort.target_error, effort.seed, progress)
    if not (sample.reaches(effort.target_error) and sample.effective_share >= _NEARLY_GAUSSIAN):
        return None
    own = Witness("Gaussian at the mode of all factors", sample.log_evidence, sample.log_evidence_error)
    scales = target.rotation.T @ turned_target.scales(sample.points) @ target.rotation
    log_diagonal = np.log(np.diagonal(scales, axis1=1, axis2=2))
    mean = testify(own.method, sample.log_weights, sample.groups, log_diagonal)
    if not _serves_means(sample.log_weights[:, None] + log_diagonal):
        return None
    other = prior_witness(target, effort.seed)
    if not other.confirms(own, mean):
        if mixture.tails:  # a few draws of the mixture do not tell enough of a mean that lives in a tail
            return None
        other = mixture_witness(mixture, effort.seed)
    if other.witness is None or not other.confirms(own, mean):
        return None
    witnesses = (own, other.witness)
    diagnostics = Diagnostics(
        "importance", sample.effective_sample_size, sample.pareto_k, witnesses=witnesses
    )
    points = turned_points(sample.points, turned_target, target)
    return Draws(points, sample.log_weights, sample.groups, own.log_evidence, own.error, diagnostics)


def _serves_means(log_terms: Array) -> bool:
    """Whether enough draws count for E L along every axis: log w L_jj, (m, n)."""
    enough = effective_atoms(log_terms).min() >= FEWEST_FOR_MEANS
    return bool(enough) and max(pareto_k(column) for column in log_terms.T) < LARGEST_K


def _draw_mixture(target: Target, mixture: Mixture, effort: Effort, progress: Progress) -> Draws:
    """Draws of a mixture over all phases, or of sequential Monte Carlo where it falls short."""
    found = mixture_sample(mixture, effort.target_error, effort.seed, progress, effort.rough)
    first = Witness(mixture.space.name, found.draws.log_evidence, found.draws.log_evidence_error)
    if effort.rough and found.draws.effective_sample_size >= ROUGH / 4:
        return _from_mixture(found.draws, first, None, effort)
    enough = found.draws.reaches(effort.target_error)
    if effort.engine == "importance" or (effort.engine == "auto" and enough):
        second = second_witness(target, found, first, effort.seed, progress)
        if second is None:
            rows = draw_rows(target, effort.target_error, effort.seed, progress)
            second = None if rows is None else rows.sample.testimony.witness
        return _from_mixture(found.draws, first, second, effort)
    sample = smc_sample(target, _start(target, found), effort.target_error, effort.seed, progress)
    means = [
        weighted_means(each.log_weights, each.groups, np.exp(FactorSpace(target).log_diagonal(each.points)))
        for each in (sample, found.draws)
    ]
    agree = means_agree(*means)
    if effort.engine == "auto" and _better(found.draws, sample, effort.target_error):
        other = Witness(_SMC, sample.log_evidence, sample.log_evidence_error)
        answer = _from_mixture(found.draws, first, other, effort, _TAKE_OR_RAISE)
        return _doubted(answer, [] if agree else [_MEANS_DIFFER])
    return _from_smc(sample, first, target, effort, agree)


def _better(draws: WeightedDraws, sample: SmcSample, target_error: float) -> bool:
    """Whether of two that miss the target error the mixture's draws come nearer, without heavy tails."""
    missed = not sample.reaches(target_error)
    return missed and draws.pareto_k < LARGEST_K and draws.log_evidence_error < sample.log_evidence_error


def draw_prior(target: Target, effort: Effort) -> Draws:
    """Independent draws of the prior, for data that say nothing: as many as the target error asks for."""
    each = 1 << math.ceil(math.log2(max(_FEWEST_OF_PRIOR, effort.target_error**-2) / GROUPS))
    streams = np.random.default_rng([effort.seed, 9]).spawn(GROUPS)
    points = np.concatenate([normal_points(each, target.dimension, stream) for stream in streams])
    diagnostics = Diagnostics("prior", float(len(points)))
    groups = np.repeat(np.arange(GROUPS), each)
    return Draws(points, np.zeros(len(points)), groups, 0.0, 0.0, diagnostics)


def _start(target: Target, found: MixtureDraws) -> GaussianProposal:
    """The Gaussian at the mode near the best draw of the mixture."""
    best = found.draws.points[np.argmax(target.log_density(found.draws.points))]
    return laplace_proposal(target, best)


def _draw_in_many_dimensions(target: Target, effort: Effort, progress: Progress) -> Draws:
    """Importance sampling of T by rows; where that does not serve, from the Gaussian at the mode.

    The witness of the rows is another order of the axes, that of the Gaussian its own frame. Answers of
    neither that reach the target error are left to sequential Monte Carlo.
    """
    if effort.rough:
        few = _draw_rough(target, effort, progress)
        if few is not None:
            return few
    rows = None if effort.engine == "smc" else draw_rows(target, effort.target_error, effort.seed, progress)
    if rows is not None and rows.hardly_serves and effort.engine == "auto":
        rows = None
    if rows is not None and (
        rows.sample.weighted.reaches(effort.target_error) or target.dimension > LARGEST_CURVATURE
    ):
        return _from_rows(rows, target, effort)
    proposal = laplace_proposal(target)
    sample = importance_sample(target, proposal, effort.target_error, effort.seed, progress)
    own = Witness("Gaussian at the mode", sample.log_evidence, sample.log_evidence_error)
    if effort.engine == "auto" and sample.reaches(effort.target_error):
        return _from_importance(sample, own, _turned_witness(target, proposal.mean, effort), effort)
    if effort.engine == "importance":
        if rows is not None and rows.sample.weighted.effective_sample_size > sample.effective_sample_size:
            return _from_rows(rows, target, effort)
        return _from_importance(sample, own, _turned_witness(target, proposal.mean, effort), effort)
    start, roughness = _better_start(target, rows, proposal, effort.seed)
    if rows is not None and rows.sample.roughness < roughness:
        return _from_rows(rows, target, effort)  # what a path from a worse start would end in is worse still
    smc = smc_sample(target, start, effort.target_error, effort.seed, progress)
    other = None if rows is None else rows.sample.testimony.witness
    return _from_smc(smc, other or own, target, effort)


def _better_start(
    target: Target, rows: RowAnswer | None, proposal: GaussianProposal, seed: int
) -> tuple[GaussianProposal, float]:
    """The Gaussian at the mode, or that with the moments of draws by rows: where log weights vary less."""
    starts = [proposal] if rows is None else [proposal, gaussian_of(rows.sample.points)]
    streams = [np.random.default_rng([seed, 21]) for _ in starts]
    rough = [
        interdecile(weighted_draws(target, start, _PILOT, stream)[1])
        for start, stream in zip(starts, streams, strict=True)
    ]
    best = int(np.argmin(rough))
    return starts[best], rough[best]


def _from_rows(rows: RowAnswer, target: Target, effort: Effort) -> Draws:
    """The answer of the better order of the axes, if the other one, or the Gaussian at the mode, agrees."""
    draws = replace(rows.sample.weighted, points=rows.sample.points)
    first = rows.sample.own_witness
    second = rows.other.witness if rows.other is not None else None
    if second is None and target.dimension <= LARGEST_CURVATURE:
        second = gaussian_witness(target, draws.points[np.argmax(draws.log_weights)][None], effort.seed)
    answer = _from_mixture(draws, first, second, effort)
    more = [] if rows.means_agree else [_MEANS_DIFFER]
    if rows.seconds_needed is not None:
        more.append(f"by rows the target error would take about {_time(rows.seconds_needed)}")
    return _doubted(answer, more)


def _doubted(answer: Draws, reasons: list[str]) -> Draws:
    """The answer, not ok where there are reasons to doubt it."""
    if not reasons:
        return answer
    messages = (*answer.diagnostics.messages, *reasons)
    return replace(answer, diagnostics=replace(answer.diagnostics, ok=False, messages=messages))


def _turned_witness(target: Target, mode: Array, effort: Effort) -> Witness | None:
    """The Gaussian at the mode in the frame in which the scale is diagonal there, if that serves."""
    frame = np.linalg.eigh(target.scales(mode[None])[0]).eigenvectors[:, ::-1]
    other = target.in_frame(frame)
    return (
        None
        if other is target
        else gaussian_witness(other, turned_points(mode[None], target, other), effort.seed)
    )


def _from_mixture(
    draws: WeightedDraws, first: Witness, second: Witness | None, effort: Effort, advice: str = _TRY_SMC
) -> Draws:
    messages = []
    if not draws.reaches(effort.target_error):
        messages.append(_short(draws, effort.target_error, advice))
    if second is None:
        messages.append(_ALONE)
    elif not second.agrees_with(first):
        messages.append(_contradiction(first, second))
    diagnostics = Diagnostics(
        "importance",
        draws.effective_sample_size,
        draws.pareto_k,
        not messages,
        tuple(messages),
        witnesses=(first,) if second is None else (first, second),
    )
    error = draws.log_evidence_error
    error = error if second is None else max(error, _unexplained(first, second))
    return Draws(draws.points, draws.log_weights, draws.groups, draws.log_evidence, error, diagnostics)


def _from_importance(sample: ImportanceSample, own: Witness, other: Witness | None, effort: Effort) -> Draws:
    messages = [] if sample.reaches(effort.target_error) else [_short(sample, effort.target_error)]
    if other is None and sample.effective_share < _GAUSSIAN_ENOUGH:
        messages.append(_ALONE)
    elif other is not None and not other.agrees_with(own):
        messages.append(_contradiction(own, other))
    diagnostics = Diagnostics(
        "importance",
        sample.effective_sample_size,
        sample.pareto_k,
        not messages,
        tuple(messages),
        witnesses=(own,) if other is None else (own, other),
    )
    error = own.error if other is None else max(own.error, _unexplained(own, other))
    return Draws(sample.points, sample.log_weights, sample.groups, own.log_evidence, error, diagnostics)


def _from_smc(
    sample: SmcSample, other: Witness, target: Target, effort: Effort, means_agree: bool = True
) -> Draws:
    own = Witness(_SMC, sample.log_evidence, sample.log_evidence_error)
    messages = []
    if not sample.reaches(effort.target_error):
        messages.append(
            f"sequential Monte Carlo reached {sample.effective_sample_size:.0f} effective draws and an error "
            f"of log evidence of {sample.log_evidence_error:.2g} for a target error of "
            f"{effort.target_error:g}: "
            + (
                _CUT_SHORT_MESSAGE
                if sample.hurried
                else f"{_TAKE_OR_RAISE}; at this pace the target "
                f"would take about {_time(sample.forecast(effort.target_error))}"
            )
        )
    uncertain = other.error > _MOST_ERROR * effort.target_error
    if uncertain:
        messages.append(f"the second estimate ({other.method}, error {other.error:.2g}) cannot confirm it")
    elif not own.agrees_with(other):
        messages.append(_contradiction(own, other))
    if not means_agree:
        messages.append(_MEANS_DIFFER)
    diagnostics = Diagnostics(
        "smc",
        sample.effective_sample_size,
        None,
        not messages,
        tuple(messages),
        sample.stages,
        witnesses=(own, other),
    )
    keep = slice(None, None, _thinning(len(sample.points), target))
    return Draws(
        sample.points[keep],
        sample.log_weights[keep],
        sample.groups[keep],
        sample.log_evidence,
        max(sample.log_evidence_error, 0.0 if uncertain else _unexplained(own, other)),
        diagnostics,
    )


def _short(sample: ImportanceSample | WeightedDraws, target_error: float, advice: str = _TRY_SMC) -> str:
    return (
        f"importance sampling reached {sample.effective_sample_size:.0f} effective draws (Pareto k "
        f"{sample.pareto_k:.2f}, should be below {sample.largest_k}; error of log evidence "
        f"{sample.log_evidence_error:.2g}) for a target error of {target_error:g}: {advice}"
    )


def _time(seconds: float) -> str:
    """Seconds in words."""
    for unit, size in (("days", 86400.0), ("hours", 3600.0), ("minutes", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} seconds"


def _contradiction(first: Witness, second: Witness) -> str:
    return (
        "two estimates of the log evidence that share no proposal differ by "
        f"{second.log_evidence - first.log_evidence:.3g}, with errors {first.error:.2g} ({first.method}) and "
        f"{second.error:.2g} ({second.method}): one of them may miss part of the posterior; "
        "try a smaller target_error, or take the stated error, which holds both"
    )


def _unexplained(first: Witness, second: Witness) -> float:
    """Half of the difference between two estimates that contradict each other: an error that holds both."""
    return 0.0 if second.agrees_with(first) else 0.5 * abs(first.log_evidence - second.log_evidence)


def _thinning(count: int, target: Target) -> int:
    """Stride that keeps the atoms within memory; odd, so that islands (a power of two) keep equally many."""
    each = max(target.dimension, target.rows**2)
    stride = math.ceil(count / min(_MOST_ATOMS, max(LARGEST_SAMPLE // each, 1)))
    return stride + 1 - stride % 2
