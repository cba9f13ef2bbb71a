"""What a fit tells: leverage and ranges of new rows, left-out residuals, the summary."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import Ridge
from sklearn.model_selection import LeaveOneOut, cross_val_predict

import lbnn
from lbnn import LBNNRegressor
from lbnn.estimator import summary
from lbnn.estimator.summary import ridge_residuals

RNG = np.random.default_rng(0)
X = RNG.normal(size=(50, 6))
Y = X @ RNG.normal(size=(6, 2)) + 0.5 * RNG.normal(size=(50, 2))


def dense_variance(model, new):
    """v(x) and the v_a by refitted Gaussian processes with a flat level, at the mean of the scale."""
    best = model._state.best
    noise, coupling = best.posterior.noise.variance, best.posterior.noise.coupling
    scales = np.linalg.eigvalsh(np.atleast_2d(best.posterior.scale.mean))
    if coupling:
        noise, scales = coupling, np.ones_like(scales)
    kappa = best.prior_scale / X.shape[1]
    seen = model._state.transform.columns.seen
    A, B = seen(X), seen(new)

    def variance(train, test, scale):
        K = scale * kappa * train @ train.T + noise * np.eye(len(train))
        ones, k, inverse = np.ones(len(train)), scale * kappa * train @ test, np.linalg.inv(K)
        rest = 1 - ones @ inverse @ k  # generalised least squares of the level
        return scale * kappa * test @ test - k @ inverse @ k + rest**2 / (ones @ inverse @ ones)

    at_new = np.array([sum(variance(A, b, s) for s in scales) for b in B])
    own = np.array([sum(variance(np.delete(A, a, 0), A[a], s) for s in scales) for a in range(len(A))])
    return at_new, own


@pytest.mark.parametrize("noise", ["independent", "coupled"])
def test_leverage_is_that_of_refitted_processes(noise):
    model = LBNNRegressor(width=(4,), noise=noise, average=False).fit(X, Y)
    new = RNG.normal(size=(5, 6)) * [[0.1], [1], [1], [3], [10]]
    at_new, own = dense_variance(model, new)
    np.testing.assert_allclose(model.predictive(new).leverage, at_new / own.max(), rtol=1e-8)
    spectrum = model._state.best.posterior.spectrum
    np.testing.assert_allclose(
        model._state.best.function_variance.of_training_rows(spectrum, 50), own, rtol=1e-8
    )


@pytest.mark.parametrize("columns", [3, 400])
def test_leverage_of_rows_of_the_same_origin_exceeds_one_rarely(columns):
    """By exchangeability with probability 1/(p + 1): 19.6 of 1000 here, for tall and for wide inputs."""
    rng = np.random.default_rng(1)
    above = 0
    for _ in range(5):
        inputs = rng.normal(size=(50 + 200, columns))
        y = inputs[:, 0] + rng.normal(size=250)
        model = LBNNRegressor(depth=1, beta=1.0, prior_scale=1.0, average=False).fit(inputs[:50], y[:50])
        above += int((model.predictive(inputs[50:]).leverage > 1).sum())
    assert 2 <= above <= 60  # five training sets: 19.6 ± 10, from simulation


def test_averaged_models_share_one_projection_and_the_leverage():
    """Before: every model of the average projected the test points anew."""
    model = LBNNRegressor(depth=1).fit(X[:15], Y[:15, 0])
    law = model.predictive(X[20:24])
    assert len(model._state.models) > 3
    for part, fitted in zip(law.parts, model._state.models, strict=True):
        component = replace(law, parts=(replace(part, share=1.0),))
        again = fitted.predictive(*model._state.transform.test(X[20:24]))
        np.testing.assert_allclose(component.mean, again.mean, rtol=1e-10)
        np.testing.assert_allclose(component.covariance, again.covariance, rtol=1e-10)
    assert law.with_noise().leverage.shape == (4,)


def test_rows_in_other_units_are_announced():
    """Before: silent, with the deviation of the noise."""
    frame = pd.DataFrame(X, columns=[f"c{k}" for k in range(6)])
    model = LBNNRegressor(width=(4,), noise="independent").fit(frame, Y)
    other = frame[:4].assign(c2=frame.c2[:4] * 1000)
    with pytest.warns(lbnn.ExtrapolationWarning, match="4 of 4 rows are far outside .* 'c2'"):
        model.predict(other)
    with pytest.warns(lbnn.ExtrapolationWarning) as caught:
        model.predict(other, return_std=True)
    assert any("leverage above 4" in str(each.message) for each in caught)
    model.predict(frame, return_std=True)  # no warning
    with pytest.warns(lbnn.ExtrapolationWarning, match="leverage"):
        model.predict(frame[:2] * 8, return_cov=True)


def test_left_out_residuals_name_a_planted_outlier():
    y = Y.copy()
    y[17, 1] += 6.0
    model = LBNNRegressor(width=(4,), noise="independent").fit(X, pd.DataFrame(y, columns=["oil", "ash"]))
    advice = {each.code: each for each in model.diagnose()}
    assert advice["odd_rows"].fields["rows"] == [17]
    assert advice["odd_rows"].fields["names"] == ["ash"]
    scores = model.leave_one_out()
    np.testing.assert_allclose(scores.mean + scores.residual, y, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(scores.z, scores.residual / np.sqrt(scores.variance))
    found = summary.facts(model).outliers
    assert [(each.row, each.output) for each in found] == [(17, "ash")]
    assert "row 17 (ash)" in model.summary()


def test_ridge_baseline_is_that_of_refits():
    inputs, targets = X[:15], Y[:15]
    model = LBNNRegressor(depth=1, noise="independent", column_scales="raw").fit(inputs, targets)
    spectrum = model.candidates_[0].posterior.spectrum
    found = ridge_residuals(spectrum, targets, True)
    mean = spectrum.eigenvalues.mean() / spectrum.basis.scale  # of XXᵀ
    errors = [
        targets - cross_val_predict(Ridge(alpha=penalty * mean), inputs, targets, cv=LeaveOneOut())
        for penalty in summary._PENALTIES
    ]  # the definition: refits without each row
    best = np.argmin([(each**2).sum(axis=0) for each in errors], axis=0)
    for j in range(2):
        np.testing.assert_allclose(found[:, j], errors[best[j]][:, j], rtol=1e-6, atol=1e-9)


def test_summary_and_html_say_what_was_chosen(tmp_path):
    frame = pd.DataFrame(Y, columns=["oil", "ash"])
    model = LBNNRegressor(width=(4,), noise="per_output").fit(X, frame)
    text = model.summary()
    for part in ("50 rows, 6 columns, 2 outputs", "hidden width 4", "per_output", "oil", "ash", "of ridge"):
        assert part in text
    assert "hidden width 4" in model._repr_html_()
    assert "hidden width" not in LBNNRegressor()._repr_html_()
    found = summary.facts(model)
    residual, alone = model.leave_one_out().residual, (Y - Y.mean(axis=0)) * 50 / 49
    expected = 1 - (residual**2).sum(axis=0) / (alone**2).sum(axis=0)
    assert [each.r2 for each in found.outputs] == pytest.approx(expected)
    assert all(0.5 < each.r2 <= 1 and 0.7 <= each.coverage <= 1 for each in found.outputs)
    assert found.outputs[0].mean_error == pytest.approx(Y[:, 0].std() * 50 / 49)
    model.save(tmp_path / "model.lbnn")
    loaded = LBNNRegressor.load(tmp_path / "model.lbnn")
    assert loaded.summary() == text
    assert loaded.target_names_ == ["oil", "ash"]
    np.testing.assert_allclose(loaded.predictive(X[:3]).leverage, model.predictive(X[:3]).leverage)


def test_summary_of_data_in_blocks_has_no_rows():
    import dask.array as da

    model = LBNNRegressor(depth=1, noise="independent").fit(da.from_array(X, chunks=(25, 6)), Y)
    assert "network" in model.summary()
    assert np.isnan(model.predictive(X[:2]).leverage).all()


def test_summary_has_the_messages_of_the_left_out_scores(monkeypatch):
    """Scores that are not to be trusted are not shown without saying so."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12, 3))
    model = LBNNRegressor(depth=1).fit(X, X[:, 0] + 0.1 * rng.normal(size=12))
    scores = model.leave_one_out()
    doubtful = replace(scores, messages=(*scores.messages, "leave-one-out weights have a Pareto k above 0.7"))
    monkeypatch.setattr(LBNNRegressor, "leave_one_out", lambda self: doubtful)
    assert "  leave-one-out weights have a Pareto k above 0.7" in model.summary().splitlines()
