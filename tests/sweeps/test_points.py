"""Points of a sweep: coverage against intervals, and how little is timed before the sweep."""

from __future__ import annotations

import numpy as np
import pytest

import lbnn
from lbnn.sweeps import QUANTITIES
from lbnn.sweeps.plan import plan, seconds_per_point
from tests.sweeps.test_sweep import network, problem, two_outputs


@pytest.mark.parametrize("outputs", [1, 2])
def test_coverage_is_the_share_within_intervals(outputs):
    X, Y, X_test, Y_test = problem(3, 12, outputs)
    law = network(3, 4).condition(X, Y, beta=2.0).predict(X_test).with_noise()
    targets = Y_test + np.linspace(-2, 2, 7).reshape(-1, *(1,) * (outputs - 1))  # some in, some out
    low, high = law.interval(0.9)
    expected = ((low <= targets) & (targets <= high)).mean()
    assert 0 < expected < 1
    assert QUANTITIES["test_coverage"].function(law, targets) == expected


@pytest.mark.parametrize("data", [problem, two_outputs])
def test_what_is_timed_before_a_sweep_is_little(data, monkeypatch):
    """Three posteriors."""
    axes = {
        "seed": [0, 1],
        "examples": [6],
        "depth": [2],
        "width": [4, 20],
        "beta": np.geomspace(0.5, 50, 20),
    }
    work, _ = plan(axes, data, network, ["log_evidence"], None, noise="independent", target_error=0.1, seed=0)
    single = lbnn.Network.condition_spectrum
    asked = []
    monkeypatch.setattr(
        lbnn.Network, "condition_spectrum", lambda *a, **b: asked.append(0) or single(*a, **b)
    )
    assert 0 < seconds_per_point(work) < 10
    assert len(asked) == 3
