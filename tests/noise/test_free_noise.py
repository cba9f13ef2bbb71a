"""Signal and noise, each with a covariance of its own."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats

import lbnn
from benchmarks.silent_errors.free_noise import Problem, by_quadrature
from lbnn._base.errors import LikelihoodMismatch
from lbnn.engines.estimate import Call
from lbnn.engines.importance import GaussianProposal
from lbnn.engines.inference import InferenceOptions
from lbnn.engines.signal_noise import (
    FINAL,
    SCREENING,
    Effort,
    SignalNoiseInference,
    checked,
    diagonal_draws,
    final_start,
    fitted_start,
    prior_start,
    tempered,
)
from lbnn.engines.signal_noise_target import (
    GivenRoot,
    SignalNoiseTarget,
    UnitPrior,
    aligned,
    root_coordinates,
)
from lbnn.free_noise.target import given_target
from lbnn.likelihood.signal_and_noise import Roots, SignalNoiseLikelihood, check_integrand
from lbnn.scale.prior import ScalePrior


def make_likelihood(rng: np.random.Generator, outputs: int, rows: int, unseen: int) -> SignalNoiseLikelihood:
    outside = rng.normal(size=(min(unseen, outputs), outputs))
    return SignalNoiseLikelihood(rng.gamma(1.0, size=rows), rng.normal(size=(rows, outputs)), outside, unseen)


def dense(likelihood: SignalNoiseLikelihood, signal: np.ndarray, noise: np.ndarray) -> float:
    """SciPy's density of every row; rows outside by their moments."""
    zero = np.zeros(likelihood.outputs)
    rows = sum(
        stats.multivariate_normal(zero, g * signal + noise).logpdf(row)
        for g, row in zip(likelihood.eigenvalues, likelihood.targets, strict=True)
    )
    moments = likelihood.outside.T @ likelihood.outside
    logs = likelihood.unseen * np.linalg.slogdet(2 * math.pi * noise)[1]
    return rows - 0.5 * (logs + np.trace(np.linalg.solve(noise, moments)))


@given(st.integers(0, 10**6), st.integers(1, 5), st.integers(0, 5), st.integers(0, 5), st.integers(0, 4))
@settings(max_examples=25, deadline=None)
def test_likelihood_is_that_of_dense_covariances(
    seed: int, outputs: int, columns: int, factors: int, unseen: int
) -> None:
    rng = np.random.default_rng(seed)
    likelihood = make_likelihood(rng, outputs, 6, unseen)
    sizes = (2, outputs)
    roots = Roots(
        rng.normal(size=(*sizes, columns)), rng.normal(size=(*sizes, factors)), rng.normal(size=sizes)
    )
    found = likelihood.log_constant + likelihood.log_value(roots)
    expected = [
        dense(likelihood, *pair) for pair in zip(roots.signal_covariance, roots.noise_covariance, strict=True)
    ]
    assert np.allclose(found, expected, rtol=1e-9)
    check_integrand(likelihood, roots, found)
    with pytest.raises(LikelihoodMismatch):
        check_integrand(likelihood, roots, found + 0.01)


def test_a_wrong_constant_is_a_mismatch(monkeypatch: pytest.MonkeyPatch) -> None:
    """The plain formula has a constant of its own."""
    rng = np.random.default_rng(0)
    likelihood = make_likelihood(rng, 2, 6, 3)
    roots = Roots(rng.normal(size=(1, 2, 2)), rng.normal(size=(1, 2, 1)), rng.normal(size=(1, 2)))
    constant = likelihood.log_constant
    monkeypatch.setattr(SignalNoiseLikelihood, "log_constant", constant + 0.01)
    with pytest.raises(LikelihoodMismatch):
        check_integrand(likelihood, roots, likelihood.log_constant + likelihood.log_value(roots))


