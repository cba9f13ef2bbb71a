"""Invariances that hold for every problem, on random problems; and that no answer is ever NaN."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lbnn
from tests.helpers.problems import Problem, make_problem, random_rotation

often = settings(
    max_examples=25, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
seeds = st.integers(0, 10**6)
widths_of = st.lists(st.sampled_from([1, 2, 3, 5, 10, 50, 1000]), max_size=4).map(tuple)
hidden_widths = st.lists(st.sampled_from([1, 2, 3, 5, 10, 50, 1000]), min_size=1, max_size=4).map(tuple)
betas = st.sampled_from([0.0, 1e-3, 0.7, 30.0, 1e5])


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    """One output; more examples than inputs or fewer."""
    p, inputs = draw(st.integers(1, 6)), draw(st.integers(1, 6))
    return make_problem(p, inputs, seed=draw(seeds), points=2, signal=draw(st.sampled_from([0.3, 1.0, 5.0])))


def assert_same_posterior(one: lbnn.Posterior, other: lbnn.Posterior) -> None:
    """Evidence and law of the scale."""
    assert other.log_evidence == pytest.approx(one.log_evidence, rel=1e-10, abs=1e-10)
    assert other.scale.mean == pytest.approx(one.scale.mean, rel=1e-9, abs=0)


def assert_same_prediction(one: lbnn.Predictive, other: lbnn.Predictive) -> None:
    """Mean and covariance, relative to the size of the covariance."""
    size = float(np.abs(one.covariance).max())
    np.testing.assert_allclose(other.mean, one.mean, rtol=1e-8, atol=1e-9 * math.sqrt(size))
    np.testing.assert_allclose(other.covariance, one.covariance, rtol=1e-8, atol=1e-9 * size)


# ---------------------------------------------------------------- invariances


@often
@given(data=problems(), widths=widths_of, beta=betas, seed=seeds)
def test_rotating_the_inputs_changes_nothing(
    data: Problem, widths: tuple[int, ...], beta: float, seed: int
) -> None:
    """X → XQ with an orthogonal Q, training and test alike."""
    rotation, network = random_rotation(data.X.shape[1], seed), lbnn.Network(widths)
    one = network.condition(data.X, data.Y, beta)
    other = network.condition(data.X @ rotation, data.Y, beta)
    assert_same_posterior(one, other)
    assert_same_prediction(one.predict(data.X_test), other.predict(data.X_test @ rotation))


@often
@given(data=problems(), widths=widths_of, beta=betas, seed=seeds)
def test_order_of_examples_does_not_matter(
    data: Problem, widths: tuple[int, ...], beta: float, seed: int
) -> None:
    """Permuting (X, y) permutes the training kernel and changes nothing else."""
    order = np.random.default_rng(seed).permutation(len(data.X))
    network = lbnn.Network(widths)
    one, other = (
        network.condition(data.X, data.Y, beta),
        network.condition(data.X[order], data.Y[order], beta),
    )
    assert_same_posterior(one, other)
    assert_same_prediction(one.predict(data.X_test), other.predict(data.X_test))
    if widths:
        expected = one.feature_kernel()[np.ix_(order, order)]
        np.testing.assert_allclose(other.feature_kernel(), expected, rtol=1e-9, atol=1e-10)


@often
@given(data=problems(), widths=widths_of, beta=betas, factor=st.sampled_from([1e-3, 0.5, 7.0, 1e3]))
def test_scaling_inputs_against_the_first_prior_variance(
    data: Problem, widths: tuple[int, ...], beta: float, factor: float
) -> None:
    """X → cX with σ_1² → σ_1²/c²."""
    ones = [1.0] * len(widths)
    one = lbnn.Network(widths).condition(data.X, data.Y, beta)
    other = lbnn.Network(widths, (factor**-2, *ones)).condition(factor * data.X, data.Y, beta)
    assert_same_posterior(one, other)
    assert_same_prediction(one.predict(data.X_test), other.predict(factor * data.X_test))


@often
@given(data=problems(), widths=hidden_widths, beta=betas, seed=seeds)
def test_order_of_widths_does_not_matter_for_the_function(
    data: Problem, widths: tuple[int, ...], beta: float, seed: int
) -> None:
    """λ is a product of independent factors, one per width: evidence, λ and predictions are symmetric."""
    shuffled = tuple(int(n) for n in np.random.default_rng(seed).permutation(widths))
    one = lbnn.Network(widths).condition(data.X, data.Y, beta)
    other = lbnn.Network(shuffled).condition(data.X, data.Y, beta)
    assert_same_posterior(one, other)
    assert_same_prediction(one.predict(data.X_test), other.predict(data.X_test))


@often
@given(data=problems(), widths=widths_of, beta=betas)
def test_gram_matrix_is_as_good_as_inputs(data: Problem, widths: tuple[int, ...], beta: float) -> None:
    """condition_gram(XXᵀ/n0) is condition(X)."""
    network = lbnn.Network(widths)
    one, other = network.condition(data.X, data.Y, beta), network.condition_gram(data.gram, data.Y, beta)
    assert_same_posterior(one, other)
    assert_same_prediction(
        one.predict(data.X_test), other.predict(cross_gram=data.cross.T, test_gram=data.test_gram)
    )


@often
@given(data=problems(), widths=widths_of, beta=st.sampled_from([0.7, 30.0]))
def test_repeating_the_data_is_doubling_beta(data: Problem, widths: tuple[int, ...], beta: float) -> None:
    """Every example twice: the posterior of β doubled, whatever the rank."""
    network = lbnn.Network(widths)
    twice = network.condition(np.concatenate([data.X] * 2), np.concatenate([data.Y] * 2), beta)
    double = network.condition(data.X, data.Y, 2 * beta)
    assert twice.scale.mean == pytest.approx(double.scale.mean, rel=1e-9, abs=0)
    assert_same_prediction(double.predict(data.X_test), twice.predict(data.X_test))
    jacobian = 0.5 * len(data.X) * math.log(beta / (4 * math.pi))
    assert twice.log_evidence == pytest.approx(double.log_evidence + jacobian, rel=1e-10, abs=1e-10)


@often
@given(seed=seeds, outputs=st.integers(1, 4), beta=betas, variance=st.sampled_from([0.2, 1.0, 30.0]))
def test_rotating_the_outputs_at_depth_one(seed: int, outputs: int, beta: float, variance: float) -> None:
    """Y → YO with an orthogonal O rotates the predictions and leaves the evidence."""
    data, rotation = make_problem(4, 6, outputs, seed=seed, points=2), random_rotation(outputs, seed)
    network = lbnn.Network((), (variance,))
    one, other = network.condition(data.X, data.Y, beta), network.condition(data.X, data.Y @ rotation, beta)
    assert other.log_evidence == pytest.approx(one.log_evidence, rel=1e-11)
    before, after = one.predict(data.X_test), other.predict(data.X_test)
    np.testing.assert_allclose(after.mean, before.mean @ rotation, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(after.covariance, before.covariance, rtol=1e-10, atol=1e-12)


@often
@given(data=problems(), widths=widths_of, beta=betas)
def test_conditioning_in_two_steps(data: Problem, widths: tuple[int, ...], beta: float) -> None:
    """log p(y) = log p(y_1) + log p(y_2 | y_1), the second by the predictive of observations."""
    if beta == 0 or len(data.X) < 2:
        return
    network, first = lbnn.Network(widths), len(data.X) // 2
    whole, part = (network.condition(data.X[:n], data.Y[:n], beta) for n in (len(data.X), first))
    rest = part.predict(data.X[first:]).with_noise().log_density(data.Y[first:])
    assert part.log_evidence + rest == pytest.approx(whole.log_evidence, rel=1e-9, abs=1e-9)


# ---------------------------------------------------------------- no NaN


@st.composite
def wild_problems(draw: st.DrawFn) -> Problem:
    """All scales, repeated examples, zero inputs and zero targets."""
    data = draw(problems())
    X = data.X * 10.0 ** draw(st.integers(-4, 4))
    Y = data.Y * draw(st.sampled_from([0.0, 1e-4, 1.0, 1e4]))
    kind = draw(st.sampled_from(["plain", "repeated", "zero example", "zero inputs"]))
    if kind == "repeated":
        X, Y = np.concatenate([X, X]), np.concatenate([Y, Y])
    elif kind == "zero example":
        X[0] = 0.0
    elif kind == "zero inputs":
        X = 0.0 * X
    return Problem(X, Y, np.concatenate([data.X_test, X[:1]]))


@st.composite
def wild_networks(draw: st.DrawFn) -> lbnn.Network:
    """Up to thirteen layers, from bottlenecks of one unit to a million units."""
    widths = draw(st.lists(st.sampled_from([1, 2, 3, 10, 1000, 10**6]), max_size=12))
    return lbnn.Network(widths, (draw(st.sampled_from([1e-3, 1.0, 1e3])), *[1.0] * len(widths)))


def posterior_if_any(network: lbnn.Network, data: Problem, beta: float) -> lbnn.Posterior | None:
    """None where the zero-temperature posterior does not exist."""
    try:
        return network.condition(data.X, data.Y, beta)
    except ValueError as error:
        assert "zero temperature" in str(error)  # noqa: PT017
        return None


def density_if_any(pred: lbnn.Predictive, point: np.ndarray) -> float:
    """Zero where the point is so far out that the scales which matter there lie closer than doubles do."""
    try:
        return pred.log_density(point)
    except ValueError as error:
        assert "too far from what the network expects" in str(error)  # noqa: PT017
        return 0.0


def test_density_where_doubles_end_is_refused_with_the_reason() -> None:
    """Noise of 10⁻⁶ and a point 10³ away: a log density of about −10¹⁸, found by Hypothesis."""
    network = lbnn.Network((1,), prior_variances=(0.001, 1.0))
    pred = network.condition([[0.12573022]], [-1567.44077472], 1e12).predict([[0.12573022]]).with_noise()
    assert np.isfinite(pred.log_density(pred.mean))
    with pytest.raises(ValueError, match="rescale the data"):
        pred.log_density(np.zeros(1))


wild = given(
    network=wild_networks(), data=wild_problems(), beta=st.sampled_from([0.0, 1e-8, 0.7, 1e4, 1e12, math.inf])
)


@settings(often, max_examples=120)
@wild
def test_answers_are_finite(network: lbnn.Network, data: Problem, beta: float) -> None:
    """Every answer is a finite number, unless a documented rule says inf."""
    post = posterior_if_any(network, data, beta)
    if post is None:
        return
    pred, J = post.predict(data.X_test), np.array([0.1, -0.2, 0.3])
    numbers = [post.scale.mean, pred.mean, pred.variance, pred.covariance, pred.sample(3, 0)]
    numbers += [pred.characteristic(J)]
    numbers += [post.feature_kernel(data.X_test)] if network.widths else []
    numbers += [density_if_any(pred.with_noise(), J)] if 0 < beta < math.inf else []
    for number in numbers:
        assert np.isfinite(number).all()
    assert (pred.variance >= 0).all()
    assert math.isfinite(post.log_evidence) or (beta == 0 and post.log_evidence == -math.inf)
    assert post.scale.inverse_mean > 0


@settings(often, max_examples=60)
@wild
def test_generating_function_is_a_number_or_infinite(
    network: lbnn.Network, data: Problem, beta: float
) -> None:
    """log E exp(JᵀF) ≥ Jᵀ E F (Jensen), possibly inf."""
    post = posterior_if_any(network, data, beta)
    if post is None:
        return
    pred, J = post.predict(data.X_test), np.array([0.1, -0.2, 0.3])
    linear = float(J @ pred.mean)
    assert pred.cgf(J) >= linear - 1e-9 * (1 + abs(linear))


@settings(often, max_examples=60)
@wild
def test_quantiles_are_finite_and_in_order(network: lbnn.Network, data: Problem, beta: float) -> None:
    """Quantiles grow with their level, strictly where there is variance."""
    post = posterior_if_any(network, data, beta)
    if post is None:
        return
    pred = post.predict(data.X_test)
    quantiles = pred.quantile([1e-6, 0.1, 0.5, 0.8, 1 - 1e-6])
    assert np.isfinite(quantiles).all()
    steps = np.diff(quantiles, axis=0)
    assert (steps >= 0).all()
    assert (steps[:, pred.variance > 0] > 0).all()
