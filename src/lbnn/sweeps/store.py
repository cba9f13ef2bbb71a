"""A sweep on disk: a zarr store in which every chunk is either finished or to do, whenever it is killed.

A chunk of the grid is one zarr chunk of every variable. Its data are written first and its `status` last:
zarr puts every key in its place by renaming a file, so that a status other than zero says that all of the
chunk is there. The numbers of a chunk follow from its coordinates; to compute it twice writes the same bytes.
`made_with` says for every point which of the store's provenances its chunk was computed with.
"""

from __future__ import annotations

import glob
import json
import os
import re
import shutil
import tempfile
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from lbnn._base.files import TEMPORARY_PREFIX
from lbnn.sweeps.axes import Axes
from lbnn.sweeps.chunk import Chunk, Region
from lbnn.sweeps.integrity import SPECIFICATION, DamagedError, StoreError, seal, update, verified
from lbnn.sweeps.layout import Layout
from lbnn.sweeps.quantities import SweepQuantity

if TYPE_CHECKING:
    import xarray as xr

#: What the numbers of `status` say.
STATUS = {0: "to do", 1: "ok", 2: "warned", 3: "failed"}

_PROVENANCE, _LATER, _CHUNK = "provenance", "later_provenances", "chunk_shape"
_UNFINISHED = ".new-"  # in the name of a store that is being made; eight characters of tempfile follow


_OPENING = threading.Lock()  # held while arrays are opened


class Store:
    """A sweep's zarr store whose metadata and coordinates were verified; workers and driver write to it."""

    def __init__(self, path: Path, mode: Literal["r", "r+"] = "r+") -> None:
        import zarr

        self.path = path
        self.arrays: dict[str, Any] = {}
        attributes = verified(path)
        self.specification = str(attributes[SPECIFICATION])
        self.provenances = [json.loads(attributes[_PROVENANCE]), *json.loads(attributes[_LATER])]
        try:
            self.group = zarr.open_group(os.fspath(path), mode=mode)
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

    def write(self, region: Region, chunk: Chunk, made_with: int) -> None:
        """A chunk's data and the number of its provenance, then its status."""
        try:
            for name, values in chunk.values.items():
                self._array(name)[region] = values
            self._array("message")[region] = chunk.message
            self._array("made_with")[region] = np.full(chunk.status.shape, made_with, np.int16)
            self._array("status")[region] = chunk.status
        except Exception as problem:
            raise StoreError(
                f"{self.path} must be writable, with free space, got {_one_line(problem)}; finished chunks "
                f"are kept, and calling again continues from there"
            ) from problem

    def status(self) -> tuple[np.ndarray[Any, np.dtype[np.int8]], dict[tuple[int, ...], Path]]:
        """The status of every point, zero where it cannot be read, and the files that cannot be."""
        try:
            return np.asarray(self._array("status")[...]), {}
        except Exception:
            found, broken = np.zeros(self.layout.shape, np.int8), {}
            for position in self.layout.positions():
                region = self.layout.region(position)
                try:
                    found[region] = self._array("status")[region]
                except Exception:
                    broken[position] = self._file("status", position)
            return found, broken

    def forget(self, positions: Iterable[tuple[int, ...]]) -> None:
        """Remove the files of chunks that are to be computed again, their status first."""
        for position in positions:
            for name in reversed(self.variables):
                self._file(name, position).unlink(missing_ok=True)

    def add_provenance(self, provenance: dict[str, str]) -> None:
        """One more; chunks that are written with it have its number."""
        self.provenances.append(provenance)
        update(self.path, {_LATER: json.dumps(self.provenances[1:])})

    def lost(self) -> Path | None:
        """A file that a finished chunk lacks; None where all are there. Nothing is read but the status."""
        status, _ = self.status()
        names = self.variables[:-1]
        for position in self.layout.positions():
            if (status[self.layout.region(position)] > 0).all():
                for name in names:
                    if not self._file(name, position).exists():
                        return self._file(name, position)
        return None

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
                if file.exists():
                    self._array(name)[self.layout.region(position)]
                    continue
            except Exception:
                pass
            yield file

    def _file(self, name: str, position: Sequence[int]) -> Path:
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


