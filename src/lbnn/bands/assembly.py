"""The posterior of a block of targets from answers of its groups: weights, distributions, coefficients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse

from lbnn._base.arrays import add_to_columns, device_of, take, to_numpy
from lbnn._base.threads import one_ahead
from lbnn._base.types import AnyArray, Array, Mask
from lbnn.bands.block_posterior import SPARSE, BlockPosterior, row_of
from lbnn.bands.data import BandTargets
from lbnn.bands.direction_sums import Group, Summary, half_signs
from lbnn.bands.distributions import PLACES, share_places, shares_below
from lbnn.bands.quadrature import Conditional, Directions, Eigensystem
from lbnn.bands.search import Search

#: Weight of a direction below which it is left out of intervals and predictions: a thousand of them move a
#: probability by less than 0.001.
_NEGLIGIBLE = 1e-6
_SMALL = 1e-4  # the same of weights, of either sign, of directions in interpolated means
#: Answers that are the same in `Summary` and in `BlockPosterior`.
_JOINED = (
    "log_evidence",
    "log_evidence_error",
    "noise_mean",
    "effective_directions",
    "scale_mean",
    "log_scale_mean",
    "log_scale_deviation",
    "log_noise_mean",
    "log_noise_deviation",
    "share_mean",
    "share_deviation",
    "share_error",
)


def assemble(search: Search, finished: Sequence[tuple[Group, Summary]]) -> BlockPosterior:
    """Answers, distribution functions of shares and coefficients of predictions."""
    order = np.argsort(np.concatenate([group.columns for group, _ in finished]))

    def joined(name: str) -> Array:
        """A quantity of all targets, (V, ...), in their order."""
        parts = [to_numpy(getattr(summary, name)).T for _, summary in finished]
        return np.concatenate(parts)[order]

    answers: dict[str, Any] = {name: joined(name) for name in _JOINED}
    mean, deviation = answers["share_mean"], answers["share_deviation"]
    places = share_places(mean[..., None], deviation[..., None], PLACES)
    weights: dict[str, Any] = {name: _sparse(search, finished, name) for name in SPARSE}
    summed = np.concatenate([np.full(len(g.columns), s.distribution is None) for g, s in finished])
    dual, distribution = _second_pass(search, weights["mean_weights"], places, summed[order])
    for group, summary in finished:
        if summary.distribution is not None:
            distribution[group.columns] = np.moveaxis(to_numpy(summary.distribution), 2, 0)
    counts = [np.full(len(group.columns), group.count) for group, _ in finished]
    return BlockPosterior(
        log_directions=np.array(search.log_theta),
        direction_count=np.concatenate(counts)[order],
        share_places=places,
        share_distribution=distribution,
        dual_coefficients=dual,
        **weights,
        **answers,
    )


def _sparse(search: Search, finished: Sequence[tuple[Group, Summary]], name: str) -> sparse.csr_array:
    """Weights of this name that are not negligible, (J, V)."""
    rows, columns, values = [], [], []
    for group, summary in finished:
        given, negligible = getattr(summary, name), _NEGLIGIBLE if name == "weights" else _SMALL
        if given is None:  # sums over directions
            signs = half_signs(group.sets) if name == "error_weights" else np.ones(group.count)
            given = device_of(summary.weights).put(signs)[:, None] * summary.weights
            negligible = _NEGLIGIBLE
        weights = to_numpy(given)
        own, target = np.nonzero(np.abs(weights) > negligible)
        kept = weights[own, target]
        total = np.bincount(target, kept, weights.shape[1])
        if name == "error_weights":  # of differences from the mean
            total[:] = 1.0
        rows.append(group.numbers[own])
        columns.append(group.columns[target])
        values.append(kept / total[target])
    places = np.concatenate(rows), np.concatenate(columns)
    shape = len(search.log_theta), search.targets.count
    return sparse.csr_array((np.concatenate(values), places), shape=shape)


def _second_pass(
    search: Search, weights: sparse.csr_array, places: Array, summed: Mask
) -> tuple[AnyArray, Array]:
    """Dual coefficients (K, r, V) and, where summed (V,), distribution functions of shares.

    The latter are (V, K, places); the weights (J, V) are those of means.
    """
    directions = Directions(search.kernels, search.targets, search.priors)
    xp, put, rank = directions.xp, search.device.put, search.kernels.rank
    dual = search.device.zeros(len(search.kernels.used), rank, search.targets.count)
    there = put(np.ascontiguousarray(np.moveaxis(places, 0, 2)))  # (K, places, V)
    distribution = xp.zeros_like(there)
    relevant = np.flatnonzero(np.diff(weights.indptr))
    lines = one_ahead(
        lambda j: search.lines.pop(j, None) or directions.line(search.log_theta[j]), relevant.tolist()
    )
    for j, line in zip(relevant, lines, strict=True):
        columns, values = row_of(weights, int(j))
        own = put(values)
        part, theta = search.targets.some(columns), np.exp(search.log_theta[j])
        conditional = directions.given(line, part)
        alpha = line.system.vectors @ (shrunk(line.system, conditional, part) * own[None, :])
        dual = add_to_columns(dual, columns, xp.stack([float(each) * alpha for each in theta]))
        some = summed[columns]
        if some.any():
            below = shares_below(conditional, theta, take(there, put(columns), axis=2), xp)
            distribution = add_to_columns(distribution, columns, below * own[None, None, :])
    return dual, np.moveaxis(to_numpy(distribution), 2, 0)


def shrunk(system: Eigensystem, conditional: Conditional, targets: BandTargets) -> AnyArray:
    """E[e^u/(1 + e^u g_i)] ỹ_i, (r, V): the posterior mean of one direction in its eigenbasis."""
    device = device_of(targets.values)
    factors = 1 / (np.exp(-conditional.lattice)[None, :] + system.values[:, None])  # (r, M)
    averages = device.put(factors) @ conditional.mass
    return averages * (system.vectors.T @ targets.values)
