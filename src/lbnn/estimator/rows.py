"""Rows that occur twice: copies of whole rows, and replicates, which share their inputs only.

Replicates are data, and their likelihood is the ordinary one: they determine the noise. Copies that agree in
every digit are nearly always an accident. Where the inputs distinguish all other rows, the noise would be
learned from the copies alone, and the evidence grows without bound as it goes to zero: there each is counted
once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lbnn._base.arrays import device_of, namespace, take, times, to_numpy
from lbnn._base.blocks import blocks
from lbnn._base.types import AnyArray, Array, IndexArray
from lbnn.data.projection import RANK_TOLERANCE


@dataclass(frozen=True)
class Rows:
    """Which rows are fitted, and which of them stands for each row of the table.

    Attributes
    ----------
    kept : (k,)
        Rows that are counted, in the order of the table.
    stands_for : (p,)
        Position in `kept` of the row that each row of the table is counted as; −1 of rows left out.
    message : str
        What was found; empty where all rows differ.
    """

    kept: IndexArray
    stands_for: IndexArray
    message: str = ""

    @classmethod
    def all(cls, count: int, message: str = "") -> Rows:
        """Every row for itself."""
        return cls(np.arange(count), np.arange(count), message)

    @classmethod
    def weighted(cls, weights: Array) -> Rows:
        """Rows of positive weight, each for itself; those of weight zero have no score (−1)."""
        kept = np.flatnonzero(weights)
        stands_for = np.full(len(weights), -1)
        stands_for[kept] = np.arange(len(kept))
        return cls(kept, stands_for)

    @property
    def dropped(self) -> bool:
        """Whether some rows are not counted."""
        return len(self.kept) < len(self.stands_for)


def distinct_rows(X: AnyArray, Y: Array, linear: bool = True) -> Rows:
    """Rows to be counted, for inputs (p, n0) of any library and targets (p, n_d).

    Features of a kernel that is not `linear` distinguish all points.
    """
    points = _points(X)
    whole = _groups(np.column_stack([points, Y]))
    replicates, copies = len(Y) - _count(points), len(Y) - _count(whole)
    if not replicates:
        return Rows.all(len(Y))
    different = replicates - copies
    found = _said(copies, different)
    if not copies or (linear and _rank(X) < _count(points) - 1):
        return Rows.all(len(Y), found + (_KEPT if copies else ""))
    kept = np.sort(np.unique(whole, return_index=True)[1])
    position = np.empty(_count(whole), int)
    position[whole[kept]] = np.arange(len(kept))
    return Rows(kept, position[whole], found + _COUNTED_ONCE)


_KEPT = "; they count as measurements of their own"
_COUNTED_ONCE = (
    "; copies are counted once, since the noise would be learned from them alone and vanish. If they are "
    "measurements that agree, give beta"
)


def _said(copies: int, different: int) -> str:
    parts = []
    if copies:
        parts.append(
            f"{copies} {'row is a copy' if copies == 1 else 'rows are copies'} of another, targets included"
        )
    if different:
        parts.append(
            f"{different} {'row has' if different == 1 else 'rows have'} the inputs of another, other targets"
        )
    return ", ".join(parts)


def _points(X: AnyArray) -> IndexArray:
    """A number for each row of inputs, the same for equal rows, (p,).

    Rows are compared only where their products with one vector agree up to rounding, so that next to nothing
    leaves a device, and few rows are sorted.
    """
    direction = np.random.default_rng(0).uniform(1.0, 2.0, X.shape[1])
    mark = times(X, direction[:, None])[:, 0]
    size = np.concatenate(  # in blocks of rows: X may take most of the memory
        [
            times(namespace(X).abs(X[some, :]), direction[:, None])[:, 0]
            for some in blocks(X.shape[0], X.shape[1], device_of(X).block_floats)
        ]
    )
    order = np.argsort(mark)
    near = np.diff(mark[order]) <= X.shape[1] * RANK_TOLERANCE * (size[order][1:] + size[order][:-1])
    alike = order[np.append(near, False) | np.append(False, near)]
    result = np.arange(len(mark))
    if len(alike):
        groups = _groups(to_numpy(take(X, alike, axis=0)))
        result[alike] = alike[np.unique(groups, return_index=True)[1]][groups]
    return _groups(result)


def _groups(array: Array | IndexArray) -> IndexArray:
    """A number for each row, the same for equal rows, (p,)."""
    return np.unique(array, axis=0, return_inverse=True)[1].reshape(-1)


def _count(groups: IndexArray) -> int:
    return int(groups.max()) + 1


def _rank(X: AnyArray) -> int:
    """Of the centred inputs."""
    xp = namespace(X)
    return int(xp.linalg.matrix_rank(X - xp.mean(X, axis=0)))