def free_target(outputs: int, width: int | None, factors: int, own: float = 0.7, seed: int = 0):
    """A target with units that are drawn, and all of its parts.

    Without a width the signal passes through the factors of the noise.
    """
    rng = np.random.default_rng(seed)
    axes = np.linalg.qr(rng.normal(size=(outputs, outputs)))[0]
    medians = rng.normal(size=outputs)
    signal = GivenRoot(np.zeros((outputs, 0)))
    if width is not None:
        signal = root_coordinates(ScalePrior((width,), outputs), axes)
    return SignalNoiseTarget(
        signal,
        root_coordinates(ScalePrior((factors,), outputs), axes),
        UnitPrior(medians, 0.3, 1.0, own, 1.0, 1.4 * own, 1.5, True, True, width is None),
        make_likelihood(rng, outputs, 7, 2),
    )


@pytest.mark.parametrize("own", [0.7, 0.0])
@pytest.mark.parametrize("moved", [False, True])
@pytest.mark.parametrize(("width", "factors"), [(2, 1), (4, 2), (3, 3), (7, 5), (None, 1), (None, 4)])
def test_gradient_is_that_of_differences(width: int | None, factors: int, moved: bool, own: float) -> None:
    target = free_target(3, width, factors, own)
    if moved:
        target, _ = aligned(target)
    rng = np.random.default_rng(1)
    u, direction = 0.5 * rng.normal(size=(4, target.dimension)), rng.normal(size=(4, target.dimension))
    value, gradient = target.value_and_gradient(u)
    assert np.allclose(value, target.log_density(u))
    ahead, behind = (target.log_density(u + sign * 1e-6 * direction) for sign in (1, -1))
    assert np.allclose((ahead - behind) / 2e-6, (gradient * direction).sum(axis=1), rtol=1e-5, atol=1e-5)


def test_same_factors_make_signal_and_noise_alike() -> None:
    """L = a (s I + t F) a and Σ = b (q I + r F) b with s + t = q + r = 1, from the coordinates themselves."""
    target = free_target(3, None, 2)
    u = np.random.default_rng(3).normal(size=(2, target.dimension))
    roots = target.roots(u)
    for draw in range(2):
        root = target.noise.differentiable(u[:, : target.noise.dimension])[0][draw]
        w = u[draw, target.noise.dimension :]
        variance = target.unit_prior.log_variances + w[0] + 0.7 * w[1:4]
        logit = w[4] + 1.4 * 0.7 * w[5:8]
        q, s = special.expit(1.5 * w[8:])
        share = special.expit(logit)
        a, b = np.sqrt(np.exp(variance - 0.3) * share), np.sqrt(np.exp(variance) * (1 - share))
        factors = root @ root.T
        signal = np.outer(a, a) * (s * np.eye(3) + (1 - s) * factors)
        noise = np.outer(b, b) * (q * np.eye(3) + (1 - q) * factors)
        assert np.allclose(roots.signal_covariance[draw], signal)
        assert np.allclose(roots.noise_covariance[draw], noise)


def test_trajectories_that_diverge_have_no_density() -> None:
    target = free_target(3, 2, 2)
    for far in (1e3, 1e12, -1e5):
        assert target.log_density(np.full((1, target.dimension), far))[0] == -math.inf


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(0)
    X, X_test = rng.normal(size=(20, 8)), rng.normal(size=(3, 8))
    noise = rng.normal(size=(20, 1)) @ np.array([[1.0, -0.8]]) + 0.3 * rng.normal(size=(20, 2))
    return X, 0.4 * X @ rng.normal(size=(8, 2)) + noise, X_test


@pytest.fixture(scope="module")
def post(problem):
    """Noise of one factor beside independent noise, both learned."""
    X, Y, _ = problem
    return lbnn.Network(widths=(4,)).condition(
        X, Y, beta=10.0, noise="free", noise_network=lbnn.Network((1,)), target_error=0.1, seed=1
    )


