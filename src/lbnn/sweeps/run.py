"""`lbnn.sweep`: the exact answer over a grid of data sets, networks and temperatures."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from lbnn._base.extras import needed
from lbnn._base.progress import Progress
from lbnn._base.warn import warn
from lbnn.network import TARGET_ERROR
from lbnn.sweeps.chunk import FAILED
from lbnn.sweeps.plan import chunk_shape, compared, differences, plan, provenance, seconds_per_point
from lbnn.sweeps.store import Position, Store, create, locked, open_sweep
from lbnn.sweeps.workers import Assignment, Counted, cores, local_client, run_here, run_with

if TYPE_CHECKING:
    import xarray as xr

_EXTRA = ("dask", "distributed", "locket", "threadpoolctl", "xarray", "zarr")
_WORTH_A_CLUSTER = 20.0  # seconds of work on one core: worker processes take two to start


def sweep(
    axes: Mapping[str, Sequence[Any]],
    *,
    data: Callable[..., Any],
    network: Callable[..., Any],
    quantities: Sequence[Any],
    store: str | os.PathLike[str],
    beta: Any = None,
    noise: str = "independent",
    target_error: float = TARGET_ERROR,
    seed: int = 0,
    chunks: Mapping[str, int] | None = None,
    client: Any = None,
    workers: int | None = None,
    retry_failed: bool = False,
    mixed_versions: bool = False,
    progress: bool = True,
) -> xr.Dataset:
    """Compute quantities of posteriors over a grid, into a store; calling again resumes.

    Parameters
    ----------
    axes : mapping of names to sequences
        Numbers, strings or booleans. Which function takes an axis follows from the names of its parameters.
    data : function of axes -> X, Y or X, Y, X_test, Y_test
        Or an `lbnn.Spectrum`. Called once for every combination of the axes that it names, with their values;
        a parameter named rng is a `numpy.random.Generator` whose seed follows from those. All networks of one
        data set share its eigendecomposition.
    network : function of axes -> Network
        Or any model with `condition_spectrum(spectrum, beta)`, such as `lbnn.ScaleMixture`.
    quantities : sequence of str, functions and `lbnn.SweepQuantity`
        Names are those of `lbnn.sweeps.QUANTITIES`, and THEORY:QUANTITY_error for limit theories.
    store : path
        A folder, usually *.zarr; on several machines, one that all of them can reach.
    beta : float or function of axes -> float, optional
        The inverse temperature where it is no axis of that name.
    noise, target_error
        As in `Network.condition`.
    seed : int
        With the coordinates it gives the seed of every point, so that answers do not depend on workers, on
        the order of work or on interruptions.
    chunks : mapping of axes to int, optional
        Points of a chunk along each axis, 1 along those not named; by default chunks take a few seconds.
    client : distributed.Client, optional
        A Dask cluster. By default worker processes on this machine, or none for little work, with Dask's
        limits of memory.
    workers : int, optional
        Number of these processes; 0 for none: everything in this process.
    retry_failed : bool
        Whether chunks with failed points are computed again.
    mixed_versions : bool
        Whether a store may be continued with other code of lbnn or other versions of NumPy, SciPy or BLAS
        than it was begun with; its attributes then name all of them.
    progress : bool
        Whether to show how far it is, on a terminal.

    Returns
    -------
    xarray.Dataset
        As `lbnn.open_sweep` gives it.

    Raises
    ------
    ValueError
        For axes that no function takes, and a store of another specification or other versions.
    OSError
        For a store that cannot be written, is damaged, or that another sweep writes to.

    Examples
    --------
    >>> import tempfile, numpy as np, lbnn
    >>> def problem(rng, examples):
    ...     X = rng.normal(size=(examples + 50, 30))
    ...     y = X @ rng.normal(size=30) / 5
    ...     return X[:examples], y[:examples], X[examples:], y[examples:]
    >>> folder = tempfile.TemporaryDirectory()
    >>> found = lbnn.sweep({"examples": [10, 20], "depth": [2, 3], "beta": [1.0, 100.0]}, data=problem,
    ...     network=lambda depth: lbnn.Network((20,) * (depth - 1)), quantities=["test_error"],
    ...     store=folder.name + "/run.zarr", progress=False)
    >>> bool((found.test_error.sel(examples=20) < found.test_error.sel(examples=10)).all())
    True
    >>> folder.cleanup()
    """
    absent = [name for name in _EXTRA if find_spec(name) is None]
    if absent:
        raise ImportError(needed("lbnn.sweep", ", ".join(absent), "scale"))
    work, text = plan(
        axes, data, network, quantities, beta, noise=noise, target_error=target_error, seed=seed
    )
    place, specification = Path(store), json.loads(text)
    # a finished store is only read: it is not locked, and may be where nothing can be written
    if not place.exists() or _to_do(_opened(place, specification, "r"), retry_failed):
        with locked(place):
            here, seconds = provenance(), seconds_per_point(work)
            if not place.exists():
                create(place, work.axes, chunk_shape(work, chunks, seconds), work.quantities, text, here)
            kept = _opened(place, specification)
            _record(kept, here, mixed_versions)
            todo = _to_do(kept, retry_failed)
            for position in todo:
                kept.forget(position)
            line, count = _progress(kept, todo, progress)
            try:
                _run(kept, Assignment(work, compared(here)), todo, count, client, workers, seconds)
            finally:
                line.close()
    found = open_sweep(place)
    _warn_of_failures(found, place)
    return found


def _opened(place: Path, specification: dict[str, Any], mode: Literal["r", "r+"] = "r+") -> Store:
    """The store, if it is of this sweep."""
    kept = Store(place, mode)
    told = differences(kept.specification, specification)
    if told:
        raise ValueError(
            f"{place} must be a store of this sweep, got one of another: {told}. Use another store, or "
            "remove this one"
        )
    return kept


def _record(kept: Store, here: dict[str, str], mixed_versions: bool) -> None:
    """Note what the store is continued with; other versions than before have to be allowed."""
    known = [compared(each) for each in kept.provenances]
    if compared(here) in known:
        return
    if not mixed_versions:
        raise ValueError(
            f"{kept.path} must be continued with what it was begun with, got other versions: "
            f"{differences(known[0], compared(here))}. Use those versions, or give "
            f"mixed_versions=True: the attributes of the store then name both"
        )
    kept.add_provenance(here)


def _to_do(kept: Store, retry_failed: bool) -> list[Position]:
    """Chunks that are not finished; on request those that have failed points, too."""
    finished = kept.finished()
    done = {each for each, state in finished.items() if not (retry_failed and (state == FAILED).any())}
    return [each for each in kept.positions() if each not in done]


def _run(
    kept: Store,
    assignment: Assignment,
    todo: Sequence[Position],
    count: Counted,
    client: Any,
    workers: int | None,
    seconds: float,
) -> None:
    """Compute chunks here, on worker processes of this machine, or on the client's cluster."""
    if workers is None:  # processes are worth their start where there is enough to do
        worth = _points(kept, todo) * seconds > _WORTH_A_CLUSTER
        workers = min(cores(), len(todo)) if worth else 0
        workers *= workers > 1
    if client is not None:
        run_with(client, kept, assignment, todo, count)
    elif not workers:
        run_here(kept, assignment, todo, count)
    else:
        with local_client(workers) as local:
            run_with(local, kept, assignment, todo, count)


def _progress(kept: Store, todo: Sequence[Position], wanted: bool) -> tuple[Progress, Counted]:
    """A line, and the function that counts points that are ok, warned and failed into it."""
    line, total = Progress(), int(np.prod(kept.shape))
    sums = np.array([total - _points(kept, todo), 0, 0])

    def count(*more: int) -> None:
        sums[:] += more
        if wanted:
            line.say(f"{sums.sum():,} of {total:,} points, {sums[1]:,} warned, {sums[2]:,} failed")

    return line, count


def _points(kept: Store, positions: Sequence[Position]) -> int:
    """Number of points in some chunks."""
    regions = (kept.region(position) for position in positions)
    return sum(int(np.prod([part.stop - part.start for part in region])) for region in regions)


def _warn_of_failures(found: xr.Dataset, place: Path) -> None:
    """Warn of points that failed, with the first message."""
    failed = np.asarray(found.status) == FAILED
    if failed.any():
        first = str(np.asarray(found.message)[failed][0])
        warn(
            f"{int(failed.sum())} of {failed.size} points failed, the first with: {first} (see the variables "
            f"status and message of {place}; retry_failed=True computes them again)",
            UserWarning,
        )
