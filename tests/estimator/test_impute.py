"""Missing targets filled in: against dense algebra, draws against moments, rows that the fit leaves out."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import lbnn


def table(seed=0, rows=30, outputs=3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 5))
    Y = X @ rng.normal(size=(5, 1)) @ rng.normal(size=(1, outputs)) + 0.5 * rng.normal(size=(rows, outputs))
    gone = rng.random(Y.shape) < 0.25
    gone[gone.all(axis=1), 0] = False
    return X, np.where(gone, np.nan, Y), gone


def test_depth_one_is_the_conditional_gaussian():
    """Independent Gaussian processes with given hyperparameters: outputs share nothing."""
    X, Y, gone = table()
    model = lbnn.LBNNRegressor(
        depth=1,
        noise="independent",
        beta=4.0,
        prior_scale=2.0,
        fit_intercept=False,
        column_scales="raw",
        missing_targets="allow",
    ).fit(X, Y)
    mean, deviation = model.impute(return_std=True)
    gram = 2.0 * X @ X.T / X.shape[1]
    for j in range(3):
        seen = ~gone[:, j]
        solved = np.linalg.solve(gram[np.ix_(seen, seen)] + np.eye(seen.sum()) / 4, gram[seen])
        expected = solved.T @ Y[seen, j]
        variance = np.diag(gram) - np.einsum("ia,ia->a", gram[seen], solved) + 0.25
        assert_allclose(mean[~seen, j], expected[~seen], rtol=1e-8)
        assert_allclose(deviation[~seen, j], np.sqrt(variance[~seen]), rtol=1e-8)


@pytest.mark.parametrize("noise", ["independent", "coupled"])
def test_draws_have_the_moments(noise):
    X, Y, gone = table(1)
    model = lbnn.LBNNRegressor(depth=2, width=3, noise=noise, missing_targets="allow", average=True).fit(X, Y)
    mean, deviation = model.impute(return_std=True)
    assert_array_equal(mean[~gone], Y[~gone])
    assert not deviation[~gone].any()
    draws = model.impute(draws=3000, random_state=1)
    assert_array_equal(draws[5][~gone], Y[~gone])
    z = (draws.mean(axis=0) - mean)[gone] / (deviation[gone] / math.sqrt(3000))
    assert np.abs(z).max() < 5.5  # of the mean over 256 scales, too, whose error is of this size
    assert_allclose(draws.std(axis=0)[gone], deviation[gone], rtol=0.12)
    assert_array_equal(model.impute(draws=2), model.impute(draws=2, random_state=0))


def test_rows_left_out_weights_and_files(tmp_path):
    """Rows without any target are predictions; the file of a fit imputes as the fit does."""
    X, Y, _ = table(2)
    Y[3], Y[7] = np.nan, np.nan
    weights = np.linspace(0.5, 2.0, len(X))
    model = lbnn.LBNNRegressor(depth=2, width=2, missing_targets="allow").fit(X, Y, sample_weight=weights)
    mean, deviation = model.impute(return_std=True)
    assert np.isfinite(mean).all()
    expected, spread = model.predict(X[[3, 7]], return_std=True)
    assert_allclose(mean[[3, 7]], expected)
    assert_allclose(deviation[[3, 7]], spread)
    assert model.impute(draws=4).shape == (4, *Y.shape)
    model.save(tmp_path / "fit.lbnn")
    assert_allclose(lbnn.LBNNRegressor.load(tmp_path / "fit.lbnn").impute(), mean)


def test_nothing_is_missing_and_what_is_refused():
    X, Y, _ = table(3)
    Y = np.nan_to_num(Y)
    model = lbnn.LBNNRegressor(depth=1, missing_targets="allow").fit(X, Y[:, 0])
    mean, deviation = model.impute(return_std=True)
    assert_array_equal(mean, Y[:, 0])
    assert not deviation.any()
    assert_array_equal(model.impute(draws=2), np.stack([Y[:, 0]] * 2))
    with pytest.raises(ValueError, match="draws or deviations"):
        model.impute(draws=2, return_std=True)
    with pytest.raises(ValueError, match="draws"):
        model.impute(draws=0)
