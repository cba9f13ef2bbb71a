"""A file as a table of pandas: text, Excel or Parquet, read as the options say; nothing is guessed."""

from __future__ import annotations

import io
import itertools
import re
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import typer

from lbnn._base.extras import needed
from lbnn.cli.problems import BadInputError, listed, say

FORMATS = (".csv", ".tsv", ".txt", ".xlsx", ".parquet")
_PANEL = "Reading"
_SEPARATORS = {"tab": "\t", "comma": ",", "semicolon": ";"}
#: Before pandas 3 the last digit is lost by default; from then on the option is deprecated.
_EVERY_DIGIT: dict[str, Any] = (
    {} if int(pd.__version__.split(".")[0]) >= 3 else {"float_precision": "round_trip"}
)

#: What pandas means by some of its errors.
_REASONS: dict[type, str] = {
    pd.errors.EmptyDataError: "the first line must name the columns",
    pd.errors.ParserWarning: "rows have more fields than the first line names columns",
}


def _option(name: str, text: str, metavar: str | None = None) -> Any:
    return typer.Option(name, help=text, metavar=metavar, rich_help_panel=_PANEL)


@dataclass(frozen=True)
class Reading:
    """How a file is written: options of every command that reads a table."""

    sep: Annotated[str | None, _option("--sep", "Separator: ; tab ... (, or tab in .tsv, .txt)", "MARK")] = (
        None
    )
    decimal: Annotated[str, _option("--decimal", "Decimal mark, . or ,", "MARK")] = "."
    thousands: Annotated[str | None, _option("--thousands", "Mark between thousands", "MARK")] = None
    percent: Annotated[bool, _option("--percent", "Divide columns of 12% by 100")] = False
    skip_rows: Annotated[
        str, _option("--skip-rows", "Leave out: 2 the first two lines, 1,3 those lines", "ROWS")
    ] = ""
    encoding: Annotated[str, _option("--encoding", "Of text, as cp1252; UTF-8 by default", "NAME")] = "utf-8"
    na: Annotated[list[str], _option("--na", "Also stands for a missing value; repeat", "TEXT")] = field(
        default_factory=list
    )
    sheet: Annotated[
        str | None, _option("--sheet", "Of an .xlsx file; the one with all targets by default", "NAME")
    ] = None

    def __post_init__(self) -> None:
        if self.sep is not None and len(self.mark(".csv")) != 1:
            raise BadInputError(f"--sep must be one character, tab, comma or semicolon, got {self.sep!r}")
        if self.decimal not in (".", ","):
            raise BadInputError(f"--decimal must be . or a comma, got {self.decimal!r}")
        if self.thousands is not None and (len(self.thousands) != 1 or self.thousands == self.decimal):
            raise BadInputError(
                f"--thousands must be one character other than --decimal {self.decimal}, got "
                f"{self.thousands!r}"
            )
        if not re.fullmatch(r"(\d+(\s*,\s*\d+)*,?)?", self.skip_rows.strip()):
            raise BadInputError(
                f"--skip-rows must be a number of lines, or lines as 1,3 counted from one, got "
                f"{self.skip_rows!r}"
            )

    def mark(self, suffix: str) -> str:
        """Separator of the columns of a text file."""
        if self.sep is None:
            return "," if suffix == ".csv" else "\t"
        return _SEPARATORS.get(self.sep, self.sep.replace("\\t", "\t"))

    @property
    def skipped(self) -> set[int]:
        """Lines that are left out, counted from one."""
        lines = [int(each) for each in self.skip_rows.split(",") if each.strip()]
        return set(lines) if "," in self.skip_rows else set(range(1, 1 + sum(lines)))

    @property
    def numbers(self) -> dict[str, Any]:
        """How numbers are written, as arguments of pandas."""
        return {"decimal": self.decimal, "thousands": self.thousands, "na_values": list(self.na)}


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
        What the index counts: "line" in text files, "record" where cells have line breaks, "row" in others.
    notes : list of str
        What was left out, converted or replaced, for reports; each was said when it happened.
    """

    path: Path
    frame: Any
    unit: str = "row"
    notes: list[str] = field(default_factory=list)

    @property
    def columns(self) -> list[str]:
        """Names of all columns."""
        return list(self.frame.columns)

    def tell(self, note: str) -> None:
        """Say something about the table and keep it for the report."""
        said = f"{self.path.name}: {note}"
        say(said)
        self.notes.append(said)

    def rows(self, numbers: Sequence[Any]) -> str:
        """Line 14, or lines 14, 20 and 3 more."""
        return f"{self.unit}{'s' * (len(numbers) != 1)} {listed([str(number) for number in numbers])}"


def read_table(path: Path, reading: Reading | None = None, wanted: Sequence[str] = ()) -> Table:
    """Read a file; one that cannot be read as a table is an error.

    Of a workbook the sheet is read that has the columns `wanted`, unless `reading` names one.
    """
    reading, suffix = reading or Reading(), path.suffix.lower()
    if suffix not in FORMATS:
        old = "; save it as .xlsx" if suffix in (".xls", ".xlsm", ".xlsb", ".ods") else ""
        raise BadInputError(f"data must be a file that ends in {', '.join(FORMATS)}, got {path}{old}")
    if not path.is_file():
        raise BadInputError(f"data must be a file that exists, got {path}")
    if reading.sheet is not None and suffix != ".xlsx":
        raise BadInputError(f"--sheet is for .xlsx files, got {path}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)  # fields beyond the header would be lost
            table = {".xlsx": _excel, ".parquet": _parquet}.get(suffix, _text)(path, reading, wanted)
    except BadInputError:
        raise
    except ModuleNotFoundError as absent:
        raise BadInputError(needed(f"{path}: this file", str(absent.name), "cli")) from absent
    except Exception as problem:  # of many kinds, from pandas, zip, XML, openpyxl and pyarrow
        reason = _REASONS.get(type(problem)) or " ".join(str(problem).split()) or type(problem).__name__
        raise BadInputError(f"{path}: cannot be read as {_described(suffix, reading)}: {reason}") from problem
    if not len(table.columns) or not len(table.frame):
        shape = table.frame.shape[::-1]
        raise BadInputError(f"{path}: data must have at least one column and one row, got {shape}")
    return table


def _described(suffix: str, reading: Reading) -> str:
    """What a file was taken for."""
    if suffix in (".xlsx", ".parquet"):
        return {".xlsx": "an Excel file of 2007 or later without a password", ".parquet": "Parquet"}[suffix]
    mark = reading.mark(suffix).replace("\t", "tab")
    return f"text with --sep '{mark}' --encoding {reading.encoding}"


def _text(path: Path, reading: Reading, _: Sequence[str]) -> Table:
    load = partial(
        pd.read_csv,
        path,
        sep=reading.mark(path.suffix.lower()),
        encoding="utf-8-sig" if reading.encoding == "utf-8" else reading.encoding,
        index_col=False,
        low_memory=False,  # in one piece, so that a column has one type
        skip_blank_lines=False,  # lines keep their numbers
        **_EVERY_DIGIT,
    )
    return _loaded(path, reading, load, "line")


def _excel(path: Path, reading: Reading, wanted: Sequence[str]) -> Table:
    with pd.ExcelFile(path, engine="openpyxl") as book:
        sheets = [str(name) for name in book.sheet_names]
        sheet = reading.sheet
        if sheet is None:
            found = [
                name
                for name in sheets
                if len(sheets) == 1
                or _has(_header(partial(pd.read_excel, book, sheet_name=name), reading), wanted)
            ]
            if len(found) != 1:
                count = "none" if not found else f"{len(found)}, {listed(found)},"
                raise BadInputError(
                    f"{path}: one sheet must have all of {listed(wanted)}, got {count} of {listed(sheets)}: "
                    "name one with --sheet, and lines above the names of the columns with --skip-rows"
                )
            sheet = found[0]
        elif sheet not in sheets:
            raise BadInputError(f"--sheet: {path} has no sheet {sheet!r}; it has {listed(sheets)}")
        table = _loaded(path, reading, partial(pd.read_excel, book, sheet_name=sheet), "row")
    if len(sheets) > 1:
        table.tell(f"sheet {sheet} is read")
    return table


def _has(columns: Sequence[str], wanted: Sequence[str]) -> bool:
    return set(split_names(wanted, columns)) <= set(columns)


def _parquet(path: Path, *_: Any) -> Table:
    frame = pd.read_parquet(path)
    index = [str(name) for name in frame.index.names if name is not None]
    frame = frame.reset_index(drop=not index)
    frame.columns = _distinct(path, [str(name) for name in frame.columns])
    frame.index = pd.RangeIndex(1, len(frame) + 1)
    table = Table(path, frame)
    if index:
        table.tell(f"the index {listed(index)} is a column like the others")
    return table


def _header(load: Callable[..., Any], reading: Reading) -> list[str]:
    """Names of the columns as they are written: pandas would rename duplicates and invent names silently."""
    skipped = [line - 1 for line in reading.skipped]
    first = load(header=None, nrows=1, dtype=str, na_filter=False, skiprows=skipped)
    cells = first.iloc[0].tolist() if len(first) else []
    return [str(cell).strip() or f"(column {number})" for number, cell in enumerate(cells, 1)]


def _loaded(path: Path, reading: Reading, load: Callable[..., Any], unit: str) -> Table:
    """The table that `load` reads when it is given arguments of pandas."""
    load = partial(load, skiprows=[line - 1 for line in reading.skipped])
    names = _header(load, reading)
    if all(name.startswith("(column ") for name in names):
        raise BadInputError(
            f"{path}: the first {unit} must name the columns, got an empty one: --skip-rows leaves lines out"
        )
    _distinct(path, names)
    frame = load(**reading.numbers)
    if frame.shape[1] != len(names):
        raise BadInputError(
            f"{path}: every row must have one field for each of {len(names)} columns, got {frame.shape[1]}"
        )
    frame.columns = names
    texts = frame.select_dtypes(exclude="number")
    if any("\n" in str(cell) for cell in (*names, *texts.to_numpy().ravel())):
        unit = "record"  # as pandas counts
    numbered = (line for line in itertools.count(1) if line not in reading.skipped)
    frame.index = pd.Index(list(itertools.islice(numbered, 1, 1 + len(frame))))
    table = Table(path, frame, unit)
    percent = {name: _of_percent(frame[name], reading) for name in texts if reading.percent}
    percent = {name: column for name, column in percent.items() if column is not None}
    if percent:
        table.tell(f"{listed(list(percent))} in % is divided by 100")
    table = Table(path, frame.assign(**percent), unit, table.notes)
    if reading.thousands is not None:
        _check_thousands(table, load(dtype=object, na_filter=False), reading)
    return _without_empty(table)


def _distinct(path: Path, names: list[str]) -> list[str]:
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice:
        raise BadInputError(
            f"{path}: column names must be distinct, got {listed(twice)} more than once: rename them, or "
            "leave lines above the names out with --skip-rows"
        )
    return names


def _of_percent(column: Any, reading: Reading) -> Any:
    """The column divided by 100 where every cell is a number and ends in %; None otherwise."""
    cells = column.dropna().astype(str).str.strip()
    if not len(cells) or not cells.str.endswith("%").all():
        return None
    text = io.StringIO("\n".join(cells.str.removesuffix("%")))
    numbers = pd.read_csv(text, header=None, sep="\t", **reading.numbers, **_EVERY_DIGIT)[0]
    if not pd.api.types.is_numeric_dtype(numbers.dtype):
        return None
    return pd.Series(numbers.to_numpy() / 100, cells.index).reindex(column.index)


def _check_thousands(table: Table, cells: Any, reading: Reading) -> None:
    """Marks must stand between groups of three digits; pandas would read 1,5 as 15."""
    mark, point = re.escape(str(reading.thousands)), re.escape(reading.decimal)
    rule = re.compile(rf"\s*[-+]?\d{{1,3}}({mark}\d{{3}})*({point}\d*)?([eE][-+]?\d+)?\s*%?\s*")
    for place, (name, dtype) in enumerate(table.frame.dtypes.items()):
        column = cells.iloc[:, place] if pd.api.types.is_numeric_dtype(dtype) else ()
        for row, cell in zip(table.frame.index, column, strict=False):
            if isinstance(cell, str) and str(reading.thousands) in cell and not rule.fullmatch(cell):
                raise BadInputError(
                    f"{table.path}: --thousands {reading.thousands} must stand before groups of three "
                    f"digits, got {cell!r} for {name} in {table.unit} {row}"
                )


def _without_empty(table: Table) -> Table:
    """Without columns that have neither a name nor a value, and without rows that have no value."""
    frame = table.frame.copy()  # columns of one kind together: readers leave thousands of single ones
    unnamed = [name for name in frame if name.startswith("(column ") and frame[name].isna().all()]
    frame = frame.drop(columns=unnamed)
    bare = frame.isna().all(axis=1).to_numpy()
    counts = (len(unnamed), "column"), (int(bare.sum()), "row")
    said = " and ".join(f"{count} empty {word}{'s' * (count != 1)}" for count, word in counts if count)
    if said:
        table.tell(f"{said} left out")
    return Table(table.path, frame[~bare], table.unit, table.notes)


def split_names(values: Sequence[str], columns: Sequence[str]) -> list[str]:
    """Names given as `a,b`, by repeating an option, or as one column whose name contains a comma.

    Examples
    --------
    >>> from lbnn.cli.reading import split_names
    >>> split_names(["a,b", "fat, raw"], ["a", "b", "fat, raw"])
    ['a', 'b', 'fat, raw']
    """
    parts = ([value] if value in columns else value.split(",") for value in values)
    return [name for names in parts for name in map(str.strip, names) if name]
