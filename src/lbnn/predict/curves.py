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

from collections.abc import Iterator
from functools import cached_property

import numpy as np

from lbnn._base.arrays import times
from lbnn._base.blocks import PRODUCT_FLOATS, blocks
from lbnn._base.row_curves import RowCurves
from lbnn._base.types import AnyArray, Array, IndexArray
from lbnn.predict.conditional import ConditionalProcess
from lbnn.scale.measure import ScaleMeasure


class AtomCurves:
    """The gains of all atoms of a measure at the nodes of one data set, for noise 0 < τ < inf."""

    def __init__(self, process: ConditionalProcess, measure: ScaleMeasure) -> None:
        self.process, self.measure = process, measure

    @property
    def typical(self) -> float:
        """λ̄, the mean of the scale."""
        return self.measure.typical

    @property
    def rows(self) -> RowCurves:
        """Nodes in log g."""
        return self.process.rows

    @cached_property
    def _known(self) -> tuple[Array, Array]:
        """τ + g λ̄ at the nodes and at the rows."""
        noise = self.process.noise
        return noise + self.rows.nodes * self.typical, noise + self.process.eigenvalues * self.typical

    def _ratio(self, values: Array) -> Array:
        """(τ + g λ̄)/(τ + g l) at the nodes, (m, k, n_d)."""
        noise = self.process.noise
        return self._known[0][:, None] / (noise + self.rows.nodes[:, None] * values[:, None, :])

    def ratio(self, scale: Array) -> Array:
        """(τ + g λ̄)/(τ + g λ) at the nodes, for numbers λ (...) -> (..., k)."""
        return self._known[0] / (self.process.noise + self.rows.nodes * scale[..., None])

    def varying(self, block: slice) -> Array:
        """V diag(n) Vᵀ of some atoms at the nodes, (m, k, n_d, n_d)."""
        values, vectors = (each[block] for each in self.measure.eigen)
        sizes = (values - self.typical)[:, None, :] * self._ratio(values)
        return _in_outputs(sizes, vectors)

    def shrunken(self, block: slice) -> tuple[Array, Array]:
        """f of some atoms at the nodes along the eigenvectors, (m, k, n_d), and the eigenvectors."""
        values, vectors = (each[block] for each in self.measure.eigen)
        return values[:, None, :] * self._ratio(values), vectors

    @cached_property
    def averages(self) -> tuple[Array, Array]:
        """E V diag(n) Vᵀ and E V diag(f) Vᵀ at the nodes, (k, n_d, n_d) each."""
        outputs, nodes = self.process.outputs, len(self.rows.nodes)
        total = np.zeros((2, nodes, outputs * outputs))
        for block in self.blocks():
            values, vectors = (each[block] for each in self.measure.eigen)
            ratio = self.measure.weights[block, None, None] * self._ratio(values)
            squares = np.einsum("sja,ska->sajk", vectors, vectors).reshape(-1, outputs * outputs)
            for number, size in enumerate((values - self.typical, values)):
                weighted = (ratio * size[:, None, :]).transpose(1, 0, 2).reshape(nodes, len(squares))
                total[number] += weighted @ squares
        varying, shrunken = total.reshape(2, nodes, outputs, outputs)
        return varying, shrunken

    def blocks(self, floats_each: int = 0) -> Iterator[slice]:
        """Blocks of atoms for work of so many floats each beside their matrices at the nodes."""
        own = len(self.rows.nodes) * self.process.outputs**2
        return blocks(len(self.measure.weights), max(own, floats_each), PRODUCT_FLOATS)

    @cached_property
    def mean_coefficients(self) -> Array:
        """E M, (r, n_d): √g_i (E gain at g_i) ỹ_i."""
        targets = self.process.targets
        varying = np.einsum("ijk,ik->ij", self.rows.at_rows(self.averages[0]), targets)
        return self._reference + self._varying_weights[:, None] * varying

    @cached_property
    def mean_shrunken(self) -> Array:
        """E V diag_j(s_ij) Vᵀ, (r, n_d, n_d)."""
        factor = self.process.noise / self._known[1]
        return factor[:, None, None] * self.rows.at_rows(self.averages[1])

    @cached_property
    def _reference(self) -> Array:
        """√g λ̄/(τ + g λ̄) ỹ, (r, n_d): M at the scale λ̄ I."""
        gain = np.sqrt(self.process.eigenvalues) * self.typical / self._known[1]
        return gain[:, None] * self.process.targets

    @cached_property
    def _varying_weights(self) -> Array:
        """√g τ/(τ + g λ̄)², (r,)."""
        return np.sqrt(self.process.eigenvalues) * (self.process.noise / self._known[1]) / self._known[1]

    def points(self, explained: AnyArray) -> PointCurves:
        """The same seen from test points Φ (p̂, r)."""
        columns = self._varying_weights[:, None] * self.process.targets
        squares = (self.process.noise / self._known[1])[:, None]
        return PointCurves(
            self,
            times(explained, self._reference),
            self.rows.gathered(explained, columns),
            self.rows.gathered(explained**2, squares)[:, :, 0],
        )


class PointCurves:
    """Means and variances of every atom at test points, from products done once."""

    def __init__(self, curves: AtomCurves, reference: Array, linear: Array, square: Array) -> None:
        self.curves, self.reference = curves, reference  # means at the scale λ̄ I, (p̂, n_d)
        self.linear, self.square = linear, square  # (p̂, k, n_d) and (p̂, k)

    def deviations(self, average: bool) -> Iterator[tuple[slice, Array]]:
        """Means of the atoms less those at λ̄ I, or less their average, in blocks (atoms, p̂, n_d)."""
        points, outputs = self.reference.shape
        flat = self.linear.reshape(points, self.linear.shape[1] * outputs)  # (p̂, k n_d)
        for block in self.curves.blocks(points * outputs):
            varying = self.curves.varying(block)
            if average:
                varying -= self.curves.averages[0]
            atoms = len(varying)
            columns = varying.transpose(1, 2, 0, 3).reshape(flat.shape[1], atoms * outputs)
            yield block, (flat @ columns).reshape(points, atoms, outputs).transpose(1, 0, 2)

    def take(self, rows: IndexArray) -> PointCurves:
        """Some of the points."""
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

    def variances(self, block: slice) -> Array:
        """Σ_i φ_i² (V diag_j(s_ij) Vᵀ)_kk for some atoms, (atoms, p̂, n_d)."""
        shrunken, vectors = self.curves.shrunken(block)
        return (self.square @ shrunken) @ (vectors**2).swapaxes(1, 2)


def curves_of(process: ConditionalProcess, measure: ScaleMeasure) -> AtomCurves:
    """The curves of a process over a measure, made once for all predictions from them."""
    known = vars(process).get("curves")
    if known is None or known.measure is not measure:
        known = vars(process)["curves"] = AtomCurves(process, measure)
    return known


def _in_outputs(sizes: Array, vectors: Array) -> Array:
    """V diag(sizes) Vᵀ: sizes (m, k, n), V (m, n, n) -> (m, k, n, n)."""
    if vectors.shape[1] == 1:
        return sizes[:, :, :, None]
    return (vectors[:, None] * sizes[:, :, None, :]) @ vectors.swapaxes(1, 2)[:, None]
