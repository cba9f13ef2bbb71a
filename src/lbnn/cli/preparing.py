"""From columns of a table to numbers: categories, missing values, an id; for new rows as in the fit."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from lbnn.cli.cells import is_date, without_separators
from lbnn.cli.large import LargeTable
from lbnn.cli.problems import BadInputError
from lbnn.cli.reading import Dialect
from lbnn.cli.tables import Problems, Table, choose_columns, column_names, listed, option, read_table

ERROR, DROP, MEDIAN = "error", "drop", "median"
_MOST_LEVELS = 50
_MOST_TEXTS = 5  # for --na, in advice


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
    na : list of str
        Texts that stand for missing values, beside the usual ones.
    """

    columns: list[str]
    levels: dict[str, list[str]] = field(default_factory=dict)
    missing: str = ERROR
    medians: dict[str, float] = field(default_factory=dict)
    id_column: str | None = None
    na: list[str] = field(default_factory=list)

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
        missing = table.absent(self.columns)
        rows = np.ones(len(frame), bool)
        if missing.to_numpy().any() and self.missing == DROP:
            rows = ~missing.any(axis=1).to_numpy()
            _tell_dropped(table, missing, rows)
        elif self.missing == MEDIAN:
            frame = self._filled(table, frame, missing)
        kept = replace(table, frame=frame[rows])
        numeric = [name for name in self.columns if name not in self.levels]
        self._require_numbers(kept, numeric)
        indicators = [self._indicators(kept, name, levels) for name, levels in self.levels.items()]
        numbers = pd.concat([kept.numbers(numeric), *indicators], axis=1)
        return numbers.reset_index(drop=True), rows

    def _require_numbers(self, table: Table, names: Sequence[str]) -> None:
        """Raise, with advice for rows to be predicted: which columns are features is settled by the fit."""
        wrong = table.problems(names)
        if not wrong:
            return
        median = ", or --missing median to fill them" if self.medians else ""
        advice = f"--missing drop to leave such rows out{median}" if wrong.missing else "correct the cells"
        if wrong.strays:
            advice = f"correct them, or take them as missing with {_na_option(wrong)} --missing drop"
        advice = wrong.separated() or advice
        raise BadInputError(
            f"{table.path}: features must be finite numbers: {wrong.describe()}. Try: {advice}"
        )

    def _filled(self, table: Table, frame: Any, missing: Any) -> Any:
        counts = missing.sum()
        filled = [name for name in self.medians if counts[name]]
        if filled:
            count = int(counts[filled].sum())
            replaced = "value is replaced" if count == 1 else "values are replaced"
            table.tell(
                f"{count} missing {replaced} by medians of the fit, in {listed(filled)} of {table.path.name}"
            )
        return frame.assign(**{name: frame[name].mask(missing[name], self.medians[name]) for name in filled})

    def _indicators(self, table: Table, name: str, levels: list[str]) -> Any:
        values = table.frame[name]
        if values.isna().any():
            raise BadInputError(
                f"{table.path}: values must be present, got none for the category {name} in "
                f"{table.rows(list(values.index[values.isna()]))}. Try: --missing drop to leave such rows out"
            )
        texts = values.astype(str)
        unknown = sorted(set(texts) - set(levels))
        if unknown:
            raise BadInputError(
                f"{table.path}: column {name} must have the levels of the fit, {listed(levels)}, got "
                f"{listed(unknown)}"
            )
        return pd.DataFrame(
            {f"{name}={level}": (texts == level).astype(float) for level in levels[1:]}, index=values.index
        )


def _levels(table: Table, name: str) -> list[str]:
    found = sorted(set(table.frame[name].dropna().astype(str)))
    if len(found) > _MOST_LEVELS:
        raise BadInputError(
            f"{table.path}: a categorical column may have up to {_MOST_LEVELS} levels, got {len(found)} in "
            f"{name}: is it an id? give --id or --drop"
        )
    return found


def _tell_dropped(table: Table, missing: Any, rows: Any) -> None:
    columns = [name for name in missing if missing[name].any()]
    numbers = list(table.frame.index[~rows])
    verb = "row" if len(numbers) == 1 else "rows"
    table.tell(
        f"{len(numbers)} {verb} of {table.path.name} with missing values in {listed(columns)} left out: "
        f"{table.rows(numbers)}"
    )
    if not rows.any():
        raise BadInputError(f"{table.path}: --missing drop left no row: try --missing median")


def _is_number(column: Any) -> bool:
    return bool(pd.api.types.is_numeric_dtype(column.dtype))


@dataclass(frozen=True)
class Examples:
    """Rows of a fit.

    Attributes
    ----------
    X, Y : pandas.DataFrame
        Features and targets, finite numbers.
    preparation : Preparation
        How the features were made.
    labels : list of str
        What each row is called: its id where there is a column of ids, else its line or row in the file.
    notes : list of str
        What was guessed about the file, and which rows were left out or filled.
    table : Table
        The file as it was read.
    weights : array, optional
        Of rows.
    """

    X: Any
    Y: Any
    preparation: Preparation
    labels: list[str]
    notes: list[str]
    table: Table
    weights: Any = None


@dataclass(frozen=True)
class Columns:
    """Which columns play which part, as options name them; `partial` where targets may be missing."""

    targets: Sequence[str]
    features: Sequence[str] = ()
    drop: Sequence[str] = ()
    id_column: str | None = None
    categorical: Sequence[str] = ()
    weights: str | None = None
    partial: bool = False


