"""The command `lbnn`: its commands and their help."""

from __future__ import annotations

from typing import Annotated

import typer

import lbnn
from lbnn.cli import compare, evidence, explore, fit, predict, reproduce, sweep
from lbnn.cli.problems import Command

_EXAMPLES = """
A first session:
  lbnn fit samples.csv --targets fat,water --out model.lbnn
  lbnn predict model.lbnn new.csv --out predictions.csv

Exit codes: 0 success; 1 a claim of the paper or the run fails; 2 wrong usage, or data and files that break a
rule.
"""

app = typer.Typer(
    name="lbnn",
    epilog=_EXAMPLES,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"lbnn {lbnn.__version__}")
        raise typer.Exit


@app.callback()
def lbnn_command(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version")
    ] = False,
) -> None:
    """Exact Bayesian inference for finite-width deep linear networks."""


for _module, _function in (
    (fit, fit.fit),
    (predict, predict.predict),
    (evidence, evidence.evidence),
    (compare, compare.compare),
    (sweep, sweep.sweep),
    (reproduce, reproduce.reproduce),
    (explore, explore.explore),
):
    app.command(cls=Command, epilog=_module.EXAMPLES, no_args_is_help=_module not in (reproduce, explore))(
        _function
    )
