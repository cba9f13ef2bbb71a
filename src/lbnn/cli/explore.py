"""`lbnn explore`: a page on which depth, width, temperature and data are moved and every answer follows."""

from __future__ import annotations

import webbrowser
from typing import Annotated

import typer

from lbnn._base.extras import needed
from lbnn.cli.options import Debug
from lbnn.cli.problems import BadInputError

EXAMPLES = """
Examples:
  lbnn explore                              open the page
  lbnn explore --no-browser --port 0        only print the address

The page is served to this machine alone unless --host says otherwise.
"""


def explore(
    host: Annotated[str, typer.Option(help="Address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to serve at; 0 takes a free one.")] = 5007,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page.")] = True,
    debug: Debug = False,
) -> None:
    """Open a page to play with the theory.

    Depth, widths, temperature and data are sliders; the scale, predictions
    and limit theories follow. Ends with Ctrl-C.
    """
    try:
        from lbnn.explore.server import serve
    except ModuleNotFoundError as absent:
        raise BadInputError(needed("the page", str(absent.name), "explore")) from absent
    serve(host, port, lambda address: _tell(address, browser))


def _tell(address: str, browser: bool) -> None:
    typer.echo(f"lbnn explore: {address}  (Ctrl-C ends it)")
    if browser and not webbrowser.open(address):
        typer.echo("lbnn: no browser could be opened: open the address above", err=True)
