"""The measures of the real-data study against closed forms and other routes. Nothing is fetched here."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats
from sklearn.linear_model import Ridge
from sklearn.model_selection import LeaveOneOut, cross_val_predict

import lbnn
from benchmarks.real_data import conjugate, datasets, metrics, peers, tables
from benchmarks.real_data.metrics import LEVEL, Gaussian, Mixture, mean_and_error, measures
from tests.referees.statistics import assert_agrees

POINTS, OUTPUTS = 400, 3


def correlated(rng: np.random.Generator, points: int = POINTS, outputs: int = OUTPUTS) -> Gaussian:
    factors = rng.normal(size=(points, outputs, 2 * outputs)) / outputs
    return Gaussian(rng.normal(size=(points, outputs)), factors @ factors.swapaxes(1, 2))


def draw(forecast: Gaussian, rng: np.random.Generator) -> np.ndarray:
    noise = rng.normal(size=(*forecast.mean.shape, 1))
    return forecast.mean + (np.linalg.cholesky(forecast.covariance) @ noise)[..., 0]


def test_densities_are_those_of_scipy():
    rng = np.random.default_rng(0)
    forecast = correlated(rng, points=5)
    Y = draw(forecast, rng)
    pairs = list(zip(Y, forecast.mean, forecast.covariance, strict=True))
    joint = [stats.multivariate_normal(mean, covariance).logpdf(y) for y, mean, covariance in pairs]
    marginal = [stats.norm(mean, np.sqrt(np.diag(cov))).logpdf(y) for y, mean, cov in pairs]
    np.testing.assert_allclose(forecast.joint_log_density(Y), joint, rtol=1e-10)
    np.testing.assert_allclose(forecast.marginal_log_density(Y), marginal, rtol=1e-10)


def test_a_true_forecast_covers_what_it_says_and_has_the_entropy_as_its_score():
    rng = np.random.default_rng(1)
    forecast = correlated(rng)
    Y = draw(forecast, rng)
    scores = measures(forecast, Y)
    entropy = 0.5 * np.linalg.slogdet(2 * math.pi * math.e * forecast.covariance)[1].mean() / OUTPUTS
    estimates = [scores["covers jointly"], scores["covers"], scores["joint"]]
    binomial = math.sqrt(LEVEL * (1 - LEVEL) / POINTS)  # an upper bound for `covers`: three outputs a point
    spread = math.sqrt(OUTPUTS / 2 / POINTS) / OUTPUTS  # half a χ² of n_d degrees of freedom, over n_d
    assert_agrees(estimates, [binomial, binomial, spread], [LEVEL, LEVEL, entropy])


def test_joint_and_marginal_agree_exactly_where_outputs_are_independent():
    rng = np.random.default_rng(2)
    mean, deviation, Y = (rng.normal(size=(7, 2)) for _ in range(3))
    scores = measures(Gaussian.independent(mean, np.abs(deviation)), Y)
    assert scores["joint"] == pytest.approx(scores["marginal"], rel=1e-12)
    assert scores["rmse"] == pytest.approx(math.sqrt(((mean - Y) ** 2).mean()))


def test_correlation_that_is_there_lowers_the_joint_score_by_half_its_information():
    """E difference = −½ log(1 − ρ²)/n_d against the forecast that ignores a correlation ρ."""
    rho, points = 0.9, 20_000
    covariance = np.array([[1.0, rho], [rho, 1.0]])
    aware = Gaussian.constant(np.zeros((points, 2)), covariance)
    Y = draw(aware, np.random.default_rng(3))
    ignorant = Gaussian.constant(np.zeros((points, 2)), np.eye(2))
    gains = (aware.joint_log_density(Y) - ignorant.joint_log_density(Y)) / 2
    assert_agrees(gains.mean(), gains.std() / math.sqrt(points), -0.25 * math.log(1 - rho**2))


@pytest.fixture(scope="module")
def process() -> tuple[Mixture, Gaussian, np.ndarray]:
    """A network of depth one is a Gaussian process: the same predictive by two routes."""
    rng = np.random.default_rng(4)
    X, X_test = rng.normal(size=(30, 8)), rng.normal(size=(40, 8))
    Y, Y_test = ((inputs @ np.ones((8, 2)) + rng.normal(size=(len(inputs), 2))) for inputs in (X, X_test))
    model = lbnn.LBNNRegressor(depth=1, average=False).fit(X, Y)
    predictive = model.predictive(X_test).with_noise()
    return Mixture.of(predictive), Gaussian(predictive.mean, predictive.output_covariance), Y_test


def test_our_forecast_at_depth_one_scores_as_the_gaussian_that_it_is(process):
    mixture, gaussian, Y = process
    np.testing.assert_allclose(mixture.joint_log_density(Y), gaussian.joint_log_density(Y), rtol=1e-9)
    np.testing.assert_allclose(mixture.marginal_log_density(Y), gaussian.marginal_log_density(Y), rtol=1e-9)
    assert (mixture.inside(Y) == gaussian.inside(Y)).all()


def test_the_ellipsoid_from_draws_is_that_of_the_chi_square(process):
    """Away from the edge the two agree; how far an edge from 2000 draws can be off is known."""
    mixture, gaussian, Y = process
    distance = stats.chi2.cdf(metrics.squared_distance(gaussian.covariance, Y - gaussian.mean), Y.shape[1])
    clear = np.abs(distance - LEVEL) > 5 * math.sqrt(LEVEL * (1 - LEVEL) / metrics.DRAWS)
    assert clear.sum() > 0.8 * len(Y)
    assert (mixture.inside_jointly(Y) == gaussian.inside_jointly(Y))[clear].all()


def test_our_forecast_of_one_output_is_the_same_mixture_alone_and_jointly():
    rng = np.random.default_rng(5)
    X, X_test = rng.normal(size=(20, 4)), rng.normal(size=(6, 4))
    model = lbnn.LBNNRegressor(depth=2, width=3).fit(X, X[:, 0] + rng.normal(size=20))
    forecast, Y = Mixture.of(model.predictive(X_test).with_noise()), X_test[:, :1]
    assert forecast.mean.shape == forecast.marginal_log_density(Y).shape == forecast.inside(Y).shape == (6, 1)
    assert forecast.joint_log_density(Y).shape == forecast.inside_jointly(Y).shape == (6,)
    np.testing.assert_allclose(
        forecast.joint_log_density(Y), forecast.marginal_log_density(Y)[:, 0], rtol=1e-9
    )


def test_scores_are_those_of_the_mixture_of_the_draws(monkeypatch):
    """Where enough draws count everywhere it is what `pointwise_log_density` gives, averages included."""
    rng = np.random.default_rng(9)
    X, X_test = rng.normal(size=(20, 4)), rng.normal(size=(6, 4))
    Y = X @ rng.normal(size=(4, 2)) + rng.normal(size=(20, 2))
    laws = [
        lbnn.LBNNRegressor(depth=2, width=3, average=average).fit(X, Y).predictive(X_test).with_noise()
        for average in (False, "auto")
    ]
    assert len(laws[1].parts) > 1
    for law in laws:
        forecast = Mixture.of(law)
        integrated = forecast.joint_log_density(law.mean)
        monkeypatch.setattr(metrics, "MOST_INTEGRATED", 1)
        np.testing.assert_allclose(forecast.joint_log_density(law.mean), integrated, rtol=1e-9)
        monkeypatch.undo()
        low, high = law.interval(LEVEL)
        far = law.mean + rng.normal(size=law.mean.shape) * 2 * law.standard_deviation
        assert (forecast.inside(far) == ((low <= far) & (far <= high))).all()
        assert 0 < forecast.inside(far).mean() < 1


@pytest.mark.parametrize("shape", [(12, 5), (12, 30)])
def test_leave_one_out_residuals_are_those_of_refits(shape):
    rng = np.random.default_rng(6)
    X, y = rng.normal(size=shape), rng.normal(size=shape[0])
    refits = y - cross_val_predict(Ridge(alpha=2.5), X, y, cv=LeaveOneOut())
    np.testing.assert_allclose(peers.leave_one_out(X, y, 2.5), refits, rtol=1e-8)


def test_the_conjugate_prediction_is_a_ratio_of_evidences():
    """p(y given Y) = p(contrasts of all)/p(contrasts of Y) · (p/(p + 1))^{n_d/2}; the last is a Jacobian."""
    rng = np.random.default_rng(7)
    X, Y = rng.normal(size=(9, 4)), rng.normal(size=(9, 3))
    hyperparameters = (2.0, 0.3, 4.5)
    fewer, all_of_them = conjugate.Data.of(X[:8], Y[:8]), conjugate.Data.of(X, Y)
    evidences = [conjugate.log_evidence(data, *hyperparameters) for data in (all_of_them, fewer)]
    ratio = evidences[0] - evidences[1] + 1.5 * math.log(8 / 9)
    prediction = conjugate.predict(fewer, X[8:], *hyperparameters)
    np.testing.assert_allclose(prediction.joint_log_density(Y[8:]), ratio, rtol=1e-10)


def test_the_conjugate_forecast_covers_draws_from_itself():
    rng = np.random.default_rng(8)
    points, freedom = 4000, 5.0
    factor = np.array([[1.0, 0.0], [0.8, 0.5]])
    size = np.sqrt(freedom / rng.chisquare(freedom, size=(points, 1)))
    Y = size * (rng.normal(size=(points, 2)) @ factor.T)
    scale = np.broadcast_to(factor @ factor.T, (points, 2, 2))
    forecast = conjugate.StudentT(np.zeros((points, 2)), scale, freedom)
    shares = [forecast.inside_jointly(Y).mean(), *forecast.inside(Y).mean(axis=0)]
    assert_agrees(shares, [math.sqrt(LEVEL * (1 - LEVEL) / points)] * 3, [LEVEL] * 3)


def test_the_corrected_error_of_splits():
    values = np.array([1.0, 2.0, 4.0])
    mean, error = mean_and_error(values, train=80, test=20)
    assert mean == pytest.approx(7 / 3)
    assert error == pytest.approx(values.std(ddof=1) * math.sqrt(1 / 3 + 0.25))


def test_a_split_is_disjoint_reproducible_and_in_units_of_its_training_part():
    X = np.arange(40.0)[:, None] * [1.0, 0.0] + [0.0, 3.0]
    data = datasets.DataSet("line", X, X[:, :1], train=25, largest_test=10)
    train, targets, test, test_targets = data.split(0)
    assert (train.shape, test.shape) == ((25, 1), (10, 1)), "the constant column is left out"
    assert not set(train.ravel()) & set(test.ravel())
    np.testing.assert_allclose([train.mean(), train.std()], [0, 1], atol=1e-12)
    np.testing.assert_array_equal(test, data.split(0)[2])
    for inputs, outputs in ((train, targets), (test, test_targets)):
        np.testing.assert_allclose(inputs, outputs, atol=1e-12)


def test_tables_pair_the_splits_and_name_the_best_peer():
    scores = {"lbnn": [1.0, 3.0], "ridge": [2.0, 4.0], "PLS": [9.0, 1.0]}
    methods = {name: dict.fromkeys(tables.COLUMNS, values) for name, values in scores.items()}
    result = {"shape": [80, 5, 2], "test": 20, "methods": methods}
    assert tables.best_peer(result, "joint") == "ridge"
    assert tables.difference(result, "ridge") == (1.0, 0.0)
    assert "| **2.000** |" in tables.measure_table({"set": result}, "joint")
    fewer = result | {"methods": {"lbnn": {"joint": [2.0]}}}
    assert "| few (1 splits) |" in tables.measure_table({"set": result, "few": fewer}, "joint")


def test_tables_take_the_kernel_of_higher_evidence_in_each_split():
    scores = {"lbnn": [1.0, 3.0], "lbnn, linear+rbf": [2.0, 5.0]}
    methods = {name: dict.fromkeys(tables.COLUMNS, values) for name, values in scores.items()}
    methods["lbnn"]["log evidence"], methods["lbnn, linear+rbf"]["log evidence"] = [0.0, 0.0], [-1.0, 4.0]
    row = tables.choice({"set": {"methods": methods}}).splitlines()[-1]
    assert row == "| set | +1.5 | 1 of 2 | 2.000 | 3.500 | 3.000 | 2.000 | 3.500 | 3.000 |"


def test_tables_compare_raw_columns_on_the_same_splits():
    part = {"lbnn": {"rmse": [1.0, 3.0]}}
    document = {
        "raw": {"splits": 1, "sets": {"set": {"methods": {"lbnn": {"rmse": [1.5]}}}}},
        "sets": {"set": {"methods": part}},
    }
    assert tables.raw_table(document, "rmse").splitlines()[-1] == "| set | 1.500 (+0.500) |"
