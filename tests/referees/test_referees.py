"""The referees judged without lbnn: by closed forms, by each other, and by their ability to fail."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from lbnn.paper.routes import dense
from tests.referees import kronecker, weight_space
from tests.referees.statistics import assert_agrees, critical_value

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Problem:
    """Data and Gram matrices of a small regression."""

    X: Array
    Y: Array
    X_test: Array

    @property
    def gram(self) -> Array:
        return self.X @ self.X.T / self.X.shape[1]

    @property
    def cross(self) -> Array:
        return self.X @ self.X_test.T / self.X.shape[1]

    @property
    def test_gram(self) -> Array:
        return self.X_test @ self.X_test.T / self.X.shape[1]


def make_problem(p: int, inputs: int, outputs: int, seed: int, signal: float = 1.0) -> Problem:
    """Noisy linear data with two test points."""
    rng = np.random.default_rng(seed)
    X, X_test = rng.standard_normal((p, inputs)), rng.standard_normal((2, inputs))
    Y = signal * X @ rng.standard_normal((inputs, outputs)) / math.sqrt(inputs)
    return Problem(X, Y + 0.3 * rng.standard_normal((p, outputs)), X_test)


def random_scale(outputs: int, seed: int) -> Array:
    """Make a well-conditioned symmetric positive-definite matrix."""
    root = np.random.default_rng(seed).standard_normal((outputs, outputs))
    return root @ root.T + 0.5 * np.eye(outputs)


# ---------------------------------------------------------------- kronecker


def test_posterior_given_scale_is_gaussian_conditioning() -> None:
    """mu_L and Sigma_L are the textbook Gaussian conditional with covariance G kron L and noise 1/beta."""
    data, L, beta = make_problem(4, 7, 2, seed=1), random_scale(2, seed=2), 3.0
    noisy = np.kron(data.gram, L) + np.eye(data.Y.size) / beta
    gain = np.kron(data.cross.T, L) @ np.linalg.inv(noisy)
    mean = dense.mean(L, data.gram, data.cross, data.Y, beta)
    covariance = dense.covariance(L, data.gram, data.cross, data.test_gram, beta)
    np.testing.assert_allclose(mean, gain @ data.Y.reshape(-1), rtol=1e-10)
    expected = np.kron(data.test_gram, L) - gain @ np.kron(data.cross, L)
    np.testing.assert_allclose(covariance, expected, rtol=1e-9, atol=1e-12)


def test_appendix_integral_gives_density_and_generating_function() -> None:
    """The appendix's A and b reproduce log drho/dvarpi + log Z_L(J)."""
    data, L, beta = make_problem(4, 9, 2, seed=3), random_scale(2, seed=4), 2.5
    J = np.random.default_rng(5).standard_normal((2, 2))
    arguments = (L, data.gram, data.cross, data.test_gram, data.Y, beta)
    expected = dense.log_scale_density(L, data.gram, data.Y, beta)
    expected += kronecker.log_generating_function(J, *arguments)
    assert kronecker.log_gaussian_integral(J, *arguments) == pytest.approx(expected, rel=1e-10)


def test_likelihood_differs_from_printed_density_by_a_constant() -> None:
    """The normalised likelihood and the printed density have the same ratio for every L."""
    data, beta = make_problem(4, 7, 2, seed=6), 3.0
    for seed in (1, 2):
        L = random_scale(2, seed)
        difference = kronecker.log_likelihood(L, data.gram, data.Y, beta)
        difference -= dense.log_scale_density(L, data.gram, data.Y, beta)
        assert difference == pytest.approx(0.5 * data.Y.size * math.log(beta / (2 * math.pi)))


def test_prior_density_is_the_zero_temperature_likelihood() -> None:
    """p_d(F | X) given L is N(v(F); 0, G kron L)."""
    data, L = make_problem(4, 7, 2, seed=7), random_scale(2, seed=8)
    expected = kronecker.log_likelihood(L, data.gram, data.Y, math.inf)
    assert kronecker.log_prior_density(data.Y, L, data.gram) == pytest.approx(expected, rel=1e-11)


