"""Noise that passes through the network: dense Kronecker algebra, MGIG normalisers, refits, calibration."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import special, stats
from sklearn.gaussian_process.kernels import RBF

import lbnn
from lbnn import LBNNRegressor
from lbnn.engines import InferenceOptions
from lbnn.noise.noise import Noise
from lbnn.selection import NoiseSpec, Shapes, condition, coupled, search
from lbnn.selection import gaussian_process as gp
from lbnn.selection.finite_width import network_evidence
from tests.helpers.evidence import evidence_data
from tests.helpers.problems import make_problem, random_rotation, random_scale
from tests.referees.matrix_gig import PlaneReferee
from tests.referees.statistics import assert_agrees

SHAPES = [(12, 20), (20, 5)]  # examples and inputs: without and with targets outside the range of G
H = np.array([-1.0, -0.4, 0.3])
FIXED = {"noise": "coupled", "width": (6,), "beta": 2.0, "prior_scale": 1.5}


def contrasts(p):
    """Orthonormal rows orthogonal to the constant, (p − 1, p)."""
    return np.linalg.qr(np.column_stack([np.ones(p), np.eye(p)[:, 1:]]))[0][:, 1:].T


def whole_gram(problem, prior_scale):
    """I + κG of the training inputs (p, p), and of centred test inputs cross (p̂, p) and own (p̂, p̂)."""
    centred, test = (A - problem.X.mean(0) for A in (problem.X, problem.X_test))
    factor = prior_scale / problem.X.shape[1]
    cross, own = factor * test @ centred.T, factor * test @ test.T
    return np.eye(len(centred)) + factor * centred @ centred.T, cross, own


def dense_forecast(gram, cross, own, Y):
    """Universal kriging with a flat level: mean (p̂, n_d) and covariance over points, in units of L."""
    ones, inverse = np.ones(len(gram)), np.linalg.inv(gram)
    certainty = ones @ inverse @ ones
    level = ones @ inverse @ Y / certainty
    missing = 1 - cross @ inverse @ ones
    mean = level + cross @ inverse @ (Y - level)
    return mean, own - cross @ inverse @ cross.T + np.outer(missing, missing) / certainty


def dense_log_density(values, mean, gram, scale):
    return stats.multivariate_normal(mean.ravel(), np.kron(gram, scale)).logpdf(values.ravel())


#: Kernels whose parameters do not depend on the rows that are left.
KERNELS = {
    "linear": {"kernel": "linear", "column_scales": "raw"},
    "rbf": {"kernel": RBF(1.5), "column_scales": "raw"},
}


def searched(X, Y):
    """Data of the search, and the unit of the targets in it."""
    centred = Y - Y.mean(axis=0)
    unit = math.sqrt(float((centred**2).sum(axis=0).mean()) / (len(Y) - 1))
    return evidence_data(X, centred / unit), unit


def coupled_data(problem):
    return coupled(searched(problem.X, problem.Y)[0])


# ---------------------------------------------------------------------- evidence


@pytest.mark.parametrize(("p", "inputs"), SHAPES)
def test_likelihood_given_the_scale_is_the_dense_density_of_the_contrasts(p, inputs):
    problem, scale = make_problem(p, inputs, 2, seed=0), random_scale(2, 1)
    plain, unit = searched(problem.X, problem.Y)
    data, deviations = coupled(plain), np.exp(H[:-1] / 2)
    factor, eigen = data.likelihood(H), [part[None] for part in np.linalg.eigh(scale)]
    value = factor.log_value(*eigen)[0] + factor.log_constant + data.log_jacobian(H)
    gram, C = whole_gram(problem, math.exp(H[-1]))[0], contrasts(p)
    own_scale = deviations[:, None] * scale * deviations
    targets = C @ problem.Y / unit
    dense = dense_log_density(targets, np.zeros_like(targets), C @ gram @ C.T, own_scale)
    assert value == pytest.approx(dense, rel=1e-10)


@pytest.mark.parametrize("outputs", [2, 1])
@pytest.mark.parametrize(("p", "inputs"), SHAPES)
def test_private_inputs_of_any_variance_are_a_diagonal_of_the_gram_matrix(p, inputs, outputs):
    problem, scale = make_problem(p, inputs, outputs, seed=0), random_scale(outputs, 1)
    targets = problem.columns
    spectrum = lbnn.Spectrum.from_inputs(problem.X, targets)
    noise, private = Noise.coupled(2.5 * 0.3), spectrum.scaled(2.5)
    factor, eigen = noise.likelihood(private), [part[None] for part in np.linalg.eigh(scale)]
    gram = 2.5 * (problem.gram + 0.3 * np.eye(p))
    dense = dense_log_density(targets, np.zeros_like(targets), gram, scale)
    assert factor.log_value(*eigen)[0] + factor.log_constant == pytest.approx(dense, rel=1e-10)
    projection = noise.transform_projection(private.project(problem.X_test), private)
    seen = 2.5 * problem.cross.T @ np.linalg.solve(gram, 2.5 * problem.cross)
    np.testing.assert_allclose(projection.explained @ projection.explained.T, seen, rtol=1e-9)
    np.testing.assert_allclose(projection.unexplained_gram, 2.5 * problem.test_gram - seen, atol=1e-12)
    root_gram = projection.unexplained_root @ projection.unexplained_root.T
    np.testing.assert_allclose(root_gram, projection.unexplained_gram, atol=1e-12)


@pytest.mark.parametrize(("p", "inputs"), SHAPES)
def test_slopes_are_derivatives_of_the_log_likelihood(p, inputs):
    data, scale = coupled_data(make_problem(p, inputs, 2, seed=0)), random_scale(2, 1)
    eigen = [part[None] for part in np.linalg.eigh(scale)]

    def log_likelihood(h):
        factor = data.likelihood(h)
        return factor.log_value(*eigen)[0] + factor.log_constant + data.log_jacobian(h)

    steps = 1e-5 * np.eye(3)
    expected = [(log_likelihood(H + e) - log_likelihood(H - e)) / 2e-5 for e in steps]
    np.testing.assert_allclose(
        data.slopes(H, np.linalg.cholesky(scale)[None])[0], expected, rtol=1e-7, atol=1e-6
    )


@pytest.mark.parametrize("width", [2, 3, 8])
def test_evidence_at_depth_two_is_a_normaliser_of_the_matrix_inverse_gaussian(width):
    """Wishart times det(L)^{−p/2} etr(−½ L⁻¹S) is an MGIG kernel, whose integral is known by quadrature."""
    problem = make_problem(20, 5, 2, seed=3)
    data = coupled_data(problem)
    count, outputs = data.spectrum.examples, 2
    gram, C = whole_gram(problem, math.exp(H[-1]))[0], contrasts(20)
    contrast_gram = C @ gram @ C.T
    unit = searched(problem.X, problem.Y)[1]
    targets = C @ problem.Y / unit / np.exp(H[:-1] / 2)
    scatter = targets.T @ np.linalg.solve(contrast_gram, targets)
    law = PlaneReferee(scatter, width * np.eye(outputs), (width - count) / 2, inverse=False)
    log_wishart = -0.5 * width * outputs * math.log(2 / width) - special.multigammaln(width / 2, outputs)
    log_gauss = -0.5 * count * outputs * math.log(2 * math.pi)
    log_gauss -= 0.5 * outputs * np.linalg.slogdet(contrast_gram)[1]
    posterior = condition(data, (width,), H, InferenceOptions(0.01, 0))
    exact = law.log_normalizer + log_wishart + log_gauss
    assert_agrees(posterior.log_evidence, posterior.log_evidence_error, exact, largest_error=0.01)


@pytest.mark.parametrize("widths", [(12,), (3,), (6, 6)])
def test_search_evidence_and_gradient_agree_with_the_engine(widths):
    data, h = coupled_data(make_problem(40, 60, 3, seed=1)), np.array([-1.6, -1.2, -1.5, 0.8])
    evidence = network_evidence(data, widths, h, 0)
    value, _ = evidence(h)
    gradient = np.mean([network_evidence(data, widths, h, seed)(h)[1] for seed in range(6)], axis=0)
    posterior = condition(data, widths, h, InferenceOptions(0.02, 0))
    exact = posterior.log_evidence + data.log_jacobian(h)
    assert abs(value - exact) < 4 * math.hypot(evidence.error, posterior.log_evidence_error)
    slopes = data.slopes(h, np.linalg.cholesky(posterior.scale.scales))
    fisher = posterior.scale.average(slopes)
    spread = np.sqrt(posterior.scale.average((slopes - fisher) ** 2))
    assert (np.abs(gradient - fisher) < 4 * posterior.scale.standard_error(slopes) + 0.03 * spread).all()


def test_strongly_correlated_outputs_are_searched_as_the_engine_sees_them():
    """A signal of rank one and little noise: the mode is far from the prior, and single units are steep."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(20, 50))
    Y = X @ rng.normal(size=(50, 1)) @ rng.normal(size=(1, 3)) + 0.01 * rng.normal(size=(20, 3))
    data = coupled(searched(X, Y)[0])
    directions, h = np.array([[1.0, 0.0]] * 3 + [[0.0, 1.0]]), np.array([-1.1, -1.1, -1.1, 0.6])
    evidence = network_evidence(data, (4,), h, 0)
    value, gradient = evidence(h)
    posterior = condition(data, (4,), h)
    exact = posterior.log_evidence + data.log_jacobian(h)
    assert abs(value - exact) < 4 * math.hypot(evidence.error, posterior.log_evidence_error)
    slopes = data.slopes(h, np.linalg.cholesky(posterior.scale.scales)) @ directions
    fisher, error = posterior.scale.average(slopes), posterior.scale.standard_error(slopes)
    spread = np.sqrt(posterior.scale.average((slopes - fisher) ** 2))
    assert (np.abs(gradient @ directions - fisher) < 4 * error + 0.05 * spread).all()


