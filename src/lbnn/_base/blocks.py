"""Batched evaluations cut into blocks, so that memory does not grow with the number of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from lbnn._base.arrays import device_of, namespace
from lbnn._base.types import AnyArray

#: Number of floats in one block of a batched evaluation: elementwise work stays in the cache, ...
BLOCK_FLOATS = 1 << 17
#: ... matrix products want larger ones.
PRODUCT_FLOATS = 1 << 19


def blocks(count: int, floats_each: int, floats: int | None = None) -> Iterator[slice]:
    """Slices of `count` rows such that a block of them holds at most `floats` floats (BLOCK_FLOATS)."""
    size = max(1, (floats or BLOCK_FLOATS) // max(floats_each, 1))
    return (slice(start, min(start + size, count)) for start in range(0, count, size))


def in_blocks(
    function: Callable[..., tuple[AnyArray, ...]], floats_each: int, *batches: AnyArray
) -> tuple[AnyArray, ...]:
    """The results of a function of batches (m, ...), in blocks of the size that suits their device."""
    xp, count = namespace(batches[0]), batches[0].shape[0]
    parts = [
        function(*(batch[block, ...] for batch in batches))
        for block in blocks(count, floats_each, device_of(batches[0]).block_floats)
    ]
    return parts[0] if len(parts) == 1 else tuple(xp.concat(list(each)) for each in zip(*parts, strict=True))
