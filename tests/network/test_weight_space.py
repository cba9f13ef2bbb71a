"""Exact answers against Gibbs chains and importance sampling over the weights of the network itself."""

from __future__ import annotations

import math

import numpy as np
import pytest

import lbnn
from tests.helpers.problems import Problem, make_problem
from tests.referees import weight_space
from tests.referees.statistics import assert_agrees

BETA = 4.0
CONFIGURATIONS = [
    ((4, 3), None, 31),
    ((3, 4), (1.5, 0.6, 2.0), 32),
]
# per configuration: 3 means, 9 second moments, 36 kernel entries, L, L²
COMPARISONS = len(CONFIGURATIONS) * (3 + 9 + 36 + 2)

Drawn = tuple[lbnn.Posterior, Problem, weight_space.WeightSpaceDraws]


def problem_with_large_targets(seed: int) -> Problem:
    """Six examples, eight inputs, targets of size 1 to 3 and either sign."""
    rng = np.random.default_rng(seed)
    sizes = rng.uniform(1.0, 3.0, size=6) * rng.choice([-1.0, 1.0], size=6)
    return Problem(rng.standard_normal((6, 8)), sizes, rng.standard_normal((3, 8)))


@pytest.fixture(
    scope="module",
    params=[pytest.param(each, marks=pytest.mark.slow) for each in CONFIGURATIONS[:2]],
    ids=lambda c: f"widths{c[0]}-variances{c[1]}",
)
def drawn(request: pytest.FixtureRequest) -> Drawn:
    widths, variances, seed = request.param
    data = problem_with_large_targets(seed)
    post = lbnn.Network(widths, prior_variances=variances).condition(data.X, data.Y, BETA)
    draws = weight_space.sample_posterior(
        data.X, data.columns, widths, BETA,
        chains=400, sweeps=1000, burn_in=50, seed=seed, prior_variances=variances, X_test=data.X_test,
    )  # fmt: skip
    return post, data, draws


def assert_matches(values: np.ndarray, exact: np.ndarray | float, largest_error: float) -> None:
    mean, error = weight_space.chain_mean_and_error(values)
    assert_agrees(mean, error, exact, comparisons=COMPARISONS, largest_error=largest_error)


def test_chains_have_mixed(drawn: Drawn) -> None:
    """The half-chains agree on the slowest functional, the scale."""
    assert weight_space.split_r_hat(drawn[2].scale).max() < 1.02


def test_mean_predictor(drawn: Drawn) -> None:
    """⟨F̂⟩."""
    post, data, draws = drawn
    assert_matches(draws.predictions[..., 0], post.predict(data.X_test).mean, 0.004)


def test_second_moments_of_the_predictor(drawn: Drawn) -> None:
    """⟨F̂ F̂ᵀ⟩ = covariance + mean meanᵀ."""
    post, data, draws = drawn
    pred, values = post.predict(data.X_test), draws.predictions[..., 0]
    exact = pred.covariance + np.outer(pred.mean, pred.mean)
    assert_matches(values[..., :, None] * values[..., None, :], exact, 0.03)


def test_feature_kernel(drawn: Drawn) -> None:
    """⟨K⟩, K = X W_1ᵀ W_1 Xᵀ / n_1 (the prior variance of layer one is inside W_1)."""
    post, _, draws = drawn
    assert_matches(draws.kernel, post.feature_kernel(), 0.004)


def test_scale_moments(drawn: Drawn) -> None:
    """E L and E L²."""
    post, _, draws = drawn
    scale = draws.scale[..., 0, 0]
    assert_matches(scale, post.scale.mean, 0.01)
    assert_matches(scale**2, post.scale.expect(lambda value: value**2), 0.1)


@pytest.mark.parametrize("variances", [None, (0.7, 1.6, 1.2)], ids=str)
def test_evidence_by_importance_sampling(variances: tuple[float, ...] | None) -> None:
    """Log of the likelihood averaged over 400,000 draws of the weights, with its normalisation."""
    data, widths, beta = make_problem(3, 4, seed=33), (3, 2), 2.0
    weighted = weight_space.prior_weighted(
        data.X, data.columns, widths, beta, 400_000, 34, data.X_test, prior_variances=variances
    )
    post = lbnn.Network(widths, prior_variances=variances).condition(data.X, data.Y, beta)
    estimate, error = weighted.log_evidence, weighted.log_evidence_error
    assert_agrees(estimate, error, post.log_evidence, comparisons=2, largest_error=0.01)


def test_prior_of_the_outputs() -> None:
    """E F̂F̂ᵀ = E λ G and E F̂⁴ = 3 E λ² G² over random weights."""
    data, widths, variances, size = make_problem(2, 5, seed=35), (3, 2), (0.7, 1.6, 1.2), 200_000
    layers = weight_space.describe_layers(5, widths, 1, variances)
    weights = weight_space.draw_prior(layers, size, np.random.default_rng(36))
    values = weight_space.network_outputs(data.X, weights)[..., 0]
    prior = lbnn.Network(widths, prior_variances=variances).prior(data.X)
    second = values[:, :, None] * values[:, None, :]
    error = second.std(0) / math.sqrt(size)
    assert_agrees(second.mean(0), error, prior.covariance, comparisons=6, largest_error=0.02)
    fourth = values**4
    scale_square = (1.6 * 1.2) ** 2 * (1 + 2 / 3) * (1 + 2 / 2)  # E (χ²(n)/n)² = 1 + 2/n
    exact = 3 * scale_square * np.diag(0.7 * data.gram) ** 2
    assert_agrees(fourth.mean(0), fourth.std(0) / math.sqrt(size), exact, comparisons=6, largest_error=5.0)
