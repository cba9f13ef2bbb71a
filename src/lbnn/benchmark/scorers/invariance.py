"""Does a kernel leave the posterior alone? Chains that start at exact draws must stay exact draws.

Start thousands of chains at exact draws, apply the kernel a few times, and compare every chain with itself:
for any h, E h(after) − E h(before) = 0. h are the ranks u of all functions among the starting points, and
(u − ½)², which detects a change of spread; both are bounded, so that the mean difference is normal. Null
distribution: Student's t over the chains, corrected for the number of h. No mixing is needed: a wrong prior
or a missing accept step shows at once.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import stats

from lbnn._base import check
from lbnn._base.types import Array
from lbnn.benchmark.scorers.score import Score
from lbnn.benchmark.task import Task

#: Moves all chains, (chains, dimension) -> (chains, dimension).
Kernel = Callable[[Array, np.random.Generator], Array]


def invariance(
    task: Task, kernel: Kernel, *, chains: int = 4_000, steps: int = 5, seed: int = 0, level: float = 0.01
) -> Score:
    """Judge a Markov kernel by whether it moves the law of exact draws.

    Parameters
    ----------
    task : Task
    kernel : function of (z, rng)
        Moves all chains z (chains, dimension) once.
    chains, steps : int
        Exact starting points, and how often the kernel is applied.
    seed : int
    level : float
        Rate at which a correct kernel fails.

    Returns
    -------
    Score
        `.verdict`, `.p_value`, `.words`, `.details`.

    Examples
    --------
    Ten steps towards zero that are not undone:

    >>> import lbnn
    >>> task = lbnn.benchmark.load("plain-15")
    >>> lbnn.benchmark.invariance(task, lambda z, rng: 0.999 * z, steps=10, chains=500).verdict
    'fail'
    """
    count, repeats = check.positive_integer(chains, "chains"), check.positive_integer(steps, "steps")
    rate = float(check.probability(level, "level"))
    z = start = task.reference(count, seed)
    rng = np.random.default_rng((check.seed(seed), 1))
    for _ in range(repeats):
        z = np.asarray(kernel(z, rng), float)
        if z.shape != start.shape or not np.isfinite(z).all():
            raise ValueError(
                f"a kernel must return finite chains of shape {start.shape}, got shape {z.shape} with "
                f"{int((~np.isfinite(z)).sum())} values that are not finite"
            )
    return _compare(task.functions(start), task.functions(z), task.expectations.names, rate)


def _compare(before: Array, after: Array, names: tuple[str, ...], level: float) -> Score:
    """Paired comparison of ranks and of their distances from the middle."""
    ordered = np.sort(before, axis=0)
    ranks = [_ranks(ordered, values) for values in (before, after)]
    change = np.concatenate([ranks[1] - ranks[0], (ranks[1] - 0.5) ** 2 - (ranks[0] - 0.5) ** 2], axis=1)
    labels = [*names, *(f"spread of {name}" for name in names)]
    error = change.std(axis=0, ddof=1) / np.sqrt(len(change))
    moved = error > 0
    z = np.divide(change.mean(axis=0), error, out=np.zeros_like(error), where=moved)
    worst = int(np.abs(z).argmax())
    p_value = float(stats.t.sf(abs(z[worst]), len(change) - 1)) * 2 * len(labels)
    words = (
        f"largest change after the kernel: {labels[worst]}, {z[worst]:+.1f} standard errors"
        if moved.any()
        else "the kernel moved nothing"
    )
    details = {"function": labels, "z": z.tolist(), "chains": len(before)}
    return Score("invariance", min(1.0, p_value), level, words, details)


def _ranks(ordered: Array, values: Array) -> Array:
    """Share of starting points below every value, (chains, functions)."""
    columns = [
        (np.searchsorted(row, own, "left") + np.searchsorted(row, own, "right")) / (2 * len(row))
        for row, own in zip(ordered.T, values.T, strict=True)
    ]
    return np.stack(columns, axis=1)
