"""The dual route, integrating the last layer out: same answers from a problem of the size of the data."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

import lbnn
from lbnn.engines.policy import POLICY
from lbnn.engines.verdict import means_message
from lbnn.likelihood.gaussian import GaussianLikelihood
from lbnn.likelihood.hidden_kernel import (
    _seen_last_layer,
    dual,
    dual_prior,
    primal_factors,
)
from lbnn.scale.bartlett import product
from lbnn.scale.layer_factors import layer_factors
from lbnn.scale.prior import ScalePrior
from tests.helpers import lattice
from tests.helpers.lattice import TwoOutputLattice, combined
from tests.helpers.problems import Problem, make_problem
from tests.referees.statistics import assert_agrees

# p, outputs, width, beta
CASES = [
    (4, 6, 8, 4.0),
    (6, 3, 5, 4.0),
    (4, 3, 2, 10.0),
    (3, 5, 4, 4.0),
    (3, 4, 6, math.inf),
    (3, 3, 5, math.inf),
]
LONG = {(4, 3, 2, 10.0), (3, 5, 4, 4.0)}  # more than three seconds by SMC
COMPARISONS = 400


def both(p: int, outputs: int, width: int, beta: float) -> tuple[Problem, lbnn.Posterior, lbnn.Posterior]:
    data = make_problem(p, 8, outputs, seed=300 + p + 10 * outputs, points=2, signal=1.5)
    network = lbnn.Network((width,), prior_variances=(0.8, 1.4))
    primal = network.condition(data.X, data.Y, beta, engine="smc", target_error=0.03)
    return data, primal, network.condition(data.X, data.Y, beta, engine="dual", target_error=0.03)


@pytest.mark.parametrize(
    ("p", "outputs", "width", "beta"),
    [pytest.param(*case, marks=pytest.mark.slow) if case in LONG else case for case in CASES],
    ids=str,
)
def test_primal_and_dual_agree(p: int, outputs: int, width: int, beta: float) -> None:
    """Evidence, E L, E L², within the errors of both; more or fewer outputs than data, n_1 below either."""
    _, primal, dual = both(p, outputs, width, beta)
    assert dual.diagnostics.engine.startswith("dual ")
    error = math.hypot(primal.log_evidence_error, dual.log_evidence_error)
    options = {"comparisons": COMPARISONS, "degrees_of_freedom": 14}
    assert_agrees(dual.log_evidence, error, primal.log_evidence, **options)
    assert error < 0.06
    for fn in (lambda L: L, lambda L: L @ L):
        value, value_error = dual.scale.expect_with_error(fn)
        other, other_error = primal.scale.expect_with_error(fn)
        assert_agrees(value, combined(value_error, other_error), other, **options)


@pytest.mark.parametrize(
    ("p", "outputs", "width", "beta"),
    [pytest.param(*case, marks=pytest.mark.slow) for case in CASES],
    ids=str,
)
@pytest.mark.filterwarnings("ignore:the mean of the scale rests on:lbnn.AccuracyWarning")
def test_predictive_and_kernel_agree(p: int, outputs: int, width: int, beta: float) -> None:
    """Over six seeds each, with errors from their spread, whatever single runs say of theirs."""
    data = make_problem(p, 8, outputs, seed=320, points=2, signal=1.5)
    results = {}
    for engine in ("smc", "dual"):
        posts = [
            lbnn.Network((width,)).condition(data.X, data.Y, beta, engine=engine, seed=seed)
            for seed in range(6)
        ]
        values = np.stack(
            [
                np.concatenate(
                    [
                        post.predict(data.X_test).mean.ravel(),
                        post.predict(data.X_test).covariance.ravel(),
                        post.feature_kernel().ravel(),
                    ]
                )
                for post in posts
            ]
        )
        results[engine] = values.mean(0), values.std(0, ddof=1) / math.sqrt(6)
    error = combined(results["smc"][1], results["dual"][1])
    comparisons = 4 * len(error)
    assert_agrees(
        results["dual"][0], error, results["smc"][0], comparisons=comparisons, degrees_of_freedom=10
    )


@pytest.mark.parametrize(("p", "width", "beta"), [(4, 5, 4.0), (2, 3, 10.0), (2, 4, math.inf)], ids=str)
def test_dual_against_the_lattice(p: int, width: int, beta: float) -> None:
    """Two outputs: a deterministic referee."""
    data = make_problem(p, 8, 2, seed=330)
    grid = TwoOutputLattice(data, width, beta)
    post = lbnn.Network((width,)).condition(data.X, data.Y, beta, engine="dual", target_error=0.03)
    options = {"comparisons": 15, "degrees_of_freedom": 7}
    assert_agrees(post.log_evidence, post.log_evidence_error, grid.log_evidence, **options)
    assert_agrees(post.scale.mean, post.scale.mean_error, grid.mean, **options)


def test_one_output_through_the_dual() -> None:
    """Quadrature is the referee."""
    data = make_problem(4, 8, seed=331)
    exact = lbnn.Network((5,)).condition(data.X, data.Y, 4.0)
    post = lbnn.Network((5,)).condition(data.X, data.Y, 4.0, engine="dual")
    assert_agrees(
        post.log_evidence, post.log_evidence_error, exact.log_evidence, comparisons=2, degrees_of_freedom=7
    )
    value, error = post.scale.expect_with_error(lambda s: s)
    assert_agrees(value, error, exact.scale.mean, comparisons=2, degrees_of_freedom=7)


def test_dual_against_gibbs_chains() -> None:
    """More outputs than data and than hidden units: predictive moments, kernel and scale."""
    data = make_problem(3, 6, 5, seed=332, points=2, signal=1.5)
    chains, chains_error = lattice.gibbs_functionals(
        data, (4,), 4.0, lattice.weight_functional(data), seed=333
    )
    runs = []
    for seed in range(6):
        post = lbnn.Network((4,)).condition(data.X, data.Y, 4.0, seed=seed)
        assert post.diagnostics.engine.startswith("dual ")
        pred = post.predict(data.X_test)
        mean = pred.mean.ravel()
        second = pred.covariance.reshape(len(mean), -1) + np.outer(mean, mean)
        parts = [mean, second, post.feature_kernel(), post.scale.mean, post.scale.expect(lambda L: L @ L)]
        runs.append(np.concatenate([np.ravel(part) for part in parts]))
    count = len(runs[0])
    error = combined(np.std(runs, axis=0, ddof=1) / math.sqrt(6), chains_error[:count])
    assert_agrees(np.mean(runs, axis=0), error, chains[:count], degrees_of_freedom=30)


# ---------------------------------------------------------------- the factor and the last layer


@pytest.mark.parametrize("noise", [0.25, 0.0])
def test_factor_against_dense_gaussians(noise: float) -> None:
    """log MN(ỹ; 0, √g Λ √g + τ I, I) column by column, with the primal constant."""
    rng = np.random.default_rng(334)
    g, targets = rng.uniform(0.5, 2, 3), rng.standard_normal((3, 4))
    factor = GaussianLikelihood(g, targets, 0.0, 3, noise)
    root = rng.standard_normal((3, 3))
    values, vectors = np.linalg.eigh(root @ root.T)
    covariance = np.sqrt(np.outer(g, g)) * (root @ root.T) + noise * np.eye(3)
    exact = stats.multivariate_normal(np.zeros(3), covariance).logpdf(targets.T).sum()
    found = dual(factor).log_constant + dual(factor).log_value(values[None], vectors[None])[0]
    assert found == pytest.approx(exact, rel=1e-10)


def test_seen_last_layer_is_the_posterior_of_a_regression() -> None:
    """b | T, ỹ for ỹ = √g T b + noise: moments by dense algebra."""
    rng, noise, size = np.random.default_rng(335), 0.25, 200_000
    g, targets = rng.uniform(0.5, 2, 3), rng.standard_normal((3, 2))
    factor = GaussianLikelihood(g, targets, 0.0, 3, noise)
    T = np.tril(rng.standard_normal((3, 2)))
    draws = _seen_last_layer(np.broadcast_to(T, (size, 3, 2)), factor, rng)  # (size, n_d, k)
    design = np.sqrt(g)[:, None] * T
    covariance = np.linalg.inv(design.T @ design / noise + np.eye(2))
    mean = (covariance @ design.T @ targets / noise).T
    assert_agrees(draws.mean(0), draws.std(0) / math.sqrt(size), mean, comparisons=12)
    centred = draws - mean
    products = np.einsum("sja,sjb->sjab", centred, centred)
    exact = np.broadcast_to(covariance, (2, 2, 2))
    assert_agrees(products.mean(0), products.std(0) / math.sqrt(size), exact, comparisons=12)


@pytest.mark.parametrize("width", [2, 3, 7])
def test_last_layer_without_data_keeps_its_prior(width: int) -> None:
    """Noise so large that the data say nothing: L = W_2 W_2ᵀ has mean σ² I and the Wishart's variance."""
    size, rng = 100_000, np.random.default_rng(336)
    prior = lbnn.Network((width,), prior_variances=(1.0, 1.5)).scale_prior(4)
    factor = GaussianLikelihood(np.ones(3), np.zeros((3, 4)), 0.0, 3, 1e12)
    coordinates = lbnn.Network((width,)).scale_prior(3).coordinates
    T = coordinates.factors(rng.standard_normal((size, coordinates.dimension)))[0]
    (last,) = primal_factors([T], prior, factor, rng)
    assert last.shape == (size, 4, min(4, width))
    np.testing.assert_allclose(last, np.tril(last), atol=1e-12)
    L = last @ last.swapaxes(1, 2)
    assert_agrees(L.mean(0), L.std(0) / math.sqrt(size), 1.5 * np.eye(4), comparisons=48)
    square = (L @ L).reshape(size, -1)
    exact = 1.5**2 * (1 + (4 + 1) / width) * np.eye(4).ravel()  # E L² = (1 + (n_d + 1)/n) I
    assert_agrees(square.mean(0), square.std(0) / math.sqrt(size), exact, comparisons=48)


