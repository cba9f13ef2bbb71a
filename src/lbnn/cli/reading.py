"""Tables in text files: separator, decimal mark and encoding are guessed unless given; units are found."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd

from lbnn.cli.cells import is_units_row, without_separators
from lbnn.cli.problems import BadInputError

TEXT_FORMATS = (".csv", ".tsv", ".txt")
SAMPLE_ROWS = 50  # that a guess rests on
_SEPARATORS = ",;\t|"
_NAMES = {"tab": "\t", "comma": ",", "semicolon": ";"}
_DECIMAL_COMMA = re.compile(r"^\s*[-+]?\d+,\d+([eE][-+]?\d+)?\s*$")
_DECIMAL_POINT = re.compile(r"^\s*[-+]?\d+\.\d+([eE][-+]?\d+)?\s*$")
#: Before pandas 3 the last digit is lost by default; from then on the option is deprecated.
_EVERY_DIGIT: dict[str, Any] = (
    {} if int(pd.__version__.split(".")[0]) >= 3 else {"float_precision": "round_trip"}
)


@dataclass(frozen=True)
class Dialect:
    """How a file is written; None is to be guessed.

    Attributes
    ----------
    sep, decimal, encoding : str, optional
        Of text files.
    sheet : str, optional
        Of a workbook; the first that is not empty by default.
    na : tuple of str
        Texts that stand for missing values, beside the usual ones.
    """

    sep: str | None = None
    decimal: str | None = None
    encoding: str | None = None
    sheet: str | None = None
    na: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        sep: str | None,
        decimal: str | None,
        encoding: str | None,
        sheet: str | None = None,
        na: Sequence[str] = (),
    ) -> Dialect:
        """From options."""
        if sep is not None:
            sep = _NAMES.get(sep, sep.replace("\\t", "\t"))
            if len(sep) != 1:
                raise BadInputError(f"--sep must be one character, tab, comma or semicolon, got {sep!r}")
        if decimal not in (None, ".", ","):
            raise BadInputError(f"--decimal must be . or a comma, got {decimal!r}")
        return cls(sep, decimal, encoding, sheet, tuple(text.strip() for text in na))

    def options(self) -> str:
        """As options of the command line."""
        sep = {"\t": "tab"}.get(self.sep or "", self.sep)
        return f"--sep '{sep}' --decimal '{self.decimal}' --encoding {self.encoding}"

    def is_plain(self, suffix: str) -> bool:
        """Commas between fields (tabs in a .tsv file), decimal points and UTF-8 go without saying."""
        sep = "\t" if suffix.lower() == ".tsv" else ","
        return (self.sep, self.decimal, self.encoding) == (sep, ".", "utf-8")


@dataclass
class Sheet:
    """What a reader hands over.

    Attributes
    ----------
    frame : pandas.DataFrame
        Named columns; the index holds the numbers of lines or rows in the file.
    unit : str
        "line" in text files, "row" in others: what the index counts.
    decimal : str
        Decimal mark of texts.
    notes : list of str
        What was guessed or left out.
    empty_rows : int
        Rows without a value that the reader has left out already.
    pandas : dict
        Arguments with which pandas reads the same from the file, for code that is shown to users.
    """

    frame: Any
    unit: str
    decimal: str
    notes: list[str] = field(default_factory=list)
    empty_rows: int = 0
    pandas: dict[str, Any] = field(default_factory=dict)


def read_text(path: Path, dialect: Dialect) -> Sheet:
    """A table from a text file."""
    encoding, text = _decoded(path, dialect.encoding)
    try:
        full = _guessed(path, text, replace(dialect, encoding=encoding))
        records = _first_records(text, full)
    except csv.Error as problem:
        raise BadInputError(
            f"{path}: the first lines must be CSV with fields of at most {csv.field_size_limit():,} "
            f"characters, got: {problem}"
        ) from problem
    notes = []
    guessed = (full.sep, full.decimal, full.encoding) != (dialect.sep, dialect.decimal, dialect.encoding)
    if not full.is_plain(path.suffix) and guessed:
        notes.append(f"{path.name} is read with {full.options()} (guessed; give them to change it)")
    header, body = records[0], records[1:]
    units = is_units_row(body, full.decimal or ".")
    frame, named = _parsed(path, text, full, header, max(map(len, records)), units)
    frame.index = pd.Index(_line_numbers(text, full, len(frame), units))
    _require_fields(path, frame, full, named)
    if units:
        line = _record_lines(text, full, 2)[1]
        notes.append(units_note(path, f"line {line}", list(frame.columns), body[0]))
    given = {"sep": full.sep, "decimal": full.decimal, "encoding": full.encoding}
    usual = {"sep": ",", "decimal": ".", "encoding": "utf-8"}
    pandas = {name: value for name, value in given.items() if value != usual[name]}
    return Sheet(frame, "line", full.decimal or ".", notes, 0, pandas | ({"skiprows": [1]} if units else {}))


def units_note(path: Path, place: str, names: Sequence[str], cells: Sequence[str]) -> str:
    """Says that a row was taken as units."""
    shown = [f"{name} in {cell.strip()}" for name, cell in zip(names, cells, strict=False) if cell.strip()]
    more = f" and {len(shown) - 4} more" if len(shown) > 4 else ""
    return f"{path.name}: {place} holds units and no data ({', '.join(shown[:4])}{more}): it is left out"


def column_labels(path: Path, header: Sequence[str], width: int) -> list[str]:
    """Names of `width` columns; pandas would rename duplicates and invent names silently."""
    padded = [*header, *[""] * (width - len(header))]
    names = [name.strip() or f"(column {number})" for number, name in enumerate(padded, 1)]
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice:
        raise BadInputError(f"{path}: column names must be distinct, got {', '.join(twice)} more than once")
    return names


def _parsed(
    path: Path, text: str, dialect: Dialect, header: list[str], width: int, units: bool
) -> tuple[Any, int]:
    """The frame, with a column for each field of the longest row, and how many columns the header names."""
    options: dict[str, Any] = {
        "header": None,  # `names` has it, and a place for fields beyond it
        "index_col": False,
        "sep": dialect.sep,
        "decimal": dialect.decimal,
        "encoding": _with_mark(dialect.encoding),
        "skiprows": 1 + units,
        "skip_blank_lines": False,  # they are counted, so that later lines have their numbers
        "low_memory": False,  # the type of a column from all of its rows
        **_EVERY_DIGIT,
    }
    try:
        try:
            names = column_labels(path, header, width)
            return pd.read_csv(path, names=names, **options), len(header)
        except pd.errors.ParserError:  # a later row is longer: by empty fields only, perhaps
            longest = max(map(len, csv.reader(io.StringIO(text, newline=""), delimiter=dialect.sep or ",")))
            if longest <= width:
                raise
            names = column_labels(path, header, longest)
            return pd.read_csv(path, names=names, **options), len(header)
    except (pd.errors.ParserError, csv.Error) as problem:
        reason = str(problem).removeprefix("Error tokenizing data. C error: ").strip()
        raise BadInputError(
            f"{path}: every row must have one field for each column, got: {reason}; it was read with "
            f"{dialect.options()}"
        ) from problem
    except (pd.errors.EmptyDataError, OSError, ValueError) as problem:
        raise BadInputError(f"{path}: cannot be read as CSV: {problem}") from problem


def _require_fields(path: Path, frame: Any, dialect: Dialect, named: int) -> None:
    """Raise where a row has values beyond the last column that the header names."""
    beyond = frame.iloc[:, named:].notna().any(axis=1)
    if beyond.any():
        line = frame.index[beyond][0]
        fields = frame.loc[line].notna().to_numpy().nonzero()[0].max() + 1
        raise BadInputError(
            f"{path}: every row must have one field for each column, got {fields} fields in line {line} "
            f"below a header of {named}; it was read with {dialect.options()}"
        )


def _line_numbers(text: str, dialect: Dialect, rows: int, units: bool) -> Sequence[int]:
    """The line in which each row begins; fields with line breaks shift those below."""
    skipped = 1 + units
    if len(text.splitlines()) == rows + skipped:
        return range(1 + skipped, 1 + skipped + rows)
    return _record_lines(text, dialect)[skipped : skipped + rows]


def _record_lines(text: str, dialect: Dialect, most: int | None = None) -> list[int]:
    """The line in which each record begins."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=dialect.sep or ",")
    lines, last = [], 0
    for _ in reader:
        lines.append(last + 1)
        last = reader.line_num
        if most is not None and len(lines) == most:
            break
    return lines