@pytest.fixture(scope="module")
def same_draws(problem):
    """A noise variance for each output, and the same draws as those of signal and noise."""
    X, Y, _ = problem
    variances = np.array([1.0, 0.5])
    known = lbnn.Network(widths=(4,)).condition(X, Y, beta=1 / variances, noise="per_output")
    scales = known.scale.scales
    logs = np.broadcast_to(np.log(variances), (len(scales), 2))
    roots = Roots(np.linalg.cholesky(scales), np.zeros((len(scales), 2, 0)), logs)
    draws = diagonal_draws(roots, known.scale.weights, known.scale.groups)
    inference = SignalNoiseInference(draws, known.log_evidence, 0.0, known.diagnostics)
    return lbnn.FreeNoisePosterior(known.prior, known.spectrum, inference), known


def test_predictions_given_draws_are_those_of_noise_per_output(same_draws, problem) -> None:
    free, known = same_draws
    assert np.allclose(free.noise_covariance, known.noise_covariance)
    assert np.allclose(free.signal_covariance, known.signal_covariance)
    assert np.allclose(free.signal_share(), known.signal_share())
    first, second = free.predict(problem[2]), known.predict(problem[2])
    assert np.allclose(first.mean, second.mean)
    assert np.allclose(first.covariance, second.covariance)
    F = second.mean + 0.3
    for one, other in ((first, second), (first.with_noise(), second.with_noise())):
        assert one.log_density(F) == pytest.approx(other.log_density(F))
        assert np.allclose(one.pointwise_log_density(F), other.pointwise_log_density(F))
        assert abs(one.characteristic(0.2 * F) - other.characteristic(0.2 * F)) < 1e-8
    known_first = np.column_stack([F[:, 0], np.full(3, np.nan)])
    given_first, given_second = (each.with_noise().given(known_first) for each in (first, second))
    assert np.allclose(given_first.mean, given_second.mean)
    assert np.allclose(first.quantile(0.1), second.quantile(0.1))


def test_left_out_scores_given_draws_are_those_of_noise_per_output(same_draws) -> None:
    free, known = (each.leave_one_out() for each in same_draws)
    assert np.allclose(free.log_density, known.log_density)
    assert np.allclose(free.mean, known.mean)
    assert np.allclose(free.variance, known.variance)


def test_draws_have_the_moments_of_the_predictive(post, problem) -> None:
    law = post.predict(problem[2]).with_noise()
    draws = law.sample(20_000, 0).reshape(20_000, -1)
    deviation = np.sqrt(np.diag(law.covariance.reshape(6, 6)))
    assert np.abs(draws.mean(axis=0) - law.mean.ravel()).max() < 0.05 * deviation.max()
    assert np.allclose(np.cov(draws.T), law.covariance.reshape(6, 6), atol=0.05 * deviation.max() ** 2)


def test_files_hold_the_same_numbers(post, problem, tmp_path) -> None:
    post.save(tmp_path / "posterior.lbnn")
    again = lbnn.FreeNoisePosterior.load(tmp_path / "posterior.lbnn")
    assert np.array_equal(again.predict(problem[2]).mean, post.predict(problem[2]).mean)
    assert again.log_evidence == post.log_evidence
    assert again.diagnostics == post.diagnostics


def test_depth_one_with_a_given_covariance_is_a_gaussian_process(problem) -> None:
    X, Y, X_test = problem
    noise = np.array([[1.0, 0.6], [0.6, 0.8]])
    post = lbnn.Network(widths=()).condition(X, Y, noise="free", noise_covariance=noise)
    gram, cross = X @ X.T / 8, X_test @ X.T / 8
    joint = np.kron(gram, np.eye(2)) + np.kron(np.eye(20), noise)
    law = stats.multivariate_normal(np.zeros(40), joint)
    assert post.log_evidence_error == 0
    assert np.isclose(post.log_evidence, law.logpdf(Y.ravel()))
    weights = np.linalg.solve(joint, Y.ravel())
    assert np.allclose(post.predict(X_test).mean, (np.kron(cross, np.eye(2)) @ weights).reshape(3, 2))
    seen = np.kron(cross, np.eye(2)) @ np.linalg.solve(joint, np.kron(cross, np.eye(2)).T)
    expected = np.kron(X_test @ X_test.T / 8, np.eye(2)) - seen
    assert np.allclose(post.predict(X_test).covariance.reshape(6, 6), expected)


