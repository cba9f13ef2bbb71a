"""Noise as an object: every kind against simulated networks, dense algebra and its own limits."""

from __future__ import annotations

import ast
import math
from pathlib import Path

import numpy as np
import pytest
from scipy import special, stats

import lbnn
from lbnn import LBNNRegressor
from lbnn.noise.make import KINDS
from tests.helpers.problems import make_problem

P, INPUTS, WIDTH, DRAWS = 6, 4, 5, 40_000
BETAS = np.array([0.7, 9.0])
NU = 0.4
COVARIANCE = np.array([[1.1, 0.6], [0.6, 0.5]])
GIVEN = {
    "per_output": {"noise": "per_output", "beta": BETAS},
    "coupled": {"noise": "coupled", "beta": 1 / NU},
    "free": {"noise": "free", "noise_covariance": COVARIANCE},
}


class Simulated:
    """Draws of the last layer W_2 from its prior, each weighted by the dense density of Y given L = W_2W_2ᵀ.

    Given L, function and noise are Gaussian: `noise` (m, n_d, n_d) is the covariance of the noise given L.
    """

    def __init__(self, problem, noise, width=WIDTH, seed=0):
        rng = np.random.default_rng(seed)
        outputs = problem.Y.shape[1]
        last = rng.standard_normal((DRAWS, outputs, width)) / math.sqrt(width)
        self.scales, self.problem = last @ last.swapaxes(1, 2), problem
        self.noise = noise(self.scales)
        self.train = self.observed(problem.gram, self.scales, self.noise)
        root = np.linalg.cholesky(self.train)
        white = np.linalg.solve(root, np.broadcast_to(problem.Y.ravel(), (DRAWS, P * outputs))[..., None])
        log_determinant = 2 * np.log(np.diagonal(root, axis1=1, axis2=2)).sum(1)
        self.log_density = -0.5 * (
            P * outputs * math.log(2 * math.pi) + log_determinant + (white[..., 0] ** 2).sum(1)
        )
        self.weights = special.softmax(self.log_density)

    @staticmethod
    def observed(gram, scales, noise):
        """Covariance over points and outputs of G ⊗ L + I ⊗ noise, (m, p n_d, p n_d)."""
        size = len(gram) * scales.shape[1]
        total = np.einsum("ab,mjk->majbk", gram, scales) + np.einsum(
            "ab,mjk->majbk", np.eye(len(gram)), noise
        )
        return total.reshape(len(scales), size, size)

    @property
    def log_evidence(self):
        value = float(special.logsumexp(self.log_density)) - math.log(DRAWS)
        return value, math.sqrt((self.weights**2).sum())

    def average(self, values):
        """Weighted average and its standard error."""
        mean = np.tensordot(self.weights, values, axes=1)
        return mean, np.sqrt(np.tensordot(self.weights**2, (values - mean) ** 2, axes=1))

    def predictive(self):
        """Means (m, p̂ n_d) and covariances of observations at test points given each draw."""
        problem = self.problem
        outputs = self.scales.shape[1]
        cross = np.einsum("ba,mjk->mbjak", problem.cross.T, self.scales).reshape(DRAWS, -1, P * outputs)
        gain = np.linalg.solve(self.train, cross.swapaxes(1, 2)).swapaxes(1, 2)
        own = self.observed(problem.test_gram, self.scales, self.noise)
        return gain @ problem.Y.ravel(), own - gain @ cross.swapaxes(1, 2)


def problem_of(outputs=2, seed=5):
    return make_problem(P, INPUTS, outputs, seed=seed)


def agree(value, error, other, other_error, count=1):
    """Within four standard errors of both, entry by entry."""
    spread = np.sqrt(np.square(error) + np.square(other_error))
    assert (np.abs(np.asarray(value) - other) < 4 * spread + 1e-12).all(), (value, other, spread)


def moments(simulated):
    """Mean and covariance of observations with their errors."""
    means, covariances = simulated.predictive()
    mean, error = simulated.average(means)
    deviations = means - mean
    covariance, spread = simulated.average(covariances + deviations[:, :, None] * deviations[:, None, :])
    return (mean, error), (covariance, spread)


