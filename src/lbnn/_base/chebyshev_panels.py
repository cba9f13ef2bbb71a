"""Functions of g that are analytic in log g, at many g from their values at a few.

Chebyshev interpolation in log g, panel by panel. Functions like l/(τ + g l) have their nearest singularity at
the distance π from the real axis, whatever l and τ, so that one set of nodes serves all of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.polynomial import chebyshev

from lbnn._base.arrays import take, times
from lbnn._base.types import AnyArray, Array, IndexArray

_PANEL = 3.0  # widest range of log g of a panel
_DIGITS = 37.0  # nats below one to which a function analytic up to ± iπ is resolved
_WORTH_WHILE = 0.75  # share of all g above which nodes save too little
_BENDS = 7  # places among the values at which the functions of the check bend
_ALLOWED = 1e-12  # relative error in the checks at which nodes are not used


@dataclass(frozen=True)
class ChebyshevPanels:
    """Nodes (k,) and, panel by panel, the rows in it, its nodes, and what each node weighs at each row."""

    nodes: Array
    panels: tuple[tuple[IndexArray, slice, Array], ...]  # weights (rows, nodes of the panel)

    def at_rows(self, values: Array) -> Array:
        """From values at the nodes (k, ...) to values at the rows (r, ...)."""
        result = np.empty((sum(len(rows) for rows, _, _ in self.panels), *values.shape[1:]))
        for rows, nodes, weights in self.panels:
            result[rows] = np.tensordot(weights, values[nodes], axes=1)
        return result

    def gathered(self, features: AnyArray, columns: Array) -> Array:
        """Σ_i features_mi columns_ij (weight of node k at row i), (m, k, j), where the features are."""
        count = features.shape[0]
        result = np.empty((count, len(self.nodes), columns.shape[1]))
        for rows, nodes, weights in self.panels:
            size = weights.shape[1] * columns.shape[1]  # named, as there may be no rows
            spread = (weights[:, :, None] * columns[rows, None, :]).reshape(len(rows), size)
            here = times(_columns(features, rows), spread)
            result[:, nodes] = here.reshape(count, nodes.stop - nodes.start, columns.shape[1])
        return result


def chebyshev_panels(values: Array) -> ChebyshevPanels:
    """Nodes for functions of g at the given values (r,); the values themselves where nodes save nothing."""
    if len(values) < 2:
        return identity_panels(values)
    logs = np.log(values)
    low, high = float(logs.min()), float(logs.max())
    panels = max(1, math.ceil((high - low) / _PANEL))
    half = max((high - low) / panels / 2, 1e-3)
    count = nodes_for(half)
    if panels * count > _WORTH_WHILE * len(values):
        return identity_panels(values)
    points = chebyshev.chebpts1(count)
    transform = np.linalg.inv(chebyshev.chebvander(points, count - 1))
    panel = np.clip(((logs - low) / (2 * half)).astype(int), 0, panels - 1)
    nodes: list[Array] = []
    parts: list[tuple[IndexArray, slice, Array]] = []
    for number in range(panels):
        rows, centre = np.flatnonzero(panel == number), low + (2 * number + 1) * half
        if not len(rows):  # a gap in the spectrum
            continue
        start = len(nodes) * count
        nodes.append(np.exp(centre + half * points))
        weights = chebyshev.chebvander((logs[rows] - centre) / half, count - 1) @ transform
        parts.append((rows, slice(start, start + count), weights))
    result = ChebyshevPanels(np.concatenate(nodes), tuple(parts))
    return result if accurate(result, values) else identity_panels(values)


def _columns(features: AnyArray, index: IndexArray) -> AnyArray:
    """Columns (m, k) of features (m, r) with index (k,); a view where they are contiguous."""
    if len(index) and index[-1] - index[0] + 1 == len(index):
        return features[:, int(index[0]) : int(index[-1]) + 1]
    return take(features, index, axis=1)


def identity_panels(values: Array) -> ChebyshevPanels:
    """Every value of (r,) a node of its own."""
    return ChebyshevPanels(values, ((np.arange(len(values)), slice(0, len(values)), np.eye(len(values))),))


def nodes_for(half: float) -> int:
    """Nodes that a panel of this half width needs: the error of interpolation falls like ρ^{−k}."""
    return math.ceil(_DIGITS / math.asinh(math.pi / half))


def accurate(curves: ChebyshevPanels, values: Array) -> bool:
    """Whether 1/(1 + g/b) at the rows (r,) follows from the nodes, for b below, among and above them."""
    low, high = float(values.min()), float(values.max())
    bends = np.concatenate([[1e-3 * low], np.geomspace(low, high, _BENDS), [1e3 * high]])
    exact = 1 / (1 + values[:, None] / bends)
    got = curves.at_rows(1 / (1 + curves.nodes[:, None] / bends))
    return bool((np.abs(got - exact) <= _ALLOWED * exact).all())
