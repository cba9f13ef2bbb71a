"""Leave-one-out scores against refits: exact ones, a lattice over L, dense kriging with a flat intercept."""

from __future__ import annotations

import math
import tracemalloc
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats

import lbnn
from lbnn.cross_validation import LeaveOneOut, left_out_scores
from lbnn.cross_validation import refits as refits_module
from lbnn.cross_validation.examples import Examples
from lbnn.engines.pareto import pareto_scale, pareto_smoothed
from tests.helpers.lattice import AtomMixture, TwoOutputLattice
from tests.helpers.problems import Array, Problem, make_problem, random_rotation
from tests.referees.dense_line import grid, log_prior
from tests.referees.statistics import assert_agrees


def without(data: Problem, a: int) -> Problem:
    """The data without example a, which becomes the test point."""
    return Problem(np.delete(data.X, a, axis=0), np.delete(data.Y, a, axis=0), data.X[a : a + 1])


def refits(network: lbnn.Network, data: Problem, beta: float) -> tuple[Array, Array, Array]:
    """Mean, variance and log evidence of the left-out posteriors, one by one."""
    means, variances, evidences = [], [], []
    for a in range(len(data.X)):
        left = without(data, a)
        posterior = network.condition(left.X, left.Y, beta)
        predictive = posterior.predict(left.X_test).with_noise()
        means.append(predictive.mean[0])
        variances.append(predictive.variance[0])
        evidences.append(posterior.log_evidence)
    return np.array(means), np.array(variances), np.array(evidences)


def close(actual: Array, expected: Array, tolerance: float, scale: float | None = None) -> None:
    """Relative to the largest entry, which for residuals is the scale of rounding."""
    np.testing.assert_allclose(
        actual, expected, rtol=tolerance, atol=tolerance * (scale or np.abs(expected).max())
    )


# ---------------------------------------------------------------- one output: exact refits


@pytest.mark.parametrize("widths", [(), (5,), (3, 3), (1, 1), (10,) * 9], ids=str)
@pytest.mark.parametrize(
    ("examples", "inputs", "beta"),
    [(9, 14, beta) for beta in (0.01, 2.0, 1e4, math.inf)] + [(14, 9, beta) for beta in (0.01, 2.0, 1e4)],
)
def test_one_output_equals_refits(widths: tuple[int, ...], beta: float, examples: int, inputs: int) -> None:
    data, network = make_problem(examples, inputs, seed=1), lbnn.Network(widths)
    posterior = network.condition(data.X, data.Y, beta)
    scores = left_out_scores(posterior, data.Y)
    mean, variance, evidence = refits(network, data, beta)
    close(scores.mean, mean, 1e-11)
    np.testing.assert_allclose(scores.variance, variance, rtol=1e-10)
    rounding = 1e-13 * (1 + abs(posterior.log_evidence))  # of the difference of two evidences
    np.testing.assert_allclose(
        scores.log_density, posterior.log_evidence - evidence, rtol=1e-11, atol=max(rounding, 1e-12)
    )
    assert scores.ok
    assert (scores.pareto_k == -math.inf).all()
    assert (scores.log_density_error == 0).all()


def test_prior_variances_and_gram_matrices_enter() -> None:
    data, network = make_problem(7, 10, seed=2), lbnn.Network((4, 4), prior_variances=(0.3, 2.0, 1.5))
    mean, variance, _ = refits(network, data, 3.0)
    for posterior in (
        network.condition(data.X, data.Y, 3.0),
        network.condition_gram(data.gram, data.Y, 3.0),
    ):
        scores = left_out_scores(posterior, data.Y)
        close(scores.mean, mean, 1e-11)
        np.testing.assert_allclose(scores.variance, variance, rtol=1e-11)


def test_depth_one_in_closed_form() -> None:
    """P = (G + τ)⁻¹ from a dense inverse: residual (PY)_a/P_aa, variance 1/P_aa, also at deficient rank."""
    data = make_problem(12, 5, 3, seed=3)
    scores = left_out_scores(lbnn.Network(()).condition(data.X, data.Y, 4.0), data.Y)
    inverse = np.linalg.inv(data.gram + 0.25 * np.eye(12))
    variance = 1 / np.diagonal(inverse)
    residual = inverse @ data.Y * variance[:, None]
    close(scores.mean, data.Y - residual, 1e-12)
    np.testing.assert_allclose(scores.variance, np.repeat(variance[:, None], 3, axis=1), rtol=1e-12)
    expected = stats.norm.logpdf(residual, scale=np.sqrt(variance)[:, None]).sum(axis=1)
    np.testing.assert_allclose(scores.log_density, expected, rtol=1e-12)
    assert scores.elpd == pytest.approx(expected.sum())
    assert scores.elpd_error == pytest.approx(math.sqrt(12 * expected.var(ddof=1)))


