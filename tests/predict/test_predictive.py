"""The predictive mixture: densities, quantiles and draws against brute force, and each against the others."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest
from scipy import special, stats

import lbnn
from tests.helpers.dense_mixture import DenseMixture, log_evidence_by_mellin
from tests.helpers.problems import Problem, make_problem
from tests.referees.statistics import assert_agrees

BASE = make_problem(4, 9, seed=91, points=2)
# the first test point is new, the second nearly a combination of training inputs
DATA = Problem(BASE.X, BASE.Y, np.stack([BASE.X_test[0], BASE.X[0] - BASE.X[1] + 0.1 * BASE.X_test[1]]))
NETWORKS = [lbnn.Network((4,)), lbnn.Network((3, 5), (0.8, 1.7, 0.6)), lbnn.Network((1, 2, 1))]
networks = pytest.mark.parametrize("network", NETWORKS, ids=lambda network: str(network.widths))
TEMPERATURES = [0.0, 0.5, 1e4, math.inf]
temperatures = pytest.mark.parametrize("beta", TEMPERATURES)
laws = pytest.mark.parametrize(
    ("beta", "noise"), [(0.0, 0.0), (0.5, 0.0), (0.5, 2.0), (1e4, 0.0), (1e4, 1e-4), (math.inf, 0.0)]
)


@functools.cache
def brute(network: lbnn.Network, beta: float) -> DenseMixture:
    return DenseMixture(network, DATA, beta)


@functools.cache
def predictive(network: lbnn.Network, beta: float) -> lbnn.Predictive:
    return network.condition(DATA.X, DATA.Y, beta).predict(DATA.X_test)


def typical_value(pred: lbnn.Predictive, deviations: float) -> np.ndarray:
    """A point so many standard deviations from the mean, up at the first and down at the second point."""
    return pred.mean + deviations * np.sqrt(pred.variance) * np.array([1.0, -0.7])


# ---------------------------------------------------------------- densities


@networks
@temperatures
@pytest.mark.parametrize("deviations", [0.1, 1.5, 50.0])
def test_log_density(network: lbnn.Network, beta: float, deviations: float) -> None:
    """Σ_s w_s N(F; μ_s, Σ_s), near the mean and 50 deviations away, where λ is far from its posterior."""
    pred = predictive(network, beta)
    F = typical_value(pred, deviations)
    expected = brute(network, beta).log_density(F)
    assert pred.log_density(F) == pytest.approx(expected, rel=1e-9, abs=1e-9)


@networks
@pytest.mark.parametrize("beta", [0.5, 1e4])
@pytest.mark.parametrize("deviations", [1.5, 50.0])
def test_log_density_of_observations(network: lbnn.Network, beta: float, deviations: float) -> None:
    """The same with noise 1/β in every component."""
    pred = predictive(network, beta).with_noise()
    F = typical_value(pred, deviations)
    expected = brute(network, beta).log_density(F, noise=1 / beta)
    assert pred.log_density(F) == pytest.approx(expected, rel=1e-9, abs=1e-9)


@networks
def test_log_density_of_the_function_space_prior(network: lbnn.Network) -> None:
    """prior(X).log_density is a Meijer G-function of FᵀG⁻¹F: one more layer of width p̂."""
    F, first = np.array([0.4, -2.0]), network.prior_variances[0]
    expected = log_evidence_by_mellin(
        network.widths, math.prod(network.prior_variances[1:]), first * DATA.test_gram, F
    )
    assert network.prior(DATA.X_test).log_density(F) == pytest.approx(expected, rel=1e-11)


@networks
@pytest.mark.parametrize("deviations", [1.0, 50.0, 1e4, 1e12])
def test_log_density_far_out_at_zero_temperature(network: lbnn.Network, deviations: float) -> None:
    """p(F̂ | y) = p(y, F̂)/p(y), each a density with one more layer: exact however far out."""
    pred, first = predictive(network, math.inf), network.prior_variances[0]
    F = typical_value(pred, deviations)
    law = network.widths, math.prod(network.prior_variances[1:])
    joint = np.block([[DATA.gram, DATA.cross], [DATA.cross.T, DATA.test_gram]])
    both = log_evidence_by_mellin(*law, first * joint, np.concatenate([DATA.Y, F]))
    alone = log_evidence_by_mellin(*law, first * DATA.gram, DATA.Y)
    assert pred.log_density(F) == pytest.approx(both - alone, rel=1e-10, abs=1e-9)


@networks
@pytest.mark.parametrize("beta", [0.5, 1e4])
def test_density_of_observations_is_a_ratio_of_evidences(network: lbnn.Network, beta: float) -> None:
    """log p(Ŷ | Y) = log p(Y, Ŷ) − log p(Y): Bayes, with three separate inferences."""
    observed = typical_value(predictive(network, beta), 2.0)
    X, Y = np.concatenate([DATA.X, DATA.X_test]), np.concatenate([DATA.Y, observed])
    both, alone = network.condition(X, Y, beta), network.condition(DATA.X, DATA.Y, beta)
    got = alone.predict(DATA.X_test).with_noise().log_density(observed)
    assert got == pytest.approx(both.log_evidence - alone.log_evidence, rel=1e-10, abs=1e-10)


@networks
def test_density_of_function_values_is_the_limit_of_small_noise(network: lbnn.Network) -> None:
    """At β = 1e11 the noise does not matter: with and without it agree to 1/β over the variance."""
    pred = predictive(network, 1e11)
    F = typical_value(pred, 1.0)
    assert pred.log_density(F) == pytest.approx(pred.with_noise().log_density(F), abs=1e-6)


@networks
@pytest.mark.parametrize("beta", [0.3, 5.0, 1e6, 1e12])
def test_log_density_at_the_training_points(network: lbnn.Network, beta: float) -> None:
    """Bayes for function values: p(F | Y) = N(Y; F, 1/β) p(F) / p(Y), down to noise of 1e-6."""
    post = network.condition(DATA.X, DATA.Y, beta)
    F = DATA.Y + np.array([0.3, -0.1, 0.2, 0.4]) / math.sqrt(beta)
    noise = stats.norm(F, 1 / math.sqrt(beta)).logpdf(DATA.Y).sum()
    expected = noise + network.prior(DATA.X).log_density(F) - post.log_evidence
    # β amplifies the rounding of F and of G: the terms that cancel are β · eps in size
    assert post.predict().log_density(F) == pytest.approx(expected, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize(
    ("network", "beta"),
    [
        (NETWORKS[0], 0.0),
        pytest.param(NETWORKS[1], 0.5, marks=pytest.mark.slow),
        (NETWORKS[1], math.inf),
    ],
    ids=str,
)
def test_density_integrates_to_one(network: lbnn.Network, beta: float) -> None:
    """∫ p dF = 1, with the mean and variance reported; F = ±e^u, for p is not smooth at F = 0 (λ → 0)."""
    pred = network.condition(DATA.X, DATA.Y, beta).predict(DATA.X_test[:1])
    u = np.arange(-22.0, 7.0, 0.2)  # e^−22 is the mass left out
    F = np.concatenate([-np.exp(u), np.exp(u)])
    mass = 0.2 * np.abs(F) * np.exp([pred.log_density([value]) for value in F])
    assert mass.sum() == pytest.approx(1.0, rel=1e-8)
    assert mass @ F == pytest.approx(pred.mean[0], rel=1e-8, abs=1e-10)
    assert mass @ (F - pred.mean) ** 2 == pytest.approx(pred.variance[0], rel=1e-8)


def test_density_can_be_infinite() -> None:
    """E λ^{−p̂/2} diverges for a width of at most p̂: the prior density of F has a pole at F = 0."""
    assert lbnn.Network((3, 3)).prior(DATA.X_test).log_density(np.zeros(2)) < math.inf
    assert lbnn.Network((3, 2)).prior(DATA.X_test).log_density(np.zeros(2)) == math.inf


@pytest.mark.parametrize("beta", [2.0, math.inf])
def test_densities_with_several_outputs_at_depth_one(beta: float) -> None:
    """Independent outputs: the joint density factorises into Gaussians, with and without noise."""
    data = make_problem(4, 9, 3, seed=92, points=2)
    pred = lbnn.Network(()).condition(data.X, data.Y, beta).predict(data.X_test)
    F = pred.mean + 0.4
    covariance = pred.covariance.reshape(6, 6)
    law = stats.multivariate_normal(pred.mean.ravel(), covariance)
    assert pred.log_density(F) == pytest.approx(law.logpdf(F.ravel()), rel=1e-9)
    noisy = stats.multivariate_normal(pred.mean.ravel(), covariance + np.eye(6) / beta)
    assert pred.with_noise().log_density(F) == pytest.approx(noisy.logpdf(F.ravel()), rel=1e-9)


@pytest.mark.parametrize("network", [lbnn.Network(()), lbnn.Network((3, 5))], ids=["depth1", "depth3"])
def test_no_density_where_outputs_are_determined(network: lbnn.Network) -> None:
    """Repeated points, and training points at zero temperature, have no joint density without noise."""
    twice = np.stack([DATA.X_test[0], DATA.X_test[0]])
    finite, zero = (network.condition(DATA.X, DATA.Y, beta) for beta in (2.0, math.inf))
    for pred, points in ((finite.predict(twice), 2), (zero.predict(), 4), (zero.predict(DATA.X[:1]), 1)):
        with pytest.raises(ValueError, match="outputs have a joint density only at points that neither"):
            pred.log_density(np.zeros(points))
    assert math.isfinite(finite.predict(twice).with_noise().log_density([0.1, -0.1]))


# ---------------------------------------------------------------- quantiles

LEVELS = [1e-9, 0.025, 0.3, 0.5, 0.9, 1 - 1e-9]


@networks
@laws
def test_quantiles_invert_the_distribution_function(network: lbnn.Network, beta: float, noise: float) -> None:
    """P(F ≤ quantile(q)) = q and P(F > quantile(q)) = 1 − q, each relative to itself."""
    pred = predictive(network, beta).with_noise() if noise else predictive(network, beta)
    got = pred.quantile(LEVELS)
    assert got.shape == (len(LEVELS), 2)
    for level, row in zip(LEVELS, got, strict=True):
        for point, value in enumerate(row):
            below, above = brute(network, beta).log_distribution(value, point, noise)
            assert below == pytest.approx(math.log(level), abs=1e-7)
            assert above == pytest.approx(math.log1p(-level), abs=1e-7)


@pytest.mark.parametrize("beta", TEMPERATURES)
@pytest.mark.parametrize("outputs", [None, 2])
def test_quantiles_at_depth_one_are_gaussian(beta: float, outputs: int | None) -> None:
    """One atom: mean + sd · Φ⁻¹(q)."""
    data = make_problem(4, 9, outputs, seed=93, points=40)
    pred = lbnn.Network(()).condition(data.X, data.Y, beta).predict(data.X_test)
    for level in LEVELS:
        expected = pred.mean + np.sqrt(pred.variance) * special.ndtri(level)
        np.testing.assert_allclose(pred.quantile(level), expected, rtol=1e-9, atol=1e-9)


def test_quantiles_at_infinite_width_are_gaussian() -> None:
    """Width 10¹²: atoms that differ by 1e-6 only."""
    wide = lbnn.Network((10**12,)).condition(DATA.X, DATA.Y, 2.0).predict(DATA.X_test)
    expected = wide.mean + np.sqrt(wide.variance) * special.ndtri(0.975)
    np.testing.assert_allclose(wide.quantile(0.975), expected, rtol=1e-6)


def test_quantile_takes_any_shape() -> None:
    """A number gives the shape of the mean; an array prepends its own; no levels give no rows."""
    pred = predictive(NETWORKS[0], 0.5)
    assert pred.quantile(0.3).shape == (2,)
    assert pred.quantile([[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]]).shape == (2, 3, 2)
    assert pred.quantile([]).shape == (0, 2)
    np.testing.assert_array_equal(pred.quantile([[0.1, 0.2]])[0, 1], pred.quantile(0.2))


@networks
def test_quantiles_are_symmetric_in_the_prior(network: lbnn.Network) -> None:
    """β = 0: quantile(1 − q) = −quantile(q), median zero."""
    pred = network.prior(DATA.X_test)
    np.testing.assert_allclose(pred.quantile(0.9), -pred.quantile(0.1), rtol=1e-9)
    np.testing.assert_allclose(pred.quantile(0.5), np.zeros(2), atol=1e-12)


@networks
@temperatures
def test_interval_is_equal_tailed(network: lbnn.Network, beta: float) -> None:
    """interval(p) = quantiles (1 ∓ p)/2, 0.95 by default."""
    pred = predictive(network, beta)
    np.testing.assert_array_equal(pred.interval(0.8), pred.quantile([0.5 - 0.4, 0.5 + 0.4]))
    low, high = pred.interval()
    np.testing.assert_array_equal([low, high], pred.interval(0.95))
    median = pred.quantile(0.5)
    assert (low < median).all()
    assert (median < high).all()


@pytest.mark.parametrize("network", [lbnn.Network(()), *NETWORKS], ids=lambda network: str(network.widths))
def test_points_without_variance(network: lbnn.Network) -> None:
    """Zero temperature at training points, and x = 0: every quantile and draw is the mean."""
    X_test = np.stack([DATA.X[0], DATA.X_test[0], np.zeros(9)])
    pred = network.condition(DATA.X, DATA.Y, math.inf).predict(X_test)
    fixed = np.array([DATA.Y[0], 0.0])
    np.testing.assert_array_equal(pred.variance[[0, 2]], np.zeros(2))
    np.testing.assert_allclose(pred.mean[[0, 2]], fixed, rtol=1e-10, atol=1e-14)
    draws = pred.sample(5, 0)
    np.testing.assert_allclose(draws[:, [0, 2]], np.broadcast_to(fixed, (5, 2)), rtol=1e-10, atol=1e-14)
    assert np.ptp(draws[:, 1]) > 0
    low, high = pred.interval(0.99)
    np.testing.assert_array_equal(low[[0, 2]], high[[0, 2]])
    np.testing.assert_allclose(low[[0, 2]], pred.mean[[0, 2]], rtol=1e-13)
    assert low[1] < high[1]


# ---------------------------------------------------------------- draws


@networks
@laws
def test_draws_have_the_marginal_laws(network: lbnn.Network, beta: float, noise: float) -> None:
    """Kolmogorov–Smirnov at each point, and for a combination of both points by the mixture's own law."""
    pred = predictive(network, beta).with_noise() if noise else predictive(network, beta)
    draws = pred.sample(40_000, 94)
    for direction in np.array([[1.0, 0.0], [0.0, 1.0], [0.8, -1.3]]):
        values = draws @ direction
        grid = np.quantile(values, np.linspace(0.0, 1.0, 1001))
        distribution = brute(network, beta).distribution_along(direction, grid, noise)
        uniform = np.interp(values, grid, distribution)
        assert stats.kstest(uniform, stats.uniform.cdf).pvalue > 1e-3 / 54


