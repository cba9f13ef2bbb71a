"""`lbnn fit`: a model and a report from a table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from lbnn._base.files import text_writer, write_atomically
from lbnn.cli.document import REPORT_FORMATS
from lbnn.cli.files import check_outputs, check_suffix, tell_written
from lbnn.cli.fit_report import fit_report
from lbnn.cli.large import LargeTable, choose, is_large
from lbnn.cli.modelling import (
    BY_EVIDENCE,
    Kernel,
    NoIntercept,
    Noise,
    NoiseModel,
    PriorScale,
    depth_of,
    number_or_evidence,
    shared_settings,
    width_of,
)
from lbnn.cli.models import save_model
from lbnn.cli.options import Data, Debug, Drop, Features, Force, Seed, Targets
from lbnn.cli.problems import console, working
from lbnn.cli.tables import read_examples
from lbnn.estimator import LBNNRegressor

MODEL_SUFFIX = ".lbnn"

EXAMPLES = """
[bold]Examples[/bold]
lbnn fit samples.csv --targets fat,water --out model.lbnn
lbnn fit samples.csv -t fat -t water --drop id -o m.lbnn --report fit.html
lbnn fit samples.csv -t yield --depth 2 --width 10 --beta 4 -o model.lbnn

Then: lbnn predict model.lbnn new.csv --out predictions.csv
"""


def fit(
    data: Data,
    targets: Targets,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Model file, .lbnn.", metavar="FILE", show_default=False)
    ],
    features: Features = [],  # noqa: B006
    drop: Drop = [],  # noqa: B006
    depth: Annotated[
        str, typer.Option(help="Number of weight matrices: 1, 2, ... or evidence.")
    ] = BY_EVIDENCE,
    width: Annotated[
        str, typer.Option(help="Hidden units: 20 for every layer, 20,10 for each, or evidence.")
    ] = BY_EVIDENCE,
    beta: Annotated[str, typer.Option(help="1 / noise variance: a number, inf, or evidence.")] = BY_EVIDENCE,
    prior_scale: PriorScale = BY_EVIDENCE,
    noise: Noise = NoiseModel.evidence,
    kernel: Kernel = "linear",
    no_intercept: NoIntercept = False,
    average: Annotated[
        bool, typer.Option("--average", help="Average over networks by their evidence.", show_default=False)
    ] = False,
    report: Annotated[
        Path | None,
        typer.Option(
            "--report", help="Also write the report: .html, .txt or .md.", metavar="FILE", show_default=False
        ),
    ] = None,
    seed: Seed = 0,
    force: Force = False,
    debug: Debug = False,
) -> None:
    """Fit a deep linear Bayesian network to a table.

    Noise, prior scale, width and depth are chosen by the evidence unless they
    are given. Columns need no scaling. Prints a report: what was chosen, the
    evidence of the alternatives, how the targets are coupled, and how well each
    row is predicted from all others.
    """
    check_suffix(out, (MODEL_SUFFIX,), "--out")
    check_suffix(report, REPORT_FORMATS, "--report")
    check_outputs([out, report], [data], force)
    model = LBNNRegressor(
        depth=depth_of(depth),
        width=width_of(width),
        beta=number_or_evidence(beta, "--beta"),
        average=average,
        **shared_settings(prior_scale, noise, kernel, no_intercept, seed),
    )
    if is_large(data):
        goals, rows, Y = _fit_parts(model, data, targets, features, drop)
    else:
        X, Y = read_examples(data, targets, features, drop)
        goals, rows = list(Y.columns), len(Y)
        with working("comparing networks"):
            model.fit(X, Y)
    with working("looking at the fit"):
        document = fit_report(model, goals, rows, Y, f"Fit of {', '.join(goals)} to {data.name}")
    document.show(console())
    write_atomically(out, lambda path: save_model(model, goals, path))
    if report:
        write_atomically(report, text_writer(document.rendered(report.suffix)))
    typer.echo()
    tell_written(out, report)


def _fit_parts(
    model: Any, data: Path, targets: list[str], features: list[str], drop: list[str]
) -> tuple[list[str], int, None]:
    """Fit a file that is read twice, some rows at a time; its targets, its rows, and no table of them."""
    table = LargeTable.of(data)
    names, goals = choose(table, targets, features, drop)
    typer.echo(f"{data} has {table.rows:,} rows: reading it in parts, twice")
    with working("reading, and comparing networks"):
        model.fit_chunks(lambda: table.examples(names, goals))
    model.feature_names_in_ = np.array(names, dtype=object)
    return goals, table.rows, None