def test_infinite_width_is_independent_noise():
    plain = searched(*_arrays(make_problem(15, 25, 2, seed=0)))[0]
    wide = condition(coupled(plain), (10**7,), H)
    exact = gp.log_evidence(plain, H[None])[0]
    assert wide.log_evidence + plain.log_jacobian(H) == pytest.approx(exact, abs=0.02)


def _arrays(problem):
    return problem.X, problem.Y


# ---------------------------------------------------------------------- predictions


@pytest.mark.parametrize(("p", "inputs"), SHAPES)
def test_observations_are_the_mixture_of_dense_forecasts(p, inputs):
    problem = make_problem(p, inputs, 2, seed=4, points=2)
    model = LBNNRegressor(**FIXED).fit(problem.X, problem.Y)
    assert model.candidates_[0].noise == "coupled"
    gram, cross, own = whole_gram(problem, 2.0 * 1.5)
    mean, function_gram = dense_forecast(gram, cross, own, problem.Y)
    scale, weights = model.candidates_[0].posterior.scale, model.candidates_[0].posterior.scale.weights
    for law, extra in ((model.predictive(problem.X_test), 0.0), (None, 1.0)):
        law = law or model.predictive(problem.X_test).with_noise()
        total = function_gram + extra * np.eye(2)
        values = mean + np.array([[0.3, -0.5], [0.1, 0.8]]) * law.standard_deviation
        joint = [dense_log_density(values, mean, total, each / 2) for each in scale.scales]
        single = [
            [
                dense_log_density(values[i], mean[i], total[i : i + 1, i : i + 1], each / 2)
                for each in scale.scales
            ]
            for i in range(2)
        ]
        np.testing.assert_allclose(law.mean, mean, rtol=1e-9)
        covariance = np.einsum("mn,jk->mjnk", total, scale.average(scale.scales) / 2)
        np.testing.assert_allclose(law.covariance, covariance, rtol=1e-8)
        assert law.log_density(values) == pytest.approx(np.log(weights @ np.exp(joint)), rel=1e-8)
        np.testing.assert_allclose(
            law.pointwise_log_density(values), np.log(np.exp(single) @ weights), rtol=1e-8
        )
        assert law.noisy == bool(extra)
    np.testing.assert_allclose(law.with_noise().covariance, covariance, rtol=1e-8)
    np.testing.assert_allclose(model.predict(problem.X_test), mean, rtol=1e-9)
    np.testing.assert_allclose(model.noise_covariance_, scale.mean / 2)
    np.testing.assert_allclose(model.noise_variance_, np.diag(model.noise_covariance_))


