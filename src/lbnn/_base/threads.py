"""Independent pieces of work on the cores that linear algebra may use.

NumPy releases the interpreter's lock in its loops, so that threads help batches of small matrices, for which
BLAS itself does not. Who has limited the threads of BLAS has limited these as well. Where threadpoolctl is
installed (it comes with scikit-learn) BLAS keeps to one thread in every piece; without it the threads of both
get into each other's way where matrices have a hundred columns and more.
"""

from __future__ import annotations

import contextlib
import contextvars
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, TypeVar

_LIMITS = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS")
_MOST = 8

Piece = TypeVar("Piece")
Result = TypeVar("Result")


def threads() -> int:
    """Threads to use: as many as the environment allows BLAS, else one for every core, at most eight."""
    for name in _LIMITS:
        value = os.environ.get(name, "")
        if value.isdigit() and int(value) > 0:
            return min(int(value), _MOST)
    return min(
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1, _MOST
    )


def on_every_core(work: Callable[[Piece], None], pieces: Iterable[Piece]) -> None:
    """Do the work on all pieces, in any order; the first error that occurs is raised.

    Every piece writes to a place of its own, so that the result does not depend on the number of threads.
    """
    listed = list(pieces)
    count = min(threads(), len(listed))
    if count < 2:
        for piece in listed:
            work(piece)
        return
    controller = _blas()
    alone = contextlib.nullcontext() if controller is None else controller.limit(limits=1, user_api="blas")
    with alone, ThreadPoolExecutor(count) as pool:
        # the settings of numpy.errstate travel in the context
        waiting = [pool.submit(contextvars.copy_context().run, work, piece) for piece in listed]
        for each in waiting:
            each.result()


def one_ahead(work: Callable[[Piece], Result], pieces: Sequence[Piece]) -> Iterator[Result]:
    """The results of the work on pieces, in order; while one is used, another thread makes the next.

    For devices, on which one thread waits for results while the other gives orders.

    Examples
    --------
    >>> list(one_ahead(abs, [-1, 2, -3]))
    [1, 2, 3]
    """
    with ThreadPoolExecutor(1) as pool:
        waiting = None
        for piece in pieces:
            later = pool.submit(contextvars.copy_context().run, work, piece)
            if waiting is not None:
                yield waiting.result()
            waiting = later
        if waiting is not None:
            yield waiting.result()


@cache
def _blas() -> Any | None:
    """The libraries of NumPy and SciPy; None where they cannot be set."""
    try:
        from threadpoolctl import ThreadpoolController
    except ImportError:
        return None
    return ThreadpoolController()
