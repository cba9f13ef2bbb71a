"""LBNNRegressor: dense referees of the intercept, invariances, scikit-learn's own checks, degenerate data."""

from __future__ import annotations

import functools
import math
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import linalg, stats
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process.kernels import RBF
from sklearn.linear_model import BayesianRidge
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

import lbnn
from lbnn import LBNNRegressor
from lbnn.data.centring import contrasts as remove_level
from tests.helpers.problems import make_problem, random_rotation
from tests.referees.statistics import assert_agrees


def contrasts(p):
    """Orthonormal contrasts, (p − 1, p)."""
    return linalg.null_space(np.ones((1, p))).T


def kriging(gram, cross, test, Y, scale, noise):
    """Universal kriging with a flat level, by dense algebra: mean (p̂, n_d), function covariance (p̂, p̂)."""
    p = len(gram)
    precision = np.linalg.inv(scale * gram + noise * np.eye(p))
    ones, total = np.ones(p), precision.sum()
    level = ones @ precision @ Y / total
    mean = level + scale * cross @ precision @ (Y - level)
    left = 1 - scale * cross @ precision @ ones
    covariance = scale * test - scale**2 * cross @ precision @ cross.T + np.outer(left, left) / total
    return mean, covariance


# ---------------------------------------------------------------------- the intercept, by brute force


@pytest.mark.parametrize(("p", "inputs"), [(10, 25), (30, 6), (10, 9)])
@pytest.mark.parametrize("outputs", [None, 3])
def test_gaussian_process_with_an_intercept_is_universal_kriging(p, inputs, outputs):
    problem = make_problem(p, inputs, outputs, seed=1)
    X, Y = problem.X + 3.0, problem.Y + 7.0
    X_test = problem.X_test + 3.0
    model = LBNNRegressor(depth=1, beta=4.0, prior_scale=1.7, column_scales="raw").fit(X, Y)
    gram, cross, test = (a @ b.T / inputs for a, b in ((X, X), (X_test, X), (X_test, X_test)))
    mean, covariance = kriging(gram, cross, test, Y.reshape(p, -1), 1.7, 0.25)
    np.testing.assert_allclose(model.predict(X_test).reshape(mean.shape), mean, rtol=1e-8)
    law = model.predictive(X_test)
    np.testing.assert_allclose(law.mean, model.predict(X_test), rtol=1e-9)
    np.testing.assert_allclose(X_test @ np.transpose(model.coef_) + model.intercept_, law.mean, rtol=1e-8)
    dense = covariance if outputs is None else np.einsum("mn,jk->mjnk", covariance, np.eye(3))
    np.testing.assert_allclose(law.covariance, dense, atol=1e-8)
    noisy = covariance + 0.25 * np.eye(3)
    columns = (Y.reshape(p, -1).T, mean.T)
    expected = sum(stats.multivariate_normal(m, noisy).logpdf(m + 0.3) for m in columns[1])
    assert law.with_noise().log_density(law.mean + 0.3) == pytest.approx(expected, rel=1e-7)
    H = contrasts(p)
    inner = H @ (1.7 * gram + 0.25 * np.eye(p)) @ H.T
    evidence = sum(stats.multivariate_normal(cov=inner).logpdf(H @ y) for y in columns[0])
    assert model.log_evidence_ == pytest.approx(evidence, rel=1e-9)


@pytest.mark.parametrize("widths", [(3,), (4, 4)])
def test_one_output_with_an_intercept_is_the_network_of_contrasts(widths):
    problem = make_problem(12, 30, None, seed=2)
    model = LBNNRegressor(width=widths, beta=5.0, prior_scale=1.0, column_scales="raw").fit(
        problem.X, problem.Y
    )
    H = contrasts(12)
    other = lbnn.Network(widths).condition(H @ problem.X, H @ problem.Y, beta=5.0)
    assert model.log_evidence_ == pytest.approx(other.log_evidence, rel=1e-10)
    assert model.scale_mean_ == pytest.approx(other.scale.mean, rel=1e-9)
    shifted = other.predict(problem.X_test - problem.X.mean(0))
    np.testing.assert_allclose(model.predict(problem.X_test), problem.Y.mean() + shifted.mean, rtol=1e-8)
    np.testing.assert_allclose(
        model.predictive(problem.X_test).variance, shifted.variance + 0.2 / 12, rtol=1e-8
    )


