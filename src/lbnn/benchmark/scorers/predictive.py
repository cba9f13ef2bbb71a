"""Predictive densities: Kullback–Leibler divergence from the exact one to that of the draws.

At every test point and output the exact predictive of an observation p is a known mixture of Gaussians; the
draws predict q = mean of N(F̂_s, noise²). KL(p, q) is the mean of log p − log q at 64 draws of p, fixed for
each task, over points and outputs. Null distribution: the same from as many exact draws, simulated 800
times. Error budget: the null uses the same 64 places, so that their number cancels.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy import special

from lbnn._base.blocks import blocks
from lbnn._base.types import Array
from lbnn.benchmark.scorers.chains import FEWEST, Chains
from lbnn.benchmark.scorers.ranks import REFERENCE_SEED
from lbnn.benchmark.scorers.score import Score, not_judged
from lbnn.benchmark.task import Task

_PLACES = 64
_SIZES = (40, 60, 90, 130, 200)
_REPETITIONS = 800


def score_predictive(chains: Chains, level: float) -> Score:
    """KL(exact, draws) with a simulated p-value."""
    task, sample = chains.task, chains.independent
    if len(sample) < FEWEST:
        return not_judged("predictive KL", level, f"{len(sample)} independent draws; judged from {FEWEST} on")
    size = max(each for each in _SIZES if each <= len(sample))
    chosen = np.linspace(0, len(sample) - 1, size).astype(int)
    count = task.test_points * task.Y.shape[1]
    value = float(_divergence(task, sample[None, chosen, :count])[0])
    null = _null(task, size)
    p_value = (1 + int((null >= value).sum())) / (1 + len(null))
    words = f"predictive KL {value:.3g} nats, exact draws {np.median(null):.3g} (median)"
    return Score(
        "predictive KL",
        p_value,
        level,
        words,
        {"KL": value, "median of exact draws": float(np.median(null)), "independent draws": size},
    )


@lru_cache(maxsize=8)
def _exact(task: Task) -> tuple[Array, Array]:
    """Draws of the exact predictive of observations and its log density there, (places, outputs in all)."""
    prediction = task.predict().with_noise()
    places = prediction.sample(_PLACES, REFERENCE_SEED + 1).reshape(_PLACES, -1)
    weights, means, deviations = prediction.marginals(slice(None))
    means, deviations = means.reshape(len(weights), 1, -1), deviations.reshape(len(weights), 1, -1)
    with np.errstate(divide="ignore"):
        log_terms = np.log(weights)[:, None, None] + _log_normal(places, means, deviations)
    return places, special.logsumexp(log_terms, axis=0)


@lru_cache(maxsize=64)
def _null(task: Task, size: int) -> Array:
    """Divergences of exact draws of the function at the test points."""
    draws = task.predict().sample(_REPETITIONS * size, REFERENCE_SEED)
    return _divergence(task, draws.reshape(_REPETITIONS, size, -1))


def _divergence(task: Task, predictions: Array) -> Array:
    """Mean of log p − log q at draws of p, for predictions (sets, draws, outputs in all)."""
    places, log_exact = _exact(task)
    result = np.empty(len(predictions))
    for here in blocks(len(predictions), predictions[0].size * len(places)):
        terms = _log_normal(places, predictions[here, :, None, :], task.density.noise)
        log_own = special.logsumexp(terms, axis=1) - np.log(predictions.shape[1])
        result[here] = (log_exact - log_own).mean(axis=(1, 2))
    return result


def _log_normal(x: Array, mean: Array, deviation: Array | float) -> Array:
    return -0.5 * ((x - mean) / deviation) ** 2 - np.log(deviation) - 0.5 * np.log(2 * np.pi)
