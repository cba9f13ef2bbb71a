"""The likelihood factor and the evidence: against dense algebra, in every limit, under every rescaling."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

import lbnn
from lbnn.likelihood.gaussian import GaussianLikelihood
from tests.helpers.problems import Problem, make_problem, random_scale
from tests.referees import kronecker

DATA = make_problem(5, 8, seed=71)


def factor_of(data: Problem, beta: float) -> GaussianLikelihood:
    spectrum = lbnn.Spectrum.from_inputs(data.X, data.Y)
    return GaussianLikelihood(
        spectrum.eigenvalues, spectrum.targets, spectrum.residual, spectrum.examples, 1 / beta
    )


@pytest.mark.parametrize(
    ("shape", "beta"),
    [((4, 7), 0.2), ((4, 7), 30.0), ((4, 7), math.inf), ((8, 3), 0.2), ((8, 3), 30.0)],
    ids=str,
)
def test_factor_is_the_gaussian_likelihood(shape: tuple[int, int], beta: float) -> None:
    """log p(Y | L) in the eigenbasis is log N(v(Y); 0, G ⊗ L + I/β), for matrices L."""
    data, scales = make_problem(*shape, 3, seed=72), np.array([random_scale(3, seed) for seed in range(4)])
    factor = factor_of(data, beta)
    got = factor.log_constant + factor.log_value(*np.linalg.eigh(scales))
    expected = [kronecker.log_likelihood(L, data.gram, data.Y, beta) for L in scales]
    np.testing.assert_allclose(got, expected, rtol=1e-11)


def test_large_batches_are_split_without_effect(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of one scale give what one block of all gives, in evidence, predictions and kernel."""

    def answers() -> list[np.ndarray]:
        post = lbnn.Network((3, 2)).condition(DATA.X, DATA.Y, 4.0)
        pred = post.predict(DATA.X_test)
        parts = pred.mean, pred.covariance, pred.quantile(0.2), post.feature_kernel(), post.log_evidence
        return [*parts, pred.log_density(np.ones(3))]

    whole = answers()
    monkeypatch.setattr("lbnn._base.blocks.BLOCK_FLOATS", 1)
    for one, other in zip(whole, answers(), strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-12, atol=1e-14)


# ---------------------------------------------------------------- limits


def answers_of(post: lbnn.Posterior, data: Problem) -> np.ndarray:
    """The numbers that every limit is checked on, in one vector."""
    pred = post.predict(data.X_test)
    kernel = post.feature_kernel().ravel() if post.prior.widths else np.zeros(0)
    return np.concatenate([[post.log_evidence], pred.mean, pred.covariance.ravel(), kernel])


@pytest.mark.parametrize("widths", [(), (4,), (3, 5)], ids=str)
def test_zero_temperature_is_the_limit_of_large_beta(widths: tuple[int, ...]) -> None:
    """Every answer converges to the one at β = ∞, at the rate 1/β."""
    network = lbnn.Network(widths)
    limit = answers_of(network.condition(DATA.X, DATA.Y, math.inf), DATA)
    errors = [answers_of(network.condition(DATA.X, DATA.Y, beta), DATA) - limit for beta in (1e6, 1e7)]
    assert np.abs(errors[1]).max() < 1e-4
    # the next order is 1/β of this one, and rounding is 1e-12
    np.testing.assert_allclose(10 * errors[1], errors[0], rtol=1e-3, atol=1e-10)


