"""Batched evaluations cut into blocks, so that memory does not grow with the number of rows."""

from __future__ import annotations

from collections.abc import Iterator

#: Number of floats in one block of a batched evaluation: elementwise work stays in the cache, ...
BLOCK_FLOATS = 1 << 17
#: ... matrix products want larger ones.
PRODUCT_FLOATS = 1 << 19


def blocks(count: int, floats_each: int, floats: int | None = None) -> Iterator[slice]:
    """Slices of `count` rows such that a block of them holds at most `floats` floats (BLOCK_FLOATS)."""
    size = max(1, (floats or BLOCK_FLOATS) // max(floats_each, 1))
    return (slice(start, min(start + size, count)) for start in range(0, count, size))