@pytest.mark.slow
def test_rotations_of_the_outputs_do_not_matter(problem) -> None:
    """The two networks have no preferred outputs: evidence and predictions rotate."""
    X, Y, X_test = problem
    turn = np.array([[0.6, -0.8], [0.8, 0.6]])
    first, second = (
        lbnn.Network(widths=(3,)).condition(
            X, targets, beta=4.0, noise="free", noise_network=lbnn.Network((1,)), target_error=0.1
        )
        for targets in (Y, Y @ turn.T)
    )
    error = math.hypot(first.log_evidence_error, second.log_evidence_error)
    assert abs(first.log_evidence - second.log_evidence) < 4 * error
    deviation = float(first.predict(X_test).standard_deviation.max())
    assert np.abs(first.predict(X_test).mean @ turn.T - second.predict(X_test).mean).max() < 0.2 * deviation


def test_evidence_with_a_noise_network_is_that_of_draws_of_the_prior() -> None:
    """Few rows, so that plain averages over both priors are exact enough; another likelihood and law."""
    rng = np.random.default_rng(2)
    X, Y = rng.normal(size=(4, 3)), 1.5 * rng.normal(size=(4, 2))
    post = lbnn.Network((3,)).condition(
        X, Y, beta=2.0, noise="free", noise_network=lbnn.Network((2,)), target_error=0.05
    )
    count = 40_000
    signal = lbnn.Network((3,)).scale_prior(2).sample(count, 1)
    noise = lbnn.Network((2,)).scale_prior(2).sample(count, 2) + 0.5 * np.eye(2)
    values, vectors = np.linalg.eigh(X @ X.T / 3)
    rotated, logs = vectors.T @ Y, np.zeros(count)
    for g, row in zip(np.maximum(values, 0.0), rotated, strict=True):
        covariance = g * signal + noise
        fit = np.linalg.solve(covariance, np.broadcast_to(row[:, None], (count, 2, 1)))[:, :, 0] @ row
        logs -= 0.5 * (np.linalg.slogdet(2 * math.pi * covariance)[1] + fit)
    weights = np.exp(logs - logs.max())
    expected = logs.max() + math.log(weights.mean())
    error = weights.std() / weights.mean() / math.sqrt(count)
    assert abs(post.log_evidence - expected) < 4 * math.hypot(error, post.log_evidence_error)