@pytest.mark.parametrize("beta", [2.0, math.inf])
def test_draws_with_several_outputs_at_depth_one(beta: float) -> None:
    """Mean and covariance over points and outputs."""
    data = make_problem(4, 9, 2, seed=95, points=2)
    pred = lbnn.Network(()).condition(data.X, data.Y, beta).predict(data.X_test).with_noise()
    draws = pred.sample(40_000, 96)
    assert draws.shape == (40_000, 2, 2)
    centred = (draws - pred.mean).reshape(-1, 4)
    products = centred[:, :, None] * centred[:, None, :]
    for values, exact in ((centred, np.zeros(4)), (products, pred.covariance.reshape(4, 4))):
        error = values.std(0) / math.sqrt(len(values))
        assert_agrees(values.mean(0), error, exact, comparisons=2 * 20, largest_error=0.05)


def test_same_seed_same_draws() -> None:
    """An int and a Generator of that seed agree; draws continue a Generator's stream."""
    pred = predictive(NETWORKS[1], 0.5)
    rng = np.random.default_rng(5)
    np.testing.assert_array_equal(pred.sample(3, 5), pred.sample(3, rng))
    assert not np.array_equal(pred.sample(3, 5), pred.sample(3, rng))


# ---------------------------------------------------------------- noise