def guessed(path: Path, dialect: Dialect) -> Dialect:
    """The dialect with what is not given guessed from the first lines."""
    encoding, text = _decoded(path, dialect.encoding)
    return _guessed(path, text, replace(dialect, encoding=encoding))


def _guessed(path: Path, text: str, dialect: Dialect) -> Dialect:
    lines = text[: _end_of_sample(text)].splitlines()
    if not lines or not lines[0].strip(" ,;\t|"):
        raise BadInputError(f"{path}: the first line must name the columns, got an empty one")
    sep = dialect.sep or _guess_separator(lines)
    decimal = dialect.decimal or _guess_decimal(path, lines, sep)
    if sep == decimal:
        raise BadInputError(f"--sep and --decimal must differ, got {sep!r} for both")
    return replace(dialect, sep=sep, decimal=decimal)


def _end_of_sample(text: str) -> int:
    """Where the first lines end."""
    place = 0
    for _ in range(SAMPLE_ROWS):
        place = text.find("\n", place) + 1
        if not place:
            return len(text)
    return place


def _first_records(text: str, dialect: Dialect) -> list[list[str]]:
    """Header and rows of the first lines; empty lines below the header are left out."""
    lines = io.StringIO(text[: _end_of_sample(text)], newline="")
    records = list(csv.reader(lines, delimiter=dialect.sep or ","))
    return [records[0], *(record for record in records[1:] if record)]