def test_kernels_agree_with_inputs_and_with_each_other():
    problem = make_problem(15, 30, 2, seed=3)
    X, Y, X_test = problem.X + 1.0, problem.Y, problem.X_test + 1.0
    fixed = {"width": (6,), "beta": 5.0, "prior_scale": 1.0, "column_scales": "raw"}
    linear = LBNNRegressor(**fixed).fit(X, Y)
    gram, cross, test = (a @ b.T / 30 for a, b in ((X, X), (X_test, X), (X_test, X_test)))
    kernel = LBNNRegressor(kernel="precomputed", **fixed).fit(gram, Y)
    assert kernel.log_evidence_ == pytest.approx(linear.log_evidence_, abs=1e-6)
    np.testing.assert_allclose(kernel.predict(cross), linear.predict(X_test), rtol=1e-5)
    law = kernel.predictive(cross, test_gram=test)
    np.testing.assert_allclose(law.mean, kernel.predict(cross), rtol=1e-8)
    np.testing.assert_allclose(law.covariance, linear.predictive(X_test).covariance, rtol=1e-4, atol=1e-6)
    with pytest.raises(ValueError, match="test_gram"):
        kernel.predict(cross, return_std=True)
    named = LBNNRegressor(kernel=RBF(5.0), **fixed).fit(X, Y)
    function = LBNNRegressor(kernel=functools.partial(rbf_kernel, gamma=0.02), **fixed).fit(X, Y)
    by_hand = LBNNRegressor(kernel="precomputed", **fixed).fit(rbf_kernel(X, gamma=0.02), Y)
    mean, deviation = named.predict(X_test, return_std=True)
    np.testing.assert_allclose(function.predict(X_test), mean, rtol=1e-6)
    np.testing.assert_allclose(by_hand.predict(rbf_kernel(X_test, X, gamma=0.02)), mean, rtol=1e-6)
    np.testing.assert_allclose(function.predict(X_test, return_std=True)[1], deviation, rtol=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_an_eigenvalue_of_the_level_that_is_rounding_does_not_count(seed):
    """Centring a kernel with a large mean leaves the level an eigenvalue that may count as positive."""
    problem = make_problem(6, 8, None, seed=seed)
    fixed = {"width": (3,), "beta": 4.0, "prior_scale": 1.0, "column_scales": "raw"}
    X, X_test = problem.X + 100.0, problem.X_test + 100.0
    kernel = LBNNRegressor(kernel="precomputed", **fixed).fit(X @ X.T / 8, problem.Y)
    linear = LBNNRegressor(**fixed).fit(X, problem.Y)
    assert (
        kernel.candidates_[0].posterior.spectrum.rank
        == kernel.candidates_[0].posterior.spectrum.examples
        == 5
    )
    assert kernel.log_evidence_ == pytest.approx(linear.log_evidence_, abs=1e-6)
    np.testing.assert_allclose(kernel.predict(X_test @ X.T / 8), linear.predict(X_test), rtol=1e-6)


def test_level_is_left_out_of_inputs_as_well():
    problem = make_problem(6, 8, 2, seed=0)
    centred = problem.X - problem.X.mean(0)
    exact = remove_level(lbnn.Spectrum.from_inputs(centred, problem.Y))
    nearly = remove_level(lbnn.Spectrum.from_inputs(centred + 1e-7, problem.Y))
    assert exact.examples == nearly.examples == exact.rank == nearly.rank == 5
    np.testing.assert_allclose(nearly.eigenvalues, exact.eigenvalues, rtol=1e-6)
    np.testing.assert_allclose(nearly.targets**2, exact.targets**2, rtol=1e-5)
    np.testing.assert_allclose(
        nearly.project(problem.X_test).explained ** 2, exact.project(problem.X_test).explained ** 2, rtol=1e-4
    )


# ---------------------------------------------------------------------- evidence


def test_gaussian_process_evidence_is_that_of_bayesian_ridge():
    """Without a level it is the same model; with one, BayesianRidge counts p examples, not p − 1."""
    problem = make_problem(60, 10, None, seed=4)
    flat = {"alpha_1": 0, "alpha_2": 0, "lambda_1": 0, "lambda_2": 0, "tol": 1e-12, "max_iter": 5000}
    ridge = BayesianRidge(**flat).fit(problem.X, problem.Y)
    model = LBNNRegressor(depth=1, fit_intercept=False).fit(problem.X, problem.Y)
    free = BayesianRidge(fit_intercept=False, **flat).fit(problem.X, problem.Y)
    assert model.beta_ == pytest.approx(free.alpha_, rel=1e-4)
    assert model.prior_scale_ == pytest.approx(10 / free.lambda_, rel=1e-3)
    np.testing.assert_allclose(model.coef_, free.coef_, rtol=1e-4)
    assert ridge.alpha_ == pytest.approx(LBNNRegressor(depth=1).fit(problem.X, problem.Y).beta_, rel=0.05)


def test_candidates_are_complete_and_in_order():
    problem = make_problem(30, 40, 2, seed=5)
    model = LBNNRegressor().fit(problem.X, problem.Y)
    table = model.candidates_
    assert [row.score for row in table] == sorted((row.score for row in table), reverse=True)
    assert sum(row.weight for row in table) == pytest.approx(1)
    assert table[0].posterior is model._state.best.posterior
    assert {row.widths for row in table} >= {(), (128,), (32,)}
    assert table[0].widths == model.widths_
    stated = math.hypot(
        table[0].log_evidence_error, model.log_evidence_error_
    )  # two independent estimates of it
    assert abs(table[0].log_evidence - model.log_evidence_) <= 4 * stated + 1e-9
    assert model.beta_ == pytest.approx(table[0].beta)
    assert model.prior_scale_ == pytest.approx(table[0].prior_scale)
    independent = [row for row in table if row.noise == "independent"]
    for row in independent[:3]:  # each line is the evidence of that network at these hyperparameters
        again = LBNNRegressor(width=row.widths, beta=row.beta, prior_scale=row.prior_scale)
        again.fit(problem.X, problem.Y)
        error = math.hypot(row.log_evidence_error, again.log_evidence_error_)
        assert abs(again.log_evidence_ - row.log_evidence) <= 4 * error + 1e-9


def test_unequal_noise_is_found():
    rng = np.random.default_rng(6)
    X = rng.normal(size=(150, 20))
    noise = np.array([0.1, 1.0, 0.4])
    Y = X @ rng.normal(size=(20, 3)) / 4 + noise * rng.normal(size=(150, 3))
    model = LBNNRegressor(noise="per_output").fit(X, Y)
    assert_agrees(model.noise_variance_, noise**2 * math.sqrt(2 / 130), noise**2)
    equal = LBNNRegressor(noise="independent").fit(X, Y)
    assert model.log_evidence_ > equal.log_evidence_ + 50
    assert np.ptp(equal.noise_variance_) == 0
    assert model.beta_ == pytest.approx(1 / stats.gmean(model.noise_variance_))
    fixed = LBNNRegressor(depth=1, noise="per_output", beta=2.0).fit(X, Y)
    assert stats.gmean(fixed.noise_variance_) == pytest.approx(0.5)
    assert fixed.noise_variance_[0] < fixed.noise_variance_[2] < fixed.noise_variance_[1]


def test_average_is_the_mixture_by_evidence():
    problem = make_problem(20, 30, 2, seed=7)
    model = LBNNRegressor(average=True).fit(problem.X, problem.Y)
    assert len(model._state.models) > 2
    assert model._state.weights.sum() == pytest.approx(1)
    ratios = np.log(model._state.weights[0] / model._state.weights[1])
    assert ratios == pytest.approx(model._state.models[0].log_evidence - model._state.models[1].log_evidence)
    means = [m.predictive(problem.X_test - problem.X.mean(0)).mean for m in model._state.models]
    np.testing.assert_allclose(model.predict(problem.X_test), np.tensordot(model._state.weights, means, 1))
    np.testing.assert_allclose(model.predictive(problem.X_test).mean, model.predict(problem.X_test))


# ---------------------------------------------------------------------- invariances


@functools.cache
def fit_in_plain_units():
    problem = make_problem(25, 12, 2, seed=8)
    return problem, LBNNRegressor(width=(3,)).fit(problem.X, problem.Y)


@settings(max_examples=4, deadline=None)
@given(
    input_size=st.sampled_from([1e-6, 1e-2, 1.0, 1e3, 1e6]),
    target_size=st.sampled_from([1e-8, 1e-3, 1.0, 1e5]),
    shift=st.sampled_from([0.0, 10.0, -1e3]),
)
def test_units_of_inputs_and_targets_do_not_matter(input_size, target_size, shift):
    problem, base = fit_in_plain_units()
    X, X_test = input_size * (problem.X + shift), input_size * (problem.X_test + shift)
    model = LBNNRegressor(width=(3,)).fit(X, target_size * (problem.Y - shift))
    mean, deviation = model.predict(X_test, return_std=True)
    expected, spread = base.predict(problem.X_test, return_std=True)
    # 2e-9 in twenty combinations of units. (Roots of covariances once had the signs of eigenvectors, which
    # rounding decides: 1e-3.)
    tolerance = 1e-6 * spread.max()
    np.testing.assert_allclose(mean / target_size + shift, expected, atol=tolerance)
    np.testing.assert_allclose(deviation / target_size, spread, atol=tolerance)
    jacobian = 24 * 2 * math.log(target_size)
    assert model.log_evidence_ == pytest.approx(base.log_evidence_ - jacobian, abs=1e-6)


def test_rotating_outputs_rotates_the_answer_and_permuting_examples_does_nothing():
    problem = make_problem(25, 12, 3, seed=9)
    rotation, order = random_rotation(3, 0), np.random.default_rng(0).permutation(25)
    base = LBNNRegressor(width=(4,), target_error=0.02).fit(problem.X, problem.Y)
    turned = LBNNRegressor(width=(4,), target_error=0.02).fit(problem.X, problem.Y @ rotation)
    moved = LBNNRegressor(width=(4,), target_error=0.02).fit(problem.X[order], problem.Y[order])
    mean, spread = base.predict(problem.X_test, return_std=True)
    for model, back in ((turned, rotation.T), (moved, np.eye(3))):
        assert model.log_evidence_ == pytest.approx(base.log_evidence_, abs=0.03)
        assert np.abs(model.predict(problem.X_test) @ back - mean).max() < 0.02 * spread.max()


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("parameters", [pytest.param({}, marks=pytest.mark.slow), {"average": False}])
def test_order_of_columns_rows_and_outputs_does_not_matter(kernel, parameters):
    problem, rng = make_problem(25, 8, 2, seed=10), np.random.default_rng(1)
    columns, rows, outputs = rng.permutation(8), rng.permutation(25), np.array([1, 0])
    size = {"width": (3,), "kernel": kernel, "target_error": 0.05, **parameters}
    units = np.exp(rng.normal(size=8))  # so that raw and standardised columns differ
    X, X_test = problem.X * units, problem.X_test * units
    base = LBNNRegressor(**size).fit(X, problem.Y)
    mean, spread = base.predict(X_test, return_std=True)
    for model, test, back in (
        (LBNNRegressor(**size).fit(X[:, columns], problem.Y), X_test[:, columns], slice(None)),
        (LBNNRegressor(**size).fit(X[rows], problem.Y[rows]), X_test, slice(None)),
        (LBNNRegressor(**size).fit(X, problem.Y[:, outputs]), X_test, outputs),
    ):
        assert model.kernel_.columns == base.kernel_.columns
        assert model.log_evidence_ == pytest.approx(base.log_evidence_, abs=0.1)
        found, deviation = model.predict(test, return_std=True)
        assert np.abs(found[:, back] - mean).max() < 0.05 * spread.max()
        assert np.abs(deviation[:, back] / spread - 1).max() < 0.05
    if kernel == "linear":
        turned = LBNNRegressor(**size).fit(X[:, columns], problem.Y)
        size_of = np.abs(base.coef_).max(axis=0)
        assert (np.abs(turned.coef_ - base.coef_[:, columns]).max(axis=0) < 0.1 * size_of[columns]).all()


# ---------------------------------------------------------------------- scikit-learn


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.filterwarnings("ignore::lbnn.AccuracyWarning")
@pytest.mark.filterwarnings("ignore::lbnn.DataWarning")  # some of its data have no noise
@pytest.mark.parametrize(
    "estimator",
    [
        pytest.param(LBNNRegressor(), marks=pytest.mark.slow),
        LBNNRegressor(depth=1, noise="per_output"),
        pytest.param(LBNNRegressor(noise="coupled", depth=2), marks=pytest.mark.slow),
        pytest.param(
            LBNNRegressor(depth=1, kernel="rbf", fit_intercept=False),
            marks=pytest.mark.slow,
        ),
        LBNNRegressor(width=8, depth=2, beta=2.0, prior_scale=1.0),
        LBNNRegressor(depth=1, kernel="precomputed"),
    ],
    ids=repr,
)
def test_estimator_checks(estimator):
    coarse = "rounds the kernel to integers or single precision: no longer positive semi-definite"
    expected = {"check_estimators_dtypes": coarse, "check_regressors_train": coarse}
    expected = expected if estimator.kernel == "precomputed" else {}
    if estimator.beta == "evidence":
        agree = "copies of a row agree, which says that the noise is small; a weight does not"
        expected |= {"check_sample_weight_equivalence_on_dense_data": agree}
    check_estimator(estimator, expected_failed_checks=expected)


def test_pipeline_grid_search_cross_validation_and_clone():
    problem = make_problem(30, 8, 2, seed=10)
    model = LBNNRegressor(width=(5,), average=False)
    pipeline = make_pipeline(StandardScaler(), model)
    assert cross_val_score(pipeline, problem.X, problem.Y, cv=3).mean() > 0.3
    grid = GridSearchCV(model, {"width": [(2,), (20,)], "noise": ["independent", "per_output"]}, cv=2)
    assert grid.fit(problem.X, problem.Y).best_params_["width"] in [(2,), (20,)]
    assert clone(model).get_params() == model.get_params()


def test_data_frames_give_feature_names():
    pandas = pytest.importorskip("pandas")
    problem = make_problem(12, 3, 2, seed=11)
    X = pandas.DataFrame(problem.X, columns=["a", "b", "c"])
    model = LBNNRegressor(depth=1).fit(X, pandas.DataFrame(problem.Y, columns=["u", "v"]))
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    assert model.predict(X).shape == (12, 2)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(X[["b", "a", "c"]])


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"depth": 0}, "depth"),
        ({"width": "wide"}, "width"),
        ({"width": (3, 0)}, "width"),
        ({"width": (3, 3), "depth": 2}, "1 hidden widths"),
        ({"width": 4, "depth": 1}, "depth one"),
        ({"beta": 0.0}, "beta"),
        ({"beta": math.inf, "noise": "per_output"}, "per_output"),
        ({"prior_scale": -1.0}, "prior_scale"),
        ({"noise": "unequal"}, "noise"),
        ({"kernel": "polynomical"}, "kernel"),
        ({"column_scales": "magic"}, "column_scales"),
        ({"target_error": 2.0}, "target_error"),
    ],
)
def test_wrong_parameters_are_named(parameters, message):
    problem = make_problem(8, 3, 2, seed=0)
    with pytest.raises(ValueError, match=message):
        LBNNRegressor(**parameters).fit(problem.X, problem.Y)


