"""Fits of tables with missing targets: hyperparameters by the evidence of the observed cells.

Candidates are searched on a completed table, one that is drawn given the observed cells. Then each of the
best moves to the maximum of the evidence of the observed cells alone. Its gradient is that of the evidence of
the complete table, averaged over draws of the scale and of the missing cells (Fisher's identity), and the
curvature of the complete table turns it into a step (expectation maximisation by gradients). The final
posterior, its evidence and its predictions are those of the observed cells; no filled-in number enters them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import stats

from lbnn._base.types import Array, Mask
from lbnn._base.warn import warn_of
from lbnn.data.missing import MissingCells
from lbnn.engines import InferenceOptions
from lbnn.estimator import design, fitting
from lbnn.estimator.model import FittedModel, log_unit_jacobian
from lbnn.estimator.shares import ShareSearch, means_and_intervals
from lbnn.estimator.targets import TargetUnits
from lbnn.network import Network, table_posterior
from lbnn.noise.missing import with_targets
from lbnn.noise.noise import Noise
from lbnn.posterior import Posterior
from lbnn.selection import Candidate, EvidenceData, NoiseSpec, coupled

_FEWEST_PAIRS, _LEVEL = 6, 0.01  # rows with both targets, and level of the test for correlated residuals
_STEPS = 2  # of each of the best candidates towards the maximum for the observed cells
_LONGEST = 1.0  # step along a free hyperparameter, a factor of e
_TABLES = 48  # completed tables that a gradient is averaged over
_COARSE = 0.3  # target error of the posteriors on the way
_RIVAL_KIND = (
    8.0  # nats behind the best on the completed table within which other kinds of noise are followed up
)
_RIVAL, _MOST_RIVALS = 4.0, 1  # the same for other networks, and how many of them


@dataclass(frozen=True)
class Table:
    """Which targets of a fit were observed.

    Attributes
    ----------
    observed : (p, n_d) of bool
    weights : (p,)
        Of rows; ones without weights.
    centred : bool
        Whether there is a level.
    """

    observed: Mask
    weights: Array
    centred: bool

    @classmethod
    def of(cls, observed: Mask, weights: Array | None, centred: bool) -> Table:
        """With weights of rows that may not be given."""
        return cls(observed, np.ones(len(observed)) if weights is None else weights, centred)

    def filled(self, targets: Array) -> Array:
        """Targets (p, n_d) with the mean of the observed ones in the place of missing ones."""
        shares = self.weights[:, None] * self.observed
        means = (shares * np.where(self.observed, targets, 0.0)).sum(axis=0) / shares.sum(axis=0)
        return np.where(self.observed, targets, means)

    def cells(self, inner: Array, h: Array) -> MissingCells:
        """Of whitened data, from the filled targets of the search, (p, n_d)."""
        targets = np.sqrt(self.weights)[:, None] * inner / np.exp(h[:-1] / 2)
        return MissingCells(self.observed, targets, self.weights, self.centred)

    @property
    def counted(self) -> Array:
        """Observed targets of each output, less one for its level, (n_d,)."""
        return self.observed.sum(axis=0) - float(self.centred)


@dataclass(frozen=True)
class FilledData:
    """A filled table after its eigendecomposition: the data of the search, and its targets."""

    data: EvidenceData
    inner: Array  # targets of the search, (p, n_d)
    table: Table
    units: TargetUnits


def condition_table(filled: FilledData, candidate: Candidate, options: InferenceOptions) -> Posterior:
    """The posterior of a candidate given the observed cells, in whitened units, without warnings."""
    widths, h, data = candidate.widths, candidate.h, filled.data
    network = Network(widths, (math.exp(h[-1]), *(1.0,) * len(widths)))
    spectrum = data.whitened(h).scaled(network.prior_variances[0])
    cells, prior = filled.table.cells(filled.inner, h), network.scale_prior(spectrum.outputs)
    noise = coupled(data).noise_at(h) if candidate.coupled else Noise.independent(1.0)
    return table_posterior(prior, spectrum, noise, cells, options)


def with_posterior(filled: FilledData, candidates: Sequence[Candidate]) -> list[Candidate]:
    """The candidates whose posterior given the observed cells exists; an error if none does.

    The completed table does not show it: observed targets that are dependent need not be so there.
    """
    known, told = [], None
    for each in candidates:
        network, cells = Network(each.widths), filled.table.cells(filled.inner, each.h)
        try:
            if each.coupled:
                noise = coupled(filled.data).noise_at(each.h)
                noise.require_table(network.scale_prior(filled.data.outputs), cells)
            known.append(each)
        except ValueError as error:
            told = error
    if not known:
        assert told is not None
        raise told
    return known


def drawn_tables(posterior: Posterior, count: int, seed: Sequence[int]) -> list[tuple[Array, Array]]:
    """Draws of the scale (n_d, n_d) and completed tables (p, n_d) given it, in units of the posterior."""
    cells, rng = posterior.missing, np.random.default_rng(seed)
    assert cells is not None
    likelihood = posterior._table_likelihood
    chosen = rng.choice(len(posterior.scale.weights), size=count, p=posterior.scale.weights)
    scales = posterior.scale.scales[chosen]
    values, axes = np.linalg.eigh(scales)
    tables = np.broadcast_to(cells.targets, (count, *cells.targets.shape)).copy()
    rows, outputs = cells.cells
    for block, gone in likelihood.eliminations(np.maximum(values, 0.0), axes):
        tables[block, rows, outputs] += gone.drawn(rng.standard_normal(gone.white.shape))
    return list(zip(scales, tables, strict=True))


def improved(filled: FilledData, candidate: Candidate, seed: int) -> Candidate:
    """The candidate nearer to the maximum of the evidence of the observed cells."""
    for step in range(_STEPS if candidate.curvature.size and not candidate.on_edge else 0):
        rough = InferenceOptions(_COARSE, seed, "auto", rough=True)
        posterior = condition_table(filled, candidate, rough)
        slope = np.zeros(len(candidate.h))
        tables = drawn_tables(posterior, _TABLES, [seed, 28, step])
        for scale, targets in tables:
            slope += _slope(filled.data, candidate.h, scale, targets, posterior) / len(tables)
        along = np.linalg.solve(candidate.curvature, candidate.directions.T @ slope)
        along *= min(1.0, _LONGEST / max(float(np.abs(along).max(initial=0.0)), 1e-12))
        candidate = replace(candidate, h=candidate.h + candidate.directions @ along)
    return candidate


def _slope(data: EvidenceData, h: Array, scale: Array, targets: Array, posterior: Posterior) -> Array:
    """∂f/∂h of one completed table, whitened, at one scale, (n_d + 1,)."""
    assert posterior.missing is not None
    plain = targets * np.exp(h[:-1] / 2)
    spectrum, _ = with_targets(data.spectrum, replace(posterior.missing, targets=plain), plain)
    assert spectrum.outside is not None
    values, axes = np.linalg.eigh(scale)
    complete = EvidenceData(spectrum, spectrum.outside, data.noise_variance)
    if posterior.noise.coupling:
        complete = coupled(complete)
    return np.asarray(complete.slopes(h, (axes * np.sqrt(np.maximum(values, 0.0)))[None])[0])


def explained_by_rows(posterior: Posterior) -> Array:
    """What the other targets of their rows explain of the variance of missing ones, averaged, (n_d,).

    At the posterior mean of the scale; NaN for outputs without missing targets.
    """
    cells, measure = posterior.missing, posterior.scale
    assert cells is not None
    likelihood = posterior._table_likelihood
    shares = likelihood.explained_by_rows(measure.average(measure.scales))
    counts = np.bincount(likelihood.outputs, minlength=posterior.prior.outputs)
    sums = np.bincount(likelihood.outputs, shares, minlength=posterior.prior.outputs)
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)


def correlated_residuals(posterior: Posterior, kind: str) -> list[str]:
    """What to say where residuals of targets of the same rows are correlated, unlike their noise.

    Fisher's transform of every correlation of two outputs, over rows with both, at a level of 1% in all.
    """
    cells = posterior.missing
    assert cells is not None
    plain = cells.targets / np.sqrt(cells.weights)[:, None]
    residuals = np.where(cells.observed, plain - np.asarray(posterior.predict().mean), np.nan)
    found = []
    first, second = np.triu_indices(residuals.shape[1], 1)
    for j, k in zip(first, second, strict=True):
        both = cells.observed[:, j] & cells.observed[:, k]
        if both.sum() >= _FEWEST_PAIRS:
            r = float(np.corrcoef(residuals[both][:, [j, k]].T)[0, 1])
            found.append((abs(math.atanh(np.clip(r, -0.9999, 0.9999))) * math.sqrt(both.sum() - 3), r, j, k))
    if not found or max(found)[0] < stats.norm.isf(_LEVEL / 2 / len(found)):
        return []
    _, r, j, k = max(found)
    complete = int(cells.observed.all(axis=1).sum())
    return [
        f"residuals of targets of the same rows are correlated (largest: {r:.2f}, of outputs {j} and {k}), "
        f"but the noise of the best model is {kind}: joint densities are lower than they could be; compare "
        f"with noise='coupled', or with a fit of the {complete} complete rows, whose noise may have any "
        "covariance"
    ]


def completed_targets(filled: FilledData, candidate: Candidate, seed: int) -> Array:
    """The user's targets (p, n_d) with the missing ones drawn given the observed ones."""
    rough = InferenceOptions(_COARSE, seed, "auto", rough=True)
    posterior = condition_table(filled, candidate, rough)
    _, targets = drawn_tables(posterior, 1, [seed, 29])[0]
    plain = targets * np.exp(candidate.h[:-1] / 2) / np.sqrt(filled.table.weights)[:, None]
    return np.asarray(filled.units.mean + plain @ filled.units.matrix.T)


