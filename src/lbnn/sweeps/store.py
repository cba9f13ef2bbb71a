"""A sweep on disk: a zarr store in which every chunk is either finished or to do, whenever it is killed.

A chunk of the grid is one zarr chunk of every variable. Its data are written first and its `status` last:
zarr puts every key in its place by renaming a file, so that a status other than zero says that all of the
chunk is there. The numbers of a chunk follow from its coordinates; to compute it twice writes the same bytes.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lbnn.sweeps.axes import Axes
from lbnn.sweeps.chunk import Chunk, Region
from lbnn.sweeps.layout import Layout
from lbnn.sweeps.quantities import Quantity

if TYPE_CHECKING:
    import xarray as xr

#: What the numbers of `status` say.
STATUS = {0: "to do", 1: "ok", 2: "warned", 3: "failed"}

_SPECIFICATION = "lbnn_sweep"


class StoreError(OSError):
    """A store cannot be read or written."""


class Store:
    """A sweep's zarr store, opened for writing by workers and by the driver."""

    def __init__(self, path: Path) -> None:
        import zarr

        self.path = path
        self.arrays: dict[str, Any] = {}
        try:
            self.group = zarr.open_group(os.fspath(path), mode="r+")
            self.specification = str(self.group.attrs[_SPECIFICATION])
        except Exception as problem:
            raise StoreError(f"{path} must be the store of a sweep, got {_one_line(problem)}") from problem

    @property
    def layout(self) -> Layout:
        """The grid and its chunks."""
        status = self._array("status")
        return Layout(status.shape, status.chunks)

    @property
    def variables(self) -> list[str]:
        """All arrays over the grid, status last."""
        names = [name for name, each in self.group.arrays() if each.ndim and "definition" in each.attrs]
        return [*sorted(name for name in names if name != "status"), "status"]

    def write(self, region: Region, chunk: Chunk) -> None:
        """A chunk's data, then its status."""
        try:
            for name, values in chunk.values.items():
                self._array(name)[region] = values
            self._array("message")[region] = chunk.message
            self._array("status")[region] = chunk.status
        except Exception as problem:
            raise StoreError(
                f"{self.path} must be writable and have room, got {_one_line(problem)}; what is finished is "
                "kept, and calling again goes on from there"
            ) from problem

    def status(self) -> np.ndarray[Any, np.dtype[np.int8]]:
        """The status of every point."""
        try:
            return np.asarray(self._array("status")[...])
        except Exception as problem:
            files = ", ".join(str(file) for file in self._broken_files("status", self.layout.positions()))
            raise StoreError(
                f"the status of the store must be readable, got a broken chunk, {files}; move it away to "
                "compute its points again"
            ) from problem

    def broken(self, positions: Sequence[tuple[int, ...]]) -> dict[tuple[int, ...], Path]:
        """Those of some finished chunks of which a file is missing or cannot be read."""
        found: dict[tuple[int, ...], Path] = {}
        for name in self.variables[:-1]:
            if self._all_readable(name, positions):
                continue
            for position in positions:
                for file in self._broken_files(name, [position]):
                    found.setdefault(position, file)
        return found

    def _all_readable(self, name: str, positions: Sequence[tuple[int, ...]]) -> bool:
        if not all(self._file(name, position).exists() for position in positions):
            return False
        try:
            self._array(name)[...]
        except Exception:
            return False
        return True

    def _broken_files(self, name: str, positions: Any) -> Iterator[Path]:
        for position in positions:
            file = self._file(name, position)
            try:
                if name == "status" or file.exists():
                    self._array(name)[self.layout.region(position)]
                    continue
            except Exception:
                pass
            yield file

    def _file(self, name: str, position: Sequence[int]) -> Path:
        return self.path.joinpath(name, "c", *map(str, position))

    def _array(self, name: str) -> Any:
        """Opened once, which takes milliseconds; chunks of nothing but NaN are written, too."""
        import zarr

        if name not in self.arrays:
            with zarr.config.set({"array.write_empty_chunks": True}):
                self.arrays[name] = self.group[name]
        return self.arrays[name]


