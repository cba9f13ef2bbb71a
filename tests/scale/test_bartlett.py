"""The Bartlett product: its coordinates, its gradient, and its factors."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

import lbnn
from lbnn.engines.target import Target
from lbnn.likelihood.gaussian import GaussianLikelihood
from lbnn.likelihood.hidden_kernel import dual, dual_prior
from lbnn.scale.gamma_product import GammaProduct
from tests.helpers.problems import Array, make_problem, random_rotation, random_scale
from tests.referees import weight_space
from tests.referees.statistics import assert_agrees

SIZE = 200_000
# widths, outputs, layer variances of layers 2..d
LAWS = [
    ((4,), 3, (1.0,)),
    ((5, 4), 2, (1.0, 1.0)),
    ((3, 6, 4), 3, (0.7, 1.6, 1.2)),
    ((2,), 3, (1.3,)),
    ((5, 2, 4), 3, (1.0, 1.0, 1.0)),
    ((1, 3), 2, (2.0, 0.5)),
]


def raw_scales(widths: tuple[int, ...], outputs: int, variances: tuple[float, ...], seed: int) -> Array:
    """L from full weight matrices."""
    layers = weight_space.describe_layers(1, widths, outputs, (1.0, *variances))
    weights = weight_space.draw_prior(layers, SIZE, np.random.default_rng(seed))
    return weight_space.scale_matrix(weights)


@pytest.mark.parametrize(("widths", "outputs", "variances"), LAWS, ids=str)
def test_law_of_the_largest_eigenvalue(
    widths: tuple[int, ...], outputs: int, variances: tuple[float, ...]
) -> None:
    """The whole distribution, by a two-sample Kolmogorov-Smirnov test."""
    prior = lbnn.Network(widths, prior_variances=(1.0, *variances)).scale_prior(outputs)
    largest = [
        np.linalg.eigvalsh(s)[:, -1]
        for s in (prior.sample(SIZE, 3), raw_scales(widths, outputs, variances, 4))
    ]
    assert stats.ks_2samp(*largest).pvalue > 1e-3 / len(LAWS)


def test_factors_are_lower_trapezoidal_with_positive_diagonals() -> None:
    """Behind a layer of r < n_d units T_d is n_d × r and comes first, all others are r × r."""
    coordinates = lbnn.Network((5, 2, 4)).scale_prior(3).coordinates
    factors = coordinates.factors(np.random.default_rng(6).standard_normal((7, coordinates.dimension)))
    assert [f.shape for f in factors] == [(7, 3, 2), (7, 2, 2), (7, 2, 2)]
    for factor in factors:
        np.testing.assert_array_equal(factor, np.tril(factor))
        assert (np.diagonal(factor, axis1=1, axis2=2) > 0).all()
    assert coordinates.dimension == 5 + 3 + 3


# ---------------------------------------------------------------- coordinates


def log_chi_of(degrees: int, u: Array) -> tuple[Array, Array]:
    """Log χ_k and its slope at u, as a network with one hidden layer of width k and one output has them."""
    factors, slopes = lbnn.Network((degrees,)).scale_prior(1).coordinates.factors_and_slopes(u[:, None])
    return np.log(factors[0][:, 0, 0]) + 0.5 * math.log(degrees), slopes[0][:, 0]


@pytest.mark.parametrize("degrees", [1, 2, 3, 10, 100, 1000])
def test_chi_table_against_scipy(degrees: int) -> None:
    """χ = F⁻¹(Φ(u)) to 1e-8 between the nodes of the table, in both tails."""
    u = np.random.default_rng(7).uniform(-6, 6, 4000)
    log_chi, slope = log_chi_of(degrees, u)
    lower = stats.chi2.ppf(stats.norm.cdf(u), degrees)
    upper = stats.chi2.isf(stats.norm.sf(u), degrees)
    exact = 0.5 * np.log(np.where(u < 0, lower, upper))
    np.testing.assert_allclose(log_chi, exact, rtol=0, atol=1e-8)
    density = stats.norm.pdf(u) / (2 * np.exp(2 * exact) * stats.chi2.pdf(np.exp(2 * exact), degrees))
    np.testing.assert_allclose(slope, density, rtol=1e-5)


def test_log_chi_goes_on_linearly_beyond_the_table() -> None:
    """Continuous, with a continuous slope, at |u| = 6 and linear beyond."""
    u = np.array([-12.0, -6.5, -6.0, -6.0 + 1e-9, 6.0 - 1e-9, 6.0, 6.5, 12.0])
    log_chi, slope = log_chi_of(3, u)
    assert (np.diff(log_chi) > 0).all()
    np.testing.assert_allclose(log_chi[0] - log_chi[1], -5.5 * slope[0], rtol=1e-12)
    np.testing.assert_allclose(slope[[0, 3]], slope[[2, 2]], rtol=1e-6)


@pytest.mark.parametrize("degrees", [1, 4, 30])
def test_prior_density_of_a_coordinate_is_that_of_log_chi(degrees: int) -> None:
    """log prior(u) = log density of log χ + log slope, in the table and far beyond, with its gradient."""
    u = np.array([-40.0, -9.0, -6.001, -5.999, -2.0, 0.3, 4.0, 5.999, 6.001, 6.5])
    coordinates = lbnn.Network((degrees,)).scale_prior(1).coordinates
    log_chi, slope = log_chi_of(degrees, u)
    density = degrees * log_chi - np.exp(2 * log_chi) / 2 + np.log(slope)
    value, gradient = coordinates.log_prior(u[:, None])
    np.testing.assert_allclose(value - value[5], density - density[5], rtol=1e-6, atol=1e-6)
    ahead, behind = (coordinates.log_prior((u + step)[:, None])[0] for step in (1e-6, -1e-6))
    np.testing.assert_allclose(gradient[:, 0], (ahead - behind) / 2e-6, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("width", "outputs"), [(3, 3), (7, 2), (2, 4)])
def test_coordinates_of_raw_weights_are_standard_normal(width: int, outputs: int) -> None:
    """Cholesky factors of raw W Wᵀ, mapped back through the χ distributions, pass Kolmogorov-Smirnov."""
    rng = np.random.default_rng(8)
    columns = min(outputs, width)
    weights = rng.standard_normal((20_000, outputs, width)) / math.sqrt(width)
    factors = np.linalg.qr(weights.swapaxes(1, 2)).R.swapaxes(1, 2)
    signs = np.sign(np.diagonal(factors, axis1=1, axis2=2))
    factors = factors * signs[:, None, :] * math.sqrt(width)
    degrees = width - np.arange(columns)
    diagonal = stats.norm.ppf(stats.chi.cdf(np.diagonal(factors, axis1=1, axis2=2), degrees))
    u = np.concatenate([diagonal, factors[:, *np.tril_indices(outputs, -1, columns)]], axis=1)
    values = [stats.kstest(column, "norm").pvalue for column in u.T]
    assert min(values) > 1e-3 / (3 * len(values))
    back = lbnn.Network((width,)).scale_prior(outputs).coordinates.factors(u)[0]
    np.testing.assert_allclose(back * math.sqrt(width), factors, rtol=1e-7, atol=1e-12)


# ---------------------------------------------------------------- gradients


def primal_target(
    widths: tuple[int, ...], outputs: int, beta: float, variances: tuple[float, ...] | None = None
) -> Target:
    data = make_problem(6, 8, outputs, seed=10)
    values, vectors = np.linalg.eigh(data.gram)
    noise = 0.0 if math.isinf(beta) else 1 / beta
    factor = GaussianLikelihood(values, vectors.T @ data.columns, 0.0, 6, noise)
    prior = lbnn.Network(widths, prior_variances=variances).scale_prior(outputs)
    return Target(prior.coordinates, factor, random_rotation(outputs, 16))


def dual_target(width: int, outputs: int, beta: float) -> Target:
    factor = primal_target((width,), outputs, beta).likelihood
    assert isinstance(factor, GaussianLikelihood)
    prior = lbnn.Network((width,)).scale_prior(outputs)
    rank = len(factor.eigenvalues)
    return Target(dual_prior(prior, rank).coordinates, dual(factor), random_rotation(rank, 17))


TARGETS = {
    "depth two": primal_target((5,), 3, 4.0),
    "deep": primal_target((5, 4, 6), 3, 100.0),
    "layer variances": primal_target((5, 4), 2, 4.0, (0.5, 2.0, 0.7)),
    "zero temperature": primal_target((5, 4), 3, math.inf),
    "bottleneck": primal_target((5, 2, 4), 3, 4.0),
    "narrowest": primal_target((1, 1), 2, 4.0),
    "dual": dual_target(7, 9, 4.0),
    "dual, narrow": dual_target(3, 9, 4.0),
    "dual, zero temperature": dual_target(8, 9, math.inf),
}


@pytest.mark.parametrize("name", TARGETS)
def test_gradient_against_finite_differences(name: str) -> None:
    """Every component of the gradient of log prior(u) + log p(Y | L(u)), relative to the largest one."""
    target = TARGETS[name]
    rng, step = np.random.default_rng(11), 1e-5
    for u in 0.7 * rng.standard_normal((4, target.dimension)):
        value, gradient = target.value_and_gradient(u[None])
        shifts = step * np.eye(target.dimension)
        numeric = (target.log_density(u + shifts) - target.log_density(u - shifts)) / (2 * step)
        np.testing.assert_allclose(gradient[0], numeric, rtol=1e-6, atol=1e-7 * np.abs(numeric).max() + 1e-7)
        np.testing.assert_allclose(value, target.log_density(u[None]), rtol=1e-13)


def test_gradient_where_eigenvalues_of_the_scale_coincide() -> None:
    """No derivative of eigenvectors appears, so L = I is an ordinary point."""
    factor = TARGETS["depth two"].likelihood
    direction = random_scale(3, 12)

    def value(step: float) -> float:
        values, vectors = np.linalg.eigh(np.eye(3) + step * direction)
        return float(factor.log_value(values[None], vectors[None])[0])

    _, gradient = factor.of_root.value_and_gradient(np.eye(3)[None])  # F changes by half as much
    change = 0.5 * np.sum(gradient * direction)
    np.testing.assert_allclose(change, (value(1e-5) - value(-1e-5)) / 2e-5, rtol=1e-7)


def test_far_away_points_are_impossible_rather_than_an_overflow() -> None:
    target = TARGETS["deep"]
    value, gradient = target.value_and_gradient(np.full((1, target.dimension), 1e3))
    assert value[0] == -math.inf
    assert (gradient == 0).all()
    assert target.log_density(np.full((1, target.dimension), -1e3))[0] == -math.inf


# ---------------------------------------------------------------- factors given the product


def conditional_moments_by_brute_force(
    widths: tuple[int, ...], variance: float, x: float, window: float
) -> tuple[Array, Array]:
    """Means of (log factor, its square), last width first, among prior draws with |log λ − x| < window."""
    rng = np.random.default_rng(13)
    logs = np.stack([np.log(rng.chisquare(n, 6_000_000) / n) for n in reversed(widths)], axis=1)
    near = logs[np.abs(logs.sum(1) + math.log(variance) - x) < window]
    values = np.concatenate([near, near**2], axis=1)
    return values.mean(0), values.std(0) / math.sqrt(len(values))


@pytest.mark.parametrize(("widths", "x"), [((3, 5), 0.3), ((4, 2, 2), -2.0), ((1, 6), -1.0)], ids=str)
def test_factors_given_their_product(widths: tuple[int, ...], x: float) -> None:
    """`split`: sums to the product exactly, and conditional moments as among prior draws near it."""
    variance, size = 1.7, 100_000
    draws = GammaProduct(widths, variance).split(np.full(size, x), np.random.default_rng(14))
    np.testing.assert_allclose(draws.sum(1) + math.log(variance), x, atol=1e-12)
    values = np.concatenate([draws, draws**2], axis=1)
    exact, exact_error = conditional_moments_by_brute_force(widths, variance, x, 0.02)
    error = np.hypot(values.std(0) / math.sqrt(size), exact_error)
    assert_agrees(values.mean(0), error, exact, comparisons=14, largest_error=0.03)


def test_splitting_prior_draws_of_the_product_gives_back_the_prior() -> None:
    """x from the prior, factors given x: each factor is χ²(n)/n again (Kolmogorov-Smirnov)."""
    widths, rng = (2, 9, 4), np.random.default_rng(15)
    x = sum(np.log(rng.chisquare(n, 40_000) / n) for n in widths)
    draws = GammaProduct(widths).split(x, rng)
    for column, n in zip(draws.T, reversed(widths), strict=True):
        assert stats.kstest(n * np.exp(column), "chi2", args=(n,)).pvalue > 1e-3 / 3
