"""From prepared data to fitted models: what is searched, and the final posteriors."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import special

from lbnn._base.notices import Notice
from lbnn._base.progress import Progress
from lbnn._base.types import Array
from lbnn._base.warn import collected
from lbnn.engines import InferenceOptions
from lbnn.estimator import averaging, cells, settings
from lbnn.estimator.fitted import FittedModel, FreeNoiseModel
from lbnn.estimator.inputs import InputCandidate
from lbnn.estimator.kernels import Kernel
from lbnn.estimator.notices import notice
from lbnn.estimator.prepare import Prepared
from lbnn.estimator.shares import Law, ShareSearch, drawn_laws, means_and_intervals, mixed
from lbnn.estimator.units import TargetUnits
from lbnn.free_noise.posterior import FreeNoisePosterior
from lbnn.posterior import Posterior
from lbnn.selection import (
    EvidenceData,
    NoiseSpec,
    Shapes,
    Trial,
    condition,
    coupled,
    no_signal,
    search,
    without_noise,
)
from lbnn.selection.free_noise import (
    FreeNoise,
    FreeNoiseSearch,
    candidate_of,
    final_posterior,
    posterior_without_signal,
)

_LONG = 60.0  # seconds from which a search is announced: ...
#: ... so many times those up to the first evidence of a finite network: fits of 100 and 200 outputs took 27
#: and 33 times as long. With more the final posterior may need sequential Monte Carlo: 400 took 95 times.
_TIMES_THE_FIRST, _TIMES_WITH_MORE, _MORE_OUTPUTS = 30, 100, 200
_SMALLEST_WEIGHT = 0.01  # of a model that takes part in an average
#: Rows, outputs and targets up to which a covariance of the noise is tried by itself: 8 s at 50 × 10,
#: 17 s at 120 × 35.
_MOST_ROWS, _MOST_OUTPUTS, _MOST_TARGETS = 400, 100, 5000
_FEWEST_ROWS = 10
#: Standard deviations of Schott's statistic from which left-out residuals may be correlated: it is exceeded
#: by 7% of uncorrelated ones, which costs time only.
_CORRELATED = 1.5
#: Nats by which one kind of noise must lead for the other to be left out of the average.
_CLEAR_LEAD = 4.6  # a weight of 0.01
#: Nats by which the evidence of a comparison of widths may be too low: up to 2 were seen.
_SCREENING_BIAS = 2.0


@dataclass(frozen=True)
class Candidate:
    """One network with one kind of noise and the hyperparameters that its evidence prefers.

    Attributes
    ----------
    widths : tuple of int
        Hidden widths; () is infinite width, the Gaussian process.
    noise : str
        Kind of the noise.
    kernel : Kernel
        With its parameters.
    columns : str
        Units of the columns: "raw", "standardised" or "own".
    beta, prior_scale : float
    log_evidence, log_evidence_error : float
        In the user's units, with its Monte Carlo standard error.
    penalty : float
        Of the log evidence, for hyperparameters that were fitted.
    at_edge : bool
        Whether the search ended at the edge of its ranges.
    signal : bool
        False for a level and noise alone.
    noise_width : int or None
        Number of noise factors with noise="free".
    same_factors : bool
        Whether the signal passes through these factors, too.
    weight : float
        Its share of the predictions.
    posterior : Posterior or None
        In whitened units, where it was computed.
    """

    widths: tuple[int, ...]
    noise: str
    kernel: Kernel
    columns: str
    beta: float
    prior_scale: float
    log_evidence: float
    log_evidence_error: float
    penalty: float
    at_edge: bool = False
    signal: bool = True
    noise_width: int | None = None
    same_factors: bool = False
    weight: float = 0.0
    posterior: Any = None

    @property
    def score(self) -> float:
        """What candidates are ranked by: the log evidence less its penalty and two errors."""
        if self.log_evidence_error >= 1:
            return -math.inf
        error = self.log_evidence_error
        return self.log_evidence - self.penalty - 2 * error / (1 - error**2)

    @classmethod
    def of(cls, trial: Trial, inputs: InputCandidate, units: TargetUnits) -> Candidate:
        """Of a trial of the search, in the user's units."""
        data, log_unit = inputs.data, float(trial.h[:-1].mean()) + 2 * units.log_unit
        return cls(
            trial.widths,
            trial.noise,
            inputs.transform.kernel,
            inputs.transform.columns.name,
            math.exp(-log_unit) if data.noise_variance else math.inf,
            math.exp(float(trial.h[-1]) + log_unit),
            trial.log_evidence - data.spectrum.examples * data.outputs * units.log_unit,
            trial.error,
            trial.penalty + inputs.penalty,
            trial.on_edge,
            trial.signal,
            trial.noise_width,
            trial.same_factors,
        )


