"""Compute the answers of the tasks and store them: `python -m tests.referees.make_tasks [NAMES]`.

Files that exist are left alone, since a task's numbers never change under its name; remove a file to make
it again.
"""

from __future__ import annotations

import base64
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import lbnn
from lbnn._base.files import text_writer, write_atomically
from lbnn.benchmark.density.functions import Functions
from lbnn.benchmark.density.weights import WeightDensity
from lbnn.benchmark.reference import store
from lbnn.benchmark.reference.answers import Answers
from tests.referees.task_answers import answer
from tests.referees.task_recipes import RECIPES, Recipe

FOLDER = Path(store.__file__).parent / "tasks"
_AS_LIST = 500  # numbers up to which an array is written as such


def pack(array: np.ndarray) -> Any:
    """A JSON value that gives the array back exactly: numbers, or for large ones half-precision bytes."""
    if array.size <= _AS_LIST:
        return array.tolist()
    kind = "<f2" if (array.astype(np.float16) == array).all() else "<f8"
    content = base64.b64encode(array.astype(kind).tobytes()).decode("ascii")
    return {"dtype": kind, "shape": list(array.shape), "base64": content}


def encode_answers(answers: Answers) -> dict[str, Any]:
    """The answers as JSON values."""
    expectations, phases = answers.expectations, answers.phases
    return {
        "grade": answers.grade,
        "log_evidence": answers.log_evidence,
        "log_evidence_error": answers.log_evidence_error,
        "functions": list(expectations.names),
        "mean": expectations.mean.tolist(),
        "standard_deviation": expectations.standard_deviation.tolist(),
        "error": expectations.error.tolist(),
        "skewness": [float(f"{value:.3g}") for value in expectations.skewness],
        "kurtosis": [float(f"{value:.3g}") for value in expectations.kurtosis],
        "phases": {
            "mass": phases.mass.tolist(),
            "error": phases.error.tolist(),
            "fitted_directions": phases.fitted_directions.tolist(),
            "cuts": phases.cuts.tolist(),
            "threshold": phases.threshold,
        },
    }


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
        "X": pack(X),
        "Y": pack(Y),
        "X_test": pack(X_test),
        **encode_answers(answer(Functions(density, X_test))),
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