@pytest.mark.parametrize("size", [1.0, 1e4])
def test_evidence_of_one_output_is_that_of_quadrature(size: float) -> None:
    """Also for targets far out in the prior, to which no path from the prior comes in a lifetime."""
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(8, 3)), size * rng.normal(size=8)
    post = lbnn.Network((3,)).condition(
        X, y, beta=1.0, noise="free", noise_network=lbnn.Network((2,)), target_error=0.05
    )
    values, vectors = np.linalg.eigh(X @ X.T / 3)
    rotated = vectors.T @ y

    def log_integrand(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """In a = log L and b = log L₂: χ²_n/n for n hidden units."""
        total = 0.0
        for logs, units in ((a[:, None], 3), (b[None, :], 2)):
            total = total + stats.chi2.logpdf(units * np.exp(logs), units) + math.log(units) + logs
        for g, target in zip(np.maximum(values, 0.0), rotated, strict=True):
            variance = g * np.exp(a)[:, None] + np.exp(b) + 1.0
            total = total + stats.norm.logpdf(target, 0.0, np.sqrt(variance))
        return total

    a = b = np.linspace(-25, 25, 501)
    for _ in range(6):  # closer and closer to where the integrand is
        logs = log_integrand(a, b)
        inside = logs > logs.max() - 40
        a, b = (
            np.linspace(*axis[inside.any(axis=other)][[0, -1]] + (axis[1] - axis[0]) * np.array([-1, 1]), 501)
            for axis, other in ((a, 1), (b, 0))
        )
    expected = special.logsumexp(log_integrand(a, b)) + math.log((a[1] - a[0]) * (b[1] - b[0]))
    assert post.diagnostics.ok
    assert abs(post.log_evidence - expected) < 4 * post.log_evidence_error


@pytest.fixture(scope="module")
def two_outputs(problem):
    """A posterior, the same in coordinates for draws, and a mode."""
    X, Y, _ = problem
    spectrum = lbnn.Spectrum.from_inputs(X, Y)
    target = given_target(ScalePrior((4,), 2), spectrum, 0.25, ScalePrior((1,), 2))
    return target, *aligned(target)


def test_two_starts_of_the_path_agree(two_outputs) -> None:
    _, target, mode = two_outputs
    call = Call(InferenceOptions(0.1, 0))
    first, second = (
        tempered(target, start, call, SCREENING, name)
        for start, name in ((prior_start(target), "prior"), (fitted_start(target, mode), "fitted"))
    )
    error = math.hypot(first.log_evidence_error, second.log_evidence_error)
    assert abs(first.log_evidence - second.log_evidence) < 5 * error


@pytest.mark.parametrize(("shift", "changed"), [(-40.0, True), (0.0, False), (40.0, False)])
def test_where_two_runs_contradict_each_other_the_higher_is_the_answer(two_outputs, shift, changed) -> None:
    """With the coordinates that its draws have."""
    target, own, _ = two_outputs
    right = tempered(own, prior_start(own), Call(InferenceOptions(0.1, 0)), FINAL, "prior")
    estimate = replace(right, log_evidence=right.log_evidence + shift * right.log_evidence_error)
    found, answer, check = checked(target, own, estimate, Call(InferenceOptions(0.1, 0)), FINAL, 2)
    assert (found is not own) is changed
    assert (check if changed else answer) is estimate
    assert np.allclose(found.log_diagonals(answer.points), answer.log_diagonal)


def test_long_paths_are_not_low() -> None:
    """60 rows of 20 outputs, little noise. From the prior: low by 31, with a stated error of 17, in 60 s."""
    rng = np.random.default_rng([32, 0])
    X = rng.normal(size=(60, 60))
    noise = rng.normal(size=(60, 3)) @ rng.normal(size=(3, 20))
    Y = X[:, :3] @ rng.normal(size=(3, 20)) + noise + rng.normal(size=(60, 20))
    spectrum = lbnn.Spectrum.from_inputs(X, 10 * Y)
    target = given_target(ScalePrior((3,), 20), spectrum, 1.0, ScalePrior((3,), 20))
    call = Call(InferenceOptions(0.5, 0))
    own, mode = aligned(target)
    found = tempered(own, final_start(own, mode)[0], call, FINAL, "found")
    other, mode = aligned(target, seed=1)
    long = tempered(other, fitted_start(other, mode), call, Effort(4, 48, 0), "four times the moves")
    assert found.log_evidence_error < 0.3
    assert abs(found.log_evidence - long.log_evidence) < 0.5


def test_a_start_beyond_the_support_finds_its_way_back() -> None:
    """Half of the particles begin where factors overflow, and are replaced by the others."""
    target = free_target(2, 1, 1)
    far = np.zeros(target.dimension)
    far[-1] = 30.0  # the end of what is plausible
    start = GaussianProposal(far, None, 0.0)
    estimate = tempered(target, start, Call(InferenceOptions(0.5, 0)), SCREENING, "from afar")
    assert math.isfinite(estimate.log_evidence)
    assert np.isfinite(estimate.log_diagonal).all()


@pytest.mark.parametrize(
    ("widths", "x", "y", "beta", "factors", "variance"),
    [
        (
            (5, 3),
            [-0.15, -0.43, 1.25, 0.64, -0.26, 0.37, 0.36],
            [-0.13, -0.86, 2.6, 1.28, -0.49, 0.8, 0.87],
            50.0,
            3,
            0.002,
        ),
        ((1, 2), [-0.57, -1.74, -0.12, -0.32], [-1.81, -5.3, 0.02, -0.87], 25.0, 1, 0.004),
    ],
)
def test_phases_of_an_unknown_noise_variance_are_those_of_quadrature(
    widths, x, y, beta, factors, variance
) -> None:
    """From one phase alone evidences were low by 3.6 and 4.1, ok, with stated errors of 0.01."""
    X, Y, variances = np.array(x)[:, None], np.array(y)[:, None], (1.0, 0.01, 0.01)
    problem = Problem("two phases", widths, variances, X, Y, None, beta, factors, variance)
    post, (expected, _) = problem.condition(), by_quadrature(problem)
    assert post.diagnostics.ok
    assert post.log_evidence_error < 0.1
    assert abs(post.log_evidence - expected) < 4 * post.log_evidence_error


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "neither"),
        ({"noise_covariance": np.eye(2), "noise_network": lbnn.Network((1,)), "beta": 1.0}, "both"),
        ({"noise_covariance": np.eye(2), "beta": 1.0}, "beta must be None"),
        ({"noise_covariance": np.ones((2, 2))}, "positive definite"),
        ({"noise_covariance": np.eye(3)}, "symmetric"),
        ({"noise_network": lbnn.Network((1,))}, "0 < beta < inf"),
        ({"noise_network": lbnn.Network((1,)), "beta": math.inf}, "0 < beta < inf"),
        ({"noise_network": lbnn.Network((1,), [2.0, 1.0]), "beta": 1.0}, "first layer"),
        ({"noise_network": lbnn.Network((1,)), "beta": 1.0, "engine": "dual"}, "engine='smc'"),
    ],
)
def test_what_is_not_a_noise_is_refused(problem, arguments, message) -> None:
    X, Y, _ = problem
    with pytest.raises(ValueError, match=message):
        lbnn.Network((3,)).condition(X, Y, noise="free", **arguments)


