"""Networks seen through views, against dense algebra, prior draws of weights, and networks without views."""

from __future__ import annotations

import json
import math
from itertools import pairwise
from pathlib import Path

import mpmath
import numpy as np
import pytest
from scipy import special, stats

import lbnn
from lbnn.data.view_data import ViewData
from lbnn.engines.integrand import IntegrandCheck
from lbnn.likelihood.plain import PlainViews
from lbnn.likelihood.views import CellDesign, ViewDesign, ViewLikelihood
from tests.views import referee

RNG = np.random.default_rng(2028)


def problem(count=12, channels=3, dimension=4, seed=0):
    """Views of all kinds of sizes, and observations that are not drawn from the prior."""
    rng = np.random.default_rng(seed)
    views = rng.normal(size=(count, channels, dimension)) * rng.gamma(1.0, size=(channels, 1))
    return views, rng.standard_t(3, size=count)


def random_scales(count, channels, seed=1):
    root = np.random.default_rng(seed).normal(size=(count, channels, channels))
    return root @ root.swapaxes(1, 2)


# ---------------------------------------------------------------- the likelihood


@pytest.mark.parametrize(("count", "dimension"), [(12, 4), (40, 3)])  # fewer, and more rows than features
@pytest.mark.parametrize("noise", [1e-4, 0.3, 1e3])
def test_likelihood_is_the_dense_gaussian(count, dimension, noise):
    views, y = problem(count, 3, dimension)
    data = ViewData.of_views(views, y, 1.7)
    likelihood = ViewLikelihood(
        ViewDesign.of_blocks(data.kernel), data.observations, data.residual, count, noise
    )
    scales = random_scales(4, 3)
    values, vectors = np.linalg.eigh(scales)
    found = likelihood.log_constant + likelihood.log_value(np.maximum(values, 0), vectors)
    expected = [
        referee.log_gaussian(y, referee.covariance(math.sqrt(1.7) * views, scale, noise)) for scale in scales
    ]
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    kernel = 1.7 * np.einsum("ami,bni->ambn", views, views) / dimension
    plain, bound = PlainViews(kernel, y, noise).log_value(scales[0])
    assert plain == pytest.approx(expected[0], abs=bound)


@pytest.mark.parametrize("cells", [False, True])
@pytest.mark.parametrize("count", [20, 60])  # below and above the size from which LAPACK is called one by one
def test_gradient_is_the_derivative(cells, count):
    views, y = problem(count, 3, 30)
    if cells:
        gram = views[:, 0] @ views[:, 0].T / 30
        design = CellDesign(gram, np.sort(np.arange(count) % 3), 3)
    else:
        design = ViewDesign.of(views / math.sqrt(30))
    likelihood = ViewLikelihood(design, y, 0.0, count, 0.3)
    scale = random_scales(1, 3)[0]

    def value(matrix):
        values, vectors = np.linalg.eigh(matrix)
        return float(likelihood.log_value(values[None], vectors[None])[0])

    values, vectors = np.linalg.eigh(scale)
    own, gradient = likelihood.value_and_gradient(values[None], vectors[None])
    assert own[0] == pytest.approx(value(scale), rel=1e-12)
    change = np.random.default_rng(3).normal(size=(3, 3))
    change += change.T
    numeric = (value(scale + 1e-5 * change) - value(scale - 1e-5 * change)) / 2e-5
    assert float((gradient[0] * change).sum()) == pytest.approx(numeric, rel=1e-6)


# ---------------------------------------------------------------- what is known already


@pytest.mark.parametrize("beta", [0.5, 100.0])
def test_one_view_is_the_network_without_views(beta):
    X, y, X_test = RNG.normal(size=(9, 5)), RNG.normal(size=9), RNG.normal(size=(3, 5))
    network = lbnn.Network((4, 6), (1.0, 2.0, 0.5))
    one, other = network.condition_views(X[:, None], y, beta), network.condition(X, y, beta)
    assert one.log_evidence == pytest.approx(other.log_evidence, abs=1e-12)
    np.testing.assert_allclose(
        one.predict(views=X_test[:, None]).mean, other.predict(X_test).mean, rtol=1e-12
    )
    kernel = (X @ X.T / 5)[:, None, :, None]
    assert network.condition_views(kernel, y, beta).log_evidence == pytest.approx(
        other.log_evidence, abs=1e-9
    )


