"""Energy distance between draws and exact draws, over all functions at once.

With functions standardised by their exact means and deviations and x, y the two samples, E = 2 E|x − y| −
E|x − x'| − E|y − y'|. Null distribution: exact against exact, where labels can be exchanged: 1999 random
exchanges of the labels of the pooled draws. Error budget: the test is exact at every size of the reference.
Which of the kept reference draws are taken follows from the draws that are judged: against the same few
hundred every time, exact draws of one task would fail at a rate of their own (up to 8% were seen in place of
1%), though at the right one over all tasks.
"""

from __future__ import annotations

import zlib

import numpy as np
from scipy.spatial.distance import cdist

from lbnn._base.types import Array
from lbnn.benchmark.scorers.chains import FEWEST, Chains
from lbnn.benchmark.scorers.ranks import reference_values
from lbnn.benchmark.scorers.score import Score, not_judged

_OWN, _REFERENCE, _EXCHANGES = 400, 600, 1_999


def score_energy(chains: Chains, level: float) -> Score:
    """Energy distance with the p-value of a permutation test."""
    known, own, reference = chains.task.expectations, chains.independent, reference_values(chains.task)
    rng = np.random.default_rng(zlib.crc32(own.tobytes()))
    if len(own) < FEWEST:
        return not_judged("energy distance", level, f"{len(own)} independent draws; judged from {FEWEST} on")
    own, reference = _some(own, _OWN, rng), _some(reference, _REFERENCE, rng)
    pooled = (np.concatenate([own, reference]) - known.mean) / known.standard_deviation
    distances = cdist(pooled, pooled)
    labels = np.where(np.arange(len(pooled)) < len(own), 1 / len(own), -1 / len(reference))
    exchanged = rng.permuted(np.tile(labels, (_EXCHANGES, 1)), axis=1).T
    value = -float(labels @ distances @ labels)
    null = -(exchanged * (distances @ exchanged)).sum(axis=0)
    p_value = (1 + int((null >= value).sum())) / (1 + _EXCHANGES)
    words = f"energy distance {value:.3g}, exact draws {np.median(null):.3g} (median)"
    details = {
        "distance": value,
        "median of exact draws": float(np.median(null)),
        "independent draws": len(own),
    }
    return Score("energy distance", p_value, level, words, details)


def _some(values: Array, count: int, rng: np.random.Generator) -> Array:
    """At most so many rows, by chance."""
    return values if len(values) <= count else values[rng.choice(len(values), count, replace=False)]
