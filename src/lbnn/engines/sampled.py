"""Posterior draws in Bartlett coordinates: importance sampling, or sequential Monte Carlo where it fails."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace

import numpy as np
from scipy import special

from lbnn._base.errors import AccuracyWarning
from lbnn._base.progress import Progress
from lbnn._base.quasi_random import normal_points
from lbnn._base.types import Array, IndexArray, Mask
from lbnn.engines.adaptation import laplace_mixture
from lbnn.engines.importance import LARGEST_K, ImportanceSample, importance_sample
from lbnn.engines.inference import Diagnostics, Witness
from lbnn.engines.laplace import GaussianProposal, laplace_proposal
from lbnn.engines.mixture import Mixture
from lbnn.engines.mixture_sampling import (
    FEWEST_FOR_MEANS,
    GROUPS,
    MixtureDraws,
    WeightedDraws,
    mixture_sample,
)
from lbnn.engines.modes import scan_axes
from lbnn.engines.pareto import pareto_k
from lbnn.engines.smc import SmcSample, smc_sample
from lbnn.engines.target import ScaleTarget, Target
from lbnn.engines.total_target import TotalTarget
from lbnn.engines.witness import (
    mixture_witness,
    prior_witness,
    second_witness,
    tempered_witness,
    testify,
    turned_points,
)
from lbnn.likelihood.gaussian import GaussianLikelihood, LikelihoodRatio
from lbnn.scale.bartlett import product
from lbnn.scale.measure import Exponent, ScaleMeasure, effective_atoms
from lbnn.scale.phases import Phases, phases_of_labels

_FEWEST_FOR_TILT = 100  # effective atoms under which a tilted average is not taken from the own atoms
LARGEST_SAMPLE = 1 << 25  # floats that atoms or their coordinates may fill
_MOST_ATOMS = 8192
_FEWEST_OF_PRIOR = 1024
_LARGEST_FITTED = 300  # coordinates of T up to which a mixture is fitted
_NEARLY_GAUSSIAN = 0.3  # effective draws per draw of a Gaussian that serves by itself
_GAUSSIAN_ENOUGH = 0.1  # effective draws per draw from which a Gaussian in many dimensions needs no witness
_MOST_ERROR = 3.0  # error of a second witness, in target errors, above which it says nothing
_CUT_SHORT_MESSAGE = (
    "the work allotted ran out and moves were cut short, so that even these figures may be too good"
)


@dataclass(frozen=True)
class Effort:
    """How hard to try: the standard error aimed at, of log evidence and of means in posterior deviations."""

    target_error: float
    seed: int
    engine: str = "auto"  # "auto", "importance" or "smc"


@dataclass(frozen=True)
class Draws:
    """Weighted posterior draws of one target, by whichever engine served."""

    points: Array  # u, (m, D)
    log_weights: Array
    groups: IndexArray
    log_total: float  # log E_prior exp(log_value)
    log_total_error: float
    diagnostics: Diagnostics

    @property
    def weights(self) -> Array:
        """Normalised weights."""
        weights = np.exp(self.log_weights - special.logsumexp(self.log_weights))
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
        if TotalTarget(target).dimension > _LARGEST_FITTED:
            return _draw_in_many_dimensions(target, effort, progress)
        progress.say("modes of the posterior")
        mixture = laplace_mixture(TotalTarget(target))
        if effort.engine != "smc":
            plain = _draw_gaussian(target, mixture, effort, progress)
            if plain is not None:
                return plain
        return _draw_mixture(target, mixture, effort, progress)
    finally:
        progress.close()


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
    found = mixture_sample(mixture, effort.target_error, effort.seed, progress)
    first = Witness(mixture.space.name, found.draws.log_evidence, found.draws.log_evidence_error)
    enough = found.draws.reaches(effort.target_error)
    if effort.engine == "importance" or (effort.engine == "auto" and enough):
        second = second_witness(target, found, first, effort.seed, progress)
        second = second or tempered_witness(target, effort.seed, progress)
        return _from_mixture(found, first, second, effort)
    sample = smc_sample(target, _start(target, found), effort.target_error, effort.seed, progress)
    return _from_smc(sample, first, target, effort)


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
    """Importance sampling from the Gaussian at the mode; sequential Monte Carlo if its diagnostics say no.

    In so many dimensions a Gaussian that most draws count for is the posterior: no other phase could hide
    that its own curvature does not tell of, and the second witness is not needed.
    """
    proposal = laplace_proposal(target)
    sample = importance_sample(target, proposal, effort.target_error, effort.seed, progress)
    if effort.engine == "importance" or (effort.engine == "auto" and sample.reaches(effort.target_error)):
        return _from_importance(sample, effort)
    smc = smc_sample(target, proposal, effort.target_error, effort.seed, progress)
    return _from_smc(
        smc, Witness("importance", sample.log_evidence, sample.log_evidence_error), target, effort
    )


def _from_mixture(found: MixtureDraws, first: Witness, second: Witness, effort: Effort) -> Draws:
    draws = found.draws
    messages = []
    if not draws.reaches(effort.target_error):
        messages.append(_short(draws, effort.target_error))
    if not second.agrees_with(first):
        messages.append(_contradiction(first, second))
    diagnostics = Diagnostics(
        "importance",
        draws.effective_sample_size,
        draws.pareto_k,
        not messages,
        tuple(messages),
        witnesses=(first, second),
    )
    error = max(draws.log_evidence_error, _unexplained(first, second))
    return Draws(draws.points, draws.log_weights, draws.groups, draws.log_evidence, error, diagnostics)


def _from_importance(sample: ImportanceSample, effort: Effort) -> Draws:
    ok = sample.reaches(effort.target_error) and sample.effective_share >= _GAUSSIAN_ENOUGH
    diagnostics = Diagnostics(
        "importance",
        sample.effective_sample_size,
        sample.pareto_k,
        ok,
        () if ok else (_short(sample, effort.target_error),),
        witnesses=(Witness("Gaussian at the mode", sample.log_evidence, sample.log_evidence_error),),
    )
    return Draws(
        sample.points,
        sample.log_weights,
        sample.groups,
        sample.log_evidence,
        sample.log_evidence_error,
        diagnostics,
    )


def _from_smc(sample: SmcSample, other: Witness, target: Target, effort: Effort) -> Draws:
    own = Witness("sequential Monte Carlo", sample.log_evidence, sample.log_evidence_error)
    messages = []
    if not sample.reaches(effort.target_error):
        messages.append(
            f"sequential Monte Carlo reached {sample.effective_sample_size:.0f} effective draws and an error "
            f"of log evidence of {sample.log_evidence_error:.2g} for a target error of "
            f"{effort.target_error:g}: "
            + (
                _CUT_SHORT_MESSAGE
                if sample.hurried
                else "take the stated errors as they are, or raise target_error"
            )
        )
    if other.error > _MOST_ERROR * effort.target_error or not own.agrees_with(other):
        messages.append(_contradiction(own, other))
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
        max(sample.log_evidence_error, _unexplained(own, other)),
        diagnostics,
    )


def _short(sample: ImportanceSample | WeightedDraws, target_error: float) -> str:
    return (
        f"importance sampling reached {sample.effective_sample_size:.0f} effective draws (Pareto k "
        f"{sample.pareto_k:.2f}, should be below {LARGEST_K}; error of log evidence "
        f"{sample.log_evidence_error:.2g}) for a target error of {target_error:g}: try engine='smc'"
    )


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
    """Stride that keeps the atoms within memory; odd, so that no island is favoured."""
    each = max(target.dimension, target.rows**2)
    stride = math.ceil(count / min(_MOST_ATOMS, max(LARGEST_SAMPLE // each, 1)))
    return stride + 1 - stride % 2


class AtomLaw:
    """The law behind weighted draws, each known with its Bartlett factors."""

    def __init__(self, weights: Array, eigen: tuple[Array, Array]) -> None:
        self.weights, self.eigen = weights, eigen

    def log_expect_exp(self, exponent: Exponent) -> complex:
        """From the atoms where enough of them count, else for a density ratio from a run of its own."""
        with np.errstate(divide="ignore"):  # weights may have underflowed to zero
            log_weights = np.log(self.weights)
        log_terms = log_weights + exponent(*self.eigen)
        effective = float(effective_atoms(log_terms.real))
        if effective < _FEWEST_FOR_TILT:
            rescued = self.rescue(exponent)
            if rescued is not None:
                return complex(rescued)
            warnings.warn(_too_few(effective), AccuracyWarning, stacklevel=4)
        return complex(special.logsumexp(log_terms.astype(complex)))

    def rescue(self, exponent: Exponent) -> float | None:
        """log E exp(exponent) by other means than the atoms, if there are any."""
        return None

    def factors(self, index: IndexArray) -> list[Array]:
        """T_d, ..., T_2 of the given atoms."""
        raise NotImplementedError

    def sample(self, size: int, rng: np.random.Generator) -> Array:
        """Resample the atoms."""
        total = product(self.sample_factors(size, rng))
        assert total is not None
        return total @ total.swapaxes(1, 2)

    def sample_factors(self, size: int, rng: np.random.Generator) -> list[Array]:
        """Bartlett factors of resampled atoms."""
        return self.factors(rng.choice(len(self.weights), size=size, p=self.weights))

    def partial_products(self, layer: int) -> Array:
        """T_ℓ ⋯ T_2 of every atom."""
        factors = self.factors(np.arange(len(self.weights)))
        width = factors[-1].shape[2]
        lower = product(factors[len(factors) - (layer - 1) :])
        return np.broadcast_to(np.eye(width), (len(self.weights), width, width)) if lower is None else lower


class SampledLaw(AtomLaw):
    """The posterior behind draws in Bartlett coordinates."""

    def __init__(self, target: ScaleTarget, draws: Draws, eigen: tuple[Array, Array], effort: Effort) -> None:
        super().__init__(draws.weights, eigen)
        self.target, self.draws, self.effort = target, draws, effort

    def factors(self, index: IndexArray) -> list[Array]:
        return self.target.factors(self.draws.points[index])

    def phases(self, measure: ScaleMeasure) -> Phases:
        """Sets of fitted directions: along every axis of the data L is above or below its scan's valley."""
        target, own = self.target, self.target.likelihood
        if not isinstance(own, GaussianLikelihood) or own.flat:
            return phases_of_labels(*measure.weighted, np.zeros(len(self.weights), int), [0], False)
        valleys = np.array([scan.valley for scan in scan_axes(TotalTarget(target), target.rotation)])
        scales = target.rotation.T @ measure.scales @ target.rotation
        above = 0.5 * np.log(np.diagonal(scales, axis1=1, axis2=2)) > valleys
        patterns, labels = np.unique(above, axis=0, return_inverse=True)
        strongest = float(own.eigenvalues.max())
        fitted = []
        for label in range(len(patterns)):
            mean = np.average(measure.scales[labels == label], axis=0, weights=self._safe(labels == label))
            fitted.append(int((strongest * np.linalg.eigvalsh(mean) > own.noise).sum()))
        return phases_of_labels(*measure.weighted, labels, fitted, False)

    def _safe(self, inside: Mask) -> Array:
        """Weights of some atoms; equal ones where all of them have underflowed."""
        weights = self.weights[inside]
        return weights if weights.sum() > 0 else np.ones_like(weights)

    def rescue(self, exponent: Exponent) -> float | None:
        """log of ∫ dϖ p(Y|L) ratio(L) over ∫ dϖ p(Y|L), for a density ratio, by a new run for the former."""
        own = self.target.likelihood
        if not (isinstance(exponent, LikelihoodRatio) and isinstance(own, GaussianLikelihood)):
            return None
        joint = LikelihoodRatio((own, *exponent.numerators), exponent.denominators)
        draws = draw_posterior(replace(self.target, likelihood=joint), self.effort)
        for message in draws.diagnostics.messages:
            warnings.warn(message, AccuracyWarning, stacklevel=5)
        return draws.log_total - self.draws.log_total + exponent.log_constant


def _too_few(effective: float) -> str:
    return (
        f"only {effective:.0f} atoms of the scale's law count for this average, {_FEWEST_FOR_TILT} must "
        "for it: ask nearer to the mean, or condition with a smaller target_error"
    )
