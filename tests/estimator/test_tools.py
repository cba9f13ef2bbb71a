"""Coefficients with intervals, predictives through pipelines, the density score, sparse input."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import lbnn
from lbnn import LBNNRegressor

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 6)) * 10.0 ** np.arange(-2, 4)
Y = X / X.std(axis=0) @ RNG.normal(size=(6, 2)) + 0.5 * RNG.normal(size=(40, 2))


@pytest.mark.parametrize("settings", [{"noise": "independent"}, {"noise": "coupled", "average": False}])
def test_coefficients_are_differences_of_the_function(settings):
    """Means, and variances of f(x + e_k) − f(x), from the joint covariance of the predictive."""
    model = LBNNRegressor(width=(6,), **settings).fit(X, Y)
    law = model.coefficients(range(6))
    np.testing.assert_allclose(law.mean, model.coef_.T, rtol=1e-7, atol=1e-12)
    step = X.std(axis=0)
    points = np.vstack([X.mean(axis=0), X.mean(axis=0) + np.diag(step)])
    joint = model.predictive(points).covariance
    for k in range(6):
        pair = joint[[0, 0, k + 1, k + 1], :, [0, k + 1, 0, k + 1]]  # (4, n_d, n_d)
        difference = np.diagonal(pair[0] + pair[3] - pair[1] - pair[2])
        np.testing.assert_allclose(law.variance[k] * step[k] ** 2, difference, rtol=1e-6)


def test_intervals_of_coefficients_have_their_shape_and_cover():
    covered, shape = [], None
    for seed in range(20):
        rng = np.random.default_rng(seed)
        Z, w = rng.normal(size=(30, 4)), rng.normal(size=4)
        model = LBNNRegressor(depth=1).fit(Z, Z @ w + rng.normal(size=30))
        low, high = model.coefficient_interval(0.9)
        covered.append((low < w) & (w < high))
        shape = low.shape
    assert shape == model.coef_.shape
    assert 62 <= np.sum(covered) <= 80  # of 80: 72 ± 2.7 expected
    frame = pd.DataFrame(X, columns=list("abcdef"))
    named = LBNNRegressor(depth=1).fit(frame, Y[:, 0])
    np.testing.assert_allclose(named.coefficients(["c"]).mean, named.coef_[[2]])
    with pytest.raises(ValueError, match="got 'z'"):
        named.coefficients(["z"])
    with pytest.raises(ValueError, match="kernel='linear'"):
        LBNNRegressor(depth=1, kernel="rbf").fit(X, Y[:, 0]).coefficients([0])


@pytest.mark.filterwarnings("ignore::lbnn.DataWarning")  # of folds
def test_predictive_and_score_through_pipelines_and_searches():
    pipeline = make_pipeline(StandardScaler(), LBNNRegressor(depth=1))
    pipeline.fit(X, Y[:, 0])
    law = lbnn.predictive(pipeline, X[:5])
    np.testing.assert_allclose(law.mean, pipeline.predict(X[:5]))
    direct = pipeline[-1].predictive(StandardScaler().fit(X).transform(X[:5]))
    np.testing.assert_allclose(law.variance, direct.variance)
    expected = direct.with_noise().pointwise_log_density(Y[:5, 0]).mean()
    assert lbnn.density_score(pipeline, X[:5], Y[:5, 0]) == pytest.approx(expected)
    scores = cross_val_score(pipeline, X, Y, scoring=lbnn.density_score, cv=3)
    assert scores.shape == (3,)
    assert np.isfinite(scores).all()
    search = GridSearchCV(
        LBNNRegressor(depth=1), {"column_scales": ["raw", "standardised"]}, scoring=lbnn.density_score, cv=3
    ).fit(X, Y[:, 0])
    assert lbnn.predictive(search, X[:2]).shape == (2, 1)
    with pytest.raises(TypeError, match="got Ridge"):
        lbnn.predictive(Ridge().fit(X, Y), X)


def test_sparse_input_is_refused_with_what_to_do():
    with pytest.raises(TypeError, match="toarray"):
        LBNNRegressor().fit(sparse.csr_matrix(X), Y)