@pytest.mark.parametrize("network", [lbnn.Network(()), *NETWORKS], ids=lambda network: str(network.widths))
@pytest.mark.parametrize("beta", [0.5, 1e4, math.inf])
def test_noise_adds_its_variance(network: lbnn.Network, beta: float) -> None:
    """with_noise adds 1/β to every variance, nothing to the means; twice is once."""
    pred = network.condition(DATA.X, DATA.Y, beta).predict(DATA.X_test)
    noisy = pred.with_noise()
    np.testing.assert_array_equal(noisy.mean, pred.mean)
    np.testing.assert_allclose(noisy.variance, pred.variance + 1 / beta, rtol=1e-13)
    np.testing.assert_allclose(noisy.covariance, pred.covariance + np.eye(2) / beta, rtol=1e-13)
    np.testing.assert_allclose(noisy.output_covariance[:, 0, 0], noisy.variance, rtol=1e-13)
    np.testing.assert_array_equal(noisy.with_noise().variance, noisy.variance)


@pytest.mark.parametrize("network", [lbnn.Network(()), *NETWORKS], ids=lambda network: str(network.widths))
def test_noise_needs_a_temperature(network: lbnn.Network) -> None:
    """At β = 0, and in the prior, observations have infinite variance."""
    for pred in (network.condition(DATA.X, DATA.Y, 0.0).predict(DATA.X_test), network.prior(DATA.X_test)):
        with pytest.raises(
            ValueError, match="observations have finite variance only for beta > 0, got beta=0"
        ):
            pred.with_noise()
