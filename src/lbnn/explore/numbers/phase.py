"""The phase diagram: how far the kernel moves, over data per width and outputs per width.

A coarse map comes with the package (`phase.json`, written by `python -m lbnn.explore.numbers.phase`); a finer
one is computed around a point of it. Depth two, β = 20, targets of unit mean square from random linear
teachers.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from pathlib import Path

import numpy as np

from lbnn.network import Network

BETA = 20.0
ALPHAS = tuple(2.0**power for power in range(-4, 5))
GAMMAS = tuple(2.0**power for power in range(-5, 2))
_SEEDS, _TARGET_ERROR = 3, 0.2
_MOST_EXAMPLES, _MOST_WIDTH = 256, 128
_STEP = 2.0 ** (1 / 3)  # of the finer map


@dataclass(frozen=True)
class Cell:
    """‖⟨K⟩ − G‖/‖G‖ at α = p/n_1 and γ = n_d/n_1."""

    alpha: float
    gamma: float
    change: float


@dataclass(frozen=True)
class Sizes:
    """A network and data with a given α and γ, as nearly as whole numbers allow."""

    examples: int
    outputs: int
    width: int


def sizes_at(alpha: float, gamma: float) -> Sizes | None:
    """Sizes near α and γ with one to four outputs; None where they would be too large, or no example is left.

    Examples
    --------
    >>> from lbnn.explore.numbers.phase import sizes_at
    >>> sizes_at(2.0, 0.25)
    Sizes(examples=16, outputs=2, width=8)
    """
    fitting: list[tuple[float, int, Sizes]] = []
    for outputs in (2, 1, 3, 4):
        width = max(1, round(outputs / gamma))
        examples = round(alpha * width)
        if width <= _MOST_WIDTH and 1 <= examples <= _MOST_EXAMPLES:
            miss = abs(math.log(outputs / width / gamma)) + abs(math.log(examples / width / alpha))
            fitting.append((round(miss, 9), len(fitting), Sizes(examples, outputs, width)))
    return min(fitting)[2] if fitting and min(fitting)[0] < math.log(2) else None


@lru_cache(maxsize=1024)
def cell(sizes: Sizes) -> Cell:
    """The change of the kernel, averaged over data sets."""
    changes = [_change(sizes, seed) for seed in range(_SEEDS)]
    return Cell(sizes.examples / sizes.width, sizes.outputs / sizes.width, float(np.mean(changes)))


def _change(sizes: Sizes, seed: int) -> float:
    rng, inputs = np.random.default_rng(seed), 2 * sizes.examples
    X = rng.normal(size=(sizes.examples, inputs))
    Y = X @ rng.normal(size=(inputs, sizes.outputs))
    Y /= math.sqrt(float((Y**2).mean()))
    return Network((sizes.width,)).condition(X, Y, beta=BETA, target_error=_TARGET_ERROR).kernel_change()


def coarse() -> tuple[Cell, ...]:
    """The map that comes with the package."""
    text = files("lbnn.explore.numbers").joinpath("phase.json").read_text(encoding="utf-8")
    return tuple(Cell(*values) for values in json.loads(text)["cells"])


def around(alpha: float, gamma: float) -> tuple[Cell, ...]:
    """A finer map of nine points around a place; those that whole numbers do not reach are left out."""
    wanted = {sizes_at(alpha * _STEP**i, gamma * _STEP**j) for i in (-1, 0, 1) for j in (-1, 0, 1)}
    return tuple(cell(sizes) for sizes in sorted(wanted - {None}, key=str) if sizes is not None)


def write(path: Path) -> None:
    """Compute the coarse map and write it."""
    found = {sizes_at(alpha, gamma) for alpha in ALPHAS for gamma in GAMMAS}
    cells = [cell(sizes) for sizes in sorted(found - {None}, key=str) if sizes is not None]
    rows = [[each.alpha, each.gamma, float(f"{each.change:.4g}")] for each in cells]
    path.write_text(json.dumps({"beta": BETA, "data_sets": _SEEDS, "cells": rows}) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write(Path(__file__).with_name("phase.json"))
