"""CSV in the dialects that programs write: separators, decimal commas and encodings, guessed unless given."""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd
import typer

from lbnn.cli.problems import BadInputError

_SEPARATORS = ",;\t|"
_NAMES = {"tab": "\t", "comma": ",", "semicolon": ";"}
_DECIMAL_COMMA = re.compile(r"^\s*[-+]?\d+,\d+([eE][-+]?\d+)?\s*$")
_LINES = 50  # that a guess rests on
#: Before pandas 3 the last digit is lost by default; from then on the option is deprecated.
_EVERY_DIGIT: dict[str, Any] = (
    {} if int(pd.__version__.split(".")[0]) >= 3 else {"float_precision": "round_trip"}
)


@dataclass(frozen=True)
class Dialect:
    """How a CSV file is written; None is to be guessed."""

    sep: str | None = None
    decimal: str | None = None
    encoding: str | None = None

    @classmethod
    def of(cls, sep: str | None, decimal: str | None, encoding: str | None) -> Dialect:
        """From options."""
        if sep is not None:
            sep = _NAMES.get(sep, sep.replace("\\t", "\t"))
            if len(sep) != 1:
                raise BadInputError(f"--sep must be one character, tab, comma or semicolon, got {sep!r}")
        if decimal not in (None, ".", ","):
            raise BadInputError(f"--decimal must be . or a comma, got {decimal!r}")
        return cls(sep, decimal, encoding)

    def options(self) -> str:
        """As options of the command line."""
        sep = {"\t": "tab"}.get(self.sep or "", self.sep)
        return f"--sep '{sep}' --decimal '{self.decimal}' --encoding {self.encoding}"


PLAIN = Dialect(",", ".", "utf-8")


def read_csv(path: Path, dialect: Dialect) -> Any:
    """A frame; what was guessed and is not plain CSV is said."""
    try:
        full = guessed(path, dialect)
        names = _header(path, full)
    except csv.Error as problem:
        raise BadInputError(
            f"{path}: the first lines must be CSV with fields of at most {csv.field_size_limit():,} "
            f"characters, got: {problem}"
        ) from problem
    if full != PLAIN and full != dialect:
        typer.echo(f"{path.name} is read with {full.options()} (guessed; give them to change it)")
    try:
        return pd.read_csv(
            path,
            names=names,
            header=0,
            index_col=False,
            sep=full.sep,
            decimal=full.decimal,
            encoding=_with_mark(full.encoding),
            low_memory=False,  # the type of a column from all of its rows
            **_EVERY_DIGIT,
        )
    except (pd.errors.ParserError, csv.Error) as problem:
        reason = str(problem).removeprefix("Error tokenizing data. C error: ").strip()
        raise BadInputError(
            f"{path}: every row must have one field for each column, got: {reason}; it was read with "
            f"{full.options()}"
        ) from problem
    except (pd.errors.EmptyDataError, OSError, ValueError) as problem:
        raise BadInputError(f"{path}: cannot be read as CSV: {problem}") from problem


def guessed(path: Path, dialect: Dialect) -> Dialect:
    """The dialect with what is not given guessed from the first lines."""
    encoding, lines = _decoded(path, dialect.encoding)
    if not lines or not any(name.strip(" ,;\t|") for name in lines[:1]):
        raise BadInputError(f"{path}: the first line must name the columns, got an empty one")
    sep = dialect.sep or _guess_separator(lines)
    decimal = dialect.decimal or _guess_decimal(lines, sep)
    if sep == decimal:
        raise BadInputError(f"--sep and --decimal must differ, got {sep!r} for both")
    return replace(dialect, sep=sep, decimal=decimal, encoding=encoding)


def _decoded(path: Path, encoding: str | None) -> tuple[str, list[str]]:
    """The encoding and the first lines."""
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
        return each, text.splitlines()[:_LINES]
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


def _guess_decimal(lines: list[str], sep: str) -> str:
    if sep == ",":
        return "."
    cells = [cell for row in csv.reader(lines[1:], delimiter=sep) for cell in row]
    commas = sum(bool(_DECIMAL_COMMA.match(cell)) for cell in cells)
    points = sum(bool(re.match(r"^\s*[-+]?\d+\.\d+\s*$", cell)) for cell in cells)
    return "," if commas > points else "."


def _header(path: Path, dialect: Dialect) -> list[str]:
    """Names of the columns; pandas would rename duplicates and invent names silently."""
    with path.open(encoding=_with_mark(dialect.encoding), newline="") as file:
        rows = csv.reader(file, delimiter=dialect.sep or ",")
        first = next(rows, [])
        second = next((row for row in rows if row), [])
    if len(second) > len(first):  # of which pandas would only warn; it refuses later rows that are longer
        raise BadInputError(
            f"{path}: every row must have one field for each column, got {len(second)} fields below a header "
            f"of {len(first)}; it was read with {dialect.options()}"
        )
    names = [name.strip() or f"(column {number})" for number, name in enumerate(first, 1)]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise BadInputError(f"{path}: column names must be distinct, got {', '.join(twice)} more than once")
    return names
