"""What a law of the scale makes of each direction of the data, as curves in log g.

Means and covariances need, for every direction i of the data and every scale L = V diag(l) Vᵀ,

    gain(g) = V diag_j(l_j / (τ + g l_j)) Vᵀ

at g = g_i: analytic in log g. So it is computed at a few nodes, and averages over atoms are taken there. To
keep digits at every temperature a fixed scale λ̄ is taken out of it:

    l/(τ + g l) = λ̄/(τ + g λ̄) + τ/(τ + g λ̄)² · n(g; l),   n(g; l) = (l − λ̄)(τ + g λ̄)/(τ + g l),

where n is bounded by l and λ̄ and nothing cancels: means vary over the scale through n alone. Variances are
proportional to l, τ l/(τ + g l) = τ/(τ + g λ̄) · f(g; l) with f = l (τ + g λ̄)/(τ + g l).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property

import numpy as np

from lbnn._base.arrays import times
from lbnn._base.blocks import PRODUCT_FLOATS, blocks
from lbnn._base.chebyshev_panels import ChebyshevPanels
from lbnn._base.types import AnyArray, Array, IndexArray, Mask
from lbnn.predict.conditional import ConditionalProcess
from lbnn.scale.measure import ScaleMeasure

_RANGE = 3.0  # of log l
_GRID = 64  # values of l in a range: functions analytic up to ± iπ need 25
_KEPT = 1e-12  # singular values, relative to the largest: far below what draws of the scale can tell
_ROUNDING = 1e-13  # eigenvalues relative to the largest that are zero
_SUM_FLOATS = 1 << 24  # of products that are summed in one multiplication
_WORTH_WHILE = 0.75  # share of the nodes above which another basis saves too little


class AtomCurves:
    """The gains of all atoms of a measure at the nodes of one data set, for noise 0 < τ < inf."""

    def __init__(self, process: ConditionalProcess, measure: ScaleMeasure) -> None:
        self.process, self.measure = process, measure

    @property
    def typical(self) -> float:
        """λ̄, the mean of the scale."""
        return self.measure.typical

    @property
    def rows(self) -> ChebyshevPanels:
        """Nodes in log g."""
        return self.process.rows

    @cached_property
    def _known(self) -> tuple[Array, Array]:
        """τ + g λ̄ at the nodes (k,) and at the rows (r,)."""
        noise_variance = self.process.noise_variance
        return (
            noise_variance + self.rows.nodes * self.typical,
            noise_variance + self.process.eigenvalues * self.typical,
        )

    def _ratio(self, values: Array) -> Array:
        """(τ + g λ̄)/(τ + g l) at the nodes, (m, k, n_d)."""
        noise_variance = self.process.noise_variance
        return self._known[0][:, None] / (noise_variance + self.rows.nodes[:, None] * values[:, None, :])

    def ratio(self, scale: Array) -> Array:
        """(τ + g λ̄)/(τ + g λ) at the nodes, for numbers λ (...) -> (..., k)."""
        return self._known[0] / (self.process.noise_variance + self.rows.nodes * scale[..., None])

    @cached_property
    def basis(self) -> tuple[Array, Array]:
        """(τ + g λ̄)/(τ + g l) at the nodes as B C: B (k, K) for all atoms, coefficients C (m, K, n_d).

        As functions of g these ratios differ little between atoms. Those of a range of three in log l are
        within e^{±1.5} of that at its middle l_c, and combinations of some ten functions, to 1e-12 of each
        value: the singular vectors of (τ + g l_c)/(τ + g l) on a grid of l. Where that saves nothing, nodes
        are the basis.
        """
        values, noise_variance, nodes = self.measure.eigen[0], self.process.noise_variance, self.rows.nodes
        if not len(nodes):  # inputs of zero: there are no functions of g
            return np.eye(0), self._ratio(values)
        parts, size = [], 0
        for centre, inside in _ranges(values):
            grid = centre * np.exp(np.linspace(-_RANGE / 2, _RANGE / 2, _GRID))
            middle = noise_variance + nodes * centre
            left, sizes, _ = np.linalg.svd(middle[:, None] / (noise_variance + np.outer(nodes, grid)))
            left = left[:, : int((sizes > _KEPT * sizes[0]).sum())]
            parts.append((inside, middle, left))
            size += left.shape[1]
        if size > _WORTH_WHILE * len(nodes):
            return np.eye(len(nodes)), self._ratio(values)
        basis, coefficients = np.empty((len(nodes), size)), np.zeros((len(values), size, values.shape[1]))
        start = 0
        for inside, middle, left in parts:
            columns = slice(start, start + left.shape[1])
            start += left.shape[1]
            basis[:, columns] = (self._known[0] / middle)[:, None] * left
            atom, axis = np.nonzero(inside)
            for block in blocks(len(atom), len(nodes)):
                ratio = middle / (noise_variance + values[atom[block], axis[block], None] * nodes)
                coefficients[atom[block], columns, axis[block]] = ratio @ left
        return basis, coefficients

    def varying(self, block: slice) -> Array:
        """V diag(n) Vᵀ of some atoms in the basis, (m, K, n_d, n_d)."""
        values, vectors = (each[block] for each in self.measure.eigen)
        sizes = (values - self.typical)[:, None, :] * self.basis[1][block]
        null = self.null
        if not null:
            return _in_outputs(sizes, vectors)
        alike = sizes[:, :, :1]
        result = _in_outputs(sizes[:, :, null:] - alike, vectors[:, :, null:])
        index = np.arange(self.process.outputs)
        result[:, :, index, index] += alike
        return result

    @cached_property
    def null(self) -> int:
        """Eigenvalues, the first ones, that are zero up to rounding in every atom: layers may be narrow.

        Of V diag(n) Vᵀ these have n in common: it is n_0 I + V diag(n − n_0) Vᵀ over the other directions.
        """
        values = self.measure.eigen[0]
        return int((values <= _ROUNDING * values[:, -1:]).sum(axis=1).min())

    @property
    def narrow(self) -> bool:
        """Whether at most half of the directions are fitted: means then cost less than V diag(n) Vᵀ."""
        return 2 * self.null >= self.process.outputs

    @cached_property
    def mean_varying(self) -> Array:
        """E V diag(n) Vᵀ in the basis, (K, n_d, n_d)."""
        total = np.zeros((self.basis[0].shape[1], self.process.outputs, self.process.outputs))
        for block in self.blocks():
            total += np.tensordot(self.measure.weights[block], self.varying(block), axes=1)
        return total

    def about_mean(self, block: slice, matrix: Array) -> Array:
        """(V diag(n) Vᵀ − E) Aᵀ of some atoms in the basis, (m, K, n_d, outputs)."""
        varying = self.varying(block)
        varying -= self.mean_varying
        square = matrix.shape[0] == matrix.shape[1]
        if square and not (matrix - np.diag(np.diagonal(matrix))).any():
            varying *= np.diagonal(matrix)
            return varying
        return varying @ matrix.T

    def shrunken(self, block: slice) -> Array:
        """f of some atoms in the basis along the eigenvectors, (m, K, n_d)."""
        return self.measure.eigen[0][block, None, :] * self.basis[1][block]

    @cached_property
    def averages(self) -> tuple[Array, Array]:
        """E V diag(n) Vᵀ and E V diag(f) Vᵀ at the nodes, (k, n_d, n_d) each."""
        outputs, nodes, null = self.process.outputs, len(self.rows.nodes), self.null
        total, alike = np.zeros((2, nodes, outputs * outputs)), np.zeros(nodes)
        floats = max(outputs - null, nodes) * outputs**2  # of `squares`, and of what a block is added to
        for block in blocks(len(self.measure.weights), floats, _SUM_FLOATS):
            values, vectors = (each[block] for each in self.measure.eigen)
            ratio = self.measure.weights[block, None, None] * self._ratio(values)
            seen = vectors[:, :, null:]
            squares = np.einsum("sja,ska->sajk", seen, seen).reshape(-1, outputs * outputs)
            for number, size in enumerate((values - self.typical, values)):
                gains = ratio * size[:, None, :]
                if null and number == 0:
                    alike += gains[:, :, 0].sum(axis=0)
                    gains -= gains[:, :, :1]
                weighted = gains[:, :, null:].transpose(1, 0, 2).reshape(nodes, len(squares))
                total[number] += weighted @ squares
        varying, shrunken = total.reshape(2, nodes, outputs, outputs)
        varying[:, np.arange(outputs), np.arange(outputs)] += alike[:, None]
        return varying, shrunken

    def blocks(self, floats_each: int = 0) -> Iterator[slice]:
        """Blocks of atoms for work of so many floats each beside their matrices at the nodes."""
        own = self.basis[0].shape[1] * self.process.outputs**2
        return blocks(len(self.measure.weights), max(own, floats_each), PRODUCT_FLOATS)

    def second_moments(self, matrix: Array) -> Array:
        """Second moments over atoms of the coefficients of means, (k, K n_d, K n_d) for A (k, n_d).

        A mean's deviation in output k of F̂ Aᵀ is Σ over basis and outputs of a point's coefficients times
        (V diag(n) Vᵀ − E) A_k: so its variance over the atoms is a quadratic form of these coefficients.
        """
        size = self.basis[0].shape[1] * self.process.outputs
        total = np.zeros((len(matrix), size, size))
        for block in self.blocks():
            varying = self.about_mean(block, matrix)
            varying *= np.sqrt(self.measure.weights[block])[:, None, None, None]
            columns = varying.reshape(len(varying), size, len(matrix)).transpose(2, 0, 1)
            total += columns.swapaxes(1, 2) @ columns
        return total

    @cached_property
    def mean_coefficients(self) -> Array:
        """E M, (r, n_d): √g_i (E gain at g_i) ỹ_i."""
        rows, outputs = self.process.targets.shape
        if 2 * rows < len(self.rows.nodes) * outputs:  # products of targets, or of matrices at the nodes
            varying = self._mean_varying_targets()
        else:
            varying = np.einsum("ijk,ik->ij", self.rows.at_rows(self.averages[0]), self.process.targets)
        return self._reference + self._varying_weights[:, None] * varying

    def _mean_varying_targets(self) -> Array:
        """E V diag_j(n(g_i; l_j)) Vᵀ ỹ_i, atom by atom, (r, n_d)."""
        targets, eigenvalues, null = self.process.targets, self.process.eigenvalues[:, None, None], self.null
        noise_variance, total = self.process.noise_variance, np.zeros_like(self.process.targets)
        for block in blocks(len(self.measure.weights), 3 * targets.size, PRODUCT_FLOATS):
            values, vectors = (each[block] for each in self.measure.eigen)
            ratio = self._known[1][:, None, None] / (noise_variance + eigenvalues * values)
            sizes = self.measure.weights[block, None] * (values - self.typical) * ratio  # (r, m, n_d)
            if null:
                alike = sizes[:, :, :1]
                total += alike.sum(axis=1) * targets
                sizes = sizes[:, :, null:] - alike
            axes = vectors[:, :, null:].transpose(1, 0, 2).reshape(targets.shape[1], sizes[0].size)
            total += ((targets @ axes) * sizes.reshape(len(targets), sizes[0].size)) @ axes.T
        return total

    def mean_shrunken_along(self, matrix: Array) -> Array:
        """Diagonals of A (E V diag_j(s_ij) Vᵀ) Aᵀ, (r, outputs), for A (outputs, n_d)."""
        nodes, null = len(self.rows.nodes), self.null
        total = np.zeros((nodes, len(matrix)))
        directions = self.process.outputs - null
        for block in blocks(len(self.measure.weights), directions * (nodes + len(matrix)), PRODUCT_FLOATS):
            values, vectors = (each[block, ..., null:] for each in self.measure.eigen)
            gains = self.measure.weights[block, None, None] * values[:, None, :] * self._ratio(values)
            squares = (matrix @ vectors) ** 2  # (m, outputs, directions)
            total += np.tensordot(gains, squares, axes=([0, 2], [0, 2]))
        factor = self.process.noise_variance / self._known[1]
        return factor[:, None] * self.rows.at_rows(total)

    @cached_property
    def mean_shrunken(self) -> Array:
        """E V diag_j(s_ij) Vᵀ, (r, n_d, n_d)."""
        factor = self.process.noise_variance / self._known[1]
        return factor[:, None, None] * self.rows.at_rows(self.averages[1])

    @cached_property
    def _reference(self) -> Array:
        """√g λ̄/(τ + g λ̄) ỹ, (r, n_d): M at the scale λ̄ I."""
        gain = np.sqrt(self.process.eigenvalues) * self.typical / self._known[1]
        return gain[:, None] * self.process.targets

    @cached_property
    def _varying_weights(self) -> Array:
        """√g τ/(τ + g λ̄)², (r,)."""
        return (
            np.sqrt(self.process.eigenvalues)
            * (self.process.noise_variance / self._known[1])
            / self._known[1]
        )

    def points(self, explained: AnyArray) -> PointCurves:
        """The same seen from test points Φ (p̂, r)."""
        columns = self._varying_weights[:, None] * self.process.targets
        squares = (self.process.noise_variance / self._known[1])[:, None]
        return PointCurves(
            self,
            times(explained, self._reference),
            self.rows.gathered(explained, columns),
            self.rows.gathered(explained**2, squares)[:, :, 0],
        )


class PointCurves:
    """Means and variances of every atom at test points, from products done once."""

    def __init__(self, curves: AtomCurves, reference: Array, linear: Array, square: Array) -> None:
        """With means at the scale λ̄ I (p̂, n_d), and coefficients at the nodes (p̂, k, n_d) and (p̂, k)."""
        self.curves, self.reference = curves, reference  # means at the scale λ̄ I, (p̂, n_d)
        self.linear, self.square = linear, square  # at the nodes, (p̂, k, n_d) and (p̂, k)

    @cached_property
    def _in_basis(self) -> tuple[Array, Array]:
        """`linear` (p̂, n_d, K) and `square` (p̂, K) in the basis of the atoms."""
        basis = self.curves.basis[0]
        return self.linear.swapaxes(1, 2) @ basis, self.square @ basis

    def deviations(self, matrix: Array) -> Iterator[tuple[slice, Array]]:
        """Means of the atoms in outputs of F̂ Aᵀ less their average, in blocks (atoms, p̂, outputs)."""
        if self.curves.narrow:
            mean = sum(np.tensordot(self._weights[block], each, axes=1) for block, each in self._varying())
            for block, each in self._varying():
                yield block, (each - mean) @ matrix.T
            return
        flat, outputs = self._flat, len(matrix)
        for block in self.curves.blocks(len(flat) * outputs):
            varying = self.curves.about_mean(block, matrix)
            atoms = len(varying)
            columns = varying.transpose(1, 2, 0, 3).reshape(flat.shape[1], atoms * outputs)
            yield block, (flat @ columns).reshape(len(flat), atoms, outputs).transpose(1, 0, 2)

    @property
    def _weights(self) -> Array:
        """Of the atoms, (m,)."""
        return self.curves.measure.weights

    def _varying(self) -> Iterator[tuple[slice, Array]]:
        """Means of the atoms less those at the scale λ̄ I, in blocks (atoms, p̂, n_d), if layers are narrow.

        Σ_K c_K [n_0K + V diag(n_K − n_0K) Vᵀ] ỹ_K over the few directions whose n differs from n_0.
        """
        linear, null = self._in_basis[0], self.curves.null
        points, outputs, size = linear.shape
        columns = linear.swapaxes(1, 2).reshape(points * size, outputs)
        floats = points * max(size * (outputs - null), outputs)
        for block in blocks(len(self._weights), floats, PRODUCT_FLOATS):
            values, vectors = (each[block] for each in self.curves.measure.eigen)
            sizes = (values - self.curves.typical)[:, None, :] * self.curves.basis[1][block]  # (m, K, n_d)
            alike, axes = sizes[:, :, 0], vectors[:, :, null:]
            side_by_side = axes.transpose(1, 0, 2).reshape(outputs, axes.shape[0] * axes.shape[2])
            turned = (columns @ side_by_side).reshape(points, size, *axes.shape[::2])
            along = np.einsum("pKma,mKa->mpa", turned, sizes[:, :, null:] - alike[:, :, None])
            common = (linear.reshape(points * outputs, size) @ alike.T).reshape(points, outputs, len(alike))
            yield block, along @ axes.swapaxes(1, 2) + common.transpose(2, 0, 1)

    def spread_of_means(self, matrix: Array) -> Array:
        """Variance over the atoms of the means in outputs of F̂ Aᵀ, (p̂, outputs).

        By second moments, at the cost of K n_d points, where there are more points than that.
        """
        points, outputs, size = self._in_basis[0].shape
        result = np.zeros((points, len(matrix)))
        if self.curves.narrow or points < size * outputs:
            for block, deviations in self.deviations(matrix):
                result += np.einsum("s,spk->pk", self._weights[block], deviations**2)
            return result
        flat = self._flat
        for output, moment in enumerate(self.curves.second_moments(matrix)):
            for rows in blocks(len(flat), flat.shape[1], PRODUCT_FLOATS):
                result[rows, output] = np.einsum("pi,pi->p", flat[rows] @ moment, flat[rows])
        return result

    @property
    def _flat(self) -> Array:
        """`linear` in the basis as a matrix, (p̂, K n_d)."""
        linear = self._in_basis[0].swapaxes(1, 2)
        return linear.reshape(len(linear), linear.shape[1] * linear.shape[2])

    def rotated(self) -> Iterator[tuple[slice, Array, Array]]:
        """Means and Σ_i φ_i² s_i along the eigenvectors of atoms, in blocks (atoms, p̂, n_d) each."""
        (linear, square), outputs = self._in_basis, self.curves.process.outputs
        points, _, size = linear.shape
        flat = linear.swapaxes(1, 2).reshape(points * size, outputs)
        values, vectors = self.curves.measure.eigen
        for block in blocks(len(values), points * size * outputs, PRODUCT_FLOATS):
            axes, atoms = vectors[block], values[block]
            coefficients = self.curves.basis[1][block]  # (m, K, n_d)
            side_by_side = axes.transpose(1, 0, 2).reshape(outputs, len(atoms) * outputs)
            turned = (flat @ side_by_side).reshape(points, size, len(atoms), outputs)
            varying = (
                np.einsum("pKma,mKa->mpa", turned, coefficients) * (atoms - self.curves.typical)[:, None]
            )
            yield block, self.reference @ axes + varying, square @ self.curves.shrunken(block)

    def take(self, rows: IndexArray) -> PointCurves:
        """Some of the points, rows (j,)."""
        return PointCurves(self.curves, self.reference[rows], self.linear[rows], self.square[rows])

    def of_numbers(self, scale: Array) -> tuple[Array, Array]:
        """One output: means and Σ_i φ_i² s_i at common scales λ (n,), (p̂, n) each."""
        ratio = self.curves.ratio(scale)  # (n, k)
        mean = self.linear[:, :, 0] @ ((scale - self.curves.typical)[:, None] * ratio).T
        return self.reference + mean, self.square @ (scale[:, None] * ratio).T

    def of_own_numbers(self, rows: IndexArray, scale: Array) -> tuple[Array, Array]:
        """The same of some points, each at scales of its own (m, n), (m, n) each."""
        mean, square = np.empty_like(scale), np.empty_like(scale)
        for block in blocks(len(rows), scale.shape[1] * len(self.curves.rows.nodes)):
            here, numbers = rows[block], scale[block]
            ratio = self.curves.ratio(numbers)  # (m, n, k)
            varying = (ratio @ self.linear[here])[:, :, 0] * (numbers - self.curves.typical)
            mean[block] = self.reference[here] + varying
            square[block] = (ratio @ self.square[here, :, None])[:, :, 0] * numbers
        return mean, square


def curves_of(process: ConditionalProcess, measure: ScaleMeasure) -> AtomCurves:
    """The curves of a process over a measure, made once for all predictions from them."""
    known = vars(process).get("curves")
    if known is None or known.measure is not measure:
        known = vars(process)["curves"] = AtomCurves(process, measure)
    return known


def _ranges(values: Array) -> Iterator[tuple[float, Mask]]:
    """Middles of ranges of log l that hold all eigenvalues (m, n_d), and which of these are in each.

    Eigenvalues below e⁻²³⁰ of the largest count as that: their ratios are those of zero.
    """
    with np.errstate(divide="ignore"):
        logs = np.maximum(np.log(values), math.log(float(values.max())) - 230.0)
    number = np.floor((logs - logs.min()) / _RANGE).astype(int)
    for each in np.unique(number):
        yield math.exp(float(logs.min()) + (each + 0.5) * _RANGE), number == each


def _in_outputs(sizes: Array, vectors: Array) -> Array:
    """V diag(sizes) Vᵀ: sizes (m, k, n), V (m, n, n) -> (m, k, n, n)."""
    if vectors.shape[1] == 1:
        return sizes[:, :, :, None]
    return (vectors[:, None] * sizes[:, :, None, :]) @ vectors.swapaxes(1, 2)[:, None]
