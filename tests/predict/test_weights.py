"""Exact weight draws: the posterior of the map, of every kernel, of the scale and of the norms."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats

import lbnn
from lbnn.predict.weights import orthonormal_rows
from tests.helpers import lattice
from tests.helpers.lattice import combined
from tests.helpers.problems import Array, Problem, make_problem
from tests.referees import weight_space
from tests.referees.statistics import assert_agrees

SIZE = 20_000
# widths, outputs (None: one-dimensional Y), prior variances
CASES = {
    "one output": ((4,), None, None),
    "one output, deep": ((4, 3, 5), None, None),
    "one output, variances": ((3, 4), None, (1.5, 0.6, 2.0)),
    "several outputs": ((5,), 3, None),
    "several outputs, deep, variances": ((5, 4), 2, (0.8, 1.4, 0.7)),
    "bottleneck": ((5, 2, 4), 3, None),
    "dual": ((4,), 5, None),
    "dual, wide": ((9,), 5, None),
    "depth one": ((), 2, (1.7,)),
}


def draw(name: str, beta: float = 4.0, seeds: int = 1) -> tuple[Problem, lbnn.Posterior, list[Array]]:
    """The problem, one posterior, and weights pooled over independent runs of the engine."""
    widths, outputs, variances = CASES[name]
    data = make_problem(4, 6, outputs, seed=400, points=2, signal=1.5)
    network = lbnn.Network(widths, prior_variances=variances)
    posts = [
        network.condition(data.X, data.Y, beta, seed=seed, target_error=0.02 if seeds == 1 else 0.05)
        for seed in range(seeds)
    ]
    pieces = [post.sample_weights(SIZE // seeds, 401 + seed) for seed, post in enumerate(posts)]
    return data, posts[0], [np.concatenate(layer) for layer in zip(*pieces, strict=True)]


def grouped_error(values: Array, groups: int) -> Array:
    """Standard error from the means of consecutive groups of draws, which share an engine's atoms."""
    means = values.reshape(groups, -1, *values.shape[1:]).mean(1)
    return means.std(0, ddof=1) / math.sqrt(groups)


@pytest.mark.parametrize("name", CASES)
def test_shapes(name: str) -> None:
    widths, outputs, variances = CASES[name]
    data = make_problem(4, 6, outputs, seed=400, points=2)
    post = lbnn.Network(widths, prior_variances=variances).condition(data.X, data.Y, 4.0)
    sizes = (6, *widths, outputs or 1)
    weights = post.sample_weights(7, 402)
    assert [W.shape for W in weights] == [(7, b, a) for a, b in itertools.pairwise(sizes)]
    again = post.sample_weights(7, 402)
    for W, V in zip(weights, again, strict=True):
        np.testing.assert_array_equal(W, V)


@pytest.mark.parametrize("name", CASES)
def test_draws_average_to_the_posterior_s_own_moments(name: str) -> None:
    """F̂, F̂F̂ᵀ, K_ℓ and L of weight draws against predict, feature_kernel and scale of the same atoms."""
    data, post, weights = draw(name)
    pred = post.predict(data.X_test)
    mean = pred.mean.ravel()
    values = [weight_space.network_outputs(data.X_test, weights).reshape(SIZE, -1)]
    exact = [mean]
    centred = values[0] - mean
    values.append((centred[:, :, None] * centred[:, None, :]).reshape(SIZE, -1))
    exact.append(pred.covariance.ravel())
    for number, kernel in enumerate(lattice.layer_kernels(data.X, weights), start=1):
        values.append(kernel.reshape(SIZE, -1))
        exact.append(post.feature_kernel(layer=number).ravel())
    if len(weights) > 1:
        values.append(weight_space.scale_matrix(weights).reshape(SIZE, -1))
        exact.append(np.ravel(post.scale.mean))
    drawn, truth = np.concatenate(values, axis=1), np.concatenate(exact)
    error = drawn.std(0) / math.sqrt(SIZE)
    assert_agrees(drawn.mean(0), error, truth, comparisons=1200)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow) if name in ("dual", "bottleneck") else name
        for name in CASES
        if name != "depth one"
    ],
)
def test_everything_against_gibbs_chains(name: str) -> None:
    """The same functionals and every layer's squared norm; sixteen engine runs make up the error."""
    widths, _, variances = CASES[name]
    seeds = 1 if CASES[name][1] is None else 16
    data, _, weights = draw(name, seeds=seeds)
    functional = lattice.weight_functional(data)
    values = functional(weights)
    chains, chains_error = lattice.gibbs_functionals(
        data, widths, 4.0, functional, seed=403, prior_variances=variances, chains=200, sweeps=200
    )
    error = values.std(0) / math.sqrt(SIZE) if seeds == 1 else grouped_error(values, 16)
    assert_agrees(
        values.mean(0),
        combined(error, chains_error),
        chains,
        comparisons=8 * len(chains),
        degrees_of_freedom=math.inf if seeds == 1 else 30,
    )


