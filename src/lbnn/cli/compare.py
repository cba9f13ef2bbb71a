"""`lbnn compare`: every limit theory against the exact answer, on your data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import typer

from lbnn._base.files import write_atomically
from lbnn._base.types import Array
from lbnn.cli.columns import TableOptions, read_examples
from lbnn.cli.files import check_outputs, check_suffix, tell_written
from lbnn.cli.options import Debug, Force, Seed, numbers_of, with_groups
from lbnn.cli.problems import BadInputError, console, working
from lbnn.cli.reading import Reading
from lbnn.cli.report import counted
from lbnn.network import Network
from lbnn.plots.page import Grid, show_grid
from lbnn.theories.comparison import QUANTITIES, Comparison
from lbnn.theories.comparison import compare as compare_theories

EXAMPLES = """
Examples:
  lbnn compare data.csv --targets a,b --widths 20,200 --beta 10
  lbnn compare data.csv --targets y --depth 4 --widths 50 --beta 10 -o e.csv
  lbnn compare data.csv --targets y --widths 50 --beta inf --raw

Columns are standardised first (mean 0, variance 1), so that beta and unit
prior variances mean the same for every table. --raw takes them as they
are, which zero temperature (--beta inf) needs: centred inputs are dependent.
"""

PICTURES = (".svg", ".png", ".pdf")


Widths = Annotated[str, typer.Option(help="Widths to compare at.", metavar="NUMBERS")]
Beta = Annotated[
    float, typer.Option(help="1 / noise variance of the (standardised) targets; inf is allowed.")
]
Depth = Annotated[int, typer.Option(min=2, help="Number of weight matrices.")]
Raw = Annotated[bool, typer.Option("--raw", help="Do not standardise columns.")]
Out = Annotated[
    Path | None,
    typer.Option("--out", "-o", help="Write all errors as .csv.", metavar="FILE"),
]
Plot = Annotated[
    Path | None,
    typer.Option("--plot", help="Draw the errors: .svg, .png or .pdf.", metavar="FILE"),
]


@with_groups
def compare(
    *,
    table: TableOptions,
    widths: Widths,
    beta: Beta,
    depth: Depth = 2,
    raw: Raw = False,
    out: Out = None,
    plot: Plot = None,
    reading: Reading,
    seed: Seed = 0,
    force: Force = False,
    debug: Debug = False,
) -> None:
    """Set every limit theory beside the exact finite-width answer.

    For each width a table: relative errors of kernel, scale and predictions
    of each theory, and the error of its log evidence. The line "Monte Carlo"
    says how well the exact answer itself is known.
    """
    check_suffix(out, (".csv",), "--out")
    check_suffix(plot, PICTURES, "--plot")
    check_outputs([out, plot], [table.data], force)
    sizes = numbers_of(widths, int, "--widths")
    examples = read_examples(table, reading)
    X, Y = (_prepared(part, raw) for part in (examples.X, examples.Y))
    results = {}
    for width in sizes:
        with working(f"width {width}"):
            network = Network((width,) * (depth - 1))
            result = compare_theories(network, X, Y[:, 0] if Y.shape[1] == 1 else Y, beta, seed=seed)
        results[f"depth {depth}, width {width}"] = result
        _show(result, f"depth {depth}, width {width}; {counted(len(X), X.shape[1], Y.shape[1])}")
    if out:
        write_atomically(out, lambda path: _write_rows(results, path))
    if plot:
        write_atomically(plot, lambda path: _draw(results, path))
    if out or plot:
        tell_written(out, plot)


def _write_rows(results: dict[str, Comparison], path: Path) -> None:
    """One line for each network, theory and quantity."""
    rows = [{"network": name, **vars(row)} for name, result in results.items() for row in result.rows]
    pd.DataFrame(rows).to_csv(path, index=False)


def _draw(results: dict[str, Comparison], path: Path) -> None:
    """One panel below the other for each network."""
    from matplotlib.figure import Figure

    from lbnn import plots

    figure = Figure(figsize=(8.0, 4.2 * len(results)), layout="constrained")
    panels = figure.subplots(len(results), 1, squeeze=False)[:, 0]
    for axes, (name, result) in zip(panels, results.items(), strict=True):
        plots.comparison(result, axes)
        axes.set_title(name)
    figure.savefig(path)


def _prepared(frame: Any, raw: bool) -> Array:
    """The columns as an array; standardised unless raw."""
    values: Array = frame.to_numpy()
    if raw:
        return values
    deviations = values.std(axis=0)
    constant = [name for name, deviation in zip(frame.columns, deviations, strict=True) if not deviation]
    if constant:
        raise BadInputError(
            f"a constant column cannot be standardised, got {', '.join(constant)}: use --drop or --raw"
        )
    return np.asarray((values - values.mean(axis=0)) / deviations)


def _show(result: Comparison, caption: str) -> None:
    show_grid(Grid(("theory", *QUANTITIES), result.grid(), caption), console())
    for name, reason in result.left_out.items():
        console().print(f"{name}: does not apply, {reason}")
    console().print()