# ---------------------------------------------------------------------- search


@dataclass(frozen=True)
class Searched:
    """What was tried.

    Attributes
    ----------
    trials : list of Trial
        Networks whose noise follows from hyperparameters, best first.
    forms : list of FreeNoise
        Forms of noise with a covariance of its own, best first.
    specs : list of NoiseSpec
        Kinds of noise, with what is given of them.
    notices : list of Notice
        What the data do not determine.
    """

    trials: list[Trial]
    forms: list[FreeNoise]
    specs: list[NoiseSpec]
    notices: list[Notice]


def search_networks(model: Any, found: Prepared) -> Searched:
    """Every network and kind of noise that is allowed, best first."""
    data, table, seed = found.data, found.table, found.setting.seed
    shapes = settings.network_shapes(model.depth, model.width)
    given = settings.given(model, found.units)
    specs, shapes, notices = settings.settled(model.noise, given, data, shapes, found.units.dependent)
    progress = Forecast(data.outputs)
    if model.noise == "free" and data.outputs > 1:
        return Searched([], _forms(data, shapes, seed), specs, notices)
    trials = search(data, specs, shapes, seed=seed, evaluated=progress)
    progress.close()
    forms: list[FreeNoise] = []
    if not table.complete:
        trials = cells.with_posterior(found, trials)
    elif (
        table.in_memory
        and _may_be_free(model.noise, data, shapes, specs)
        and not without_noise(trials[0], data).any()  # whose residuals have no covariance
        and residuals_correlate(fitted_model(found, trials[0], options_of(model, rough=True)), table.targets)
    ):
        forms = _forms(data, shapes, seed)
    return Searched(trials, forms, specs, notices)


def _may_be_free(kind: str, data: EvidenceData, shapes: Shapes, specs: Sequence[NoiseSpec]) -> bool:
    """Whether noise with a covariance of its own is a candidate where the evidence chooses the kind."""
    rows, outputs = data.spectrum.examples, data.outputs
    given = any(spec.noise_variance is not None or spec.prior_scale is not None for spec in specs)
    sized = _FEWEST_ROWS <= rows <= _MOST_ROWS and 2 <= outputs <= _MOST_OUTPUTS
    sized = sized and rows * outputs <= _MOST_TARGETS
    searched = kind == "auto" and not given and shapes == Shapes() and data.spectrum.weights is None
    return sized and searched and data.noise_variance > 0 and data.spectrum.rank > 0


def residuals_correlate(model: FittedModel, targets: Array) -> bool:
    """Whether left-out residuals are correlated across outputs, by Schott's test (2005), at any p and n_d.

    Σ_{i<j} r_ij² less its mean n_d (n_d − 1)/(2f) has the variance n_d (n_d − 1)(f − 1)/(f² (f + 2)), with f
    degrees of freedom, here p − 1.
    """
    with collected():
        residual = np.reshape(model.leave_one_out(targets).residual, targets.shape)
    centred = residual - residual.mean(axis=0)
    lengths = np.linalg.norm(centred, axis=0)
    white = centred[:, lengths > 0] / lengths[lengths > 0]
    outputs, degrees = white.shape[1], len(white) - 1
    squares = 0.5 * (float(((white.T @ white) ** 2).sum()) - outputs)
    mean = outputs * (outputs - 1) / (2 * degrees)
    deviation = math.sqrt(outputs * (outputs - 1) * (degrees - 1) / (degrees**2 * (degrees + 2)))
    return bool(outputs > 1 and squares - mean > _CORRELATED * deviation)