def test_tasks_with_all_cells_are_several_outputs():
    X, Y, X_test = RNG.normal(size=(8, 3)), RNG.normal(size=(8, 2)), RNG.normal(size=(2, 3))
    network = lbnn.Network((6,))
    views = np.concatenate([lbnn.views.tasks(X, np.full(8, j), 2) for j in range(2)])
    one = network.condition_views(views, Y.T.ravel(), 3.0)
    other = network.condition(X, Y, 3.0, target_error=0.02)
    joint = math.hypot(one.log_evidence_error, other.log_evidence_error)
    assert one.log_evidence == pytest.approx(other.log_evidence, abs=4 * joint)
    test = np.concatenate([lbnn.views.tasks(X_test, np.full(2, j), 2) for j in range(2)])
    deviation = one.predict(test).standard_deviation.max()
    np.testing.assert_allclose(
        one.predict(test).mean, other.predict(X_test).mean.T.ravel(), atol=0.2 * deviation
    )


def test_depth_one_is_deterministic():
    views, y = problem()
    post = lbnn.Network((), (2.0,)).condition_views(views, y, 4.0)
    expected = referee.log_gaussian(y, referee.covariance(math.sqrt(2) * views, np.eye(3), 0.25))
    assert post.log_evidence == pytest.approx(expected, abs=1e-9)
    assert post.diagnostics.engine == "atom"


@pytest.mark.parametrize(("widths", "channels"), [((6,), 2), ((4, 5), 3), ((2,), 3)])
def test_evidence_and_scale_are_those_of_prior_draws(widths, channels):
    views, y = problem(8, channels, 3, seed=5)
    post = lbnn.Network(widths).condition_views(views, y, 2.0)
    value, error, mean, size = referee.evidence_by_prior_draws(
        views, y, widths, 0.5, 60_000, np.random.default_rng(8)
    )
    assert size > 500
    assert post.diagnostics.ok
    assert post.log_evidence == pytest.approx(value, abs=4.5 * math.hypot(error, post.log_evidence_error))
    np.testing.assert_allclose(post.scale.mean, mean, atol=0.3 * np.abs(mean).max())


def test_other_units_and_other_orders_change_nothing():
    views, y = problem(10, 2, 3)
    order, network = np.random.default_rng(0).permutation(10), lbnn.Network((5,))
    post = network.condition_views(views, y, 2.0)
    turned = network.condition_views(views[order][:, ::-1], y[order], 2.0)
    scaled = lbnn.Network((5,), (9.0, 1.0)).condition_views(views, 3 * y, 2.0 / 9)
    for other, shift in ((turned, 0.0), (scaled, 10 * math.log(3))):
        joint = math.hypot(post.log_evidence_error, other.log_evidence_error)
        assert post.log_evidence == pytest.approx(other.log_evidence + shift, abs=4.5 * joint)


# ---------------------------------------------------------------- predictions


def dense_moments(views, y, test, scale, noise):
    """Mean and covariance at test views given one scale, by a joint Gaussian of all."""
    every = referee.covariance(np.concatenate([views, test]), scale, 0.0)
    count = len(y)
    own = every[:count, :count] + noise * np.eye(count)
    mean = every[count:, :count] @ np.linalg.solve(own, y)
    return mean, every[count:, count:] - every[count:, :count] @ np.linalg.solve(own, every[:count, count:])