def read_examples(
    path: Path, columns: Columns, dialect: Dialect | None = None, missing: str = ERROR
) -> Examples:
    """Features and targets of a file, by the columns that options name."""
    dialect = dialect or Dialect()
    table = read_table(path, dialect)
    inputs, goals = choose_examples(table, columns)
    learned = Preparation.learned(table, inputs, columns.categorical, missing)
    preparation = replace(learned, id_column=columns.id_column, na=list(dialect.na))
    _require_usable(table, columns, preparation, goals)
    X, rows = preparation.features(table)
    outputs = replace(table, frame=table.frame[rows])
    absent = outputs.absent(goals)
    present = ~absent.any(axis=1).to_numpy()
    if missing == DROP and not present.all() and not columns.partial:
        _tell_dropped(outputs, absent, present)
        X, outputs = X[present].reset_index(drop=True), replace(table, frame=outputs.frame[present])
    labels = [f"{table.unit} {number}" for number in outputs.frame.index]
    if columns.id_column is not None:
        labels = [str(name) for name in outputs.frame[columns.id_column]]
    Y = (outputs.partial_numbers(goals) if columns.partial else outputs.numbers(goals)).reset_index(drop=True)
    weights = None if columns.weights is None else outputs.numbers([columns.weights]).to_numpy()[:, 0]
    if weights is not None and not (weights > 0).all():
        raise BadInputError(
            f"--weights: {table.path} must have positive numbers in {columns.weights}, got "
            f"{np.count_nonzero(weights <= 0)} that are not: leave these rows out"
        )
    return Examples(X, Y, preparation, labels, table.notes, table, weights)


def _require_usable(table: Table, columns: Columns, preparation: Preparation, goals: Sequence[str]) -> None:
    """Raise unless all columns can be used: one message for everything that is wrong, and what would do."""
    numeric = [name for name in preparation.columns if name not in preparation.levels]
    features, targets = table.problems(numeric), table.problems(goals)
    if preparation.missing == DROP:
        features.missing, targets.missing = {}, {}
    if columns.partial:
        targets.missing = {}
    if preparation.missing == MEDIAN:
        features.missing = {}
    if not features and not targets:
        return
    tries = [*_advice_on_columns(table, columns, features), *_advice_on_cells(table, features, targets)]
    raise BadInputError(
        f"{table.path}: features and targets must be finite numbers in every row, got: "
        f"{features.joined(targets).describe()}. "
        f"Try: {'; '.join(tries)}"
    )


def _advice_on_columns(table: Table, columns: Columns, features: Problems) -> list[str]:
    """Options for features that are no numbers: an id, categories, columns to leave out."""
    texts = {name: cell for name, (_, cell) in features.texts.items() if not without_separators(cell)}
    levels = {name: table.frame[name].nunique() for name in texts}
    rows = len(table.frame)
    dates = [name for name, cell in texts.items() if is_date(cell)]
    ids = [name for name in levels if levels[name] == rows and name not in dates]
    named = ids[:1] if columns.id_column is None and not columns.features else []
    categories = [
        name
        for name in levels
        if name not in [*dates, *named] and levels[name] <= min(_MOST_LEVELS, rows // 2)
    ]
    rest = [name for name in levels if name not in [*dates, *named, *categories]]
    sparse = [name for name, cells in features.missing.items() if len(cells) > rows / 2]
    drop = [*features.unnamed, *dates, *rest, *sparse]
    found = [f"--id {shlex.quote(name)}" for name in named]
    if categories:
        found.append(option("--categorical", categories))
    if drop and not columns.features:
        found.append(option("--drop", drop))
    if drop and columns.features:
        found.append(f"leave {listed(drop)} out of --features")
    return [" ".join(found)] if found else []


def _advice_on_cells(table: Table, features: Problems, targets: Problems) -> list[str]:
    """What to do about texts in columns of numbers, and about missing values."""
    every = features.joined(targets)
    found = [every.separated()] if every.separated() else []
    if targets.texts and not found:
        found.append(f"targets that are numbers, or the column of {listed(list(targets.texts))} corrected")
    strays = Problems(table, strays=every.strays)
    if strays and not found:
        found.append(f"correct the cells, or take them as missing with {_na_option(strays)} --missing drop")
    sparse = {name for name, cells in features.missing.items() if len(cells) > len(table.frame) / 2}
    if targets.missing:
        found.append("--missing drop to leave rows with gaps out (targets are not filled)")
    elif set(features.missing) - sparse:
        found.append("--missing drop to leave rows with gaps out, or --missing median to fill features")
    return found


def _na_option(problems: Problems) -> str:
    texts = dict.fromkeys(str(text) for cells in problems.strays.values() for text in cells.values())
    return " ".join(f"--na {shlex.quote(text)}" for text in list(texts)[:_MOST_TEXTS])


def choose_examples(table: Table, columns: Columns) -> tuple[list[str], list[str]]:
    """Features and targets, by the columns that options name."""
    named = columns.id_column
    require_id(table, named)
    left_out = [*columns.drop, *([named] if named and not columns.features else [])]
    if columns.weights is not None:
        if columns.weights not in table.columns:
            raise BadInputError(
                f"--weights: {table.path} has no column {columns.weights}; it has {listed(table.columns)}"
            )
        left_out += [] if columns.features or columns.weights in left_out else [columns.weights]
    return choose_columns(table, columns.targets, columns.features, left_out)


def require_id(table: Table | LargeTable, id_column: str | None) -> None:
    """Raise unless the column of ids exists."""
    if id_column is not None and id_column not in table.columns:
        raise BadInputError(f"--id: {table.path} has no column {id_column}; it has {listed(table.columns)}")