def test_small_eigenvalues_keep_their_directions() -> None:
    """A squared-exponential kernel, eigenvalues down to 1e-13: inputs, low noise, against a dense inverse."""
    points = np.linspace(0, 1, 12)
    gram = np.exp(-0.5 * (points[:, None] - points) ** 2 / 0.3**2)
    values, vectors = np.linalg.eigh(gram)
    X = math.sqrt(12) * vectors * np.sqrt(np.maximum(values, 0))
    y, noise = np.sin(5 * points), 1e-8
    scores = left_out_scores(lbnn.Network(()).condition(X, y, 1 / noise), y)
    inverse = np.linalg.inv(X @ X.T / 12 + noise * np.eye(12))
    np.testing.assert_allclose(scores.variance, 1 / np.diagonal(inverse), rtol=1e-6)
    close(y - scores.mean, inverse @ y / np.diagonal(inverse), 1e-6)


@pytest.mark.parametrize("widths", [(3,), (5,), (2, 2)], ids=str)
def test_improbable_examples_are_refitted(widths: tuple[int, ...]) -> None:
    """Log densities of −1e12 hide in their rounding how an example depends on the scale.

    One input, so that given λ its weight has the precision 1/λ + β Σx²: against a dense grid over λ.
    """
    x = np.array([0.753563837509362, 1.1378812589177814, 0.3492265781230293])
    y, noise = np.array([-32357.633209774922, -48612.76216156281, -15100.088548267757]), 1 / 8.8e7
    scores = left_out_scores(lbnn.Network(widths).condition(x[:, None], y, 1 / noise), y)
    for a in range(3):
        kept = np.arange(3) != a
        gram, fit = (x[kept] ** 2).sum(), (x[kept] * y[kept]).sum()

        def log_posterior(u: Any, gram: float = gram, fit: float = fit) -> Any:
            variance = noise + gram * np.exp(u)
            return log_prior(u, widths, 1.0) - 0.5 * (np.log(variance) + fit**2 / gram / variance)

        u, values = grid(log_posterior)
        weights = np.exp(values - values.max()) / np.exp(values - values.max()).sum()
        spread = 1 / (np.exp(-u) + gram / noise)
        means, variances = x[a] * fit / noise * spread, x[a] ** 2 * spread + noise
        mean = (weights * means).sum()
        assert scores.mean[a] == pytest.approx(float(mean), rel=1e-13)
        variance = (weights * (variances + (means - mean) ** 2)).sum()
        assert scores.variance[a] == pytest.approx(float(variance), rel=1e-9)


def test_the_bound_of_rounding_decides() -> None:
    """Ordinary data need no refit; the data above, whose differences lose all but five digits, do."""
    data = make_problem(12, 20, seed=4)
    posterior = lbnn.Network((5,)).condition(data.X, data.Y, 10.0)
    examples = Examples.of(posterior.spectrum, None, data.Y[:, None], False)
    assert not refits_module.lost_digits(posterior, examples, posterior._left_out_draws).any()
    X = np.array([[0.753563837509362], [1.1378812589177814], [0.3492265781230293]])
    y = np.array([-32357.633209774922, -48612.76216156281, -15100.088548267757])
    posterior = lbnn.Network((3,)).condition(X, y, 8.8e7)
    examples = Examples.of(posterior.spectrum, None, y[:, None], False)
    assert refits_module.lost_digits(posterior, examples, posterior._left_out_draws).any()


