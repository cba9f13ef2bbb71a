"""From columns of a table to numbers: targets, features, categories, missing values, names of rows."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import typer

from lbnn.cli.problems import BadInputError, listed
from lbnn.cli.reading import Reading, Table, read_table, split_names

_MOST_LEVELS = 50  # of a category; more are ids
_WRITTEN = (
    "--decimal, --thousands, --percent and --na say how numbers are written; --categorical, --id and --drop "
    "are for columns that are none"
)
_ABSENT = "--missing drop leaves such rows out, --missing median fills features"


class MissingValues(enum.StrEnum):
    """What is done about missing values."""

    error = "error"
    drop = "drop"
    median = "median"


IdColumn = Annotated[str | None, typer.Option("--id", help="Column that names rows", metavar="NAME")]


@dataclass(frozen=True)
class TableOptions:
    """The table, and which of its columns play which part."""

    data: Annotated[Path, typer.Argument(help="Table with a header: .csv .tsv .txt .xlsx .parquet")]
    targets: Annotated[
        list[str],
        typer.Option("--targets", "-t", help="Columns to predict, as a,b or repeated", metavar="NAMES"),
    ]
    features: Annotated[
        list[str],
        typer.Option("--features", "-x", help="Columns to use; all others by default", metavar="NAMES"),
    ] = field(default_factory=list)
    drop: Annotated[list[str], typer.Option("--drop", help="Columns not to use", metavar="NAMES")] = field(
        default_factory=list
    )
    id_column: IdColumn = None
    categorical: Annotated[
        list[str], typer.Option("--categorical", help="Features that are categories", metavar="NAMES")
    ] = field(default_factory=list)
    missing: Annotated[
        MissingValues, typer.Option("--missing", help="Missing features, or targets (no median)")
    ] = MissingValues.error


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
    missing: str = MissingValues.error.value
    medians: dict[str, float] = field(default_factory=dict)
    id_column: str | None = None

    @property
    def numeric(self) -> list[str]:
        """Columns that are numbers."""
        return [name for name in self.columns if name not in self.levels]

    def kept(self, table: Table, more: Sequence[str] = ()) -> Table:
        """The table, without rows that lack a feature or one of `more` where such rows are dropped."""
        names = [*self.columns, *more]
        absent = absent_cells(table, names)
        rows = ~absent.any(axis=1)
        if self.missing != MissingValues.drop or rows.all():
            return table
        numbers = list(table.frame.index[~rows])
        table.tell(
            f"{len(numbers)} row{'s' * (len(numbers) != 1)} with missing or infinite values in "
            f"{listed([name for name in names if absent[name].any()])} left out: {table.rows(numbers)}"
        )
        if not rows.any():
            raise BadInputError(f"{table.path}: --missing drop left no row: try --missing median")
        return replace(table, frame=table.frame[rows])

    def features(self, table: Table, strict: bool = True) -> Any:
        """Features as a frame of finite numbers; levels that the fit has not seen are an error if strict."""
        absent = absent_cells(table, list(self.medians))
        count = int(absent.to_numpy().sum())
        if count:
            table.tell(
                f"{count} missing value{'s' * (count != 1)} replaced by medians of the fit, in "
                f"{listed([name for name in absent if absent[name].any()])}"
            )
        filled = {name: table.frame[name].mask(absent[name], self.medians[name]) for name in absent}
        table = replace(table, frame=table.frame.assign(**filled))
        indicators = [self._indicators(table, name, levels, strict) for name, levels in self.levels.items()]
        return pd.concat([numbers(table, self.numeric), *indicators], axis=1)

    def _indicators(self, table: Table, name: str, levels: list[str], strict: bool) -> Any:
        values = table.frame[name]
        if values.isna().any():
            raise BadInputError(
                f"{table.path}: the category {name} must be present in every row, got none in "
                f"{table.rows(list(values.index[values.isna()]))}: --missing drop leaves such rows out"
            )
        texts = values.astype(str)
        unseen = texts[~texts.isin(levels)]
        if len(unseen):
            found = f"{listed(sorted(set(unseen)))} in {table.rows(list(unseen.index))}"
            if strict:
                raise BadInputError(
                    f"{table.path}: {name} must be one of {listed(levels)}, as in the fit, got {found}"
                )
            table.tell(f"{name} is {found}, which the fit has not seen: taken as {levels[0]}")
        return pd.DataFrame(
            {f"{name}={level}": (texts == level).astype(float) for level in levels[1:]}, index=values.index
        )


@dataclass(frozen=True)
class Examples:
    """Rows of a fit.

    Attributes
    ----------
    X, Y : pandas.DataFrame
        Features and targets; targets are NaN where they are missing and may be.
    preparation : Preparation
        How the features were made.
    labels : list of str
        What each row is called: its id where there is a column of ids, else its line or row in the file.
    notes : list of str
        What was left out, converted or filled.
    weights : array, optional
        Of rows.
    """

    X: Any
    Y: Any
    preparation: Preparation
    labels: list[str]
    notes: list[str]
    weights: Any = None


def read_examples(
    options: TableOptions, reading: Reading, weights: str | None = None, gaps: bool = False
) -> Examples:
    """Features and targets of a file; targets may be missing where there may be `gaps`."""
    table = read_table(options.data, reading, options.targets)
    features, goals = choose_columns(table, options, weights)
    preparation = _learned(table, features, options)
    used = [] if weights is None else [weights]
    # everything that is wrong in one message: features that are filled or dropped may be missing, and so on
    checked = preparation.kept(table, [*used, *([] if gaps else goals)])
    may_lack = [*preparation.medians, *(goals if gaps else [])]
    numbers(checked, [*preparation.numeric, *goals, *used], may_lack)
    _tell_suspects(checked, preparation.numeric)
    X, Y = preparation.features(checked), numbers(checked, goals, goals if gaps else ())
    found = None if weights is None else numbers(checked, used).to_numpy()[:, 0]
    if found is not None and not (found > 0).all():
        raise BadInputError(
            f"--weights: {table.path} must have positive numbers in {weights}, got "
            f"{np.count_nonzero(found <= 0)} that are not: leave these rows out"
        )
    X, Y = X.reset_index(drop=True), Y.reset_index(drop=True)
    return Examples(X, Y, preparation, row_labels(checked, options.id_column), table.notes, found)


def choose_columns(
    table: Table, options: TableOptions, weights: str | None = None
) -> tuple[list[str], list[str]]:
    """Features and targets; features are all columns without another part, unless named."""
    if options.features and options.drop:
        raise BadInputError("--features names the columns to use, --drop those not to use: got both")
    goals = named_columns(options.targets, table, "--targets")
    dropped = named_columns(options.drop, table, "--drop") if options.drop else []
    for option, name in (("--id", options.id_column), ("--weights", weights)):
        dropped += [] if name is None else named_columns([name], table, option)
    if options.features:
        chosen = named_columns(options.features, table, "--features")
    else:
        others = [name for name in table.columns if name not in {*goals, *dropped}]
        chosen = [name for name in others if table.frame[name].notna().any()]
        if len(chosen) < len(others):
            table.tell(f"without values, left out: {listed([name for name in others if name not in chosen])}")
    both = [name for name in goals if name in chosen or name in dropped]
    if both:
        raise BadInputError(f"a target cannot be a feature or be dropped as well, got {listed(both)}")
    if not chosen:
        raise BadInputError(
            f"{table.path}: at least one feature column is needed, got none beside {listed(goals)}"
        )
    return chosen, goals


def named_columns(values: Sequence[str], table: Table, option: str) -> list[str]:
    """Columns that an option names."""
    names = split_names(values, table.columns)
    if not names:
        raise BadInputError(f"{option} must name at least one column, got {','.join(values)!r}")
    require_distinct(names, f"columns of {option}")
    absent = [name for name in names if name not in table.columns]
    if absent:
        hint = "" if len(table.columns) > 1 else ": is --sep right?"
        raise BadInputError(
            f"{option}: {table.path} has no column {listed(absent)}; it has {listed(table.columns)}{hint}"
        )
    return names


def require_distinct(names: Sequence[str], what: str) -> None:
    """Raise if a name stands there twice."""
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice:
        raise BadInputError(f"{what} must be distinct, got {listed(twice)} more than once")


def row_labels(table: Table, id_column: str | None) -> list[str]:
    """What rows are called in reports: their ids, or lines of the file."""
    if id_column is not None:
        return [str(name) for name in table.frame[id_column]]
    return [f"{table.unit} {number}" for number in table.frame.index]


def absent_cells(table: Table, names: Sequence[str]) -> Any:
    """Where columns have no value or an infinite one: a frame of bool."""
    chosen = table.frame[list(names)]
    return chosen.isna() | chosen.isin([np.inf, -np.inf])


def numbers(table: Table, names: Sequence[str], gaps: Sequence[str] = ()) -> Any:
    """Columns as a frame of finite float64; those of `gaps` may have NaN. Anything else is an error."""
    chosen = table.frame[list(names)]
    texts = {name: _stray(chosen[name]) for name, dtype in chosen.dtypes.items() if not _is_numeric(dtype)}
    absent = absent_cells(table, [name for name in names if name not in texts and name not in gaps])
    missing = {name: list(absent.index[absent[name]]) for name in absent if absent[name].any()}
    said = [f"{name} has no name" for name in names if name.startswith("(column ")]
    if texts:
        cells = [f"{name} ({cell!r} in {table.unit} {row})" for name, (row, cell) in texts.items()]
        said.append(f"text in {listed(cells)} ({_WRITTEN})")
    if missing:
        cells = [f"{name} in {table.rows(rows)}" for name, rows in missing.items()]
        said.append(f"missing or infinite values of {listed(cells)} ({_ABSENT})")
    if said:
        raise BadInputError(
            f"{table.path}: columns must be finite numbers in every row, got {'; '.join(said)}"
        )
    values = chosen.to_numpy(dtype=np.float64, na_value=np.nan)
    return pd.DataFrame(values, chosen.index, list(names))


def _stray(column: Any) -> tuple[Any, str]:
    """The first cell that is no number, and its row."""
    cells = column.dropna().astype(str)
    strays = cells[pd.to_numeric(cells, errors="coerce").isna()]
    row, cell = next(iter((strays if len(strays) else cells).items()))
    return row, cell if len(cell) <= 40 else f"{cell[:37]}..."


def _is_numeric(dtype: Any) -> bool:
    return bool(pd.api.types.is_numeric_dtype(dtype)) and not pd.api.types.is_complex_dtype(dtype)


def _learned(table: Table, features: list[str], options: TableOptions) -> Preparation:
    """What the rows of a fit decide."""
    named = named_columns(options.categorical, table, "--categorical") if options.categorical else []
    strange = [name for name in named if name not in features]
    if strange:
        raise BadInputError(f"--categorical must name features, got {listed(strange)}")
    levels: Mapping[str, list[str]] = {
        name: sorted(set(table.frame[name].dropna().astype(str))) for name in named
    }
    for name, found in levels.items():
        if len(found) > _MOST_LEVELS:
            raise BadInputError(
                f"{table.path}: a category may have up to {_MOST_LEVELS} levels, got {len(found)} in {name}: "
                "is it an id? give --id or --drop"
            )
    filled = [name for name in features if name not in levels and _is_numeric(table.frame[name].dtype)]
    medians = {name: float(table.frame[name].median()) for name in filled}
    by_median = options.missing is MissingValues.median
    return Preparation(
        features, dict(levels), options.missing.value, medians if by_median else {}, options.id_column
    )


def _tell_suspects(table: Table, names: Sequence[str]) -> None:
    """Name features that are constant, and whole numbers in order that may be ids."""
    values = {name: table.frame[name].to_numpy(np.float64, na_value=np.nan) for name in names}
    steps = {name: np.diff(column) for name, column in values.items()}
    constant = [name for name in names if not steps[name].any()]
    ordered = [
        name
        for name in names
        if name not in constant
        and not (values[name] % 1).any()
        and ((steps[name] > 0).all() or (steps[name] < 0).all())
    ]
    if constant:
        table.tell(f"constant, so without effect: {listed(constant)}")
    if ordered:
        table.tell(
            f"whole numbers in order: {listed(ordered)}; columns that only name rows are for --id or --drop"
        )