def test_standard_deviation_and_covariance_exclude_each_other():
    problem = make_problem(8, 3, None, seed=0)
    model = LBNNRegressor(depth=1, average=False).fit(problem.X, problem.Y)
    with pytest.raises(RuntimeError, match="at most one"):
        model.predict(problem.X, return_std=True, return_cov=True)
    _, covariance = model.predict(problem.X_test, return_cov=True)
    _, deviation = model.predict(problem.X_test, return_std=True)
    np.testing.assert_allclose(np.sqrt(np.diag(covariance)), deviation)
    law = model.predictive(problem.X_test)
    np.testing.assert_allclose(deviation**2, law.variance + model.noise_variance_)
    draws = model.sample_y(problem.X_test, 4000, random_state=1)
    assert draws.shape == (3, 4000)
    assert_agrees(draws.mean(1), deviation / math.sqrt(4000), law.mean)


def test_random_state_decides_the_draws():
    problem = make_problem(15, 20, 3, seed=12)

    def mean(state):
        fixed = LBNNRegressor(width=(4,), beta=5.0, prior_scale=1.0, random_state=state)
        return fixed.fit(problem.X, problem.Y).predict(problem.X_test)

    np.testing.assert_array_equal(mean(3), mean(3))
    np.testing.assert_array_equal(mean(np.random.RandomState(3)), mean(np.random.RandomState(3)))
    assert (mean(3) != mean(4)).any()


