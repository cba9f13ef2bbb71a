"""A sweep on disk: a zarr store in which every chunk is either finished or to do, whenever it is killed.

A chunk of the grid is one zarr chunk of every variable. Its data are written first and its `status` last:
zarr puts every key in its place by renaming a file, so that a status other than zero says that all of the
chunk is there. The numbers of a chunk follow from its coordinates; to compute it twice writes the same bytes.
Chunks have zarr's own checksums (crc32c); the metadata of the store and of its variables and the coordinates
have one digest, which is checked when a store is opened. What is damaged is refused, not repaired.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from lbnn._base.files import TEMPORARY_PREFIX, text_writer, write_atomically
from lbnn.sweeps.axes import Axes
from lbnn.sweeps.chunk import Chunk, Region
from lbnn.sweeps.quantities import SweepQuantity

if TYPE_CHECKING:
    import xarray as xr

#: What the numbers of `status` say.
STATUS = {0: "to do", 1: "ok", 2: "warned", 3: "failed"}

Position = tuple[int, ...]

_SPECIFICATION, _PROVENANCE, _LATER, _DIGEST = "lbnn_sweep", "provenance", "later_provenances", "digest"
_OPENING = threading.Lock()  # held while arrays are opened


class StoreError(OSError):
    """A store cannot be read or written."""


class Store:
    """A sweep's zarr store, whose metadata and coordinates are as they were written."""

    def __init__(self, path: Path, mode: Literal["r", "r+"] = "r+") -> None:
        import zarr

        self.path = path
        self.arrays: dict[str, Any] = {}
        attributes = _verified(path)["attributes"]
        self.specification: dict[str, Any] = json.loads(attributes[_SPECIFICATION])
        self.provenances = [json.loads(attributes[_PROVENANCE]), *json.loads(attributes[_LATER])]
        self.group = zarr.open_group(os.fspath(path), mode=mode)
        arrays = {file.parent.name for file in path.glob("*/zarr.json")}
        self.variables = sorted(arrays - {*self.specification["axes"]})
        status = self._array("status")
        self.shape, self.chunk = status.shape, status.chunks

    def positions(self) -> Iterator[Position]:
        """All chunks, in the order of the grid."""
        pairs = zip(self.shape, self.chunk, strict=True)
        return product(*(range(math.ceil(n / size)) for n, size in pairs))

    def region(self, position: Position) -> Region:
        """The points of a chunk."""
        return tuple(
            slice(place * size, min((place + 1) * size, n))
            for place, size, n in zip(position, self.chunk, self.shape, strict=True)
        )

    def write(self, region: Region, chunk: Chunk) -> None:
        """A chunk's data, then its status."""
        try:
            for name, values in {**chunk.values, "message": chunk.message, "status": chunk.status}.items():
                self._array(name)[region] = values
        except Exception as problem:
            raise StoreError(
                f"{self.path} must be writable, with free space, got {_one_line(problem)}; finished chunks "
                f"are kept, and calling again continues from there"
            ) from problem

    def finished(self) -> dict[Position, Any]:
        """Status of the points of every finished chunk, all of whose files are there."""
        try:
            status = self._array("status")[...]
        except Exception as problem:  # whatever codecs and checksums raise
            raise StoreError(
                f"the status of {self.path} cannot be read, got {_one_line(problem)}"
            ) from problem
        states = {each: status[self.region(each)] for each in self.positions()}
        found = {each: state for each, state in states.items() if (state > 0).all()}
        for position, name in product(found, self.variables):
            file = self._file(name, position)
            if not file.exists():
                raise StoreError(
                    f"finished chunks must be there, got no {file}: take it from a copy of the store, or "
                    f"remove {self._file('status', position)}, and the sweep computes the chunk again"
                )
        return found

    def forget(self, position: Position) -> None:
        """The chunk is to be computed again."""
        self._file("status", position).unlink(missing_ok=True)

    def add_provenance(self, provenance: dict[str, str]) -> None:
        """One more, with which chunks are computed from here on."""
        self.provenances.append(provenance)
        root = _verified(self.path)
        root["attributes"][_LATER] = json.dumps(self.provenances[1:])
        _seal(self.path, root)

    def _file(self, name: str, position: Position) -> Path:
        return self.path.joinpath(name, "c", *map(str, position))

    def _array(self, name: str) -> Any:
        """Opened once, which takes milliseconds; chunks of nothing but NaN are written, too.

        An array takes this setting when it is opened, from a configuration that all threads share: without
        the lock another sweep could reset it in between, and empty chunks would be missing.
        """
        import zarr

        if name not in self.arrays:
            with _OPENING, zarr.config.set({"array.write_empty_chunks": True}):
                self.arrays[name] = self.group[name]
        return self.arrays[name]


# ---------------------------------------------------------------------- metadata