def test_delta_is_the_posterior_second_moment_of_outputs() -> None:
    """Delta_L = E[F L^-1 F^T | L] - n_d G, computed from mu_L and Sigma_L on the training set."""
    data, L, beta = make_problem(4, 7, 3, seed=9), random_scale(3, seed=10), 2.0
    mean = dense.mean(L, data.gram, data.gram, data.Y, beta).reshape(4, 3)
    covariance = dense.covariance(L, data.gram, data.gram, data.gram, beta).reshape(4, 3, 4, 3)
    precision = np.linalg.inv(L)
    second = mean @ precision @ mean.T + np.einsum("mjnk,jk->mn", covariance, precision)
    delta = dense.kernel_correction(L, data.gram, data.Y, beta)
    np.testing.assert_allclose(delta, second - 3 * data.gram, rtol=1e-9, atol=1e-11)


def test_scalar_formulas_are_the_matrix_ones_with_one_output() -> None:
    """Gamma, Sigma, mu and Delta at lambda equal those at the 1 x 1 matrix L."""
    data, beta, scale = make_problem(5, 8, 1, seed=11), 4.0, 0.7
    L, y = np.array([[scale]]), data.Y[:, 0]
    pairs = [
        (kronecker.gamma_lambda(scale, data.gram, beta), dense.gamma_matrix(L, data.gram, beta)),
        (
            kronecker.sigma_lambda(scale, data.gram, data.cross, data.test_gram, beta),
            dense.covariance(L, data.gram, data.cross, data.test_gram, beta),
        ),
        (
            kronecker.mu_lambda(scale, data.gram, data.cross, y, beta),
            dense.mean(L, data.gram, data.cross, data.Y, beta),
        ),
        (
            kronecker.delta_lambda(scale, data.gram, y, beta),
            dense.kernel_correction(L, data.gram, data.Y, beta),
        ),
    ]
    for scalar, matrix in pairs:
        np.testing.assert_allclose(scalar, matrix, rtol=1e-9, atol=1e-12)


def test_zero_temperature_is_the_limit_of_large_beta() -> None:
    """The printed beta -> infinity limits equal the finite formulas at beta = 1e9."""
    data, L, beta = make_problem(4, 9, 2, seed=12), random_scale(2, seed=13), 1e9
    gram, cross, test_gram, Y = data.gram, data.cross, data.test_gram, data.Y
    pairs = [
        (dense.mean(L, gram, cross, Y, math.inf), dense.mean(L, gram, cross, Y, beta)),
        (
            dense.covariance(L, gram, cross, test_gram, math.inf),
            dense.covariance(L, gram, cross, test_gram, beta),
        ),
        (dense.kernel_correction(L, gram, Y, math.inf), dense.kernel_correction(L, gram, Y, beta)),
        (kronecker.log_likelihood(L, gram, Y, math.inf), kronecker.log_likelihood(L, gram, Y, beta)),
    ]
    for limit, value in pairs:
        np.testing.assert_allclose(value, limit, rtol=1e-5, atol=1e-6)
    other = random_scale(2, seed=14)
    finite, limit = (
        dense.log_scale_density(L, gram, Y, value) - dense.log_scale_density(other, gram, Y, value)
        for value in (beta, math.inf)
    )
    assert finite == pytest.approx(limit, rel=1e-6)


@pytest.mark.parametrize("beta", [3.0, math.inf])
def test_atom_averages_are_derivatives_of_the_generating_function(beta: float) -> None:
    """Mean and covariance over atoms are numerical derivatives of log Z at J = 0."""
    data = make_problem(4, 9, 2, seed=15)
    atoms = np.array([random_scale(2, seed) for seed in (1, 2, 3)])
    weights, _ = kronecker.posterior_weights(atoms, np.array([0.2, 0.3, 0.5]), data.gram, data.Y, beta)
    mean = kronecker.average_mean(atoms, weights, data.gram, data.cross, data.Y, beta)
    arguments = (atoms, weights, data.gram, data.cross, data.test_gram, data.Y, beta)
    covariance = kronecker.average_covariance(*arguments)
    J = np.random.default_rng(16).standard_normal((2, 2))
    step = 1e-3
    plus = math.log(kronecker.average_generating_function(step * J, *arguments))
    minus = math.log(kronecker.average_generating_function(-step * J, *arguments))
    assert (plus - minus) / (2 * step) == pytest.approx(np.sum(mean * J), rel=1e-4)
    variance = np.einsum("mj,mjnk,nk->", J, covariance, J)
    assert (plus + minus) / step**2 == pytest.approx(variance, rel=1e-4)