def _decoded(path: Path, encoding: str | None) -> tuple[str, str]:
    """The encoding and the text."""
    content = path.read_bytes()
    for each in [encoding] if encoding else ["utf-8", "cp1252"]:
        try:
            text = content.decode(_with_mark(each))
        except (UnicodeDecodeError, LookupError) as problem:
            if encoding is None and each == "utf-8":
                continue
            raise BadInputError(
                f"{path}: text must be in the encoding {each}, got: {problem}; give the right one with "
                "--encoding, such as utf-8, latin-1, cp1252 or utf-16"
            ) from problem
        if "\x00" in text:
            raise BadInputError(
                f"{path}: text must not hold zero bytes, got some: it may be in utf-16; give --encoding "
                "utf-16"
            )
        return each, text
    raise AssertionError("one of the encodings decodes or raises")


def _with_mark(encoding: str | None) -> str:
    """UTF-8 with or without the mark that some programs put first."""
    return "utf-8-sig" if encoding in (None, "utf-8") else encoding


def _guess_separator(lines: list[str]) -> str:
    """The one that gives the header most fields and most rows as many."""

    def fit(sep: str) -> tuple[int, int]:
        widths = [len(row) for row in csv.reader(lines, delimiter=sep)]
        return sum(width == widths[0] for width in widths) * (widths[0] > 1), widths[0]

    return max(_SEPARATORS, key=fit)


def _guess_decimal(path: Path, lines: list[str], sep: str) -> str:
    if sep == ",":
        return "."
    cells = [cell for row in csv.reader(lines[1:], delimiter=sep) for cell in row]
    commas = [cell for cell in cells if _DECIMAL_COMMA.match(cell)]
    points = sum(bool(_DECIMAL_POINT.match(cell)) for cell in cells)
    grouped = [cell for cell in commas if without_separators(cell)]
    if commas and len(grouped) == len(commas):  # a wrong guess would be wrong by a factor of 1000
        if points:
            return "."
        raise BadInputError(
            f"{path}: the comma in {grouped[0].strip()!r} may be a decimal mark or separate thousands: give "
            "--decimal , in the first case, and write numbers without separators in the second"
        )
    return "," if len(commas) > points else "."
