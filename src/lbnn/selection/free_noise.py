"""Signal and noise, each with a covariance of its own: widths by evidence, everything else integrated.

The network of the signal and that of the noise have units of the outputs as hyperparameters; these have
proper priors in units of the targets (`unit_prior`) and are drawn with the covariances, so that the evidence
of a pair of widths needs no penalty. Widths of the noise are tried first, without signal; then those of the
signal, with the noise that led. Pairs that the evidence does not distinguish are averaged.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import special

from lbnn._base.types import Array
from lbnn.engines.estimate import Call, Estimate
from lbnn.engines.inference import InferenceOptions
from lbnn.engines.signal_noise import (
    FINAL,
    LARGE_FINAL,
    LARGE_SCREENING,
    SCREENING,
    Effort,
    SignalNoiseInference,
    checked_integrand,
    diagonal_draws,
    mode_start,
    prior_start,
    tempered,
)
from lbnn.engines.signal_noise_target import (
    GivenRoot,
    RootCoordinates,
    SignalNoiseTarget,
    UnitPrior,
    root_coordinates,
)
from lbnn.engines.verdict import TAKE_OR_RAISE, verdict
from lbnn.free_noise.posterior import FreeNoisePosterior
from lbnn.free_noise.target import likelihood_of, target_axes
from lbnn.scale.prior import ScalePrior
from lbnn.scale.signal_noise import SignalNoiseDraws
from lbnn.selection.data import EvidenceData
from lbnn.selection.parameters import target_variances
from lbnn.selection.width_search import Candidate

#: Outputs up to which covariances of full rank are candidates; beyond, factors only.
MOST_FULL = 20
_FACTORS = 3  # width of the first narrow candidate, ...
_MANY_FACTORS = 8  # ... and of the widest one for more outputs than `MOST_FULL`
_CLOSE = 4.0  # nats below the best from which a pair of widths is computed again: screening is low by 1 to 4
_LARGE = (
    1.2e5  # operations of one gradient, about 60 rows of 10 outputs, from which there are fewer particles
)
_MOST_FINAL = 2
_TARGET_ERROR = 0.2  # of the log evidence of a pair, which is averaged with others
_MOST_DRAWS = 512  # that predictions rest on: 0.05 posterior deviations
_SMALLEST_WEIGHT = 0.01  # of a pair of widths that takes part in the average

# Priors of the units, relative to the variance of each output: the signal has 0.3 of it and the noise
# 0.5, within factors of e⁴ (two deviations) for all outputs together; outputs differ by a factor of e^0.6 or
# so, and by much more where the data say so; factors have half of the noise, by logistic deviations of 1.5.
_MEDIAN_SIGNAL, _MEDIAN_NOISE = 0.3, 0.5
_COMMON, _OWN, _OWN_SPREAD, _SHARE = 2.0, 0.3, 1.0, 1.5


@dataclass(frozen=True, eq=False)
class FreeNoise:
    """Widths of signal and noise, with their evidence.

    Attributes
    ----------
    signal : tuple of int, or None
        Hidden widths of the network; None without signal.
    noise : int
        Width of the noise; 0 for independent noise.
    target : SignalNoiseTarget
    estimate : Estimate
    """

    signal: tuple[int, ...] | None
    noise: int
    target: SignalNoiseTarget
    estimate: Estimate

    @property
    def log_evidence(self) -> float:
        """Of the targets in the units of the search."""
        return self.target.likelihood.log_constant + self.estimate.log_evidence


def unit_prior(data: EvidenceData, with_signal: bool, with_shared: bool) -> UnitPrior:
    """Priors of the units of signal and noise, relative to the variances of the targets."""
    variances = target_variances(data)
    mean_gram = float(data.spectrum.eigenvalues.sum()) / max(data.spectrum.examples, 1)
    return UnitPrior(
        np.log(_MEDIAN_SIGNAL * variances / mean_gram),
        np.log(_MEDIAN_NOISE * variances),
        _COMMON,
        _OWN,
        _OWN_SPREAD,
        _SHARE,
        with_signal,
        with_shared,
    )


def free_noise_target(data: EvidenceData, signal: tuple[int, ...] | None, noise: int) -> SignalNoiseTarget:
    """The posterior for one pair of widths."""
    likelihood = likelihood_of(replace(data.spectrum, outside=data.outside))
    outputs = data.outputs
    axes = target_axes(likelihood, np.sqrt(target_variances(data)))
    nothing = GivenRoot(np.zeros((outputs, 0)))
    first: RootCoordinates = nothing
    if signal is not None:
        first = root_coordinates(ScalePrior(signal, outputs), axes)
    second: RootCoordinates = root_coordinates(ScalePrior((noise,), outputs), axes) if noise else nothing
    return SignalNoiseTarget(first, second, unit_prior(data, signal is not None, noise > 0), likelihood)


class FreeNoiseSearch:
    """Pairs of widths that were tried, each once."""

    def __init__(self, data: EvidenceData, seed: int, report: Callable[[Candidate], None]) -> None:
        self.data, self.seed, self.report = data, seed, report
        self.found: dict[tuple[tuple[int, ...] | None, int], FreeNoise] = {}

    def run(self, signals: Sequence[tuple[int, ...] | None] | None) -> list[FreeNoise]:
        """All pairs, best first; `signals` are the widths that are asked for, or None for all."""
        outputs = self.data.outputs
        full = outputs if outputs <= MOST_FULL else _MANY_FACTORS
        narrow = [width for width in (1, _FACTORS) if width < full]
        first = None if signals is None else signals[0]
        for width in dict.fromkeys([0, *narrow[-1:], full]):
            self.visit(first, width)
        for width in _neighbours(self.best.noise, full):
            self.visit(first, width)
        noise = self.best.noise
        tried = [(width,) for width in (*narrow, full)] if signals is None else signals
        before = -math.inf
        for signal in tried:  # wider, while that helps
            value = self.visit(signal, noise).log_evidence
            if signals is None and value < before:
                break
            before = value
        others = [each for each in self.found.values() if each.signal == first and each.noise != noise]
        if self.best.signal != first and others:  # the noise that came second, with the signal that led
            second = max(others, key=lambda each: each.log_evidence)
            self.visit(self.best.signal, second.noise)
        return sorted(self.found.values(), key=lambda each: -each.log_evidence)

    @property
    def best(self) -> FreeNoise:
        """Of the highest evidence so far."""
        return max(self.found.values(), key=lambda each: each.log_evidence)

    def visit(self, signal: tuple[int, ...] | None, noise: int) -> FreeNoise:
        """One pair, with the effort of a comparison."""
        if (signal, noise) in self.found:
            return self.found[signal, noise]
        target = free_noise_target(self.data, signal, noise)
        call = Call(InferenceOptions(0.3, self.seed, rough=True))
        effort = SCREENING if target.operations < _LARGE else LARGE_SCREENING
        estimate = tempered(target, prior_start(target), call, effort, f"signal {signal}, noise {noise}")
        self.found[signal, noise] = FreeNoise(signal, noise, target, estimate)
        self.report(candidate_of(self.data, self.found[signal, noise]))
        return self.found[signal, noise]


def _neighbours(width: int, full: int) -> tuple[int, ...]:
    """Widths of the noise next to the best: fewer and more factors."""
    if not 0 < width < full:
        return ()
    return tuple(each for each in (1, 5) if each < full)


def candidate_of(data: EvidenceData, pair: FreeNoise) -> Candidate:
    """One pair of widths for the table: h are the noise variances and the ratio of signal to noise."""
    logs = pair.estimate.weights @ pair.estimate.log_diagonal
    noise, ratio = logs[-data.outputs :], -30.0  # the lower end of what counts as a signal
    if pair.signal is not None:
        ratio = float((logs[: data.outputs] - noise).mean())
    return Candidate(
        pair.signal or (),
        np.append(noise, ratio),
        pair.log_evidence,
        pair.estimate.log_evidence_error,
        on_edge=False,
        noise="free",
        signal=pair.signal is not None,
        noise_width=pair.noise,
    )


def final_posterior(
    data: EvidenceData, pairs: Sequence[FreeNoise], *, target_error: float, seed: int
) -> tuple[FreeNoisePosterior, list[FreeNoise]]:
    """The average over pairs of widths, the best ones computed with more effort; and these, best first."""
    close = [each for each in pairs if each.log_evidence > pairs[0].log_evidence - _CLOSE][:_MOST_FINAL]
    call = Call(InferenceOptions(max(target_error, _TARGET_ERROR), seed))
    effort = FINAL if close[0].target.operations < _LARGE else LARGE_FINAL
    again = [replace(each, estimate=_again(each, call, effort)) for each in close]
    again.sort(key=lambda each: -each.log_evidence)
    best = again[0]
    check = tempered(best.target, mode_start(best.target), call, effort, "sequential Monte Carlo from a mode")
    answer = verdict("smc", best.estimate, check, call, advice=TAKE_OR_RAISE)
    constant = best.target.likelihood.log_constant
    draws = _pooled(again, np.random.default_rng([seed, 27]))
    inference = SignalNoiseInference(
        draws,
        constant + answer.log_evidence,
        answer.log_evidence_error,
        answer.diagnostics.shifted(constant),
    )
    prior = ScalePrior(best.signal or (), data.outputs)
    spectrum = replace(data.spectrum, outside=data.outside)
    return FreeNoisePosterior(prior, spectrum, inference), again


def _again(pair: FreeNoise, call: Call, effort: Effort) -> Estimate:
    name = f"signal {pair.signal}, noise {pair.noise}, final"
    estimate = tempered(pair.target, prior_start(pair.target), call, effort, name)
    checked_integrand(pair.target, estimate)
    return replace(estimate, method="sequential Monte Carlo from the prior")


def _pooled(pairs: Sequence[FreeNoise], rng: np.random.Generator) -> SignalNoiseDraws:
    """Draws of all pairs, each with the share of its evidence."""
    shares = special.softmax([each.log_evidence for each in pairs])
    parts = []
    for pair, share in zip(pairs, shares, strict=True):
        if share < _SMALLEST_WEIGHT:
            continue
        weights = pair.estimate.weights
        count = min(max(math.ceil(_MOST_DRAWS * share), 32), len(weights))
        index = _systematic(weights, count, rng)
        roots = pair.target.roots(pair.estimate.points[index])
        parts.append(diagonal_draws(roots, np.full(count, share / count), pair.estimate.groups[index]))
    total = sum(float(part.weights.sum()) for part in parts)
    return SignalNoiseDraws(
        np.concatenate([part.basis for part in parts]),
        np.concatenate([part.ratios for part in parts]),
        np.concatenate([part.weights for part in parts]) / total,
        np.concatenate([part.groups for part in parts]),
    )


def _systematic(weights: Array, count: int, rng: np.random.Generator) -> Array:
    """Indices (count,) of draws in proportion to their weights (m,)."""
    bounds = np.cumsum(weights) / weights.sum()
    return np.minimum(np.searchsorted(bounds, (np.arange(count) + rng.random()) / count), len(bounds) - 1)