def test_a_covariance_needs_free_noise(problem) -> None:
    X, Y, _ = problem
    with pytest.raises(ValueError, match="noise='free'"):
        lbnn.Network((3,)).condition(X, Y, beta=1.0, noise_covariance=np.eye(2))


# ---------------------------------------------------------------------- the estimator


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(30, 6))
    noise = rng.normal(size=(30, 1)) @ np.array([[1.0, -1.0]]) + 0.3 * rng.normal(size=(30, 2))
    Y = X[:, :3] @ rng.normal(size=(3, 2)) + noise
    return X, Y, lbnn.LBNNRegressor(noise="free").fit(X, Y)


@pytest.mark.filterwarnings("ignore:leave-one-out weights")  # one of thirty rows is far out
def test_the_estimator_tells_signal_from_noise(fitted) -> None:
    X, _, model = fitted
    assert model.noise_ == "free"
    assert model.noise_covariance_.shape == (2, 2)
    correlation, deviation = model.correlations("noise")
    assert correlation[0, 1] < -0.7
    assert deviation[0, 1] < 0.2
    low, high = model.signal_share_interval_.T
    assert ((low >= 0) & (low < model.signal_share_) & (model.signal_share_ < high) & (high <= 1)).all()
    mean, deviation = model.predict(X[:4], return_std=True)
    law = model.predictive(X[:4])
    assert np.allclose(mean, law.mean)
    assert np.allclose(deviation, law.with_noise().standard_deviation)
    assert model.leave_one_out().mean.shape == (30, 2)
    assert "signal share" in model.summary()