@pytest.mark.parametrize(("centred", "gram"), [(False, False), (False, True), (True, False), (True, True)])
def test_every_refit_gives_the_same_scores(
    monkeypatch: pytest.MonkeyPatch, centred: bool, gram: bool
) -> None:
    """Refits of all examples against scores from the posterior, for inputs, Gram matrices and contrasts."""
    for outputs, widths in ((1, (6,)), (2, ())):
        data = make_problem(9, 14, outputs, seed=12)
        data = Problem(data.X + 0.5, data.Y + 3.0, data.X_test)
        if centred:
            posterior = centred_posterior(data, widths, 5.0, gram)
        else:
            network = lbnn.Network(widths, (1.7,) + (1.0,) * len(widths))
            posterior = (
                network.condition_gram(data.gram, data.Y, 5.0)
                if gram
                else network.condition(data.X, data.Y, 5.0)
            )
        monkeypatch.undo()
        usual = left_out_scores(posterior, data.Y, centred=centred)
        monkeypatch.setattr(refits_module, "_LOST", 0.0)
        anew = left_out_scores(posterior, data.Y, centred=centred)
        for name in ("mean", "variance", "log_density"):
            np.testing.assert_allclose(getattr(anew, name), getattr(usual, name), rtol=1e-9, err_msg=name)


def test_scores_in_little_memory() -> None:
    """20,000 examples of 20 inputs: a few times the input, not dozens."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(20_000, 20))
    y = X[:, 0] + rng.normal(size=20_000)
    posterior = lbnn.Network((10,)).condition(X, y, 1.0)
    tracemalloc.start()
    left_out_scores(posterior, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 12 * X.nbytes


@pytest.mark.parametrize("outlier", [30.0, 3000.0])
def test_outlier_gets_nodes_of_its_own(outlier: float) -> None:
    """Without the outlier the scale is elsewhere: the posterior's nodes miss it, and scores are exact yet."""
    data, network = make_problem(12, 20, seed=4), lbnn.Network((8,) * 4)
    y = data.Y.copy()
    y[5] += outlier
    shifted = Problem(data.X, y, data.X_test)
    posterior = network.condition(shifted.X, y, 100.0)
    draws = posterior._left_out_draws
    examples = Examples.of(posterior.spectrum, None, y[:, None], False)
    missed = refits_module.unresolved_examples(examples, draws, draws.line)
    assert missed[5]
    scores = left_out_scores(posterior, y)
    mean, variance, evidence = refits(network, shifted, 100.0)
    close(scores.mean, mean, 1e-9)
    np.testing.assert_allclose(scores.variance, variance, rtol=1e-9)
    np.testing.assert_allclose(scores.log_density, posterior.log_evidence - evidence, rtol=1e-9)


@settings(max_examples=25, deadline=None)
@given(
    st.integers(2, 9),
    st.integers(1, 9),
    st.sampled_from([(), (2,), (6, 3)]),
    st.floats(-3, 5),
    st.integers(0, 10**6),
)
def test_scores_factorise_pairs(p: int, n0: int, widths: tuple[int, ...], log_beta: float, seed: int) -> None:
    """log p(Y) = log p(Y_{−a}) + log p(y_a | Y_{−a}), for any shape of data; and order does not matter."""
    data, network, beta = make_problem(p, n0, seed=seed), lbnn.Network(widths), 10.0**log_beta
    posterior = network.condition(data.X, data.Y, beta)
    scores = left_out_scores(posterior, data.Y)
    left = without(data, 0)
    expected = posterior.log_evidence - network.condition(left.X, left.Y, beta).log_evidence
    size = abs(posterior.log_evidence)
    assert scores.log_density[0] == pytest.approx(expected, rel=1e-8, abs=1e-12 * size + 1e-10)
    backwards = left_out_scores(network.condition(data.X[::-1], data.Y[::-1], beta), data.Y[::-1])
    np.testing.assert_allclose(backwards.log_density[::-1], scores.log_density, rtol=1e-7, atol=1e-8)


def test_one_example() -> None:
    """Nothing is left but the prior."""
    X, y = np.array([[1.0, 2.0]]), np.array([0.7])
    network = lbnn.Network((3,))
    scores = left_out_scores(network.condition(X, y, 2.0), y)
    assert scores.mean[0] == pytest.approx(0, abs=1e-12)
    assert scores.variance[0] == pytest.approx(2.5 + 0.5)
    assert scores.log_density[0] == pytest.approx(network.condition(X, y, 2.0).log_evidence)
    assert scores.elpd_error == math.inf


def test_inputs_that_say_nothing() -> None:
    """All inputs zero: independent noise."""
    y = np.array([0.3, -1.0, 2.0])
    scores = left_out_scores(lbnn.Network((3,)).condition(np.zeros((3, 2)), y, 4.0), y)
    np.testing.assert_allclose(scores.log_density, stats.norm.logpdf(y, scale=0.5), rtol=1e-12)
    np.testing.assert_allclose(scores.mean, 0, atol=1e-12)