def test_depth_one_is_bayesian_linear_regression() -> None:
    """W | data is Gaussian with covariance (βXᵀX + n0/σ² I)⁻¹ for every output."""
    data, _, (weights,) = draw("depth one")
    covariance = np.linalg.inv(4.0 * data.X.T @ data.X + 6 / 1.7 * np.eye(6))
    mean = (covariance @ (4.0 * data.X.T @ data.Y)).T
    assert_agrees(weights.mean(0), weights.std(0) / math.sqrt(SIZE), mean, comparisons=84)
    centred = weights - mean
    products = np.einsum("sji,sjk->sjik", centred, centred)
    exact = np.broadcast_to(covariance, (2, 6, 6))
    assert_agrees(products.mean(0), products.std(0) / math.sqrt(SIZE), exact, comparisons=84)


@pytest.mark.parametrize(
    ("widths", "outputs"), [((4,), None), ((4, 3), None), ((5, 4), 3), ((5,), 6), ((9,), 6), ((), 2)], ids=str
)
def test_zero_temperature_interpolates_exactly(widths: tuple[int, ...], outputs: int | None) -> None:
    """X W_1ᵀ ⋯ W_dᵀ = Y for every draw."""
    data = make_problem(4, 7, outputs, seed=404)
    weights = lbnn.Network(widths).condition(data.X, data.Y, math.inf).sample_weights(200, 405)
    F = weight_space.network_outputs(data.X, weights)
    np.testing.assert_allclose(F, np.broadcast_to(data.columns, F.shape), atol=1e-8)


def test_no_information_gives_the_prior() -> None:
    """β = 0: every entry of every layer is N(0, σ_ℓ²/n_{ℓ−1}) and independent of the others."""
    data, variances = make_problem(4, 6, 2, seed=406), (1.5, 0.6, 2.0)
    post = lbnn.Network((5, 3), prior_variances=variances).condition(data.X, data.Y, 0.0, target_error=0.02)
    weights = post.sample_weights(SIZE, 407)
    flat = []
    for W, variance in zip(weights, variances, strict=True):
        flat.append((W * math.sqrt(W.shape[2] / variance)).reshape(SIZE, -1))
    values = np.concatenate(flat, axis=1)
    size = values.shape[1]
    first = values[:, :30]
    for column in (0, 29, size - 1):
        assert stats.kstest(values[:, column], "norm").pvalue > 1e-3 / 3
    products = first.T @ first / SIZE
    assert_agrees(products, np.full(products.shape, math.sqrt(2 / SIZE)), np.eye(30))


def test_orthonormal_rows_are_uniform() -> None:
    """Rows are orthonormal; an entry of a Haar matrix has the law of a coordinate of the sphere."""
    q = orthonormal_rows(40_000, 2, 4, np.random.default_rng(408))
    np.testing.assert_allclose(q @ q.swapaxes(1, 2), np.broadcast_to(np.eye(2), (40_000, 2, 2)), atol=1e-12)
    for row in (0, 1):
        beta = stats.kstest(q[:, row, 3] ** 2, "beta", args=(0.5, 1.5))  # coordinate² ~ Beta(½, (n − 1)/2)
        assert beta.pvalue > 1e-3 / 4
        signs = stats.binomtest(int((q[:, row, row] > 0).sum()), 40_000)
        assert signs.pvalue > 1e-3 / 4


def test_more_examples_than_inputs() -> None:
    data = make_problem(9, 4, 2, seed=409)
    post = lbnn.Network((5,)).condition(data.X, data.Y, 4.0, target_error=0.02)
    weights = post.sample_weights(SIZE, 410)
    F = weight_space.network_outputs(data.X_test, weights)
    pred = post.predict(data.X_test)
    assert_agrees(F.mean(0), F.std(0) / math.sqrt(SIZE), pred.mean, comparisons=12)
    square = (F - pred.mean) ** 2
    assert_agrees(square.mean(0), square.std(0) / math.sqrt(SIZE), pred.variance, comparisons=12)


def test_weights_need_inputs() -> None:
    data = make_problem(4, 6, 2, seed=411)
    with pytest.raises(ValueError, match="condition on inputs X"):
        lbnn.Network((5,)).condition_gram(data.gram, data.Y, 4.0).sample_weights(3, 0)


@pytest.mark.parametrize("size", [0, -1, 2.5])
def test_size_must_be_a_positive_integer(size: float) -> None:
    data = make_problem(4, 6, seed=412)
    with pytest.raises(ValueError, match="size"):
        lbnn.Network((5,)).condition(data.X, data.Y, 4.0).sample_weights(size, 0)
