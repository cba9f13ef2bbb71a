"""The integrand of every route against the plain formula: noise × route × width × depth, and its gradient.

The referee here is the density of all targets at once, N(0, G ⊗ L + noise), from the inputs as given:
no eigenbasis, no rows, no units. It shares nothing with the library, the plain formula that every call checks
its integrand with included.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import lbnn
from lbnn._base.errors import LikelihoodMismatch
from lbnn._base.small_matrices import gram_eigen
from lbnn.engines.integrand import IntegrandCheck
from lbnn.engines.run import deficient_target, dual_target, primal_target
from lbnn.likelihood.gaussian import GaussianLikelihood
from lbnn.likelihood.plain import PlainLikelihood
from lbnn.likelihood.root import Gaussian, Scatter
from lbnn.noise.make import make_noise

P, OUTPUTS, VARIANCE = 7, 4, 1.7
NOISES = {
    "independent": 5.0,
    "per_output": np.array([0.6, 40.0, 3.0, 9.0]),
    "coupled": 2.5,
    "zero temperature": math.inf,
}
NARROW, WIDE = {2: (2,), 3: (5, 3), 4: (3, 6, 2)}, {2: (6,), 3: (9, 5), 4: (12, 6, 8)}


def data(p=P, inputs=5, outputs=OUTPUTS, seed=0):
    """Fewer inputs than examples where noise allows it: targets outside the range of G count."""
    rng = np.random.default_rng([p, inputs, outputs, seed])
    return rng.normal(size=(p, inputs)), 3 * rng.normal(size=(p, outputs))


def full_log_density(X, Y, noise, scale, beta):
    """log N(vec Y; 0, σ_1² XXᵀ/n_0 ⊗ L + noise)."""
    gram = VARIANCE * X @ X.T / X.shape[1]
    p, outputs = Y.shape
    if noise == "coupled":
        covariance = np.kron(gram + np.eye(p) / beta, scale)
    else:
        variances = np.broadcast_to(1 / np.asarray(beta, float), outputs)
        covariance = np.kron(gram, scale) + np.kron(np.eye(p), np.diag(variances))
    return stats.multivariate_normal(np.zeros(p * outputs), covariance).logpdf(Y.ravel())


def setting(noise, widths, X, Y):
    """Prior, likelihood and the plain formula as `condition` makes them."""
    name = "independent" if noise == "zero temperature" else noise
    spectrum = lbnn.Spectrum.from_inputs(X, Y)
    kind = make_noise(name, NOISES[noise], spectrum)
    scaled = spectrum.scaled(VARIANCE)
    network = lbnn.Network(widths, (VARIANCE, *(0.8,) * len(widths)))
    prior = network.scale_prior(Y.shape[1])
    return prior, kind.likelihood(scaled), kind.plain_likelihood(scaled)


def assert_integrand(target, log_constant, noise, X, Y, seed=1, count=5):
    """Value at draws of the prior and far from it, and gradient by differences."""
    rng = np.random.default_rng(seed)
    u = rng.normal(size=(count, target.dimension)) * np.linspace(0.5, 1.5, count)[:, None]
    expected = [full_log_density(X, Y, noise, scale, NOISES[noise]) for scale in target.scales(u)]
    np.testing.assert_allclose(target.integrand(u) + log_constant, expected, rtol=1e-9, atol=1e-8)
    value, gradient = target.value_and_gradient(u)
    np.testing.assert_allclose(value, target.log_density(u), rtol=1e-12)
    step = 1e-5 * np.eye(target.dimension)
    for point, slope in zip(u, gradient, strict=True):
        ahead, behind = target.log_density(point + step), target.log_density(point - step)
        np.testing.assert_allclose(slope, (ahead - behind) / 2e-5, rtol=2e-5, atol=2e-5 * np.abs(slope).max())


@pytest.mark.parametrize("depth", [2, 3, 4])
@pytest.mark.parametrize("wide", [True, False], ids=["wide", "narrow"])
@pytest.mark.parametrize("noise", NOISES)
def test_scales_in_every_noise_width_and_depth(noise, wide, depth):
    if not wide and noise in ("coupled", "zero temperature"):
        pytest.skip("does not exist behind a layer narrower than the outputs")
    X, Y = data(inputs=9 if noise == "zero temperature" else 5)
    prior, likelihood, plain = setting(noise, (WIDE if wide else NARROW)[depth], X, Y)
    target = primal_target(prior, likelihood)
    assert isinstance(target._own, Scatter if noise in ("coupled", "zero temperature") else Gaussian)
    assert_integrand(target, likelihood.log_constant, noise, X, Y)
    turned = target.in_frame(np.linalg.qr(np.random.default_rng(2).normal(size=(OUTPUTS, OUTPUTS)))[0])
    assert_integrand(turned, likelihood.log_constant, noise, X, Y)
    eigen_route = likelihood.log_value(*gram_eigen(target.scales(np.ones((1, target.dimension)))))
    expected, bound = plain.log_value(target.scales(np.ones((1, target.dimension)))[0])
    assert abs(float(eigen_route[0]) + likelihood.log_constant - expected) <= bound < 1e-2


@pytest.mark.parametrize("depth", [2, 3, 4])
@pytest.mark.parametrize("noise", NOISES)
def test_the_plain_formula_itself(noise, depth):
    X, Y = data(inputs=9 if noise == "zero temperature" else 5)
    prior, _, plain = setting(noise, WIDE[depth], X, Y)
    for scale in prior.sample(4, 3):
        value, bound = plain.log_value(scale)
        expected = full_log_density(X, Y, noise, scale, NOISES[noise])
        assert abs(value - expected) <= min(bound, 1e-7 * abs(expected))


@pytest.mark.parametrize("widths", [(12,), (9, 10), (2,), (3, 2), (4, 2, 5)], ids=str)
@pytest.mark.parametrize("noise", ["independent", "zero temperature"])
def test_hidden_kernels(noise, widths):
    outputs, examples = 8, 3
    X, Y = data(examples, 6, outputs)
    if noise == "zero temperature" and min(widths) < examples:
        pytest.skip("does not exist behind a layer narrower than the data")
    prior, likelihood, plain = setting(noise, widths, X, Y)
    target = dual_target(prior, likelihood)
    u = np.random.default_rng(4).normal(size=(4, target.dimension))
    values = target.integrand(u) + likelihood.log_constant
    basis = np.linalg.eigh(X @ X.T)[1][:, ::-1]  # of the examples, largest first as the spectrum has it
    roots = np.sqrt(likelihood.eigenvalues)
    tau = 0.0 if noise == "zero temperature" else 1 / NOISES[noise]
    for kernel, value in zip(target.scales(u), values, strict=True):
        inner = roots[:, None] * kernel * roots + tau * np.eye(examples)
        order = np.argsort(-likelihood.eigenvalues)
        covariance = basis @ inner[np.ix_(order, order)] @ basis.T
        signs = np.sign((basis.T @ Y)[:, 0] * likelihood.targets[order][:, 0])
        covariance = (basis * signs) @ inner[np.ix_(order, order)] @ (basis * signs).T
        density = stats.multivariate_normal(np.zeros(examples), covariance)
        expected = sum(density.logpdf(column) for column in Y.T)
        assert value == pytest.approx(expected, rel=1e-9)
        assert plain.log_kernel_value(kernel)[0] == pytest.approx(expected, rel=1e-9)
    step = 1e-5 * np.eye(target.dimension)
    for point, slope in zip(u, target.value_and_gradient(u)[1], strict=True):
        change = (target.log_density(point + step) - target.log_density(point - step)) / 2e-5
        np.testing.assert_allclose(slope, change, rtol=2e-5, atol=2e-5 * np.abs(slope).max())


@pytest.mark.parametrize("widths", [(11,), (12, 14), (11, 20, 12)], ids=str)
def test_zero_temperature_with_targets_of_deficient_rank(widths):
    X, Y = data(5, 9, 4)
    Y = Y[:, :2] @ np.random.default_rng(1).normal(size=(2, 4))
    prior, likelihood, plain = setting("zero temperature", widths, X, Y)
    target = deficient_target(prior, likelihood)
    null = target.rotation[:, :2]
    u = np.random.default_rng(4).normal(size=(5, target.dimension))
    taken_out = 0.5 * len(X) * np.linalg.slogdet(null.T @ target.scales(u) @ null)[1]
    values = target.integrand(u) + likelihood.log_constant - taken_out
    gram = VARIANCE * X @ X.T / X.shape[1]
    for scale, value in zip(target.scales(u), values, strict=True):
        expected = stats.multivariate_normal(np.zeros(20), np.kron(gram, scale)).logpdf(Y.ravel())
        assert value == pytest.approx(expected, rel=1e-8)
        assert plain.log_value(scale)[0] == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize("wide", [True, False], ids=["wide", "narrow"])
@pytest.mark.parametrize("noise", ["independent", "per_output"])
def test_condensed_rows(noise, wide):
    X, Y = data(150, 400)
    prior, likelihood, plain = setting(noise, (WIDE if wide else NARROW)[3], X, Y)
    assert likelihood.gauss_rule is not None
    target = primal_target(prior, likelihood)
    assert_integrand(target, likelihood.log_constant, noise, X, Y, count=2)
    scale = target.scales(np.zeros((1, target.dimension)))[0]
    expected, bound = plain.log_value(scale)
    assert abs(expected - full_log_density(X, Y, noise, scale, NOISES[noise])) <= bound


# ---------------------------------------------------------------- the check of every call


FAULTS = {
    "units dropped": lambda own: replace(own, basis=None),
    "a row dropped": lambda own: replace(own, counts=np.append(own.counts[:-1], 0.0)),
    "targets scaled": lambda own: replace(own, targets=1.001 * own.targets),
    "noise of another size": lambda own: replace(own, noise=1.001 * own.noise),
    "a wrong constant": lambda own: replace(own, constant=own.constant + 0.01),
    "a power too few": lambda own: replace(own, powers=own.powers - [1.0, 0.0]),
    "scatter scaled": lambda own: replace(own, root=1.001 * own.root),
}


@pytest.mark.parametrize("widths", [(1,), (3,), (4, 1)], ids=str)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_the_integrand_is_an_error(fault, widths, monkeypatch):
    """Narrow and wide: what the plain formula of the data as given must notice."""
    scatter = fault in ("a wrong constant", "a power too few", "scatter scaled")
    if scatter and min(widths) < 2:
        pytest.skip("does not exist behind a layer narrower than the outputs")
    gram, Y = np.eye(2), np.array([[1.0, 0.5], [0.3, -1.0]])
    given = {"noise": "coupled", "beta": 3.0} if scatter else {"noise": "per_output", "beta": [2.0, 20.0]}
    lbnn.Network(widths).condition_gram(gram, Y, **given)
    right = GaussianLikelihood.of_root.func
    monkeypatch.setattr(GaussianLikelihood, "of_root", property(lambda self: FAULTS[fault](right(self))))
    with pytest.raises(LikelihoodMismatch, match="plain formula gives"):
        lbnn.Network(widths).condition_gram(gram, Y, **given)


@pytest.mark.parametrize("fault", ["eigen", "scatter", "kernel", "one output", "depth one"])
def test_a_wrong_likelihood_is_an_error_on_every_route(fault, monkeypatch):
    X, Y = data(5, 9)
    plain = PlainLikelihood.log_kernel_value if fault == "kernel" else PlainLikelihood.log_value
    name = "log_kernel_value" if fault == "kernel" else "log_value"

    def shifted(self, matrix):
        value, bound = plain(self, matrix)
        return value + 1e-3 * (1 + abs(value)), bound

    monkeypatch.setattr(PlainLikelihood, name, shifted)
    network = lbnn.Network(() if fault == "depth one" else (6,))
    beta = math.inf if fault == "scatter" else 3.0
    Y = Y[:, 0] if fault == "one output" else Y
    X, Y = (X[:2], Y[:2]) if fault == "kernel" else (X, Y)
    with pytest.raises(LikelihoodMismatch):
        network.condition(X, Y, beta)


@pytest.mark.parametrize("beta", [1e-8, 1e6, 1e13])
@pytest.mark.parametrize("size", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("widths", [(), (3,), (8, 8)], ids=str)
def test_extreme_problems_pass(widths, size, beta):
    """Rounding is not called an error, whatever the noise and the size of the targets."""
    rng = np.random.default_rng(3)
    spectrum = lbnn.Spectrum.from_inputs(rng.normal(size=(9, 12)), size * rng.normal(size=(9, 3)))
    kind = make_noise("independent", beta, spectrum)
    prior, likelihood = lbnn.Network(widths).scale_prior(3), kind.likelihood(spectrum)
    if not widths:
        scales = np.eye(3)[None]
        values = likelihood.log_value(*gram_eigen(scales))
    else:
        target = primal_target(prior, likelihood)
        u = rng.normal(size=(6, target.dimension))
        scales, values = target.scales(u), target.integrand(u)
    IntegrandCheck(kind.plain_likelihood(spectrum)).scales(scales, values + likelihood.log_constant, 0.05)


def test_a_few_draws_are_compared():
    weights = np.random.default_rng(0).dirichlet(np.full(1000, 0.1))
    plain = PlainLikelihood(np.ones(10), np.ones((10, 2)), np.ones(2), 0.0, np.zeros((0, 2)), 0)
    chosen = IntegrandCheck(plain).few(weights)
    assert 1 <= len(chosen) <= 3
    assert int(np.argmax(weights)) in chosen
    large = PlainLikelihood(np.ones(1000), np.ones((1000, 50)), np.ones(50), 0.0, np.zeros((0, 50)), 0)
    assert len(IntegrandCheck(large).few(weights)) == 1


def test_a_singular_covariance_tells_nothing():
    plain = PlainLikelihood(np.ones(2), np.ones((2, 2)), np.zeros(2), 0.0, np.zeros((0, 2)), 0)
    assert math.isnan(plain.log_value(np.zeros((2, 2)))[0])
    IntegrandCheck(plain).scales(np.zeros((1, 2, 2)), np.zeros(1), 0.05)


# ---------------------------------------------------------------- rounding of a Gram matrix


@pytest.mark.parametrize(("decades", "beta", "fine"), [(12, 1e13, False), (8, 1e9, True), (3, 1e4, True)])
@pytest.mark.parametrize("outputs", [1, 2])
def test_rounding_of_a_gram_matrix_is_announced_where_it_matters(decades, beta, fine, outputs):
    """Over 12 decades of eigenvalues a permutation of the rows moved the answer by 30 nats, each ± 0.004."""
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.normal(size=(8, 8)))[0]
    gram, Y = (basis * np.logspace(0, -decades, 8)) @ basis.T, rng.normal(size=(8, outputs))
    gram = (gram + gram.T) / 2
    answers = []
    for order in (np.arange(8), np.arange(8)[::-1], rng.permutation(8)):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            post = lbnn.Network((10,)).condition_gram(gram[np.ix_(order, order)], Y[order], beta)
        answers.append(post.log_evidence)
        assert post.diagnostics.ok == fine
        assert any("Gram matrix" in str(each.message) for each in caught) == (not fine)
    assert (np.ptp(answers) < 0.05) == fine


def test_a_bound_for_changes_of_the_gram_matrix():
    rng = np.random.default_rng(1)
    X, Y = data(6, 8)
    gram = VARIANCE * X @ X.T / 8
    spectrum = lbnn.Spectrum.from_gram(gram, Y)
    scale = lbnn.Network((5,)).scale_prior(OUTPUTS).sample(1, 0)[0]

    def log_density(matrix):
        covariance = np.kron(matrix, scale) + np.kron(np.eye(6), np.diag(1 / NOISES["per_output"]))
        return stats.multivariate_normal(np.zeros(24), covariance).logpdf(Y.ravel())

    noise = make_noise("per_output", NOISES["per_output"], spectrum)
    units, data_in_units = 1 / noise.deviations, replace(noise.in_units(spectrum), eigenvalue_error=1.0)
    bound = data_in_units._rounding_shares(1.0, units[:, None] * scale * units)[1]
    changes = []
    for _ in range(200):
        change = rng.normal(size=(6, 6))
        change = change @ change.T
        change *= 1e-6 / np.linalg.norm(change, 2)
        changes.append(abs(log_density(gram + change) - log_density(gram)) / 1e-6)
    assert bound / 20 < max(changes) <= bound * 1.001


# ---------------------------------------------------------------- crashes


def test_weights_whose_squares_underflow():
    Y = np.zeros((1, 9))
    Y[0, 0] = 3.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lbnn.AccuracyWarning)
        post = lbnn.Network((2, 3, 11), (0.89,) * 4).condition_gram([[0.029]], Y, 1 / 0.12)
    assert post.log_evidence == pytest.approx(-20.384, abs=0.03)


def test_one_coordinate():
    Y = 0.07 * np.random.default_rng(0).normal(size=(1, 100))
    post = lbnn.Network((1,), (0.56, 0.56)).condition_gram([[1.4]], Y, 1 / 0.12)
    assert post.log_evidence_error == 0
    assert post.log_evidence == pytest.approx(9.2903, abs=5e-5)  # the truth is known to four digits
