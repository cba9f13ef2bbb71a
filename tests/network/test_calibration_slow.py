"""Simulation-based calibration (Talts et al., 2018) of exact weight draws, over six kinds of network.

Weights from the prior, data from the weights: the true value of any functional must then be one more draw of
the posterior, so its rank among posterior draws is uniform.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from scipy import stats

import lbnn
from tests.referees import weight_space

pytestmark = pytest.mark.slow

INPUTS, BETA, DRAWS, BINS = 10, 4.0, 99, 20
QUANTITIES = ("F at a test point", "log tr L", "K[0, 0]")
FAMILY_ERROR = 1e-3


@dataclass(frozen=True)
class Configuration:
    """A network, the size of its data sets, and how many of them."""

    name: str
    widths: tuple[int, ...]
    outputs: int
    examples: int
    datasets: int


CONFIGURATIONS = (
    Configuration("shallow wide", (60,), 3, 6, 1000),
    Configuration("shallow narrow", (3,), 3, 6, 1000),
    Configuration("deep wide", (40, 40, 40), 2, 6, 1000),
    Configuration("deep narrow", (3, 3, 3, 3), 2, 6, 500),
    Configuration("bottleneck", (6, 2, 6), 3, 6, 400),
    Configuration("dual", (8,), 8, 5, 600),
)
TESTS = len(CONFIGURATIONS) * len(QUANTITIES)

Array = np.ndarray[Any, Any]


def functionals(weights: list[Array], X: Array, x_test: Array) -> Array:
    """The three quantities of every draw, (draws, 3)."""
    function = weight_space.network_outputs(x_test, weights)[:, 0, 0]
    trace = np.trace(weight_space.scale_matrix(weights), axis1=1, axis2=2)
    kernel = weight_space.feature_kernel(X, weights)[:, 0, 0]
    return np.stack([function, np.log(trace), kernel], axis=1)


def rank_once(configuration: Configuration, number: int) -> tuple[Array, bool]:
    """Ranks of the three true values in one data set, and whether the posterior supported itself."""
    rng = np.random.default_rng([777, configuration.outputs, *configuration.widths, number])
    X, x_test = rng.standard_normal((configuration.examples, INPUTS)), rng.standard_normal((1, INPUTS))
    layers = weight_space.describe_layers(INPUTS, configuration.widths, configuration.outputs)
    truth = weight_space.draw_prior(layers, 1, rng)
    clean = weight_space.network_outputs(X, truth)[0]
    Y = clean + rng.standard_normal(clean.shape) / math.sqrt(BETA)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lbnn.AccuracyWarning)
        post = lbnn.Network(configuration.widths).condition(X, Y, BETA, seed=number)
    draws = functionals(post.sample_weights(DRAWS, rng), X, x_test)
    return (draws < functionals(truth, X, x_test)).sum(axis=0), post.diagnostics.ok


def collect_ranks(configuration: Configuration) -> tuple[Array, int]:
    """Ranks (datasets, 3) and the number of data sets whose posterior gave a warning."""
    results = [rank_once(configuration, number) for number in range(configuration.datasets)]
    return np.stack([ranks for ranks, _ in results]), sum(not ok for _, ok in results)


def uniformity(ranks: Array) -> float:
    """P-value that ranks 0..DRAWS are uniform: chi-square over BINS bins and mean square from the centre.

    The second sees posteriors that are too narrow or too wide, for which the first alone has little power.
    """
    counts = np.bincount(ranks * BINS // (DRAWS + 1), minlength=BINS)
    every = (np.arange(DRAWS + 1) - DRAWS / 2) ** 2
    excess = ((ranks - DRAWS / 2) ** 2).mean() - every.mean()
    spread = 2 * stats.norm.sf(abs(excess) / (every.std() / math.sqrt(len(ranks))))
    return float(min(1.0, 2 * min(stats.chisquare(counts).pvalue, spread)))


@pytest.mark.parametrize("configuration", CONFIGURATIONS, ids=lambda c: c.name)
def test_ranks_are_uniform(configuration: Configuration) -> None:
    """Uniform ranks for every quantity, at a family-wise error of 1e-3 over all 18 tests (Bonferroni)."""
    ranks, unsupported = collect_ranks(configuration)
    assert unsupported <= configuration.datasets // 20
    for quantity, name in zip(ranks.T, QUANTITIES, strict=True):
        assert uniformity(quantity) > FAMILY_ERROR / TESTS, name


def test_the_test_would_notice_a_posterior_that_is_too_narrow() -> None:
    """Ranks of draws whose standard deviation is 0.8 of what it should be, at the smallest number of sets."""
    rng = np.random.default_rng(5)
    truth, draws = rng.standard_normal((400, 1)), 0.8 * rng.standard_normal((400, DRAWS))
    assert uniformity((draws < truth).sum(axis=1)) < FAMILY_ERROR / TESTS
