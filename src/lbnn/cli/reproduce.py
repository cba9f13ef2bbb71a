"""`lbnn reproduce`: the paper's results, checked by independent routes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lbnn.cli.options import Debug, Seed
from lbnn.cli.problems import FAILURE, BadInputError

EXAMPLES = """
Examples:
  lbnn reproduce                          everything, into report/
  lbnn reproduce --quick --out /tmp/page  fewer draws
  lbnn reproduce --only prior,kernel      two sections
"""


def reproduce(
    only: Annotated[
        list[str], typer.Option("--only", help="Claims or sections, as a,b or repeated.", metavar="NAMES")
    ] = [],  # noqa: B006
    quick: Annotated[bool, typer.Option("--quick", help="A tenth of the Monte Carlo draws.")] = False,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of the page.", metavar="FOLDER")] = Path(
        "report"
    ),
    seed: Seed = 0,
    debug: Debug = False,
) -> None:
    """Check every result of the paper and write a page about it.

    Each claim is recomputed by a route that does not use the code under test.
    The page is FOLDER/index.html, the numbers are in FOLDER/claims.json. Exit
    code 1 if a claim fails.
    """
    from lbnn import paper

    names = [name.strip() for value in only for name in value.split(",") if name.strip()]
    if out.exists() and not out.is_dir():
        raise BadInputError(f"--out must be a folder, got the file {out}")
    if paper.reproduce(out, names, quick, seed):
        raise typer.Exit(FAILURE)
