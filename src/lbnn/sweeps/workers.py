"""Who computes the chunks: this process, workers on this machine, or any Dask cluster."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from lbnn.sweeps.chunk import FAILED, Chunk, Work, compute
from lbnn.sweeps.plan import compared, provenance
from lbnn.sweeps.store import Position, Store

Counted = Callable[[int, int, int], None]

#: Tasks handed to the scheduler ahead of the workers, for each thread: enough that nobody waits.
_AHEAD = 4

#: What Dask does by default that costs small linear algebra a fifth of its time.
_AS_USUAL: dict[str, object] = {
    # workers hand every freed block back to the system; points use theirs again and again
    "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": None,
    # a profiler stops the interpreter a hundred times a second
    "distributed.worker.profile.enabled": False,
    "distributed.admin.system-monitor.interval": "5s",
}


@dataclass(frozen=True)
class Assignment:
    """What workers have to do, and with which versions."""

    work: Work
    versions: dict[str, str]


def cores() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_here(store: Store, assignment: Assignment, positions: Sequence[Position], count: Counted) -> None:
    """One chunk after the other, in this process."""
    for position in positions:
        count(*_compute_and_write(store, assignment, position))


def run_with(
    client: Any, store: Store, assignment: Assignment, positions: Sequence[Position], count: Counted
) -> None:
    """On a Dask cluster: workers write their chunks themselves and answer with counts.

    A worker that dies is replaced by its nanny and its chunk is computed by another one. A chunk that takes
    worker after worker down with it (Dask allows three) is kept as failed, by this process.
    """
    from distributed import KilledWorker, as_completed

    packed, path = _packed(assignment), os.fspath(store.path.absolute())
    waiting, running = iter(positions), {}

    def submit(count: int) -> list[Any]:
        new = {
            client.submit(_task, path, packed, place, pure=False): place for place in islice(waiting, count)
        }
        running.update(new)
        return list(new)

    queue = as_completed(submit(_AHEAD * max(1, sum(client.nthreads().values()))))
    try:
        for future in queue:
            position = running.pop(future)
            try:
                count(*future.result())
            except KilledWorker as problem:
                count(*_give_up(store, assignment, position, problem))
            queue.update(submit(1))
    finally:
        client.cancel(list(running))


def _packed(assignment: Assignment) -> bytes:
    import cloudpickle

    try:
        return cloudpickle.dumps(assignment)
    except Exception as problem:
        raise TypeError(
            f"functions must be serialisable to be sent to workers, got {type(problem).__name__}: "
            f"{problem}; "
            "define them in a module that workers can import, or use workers=0"
        ) from problem


def _task(path: str, packed: bytes, position: Position) -> tuple[int, int, int]:
    """What a worker does, if it has the versions of the driver."""
    assignment = _unpacked(packed)
    own = _own_versions()
    if own != assignment.versions:
        raise ValueError(
            f"workers must have the versions of the process that started the sweep, {assignment.versions}, "
            f"got {own}"
        )
    return _compute_and_write(_opened(path), assignment, position)


@cache
def _own_versions() -> dict[str, str]:
    return compared(provenance())


@lru_cache(maxsize=4)
def _opened(path: str) -> Store:
    return Store(Path(path))


@lru_cache(maxsize=4)
def _unpacked(packed: bytes) -> Assignment:
    import cloudpickle

    return cloudpickle.loads(packed)


def _compute_and_write(store: Store, assignment: Assignment, position: Position) -> tuple[int, int, int]:
    region = store.region(position)
    chunk = compute(assignment.work, region)
    store.write(region, chunk)
    return chunk.counts()


def _give_up(
    store: Store, assignment: Assignment, position: Position, problem: Exception
) -> tuple[int, int, int]:
    """Keep a chunk as failed."""
    region = store.region(position)
    chunk = Chunk.empty([part.stop - part.start for part in region], assignment.work.variables)
    chunk.status[...] = FAILED
    text = (
        "workers died repeatedly while computing this chunk, perhaps for lack of memory: use smaller chunks"
    )
    chunk.message[...] = np.array(f"{text} ({' '.join(str(problem).split())[:120]})", dtype=object)
    store.write(region, chunk)
    return chunk.counts()


@contextmanager
def local_client(workers: int) -> Iterator[Any]:
    """Worker processes on this machine, each with one thread, also of linear algebra."""
    import dask
    from distributed import Client, LocalCluster

    with (
        dask.config.set(_AS_USUAL),
        LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            processes=True,
            dashboard_address=":0",
            silence_logs=50,
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client
