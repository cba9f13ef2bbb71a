"""Tables of data: reading CSV and Parquet, choosing columns, and the rules that data must keep."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd
import typer

from lbnn.cli.problems import BadInputError
from lbnn.cli.reading import Dialect, read_csv

FORMATS = (".csv", ".parquet")
_MOST_LISTED = 5  # names, rows or values in a message before "and 3 more"

Number = TypeVar("Number", int, float)


@dataclass(frozen=True)
class Table:
    """The columns of a file, in its order; `whole` unless these are some of its rows only."""

    path: Path
    frame: Any  # pandas.DataFrame
    whole: bool = True

    @property
    def columns(self) -> list[str]:
        """Names of all columns."""
        return list(self.frame.columns)

    def numbers(self, names: Sequence[str]) -> Any:
        """These columns as a frame of finite float64, (rows, len(names)); anything else is an error."""
        chosen = self.frame[list(names)]
        self._require_named(names)
        self._require_numeric(chosen)
        self._require_present(chosen)
        return chosen.astype(np.float64)

    def split(self, inputs: Sequence[str], goals: Sequence[str]) -> tuple[Any, Any]:
        """Features and targets as two frames, checked together."""
        both = self.numbers([*inputs, *goals])
        return both[list(inputs)], both[list(goals)]

    def _require_named(self, names: Sequence[str]) -> None:
        unnamed = [name for name in names if name.startswith("(column ")]
        if unnamed:
            raise BadInputError(
                f"{self.path}: every column needs a name, got none for {listed(unnamed)}; "
                f'name it in the file or leave it out with --drop "{unnamed[0]}"'
            )

    def _require_numeric(self, chosen: Any) -> None:
        wrong = [name for name in chosen if not _is_numeric(chosen[name].dtype)]
        if wrong:
            row, value = _first_text(chosen[wrong[0]])
            categories = (
                f"take them as categories with --categorical {','.join(wrong)}; " if self.whole else ""
            )
            raise BadInputError(
                f"{self.path}: columns must be numeric, got {listed(wrong)} "
                f"({wrong[0]} in row {row} is {value!r}); "
                f"leave columns out with --drop {','.join(wrong)}, name those to use with --features; "
                f"{categories}a column that names rows is carried along with --id {wrong[0]}"
            )

    def _require_present(self, chosen: Any) -> None:
        missing = ~np.isfinite(chosen.to_numpy(dtype=np.float64, na_value=np.nan))
        if missing.any():
            columns = [
                name for name, any_missing in zip(chosen, missing.any(axis=0), strict=True) if any_missing
            ]
            rows = [str(row + 1) for row in np.flatnonzero(missing.any(axis=1))]
            raise BadInputError(
                f"{self.path}: values must be present and finite, got {int(missing.sum())} missing or "
                f"infinite in column {listed(columns)}, row {listed(rows)}; give --missing drop to leave "
                f"such rows out{', or --missing median to fill features' if self.whole else ''}"
            )


def read_table(path: Path, dialect: Dialect | None = None) -> Table:
    """Read a .csv or .parquet file; a file that cannot be read as a table is an error."""
    if path.suffix.lower() not in FORMATS:
        raise BadInputError(f"data must be a {' or '.join(FORMATS)} file, got {path}")
    if not path.is_file():
        raise BadInputError(f"data must be a file that exists, got {path}")
    csv_file = path.suffix.lower() == ".csv"
    frame = read_csv(path, dialect or Dialect()) if csv_file else _read_parquet(path)
    _say_booleans(path, frame)
    if not len(frame.columns) or not len(frame):
        raise BadInputError(
            f"{path}: data must have at least one column and one row, got {frame.shape[::-1]}"
        )
    return Table(path, frame)


def _read_parquet(path: Path) -> Any:
    try:
        frame = pd.read_parquet(path)
    except Exception as problem:  # pyarrow's errors are of many kinds
        reason = " ".join(str(problem).split())
        raise BadInputError(f"{path}: cannot be read as Parquet: {reason}") from problem
    named = [name for name in frame.index.names if name is not None]
    if named:
        typer.echo(
            f"{path.name}: the index {listed([str(name) for name in named])} is a column like the others"
        )
    frame = frame.reset_index(drop=not named)
    frame.columns = [str(name) for name in frame.columns]
    require_distinct(list(frame.columns), f"{path}: column names")
    return frame


def _say_booleans(path: Path, frame: Any) -> None:
    names = [str(name) for name in frame if pd.api.types.is_bool_dtype(frame[name].dtype)]
    if names:
        typer.echo(f"{path.name}: true and false are read as 1 and 0 in {listed(names)}")


def _is_numeric(dtype: Any) -> bool:
    return bool(pd.api.types.is_numeric_dtype(dtype)) and not pd.api.types.is_complex_dtype(dtype)


def _first_text(column: Any) -> tuple[int, Any]:
    """The first value that is no number and its row, for a message."""
    texts = pd.to_numeric(column, errors="coerce").isna() & column.notna()
    position = int(np.flatnonzero(texts.to_numpy())[0]) if texts.any() else 0
    return position + 1, column.iloc[position]


# ---------------------------------------------------------------------- choosing columns


def choose_columns(
    table: Table, targets: Sequence[str], features: Sequence[str], drop: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Features and targets; features are all columns that are neither targets nor dropped, unless named."""
    goals = column_names(targets, table, "--targets")
    dropped = column_names(drop, table, "--drop") if drop else []
    if features and drop:
        raise BadInputError(
            "--features names the columns to use and --drop those not to: give one of them, got both"
        )
    if features:
        chosen = column_names(features, table, "--features")
    else:
        chosen = [name for name in table.columns if name not in goals and name not in dropped]
    both = [name for name in goals if name in chosen or name in dropped]
    if both:
        raise BadInputError(f"a target cannot be a feature or be dropped as well, got {listed(both)}")
    if not chosen:
        raise BadInputError(
            f"{table.path}: at least one feature column is needed, got none beside {listed(goals)}"
        )
    return chosen, goals


def column_names(values: Sequence[str], table: Table, option: str) -> list[str]:
    """Columns given as `a,b`, by repeating the option, or as one name that contains a comma."""
    names: list[str] = []
    for value in values:
        names += [value] if value in table.columns else [part.strip() for part in value.split(",")]
    names = [name for name in names if name]
    if not names:
        raise BadInputError(f"{option} must name at least one column, got {','.join(values)!r}")
    require_distinct(names, f"columns of {option}")
    absent = [name for name in names if name not in table.columns]
    if absent:
        raise BadInputError(
            f"{option}: {table.path} has no column {listed(absent)}; it has {listed(table.columns)}"
        )
    return names


def require_distinct(names: Sequence[str], what: str) -> None:
    """Raise if a name stands there twice."""
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise BadInputError(f"{what} must be distinct, got {listed(twice)} more than once")


def listed(names: Sequence[str]) -> str:
    """The first few names, for a message."""
    rest = len(names) - _MOST_LISTED
    return ", ".join(names[:_MOST_LISTED]) + (f" and {rest} more" if rest > 0 else "")


# ---------------------------------------------------------------------- numbers in options


def numbers_of(text: str, kind: Callable[[str], Number], option: str) -> list[Number]:
    """Numbers given as `1,2,3`."""
    try:
        values = [kind(part) for part in text.split(",") if part.strip()]
    except ValueError as problem:
        rule = "whole numbers" if kind is int else "numbers"
        raise BadInputError(f"{option} must be {rule} separated by commas, got {text!r}") from problem
    if not values:
        raise BadInputError(f"{option} must have at least one number, got {text!r}")
    return values
