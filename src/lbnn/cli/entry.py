"""The entry point of the command `lbnn`."""

from __future__ import annotations

import signal
import sys


def main() -> None:
    """Run the command line; typer, rich and pandas are imported here and not with the library."""
    try:
        from lbnn.cli.app import app
    except ModuleNotFoundError as absent:
        if absent.name is None or absent.name.partition(".")[0] == "lbnn":
            raise
        sys.exit(f"lbnn: the command line needs {absent.name}; install it with: pip install 'lbnn[cli]'")
    signal.signal(signal.SIGTERM, _end)
    app()


def _end(number: int, _: object) -> None:
    """End as an exception does, so that temporary files are removed."""
    sys.exit(128 + number)