@pytest.mark.slow
def test_units_of_the_outputs_do_not_matter(fitted) -> None:
    """Up to Monte Carlo errors, and forms with one unit for all outputs, which take part in one fit."""
    X, Y, model = fitted
    units = np.array([1e3, 1e-2])
    other = lbnn.LBNNRegressor(noise="free").fit(X, units * Y + 5.0)
    mean, deviation = model.predict(X), model.predictive(X).standard_deviation
    assert np.all(np.abs((other.predict(X) - 5.0) / units - mean) < 0.2 * deviation)
    assert np.allclose(other.signal_share_, model.signal_share_, atol=0.03)
    jacobian = 29 * np.log(units).sum()
    assert abs(other.log_evidence_ - model.log_evidence_ + jacobian) < 6 * model.log_evidence_error_


def test_a_saved_fit_predicts_the_same(fitted, tmp_path) -> None:
    X, _, model = fitted
    model.save(tmp_path / "model.lbnn")
    again = lbnn.LBNNRegressor.load(tmp_path / "model.lbnn")
    assert np.array_equal(again.predict(X), model.predict(X))
    assert again.noise_ == "free"
    assert np.array_equal(again.signal_share_interval_, model.signal_share_interval_)


@pytest.mark.slow
def test_an_output_that_is_a_copy_is_predicted_as_its_original(fitted) -> None:
    X, Y, _ = fitted
    with pytest.warns(UserWarning, match="does not vary"):
        model = lbnn.LBNNRegressor(noise="free").fit(X, np.column_stack([Y, Y[:, 0]]))
    mean = model.predict(X)
    assert np.allclose(mean[:, 0], mean[:, 2])
    assert np.allclose(model.noise_covariance_[0], model.noise_covariance_[2])