@pytest.mark.parametrize("kind", GIVEN)
def test_evidence_scale_and_observations_are_those_of_simulated_networks(kind):
    problem = problem_of()
    if kind == "coupled":
        simulated = Simulated(problem, lambda scales: NU * scales)
    else:
        noise = np.diag(1 / BETAS) if kind == "per_output" else COVARIANCE
        simulated = Simulated(problem, lambda scales: np.broadcast_to(noise, scales.shape))
    post = lbnn.Network((WIDTH,)).condition(problem.X, problem.Y, **GIVEN[kind], target_error=0.02)
    assert post.noise.kind == kind
    noise = simulated.average(simulated.noise)[0]
    np.testing.assert_allclose(post.noise_covariance, noise, atol=0.1 if kind == "coupled" else 1e-12)
    signal = post.spectrum.mean_gram * np.diagonal(simulated.scales, axis1=1, axis2=2)
    shares = signal / (signal + np.diagonal(simulated.noise, axis1=1, axis2=2))
    agree(post.signal_share(), 0.02, *simulated.average(shares))
    agree(post.log_evidence, post.log_evidence_error, *simulated.log_evidence)
    agree(post.scale.mean, post.scale.mean_error, *simulated.average(simulated.scales))
    pred = post.predict(problem.X_test).with_noise()
    (mean, error), (covariance, spread) = moments(simulated)
    size = len(mean)
    own_error = 0.03 * np.sqrt(np.diag(covariance))  # target_error in units of deviations, with a margin
    agree(pred.mean.ravel(), own_error, mean, error)
    scale = np.sqrt(np.outer(np.diag(covariance), np.diag(covariance)))
    agree(pred.covariance.reshape(size, size), 0.03 * scale, covariance, spread)


def test_estimator_s_posterior_adds_the_coupled_noise_to_observations():
    """`posterior_.predict(X).with_noise()` added nothing before."""
    problem = problem_of()
    model = LBNNRegressor(
        noise="coupled", width=(WIDTH,), beta=2.0, prior_scale=1.5, fit_intercept=False, target_error=0.02
    ).fit(problem.X, problem.Y)
    pred = model.candidates_[0].posterior.predict(problem.X_test)
    added = pred.with_noise().covariance - pred.covariance
    expected = np.einsum(
        "ab,jk->ajbk", np.eye(len(problem.X_test)), model.candidates_[0].posterior.scale.mean
    )
    np.testing.assert_allclose(added, expected, atol=1e-10)  # ν = 1 in whitened units
    whitened = type(problem)(
        math.sqrt(3.0) * problem.X, math.sqrt(2.0) * problem.Y, math.sqrt(3.0) * problem.X_test
    )
    (_, _), (covariance, spread) = moments(Simulated(whitened, lambda scales: scales))
    size, own = len(covariance), pred.with_noise().covariance
    scale = np.sqrt(np.outer(np.diag(covariance), np.diag(covariance)))
    agree(own.reshape(size, size), 0.03 * scale, covariance, spread)


@pytest.mark.parametrize("widths", [(), (WIDTH,), (7, 6)])
def test_equal_noise_per_output_is_independent_noise(widths):
    problem, network = problem_of(), lbnn.Network(widths)
    one = network.condition(problem.X, problem.Y, 3.0, target_error=0.2)
    other = network.condition(problem.X, problem.Y, [3.0, 3.0], noise="per_output", target_error=0.2)
    assert other.log_evidence == one.log_evidence
    np.testing.assert_array_equal(
        other.predict(problem.X_test).with_noise().covariance,
        one.predict(problem.X_test).with_noise().covariance,
    )


@pytest.mark.parametrize("kind", GIVEN)
@pytest.mark.parametrize("inputs", [INPUTS, 9])
def test_depth_one_is_a_dense_gaussian(kind, inputs):
    problem = make_problem(P, inputs, 2, seed=7)
    noise = {"per_output": np.diag(1 / BETAS), "coupled": NU * np.eye(2), "free": COVARIANCE}[kind]
    net = lbnn.Network((), prior_variances=[1.3])
    post = net.condition(problem.X, problem.Y, **GIVEN[kind])
    train = np.kron(1.3 * problem.gram, np.eye(2)) + np.kron(np.eye(P), noise)
    cross = np.kron(1.3 * problem.cross.T, np.eye(2))
    exact = stats.multivariate_normal(cov=train).logpdf(problem.Y.ravel())
    assert post.log_evidence == pytest.approx(exact, rel=1e-11)
    pred, points = post.predict(problem.X_test), len(problem.X_test)
    mean = cross @ np.linalg.solve(train, problem.Y.ravel())
    own = np.kron(1.3 * problem.test_gram, np.eye(2)) - cross @ np.linalg.solve(train, cross.T)
    np.testing.assert_allclose(pred.mean.ravel(), mean, rtol=1e-9)
    np.testing.assert_allclose(pred.covariance.reshape(own.shape), own, atol=1e-10)
    observed = own + np.kron(np.eye(points), noise)
    np.testing.assert_allclose(pred.with_noise().covariance.reshape(own.shape), observed, atol=1e-10)
    F = pred.mean + 0.2
    dense = stats.multivariate_normal(mean, observed).logpdf(F.ravel())
    assert pred.with_noise().log_density(F) == pytest.approx(dense, rel=1e-9)


