"""`lbnn fit`: a model and a report from a table."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import Annotated, Any

import typer

from lbnn._base.files import text_writer
from lbnn._base.warn import collected
from lbnn.cli.bands import BandsReport, fit_bands
from lbnn.cli.columns import Examples, TableOptions, read_examples
from lbnn.cli.files import check_outputs, check_suffix, tell_written, write_together
from lbnn.cli.models import model_writer
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
from lbnn.cli.problems import MORE, BadInputError, console, say, working
from lbnn.cli.reading import Reading
from lbnn.cli.report import FitReport, origin_of, print_json
from lbnn.estimator import LBNNRegressor
from lbnn.plots.page import FORMATS

MODEL_SUFFIX = ".lbnn"

EXAMPLES = """
Examples:
  lbnn fit samples.csv -t fat,water --out model.lbnn --report fit.html
  lbnn fit samples.csv -t yield --band nir='nir_*' --band lab=ph,salt

Then: lbnn predict model.lbnn new.csv --out predictions.csv
"""


class MissingTargetValues(enum.StrEnum):
    """What is done about missing targets."""

    error = "error"
    allow = "allow"


MissingTargets = Annotated[
    MissingTargetValues,
    typer.Option("--missing-targets", help="Rows that lack some targets; allow fits the others"),
]
ModelFile = Annotated[Path | None, typer.Option("--out", "-o", help="Model file, .lbnn", metavar="FILE")]
Report = Annotated[Path | None, typer.Option("--report", help="Report: .html .txt .md", metavar="FILE")]
Band = Annotated[
    list[str],
    typer.Option("--band", help="Columns with a scale of their own; repeat", metavar="NAME=COLUMNS"),
]
Depth = Annotated[
    str,
    typer.Option(help="Number of weight matrices: 1, 2, ... or evidence", rich_help_panel=MORE, metavar="N"),
]
Width = Annotated[
    str,
    typer.Option(
        help="Hidden units: 20 in every layer, 20,10 in each, or evidence", rich_help_panel=MORE, metavar="N"
    ),
]
Beta = Annotated[
    str,
    typer.Option(
        help="1 / noise variance: a number, inf or evidence", rich_help_panel=MORE, metavar="NUMBER"
    ),
]
Average = Annotated[
    bool | None,
    typer.Option(
        "--average/--no-average",
        help="Average over networks, or take the best model alone; by default hyperparameters are integrated "
        "where they are uncertain",
        rich_help_panel=MORE,
    ),
]
Weights = Annotated[
    str | None,
    typer.Option(
        "--weights",
        help="Column of weights: noise variance 1/(beta weight)",
        metavar="NAME",
        rich_help_panel=MORE,
    ),
]


@with_groups
def fit(
    *,
    table: TableOptions,
    missing_targets: MissingTargets = MissingTargetValues.error,
    band: Band = [],  # noqa: B006
    out: ModelFile = None,
    report: Report = None,
    as_json: AsJson = False,
    force: Force = False,
    more: More = False,
    reading: Reading,
    depth: Depth = BY_EVIDENCE,
    width: Width = BY_EVIDENCE,
    beta: Beta = BY_EVIDENCE,
    model: ModelOptions,
    average: Average = None,
    weights: Weights = None,
    debug: Debug = False,
) -> None:
    """Fit a deep linear Bayesian network to a table, and report on the fit.

    Network, noise and scales of the features are chosen by the evidence. With
    --band every band of columns has a scale of its own for each target.
    """
    check_suffix(out, (MODEL_SUFFIX,), "--out")
    check_suffix(report, FORMATS, "--report")
    check_outputs([out, report], [table.data], force)
    widths = _integers(width, "--width")
    depths = _integers(depth, "--depth")
    if len(depths) > 1:
        raise BadInputError(f"--depth must be one number, got {depth!r}")
    settings = {
        **model.settings(),
        "depth": depths[0] if depths else BY_EVIDENCE,
        "width": (widths[0] if len(widths) == 1 else tuple(widths)) if widths else BY_EVIDENCE,
        "beta": number_or_evidence(beta, "--beta"),
        "average": "auto" if average is None else average,
    }
    gaps = missing_targets is MissingTargetValues.allow
    without_bands = {"--missing-targets": gaps, "--weights": weights, "--average": average is not None}
    for option, given in without_bands.items():
        if band and given:
            raise BadInputError(f"{option} is for fits without --band, got both")
    examples = read_examples(table, reading, weights, gaps)
    found: FitReport | BandsReport
    if band:
        found = fit_bands(examples, band, settings)
    else:
        found = _fitted(LBNNRegressor(missing_targets=missing_targets.value, **settings), examples)
    _tell(found, examples, table.data, out, report, as_json)


def _integers(text: str, option: str) -> list[int]:
    """Positive whole numbers; none for the word evidence."""
    values = [] if text == BY_EVIDENCE else numbers_of(text, int, option)
    if any(value < 1 for value in values):
        raise BadInputError(f"{option} must be positive whole numbers or {BY_EVIDENCE}, got {text!r}")
    return values


def _fitted(model: LBNNRegressor, examples: Examples) -> FitReport:
    """Fit examples; what was found."""
    with working("comparing networks"), collected():  # the report has what it warns of
        model.fit(examples.X, examples.Y, sample_weight=examples.weights)
        return FitReport(model, examples)


def _tell(
    found: FitReport | BandsReport,
    examples: Examples,
    data: Path,
    out: Path | None,
    report: Path | None,
    as_json: bool,
) -> None:
    """Print the report or its numbers, and write the model and what else was asked for."""
    title, origin = f"Fit of {', '.join(found.names)} to {data.name}", origin_of(data)
    written: dict[Path, Any] = {}
    if out is not None:
        written[out] = model_writer(found.model, found.names, examples.preparation)
    if report is not None:
        with working("drawing"):
            text = found.document(title, origin).rendered(report.suffix)
        written[report] = text_writer(text)
    write_together(written, quiet=True)  # before anything is printed: a pager may close the pipe
    if as_json:
        for each in dict.fromkeys(found.said):
            say(f"lbnn: warning: {each}")
        print_json({**found.as_json(), "written": [str(path) for path in written], "origin": origin})
        return
    found.document(title).show(console())
    if written:
        typer.echo()
        tell_written(*written)
