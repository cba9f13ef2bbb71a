"""From the estimator's settings to fitted models: what is searched, and the final posteriors."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import special
from threadpoolctl import threadpool_limits

from lbnn._base.errors import DataWarning
from lbnn._base.progress import Progress
from lbnn._base.types import Array
from lbnn._base.warn import collected, warn
from lbnn.estimator import design, settings
from lbnn.estimator.free_noise import (
    CLEAR_LEAD,
    SCREENING_BIAS,
    FreeNoiseModel,
    fit_free,
    fit_without_signal,
    may_be_free,
    residuals_correlate,
    search_free,
)
from lbnn.estimator.input_search import InputCandidate
from lbnn.estimator.model import FittedModel, fit_model, log_unit_jacobian, table_row
from lbnn.estimator.shares import Law, ShareSearch, drawn_laws, means_and_intervals, mixed
from lbnn.estimator.targets import TargetUnits
from lbnn.selection import (
    Candidate,
    EvidenceData,
    NoiseSpec,
    Shapes,
    no_signal,
    search,
    without_noise,
)
from lbnn.selection.free_noise import FreeNoise, candidate_of, more_outputs_than_rows

_LONG = 60.0  # seconds from which a search is announced: ...
#: ... so many times those up to the first evidence of a finite network: fits of 100 and 200 outputs took 27
#: and 33 times as long. With more the final posterior may need sequential Monte Carlo: 400 took 95 times.
_TIMES_THE_FIRST, _TIMES_WITH_MORE, _MORE_OUTPUTS = 30, 100, 200
_NETWORKS = 12  # that are tried with many outputs
_SMALLEST_WEIGHT = 0.01  # of a model that takes part in an average


def settle(
    spec: NoiseSpec, noise: str, data: EvidenceData, shapes: Shapes, units: TargetUnits
) -> tuple[list[NoiseSpec], Shapes, list[str]]:
    """What is searched; what the data do not determine is set by convention, with a message."""
    settings.require_examples(data, spec)
    constant, messages = settings.constant_outputs(data), []
    if spec.noise_variance is None and len(constant) == data.outputs:
        messages.append(settings.CONSTANT_TARGETS)
    elif spec.noise_variance is None and constant and noise == "per_output":
        messages.append(f"outputs {constant} are constant: their noise is at the lower end of its range")
    elif spec.noise_variance is None and constant:
        messages.append(
            f"outputs {constant} are constant: under one noise variance for all outputs their predictions "
            "have the uncertainty of the others. Leave them out, or use noise='per_output'"
        )
    few = data.spectrum.examples < settings.FEWEST_TO_SHOW_SIGNAL
    if few and spec.noise_variance is None and len(constant) < data.outputs:
        messages.append(settings.few_rows(data.spectrum.examples))
    if units.dependent:
        messages.append(settings.dependent_targets(units.dependent))
    if noise == "free" and more_outputs_than_rows(data):
        messages.append(settings.few_rows_for_covariances(data.outputs, data.spectrum.examples))
    if not data.spectrum.rank:
        messages.append(settings.CONSTANT_INPUTS)
        spec = NoiseSpec(spec.noise_variance, spec.prior_scale or 1.0)
        shapes = Shapes(fixed=((),)) if shapes.fixed is None else shapes
    specs = settings.noise_specs(noise, spec, data, shapes, bool(units.dependent))
    return specs, shapes, messages


@dataclass(frozen=True)
class Fits:
    """What was found.

    Attributes
    ----------
    candidates : list of Candidate
        Best first.
    models : tuple of FittedModel
        The final posteriors.
    without_signal : FreeNoiseModel or None
        Noise alone, with a covariance of its own, where that was tried.
    notices : list of str
        What the data show.
    accuracy : list of str
        Messages about the accuracy.
    signal_share : (n_d, 3)
        Share of the signal of each output: posterior mean, and the ends of its interval.
    """

    candidates: list[Candidate]
    models: tuple[FittedModel, ...]
    without_signal: FreeNoiseModel | None
    notices: list[str]
    accuracy: list[str]
    signal_share: Array


def fit_networks(
    settled: tuple[list[NoiseSpec], Shapes, list[str]],
    data: EvidenceData,
    units: TargetUnits,
    level: bool,
    targets: Array,
    kind: str,
    *,
    average: Any,
    verbose: Any,
    **effort: Any,
) -> Fits:
    """Search, and the final posteriors.

    `targets` (p, n_d) are the user's, none where data came in blocks; `kind` of noise and `average` are those
    of the estimator.
    """
    specs, shapes, notices = settled
    doubts: list[str] = []
    weights = data.spectrum.weights
    total = data.spectrum.examples + 1 if weights is None else float(weights.sum())
    level_examples = total if level else None
    report = Forecast(data.outputs, reporter(data, units, verbose))
    with threadpool_limits(limits=1, user_api="blas"):  # small matrices: threads would only wait
        if kind == "free" and data.outputs > 1:
            found = search_free(data, shapes, effort["seed"], report)
            model, rows = fit_free(data, found, units, level_examples, **effort)
            none = fit_without_signal(data, found, units, level_examples)
            share = means_and_intervals(drawn_laws(model))
            return Fits(rows, (model,), none, notices, list(model.free.diagnostics.messages), share)
        candidates = search(
            data, specs, shapes, seed=effort["seed"], report=report, evaluated=report.evaluated
        )
        report.close()
        given = any(spec.noise_variance is not None or spec.prior_scale is not None for spec in specs)
        constant = settings.CONSTANT_TARGETS in notices  # the noise is a convention
        pairs: list[FreeNoise] = []
        noiseless = without_noise(candidates[0], data).any()  # whose residuals have no covariance
        if may_be_free(kind, data, shapes, given) and len(targets) and not noiseless:
            with collected():  # to see whether its residuals correlate, and for nothing else
                rough = fit_model(data, candidates[0], units, level_examples, **(effort | {"rough": True}))
            if residuals_correlate(rough, targets):
                pairs = search_free(data, shapes, effort["seed"], report)
        lead = candidates[0].penalised_evidence - pairs[0].log_weight if pairs else math.inf
        models: tuple[FittedModel, ...] = ()
        laws: list[Law] = []
        if lead > -CLEAR_LEAD:
            wanted = average if average != "auto" or not constant else False
            with collected() as doubts:
                models, said, laws = _averaged(
                    data, candidates, specs[0], units, level_examples, wanted, **effort
                )
            doubts += said
        if lead < CLEAR_LEAD + SCREENING_BIAS:
            free, rows = fit_free(data, pairs, units, level_examples, **effort)
            models = _with_free(models, candidates[0], free, data, units, bool(average))
            laws = _laws_with_free(laws, models, free)
            doubts = _of_counted(models, free, doubts)
            candidates = sorted([*candidates, *rows], key=lambda each: -each.penalised_evidence)
        elif pairs:
            rows = [candidate_of(data, pair) for pair in pairs]
            candidates = sorted([*candidates, *rows], key=lambda each: -each.penalised_evidence)
    notices = [*notices, *said_of_best(candidates[0], data, len(models) > 1, notices)]
    none = fit_without_signal(data, pairs, units, level_examples)
    return Fits(candidates, models, none, notices, doubts, means_and_intervals(laws))


def _averaged(
    data: EvidenceData,
    candidates: Sequence[Candidate],
    given: NoiseSpec,
    units: TargetUnits,
    level_examples: float | None,
    average: Any,
    **effort: Any,
) -> tuple[tuple[FittedModel, ...], list[str], list[Law]]:
    """Final posteriors of networks whose noise follows from hyperparameters, what to say, and the shares."""
    number = counted(candidates) if average and average != "auto" else 1
    fitted = [fit_model(data, each, units, level_examples, **effort) for each in candidates[:number]]
    models = tuple(sorted(fitted, key=lambda model: model.penalty - model.log_evidence))

    def coarse(candidate: Candidate) -> FittedModel:
        return fit_model(data, candidate, units, level_examples, **design.coarse(effort))

    several = design.contenders(candidates) if average == "auto" else candidates[:number]
    laws = ShareSearch(data, given, coarse).laws(several, fitted[0])
    if average == "auto" and design.matters(candidates[0], data):
        models = design.models_around(data, candidates, models[0], coarse, effort["seed"])
        return models, design.doubts(models[1:]), laws
    return models, [], laws


def _with_free(
    models: tuple[FittedModel, ...],
    best: Candidate,
    free: FreeNoiseModel,
    data: EvidenceData,
    units: TargetUnits,
    average: bool,
) -> tuple[FittedModel, ...]:
    """The other models together have the weight of the best candidate; best first."""
    if not models:
        return (free,)
    own = best.penalised_evidence + log_unit_jacobian(data, units)
    if not average:
        return (free,) if free.log_weight > own else models
    shift = own - float(special.logsumexp([model.log_weight for model in models]))
    others = tuple(replace(model, log_weight=model.log_weight + shift) for model in models)
    return (free, *others) if free.log_weight > own else (*others, free)


def _laws_with_free(laws: list[Law], models: Sequence[FittedModel], free: FreeNoiseModel) -> list[Law]:
    """Shares of the signal, averaged with those of free noise by its weight among the models."""
    if not any(each is not free for each in models):
        return drawn_laws(free)
    weights = special.softmax([each.log_weight for each in models])
    own = float(sum(weight for each, weight in zip(models, weights, strict=True) if each is free))
    return mixed([laws, drawn_laws(free)], np.array([1 - own, own]))


def _of_counted(models: tuple[FittedModel, ...], free: FreeNoiseModel, doubts: list[str]) -> list[str]:
    """Messages about the accuracy of free noise, and of the others, where each has a share of the average.

    One per cent of the weight changes no prediction by more than a tenth of its standard deviation.
    """
    weights = special.softmax([each.log_weight for each in models])
    share = float(sum(weight for each, weight in zip(models, weights, strict=True) if each is free))
    kept = doubts if share < 0.99 else []
    return [*kept, *(free.free.diagnostics.messages if share > 0.01 else ())]


def said_of_best(best: Candidate, data: EvidenceData, averaged: bool, notices: Sequence[str]) -> list[str]:
    """What is said of a best candidate without noise or signal, beside what is known of the data."""
    few = data.spectrum.examples < settings.FEWEST_TO_SHOW_SIGNAL
    if settings.CONSTANT_TARGETS in notices:
        return []
    if best.on_edge and settings.few_rows(data.spectrum.examples) not in notices:
        return [settings.at_edge_message(best, data, averaged)]
    return [] if best.signal or few else [settings.NO_SIGNAL]


def lead_over_no_signal(
    candidates: Sequence[Candidate], data: EvidenceData, specs: Sequence[NoiseSpec]
) -> float:
    """Nats by which the evidence prefers a candidate to the same targets without signal, with any noise.

    NaN where noise or prior scale are given: the share of the signal is then not the evidence's choice; and
    where rows have weights, so that their left-out errors are not alike.
    """
    best = candidates[0]
    without = [each.penalised_evidence for each in candidates if not each.signal]
    if best.noise != "free":
        if data.spectrum.weights is not None or any(spec.noise_variance is not None for spec in specs):
            return math.nan
        others = (no_signal(data, spec) for spec in specs)
        without += [each.penalised_evidence for each in others if each is not None]
    return best.penalised_evidence - max(without) if without else math.nan


def counted(candidates: Sequence[Candidate]) -> int:
    """How many candidates, best first, count in an average."""
    penalised_evidence = special.softmax(np.array([candidate.penalised_evidence for candidate in candidates]))
    return int(np.count_nonzero(penalised_evidence >= _SMALLEST_WEIGHT))


def evidence_table(
    candidates: Sequence[Candidate],
    chosen: InputCandidate,
    others: Sequence[InputCandidate],
    units: TargetUnits,
) -> list[dict[str, Any]]:
    """Every candidate, best first; of other transforms of the inputs the Gaussian process."""
    rows = [(each, chosen) for each in candidates] + [(each.process, each) for each in others]
    rows.sort(key=lambda row: row[1].penalty - row[0].penalised_evidence)
    return [
        {
            **table_row(each, of.data, units),
            "penalty": each.penalty + of.penalty,
            "inputs": of.transform.columns.name,
            "kernel_params": of.transform.kernel.parameters,
        }
        for each, of in rows
    ]


class Forecast:
    """Shows how far a search is, and announces a long one once, with what it will take and what is faster."""

    def __init__(self, outputs: int, report: Callable[[Candidate], None]) -> None:
        self.outputs, self.report = outputs, report
        self.progress, self.tried, self.seconds = Progress(), 0, 0.0

    def __call__(self, candidate: Candidate) -> None:
        """Report a candidate."""
        self.report(candidate)
        self.tried += bool(candidate.widths)
        self._show()

    def evaluated(self) -> None:
        """The evidence of a finite network was computed: the first one says how long the fit will take."""
        if not self.seconds:
            times = _TIMES_WITH_MORE if self.outputs > _MORE_OUTPUTS else _TIMES_THE_FIRST
            self.seconds = times * self._elapsed
            if self.seconds > _LONG:
                warn(settings.long_search(self.outputs, self.seconds), DataWarning, at_once=True)
        self._show()

    @property
    def _elapsed(self) -> float:
        return time.monotonic() - self.progress.start

    def _show(self) -> None:
        left = f", about {max(self.seconds - self._elapsed, 1):.0f} s left" if self.seconds else ""
        self.progress.say(f"{self.tried} of about {_NETWORKS} networks{left}")

    def close(self) -> None:
        """Remove the progress line."""
        self.progress.close()


def reporter(data: EvidenceData, units: TargetUnits, verbose: Any) -> Callable[[Candidate], None]:
    """A line for every candidate, if asked for."""

    def report(candidate: Candidate) -> None:
        if verbose:
            row = table_row(candidate, data, units)
            network = f"widths={row['widths'] or 'infinite'}" if candidate.signal else "no signal"
            print(
                f"[LBNNRegressor] {network}, {row['noise']} noise: "
                f"log evidence {row['log_evidence']:.2f} ± {row['error']:.2f}, beta {row['beta']:.3g}, "
                f"prior scale {row['prior_scale']:.3g}"
            )

    return report
