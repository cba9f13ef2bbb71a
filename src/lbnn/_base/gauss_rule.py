"""The data as a few rows: curves A(log l) and B(log l) by Gauss quadrature in log g.

The likelihood meets the eigenvalues l of a scale only through two curves,

    A(l) = Σ_i log(τ + g_i l),   B(l) = Σ_i ỹ_i ỹ_iᵀ / (τ + g_i l),

integrals of functions that are analytic in log g (their nearest singularity is π off the real axis) over the
counting measure and the measure ỹ ỹᵀ of the data. A Gauss rule with k nodes is exact for polynomials of
degree 2k − 1, so that a handful of nodes for every few e-folds of g stands for all rows, at every l and every
τ at once: the rule is a statistic of the data alone. Its weights are positive matrices, that is, rows again.
So every sum over rows stays what it was, value and gradient alike, and each is right to rounding relative to
itself, in every direction of the outputs: nothing cancels, not even between directions of which one has
targets eight orders larger, or eigenvalues of G that differ by sixteen.

A block Gauss rule is the Rayleigh–Ritz projection of diag(log g) onto the span of T_m(log g) ỹ, m < k.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from lbnn._base.types import Array

_PANEL = 3.0  # widest range of log g that one rule covers: within it 1/(τ + g l) changes by e³ at most
_DIGITS = 33.0  # nats below one to which the rule resolves a function analytic up to ± iπ
_WORTH_WHILE = 0.75  # share of all rows above which a rule saves too little
_ALLOWED = 1e-12  # relative error of A and B at which the rule is not used
_ROUNDING = 8 * float(np.finfo(float).eps)  # relative, of targets along a direction
_CHECKED_AT = np.linspace(-4.0, 4.0, 9)  # log of l/τ beside the ends of the spectrum


@dataclass(frozen=True)
class GaussRule:
    """Rows that stand for the data: Σ_k counts_k log(τ + nodes_k l) = A, Σ_k ỹ_k ỹ_kᵀ/(τ + g_k l) = B."""

    nodes: Array  # g of the log term, (a,)
    counts: Array  # rows of the data that each stands for, (a,), positive
    eigenvalues: Array  # g of the targets, (q,)
    targets: Array  # ỹ, (q, n_d)

    @property
    def arrays(self) -> tuple[Array, Array, Array, Array]:
        """Nodes, counts, eigenvalues and targets."""
        return self.nodes, self.counts, self.eigenvalues, self.targets

    def scaled(self, variance: float) -> GaussRule:
        """The same for a Gram matrix that many times as large."""
        return GaussRule(variance * self.nodes, self.counts, variance * self.eigenvalues, self.targets)

    def in_units(self, units: Array) -> GaussRule:
        """The same for targets ỹ diag(units), units (n_d,)."""
        return GaussRule(self.nodes, self.counts, self.eigenvalues, self.targets * units)

    def turned(self, axes: Array) -> GaussRule:
        """The same for targets ỹ Q, Q (n_d, n_d)."""
        return GaussRule(self.nodes, self.counts, self.eigenvalues, self.targets @ axes)


def make_gauss_rule(eigenvalues: Array, targets: Array) -> GaussRule | None:
    """Few rows for many: g (r,), ỹ (r, n_d); None where they would not be few, or would not be right."""
    if len(eigenvalues) < 2:
        return None
    logs = np.log(eigenvalues)
    low, high = float(logs.min()), float(logs.max())
    panels = max(1, math.ceil((high - low) / _PANEL))
    half = max((high - low) / panels / 2, 1e-3)
    degree = nodes_for(half)
    if panels * degree * min(1 + targets.shape[1] / 4, 2) > _WORTH_WHILE * len(logs):
        return None
    panel_of = np.clip(((logs - low) / (2 * half)).astype(int), 0, panels - 1)
    parts = []
    for panel in range(panels):
        here = np.flatnonzero(panel_of == panel)
        centre = low + (2 * panel + 1) * half
        parts.append(_panel_rule(logs[here], targets[here], centre, half, degree))
    result = GaussRule(*(np.concatenate(each) for each in zip(*parts, strict=True)))
    return result if accurate(result, eigenvalues, targets) else None


def nodes_for(half: float) -> int:
    """Nodes that a panel of this half width needs: the error of Gauss's rule falls like ρ^{−2k}."""
    return math.ceil(_DIGITS / (2 * math.asinh(math.pi / half)))