# ---------------------------------------------------------------- choice and cost


def test_chosen_for_more_outputs_than_data() -> None:
    assert lbnn.Network((9,)).choose_engine(examples=4, outputs=5).engine == "dual importance"
    assert lbnn.Network((9,)).choose_engine(examples=5, outputs=5).engine == "importance"
    assert lbnn.Network((9, 9)).choose_engine(examples=4, outputs=5).engine == "dual importance"


def test_forty_outputs_from_four_examples() -> None:
    data = make_problem(4, 60, 40, seed=337)
    post = lbnn.Network((60,)).condition(data.X, data.Y, 4.0)
    pred = post.predict(data.X_test)
    assert pred.mean.shape == pred.variance.shape == (3, 40)
    assert post.diagnostics.engine == "dual importance"
    assert post.diagnostics.ok
    assert post.diagnostics.effective_sample_size >= 400


def test_zero_temperature_interpolates() -> None:
    """More outputs than data, and a hidden layer narrower than the outputs but not than the data."""
    data = make_problem(3, 8, 6, seed=338)
    for width in (4, 9):
        post = lbnn.Network((width,)).condition(data.X, data.Y, math.inf)
        np.testing.assert_allclose(post.predict(data.X).mean, data.Y, atol=1e-9)
        np.testing.assert_allclose(post.predict(data.X).variance, 0, atol=1e-9)