def test_an_output_that_is_a_copy_is_predicted_as_one() -> None:
    """Signal and none are close in twelve rows, so that both are computed again."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(12, 6))
    noise = rng.normal(size=(12, 1)) @ rng.normal(size=(1, 2)) + 0.3 * rng.normal(size=(12, 2))
    Y = X[:, :2] @ rng.normal(size=(2, 2)) + noise
    model = lbnn.LBNNRegressor(noise="free").fit(X, Y[:, [0, 1, 0]])
    assert any(each.code == "dependent_targets" for each in model.notices_)
    mean = model.predict(X)
    assert np.allclose(mean[:, 0], mean[:, 2])
    tried = {(row.signal, row.noise_width) for row in model.candidates_}
    assert {(False, 0), (False, 1), (False, 2)} <= tried
    assert any(signal for signal, _ in tried)


def test_more_outputs_than_rows_have_a_posterior() -> None:
    """The priors of both covariances are proper; the full form is answered with a word on the narrow one."""
    rng = np.random.default_rng(2)
    X, Y = rng.normal(size=(5, 3)), rng.normal(size=(5, 7))
    given = {"beta": 1.0, "noise": "free", "target_error": 0.5}
    with pytest.warns(lbnn.DataWarning, match="noise_network with fewer units than rows"):
        post = lbnn.Network((7,)).condition(X, Y, noise_network=lbnn.Network((7,)), **given)
    assert math.isfinite(post.log_evidence)
    assert np.linalg.eigvalsh(post.noise_covariance)[0] > 0
    lbnn.Network((7,)).condition(X, Y, noise_network=lbnn.Network((2,)), **given)  # no warning


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:the evidence prefers targets without signal")
@pytest.mark.filterwarnings("ignore::lbnn.AccuracyWarning")  # six rows: what they say of the signal is little
def test_the_estimator_names_the_form_for_more_outputs_than_rows() -> None:
    rng = np.random.default_rng(2)
    X, factor = rng.normal(size=(6, 3)), rng.normal(size=(6, 1))
    Y = factor @ rng.normal(size=(1, 7)) + rng.normal(size=(6, 7))
    model = lbnn.LBNNRegressor(noise="free").fit(X, Y)
    told = next(each for each in model.notices_ if each.code == "few_rows_for_covariances")
    assert told.fields == {"outputs": 7, "freedom": 5}
    assert max(row.noise_width or 0 for row in model.candidates_) < 5
    assert np.isfinite(model.predict(X)).all()


def test_constant_inputs_are_named(fitted) -> None:
    with pytest.raises(ValueError, match="constant inputs"):
        lbnn.LBNNRegressor(noise="free").fit(np.ones((30, 6)), fitted[1])


@pytest.mark.parametrize(
    ("parameters", "column", "message"),
    [
        ({}, np.ones(30), "constant outputs"),
        ({"beta": 2.0}, None, "integrates over noise"),
        ({"prior_scale": 2.0}, None, "integrates over noise"),
    ],
)
def test_what_free_noise_cannot_fit_is_refused(fitted, parameters, column, message) -> None:
    X, Y, _ = fitted
    targets = Y if column is None else np.column_stack([Y, column])
    with pytest.raises(ValueError, match=message):
        lbnn.LBNNRegressor(noise="free", **parameters).fit(X, targets)


@pytest.mark.slow
def test_correlated_noise_is_not_taken_for_signal() -> None:
    """The example that was fitted with a train R² of 0.73 and a test R² of −0.18."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(230, 100))
    Y = 0.8 * rng.normal(size=(230, 3)) @ rng.normal(size=(3, 12)) / 3**0.5 + 0.6 * rng.normal(size=(230, 12))
    with pytest.warns(UserWarning, match="without signal"):
        model = lbnn.LBNNRegressor().fit(X[:30], Y[:30])
    assert model.noise_ == "free"
    left, alone = (Y[30:] - mean for mean in (model.predict(X[30:]), Y[:30].mean(axis=0)))
    assert 1 - ((left**2).sum(axis=0) / (alone**2).sum(axis=0)).mean() > -0.02
    assert model.score(X[:30], Y[:30]) < 0.2
    assert (model.signal_share_interval_[:, 0] < 0.01).all()  # no signal at all is within every interval
    assert (model.signal_share_ < 0.2).all()


@pytest.mark.slow
def test_many_rows_and_outputs_are_integrated_in_full() -> None:
    """120 rows of 35 outputs: a second path confirms the answer (no warning)."""
    rng = np.random.default_rng([32, 0])
    X = rng.normal(size=(120, 60))
    noise = rng.normal(size=(120, 3)) @ rng.normal(size=(3, 35))
    Y = X[:, :3] @ rng.normal(size=(3, 35)) + noise + rng.normal(size=(120, 35))
    model = lbnn.LBNNRegressor(noise="free").fit(X, Y)
    assert model.log_evidence_error_ < 1


@pytest.mark.parametrize("gram", [False, True])
def test_evidence_with_row_weights_is_that_of_dense_covariances(gram):
    """Depth one: row a has the noise Σ/w_a. The Jacobian of the weights was missing."""
    rng = np.random.default_rng(6)
    X, Y, weights = rng.normal(size=(5, 3)), rng.normal(size=(5, 2)), rng.uniform(0.2, 0.5, size=5)
    covariance, kernel = np.array([[0.7, 0.3], [0.3, 0.4]]), X @ X.T / 3
    options = {"noise": "free", "noise_covariance": covariance, "weights": weights}
    network = lbnn.Network(())
    post = network.condition_gram(kernel, Y, **options) if gram else network.condition(X, Y, **options)
    dense = np.kron(kernel, np.eye(2)) + np.kron(np.diag(1 / weights), covariance)
    expected = stats.multivariate_normal.logpdf(Y.ravel(), np.zeros(10), dense)
    assert post.log_evidence == pytest.approx(expected, abs=1e-8)
