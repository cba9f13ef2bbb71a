"""Stated errors of predictive means and variances against the spread of runs with other seeds."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

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


def statistics(post: lbnn.Posterior, values: np.ndarray) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Every statistic that states an error when it is asked to, with that error."""
    law = post.predict(NEW).with_noise()
    source = 0.05 * np.ones(values.shape)
    known = values.copy()
    known[:, 1:] = np.nan
    return {
        "density": law.log_density(values, return_error=True),
        "pointwise": law.pointwise_log_density(values, return_error=True),
        "quantile": law.quantile([0.05, 0.5], return_error=True),
        "cgf": law.cgf(source, return_error=True),
        "mgf": law.mgf(source, return_error=True),
        "characteristic": law.characteristic(source, return_error=True),
        "given": law.given(known).quantile(0.9, return_error=True),
        "kernel": post.feature_kernel(NEW, layer=2, return_error=True),
    }


def test_errors_that_are_asked_for_are_those_of_repeated_runs() -> None:
    """Eight statistics of three data sets: differences of runs over their joint errors have an rms of one.

    Of ten data sets, four runs each: 0.82 (joint density) to 1.06 (kernel), none of 5,880 beyond four.
    """
    ratios: dict[str, list[np.ndarray]] = {}
    for number in range(3):
        targets = Y + 0.3 * np.random.default_rng([11, number]).normal(size=Y.shape)
        network, beta = lbnn.Network([(6, 6), (4, 9), (3, 3)][number]), [2.0, 10.0, 4.0][number]
        runs = [
            statistics(network.condition(X, targets, beta, target_error=0.15, seed=seed), targets[:6])
            for seed in range(3)
        ]
        for name in runs[0]:
            values = np.stack([np.asarray(run[name][0]) for run in runs])
            errors = np.stack([np.asarray(run[name][1], float) for run in runs])
            assert errors.shape == values.shape
            some = errors[0] > 0  # known outputs have no error
            for one, other in ((0, 1), (1, 2), (2, 0)):
                z = np.abs(values[one] - values[other])[some] / np.hypot(errors[one], errors[other])[some]
                ratios.setdefault(name, []).append(z.ravel())
    for name, each in ratios.items():
        z = np.concatenate(each)
        assert z.max() < 4.5, name
        # six degrees of freedom for one number of each data set; many numbers are more, but correlated
        low, high = np.sqrt(stats.chi2.ppf([1e-3, 1 - 1e-3], 6) / 6) if len(z) < 100 else (0.6, 1.4)
        assert low < np.sqrt((z**2).mean()) < high, name


def test_statistics_without_monte_carlo_say_so() -> None:
    law = lbnn.Network((6,)).condition(X, Y[:, 0], 4.0).predict(NEW).with_noise()
    value, error = law.log_density(Y[:6, 0], return_error=True)
    assert (value, error) == (law.log_density(Y[:6, 0]), 0.0)
    quantiles, errors = law.quantile([0.1, 0.9], return_error=True)
    np.testing.assert_array_equal(quantiles, law.quantile([0.1, 0.9]))
    assert errors.shape == (2, 6)
    assert not errors.any()
    beyond = lbnn.Network((6,)).condition(X[:5], Y[:5], 4.0, target_error=0.2).predict(100 * NEW)
    assert beyond.mgf(np.ones((6, 3)), return_error=True) == (np.inf, 0.0)
