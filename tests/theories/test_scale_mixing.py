"""Scale mixing by hand: against depth, closed forms and direct integrals."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import integrate, stats

import lbnn
from lbnn._base import log_integrals
from tests.helpers.problems import Problem, make_problem, random_rotation

Array = NDArray[np.float64]

ONE = make_problem(7, 12, seed=531, signal=1.5)
TWO = make_problem(5, 9, 2, seed=532, signal=1.5)
HEAVY = stats.invgamma(2.5, scale=1.5)
temperatures = pytest.mark.parametrize("beta", [0.3, 20.0, math.inf])


# ---------------------------------------------------------------------- one output: the law that depth brings


@temperatures
@pytest.mark.parametrize(("width", "variance"), [(3, 1.0), (40, 0.7)])
def test_gamma_prior_is_depth_two(width: int, variance: float, beta: float) -> None:
    """s ~ Gamma(n_1/2, 2σ_2²/n_1) is the scale of one hidden layer: every statistic agrees."""
    prior = stats.gamma(width / 2, scale=2 * variance / width)
    by_hand = lbnn.ScaleMixture(prior, exponential_rate=width / variance).condition(ONE.X, ONE.Y, beta)
    by_depth = lbnn.Network((width,), (1.0, variance)).condition(ONE.X, ONE.Y, beta)
    assert by_hand.log_evidence == pytest.approx(by_depth.log_evidence, rel=1e-11)
    assert by_hand.scale.mean == pytest.approx(by_depth.scale.mean, rel=1e-10)
    assert by_hand.scale.inverse_mean == pytest.approx(by_depth.scale.inverse_mean, rel=1e-10)
    own, other = by_hand.predict(ONE.X_test), by_depth.predict(ONE.X_test)
    np.testing.assert_allclose(own.mean, other.mean, rtol=1e-10)
    np.testing.assert_allclose(own.covariance, other.covariance, rtol=1e-9)
    np.testing.assert_allclose(own.quantile([0.01, 0.6]), other.quantile([0.01, 0.6]), rtol=1e-8)
    for F in (np.zeros(3), other.mean + 3.0):
        assert own.log_density(F) == pytest.approx(other.log_density(F), rel=1e-9)
    for source in (np.array([0.2, -0.1, 0.1]), np.array([30.0, 0.0, 0.0])):
        assert own.cgf(source) == pytest.approx(other.cgf(source), rel=1e-9)
        assert own.characteristic(source) == pytest.approx(other.characteristic(source), rel=1e-8, abs=1e-12)
    assert math.isinf(own.cgf(np.array([30.0, 0.0, 0.0])))


def test_draws_follow_the_mixture() -> None:
    """Draws of s and of outputs from the continuous law."""
    post = lbnn.ScaleMixture(HEAVY).condition(TWO.X, TWO.Y, 4.0)
    draws = post.scale.sample(20000, 1)
    np.testing.assert_array_equal(draws[:, 0, 1], 0)
    np.testing.assert_array_equal(draws[:, 0, 0], draws[:, 1, 1])
    outputs = post.predict(TWO.X_test).sample(20000, 2)
    for sample, expected in (
        (draws[:, 0, 0], post.scale.mean[0, 0]),
        (outputs, post.predict(TWO.X_test).mean),
    ):
        score = (sample.mean(axis=0) - expected) / (sample.std(axis=0) / math.sqrt(20000))
        assert np.abs(score).max() < 4.5


# ---------------------------------------------------------------------- closed forms at zero temperature


@pytest.mark.parametrize("data", [ONE, TWO], ids=["one output", "two outputs"])
def test_inverse_gamma_is_student(data: Problem) -> None:
    """s ~ InvGamma(a, b): Y and F̂ are multivariate t, s given Y is InvGamma(a + p n_d/2, b + tr S/2)."""
    shape, rate = 2.5, 1.5
    post = lbnn.ScaleMixture(HEAVY).condition(data.X, data.Y, math.inf)
    outputs = data.columns.shape[1]
    covariance = np.kron(data.gram, np.eye(outputs))
    student = stats.multivariate_t(np.zeros(data.Y.size), rate / shape * covariance, df=2 * shape)
    assert post.log_evidence == pytest.approx(student.logpdf(data.Y.ravel()), rel=1e-11)
    square = float(np.sum(data.columns * np.linalg.solve(data.gram, data.columns)))
    new_shape, new_rate = shape + data.Y.size / 2, rate + square / 2
    mean, inverse = new_rate / (new_shape - 1), new_shape / new_rate
    np.testing.assert_allclose(post.scale.mean, mean * (np.eye(outputs) if data is TWO else 1.0), rtol=1e-10)
    np.testing.assert_allclose(
        post.scale.inverse_mean, inverse * (np.eye(outputs) if data is TWO else 1.0), rtol=1e-10
    )
    gain = np.linalg.solve(data.gram, data.cross).T
    rest = data.test_gram - gain @ data.cross
    centre = (gain @ data.columns).ravel()
    later = stats.multivariate_t(
        centre, new_rate / new_shape * np.kron(rest, np.eye(outputs)), df=2 * new_shape
    )
    predictive, F = post.predict(data.X_test), 0.3 + np.zeros((3, *data.Y.shape[1:]))
    assert predictive.log_density(F) == pytest.approx(later.logpdf(F.ravel()), rel=1e-9)
    np.testing.assert_allclose(predictive.mean.ravel(), centre, rtol=1e-10)
    full = predictive.covariance.reshape(len(centre), len(centre))
    np.testing.assert_allclose(full, mean * np.kron(rest, np.eye(outputs)), rtol=1e-9, atol=1e-13)
    spread = np.sqrt(new_rate / new_shape * np.diag(np.kron(rest, np.eye(outputs))))
    expected = centre + spread * stats.t(2 * new_shape).ppf(0.03)
    np.testing.assert_allclose(predictive.quantile(0.03).ravel(), expected, rtol=1e-7)


# ---------------------------------------------------------------------- finite temperature by integrals


def integral(prior: Any, data: Problem, beta: float, power: float = 0.0) -> float:
    """∫ s^power p(s) N(vec Y; 0, s G ⊗ I + I/β) ds over log s, with dense covariances."""
    size = data.Y.size
    gram = np.kron(data.gram, np.eye(data.columns.shape[1]))

    def integrand(x: float) -> float:
        s = math.exp(x)
        density = stats.multivariate_normal.logpdf(
            data.Y.ravel(), np.zeros(size), s * gram + np.eye(size) / beta
        )
        return math.exp(prior.logpdf(s) + (1 + power) * x + density)

    pieces = [integrate.quad(integrand, low, low + 2, epsrel=1e-11, epsabs=0)[0] for low in range(-14, 14, 2)]
    return sum(pieces)


PRIORS = {
    "inverse Gamma": HEAVY,
    "log-normal": stats.lognorm(0.8, scale=1.2),
    "half Cauchy": stats.halfcauchy(scale=0.7),
    "Gamma": stats.gamma(3.0, scale=0.4),
}


@pytest.mark.parametrize("prior", PRIORS.values(), ids=PRIORS.keys())
@pytest.mark.parametrize("data", [ONE, TWO], ids=["one output", "two outputs"])
def test_finite_temperature(prior: Any, data: Problem) -> None:
    """Evidence and mean scale against adaptive quadrature over dense Gaussians."""
    post = lbnn.ScaleMixture(prior).condition(data.X, data.Y, 5.0)
    total = integral(prior, data, 5.0)
    tolerance = 1e-5 if prior is PRIORS["half Cauchy"] else 1e-9  # what its tails hold beyond |log s| = 14
    assert post.log_evidence == pytest.approx(math.log(total), abs=tolerance)
    mean = np.atleast_2d(post.scale.mean)[0, 0]
    assert mean == pytest.approx(integral(prior, data, 5.0, 1.0) / total, rel=max(tolerance, 1e-8))


def test_cold_limit() -> None:
    """β → ∞ joins zero temperature at rate 1/β."""
    cold = lbnn.ScaleMixture(HEAVY).condition(TWO.X, TWO.Y, math.inf)
    gaps = [
        lbnn.ScaleMixture(HEAVY).condition(TWO.X, TWO.Y, beta).log_evidence - cold.log_evidence
        for beta in (1e5, 1e6)
    ]
    assert gaps[0] / gaps[1] == pytest.approx(10, rel=0.05)


# ---------------------------------------------------------------------- several outputs: no coupling


@settings(max_examples=10, deadline=None, derandomize=True)
@given(seed=st.integers(0, 2**32 - 1))
def test_one_number_for_all_outputs(seed: int) -> None:
    """E L ∝ I; outputs may be turned and examples permuted without any change."""
    turn, order = random_rotation(2, seed), np.random.default_rng(seed).permutation(5)
    post = lbnn.ScaleMixture(HEAVY).condition(TWO.X, TWO.Y, 6.0)
    other = lbnn.ScaleMixture(HEAVY).condition(TWO.X[order], TWO.Y[order] @ turn, 6.0)
    np.testing.assert_allclose(post.scale.mean, post.scale.mean[0, 0] * np.eye(2), rtol=1e-13)
    np.testing.assert_allclose(other.scale.mean, post.scale.mean, rtol=1e-10, atol=1e-12)
    assert other.log_evidence == pytest.approx(post.log_evidence, rel=1e-11)
    np.testing.assert_allclose(
        other.predict(TWO.X_test).mean, post.predict(TWO.X_test).mean @ turn, rtol=1e-9, atol=1e-11
    )


def test_depth_couples_outputs() -> None:
    """Two outputs that are nearly equal: depth learns the correlation far from the data, s I cannot."""
    rng = np.random.default_rng(533)
    X, signal = rng.standard_normal((20, 30)), rng.standard_normal((20, 1))
    Y = signal @ np.ones((1, 2)) + 0.1 * rng.standard_normal((20, 2))
    far = rng.standard_normal((1, 30))
    depth = lbnn.Network((10,)).condition(X, Y, 50.0)
    hand = lbnn.ScaleMixture(stats.gamma(5, scale=1 / 5)).condition(X, Y, 50.0)
    learned = depth.scale.mean[0, 1] / math.sqrt(depth.scale.mean[0, 0] * depth.scale.mean[1, 1])
    assert learned - 10 * np.max(depth.scale.mean_error) > 0.6
    for post, least in ((depth, 0.5), (hand, -1.0)):
        covariance = post.predict(far).output_covariance[0]
        correlation = covariance[0, 1] / math.sqrt(covariance[0, 0] * covariance[1, 1])
        assert correlation > least
    assert abs(correlation) < 0.1
    assert depth.log_evidence > hand.log_evidence + 5 + 5 * depth.log_evidence_error


# ---------------------------------------------------------------------- what exists and what does not


def test_default_prior() -> None:
    """Inverse Gamma of shape 2 and mean one."""
    own = lbnn.ScaleMixture().condition(ONE.X, ONE.Y, 3.0)
    named = lbnn.ScaleMixture(stats.invgamma(2, scale=1)).condition(ONE.X, ONE.Y, 3.0)
    assert own.log_evidence == named.log_evidence
    assert lbnn.ScaleMixture().prior.mean() == pytest.approx(1.0)


def test_heavy_tails_and_poles() -> None:
    """Generating functions of a heavy-tailed prior are infinite; so is a density without bound."""
    heavy = lbnn.ScaleMixture(HEAVY).condition(ONE.X, ONE.Y, 3.0).predict(ONE.X_test)
    assert math.isinf(heavy.cgf(np.array([1e-3, 0.0, 0.0])))
    assert abs(heavy.characteristic(np.array([0.3, 0.0, 0.0]))) < 1
    flat = lbnn.ScaleMixture(stats.gamma(1.0)).condition(ONE.X, ONE.Y, 3.0).predict(ONE.X_test)
    assert math.isinf(flat.log_density(np.zeros(3)))  # s^{−3/2} against a density that is flat at zero
    assert math.isfinite(flat.log_density(np.full(3, 1e-3)))
    inverse = lbnn.ScaleMixture(stats.gamma(0.8)).condition(ONE.X, ONE.Y, 3.0).scale.inverse_mean
    assert math.isinf(inverse)


def test_refusals() -> None:
    """Each rule is named, with what was given."""
    mixture, X, y = lbnn.ScaleMixture(), ONE.X, ONE.Y
    tall = make_problem(9, 3, seed=534)
    for prior in (stats.norm(), stats.uniform(0, 1), stats.gamma(2, loc=1), stats.beta(2, 2)):
        with pytest.raises(ValueError, match="all positive numbers"):
            lbnn.ScaleMixture(prior)
    for wrong in (3.0, "gamma", stats.poisson(3)):
        with pytest.raises(TypeError, match="frozen continuous distribution"):
            lbnn.ScaleMixture(wrong)
    with pytest.raises(ValueError, match="beta=0"):
        mixture.condition(X, y, 0.0)
    with pytest.raises(ValueError, match="beta"):
        mixture.condition(X, y, -1.0)
    with pytest.raises(ValueError, match="invertible Gram"):
        mixture.condition(tall.X, tall.Y, math.inf)
    with pytest.raises(ValueError, match="mean of the scale must exist"):
        lbnn.ScaleMixture(stats.invgamma(0.4)).condition([[1.0]], [2.0], 1.0)
    with pytest.raises(ValueError, match="keep the scale from zero"):
        lbnn.ScaleMixture(stats.gamma(2.0)).condition(X, np.zeros(7), math.inf)
    post = mixture.condition(X, y, 3.0)
    with pytest.raises(ValueError, match="hidden layer"):
        post.feature_kernel()
    with pytest.raises(ValueError, match="no finite list of weights"):
        post.sample_weights(3, 0)


def test_an_inference_that_is_not_ok_warns_at_the_callers_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """With one halving of the step the quadrature has not converged, and says so here."""
    monkeypatch.setattr(log_integrals, "_HALVINGS", 1)
    with pytest.warns(lbnn.AccuracyWarning, match="quadrature") as told:
        post = lbnn.ScaleMixture(HEAVY).condition(ONE.X, ONE.Y, 3.0)
    assert not post.diagnostics.ok
    assert [str(each.message) for each in told] == list(post.diagnostics.messages)
    assert {each.filename for each in told} == {__file__}
