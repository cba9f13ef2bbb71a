"""Posterior draws in Bartlett coordinates: which estimator serves, and which one vouches for it."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from lbnn._base.progress import Progress
from lbnn._base.quasi_random import normal_points
from lbnn._base.types import Array
from lbnn.engines.adaptation import laplace_mixture
from lbnn.engines.draws import (
    MEANS_DIFFER,
    SMC,
    TAKE_OR_RAISE,
    Draws,
    Effort,
    doubted,
    from_importance,
    from_mixture,
    from_smc,
    in_words,
)
from lbnn.engines.importance import LARGEST_K, importance_sample, weighted_draws
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

_FEWEST_OF_PRIOR = 1024
LARGEST_FITTED = 36  # coordinates of T up to which phases are looked for and a mixture is made
_NEARLY_GAUSSIAN = 0.3  # effective draws per draw of a Gaussian that serves by itself
_PILOT = 128  # draws by which two starts of sequential Monte Carlo are compared


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
    return from_mixture(replace(few.weighted, points=few.points), few.own_witness, None, effort)


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
        return from_mixture(found.draws, first, None, effort)
    enough = found.draws.reaches(effort.target_error)
    if effort.engine == "importance" or (effort.engine == "auto" and enough):
        second = second_witness(target, found, first, effort.seed, progress)
        if second is None:
            rows = draw_rows(target, effort.target_error, effort.seed, progress)
            second = None if rows is None else rows.sample.testimony.witness
        return from_mixture(found.draws, first, second, effort)
    sample = smc_sample(target, _start(target, found), effort.target_error, effort.seed, progress)
    means = [
        weighted_means(each.log_weights, each.groups, np.exp(FactorSpace(target).log_diagonal(each.points)))
        for each in (sample, found.draws)
    ]
    agree = means_agree(*means)
    if effort.engine == "auto" and _better(found.draws, sample, effort.target_error):
        other = Witness(SMC, sample.log_evidence, sample.log_evidence_error)
        answer = from_mixture(found.draws, first, other, effort, TAKE_OR_RAISE)
        return doubted(answer, [] if agree else [MEANS_DIFFER])
    # weights with a heavy tail look better than they are, and agree with what misses the same part
    confirming = None if found.draws.pareto_k >= LARGEST_K else first
    return from_smc(sample, confirming, target, effort, agree)


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
        return from_importance(sample, own, _turned_witness(target, proposal.mean, effort), effort)
    if effort.engine == "importance":
        if rows is not None and rows.sample.weighted.effective_sample_size > sample.effective_sample_size:
            return _from_rows(rows, target, effort)
        return from_importance(sample, own, _turned_witness(target, proposal.mean, effort), effort)
    start, roughness = _better_start(target, rows, proposal, effort.seed)
    if rows is not None and rows.sample.roughness < roughness:
        return _from_rows(rows, target, effort)  # what a path from a worse start would end in is worse still
    smc = smc_sample(target, start, effort.target_error, effort.seed, progress)
    other = None if rows is None else rows.sample.testimony.witness
    return from_smc(smc, other or (own if sample.pareto_k < LARGEST_K else None), target, effort)


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
    answer = from_mixture(draws, first, second, effort)
    more = [] if rows.means_agree else [MEANS_DIFFER]
    if rows.seconds_needed is not None:
        more.append(f"by rows the target error would take about {in_words(rows.seconds_needed)}")
    return doubted(answer, more)


def _turned_witness(target: Target, mode: Array, effort: Effort) -> Witness | None:
    """The Gaussian at the mode in the frame in which the scale is diagonal there, if that serves."""
    frame = np.linalg.eigh(target.scales(mode[None])[0]).eigenvectors[:, ::-1]
    other = target.in_frame(frame)
    return (
        None
        if other is target
        else gaussian_witness(other, turned_points(mode[None], target, other), effort.seed)
    )