# ---------------------------------------------------------------- centred: a flat intercept, dense


def centred_posterior(data: Problem, widths: tuple[int, ...], beta: float, gram: bool = False) -> Any:
    """A posterior as the estimator makes it: centred data, p − 1 examples."""
    X, Y = data.X - data.X.mean(axis=0), data.Y - data.Y.mean(axis=0)
    spectrum = lbnn.Spectrum.from_gram(X @ X.T / X.shape[1], Y) if gram else lbnn.Spectrum.from_inputs(X, Y)
    return lbnn.Network(widths).condition_spectrum(replace(spectrum, examples=len(X) - 1), beta)


def kriging(data: Problem, beta: float, scale: float) -> tuple[float, float, float]:
    """Universal kriging of the test point with a flat intercept: mean, variance and restricted likelihood."""
    noise = 0.0 if math.isinf(beta) else 1 / beta
    inverse = np.linalg.inv(scale * data.gram + noise * np.eye(len(data.X)))
    ones, cross = np.ones(len(data.X)), scale * data.cross[:, 0]
    information = ones @ inverse @ ones
    intercept = ones @ inverse @ data.Y / information
    rest = data.Y - intercept
    mean = intercept + cross @ inverse @ rest
    leak = 1 - cross @ inverse @ ones
    variance = scale * data.test_gram[0, 0] + noise - cross @ inverse @ cross + leak**2 / information
    return (
        mean,
        variance,
        0.5 * (np.linalg.slogdet(inverse)[1] - math.log(information) - rest @ inverse @ rest),
    )


def flat_refit(data: Problem, width: int, beta: float) -> tuple[float, float]:
    """Mean and variance of the test point, with λ ~ Gamma integrated by the trapezoid rule over log λ."""
    x = np.linspace(-14, 5, 1200)
    prior = stats.gamma.logpdf(np.exp(x), width / 2, scale=2 / width) + x
    means, variances, log_likelihood = np.array([kriging(data, beta, each) for each in np.exp(x)]).T
    weights = np.exp(prior + log_likelihood - special.logsumexp(prior + log_likelihood))
    mean = weights @ means
    return mean, weights @ (variances + (means - mean) ** 2)


@pytest.mark.parametrize(("examples", "inputs", "beta"), [(7, 11, 5.0), (11, 4, 5.0), (6, 9, math.inf)])
@pytest.mark.parametrize("gram", [False, True])
def test_centred_equals_flat_intercept(examples: int, inputs: int, beta: float, gram: bool) -> None:
    data = make_problem(examples, inputs, seed=5)
    data = Problem(data.X + 0.5, data.Y + 3.0, data.X_test)
    for widths in ((), (6,)):
        posterior = centred_posterior(data, widths, beta, gram)
        scores = left_out_scores(posterior, data.Y, centred=True)
        shifted = left_out_scores(posterior, data.Y - data.Y.mean(), centred=True)
        left = [without(data, a) for a in range(examples)]
        dense = [flat_refit(each, 6, beta) if widths else kriging(each, beta, 1.0)[:2] for each in left]
        np.testing.assert_allclose(scores.mean, [mean for mean, _ in dense], rtol=1e-8)
        np.testing.assert_allclose(scores.variance, [variance for _, variance in dense], rtol=1e-8)
        np.testing.assert_allclose(shifted.mean + data.Y.mean(), scores.mean, rtol=1e-12)
        np.testing.assert_allclose(shifted.log_density, scores.log_density, rtol=1e-12)


# ---------------------------------------------------------------- several outputs: a lattice, other refits


