"""What commands write: nothing is replaced unless asked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import typer

from lbnn._base.files import write_all_atomically
from lbnn.cli.problems import BadInputError, say


def check_outputs(outputs: Iterable[Path | None], inputs: Iterable[Path], force: bool) -> None:
    """Refuse before the work begins what could not be written after it."""
    given = [path for path in outputs if path is not None]
    for path in given:
        if path.is_dir():
            raise BadInputError(f"an output must be a file, got the folder {path}")
        if not path.parent.is_dir():
            raise BadInputError(f"the folder of an output must exist, got {path}")
        if path.exists() and not force:
            raise BadInputError(f"{path} exists already; give --force to replace it")
        if any(path.exists() and path.samefile(source) for source in inputs if source.exists()):
            raise BadInputError(f"an output must not replace an input, got {path} for both")
    if len({path.absolute() for path in given}) < len(given):
        raise BadInputError(f"outputs must be different files, got {', '.join(map(str, given))}")


def write_together(writers: Mapping[Path, Callable[[Path], object]], quiet: bool = False) -> None:
    """Write several files, or none of them: each is complete before the first is put in its place."""
    write_all_atomically(writers)
    if not quiet:
        tell_written(*writers)


def tell_written(*paths: Path | None) -> None:
    """Say which files there are now; None are those that were not asked for."""
    typer.echo(f"Written: {', '.join(str(path) for path in paths if path)}")


def safe_for_spreadsheets(frame: Any) -> Any:
    """The frame with an apostrophe before texts that a spreadsheet would take for a formula; it is said.

    Headers and columns of text are looked at. Numbers are left alone, and so are texts that are numbers.
    """
    safe = frame.rename(columns={name: _quoted(name) for name in frame.columns})
    for place, name in enumerate(safe.columns):
        if not pd.api.types.is_numeric_dtype(safe.dtypes.iloc[place]):
            safe[name] = safe[name].map(_quoted)
    if not (safe.columns.equals(frame.columns) and safe.equals(frame.set_axis(safe.columns, axis=1))):
        say(
            "Texts that a spreadsheet would take for formulas (they begin with =, +, - or @) have an "
            "apostrophe before them; .parquet keeps them as they are"
        )
    return safe


def _quoted(value: Any) -> Any:
    if not isinstance(value, str) or not value.startswith(("=", "+", "-", "@", "\t", "\r")):
        return value
    try:
        float(value)
    except ValueError:
        return f"'{value}"
    return value


def check_suffix(path: Path | None, allowed: tuple[str, ...], option: str) -> None:
    """An output's name says its format."""
    if path is not None and path.suffix.lower() not in allowed:
        raise BadInputError(f"{option} must end in {' or '.join(allowed)}, got {path}")
