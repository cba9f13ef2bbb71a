"""Where a report comes from: version, command, date and the file that was read."""

from __future__ import annotations

import datetime
import hashlib
import json
import math
import platform
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import typer

import lbnn
from lbnn._base.checkout import commit
from lbnn.cli.problems import ARGUMENTS
from lbnn.plots.page import Section


def origin(data: Path) -> dict[str, Any]:
    """Version, command, date and file, as JSON takes them."""
    return {
        "version": lbnn.__version__,
        "commit": commit(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "command": shlex.join(["lbnn", *ARGUMENTS.get()]),
        "date": datetime.datetime.now().astimezone().isoformat(sep=" ", timespec="minutes"),
        "file": data.name,
        "bytes": data.stat().st_size,
        "sha256": _digest(data),
    }


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def table_section(notes: Sequence[str]) -> Section:
    """What was done to the file: guesses, units, rows left out and why."""
    return Section("The table", [*notes] or ["All rows of the file were used as they are."])


def origin_section(found: dict[str, Any]) -> Section:
    """The last section of a report."""
    of_commit = f", commit {found['commit']}" if found["commit"] else ""
    return Section(
        "How this was made",
        [
            f"Command: {found['command']}",
            f"Date: {found['date']}",
            f"lbnn {found['version']}{of_commit}; Python {found['python']}, NumPy {found['numpy']}, SciPy "
            f"{found['scipy']}",
            f"Data: {found['file']}, {found['bytes']:,} bytes, SHA-256 {found['sha256'][:16]}…",
        ],
    )


def print_json(results: dict[str, Any]) -> None:
    """Print results for programs; NaN is null, infinity the text inf."""
    typer.echo(json.dumps(plain_numbers(results), indent=2, ensure_ascii=False, allow_nan=False))


def plain_numbers(value: Any) -> Any:
    """The same for JSON: NaN is null, infinity a text, tuples and arrays are lists.

    Examples
    --------
    >>> from lbnn.cli.provenance import plain_numbers
    >>> plain_numbers({"a": (1, float("inf")), "b": float("nan")})
    {'a': [1, 'inf'], 'b': None}
    """
    if isinstance(value, dict):
        return {str(key): plain_numbers(each) for key, each in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [plain_numbers(each) for each in value]
    if isinstance(value, np.generic):
        return plain_numbers(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value
