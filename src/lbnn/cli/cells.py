"""What the cells of a column say: numbers, missing values or text; and whether a row holds units."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?|[-+]?inf(inity)?", re.IGNORECASE)
_DATE = re.compile(r"\d{1,4}([-./])\d{1,2}\1\d{1,4}([ T].*)?")
_GROUPED = re.compile(r"[-+]?[1-9]\d{0,2}([,.' \u00a0\u202f])\d{3}(?:\1\d{3})*([.,]\d*)?")
#: Texts that stand for a missing value in a column of numbers, in lower case. pandas knows most of the first
#: line; the second is what laboratories and agencies write; the third is what Excel writes for errors.
MISSING_TEXTS = frozenset(
    {"", "na", "n/a", "#n/a", "nan", "-nan", "null", "none", "<na>", "#na"}
    | {"n.a.", "n.a", "n. a.", "k.a.", "k. a.", "n.d.", "n.d", "nd", "missing", "-", "--", "–", "?", "."}
    | {"#div/0!", "#value!", "#ref!", "#num!", "#name?", "#null!"}
)  # fmt: skip
_LOOK_AT = 200  # cells that decide whether a column of text can be one of numbers at all


@dataclass
class Cells:
    """A column, cell by cell.

    Attributes
    ----------
    values : list of float
        Numbers; NaN where a value is missing or is no number.
    marks : dict
        Texts that stand for a missing value, by position; cells that are empty are not among them.
    strays : dict
        What is neither a number nor missing, by position.
    """

    values: list[float]
    marks: dict[int, str] = field(default_factory=dict)
    strays: dict[int, Any] = field(default_factory=dict)

    @property
    def numbers(self) -> int:
        """How many cells are numbers."""
        return sum(not math.isnan(value) for value in self.values)


def read_cells(cells: Iterable[Any], decimal: str) -> Cells:
    """A column read as numbers.

    Examples
    --------
    >>> from lbnn.cli.cells import read_cells
    >>> found = read_cells(["1,5", "n.a.", "", "x7"], decimal=",")
    >>> found.values, found.marks, found.strays
    ([1.5, nan, nan, nan], {1: 'n.a.'}, {3: 'x7'})
    """
    found = Cells([])
    for position, cell in enumerate(cells):
        value = _value(cell, decimal)
        if value is None:
            text = cell.strip() if isinstance(cell, str) else cell
            if not isinstance(text, str) or text.lower() not in MISSING_TEXTS:
                found.strays[position] = text
            elif text:
                found.marks[position] = text
        found.values.append(math.nan if value is None else value)
        if position == _LOOK_AT and len(found.strays) > position // 2:
            return found  # a column of text: the rest of it would only cost time
    return found


def _value(cell: Any, decimal: str) -> float | None:
    """The number that a cell holds, NaN where it is empty, None where it is a text or something else."""
    if cell is None:
        return math.nan
    if isinstance(cell, int | float):
        return float(cell)
    if not isinstance(cell, str):
        is_missing = cell != cell  # NaN and NaT, of any library
        return math.nan if isinstance(is_missing, bool) and is_missing else None
    text = cell.strip()
    if decimal != ".":
        if "." in text:
            return None  # 1.5 where 1,5 is expected, or 1.234,5: not to be guessed
        text = text.replace(decimal, ".")
    return float(text) if _NUMBER.fullmatch(text) else None


def without_separators(cell: Any) -> str:
    """A number whose digits are in groups of three, without the marks between them; empty for other cells.

    Examples
    --------
    >>> from lbnn.cli.cells import without_separators
    >>> [without_separators(cell) for cell in ("1,234", "-1.234.567,8", "0,125", "12,50", 1.5)]
    ['1234', '-1234567,8', '', '', '']
    """
    grouped = _GROUPED.fullmatch(cell.strip()) if isinstance(cell, str) else None
    if grouped is None or grouped[1] == (grouped[2] or "")[:1]:
        return ""
    return grouped[0].replace(grouped[1], "")


def is_date(cell: Any) -> bool:
    """Whether a cell is a date, or a text that looks like one."""
    if isinstance(cell, str):
        return bool(_DATE.fullmatch(cell.strip()))
    return hasattr(cell, "year") or hasattr(cell, "hour")


def is_units_row(rows: Sequence[Sequence[Any]], decimal: str) -> bool:
    """Whether the first row below the header holds units: no number where all columns of numbers have one.

    Examples
    --------
    >>> from lbnn.cli.cells import is_units_row
    >>> is_units_row([["", "mg", "%"], ["a", "1.5", "2"], ["b", "2.5", "3"]], decimal=".")
    True
    >>> is_units_row([["a", "1.5", "n.a."], ["b", "2.5", "3"], ["c", "3.5", "4"]], decimal=".")
    False
    """
    if len(rows) < 3:  # units, and two rows that say what the columns are
        return False
    texts = numeric = 0
    for column in range(max(map(len, rows))):
        first, *others = [row[column] if column < len(row) else None for row in rows]
        below = read_cells(others, decimal)
        if below.numbers < 1 or below.numbers < len(below.strays):
            continue  # a column of text
        numeric += 1
        units = read_cells([first], decimal)
        if units.numbers:
            return False
        texts += len(units.strays)
    return numeric >= 2 and texts >= 1
