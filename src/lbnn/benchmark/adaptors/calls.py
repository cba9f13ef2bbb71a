"""The one signature of all readers, from_x(task, result), and the shape of what they return."""

from __future__ import annotations

from typing import Any

import numpy as np

from lbnn._base.types import Array
from lbnn._base.warn import warn
from lbnn.benchmark.task import Task

MISSING: Any = object()


def arguments(name: str, task: Any, result: Any) -> tuple[Task | None, Any]:
    """Task and result of a call; from_x(result), as it was until release 0.1, warns and has no task."""
    if isinstance(task, Task):
        if result is MISSING:
            raise TypeError(f"{name}(task, result) needs the result to read, got the task alone")
        return task, result
    warn(f"{name}(result) is deprecated: call {name}(task, result)", DeprecationWarning)
    return None, task


def checked(name: str, task: Task | None, draws: Any) -> Array:
    """Draws (chains, draws, dimension) of the task."""
    array = np.asarray(draws, float)
    if task is not None and (array.ndim != 3 or array.shape[2] != task.dimension):
        raise ValueError(
            f"{name}: draws of {task.name} must have the shape (chains, draws, {task.dimension}), got "
            f"{array.shape}"
        )
    return array
