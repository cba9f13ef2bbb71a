"""Data in blocks of rows, read once: the triangle R of [1 X Y] = QR, from blocks that are merged (TSQR).

R has the same moments as the data, (n0 + n_d + 1)² numbers for any number of rows, and keeps the digits that
XᵀX loses: singular values of X are known to rounding of the largest one, so that directions count down to a
condition of 1e15. The column of ones comes first, so that the first row of R holds the number of rows and the
means, and the rows below are the triangle of the data about their means.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from lbnn._base import check
from lbnn._base.types import Array
from lbnn.data.decomposition import rest_of_targets, singular_vectors

#: Rows gathered before a decomposition, for each column: the triangle before then adds a quarter to them at
#: most. 100,000 rows × 50 columns in blocks of 20 rows took 0.20 s with 1, 0.13 s with 4, 0.17 s with 16.
GATHERED = 4


@dataclass(frozen=True)
class Factor:
    """X = QR: R (k, n0), the targets QᵀY (k, n_d), and rows with the moments of Y − QQᵀY."""

    root: Array
    targets: Array
    outside: Array

    def decomposed(self, examples: int) -> tuple[Array, Array, Array, Array]:
        """Eigenvalues of XᵀX/n0 (r,), ascending, their vectors (n0, r), ỹ (r, n_d), and rows of the rest.

        From the singular values of R; targets along those that count as zero belong to the rest.
        """
        dimension = self.root.shape[1]
        values, left, right = singular_vectors(self.root, max(dimension, examples))
        rest = np.vstack([self.outside, rest_of_targets(self.targets, left)])
        return values**2 / dimension, right, left.T @ self.targets, rest


@dataclass(frozen=True)
class Triangle:
    """R of [1 X Y], (k, 1 + n0 + n_d), with k at most the number of columns, of so many rows."""

    root: Array
    inputs: int
    count: int

    @classmethod
    def of(cls, X: Array, Y: Array) -> Triangle:
        """Of one block X (rows, n0), Y (rows, n_d)."""
        return cls(_triangular(np.hstack([np.ones((len(X), 1)), X, Y])), X.shape[1], len(X))

    def merge(self, other: Triangle) -> Triangle:
        """R of the two stacked."""
        root = _triangular(np.vstack([self.root, other.root]))
        return Triangle(root, self.inputs, self.count + other.count)

    @property
    def means(self) -> Array:
        """Means of the columns of [X Y], (n0 + n_d,)."""
        return self.root[0, 1:] / self.root[0, 0]

    def about(self, centre: bool) -> Array:
        """R of [X Y] about their means, or about zero, (k, n0 + n_d)."""
        return self.root[1:, 1:] if centre else _triangular(self.root[:, 1:])

    def deviations(self, centre: bool) -> Array:
        """Root mean squares of the columns of [X Y] about their means, or about zero, (n0 + n_d,)."""
        return np.linalg.norm(self.root[int(centre) :, 1:], axis=0) / np.sqrt(self.count)

    def factor(self, centre: bool) -> Factor:
        """Cut at the last input: R of X, QᵀY and, below, rows of the rest's moments."""
        rows = self.about(centre)
        top, below = rows[: self.inputs], rows[self.inputs :]
        return Factor(top[:, : self.inputs], top[:, self.inputs :], below[:, self.inputs :])


def _triangular(rows: Array) -> Array:
    """R of the QR decomposition of rows (m, n), (min(m, n), n)."""
    return np.asarray(np.linalg.qr(rows, mode="r"), float)


class Stream(ABC):
    """Blocks of rows of one data set."""

    single: bool  # whether Y is one-dimensional
    inputs: int  # n0

    def triangle(self) -> Triangle:
        """Of all rows, in one pass."""
        found = self._triangle()
        check.size(float(np.abs(found.root[:, 1 : 1 + self.inputs]).max()), "X")
        check.size(float(np.abs(found.root[:, 1 + self.inputs :]).max()), "Y")
        return found

    @abstractmethod
    def _triangle(self) -> Triangle:
        """Blocks are checked; the size of all data is not."""


@dataclass(frozen=True)
class Blocks(Stream):
    """Blocks from an iterable, one after the other."""

    blocks: Iterator[Any]
    single: bool
    inputs: int
    outputs: int

    @classmethod
    def of(cls, chunks: Any) -> Blocks:
        """Look at the first block: its sizes are those of all."""
        if not callable(chunks) and not isinstance(chunks, Iterable):
            raise TypeError(
                f"chunks must be an iterable of (X, Y), or a function that gives one, got {chunks!r}"
            )
        blocks = iter(chunks() if callable(chunks) else chunks)
        first = next(blocks, None)
        return cls(chain([first], blocks), *_sizes(*_block(first, 1)))

    def _triangle(self) -> Triangle:
        """In memory that does not depend on the number of rows, as long as that of a block does not."""
        found: Triangle | None = None
        gathered: list[tuple[Array, Array]] = []
        enough = GATHERED * (1 + self.inputs + self.outputs)
        for block in self._checked():
            gathered.append(block)
            if sum(len(X) for X, _ in gathered) >= enough:
                found, gathered = _with(found, gathered), []
        found = _with(found, gathered) if gathered else found
        assert found is not None  # there is a first block
        return found

    def _checked(self) -> Iterator[tuple[Array, Array]]:
        """Blocks X (rows, n0) and Y (rows, n_d)."""
        for number, pair in enumerate(self.blocks, 1):
            X, Y = _block(pair, number)
            if _sizes(X, Y) != (self.single, self.inputs, self.outputs):
                raise ValueError(
                    f"all chunks must have the columns of the first, {self.inputs} inputs and "
                    f"{self.outputs} outputs, got chunk {number} with X.shape={X.shape}, Y.shape={Y.shape}"
                )
            yield X, Y.reshape(len(X), -1)


