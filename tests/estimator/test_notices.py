"""Notices: codes, fields and words; what is warned of; advice with its gain and left-out errors."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest

import lbnn
from lbnn import LBNNRegressor
from lbnn._base.notices import Words
from lbnn.estimator.notices import notice

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 12))


class Options(Words):
    """Words of another interface."""

    def row(self, number):
        return f"line {number + 2}"

    def setting(self, name, value):
        return f"--{name}={value}"


def test_a_notice_has_a_code_fields_and_a_text_in_several_words():
    fields = {"rows": [3], "z": [9.0], "names": [""], "all_rows": 40, "too_many": False}
    told = notice("odd_rows", 7.5, error=2.0, new_error=1.0, **fields)
    assert told.code == "odd_rows"
    assert told.gain == told.fields["gain"] == 7.5
    assert str(told) == told.text
    assert "row 3 (z = +9.0)" in told.text
    assert "line 5 (z = +9.0)" in told.render(Options())
    assert "falls from 2 to 1" in told.text
    assert pickle.loads(pickle.dumps(told)) == told


def test_a_warning_has_its_notice_and_what_is_said_is_not_always_a_warning():
    rng = np.random.default_rng(2)
    with pytest.warns(lbnn.DataWarning) as caught:
        model = LBNNRegressor(depth=1).fit(X, np.random.default_rng(5).normal(size=40))
    (warned,) = [each.message for each in caught]
    assert warned.notice in model.notices_
    assert warned.notice.code == "no_signal"
    y = X[:, 0] + 0.5 * rng.normal(size=40)
    again = np.append(np.arange(40), [3, 3])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = LBNNRegressor(depth=1).fit(X[again], y[again])
    assert [each.code for each in model.notices_] == ["copies"]


def test_own_scales_are_advised_with_the_gain_and_the_errors_of_refits():
    """Left-out errors of both fits against refits without each row, at the hyperparameters of all rows."""
    rng = np.random.default_rng(3)
    y = X[:, 0] * 2 + 0.5 * rng.normal(size=40)
    given = {"depth": 1, "average": False}
    model = LBNNRegressor(column_scales="standardised", **given).fit(X, y)
    (told,) = [each for each in model.diagnose() if each.code == "column_scales"]
    assert told.fields["columns"][0] == "column 0"
    own = LBNNRegressor(column_scales="own", **given).fit(X, y)
    assert told.gain == pytest.approx(own.candidates_[0].score - model.candidates_[0].score, rel=1e-5)
    for fitted, error in ((model, told.fields["error"]), (own, told.fields["new_error"])):
        assert error == pytest.approx(np.sqrt((fitted.leave_one_out().residual ** 2).mean()), rel=1e-6)
    assert not any(each.code == "column_scales" for each in own.diagnose())


@pytest.mark.filterwarnings("ignore:the evidence prefers a signal only slightly")
def test_advice_comes_with_the_largest_gain_first_and_after_loading(tmp_path):
    rng = np.random.default_rng(5)
    curved = LBNNRegressor(depth=1).fit(X[:, :3], np.abs(X[:, 0]) + 0.05 * rng.normal(size=40))
    nonlinear = next(each for each in curved.diagnose() if each.code == "nonlinear")
    assert nonlinear.fields["new_error"] < nonlinear.fields["error"]
    y = 3 * X[:, 0] + 0.5 * rng.normal(size=40)
    y[7] += 8.0
    model = LBNNRegressor(depth=1, average=False).fit(X, y)
    advice = model.diagnose()
    assert {"odd_rows", "column_scales"} <= {each.code for each in advice}
    gains = [each.gain for each in advice if np.isfinite(each.gain)]
    assert gains == sorted(gains, reverse=True)
    model.save(tmp_path / "model.lbnn")
    again = LBNNRegressor.load(tmp_path / "model.lbnn").diagnose()
    assert [each.code for each in again] == [each.code for each in advice]
    np.testing.assert_allclose([each.gain for each in again], [each.gain for each in advice], rtol=1e-6)


def test_advice_with_weights_is_that_of_the_rows():
    """Rows of weight two as pairs of copies: the same gain of own scales."""
    rng = np.random.default_rng(6)
    y = X[:, 0] * 2 + 0.5 * rng.normal(size=40)
    given = {"depth": 1, "average": False, "beta": 2.0, "prior_scale": 3.0, "column_scales": "raw"}
    twice = np.repeat(np.arange(40), 2)
    weighted = LBNNRegressor(**given).fit(X, y, sample_weight=np.full(40, 2.0))
    doubled = LBNNRegressor(**given).fit(X[twice], y[twice])
    one, other = (
        next(each for each in model.diagnose() if each.code == "column_scales")
        for model in (weighted, doubled)
    )
    assert one.fields["columns"] == other.fields["columns"]


def test_two_values_far_rows_and_kernels_are_looked_at():
    rng = np.random.default_rng(7)
    Z = rng.normal(size=(30, 2))
    Z[4] *= 20
    given = {"depth": 1, "average": False, "beta": 1.0, "prior_scale": 1.0}
    model = LBNNRegressor(**given).fit(Z, (Z[:, 0] > 0).astype(float))
    codes = {each.code: each for each in model.diagnose()}
    assert {"two_values", "extrapolation"} <= codes.keys()
    assert codes["extrapolation"].fields["rows"][0] == 4
    Z = rng.normal(size=(60, 2))
    gram = Z @ Z.T
    y = Z[:, 0] + 0.3 * rng.normal(size=60)
    y[11] += 5.0
    for kernel, inputs in (("rbf", Z), ("precomputed", gram)):
        fitted = LBNNRegressor(depth=1, kernel=kernel).fit(inputs, y)
        told = next(each for each in fitted.diagnose() if each.code == "odd_rows")
        assert 11 in told.fields["rows"]


def test_advice_on_an_incomplete_table_rests_on_no_filled_in_number():
    rng = np.random.default_rng(9)
    Y = X[:, :2] * 2 + 0.5 * rng.normal(size=(40, 2))
    Y[7] += 30.0
    Y[3, 1] = np.nan
    model = LBNNRegressor(depth=1, average=False, missing_targets="allow", noise="independent").fit(X, Y)
    assert {each.code for each in model.diagnose()} <= {"correlated_residuals", "extrapolation"}
