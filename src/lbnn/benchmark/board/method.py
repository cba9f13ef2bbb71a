"""What a method of the leaderboard is: a function of a task and a seed that returns draws."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lbnn._base.types import Array
from lbnn.benchmark.task import Task


@dataclass(frozen=True)
class Outcome:
    """Draws (chains, draws, dimension) and what the method claims; `gradients` counts those of all chains."""

    draws: Array
    log_evidence: float | None = None
    log_evidence_error: float | None = None
    gradients: float | None = None
    divergences: int | None = None


@dataclass(frozen=True)
class Method:
    """A method: its name, what it is, and how large a task it may be given."""

    name: str
    words: str
    run: Callable[[Task, int], Outcome]
    largest: int = 300  # weights
    package: str | None = None  # whose version is shown


#: All methods by name, in the order of the table.
METHODS: dict[str, Method] = {}


def method(
    name: str, words: str, *, largest: int = 300, package: str | None = None
) -> Callable[[Callable[[Task, int], Outcome]], Callable[[Task, int], Outcome]]:
    """Register a function as a method of the leaderboard."""

    def register(run: Callable[[Task, int], Outcome]) -> Callable[[Task, int], Outcome]:
        METHODS[name] = Method(name, words, run, largest, package)
        return run

    return register