def _forms(data: EvidenceData, shapes: Shapes, seed: int) -> list[FreeNoise]:
    """Pairs of widths of signal and noise, best first; widths of the signal that are given are kept."""
    signals: Sequence[tuple[int, ...] | None] | None = shapes.fixed
    if signals is None and shapes.depth is not None:
        layers = shapes.depth - 1
        signals = [(width,) * layers for width in (3, data.outputs)] if layers else [()]
    return FreeNoiseSearch(data, seed).run(signals)


# ---------------------------------------------------------------------- final posteriors


@dataclass(frozen=True)
class Fits:
    """Final posteriors.

    Attributes
    ----------
    trials : list of Trial
        Best first.
    models : tuple of FittedModel
        Those that predictions average, best first.
    without_signal : FreeNoiseModel or None
        Noise alone, with a covariance of its own, where that was tried.
    notices : list of Notice
        On the accuracy.
    signal_share : (n_d, 3)
        Share of the signal of each output: posterior mean, and the ends of its interval.
    """

    trials: list[Trial]
    models: tuple[FittedModel, ...]
    without_signal: FreeNoiseModel | None
    notices: list[Notice]
    signal_share: Array


def average(model: Any, found: Prepared, searched: Searched) -> Fits:
    """Final posteriors given the observed targets, with weights."""
    trials, forms, options = searched.trials, searched.forms, options_of(model)
    lead = trials[0].score - forms[0].log_weight if trials and forms else math.inf if trials else -math.inf
    models: tuple[FittedModel, ...] = ()
    laws: list[Law] = []
    doubts: list[Notice] = []
    if lead > -_CLEAR_LEAD:
        constant = any(each.code == "constant_targets" for each in searched.notices)  # noise by convention
        wanted = model.average if model.average != "auto" or not constant else False
        trials, models, doubts, laws = _averaged(found, trials, searched.specs[0], wanted, options)
    if lead < _CLEAR_LEAD + _SCREENING_BIAS:
        free, forms = _fitted_free(found, forms, options)
        models = _with_free(models, trials, free, found, bool(model.average))
        laws = _laws_with_free(laws, models, free)
        doubts = _of_counted(models, free, doubts)
    trials = sorted([*trials, *(candidate_of(found.data, each) for each in forms)], key=lambda t: -t.score)
    none = posterior_without_signal(found.data, searched.forms)
    without = None if none is None else _free_model(found, none, none.log_evidence, 0.0)
    return Fits(trials, models, without, doubts, means_and_intervals(laws))


def options_of(model: Any, *, rough: bool = False) -> InferenceOptions:
    """How the final posteriors are computed."""
    return InferenceOptions(model.target_error, settings.as_seed(model.random_state), "auto", rough)


def fitted_model(found: Prepared, trial: Trial, options: InferenceOptions) -> FittedModel:
    """Condition one trial on the observed targets."""
    units, data, table = found.units, found.data, found.table
    if table.complete:
        seen = coupled(data) if trial.coupled else data
        posterior = condition(seen, trial.widths, trial.h, options)
        own = posterior.log_evidence + data.log_jacobian(trial.h) + found.log_unit_jacobian
    else:
        posterior = cells.condition_table(found, trial, options)
        own = cells.log_evidence(found, trial, posterior)
    return FittedModel(
        posterior,
        units.matrix * np.exp(trial.h[:-1] / 2),
        units.mean,
        table.level_examples if table.complete else None,
        math.exp(trial.h[-1]),
        own,
        units.single_output,
        trial.penalty,
        own - trial.penalty,
        trial.noise,
        trial.signal,
    )