# ---------------------------------------------------------------- deeper networks

DEEP = [
    # Importance sampling warns of heavy tails for the first (Pareto k 0.6 along an axis): SMC.
    pytest.param(3, 4, (5, 6), 4.0, "smc", marks=pytest.mark.slow),
    (2, 3, (3, 2, 4), 4.0, "importance"),
    (2, 3, (4, 3), math.inf, "importance"),
]


@pytest.mark.parametrize(("p", "outputs", "widths", "beta", "engine"), DEEP, ids=str)
def test_primal_and_dual_agree_at_depth(
    p: int, outputs: int, widths: tuple[int, ...], beta: float, engine: str
) -> None:
    """Evidence, E L, E L², feature kernels of every layer: two routes that share no unknown."""
    data = make_problem(p, 8, outputs, seed=350 + p, points=2, signal=1.5)
    network = lbnn.Network(widths, prior_variances=(0.8, *np.linspace(0.7, 1.5, len(widths))))
    primal, dual = (
        network.condition(data.X, data.Y, beta, engine=each, target_error=0.03) for each in (engine, "dual")
    )
    assert dual.diagnostics.engine.startswith("dual ")
    options = {"comparisons": COMPARISONS, "degrees_of_freedom": 14}
    error = math.hypot(primal.log_evidence_error, dual.log_evidence_error)
    assert_agrees(dual.log_evidence, error, primal.log_evidence, **options)
    assert error < 0.06
    for fn in (lambda L: L, lambda L: L @ L):
        (value, value_error), (other, other_error) = (
            post.scale.expect_with_error(fn) for post in (dual, primal)
        )
        assert_agrees(value, combined(value_error, other_error), other, **options)
    for layer in range(1, len(widths) + 1):
        np.testing.assert_allclose(
            dual.feature_kernel(layer=layer), primal.feature_kernel(layer=layer), rtol=0.1, atol=0.03
        )


