"""dynesty: the task as a likelihood over the unit cube, and equally weighted draws of its results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special

from lbnn._base.types import Array
from lbnn.benchmark.adaptors.arrays import from_arrays
from lbnn.benchmark.task import Task


def dynesty_functions(task: Task) -> tuple[Callable[[Array], float], Callable[[Array], Array]]:
    """Log likelihood of z and the map from the unit cube to z."""
    return (lambda z: float(task.log_likelihood(z))), special.ndtri


def from_dynesty(task: Task, results: Any, seed: int = 0, chains: int = 4) -> Array:
    """Equally weighted draws, shuffled and dealt into chains; the evidence is in `results.logz[-1]`."""
    draws = results.samples_equal(rstate=np.random.default_rng(seed))
    return from_arrays(task, np.random.default_rng((seed, 1)).permutation(draws), chains)
