"""BlackJAX: states with positions."""

from __future__ import annotations

from typing import Any

from lbnn._base.types import Array
from lbnn.benchmark.adaptors.calls import MISSING, arguments, checked
from lbnn.benchmark.task import Task


def from_blackjax(task: Task, states: Any = MISSING) -> Array:
    """Draws of states, or of positions, that are stacked as (chains, draws, dimension)."""
    known, result = arguments("from_blackjax", task, states)
    return checked("from_blackjax", known, getattr(result, "position", result))
