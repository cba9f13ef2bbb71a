"""`lbnn fit`: a model and a report from a table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from lbnn._base.files import text_writer
from lbnn._base.warn import collected
from lbnn.cli.bands import fit_bands
from lbnn.cli.columns import Examples, Preparation, TableOptions, read_examples
from lbnn.cli.files import check_outputs, check_suffix, tell_written, write_together
from lbnn.cli.fit_report import brief_report, full_report
from lbnn.cli.fit_results import FitResults, Rows
from lbnn.cli.modelling import (
    BY_EVIDENCE,
    ModelOptions,
    depth_of,
    number_or_evidence,
    width_of,
)
from lbnn.cli.models import model_writer
from lbnn.cli.options import (
    AsJson,
    Debug,
    Force,
    MissingTargets,
    MissingTargetValues,
    Seed,
    Weights,
    with_groups,
)
from lbnn.cli.problems import BadInputError, console, warn_once, working
from lbnn.cli.provenance import origin, print_json
from lbnn.cli.reading import Reading
from lbnn.estimator import LBNNRegressor
from lbnn.plots.page import FORMATS

MODEL_SUFFIX = ".lbnn"

EXAMPLES = """
[bold]Examples[/bold]
lbnn fit samples.csv --targets fat,water --out model.lbnn
lbnn fit samples.csv -t fat -t water --drop id -o m.lbnn --report fit.html
lbnn fit samples.csv -t yield --depth 2 --width 10 --beta 4 -o model.lbnn
lbnn fit samples.csv -t yield --band nir='nir_*' --band lab=ph,salt -o m.lbnn

Then: lbnn predict model.lbnn new.csv --out predictions.csv
"""


ModelFile = Annotated[
    Path, typer.Option("--out", "-o", help="Model file, .lbnn.", metavar="FILE", show_default=False)
]
Depth = Annotated[str, typer.Option(help="Number of weight matrices: 1, 2, ... or evidence.")]
Width = Annotated[str, typer.Option(help="Hidden units: 20 for every layer, 20,10 for each, or evidence.")]
Beta = Annotated[str, typer.Option(help="1 / noise variance: a number, inf, or evidence.")]
Average = Annotated[
    bool, typer.Option("--average", help="Average over networks by their evidence.", show_default=False)
]
NoIntegrate = Annotated[
    bool,
    typer.Option(
        "--no-integrate",
        help="Do not average over noise, scale and width where the noise is uncertain.",
        show_default=False,
    ),
]
Band = Annotated[
    list[str],
    typer.Option(
        "--band",
        help="Features with a scale of their own, as nir='nir_*' or lab=ph,salt; repeat for each band.",
        metavar="NAME=COLUMNS",
        show_default=False,
    ),
]
Report = Annotated[
    Path | None,
    typer.Option(
        "--report", help="Also write the report: .html, .txt or .md.", metavar="FILE", show_default=False
    ),
]


@with_groups
def fit(
    *,
    table: TableOptions,
    out: ModelFile,
    depth: Depth = BY_EVIDENCE,
    width: Width = BY_EVIDENCE,
    beta: Beta = BY_EVIDENCE,
    model: ModelOptions,
    band: Band = [],  # noqa: B006
    average: Average = False,
    no_integrate: NoIntegrate = False,
    reading: Reading,
    missing_targets: MissingTargets = MissingTargetValues.error,
    weights: Weights = None,
    report: Report = None,
    as_json: AsJson = False,
    seed: Seed = 0,
    force: Force = False,
    debug: Debug = False,
) -> None:
    """Fit a deep linear Bayesian network to a table.

    Noise, prior scale, width and depth are chosen by the evidence unless they
    are given, and so is whether features are standardised. Prints a report: what was chosen, the
    evidence of the alternatives, how the targets are coupled, and how well each
    row is predicted from all others.

    With --band, every band of features has a scale of its own, for each target
    by itself, and the report says which share of its variance each explains.

    --json prints the numbers for programs; everything else goes to stderr.
    """
    check_suffix(out, (MODEL_SUFFIX,), "--out")
    check_suffix(report, FORMATS, "--report")
    data = table.data
    check_outputs([out, report], [data], force)
    size: dict[str, Any] = {
        "depth": depth_of(depth),
        "width": width_of(width),
        "beta": number_or_evidence(beta, "--beta"),
    }
    shared = model.settings(seed)
    partial = missing_targets is MissingTargetValues.allow
    without_bands = {"--average": average, "--no-integrate": no_integrate}
    _require_combination(bool(band), without_bands, partial or bool(weights))
    examples = read_examples(table, reading, weights, partial)
    if band:
        fit_bands(data, examples, band, size, shared, out, report, as_json)
        return
    estimator = LBNNRegressor(
        average=average or ("auto" if not no_integrate else False),
        missing_targets=missing_targets.value,
        **size,
        **shared,
    )
    _tell(_fitted(estimator, examples), examples.preparation, data, out, report, as_json)


def _require_combination(bands: bool, without_bands: dict[str, bool], rows_differ: bool) -> None:
    """Raise where options exclude each other; rows differ by their weights or by missing targets.

    `without_bands` are options that bands do not have, and whether they are given.
    """
    if rows_differ and bands:
        raise BadInputError("--missing-targets allow and --weights are for fits without --band, got both")
    given = [name for name, value in without_bands.items() if value]
    if bands and given:
        raise BadInputError(f"{given[0]} is for fits without --band, got both")


def _fitted(model: LBNNRegressor, examples: Examples) -> FitResults:
    """Fit examples; what was found."""
    with working("comparing networks"), collected():  # the report has what it warns of
        model.fit(examples.X, examples.Y, sample_weight=examples.weights)
    plain = examples.weights is None and bool(np.isnan(model.missing_explained_).all())
    rows = Rows(examples.X, examples.Y, examples.labels) if plain else None
    return FitResults.of(model, list(examples.Y.columns), len(examples.Y), rows, examples.notes)


def _tell(
    results: FitResults, preparation: Preparation, data: Path, out: Path, report: Path | None, as_json: bool
) -> None:
    """Print the report or its numbers, and write the model and what else was asked for."""
    goals = results.names
    title = f"Fit of {', '.join(goals)} to {data.name}"
    from_where = origin(data)
    written = {out: model_writer(results.model, goals, preparation)}
    if report:
        with working("drawing"):
            text = full_report(results, from_where, title).rendered(report.suffix)
        written[report] = text_writer(text)
    write_together(written, quiet=True)  # before anything is printed: a pager may close the pipe
    if not as_json:
        brief_report(results, title).show(console())
        typer.echo()
        tell_written(*written)
    if as_json:
        warn_once(results.messages)
        files = [str(path) for path in written]
        print_json({**results.as_json(), "written": files, "origin": from_where})
