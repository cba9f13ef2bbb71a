"""Advice on targets that are not Gaussian."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy import special
from sklearn.compose import TransformedTargetRegressor

import lbnn
from lbnn import LBNNRegressor
from lbnn.estimator.target_transform import TRANSFORMS

RNG = np.random.default_rng(0)
X = RNG.normal(size=(80, 3))
Z = X @ np.array([0.8, -0.5, 0.0]) + 0.4 * RNG.normal(size=80)
FIXED = {"depth": 1, "noise": "independent"}


@pytest.mark.parametrize("name", list(TRANSFORMS))
def test_transforms_are_increasing_with_these_slopes(name):
    forward, log_slope, lowest, highest = TRANSFORMS[name]
    y = np.linspace(0.05, 0.95, 50)
    slope = (forward(y + 1e-6) - forward(y - 1e-6)) / 2e-6
    np.testing.assert_allclose(log_slope(y), np.log(slope), atol=1e-6)
    assert lowest < y[0]
    assert highest > y[-1]


@pytest.mark.parametrize("unit", [1e-8, 1.0, 1e8])
def test_the_unit_of_the_targets_does_not_decide_on_a_transform(unit):
    """The log of targets that vary by a thousandth is linear: it gains nothing, whatever their unit."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        LBNNRegressor(**FIXED).fit(X, unit * (1000 + Z))


def test_the_gain_is_that_of_a_fit_of_the_transformed_targets_with_the_jacobian():
    y = np.exp(1.5 * Z)
    with warnings.catch_warnings(record=True) as caught:  # rows far from the prediction of the others, too
        warnings.simplefilter("always")
        plain = LBNNRegressor(average=False, inputs="raw", **FIXED).fit(X, y)
    told = next(str(each.message) for each in caught if "the log of the targets" in str(each.message))
    inner = LBNNRegressor(average=False, inputs="raw", **FIXED).fit(X, np.log(y))
    slopes = -(len(y) - 1) * np.log(y).mean()  # of the contrasts
    gain = inner.log_evidence_ + slopes - plain.log_evidence_
    assert f"by {gain:.1f}, Jacobian included" in told


def test_shares_are_noticed_though_they_are_not_skewed():
    with pytest.warns(lbnn.DataWarning, match=r"the logit of the targets raises"):
        LBNNRegressor(**FIXED).fit(X, special.expit(2.0 * (Z - np.median(Z))))


def test_two_levels():
    with pytest.warns(lbnn.DataWarning, match="two values"):
        LBNNRegressor(**FIXED).fit(X, (Z > 0).astype(float))


def test_the_advice_can_be_followed():
    y = np.exp(1.5 * Z)
    model = TransformedTargetRegressor(LBNNRegressor(**FIXED), func=np.log, inverse_func=np.exp).fit(X, y)
    medians = np.exp(LBNNRegressor(**FIXED).fit(X, np.log(y)).predict(X[:5]))
    np.testing.assert_allclose(model.predict(X[:5]), medians, rtol=1e-8)
