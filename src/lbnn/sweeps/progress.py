"""How far a sweep has come: a bar in a terminal or a notebook, a line now and then where there is neither."""

from __future__ import annotations

import importlib.util
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

_SECONDS_BETWEEN_LINES = 30.0


class Show(Protocol):
    """Messages about a running sweep."""

    def note(self, text: str) -> None:
        """A message, such as an address."""

    def add(self, ok: int, warned: int, failed: int) -> None:
        """So many points more are done."""


class Silence:
    """Shows nothing."""

    def note(self, text: str) -> None:
        pass

    def add(self, ok: int, warned: int, failed: int) -> None:
        pass


class Counts:
    """Points done, warned, failed."""

    def __init__(self, total: int, before: int) -> None:
        self.total, self.done, self.warned, self.failed = total, before, 0, 0

    def add(self, ok: int, warned: int, failed: int) -> None:
        """So many points more are done."""
        self.done, self.warned, self.failed = (
            self.done + ok + warned + failed,
            self.warned + warned,
            self.failed + failed,
        )

    def __str__(self) -> str:
        return f"{self.done:,} of {self.total:,} points, {self.warned:,} warned, {self.failed:,} failed"


class Lines:
    """Writes a line to standard error every half minute, with the time left."""

    def __init__(self, total: int, before: int) -> None:
        self.counts, self.before = Counts(total, before), before
        self.start = self.last = time.monotonic()

    def note(self, text: str) -> None:
        print(f"lbnn sweep: {text}", file=sys.stderr, flush=True)

    def add(self, ok: int, warned: int, failed: int) -> None:
        self.counts.add(ok, warned, failed)
        now = time.monotonic()
        finished = self.counts.done == self.counts.total
        if now - self.last >= _SECONDS_BETWEEN_LINES or finished:
            self.last = now
            rate = (now - self.start) / max(self.counts.done - self.before, 1)
            left = rate * (self.counts.total - self.counts.done)
            self.note(f"{self.counts}" + ("" if finished else f"; about {left:.0f} s left"))


class Bar:
    """A bar of rich's, in a terminal and in notebooks."""

    def __init__(self, total: int, before: int, bar: Any) -> None:
        self.counts, self.bar = Counts(total, before), bar
        self.task = bar.add_task(str(self.counts), total=total, completed=before)

    def note(self, text: str) -> None:
        self.bar.console.print(f"lbnn sweep: {text}", markup=False, highlight=False)

    def add(self, ok: int, warned: int, failed: int) -> None:
        self.counts.add(ok, warned, failed)
        self.bar.update(self.task, completed=self.counts.done, description=str(self.counts))


@contextmanager
def showing(wanted: bool, total: int, before: int) -> Iterator[Show]:
    """A display for a sweep of so many points, some of them done before."""
    if not wanted:
        yield Silence()
    elif (sys.stderr.isatty() or _in_notebook()) and importlib.util.find_spec("rich"):
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

        columns = BarColumn(), TextColumn("{task.description}"), TimeElapsedColumn(), TimeRemainingColumn()
        with Progress(*columns, console=Console(stderr=not _in_notebook())) as bar:
            yield Bar(total, before, bar)
    else:
        yield Lines(total, before)


def _in_notebook() -> bool:
    shell = sys.modules.get("IPython")
    return shell is not None and type(shell.get_ipython()).__name__ == "ZMQInteractiveShell"