def _averaged(
    found: Prepared, trials: list[Trial], given: NoiseSpec, average: Any, options: InferenceOptions
) -> tuple[list[Trial], tuple[FittedModel, ...], list[Notice], list[Law]]:
    """Final posteriors of networks whose noise follows from hyperparameters, what to say, and the shares."""
    complete, share = found.table.complete, float(found.table.observed.mean())
    if complete:
        fitted = [fitted_model(found, each, options) for each in trials[: _counted(trials, average)]]
    else:  # trials are those of a completed table: the observed targets have evidence of their own
        moved = [cells.improved(found, each, options.seed) for each in cells.followed(trials)]
        made = [fitted_model(found, each, options) for each in moved]
        told = [cells.judged(found, *each) for each in zip(moved, made, strict=True)]
        order = sorted(range(len(told)), key=lambda k: -told[k].score)
        trials = [told[k] for k in order]
        fitted = [made[k] for k in order][: _counted(trials, average)]
    rough = replace(options, target_error=max(averaging.COARSE, options.target_error), rough=True)

    def coarse(trial: Trial) -> FittedModel:
        return fitted_model(found, trial, rough)

    wide = trials if complete else [replace(each, curvature=share * each.curvature) for each in trials]
    several = averaging.contenders(wide) if average == "auto" else wide[: len(fitted)]
    laws = ShareSearch(found.data, given, coarse, share).laws(several, fitted[0])
    doubts = [
        notice("not_ok", message=each)
        for each in dict.fromkeys(m for own in fitted for m in own.posterior.diagnostics.messages)
    ]
    models = tuple(sorted(fitted, key=lambda own: own.penalty - own.log_evidence))
    if average == "auto" and averaging.matters(trials[0], found.data):
        around = wide if complete else cells.best_of_kinds(wide)
        models = averaging.models_around(found.data, around, models[0], coarse, options.seed)
        doubts += averaging.doubts(models[1:]) if complete else []
    return trials, models, doubts, laws


def _counted(trials: Sequence[Trial], average: Any) -> int:
    """How many trials, best first, count in an average."""
    if average is not True:
        return 1
    weights = special.softmax(np.array([trial.score for trial in trials]))
    return int(np.count_nonzero(weights >= _SMALLEST_WEIGHT))


# ---------------------------------------------------------------------- noise with a covariance of its own


def _fitted_free(
    found: Prepared, forms: Sequence[FreeNoise], options: InferenceOptions
) -> tuple[FreeNoiseModel, list[FreeNoise]]:
    """The average over forms as one model, and the forms with their final evidence."""
    posterior, averaged = final_posterior(
        found.data, forms, target_error=options.target_error, seed=options.seed
    )
    return _free_model(found, posterior, posterior.log_evidence, averaged[0].log_prior_odds), averaged


def _free_model(
    found: Prepared, posterior: FreeNoisePosterior, log_evidence: float, log_prior_odds: float
) -> FreeNoiseModel:
    units, own = found.units, log_evidence + found.log_unit_jacobian
    both: Any = posterior
    model: Posterior = both
    level, single = found.table.level_examples, units.single_output
    weight = own + log_prior_odds
    return FreeNoiseModel(
        model, units.matrix, units.mean, level, 1.0, own, single, -log_prior_odds, weight, "free"
    )


def _with_free(
    models: tuple[FittedModel, ...],
    trials: Sequence[Trial],
    free: FreeNoiseModel,
    found: Prepared,
    average: bool,
) -> tuple[FittedModel, ...]:
    """The other models together have the weight of the best trial; best first."""
    if not models:
        return (free,)
    own = trials[0].score + found.log_unit_jacobian
    if not average:
        return (free,) if free.log_weight > own else models
    shift = own - float(special.logsumexp([model.log_weight for model in models]))
    others = tuple(replace(model, log_weight=model.log_weight + shift) for model in models)
    return (free, *others) if free.log_weight > own else (*others, free)


def _share_of_free(models: Sequence[FittedModel], free: FreeNoiseModel) -> float:
    weights = special.softmax([each.log_weight for each in models])
    return float(sum(weight for each, weight in zip(models, weights, strict=True) if each is free))