@pytest.mark.parametrize(
    ("engine", "beta", "seeds"), [("importance", 4.0, 8), ("smc", 4.0, 6), ("importance", math.inf, 8)]
)
def test_several_outputs_against_lattice(engine: str, beta: float, seeds: int) -> None:
    """Moments and densities of two left-out examples, in standard errors between independent runs."""
    data, width, rows = make_problem(8, 10, 2, seed=6), 12, [1, 4]
    full = TwoOutputLattice(data, width, beta, nodes=60)
    lattices = [TwoOutputLattice(without(data, a), width, beta, nodes=60) for a in rows]
    noise = 0.0 if math.isinf(beta) else 1 / beta
    exact = np.array(
        [
            np.concatenate(
                [
                    each.predictive[0][0],
                    np.diagonal(each.predictive[1][0, :, 0]) + noise,
                    [full.log_evidence - each.log_evidence],
                ]
            )
            for each in lattices
        ]
    )
    network, runs, errors = lbnn.Network((width,)), [], []
    for seed in range(seeds):
        scores = left_out_scores(network.condition(data.X, data.Y, beta, engine=engine, seed=seed), data.Y)
        columns = [scores.mean, scores.variance, scores.log_density[:, None]]
        runs.append(np.concatenate(columns, axis=1)[rows])
        errors.append(scores.log_density_error[rows])
        assert scores.ok
    estimate, spread = np.mean(runs, axis=0), np.std(runs, axis=0, ddof=1)
    columns = slice(2, None) if math.isinf(beta) else slice(None)  # means have no error at zero temperature
    assert_agrees(
        estimate[:, columns],
        (spread / math.sqrt(seeds))[:, columns],
        exact[:, columns],
        degrees_of_freedom=seeds - 1,
        largest_error=0.05,
    )
    if math.isinf(beta):
        np.testing.assert_allclose(estimate[:, :2], exact[:, :2], rtol=1e-8)
    stated = np.sqrt(np.mean(np.square(errors), axis=0))
    ratio = spread[:, -1] / stated
    low, high = np.sqrt(stats.chi2.ppf([1e-4, 1 - 1e-4], seeds - 1) / (seeds - 1))
    assert (ratio < high).all(), "stated errors are too small"
    assert (ratio > low / 3).all(), "stated errors are far too large"


def test_dual_route_agrees_with_primal() -> None:
    data, network = make_problem(3, 6, 5, seed=7), lbnn.Network((9,))
    dual, primal = (
        left_out_scores(network.condition(data.X, data.Y, 3.0, engine=engine, target_error=0.02), data.Y)
        for engine in ("dual", "importance")
    )
    error = np.hypot(dual.log_density_error, primal.log_density_error)
    assert_agrees(dual.log_density, error, primal.log_density, degrees_of_freedom=7, largest_error=0.1)


def test_rotated_outputs_have_the_same_densities() -> None:
    """The scale prior does not change under rotations; the engine takes the axes of the data."""
    data, rotation = make_problem(10, 12, 3, seed=8), random_rotation(3, seed=9)
    network = lbnn.Network((12,))
    scores = left_out_scores(network.condition(data.X, data.Y, 5.0), data.Y)
    turned = left_out_scores(network.condition(data.X, data.Y @ rotation, 5.0), data.Y @ rotation)
    error = np.hypot(scores.log_density_error, turned.log_density_error)
    assert_agrees(turned.log_density, error, scores.log_density, degrees_of_freedom=7, largest_error=0.1)


def test_memory_blocks_do_not_change_the_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    from lbnn.cross_validation import averages

    data = make_problem(9, 12, 2, seed=10)
    posterior = lbnn.Network((8,)).condition(data.X, data.Y, 5.0)
    whole = left_out_scores(posterior, data.Y)
    monkeypatch.setattr(averages, "_WEIGHT_FLOATS", 3 * len(posterior.scale.weights))
    monkeypatch.setattr(averages, "PRODUCT_FLOATS", 1000)
    parts = left_out_scores(posterior, data.Y)
    for name in ("mean", "variance", "log_density", "log_density_error", "pareto_k"):
        np.testing.assert_allclose(getattr(parts, name), getattr(whole, name), rtol=1e-9, err_msg=name)


# ---------------------------------------------------------------- diagnostics


def test_outlier_raises_pareto_k() -> None:
    """One example that the others do not expect: its weights say so, others stay quiet."""
    data = make_problem(12, 30, 2, seed=11)
    Y = data.Y.copy()
    Y[3] += 60.0
    posterior = lbnn.Network((4, 4)).condition(data.X, Y, 100.0)
    with pytest.warns(lbnn.AccuracyWarning, match=r"Pareto k above 0\.7 .* example 3\)"):
        scores = left_out_scores(posterior, Y)
    assert scores.pareto_k.argmax() == 3
    assert scores.pareto_k[3] > 0.7
    assert np.median(scores.pareto_k) < 0.5
    assert not scores.ok
    assert "ok=False" in repr(scores)


