"""From the estimator's settings to fitted models: what is searched, and the final posteriors."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy import special
from threadpoolctl import threadpool_limits

from lbnn.estimator import design, settings
from lbnn.estimator.input_search import InputCandidate
from lbnn.estimator.model import FittedModel, fit_model, table_row
from lbnn.estimator.targets import TargetUnits
from lbnn.selection import Candidate, EvidenceData, NoiseSpec, Shapes, no_signal, search

_SMALLEST_WEIGHT = 0.01  # of a model that takes part in an average


def settle(
    spec: NoiseSpec, noise: str, data: EvidenceData, shapes: Shapes, units: TargetUnits
) -> tuple[list[NoiseSpec], Shapes, list[str]]:
    """What is searched; what the data cannot tell is settled by convention, and said."""
    settings.require_examples(data, spec)
    constant, messages = settings.constant_outputs(data), []
    if spec.noise_variance is None and len(constant) == data.outputs:
        messages.append(settings.CONSTANT_TARGETS)
    elif spec.noise_variance is None and constant and noise == "per_output":
        messages.append(f"outputs {constant} are constant: their noise is at the lower end of its range")
    if units.dependent:
        messages.append(settings.dependent_targets(units.dependent))
    if not data.spectrum.rank:
        messages.append(settings.CONSTANT_INPUTS)
        spec = NoiseSpec(spec.noise_variance, spec.prior_scale or 1.0)
        shapes = Shapes(fixed=((),)) if shapes.fixed is None else shapes
    specs = settings.noise_specs(noise, spec, data, shapes, bool(units.dependent))
    return specs, shapes, messages


def fit_networks(
    settled: tuple[list[NoiseSpec], Shapes, list[str]],
    data: EvidenceData,
    units: TargetUnits,
    level: bool,
    *,
    average: Any,
    verbose: Any,
    **effort: Any,
) -> tuple[list[Candidate], tuple[FittedModel, ...], list[str], list[str]]:
    """Candidates, best first, and the final posteriors; what the data show, and doubts of the accuracy.

    `average` as in the estimator.
    """
    specs, shapes, notices = settled
    doubts: list[str] = []
    weights = data.spectrum.weights
    total = data.spectrum.examples + 1 if weights is None else float(weights.sum())
    level_examples = total if level else None
    report = reporter(data, units, verbose)
    with threadpool_limits(limits=1, user_api="blas"):  # small matrices: threads would only wait
        candidates = search(data, specs, shapes, seed=effort["seed"], report=report)
        number = counted(candidates) if average and average != "auto" else 1
        models = final_models(data, candidates[:number], units, level_examples, **effort)
        constant = settings.CONSTANT_TARGETS in notices  # the noise is a convention
        if average == "auto" and not constant and design.matters(candidates[0], data):
            models, doubts = design.integrated_models(
                data, candidates, models[0], units, level_examples, **effort
            )
    if candidates[0].on_edge and not constant:
        notices = [*notices, settings.at_edge_message(candidates[0], data, len(models) > 1)]
    return candidates, models, notices, doubts


def lead_over_no_signal(best: Candidate, data: EvidenceData, specs: Sequence[NoiseSpec]) -> float:
    """Nats by which the evidence prefers a candidate to the same targets without signal.

    NaN where noise or prior scale are given: the share of the signal is then not the evidence's choice; and
    where rows have weights, so that their left-out errors are not alike.
    """
    if data.spectrum.weights is not None or any(spec.noise_variance is not None for spec in specs):
        return math.nan
    without = [each.penalised_evidence for spec in specs if (each := no_signal(data, spec)) is not None]
    return best.penalised_evidence - max(without) if without else math.nan


def counted(candidates: Sequence[Candidate]) -> int:
    """How many candidates, best first, count in an average."""
    penalised_evidence = special.softmax(np.array([candidate.penalised_evidence for candidate in candidates]))
    return int(np.count_nonzero(penalised_evidence >= _SMALLEST_WEIGHT))


def final_models(
    data: EvidenceData,
    candidates: Sequence[Candidate],
    units: TargetUnits,
    level_examples: float | None,
    **effort: Any,
) -> tuple[FittedModel, ...]:
    """Final posteriors of the candidates, best first."""
    models = [fit_model(data, candidate, units, level_examples, **effort) for candidate in candidates]
    return tuple(sorted(models, key=lambda model: model.penalty - model.log_evidence))


def evidence_table(
    candidates: Sequence[Candidate],
    chosen: InputCandidate,
    others: Sequence[InputCandidate],
    units: TargetUnits,
) -> list[dict[str, Any]]:
    """Every candidate, best first; of other ways to see the inputs the Gaussian process."""
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
