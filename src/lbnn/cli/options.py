"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Data = Annotated[
    Path,
    typer.Argument(
        help="Table of examples, one per row: .csv with a header, or .parquet.", show_default=False
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
Force = Annotated[bool, typer.Option("--force", help="Replace outputs that exist.", show_default=False)]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of a problem.", show_default=False)]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Seed of everything that is drawn.")]
