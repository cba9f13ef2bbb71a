"""Stated errors of predictive means and variances against the spread of runs with other seeds."""

from __future__ import annotations

import numpy as np
import pytest

import lbnn

RNG = np.random.default_rng(3)
X, NEW = RNG.normal(size=(25, 8)), RNG.normal(size=(6, 8))
Y = X[:, :3] @ RNG.normal(size=(3, 3)) + 0.5 * RNG.normal(size=(25, 3))
SEEDS = 12


@pytest.mark.parametrize("noise", ["independent", "per_output", "coupled"])
def test_errors_are_those_of_repeated_runs(noise: str) -> None:
    """Deviations from the mean of all runs, over stated errors: rms one, over 18 correlated numbers."""
    beta = np.array([2.0, 4.0, 8.0]) if noise == "per_output" else 4.0
    network = lbnn.Network((6, 6))
    laws = [
        network.condition(X, Y, beta, noise=noise, target_error=0.1, seed=seed).predict(NEW)
        for seed in range(SEEDS)
    ]
    # means do not depend on the scale where noise passes through the network
    for name in ("variance",) if noise == "coupled" else ("mean", "variance"):
        values = np.stack([getattr(law, name) for law in laws])
        errors = np.stack([getattr(law, f"{name}_error") for law in laws])
        assert errors.shape == values.shape
        assert (errors > 0).all()
        spread = np.sqrt(SEEDS / (SEEDS - 1)) * (values - values.mean(axis=0))
        rms = np.sqrt((spread**2).mean() / (errors**2).mean())
        assert 0.7 < rms < 1.4  # some ten independent numbers among these


def test_answers_without_monte_carlo_have_no_error() -> None:
    one = lbnn.Network((6,)).condition(X, Y[:, 0], 4.0).predict(NEW)
    wide = lbnn.asymptotics.infinite_width(lbnn.Network((6,)), X, Y, 4.0).predict(NEW)
    for law in (one, wide):
        assert law.mean_error.shape == law.variance_error.shape == law.mean.shape
        assert not law.mean_error.any()
        assert not law.variance_error.any()


def test_an_average_over_models_has_the_errors_of_its_parts() -> None:
    laws = [lbnn.Network((n,)).condition(X, Y, 4.0, target_error=0.1).predict(NEW) for n in (3, 30)]
    both = lbnn.Predictive.average(laws, [0.25, 0.75])
    expected = np.hypot(0.25 * laws[0].mean_error, 0.75 * laws[1].mean_error)
    np.testing.assert_allclose(both.mean_error, expected, rtol=1e-12)
    scaled = laws[0].affine(2 * np.eye(3))
    np.testing.assert_allclose(scaled.variance_error, 4 * laws[0].variance_error, rtol=1e-10)