def final_tables(
    filled: FilledData, candidates: Sequence[Candidate], given: NoiseSpec, average: Any, **effort: Any
) -> tuple[list[Candidate], tuple[FittedModel, ...], Array]:
    """The best candidates by the evidence of the observed cells, best first, the models, and the shares.

    With `average` these are the candidates that count, or ("auto") models at several hyperparameters where
    the observed cells leave the noise of the best one open; else the best one.
    """
    options = InferenceOptions(effort["target_error"], effort["seed"], effort["engine"])
    fitted = [
        _fitted(filled, improved(filled, each, effort["seed"]), options) for each in _followed(candidates)
    ]
    fitted.sort(key=lambda pair: -pair[0].penalised_evidence)
    best, model = fitted[0]
    warn_of(model.posterior.diagnostics.messages)
    models: tuple[FittedModel, ...] = (model,)
    if average == "auto" and design.matters(best, filled.data):
        models = _integrated(filled, [candidate for candidate, _ in fitted], model, options)
    elif average and average != "auto":
        count = fitting.counted([candidate for candidate, _ in fitted])
        models = tuple(own for _, own in fitted[:count])
    found = [candidate for candidate, _ in fitted]
    return found, models, _shares(filled, found[: len(found) if average else 1], given, model, options)


def _shares(
    filled: FilledData,
    candidates: Sequence[Candidate],
    given: NoiseSpec,
    best: FittedModel,
    options: InferenceOptions,
) -> Array:
    """Of the signal, (n_d, 3): the curvature of a completed table counts as much as the observed cells."""
    share = float(filled.table.observed.mean())
    wide = [replace(each, curvature=share * each.curvature) for each in design.contenders(candidates)]
    coarse = replace(options, target_error=max(_COARSE, options.target_error), rough=True)

    def fitted(candidate: Candidate) -> FittedModel:
        return _fitted(filled, candidate, coarse)[1]

    return means_and_intervals(ShareSearch(filled.data, given, fitted, share).laws(wide, best))