def _panel_rule(
    logs: Array, targets: Array, centre: float, half: float, degree: int
) -> tuple[Array, Array, Array, Array]:
    """Nodes and counts (a,), eigenvalues (q,), targets (q, n_d) of one panel; its rows if these are few."""
    outputs = targets.shape[1]
    nodes, counts, values, rows = np.exp(logs), np.ones(len(logs)), np.exp(logs), targets
    if len(logs) <= degree:
        return nodes, counts, values, rows
    position = (logs - centre) / half
    polynomials = np.asarray(np.polynomial.chebyshev.chebvander(position, degree - 1), float)  # T_m(log g)
    positions, weights = _projected(position, polynomials, np.ones((len(logs), 1)))
    nodes, counts = np.exp(centre + half * positions), weights[:, 0] ** 2
    if len(logs) > degree * outputs:
        sizes = np.sqrt((targets**2).sum(axis=0))
        unit = targets / np.where(sizes > 0, sizes, 1.0)
        start = np.linalg.svd(unit, full_matrices=False).U  # of the same span, without preference for any
        span = (polynomials[:, :, None] * start[:, None, :]).reshape(len(logs), -1)
        positions, weights = _projected(position, span, unit)
        values, rows = np.exp(centre + half * positions), weights * sizes
    return nodes, counts, values, rows


def _projected(position: Array, span: Array, start: Array) -> tuple[Array, Array]:
    """Ritz values of diag(position) on a span (n, c), and `start` (n, ·) along the Ritz vectors, (c, ·).

    Where the columns of the span depend on each other the basis holds some direction more than it must: the
    rule stays exact.
    """
    basis = np.linalg.qr(span).Q
    values, vectors = np.linalg.eigh(basis.T @ (position[:, None] * basis))
    return np.clip(values, -1.0, 1.0), vectors.T @ (basis.T @ start)


def accurate(rule: GaussRule, eigenvalues: Array, targets: Array) -> bool:
    """Whether A and B agree with the sums over g (r,), ỹ (r, n_d), along outputs and principal directions."""
    ends = -np.log([eigenvalues.max(), eigenvalues.min()])
    signal = np.exp(np.unique((ends[:, None] + _CHECKED_AT).ravel()))  # l/τ
    with np.errstate(over="ignore"):
        if not np.isfinite(np.outer(signal, [eigenvalues.min(), eigenvalues.max()])).all():
            return False
    full = np.log1p(np.outer(signal, eigenvalues)).sum(axis=1)
    few = np.log1p(np.outer(signal, rule.nodes)) @ rule.counts
    directions = _directions(targets)
    response = 1 / (1 + np.outer(signal, eigenvalues))
    full_squares = response @ (targets @ directions) ** 2
    few_squares = (1 / (1 + np.outer(signal, rule.eigenvalues))) @ (rule.targets @ directions) ** 2
    # targets along a direction are themselves known to rounding only
    blur = response @ (_ROUNDING * (np.abs(targets) @ np.abs(directions))) ** 2
    allowed = _ALLOWED * full_squares + 2 * np.sqrt(full_squares * blur) + blur
    logs_agree = (np.abs(few - full) <= _ALLOWED * (full + len(eigenvalues))).all()
    return bool(logs_agree and (np.abs(few_squares - full_squares) <= allowed).all())


def _directions(targets: Array) -> Array:
    """The outputs themselves and the principal directions of targets in units of their sizes, (n_d, ·)."""
    sizes = np.sqrt((targets**2).sum(axis=0))
    units = np.where(sizes > 0, sizes, 1.0)
    principal = np.linalg.svd(targets / units, full_matrices=False).Vh.T / units[:, None]
    return np.concatenate([np.eye(len(sizes)), principal], axis=1)
