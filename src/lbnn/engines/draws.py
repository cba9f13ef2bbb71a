"""Posterior draws with what they say of themselves, and whether another estimate agrees."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from lbnn._base.log_sums import log_sum_exp
from lbnn._base.types import Array, IndexArray
from lbnn.engines.importance import ImportanceSample
from lbnn.engines.inference import Diagnostics, Witness
from lbnn.engines.mixture_sampling import LARGEST_K, WeightedDraws
from lbnn.engines.smc import SmcSample
from lbnn.engines.target import Target

LARGEST_SAMPLE = 1 << 25  # floats that atoms or their coordinates may fill
_MOST_ATOMS = 8192
_GAUSSIAN_ENOUGH = 0.1  # effective draws per draw from which a Gaussian in many dimensions needs no witness
_MOST_ERROR = 3.0  # error of a second witness, in target errors, above which it says nothing
MEANS_DIFFER = (
    "two estimates of the mean of the scale that share no proposal contradict each other: one of them misses "
    "a part of the posterior in which the mean lives; do not trust E L and what rests on it"
)
SMC = "sequential Monte Carlo"
_TRY_SMC = "try engine='smc'"
TAKE_OR_RAISE = "take the stated errors as they are, or raise target_error"
_ALONE = (
    "no second estimate of the log evidence that shares no proposal could be had: the answer supports itself "
    "but nothing else does; compare seeds, or engine='smc'"
)
_UNCONFIRMED = (
    "weights of importance sampling have too heavy a tail to confirm sequential Monte Carlo, which may miss "
    "a part of the posterior by more than it states; compare seeds"
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


def doubted(answer: Draws, reasons: list[str]) -> Draws:
    """The answer, not ok where there are reasons to doubt it."""
    if not reasons:
        return answer
    messages = (*answer.diagnostics.messages, *reasons)
    return replace(answer, diagnostics=replace(answer.diagnostics, ok=False, messages=messages))


def from_mixture(
    draws: WeightedDraws, first: Witness, second: Witness | None, effort: Effort, advice: str = _TRY_SMC
) -> Draws:
    """The answer of weighted draws, with a second estimate that shares no proposal if there is one."""
    messages = [] if draws.reaches(effort.target_error) else [_short(draws, effort.target_error, advice)]
    return _weighed(draws, first, second, [*messages, *([_ALONE] if second is None else [])])


def from_importance(sample: ImportanceSample, own: Witness, other: Witness | None, effort: Effort) -> Draws:
    """The answer of the Gaussian at the mode, with a second estimate if one could be had."""
    messages = [] if sample.reaches(effort.target_error) else [_short(sample, effort.target_error)]
    alone = other is None and sample.effective_share < _GAUSSIAN_ENOUGH
    return _weighed(sample, own, other, [*messages, *([_ALONE] if alone else [])])


def _weighed(
    sample: ImportanceSample | WeightedDraws, own: Witness, other: Witness | None, messages: list[str]
) -> Draws:
    """Weighted draws as an answer, ok where nothing was said against it and the other estimate agrees."""
    error, witnesses = own.error, (own,) if other is None else (own, other)
    if other is not None and not other.agrees_with(own):
        messages = [*messages, _contradiction(own, other)]
        error = max(error, _unexplained(own, other))
    diagnostics = Diagnostics(
        "importance",
        sample.effective_sample_size,
        sample.pareto_k,
        not messages,
        tuple(messages),
        witnesses=witnesses,
    )
    return Draws(sample.points, sample.log_weights, sample.groups, own.log_evidence, error, diagnostics)


def from_smc(
    sample: SmcSample, other: Witness | None, target: Target, effort: Effort, means_agree: bool = True
) -> Draws:
    """The answer of sequential Monte Carlo, with another estimate of the evidence that can be trusted."""
    own = Witness(SMC, sample.log_evidence, sample.log_evidence_error)
    messages = []
    if not sample.reaches(effort.target_error):
        messages.append(
            f"sequential Monte Carlo reached {sample.effective_sample_size:.0f} effective draws and an error "
            f"of log evidence of {sample.log_evidence_error:.2g} for a target error of "
            f"{effort.target_error:g}: "
            + (
                _CUT_SHORT_MESSAGE
                if sample.hurried
                else f"{TAKE_OR_RAISE}; at this pace the target "
                f"would take about {in_words(sample.forecast(effort.target_error))}"
            )
        )
    uncertain = other is None or other.error > _MOST_ERROR * effort.target_error
    if other is None:
        messages.append(_UNCONFIRMED)
    elif uncertain:
        messages.append(f"the second estimate ({other.method}, error {other.error:.2g}) cannot confirm it")
    elif not own.agrees_with(other):
        messages.append(_contradiction(own, other))
    if not means_agree:
        messages.append(MEANS_DIFFER)
    diagnostics = Diagnostics(
        "smc",
        sample.effective_sample_size,
        None,
        not messages,
        tuple(messages),
        sample.stages,
        witnesses=(own,) if other is None else (own, other),
    )
    keep = slice(None, None, _thinning(len(sample.points), target))
    return Draws(
        sample.points[keep],
        sample.log_weights[keep],
        sample.groups[keep],
        sample.log_evidence,
        max(sample.log_evidence_error, 0.0 if other is None or uncertain else _unexplained(own, other)),
        diagnostics,
    )


def _short(sample: ImportanceSample | WeightedDraws, target_error: float, advice: str = _TRY_SMC) -> str:
    means = ""
    if isinstance(sample, WeightedDraws) and not sample.serves_means:
        means = (
            f"; along some axis the mean of the scale rests on {sample.sizes_of_means.min():.0f} effective "
            f"draws, with k {sample.k_of_means:.2f}, which should be below {LARGEST_K}"
        )
    return (
        f"importance sampling reached {sample.effective_sample_size:.0f} effective draws (Pareto k "
        f"{sample.pareto_k:.2f}, should be below {sample.largest_k}; error of log evidence "
        f"{sample.log_evidence_error:.2g}{means}) for a target error of {target_error:g}: {advice}"
    )


def in_words(seconds: float) -> str:
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