@pytest.mark.parametrize("count", [7, 30])
def test_predictions_are_mixtures_of_dense_ones(count):
    views, y = problem(count, 2, 4)
    test, post = problem(3, 2, 4, seed=9)[0], lbnn.Network((5,)).condition_views(views, y, 5.0)
    given = [dense_moments(views, y, test, scale, 0.2) for scale in post.scale.atoms]
    means, covariances = (np.array(each) for each in zip(*given, strict=True))
    weights, pred = post.scale.weights, post.predict(views=test)
    mean = weights @ means
    np.testing.assert_allclose(pred.mean, mean, rtol=1e-8)
    total = np.tensordot(weights, covariances, axes=1) + (weights[:, None] * (means - mean)).T @ (
        means - mean
    )
    np.testing.assert_allclose(pred.variance, np.diagonal(total), rtol=1e-7)
    np.testing.assert_allclose(pred.covariance, total, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(pred.with_noise().variance, np.diagonal(total) + 0.2, rtol=1e-7)
    values = np.array([0.3, -1.0, 2.0])
    deviations = np.sqrt(np.diagonal(covariances, axis1=1, axis2=2) + 0.2)
    expected = special.logsumexp(stats.norm(means, deviations).logpdf(values), b=weights[:, None], axis=0)
    np.testing.assert_allclose(pred.with_noise().pointwise_log_density(values), expected, rtol=1e-7)
    low, high = pred.with_noise().interval(0.9)
    below = weights @ stats.norm(means, deviations).cdf(low)
    np.testing.assert_allclose(below, 0.05, atol=1e-6)
    assert (low < high).all()
    np.testing.assert_allclose(post.predict().mean, post.predict(views=views).mean, rtol=1e-6, atol=1e-9)
    draws = pred.sample(4000, 0)
    np.testing.assert_allclose(draws.mean(axis=0), pred.mean, atol=5 * pred.standard_deviation.max() / 60)
    joint = pred.with_noise().log_density(values)
    terms = [
        stats.multivariate_normal(m, c + 0.2 * np.eye(3)).logpdf(values)
        for m, c in zip(means, covariances, strict=True)
    ]
    assert joint == pytest.approx(special.logsumexp(terms, b=weights), abs=1e-7)
    assert abs(pred.characteristic(np.zeros(3)) - 1) < 1e-12


def test_predictions_after_a_kernel_are_those_after_views():
    views, y = problem(8, 2, 4)
    test, network = problem(3, 2, 4, seed=9)[0], lbnn.Network((5,))
    every = np.concatenate([views, test])
    kernel = np.einsum("ami,bni->ambn", every, every) / 4
    one, other = network.condition_views(views, y, 5.0), network.condition_views(kernel[:8, :, :8], y, 5.0)
    seen = other.predict(cross_gram=kernel[8:, :, :8], test_gram=kernel[8:, :, 8:])
    np.testing.assert_allclose(seen.mean, one.predict(views=test).mean, rtol=1e-6)
    np.testing.assert_allclose(seen.covariance, one.predict(views=test).covariance, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("widths", [(6,), (3, 4), ()])
def test_weights_have_the_moments_of_the_predictions(widths):
    views, y = problem(8, 2, 3)
    post = lbnn.Network(widths).condition_views(views, y, 5.0)
    weights = post.sample_weights(20_000, 1)
    shapes = [3, *widths, 2]
    assert [w.shape[1:] for w in weights] == [(b, a) for a, b in pairwise(shapes)]
    product = weights[0]
    for each in weights[1:]:
        product = each @ product
    test = problem(3, 2, 3, seed=4)[0]
    functions = np.einsum("smi,ami->sa", product, test)
    pred = post.predict(views=test)
    error = functions.std(axis=0) / math.sqrt(400)
    np.testing.assert_allclose(functions.mean(axis=0), pred.mean, atol=4 * error.max())
    np.testing.assert_allclose(functions.var(axis=0), pred.variance, rtol=0.2)


@pytest.mark.parametrize("count", [7, 25])
def test_left_out_observations_are_those_of_refits(count):
    views, y = problem(count, 2, 4)
    network, a = lbnn.Network((8,)), 3
    others = np.arange(count) != a
    scores = network.condition_views(views, y, 5.0).leave_one_out()
    refit = network.condition_views(views[others], y[others], 5.0).predict(views=views[[a]]).with_noise()
    assert scores.mean[a] == pytest.approx(refit.mean[0], abs=0.1 * refit.standard_deviation[0])
    assert scores.variance[a] == pytest.approx(refit.variance[0], rel=0.15)
    assert scores.log_density[a] == pytest.approx(refit.pointwise_log_density(y[[a]])[0], abs=0.1)


@pytest.mark.parametrize("count", [7, 30])
def test_a_saved_posterior_has_the_same_numbers(tmp_path, count):
    views, y = problem(count, 2, 4)
    post = lbnn.Network((5, 4)).condition_views(views, y, 5.0)
    post.save(tmp_path / "posterior.lbnn")
    again = lbnn.ViewPosterior.load(tmp_path / "posterior.lbnn")
    assert again.log_evidence == post.log_evidence
    np.testing.assert_allclose(again.predict(views=views).mean, post.predict(views=views).mean, rtol=1e-10)
    with pytest.raises(ValueError, match="posterior"):
        lbnn.Posterior.load(tmp_path / "posterior.lbnn")


# ---------------------------------------------------------------- the saddle


def test_the_saddle_is_the_limit_of_many_channels():
    """Observations and channels grow together: E L comes near to the saddle, in proportion to 1/width."""
    rng = np.random.default_rng(1)
    differences = []
    for width in (10, 80):
        views = rng.normal(size=(2 * width, 2, 3))
        y = views[:, 0] @ np.array([1.0, -1.0, 0.5]) + 0.3 * rng.normal(size=2 * width)
        network = lbnn.Network((width,), (1.0, 2.0))
        exact = network.condition_views(views, y, 10.0).scale.mean
        saddle = lbnn.asymptotics.view_saddle(network, views, y, 10.0).scale
        differences.append(np.abs(saddle - exact).max() / np.abs(exact).max())
    assert differences[1] < 0.05
    assert differences[1] < differences[0]


def test_the_saddle_beside_the_exact_answer():
    rng = np.random.default_rng(0)
    views = lbnn.views.patches(rng.normal(size=(20, 4)), size=2, stride=2)
    y = views[:, 0].sum(axis=1) + 0.1 * rng.normal(size=20)
    narrow = lbnn.compare(lbnn.Network((4,)), views, y, beta=100.0, X_test=views[:5])
    wide = lbnn.compare(lbnn.Network((64,)), views, y, beta=100.0, X_test=views[:5])
    for quantity in ("scale", "mean", "covariance"):
        assert wide.error("saddle", quantity) < narrow.error("saddle", quantity)
    exact, saddle = narrow.exact.scale.mean, narrow.theories["saddle"]
    relative = np.linalg.norm(saddle.scale - exact) / np.linalg.norm(exact)
    assert narrow.error("saddle", "scale") == pytest.approx(relative)
    difference = saddle.log_evidence - narrow.exact.log_evidence
    assert narrow.error("saddle", "log evidence") == pytest.approx(difference)
    assert narrow.table().splitlines()[1].startswith("saddle")
    assert repr(narrow) == "Comparison(widths=(4,), theories=('saddle',))"
    with pytest.raises(ValueError, match="no theory 'saddle' with quantity 'kernel'"):
        narrow.error("saddle", "kernel")
    with pytest.raises(ValueError, match="one hidden layer"):
        lbnn.compare(lbnn.Network((4, 4)), views, y, beta=100.0)
    with pytest.raises(ValueError, match="two views and more"):
        lbnn.compare(lbnn.Network((4,)), views[:, :1], y, beta=100.0)


def test_comparison_states_the_errors_of_the_exact_side():
    """Errors of mean and variance are of the size of their changes from seed to seed; they were zero."""
    rng = np.random.default_rng(4)
    views = lbnn.views.patches(rng.normal(size=(12, 4)), size=2, stride=2)
    y = views[:, 0].sum(axis=1) + 0.3 * rng.normal(size=12)
    runs = [lbnn.compare(lbnn.Network((4,)), views, y, beta=10.0, seed=seed) for seed in range(12)]
    for place, of in ((1, "mean"), (2, "variance")):
        values = np.array([getattr(run.exact.predict(views=views), of) for run in runs])
        spread = np.linalg.norm(values.std(axis=0, ddof=1)) / np.linalg.norm(values.mean(axis=0))
        stated = np.median([run.rows[place].monte_carlo for run in runs])
        # Quasi-random draws err less than independent ones, by which the error is stated.
        assert 0.9 * spread < stated < 20 * spread


def test_the_saddle_is_a_maximum_and_its_predictions_are_dense():
    views, y = problem(12, 2, 3)
    network = lbnn.Network((7,))
    saddle = lbnn.asymptotics.view_saddle(network, views, y, 4.0)

    def height(scale):
        sign, logs = np.linalg.slogdet(scale)
        assert sign > 0
        data = referee.log_gaussian(y, referee.covariance(views, scale, 0.25))
        return data - 3.5 * (np.trace(scale) - logs - 2)

    assert saddle.log_evidence == pytest.approx(height(saddle.scale), abs=1e-8)
    for change in np.random.default_rng(0).normal(size=(20, 2, 2)):
        assert height(saddle.scale + 1e-3 * (change + change.T)) < saddle.log_evidence
    test = problem(3, 2, 3, seed=8)[0]
    mean, covariance = dense_moments(views, y, test, saddle.scale, 0.25)
    np.testing.assert_allclose(saddle.predict(test).mean, mean, rtol=1e-8)
    np.testing.assert_allclose(saddle.predict(test).covariance, covariance, atol=1e-8)
    with pytest.raises(ValueError, match="one hidden layer"):
        lbnn.asymptotics.view_saddle(lbnn.Network((3, 3)), views, y, 4.0)


def test_the_saddle_is_that_of_deepbays():
    """Its order parameters are L in units of its prior mean; its action is −2/n times our log evidence."""
    stored = json.loads(
        (Path(__file__).parent.parent / "reference" / "deepbays_convolution.json").read_text("utf-8")
    )
    for case in stored["cases"]:
        views = lbnn.views.patches(np.array(case["images"]), size=stored["patch"], stride=stored["patch"])
        first, last = case["precisions"]
        positions = views.shape[1]
        network = lbnn.Network((case["channels"],), (1 / first, 1 / (last * positions)))
        saddle = lbnn.asymptotics.view_saddle(network, views, np.array(case["y"]), 1 / case["temperature"])
        expected = np.array(case["order_parameters"]) / (last * positions)
        np.testing.assert_allclose(saddle.scale, expected, atol=1e-6 * np.abs(expected).max())
        constant = positions - case["examples"] * math.log(2 * math.pi) / case["channels"]
        action = -2 * saddle.log_evidence / case["channels"] + constant
        assert action == pytest.approx(case["action"], rel=1e-9)


# ---------------------------------------------------------------- helpers and bad input


def test_helpers():
    X = RNG.normal(size=(6, 3))
    task = np.array([0, 2, 1, 1, 0, 2])
    views = lbnn.views.tasks(X, task)
    assert views.shape == (6, 3, 3)
    np.testing.assert_array_equal(views[1, 2], X[1])
    assert np.count_nonzero(views.any(axis=2)) == 6
    images = RNG.normal(size=(2, 5, 6))
    patches = lbnn.views.patches(images, size=(2, 3), stride=(1, 3))
    assert patches.shape == (2, 8, 6)
    np.testing.assert_array_equal(patches[1, 3], images[1, 1:3, 3:6].ravel())  # row by row: second row
    colours = RNG.normal(size=(2, 4, 4, 3))
    patches = lbnn.views.patches(colours, size=2, stride=2)
    assert patches.shape == (2, 4, 12)
    assert set(patches[0, 1]) == set(colours[0, :2, 2:].ravel())
    tokens, attention = RNG.normal(size=(2, 4, 3)), RNG.random((5, 4))
    np.testing.assert_allclose(lbnn.views.paths(tokens, attention)[1, 2], attention[2] @ tokens[1])
    every = RNG.random((2, 5, 4))
    np.testing.assert_allclose(lbnn.views.paths(tokens, every)[1, 2], every[1, 2] @ tokens[1])


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda n: n.condition_views(np.ones((4, 2)), np.ones(4), 1.0), "shape \\(p, M, n0\\)"),
        (lambda n: n.condition_views(np.zeros((4, 2, 3)), np.ones(4), 1.0), "not all be zero"),
        (lambda n: n.condition_views(np.full((4, 2, 3), np.nan), np.ones(4), 1.0), "24 NaN"),
        (lambda n: n.condition_views(np.ones((4, 2, 3)), np.ones(3), 1.0), "each of the 4 observations"),
        (lambda n: n.condition_views(np.ones((4, 2, 3)), np.ones(4), math.inf), "0 < beta < inf"),
        (lambda n: n.condition_views(np.ones((4, 2, 3)), np.ones(4), 0.0), "0 < beta < inf"),
        (lambda n: n.condition_views(np.ones((4, 2, 3, 2)), np.ones(4), 1.0), "\\(p, M, p, M\\)"),
        (lambda n: n.condition_views(-np.ones((4, 2, 4, 2)), np.ones(4), 1.0), "positive semi-definite"),
        (lambda n: lbnn.views.gates(np.ones((4, 3)), np.ones((5, 2))), "a row for each of the 4 rows"),
        (lambda n: lbnn.views.tasks(np.ones((4, 3)), [0, 1, 2, -1]), "whole number from 0"),
        (lambda n: lbnn.views.tasks(np.ones((4, 3)), [0, 1, 2, 3], 3), "below the number of tasks"),
        (lambda n: lbnn.views.patches(np.ones((4, 3, 3)), 4), "not be larger than the images"),
        (lambda n: lbnn.views.paths(np.ones((4, 3, 2)), np.ones((2, 5))), "S = 3 tokens"),
    ],
)
def test_bad_input_is_told(call, said):
    with pytest.raises(ValueError, match=said):
        call(lbnn.Network((4,)))


