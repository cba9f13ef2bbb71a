"""`lbnn fit`: a model and a report from a table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from lbnn._base.files import text_writer
from lbnn.cli.document import REPORT_FORMATS
from lbnn.cli.files import check_outputs, check_suffix, write_together
from lbnn.cli.fit_pictures import fit_pictures
from lbnn.cli.fit_report import fit_report
from lbnn.cli.large import LargeTable, is_large, require_plain
from lbnn.cli.modelling import (
    BY_EVIDENCE,
    Inputs,
    InputUnits,
    Kernel,
    KernelParam,
    NoIntercept,
    Noise,
    NoiseModel,
    OwnLengthScales,
    PriorScale,
    TargetError,
    depth_of,
    number_or_evidence,
    shared_settings,
    width_of,
)
from lbnn.cli.models import model_writer
from lbnn.cli.options import (
    Categorical,
    Data,
    Debug,
    Decimal,
    Drop,
    Encoding,
    Features,
    Force,
    IdColumn,
    Missing,
    MissingValues,
    Seed,
    Separator,
    Targets,
)
from lbnn.cli.preparing import DROP, Preparation, choose_examples, read_examples
from lbnn.cli.problems import BadInputError, console, working
from lbnn.cli.reading import Dialect
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
    kernel_param: KernelParam = [],  # noqa: B006
    ard: OwnLengthScales = False,
    inputs: InputUnits = Inputs.evidence,
    no_intercept: NoIntercept = False,
    average: Annotated[
        bool, typer.Option("--average", help="Average over networks by their evidence.", show_default=False)
    ] = False,
    integrate: Annotated[
        bool,
        typer.Option(
            "--integrate",
            help="Average over noise, scale and width where the noise is uncertain.",
            show_default=False,
        ),
    ] = False,
    target_error: TargetError = 0.1,
    id_column: IdColumn = None,
    categorical: Categorical = [],  # noqa: B006
    missing: Missing = MissingValues.error,
    sep: Separator = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
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
    are given, and so is whether features are standardised. Prints a report: what was chosen, the
    evidence of the alternatives, how the targets are coupled, and how well each
    row is predicted from all others.
    """
    check_suffix(out, (MODEL_SUFFIX,), "--out")
    check_suffix(report, REPORT_FORMATS, "--report")
    check_outputs([out, report], [data], force)
    if average and integrate:
        raise BadInputError("--average and --integrate are two ways to average: give one of them, got both")
    model = LBNNRegressor(
        depth=depth_of(depth),
        width=width_of(width),
        beta=number_or_evidence(beta, "--beta"),
        average="auto" if integrate else average,
        ard=ard,
        **shared_settings(
            prior_scale,
            noise,
            kernel,
            no_intercept,
            seed,
            kernel_param=kernel_param,
            inputs=inputs,
            target_error=target_error,
        ),
    )
    if is_large(data):
        by_median = missing is MissingValues.median
        require_plain(data, {"--categorical": bool(categorical), "--missing median": by_median})
        chosen = choose_examples(LargeTable.of(data).header(), targets, features, drop, id_column)
        goals, rows, preparation = _fit_parts(model, data, *chosen, missing.value)
        Y = None
    else:
        examples = read_examples(
            data,
            targets,
            features,
            drop,
            dialect=Dialect.of(sep, decimal, encoding),
            id_column=id_column,
            categorical=categorical,
            missing=missing.value,
        )
        Y, preparation = examples.Y, examples.preparation
        goals, rows = list(Y.columns), len(Y)
        with working("comparing networks"):
            model.fit(examples.X, Y)
    with working("looking at the fit"):
        document = fit_report(model, goals, rows, Y, f"Fit of {', '.join(goals)} to {data.name}")
    document.show(console())
    written = {out: model_writer(model, goals, preparation)}
    if report:
        with working("drawing"):
            document.pictures = fit_pictures(model, goals, Y)
        written[report] = text_writer(document.rendered(report.suffix))
    typer.echo()
    write_together(written)


def _fit_parts(
    model: Any, data: Path, names: list[str], goals: list[str], missing: str
) -> tuple[list[str], int, Preparation]:
    """Fit a file that is read twice, some rows at a time; its targets, its rows, and its features."""
    table = LargeTable.of(data)
    typer.echo(f"{data} has {table.rows:,} rows: reading it in parts, twice")
    with working("reading, and comparing networks"):
        model.fit_chunks(lambda: table.examples(names, goals, missing == DROP))
    rows = model.posterior_.spectrum.examples + model.fit_intercept
    if rows < table.rows:
        typer.echo(f"{table.rows - rows:,} rows of {data.name} with missing values left out")
    model.feature_names_in_ = np.array(names, dtype=object)
    return goals, rows, Preparation(names, missing=missing)
