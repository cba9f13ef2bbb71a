"""Fits of tables with missing targets: hyperparameters by the evidence of the observed cells.

Networks are tried on a completed table, one that is drawn given the observed cells. Then each of the
best moves to the maximum of the evidence of the observed cells alone. Its gradient is that of the evidence of
the complete table, averaged over draws of the scale and of the missing cells (Fisher's identity), and the
curvature of the complete table turns it into a step (expectation maximisation by gradients). The final
posterior, its evidence and its predictions are those of the observed cells; no filled-in number enters them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from lbnn._base.types import Array
from lbnn.engines import InferenceOptions
from lbnn.estimator.fitted import FittedModel
from lbnn.estimator.prepare import Prepared
from lbnn.network import Network, table_posterior
from lbnn.noise.missing import with_targets
from lbnn.noise.noise import Noise
from lbnn.posterior import Posterior
from lbnn.selection import EvidenceData, Trial, coupled

_STEPS = 2  # of each of the best trials towards the maximum for the observed cells
_LONGEST = 1.0  # step along a free hyperparameter, a factor of e
_TABLES = 48  # completed tables that a gradient is averaged over
_COARSE = 0.3  # target error of the posteriors on the way
#: Nats behind the best on the completed table within which other kinds of noise are followed up, ...
_RIVAL_KIND = 8.0
_RIVAL, _MOST_RIVALS = 4.0, 1  # ... other networks, and how many of these


def condition_table(found: Prepared, trial: Trial, options: InferenceOptions) -> Posterior:
    """The posterior of a trial given the observed cells, in whitened units, without warnings."""
    widths, h, data = trial.widths, trial.h, found.data
    network = Network(widths, (math.exp(h[-1]), *(1.0,) * len(widths)))
    spectrum = data.whitened(h).scaled(network.prior_variances[0])
    cells, prior = found.table.cells(found.setting.targets, h), network.scale_prior(spectrum.outputs)
    noise = coupled(data).noise_at(h) if trial.coupled else Noise.independent(1.0)
    return table_posterior(prior, spectrum, noise, cells, options)


def with_posterior(found: Prepared, trials: Sequence[Trial]) -> list[Trial]:
    """The trials whose posterior given the observed cells exists; an error if none does.

    The completed table does not show it: observed targets that are dependent need not be so there.
    """
    known: list[Trial] = []
    told: ValueError | None = None
    for each in trials:
        network, cells = Network(each.widths), found.table.cells(found.setting.targets, each.h)
        try:
            if each.coupled:
                noise = coupled(found.data).noise_at(each.h)
                noise.require_table(network.scale_prior(found.data.outputs), cells)
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
    scales = posterior.scale.scales_of(chosen)
    values, axes = np.linalg.eigh(scales)
    tables = np.broadcast_to(cells.targets, (count, *cells.targets.shape)).copy()
    rows, outputs = cells.cells
    for block, gone in likelihood.eliminations(np.maximum(values, 0.0), axes):
        tables[block, rows, outputs] += gone.drawn(rng.standard_normal(gone.white.shape))
    return list(zip(scales, tables, strict=True))


def improved(found: Prepared, trial: Trial, seed: int) -> Trial:
    """The trial nearer to the maximum of the evidence of the observed cells."""
    for step in range(_STEPS if trial.curvature.size and not trial.on_edge else 0):
        rough = InferenceOptions(_COARSE, seed, "auto", rough=True)
        posterior = condition_table(found, trial, rough)
        slope = np.zeros(len(trial.h))
        tables = drawn_tables(posterior, _TABLES, [seed, 28, step])
        for scale, targets in tables:
            slope += _slope(found.data, trial.h, scale, targets, posterior) / len(tables)
        along = np.linalg.solve(trial.curvature, trial.directions.T @ slope)
        along *= min(1.0, _LONGEST / max(float(np.abs(along).max(initial=0.0)), 1e-12))
        trial = replace(trial, h=trial.h + trial.directions @ along)
    return trial


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
    shares = likelihood.explained_by_rows(measure.average_scale)
    counts = np.bincount(likelihood.outputs, minlength=posterior.prior.outputs)
    sums = np.bincount(likelihood.outputs, shares, minlength=posterior.prior.outputs)
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)


def completed(found: Prepared, trial: Trial, seed: int) -> Array:
    """The user's targets (p, n_d) with the missing ones drawn given the observed ones."""
    rough = InferenceOptions(_COARSE, seed, "auto", rough=True)
    posterior = condition_table(found, trial, rough)
    _, targets = drawn_tables(posterior, 1, [seed, 29])[0]
    plain = targets * np.exp(trial.h[:-1] / 2) / np.sqrt(found.table.row_weights)[:, None]
    return np.where(
        found.table.observed, found.table.targets, found.units.mean + plain @ found.units.matrix.T
    )


def followed(trials: Sequence[Trial]) -> list[Trial]:
    """Trials of a completed table, best first, that may be best for the observed cells.

    The best of each kind of noise among them: the completed table was drawn under one kind, and favours it.
    """
    lead = trials[0].score
    leaders = [each for each in best_of_kinds(trials) if each.score > lead - _RIVAL_KIND]
    others = [each for each in trials if each not in leaders and each.score > lead - _RIVAL]
    return [*leaders, *others[:_MOST_RIVALS]]


def best_of_kinds(trials: Sequence[Trial]) -> list[Trial]:
    """The first trial of each kind of noise, in their order."""
    kinds = dict.fromkeys(each.noise for each in trials)
    return [next(each for each in trials if each.noise == kind) for kind in kinds]


def log_evidence(found: Prepared, trial: Trial, posterior: Posterior) -> float:
    """Of the observed targets, in the user's units."""
    counted = found.table.observed.sum(axis=0) - float(found.table.centre)  # less one for each level
    inner = posterior.log_evidence - 0.5 * float(counted @ trial.h[:-1])
    return inner - float(counted.sum()) * found.units.log_unit


def judged(found: Prepared, trial: Trial, model: FittedModel) -> Trial:
    """The trial with the evidence of the observed targets, in the units of the search."""
    error, ok = model.posterior.log_evidence_error, model.posterior.diagnostics.ok
    shown = model.log_evidence - found.log_unit_jacobian
    return replace(trial, log_evidence=shown, error=error if ok else max(error, 0.5))
