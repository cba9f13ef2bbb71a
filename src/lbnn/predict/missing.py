"""Predictions from a table with missing cells, given draws of the scale.

Two ways to the same Gaussians. `CompletedProcess` completes the table: given L the missing cells are Gaussian
with the precision P = (K⁻¹)_mm, predictions are those of the complete table at their mean, and what is
unknown of them adds G P⁻¹ Gᵀ to the covariance, G the derivative of a prediction in the missing cells.
`ObservedProcess` takes the observed cells alone, by dense algebra. Each output may have a level b_j of flat
prior: it is the mean of its (observed or completed) targets less that of the function.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy import linalg

from lbnn._base.arrays import to_numpy
from lbnn._base.blocks import blocks
from lbnn._base.small_matrices import lower_roots
from lbnn._base.types import Array, IndexArray
from lbnn.data.missing import MissingCells, ObservedRows
from lbnn.data.projection import Projection
from lbnn.likelihood.missing import PartialLikelihood
from lbnn.likelihood.views import CellDesign, ViewLikelihood
from lbnn.predict.conditional import ConditionalProcess
from lbnn.predict.dense_part import DensePart
from lbnn.predict.left_over import cancelled, left_over, root_of
from lbnn.scale.measure import Law

_LARGEST = 1 << 26  # floats that factors of all draws may fill
_WORK = 2e9  # operations that factorisations may take: half a second for each of the models of an average
_FEWEST_ATOMS, _MOST_ATOMS = 128, 1024  # to which draws are thinned


class TableProcess(ABC):
    """The Gaussian process given some draws of the scale, for one table with missing cells."""

    scales: Array  # (m, n_d, n_d)

    @property
    @abstractmethod
    def rank(self) -> int:
        """Directions r of the training rows."""

    @abstractmethod
    def without_levels(self) -> TableProcess:
        """The same for differences of the function between points, in which levels cancel."""

    @abstractmethod
    def means(self, explained: Array) -> Array:
        """At test points Φ (p̂, r) given each draw, (m, p̂, n_d)."""

    @abstractmethod
    def joint(self, explained: Array, unexplained: Array, number: int) -> Array:
        """Covariance over points and outputs, (p̂ n_d, p̂ n_d), given one draw; R (p̂, p̂)."""

    @abstractmethod
    def at_points(self, explained: Array, unexplained: Array) -> Array:
        """Covariances across outputs at single points given each draw, (m, p̂, n_d, n_d); diag R (p̂,)."""


def table_part(
    process: TableProcess,
    projection: Projection,
    weights: Array,
    groups: IndexArray | None,
    noise: tuple[float, float],
    law: Law | None,
    extended: Callable[[AddedRow], ViewLikelihood] | None = None,
) -> DensePart:
    """Projected test points, from draws with weights and groups (m,), and noise of τ I + ν L.

    The law is the one behind the draws; `extended` is the likelihood of the data and one more row.
    """
    explained = to_numpy(projection.explained)
    private = process.rank - explained.shape[1]  # inputs of single training rows, which no test point has
    explained = np.pad(explained, ((0, 0), (0, private)))

    def covariances(rows: IndexArray) -> Array:
        """Of some points (k,) given each draw, (m, k, n_d, n_d)."""
        return process.at_points(explained[rows], projection.unexplained_diagonal[rows])

    def joint(number: int) -> Array:
        """Over points and outputs given one draw, (k, k), k = p̂ n_d."""
        return process.joint(explained, to_numpy(projection.unexplained_gram), number)

    def with_point(point: int, values: Array, variance: float, coupling: float) -> ViewLikelihood:
        """And values (n_d,) at one point; noise that passes through the network is an input of its own."""
        assert extended is not None
        own = float(projection.unexplained_diagonal[point]) + coupling
        return extended(AddedRow(explained[point], own, values, variance))

    return DensePart(
        weights,
        process.means(explained),
        covariances,
        joint,
        process.scales,
        noise,
        groups,
        law,
        None if extended is None else with_point,
    )


@dataclass(frozen=True)
class AddedRow:
    """A row that a table is extended by: all outputs at one point."""

    explained: Array  # Φ, (r,)
    unexplained: float  # R
    targets: Array  # (n_d,)
    noise: float  # noise variance


def most_draws(size: int, effective: float) -> int:
    """How many draws are kept where each takes a factorisation of this size.

    At most four times as many as are effective: systematic resampling then adds little to their error.
    """
    allowed = min(int(_WORK / (float(size) ** 3 + 1e4)), _LARGEST // max(size, 1) ** 2)
    return int(min(max(_FEWEST_ATOMS, min(allowed, 4 * effective)), _MOST_ATOMS))


@dataclass(frozen=True)
class CompletedProcess(TableProcess):
    """From the complete table and the missing cells given the others."""

    likelihood: PartialLikelihood
    shares: Array  # of every row that lacks cells in the level of its outputs, (k,); zeros without
    level: Array  # of the filled table, (n_d,)
    level_variance: float  # of the level given the complete table
    scales: Array

    @property
    def rank(self) -> int:
        return len(self.likelihood.eigenvalues)

    def without_levels(self) -> CompletedProcess:
        none = np.zeros_like(self.shares)
        result = replace(self, shares=none, level=np.zeros_like(self.level), level_variance=0.0)
        vars(result).update(_eigen=self._eigen, _gone=self._gone)  # which do not depend on levels
        return result

    @cached_property
    def _eigen(self) -> tuple[Array, Array]:
        """Eigenvalues (m, n_d) and eigenvectors (m, n_d, n_d) of the scales."""
        values, vectors = np.linalg.eigh(self.scales)
        return np.maximum(values, 0.0), np.asarray(vectors, float)

    @cached_property
    def _gone(self) -> tuple[Array, Array]:
        """Roots R (s, m, m) of the precisions of the missing cells, and their mean shifts (s, m)."""
        count, size = len(self.scales), len(self.likelihood.rows)
        roots, shifts = np.empty((count, size, size)), np.empty((count, size))
        for block, gone in self.likelihood.eliminations(*self._eigen):
            roots[block], shifts[block] = gone.roots, gone.shifts
        return roots, shifts

    def means(self, explained: Array) -> Array:
        own, result = self.likelihood, np.empty((len(self.scales), len(explained), self.scales.shape[1]))
        for number, (values, axes) in enumerate(zip(*self._eigen, strict=True)):
            shift = self._gone[1][number]
            targets = own.completed(shift[None])[0]
            process = ConditionalProcess(own.eigenvalues, targets, own.noise_variance)
            rotated = process.rotated_mean(values[None], axes[None])[0]
            level = self.level.copy()
            np.add.at(level, own.outputs, self.shares[own.rows] * shift)
            result[number] = explained @ (rotated @ axes.T) + level
        return result

    def _derivative(self, explained: Array, number: int) -> Array:
        """Of predictions in the missing cells, (p̂, n_d, m).

        Σ_l V_jl V_kl Σ_i φ_i √g_i l_l/D_il U_ai for the cell (a, k), and its share in the level of output k.
        """
        own, values, axes = self.likelihood, self._eigen[0][number], self._eigen[1][number]
        gain = (
            np.sqrt(own.eigenvalues)[:, None]
            * values
            / (own.noise_variance + np.outer(own.eigenvalues, values))
        )
        along = axes[own.outputs]  # (m, n_d)
        result = np.zeros((len(explained), len(values), len(own.rows)))
        for axis in range(len(values)):
            seen = (explained * gain[:, axis]) @ own.vectors.T  # (p̂, k)
            result += axes[:, axis][:, None] * (seen[:, own.rows] * along[:, axis])[:, None, :]
        result[:, own.outputs, np.arange(len(own.rows))] += self.shares[own.rows]
        return result

    def at_points(self, explained: Array, unexplained: Array) -> Array:
        outputs = self.scales.shape[1]
        result = np.empty((len(self.scales), len(explained), outputs, outputs))
        for number, (values, axes) in enumerate(zip(*self._eigen, strict=True)):
            spread = unexplained[:, None] * values + explained**2 @ self._left(values)  # (p̂, n_d)
            base = (axes * spread[:, None, :]) @ axes.T + self.level_variance * np.eye(outputs)
            white = self._whitened(explained, number)  # (m, p̂, n_d)
            result[number] = base + np.einsum("cpj,cpk->pjk", white, white, optimize=True)
        return result

    def _left(self, values: Array) -> Array:
        """τ l/(τ + g l), what the noise leaves of the scale along each direction, (r, n_d)."""
        noise = self.likelihood.noise_variance
        return np.asarray(noise * values / (noise + np.outer(self.likelihood.eigenvalues, values)))

    def _whitened(self, explained: Array, number: int) -> Array:
        """R⁻¹Gᵀ, (m, p̂, n_d)."""
        derivative = self._derivative(explained, number)
        flat = derivative.reshape(-1, derivative.shape[2]).T
        solved = linalg.solve_triangular(self._gone[0][number], flat, lower=True, check_finite=False)
        return np.asarray(solved.reshape(-1, *derivative.shape[:2]))

    def joint(self, explained: Array, unexplained: Array, number: int) -> Array:
        values, axes = self._eigen[0][number], self._eigen[1][number]
        points, outputs = len(explained), len(values)
        left = self._left(values)
        total = np.kron(unexplained, self.scales[number])
        total += np.kron(np.full((points, points), self.level_variance), np.eye(outputs))
        for axis in range(outputs):
            along = (explained * left[:, axis]) @ explained.T
            total += np.kron(along, np.outer(axes[:, axis], axes[:, axis]))
        white = self._whitened(explained, number).reshape(-1, points * outputs)
        return np.asarray(total + white.T @ white)


@dataclass(frozen=True)
class ObservedProcess(TableProcess):
    """From the observed cells alone."""

    rows: ObservedRows
    noise: float
    centres: Array  # mean features of the observed rows of each output, (n_d, r); zeros without a level
    levels: Array  # mean targets of the observed rows of each output, (n_d,)
    level_variances: Array  # (n_d,)
    scales: Array

    @property
    def rank(self) -> int:
        return self.rows.features.shape[1]

    def without_levels(self) -> ObservedProcess:
        none = np.zeros_like(self.levels)
        result = replace(self, centres=np.zeros_like(self.centres), levels=none, level_variances=none)
        vars(result)["_whitening"] = self._whitening  # which does not depend on levels
        return result

    @classmethod
    def of(
        cls, cells: MissingCells, rows: ObservedRows, features: Array, noise: float, scales: Array
    ) -> ObservedProcess:
        """For a table whose rows have these features (p, r)."""
        outputs = cells.observed.shape[1]
        if not cells.centred:
            nothing = np.zeros((outputs, features.shape[1]))
            return cls(rows, noise, nothing, np.zeros(outputs), np.zeros(outputs), scales)
        plain = 1 / np.sqrt(cells.weights)[:, None]  # rows were multiplied by √w
        totals = cells.weights @ cells.observed
        levels = (cells.shares * cells.targets * plain).sum(axis=0)
        return cls(rows, noise, cells.shares.T @ (features * plain), levels, noise / totals, scales)

    def extended(self, row: AddedRow, examples: int, log_jacobian: float) -> ViewLikelihood:
        """The likelihood of the observed cells, so many less levels, and of one more row.

        The level of output j is the mean of its observed cells, independent of their contrasts: the cell of
        the new row, less this mean, has the features Φ − c_j and the noise of both.
        """
        old, outputs = self.rows, len(self.levels)
        features = np.pad(old.features, ((0, 0), (0, 1)))
        new = np.column_stack([row.explained - self.centres, np.full(outputs, math.sqrt(row.unexplained))])
        rows, cells = np.concatenate([features, new]), np.append(old.outputs, np.arange(outputs))
        targets = np.append(old.targets, row.targets - self.levels)
        noise = np.append(np.full(len(old.targets), self.noise), row.noise + self.level_variances)
        order = np.argsort(cells, kind="stable")
        rows = rows[order]
        return ViewLikelihood(
            CellDesign(rows @ rows.T, cells[order], outputs),
            targets[order],
            old.residual,
            examples + outputs,
            self.noise,
            log_jacobian,
            row_noise=noise[order],
        )

    @cached_property
    def _whitening(self) -> Array:
        """R⁻¹ with R Rᵀ the covariance of the observed cells, (m, q, q)."""
        gram, j = self.rows.features @ self.rows.features.T, self.rows.outputs
        floors = self.rows.floors(self.noise, np.asarray(np.linalg.eigvalsh(self.scales)[:, 0], float))
        result = np.empty((len(self.scales), *gram.shape))
        for block in blocks(len(result), gram.size):
            covariances = gram * self.scales[block][:, j[:, None], j]
            covariances[:, np.arange(len(gram)), np.arange(len(gram))] += self.noise
            result[block] = np.linalg.inv(lower_roots(covariances, floors[block]))
        return result

    def means(self, explained: Array) -> Array:
        rows = self.rows
        white = self._whitening @ rows.targets  # (m, q)
        alpha = (white[:, None, :] @ self._whitening)[:, 0]
        weights = (self.scales[:, :, rows.outputs] * alpha[:, None, :]) @ rows.features  # (m, n_d, r)
        shift = self.levels - (self.centres * weights).sum(axis=2)
        return np.asarray(explained @ weights.swapaxes(1, 2) + shift[:, None, :])

    def _cross(self, explained: Array, draws: slice) -> Array:
        """R⁻¹k̂ᵀ of test cells given some draws, (k, q, p̂, n_d)."""
        rows, scales = self.rows, self.scales[draws]
        seen = rows.features @ explained.T  # (q, p̂)
        own = rows.features @ self.centres.T  # (q, n_d)
        cross = scales[:, rows.outputs][:, :, None, :] * (seen[:, :, None] - own[:, None, :])
        flat = cross.reshape(*cross.shape[:2], -1)
        return np.asarray((self._whitening[draws] @ flat).reshape(cross.shape))

    def at_points(self, explained: Array, unexplained: Array) -> Array:
        outputs = self.scales.shape[1]
        result = np.empty((len(self.scales), len(explained), outputs, outputs))
        shifted = explained[:, None, :] - self.centres  # (p̂, n_d, r)
        inner = shifted @ shifted.swapaxes(1, 2) + unexplained[:, None, None]
        levels = np.diag(self.level_variances)
        for block in blocks(len(result), 2 * len(self.rows.targets) * len(explained) * outputs):
            white = self._cross(explained, block).transpose(0, 2, 3, 1)  # (k, p̂, n_d, q)
            prior = self.scales[block, None] * inner
            result[block] = prior - white @ white.swapaxes(2, 3)
            few = cancelled(*(np.diagonal(each, axis1=2, axis2=3) for each in (result[block], prior)))
            for number, point in np.argwhere(few.any(axis=2)):
                own = shifted[point : point + 1], unexplained[point].reshape(1, 1)
                result[block][number, point] = self._left_over(*own, self.scales[block][number])
        return result + levels

    def _left_over(self, shifted: Array, unexplained: Array, scale: Array) -> Array:
        """Covariance (k n_d, k n_d) as a sum of positive terms, from features (k, n_d, r) less levels."""
        root, rows = root_of(scale), self.rows
        own, test = rows.features[:, :, None] * root[rows.outputs, None], shifted[..., None] * root[:, None]
        explained = left_over(own.reshape(len(own), -1), test.reshape(-1, own[0].size), self.noise)
        return np.asarray(explained + np.kron(unexplained, scale))

    def joint(self, explained: Array, unexplained: Array, number: int) -> Array:
        points, outputs = len(explained), self.scales.shape[1]
        shifted = (explained[:, None, :] - self.centres).reshape(points * outputs, -1)
        whole = np.tile(self.scales[number], (points, points))
        prior = whole * (shifted @ shifted.T + np.kron(unexplained, np.ones((outputs, outputs))))
        white = self._cross(explained, slice(number, number + 1)).reshape(-1, points * outputs)
        result = np.asarray(prior - white.T @ white)
        if cancelled(np.diagonal(result), np.diagonal(prior)).any():
            result = self._left_over(shifted.reshape(points, outputs, -1), unexplained, self.scales[number])
        return result + np.kron(np.ones((points, points)), np.diag(self.level_variances))