def create(
    path: Path, axes: Axes, chunk: Sequence[int], quantities: Sequence[SweepQuantity], about: dict[str, Any]
) -> None:
    """Make an empty store: in a folder beside its place, which is then put there in one step."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{path.name}{_UNFINISHED}", dir=path.parent))
    except OSError as problem:
        raise StoreError(f"a store must be in a folder that is writable, got {problem}") from problem
    try:
        temporary.chmod(0o755)
        _fill(temporary, axes, chunk, quantities, about)
        seal(temporary)
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

    group = zarr.create_group(
        os.fspath(folder), attributes={**about, _CHUNK: list(map(int, chunk))}, overwrite=True
    )
    for name, values in axes.values.items():
        _coordinate(group, name, values)
    for name, attributes in _variables(quantities).items():
        _variable(group, name, attributes, axes, chunk)


def repair(path: Path, axes: Axes, quantities: Sequence[SweepQuantity], text: str) -> None:
    """Write metadata and coordinates again that are missing or were altered: the specification gives them."""
    try:
        verified(path)
        return
    except DamagedError as problem:
        damaged = problem.files
    about = json.loads((path / "zarr.json").read_text(encoding="utf-8"))["attributes"]
    if about[SPECIFICATION] != text:
        return  # another sweep's: told by who compares
    temporary = Path(tempfile.mkdtemp(prefix=f".{path.name}{_UNFINISHED}", dir=path.parent))
    try:
        _fill(temporary, axes, about[_CHUNK], quantities, {})
        for name in damaged:
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            os.replace(temporary / name, path / name)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    seal(path, damaged)  # another version of zarr may write the same in other bytes


def remove_leftovers(path: Path) -> None:
    """What a sweep that was killed left behind; the caller holds the lock of the store."""
    unfinished = re.compile(re.escape(f".{path.name}{_UNFINISHED}") + "[a-z0-9_]{8}")
    for each in path.parent.glob(f".{glob.escape(path.name)}{_UNFINISHED}*"):
        if unfinished.fullmatch(each.name):
            shutil.rmtree(each, ignore_errors=True)
    for each in [*path.rglob("*.partial"), *path.glob(f"{TEMPORARY_PREFIX}*")]:
        each.unlink(missing_ok=True)


def _variables(quantities: Sequence[SweepQuantity]) -> dict[str, dict[str, str]]:
    """Attributes of every variable."""
    found: dict[str, dict[str, str]] = {}
    for each in quantities:
        found[each.name] = {"definition": each.definition or each.name, "units": each.units}
        if each.with_error:
            about = f"Monte Carlo standard error of {each.name}; 0 where it is deterministic"
            found[f"{each.name}_error"] = {"definition": about, "units": each.units}
    found["made_with"] = {"definition": "number of the provenance with which the chunk was computed"}
    found["message"] = {"definition": "warnings of the point, or why it failed"}
    found["status"] = {"definition": ", ".join(f"{number} {word}" for number, word in STATUS.items())}
    return found


def _variable(group: Any, name: str, attributes: Any, axes: Axes, chunk: Sequence[int]) -> None:
    from zarr.codecs import Crc32cCodec, ZstdCodec

    kinds = {"status": ("int8", 0), "message": (str, ""), "made_with": ("int16", -1)}
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
    return {SPECIFICATION: specification, _PROVENANCE: json.dumps(provenance), _LATER: "[]"}


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
    kept = Store(place, "r")
    lost = kept.lost()
    if lost is not None:
        raise StoreError(
            f"finished chunks must be there, got none at {lost}: the sweep with retry_failed=True computes "
            "it again"
        )
    try:
        found = xr.open_zarr(os.fspath(place), consolidated=False, chunks={})
    except Exception as problem:
        raise StoreError(f"{place} must be the store of a sweep, got {_one_line(problem)}") from problem
    for name, values in json.loads(kept.specification)["axes"].items():
        if found[name].values.tolist() != values:
            raise StoreError(
                f"coordinates must be those of the specification, got others for {name} in {place}"
            )
    return found[list(found.data_vars)]  # axes in their order, also where zarr lists coordinates first


def _one_line(problem: BaseException) -> str:
    return f"{type(problem).__name__}: {' '.join(str(problem).split())}"