def test_one_atom_average_is_the_conditional() -> None:
    """With a single atom the averages reduce to mu_L, Sigma_L and Delta_L."""
    data, L, beta = make_problem(4, 7, 2, seed=17), random_scale(2, seed=18), 3.0
    kernel = kronecker.average_kernel(L[None], np.ones(1), data.gram, data.Y, beta, n_1=5)
    np.testing.assert_allclose(kernel, data.gram + dense.kernel_correction(L, data.gram, data.Y, beta) / 5)
    weights, evidence = kronecker.posterior_weights(L[None], np.ones(1), data.gram, data.Y, beta)
    assert weights == pytest.approx(1.0)
    assert evidence == pytest.approx(kronecker.log_likelihood(L, data.gram, data.Y, beta))


def test_quadrature_at_zero_temperature_is_generalised_inverse_gaussian() -> None:
    """For one output the zero-temperature scale is GIG((n_1 - p)/2, n_1, y^T G^-1 y)."""
    data, n_1 = make_problem(4, 8, 1, seed=19), 7
    quadrature = kronecker.DepthTwoQuadrature(data.gram, data.Y[:, 0], math.inf, n_1)
    psi = float(data.Y[:, 0] @ np.linalg.solve(data.gram, data.Y[:, 0]))
    law = stats.geninvgauss((n_1 - 4) / 2, math.sqrt(n_1 * psi), scale=math.sqrt(psi / n_1))
    assert quadrature.expect(lambda scale: scale) == pytest.approx(law.mean(), rel=1e-8)
    assert quadrature.expect(lambda scale: scale**2) == pytest.approx(law.moment(2), rel=1e-8)


# ---------------------------------------------------------------- weight space


def test_depth_one_gibbs_is_bayesian_ridge() -> None:
    """Depth one is conjugate: mean and covariance of the predictions in closed form."""
    data, beta = make_problem(6, 4, 2, seed=20), 2.0
    draws = weight_space.sample_posterior(
        data.X, data.Y, (), beta,
        chains=400, sweeps=50, burn_in=1, seed=1, prior_variances=[1.5], X_test=data.X_test,
    )  # fmt: skip
    precision = beta * data.X.T @ data.X + 4 / 1.5 * np.eye(4)
    coefficients = np.linalg.solve(precision, beta * data.X.T @ data.Y)
    variance = np.diag(data.X_test @ np.linalg.solve(precision, data.X_test.T))
    exact_mean = data.X_test @ coefficients
    mean, error = weight_space.chain_mean_and_error(draws.predictions)
    assert_agrees(mean, error, exact_mean, largest_error=0.02)
    squares, squares_error = weight_space.chain_mean_and_error((draws.predictions - exact_mean) ** 2)
    assert_agrees(squares, squares_error, np.repeat(variance[:, None], 2, axis=1), largest_error=0.02)
    assert np.all(draws.scale == np.eye(2))


@pytest.mark.slow
def test_gibbs_leaves_the_joint_law_of_weights_and_data_invariant() -> None:
    """Weights from the prior, data from the likelihood, then sweeps: the joint law must not move."""
    rng, beta, chains = np.random.default_rng(2), 4.0, 20_000
    X = rng.standard_normal((3, 4))
    layers = weight_space.describe_layers(4, (3, 2), 2, prior_variances=[1.0, 1.3, 0.8])
    weights = weight_space.draw_prior(layers, chains, rng)
    outputs = weight_space.network_outputs(X, weights)
    Y = outputs + rng.standard_normal(outputs.shape) / math.sqrt(beta)
    for _ in range(4):
        weight_space.gibbs_sweep(weights, X, Y, beta, layers, rng)
    smallest = 1e-3 / 4
    for W, precision in zip(weights, layers.precisions, strict=True):
        squared = precision * np.sum(W**2, axis=(1, 2))
        assert stats.kstest(squared, stats.chi2(W[0].size).cdf).pvalue > smallest
    residual = beta * np.sum((Y - weight_space.network_outputs(X, weights)) ** 2, axis=(1, 2))
    assert stats.kstest(residual, stats.chi2(Y[0].size).cdf).pvalue > smallest


def test_gibbs_conditional_has_the_kronecker_moments() -> None:
    """One layer's draws have the mean and covariance of the dense Gaussian conditional."""
    rng, beta, precision, chains = np.random.default_rng(3), 2.0, 1.7, 40_000
    A, B, Y = rng.standard_normal((4, 3)), rng.standard_normal((2, 2)), rng.standard_normal((4, 2))
    draws = weight_space.draw_layer(A, B, Y, beta, precision, (chains, 2, 3), rng)
    flat = weight_space.transpose(draws).reshape(chains, -1)
    design = np.kron(A, B)
    covariance = np.linalg.inv(beta * design.T @ design + precision * np.eye(6))
    mean = covariance @ (beta * design.T @ Y.reshape(-1))
    assert_agrees(flat.mean(0), flat.std(0) / math.sqrt(chains), mean)
    products = np.einsum("ci,cj->cij", flat - mean, flat - mean)
    assert_agrees(products.mean(0), products.std(0) / math.sqrt(chains), covariance)


