"""Missing targets given the observed ones: means, deviations and multiple imputations.

Given a draw of the scale the missing cells of a table are Gaussian given the observed ones, with the
precision P = R Rᵀ of `Elimination`. Moments are averaged over draws of the scale and the models of a fit; a
draw takes one of each first. Rows without any target have no part in a fit: theirs are predictions.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from lbnn._base.small_matrices import inverses
from lbnn._base.types import Array, IndexArray
from lbnn.estimator.fitted import FittedModel, FittedState
from lbnn.likelihood.missing import Elimination
from lbnn.predict.predictive import Predictive

#: Draws of the scale that moments are averaged over: means given them differ by a part of the posterior
#: deviation, so that the average is known to less than a sixteenth of it.
_SCALES = 256


def moments(state: FittedState, left_out: Predictive | None) -> tuple[Array, Array]:
    """Targets of every row with missing ones at their posterior mean, and deviations, (p, n_d) each.

    `left_out` is the predictive of observations in the rows that were left out of the fit.
    """
    mean, variance = state.targets.copy(), np.zeros_like(state.targets)
    cells = _missing(state)
    if cells is not None:
        parts = [_moments(model) for model in state.models]
        mean[cells] = state.weights @ np.stack([own for own, _ in parts])
        spread = np.stack([own_variance + (own - mean[cells]) ** 2 for own, own_variance in parts])
        variance[cells] = state.weights @ spread
    shape = state.left_targets.shape
    rest = (np.zeros(shape),) * 2
    if left_out is not None:
        rest = left_out.mean.reshape(shape), left_out.variance.reshape(shape)
    missing = np.isnan(state.left_targets)
    left = np.where(missing, rest[0], state.left_targets)
    return _rows(state, mean, left), np.sqrt(_rows(state, variance, np.where(missing, rest[1], 0.0)))


def draws(state: FittedState, left_out: Predictive | None, count: int, rng: np.random.Generator) -> Array:
    """Completed targets, (count, p, n_d): observed ones as they are, missing ones drawn jointly."""
    found = np.empty((count, len(state.rows.stands_for), state.left_targets.shape[1]))
    left = np.broadcast_to(state.left_targets, (count, *state.left_targets.shape))
    if left_out is not None:
        left = np.where(np.isnan(left), left_out.sample(count, rng).reshape(left.shape), left)
    cells = _missing(state)
    drawn = [np.empty((count, 0))] if cells is None else []
    for model, many in zip(state.models, rng.multinomial(count, state.weights), strict=True):
        if cells is not None and many:
            for _, gone in _given_scales(model, _chosen(model, int(many), rng)):
                drawn.append(_cells_in_units(model, gone.drawn(rng.standard_normal(gone.white.shape))))
    for number, values in enumerate(rng.permutation(np.concatenate(drawn), axis=0)):
        table = state.targets.copy()
        if cells is not None:
            table[cells] = values
        found[number] = _rows(state, table, left[number])
    return found


def _missing(state: FittedState) -> tuple[IndexArray, IndexArray] | None:
    """Rows and outputs of the missing cells, (m,) each, of the rows that are counted; None without any."""
    missing = state.models[0].posterior.missing
    return None if missing is None else missing.cells


def _moments(model: FittedModel) -> tuple[Array, Array]:
    """Of the missing cells, given one model: means and variances, (m,) each."""
    measure = model.posterior.scale
    assert model.posterior.missing is not None
    few = len(measure.weights) <= _SCALES
    chosen = np.arange(len(measure.weights)) if few else _chosen(model, _SCALES, np.random.default_rng(0))
    weights = measure.weights if few else np.full(_SCALES, 1 / _SCALES)
    first, second = np.zeros((2, len(model.posterior.missing.cells[0])))
    for block, gone in _given_scales(model, chosen):
        spread = np.diagonal(inverses(gone.roots), axis1=1, axis2=2)
        first += weights[block] @ gone.shifts
        second += weights[block] @ (gone.shifts**2 + spread)
    units = _cells_in_units(model, np.ones_like(first)) - _cells_in_units(model, np.zeros_like(first))
    return _cells_in_units(model, first), units**2 * np.maximum(second - first**2, 0.0)


def _chosen(model: FittedModel, count: int, rng: np.random.Generator) -> IndexArray:
    """Numbers of so many draws of the scale."""
    weights = model.posterior.scale.weights
    return rng.choice(len(weights), size=count, p=weights)


def _given_scales(model: FittedModel, chosen: IndexArray) -> Iterator[tuple[slice, Elimination]]:
    """The missing cells given scales of these numbers, in blocks."""
    posterior = model.posterior
    values, axes = np.linalg.eigh(posterior.scale.scales_of(chosen))
    yield from posterior._table_likelihood.eliminations(np.maximum(values, 0.0), axes)


def _cells_in_units(model: FittedModel, shifts: Array) -> Array:
    """Missing cells in the user's units (..., m), so far from what was filled in (..., m)."""
    missing = model.posterior.missing
    assert missing is not None
    rows, outputs = missing.cells
    units = np.diagonal(model.matrix)[outputs] / np.sqrt(missing.weights[rows])
    return np.asarray(model.mean[outputs] + units * (missing.targets[missing.cells] + shifts))


def _rows(state: FittedState, counted: Array, left: Array) -> Array:
    """Rows of the user's table, (p, n_d), from those that are counted and those that were left out."""
    places = state.rows.stands_for
    found = np.empty((len(places), counted.shape[1]))
    found[places >= 0] = counted[places[places >= 0]]
    found[places < 0] = left
    return found
