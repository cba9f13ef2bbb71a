"""The average feature kernel at training and test points: symmetries, limits and the two ways in."""

from __future__ import annotations

import math

import numpy as np
import pytest

import lbnn
from tests.helpers.problems import make_problem
from tests.referees import weight_space
from tests.referees.statistics import assert_agrees

DATA = make_problem(5, 8, seed=111)
TALL = make_problem(9, 3, seed=112)
NETWORKS = [lbnn.Network((1,)), lbnn.Network((4, 3), (0.7, 1.5, 1.2)), lbnn.Network((2, 50, 3))]
networks = pytest.mark.parametrize("network", NETWORKS, ids=lambda network: str(network.widths))
temperatures = pytest.mark.parametrize("beta", [0.0, 0.5, 1e4, math.inf])


@networks
@temperatures
def test_test_kernel_at_the_training_inputs(network: lbnn.Network, beta: float) -> None:
    """feature_kernel(X) = feature_kernel(), and any subset of points gives that block."""
    post = network.condition(DATA.X, DATA.Y, beta)
    own = post.feature_kernel()
    np.testing.assert_allclose(post.feature_kernel(DATA.X), own, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(post.feature_kernel(DATA.X[[3, 1]]), own[np.ix_([3, 1], [3, 1])], rtol=1e-10)


@networks
@temperatures
def test_kernel_is_positive_semidefinite(network: lbnn.Network, beta: float) -> None:
    """⟨K⟩ is an average of Gram matrices: symmetric, no negative eigenvalue, at training and test points."""
    post = network.condition(DATA.X, DATA.Y, beta)
    for kernel in (post.feature_kernel(), post.feature_kernel(np.concatenate([DATA.X, DATA.X_test]))):
        np.testing.assert_allclose(kernel, kernel.T, rtol=0, atol=1e-14 * np.abs(kernel).max())
        assert np.linalg.eigvalsh(kernel)[0] >= -1e-13 * np.abs(kernel).max()


@networks
@temperatures
def test_kernel_is_linear_in_the_test_points(network: lbnn.Network, beta: float) -> None:
    """K(A x̂, B x̂) = A K(x̂, x̂) Bᵀ: features are linear, so combinations of points combine rows and columns."""
    post = network.condition(DATA.X, DATA.Y, beta)
    points = np.concatenate([DATA.X_test, DATA.X[:2]])
    mix = np.random.default_rng(113).standard_normal((4, len(points)))
    expected = mix @ post.feature_kernel(points) @ mix.T
    np.testing.assert_allclose(post.feature_kernel(mix @ points), expected, rtol=1e-9, atol=1e-10)


@networks
@pytest.mark.parametrize("beta", [0.5, math.inf])
def test_gram_route(network: lbnn.Network, beta: float) -> None:
    """From Gram matrices instead of inputs."""
    inputs = network.condition(DATA.X, DATA.Y, beta)
    gram = network.condition_gram(DATA.gram, DATA.Y, beta)
    np.testing.assert_allclose(gram.feature_kernel(), inputs.feature_kernel(), rtol=1e-9, atol=1e-11)
    test = gram.feature_kernel(cross_gram=DATA.cross.T, test_gram=DATA.test_gram)
    np.testing.assert_allclose(test, inputs.feature_kernel(DATA.X_test), rtol=1e-9, atol=1e-11)


def test_more_examples_than_inputs() -> None:
    """p > n0: rank-deficient Gram, test kernel in the input space of dimension three."""
    post = lbnn.Network((4, 3)).condition(TALL.X, TALL.Y, 3.0)
    in_input_space = post.feature_kernel(np.eye(3))  # ⟨W_1ᵀW_1⟩ / n_1
    expected = TALL.X @ in_input_space @ TALL.X.T
    np.testing.assert_allclose(post.feature_kernel(), expected, rtol=1e-10, atol=1e-12)
    assert np.linalg.matrix_rank(post.feature_kernel()) == 3


@pytest.mark.parametrize("widths", [(3,), (3, 6)], ids=str)
def test_zero_temperature_formula(widths: tuple[int, ...]) -> None:
    """β = ∞: ⟨K⟩ = (1 − 1/n_1) G + E[1/λ] y yᵀ / n_1."""
    post = lbnn.Network(widths).condition(DATA.X, DATA.Y, math.inf)
    n_1 = widths[0]
    outer = post.scale.inverse_mean * np.outer(DATA.Y, DATA.Y)
    np.testing.assert_allclose(post.feature_kernel(), (1 - 1 / n_1) * DATA.gram + outer / n_1, rtol=1e-10)


@networks
def test_unseen_directions_keep_the_prior_kernel(network: lbnn.Network) -> None:
    """A point orthogonal to every training input has K = σ_1² |x̂|²/n0: nothing was learned there."""
    post = network.condition(DATA.X, DATA.Y, 2.0)
    outside = np.linalg.svd(DATA.X)[2][5:]
    expected = network.prior_variances[0] * np.eye(3) / 8
    np.testing.assert_allclose(post.feature_kernel(outside), expected, rtol=1e-12, atol=1e-15)


def test_test_kernel_by_weight_space_chains() -> None:
    """⟨K⟩ at new points against Gibbs draws of W_1: the chains' own kernel at training and test points."""
    widths, beta, data = (3, 2), 3.0, make_problem(4, 6, seed=114, points=2, signal=2.0)
    post = lbnn.Network(widths).condition(data.X, data.Y, beta)
    rng = np.random.default_rng(115)
    layers = weight_space.describe_layers(6, widths, 1)
    weights = weight_space.draw_prior(layers, 400, rng)
    points, kernels = np.concatenate([data.X[:1], data.X_test]), []
    for step in range(550):
        weight_space.gibbs_sweep(weights, data.X, data.columns, beta, layers, rng)
        if step >= 50:
            kernels.append(weight_space.feature_kernel(points, weights))
    mean, error = weight_space.chain_mean_and_error(np.stack(kernels, axis=1))
    assert_agrees(mean, error, post.feature_kernel(points), largest_error=0.02)


def test_depth_one_has_no_features() -> None:
    """widths=(): an error that says why."""
    post = lbnn.Network(()).condition(DATA.X, DATA.Y, 2.0)
    with pytest.raises(ValueError, match=r"a feature kernel needs a hidden layer, got .* depth one"):
        post.feature_kernel()
