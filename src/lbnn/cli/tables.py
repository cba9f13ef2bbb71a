"""Tables of data: text, Excel and Parquet files, choosing columns, and the rules that data must keep."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from lbnn.cli.cells import read_cells, without_separators
from lbnn.cli.excel import read_excel
from lbnn.cli.problems import BadInputError, say
from lbnn.cli.reading import TEXT_FORMATS, Dialect, Sheet, read_text

FORMATS = (*TEXT_FORMATS, ".xlsx", ".parquet")
_MOST_LISTED = 5  # names, rows or values in a message before "and 3 more"
_MOST_CELLS = 3  # cells in a message

Number = TypeVar("Number", int, float)


@dataclass(frozen=True)
class Table:
    """The columns of a file, in its order.

    Attributes
    ----------
    path : Path
        Of the file.
    frame : pandas.DataFrame
        The index holds the numbers of lines or rows in the file.
    unit : str
        What the index counts, "line" or "row".
    decimal : str
        Decimal mark of texts that are numbers.
    marks : dict
        For columns of numbers: texts that stood for missing values, by line or row.
    notes : list of str
        What was guessed, left out or replaced, for reports; each was said when it happened.
    pandas : dict
        Arguments with which pandas reads the same from the file.
    """

    path: Path
    frame: Any  # pandas.DataFrame
    unit: str = "row"
    decimal: str = "."
    marks: dict[str, dict[int, str]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    pandas: dict[str, Any] = field(default_factory=dict)

    @property
    def columns(self) -> list[str]:
        """Names of all columns."""
        return list(self.frame.columns)

    def python(self, name: str) -> str:
        """The call of pandas that reads the file, here called `name`."""
        reader = {".xlsx": "read_excel", ".parquet": "read_parquet"}.get(self.path.suffix.lower(), "read_csv")
        texts = sorted({text for cells in self.marks.values() for text in cells.values()})
        texts += [text for text in self.pandas.get("na_values", []) if text not in texts]
        options = self.pandas | ({"na_values": texts} if texts else {})
        return (
            f"pd.{reader}({', '.join([repr(name), *(f'{key}={value!r}' for key, value in options.items())])})"
        )

    def tell(self, note: str) -> None:
        """Say something about the table and keep it for the report."""
        say(note)
        self.notes.append(note)

    def numbers(self, names: Sequence[str]) -> Any:
        """These columns as a frame of finite float64, (rows, len(names)); anything else is an error."""
        wrong = self.problems(names)
        if wrong:
            raise BadInputError(f"{self.path}: values must be finite numbers: {wrong.describe()}")
        values = self.frame[list(names)].to_numpy(dtype=np.float64, na_value=np.nan)
        return pd.DataFrame(values, index=self.frame.index, columns=list(names))

    def partial_numbers(self, names: Sequence[str]) -> Any:
        """`numbers` of columns in which cells may be missing, NaN there."""
        wrong = self.problems(names)
        wrong.missing = {}
        if wrong:
            raise BadInputError(f"{self.path}: values must be finite numbers or missing: {wrong.describe()}")
        values = self.frame[list(names)].to_numpy(dtype=np.float64, na_value=np.nan)
        return pd.DataFrame(values, index=self.frame.index, columns=list(names))

    def problems(self, names: Sequence[str]) -> Problems:
        """What keeps these columns from being finite numbers."""
        chosen = self.frame[list(names)]
        found = Problems(self, unnamed=[name for name in names if name.startswith("(column ")])
        numeric = [name for name, dtype in chosen.dtypes.items() if _is_numeric(dtype)]
        missing = ~np.isfinite(chosen[numeric].to_numpy(dtype=np.float64, na_value=np.nan))
        for place in np.flatnonzero(missing.any(axis=0)):
            found.missing[numeric[place]] = chosen.index[missing[:, place]]
        for name in sorted(set(names) - set(numeric), key=list(names).index):
            column = chosen[name]
            cells = read_cells(column.tolist(), self.decimal)
            if cells.numbers and cells.numbers >= len(cells.strays):
                found.strays[name] = {column.index[place]: text for place, text in cells.strays.items()}
            else:
                found.texts[name] = next(iter(cells.strays.items()), (0, column.iloc[0]))
        return found

    def absent(self, names: Sequence[str]) -> Any:
        """Where these columns have no value or an infinite one: a frame of bool."""
        chosen = self.frame[list(names)]
        missing = chosen.isna()
        numeric = np.array([_is_numeric(dtype) for dtype in chosen.dtypes], bool)
        values = chosen.loc[:, numeric].to_numpy(dtype=np.float64, na_value=np.nan)
        found = missing.to_numpy(copy=True)
        found[:, numeric] = ~np.isfinite(values)
        return pd.DataFrame(found, index=missing.index, columns=missing.columns)

    def rows(self, numbers: Sequence[int]) -> str:
        """Line 14, or lines 14, 20 and 3 more."""
        shown = listed([str(number) for number in numbers])
        return f"{self.unit}{'s' * (len(numbers) != 1)} {shown}"


@dataclass
class Problems:
    """What keeps columns of a table from being finite numbers; false if nothing does.

    Attributes
    ----------
    table : Table
        That they are columns of.
    unnamed : list of str
        Columns without a name.
    texts : dict
        Columns of text, each with the position and the value of its first text.
    strays : dict
        Columns of numbers with some texts, by line or row.
    missing : dict
        Columns with missing or infinite values, and the lines or rows of these.
    """

    table: Table
    unnamed: list[str] = field(default_factory=list)
    texts: dict[str, tuple[int, Any]] = field(default_factory=dict)
    strays: dict[str, dict[int, Any]] = field(default_factory=dict)
    missing: dict[str, Any] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.unnamed or self.texts or self.strays or self.missing)

    def joined(self, other: Problems) -> Problems:
        """The problems of other columns as well."""
        return Problems(
            self.table,
            [*self.unnamed, *other.unnamed],
            {**self.texts, **other.texts},
            {**self.strays, **other.strays},
            {**self.missing, **other.missing},
        )

    def describe(self) -> str:
        """Every problem with its cells, in one line."""
        table = self.table
        said = [f"{listed(self.unnamed)} has no name"] if self.unnamed else []
        if self.texts:
            shown = [
                f"{name} ({_quoted(text)} in {table.unit} {table.frame.index[place]})"
                for name, (place, text) in self.texts.items()
            ]
            said.append(f"{listed(shown)} {'is' if len(shown) == 1 else 'are'} text")
        for name, cells in list(self.strays.items())[:_MOST_LISTED]:
            shown = [f"{_quoted(text)} in {table.unit} {row}" for row, text in cells.items()]
            said.append(f"{name} is {listed(shown, _MOST_CELLS)}")
        if len(self.strays) > _MOST_LISTED:
            said.append(f"{len(self.strays) - _MOST_LISTED} more columns have such texts")
        if self.missing:
            said.append(self._missing())
        return "; ".join(said)

    def separated(self) -> str:
        """What to do about numbers with thousands separators; empty where there are none."""
        cells = [text for _, text in self.texts.values()]
        cells += [text for column in self.strays.values() for text in column.values()]
        for cell in cells:
            number = without_separators(cell)
            if number:
                return f"write numbers without thousands separators, {number} for {_quoted(cell)}"
        return ""

    def _missing(self) -> str:
        count = sum(map(len, self.missing.values()))
        shown = []
        for name, rows in list(self.missing.items())[:_MOST_LISTED]:
            marks = self.table.marks.get(name, {})
            texts = sorted({_quoted(marks[row]) for row in rows if row in marks})
            shown.append(
                f"{name} in {self.table.rows(list(rows))}" + (f" ({', '.join(texts)})" if texts else "")
            )
        more = f", and in {len(self.missing) - _MOST_LISTED} more" if len(self.missing) > _MOST_LISTED else ""
        return f"{count} missing or infinite value{'s' * (count != 1)}: {', '.join(shown)}{more}"


def _quoted(value: Any) -> str:
    text = str(value)
    return repr(text if len(text) <= 40 else text[:37] + "...")


def read_table(path: Path, dialect: Dialect | None = None) -> Table:
    """Read a file; one that cannot be read as a table is an error."""
    suffix = path.suffix.lower()
    if suffix not in FORMATS:
        old = "; save it as .xlsx" if suffix in (".xls", ".xlsm", ".xlsb", ".ods") else ""
        raise BadInputError(f"data must be a file that ends in {', '.join(FORMATS)}, got {path}{old}")
    if not path.is_file():
        raise BadInputError(f"data must be a file that exists, got {path}")
    dialect = dialect or Dialect()
    if dialect.sheet is not None and suffix != ".xlsx":
        raise BadInputError(f"--sheet is for .xlsx files, got {path}")
    reader = {".xlsx": read_excel, ".parquet": _read_parquet}.get(suffix, read_text)
    sheet = reader(path, dialect)
    table = _typed(path, _without_empty(path, sheet), dialect)
    for note in table.notes:
        say(note)
    if not len(table.columns) or not len(table.frame):
        shape = table.frame.shape[::-1]
        raise BadInputError(f"{path}: data must have at least one column and one row, got {shape}")
    return table


def _without_empty(path: Path, sheet: Sheet) -> Sheet:
    """Without columns that have neither a name nor a value, and without rows that have no value."""
    frame = sheet.frame.copy()  # columns of one kind together: readers leave thousands of single ones
    empty = [name for name in frame if name.startswith("(column ") and frame[name].isna().all()]
    frame = frame.drop(columns=empty)
    bare = frame.isna().all(axis=1).to_numpy() if len(frame.columns) else np.zeros(len(frame), bool)
    rows = int(bare.sum()) + sheet.empty_rows
    counts = [(len(empty), "column"), (rows, "row")]
    said = " and ".join(f"{count} empty {word}{'s' * (count != 1)}" for count, word in counts if count)
    if said:
        verb = "is" if len(empty) + rows == 1 else "are"
        sheet.notes.append(f"{path.name}: {said} {verb} left out")
    sheet.frame = frame[~bare]
    return sheet


def _typed(path: Path, sheet: Sheet, dialect: Dialect) -> Table:
    """With columns of numbers as numbers, where every other cell stands for a missing value."""
    frame, marks, changed = sheet.frame, {}, {}
    given = {text.lower() for text in dialect.na}
    for name, dtype in frame.dtypes.items():
        if _is_numeric(dtype) and not given:
            continue
        column = _without(frame[name], given)
        if not _is_numeric(column.dtype):
            cells = read_cells(column.tolist(), sheet.decimal)
            if cells.numbers and not cells.strays and len(cells.values) == len(column):
                marks[name] = {column.index[place]: text for place, text in cells.marks.items()}
                column = pd.Series(cells.values, column.index)
        changed[name] = column
    frame = frame.assign(**changed)
    pandas = sheet.pandas | ({"na_values": list(dialect.na)} if dialect.na else {})
    table = Table(path, frame, sheet.unit, sheet.decimal, marks, sheet.notes, pandas)
    booleans = [name for name, dtype in frame.dtypes.items() if pd.api.types.is_bool_dtype(dtype)]
    if booleans:
        table.notes.append(f"{path.name}: true and false are read as 1 and 0 in {listed(booleans)}")
    return table


def _without(column: Any, texts: set[str]) -> Any:
    """The column with the texts of --na as missing values; -999 is one for numbers too."""
    if not texts:
        return column
    if not _is_numeric(column.dtype):
        return column.mask(column.map(lambda cell: isinstance(cell, str) and cell.strip().lower() in texts))
    codes = [value for value in read_cells(sorted(texts), ".").values if value == value]
    return column.mask(column.isin(codes)) if codes else column


def _read_parquet(path: Path, _: Dialect) -> Sheet:
    try:
        frame = pd.read_parquet(path)
    except Exception as problem:  # pyarrow's errors are of many kinds
        reason = " ".join(str(problem).split())
        raise BadInputError(f"{path}: cannot be read as Parquet: {reason}") from problem
    named = [str(name) for name in frame.index.names if name is not None]
    notes = [f"{path.name}: the index {listed(named)} is a column like the others"] if named else []
    frame = frame.reset_index(drop=not named)
    frame.columns = [str(name) for name in frame.columns]
    require_distinct(list(frame.columns), f"{path}: column names")
    frame.index = pd.RangeIndex(1, len(frame) + 1)
    return Sheet(frame, "row", ".", notes)


def _is_numeric(dtype: Any) -> bool:
    return bool(pd.api.types.is_numeric_dtype(dtype)) and not pd.api.types.is_complex_dtype(dtype)


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
        others = [name for name in table.columns if name not in {*goals, *dropped}]
        bare = table.frame[others].isna().all().to_numpy() & bool(len(table.frame))
        empty = [name for name, without in zip(others, bare, strict=True) if without]
        if empty:
            verb = "has" if len(empty) == 1 else "have"
            table.tell(f"{table.path.name}: {listed(empty)} {verb} no values: left out")
        chosen = [name for name in others if name not in set(empty)]
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
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice:
        raise BadInputError(f"{what} must be distinct, got {listed(twice)} more than once")


def listed(names: Sequence[str], most: int = _MOST_LISTED) -> str:
    """The first few names, for a message."""
    rest = len(names) - most
    return ", ".join(names[:most]) + (f" and {rest} more" if rest > 0 else "")


def option(name: str, values: Sequence[str]) -> str:
    """An option as a shell takes it: --drop id,date, or one for each where a value has a comma."""
    if any("," in value for value in values):
        return " ".join(f"{name} {shlex.quote(value)}" for value in values)
    return f"{name} {shlex.quote(','.join(values))}"


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
