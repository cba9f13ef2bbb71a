"""Ranks: the distribution function of every function against that of exact draws (Kolmogorov and Smirnov).

The draws are thinned to about independent ones. Null distribution: that of the two-sample statistic; error
budget: the reference has a finite number of draws, which the statistic counts as the second sample.
p-values are corrected for the number of functions (Bonferroni).
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy import stats

from lbnn._base.types import Array
from lbnn.benchmark.scorers.chains import FEWEST, Chains
from lbnn.benchmark.scorers.score import Score, not_judged
from lbnn.benchmark.task import Task

REFERENCE_SEED = 2**40 + 7
_LARGEST_REFERENCE = 4_000
_LARGEST_NUMBERS = 2 * 10**7  # weights in all reference draws of a large network


@lru_cache(maxsize=8)
def reference_values(task: Task) -> Array:
    """Function values (draws, functions) of exact draws that the scorers keep for themselves."""
    size = max(200, min(_LARGEST_REFERENCE, _LARGEST_NUMBERS // task.dimension))
    return task.functions(task.reference(size, REFERENCE_SEED))


def score_ranks(chains: Chains, level: float) -> Score:
    """Largest distance between distribution functions."""
    sample, known = chains.independent, reference_values(chains.task)
    names = chains.task.expectations.names
    if len(sample) < FEWEST:
        return not_judged(
            "ranks", level, f"{len(sample)} independent draws; ranks are judged from {FEWEST} on"
        )
    tests = [stats.ks_2samp(own, exact, method="asymp") for own, exact in zip(sample.T, known.T, strict=True)]
    distances, values = np.array([t.statistic for t in tests]), np.array([t.pvalue for t in tests])
    worst = int(values.argmin())
    words = f"largest distance of a distribution: {names[worst]}, {distances[worst]:.2f}"
    details = {
        "function": list(names),
        "distance": distances.tolist(),
        "p": values.tolist(),
        "independent draws": len(sample),
    }
    return Score("ranks", min(1.0, len(names) * float(values[worst])), level, words, details)
