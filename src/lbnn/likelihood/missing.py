"""The likelihood of a table with a few missing cells, from the eigenvectors of the complete one.

Fill the m missing cells with any numbers. With the covariance K of all cells of Y, the precision of the
missing ones given the observed ones is P = (K⁻¹)_mm, and with v = (K⁻¹Y)_m their mean is less than what was
filled in by P⁻¹v. So

    log p(Y_obs | L) = log p(Y | L) − log p(Y_mis | Y_obs, L)
                     = log p(Y | L) + ½ m log 2π − ½ log det P + ½ vᵀ P⁻¹ v,

and in the eigenbases of G and L, with D_il = τ + g_i l_l,

    P_cc' = Σ_l V_jl V_kl [Σ_i U_ai U_bi/D_il + (I − UUᵀ)_ab/τ]   for the cells c = (a, j), c' = (b, k).

One eigendecomposition serves, as for complete tables. With the sum over l first (r numbers for every pair of
outputs) a scale takes m²(r + m) operations beside those of the complete table.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np
from scipy import linalg

from lbnn._base.blocks import PRODUCT_FLOATS, blocks
from lbnn._base.chebyshev_panels import ChebyshevPanels, chebyshev_panels, identity_panels
from lbnn._base.small_matrices import inverses, lower_roots_and_rows
from lbnn._base.types import Array, IndexArray, Mask
from lbnn.likelihood.gaussian import GaussianLikelihood
from lbnn.likelihood.observed import CellsOfKernel, CellsOfScale
from lbnn.likelihood.root import ScaleFunction

_OVERHEAD = 2e4  # operations in the time (some 15 µs) that a gradient takes beside those counted
_LARGEST = 1 << 23  # floats that products of cells may fill, 64 MB
_TURNS = 4  # of completing the table and estimating the scale, for proposals
_SMALLEST = 0.01  # eigenvalue of that estimate, relative to the largest
#: Nats of the filled table beyond which its difference from the missing cells has lost the digits that count:
#: 1e-16 of it, times some dozens of terms, is a thousandth. Only nearly singular scales get there.
_MOST_NATS = 1e11
_SINGULAR = 1e-13  # inverse condition number of covariances, a thousand times the rounding of doubles


@dataclass(frozen=True)
class Elimination:
    """The missing cells given the observed ones, for s scales."""

    roots: Array  # lower R with R Rᵀ = P, (s, m, m)
    white: Array  # R⁻¹v, (s, m)
    log_values: Array  # −½ log det P + ½ vᵀ P⁻¹ v, (s,); −inf for scales that are not finite

    @cached_property
    def shifts(self) -> Array:
        """−P⁻¹v, means of the missing cells less what was filled in, (s, m)."""
        return -self._solved_transposed(self.white)

    def drawn(self, noise: Array) -> Array:
        """Draws of the missing cells less what was filled in, from standard normal noise (s, m)."""
        return self.shifts + self._solved_transposed(noise)

    def _solved_transposed(self, right: Array) -> Array:
        """R⁻ᵀ of right sides (s, m)."""
        both = zip(self.roots, right, strict=True)
        solved = [linalg.solve_triangular(r, b, lower=True, trans=1, check_finite=False) for r, b in both]
        return np.array(solved).reshape(right.shape)


@dataclass(frozen=True)
class PartialLikelihood(ScaleFunction):
    """log p(Y_obs | L) as a function of L, with its gradient."""

    complete: GaussianLikelihood  # of the filled table
    vectors: Array  # U of the rows that lack cells, (k, r)
    unseen: Array  # I − UUᵀ, less the level where there is one, between these rows, (k, k)
    rest: Array  # targets of these rows outside the range of G, (k, n_d)
    rows: IndexArray  # of each missing cell, among these rows, (m,)
    outputs: IndexArray  # of each missing cell, (m,)
    log_extra: float = 0.0  # levels and weights of rows
    narrow: CellsOfScale | None = None
    kernel: CellsOfKernel | None = None

    # -- what the engines ask of every likelihood

    @property
    def noise_variance(self) -> float:
        """τ."""
        return self.complete.noise_variance

    @property
    def eigenvalues(self) -> Array:
        """g, (r,)."""
        return self.complete.eigenvalues

    @property
    def examples(self) -> int:
        """Rows of the table."""
        return self.complete.examples

    @property
    def targets(self) -> Array:
        """ỹ of the filled table, (r, n_d)."""
        return self.complete.targets

    @property
    def output_units(self) -> Array:
        """Ones (n_d,)."""
        return self.complete.output_units

    @property
    def log_constant(self) -> float:
        """The part that does not depend on L."""
        return self.complete.log_constant + 0.5 * len(self.rows) * math.log(2 * math.pi) + self.log_extra

    @property
    def operations(self) -> float:
        """Rough number of floating-point operations of one gradient, for planning."""
        if self.narrow is not None:
            return self.narrow.operations
        count, rank = len(self.rows), len(self.eigenvalues)
        own = count**2 * (count + rank)
        return self.complete.operations + 2.0 * own + _OVERHEAD

    @property
    def gradient_rows(self) -> Array:
        """Those of the filled table, (r, n_d)."""
        return self.complete.gradient_rows

    @property
    def target_moment(self) -> Array:
        """That of the filled table, (n_d, n_d)."""
        return self.complete.target_moment

    # -- value and gradient

    def log_value(self, eigenvalues: Array, vectors: Array) -> Array:
        """Log p(Y_obs | L) less `log_constant`, for scales V diag(l) Vᵀ: l (s, n_d), V (s, n_d, n_d)."""
        whole = np.asarray(self.complete.log_value(eigenvalues, vectors))
        result = np.full(len(whole), -np.inf)
        fine = np.flatnonzero((np.abs(whole) < _MOST_NATS) & self._regular(eigenvalues))
        for block, gone in self.eliminations(eigenvalues[fine], vectors[fine]):
            result[fine[block]] = whole[fine[block]] + gone.log_values
        return result

    def _regular(self, eigenvalues: Array) -> Mask:
        """Scales (s, n_d) -> (s,) whose factorisations do not fail: far from singular, without noise."""
        if self.noise_variance:
            return np.ones(len(eigenvalues), bool)
        spread = float(self.eigenvalues.min() / self.eigenvalues.max())
        return np.asarray(eigenvalues.min(axis=1) * spread > _SINGULAR * eigenvalues.max(axis=1))

    def value_and_gradient(self, eigenvalues: Array, vectors: Array) -> tuple[Array, Array]:
        """`log_value` (s,) and its gradient in L (s, n_d, n_d).

        It is that of the table completed by the mean of the missing cells given L, and what their precision
        adds: −½ log det P has the gradient V [½ Σ_i g_i (Vᵀ Q_i V)_ll'/(D_il D_il')] Vᵀ with
        Q_i,jk = Σ U_ai (P⁻¹)_cc' U_bi over the cells c = (a, j), c' = (b, k).
        """
        whole = self.complete.log_value(eigenvalues, vectors)
        value = np.where((np.abs(whole) < _MOST_NATS) & self._regular(eigenvalues), whole, -np.inf)
        gradient = np.empty_like(vectors)
        for block, gone in self.eliminations(eigenvalues, vectors):
            values, axes = eigenvalues[block], vectors[block]
            value[block] += gone.log_values
            variance = self.noise_variance + self.eigenvalues[:, None] * values[:, None, :]  # D, (s, r, n_d)
            strength = np.sqrt(self.eigenvalues)[:, None] / variance  # √g/D
            taught = strength * (self.completed(gone.shifts) @ axes)
            inner = taught.swapaxes(1, 2) @ taught
            index = np.arange(values.shape[1])
            inner[:, index, index] -= (self.eigenvalues[:, None] / variance).sum(axis=1)
            rotated = axes.swapaxes(1, 2)[:, None] @ self._cell_moments(gone) @ axes[:, None]
            nodes = self._panels.nodes
            strength = np.sqrt(nodes)[:, None] / (self.noise_variance + nodes[:, None] * values[:, None, :])
            inner += np.einsum("sil,silk,sik->slk", strength, rotated, strength, optimize=True)
            gradient[block] = 0.5 * axes @ inner @ axes.swapaxes(1, 2)
        fine = np.isfinite(value) & np.isfinite(gradient).all(axis=(1, 2))
        return np.where(fine, value, -np.inf), np.where(fine[:, None, None], gradient, 0.0)

    def eliminations(self, values: Array, axes: Array) -> Iterator[tuple[slice, Elimination]]:
        """The missing cells given scales V diag(l) Vᵀ, l (s, n_d), V (s, n_d, n_d), in blocks of scales.

        All blocks use the same memory: what is kept beyond the next block has to be copied.
        """
        size, memory = len(self.rows) + 1, None
        for block in blocks(len(values), size**2, PRODUCT_FLOATS):
            own = values[block]
            memory = np.empty((len(own), size, size)) if memory is None else memory[: len(own)]
            yield block, self._eliminate(own, axes[block], memory)

    def eliminate(self, scale: Array) -> Elimination:
        """The missing cells given one scale (n_d, n_d)."""
        values, axes = np.linalg.eigh(scale)
        return next(self.eliminations(values[None], axes[None]))[1]

    def _eliminate(self, values: Array, axes: Array, matrices: Array) -> Elimination:
        """With an array for the precisions, (s, m + 1, m + 1), which is overwritten.

        The vector v is one more row of the matrix that is factorised: its row of the root is R⁻¹v.
        """
        size = len(self.rows)
        inverse = 1 / (self.noise_variance + values[:, :, None] * self.eigenvalues)  # 1/D, (s, n_d, r)
        first, second = self._pairs
        at_nodes = 1 / (self.noise_variance + values[:, :, None] * self._panels.nodes)
        weights = (axes[:, first] * axes[:, second]) @ at_nodes  # Σ_l V_jl V_kl/D_il, (s, pairs, nodes)
        projected = (self.targets @ axes).swapaxes(1, 2)
        alpha = axes @ (inverse * projected)  # K⁻¹Y in the eigenbasis of G, (s, n_d, r)
        pulled = matrices[:, size, :size]
        for j, own in enumerate(self._slices):
            pulled[:, own] = alpha[:, j] @ self._cell_vectors[own].T
        if self._unseen is not None:
            pulled += self.rest[self.rows, self.outputs] / self.noise_variance
        for number, (j, k) in enumerate(zip(first, second, strict=True)):
            below, left = self._slices[k], self._slices[j]  # j ≤ k: only what is below the diagonal is read
            block = matrices[:, below, left]
            if self._products is None:
                scaled = self._cell_vectors[below] * weights[:, number, None, :]
                block[:] = scaled @ self._cell_vectors[left].T
            else:
                block[:] = (weights[:, number] @ self._products[number]).reshape(block.shape)
            if j == k and self._unseen is not None:
                block += self._unseen[j]
        largest = self.noise_variance + values.max(axis=1) * float(self.eigenvalues.max(initial=0.0))
        roots, white = lower_roots_and_rows(matrices, 1 / largest)
        logs = np.log(np.diagonal(roots, axis1=1, axis2=2)).sum(axis=1)
        value = 0.5 * (white**2).sum(axis=1) - logs
        return Elimination(roots, white, np.where(np.isfinite(value), value, -np.inf))

    def _cell_moments(self, gone: Elimination) -> Array:
        """Q_i = Σ U_ai (P⁻¹)_cc' U_bi over cells of outputs j and k, (s, nodes, n_d, n_d)."""
        outputs, vectors = self.targets.shape[1], self._cell_vectors
        covariances = inverses(gone.roots)
        result = np.zeros((len(covariances), len(self._panels.nodes), outputs, outputs))
        for number, (j, k) in enumerate(zip(*self._pairs, strict=True)):
            block = covariances[:, self._slices[k], self._slices[j]]
            if self._products is None:
                own = np.einsum("ci,scd,di->si", vectors[self._slices[k]], block, vectors[self._slices[j]])
            else:
                own = block.reshape(len(block), -1) @ self._products[number].T
            result[:, :, j, k] = result[:, :, k, j] = own
        return result

    def explained_by_rows(self, scale: Array) -> Array:
        """What the observed cells of its own row explain of the variance of each missing cell at L, (m,).

        One less its variance given all observed cells over that given those of the other rows. With the
        covariance Σ = P⁻¹ of the missing cells and the precision Q = K⁻¹ of all cells, leaving the observed
        cells A of a row out adds Σ Q_mA (Q_AA − Q_Am Σ Q_mA)⁻¹ Q_Am Σ to it.
        """
        values, axes = np.linalg.eigh(scale)
        sigma, outputs = inverses(self.eliminate(scale).roots)[0], len(scale)
        inverse = 1 / (self.noise_variance + np.outer(values, self.eigenvalues))  # 1/D, (n_d, r)
        along = np.stack([(self.vectors * each) @ self.vectors.T for each in inverse])  # (n_d, k, k)
        with_row = np.diagonal(sigma)
        without = with_row.copy()
        for row in range(len(self.vectors)):
            own = np.flatnonzero(self.rows == row)
            told = np.setdiff1d(np.arange(outputs), self.outputs[own])
            beside = np.einsum("lj,lk,lc->jkc", axes.T, axes.T, along[:, row])  # Q of (row, j) and (c, k)
            if self._unseen is not None:
                beside += np.eye(outputs)[:, :, None] * self.unseen[row] / self.noise_variance
            cross = beside[told][:, self.outputs, self.rows]  # Q_Am, (A, m)
            gained = cross @ sigma
            rest = beside[told][:, told, row] - gained @ cross.T
            without[own] += np.einsum("ac,ac->c", gained[:, own], np.linalg.solve(rest, gained[:, own]))
        return 1 - with_row / without

    # -- the cells, output by output

    @cached_property
    def _slices(self) -> list[slice]:
        """Cells of every output, which are sorted by output."""
        ends = np.searchsorted(self.outputs, np.arange(self.targets.shape[1] + 1))
        return [slice(int(low), int(high)) for low, high in pairwise(ends)]

    @cached_property
    def _pairs(self) -> tuple[IndexArray, IndexArray]:
        """Pairs j ≤ k of outputs with missing cells, (pairs,) each."""
        first, second = np.triu_indices(self.targets.shape[1])
        some = np.bincount(self.outputs, minlength=self.targets.shape[1]) > 0
        both = some[first] & some[second]
        return first[both], second[both]

    @cached_property
    def _cell_vectors(self) -> Array:
        """U_ai of every missing cell, (m, r)."""
        return self.vectors[self.rows]

    @cached_property
    def _unseen(self) -> list[Array] | None:
        """(I − UUᵀ)/τ between the cells of each output, (cells, cells); None where U has all examples."""
        if not self.unseen.any():
            return None
        rows = [self.rows[own] for own in self._slices]
        return [self.unseen[np.ix_(own, own)] / self.noise_variance for own in rows]

    @property
    def _few_cells(self) -> bool:
        """Whether products of all pairs of cells are kept."""
        return len(self.rows) ** 2 * len(self.eigenvalues) <= 2 * _LARGEST

    @cached_property
    def _panels(self) -> ChebyshevPanels:
        """A few g from which functions like 1/(τ + g l) follow at all of them."""
        return chebyshev_panels(self.eigenvalues) if self._few_cells else identity_panels(self.eigenvalues)

    @cached_property
    def _products(self) -> list[Array] | None:
        """U_bi U_ai for cells c' = (b, k), c = (a, j) of every pair j ≤ k, (nodes, m_k m_j) each.

        With these the precisions of many scales are one matrix product for each pair. Sums over examples are
        sums over nodes: U_bi U_ai times what a node weighs at g_i, summed over i. None where they are too
        many.
        """
        if not self._few_cells:
            return None
        vectors, ones = self._cell_vectors, np.ones((len(self.eigenvalues), 1))
        result = []
        for j, k in zip(*self._pairs, strict=True):
            pairs = vectors[self._slices[k], None] * vectors[None, self._slices[j]]
            gathered = self._panels.gathered(pairs.reshape(-1, len(ones)), ones)
            result.append(np.ascontiguousarray(gathered[:, :, 0].T))
        return result

    @cached_property
    def surrogate(self) -> GaussianLikelihood:
        """A likelihood of a complete table that is close to this one, from which proposals are made."""
        return self.surrogate_of(self)

    def surrogate_of(self, exact: ScaleFunction) -> GaussianLikelihood:
        """The same, close to a likelihood that is this one in another form.

        At an estimate L̂ of the scale it has the gradient of the exact likelihood and, nearly, its curvature.
        Of output j, p_j of p examples were observed, and q = min(p_j, r) of the r examples in the eigenbasis
        are known: each is counted μ = Σ q/(r n_d) times, with eigenvalues g' = g s/μ, s the share of cells
        that were observed, so that Σ μ g' = s Σ g. Targets are those that have the mean of the function given
        the observed cells and L̂; then they are mapped linearly, Σ g' u uᵀ with u = (τ + g'L̂)⁻¹y' being what
        the gradient needs.
        """
        tau, (rank, outputs) = self.noise_variance, self.targets.shape
        scale, targets = self.estimate()
        values, axes = np.linalg.eigh(scale)
        known = self.examples - np.bincount(self.outputs, minlength=outputs)
        count = float(np.minimum(np.maximum(known, 1), rank).sum()) / (rank * outputs)
        share = float(np.maximum(known, 1).sum()) / (self.examples * outputs)
        g = self.eigenvalues
        less = g * share / count  # g'
        alpha = np.sqrt(g)[:, None] * (targets @ axes) / (tau + np.outer(g, values))
        rows = np.sqrt(less)[:, None] * values * alpha + tau / np.sqrt(less)[:, None] * alpha  # y', rotated
        pull = rows / (tau + np.outer(less, values))  # u
        own = count * (less[:, None] * pull).T @ pull
        slope = exact.value_and_gradient(values[None], axes[None])[1][0]
        wanted = 2 * axes.T @ slope @ axes + np.diag(
            count * (less[:, None] / (tau + np.outer(less, values))).sum(axis=0)
        )
        pull = pull @ _linear_map(own, wanted)
        rows = math.sqrt(count) * pull * (tau + np.outer(less, values)) @ axes.T
        return replace(self.complete, eigenvalues=less, targets=rows, multiplicity=count, gauss_rule=None)

    def estimate(self, turns: int = _TURNS, smallest: float = _SMALLEST) -> tuple[Array, Array]:
        """L by moments (n_d, n_d), E ỹ_i ỹ_iᵀ = τ I + g_i L, in turns with the completed table (r, n_d).

        What is unknown of the missing cells counts. Eigenvalues of L are at least `smallest` of the largest.
        """
        outputs = self.targets.shape[1]
        scale, targets = np.eye(outputs), self.targets
        for _ in range(turns):
            gone = self.eliminate(scale)
            targets = self.completed(gone.shifts)[0]
            size = float(np.trace(scale)) / outputs
            weights = self.eigenvalues / (self.noise_variance + self.eigenvalues * size) ** 2
            moment = targets.T @ (weights[:, None] * targets) + self._spread(gone, weights)
            moment -= self.noise_variance * float(weights.sum()) * np.eye(outputs)
            values, axes = np.linalg.eigh(moment / float(weights @ self.eigenvalues))
            scale = (axes * np.maximum(values, smallest * max(float(values.max()), 0.0) + 1e-12)) @ axes.T
        return scale, targets

    def _spread(self, gone: Elimination, weights: Array) -> Array:
        """Σ_i w_i cov(ỹ_i) of the missing cells given the others, (n_d, n_d)."""
        covariance = inverses(gone.roots)[0]
        rows = (self.vectors * weights) @ self.vectors.T
        result = np.zeros((self.targets.shape[1],) * 2)
        terms = covariance * rows[np.ix_(self.rows, self.rows)]
        np.add.at(result, (self.outputs[:, None], self.outputs), terms)
        return result

    def completed(self, shifts: Array) -> Array:
        """ỹ of tables with the missing cells shifted by (s, m), (s, r, n_d)."""
        result = np.broadcast_to(self.targets, (len(shifts), *self.targets.shape)).copy()
        for j, own in enumerate(self._slices):
            result[:, :, j] += shifts[:, own] @ self._cell_vectors[own]
        return result


def _linear_map(own: Array, wanted: Array) -> Array:
    """A symmetric A with A own A = wanted, for symmetric matrices (n, n).

    Directions in which `wanted` is not positive, or `own` far smaller, are left nearly as they are.
    """
    floor = _SMALLEST * float(np.trace(own)) / len(own) + np.finfo(float).tiny
    start = own + floor * np.eye(len(own))
    values, axes = np.linalg.eigh(wanted)
    root = (axes * np.sqrt(np.maximum(values, 0.0) + floor)) @ axes.T
    inner, sides = np.linalg.eigh(root @ start @ root)
    return np.asarray(root @ (sides / np.sqrt(inner)) @ sides.T @ root)
