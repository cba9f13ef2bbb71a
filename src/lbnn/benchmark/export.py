"""Tasks as files for others: Stan programs with data, posteriordb's layout, netCDF and zarr."""

from __future__ import annotations

import datetime
import io
import json
import zipfile
from pathlib import Path
from typing import Any

from lbnn._base import check
from lbnn._base.files import bytes_writer, text_writer, write_atomically
from lbnn.benchmark.adaptors.arviz import to_arviz
from lbnn.benchmark.task import DRAWS_OF_ONE_INFERENCE, Task

MODEL = "deep_linear_network"
CHAINS = 10
REFERENCE = "zavatone-veth2021depth"
_BIBLIOGRAPHY = """\
@inproceedings{zavatone-veth2021depth,
  title = {Depth induces scale-averaging in overparameterized linear Bayesian neural networks},
  author = {Zavatone-Veth, Jacob A. and Pehlevan, Cengiz},
  booktitle = {55th Asilomar Conference on Signals, Systems, and Computers},
  year = {2021},
}
"""


def to_posteriordb(
    task: Task,
    folder: str | Path,
    *,
    draws: int = 1_000,
    seed: int = 0,
    date: datetime.date | None = None,
) -> None:
    """Write one task in the layout of posteriordb, which `posteriordb.PosteriorDatabase(folder)` reads.

    The reference draws of grade A are independent and exact: method "analytical". Those of grade B are
    resampled from weighted draws of the scale: method "importance_resampling", and the file says of how many
    effective scales. The Stan program is the same for all tasks; its log density is the task's with all
    constants.

    Parameters
    ----------
    task : Task
    folder : path
        The database; tasks are added to what is there.
    draws : int
        Draws in each of ten chains.
    seed : int
    date : datetime.date, optional
        When the entry was made; today by default.
    """
    origin = _origin(date or datetime.date.today())
    count, root = check.positive_integer(draws, "draws"), Path(folder)
    name, program = task.name.replace("-", "_"), task.stan()
    posterior = f"{name}-{MODEL}"
    exact = task.reference(CHAINS * count, seed).reshape(CHAINS, count, -1)
    reference = [
        {f"z[{index + 1}]": chain[:, index].tolist() for index in range(task.dimension)} for chain in exact
    ]
    kept = root / "reference_posteriors" / "draws"
    _write(root / "posteriors" / f"{posterior}.json", _posterior_info(task, posterior, name) | origin)
    _write(root / "models" / "info" / f"{MODEL}.info.json", _model_info() | origin)
    _write(root / "data" / "info" / f"{name}.info.json", _data_info(task, name) | origin)
    _write(kept / "info" / f"{posterior}.info.json", _reference_info(task, posterior, count, seed) | origin)
    _write_text(root / "models" / "stan" / f"{MODEL}.stan", program.code)
    _write_text(root / "bibliography" / "references.bib", _BIBLIOGRAPHY)
    _write_zipped(root / "data" / "data" / f"{name}.json", program.data)
    _write_zipped(kept / "draws" / f"{posterior}.json", reference)


def _origin(date: datetime.date) -> dict[str, Any]:
    return {"added_by": "lbnn", "added_date": date.isoformat(), "references": [REFERENCE], "urls": None}


def to_stan(task: Task, folder: str | Path) -> tuple[Path, Path]:
    """Write the Stan program and its data as JSON, for CmdStan and its interfaces in R, Julia and Python.

    Returns
    -------
    program, data : Path
    """
    root, program = Path(folder), task.stan()
    paths = root / f"{MODEL}.stan", root / f"{task.name}.data.json"
    _write_text(paths[0], program.code)
    _write_text(paths[1], json.dumps(program.data, allow_nan=False) + "\n")
    return paths


def _posterior_info(task: Task, posterior: str, data: str) -> dict[str, Any]:
    return {
        "name": posterior,
        "keywords": ["lbnn", task.family, f"grade {task.grade}"],
        "model_name": MODEL,
        "data_name": data,
        "reference_posterior_name": posterior,
        "dimensions": {"z": task.dimension},
    }


def _model_info() -> dict[str, Any]:
    return {
        "name": MODEL,
        "title": "A deep linear Bayesian network",
        "description": "All weights of a deep linear network with Gaussian priors and noise.",
        "keywords": ["neural network"],
        "model_implementations": {"stan": {"model_code": f"models/stan/{MODEL}.stan"}},
    }


def _data_info(task: Task, name: str) -> dict[str, Any]:
    return {
        "name": name,
        "title": task.name,
        "description": task.summary,
        "keywords": [task.family],
        "data_file": f"data/data/{name}.json",
    }


def _reference_info(task: Task, posterior: str, count: int, seed: int) -> dict[str, Any]:
    if task.grade == "A":
        method, how = "analytical", "independent exact draws: the scale by quadrature, the weights given it"
    else:
        method = "importance_resampling"
        how = (
            "weights given scales that were resampled from weighted draws of the exact posterior of the "
            "scale; "
            f"every {DRAWS_OF_ONE_INFERENCE:,} draws come from an inference of their own with about 30,000 "
            "effective scales, so that they are nearly, not strictly, independent"
        )
    return {
        "name": posterior,
        "inference": {"method": method, "method_arguments": {"description": how, "seed": seed}},
        "diagnostics": {"ndraws": CHAINS * count, "nchains": CHAINS, "log_evidence": task.log_evidence},
        "checks_made": {"ndraws_is_10k": CHAINS * count == 10_000, "nchains_is_gte_4": True},
        "comments": f"lbnn digest {task.digest}",
        "versions": {"lbnn": _version()},
    }


def to_netcdf(task: Task, path: str | Path, *, draws: int = 1_000, seed: int = 0) -> None:
    """Write exact draws, their functions and the data as netCDF (.nc) or zarr (.zarr), for ArviZ and xarray.

    Four chains of `draws` each, in the groups posterior and observed_data; expectations are in attributes.
    """
    target = Path(path)
    if target.suffix not in (".nc", ".zarr"):
        raise ValueError(f"the file must end in .nc or .zarr, got {target.name!r}")
    count = check.positive_integer(draws, "draws")
    tree = to_arviz(task, task.reference(4 * count, seed).reshape(4, count, -1))
    known = task.expectations
    tree["posterior"].attrs |= {
        "log_evidence": task.log_evidence,
        "log_evidence_error": task.log_evidence_error,
        "exact_mean": known.mean,
        "exact_standard_deviation": known.standard_deviation,
        "exact_error": known.error,
    }
    if target.suffix == ".nc":
        write_atomically(target, lambda temporary: tree.to_netcdf(temporary, engine="h5netcdf", mode="w"))
    else:
        tree.to_zarr(target, mode="w", consolidated=False)


def _write(path: Path, content: Any) -> None:
    _write_text(path, json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def _write_text(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, text_writer(text))


def _write_zipped(path: Path, content: Any) -> None:
    """A zip archive with one file, as posteriordb keeps data."""
    path.parent.mkdir(parents=True, exist_ok=True)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        entry = zipfile.ZipInfo(path.name)  # without a date: the same bytes whenever written
        archive.writestr(entry, json.dumps(content, allow_nan=False), zipfile.ZIP_DEFLATED)
    write_atomically(path.with_name(path.name + ".zip"), bytes_writer(buffer.getvalue()))


def _version() -> str:
    import lbnn

    return lbnn.__version__