# ---------------------------------------------------------------------- files and leave-one-out


@pytest.mark.filterwarnings("ignore::lbnn.DataWarning")
@pytest.mark.parametrize(
    ("outputs", "parameters"),
    [
        (None, {}),
        (2, {"width": (4,), "noise": "per_output"}),
        (2, {"average": True, "width": 3}),
        (2, {"width": (5,), "kernel": "rbf"}),
        (None, {"beta": math.inf, "width": (5,)}),
    ],
)
def test_saved_and_loaded_estimators_are_the_same(tmp_path, outputs, parameters):
    problem = make_problem(10, 15, outputs, seed=13)
    model = LBNNRegressor(**parameters).fit(problem.X, problem.Y)
    model.save(tmp_path / "model.lbnn")
    again = LBNNRegressor.load(tmp_path / "model.lbnn")
    for one, other in zip(
        model.predict(problem.X_test, return_std=True),
        again.predict(problem.X_test, return_std=True),
        strict=True,
    ):
        np.testing.assert_array_equal(one, other)
    names = ("beta_", "prior_scale_", "widths_", "log_evidence_", "notices_", "kernel_")
    assert [getattr(again, name) for name in names] == [getattr(model, name) for name in names]
    for one, other in zip(model.candidates_, again.candidates_, strict=True):
        assert replace(one, posterior=None) == replace(other, posterior=None)
        assert (one.posterior is None) == (other.posterior is None)
    assert again.n_features_in_ == 15
    expected = {key: list(v) if isinstance(v, tuple) else v for key, v in model.get_params().items()}
    assert again.get_params() == expected
    if not {"beta", "average"} & parameters.keys():  # the former has no leave-one-out, the latter's warns
        np.testing.assert_array_equal(again.leave_one_out().log_density, model.leave_one_out().log_density)


