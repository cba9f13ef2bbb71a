"""`lbnn explore`: a page on which depth, width, temperature and data are moved and every answer follows."""

from __future__ import annotations

import tempfile
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lbnn._base.extras import needed
from lbnn.cli.options import (
    Categorical,
    Debug,
    Decimal,
    Drop,
    Encoding,
    Features,
    IdColumn,
    Missing,
    MissingTexts,
    MissingValues,
    Separator,
    SheetName,
)
from lbnn.cli.preparing import Columns, Preparation, read_examples
from lbnn.cli.problems import BadInputError
from lbnn.cli.reading import Dialect

if TYPE_CHECKING:
    from lbnn.explore.table import Table

EXAMPLES = """
[bold]Examples[/bold]
lbnn explore                              on drawn data
lbnn explore data.csv --targets fat,water on yours, columns standardised
lbnn explore --no-browser --port 0        only print the address

The page is served to this machine alone unless --host says otherwise. It
reads no file but the one named here and those picked on the page.
"""


def explore(
    data: Annotated[
        Path | None,
        typer.Argument(
            help="Table of examples, one per row below a header: .csv, .tsv, .xlsx or .parquet.",
            show_default=False,
        ),
    ] = None,
    targets: Annotated[
        list[str],
        typer.Option(
            "--targets", "-t", help="Columns to predict, as a,b or repeated; up to four.", metavar="NAMES"
        ),
    ] = [],  # noqa: B006
    features: Features = [],  # noqa: B006
    drop: Drop = [],  # noqa: B006
    id_column: IdColumn = None,
    categorical: Categorical = [],  # noqa: B006
    missing: Missing = MissingValues.error,
    sep: Separator = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
    sheet: SheetName = None,
    na: MissingTexts = [],  # noqa: B006
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to serve at; 0 takes a free one.")] = 5007,
    host: Annotated[str, typer.Option(help="Address to listen at.")] = "127.0.0.1",
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page.")] = True,
    debug: Debug = False,
) -> None:
    """Open a page to play with the theory.

    Depth, widths, temperature and data are sliders; the scale, predictions,
    feature kernels and limit theories follow. Ends with Ctrl-C.
    """
    if bool(data) != bool(targets):
        raise BadInputError("data and --targets belong together, got one of them")
    try:
        from lbnn.explore.server import make_server, serve
    except ModuleNotFoundError as absent:
        raise BadInputError(needed("the page", str(absent.name), "explore")) from absent
    columns = Columns(targets, features, drop, id_column, categorical)
    dialect = Dialect.of(sep, decimal, encoding, sheet, na)
    table = None if data is None else read_for_page(data, str(data), columns, dialect, missing.value)
    server = make_server(host, port, table, read_picked)
    serve(server, lambda address: _tell(address, browser))


def _tell(address: str, browser: bool) -> None:
    typer.echo(f"lbnn explore: {address}  (Ctrl-C ends it)")
    if browser and not webbrowser.open(address):
        typer.echo("lbnn: no browser could be opened: open the address above", err=True)


def read_for_page(
    path: Path,
    name: str,
    columns: Columns,
    dialect: Dialect | None = None,
    missing: str = MissingValues.error,
) -> Table:
    """Columns of a file, by the rules of all commands, standardised."""
    from lbnn.explore.table import Table

    examples = read_examples(path, columns, dialect, missing)
    X, Y = examples.X, examples.Y
    names, goals = tuple(X.columns), tuple(Y.columns)
    steps = _steps(examples.preparation, list(goals), missing)
    reading = f"table = {examples.table.python(name)}"
    return Table.standardised(name, names, goals, X.to_numpy(), Y.to_numpy(), (reading, *steps))


def _steps(preparation: Preparation, goals: list[str], missing: str) -> tuple[str, ...]:
    """Lines of Python that do to a pandas frame `table` what was done to this file."""
    lines = []
    if missing == MissingValues.drop:
        lines.append(f"table = table.dropna(subset={[*preparation.columns, *goals]!r})")
    if missing == MissingValues.median:
        numeric = [each for each in preparation.columns if each not in preparation.levels]
        lines.append(f'table = table.dropna(how="all").fillna(table[{numeric!r}].median())')
    if preparation.levels:
        levels = list(preparation.levels)
        lines.append(
            f'table = pd.get_dummies(table, columns={levels!r}, prefix_sep="=", drop_first=True, dtype=float)'
        )
    return tuple(lines)


def read_picked(name: str, text: str, targets: str) -> Table:
    """A file that was picked on the page: its text, by the rules of `read_for_page`."""
    if not targets.strip():
        raise ValueError("name the target columns before the file is picked, as y or a,b")
    shown = Path(name).name or "data.csv"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "picked.csv"
        path.write_text(text, encoding="utf-8")
        try:
            return read_for_page(path, shown, Columns([targets], [], []))
        except BadInputError as problem:
            message = str(problem).replace(str(path), shown)
            raise ValueError(message.replace("Try: ", "Try, with lbnn explore FILE: ")) from problem