def _verified(path: Path) -> dict[str, Any]:
    """The metadata of a store that are, with its coordinates, as they were written."""
    file = path / "zarr.json"
    try:
        root: dict[str, Any] = json.loads(file.read_bytes())
        same = root["attributes"][_DIGEST] == _digest(path, root)
    except (OSError, ValueError, RecursionError, LookupError, TypeError) as problem:
        raise StoreError(
            f"{path} must be the store of a sweep with its {file.name}, got {_one_line(problem)}"
        ) from problem
    if not same:
        raise StoreError(
            f"coordinates and metadata ({file}, and the zarr.json of variables) must be as they were "
            "written, got others: take the files from a copy of the store, or compute the sweep again into "
            "another one"
        )
    return root


def _digest(path: Path, root: dict[str, Any]) -> str:
    """Of the store's metadata but the digest itself, of those of all arrays, and of the coordinates."""
    attributes = {name: value for name, value in root["attributes"].items() if name != _DIGEST}
    parts = [json.dumps({**root, "attributes": attributes}, sort_keys=True).encode()]
    axes = json.loads(attributes[_SPECIFICATION])["axes"]
    patterns = ["*/zarr.json", *(f"{name}/c/*" for name in axes)]
    for file in sorted(each for pattern in patterns for each in path.glob(pattern)):
        parts += [file.relative_to(path).as_posix().encode(), file.read_bytes()]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def _seal(path: Path, root: dict[str, Any]) -> None:
    """Write the metadata of the store with their digest, in one step."""
    root["attributes"][_DIGEST] = _digest(path, root)
    write_atomically(path / "zarr.json", text_writer(json.dumps(root, indent=2, ensure_ascii=False)))


def create(
    path: Path,
    axes: Axes,
    chunk: Sequence[int],
    quantities: Sequence[SweepQuantity],
    specification: str,
    provenance: dict[str, str],
) -> None:
    """Make an empty store in a folder beside its place, which is then put there in one step.

    The caller holds the lock of the store.
    """
    about = {_SPECIFICATION: specification, _PROVENANCE: json.dumps(provenance), _LATER: "[]"}
    temporary = _unfinished(path)
    try:
        _fill(temporary, axes, chunk, quantities, about)
        _seal(temporary, json.loads((temporary / "zarr.json").read_bytes()))
        os.replace(temporary, path)
    except OSError as problem:
        raise StoreError(f"a store must be in a folder with free space, got {problem}") from problem
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _fill(
    folder: Path, axes: Axes, chunk: Sequence[int], quantities: Sequence[SweepQuantity], about: dict[str, Any]
) -> None:
    """Metadata and coordinates."""
    import zarr
    from zarr.codecs import Crc32cCodec, ZstdCodec

    group = zarr.create_group(os.fspath(folder), attributes=about, overwrite=True)
    for name, values in axes.values.items():
        plain = np.asarray(values)
        text = plain.dtype.kind in "UT"
        array = group.create_array(
            name, shape=plain.shape, dtype=str if text else plain.dtype, dimension_names=(name,)
        )
        array[...] = plain.astype(object) if text else plain
    kinds: dict[str, tuple[Any, Any]] = {"status": ("int8", 0), "message": (str, "")}
    for name, attributes in _variables(quantities).items():
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


def _variables(quantities: Sequence[SweepQuantity]) -> dict[str, dict[str, Any]]:
    """Attributes of every variable."""
    found: dict[str, dict[str, Any]] = {}
    for each in quantities:
        found[each.name] = {"definition": each.definition or each.name, "units": each.units}
        if each.with_error:
            about = f"Monte Carlo standard error of {each.name}; 0 where it is deterministic"
            found[f"{each.name}_error"] = {"definition": about, "units": each.units}
    found["message"] = {"definition": "warnings of the point, or why it failed"}
    found["status"] = {"definition": ", ".join(f"{number} {word}" for number, word in STATUS.items())}
    return found


def _unfinished(path: Path) -> Path:
    """Where a store is made."""
    return path.with_name(f".{path.name}.new")


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Only one sweep writes to a store; the system lets go of the lock when the process ends, however.

    What a sweep that was killed left behind is removed.
    """
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
        shutil.rmtree(_unfinished(path), ignore_errors=True)
        for each in [*path.rglob("*.partial"), *path.glob(f"{TEMPORARY_PREFIX}*")]:
            each.unlink(missing_ok=True)
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
    >>> found = lbnn.open_sweep(path)
    >>> dict(found.sizes), bool((found.status == 1).all())
    ({'examples': 2, 'width': 2, 'beta': 2}, True)
    >>> folder.cleanup()
    """
    import xarray as xr

    Store(Path(path), "r").finished()
    found = xr.open_zarr(os.fspath(path), consolidated=False, chunks={})
    return found[list(found.data_vars)]  # axes in their order, also where zarr lists coordinates first


def _one_line(problem: BaseException) -> str:
    return f"{type(problem).__name__}: {' '.join(str(problem).split())}"