def test_draws_have_the_moments_and_intervals_the_mass():
    problem = make_problem(12, 20, 2, seed=4, points=2)
    law = LBNNRegressor(**FIXED).fit(problem.X, problem.Y).predictive(problem.X_test).with_noise()
    draws = law.sample(4000, seed=0)
    assert_agrees(draws.mean(0), law.standard_deviation / math.sqrt(4000), law.mean)
    low, high = law.interval(0.8)
    assert_agrees(((low < draws) & (draws < high)).mean(0), np.full((2, 2), 0.4 / 63), np.full((2, 2), 0.8))
    deviations = (draws - law.mean).reshape(4000, -1)
    products = deviations[:, :, None] * deviations[:, None, :]
    errors = products.std(0) / math.sqrt(4000)
    assert_agrees(products.mean(0), errors, law.covariance.reshape(4, 4))


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.filterwarnings("ignore::lbnn.AccuracyWarning")  # of another example than the one compared
def test_leave_one_out_is_what_refits_say(kernel):
    problem = make_problem(16, 5, 2, seed=14)
    fixed = {**FIXED, **KERNELS[kernel], "fit_intercept": kernel == "linear", "target_error": 0.01}
    scores = LBNNRegressor(**fixed).fit(problem.X, problem.Y).leave_one_out()
    assert scores.pareto_k[5] < 0.7
    others = np.arange(16) != 5
    law = LBNNRegressor(**fixed).fit(problem.X[others], problem.Y[others])
    law = law.predictive(problem.X[5:6]).with_noise()
    np.testing.assert_allclose(scores.mean[5], law.mean[0], rtol=1e-8)
    np.testing.assert_allclose(scores.variance[5], law.variance[0], rtol=0.05)
    density = law.pointwise_log_density(problem.Y[5:6])[0]
    assert scores.log_density[5] == pytest.approx(density, abs=0.05)


