"""`lbnn evidence`: which depth, width and noise the data prefer."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import typer

from lbnn._base.files import write_atomically
from lbnn._base.warn import collected
from lbnn.cli.columns import Examples, TableOptions, read_examples
from lbnn.cli.files import check_outputs, check_suffix, tell_written
from lbnn.cli.options import (
    BY_EVIDENCE,
    AsJson,
    Debug,
    Force,
    ModelOptions,
    More,
    number_or_evidence,
    numbers_of,
    with_groups,
)
from lbnn.cli.problems import BadInputError, TableWords, console, warn_once
from lbnn.cli.reading import Reading
from lbnn.cli.report import counted, origin_of, print_json, shown
from lbnn.estimator import LBNNRegressor
from lbnn.plots.page import Grid, show_grid

EXAMPLES = """
Examples:
  lbnn evidence data.csv --targets y
  lbnn evidence data.csv --targets a,b --depths 1,2,3 --widths 5,20,100
  lbnn evidence data.csv --targets a,b --betas 1,10,100 --out table.csv

Depth one has no hidden layer and so no width: it is the Gaussian process that
wide networks approach.
"""


Depths = Annotated[str, typer.Option(help="Depths, as 1,2,3.", metavar="NUMBERS")]
Widths = Annotated[str, typer.Option(help="Widths of hidden layers.", metavar="NUMBERS")]
Betas = Annotated[
    str,
    typer.Option(help="Inverse noise variances, as 1,10,inf; or evidence to choose it.", metavar="NUMBERS"),
]
Out = Annotated[Path | None, typer.Option("--out", "-o", help="Write the table as .csv.", metavar="FILE")]


@with_groups
def evidence(
    *,
    table: TableOptions,
    depths: Depths = "1,2,3",
    widths: Widths = "2,5,20,100",
    betas: Betas = BY_EVIDENCE,
    model: ModelOptions,
    out: Out = None,
    reading: Reading,
    as_json: AsJson = False,
    more: More = False,
    force: Force = False,
    debug: Debug = False,
) -> None:
    """Tabulate the log evidence over depth × width × beta, best first.

    A difference of 3 is a factor of 20 in odds.
    """
    check_suffix(out, (".csv",), "--out")
    check_outputs([out], [table.data], force)
    examples = read_examples(table, reading)
    X, Y, settings = examples.X, examples.Y, model.settings()
    said: dict[str, None] = {}
    with collected():  # what each fit warns of is said once
        rows = [_row(examples, cell, settings, said) for cell in _cells(depths, widths, betas)]
    warn_once(said)
    rows.sort(key=lambda row: -float(row["log_evidence"]))
    if out:
        write_atomically(out, lambda path: pd.DataFrame(rows).to_csv(path, index=False))
    if as_json:
        about = {"rows": len(X), "features": X.shape[1], "targets": list(Y.columns)}
        print_json({**about, "networks": rows, "table": examples.notes, "origin": origin_of(table.data)})
        return
    show_grid(_grid(rows, counted(len(X), X.shape[1], Y.shape[1])), console())
    if out:
        tell_written(out)


def _cells(depths: str, widths: str, betas: str) -> Iterator[tuple[tuple[int, ...], float | str]]:
    """Hidden widths and beta of every network of the table; depth one has one width only, none."""
    layers = [depth - 1 for depth in numbers_of(depths, int, "--depths")]
    units = numbers_of(widths, int, "--widths")
    if min(layers) < 0 or min(units) < 1:
        raise BadInputError(f"depths and widths must be positive, got --depths {depths} --widths {widths}")
    temperatures: list[float | str] = [
        number_or_evidence(part.strip(), "--betas") for part in betas.split(",")
    ]
    networks = dict.fromkeys((width,) * count for count, width in product(layers, units))
    return product(networks, temperatures)


def _row(
    examples: Examples,
    cell: tuple[tuple[int, ...], float | str],
    settings: dict[str, Any],
    said: dict[str, None],
) -> dict[str, Any]:
    """One network: its evidence and what was chosen by it; `said` collects what its fit warns of."""
    widths, beta = cell
    model = LBNNRegressor(depth=len(widths) + 1, width=widths, beta=beta, **settings)
    model.fit(examples.X, examples.Y)
    words = TableWords(examples.labels)
    said |= dict.fromkeys(each.render(words) for each in model.notices_ if each.category is not None)
    return {
        "depth": len(widths) + 1,
        "width": widths[0] if widths else None,
        "noise": model.noise_,
        "inputs": model.kernel_.columns,
        "beta": model.beta_,
        "prior_scale": model.prior_scale_,
        "log_evidence": model.log_evidence_,
        "error": model.log_evidence_error_,
    }


def _grid(rows: list[dict[str, Any]], caption: str) -> Grid:
    """Rows, best first, and how far each is below the best."""
    best = rows[0]["log_evidence"]
    cells = [
        (
            str(row["depth"]),
            str(row["width"] or "∞"),
            *(row["noise"], row["inputs"], shown(row["beta"]), shown(row["prior_scale"])),
            *(f"{row['log_evidence']:.2f}", f"{row['error']:.2g}", f"{best - row['log_evidence']:.2f}"),
        )
        for row in rows
    ]
    return Grid((*(name.replace("_", " ") for name in rows[0]), "below the best"), cells, caption)
