"""The Gaussian processes given draws of the scale, for one data set, before there are test points.

A draw (`scale.draws`) has noise τ M Mᵀ and scale M diag(l) Mᵀ. With z = ỹ M⁻ᵀ, the paper's μ_L and Σ_L at
test points Φ, R (`data.projection`) are

    μ_L = Φ [√g_i l_j z_ij/(τ + g_i l_j)] Mᵀ,
    Σ_L = Σ_j m_j m_jᵀ ⊗ (R l_j + Φ diag_i(τ l_j/(τ + g_i l_j)) Φᵀ),

sums of positive terms, so that nothing cancels at training points or at small noise. Means are taken about
that of a middle (τ̄, l̄), the same for every M. With the pole p_i = τ̄ + g_i l̄ and the ratio p_i/(τ + g_i l)

    l/(τ + g l) = l̄/p + (l − l̄ τ/τ̄) τ̄ ratio/p²,    τ l/(τ + g l) = τ l ratio/p,

so that they differ between draws in ratios alone. As functions of g these are combinations of a few of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy import linalg

from lbnn._base.blocks import BLOCK_FLOATS, blocks
from lbnn._base.types import Array, IndexArray
from lbnn.scale.draws import Draws

_FEW = 40  # eigenvalues, of which no basis is sought
_KEPT = 1e-14  # pivots of the basis, relative to the first: rounding
_WORTH_WHILE = 0.6  # share of the work without a basis above which one saves too little
_BEYOND = 30.0  # e-folds of g l/τ from one at which ratios no longer depend on g, or only by a factor
_TINY = 1e-300
_SMALL, _TOGETHER = 1e-70, 4  # so many numbers between this and its inverse have a product that is a double


@dataclass(frozen=True)
class Process:
    """Gaussian processes given draws, for eigenvalues g (r,) and targets ỹ (r, n_d).

    Without data (β = 0, or inputs of zero) it has one eigenvalue, along which no test point lies.
    """

    draws: Draws
    eigenvalues: Array
    targets: Array
    prior: bool = False

    @classmethod
    def of(cls, draws: Draws, eigenvalues: Array, targets: Array) -> Process:
        """For data g (r,) and ỹ (r, n_d), or for none where β = 0."""
        prior = bool(np.isinf(draws.variances).any())
        if prior:
            draws = replace(draws, variance=0.0)
        if prior or not len(eigenvalues):
            eigenvalues, targets = np.ones(1), np.zeros((1, targets.shape[1]))
        return cls(draws, eigenvalues, targets, prior)

    def with_draws(self, draws: Draws) -> Process:
        """The same data, given other draws, without a basis, about zero: small means have all digits."""
        other = replace(self, draws=replace(draws, variance=0.0) if self.prior else draws)
        variance, every = float(other.draws.variances.max()), np.arange(len(self.eigenvalues))
        if variance:
            vars(other)["middle"] = 0.0, variance, np.full(len(every), variance)
        else:
            vars(other)["middle"] = self.middle
        vars(other)["basis"] = every, None
        return other

    def weighted(self, weights: Array) -> Process:
        """The same with other weights of the draws, (m,), about the same middle and in the same basis."""
        other = replace(self, draws=replace(self.draws, weights=weights))
        vars(other).update(
            {name: getattr(self, name) for name in ("middle", "reference", "basis", "log_data")}
        )
        return other

    @cached_property
    def middle(self) -> tuple[float, float, Array]:
        """l̄, τ̄ and p = τ̄ + g l̄, (r,); l̄ = 0 where draws have different planes of outputs."""
        draws = self.draws
        middle = float(draws.weights @ draws.ratios.mean(axis=1))
        variance = float(draws.weights @ draws.variances)
        middle = 0.0 if draws.basis.shape[2] < draws.outputs and variance else max(middle, _TINY)
        return middle, variance, variance + self.eigenvalues * middle

    @cached_property
    def reference(self) -> Array:
        """√g l̄/p ỹ, (r, n_d): coefficients of the mean at the middle."""
        middle, _, pole = self.middle
        return (np.sqrt(self.eigenvalues) * middle / pole)[:, None] * self.targets

    @cached_property
    def basis(self) -> tuple[IndexArray, Array | None]:
        """Rows I of g and P (r, K) with f(g) = P f(g_I) for all ratios; None if that saves nothing.

        By a pivoted QR decomposition of ratios on a grid of l/τ, as wide as that of the draws.
        """
        g, draws, every = self.eigenvalues, self.draws, np.arange(len(self.eigenvalues))
        if len(g) < _FEW or not draws.variances.all():
            return every, None
        with np.errstate(divide="ignore"):
            x = np.log(draws.ratios / draws.variances[:, None])
        low = max(float(x.min()), -math.log(g.max()) - _BEYOND)
        high = max(low, min(float(x.max()), -math.log(g.min()) + _BEYOND))
        grid = np.exp(np.linspace(low, high, 24 + int(6 * (high - low))))
        middle, variance, _ = self.middle
        ratios = (variance + g * middle) / (1 + np.outer(grid, g))
        R, pivots = linalg.qr(ratios / ratios.max(axis=1, keepdims=True), mode="r", pivoting=True)
        size = int((np.abs(np.diagonal(R)) > _KEPT * abs(R[0, 0])).sum())
        if size * draws.outputs > _WORTH_WHILE * (len(g) + draws.outputs):
            return every, None
        P = np.empty((len(g), size))
        rest = linalg.solve_triangular(R[:size, :size], R[:size, size:])
        P[pivots] = np.concatenate([np.eye(size), rest.T])
        return pivots[:size], P

    @property
    def rows(self) -> int:
        """Functions of g that ratios are combinations of."""
        return len(self.basis[0])

    def ratio(self, some: Any, rows: IndexArray | None = None) -> Array:
        """p/(τ + g l) of some draws, (rows, b, k), at rows of the basis or at others; zero where both are."""
        here = self.basis[0] if rows is None else rows
        bottom = self.draws.ratios[some] * self.eigenvalues[here, None, None]
        bottom += self.draws.variances[some, None]
        return np.divide(self.middle[2][here, None, None], bottom, out=bottom, where=bottom > 0)

    def excess(self, some: Any) -> Array:
        """l − l̄ τ/τ̄, (b, k); zero at zero temperature, where means do not depend on the draws."""
        middle, variance, _ = self.middle
        if not variance:
            return np.zeros_like(self.draws.ratios[some])
        return self.draws.ratios[some] - middle * (self.draws.variances[some, None] / variance)

    def left(self, some: Any) -> Array:
        """τ l ratio of some draws, (K, b, k): variances along the data, times p."""
        ratio = self.ratio(some)
        ratio *= self.draws.variances[some, None] * self.draws.ratios[some]
        return ratio

    @cached_property
    def front(self) -> Array:
        """√g τ̄/p², (r,), in front of the excess of a mean."""
        _, variance, pole = self.middle
        return np.sqrt(self.eigenvalues) / pole * (variance / pole)

    def columns(self, some: Any) -> Array:
        """White means of some draws less the reference, (size, b, k), as coefficients of `features`."""
        gain, inverse = self.ratio(some), self.draws.inverse[some]
        gain *= self.excess(some)
        if self.basis[1] is None:
            side_by_side = inverse.transpose(2, 0, 1).reshape(self.targets.shape[1], -1)
            gain *= (self.targets @ side_by_side).reshape(gain.shape)
            return gain
        return np.asarray((gain[:, None] * inverse.transpose(2, 0, 1)).reshape(-1, *gain.shape[1:]))

    @cached_property
    def log_data(self) -> Array:
        """Log density of z given every draw, (m,): that of the targets in units of M, along its columns."""
        parts = [self.log_rows(self.eigenvalues, self.targets, some) for some in self.every(0)]
        return np.concatenate(parts)

    def log_rows(self, eigenvalues: Array, targets: Array, some: Any, noisy: bool = True) -> Array:
        """Log density of rows (k, n_d) of the covariance τ + g l, or g l alone, given some draws, (b,)."""
        inverse, ratios, noise = (
            each[some] for each in (self.draws.inverse, self.draws.ratios, self.draws.variances)
        )
        total = np.empty(len(ratios))
        for block in blocks(len(total), len(targets) * ratios.shape[1], 2 * BLOCK_FLOATS):
            variances = eigenvalues[:, None, None] * ratios[block]
            if noisy:
                variances += noise[block, None]
            side_by_side = inverse[block].transpose(2, 0, 1).reshape(targets.shape[1], -1)
            white = (targets @ side_by_side).reshape(variances.shape)
            white *= white
            with np.errstate(divide="ignore", invalid="ignore"):
                white /= variances
                total[block] = (white.sum(axis=0) + _log_product(variances)).sum(axis=1)
        total = -0.5 * (total + len(targets) * ratios.shape[1] * math.log(2 * math.pi))
        return np.where(np.isnan(total) | (total == np.inf), -np.inf, total)

    @property
    def size(self) -> int:
        """Coefficients of a white mean."""
        return self.rows * (1 if self.basis[1] is None else self.targets.shape[1])

    def features(self) -> Array:
        """Coefficients of Φ for `columns`, (r, size)."""
        P = self.basis[1]
        if P is None:
            return np.diag(self.front)
        weighted = self.front[:, None] * self.targets
        return np.asarray((P[:, :, None] * weighted[:, None, :]).reshape(len(P), -1))

    @cached_property
    def mean_sums(self) -> Array:
        """Σ weight times the mean's coefficients less the reference, by groups, (G, size, n_d)."""
        sums = np.zeros((len(self.group_weights), self.size, self.draws.outputs))
        for group, some in self.blocks(2 * self.size * self.draws.basis.shape[2]):
            basis = self.draws.weights[some, None, None] * self.draws.basis[some]
            flat = basis.swapaxes(1, 2).reshape(-1, self.draws.outputs)
            sums[group] += self.columns(some).reshape(self.size, -1) @ flat
        return sums

    # ------------------------------------------------------------------ groups and blocks of draws

    @cached_property
    def _by_group(self) -> tuple[IndexArray, Array]:
        """Draws in the order of their groups, (m,), and the first of every group with the end, (G + 1,)."""
        groups, count = self.draws.groups, len(self.draws.weights)
        if groups is None:
            return np.arange(count), np.array([0, count])
        order = np.argsort(groups, kind="stable")
        starts = np.flatnonzero(np.diff(groups[order], prepend=groups[order[0]] - 1))
        return order, np.append(starts, count)

    @cached_property
    def group_weights(self) -> Array:
        """Weight of every group, (G,)."""
        order, ends = self._by_group
        return np.array([part.sum() for part in np.split(self.draws.weights[order], ends[1:-1])])

    def blocks(self, floats_each: int, grouped: bool = True) -> Iterator[tuple[int, IndexArray]]:
        """Group, or none, and numbers (k,) of draws of positive weight, in blocks for so many floats each."""
        order, ends = self._by_group
        ends = ends if grouped else ends[[0, -1]]
        size = max(1, FLOATS // max(floats_each, 1))
        for group in range(len(ends) - 1):
            inside = order[ends[group] : ends[group + 1]]
            inside = inside[self.draws.weights[inside] > 0]
            for start in range(0, len(inside), size):
                yield group, inside[start : start + size]

    def every(self, points: int) -> Iterator[slice]:
        """All draws, in blocks for so many points."""
        count, each = len(self.draws.weights), (self.size + 2 * points) * self.draws.basis.shape[2]
        size = max(1, FLOATS // max(each, 1))
        return (slice(start, min(start + size, count)) for start in range(0, count, size))


def _log_product(values: Array) -> Array:
    """Σ_i log values_i over rows of (r, b, k), (b, k): of products of a few where these are doubles."""
    if not len(values) or not (values.min() > _SMALL and values.max() < 1 / _SMALL):
        return np.log(values).sum(axis=0)
    whole = len(values) - len(values) % _TOGETHER
    products = values[:whole:_TOGETHER].copy()
    for number in range(1, _TOGETHER):
        products *= values[number:whole:_TOGETHER]
    return np.asarray(np.log(products).sum(axis=0) + np.log(values[whole:]).sum(axis=0))


#: Floats of one block of draws: 16 MB, for matrix products.
FLOATS = 1 << 21
