"""The entry point of the command `lbnn`."""

from __future__ import annotations

import signal
import sys

import lbnn
from lbnn._base.extras import needed


def main() -> None:
    """Run the command line; typer, rich and pandas are imported here and not with the library."""
    if sys.argv[1:] == ["--version"]:  # without the second that these imports take
        print(f"lbnn {lbnn.__version__}")
        return
    try:
        from lbnn.cli.app import app
    except ModuleNotFoundError as absent:
        if absent.name is None or absent.name.partition(".")[0] == "lbnn":
            raise
        sys.exit(f"lbnn: {needed('the command line', absent.name, 'cli')}")
    signal.signal(signal.SIGTERM, _end)
    app()


def _end(number: int, frame: object) -> None:
    """End as an exception does, so that temporary files are removed."""
    sys.exit(128 + number)