@pytest.mark.parametrize("excess", [-2, 0, 5])
def test_rescaling_samples_its_generalised_inverse_gaussian(excess: int) -> None:
    """e^{2t} along an orbit has law GIG(excess/2, a, b), whose sampler and moments scipy knows."""
    rng, chains, a, b = np.random.default_rng(4), 10_000, 3.0, 0.8
    law = stats.geninvgauss(excess / 2, math.sqrt(a * b), scale=math.sqrt(b / a))
    log_scale = np.zeros(chains)
    accepted = []
    for _ in range(25):
        squared = np.exp(2 * log_scale)
        step = weight_space.propose_log_scale(a * squared, b / squared, excess, rng)
        accepted.append(np.mean(step != 0))
        log_scale += step
    assert np.mean(accepted) > 0.7
    assert stats.kstest(np.exp(2 * log_scale), law.cdf).pvalue > 1e-3 / 3


def test_rescaling_leaves_the_outputs_alone() -> None:
    """The move changes the weights but not the function."""
    rng = np.random.default_rng(5)
    X = rng.standard_normal((3, 4))
    layers = weight_space.describe_layers(4, (3, 2), 1)
    weights = weight_space.draw_prior(layers, 10, rng)
    before, first = weight_space.network_outputs(X, weights), weights[0].copy()
    for lower in range(2):
        weight_space.rescale_units(weights, lower, layers.precisions, rng)
    np.testing.assert_allclose(weight_space.network_outputs(X, weights), before, rtol=1e-10, atol=1e-12)
    assert not np.allclose(weights[0], first)


