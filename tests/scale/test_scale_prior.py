"""The prior of the scale: Bartlett products against products of weight matrices, and its known densities."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import integrate, special, stats

import lbnn
from tests.referees import weight_space
from tests.referees.statistics import assert_agrees

SIZE = 40_000
# (widths, outputs, prior variances): plain, deep, and bottlenecks before, between and after wide layers
NETWORKS = [
    ((5,), 3, None),
    ((6, 4), 3, (0.5, 2.0, 0.7)),
    ((2,), 3, None),
    ((5, 2), 3, (3.0, 1.5, 0.8)),
    ((2, 5), 3, None),
    ((4, 1, 6), 2, None),
    ((1, 1, 1), 1, (9.0, 1.1, 0.9, 1.2)),
    ((7, 3, 8), 4, None),
]
networks = pytest.mark.parametrize(("widths", "outputs", "variances"), NETWORKS, ids=str)


def raw_scales(widths: tuple[int, ...], outputs: int, variances: tuple[float, ...] | None) -> np.ndarray:
    """W_d ⋯ W_2 W_2ᵀ ⋯ W_dᵀ from random weights; the number of inputs does not matter."""
    layers = weight_space.describe_layers(2, widths, outputs, variances)
    return weight_space.scale_matrix(weight_space.draw_prior(layers, SIZE, np.random.default_rng(61)))


def assert_same_mean(one: np.ndarray, other: np.ndarray, comparisons: int) -> None:
    """Two samples, elementwise two-sided z-test."""
    error = np.sqrt((one.var(0) + other.var(0)) / SIZE)
    assert_agrees(one.mean(0), error, other.mean(0), comparisons=comparisons * len(NETWORKS))


@networks
def test_samples_are_products_of_weight_matrices(
    widths: tuple[int, ...], outputs: int, variances: tuple[float, ...] | None
) -> None:
    """First and second moments of the entries of L, and of the log of its non-zero eigenvalues."""
    raw = raw_scales(widths, outputs, variances)
    drawn = lbnn.Network(widths, variances).scale_prior(outputs).sample(SIZE, 62)
    upper = np.triu_indices(outputs)
    one, other = drawn[:, *upper], raw[:, *upper]
    count = one.shape[1]
    rank = min(outputs, *widths)
    comparisons = count + count**2 + rank
    assert_same_mean(one, other, comparisons)
    assert_same_mean(one[:, :, None] * one[:, None, :], other[:, :, None] * other[:, None, :], comparisons)
    logs = [np.log(np.linalg.eigvalsh(scales)[:, outputs - rank :]) for scales in (drawn, raw)]
    assert_same_mean(*logs, comparisons)


@networks
def test_bottlenecks_limit_the_rank(
    widths: tuple[int, ...], outputs: int, variances: tuple[float, ...] | None
) -> None:
    """L has rank min(n_d, widths), and knows whether it is invertible."""
    prior = lbnn.Network(widths, variances).scale_prior(outputs)
    ranks = np.linalg.matrix_rank(prior.sample(50, 63), hermitian=True)
    assert set(ranks) == {min(outputs, *widths)}
    assert prior.full_rank == (min(widths) >= outputs)


@networks
def test_sample_mean_is_the_mean(
    widths: tuple[int, ...], outputs: int, variances: tuple[float, ...] | None
) -> None:
    """E L = σ_2² ⋯ σ_d² I; the first layer's variance is not part of L."""
    prior = lbnn.Network(widths, variances).scale_prior(outputs)
    draws = prior.sample(SIZE, 64)
    expected = math.prod(variances[1:]) * np.eye(outputs) if variances else np.eye(outputs)
    np.testing.assert_allclose(prior.mean, expected, rtol=1e-14)
    comparisons = len(NETWORKS) * outputs**2
    assert_agrees(draws.mean(0), draws.std(0) / math.sqrt(SIZE), expected, comparisons=comparisons)


def test_mean_log_determinant() -> None:
    """E log det L = Σ_ℓ Σ_i ψ((n_ℓ − i + 1)/2) + log(2 σ²/n_ℓ)."""
    widths, variances, outputs = (6, 4), (0.5, 2.0, 0.7), 3
    draws = lbnn.Network(widths, variances).scale_prior(outputs).sample(SIZE, 65)
    logs = np.linalg.slogdet(draws)[1]
    terms = [special.digamma((n - np.arange(3)) / 2) + math.log(2 / n) for n in widths]
    expected = np.sum(terms) + outputs * math.log(2.0 * 0.7)
    assert_agrees(logs.mean(), logs.std() / math.sqrt(SIZE), expected, largest_error=0.02)


def test_depth_one_has_the_identity() -> None:
    """widths=(): every draw is I, and there is no density."""
    prior = lbnn.Network(()).scale_prior(3)
    np.testing.assert_array_equal(prior.sample(4, 0), np.broadcast_to(np.eye(3), (4, 3, 3)))
    with pytest.raises(ValueError, match="at depth one L is the identity and has no density"):
        prior.log_density(np.eye(3))