def test_scores_use_the_smoothed_weights() -> None:
    """Example by example from the atoms, with a dense Gaussian for each; raw weights are not what is used."""
    data = make_problem(4, 30, 2, seed=11)
    posterior = lbnn.Network((4, 4)).condition(data.X, data.Y, 4.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lbnn.AccuracyWarning)
        scores = left_out_scores(posterior, data.Y)
    a, left = int(scores.pareto_k.argmax()), without(data, int(scores.pareto_k.argmax()))
    assert scores.pareto_k[a] > 0.1  # a tail to smooth
    atoms, weights = posterior.scale.atoms, posterior.scale.weights
    each = [AtomMixture(left, 4.0, atom[None], np.ones(1)).log_density(data.Y[a], 0.25) for atom in atoms]
    smoothed, k = pareto_smoothed(np.log(weights) - each)
    expected = special.logsumexp(smoothed + each) - special.logsumexp(smoothed)
    assert k == pytest.approx(scores.pareto_k[a], rel=1e-6)
    assert scores.log_density[a] == pytest.approx(expected, rel=1e-9)
    mixture = AtomMixture(left, 4.0, atoms, np.exp(smoothed - special.logsumexp(smoothed)))
    mean, covariance = mixture.moments()
    np.testing.assert_allclose(scores.mean[a], mean[0], rtol=1e-8)
    np.testing.assert_allclose(scores.variance[a], np.diagonal(covariance[0, :, 0]) + 0.25, rtol=1e-8)
    raw = -special.logsumexp(np.log(weights) - each)
    assert abs(raw - expected) > 1e-6


def test_messages_of_the_posterior_are_kept() -> None:
    data = make_problem(6, 8, 2, seed=12)
    posterior = lbnn.Network((8,)).condition(data.X, data.Y, 5.0)
    doubtful = replace(posterior.diagnostics, ok=False, messages=("too few",))
    scores = left_out_scores(
        replace(posterior, inference=replace(posterior.inference, diagnostics=doubtful)), data.Y
    )
    assert scores.messages == ("too few",)
    assert not scores.ok


@pytest.mark.parametrize("shape", [-0.3, 0.0, 0.2, 0.6, 0.9])
def test_smoothed_tail_is_that_of_the_pareto_law(shape: float) -> None:
    """Draws of a Pareto law of weights: smoothing keeps order, bounds and mean, and lessens the variance."""
    rng = np.random.default_rng(13)
    weights = 1 + stats.genpareto.rvs(shape, size=(100, 2000), random_state=rng)
    scales, raw, smooth = [], [], []
    for each in weights:
        log_weights = np.log(each)
        smoothed, k = pareto_smoothed(log_weights)
        assert (np.diff(smoothed[np.argsort(log_weights)]) >= 0).all()
        assert smoothed.max() <= log_weights.max()
        below = log_weights < np.sort(log_weights)[-3 * int(math.sqrt(2000)) - 5]
        np.testing.assert_array_equal(smoothed[below], log_weights[below])
        scales.append(pareto_scale(np.sort(stats.genpareto.rvs(shape, size=2000, random_state=rng)), shape))
        raw.append(each.mean())
        smooth.append(np.exp(smoothed).mean())
        assert abs(k - shape) < 0.6
    assert_agrees(np.mean(scales), np.std(scales) / 10, 1.0, degrees_of_freedom=99, largest_error=0.01)
    if shape < 0.5:  # the mean of the raw weights is a fair referee only where it has a variance
        difference = np.array(smooth) - np.array(raw)
        assert abs(difference.mean()) < 0.02 * np.mean(raw)
    else:
        assert np.std(smooth) < np.std(raw)


@pytest.mark.parametrize("spread", [1e-6, 30.0, 1e3, 1e5])
def test_smoothing_of_weights_of_any_spread(spread: float) -> None:
    """Few effective weights down to one: finite, in order, never above the largest."""
    log_weights = spread * np.random.default_rng(14).standard_normal(1000)
    smoothed, shape = pareto_smoothed(log_weights)
    assert (np.diff(smoothed[np.argsort(log_weights)]) >= 0).all()
    assert smoothed.max() <= log_weights.max()
    assert np.isfinite(smoothed).all()
    assert (shape > 0.7) == (spread > 1)


