"""What many look at, shown as what it is: blind here.

Raw-weight r̂ compares chains with each other and cannot detect what none of them visits. The kernel Stein
discrepancy uses scores ∇log p, which do not depend on how much mass an isolated phase has. Neither takes part
in a verdict.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.spatial.distance import pdist, squareform

from lbnn._base.types import Array
from lbnn.benchmark.scorers.chains import split_r_hat
from lbnn.benchmark.task import Task

_DRAWS = 200
_LARGEST_DIMENSION = 2_000


def blind_diagnostics(task: Task, draws: Array) -> dict[str, float]:
    """Largest split r̂ of a raw weight; kernel Stein discrepancy of some draws and of as many exact ones."""
    result = {"largest r̂ of a weight": float(np.nanmax(split_r_hat(draws)))}
    if task.dimension <= _LARGEST_DIMENSION:
        flat = draws.reshape(-1, task.dimension)
        chosen = flat[np.linspace(0, len(flat) - 1, min(_DRAWS, len(flat))).astype(int)]
        result["Stein discrepancy"] = stein_discrepancy(task, chosen)
        result["Stein discrepancy of exact draws"] = stein_discrepancy(task, task.reference(len(chosen), 1))
    return result


def stein_discrepancy(task: Task, z: Array) -> float:
    """√ of the mean of the Stein kernel of (1 + |x − y|²/D)^{−1/2} over all pairs, scores ∇ log p."""
    dimension, score = task.dimension, task.gradient(z)
    base = 1 + squareform(pdist(z, "sqeuclidean")) / dimension
    inner = score @ score.T
    cross = z @ score.T  # x · s(y)
    own = (z * score).sum(1)
    along = (cross - own[None, :]) - (own[:, None] - cross.T)  # (x − y)·s(y) − (x − y)·s(x)
    squared = (base - 1) * dimension
    kernel = (
        inner * base**-0.5
        - along / dimension * base**-1.5
        + base**-1.5
        - 3 * squared / dimension**2 * base**-2.5
    )
    return math.sqrt(max(float(kernel.mean()), 0.0))
