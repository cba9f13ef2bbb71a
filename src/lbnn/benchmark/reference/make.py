"""Compute the answers of the tasks and store them: `python -m lbnn.benchmark.reference.make [NAMES]`.

Files that exist are left alone, since a task's numbers never change under its name; remove a file to make
it again.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import lbnn
from lbnn._base.files import text_writer, write_atomically
from lbnn.benchmark.density.functions import Functions
from lbnn.benchmark.density.weights import WeightDensity
from lbnn.benchmark.reference import store
from lbnn.benchmark.reference.answers import answer
from lbnn.benchmark.reference.recipes import RECIPES, Recipe

FOLDER = Path(__file__).parent / "tasks"


def content(recipe: Recipe) -> dict[str, Any]:
    """All that is stored of a task."""
    X, Y, X_test = recipe.data()
    density = WeightDensity(X, Y, recipe.widths, recipe.prior_variances, recipe.noise, recipe.views)
    made: dict[str, Any] = {
        "format": store.FORMAT,
        "name": recipe.name,
        "family": recipe.family,
        "summary": recipe.summary,
        "widths": list(recipe.widths),
        "prior_variances": list(recipe.prior_variances),
        "noise": recipe.noise,
        **({"views": recipe.views} if recipe.views else {}),
        "X": store.pack(X),
        "Y": store.pack(Y),
        "X_test": store.pack(X_test),
        **store.encode_answers(answer(Functions(density, X_test))),
        "made_with": f"lbnn {lbnn.__version__}",
    }
    return made | {"digest": store.digest(made)}


def _lines(made: dict[str, Any]) -> str:
    """JSON with a line for each entry."""
    entries = [
        f" {json.dumps(key)}: {json.dumps(value, ensure_ascii=False, allow_nan=False)}"
        for key, value in made.items()
    ]
    return "{\n" + ",\n".join(entries) + "\n}\n"


def main(names: list[str]) -> None:
    """Make the tasks of these names, or all that are not there."""
    FOLDER.mkdir(exist_ok=True)
    for recipe in RECIPES:
        path = FOLDER / f"{recipe.name}.json"
        if path.exists() or (names and recipe.name not in names):
            continue
        start = time.perf_counter()
        text = _lines(content(recipe))
        write_atomically(path, text_writer(text))
        print(f"{recipe.name}: {len(text):,} characters in {time.perf_counter() - start:.1f} s", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
