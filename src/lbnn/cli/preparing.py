"""From columns of a table to numbers: categories, missing values, an id; for new rows as in the fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import typer

from lbnn.cli.large import LargeTable
from lbnn.cli.problems import BadInputError
from lbnn.cli.reading import Dialect
from lbnn.cli.tables import Table, choose_columns, column_names, listed, read_table

ERROR, DROP, MEDIAN = "error", "drop", "median"
_MOST_LEVELS = 50


@dataclass(frozen=True)
class Preparation:
    """What was decided in the fit about features, for new rows.

    Attributes
    ----------
    columns : list of str
        Of the table that features are made of.
    levels : dict
        Of each categorical column; each level but the first is a feature that is 1 or 0.
    missing : str
        "error", "drop" or "median".
    medians : dict
        Of the columns, where missing values are replaced by them.
    id_column : str, optional
        That names rows, carried into predictions.
    """

    columns: list[str]
    levels: dict[str, list[str]] = field(default_factory=dict)
    missing: str = ERROR
    medians: dict[str, float] = field(default_factory=dict)
    id_column: str | None = None

    @classmethod
    def learned(
        cls, table: Table, columns: Sequence[str], categorical: Sequence[str], missing: str
    ) -> Preparation:
        """From the rows of a fit."""
        named = column_names(categorical, table, "--categorical") if categorical else []
        strange = [name for name in named if name not in columns]
        if strange:
            raise BadInputError(f"--categorical must name features, got {listed(strange)}")
        levels = {name: _levels(table, name) for name in named}
        numeric = table.frame[[name for name in columns if name not in levels]]
        medians = (
            {name: float(numeric[name].median()) for name in numeric if _is_number(numeric[name])}
            if missing == MEDIAN
            else {}
        )
        return cls(list(columns), levels, missing, medians)

    def features(self, table: Table) -> tuple[Any, Any]:
        """Features of a table as a frame of finite numbers, and the rows (a mask) that they are of."""
        frame = table.frame[self.columns]
        missing = frame.isna() | frame.isin([np.inf, -np.inf])
        rows = np.ones(len(frame), bool)
        if missing.to_numpy().any() and self.missing == DROP:
            rows = ~missing.any(axis=1).to_numpy()
            _say_dropped(table, missing, rows)
        elif self.missing == MEDIAN:
            frame = self._filled(table, frame, missing)
        kept = replace(table, frame=frame[rows].reset_index(drop=True))
        numeric = [name for name in self.columns if name not in self.levels]
        numbers = kept.numbers(numeric) if numeric else pd.DataFrame(index=range(int(rows.sum())))
        for name, levels in self.levels.items():
            numbers = pd.concat([numbers, self._indicators(kept, name, levels)], axis=1)
        return numbers, rows

    def _filled(self, table: Table, frame: Any, missing: Any) -> Any:
        counts = missing.sum()
        filled = [name for name in self.medians if counts[name]]
        if filled:
            count = int(counts[filled].sum())
            replaced = "value is replaced" if count == 1 else "values are replaced"
            typer.echo(
                f"{count} missing {replaced} by medians of the fit, in {listed(filled)} of {table.path.name}"
            )
        return frame.assign(**{name: frame[name].mask(missing[name], self.medians[name]) for name in filled})

    def _indicators(self, table: Table, name: str, levels: list[str]) -> Any:
        values = table.frame[name]
        if values.isna().any():
            table.numbers([name]) if _is_number(values) else _refuse_missing(table, name)
        texts = values.astype(str)
        unknown = sorted(set(texts) - set(levels))
        if unknown:
            raise BadInputError(
                f"{table.path}: column {name} must have the levels of the fit, {listed(levels)}, got "
                f"{listed(unknown)}"
            )
        return pd.DataFrame({f"{name}={level}": (texts == level).astype(float) for level in levels[1:]})


def _levels(table: Table, name: str) -> list[str]:
    found = sorted(set(table.frame[name].dropna().astype(str)))
    if len(found) > _MOST_LEVELS:
        raise BadInputError(
            f"{table.path}: a categorical column may have up to {_MOST_LEVELS} levels, got {len(found)} in "
            f"{name}: is it an id? give --id or --drop"
        )
    return found


def _refuse_missing(table: Table, name: str) -> None:
    rows = [str(row + 1) for row in np.flatnonzero(table.frame[name].isna().to_numpy())]
    raise BadInputError(
        f"{table.path}: values must be present, got none in column {name}, row {listed(rows)}; "
        "leave such rows out with --missing drop"
    )


def _say_dropped(table: Table, missing: Any, rows: Any) -> None:
    columns = [name for name in missing if missing[name].any()]
    count = int((~rows).sum())
    typer.echo(
        f"{count} {'row' if count == 1 else 'rows'} of {table.path.name} with missing values in "
        f"{listed(columns)} left out"
    )
    if not rows.any():
        raise BadInputError(f"{table.path}: --missing drop left no row: try --missing median")


def _is_number(column: Any) -> bool:
    return bool(pd.api.types.is_numeric_dtype(column.dtype))


@dataclass(frozen=True)
class Examples:
    """Rows of a fit: features and targets as frames of numbers, how features were made, and ids."""

    X: Any
    Y: Any
    preparation: Preparation
    ids: Any | None = None


@dataclass(frozen=True)
class Columns:
    """Which columns play which part, as options name them."""

    targets: Sequence[str]
    features: Sequence[str] = ()
    drop: Sequence[str] = ()
    id_column: str | None = None
    categorical: Sequence[str] = ()


def read_examples(
    path: Path, columns: Columns, dialect: Dialect | None = None, missing: str = ERROR
) -> Examples:
    """Features and targets of a file, by the columns that options name."""
    table = read_table(path, dialect)
    inputs, goals = choose_examples(table, columns)
    learned = Preparation.learned(table, inputs, columns.categorical, missing)
    preparation = replace(learned, id_column=columns.id_column)
    if missing == ERROR:  # one message for features and targets
        table.numbers([name for name in [*inputs, *goals] if name not in preparation.levels])
    X, rows = preparation.features(table)
    outputs = Table(table.path, table.frame[rows].reset_index(drop=True))
    present = ~outputs.frame[goals].isna().any(axis=1).to_numpy()
    if missing == DROP and not present.all():
        _say_dropped(outputs, outputs.frame[goals].isna(), present)
        X, outputs = X[present].reset_index(drop=True), Table(table.path, outputs.frame[present])
    Y = outputs.numbers(goals).reset_index(drop=True)
    ids = None if columns.id_column is None else outputs.frame[columns.id_column].reset_index(drop=True)
    return Examples(X, Y, preparation, ids)


def choose_examples(table: Table, columns: Columns) -> tuple[list[str], list[str]]:
    """Features and targets, by the columns that options name."""
    named = columns.id_column
    require_id(table, named)
    left_out = [*columns.drop, *([named] if named and not columns.features else [])]
    return choose_columns(table, columns.targets, columns.features, left_out)


def require_id(table: Table | LargeTable, id_column: str | None) -> None:
    """Raise unless the column of ids exists."""
    if id_column is not None and id_column not in table.columns:
        raise BadInputError(f"--id: {table.path} has no column {id_column}; it has {listed(table.columns)}")
