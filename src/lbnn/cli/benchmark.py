"""`lbnn benchmark`: the list of tasks, the leaderboard, files for others."""

from __future__ import annotations

import enum
import json
from pathlib import Path
from typing import Annotated

import typer

from lbnn.cli.document import Grid, show_grid
from lbnn.cli.files import check_outputs, check_suffix
from lbnn.cli.options import Debug, Force, Seed
from lbnn.cli.problems import FAILURE, BadInputError, Command, console

EXAMPLES = """
[bold]Examples[/bold]
lbnn benchmark tasks
lbnn benchmark run --methods exact,ula --tasks coexist-10,plain-15 --out board
lbnn benchmark run --plugin my_sampler.py --methods my-sampler,exact
lbnn benchmark score --task plain-15 draws.csv --chains 4
lbnn benchmark export --task coexist-10 --to stan --out programs
"""

app = typer.Typer(
    name="benchmark",
    help="Reference posteriors for samplers: tasks, leaderboard, export.",
    epilog=EXAMPLES,
    no_args_is_help=True,
    rich_markup_mode="rich",
)

Names = Annotated[list[str], typer.Option(help="Names, as a,b or repeated; otherwise a default list.")]


@app.command(cls=Command)
def tasks(debug: Debug = False) -> None:
    """List the tasks with grade, weights and family."""
    from lbnn.benchmark import tasks as all_tasks

    rows = [(entry.name, entry.grade, str(entry.dimension), entry.family) for entry in all_tasks()]
    show_grid(Grid(("task", "grade", "weights", "family"), rows), console())


@app.command(cls=Command)
def run(
    methods: Names = [],  # noqa: B006
    tasks: Names = [],  # noqa: B006
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of the board.", metavar="FOLDER")] = Path(
        "board"
    ),
    plugin: Annotated[list[Path], typer.Option(help="Python files with methods of your own.")] = [],  # noqa: B006
    limit: Annotated[float, typer.Option(min=1, help="Seconds a method may take for one task.")] = 90.0,
    workers: Annotated[int, typer.Option(min=1, help="Methods that run at the same time.")] = 2,
    seed: Seed = 0,
    debug: Debug = False,
) -> None:
    """Run methods on tasks, judge them and write a page.

    Results that are in FOLDER already are kept, so that a run that was stopped
    goes on where it was. The page is FOLDER/index.html, the numbers are in
    FOLDER/board.json.
    """
    from lbnn.benchmark.board import page, runner

    if out.exists() and not out.is_dir():
        raise BadInputError(f"--out must be a folder, got the file {out}")
    plan = runner.Plan(
        _names(methods) or runner.DEFAULT_METHODS,
        _names(tasks) or runner.DEFAULT_TASKS,
        out,
        seed,
        limit,
        workers,
        tuple(plugin),
    )
    results = runner.run(plan, typer.echo)
    path = page.write_page(results, out, sum(result["seconds"] for result in results))
    rows = [
        (
            result["task"],
            result["method"],
            result["verdict"][:4],
            f"{result['seconds']:.1f}",
            *page.numbers(result),
        )
        for result in sorted(results, key=lambda result: plan.tasks.index(result["task"]))
    ]
    columns = (
        "task",
        "method",
        "verdict",
        "s",
        "ESS claimed",
        "ESS true",
        "true ESS/s",
        "r̂",
        "Δ log evidence",
    )
    show_grid(Grid(columns, rows), console())
    typer.echo(f"written: {path}")


@app.command(cls=Command)
def score(
    draws: Annotated[
        list[Path],
        typer.Argument(
            help="Draws: .csv, .parquet or .nc; one file, or one for each chain.", show_default=False
        ),
    ],
    task: Annotated[str, typer.Option(help="The task that was sampled.", metavar="NAME", show_default=False)],
    chains: Annotated[
        int | None,
        typer.Option(min=2, help="Chains in one file, one after the other, without a column chain."),
    ] = None,
    log_evidence: Annotated[float | None, typer.Option(help="What the method claims.")] = None,
    log_evidence_error: Annotated[float | None, typer.Option(help="Its standard error.")] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write the report as .json.", metavar="FILE")
    ] = None,
    json_out: Annotated[
        bool, typer.Option("--json", help="Print the report as JSON.", show_default=False)
    ] = False,
    force: Force = False,
    debug: Debug = False,
) -> None:
    """Judge draws of all weights that were made anywhere.

    A file has a column for each weight, z.1, z.2, ... (or z[1], ...), and a line
    for each draw; a column chain numbers the chains. Ends with code 1 if the
    draws fail.
    """
    from lbnn.benchmark import load
    from lbnn.benchmark import score as judge
    from lbnn.benchmark.adaptors import from_files

    check_suffix(out, (".json",), "--out")
    check_outputs([out], draws, force)
    known = load(task)
    found = judge(
        known,
        from_files(known, draws, chains),
        log_evidence=log_evidence,
        log_evidence_error=log_evidence_error,
    )
    typer.echo(json.dumps(found.as_json(), indent=1, ensure_ascii=False) if json_out else repr(found))
    if out:
        found.save(out)
        typer.echo(f"Written: {out}", err=json_out)
    if not found.passed:
        raise typer.Exit(FAILURE)


class Layout(enum.StrEnum):
    """Of exported tasks."""

    posteriordb = "posteriordb"
    stan = "stan"
    inference_gym = "inference-gym"


@app.command(cls=Command)
def export(
    names: Annotated[
        list[str], typer.Argument(help="Tasks; all without.", metavar="[TASK]...", show_default=False)
    ] = [],  # noqa: B006
    task: Annotated[
        list[str], typer.Option(help="Tasks, as a,b or repeated.", metavar="NAMES", show_default=False)
    ] = [],  # noqa: B006
    to: Annotated[
        Layout,
        typer.Option(
            help="posteriordb: with reference draws; stan: program and data; inference-gym: module for JAX."
        ),
    ] = Layout.posteriordb,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", help="Folder; posterior_database, stan or inference_gym_targets.", metavar="FOLDER"
        ),
    ] = None,
    draws: Annotated[int, typer.Option(min=10, help="Reference draws per chain, of ten chains.")] = 1_000,
    seed: Seed = 0,
    debug: Debug = False,
) -> None:
    """Write tasks for others: posteriordb's layout, a Stan program with data, a target of Inference Gym."""
    from lbnn.benchmark import load
    from lbnn.benchmark import tasks as all_tasks
    from lbnn.benchmark.export import to_inference_gym, to_posteriordb, to_stan

    folders = {Layout.posteriordb: "posterior_database", Layout.inference_gym: "inference_gym_targets"}
    folder = out or Path(folders.get(to, "stan"))
    if folder.exists() and not folder.is_dir():
        raise BadInputError(f"--out must be a folder, got the file {folder}")
    for name in (*_names(names), *_names(task)) or tuple(entry.name for entry in all_tasks()):
        if to is Layout.posteriordb:
            to_posteriordb(load(name), folder, draws=draws, seed=seed)
        elif to is Layout.stan:
            to_stan(load(name), folder)
        else:
            to_inference_gym(load(name), folder)
        typer.echo(f"Written: {name} into {folder}")


def _names(given: list[str]) -> tuple[str, ...]:
    return tuple(name.strip() for value in given for name in value.split(",") if name.strip())