@pytest.mark.parametrize("kind", GIVEN)
def test_scores_without_refits_are_those_of_refits(kind):
    problem, net = make_problem(9, 4, 2, seed=8), lbnn.Network(())
    scores = net.condition(problem.X, problem.Y, **GIVEN[kind]).leave_one_out()
    for a in range(9):
        rest = np.delete(np.arange(9), a)
        refit = net.condition(problem.X[rest], problem.Y[rest], **GIVEN[kind])
        pred = refit.predict(problem.X[a : a + 1]).with_noise()
        np.testing.assert_allclose(scores.mean[a], pred.mean[0], rtol=1e-8)
        np.testing.assert_allclose(scores.variance[a], pred.variance[0], rtol=1e-8)
        assert scores.log_density[a] == pytest.approx(pred.log_density(problem.Y[a : a + 1]), rel=1e-8)


def test_one_output_with_coupled_noise_is_zero_temperature_on_a_larger_gram_matrix():
    problem, net = make_problem(9, 4, None, seed=9), lbnn.Network((7, 5))
    post = net.condition(problem.X, problem.Y, 1 / NU, noise="coupled")
    gram = problem.gram + NU * np.eye(9)
    same = net.condition_gram(gram, problem.Y, math.inf)
    assert post.log_evidence == pytest.approx(same.log_evidence, rel=1e-10)
    assert post.scale.mean == pytest.approx(same.scale.mean, rel=1e-9)
    tests = {"cross_gram": problem.cross.T, "test_gram": problem.test_gram}
    np.testing.assert_allclose(
        post.predict(problem.X_test).variance, same.predict(**tests).variance, rtol=1e-9
    )
    np.testing.assert_allclose(post.feature_kernel(problem.X_test), same.feature_kernel(**tests), rtol=1e-9)
    scores, others = post.leave_one_out(), same.leave_one_out()
    np.testing.assert_allclose(scores.log_density, others.log_density, rtol=1e-7)


def test_more_outputs_than_data_with_coupled_noise():
    """Targets of full example rank: the dual route, as at zero temperature."""
    problem, net = make_problem(3, 6, 5, seed=10), lbnn.Network((8,))
    post = net.condition(problem.X, problem.Y, 1 / NU, noise="coupled")
    same = net.condition_gram(problem.gram + NU * np.eye(3), problem.Y, math.inf)
    assert abs(post.log_evidence - same.log_evidence) < 4 * math.hypot(
        post.log_evidence_error, same.log_evidence_error
    )


@pytest.mark.parametrize("kind", ["per_output", "free"])
def test_weights_with_a_noise_for_each_output_make_the_predictive(kind):
    problem = problem_of()
    post = lbnn.Network((WIDTH, 6)).condition(problem.X, problem.Y, **GIVEN[kind])
    pred, weights = post.predict(problem.X_test), post.sample_weights(4000, 3)
    outputs = problem.X_test @ (weights[2] @ weights[1] @ weights[0]).swapaxes(1, 2)
    deviation = pred.standard_deviation
    assert (np.abs(outputs.mean(0) - pred.mean) < 0.1 * deviation).all()
    np.testing.assert_allclose(outputs.std(0), deviation, rtol=0.1)
    hidden = problem.X @ (weights[1] @ weights[0]).swapaxes(1, 2)
    kernels = hidden @ hidden.swapaxes(1, 2) / 6
    error = kernels.std(0) / math.sqrt(4000)
    assert (np.abs(kernels.mean(0) - post.feature_kernel(layer=2)) < 5 * error + 0.03 * kernels.std(0)).all()


def test_generating_function_knows_its_domain_in_the_user_s_units():
    """Depth two: finite below n_1 for the largest eigenvalue of JᵀRJ, whatever the units of the noise."""
    problem = make_problem(P, 9, 2, seed=11)
    post = lbnn.Network((WIDTH,)).condition(problem.X, problem.Y, [50.0, 0.02], noise="per_output")
    pred, rest = (
        post.predict(problem.X_test[:1]),
        float(post.spectrum.project(problem.X_test[:1]).unexplained_gram[0, 0]),
    )
    edge = math.sqrt(WIDTH / rest)
    for direction in np.eye(2):
        assert math.isinf(pred.cgf(1.01 * edge * direction[None]))
        with np.errstate(all="ignore"):
            assert math.isfinite(pred.cgf(0.3 * edge * direction[None]))