@pytest.mark.parametrize("widths", [(), (4,), (3, 5)], ids=str)
def test_beta_of_zero_is_the_prior(widths: tuple[int, ...]) -> None:
    """β = 0: scale, predictive and kernel are those of the prior; every y is infinitely unlikely."""
    network = lbnn.Network(widths, (0.8, *[1.4] * len(widths)))
    post, prior = network.condition(DATA.X, DATA.Y, 0.0), network.prior(DATA.X_test)
    pred = post.predict(DATA.X_test)
    np.testing.assert_array_equal(pred.mean, np.zeros(3))
    np.testing.assert_allclose(pred.covariance, prior.covariance, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(pred.quantile(0.1), prior.quantile(0.1), rtol=1e-9)
    F = np.array([0.3, -1.0, 2.0])
    assert pred.log_density(F) == pytest.approx(prior.log_density(F), rel=1e-11)
    assert post.scale.mean == pytest.approx(math.prod(network.prior_variances[1:]), rel=1e-12)
    assert post.log_evidence == -math.inf
    if widths:
        np.testing.assert_allclose(post.feature_kernel(), 0.8 * DATA.gram, rtol=1e-12)


def test_small_beta_approaches_the_prior() -> None:
    """β → 0: answers converge to those at β = 0, at the rate β."""
    network = lbnn.Network((3, 5))
    limit = answers_of(network.condition(DATA.X, DATA.Y, 0.0), DATA)[1:]
    small = [answers_of(network.condition(DATA.X, DATA.Y, beta), DATA)[1:] - limit for beta in (1e-6, 1e-5)]
    np.testing.assert_allclose(10 * small[0], small[1], rtol=1e-3, atol=1e-11)
    assert np.abs(small[0]).max() > 1e-7


@pytest.mark.parametrize("beta", [4.0, math.inf])
@pytest.mark.parametrize("layers", [1, 3])
def test_infinite_width_is_the_gaussian_process(layers: int, beta: float) -> None:
    """Evidence and predictive converge to those of depth one, at the rate 1/n."""
    gp = answers_of(lbnn.Network(()).condition(DATA.X, DATA.Y, beta), DATA)
    errors = []
    for n in (10**4, 2 * 10**4, 4 * 10**4):
        post = lbnn.Network((n,) * layers).condition(DATA.X, DATA.Y, beta)
        errors.append(n * (answers_of(post, DATA)[: len(gp)] - gp))
    assert np.abs(errors[0]).max() > 0.1
    # n · error = c₁ + c₂/n, so that its change halves too; rounding is n · 1e-13
    np.testing.assert_allclose(errors[1], errors[0], rtol=2e-3, atol=1e-7)
    np.testing.assert_allclose(errors[1] - errors[2], (errors[0] - errors[1]) / 2, rtol=0.01, atol=1e-7)
    kernel = lbnn.Network((10**7,) * layers).condition(DATA.X, DATA.Y, beta).feature_kernel()
    np.testing.assert_allclose(kernel, DATA.gram, atol=1e-5)


# ---------------------------------------------------------------- depth one


@pytest.mark.parametrize("shape", [(4, 7), (9, 3)], ids=str)
def test_depth_one_is_bayesian_ridge(shape: tuple[int, int]) -> None:
    """Weights N(0, σ²/n0), noise 1/β: posterior precision βXᵀX + n0/σ² I, written in weight space."""
    data, beta, variance = make_problem(*shape, 2, seed=73), 3.0, 1.7
    post = lbnn.Network((), (variance,)).condition(data.X, data.Y, beta)
    pred, inputs = post.predict(data.X_test), shape[1]
    precision = beta * data.X.T @ data.X + inputs / variance * np.eye(inputs)
    mean = data.X_test @ np.linalg.solve(precision, beta * data.X.T @ data.Y)
    covariance = data.X_test @ np.linalg.solve(precision, data.X_test.T)
    np.testing.assert_allclose(pred.mean, mean, rtol=1e-9)
    np.testing.assert_allclose(pred.covariance, np.einsum("mn,jk->mjnk", covariance, np.eye(2)), atol=1e-11)
    law = stats.multivariate_normal(cov=variance * data.gram + np.eye(shape[0]) / beta)
    assert post.log_evidence == pytest.approx(law.logpdf(data.Y.T).sum(), rel=1e-11)


# ---------------------------------------------------------------- rescaling


@pytest.mark.parametrize("widths", [(), (4,), (3, 5)], ids=str)
@pytest.mark.parametrize("beta", [3.0, math.inf])
def test_scaling_targets_against_noise_and_prior(widths: tuple[int, ...], beta: float) -> None:
    """Y → cY, β → β/c², σ_d² → c²σ_d²: everything follows, the evidence by the Jacobian c^{−p}."""
    c, ones = 300.0, [1.0] * len(widths)
    one = lbnn.Network(widths).condition(DATA.X, DATA.Y, beta)
    two = lbnn.Network(widths, (*ones, c**2)).condition(DATA.X, c * DATA.Y, beta / c**2)
    assert two.log_evidence == pytest.approx(one.log_evidence - len(DATA.X) * math.log(c), rel=1e-11)
    before, after = one.predict(DATA.X_test), two.predict(DATA.X_test)
    np.testing.assert_allclose(after.mean, c * before.mean, rtol=1e-10)
    np.testing.assert_allclose(after.covariance, c**2 * before.covariance, rtol=1e-10)
    np.testing.assert_allclose(after.quantile(0.9), c * before.quantile(0.9), rtol=1e-9)
    F = before.mean + 0.3
    assert after.log_density(c * F) == pytest.approx(before.log_density(F) - 3 * math.log(c), rel=1e-10)


@pytest.mark.parametrize("variances", [(6.0, 1.0, 1.0), (1.0, 6.0, 1.0), (2.0, 0.5, 6.0), (1.0, 1e-3, 6e3)])
def test_only_the_product_of_prior_variances_matters_for_the_function(variances: tuple[float, ...]) -> None:
    """Evidence and predictive see σ_1² ⋯ σ_d²; the scale is that of layers 2..d, the kernel of layer 1."""
    post = lbnn.Network((3, 5), variances).condition(DATA.X, DATA.Y, 3.0)
    base = lbnn.Network((3, 5), (math.prod(variances), 1.0, 1.0)).condition(DATA.X, DATA.Y, 3.0)
    assert post.log_evidence == pytest.approx(base.log_evidence, rel=1e-12)
    np.testing.assert_allclose(
        post.predict(DATA.X_test).covariance, base.predict(DATA.X_test).covariance, rtol=1e-11
    )
    rest = math.prod(variances[1:])
    assert post.scale.mean == pytest.approx(rest * base.scale.mean, rel=1e-11)
    np.testing.assert_allclose(post.feature_kernel() * rest, base.feature_kernel(), rtol=1e-10)