@pytest.mark.slow
def test_almost_all_mass_on_one_example() -> None:
    """Four examples, one beyond all expectation, hardly any noise: no warning but our own."""
    rng = np.random.default_rng(1)
    X, Y = rng.normal(size=(4, 3)), rng.normal(size=(4, 3))
    Y[0] += 1e4
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lbnn.AccuracyWarning)
        scores = left_out_scores(lbnn.Network((2,)).condition(X, Y, 1e7, target_error=0.3), Y)
    assert np.isfinite(scores.log_density).all()
    assert (scores.variance > 0).all()
    assert not scores.ok


def test_smoothing_leaves_weights_without_a_tail_alone() -> None:
    equal = np.zeros(1000)
    np.testing.assert_array_equal(pareto_smoothed(equal)[0], equal)
    few = np.log(np.arange(1.0, 11.0))
    smoothed, shape = pareto_smoothed(few)
    np.testing.assert_array_equal(smoothed, few)
    assert shape == math.inf


# ---------------------------------------------------------------- bad input


def ask(data: Problem, Y: Any, centred: bool = False, beta: float = 2.0, widths: Any = (4,)) -> LeaveOneOut:
    return left_out_scores(lbnn.Network(widths).condition(data.X, data.Y, beta), Y, centred=centred)


def test_bad_input() -> None:
    data, pair = make_problem(6, 8, seed=14), make_problem(6, 8, 2, seed=14)
    with pytest.raises(ValueError, match="targets that the posterior was conditioned on"):
        ask(data, data.Y[::-1])
    with pytest.raises(ValueError, match="targets that the posterior was conditioned on"):
        ask(pair, pair.Y[:, 0])
    with pytest.raises(ValueError, match="p = 6 examples"):
        ask(data, data.Y[:-1])
    with pytest.raises(ValueError, match="finite"):
        ask(data, np.full(6, np.nan))
    with pytest.raises(ValueError, match="beta=0"):
        ask(data, data.Y, beta=0.0)
    with pytest.raises(ValueError, match="centred"):
        ask(data, np.append(data.Y, 0.0), centred=True)
    with pytest.raises(ValueError, match="centred must be True exactly if"):
        left_out_scores(centred_posterior(data, (4,), 2.0), data.Y[:-1])


def test_inputs_that_were_not_centred() -> None:
    data = make_problem(6, 4, seed=15)
    spectrum = replace(lbnn.Spectrum.from_inputs(data.X, data.Y), examples=5)
    with pytest.raises(ValueError, match=r"needs inputs .* that were centred"):
        left_out_scores(lbnn.Network((4,)).condition_spectrum(spectrum, 2.0), data.Y, centred=True)


def test_intercept_needs_two_examples() -> None:
    spectrum = replace(lbnn.Spectrum.from_inputs(np.zeros((1, 2)), np.zeros(1)), examples=0)
    with pytest.raises(ValueError, match="needs two examples"):
        left_out_scores(lbnn.Network(()).condition_spectrum(spectrum, 2.0), np.zeros(1), centred=True)


def test_moments_have_no_examples() -> None:
    data = make_problem(9, 4, seed=16)
    spectrum = lbnn.Spectrum.from_moments(data.X.T @ data.X, data.X.T @ data.Y, data.Y @ data.Y, 9)
    with pytest.raises(ValueError, match="from moments"):
        left_out_scores(lbnn.Network((4,)).condition_spectrum(spectrum, 2.0), data.Y)


def test_zero_temperature_of_the_left_out_must_exist() -> None:
    """Without its one target that is not zero the posterior of these data does not exist."""
    data = make_problem(6, 8, seed=17)
    y = np.eye(6)[2]
    posterior = lbnn.Network((4,)).condition(data.X, y, math.inf)
    with pytest.raises(ValueError, match="leaving out example 2: at zero temperature"):
        left_out_scores(posterior, y)
    pair = make_problem(2, 8, 3, seed=18)
    with pytest.raises(ValueError, match="narrower than the outputs"):
        ask(pair, pair.Y, beta=math.inf, widths=(2,))


def test_one_target_at_zero_temperature() -> None:
    """Where it does exist, without its one target: λ then follows prior times λ^{−5/2}, a Gamma."""
    data, width = make_problem(6, 8, seed=17), 12
    y = np.eye(6)[2]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scores = left_out_scores(lbnn.Network((width,)).condition(data.X, y, math.inf), y)
    precision = np.diagonal(np.linalg.inv(data.gram))[2]
    assert scores.variance[2] == pytest.approx((width - 5) / width / precision, rel=1e-8)


