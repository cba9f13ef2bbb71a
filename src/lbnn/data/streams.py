"""Data in blocks of rows: from iterables and dask arrays, read once or twice, never held as a whole."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial, reduce
from itertools import chain
from typing import Any

import numpy as np

from lbnn._base import check
from lbnn._base.types import Array
from lbnn.data.factor import Factor, Frame, Moments, Refined, RowSet, Triangle

Summarise = Callable[[Array, Array], Any]


class Stream(ABC):
    """Blocks of rows that can be summarised, each by itself."""

    single: bool  # whether Y is one-dimensional
    inputs: int  # n0

    @abstractmethod
    def summary(self, of: Summarise) -> Any:
        """Summaries of all blocks, merged."""

    def moments(self) -> Moments:
        """One pass over the data: means and moments about them."""
        found: Moments = self.summary(Moments.of)
        check.size(found.rows.largest_input, "X")
        check.size(found.rows.largest_target, "Y")
        return found

    def factor(self, moments: Moments, centre: bool) -> Factor:
        """A second pass: CholeskyQR2, or TSQR where the inputs are too close to dependent for it."""
        frame = Frame.of(moments, self.inputs, centre)
        of = partial(_triangle if frame.root is None else Refined.of, frame=frame)
        found: _Reread = self.summary(partial(_Reread.of, of=of))
        moments.rows.require_same(found.rows)
        return found.value.factor() if frame.root is None else found.value.factor(frame)


@dataclass(frozen=True)
class _Reread:
    """A summary of a second pass, and the rows that it has read."""

    value: Any
    rows: RowSet

    @classmethod
    def of(cls, X: Array, Y: Array, of: Summarise) -> _Reread:
        """Of one block X (rows, n0), Y (rows, n_d)."""
        return cls(of(X, Y), RowSet.of(np.hstack([X, Y]), X.shape[1]))

    def merge(self, other: _Reread) -> _Reread:
        """Of both."""
        return _Reread(self.value.merge(other.value), self.rows.merge(other.rows))


def _triangle(X: Array, Y: Array, frame: Frame) -> Triangle:
    """Triangular factor of a centred block X (rows, n0), Y (rows, n_d)."""
    return Triangle.of(*frame.centred(X, Y))


@dataclass(frozen=True)
class Blocks(Stream):
    """Blocks from an iterable, one after the other."""

    read: Callable[[], Iterable[Any]]
    opened: list[Iterator[Any]]  # what the first pass reads: the first block was taken from it, and put back
    single: bool
    inputs: int
    outputs: int

    @classmethod
    def of(cls, chunks: Any, passes: int) -> Blocks:
        """Look at the first block: its sizes are those of all."""
        if not callable(chunks) and not isinstance(chunks, Iterable):
            raise TypeError(
                f"chunks must be an iterable of (X, Y), or a function that gives one, got {chunks!r}"
            )
        if passes > 1 and not callable(chunks) and iter(chunks) is chunks:
            raise ValueError(
                "chunks that are read twice must be a function or a sequence, got an iterator that ends: "
                "pass a function that makes it, or passes=1"
            )
        read = chunks if callable(chunks) else partial(iter, chunks)
        blocks = iter(read())
        first = next(blocks, None)
        return cls(read, [chain([first], blocks)], *_sizes(*_block(first, 1)))

    def summary(self, of: Summarise) -> Any:
        """One block in memory at a time, besides the summaries."""
        found = reduce(_merge, (of(X, Y) for X, Y in self), None)
        if found is None:
            raise ValueError(
                "data that are read twice must have the same rows both times, got none the second time: pass "
                "a function that makes a new iterator at every call"
            )
        return found

    def __iter__(self) -> Iterator[tuple[Array, Array]]:
        """Blocks, checked: X (rows, n0) and Y (rows, n_d)."""
        for number, pair in enumerate(self.opened.pop() if self.opened else self.read(), 1):
            X, Y = _block(pair, number)
            if _sizes(X, Y) != (self.single, self.inputs, self.outputs):
                raise ValueError(
                    f"all chunks must have the columns of the first, {self.inputs} inputs and "
                    f"{self.outputs} outputs, got chunk {number} with X.shape={X.shape}, Y.shape={Y.shape}"
                )
            yield X, Y.reshape(len(X), -1)


def _block(pair: Any, number: int) -> tuple[Array, Array]:
    """One (X, Y), checked."""
    if pair is None and number == 1:
        raise ValueError("chunks must have at least one block (X, Y), got none")
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise ValueError(f"every chunk must be a pair (X, Y), got {type(pair).__name__} as number {number}")
    try:
        X = check.matrix(pair[0], "X")
        columns, single = check.targets(pair[1], len(X))
        _require_no_overflow(X, columns)
    except (TypeError, ValueError) as problem:
        raise type(problem)(f"chunk {number}: {problem}") from problem
    return X, columns[:, 0] if single else columns


def _require_no_overflow(X: Array, Y: Array) -> None:
    """Raise before the squares of a block (rows, n0), (rows, n_d) overflow."""
    for name, block in (("X", X), ("Y", Y)):
        check.size(max(float(np.abs(block).max()), 1.0), name)


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

    def summary(self, of: Summarise) -> Any:
        """Computed by the scheduler that is set: a client's cluster, or threads of this process."""
        from dask.delayed import delayed

        # Not optimised each by itself, so that what X and Y have in common is computed once.
        inputs, targets = (each.to_delayed(optimize_graph=False).ravel() for each in (self.X, self.Y))
        shared = delayed(of, traverse=False)  # a frame is sent once, not with every block
        starts = np.cumsum([0, *self.X.chunks[0]]).tolist()
        parts = [
            delayed(_summarise)(
                X, Y, shared, f"block {number} (rows {starts[number]} to {starts[number + 1] - 1})"
            )
            for number, (X, Y) in enumerate(zip(inputs, targets, strict=True))
        ]
        while len(parts) > 1:
            merged = [delayed(_merge)(*pair) for pair in zip(parts[::2], parts[1::2], strict=False)]
            parts = [*merged, *parts[len(parts) & ~1 :]]
        return parts[0].compute()


def _summarise(X: Any, Y: Any, of: Summarise, name: str) -> Any:
    try:
        inputs = check.matrix(X, "X")
        targets = check.targets(Y, len(inputs))[0]
        _require_no_overflow(inputs, targets)
    except (TypeError, ValueError) as problem:
        raise type(problem)(f"{name}: {problem}") from problem
    return of(inputs, targets)


def _merge(one: Any, other: Any) -> Any:
    return other if one is None else one.merge(other)


def is_dask(array: Any) -> bool:
    """Whether this is a dask array; dask is not imported to find out."""
    return type(array).__module__.startswith("dask.") and hasattr(array, "to_delayed")
