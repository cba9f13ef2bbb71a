"""A sweep on disk: a zarr store in which every chunk is either finished or to do, whenever it is killed.

A chunk of the grid is one zarr chunk of every variable. Its data are written first and its `status` last:
zarr puts every key in its place by renaming a file, so that a status other than zero says that all of the
chunk is there. The numbers of a chunk follow from its coordinates; to compute it twice writes the same bytes.
Chunks have zarr's own checksums (crc32c), the metadata of group and variables one digest, which is checked
when a store is opened, and coordinates are compared with the specification. `made_with` says for every point
which of the store's provenances its chunk was computed with.
"""

from __future__ import annotations

import glob
import hashlib
import json
import math
import os
import re
import shutil
import tempfile
import threading
from collections.abc import Iterable, Iterator, Sequence
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
_UNFINISHED = ".new-"  # in the name of a store that is being made; eight characters of tempfile follow
_OPENING = threading.Lock()  # held while arrays are opened


class StoreError(OSError):
    """A store cannot be read or written."""


class Store:
    """A sweep's zarr store whose metadata are as they were written; workers and driver write to it."""

    def __init__(self, path: Path, mode: Literal["r", "r+"] = "r+") -> None:
        import zarr

        self.path = path
        self.arrays: dict[str, Any] = {}
        attributes = _verified(path)
        self.specification: dict[str, Any] = json.loads(attributes[_SPECIFICATION])
        self.provenances = [json.loads(attributes[_PROVENANCE]), *json.loads(attributes[_LATER])]
        self.group = zarr.open_group(os.fspath(path), mode=mode)
        arrays = (file.parent.name for file in path.glob("*/zarr.json"))
        self.variables = sorted(name for name in arrays if name not in self.specification["axes"])
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

    def write(self, region: Region, chunk: Chunk, made_with: int) -> None:
        """A chunk's data and the number of its provenance, then its status."""
        made = np.full(chunk.status.shape, made_with, np.int16)
        parts = {**chunk.values, "message": chunk.message, "made_with": made, "status": chunk.status}
        try:
            for name, values in parts.items():
                self._array(name)[region] = values
        except Exception as problem:
            raise StoreError(
                f"{self.path} must be writable, with free space, got {_one_line(problem)}; finished chunks "
                f"are kept, and calling again continues from there"
            ) from problem

    def survey(self, *, read: bool) -> tuple[dict[Position, Any], dict[Position, Path]]:
        """Status of the points of every finished chunk, and of which a file is missing or damaged.

        Without `read` files are only looked for.
        """
        started = [each for each in self.positions() if self._file("status", each).exists()]
        broken = {each: self._file("status", each) for each in self._unreadable("status", started)}
        states = {each: self._array("status")[self.region(each)] for each in started if each not in broken}
        finished = {each: state for each, state in states.items() if (state > 0).all()}
        for name in self.variables:
            lost = (
                self._unreadable(name, list(finished))
                if read
                else [each for each in finished if not self._file(name, each).exists()]
            )
            broken.update({each: self._file(name, each) for each in lost if each not in broken})
        return finished, broken

    def _unreadable(self, name: str, positions: Sequence[Position]) -> list[Position]:
        """Chunks of a variable whose file is missing or damaged."""
        there = [each for each in positions if self._file(name, each).exists()]
        if len(there) == len(positions) and self._reads(name, (slice(None),) * len(self.shape)):
            return []  # all of them at once
        return [each for each in positions if each not in there or not self._reads(name, self.region(each))]

    def _reads(self, name: str, region: Region) -> bool:
        try:
            self._array(name)[region]
        except Exception:  # whatever codecs and checksums raise
            return False
        return True

    def forget(self, positions: Iterable[Position]) -> None:
        """Remove the files of chunks that are to be computed again, their status first."""
        for position in positions:
            for name in ["status", *self.variables]:
                self._file(name, position).unlink(missing_ok=True)

    def add_provenance(self, provenance: dict[str, str]) -> None:
        """One more; chunks that are written with it have its number."""
        self.provenances.append(provenance)
        root = _root(self.path)
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
    """The attributes of a store whose metadata are as they were written."""
    root = _root(path)
    attributes: dict[str, Any] = root["attributes"]
    if attributes.get(_DIGEST) != _digest(path, root):
        raise StoreError(
            f"metadata of {path} (zarr.json of the store and of its variables) must be as they were "
            "written, got others: take the files from a copy of the store, or compute the sweep again into "
            "another one"
        )
    return attributes


