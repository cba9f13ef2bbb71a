"""Options that several commands share."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import Annotated

import typer

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
    typer.Option("--encoding", help="Of CSV text; UTF-8 or cp1252 by default.", show_default=False),
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
        help="A text or number that stands for a missing value, beside NA, n.a. and the like; repeatable.",
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
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of a problem.", show_default=False)]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Seed of everything that is drawn.")]
