"""Options that several commands share, one by one and in groups.

A group is a dataclass. `with_groups` makes a command that takes groups into one whose options are the fields
of these, in the order of its parameters.
"""

from __future__ import annotations

import enum
import inspect
from collections.abc import Callable, Iterator
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from lbnn.cli.preparing import Columns
from lbnn.cli.reading import Dialect

Data = Annotated[
    Path,
    typer.Argument(
        help="Table of examples, one per row below a header: .csv, .tsv, .xlsx or .parquet.",
        show_default=False,
    ),
]
Targets = Annotated[
    list[str],
    typer.Option(
        "--targets", "-t", help="Columns to predict, as a,b or repeated.", metavar="NAMES", show_default=False
    ),
]
Features = Annotated[
    list[str],
    typer.Option(
        "--features",
        "-x",
        help="Columns to predict from; all others by default.",
        metavar="NAMES",
        show_default=False,
    ),
]
Drop = Annotated[
    list[str], typer.Option("--drop", help="Columns to leave out.", metavar="NAMES", show_default=False)
]
Separator = Annotated[
    str | None,
    typer.Option(
        "--sep", help="Separator of CSV columns, as ';' or tab; guessed by default.", show_default=False
    ),
]
Decimal = Annotated[
    str | None,
    typer.Option("--decimal", help="Decimal mark of CSV, . or ,; guessed by default.", show_default=False),
]
Encoding = Annotated[
    str | None,
    typer.Option("--encoding", help="Encoding of CSV text; UTF-8 or cp1252 by default.", show_default=False),
]
SheetName = Annotated[
    str | None,
    typer.Option(
        "--sheet", help="Sheet of an .xlsx file; the first by default.", metavar="NAME", show_default=False
    ),
]
MissingTexts = Annotated[
    list[str],
    typer.Option(
        "--na",
        help="A text or number that marks a missing value, in addition to NA, n.a. and the like; repeatable.",
        metavar="TEXT",
        show_default=False,
    ),
]
IdColumn = Annotated[
    str | None,
    typer.Option("--id", help="Column that names rows; not a feature.", metavar="NAME", show_default=False),
]
Categorical = Annotated[
    list[str],
    typer.Option(
        "--categorical",
        help="Features that are categories: each level but the first becomes a column of 0 and 1.",
        metavar="NAMES",
        show_default=False,
    ),
]


class MissingValues(enum.StrEnum):
    """What is done about missing values."""

    error = "error"
    drop = "drop"
    median = "median"


Missing = Annotated[
    MissingValues,
    typer.Option("--missing", help="Missing values: an error, drop the row, or the median (features only)."),
]
AsJson = Annotated[
    bool, typer.Option("--json", help="Print the results as JSON instead of tables.", show_default=False)
]


class MissingTargetValues(enum.StrEnum):
    """What is done about missing targets."""

    error = "error"
    allow = "allow"


MissingTargets = Annotated[
    MissingTargetValues,
    typer.Option(
        "--missing-targets",
        help="Rows that lack some of their targets: an error (or as --missing says), or allow, to fit what "
        "was measured.",
    ),
]
Weights = Annotated[
    str | None,
    typer.Option(
        "--weights",
        help="Column of positive weights: the noise variance of a row is divided by its weight.",
        metavar="NAME",
        show_default=False,
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Replace outputs that exist.", show_default=False)]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.", show_default=False)]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Seed of the random numbers.")]


@dataclass(frozen=True)
class TableOptions:
    """The table, and which of its columns play which part."""

    data: Data
    targets: Targets
    features: Features = field(default_factory=list)
    drop: Drop = field(default_factory=list)


@dataclass(frozen=True)
class ReadingOptions:
    """How a table is read, and how numbers are made of it."""

    id_column: IdColumn = None
    categorical: Categorical = field(default_factory=list)
    missing: Missing = MissingValues.error
    sep: Separator = None
    decimal: Decimal = None
    encoding: Encoding = None
    sheet: SheetName = None
    na: MissingTexts = field(default_factory=list)

    @property
    def dialect(self) -> Dialect:
        """How the file is written."""
        return Dialect.of(self.sep, self.decimal, self.encoding, self.sheet, self.na)

    def columns(self, table: TableOptions, weights: str | None = None, partial: bool = False) -> Columns:
        """Which columns play which part; `weights` and `partial` as in `Columns`."""
        named = table.targets, table.features, table.drop
        return Columns(*named, self.id_column, self.categorical, weights, partial)


def with_groups(command: Callable[..., None]) -> Callable[..., None]:
    """The command, which takes keywords only, with an option for each field of the groups that it takes."""
    hints = get_type_hints(command, include_extras=True)
    parameters = inspect.signature(command).parameters
    groups = {name: hints[name] for name in parameters if is_dataclass(hints[name])}

    def flat(**values: Any) -> None:
        for name, group in groups.items():
            values[name] = group(**{each.name: values.pop(each.name) for each in fields(group)})
        command(**values)

    found = [
        option
        for name, parameter in parameters.items()
        for option in (
            _options_of(groups[name]) if name in groups else [parameter.replace(annotation=hints[name])]
        )
    ]
    flat.__name__, flat.__doc__, flat.__module__ = command.__name__, command.__doc__, command.__module__
    flat.__signature__ = inspect.Signature(found)  # type: ignore[attr-defined]
    flat.__annotations__ = {each.name: each.annotation for each in found}
    return flat


def _options_of(group: Any) -> Iterator[inspect.Parameter]:
    """The fields of a group as parameters."""
    hints = get_type_hints(group, include_extras=True)
    for each in fields(group):
        default = each.default if each.default_factory is MISSING else each.default_factory()
        missing = inspect.Parameter.empty if default is MISSING else default
        yield inspect.Parameter(
            each.name, inspect.Parameter.KEYWORD_ONLY, default=missing, annotation=hints[each.name]
        )
