"""How the grid is cut: rectangles of points, one zarr chunk and one task each, a few seconds of work."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

Region = tuple[slice, ...]

#: Seconds that a chunk should take: far above what Dask and zarr cost, far below what one minds to lose.
CHUNK_SECONDS = 4.0
_MOST_POINTS = 20_000


@dataclass(frozen=True)
class Layout:
    """A grid and the shape of its chunks."""

    shape: tuple[int, ...]
    chunk: tuple[int, ...]

    @property
    def grid(self) -> tuple[int, ...]:
        """Number of chunks along each axis."""
        return tuple(math.ceil(n / size) for n, size in zip(self.shape, self.chunk, strict=True))

    @property
    def count(self) -> int:
        """Number of chunks."""
        return math.prod(self.grid)

    def region(self, position: Sequence[int]) -> Region:
        """The points of a chunk."""
        return tuple(
            slice(place * size, min((place + 1) * size, n))
            for place, size, n in zip(position, self.chunk, self.shape, strict=True)
        )

    def positions(self) -> Iterator[tuple[int, ...]]:
        """All chunks, in the order of the grid."""
        return product(*(range(count) for count in self.grid))


def cut(shape: Sequence[int], names: Sequence[str], data_axes: Sequence[str], points: int) -> tuple[int, ...]:
    """The shape of chunks of about so many points: whole families of networks first, then data sets.

    Examples
    --------
    >>> cut((50, 3, 4, 10), ("seed", "examples", "width", "beta"), ("seed", "examples"), points=100)
    (1, 2, 4, 10)
    """
    chunk = dict.fromkeys(names, 1)
    sizes = dict(zip(names, shape, strict=True))
    left = max(1, min(points, _MOST_POINTS))
    others = [name for name in names if name not in data_axes]
    for name in [*reversed(others), *reversed([name for name in names if name in data_axes])]:
        pieces = math.ceil(sizes[name] / max(1, left))
        chunk[name] = math.ceil(sizes[name] / pieces)  # pieces of equal size
        left //= chunk[name]
        if not left:
            break
    return tuple(chunk[name] for name in names)
