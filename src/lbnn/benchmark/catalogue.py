"""The list of tasks and the way to one of them."""

from __future__ import annotations

import difflib
import json
from dataclasses import dataclass
from functools import cache
from importlib import resources

from lbnn.benchmark.density.functions import Functions
from lbnn.benchmark.density.weights import WeightDensity
from lbnn.benchmark.reference import store
from lbnn.benchmark.task import Task

NAMES = (
    *("plain-15", "plain-68", "plain-40-two-outputs", "plain-102-three-outputs"),
    *("deep-7-scalars", "deep-24", "deep-72", "deep-56-two-outputs"),
    *("cold-210", "cold-44", "few-24", "cold-96-two-outputs"),
    *("rank-72-bottleneck", "rank-46-bottleneck", "rank-48-rank-one-targets", "rank-88-many-outputs"),
    *("coexist-10", "hidden-14", "coexist-45", "coexist-68"),
    *("size-10250", "size-42000", "size-90150", "size-210300"),
    *("gated-20", "gated-37", "conv-64", "conv-84"),
)


@dataclass(frozen=True)
class TaskEntry:
    """One line of the list of tasks."""

    name: str
    grade: str
    dimension: int
    family: str
    difficulty: str


def tasks(family: str | None = None) -> list[TaskEntry]:
    """All tasks with grade, dimension and difficulty, or those of a family.

    Examples
    --------
    >>> import lbnn
    >>> len(lbnn.benchmark.tasks())
    28
    >>> [entry.name for entry in lbnn.benchmark.tasks("coexistence")]
    ['coexist-10', 'hidden-14', 'coexist-45', 'coexist-68']
    """
    every = [load(name) for name in NAMES]
    families = list(dict.fromkeys(task.family for task in every))
    if family is not None and family not in families:
        raise ValueError(f"family must be one of {', '.join(families)}, got {family!r}")
    return [
        TaskEntry(task.name, task.grade, task.dimension, task.family, task.summary)
        for task in every
        if family in (None, task.family)
    ]


@cache
def load(name: str) -> Task:
    """The task of a name; it is made once and shared.

    Examples
    --------
    >>> import lbnn
    >>> lbnn.benchmark.load("plain-15").log_evidence.__class__.__name__
    'float'
    """
    if name not in NAMES:
        near = difflib.get_close_matches(str(name), NAMES, 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"a task is one of {', '.join(NAMES)}, got {name!r}{hint}")
    source = resources.files("lbnn.benchmark.reference") / "tasks" / f"{name}.json"
    content = store.check(json.loads(source.read_text(encoding="utf-8")), name)
    density = WeightDensity(
        store.unpack(content["X"]),
        store.unpack(content["Y"]),
        tuple(content["widths"]),
        tuple(content["prior_variances"]),
        content["noise"],
        content.get("views", 0),
    )
    functions = Functions(density, store.unpack(content["X_test"]))
    answers = store.decode_answers(content)
    return Task(name, content["family"], content["summary"], density, functions, answers, content["digest"])
