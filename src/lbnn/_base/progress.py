"""A progress line for inference that takes more than a few seconds."""

from __future__ import annotations

import sys
import time

_QUIET_SECONDS = 3.0


class Progress:
    """Rewrites one line on standard error: on a terminal only, and only after the first three seconds."""

    def __init__(self) -> None:
        self.start = time.monotonic()
        self.shown = False

    def say(self, message: str) -> None:
        """Show the message, with the seconds so far."""
        elapsed = time.monotonic() - self.start
        if sys.stderr.isatty() and elapsed > _QUIET_SECONDS:
            sys.stderr.write(f"\r\033[Klbnn {elapsed:4.0f} s: {message}")
            sys.stderr.flush()
            self.shown = True

    def close(self) -> None:
        """Remove the line."""
        if self.shown:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()
