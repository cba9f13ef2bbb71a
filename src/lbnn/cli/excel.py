"""Workbooks of Excel (.xlsx), read row by row with openpyxl: values only, no styles and no macros."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import pandas as pd

from lbnn._base.extras import needed
from lbnn.cli.cells import is_units_row
from lbnn.cli.problems import BadInputError
from lbnn.cli.reading import SAMPLE_ROWS, Dialect, Sheet, column_labels, units_note

_LARGEST = 1 << 31  # bytes of the unpacked file; beyond, it is a mistake or an attack


def read_excel(path: Path, dialect: Dialect) -> Sheet:
    """The sheet that `dialect` names, or the first that is not empty."""
    try:
        import openpyxl
    except ModuleNotFoundError as absent:
        raise BadInputError(needed(f"{path}: an Excel file", "openpyxl", "excel")) from absent
    _check_size(path)
    try:
        book = openpyxl.load_workbook(path, read_only=True, data_only=True, keep_links=False)
        try:
            return _read_book(path, book, dialect)
        finally:
            book.close()
    except BadInputError:
        raise
    except Exception as problem:  # of many kinds, from zip, XML and openpyxl
        reason = " ".join(str(problem).split()) or type(problem).__name__
        raise BadInputError(f"{path}: cannot be read as an Excel file: {reason}") from problem


def _check_size(path: Path) -> None:
    try:
        with zipfile.ZipFile(path) as file:
            size = sum(part.file_size for part in file.infolist())
    except (OSError, zipfile.BadZipFile) as problem:
        raise BadInputError(
            f"{path}: must be a workbook of Excel 2007 or later without a password, got a file that is none "
            "(save it anew as .xlsx, or as .csv)"
        ) from problem
    if size > _LARGEST:
        raise BadInputError(
            f"{path}: a workbook may have {_LARGEST >> 30} GiB when unpacked, got {size >> 30} GiB: save the "
            "sheet as .csv or .parquet"
        )


def _read_book(path: Path, book: Any, dialect: Dialect) -> Sheet:
    names = [sheet.title for sheet in book.worksheets]
    if dialect.sheet is not None and dialect.sheet not in names:
        raise BadInputError(f"--sheet: {path} has no sheet {dialect.sheet!r}; it has {', '.join(names)}")
    wanted = names if dialect.sheet is None else [dialect.sheet]
    for name in wanted:
        rows = _filled_rows(book[name])
        if rows:
            notes = []
            if len(names) > 1 and dialect.sheet is None:
                others = ", ".join(other for other in names if other != name)
                notes.append(f"{path.name}: sheet {name} is read; --sheet takes another of {others}")
            found = _sheet(path, rows, notes)
            found.pandas |= {"sheet_name": name} if names[0] != name else {}
            return found
    raise BadInputError(f"{path}: the first row must name the columns, got an empty sheet")


def _filled_rows(sheet: Any) -> dict[int, tuple[Any, ...]]:
    """Rows with a value, by their numbers; a sheet may pretend to have a million more."""
    sheet.reset_dimensions()
    rows = enumerate(sheet.iter_rows(values_only=True), 1)
    return {number: _trimmed(row) for number, row in rows if any(_filled(cell) for cell in row)}


def _filled(cell: Any) -> bool:
    return cell is not None and not (isinstance(cell, str) and not cell.strip())


def _trimmed(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Without the empty cells at its end."""
    last = max(place for place, cell in enumerate(row, 1) if _filled(cell))
    return row[:last]


def _sheet(path: Path, rows: dict[int, tuple[Any, ...]], notes: list[str]) -> Sheet:
    """The frame; the first row that is not empty names the columns."""
    (_, header), *body = rows.items()
    width = max(map(len, rows.values()))
    names = column_labels(path, ["" if cell is None else str(cell) for cell in header], width)
    decimal = "."  # Excel keeps numbers as numbers; texts are read with a point
    sample = [row for _, row in body[:SAMPLE_ROWS]]
    first = next(iter(rows))
    pandas: dict[str, Any] = {"header": first - 1} if first > 1 else {}
    if is_units_row(sample, decimal):
        pandas["skiprows"] = [body[0][0] - 1]
        notes.append(units_note(path, f"row {body[0][0]}", names, [str(c or "") for c in body[0][1]]))
        body = body[1:]
    cells = [[*row, *[None] * (width - len(row))] for _, row in body]
    empty_rows = (body[-1][0] - body[0][0] + 1 - len(body)) if body else 0
    frame = pd.DataFrame(
        {name: pd.Series([row[j] for row in cells], dtype=object) for j, name in enumerate(names)}
    )
    frame.index = pd.Index([number for number, _ in body])
    frame = frame.map(lambda cell: cell if _filled(cell) else None) if len(frame) else frame
    for name in names:  # columns of numbers as numbers; others stay as they are
        if frame[name].map(lambda cell: cell is None or type(cell) in (int, float)).all():
            frame[name] = frame[name].astype("float64")
        elif frame[name].map(lambda cell: isinstance(cell, bool)).all():
            frame[name] = frame[name].astype(bool)
    return Sheet(frame, "row", decimal, notes, empty_rows, pandas)