def test_bad_test_points_are_told():
    views, y = problem(8, 2, 4)
    post = lbnn.Network((5,)).condition_views(views, y, 5.0)
    with pytest.raises(ValueError, match=r"\(M, n0\) = \(2, 4\)"):
        post.predict(views=np.ones((3, 3, 4)))
    with pytest.raises(TypeError, match="got kernels"):
        post.predict(cross_gram=np.ones((3, 2, 8, 2)), test_gram=np.ones((3, 2, 3, 2)))
    with pytest.raises(ValueError, match="not available"):
        post.predict().mgf(np.zeros(8))
    one = lbnn.Network((5,)).condition_views(views[:, :1], y, 5.0)
    with pytest.raises(ValueError, match="one view of each point"):
        one.predict(views=views)


def test_rounding_is_measured_where_digits_are_lost():
    """Inputs over six decades and little noise: the error of the fast likelihood is that against mpmath."""
    rng = np.random.default_rng(13)
    count, dimension = int(rng.integers(3, 9)), int(rng.integers(2, 5))
    views = rng.normal(size=(count, 2, dimension)) * 10.0 ** rng.uniform(-3, 3, size=dimension)
    y = rng.normal(size=count)
    noise = float(np.linalg.norm(views) ** 2 / dimension / 10 ** rng.uniform(6, 17))
    y *= math.sqrt(noise) * 10 ** rng.uniform(0, 1)
    y += views[:, 0] @ (rng.normal(size=dimension) / np.abs(views[:, 0]).max(axis=0))
    data = ViewData.of_views(views, y, 1.0)
    likelihood = ViewLikelihood(
        ViewDesign.of_blocks(data.kernel), data.observations, data.residual, count, noise
    )
    root = rng.normal(size=(2, 2))
    scale = root @ root.T
    values, vectors = np.linalg.eigh(scale)
    found = likelihood.log_constant + float(likelihood.log_value(values[None], vectors[None])[0])
    with mpmath.workdps(60):
        psi, own = [mpmath.matrix(views[:, m].tolist()) for m in range(2)], mpmath.mpf(noise)
        covariance = own * mpmath.eye(count)
        for m in range(2):
            for n in range(2):
                covariance += mpmath.mpf(scale[m, n]) * psi[m] * psi[n].T / dimension
        target = mpmath.matrix(y.tolist())
        fit = (target.T * mpmath.lu_solve(covariance, target))[0]
        exact = -(mpmath.log(mpmath.det(covariance)) + fit + count * mpmath.log(2 * mpmath.pi)) / 2
        lost = abs(float(found - exact))
    assert lost > 1e-3
    features = views / math.sqrt(dimension)
    plain = PlainViews(np.einsum("ami,bni->ambn", features, features), y, noise, features)
    if np.finfo(np.longdouble).eps < 1e-18:
        assert plain.rounding(scale, found) == pytest.approx(lost, rel=0.1)
    check = IntegrandCheck(plain)
    assert "rounding changes the log likelihood" in check.scales(scale[None], np.array([found]), lost / 3)
    fine = np.array([[1.0, 0.2], [0.2, 1.0]])
    quiet = PlainViews(plain.kernel, y, float(plain.kernel.max()))
    assert quiet.rounding(fine, quiet.log_value(fine)[0]) == 0.0


