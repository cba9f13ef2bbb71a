"""How far the report has come: a bar on a terminal where rich is installed, plain lines otherwise."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from lbnn.paper.registry import Claim, Outcome

#: Called before a claim (outcome None) and after it: claims done, claims in all, the claim, its outcome.
Progress = Callable[[int, int, Claim, Outcome | None], None]


@contextmanager
def terminal_progress() -> Iterator[Progress]:
    """A progress display for the standard output."""
    if sys.stdout.isatty() and importlib.util.find_spec("rich"):
        with _bar() as progress:
            yield progress
    else:
        yield plain_lines


def plain_lines(done: int, total: int, claim: Claim, outcome: Outcome | None) -> None:
    """One line for each claim when it is done, and its error where there is one."""
    if outcome is not None:
        print(f"[{done}/{total}] {claim.id}: {outcome.verdict} ({outcome.seconds:.1f} s)", flush=True)
        if outcome.error:
            print(f"    {outcome.error}", flush=True)


@contextmanager
def _bar() -> Iterator[Progress]:
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    with Bar(*columns) as bar:
        task = bar.add_task("", total=None)

        def show(done: int, total: int, claim: Claim, outcome: Outcome | None) -> None:
            bar.update(task, completed=done, total=total, description=claim.id)
            if outcome is not None and outcome.verdict == "fails":
                text = f"{claim.id} fails: {outcome.error or outcome.discrepancy}"
                bar.console.print(text, markup=False, highlight=False)

        yield show
