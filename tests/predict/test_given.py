"""Given some outputs, the others: against Gaussian conditioning and against brute force."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import lbnn
from lbnn.predict.quantile import mixture_quantile
from tests.helpers.predictives import affine

RNG = np.random.default_rng(0)
X, NEW = RNG.normal(size=(30, 8)), RNG.normal(size=(4, 8))
MIX = RNG.normal(size=(3, 3))
Y = X[:, :3] @ RNG.normal(size=(3, 3)) + RNG.normal(size=(30, 3)) @ MIX
PARTLY = np.array([[np.nan, 0.4, np.nan], [1.0, np.nan, -0.5], [np.nan] * 3, [0.1, 0.2, 0.3]])


@pytest.fixture(scope="module", params=["coupled", "independent"])
def law(request):
    network = lbnn.Network(widths=(6,))
    return network.condition(X, Y, beta=1.0, noise=request.param).predict(NEW).with_noise()


def test_one_atom_is_a_gaussian_given_part_of_it():
    law = lbnn.Network(widths=()).condition(X, Y, beta=1.0).predict(NEW).with_noise()
    mixed = affine(law, MIX, np.ones(3), 0.1)
    told = mixed.given(PARTLY)
    mean, covariance = mixed.mean, mixed.output_covariance
    values = mean + np.array([0.3, -1.0, 2.0])
    log_density = told.pointwise_log_density(values)
    for row, (known, unknown) in enumerate([([1], [0, 2]), ([0, 2], [1])]):
        gain = covariance[row][np.ix_(unknown, known)] @ np.linalg.inv(covariance[row][np.ix_(known, known)])
        expected = mean[row, unknown] + gain @ (PARTLY[row, known] - mean[row, known])
        rest = covariance[row][np.ix_(unknown, unknown)] - gain @ covariance[row][np.ix_(known, unknown)]
        np.testing.assert_allclose(told.mean[row, unknown], expected, rtol=1e-10)
        np.testing.assert_allclose(told.output_covariance[row][np.ix_(unknown, unknown)], rest, atol=1e-10)
        density = stats.multivariate_normal(expected, rest).logpdf(values[row, unknown])
        assert log_density[row] == pytest.approx(density, rel=1e-8)


def test_known_values_stay_and_nothing_known_changes_nothing(law):
    told = law.given(PARTLY)
    known = ~np.isnan(PARTLY)
    np.testing.assert_array_equal(told.mean[known], PARTLY[known])
    assert (told.variance[known] == 0).all()
    np.testing.assert_allclose(told.mean[2], law.mean[2], rtol=1e-8)
    np.testing.assert_allclose(told.output_covariance[2], law.output_covariance[2], rtol=1e-8)
    low, high = told.interval(0.8)
    assert ((low <= told.mean) & (told.mean <= high)).all()
    np.testing.assert_array_equal(low[3], PARTLY[3])


def test_the_density_of_the_rest_is_a_ratio_of_densities(law):
    """p(y_U | y_K) = p(y_U, y_K)/p(y_K), the latter by integrating the former over a grid."""
    told = law.given(PARTLY)
    values = np.linspace(-60, 60, 4001)
    full = np.tile(PARTLY[1], (len(values), 1))
    full[:, 1] = values
    components = law.gaussians(1)
    log_terms = components[0][:, None] + np.stack(
        [stats.multivariate_normal(m, c).logpdf(full) for m, c in zip(*components[1:], strict=True)]
    )
    joint = np.exp(log_terms).sum(axis=0)
    total = joint.sum() * (values[1] - values[0])
    at = np.array([[0.0] * 3, [1.0, 2.0, -0.5], [0.0] * 3, [0.1, 0.2, 0.3]])
    expected = np.log(np.interp(2.0, values, joint) / total)
    assert told.pointwise_log_density(at)[1] == pytest.approx(expected, abs=1e-3)
    mean = (values * joint).sum() / joint.sum()
    assert told.mean[1, 1] == pytest.approx(mean, rel=1e-4)


def test_draws_follow_the_conditional_law(law):
    told = law.given(PARTLY)
    draws = told.sample(4000, 1)
    known = ~np.isnan(PARTLY)
    assert (draws[:, known] == PARTLY[known]).all()
    error = told.standard_deviation / np.sqrt(4000)
    assert (np.abs(draws.mean(axis=0) - told.mean)[~known] < 4.5 * error[~known]).all()


@pytest.mark.slow
def test_data_of_the_model_are_covered():
    """Data drawn from the prior: ranks of the second output given the first are uniform, over 150 sets."""
    rng, network, ranks = np.random.default_rng(2), lbnn.Network(widths=(3,)), []
    for number in range(150):
        scale = network.scale_prior(2).sample(1, rng)[0]
        inputs = rng.normal(size=(9, 4))
        weights = rng.normal(size=(4, 2)) / 2
        outputs = (inputs @ weights + rng.normal(size=(9, 2)) / 2) @ np.linalg.cholesky(scale).T
        posterior = network.condition(
            inputs[:8], outputs[:8], beta=4.0, noise="coupled", target_error=0.1, seed=number
        )
        told = posterior.predict(inputs[8:]).with_noise().given([[outputs[8, 0], np.nan]])
        ranks.append(float((told.sample(500, number)[:, 0, 1] < outputs[8, 1]).mean()))
    assert stats.kstest(ranks, "uniform").pvalue > 0.01


def test_models_are_weighted_by_what_is_known():
    """Two models of one point: the one under which the known value is likely takes over."""
    posterior = lbnn.Network(widths=()).condition(X, Y, beta=1.0).predict(NEW[:1]).with_noise()
    near, far = (affine(posterior, np.eye(3), np.full(3, shift)) for shift in (0.0, 50.0))
    both = lbnn.Predictive.average((near, far), np.array([0.5, 0.5]))
    told = both.given(near.mean + np.array([[0.0, np.nan, np.nan]]))
    np.testing.assert_allclose(told.mean[0, 1:], near.mean[0, 1:], atol=1e-6)


def test_one_output_after_the_other_is_both_at_once(law):
    """Conditioning twice is conditioning on both values; a value cannot be changed."""
    first, second = np.full((4, 3), np.nan), np.full((4, 3), np.nan)
    first[:, 1], second[:, 0] = 0.4, -0.3
    both = np.where(np.isnan(first), second, first)
    step, once = law.given(first).given(second), law.given(both)
    np.testing.assert_allclose(step.mean, once.mean, rtol=1e-12)
    np.testing.assert_allclose(step.output_covariance, once.output_covariance, rtol=1e-12, atol=1e-14)
    log_weights, means, covariances = law.given(first).gaussians(2)
    weights = np.exp(log_weights)
    np.testing.assert_allclose(weights @ means, law.given(first).mean[2], rtol=1e-12)
    within = np.tensordot(weights, covariances, axes=1)
    spread = means - weights @ means
    total = within + np.einsum("s,sj,sk->jk", weights, spread, spread)
    np.testing.assert_allclose(total, law.given(first).output_covariance[2], rtol=1e-10, atol=1e-12)
    with pytest.raises(ValueError, match="another value, got 4 values that differ"):
        law.given(first).given(np.where(np.isnan(first), np.nan, 0.5))


def test_wrong_values_are_named(law):
    with pytest.raises(ValueError, match="shaped like the mean"):
        law.given([1.0, np.nan])
    with pytest.raises(ValueError, match="finite"):
        law.given(np.full((4, 3), np.inf))
    with pytest.raises(ValueError, match="one by one"):
        law.given(PARTLY).covariance  # noqa: B018
    with pytest.raises(ValueError, match=r"with_noise\(\)"):
        lbnn.Network(widths=(4,)).condition(X, Y, 1.0).predict(NEW).given(PARTLY).with_noise()


def test_generating_functions_given_an_output_are_infinite_where_they_diverge():
    """Large scales along the unknown output alone: the known one does not exclude them."""
    rng = np.random.default_rng(0)
    X, Y, point = rng.normal(size=(10, 20)), rng.normal(size=(10, 2)), rng.normal(size=(1, 20))
    for widths, source, finite in [((30, 30), 0.1, False), ((3,), 3.0, False), ((30,), 1.0, True)]:
        law = lbnn.Network(widths).condition(X, Y, beta=4.0).predict(point).with_noise()
        known = law.given([[0.3, np.nan]])
        assert np.isfinite(known.cgf([[source, source]])) == finite
        assert np.isfinite(law.cgf([[0.0, source]])) == finite
        assert known.cgf([[source, 0.0]]) == pytest.approx(0.3 * source)  # the known output alone


def test_intervals_where_the_known_outputs_determine_the_others():
    """Behind one unit without noise: every draw of the scale says where the others are, and no more."""
    post = lbnn.Network((1,)).condition(X[:6], Y[:6], 2.0, seed=1)
    told = post.predict(NEW[:2]).given(np.array([[0.5, np.nan, np.nan], [0.3, np.nan, np.nan]]))
    ends = np.stack(told.interval(0.9))
    for row, point in enumerate(told._point_laws()):
        assert point.deviations.max() < 1e-3
        for column in range(2):
            order = np.argsort(point.means[:, column])
            reached = np.searchsorted(np.cumsum(point.weights[order]), [0.05, 0.95])
            expected = point.means[order[reached], column]
            np.testing.assert_allclose(ends[:, row, column + 1], expected, atol=1e-3)
            assert expected[1] - expected[0] > 0.1


@pytest.mark.parametrize(("level", "point"), [(0.1, -2.0), (0.4, 1.0), (0.95, 7.0)])
def test_quantiles_of_points_and_gaussians(level, point):
    """Of points the one at which the distribution function reaches the level."""
    weights, means = np.array([0.2, 0.3, 0.5]), np.array([[1.0, 5.0], [-2.0, 5.0], [7.0, 5.0]])
    points = mixture_quantile(level, weights, means, np.zeros((3, 2)))
    np.testing.assert_allclose(points, [point, 5.0], rtol=1e-10)
    mixed = mixture_quantile(level, weights, means[:, :1], np.array([[0.0], [0.0], [2.0]]))[0]
    below, above = (
        0.2 * (at >= 1) + 0.3 * (at >= -2) + 0.5 * stats.norm.cdf((at - 7) / 2)
        for at in (mixed - 1e-9, mixed + 1e-9)
    )
    assert below <= level <= above