def test_what_cannot_be_saved_or_loaded_is_said(tmp_path):
    problem = make_problem(8, 4, None, seed=0)
    model = LBNNRegressor(depth=1, kernel=lambda a, b: a @ b.T).fit(problem.X, problem.Y)
    with pytest.raises(ValueError, match="kernel"):
        model.save(tmp_path / "model.lbnn")
    (tmp_path / "other").write_bytes(b"not an archive")
    with pytest.raises(ValueError, match="archive"):
        LBNNRegressor.load(tmp_path / "other")


def test_files_of_the_first_layout_are_refused(tmp_path):
    problem = make_problem(12, 3, None, seed=0)
    LBNNRegressor(depth=1, beta=4.0, prior_scale=1.0).fit(problem.X, problem.Y).save(tmp_path / "model.lbnn")
    header, arrays = lbnn.archive.read(tmp_path / "model.lbnn", "LBNNRegressor")
    header.pop("layout")
    lbnn.archive.write(tmp_path / "old.lbnn", "LBNNRegressor", header, arrays)
    with pytest.raises(
        ValueError, match="in layout 4, got layout 1 of another version of lbnn: fit it again"
    ):
        LBNNRegressor.load(tmp_path / "old.lbnn")


@pytest.mark.parametrize("outputs", [None, 2])
def test_leave_one_out_is_what_refits_say(outputs):
    problem = make_problem(14, 20, outputs, seed=14)
    fixed = {"width": (6,), "beta": 6.0, "prior_scale": 1.5, "target_error": 0.01, "column_scales": "raw"}
    scores = LBNNRegressor(**fixed).fit(problem.X, problem.Y).leave_one_out()
    others = np.arange(14) != 5
    refit = LBNNRegressor(**fixed).fit(problem.X[others], problem.Y[others])
    law = refit.predictive(problem.X[5:6]).with_noise()
    tolerance = 1e-6 if outputs is None else 0.05
    deviation = law.standard_deviation[0]
    assert np.abs((scores.mean[5] - law.mean[0]) / deviation).max() < tolerance
    np.testing.assert_allclose(scores.variance[5], law.variance[0], rtol=2 * tolerance)
    assert scores.log_density[5] == pytest.approx(
        law.pointwise_log_density(problem.Y[5:6])[0], abs=2 * tolerance
    )