def create(
    path: Path, axes: Axes, chunk: Sequence[int], quantities: Sequence[Quantity], about: dict[str, Any]
) -> None:
    """Make an empty store: in a folder beside its place, which is then put there in one step."""
    import zarr

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{path.name}-", dir=path.parent))
    except OSError as problem:
        raise StoreError(f"a store must be in a folder that is writable, got {problem}") from problem
    try:
        temporary.chmod(0o755)
        group = zarr.create_group(os.fspath(temporary), attributes=about, overwrite=True)
        for name, values in axes.values.items():
            _coordinate(group, name, values)
        for name, attributes in _variables(quantities).items():
            _variable(group, name, attributes, axes, chunk)
        os.replace(temporary, path)
    except OSError as problem:
        raise StoreError(f"a store must be in a folder with room, got {problem}") from problem
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _variables(quantities: Sequence[Quantity]) -> dict[str, dict[str, str]]:
    """Attributes of every variable."""
    found: dict[str, dict[str, str]] = {}
    for each in quantities:
        found[each.name] = {"definition": each.definition or each.name, "units": each.units}
        if each.with_error:
            about = f"Monte Carlo standard error of {each.name}; 0 where it is deterministic"
            found[f"{each.name}_error"] = {"definition": about, "units": each.units}
    found["message"] = {"definition": "warnings of the point, or why it failed"}
    found["status"] = {"definition": ", ".join(f"{number} {word}" for number, word in STATUS.items())}
    return found


def _variable(group: Any, name: str, attributes: Any, axes: Axes, chunk: Sequence[int]) -> None:
    from zarr.codecs import Crc32cCodec, ZstdCodec

    kinds = {"status": ("int8", 0), "message": (str, "")}
    kind, fill = kinds.get(name, ("float64", np.nan))
    group.create_array(
        name,
        shape=axes.shape,
        chunks=tuple(chunk),
        dtype=kind,
        fill_value=fill,
        compressors=(ZstdCodec(level=3), Crc32cCodec()),
        dimension_names=axes.names,
        attributes=attributes,
    )


def _coordinate(group: Any, name: str, values: Sequence[Any]) -> None:
    plain = np.asarray(values)
    text = plain.dtype.kind in "UT"
    array = group.create_array(
        name, shape=plain.shape, dtype=str if text else plain.dtype, dimension_names=(name,)
    )
    array[...] = plain.astype(object) if text else plain


def attributes(specification: str, provenance: dict[str, str]) -> dict[str, Any]:
    """Attributes of the dataset."""
    return {_SPECIFICATION: specification, "provenance": json.dumps(provenance)}


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Only one sweep writes to a store; the system lets go of the lock when the process ends, however."""
    import locket

    file = path.with_name(f".{path.name}.lock")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        lock = locket.lock_file(os.fspath(file), timeout=0)
        lock.acquire()
    except locket.LockError as problem:
        raise StoreError(
            f"only one sweep can write to {path}, and another one does: wait for it, or stop it"
        ) from problem
    except OSError as problem:
        raise StoreError(f"a store must be in a folder that is writable, got {problem}") from problem
    try:
        yield
    finally:
        lock.release()


def open_sweep(path: str | os.PathLike[str]) -> xr.Dataset:
    """Open the store of a sweep, finished or not, for reading.

    Returns
    -------
    xarray.Dataset
        Lazily read: variables over the axes, `status` and `message` of every point; the definition and units
        of each in its attributes, the specification and provenance in the dataset's.

    Examples
    --------
    >>> import tempfile, pathlib, numpy as np, lbnn
    >>> def problem(rng, examples):
    ...     return rng.normal(size=(examples, 9)), rng.normal(size=examples)
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = pathlib.Path(folder.name) / "run.zarr"
    >>> axes = {"examples": [4, 6], "width": [5, 50], "beta": [1.0, 10.0]}
    >>> made = lbnn.sweep(axes, data=problem, network=lambda width: lbnn.Network((width,)),
    ...                   quantities=("log_evidence",), store=path, progress=False)
    >>> found = lbnn.sweeps.open_sweep(path)
    >>> dict(found.sizes), bool((found.status == 1).all())
    ({'examples': 2, 'width': 2, 'beta': 2}, True)
    >>> folder.cleanup()
    """
    import xarray as xr

    place = Path(path)
    try:
        found = xr.open_zarr(os.fspath(place), consolidated=False, chunks={})
    except Exception as problem:
        raise StoreError(f"{place} must be the store of a sweep, got {_one_line(problem)}") from problem
    if _SPECIFICATION not in found.attrs:
        raise StoreError(f"{place} must be the store of a sweep, got a zarr store of something else")
    return found


def _one_line(problem: BaseException) -> str:
    return f"{type(problem).__name__}: {' '.join(str(problem).split())}"