def _root(path: Path) -> dict[str, Any]:
    """The metadata of the group."""
    file = path / "zarr.json"
    try:
        root = json.loads(file.read_bytes())
        is_sweep = isinstance(root["attributes"][_SPECIFICATION], str)
    except OSError as problem:
        raise StoreError(f"{path} must be the store of a sweep, got {problem}") from problem
    except (ValueError, RecursionError, KeyError, TypeError) as problem:
        raise StoreError(
            f"the metadata {file} must be those of a sweep, as they were written, got {_one_line(problem)}"
        ) from problem
    if not is_sweep:
        raise StoreError(f"{path} must be the store of a sweep, got a zarr store of something else")
    return dict(root)


def _digest(path: Path, root: dict[str, Any]) -> str:
    """Of the group's metadata but the digest itself, and of those of all arrays."""
    attributes = {name: value for name, value in root["attributes"].items() if name != _DIGEST}
    parts = [json.dumps({**root, "attributes": attributes}, sort_keys=True).encode()]
    for file in sorted(path.glob("*/zarr.json")):
        parts += [file.parent.name.encode(), file.read_bytes()]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def _seal(path: Path, root: dict[str, Any]) -> None:
    """Write the metadata of the group with their digest, in one step."""
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
    """Make an empty store: in a folder beside its place, which is then put there in one step."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{path.name}{_UNFINISHED}", dir=path.parent))
    except OSError as problem:
        raise StoreError(f"a store must be in a folder that is writable, got {problem}") from problem
    about = {_SPECIFICATION: specification, _PROVENANCE: json.dumps(provenance), _LATER: "[]"}
    try:
        temporary.chmod(0o755)
        _fill(temporary, axes, chunk, quantities, about)
        _seal(temporary, _root(temporary))
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
    kinds: dict[str, tuple[Any, Any]] = {
        "status": ("int8", 0),
        "message": (str, ""),
        "made_with": ("int16", -1),
    }
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
    found["made_with"] = {"definition": "number of the provenance with which the chunk was computed"}
    found["message"] = {"definition": "warnings of the point, or why it failed"}
    found["status"] = {"definition": ", ".join(f"{number} {word}" for number, word in STATUS.items())}
    return found


def remove_leftovers(path: Path) -> None:
    """What a sweep that was killed left behind; the caller holds the lock of the store."""
    unfinished = re.compile(re.escape(f".{path.name}{_UNFINISHED}") + "[a-z0-9_]{8}")
    for each in path.parent.glob(f".{glob.escape(path.name)}{_UNFINISHED}*"):
        if unfinished.fullmatch(each.name):
            shutil.rmtree(each, ignore_errors=True)
    for each in [*path.rglob("*.partial"), *path.glob(f"{TEMPORARY_PREFIX}*")]:
        each.unlink(missing_ok=True)


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
    >>> found = lbnn.open_sweep(path)
    >>> dict(found.sizes), bool((found.status == 1).all())
    ({'examples': 2, 'width': 2, 'beta': 2}, True)
    >>> folder.cleanup()
    """
    import xarray as xr

    place = Path(path)
    kept = Store(place, "r")
    _, lost = kept.survey(read=False)
    if lost:
        raise StoreError(
            f"finished chunks must be there, got none at {next(iter(lost.values()))}: the sweep with "
            "retry_failed=True computes it again"
        )
    try:
        found = xr.open_zarr(os.fspath(place), consolidated=False, chunks={})
    except Exception as problem:
        raise StoreError(f"{place} must be the store of a sweep, got {_one_line(problem)}") from problem
    for name, values in kept.specification["axes"].items():
        if found[name].values.tolist() != values:
            raise StoreError(
                f"coordinates must be those of the specification, got others for {name} in {place}: compute "
                "the sweep again into another store"
            )
    return found[list(found.data_vars)]  # axes in their order, also where zarr lists coordinates first


def _one_line(problem: BaseException) -> str:
    return f"{type(problem).__name__}: {' '.join(str(problem).split())}"