# ---------------------------------------------------------------------- degenerate data


def test_one_example_needs_a_given_noise():
    X, y = np.ones((1, 3)), np.array([2.0])
    with pytest.raises(ValueError, match="n_samples=1"):
        LBNNRegressor().fit(X, y)
    with pytest.warns(lbnn.DataWarning, match="do not vary"):
        model = LBNNRegressor(beta=4.0).fit(X, y)
    mean, deviation = model.predict(2 * X, return_std=True)
    assert mean[0] == pytest.approx(2.0)
    assert deviation[0] > math.sqrt(0.25)
    assert model.log_evidence_ == pytest.approx(0.0)
    with pytest.warns(lbnn.DataWarning, match="1 degree of freedom, too few"):
        assert LBNNRegressor(fit_intercept=False).fit(X, y).predict(X).shape == (1,)


@pytest.mark.filterwarnings("ignore::lbnn.DataWarning")
@pytest.mark.parametrize("noise", ["independent", "per_output"])
@pytest.mark.parametrize("p", [2, 3, 5])
def test_few_examples(p, noise):
    problem = make_problem(p, 4, 2, seed=15)
    mean, deviation = LBNNRegressor(noise=noise).fit(problem.X, problem.Y).predict(problem.X_test, True)
    assert np.isfinite(mean).all()
    assert (deviation > 0).all()


def test_constant_targets_are_announced():
    problem = make_problem(12, 4, None, seed=0)
    with pytest.warns(lbnn.DataWarning, match="constant"):
        model = LBNNRegressor().fit(problem.X, np.full(12, 0.1))
    np.testing.assert_allclose(model.predict(problem.X_test), 0.1)
    assert model.noise_variance_ == pytest.approx(1e-10)
    assert any("constant" in message for message in map(str, model.notices_))


@pytest.mark.filterwarnings("ignore::lbnn.DataWarning")
@pytest.mark.parametrize("noise", ["independent", pytest.param("per_output", marks=pytest.mark.slow)])
def test_one_constant_output_among_others(noise):
    problem = make_problem(20, 4, 3, seed=0)
    Y = np.column_stack([problem.Y, np.full(20, 3.3)])
    model = LBNNRegressor(noise=noise).fit(problem.X, Y)
    mean, deviation = model.predict(problem.X_test, return_std=True)
    assert np.abs(mean[:, 3] - 3.3).max() < 3 * deviation[:, 3].max()
    assert any("outputs [3] are constant" in message for message in map(str, model.notices_))
    if noise == "per_output":
        assert deviation[:, 3].max() < 1e-4


