"""Signal and noise, each with a covariance of its own: widths by evidence, everything else integrated.

The network of the signal and that of the noise have units of the outputs as hyperparameters; these have
proper priors in units of the targets (`unit_prior`) and are drawn with the covariances, so that the evidence
of a pair of widths needs no penalty. Widths of the noise are tried first, without signal; then those of the
signal, with the noise that led; then the noise again, with the signal that led. All pairs are averaged by
their evidence and the prior odds of no signal, among them those without signal.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import special

from lbnn._base.types import Array
from lbnn.engines.estimate import Call, Estimate
from lbnn.engines.inference import Diagnostics, InferenceOptions
from lbnn.engines.signal_noise import (
    SCREENING,
    Effort,
    SignalNoiseInference,
    checked,
    checked_integrand,
    diagonal_draws,
    final_effort,
    final_start,
    fitted_start,
    rounds,
    tempered,
)
from lbnn.engines.signal_noise_target import (
    GivenRoot,
    RootCoordinates,
    SignalNoiseTarget,
    UnitPrior,
    aligned,
    root_coordinates,
)
from lbnn.engines.verdict import TAKE_OR_RAISE, verdict
from lbnn.free_noise.posterior import FreeNoisePosterior
from lbnn.free_noise.target import likelihood_of, target_axes
from lbnn.scale.draws import Draws
from lbnn.scale.prior import ScalePrior
from lbnn.selection.data import EvidenceData
from lbnn.selection.parameters import target_variances
from lbnn.selection.width_search import Trial

#: Outputs up to which covariances of full rank are candidates; beyond, factors only.
MOST_FULL = 20
_FACTORS = 4  # widths of the noise that are tried one by one
_SIGNALS = (1, 3)  # narrow widths of the signal
_MANY_FACTORS = 8  # the widest noise and signal for more outputs than `MOST_FULL`
_DROP = 1.0  # nats by which one more factor must be worse for further ones not to be tried
_MANY = 10.0  # nats by which three factors of the signal must lead one for more to be tried
_CLOSE = 4.0  # nats by which signal or none must lead in a comparison for the other not to be computed again
_TARGET_ERROR = 0.5  # of the log evidence of a pair, of which three nats are called a signal
_MOST_ROUNDS = 3  # of a final answer
_UNLIKE = 1e4  # ratio of variances of outputs from which one unit for all is not tried (1e10: −160 nats)
_MOST_DRAWS = 512  # that predictions rest on: 0.05 posterior deviations
_SMALLEST_WEIGHT = 0.01  # of a pair of widths that takes part in the average
#: Prior odds of no signal. Inputs of a flat spectrum do not tell factors of a signal from factors of the
#: noise, and every signal is tried with several widths, so that at even odds an average has signals that are
#: not there. Of 40 data sets without signal 34, 38, 38 and 38 have a test R² above −0.02 with odds of 1, 2, 3
#: and 5, of ten of 30 rows and 12 outputs 6, 7, 8 and 8; with a signal as large as one noise factor the mean
#: R² of eleven is 0.060, 0.059, 0.058 and 0.057, and a signal is preferred in 7, 6, 6 and 5 of them.
_ODDS_OF_NO_SIGNAL = 3.0

# Priors of the units. Outputs have one unit in common, or units of their own. The variance of an output is
# that of its targets, within a factor of e² (two deviations) for all outputs together and, with units of
# their own, e^1.4 for each: random scales of signal and noise make up for that. The logit of the share of the
# signal has the variance 3 of the logistic law, whose shares are uniform on (0, 1): 1 that all outputs have
# in common, and 2 for each of them, of which a narrow network brings a part (`own_share`); all 3 are common
# where outputs have one unit, and all 3 are of each output where signal and noise have the same factors: that
# form is for outputs whose shares are unlike. Factors have half of the noise, by logistic deviations of 1.5.
_COMMON, _OWN, _COMMON_SHARE, _VARIANCE_OF_LOGIT, _FACTOR_SHARE = 1.0, 0.7, 1.0, 3.0, 1.5


@dataclass(frozen=True)
class Form:
    """Forms of the two covariances.

    Attributes
    ----------
    signal : tuple of int, or None
        Hidden widths of the network; None without signal.
    noise : int
        Width of the noise; 0 for independent noise.
    own : bool
        Whether outputs have units of their own.
    same_factors : bool
        Whether signal and noise pass through the same `noise` factors, beside a signal and a noise that each
        output has for itself.
    """

    signal: tuple[int, ...] | None
    noise: int
    own: bool
    same_factors: bool = False


@dataclass(frozen=True, eq=False)
class FreeNoise:
    """A form of signal and noise, with its evidence.

    Attributes
    ----------
    form : Form
    target : SignalNoiseTarget
    mode : (D,)
        A mode of the posterior.
    estimate : Estimate
    """

    form: Form
    target: SignalNoiseTarget
    mode: Array
    estimate: Estimate

    @property
    def signal(self) -> tuple[int, ...] | None:
        """Hidden widths of the network; None without signal."""
        return self.form.signal

    @property
    def log_evidence(self) -> float:
        """Of the targets in the units of the search."""
        return self.target.likelihood.log_constant + self.estimate.log_evidence

    @property
    def log_prior_odds(self) -> float:
        """Of this pair to one with signal."""
        return math.log(_ODDS_OF_NO_SIGNAL) if self.signal is None else 0.0

    @property
    def log_weight(self) -> float:
        """Log evidence and prior odds, by which pairs are averaged."""
        return self.log_evidence + self.log_prior_odds


def unit_prior(data: EvidenceData, form: Form) -> UnitPrior:
    """Priors of the units of signal and noise, relative to the variances of the targets."""
    own = form.own
    shares = (_COMMON_SHARE, own_share(form.signal or ())) if own else (math.sqrt(_VARIANCE_OF_LOGIT), 0.0)
    if form.same_factors:
        shares = 0.0, math.sqrt(_VARIANCE_OF_LOGIT)
    variances = target_variances(data)
    return UnitPrior(
        np.log(variances if own else np.full(data.outputs, variances.mean())),
        math.log(data.spectrum.mean_gram),
        _COMMON,
        _OWN if own else 0.0,
        *shares,
        _FACTOR_SHARE,
        form.signal is not None,
        form.noise > 0,
        form.same_factors,
    )


def own_share(widths: tuple[int, ...]) -> float:
    """Standard deviation of what each output has of the logit share, for a network of these widths.

    L̃_jj is a product of χ²_n/n, one for each layer, whose logs have the variances ψ′(n/2): in a narrow
    network outputs differ by themselves.
    """
    brought = float(special.polygamma(1, 0.5 * np.array(widths, float)).sum())
    return math.sqrt(max(_VARIANCE_OF_LOGIT - _COMMON_SHARE**2 - brought, 0.0))


def free_noise_target(data: EvidenceData, form: Form) -> SignalNoiseTarget:
    """The posterior for one form of signal and noise."""
    likelihood = likelihood_of(replace(data.spectrum, outside=data.outside))
    outputs = data.outputs
    axes = target_axes(likelihood, np.sqrt(target_variances(data)))
    signal: RootCoordinates = GivenRoot(np.zeros((outputs, 0)))
    noise = signal
    if form.signal is not None and not form.same_factors:
        signal = root_coordinates(ScalePrior(form.signal, outputs), axes)
    if form.noise:
        noise = root_coordinates(ScalePrior((form.noise,), outputs), axes)
    return SignalNoiseTarget(signal, noise, unit_prior(data, form), likelihood)


class FreeNoiseSearch:
    """Forms that were tried, each once."""

    def __init__(self, data: EvidenceData, seed: int) -> None:
        self.data, self.seed = data, seed
        self.found: dict[Form, FreeNoise] = {}

    def run(self, signals: Sequence[tuple[int, ...] | None] | None) -> list[FreeNoise]:
        """All forms, best first; `signals` are the widths that are asked for, or None for all and none."""
        outputs = self.data.outputs
        full = outputs if outputs <= MOST_FULL else _MANY_FACTORS
        if more_outputs_than_rows(self.data):  # full rank would rest on the prior
            full = max(1, min(full, _MANY_FACTORS, self.data.spectrum.examples - 1))
        first = None if signals is None else signals[0]
        variances = target_variances(self.data)
        own = bool(variances.max() > _UNLIKE * variances.min())
        many = outputs > MOST_FULL  # widths differ by tens of nats, and fewer are tried
        narrow = [_FACTORS] if many else range(1, min(_FACTORS + 1, full))
        self._while_it_helps([Form(first, width, own) for width in (0, *narrow)])
        factors = self.best.form.noise
        self.visit(Form(first, full, own))
        for width in () if many else (factors, full):
            self.visit(Form(first, width, True))
        best = self.best.form
        if signals is None:
            self._find_signal(best, full)
        else:
            for signal in signals:
                self.visit(replace(best, signal=signal))
        if many:
            return self._sorted
        led = self._best_with_signal.form
        if not (own or led.same_factors):
            self.visit(replace(led, own=not led.own))
            led = self._best_with_signal.form
        excluded = (0, led.noise) if led.same_factors else (led.noise,)
        tried_first = (each for each in self.found.values() if each.signal == first)
        others = [each for each in tried_first if each.form.noise not in excluded]
        if others:
            second = max(others, key=lambda each: each.log_evidence).form.noise
            self.visit(replace(led, noise=second, signal=(second,) if led.same_factors else led.signal))
        return self._sorted

    def _find_signal(self, noise: Form, full: int) -> None:
        """Signals of few factors, of full rank with a share of its own for each output, and a full network.

        `noise` is the best form without signal. The last of them is the slowest, and is left out where few
        factors say as much as a signal of full rank.
        """
        many = self.data.outputs > MOST_FULL
        narrow = [(width,) for width in _SIGNALS[many:] if width < full]
        self._while_it_helps([replace(noise, signal=signal) for signal in narrow])
        if not many:
            width = min(noise.noise, _FACTORS) or 1
            self.visit(Form((width,), width, own=True, same_factors=True))
        tried = [self.found.get(replace(noise, signal=signal)) for signal in narrow]
        values = [-math.inf if each is None else each.log_evidence for each in tried]
        widest_helps = values[-1] - values[0] > _MANY if len(values) > 1 else True
        if many or widest_helps or self._best_with_signal.form.same_factors:
            self.visit(replace(noise, signal=(full,)))

    @property
    def _sorted(self) -> list[FreeNoise]:
        """All forms, best first."""
        return sorted(self.found.values(), key=lambda each: -each.log_weight)

    def _while_it_helps(self, forms: Sequence[Form]) -> None:
        """Wider and wider, until the evidence falls."""
        before = -math.inf
        for form in forms:
            value = self.visit(form).log_evidence
            if value < before - _DROP:
                return
            before = value

    @property
    def best(self) -> FreeNoise:
        """Of the highest evidence so far."""
        return max(self.found.values(), key=lambda each: each.log_evidence)

    @property
    def _best_with_signal(self) -> FreeNoise:
        with_signal = (each for each in self.found.values() if each.signal is not None)
        return max(with_signal, key=lambda each: each.log_evidence)

    def visit(self, form: Form) -> FreeNoise:
        """One form, with the effort of a comparison."""
        if form not in self.found:
            target, mode = aligned(free_noise_target(self.data, form))
            call = Call(InferenceOptions(_TARGET_ERROR, self.seed, rough=True))
            estimate = tempered(
                target, fitted_start(target, mode), call, SCREENING, f"signal and noise {form}"
            )
            self.found[form] = FreeNoise(form, target, mode, estimate)
        return self.found[form]


def more_outputs_than_rows(data: EvidenceData) -> bool:
    """Whether the rows cannot determine a covariance of full rank; an intercept takes one of them."""
    return data.outputs > data.spectrum.examples


def candidate_of(data: EvidenceData, pair: FreeNoise) -> Trial:
    """One pair of widths for the table: h are the noise variances and the ratio of signal to noise."""
    logs = pair.estimate.weights @ pair.estimate.log_diagonal
    noise, ratio = logs[-data.outputs :], -30.0  # the lower end of what counts as a signal
    if pair.signal is not None:
        ratio = float((logs[: data.outputs] - noise).mean())
    return Trial(
        pair.signal or (),
        np.append(noise, ratio),
        pair.log_evidence,
        pair.estimate.log_evidence_error,
        on_edge=False,
        noise="free",
        signal=pair.signal is not None,
        noise_width=pair.form.noise,
        same_factors=pair.form.same_factors,
        penalty=-pair.log_prior_odds,
    )


def final_posterior(
    data: EvidenceData, pairs: Sequence[FreeNoise], *, target_error: float, seed: int
) -> tuple[FreeNoisePosterior, list[FreeNoise]]:
    """The average over pairs of widths, the best one and its rival computed with more effort; best first.

    The rival is the best pair without signal where there is one with signal, and the other way round, unless
    it is far behind: the two whose odds are stated have the same accuracy.
    """
    effort = final_effort(pairs[0].target)
    call = Call(InferenceOptions(max(target_error, _TARGET_ERROR), seed))
    again = {id(pairs[0]): _again(pairs[0], call, effort)}
    rivals = [each for each in pairs if (each.signal is None) != (pairs[0].signal is None)]
    for rival in rivals[:1]:
        if rival.log_weight > again[id(pairs[0])].log_weight - _CLOSE:
            again[id(rival)] = _again(rival, call, effort)
    key, best = max(again.items(), key=lambda each: each[1].log_weight)
    target = free_noise_target(data, best.form)
    target, estimate, check = checked(target, best.target, best.estimate, call, effort, _MOST_ROUNDS)
    best = again[key] = replace(best, target=target, estimate=estimate)
    averaged = sorted((again.get(id(each), each) for each in pairs), key=lambda each: -each.log_weight)
    answer = verdict("smc", best.estimate, check, call, advice=TAKE_OR_RAISE)
    constant = best.target.likelihood.log_constant
    draws = _pooled(averaged, np.random.default_rng([seed, 27]))
    inference = SignalNoiseInference(
        draws,
        constant + answer.log_evidence,
        answer.log_evidence_error,
        answer.diagnostics.shifted(constant),
    )
    prior = ScalePrior(best.signal or (), data.outputs)
    spectrum = replace(data.spectrum, outside=data.outside)
    return FreeNoisePosterior(prior, spectrum, inference), averaged


def posterior_without_signal(data: EvidenceData, pairs: Sequence[FreeNoise]) -> FreeNoisePosterior | None:
    """The posterior of the best pair without signal; None where no such pair was tried."""
    for pair in pairs:
        if pair.signal is None:
            draws = _pooled([pair], np.random.default_rng(27))
            effective = Diagnostics("smc", pair.estimate.effective_sample_size)
            error = pair.estimate.log_evidence_error
            inference = SignalNoiseInference(draws, pair.log_evidence, error, effective)
            spectrum = replace(data.spectrum, outside=data.outside)
            return FreeNoisePosterior(ScalePrior((), data.outputs), spectrum, inference)
    return None


def _again(pair: FreeNoise, call: Call, effort: Effort) -> FreeNoise:
    """The same pair with the effort of a final answer."""
    start, method = final_start(pair.target, pair.mode)
    estimate = rounds(pair.target, start, call, effort, f"signal and noise {pair.form}, final", _MOST_ROUNDS)
    checked_integrand(pair.target, estimate)
    return replace(pair, estimate=replace(estimate, method=method))


def _pooled(pairs: Sequence[FreeNoise], rng: np.random.Generator) -> Draws:
    """Draws of all pairs, each with the share of its weight."""
    shares = special.softmax([each.log_weight for each in pairs])
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
    return Draws(
        np.concatenate([part.basis for part in parts]),
        np.concatenate([part.ratios for part in parts]),
        np.concatenate([part.weights for part in parts]) / total,
        np.concatenate([part.groups for part in parts]),
    )


def _systematic(weights: Array, count: int, rng: np.random.Generator) -> Array:
    """Indices (count,) of draws in proportion to their weights (m,)."""
    bounds = np.cumsum(weights) / weights.sum()
    return np.minimum(np.searchsorted(bounds, (np.arange(count) + rng.random()) / count), len(bounds) - 1)