def test_one_output_samples_follow_their_density() -> None:
    """Draws of λ have the distribution function of exp(log_density), by the probability transform."""
    prior = lbnn.Network((3, 1, 2), (1.0, 2.0, 0.5, 1.5)).scale_prior(1)
    x = np.sort(np.log(prior.sample(4000, 66)[:, 0, 0]))
    grid = np.linspace(-70.0, 8.0, 20_001)
    density = np.exp(prior.log_density(np.exp(grid)) + grid)
    distribution = integrate.cumulative_simpson(density, x=grid, initial=0)
    assert distribution[-1] == pytest.approx(1.0, rel=1e-9)
    assert stats.kstest(np.interp(x, grid, distribution), stats.uniform.cdf).pvalue > 1e-3


@pytest.mark.parametrize("widths", [(1,), (8,), (2, 3), (1, 1, 1), (40, 40), (5,) * 6], ids=str)
@pytest.mark.parametrize("variance", [1.0, 0.02])
def test_density_of_a_number_normalises(widths: tuple[int, ...], variance: float) -> None:
    """∫ density dλ = 1 and ∫ λ density dλ = variance, over x = log λ."""
    prior = lbnn.Network(widths, (5.0, variance, *[1.0] * (len(widths) - 1))).scale_prior(1)

    def integrand(x: float) -> np.ndarray:
        density = math.exp(prior.log_density(math.exp(x)) + x)
        return np.array([density, density * math.exp(x)])

    total, _ = integrate.quad_vec(integrand, -150.0, 30.0, epsrel=1e-11, points=[math.log(variance)])
    np.testing.assert_allclose(total, [1.0, variance], rtol=1e-9)


@pytest.mark.parametrize("outputs", [2, 3])
@pytest.mark.parametrize("variance", [1.0, 0.4])
def test_wishart_density(outputs: int, variance: float) -> None:
    """Depth two: L ~ Wishart(n_1, variance I / n_1), by its formula."""
    n = 7
    prior = lbnn.Network((n,), (1.0, variance)).scale_prior(outputs)
    draws = prior.sample(6, 67)
    log_det = np.linalg.slogdet(draws)[1]
    trace = np.trace(draws, axis1=1, axis2=2) * n / variance
    constant = 0.5 * n * outputs * math.log(2 * variance / n) + special.multigammaln(n / 2, outputs)
    expected = 0.5 * (n - outputs - 1) * log_det - 0.5 * trace - constant
    np.testing.assert_allclose(prior.log_density(draws), expected, rtol=1e-12)
    assert prior.log_density(draws[0]) == pytest.approx(expected[0], rel=1e-12)
    assert isinstance(prior.log_density(draws[0]), float)
    np.testing.assert_allclose(prior.log_density(draws.reshape(2, 3, outputs, outputs)).ravel(), expected)


def test_density_is_zero_outside_the_positive_cone() -> None:
    """−inf for λ ≤ 0 and for indefinite or singular L."""
    one, two = lbnn.Network((4, 3)).scale_prior(1), lbnn.Network((4,)).scale_prior(2)
    np.testing.assert_array_equal(np.isneginf(one.log_density([0.0, -1.0, 0.5])), [True, True, False])
    outside = np.array([[[1.0, 2.0], [2.0, 1.0]], [[1.0, 1.0], [1.0, 1.0]], np.eye(2)])
    np.testing.assert_array_equal(np.isneginf(two.log_density(outside)), [True, True, False])


def test_number_and_matrix_forms_agree() -> None:
    """For one output L may be a number, an array of numbers, or (…, 1, 1)."""
    prior, values = lbnn.Network((4, 3)).scale_prior(1), np.array([0.2, 1.0, 3.0])
    expected = prior.log_density(values)
    np.testing.assert_array_equal(prior.log_density(values[:, None, None]), expected)
    assert [prior.log_density(value) for value in values] == list(expected)
    assert prior.log_density([[0.2]]) == expected[0]


@pytest.mark.parametrize(
    ("widths", "outputs", "exists"),
    [((2,), 1, False), ((3,), 1, True), ((3, 2), 1, False), ((4,), 3, False), ((5,), 3, True), ((), 3, True)],
)
def test_rule_for_the_inverse_mean(widths: tuple[int, ...], outputs: int, exists: bool) -> None:
    """E L⁻¹ needs every width ≥ n_d + 2."""
    assert lbnn.Network(widths).scale_prior(outputs).inverse_mean_exists == exists


def test_same_seed_same_draws() -> None:
    """An int seed and a fresh Generator of that seed agree; another seed does not."""
    prior = lbnn.Network((4, 3)).scale_prior(2)
    first = prior.sample(5, 7)
    np.testing.assert_array_equal(first, prior.sample(5, np.random.default_rng(7)))
    assert not np.array_equal(first, prior.sample(5, 8))


@pytest.mark.parametrize(("first", "fewer"), [(1, 2), (2, 2), (1, 4)])
def test_negative_moments_of_determinants(first: int, fewer: int) -> None:
    """det C of the leading block is Π_ℓ Π_{i<first} σ_ℓ² χ²(n_ℓ − i)/n_ℓ, and E 1/χ²(n) = 1/(n − 2)."""
    prior = lbnn.Network((9, 12), prior_variances=(1.0, 0.5, 3.0)).scale_prior(3)
    expected = 0.0
    for width, variance in ((9, 0.5), (12, 3.0)):
        for degrees in (width - i for i in range(first)):
            expected -= sum(math.log(degrees - 2 - 2 * k) for k in range(fewer // 2))
            expected -= fewer / 2 * math.log(variance / width)
    assert prior._log_negative_moment(first, fewer) == pytest.approx(expected, rel=1e-12)