def test_constant_duplicated_and_huge_columns():
    problem = make_problem(25, 4, 2, seed=16)
    X = np.column_stack([problem.X, problem.X[:, 0], np.full(25, 0.1), 1e9 + 1e6 * problem.X[:, 1]])
    model = LBNNRegressor().fit(X, problem.Y)
    assert np.isfinite(model.predict(X)).all()
    np.testing.assert_array_equal(model.coef_[:, 5], 0)
    np.testing.assert_allclose(model.coef_[:, 0], model.coef_[:, 4], rtol=1e-4)


def test_inputs_that_do_not_vary_leave_the_mean():
    problem = make_problem(12, 3, 2, seed=0)
    with pytest.warns(lbnn.DataWarning, match="do not vary"):
        model = LBNNRegressor(noise="independent", average=False).fit(np.full((12, 3), 0.7), problem.Y)
    mean, deviation = model.predict(np.full((1, 3), 0.7), return_std=True)
    np.testing.assert_allclose(mean[0], problem.Y.mean(0))
    variance = problem.Y.var(0, ddof=1).mean()
    np.testing.assert_allclose(deviation[0] ** 2, variance * (1 + 1 / 12), rtol=1e-4)
    assert any("do not vary" in message for message in map(str, model.notices_))


def test_many_more_examples_than_features_and_one_feature():
    rng = np.random.default_rng(17)
    x = rng.normal(size=(2000, 1))
    Y = x @ np.array([[1.0, -2.0]]) + 0.5 * rng.normal(size=(2000, 2)) + 3
    model = LBNNRegressor().fit(x, Y)
    least_squares = np.linalg.lstsq(np.column_stack([x, np.ones(2000)]), Y, rcond=None)[0]
    np.testing.assert_allclose(model.coef_[:, 0], least_squares[0], atol=2e-3)
    np.testing.assert_allclose(model.intercept_, least_squares[1], atol=1e-3)
    assert model.noise_variance_[0] == pytest.approx(0.25, rel=0.1)


def test_a_fit_begins_by_forgetting_the_former_one():
    import dask.array as da

    problem = make_problem(15, 5, None, seed=18)
    named = pd.DataFrame(problem.X, columns=[f"x{j}" for j in range(5)])
    model = LBNNRegressor(depth=1).fit(named, problem.Y)
    model.set_params(kernel="rbf").fit(problem.X, problem.Y)
    assert not hasattr(model, "coef_")
    assert not hasattr(model, "feature_names_in_")
    model.set_params(kernel="linear").fit(named, problem.Y)
    assert not hasattr(model, "dual_coef_")
    model.fit(da.from_array(problem.X, chunks=(8, 5)), problem.Y)
    assert not hasattr(model, "feature_names_in_")
    with pytest.raises(ValueError, match="NaN"):
        model.fit(problem.X, np.full(15, np.nan))
    with pytest.raises(NotFittedError):
        model.predict(problem.X)


def test_noise_free_targets_are_interpolated_and_said_to_be():
    problem = make_problem(15, 5, None, seed=18)
    y = problem.X @ np.arange(1.0, 6.0)
    with pytest.warns(lbnn.DataWarning, match="fitted without noise"):
        model = LBNNRegressor().fit(problem.X, y)
    np.testing.assert_allclose(model.coef_, np.arange(1.0, 6.0), rtol=1e-6)
    assert any("fitted without noise" in message for message in map(str, model.notices_))
    wide = make_problem(6, 20, None, seed=18)
    interpolant = LBNNRegressor(beta=math.inf, width=(10,)).fit(wide.X, wide.Y)
    np.testing.assert_allclose(interpolant.predict(wide.X), wide.Y, rtol=1e-8)
    assert interpolant.beta_ == math.inf
    assert interpolant.noise_variance_ == 0


# ---------------------------------------------------------------------- what it is good for