@pytest.mark.parametrize(
    ("beta", "noise", "message"),
    [
        (1.0, "shared", "noise must be one of .*'independent', 'per_output', 'coupled'.*got 'shared'"),
        (1.0, None, "noise must be one of"),
        (math.inf, "coupled", "0 < beta < inf, got beta=inf: use noise='independent'"),
        (0.0, "coupled", "0 < beta < inf"),
        (1.0, "per_output", "vector of 2 positive numbers, one for each output, got beta=1.0"),
        ([1.0, 2.0, 3.0], "per_output", "vector of 2 positive numbers"),
        ([1.0, 0.0], "per_output", "vector of 2 positive numbers"),
        ([1.0, 1e-320], "per_output", "vector of 2 positive numbers"),  # its variance is not a double
    ],
)
def test_rules_of_beta(beta, noise, message):
    problem = problem_of()
    with pytest.raises(ValueError, match=message):
        lbnn.Network((5,)).condition(problem.X, problem.Y, beta, noise=noise)


def test_coupled_noise_needs_networks_that_let_it_through():
    problem = problem_of(3)
    with pytest.raises(ValueError, match=r"every hidden width must be at least min.*got widths=\(2,\)"):
        lbnn.Network((2,)).condition(problem.X, problem.Y, 1.0, noise="coupled")
    flat = problem.Y.copy()
    flat[:, 1] = 2 * flat[:, 0]
    with pytest.raises(ValueError, match=r"n_d \+ p − q.*rank\(Y\) = 2: use noise='independent'"):
        lbnn.Network((5,)).condition(problem.X, flat, 1.0, noise="coupled")
    assert (
        lbnn.Network((9,)).condition(problem.X, flat, 1.0, noise="coupled", target_error=0.2).diagnostics.ok
    )


def test_moments_keep_too_little_for_other_noise():
    problem = problem_of()
    X, Y = problem.X, problem.Y
    spectrum = lbnn.Spectrum.from_moments(X.T @ X, X.T @ Y, Y.T @ Y, len(X))
    for kind, beta in (("coupled", 1.0), ("per_output", [1.0, 2.0])):
        with pytest.raises(ValueError, match="keeps their total square only"):
            lbnn.Network((5,)).condition_spectrum(spectrum, beta, noise=kind)
    assert set(KINDS) == {"independent", "per_output", "coupled", "free"}


@pytest.mark.parametrize("kind", GIVEN)
def test_three_ways_in_agree(kind):
    problem, net = problem_of(), lbnn.Network((WIDTH,))
    options = GIVEN[kind] | {"target_error": 0.2}
    inputs = net.condition(problem.X, problem.Y, **options)
    gram = net.condition_gram(problem.gram, problem.Y, **options)
    data = lbnn.Spectrum.from_inputs(problem.X, problem.Y)
    if kind == "free":
        with pytest.raises(ValueError, match="given by noise_covariance or noise_network"):
            net.condition_spectrum(data, noise=kind)
    else:
        assert net.condition_spectrum(data, **options).log_evidence == inputs.log_evidence
    error = math.hypot(gram.log_evidence_error, inputs.log_evidence_error)
    assert abs(gram.log_evidence - inputs.log_evidence) < 4 * error + 1e-9
    with pytest.raises(ValueError, match="weights"):
        (inputs if kind == "coupled" else gram).sample_weights(1, 0)


def test_nothing_asks_which_kind_of_noise_it_is():
    """No isinstance on noise or on what it does to data, anywhere in the package."""
    names = {"Noise", "CoupledData"}
    for file in Path(lbnn.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "isinstance":
                assert not names & {getattr(each, "id", "") for each in ast.walk(node.args[1])}, file


def test_coupled_noise_of_little_variance_keeps_its_digits():
    """At a training input of depth one with G diagonal the variance of the function is g ν/(g + ν)."""
    lengths, nu = np.array([1.0, 2.0, 3.0]), 1e-8
    X = math.sqrt(3) * np.diag(lengths)
    post = lbnn.Network(()).condition(X, np.ones((3, 2)), 1 / nu, noise="coupled")
    expected = lengths**2 * nu / (lengths**2 + nu)
    np.testing.assert_allclose(post.predict(X).variance, np.stack([expected] * 2, axis=1), rtol=1e-12)


def test_noise_shows_itself():
    problem = problem_of()
    post = lbnn.Network(()).condition(problem.X, problem.Y, [4.0, 0.25], noise="per_output")
    assert repr(post.noise) == "Noise('per_output', variance=1, coupling=0, deviations=[0.5, 2.0])"
    coupled = lbnn.Network(()).condition(problem.X, problem.Y, 4.0, noise="coupled")
    assert repr(coupled.noise) == "Noise('coupled', variance=0, coupling=0.25)"
    free = lbnn.Network(()).condition(problem.X, problem.Y, noise="free", noise_covariance=COVARIANCE)
    assert repr(free.noise).startswith("Noise('free', variance=1, coupling=0, deviations=[0.3")
