"""Nonlinear relations: noticed in a linear fit, and taken by kernel="auto"."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pytest

import lbnn
from lbnn import LBNNRegressor

RNG = np.random.default_rng(0)
X = RNG.uniform(-2, 2, size=(120, 3))
CURVED = np.sin(2 * X[:, 0]) * X[:, 1] + 0.1 * RNG.normal(size=120)
STRAIGHT = X @ [1.0, -2.0, 0.5] + 0.5 * RNG.normal(size=120)


def test_a_linear_fit_of_a_nonlinear_relation_says_so_with_the_number():
    with pytest.warns(lbnn.DataWarning, match=r"kernel='linear\+rbf' shows a signal"):
        LBNNRegressor(depth=1).fit(X, CURVED)
    both = LBNNRegressor(depth=1).fit(X, CURVED + X[:, 2])  # has a linear part: no warning
    told = next(each for each in both.notices_ if each.code == "nonlinear")
    assert told.fields["rows"] == 120
    assert re.search(r"kernel='linear\+rbf' raises the log evidence by \d\d+ on 120 rows", told.text)
    straight = LBNNRegressor(depth=1).fit(X[:60], STRAIGHT[:60])
    assert not straight.notices_
    assert not straight.diagnose()


def test_auto_takes_the_kernel_that_predicts_better():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lbnn.DataWarning)
        linear = LBNNRegressor(depth=1).fit(X[:60], CURVED[:60])
    auto = LBNNRegressor(kernel="auto", depth=1).fit(X[:60], CURVED[:60])
    assert auto.kernel_.name in ("linear+rbf", "relu")
    assert auto.score(X[60:], CURVED[60:]) > linear.score(X[60:], CURVED[60:]) + 0.3
    straight = LBNNRegressor(kernel="auto", depth=1).fit(X[:60], STRAIGHT[:60])
    assert straight.kernel_.name == "linear"
    assert straight.coef_.shape == (3,)


@pytest.mark.filterwarnings("error")
def test_linear_relations_in_other_units_or_about_another_level_are_linear():
    """Raw columns of unequal size, a missing intercept, a prior scale or noise that is too small."""
    scaled = X[:60] * [1.0, 300.0, 1e-3]
    LBNNRegressor(depth=1, column_scales="raw").fit(scaled, STRAIGHT[:60])
    LBNNRegressor(depth=1, fit_intercept=False).fit(X[:60] + 3.0, STRAIGHT[:60] + 7.0)
    LBNNRegressor(depth=1, prior_scale=0.05).fit(X[:60], STRAIGHT[:60])
    noisy = LBNNRegressor(depth=1, beta=1e4).fit(X[:60], STRAIGHT[:60])
    assert not noisy.notices_
    (told,) = noisy.diagnose()
    assert told.code == "odd_rows"
    assert "too many for outliers" in told.text


def test_columns_in_small_or_large_units_can_be_fitted():
    """Nearly constant kernels keep few digits when they are centred; standardised columns are as good."""
    one = LBNNRegressor(kernel="relu", depth=1, column_scales="standardised").fit(X[:25], STRAIGHT[:25])
    for unit in (1e-6, 1e-4, 1e6):
        fitted = LBNNRegressor(kernel="relu", depth=1).fit(unit * X[:25], STRAIGHT[:25])
        assert fitted.log_evidence_ > one.log_evidence_ - 1e-6
        assert np.isfinite(fitted.predict(unit * X[:3], return_std=True)).all()