def _followed(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Candidates of a completed table, best first, that may be best for the observed cells.

    The best of each kind of noise among them: the completed table was drawn under one kind, and favours it.
    """
    lead = candidates[0].penalised_evidence
    leaders = [each for each in best_of_kinds(candidates) if each.penalised_evidence > lead - _RIVAL_KIND]
    others = [each for each in candidates if each not in leaders and each.penalised_evidence > lead - _RIVAL]
    return [*leaders, *others[:_MOST_RIVALS]]


def best_of_kinds(candidates: Sequence[Candidate]) -> list[Candidate]:
    """The first candidate of each kind of noise, in their order."""
    kinds = dict.fromkeys(each.noise for each in candidates)
    return [next(each for each in candidates if each.noise == kind) for kind in kinds]


def _integrated(
    filled: FilledData, candidates: Sequence[Candidate], best: FittedModel, options: InferenceOptions
) -> tuple[FittedModel, ...]:
    """Models at hyperparameters around the best candidate of each kind of noise, the best model first.

    Few cells do not distinguish kinds of noise. The curvature is that of a completed table, times
    the share of its cells that were observed.
    """
    share = float(filled.table.observed.mean())
    wide = [replace(each, curvature=share * each.curvature) for each in best_of_kinds(candidates)]
    rough = replace(options, target_error=max(_COARSE, options.target_error), rough=True)

    def fitted(candidate: Candidate) -> FittedModel:
        return _fitted(filled, candidate, rough)[1]

    return design.models_around(filled.data, wide, best, fitted, options.seed)


def _fitted(
    filled: FilledData, candidate: Candidate, options: InferenceOptions
) -> tuple[Candidate, FittedModel]:
    """The candidate with its evidence, and its model; densities in the units of the search and the user's."""
    posterior, units = condition_table(filled, candidate, options), filled.units
    counted, error = filled.table.counted, posterior.log_evidence_error
    search = posterior.log_evidence - 0.5 * float(counted @ candidate.h[:-1])
    own = search - float(counted.sum()) * units.log_unit
    shown = own - log_unit_jacobian(filled.data, units)  # as the evidence table wants it
    judged = error if posterior.diagnostics.ok else max(error, 0.5)
    model = FittedModel(
        posterior,
        units.matrix * np.exp(candidate.h[:-1] / 2),
        units.mean,
        None,
        math.exp(candidate.h[-1]),
        own,
        units.single_output,
        candidate.penalty,
        own - candidate.penalty,
    )
    return replace(candidate, log_evidence=shown, error=judged), model
