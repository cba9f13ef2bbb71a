"""Tables with missing cells: which targets were observed, and the observed ones as rows of their own.

Rows are those of a `Spectrum`, multiplied by √w where there are weights of rows; missing cells are filled
with numbers that have no effect on any answer. With a level (`centred`) every output has one, of flat prior.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike

from lbnn._base.types import Array, IndexArray, Mask
from lbnn.data.examples import example_vectors
from lbnn.data.spectrum import Spectrum

#: Size of targets, relative to their level or along a direction, that is rounding: a level of a thousand
#: deviations, in units that were changed a few times, has errors of 1e-12.
_DEPENDENT = 1e-11
_BATCHED = 150  # rows of a covariance up to which NumPy's batches are faster (some 0.5 ms each)


@dataclass(frozen=True)
class MissingCells:
    """The cells (a, j) of a table Y (p, n_d) that were not observed.

    Attributes
    ----------
    observed : (p, n_d) of bool
    targets : (p, n_d)
        Y times √w, filled, as the spectrum has it.
    weights : (p,)
        w, ones without weights.
    centred : bool
        Whether each output has a level of flat prior; targets are then less the means of the filled table.
    """

    observed: Mask
    targets: Array
    weights: Array
    centred: bool

    @property
    def count(self) -> int:
        """m, the number of missing cells."""
        return int(np.count_nonzero(~self.observed))

    @cached_property
    def cells(self) -> tuple[IndexArray, IndexArray]:
        """Rows and outputs of the missing cells, sorted by output, (m,) each."""
        outputs, rows = np.nonzero(~self.observed.T)
        return rows, outputs

    def in_units(self, units: Array) -> MissingCells:
        """The same with the outputs divided by units (n_d,)."""
        return replace(self, targets=self.targets / units)

    @cached_property
    def shares(self) -> Array:
        """w over its sum over the observed rows of each output, zero where not observed, (p, n_d)."""
        observed = self.weights[:, None] * self.observed
        return observed / observed.sum(axis=0)

    @property
    def level(self) -> Array:
        """Mean of the filled table, (n_d,), as its levels are given it; zeros without levels."""
        if not self.centred:
            return np.zeros(self.observed.shape[1])
        return np.asarray(np.sqrt(self.weights) @ self.targets / self.weights.sum())

    @property
    def log_jacobian(self) -> float:
        """From densities of observed cells times √w to those of the cells: ½ Σ log w.

        Of the contrasts of each output the level has the weight Σw, which is taken out relative to its rows.
        """
        logs = np.log(self.weights) @ self.observed
        if self.centred:
            totals = self.weights @ self.observed
            logs = logs - np.log(totals / self.observed.sum(axis=0))
        return 0.5 * float(logs.sum())

    @property
    def log_levels(self) -> float:
        """½ Σ_j log(Σ_observed w/Σw): from levels of the whole table to those of the observed rows."""
        if not self.centred:
            return 0.0
        totals = self.weights @ self.observed
        return 0.5 * float(np.log(totals / self.weights.sum()).sum())

    @property
    def examples(self) -> int:
        """Numbers that were observed, less one for every level."""
        return int(self.observed.sum()) - self.centred * self.observed.shape[1]

    def dependent_outputs(self) -> Iterator[tuple[list[int], int, int]]:
        """Outputs whose targets are linearly dependent in the rows that have all of them: these, k and q.

        Of k rows, less one for a level, and rank q < min(k, outputs). Looked at are single outputs, pairs,
        and the outputs that were observed together in some row.
        """
        count = self.observed.shape[1]
        some = {(j,) for j in range(count)} | set(combinations(range(count), 2))
        together = {tuple(np.flatnonzero(row).tolist()) for row in self.observed}
        for outputs in sorted(some | together, key=len):
            here = self.observed[:, outputs].all(axis=1)
            rows = self.targets[here][:, outputs]
            if self.centred and len(rows):
                rows = _without_level(rows, np.sqrt(self.weights[here] / self.weights[here].sum()))
            sizes, whole = (
                np.linalg.norm(rows, axis=0),
                np.linalg.norm(self.targets[here][:, outputs], axis=0),
            )
            rows = np.where(sizes > _DEPENDENT * whole, rows / np.where(sizes > 0, sizes, 1.0), 0.0)
            rank = int(np.linalg.matrix_rank(rows, tol=_DEPENDENT)) if rows.size else 0
            if rank < min(rows.shape):
                yield list(outputs), len(rows), rank

    def features(self, spectrum: Spectrum) -> Array:
        """Features of the rows, whose inner products are the Gram matrix, (p, r)."""
        return example_vectors(spectrum) * np.sqrt(spectrum.eigenvalues)

    def rows(self, spectrum: Spectrum) -> ObservedRows:
        """The observed cells, output by output, each reduced to the span of its features."""
        features, parts = self.features(spectrum), []
        for j in range(self.observed.shape[1]):
            here = np.flatnonzero(self.observed[:, j])
            own, y = features[here], self.targets[here, j]
            if self.centred:
                level = np.sqrt(self.weights[here] / self.weights[here].sum())
                own, y = _without_level(own, level), _without_level(y[:, None], level)[:, 0]
            parts.append(_reduced(own, y))
        return ObservedRows(
            np.concatenate([part[0] for part in parts]),
            np.concatenate([part[1] for part in parts]),
            np.repeat(np.arange(len(parts)), [len(part[1]) for part in parts]),
            sum(part[2] for part in parts),
            smallest_eigenvalue(spectrum),
        )


@dataclass(frozen=True)
class ObservedRows:
    """Observed cells as rows: of output j, features (r) and a target each."""

    features: Array  # (q, r)
    targets: Array  # (q,)
    outputs: IndexArray  # (q,), sorted
    residual: float  # of the targets outside the span of the features of their outputs
    smallest: float  # g with a Gram matrix of at least g I over all examples, less their level

    def floors(self, noise: float, smallest_scales: Array) -> Array:
        """τ + g l, below which no eigenvalue of τ I + G ∘ L over the cells is, for the smallest l of L."""
        return noise + self.smallest * smallest_scales


def smallest_eigenvalue(spectrum: Spectrum) -> float:
    """Of the Gram matrix over all examples; zero where it does not have full rank."""
    return float(spectrum.eigenvalues.min()) if spectrum.rank == spectrum.examples else 0.0


def _without_level(rows: Array, level: Array) -> Array:
    """Rows (k, any) as k − 1 contrasts, by the reflection that takes the level to the first axis."""
    normal = level.copy()
    normal[0] += 1
    normal /= np.linalg.norm(normal)
    return np.asarray((rows - np.outer(normal, 2 * (normal @ rows)))[1:])


def _reduced(features: Array, y: Array) -> tuple[Array, Array, float]:
    """Features (k, r), targets (k,) and ‖rest‖², of at most as many rows k as there are features."""
    if len(y) <= features.shape[1]:
        return features, y, 0.0
    basis, root = np.linalg.qr(features)
    own = basis.T @ y
    rest = y - basis @ own
    return root, own, float(rest @ rest)


def checked_table(Y: ArrayLike, observed: ArrayLike) -> tuple[Array, Mask | None]:
    """Targets (p, n_d) and which of them were observed; None for the mask where all were."""
    table, mask = np.asarray(Y, dtype=float), np.asarray(observed)
    if mask.dtype != bool or mask.shape != table.shape or table.ndim not in (1, 2):
        raise ValueError(
            "observed must be an array of bool with the shape of Y, true where a target was observed, got "
            f"dtype {mask.dtype} and observed.shape={mask.shape} for Y.shape={table.shape}"
        )
    if table.ndim == 1:
        table, mask = table[:, None], mask[:, None]
    if not np.isfinite(table[mask]).all():
        raise ValueError(
            f"observed targets must be finite, got {np.count_nonzero(~np.isfinite(table[mask]))} NaN or "
            "infinite values among them"
        )
    if not mask.any(axis=0).all():
        raise ValueError(
            "every output needs at least one observed target, got none for outputs "
            f"{np.flatnonzero(~mask.any(axis=0)).tolist()}: leave them out"
        )
    if not mask.any(axis=1).all():
        raise ValueError(
            "rows without any target carry no information, got "
            f"{np.count_nonzero(~mask.any(axis=1))} of them: leave them out"
        )
    return table, None if mask.all() else mask


def elimination_is_cheaper(cells: MissingCells, rank: int) -> bool:
    """Whether eliminating the missing cells costs less than a factorisation of the observed ones.

    One gradient takes m² (r n_d + m) operations in the one way and q³ in the other, q = `observed_size`.
    """
    outputs = cells.observed.shape[1]
    return cells.count**2 * (rank * outputs + cells.count) <= observed_size(cells, rank) ** 3


def observed_size(cells: MissingCells, rank: int) -> float:
    """Σ_j min(p_j, r): rows of the covariance of the observed cells, reduced to the span of the features."""
    return float(np.minimum(cells.observed.sum(axis=0) - cells.centred, rank).sum())


def completing_predicts(cells: MissingCells, rank: int) -> bool:
    """Whether predictions complete the table draw by draw: where the observed cells are not few.

    The covariances of few of them are factorised in batches of draws.
    """
    return observed_size(cells, rank) > _BATCHED and elimination_is_cheaper(cells, rank)