def coverage_of_data_from_the_model(estimator, repeats, seed):
    """Whether 90% intervals cover, (repeats, 3), and ranks of joint densities among draws, (repeats,).

    Two estimates of a posterior differ by three errors now and then by chance: a few warnings are expected.
    """
    rng, inside, ranks, warned = np.random.default_rng(seed), [], [], 0
    for _ in range(repeats):
        X, X_test = rng.normal(size=(40, 30)), rng.normal(size=(1, 30))
        weights = rng.normal(size=(3, 4)) / 2 @ rng.normal(size=(4, 30)) / math.sqrt(30)
        Y, truth = (A @ weights.T + 0.4 * rng.normal(size=(len(A), 3)) + 2 for A in (X, X_test))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", lbnn.AccuracyWarning)
            model = clone(estimator).fit(X, Y)
        warned += any(issubclass(each.category, lbnn.AccuracyWarning) for each in caught)
        low, high = model.predictive(X_test).with_noise().interval(0.9)
        inside.append((low < truth) & (truth < high))
        draws = model.sample_y(X_test, 199)[0].T
        law = model.predictive(np.repeat(X_test, 200, axis=0)).with_noise()
        densities = law.pointwise_log_density(np.vstack([truth, draws]))
        ranks.append((densities[1:] < densities[0]).mean())
    assert warned <= 0.03 * repeats
    return np.array(inside)[:, 0], np.array(ranks)


def assert_calibrated(inside, ranks, **options):
    coverage = inside.mean(axis=1)  # outputs of one data set are dependent: one number each
    assert_agrees(coverage.mean(), coverage.std() / math.sqrt(len(coverage)), 0.9, comparisons=2, **options)
    assert_agrees((ranks > 0.1).mean(), math.sqrt(0.09 / len(ranks)), 0.9, comparisons=2, **options)


@pytest.mark.slow
def test_intervals_cover():
    assert_calibrated(*coverage_of_data_from_the_model(LBNNRegressor(width=(4,)), 40, 0), largest_error=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("average", [False, True])
@pytest.mark.filterwarnings("ignore:[12] of 200 densities rest on fewer than")  # they rank last
def test_intervals_of_the_defaults_cover(average):
    inside, ranks = coverage_of_data_from_the_model(LBNNRegressor(average=average), 100, 1)
    assert_calibrated(inside, ranks, largest_error=0.035)
    assert stats.kstest(ranks, "uniform").pvalue > 1e-3


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:the log density of values far from the posterior")  # of a few of 300 rows
def test_twelve_outputs_of_three_factors_are_predicted_better_than_by_a_gaussian_process():
    rng = np.random.default_rng(19)
    teacher = rng.normal(size=(300, 3)) @ rng.normal(size=(3, 12)) / math.sqrt(900)
    X, X_test = rng.normal(size=(100, 300)), rng.normal(size=(300, 300))
    Y, Y_test = (A @ teacher + 0.5 * rng.normal(size=(len(A), 12)) for A in (X, X_test))
    model = LBNNRegressor(depth=2).fit(X, Y)
    assert model.widths_ == (3,)
    process = LBNNRegressor(depth=1).fit(X, Y)
    errors = [((each.predict(X_test) - Y_test) ** 2).mean() for each in (model, process)]
    assert errors[0] < 0.98 * errors[1]
    densities = [
        each.predictive(X_test).with_noise().pointwise_log_density(Y_test).mean() / 12
        for each in (model, process)
    ]
    assert densities[0] > densities[1] + 0.1


def test_lazy_attribute_and_its_absence(monkeypatch):
    import sys

    assert "LBNNRegressor" in dir(lbnn)
    with pytest.raises(AttributeError, match="Nonsense"):
        lbnn.Nonsense  # noqa: B018
    monkeypatch.delitem(vars(lbnn), "LBNNRegressor", raising=False)  # where it was used before
    for name in [name for name in sys.modules if name.startswith("lbnn.estimator")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "sklearn", None)
    monkeypatch.setitem(sys.modules, "sklearn.base", None)
    with pytest.raises(ImportError, match=r"\[sklearn\]"), warnings.catch_warnings():
        lbnn.LBNNRegressor  # noqa: B018


def test_a_third_layer_is_tried_where_it_can_matter():
    """For every kind of noise within ten nats of the best, and for no other."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(60, 40))
    Y = X @ rng.normal(size=(40, 1)) @ rng.normal(size=(1, 2)) / 6 + 0.3 * rng.normal(size=(60, 2))
    table = lbnn.LBNNRegressor().fit(X, Y).candidates_
    kinds = {row.noise for row in table if row.widths} - {"free"}
    scores = {
        kind: max(
            row.log_evidence - row.penalty for row in table if row.noise == kind and len(row.widths) == 1
        )
        for kind in kinds
    }
    deep = {row.noise for row in table if len(row.widths) == 2}
    assert deep
    assert deep == {kind for kind in kinds if scores[kind] > max(scores.values()) - 10}
    assert deep != kinds  # low rank with plain noise: coupled noise is out of reach
