"""The list of tasks and the way to one of them."""

from __future__ import annotations

import difflib
import json
from dataclasses import dataclass
from functools import cache
from importlib import resources
from itertools import pairwise
from pathlib import Path
from typing import Any

from lbnn.benchmark.density.functions import Functions
from lbnn.benchmark.density.weights import WeightDensity
from lbnn.benchmark.reference import store
from lbnn.benchmark.reference.recipes import RECIPES, Recipe
from lbnn.benchmark.task import Task


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
    families = list(dict.fromkeys(recipe.family for recipe in RECIPES))
    if family is not None and family not in families:
        raise ValueError(f"family must be one of {', '.join(families)}, got {family!r}")
    return [_entry(recipe) for recipe in RECIPES if family in (None, recipe.family)]


@cache
def load(name: str) -> Task:
    """The task of a name; it is made once and shared.

    Examples
    --------
    >>> import lbnn
    >>> lbnn.benchmark.load("plain-15").log_evidence.__class__.__name__
    'float'
    """
    names = [recipe.name for recipe in RECIPES]
    if name not in names:
        near = difflib.get_close_matches(str(name), names, 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"a task is one of {', '.join(names)}, got {name!r}{hint}")
    source = resources.files("lbnn.benchmark.reference") / "tasks" / f"{name}.json"
    return _task(store.check(json.loads(source.read_text(encoding="utf-8")), f"{name}.json"))


def load_file(path: str | Path) -> Task:
    """A task from a file of the same format, as `lbnn.benchmark.reference.make` writes them."""
    source = Path(path)
    try:
        content = json.loads(source.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(f"a task's file must be JSON, got {source}: {error}") from error
    return _task(store.check(content, str(source)))


def _task(content: dict[str, Any]) -> Task:
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
    if functions.names != answers.expectations.names:
        raise ValueError(
            f"a task must store the functions that this lbnn computes, {functions.names}, got "
            f"{answers.expectations.names} for {content['name']}: use the version that wrote it"
        )
    return Task(
        content["name"], content["family"], content["summary"], density, functions, answers, content["digest"]
    )


def _entry(recipe: Recipe) -> TaskEntry:
    sizes = (recipe.inputs, *recipe.widths, recipe.channels)
    dimension = sum(a * b for a, b in pairwise(sizes))
    grade = "A" if recipe.channels == 1 else "B"
    return TaskEntry(recipe.name, grade, dimension, recipe.family, recipe.summary)
