"""Draws in files, for those who work in R, Julia or Stan: CSV, Parquet and netCDF."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lbnn._base.types import Array
from lbnn.benchmark.adaptors.arviz import from_arviz
from lbnn.benchmark.adaptors.calls import checked
from lbnn.benchmark.task import Task

FORMATS = (".csv", ".parquet", ".nc")
_WEIGHT = re.compile(r"z[.\[_]?(\d+)\]?")  # z.1 (CmdStan), z[1] (posterior, MCMCChains), z_1, z1
_CHAIN = ("chain", ".chain", "chain__", "chain_id")


def from_files(task: Task, paths: Sequence[str | Path], chains: int | None = None) -> Array:
    r"""Draws (chains, draws, dimension) of one file for all chains, or one for each.

    Parameters
    ----------
    task : Task
    paths : sequence of paths
        CSV or Parquet with a column for each weight, z.1 or z[1] and so on, a line for each draw, and a
        column `chain` (or `.chain`) where one file holds several; lines that begin with # are comments, as
        in CmdStan's files. Or netCDF with the variable z of ArviZ.
    chains : int, optional
        Number of chains in one file without a column that numbers them: they stand one after the other.

    Examples
    --------
    >>> import lbnn, pathlib, tempfile
    >>> task = lbnn.benchmark.load("plain-15")
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = pathlib.Path(folder.name) / "draws.csv"
    >>> names = ",".join(f"z.{number}" for number in range(1, 16))
    >>> rows = [",".join(map(str, z)) for z in task.reference(40, seed=0)]
    >>> _ = path.write_text("\n".join([names, *rows]))
    >>> lbnn.benchmark.adaptors.from_files(task, [path], chains=4).shape
    (4, 10, 15)
    >>> folder.cleanup()
    """
    files = [Path(path) for path in paths]
    if not files:
        raise ValueError("draws must be in at least one file, got none")
    parts = [part for file in files for part in _parts(task, file)]
    if chains is not None:
        if len(parts) > 1:
            raise ValueError(f"chains must be left out with one file for each, got {len(parts)} files")
        count = len(parts[0])
        if not 1 <= chains <= count or count % chains:
            raise ValueError(f"{count} draws must divide into the chains, got {chains}")
        parts = list(parts[0].reshape(chains, count // chains, -1))
    lengths = {len(part) for part in parts}
    if len(lengths) > 1:
        raise ValueError(f"chains must have the same number of draws, got {sorted(lengths)}")
    return checked("from_files", task, np.stack(parts))


def _parts(task: Task, file: Path) -> list[Array]:
    """The chains of a file, (draws, dimension) each."""
    if file.suffix not in FORMATS:
        raise ValueError(f"draws must be in a file {', '.join(FORMATS)}, got {file}")
    if not file.is_file():
        raise ValueError(f"draws must be in a file that exists, got {file}")
    if file.suffix == ".nc":
        return list(_netcdf(task, file))
    frame = _frame(file)
    weights = _weights(task, file, list(frame.columns))
    values = frame[weights].to_numpy(dtype=float, na_value=np.nan)
    chain = next((name for name in frame.columns if str(name).lower() in _CHAIN), None)
    if chain is None:
        return [values]
    labels = frame[chain].to_numpy()
    return [values[labels == label] for label in dict.fromkeys(labels.tolist())]


def _frame(file: Path) -> Any:
    import pandas as pd

    try:
        return pd.read_csv(file, comment="#") if file.suffix == ".csv" else pd.read_parquet(file)
    except Exception as problem:  # pandas and pyarrow have many
        raise ValueError(f"{file} cannot be read: {' '.join(str(problem).split())}") from problem


def _weights(task: Task, file: Path, columns: list[Any]) -> list[Any]:
    """The columns of the weights, in order; numbers alone are taken as they stand if there are that many."""
    found: dict[int, Any] = {}
    for name in columns:
        match = _WEIGHT.fullmatch(str(name))
        if match:
            found[int(match[1])] = name
    wanted = range(1, task.dimension + 1)
    absent = [number for number in wanted if number not in found]
    if absent:
        raise ValueError(
            f"{file} must have the columns z.1 to z.{task.dimension} (or z[1] and so on), got none for "
            f"z.{absent[0]}; it has {', '.join(map(str, columns[:8]))}"
        )
    return [found[number] for number in wanted]


def _netcdf(task: Task, file: Path) -> Array:
    import xarray

    try:
        with xarray.open_datatree(file, engine="h5netcdf") as tree:
            data = tree["posterior"].to_dataset() if "posterior" in tree.children else tree.to_dataset()
            return from_arviz(task, data.load())
    except ValueError:
        raise
    except Exception as problem:
        raise ValueError(f"{file} cannot be read: {' '.join(str(problem).split())}") from problem
