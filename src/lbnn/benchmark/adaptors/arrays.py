"""Plain arrays."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from lbnn._base.types import Array
from lbnn.benchmark.task import Task


def from_arrays(task: Task, draws: ArrayLike, chains: int | None = None) -> Array:
    """Draws (chains, draws, dimension) as they are, or independent draws (n, dimension) dealt into `chains`.

    Examples
    --------
    >>> import lbnn
    >>> task = lbnn.benchmark.load("plain-15")
    >>> lbnn.benchmark.adaptors.from_arrays(task, task.reference(100, 0), chains=4).shape
    (4, 25, 15)
    """
    array = np.asarray(draws, float)
    if array.ndim == 3 and chains is None:
        return array
    if array.ndim != 2 or array.shape[1] != task.dimension or not chains or len(array) < chains:
        raise ValueError(
            f"draws of {task.name} must be (chains, draws, {task.dimension}), or (n, {task.dimension}) "
            f"with a number of chains to divide them into, got shape {array.shape} and chains={chains}"
        )
    length = len(array) // chains
    return array[: chains * length].reshape(chains, length, -1)


def from_weights(task: Task, weights: Sequence[ArrayLike]) -> Array:
    """Draws of weight matrices W_ℓ (chains, draws, n_ℓ, n_{ℓ−1})."""
    return task.flatten(weights)
