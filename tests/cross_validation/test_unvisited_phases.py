"""Leave-one-out where the posterior without one row has a phase that the posterior of all rows has not."""

from __future__ import annotations

import numpy as np
import pytest

import lbnn

X = np.array(
    [
        [-0.24867639, -0.50227103],
        [0.41627638, -0.39659876],
        [0.0031838, -0.31657842],
        [0.27540613, 0.16618138],
    ]
)
Y = np.array([694.17373611, -475.86267871, 1020.25115373, -76.32705713])
NETWORK = lbnn.Network((30, 2), (0.16014561126057714, 3.2141163419329053, 0.6891231908873802))
BETA = 0.0019632906673885263


def refit(network, X, Y, beta, row, noise="independent"):
    """Mean, variance and log density of one row from a posterior of the others."""
    others = np.arange(len(Y)) != row
    left = network.condition(X[others], Y[others], beta, noise=noise)
    predictive = left.predict(X[row : row + 1]).with_noise()
    return predictive.mean[0], predictive.variance[0], predictive.log_density(Y[row : row + 1])


def test_a_phase_that_one_row_suppresses_is_found():
    """Without row 1, E λ is 11,800; with it 2.3: the nodes of the posterior do not reach the former."""
    left = NETWORK.condition(X, Y, BETA).leave_one_out(Y)
    for row in range(4):
        mean, variance, log_density = refit(NETWORK, X, Y, BETA, row)
        np.testing.assert_allclose(left.mean[row], mean, rtol=1e-8)
        np.testing.assert_allclose(left.variance[row], variance, rtol=1e-8)
        np.testing.assert_allclose(left.log_density[row], log_density, rtol=1e-8)


@pytest.mark.parametrize("outlier", [10.0, 1000.0])
def test_outliers_with_coupled_noise(outlier):
    """One row decides the scale: without a check its variance was wrong by a factor of 5,900."""
    rng = np.random.default_rng(0)
    inputs, targets = rng.normal(size=(6, 3)), rng.normal(size=6)
    targets[2] = outlier
    network = lbnn.Network((3, 2))
    left = network.condition(inputs, targets, 4.0, noise="coupled").leave_one_out(targets)
    for row in (0, 2):
        mean, variance, log_density = refit(network, inputs, targets, 4.0, row, noise="coupled")
        np.testing.assert_allclose(left.mean[row], mean, rtol=1e-8)
        np.testing.assert_allclose(left.variance[row], variance, rtol=1e-8)
        np.testing.assert_allclose(left.log_density[row], log_density, rtol=1e-8)


@pytest.mark.parametrize("noise", ["independent", "per_output"])
def test_a_phase_that_no_draw_has_visited_is_reported(noise):
    """With two outputs the scale is drawn: weights of draws do not show a phase without draws."""
    targets = np.stack([Y, [3.0, -10.0, 5.0, 20.0]], axis=1)
    beta = BETA if noise == "independent" else [BETA, 2 * BETA]
    posterior = NETWORK.condition(X, targets, beta, noise=noise)
    assert posterior.diagnostics.ok
    with pytest.warns(lbnn.AccuracyWarning, match=r"without example 1 \(1 of 4 in all\)"):
        left = posterior.leave_one_out(targets)
    assert not left.ok
    assert left.pareto_k.max() < 0.7  # they show nothing


@pytest.mark.parametrize("noise", ["independent", "coupled"])
def test_one_row_that_is_moved_far_has_the_score_of_a_refit(noise):
    """Random networks, shapes and noise; of 400 such data sets none was off by more than 1e-6."""
    for number in range(12):
        rng = np.random.default_rng([77, number])
        p, n0, depth = int(rng.integers(3, 14)), int(rng.integers(1, 12)), int(rng.integers(1, 4))
        widths = tuple(int(n) for n in rng.integers(1, 12, size=depth))
        network = lbnn.Network(
            widths, tuple(float(each) for each in 10 ** rng.uniform(-2, 2, size=depth + 1))
        )
        inputs = rng.normal(size=(p, n0))
        targets = inputs @ rng.normal(size=n0) * 10 ** rng.uniform(-3, 3) + rng.normal(size=p)
        targets[0] += 10 ** rng.uniform(0, 4)
        beta = 10 ** rng.uniform(-4, 6)
        left = network.condition(inputs, targets, beta, noise=noise).leave_one_out()
        for row in (0, 1):
            mean, variance, log_density = refit(network, inputs, targets, beta, row, noise=noise)
            assert left.mean[row] == pytest.approx(mean, abs=1e-6 * np.sqrt(variance))
            assert left.variance[row] == pytest.approx(variance, rel=1e-6)
            assert left.log_density[row] == pytest.approx(log_density, rel=1e-6, abs=1e-6)
