"""`lbnn benchmark`: the list of tasks, the leaderboard, files for others."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lbnn.cli.document import Grid, show_grid
from lbnn.cli.options import Debug, Seed
from lbnn.cli.problems import BadInputError, Command, console

EXAMPLES = """
[bold]Examples[/bold]
lbnn benchmark tasks
lbnn benchmark run --methods exact,ula --tasks coexist-10,plain-15 --out board
lbnn benchmark run --plugin my_sampler.py --methods my-sampler,exact
lbnn benchmark export coexist-10 --out posterior_database
"""

app = typer.Typer(
    name="benchmark",
    help="Reference posteriors for samplers: tasks, leaderboard, export.",
    epilog=EXAMPLES,
    no_args_is_help=True,
    rich_markup_mode="rich",
)

Names = Annotated[list[str], typer.Option(help="Names, as a,b or repeated; the default list without.")]


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
def export(
    task: Annotated[list[str], typer.Argument(help="Tasks; all without.", show_default=False)] = [],  # noqa: B006
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder.", metavar="FOLDER")] = Path(
        "posterior_database"
    ),
    draws: Annotated[int, typer.Option(min=10, help="Exact draws per chain, of ten chains.")] = 1_000,
    seed: Seed = 0,
    debug: Debug = False,
) -> None:
    """Write tasks in posteriordb's layout: data, Stan program, exact draws."""
    from lbnn.benchmark import load
    from lbnn.benchmark import tasks as all_tasks
    from lbnn.benchmark.export import to_posteriordb

    for name in _names(task) or tuple(entry.name for entry in all_tasks()):
        to_posteriordb(load(name), out, draws=draws, seed=seed)
        typer.echo(f"written: {name}")


def _names(given: list[str]) -> tuple[str, ...]:
    return tuple(name.strip() for value in given for name in value.split(",") if name.strip())