@pytest.mark.parametrize(("p", "inputs", "kernel"), [(12, 20, "linear"), (30, 4, "linear"), (12, 4, "rbf")])
def test_saved_and_loaded_estimators_are_the_same(tmp_path, p, inputs, kernel):
    problem = make_problem(p, inputs, 2, seed=13)
    model = LBNNRegressor(**FIXED, kernel=kernel, column_scales="raw").fit(problem.X, problem.Y)
    model.save(tmp_path / "model.lbnn")
    again = LBNNRegressor.load(tmp_path / "model.lbnn")
    laws = [each.predictive(problem.X_test).with_noise() for each in (model, again)]
    np.testing.assert_array_equal(laws[0].covariance, laws[1].covariance)
    far = laws[0].mean + 30.0  # beyond the atoms: both condition anew
    assert laws[0].log_density(far) == laws[1].log_density(far)
    np.testing.assert_array_equal(model.noise_covariance_, again.noise_covariance_)
    np.testing.assert_array_equal(model.leave_one_out().log_density, again.leave_one_out().log_density)


# ---------------------------------------------------------------------- invariances


def test_rescaling_single_outputs_rescales_the_answer():
    problem, factors = make_problem(30, 8, 3, seed=7), np.array([1.0, 1e-3, 50.0])
    base, scaled = (
        LBNNRegressor(noise="coupled_per_output", width=(5,), target_error=0.02).fit(problem.X, Y)
        for Y in (problem.Y, problem.Y * factors)
    )
    shift = -29 * np.log(factors).sum()
    assert scaled.log_evidence_ == pytest.approx(base.log_evidence_ + shift, abs=0.1)
    np.testing.assert_allclose(
        scaled.predict(problem.X_test) / factors, base.predict(problem.X_test), rtol=0.02
    )
    np.testing.assert_allclose(
        scaled.noise_covariance_ / np.outer(factors, factors), base.noise_covariance_, rtol=0.1, atol=0.01
    )


def test_rotating_outputs_rotates_the_answer():
    problem, turn = make_problem(30, 8, 3, seed=7), random_rotation(3, 0)
    base, turned = (
        LBNNRegressor(noise="coupled", width=(5,), target_error=0.02).fit(problem.X, Y)
        for Y in (problem.Y, problem.Y @ turn)
    )
    assert turned.log_evidence_ == pytest.approx(base.log_evidence_, abs=0.05)
    np.testing.assert_allclose(
        turned.predict(problem.X_test) @ turn.T, base.predict(problem.X_test), atol=0.02
    )


# ---------------------------------------------------------------------- what it is for


def correlated(rng, rows, inputs=10):
    """Inputs, targets, and the covariance of their noise."""
    weights = np.random.default_rng(5).normal(size=(inputs, 3)) / math.sqrt(inputs)
    covariance = 0.5 * np.array([[1.0, 0.9, 0.5], [0.9, 1.0, 0.3], [0.5, 0.3, 1.0]])
    X = rng.normal(size=(rows, inputs))
    return X, X @ weights + rng.multivariate_normal(np.zeros(3), covariance, size=rows), covariance


@pytest.mark.parametrize(
    ("noise", "found"), [pytest.param("auto", "free", marks=pytest.mark.slow), ("coupled", "coupled")]
)
def test_correlated_noise_is_found_and_pays(noise, found):
    """The covariance of the noise is not that of the function: "auto" finds it, coupled noise comes near."""
    rng = np.random.default_rng(0)
    X, Y, covariance = correlated(rng, 80)
    X_test, Y_test, _ = correlated(rng, 400)
    model, isotropic = (LBNNRegressor(noise=kind).fit(X, Y) for kind in (noise, "independent"))
    assert model.candidates_[0].noise == found
    if noise == "auto":
        assert {row.noise for row in model.candidates_} >= {"free", "coupled", "independent"}
    assert model.log_evidence_ > isotropic.log_evidence_ + 30
    deviation = np.sqrt((covariance**2 + np.outer(*[np.diag(covariance)] * 2)) / 70)  # of a Wishart matrix
    assert_agrees(model.noise_covariance_, deviation, covariance)
    gains = [
        each.predictive(X_test).with_noise().pointwise_log_density(Y_test) for each in (model, isotropic)
    ]
    gain = gains[0] - gains[1]
    assert gain.mean() - 4 * gain.std() / 20 > 0.3