# The evidence may lose two digits behind the point here, as the kernels of linear algebra have it; the
# warning then says so.
@pytest.mark.filterwarnings("ignore:rounding changes the log likelihood:lbnn.AccuracyWarning")
def test_variances_at_little_noise_are_those_of_least_squares():
    """A difference from the prior's variance would be rounding; a kernel has no more digits, and says so."""
    rng = np.random.default_rng(3)
    x, beta = rng.normal(size=(30, 2)), 1e14
    views = lbnn.views.gates(x, np.stack([x[:, 0] > 0, x[:, 0] <= 0], axis=1).astype(float))
    flat = views.reshape(30, -1)
    y = flat @ rng.normal(size=4) + rng.normal(size=30) / math.sqrt(beta)
    expected = flat[:3] @ np.linalg.inv(flat.T @ flat) @ flat[:3].T / beta
    network = lbnn.Network(())
    law = network.condition_views(views, y, beta).predict(views=views[:3])
    assert np.allclose(law.variance, np.diagonal(expected), rtol=1e-6)
    assert np.allclose(law.covariance, expected, rtol=0, atol=1e-6 * expected.max())
    kernel = np.einsum("ami,bni->ambn", views, views) / 2
    post = network.condition_views(kernel, y, beta)
    with pytest.warns(lbnn.AccuracyWarning, match="rounding of the kernel between views"):
        post.predict(cross_gram=kernel[:3], test_gram=kernel[:3, :, :3])
