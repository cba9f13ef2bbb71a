"""Dozens of outputs: an answer that is ok, the right width, other orders and units; long searches."""

import warnings

import numpy as np
import pytest

import lbnn
from lbnn.estimator import fitting
from lbnn.estimator.notices import notice


def problem(rows=70, inputs=30, outputs=40, rank=3, seed=0):
    """Outputs of a few factors with noise of half their deviation."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows + 20, inputs))
    Y = X @ rng.normal(size=(inputs, rank)) @ rng.normal(size=(rank, outputs))
    return X, Y + 0.5 * Y.std() * rng.normal(size=Y.shape)


def test_order_and_units_of_many_outputs_do_not_matter():
    X, Y = problem()
    given = {"width": 3, "depth": 2, "noise": "independent"}
    model = lbnn.LBNNRegressor(**given).fit(X[:70], Y[:70])
    assert model.candidates_[0].posterior.diagnostics.ok
    rng = np.random.default_rng(1)
    rows, outputs = rng.permutation(70), rng.permutation(40)
    other = lbnn.LBNNRegressor(**given).fit(X[rows], 1e3 * Y[rows][:, outputs] + 5.0)
    jacobian = (70 - 1) * 40 * np.log(1e3)
    error = np.hypot(model.log_evidence_error_, other.log_evidence_error_)
    assert other.log_evidence_ + jacobian == pytest.approx(model.log_evidence_, abs=4 * error + 1e-3)
    (mean, deviation), (other_mean, other_deviation) = (
        each.predict(X[70:], return_std=True) for each in (model, other)
    )
    # 600 effective draws each: differences of means have a standard error of 0.006 deviations, the largest of
    # 800 is 4 of these
    tolerance = 0.04 * float(deviation.mean())
    np.testing.assert_allclose((other_mean - 5.0) / 1e3, mean[:, outputs], atol=tolerance)
    np.testing.assert_allclose(other_deviation / 1e3, deviation[:, outputs], rtol=0.02)


@pytest.mark.slow
def test_the_default_finds_the_width_and_is_ok():
    X, Y = problem(rows=120)
    with warnings.catch_warnings():
        warnings.simplefilter("error", lbnn.AccuracyWarning)
        model = lbnn.LBNNRegressor().fit(X[:120], Y[:120])
    assert set(model.widths_) == {3}
    assert model.candidates_[0].posterior.diagnostics.ok
    assert np.mean((model.predict(X[120:]) - Y[120:]) ** 2) < 0.5 * Y[120:].var()


def test_a_long_search_is_announced_once(monkeypatch):
    clock = iter(range(0, 10_000, 40))
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    forecast = fitting.Forecast(300)
    with pytest.warns(lbnn.DataWarning, match=r"about \d+ minutes.*depth=1.*BandedRegressor"):
        forecast()  # after the first evidence, of which a network takes several
    for _ in range(3):
        forecast()
    forecast.close()


def test_the_forecast_of_a_fit_is_made_at_its_first_evidence(monkeypatch):
    X, Y = problem(rows=20, inputs=5, outputs=3)
    monkeypatch.setattr(fitting, "_LONG", 0.0)
    with pytest.warns(lbnn.DataWarning, match="fitting 3 outputs will take about 1 minute"):
        lbnn.LBNNRegressor(depth=2, width=2, noise="independent", average=False).fit(X[:20], Y[:20])


def test_words_of_a_long_search():
    assert "about 1 minute," in notice("long_search", outputs=150, seconds=62.0).text
    assert "about 3 minutes," in notice("long_search", outputs=150, seconds=170.0).text


def test_a_network_may_explain_what_makes_outputs_unequal():
    """Units of their own lead by far at infinite width, though the noise of all outputs is the same."""
    X, Y = problem(rows=100, inputs=300, outputs=34)
    model = lbnn.LBNNRegressor(depth=2).fit(X[:100], Y[:100])
    best = {(bool(row.widths), row.noise): -np.inf for row in model.candidates_}
    for row in model.candidates_:
        key = bool(row.widths), row.noise
        best[key] = max(best[key], row.log_evidence - row.penalty)
    assert best[False, "per_output"] > best[False, "independent"] + 10
    assert best[True, "independent"] > best[True, "per_output"] + 10
    assert (model.noise_, model.widths_) == ("independent", (3,))