def _laws_with_free(laws: list[Law], models: Sequence[FittedModel], free: FreeNoiseModel) -> list[Law]:
    """Shares of the signal, averaged with those of free noise by its weight among the models."""
    if not any(each is not free for each in models):
        return drawn_laws(free)
    own = _share_of_free(models, free)
    return mixed([laws, drawn_laws(free)], np.array([1 - own, own]))


def _of_counted(models: tuple[FittedModel, ...], free: FreeNoiseModel, doubts: list[Notice]) -> list[Notice]:
    """Notices on the accuracy of free noise, and of the others, where each has a share of the average.

    One per cent of the weight changes no prediction by more than a tenth of its standard deviation.
    """
    share = _share_of_free(models, free)
    kept = doubts if share < 0.99 else []
    told = free.free.diagnostics.messages if share > 0.01 else ()
    return [*kept, *(notice("not_ok", message=each) for each in told)]


# ---------------------------------------------------------------------- what is said of a fit


def lead_over_no_signal(trials: Sequence[Trial], found: Prepared, specs: Sequence[NoiseSpec]) -> float:
    """Nats by which the evidence prefers a trial to the same targets without signal, with any noise.

    NaN where noise or prior scale are given: the share of the signal is then not the evidence's choice; where
    rows have weights, so that their left-out errors are not alike; and where targets are missing.
    """
    best, data = trials[0], found.data
    if not found.table.complete:
        return math.nan
    without = [each.score for each in trials if not each.signal]
    if best.noise != "free":
        if data.spectrum.weights is not None or any(spec.noise_variance is not None for spec in specs):
            return math.nan
        others = (no_signal(data, spec) for spec in specs)
        without += [each.score for each in others if each is not None]
    return best.score - max(without) if without else math.nan


def candidates_of(found: Prepared, fits: Fits) -> list[Candidate]:
    """Every candidate, the best model's first; of other transforms of the inputs the Gaussian process."""
    models, weights = fits.models, special.softmax(np.array([model.log_weight for model in fits.models]))
    forms = [trial for trial in fits.trials if trial.noise == "free"]
    odds = np.array([form.log_evidence - form.penalty for form in forms])
    shares = np.exp(odds - special.logsumexp(odds)) if forms else odds
    result = []
    for trial in fits.trials:
        own = [k for k, model in enumerate(models) if model.key == (trial.widths, trial.noise, trial.signal)]
        share, maxima = 1.0, [k for k in own if models[k].at_maximum]
        if trial.noise == "free":  # all forms are one model
            own = [k for k, model in enumerate(models) if model.noise == "free"]
            share, maxima = float(shares[forms.index(trial)]), own if trial is forms[0] else []
        posterior = models[maxima[0]].posterior if maxima else None
        weight = share * float(weights[own].sum())
        result.append(
            replace(Candidate.of(trial, found.chosen, found.units), weight=weight, posterior=posterior)
        )
    result += [Candidate.of(each.process, each, found.units) for each in found.others]
    best = models[0].posterior
    return sorted(result, key=lambda each: (each.posterior is not best, -each.score))


class Forecast:
    """Shows how far a search is, and announces a long one once, with what it will take and what is faster."""

    def __init__(self, outputs: int) -> None:
        self.outputs = outputs
        self.progress, self.tried, self.seconds = Progress(), 0, 0.0

    def __call__(self) -> None:
        """The evidence of a finite network was computed: the first one says how long the fit will take."""
        self.tried += 1
        if not self.seconds:
            times = _TIMES_WITH_MORE if self.outputs > _MORE_OUTPUTS else _TIMES_THE_FIRST
            self.seconds = times * self._elapsed
            if self.seconds > _LONG:
                notice("long_search", outputs=self.outputs, seconds=self.seconds).warn(at_once=True)
        left = f", about {max(self.seconds - self._elapsed, 1):.0f} s left"
        self.progress.say(f"{self.tried} networks compared{left}")

    @property
    def _elapsed(self) -> float:
        return time.monotonic() - self.progress.start

    def close(self) -> None:
        """Remove the progress line."""
        self.progress.close()