@pytest.mark.slow
def test_data_from_the_model_are_covered():
    """Joint regions of highest density, exactly calibrated where the hyperparameters are the true ones."""
    rng, ranks = np.random.default_rng(1), []
    for _ in range(110):
        X, scale = rng.normal(size=(9, 6)), rng.normal(size=(2, 6)) / math.sqrt(6)
        weights = scale @ rng.normal(size=(6, 6)) * math.sqrt(1.5 / 6)
        noise = math.sqrt(0.5) * rng.normal(size=(9, 6)) @ scale.T
        Y = X @ weights.T + noise + 3.0
        fixed = {**FIXED, "prior_scale": 1.5, "target_error": 0.03}
        law = LBNNRegressor(**fixed).fit(X[1:], Y[1:]).predictive(np.repeat(X[:1], 100, axis=0)).with_noise()
        draws = law.sample(99, rng)[:, 0]
        densities = law.pointwise_log_density(np.vstack([Y[:1], draws]))
        ranks.append((densities[1:] < densities[0]).mean())
    assert_agrees((np.array(ranks) > 0.1).mean(), math.sqrt(0.09 / 110), 0.9, largest_error=0.03)
    assert stats.kstest(ranks, "uniform").pvalue > 1e-3


# ---------------------------------------------------------------------- where it does not apply


def test_one_output_has_one_kind_of_noise():
    problem = make_problem(40, 5, None, seed=0)
    models = [LBNNRegressor(noise=noise).fit(problem.X, problem.Y) for noise in ("coupled", "independent")]
    assert models[0].log_evidence_ == models[1].log_evidence_
    assert models[0].noise_covariance_ == models[0].noise_variance_


@pytest.mark.parametrize(
    ("targets", "parameters", "message"),
    [
        (lambda Y: Y, {"width": (1,)}, "at least the number of outputs"),
        (lambda Y: Y, {"beta": math.inf}, "beta=inf"),
        pytest.param(
            lambda Y: np.hstack([Y, Y**2, Y**3, Y**4]), {}, "every combination varies", marks=pytest.mark.slow
        ),
        (lambda Y: Y * [1e-7, 1.0], {}, "every combination varies"),
    ],
)
@pytest.mark.filterwarnings("ignore:the evidence prefers a signal only slightly")  # of seven rows
def test_coupled_noise_needs_an_invertible_scale(targets, parameters, message):
    problem = make_problem(7, 9, 2, seed=0)
    with pytest.raises(ValueError, match=message):
        LBNNRegressor(noise="coupled", **parameters).fit(problem.X, targets(problem.Y))
    if not parameters:
        table = LBNNRegressor(depth=2, width=3).fit(problem.X, targets(problem.Y)).candidates_
        assert "coupled" not in {row.noise for row in table}


def test_targets_without_noise_have_no_coupled_noise():
    problem = make_problem(30, 4, 2, seed=0)
    Y = problem.X @ np.random.default_rng(0).normal(size=(4, 2))
    with pytest.raises(ValueError, match="and has noise"):
        LBNNRegressor(noise="coupled").fit(problem.X, Y)
    with pytest.warns(lbnn.DataWarning, match="fitted without noise"):
        model = LBNNRegressor().fit(problem.X, Y)
    assert {row.noise for row in model.candidates_} <= {"independent", "per_output"}
    np.testing.assert_allclose(model.predict(problem.X), Y, atol=1e-3)


def test_dual_engine_refuses_rows_that_stand_for_several_examples():
    problem = make_problem(12, 20, 2, seed=0)
    with pytest.raises(ValueError, match="'dual' does not apply"):
        condition(coupled_data(problem), (6,), H, InferenceOptions(0.1, 0, "dual"))


def test_penalty_leaves_equal_units_where_unequal_ones_gain_little():
    plain = searched(*_arrays(make_problem(40, 10, 3, seed=2)))[0]
    specs = [NoiseSpec(coupled=True), NoiseSpec(coupled=True, per_output=True)]
    best = search(plain, specs, Shapes(fixed=((6,),)))
    assert [candidate.noise for candidate in best] == ["coupled", "coupled_per_output"]
    assert best[1].log_evidence > best[0].log_evidence - 0.3
    assert best[1].penalty - best[0].penalty == pytest.approx(math.log(39))
