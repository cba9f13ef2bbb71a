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
    with pytest.warns(lbnn.DataWarning) as caught:
        LBNNRegressor(depth=1).fit(X, CURVED)
    told = " ".join(str(each.message) for each in caught)
    assert re.search(r"kernel='linear\+rbf' raises the log evidence by \d\d+ on 120 rows", told)
    assert "may show a signal" not in told  # it does, as has just been said
    LBNNRegressor(depth=1).fit(X[:60], STRAIGHT[:60])  # no warning


def test_auto_takes_the_kernel_that_predicts_better():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lbnn.DataWarning)
        linear = LBNNRegressor(depth=1).fit(X[:60], CURVED[:60])
    auto = LBNNRegressor(kernel="auto", depth=1).fit(X[:60], CURVED[:60])
    assert auto.kernel_ in ("linear+rbf", "relu")
    assert auto.score(X[60:], CURVED[60:]) > linear.score(X[60:], CURVED[60:]) + 0.3
    straight = LBNNRegressor(kernel="auto", depth=1).fit(X[:60], STRAIGHT[:60])
    assert straight.kernel_ == "linear"
    assert straight.coef_.shape == (3,)


@pytest.mark.filterwarnings("error")
def test_linear_relations_in_other_units_or_about_another_level_are_linear():
    """Raw columns of unequal size, a missing intercept, a prior scale or noise that is too small."""
    scaled = X[:60] * [1.0, 300.0, 1e-3]
    LBNNRegressor(depth=1, inputs="raw").fit(scaled, STRAIGHT[:60])
    LBNNRegressor(depth=1, fit_intercept=False).fit(X[:60] + 3.0, STRAIGHT[:60] + 7.0)
    LBNNRegressor(depth=1, prior_scale=0.05).fit(X[:60], STRAIGHT[:60])
    with pytest.warns(lbnn.DataWarning, match=r"of 60 rows are far .* too many for outliers") as caught:
        LBNNRegressor(depth=1, beta=1e4).fit(X[:60], STRAIGHT[:60])
    assert not any("not linear" in str(each.message) for each in caught)


@pytest.mark.parametrize("kernel", ["relu", "erf", "polynomial"])
def test_columns_in_small_or_large_units_can_be_fitted(kernel):
    """Nearly constant kernels keep few digits when they are centred; standardised columns are as good."""
    one = LBNNRegressor(kernel=kernel, depth=1, inputs="standardised").fit(X[:25], STRAIGHT[:25])
    for unit in (1e-6, 1e-4, 1e6):
        fitted = LBNNRegressor(kernel=kernel, depth=1).fit(unit * X[:25], STRAIGHT[:25])
        assert fitted.log_evidence_ > one.log_evidence_ - 1e-6
        assert np.isfinite(fitted.predict(unit * X[:3], return_std=True)).all()