@pytest.mark.parametrize("widths", [(3, 4), (5, 2), (2, 6, 3)], ids=str)
def test_factors_without_data_keep_their_prior_at_depth(widths: tuple[int, ...]) -> None:
    """Noise so large that the data say nothing: the factors have the prior's law."""
    size, rng = 60_000, np.random.default_rng(351)
    prior = lbnn.Network(widths, prior_variances=(1.0, *np.linspace(0.5, 1.5, len(widths)))).scale_prior(3)
    factor = GaussianLikelihood(np.ones(2), np.zeros((2, 3)), 0.0, 2, 1e12)

    def drawn(law: ScalePrior) -> list[np.ndarray]:
        """Factors of every layer under a prior."""
        u = rng.standard_normal((size, law.coordinates.dimension))
        return layer_factors(law.coordinates.factors(u), law, rng)

    found = primal_factors(drawn(dual_prior(prior, 2)), prior, factor, rng)
    fresh = drawn(prior)
    for own, other in zip(found, fresh, strict=True):
        assert own.shape == other.shape
        np.testing.assert_allclose(own, np.tril(own), atol=1e-12)
    for moment in (lambda total: total @ total.swapaxes(1, 2), lambda total: total**2):
        values = [moment(np.asarray(product(factors))) for factors in (found, fresh)]
        error = np.sqrt(sum(each.var(0) for each in values) / size)
        assert_agrees(values[0].mean(0), error + 1e-12, values[1].mean(0), comparisons=60)


def test_forty_outputs_from_four_examples_at_depth_four() -> None:
    data = make_problem(4, 60, 40, seed=352)
    post = lbnn.Network((300, 250, 300)).condition(data.X, data.Y, 4.0)
    assert post.diagnostics.engine == "dual importance"
    assert post.diagnostics.ok
    assert post.predict(data.X_test).mean.shape == (3, 40)
    assert [each.shape for each in post.sample_weights(2, 0)] == [
        (2, 300, 60),
        (2, 250, 300),
        (2, 300, 250),
        (2, 40, 300),
    ]


@pytest.mark.parametrize(("outlier", "ok"), [(1.0, True), (1e4, False)])
def test_means_that_rest_on_few_draws_are_told(outlier: float, ok: bool) -> None:
    """Draws of the hidden kernel serve the evidence; one draw of L that carries its mean does not pass."""
    rng = np.random.default_rng(0)
    root = rng.normal(size=(1000, 3, 2))
    root[17] *= outlier
    draws = SimpleNamespace(log_weights=np.zeros(1000))
    message = means_message(draws, np.log((root**2).sum(axis=2)), POLICY)
    assert bool(message) is (not ok)
    assert ok or message.startswith("the mean of the scale rests on 1 ")