@pytest.mark.parametrize("kind", ["independent", "per_output", "coupled"])
@pytest.mark.parametrize("shape", [(8, 20), (20, 4)], ids=["wide", "tall"])
def test_a_posterior_keeps_the_targets_that_its_scores_need(kind, shape, tmp_path):
    """Without Y as with it; so after saving, and from a Gram matrix; from moments a sentence."""
    rng = np.random.default_rng(41)
    X, Y = rng.normal(size=shape), rng.normal(size=(shape[0], 2))
    beta = [2.0, 3.0] if kind == "per_output" else 2.0
    post = lbnn.Network((5,)).condition(X, Y, beta, noise=kind, target_error=0.3)
    expected = left_out_scores(post, Y)
    post.save(tmp_path / "file")
    gram = lbnn.Network((5,)).condition_gram(X @ X.T / shape[1], Y, beta, noise=kind, target_error=0.3)
    for each, scores in (
        (post, expected),
        (lbnn.Posterior.load(tmp_path / "file"), expected),
        (gram, left_out_scores(gram, Y)),
    ):
        found = each.leave_one_out()
        for name in ("mean", "variance", "log_density"):
            np.testing.assert_allclose(getattr(found, name), getattr(scores, name), rtol=1e-9)
    one = lbnn.Network((5,)).condition(X, Y[:, 0], 2.0, weights=rng.uniform(0.5, 2.0, shape[0]))
    np.testing.assert_allclose(one.leave_one_out().mean, left_out_scores(one, Y[:, 0]).mean, rtol=1e-12)


def test_a_posterior_from_moments_says_what_it_lacks():
    rng = np.random.default_rng(41)
    X, y = rng.normal(size=(20, 4)), rng.normal(size=20)
    moments = lbnn.Spectrum.from_moments(X.T @ X, X.T @ y, y @ y, 20)
    with pytest.raises(ValueError, match="need the training inputs"):
        lbnn.Network((5,)).condition_spectrum(moments, 2.0).leave_one_out()


def test_centred_posteriors_score_themselves_as_centred():
    data = make_problem(9, 5, 1, seed=5)
    posterior = centred_posterior(data, (4,), 2.0)
    np.testing.assert_allclose(
        posterior.leave_one_out().log_density,
        left_out_scores(posterior, data.Y, centred=True).log_density,
        rtol=1e-10,
    )


def test_weights_of_rows_and_dependent_outputs():
    """Three outputs that are combinations of two: densities have the weights of two outputs."""
    rng = np.random.default_rng(8)
    X, Y, weights = rng.normal(size=(9, 4)), rng.normal(size=(9, 2)), rng.uniform(0.2, 3.0, 9)
    posterior = lbnn.Network(()).condition(X, Y, 2.0, weights=weights)
    matrix = rng.normal(size=(3, 2))
    plain, combined = left_out_scores(posterior, Y), left_out_scores(posterior, Y, matrix=matrix)
    log_volume = 0.5 * np.linalg.slogdet(matrix.T @ matrix)[1]
    np.testing.assert_allclose(combined.log_density, plain.log_density - log_volume, rtol=1e-10)


@pytest.mark.parametrize("noise", ["independent", "per_output", "coupled"])
@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_only_row_has_the_density_of_the_evidence_and_the_moments_of_the_prior(noise, outputs, weighted):
    """Weights of the posterior's draws are those of the prior over the posterior: 0.5 nats off."""
    rng = np.random.default_rng(3)
    X, Y = rng.normal(size=(1, 5)), 2 * rng.normal(size=(1, outputs))
    beta = rng.gamma(3.0, size=outputs) if noise == "per_output" else 2.0
    weights = np.array([1.7]) if weighted else None
    network = lbnn.Network((4, 6), prior_variances=(1.3, 0.7, 1.9))
    posterior = network.condition(X, Y, beta, noise=noise, weights=weights)
    found = posterior.leave_one_out()
    assert found.ok
    assert found.log_density[0] == pytest.approx(posterior.log_evidence, abs=1e-9)
    gram, factor = 1.3 * float((X**2).sum()) / 5, 0.7 * 1.9
    row = 1.0 if weights is None else 1 / 1.7
    own = row / np.broadcast_to(beta, outputs)
    variance = factor * (gram + own) if noise == "coupled" else factor * gram + own
    np.testing.assert_allclose(found.variance[0], variance, rtol=1e-12)
    np.testing.assert_allclose(found.mean, 0.0)
    np.testing.assert_allclose(found.residual, Y)
