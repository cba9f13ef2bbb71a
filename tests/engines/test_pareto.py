"""Pareto smoothing against ArviZ (values and versions in tests/reference/psis.json, made by make_psis.py)."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from scipy import special

from lbnn.engines.pareto import pareto_k, pareto_smoothed
from tests.reference.make_psis import CASES, PSIS, log_weights

ARVIZ = json.loads(PSIS.read_text(encoding="utf-8"))["cases"]


def tail(weights) -> int:
    return min(int(3 * math.sqrt(len(weights))), len(weights) // 5)


@pytest.mark.parametrize("name", [name for name in CASES if name != "uneven root"])
def test_shape_is_that_of_arviz(name):
    weights = log_weights(name)
    assert weights.sum() == pytest.approx(ARVIZ[name]["sum"], abs=1e-6), "NumPy's random streams have changed"
    assert pareto_k(weights) == pytest.approx(ARVIZ[name]["pareto_k"], abs=1e-12)


def test_shape_with_one_weight_less_in_the_tail():
    """⌊3√m⌋ for ⌈3√m⌉: the mean of log(1 + x) over the tail moves by about one part in its size."""
    weights = log_weights("uneven root")
    shape = ARVIZ["uneven root"]["pareto_k"]
    assert pareto_k(weights) == pytest.approx(shape, abs=3 * (1 + shape) / tail(weights))


@pytest.mark.parametrize("name", CASES)
def test_smoothed_weights_are_close_to_those_of_arviz(name):
    """Given the shape, the scale of the tail is the likeliest one here and a by-product of the shape there.

    They differ by far less than the standard error of a fitted scale, √(2(1 + k)/tail) of its logarithm.
    """
    weights = log_weights(name)
    smoothed, shape = pareto_smoothed(weights)
    largest = np.sort(smoothed - special.logsumexp(smoothed))[::-1][:20]
    error = math.sqrt(2 * (1 + shape) / tail(weights))
    np.testing.assert_allclose(largest, ARVIZ[name]["largest"], atol=error / 4)