@pytest.mark.slow
def test_gibbs_agrees_with_prior_weighting_at_depth_three() -> None:
    """Two routes through weight space give the same posterior means, two outputs, unequal variances."""
    data, beta, widths, variances = make_problem(2, 3, 2, seed=21, signal=0.5), 2.0, (3, 2), [1.2, 0.9, 1.1]
    draws = weight_space.sample_posterior(
        data.X, data.Y, widths, beta,
        chains=300, sweeps=300, burn_in=50, seed=6, prior_variances=variances, X_test=data.X_test,
    )  # fmt: skip
    weighted = weight_space.prior_weighted(
        data.X, data.Y, widths, beta, 200_000, 7, data.X_test, prior_variances=variances
    )
    assert weighted.effective_sample_size > 3000
    for name in ("predictions", "kernel", "scale"):
        mean, error = weight_space.chain_mean_and_error(getattr(draws, name))
        both = np.hypot(error, getattr(weighted, f"{name}_error"))
        assert_agrees(mean, both, getattr(weighted, name), comparisons=12, largest_error=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("beta", [4.0, 200.0])
def test_gibbs_agrees_with_scale_quadrature_at_depth_two(beta: float) -> None:
    """Weight-space chains and the paper's scale mixture, integrated numerically, agree for one output."""
    data, n_1 = make_problem(5, 7, 1, seed=22, signal=1.5), 3
    y = data.Y[:, 0]
    draws = weight_space.sample_posterior(
        data.X, data.Y, (n_1,), beta, chains=300, sweeps=500, burn_in=100, seed=8, X_test=data.X_test
    )
    quadrature = kronecker.DepthTwoQuadrature(data.gram, y, beta, n_1)
    exact = {
        "predictions": quadrature.expect(
            lambda scale: kronecker.mu_lambda(scale, data.gram, data.cross, y, beta)[:, None]
        ),
        "kernel": quadrature.expect(
            lambda scale: data.gram + kronecker.delta_lambda(scale, data.gram, y, beta) / n_1
        ),
        "scale": quadrature.expect(lambda scale: np.array([[scale]])),
    }
    for name, value in exact.items():
        mean, error = weight_space.chain_mean_and_error(getattr(draws, name))
        assert_agrees(mean, error, value, comparisons=56, largest_error=0.05)


def test_prior_weighting_agrees_with_quadrature_on_the_evidence() -> None:
    """The importance-sampling evidence, with its normalisation, equals the integral over the scale."""
    data, beta, n_1 = make_problem(2, 4, 1, seed=23), 3.0, 3
    weighted = weight_space.prior_weighted(data.X, data.Y, (n_1,), beta, 200_000, 9, data.X_test)
    exact = kronecker.DepthTwoQuadrature(data.gram, data.Y[:, 0], beta, n_1).log_evidence()
    assert_agrees(weighted.log_evidence, weighted.log_evidence_error, exact, largest_error=0.01)


def test_chain_error_sees_autocorrelation() -> None:
    """Chains that never move have the error of one draw each, and the diagnostics say so."""
    rng = np.random.default_rng(10)
    independent = rng.standard_normal((300, 100))
    frozen = np.repeat(rng.standard_normal((300, 1)), 100, axis=1) + 1e-3 * independent
    assert weight_space.chain_mean_and_error(independent)[1] == pytest.approx(1 / math.sqrt(30_000), rel=0.2)
    assert weight_space.chain_mean_and_error(frozen)[1] == pytest.approx(1 / math.sqrt(300), rel=0.2)
    assert weight_space.autocorrelation_time(independent) < 1.5
    assert weight_space.autocorrelation_time(frozen) > 50
    assert weight_space.split_r_hat(independent) < 1.02
    assert weight_space.split_r_hat(frozen) > 10


# ---------------------------------------------------------------- statistics


def test_critical_value_matches_the_normal_table() -> None:
    """One comparison at 5 per cent is 1.96; more comparisons need more."""
    assert critical_value(1, 0.05) == pytest.approx(1.959964, rel=1e-6)
    assert critical_value(100, 0.05) > critical_value(10, 0.05) > critical_value(1, 0.05)


def test_agreement_has_the_promised_false_alarm_rate() -> None:
    """True nulls of 20 elements fail with about the family error."""
    rng, trials = np.random.default_rng(11), 2000

    def raises_alarm() -> bool:
        try:
            assert_agrees(rng.standard_normal(20), np.ones(20), np.zeros(20), family_error=0.1)
        except AssertionError:
            return True
        return False

    failures = sum(raises_alarm() for _ in range(trials))
    assert stats.binomtest(failures, trials, 0.1).pvalue > 1e-3


@pytest.mark.parametrize(
    ("estimate", "error", "exact", "message"),
    [
        ([0.0, 5.0], [1.0, 1.0], [0.0, 0.0], r"worst z = 5\.00 .* at index \(1,\)"),
        ([0.0], [0.0], [1e-12], "zero standard error"),
        ([0.0], [math.nan], [0.0], "standard error is not finite"),
        ([0.0], [math.inf], [0.0], "standard error is not finite"),
        ([math.nan], [1.0], [0.0], "estimate is not finite"),
        ([0.0], [1.0], [math.nan], "exact is not finite"),
        ([0.0], [-1.0], [0.0], "negative standard error"),
        ([0.0, 0.0], [1.0, 1.0], [0.0], "shapes differ"),
        ([], [], [], "nothing to compare"),
    ],
)
def test_disagreement_is_reported(
    estimate: list[float], error: list[float], exact: list[float], message: str
) -> None:
    """Every way in which a comparison can be wrong or empty fails, with its reason."""
    with pytest.raises(AssertionError, match=message):
        assert_agrees(estimate, error, exact)


def test_agreement_needs_power_where_demanded() -> None:
    """A large standard error passes the z-test but not `largest_error`; equality needs no error."""
    assert_agrees([1.0], [10.0], [0.0])
    with pytest.raises(AssertionError, match="exceeds"):
        assert_agrees([1.0], [10.0], [0.0], largest_error=0.1)
    assert_agrees([1.0, 2.0], [0.0, 1.0], [1.0, 2.5])
    with pytest.raises(AssertionError, match="less than"):
        assert_agrees([1.0, 2.0], [1.0, 1.0], [1.0, 2.0], comparisons=1)


def test_gibbs_referee_rejects_a_wrong_answer() -> None:
    """The whole chain of referees refuses a scale that is off by three per cent."""
    data = make_problem(3, 5, 1, seed=24)
    draws = weight_space.sample_posterior(
        data.X, data.Y, (4,), 4.0, chains=300, sweeps=400, burn_in=50, seed=12, X_test=data.X_test
    )
    exact = kronecker.DepthTwoQuadrature(data.gram, data.Y[:, 0], 4.0, 4).expect(lambda s: np.array([[s]]))
    mean, error = weight_space.chain_mean_and_error(draws.scale)
    assert_agrees(mean, error, exact)
    with pytest.raises(AssertionError, match="worst z"):
        assert_agrees(mean, error, 1.03 * exact)
