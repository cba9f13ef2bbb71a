"""`lbnn sweep`: a grid of exact answers that a Python file describes, into a store."""

from __future__ import annotations

import importlib.util
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

import lbnn
from lbnn._base.warn import collected
from lbnn.cli.options import Debug
from lbnn.cli.problems import BadInputError, console
from lbnn.plots.page import Grid, show_grid
from lbnn.sweeps import STATUS
from lbnn.sweeps.chunk import FAILED

EXAMPLES = """
Examples:
  lbnn sweep study.py --out run.zarr
  lbnn sweep study.py --out run.zarr --workers 8 --resume
  lbnn sweep study.py --out run.zarr --scheduler tcp://10.0.0.1:8786

A study: arguments of lbnn.sweep by their names:
  axes = {"seed": range(10), "width": [10, 30, 100], "beta": [1.0, 100.0]}
  quantities = ["log_evidence", "kernel_change"]
  def data(rng, seed): return rng.normal(size=(40, 60)), rng.normal(size=40)
  def network(width): return lbnn.Network((width,))
"""

_NEEDED = ("axes", "data", "network", "quantities")
_OPTIONAL = ("beta", "noise", "target_error", "seed", "chunks")


def sweep(
    study: Annotated[Path, typer.Argument(help="Study, .py: arguments of lbnn.sweep.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Store, .zarr.", metavar="FOLDER")],
    workers: Annotated[
        int | None,
        typer.Option("--workers", min=0, help="Worker processes on this machine; 0 for none."),
    ] = None,
    scheduler: Annotated[
        str | None,
        typer.Option("--scheduler", help="Address of a Dask scheduler.", metavar="ADDRESS"),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue an existing store.")] = False,
    retry_failed: Annotated[
        bool,
        typer.Option("--retry-failed", help="Compute chunks with failed points again."),
    ] = False,
    mixed_versions: Annotated[
        bool,
        typer.Option(
            "--mixed-versions",
            help="Continue with other versions of lbnn, NumPy or SciPy; the store records which.",
        ),
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress.")] = False,
    debug: Debug = False,
) -> None:
    """Compute posteriors over a grid of data sets, networks and temperatures.

    Interrupt it, or let the machine go down: with --resume it goes on where it
    was, and the store ends the same. Points that fail are kept with their error.
    """
    if workers is not None and scheduler is not None:
        raise BadInputError("give --workers or --scheduler, got both")
    if out.exists() and not (resume or retry_failed):
        raise BadInputError(f"{out} exists already; give --resume to continue it")
    arguments = read_study(study)
    settings: dict[str, Any] = {
        "store": out,
        "retry_failed": retry_failed,
        "mixed_versions": mixed_versions,
        "progress": not quiet,
    }
    axes = arguments.pop("axes")
    with collected():  # that points failed is said below
        if scheduler is None:
            found = lbnn.sweep(axes, workers=workers, **arguments, **settings)
        else:
            with _client(scheduler) as client:
                found = lbnn.sweep(axes, client=client, **arguments, **settings)
    _tell(found)
    typer.echo(f"Written: {out}")


def _tell(found: Any) -> None:
    """How many points are ok, warned and failed, and why the first failed."""
    status = np.asarray(found["status"])
    counts = np.bincount(status.ravel(), minlength=len(STATUS))
    rows = [(word, f"{counts[number]:,}") for number, word in STATUS.items() if counts[number]]
    show_grid(Grid(("points", ""), rows), console())
    if counts[FAILED]:
        first = np.asarray(found["message"])[status == FAILED][0]
        typer.echo(f"The first failed with: {first}. --retry-failed computes failed points again.")


def _client(address: str) -> Any:
    from distributed import Client

    try:
        return Client(address, timeout=10)
    except (OSError, ValueError) as problem:
        raise BadInputError(
            f"--scheduler must be the address of a Dask scheduler, got {problem}"
        ) from problem


class _StudyLoader(SourceFileLoader):
    """Runs a file without leaving its bytecode in a folder beside it."""

    def set_data(self, *arguments: Any, **options: Any) -> None:
        """Nothing is written."""


def read_study(path: Path) -> dict[str, Any]:
    """Arguments of `lbnn.sweep` from a file, whose functions are sent to workers as they are."""
    import cloudpickle

    if path.suffix == ".toml":
        raise BadInputError(
            f"a sweep is described in Python, got {path}: define {', '.join(_NEEDED)} in a .py file"
        )
    name = f"lbnn_sweep_{path.stem}"
    loader = _StudyLoader(name, str(path))
    described = importlib.util.spec_from_file_location(name, path, loader=loader) if path.is_file() else None
    if described is None or described.loader is None:
        raise BadInputError(f"a study must be a Python file that can be read, got {path}")
    study = importlib.util.module_from_spec(described)
    sys.modules[name] = study
    try:
        described.loader.exec_module(study)
    except Exception as problem:
        raise BadInputError(f"{path} cannot be run: {type(problem).__name__}: {problem}") from problem
    missing = [each for each in _NEEDED if not hasattr(study, each)]
    if missing:
        raise BadInputError(
            f"{path}: must define {', '.join(_NEEDED)}, and may define {', '.join(_OPTIONAL)}, got none of "
            f"{', '.join(missing)}"
        )
    cloudpickle.register_pickle_by_value(study)
    return {each: getattr(study, each) for each in (*_NEEDED, *_OPTIONAL) if hasattr(study, each)}