def _with(found: Triangle | None, gathered: list[tuple[Array, Array]]) -> Triangle:
    """The triangle of the rows before, if there are any, and of those gathered since."""
    own = Triangle.of(np.vstack([X for X, _ in gathered]), np.vstack([Y for _, Y in gathered]))
    return own if found is None else found.merge(own)


def _block(pair: Any, number: int) -> tuple[Array, Array]:
    """One (X, Y), checked."""
    if pair is None and number == 1:
        raise ValueError("chunks must have at least one block (X, Y), got none")
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise ValueError(f"every chunk must be a pair (X, Y), got {type(pair).__name__} as number {number}")
    X, Y = pair
    X, columns, single = _checked_pair(X, Y, f"chunk {number}")
    return X, columns[:, 0] if single else columns


def _checked_pair(X: Any, Y: Any, name: str) -> tuple[Array, Array, bool]:
    """X (rows, n0), Y (rows, n_d), whose squares do not overflow, and whether Y was (rows,)."""
    try:
        inputs = check.matrix(X, "X")
        targets, single = check.targets(Y, len(inputs))
        for which, block in (("X", inputs), ("Y", targets)):
            check.size(max(float(np.abs(block).max()), 1.0), which)
    except (TypeError, ValueError) as problem:
        raise type(problem)(f"{name}: {problem}") from problem
    return inputs, targets, single


def _sizes(X: Array, Y: Array) -> tuple[bool, int, int]:
    """Whether Y was (rows,), n0 and n_d of a block X (rows, n0)."""
    return Y.ndim == 1, X.shape[1], 1 if Y.ndim == 1 else Y.shape[1]


@dataclass(frozen=True)
class DaskBlocks(Stream):
    """Blocks of rows of dask arrays, summarised where they are and merged as a tree."""

    X: Any
    Y: Any
    single: bool
    inputs: int

    @classmethod
    def of(cls, X: Any, Y: Any) -> DaskBlocks:
        """Two arrays with the same rows; the columns of a block come together."""
        import dask.array as da

        if X.ndim != 2 or np.isnan(sum(X.shape)):
            raise ValueError(
                "X must be a two-dimensional dask array with known sizes of its chunks, got "
                f"X.shape={X.shape}: call compute_chunk_sizes() first"
            )
        Y = Y if is_dask(Y) else da.from_array(np.asarray(Y, float))
        if Y.ndim not in (1, 2) or Y.shape[0] != X.shape[0]:
            raise ValueError(
                f"Y must have shape (p,) or (p, outputs) with p = {X.shape[0]} examples, got {Y.shape}"
            )
        X = X.rechunk({1: -1})
        Y = Y.rechunk({0: X.chunks[0]} | ({1: -1} if Y.ndim == 2 else {}))
        return cls(X, Y, Y.ndim == 1, X.shape[1])

    def _triangle(self) -> Triangle:
        """Computed by the scheduler that is set: a client's cluster, or threads of this process."""
        from dask.delayed import delayed

        # Not optimised each by itself, so that what X and Y have in common is computed once.
        inputs, targets = (each.to_delayed(optimize_graph=False).ravel() for each in (self.X, self.Y))
        starts = np.cumsum([0, *self.X.chunks[0]]).tolist()
        parts = [
            delayed(_triangle_of)(X, Y, f"block {number} (rows {start} to {end - 1})")
            for number, (X, Y, start, end) in enumerate(
                zip(inputs, targets, starts[:-1], starts[1:], strict=True)
            )
        ]
        while len(parts) > 1:
            merged = [delayed(Triangle.merge)(*pair) for pair in zip(parts[::2], parts[1::2], strict=False)]
            parts = [*merged, *parts[len(parts) & ~1 :]]
        return parts[0].compute()


def _triangle_of(X: Any, Y: Any, name: str) -> Triangle:
    """Of one block of dask arrays."""
    inputs, targets, _ = _checked_pair(X, Y, name)
    return Triangle.of(inputs, targets)


def is_dask(array: Any) -> bool:
    """Whether this is a dask array; dask is not imported to find out."""
    return type(array).__module__.startswith("dask.") and hasattr(array, "to_delayed")
