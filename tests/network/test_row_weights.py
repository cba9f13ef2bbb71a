"""Row weights: the noise variance of row a is 1/(β w_a). Against dense algebra, replicates and refits."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import integrate, special, stats
from sklearn.gaussian_process.kernels import RBF

import lbnn
from lbnn.data.spectrum import Spectrum
from lbnn.noise.make import make_noise

RNG = np.random.default_rng(28)
X = RNG.normal(size=(9, 5)) * np.array([3.0, 1.0, 0.2, 1.0, 5.0])
Y = RNG.standard_t(3, size=(9, 2)) @ np.array([[1.0, 0.5], [0.0, 2.0]])
W = RNG.gamma(1.0, size=9) + 0.05
X_TEST = 0.5 * RNG.normal(size=(3, 5)) * np.array([3.0, 1.0, 0.2, 1.0, 5.0])


def dense_log_density(y, covariance):
    return float(stats.multivariate_normal(np.zeros(len(y)), covariance).logpdf(y))


@pytest.mark.parametrize("kind", ["independent", "per_output", "coupled"])
@pytest.mark.parametrize("gram", [False, True])
def test_the_likelihood_given_a_scale_is_the_dense_one(kind, gram):
    root = np.random.default_rng(3).normal(size=(2, 2))
    scale, G = root @ root.T + 0.5 * np.eye(2), X @ X.T / 5
    beta = np.array([2.0, 0.3]) if kind == "per_output" else 1.7
    spectrum = Spectrum.from_gram(G, Y, weights=W) if gram else Spectrum.from_inputs(X, Y, weights=W)
    noise = make_noise(kind, beta, spectrum)
    own = {"independent": np.eye(2) / 1.7, "per_output": np.diag([0.5, 1 / 0.3]), "coupled": scale / 1.7}
    expected = dense_log_density(Y.ravel(), np.kron(G, scale) + np.kron(np.diag(1 / W), own[kind]))
    likelihood = noise.likelihood(spectrum)
    values, vectors = np.linalg.eigh(scale)
    found = likelihood.log_constant + likelihood.log_value(values[None], vectors[None])[0]
    assert found == pytest.approx(expected, abs=1e-9)
    assert noise.plain_likelihood(spectrum).log_value(scale)[0] == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("beta", [0.3, 50.0, math.inf])
def test_one_output_against_an_integral_of_dense_densities(beta):
    """Also at zero temperature, where weights have no effect."""
    inputs = np.random.default_rng(5).normal(size=(4, 5))
    y, weights, network = Y[:4, 0], W[:4], lbnn.Network((3, 4))
    G, prior = inputs @ inputs.T / 5, network.scale_prior(1)

    def integrand(x):
        covariance = math.exp(x) * G + np.diag(1 / (beta * weights))
        return math.exp(prior.log_density(math.exp(x)) + x + dense_log_density(y, covariance))

    total = integrate.quad(integrand, -25, 8, limit=800, epsabs=0, epsrel=1e-10)[0]
    post = network.condition(inputs, y, beta, weights=weights)
    assert post.log_evidence == pytest.approx(math.log(total), abs=1e-7)
    if math.isinf(beta):
        assert post.log_evidence == pytest.approx(network.condition(inputs, y, beta).log_evidence, abs=1e-9)
    scales, shares = np.ravel(post.scale.atoms), post.scale.weights
    cross = X_TEST @ inputs.T / 5
    means = [s * cross @ np.linalg.solve(s * G + np.diag(1 / (beta * weights)), y) for s in scales]
    np.testing.assert_allclose(post.predict(X_TEST).mean, shares @ np.array(means), rtol=1e-8)
    np.testing.assert_allclose(post.predict().mean, post.predict(inputs).mean, rtol=1e-7)
    np.testing.assert_allclose(post.feature_kernel(), post.feature_kernel(inputs), rtol=1e-7)


def test_weights_that_are_integers_are_replicates():
    """At a given beta: replicates of a row are one row of their mean, with the weight of their number."""
    counts = np.array([1, 2, 3, 1, 1, 4, 1, 2, 1])
    rows, network = np.repeat(np.arange(9), counts), lbnn.Network((6,))
    weighted = network.condition(X, Y[:, 0], 3.0, weights=counts)
    repeated = network.condition(X[rows], Y[rows, 0], 3.0)
    np.testing.assert_allclose(weighted.scale.mean, repeated.scale.mean, rtol=1e-9)
    for name in ("mean", "variance"):
        one, other = (getattr(post.predict(X_TEST), name) for post in (weighted, repeated))
        np.testing.assert_allclose(one, other, rtol=1e-8)
    assert weighted.kernel_change() == pytest.approx(
        np.linalg.norm(weighted.feature_kernel(X) - X @ X.T / 5) / np.linalg.norm(X @ X.T / 5), rel=1e-8
    )


def test_a_common_weight_is_a_factor_of_beta():
    network = lbnn.Network((6,))
    one, other = network.condition(X, Y, 3.0, weights=np.full(9, 2.0)), network.condition(X, Y, 6.0)
    assert one.log_evidence == pytest.approx(other.log_evidence, abs=4 * other.log_evidence_error)
    np.testing.assert_allclose(one.predict(X_TEST).mean, other.predict(X_TEST).mean, atol=0.05)


@pytest.mark.parametrize(("gram", "beta"), [(False, 2.0), (True, 2.0), (False, 1e7), (True, 1e3)])
def test_left_out_examples_are_those_of_refits(gram, beta):
    network, y, a = lbnn.Network((4, 4)), Y[:, 0], 2
    others = np.arange(9) != a
    G = X @ X.T / 5
    if gram:
        post = network.condition_gram(G, y, beta, weights=W)
        refit = network.condition_gram(G[np.ix_(others, others)], y[others], beta, weights=W[others])
        test = refit.predict(cross_gram=G[[a]][:, others], test_gram=G[[a]][:, [a]])
    else:
        post = network.condition(X, y, beta, weights=W)
        test = network.condition(X[others], y[others], beta, weights=W[others]).predict(X[[a]])
    scores = post.leave_one_out()
    assert scores.mean[a] == pytest.approx(test.mean[0], rel=1e-6)
    assert scores.variance[a] == pytest.approx(test.variance[0] + 1 / (beta * W[a]), rel=1e-6)
    if beta == 2.0:
        weights, means, deviations = test.marginals(slice(None))
        spread = np.sqrt(deviations[:, 0, 0] ** 2 + 1 / (beta * W[a]))
        density = special.logsumexp(stats.norm(means[:, 0, 0], spread).logpdf(y[a]), b=weights)
        assert scores.log_density[a] == pytest.approx(density, abs=1e-6)


def test_a_saved_posterior_keeps_its_weights(tmp_path):
    post = lbnn.Network((5,)).condition(X, Y[:, 0], 2.0, weights=W)
    post.save(tmp_path / "posterior.lbnn")
    again = lbnn.Posterior.load(tmp_path / "posterior.lbnn")
    np.testing.assert_array_equal(again.predict().mean, post.predict().mean)
    assert again.log_evidence == post.log_evidence


@pytest.mark.parametrize(
    ("weights", "said"),
    [
        (np.ones(8), "one number for each of the 9 rows"),
        (np.append(np.ones(8), 0.0), "leave these rows out"),
        (np.append(np.ones(8), -1.0), "must be positive"),
        (np.append(np.ones(8), np.nan), "finite"),
    ],
)
def test_weights_that_are_none_are_refused(weights, said):
    with pytest.raises(ValueError, match=said):
        lbnn.Network((5,)).condition(X, Y, 2.0, weights=weights)


# ---------------------------------------------------------------- the estimator


X_MORE = RNG.normal(size=(30, 5))
W_MORE = RNG.gamma(2.0, size=30) + 0.05
Y_MORE = X_MORE @ np.arange(5.0) + RNG.normal(size=30) / np.sqrt(W_MORE) + 3.0


def estimator(**more):
    return lbnn.LBNNRegressor(**{"width": (8,), "depth": 2, "column_scales": "raw", "average": False} | more)


@pytest.mark.filterwarnings("ignore::lbnn.DataWarning")  # the given noise is too small for some rows
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_estimator_with_integer_weights_has_the_predictions_of_replicates(kernel):
    """With a level: a weighted one. At given hyperparameters, where copies tell nothing of the noise."""
    counts = np.array([1, 2, 3, 1, 1, 4, 1, 2, 1])
    rows, y = np.repeat(np.arange(9), counts), Y[:, 0] + 7.0
    params = {"kernel": RBF(2.0) if kernel == "rbf" else kernel, "beta": 2.0, "prior_scale": 3.0}
    weighted = estimator(**params).fit(X, y, sample_weight=counts)
    repeated = estimator(**params).fit(X[rows], y[rows])
    for one, other in zip(
        weighted.predict(X_TEST, return_std=True), repeated.predict(X_TEST, return_std=True), strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=1e-7)


def test_estimator_in_other_units_of_weights():
    """Weights times c: the noise of weight one is c times as large, and nothing else is different."""
    one = estimator().fit(X_MORE, Y_MORE, sample_weight=W_MORE)
    other = estimator().fit(X_MORE, Y_MORE, sample_weight=4 * W_MORE)
    assert other.noise_variance_ == pytest.approx(4 * one.noise_variance_, rel=1e-3)
    assert other.log_evidence_ == pytest.approx(one.log_evidence_, abs=1e-6)
    np.testing.assert_allclose(other.predict(X_TEST), one.predict(X_TEST), rtol=1e-3)
    table = one.candidates_[0].log_evidence
    assert table == pytest.approx(one.log_evidence_, abs=1e-6)


def test_estimator_leaves_rows_of_weight_zero_out(tmp_path):
    weights = W_MORE.copy()
    weights[[1, 4]] = 0.0
    kept = weights > 0
    one = estimator().fit(X_MORE, Y_MORE, sample_weight=weights)
    other = estimator().fit(X_MORE[kept], Y_MORE[kept], sample_weight=W_MORE[kept])
    np.testing.assert_array_equal(one.predict(X_TEST), other.predict(X_TEST))
    assert len(one.leave_one_out().log_density) == 28
    one.save(tmp_path / "model.npz")
    again = lbnn.LBNNRegressor.load(tmp_path / "model.npz")
    np.testing.assert_array_equal(
        again.predict(X_TEST, return_std=True), one.predict(X_TEST, return_std=True)
    )


def test_estimator_left_out_scores_with_weights_and_a_level():
    y, a, given = Y[:, 0] + 5.0, 3, {"beta": 2.0, "prior_scale": 3.0}
    others = np.arange(9) != a
    scores = estimator(**given).fit(X, y, sample_weight=W).leave_one_out()
    refit = estimator(**given).fit(X[others], y[others], sample_weight=W[others])
    law = refit.predictive(X[[a]])
    assert scores.mean[a] == pytest.approx(law.mean[0], rel=1e-7)
    assert scores.variance[a] == pytest.approx(law.variance[0] + 1 / (2 * W[a]), rel=1e-7)


@pytest.mark.parametrize(
    ("weights", "said"),
    [
        (np.ones(3), "one number for each of the 9 rows"),
        (np.zeros(9), "0 positive weights"),
        (-np.ones(9), "9 negative"),
    ],
)
def test_estimator_refuses_weights_that_are_none(weights, said):
    with pytest.raises(ValueError, match=said):
        estimator().fit(X, Y, sample_weight=weights)
