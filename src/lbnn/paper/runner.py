"""Run the report: check, draw, write."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from lbnn._base import mathml
from lbnn.paper import registry
from lbnn.paper.environment import Environment
from lbnn.paper.page import write
from lbnn.paper.registry import Outcome
from lbnn.plots.page import drawing, template


def run(
    out: Path | str,
    only: Sequence[str] = (),
    quick: bool = False,
    seed: int = 0,
    progress: Callable[[int, int, Outcome], None] | None = None,
) -> list[Outcome]:
    """Check the claims and write index.html, claims.json and figures/ into a folder.

    Parameters
    ----------
    out : path
        Folder to write to. Nothing is written before every claim is judged.
    only : sequence of str
        Claims or sections; all of them if empty.
    quick : bool
        A tenth of the Monte Carlo draws.
    seed : int
        Seed of data and draws.
    progress : function, optional
        Called as progress(done, total, outcome) after each claim.

    Returns
    -------
    list of Outcome
        Each with `claim`, `discrepancy`, `verdict` ("holds", "corrected", "fails"), `seconds` and `error`.

    Raises
    ------
    ValueError
        If `only` names no claim and no section, or `out` is a file.
    ImportError
        If matplotlib, jinja2 or latex2mathml is missing.

    Examples
    --------
    >>> import tempfile
    >>> from lbnn import paper
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     outcomes = paper.run(folder, only=["prior.gamma"])
    >>> [(each.claim.id, each.verdict) for each in outcomes]
    [('prior.gamma', 'holds')]
    """
    registry.load()
    claims = registry.select(only)
    if Path(out).is_file():
        raise ValueError(f"the report is written into a folder, got the file {out}")
    mathml.converter(), template()  # an extra that is missing is told before the work, not after it
    started, outcomes = time.perf_counter(), []
    with drawing():
        for number, claim in enumerate(claims, 1):
            outcomes.append(registry.judge(claim, seed, quick))
            if progress is not None:
                progress(number, len(claims), outcomes[-1])
        write(outcomes, Path(out), Environment(seed, quick, time.perf_counter() - started))
    return outcomes


def failed(outcomes: Sequence[Outcome]) -> bool:
    """Whether a claim fails: the exit code of the command line."""
    return any(outcome.verdict == "fails" for outcome in outcomes)


def summary(outcomes: Sequence[Outcome]) -> str:
    """How many claims hold, hold corrected, and fail."""
    verdicts = [outcome.verdict for outcome in outcomes]
    counts = ", ".join(f"{verdicts.count(name)} {name}" for name in registry.VERDICTS)
    return f"{len(verdicts)} claims: {counts}."
