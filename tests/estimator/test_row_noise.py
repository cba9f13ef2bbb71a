"""Rows with noise of their own: found by evidence, named, and down-weighted where that is asked for."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import lbnn
from lbnn import LBNNRegressor
from lbnn.estimator.columns import ColumnUnits
from lbnn.estimator.input_search import Setting, make_candidate
from lbnn.estimator.kernels import Kernel
from lbnn.estimator.row_noise import RowDensities, price
from lbnn.selection import NoiseSpec


def problem(seed, rows=60, columns=10, outputs=1):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows + 500, columns))
    F = X @ rng.normal(size=(columns, outputs))
    return rng, X, F, F + 1.5 * rng.normal(size=F.shape)


@pytest.mark.parametrize("weights", [None, np.linspace(0.5, 2.0, 12)])
def test_gain_and_residual_are_those_of_dense_gaussians(weights):
    """Against densities of contrasts with the row's variance as it is and at its best."""
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(12, 4)), rng.normal(size=(12, 2))
    Y[5] += 8.0
    level = Y.mean(axis=0) if weights is None else weights @ Y / weights.sum()
    setting = Setting(Y - level, True, 1.0, NoiseSpec(per_output=True), 0, weights)
    candidate = make_candidate(ColumnUnits.raw(4), Kernel("linear", {}), X, setting)
    found = RowDensities.of(candidate, setting.targets)
    units, kappa = np.exp(candidate.process.h[:-1]), np.exp(candidate.process.h[-1])
    noise = np.ones(12) if weights is None else 1 / weights
    contrasts = np.linalg.svd(np.ones((1, 12)))[2][1:]

    def log_evidence(factor):
        own = np.where(np.arange(12) == 5, factor, 1.0) * noise
        K = contrasts @ (kappa * X @ X.T / 4 + np.diag(own)) @ contrasts.T
        return sum(
            stats.multivariate_normal(cov=u * K).logpdf(contrasts @ y)
            for u, y in zip(units, Y.T, strict=True)
        )

    best = log_evidence(found.variance[5])
    assert best - log_evidence(1.0) == pytest.approx(found.gain[5], rel=1e-6)
    assert best > max(log_evidence(found.variance[5] * factor) for factor in (0.8, 1.25))
    assert int(np.abs(found.z).max(axis=1).argmax()) == 5


@pytest.mark.parametrize("outputs", [1, 3])
def test_one_outlier_is_named_and_counts_less_where_asked_for(outputs):
    """Before: the error doubled, and nobody was told."""
    _, X, F, Y = problem(0, outputs=outputs)
    bad = Y[:60].copy()
    bad[17] += 30.0
    fixed = {"width": (20,), "noise": "independent", "average": False}
    with pytest.warns(lbnn.DataWarning, match=r"1 row is far .* row 17 \(z = .* robust=True"):
        plain = LBNNRegressor(**fixed).fit(X[:60], bad)
    model = LBNNRegressor(robust=True, **fixed).fit(X[:60], bad)
    clean = LBNNRegressor(**fixed).fit(X[:60], Y[:60])
    errors = [np.sqrt(((each.predict(X[60:]) - F[60:]) ** 2).mean()) for each in (plain, model, clean)]
    assert errors[0] > 1.8 * errors[2]
    assert errors[1] < 1.15 * errors[2]
    assert np.flatnonzero(model.row_variances_ > 1).tolist() == [17]
    assert any(
        "1 row has a noise variance of its own" in each and "row 17" in each for each in model.messages_
    )
    assert model.log_evidence_ - price(60) > plain.log_evidence_ + 10
    assert model.noise_variance_ == pytest.approx(clean.noise_variance_, rel=0.2)
    assert model.evidence_table_[0]["penalty"] > clean.evidence_table_[0]["penalty"]


def test_several_outliers_and_weights():
    _, X, F, Y = problem(5)
    bad = Y[:60, 0].copy()
    bad[17] += 20.0
    bad[[3, 40, 41]] -= 25.0
    fixed = {"depth": 1, "average": False, "robust": True}
    model = LBNNRegressor(**fixed).fit(X[:60], bad)
    assert np.flatnonzero(model.row_variances_ > 1).tolist() == [3, 17, 40, 41]
    assert np.sqrt(((model.predict(X[60:]) - F[60:, 0]) ** 2).mean()) < 0.9
    keep = np.ones(60)
    keep[3] = 0.0
    fewer = LBNNRegressor(**fixed).fit(X[:60], bad, sample_weight=keep)
    assert np.flatnonzero(fewer.row_variances_ > 1).tolist() == [17, 40, 41]


@pytest.mark.filterwarnings("ignore:the evidence prefers a signal only slightly")  # some have next to none
def test_gaussian_noise_has_no_outliers_and_robust_is_then_the_ordinary_fit():
    named = 0
    for seed in range(12):
        _, X, _, Y = problem(100 + seed, rows=40, columns=3)
        model = LBNNRegressor(depth=1, robust=True, average=False).fit(X[:40], Y[:40, 0])
        named += int((model.row_variances_ > 1).any())
    assert named <= 1  # a share of 0.4% is expected
    plain = LBNNRegressor(depth=1, average=False).fit(X[:40], Y[:40, 0])
    np.testing.assert_array_equal(plain.predict(X[:5]), model.predict(X[:5]))


@pytest.mark.filterwarnings("ignore::lbnn.DataWarning")
def test_an_outlier_that_has_noise_of_its_own_is_no_reason_to_transform_the_targets():
    """Targets about 20 and one of 90: skewed by that row alone."""
    _, X, _, Y = problem(3, columns=3)
    bad = Y[:60, 0] + 20.0
    bad[17] += 70.0
    plain, robust = (
        LBNNRegressor(depth=1, average=False, robust=each).fit(X[:60], bad) for each in (False, True)
    )
    assert any("target_transform" in each for each in plain.messages_)
    assert not any("target_transform" in each for each in robust.messages_)


def test_saved_with_the_model(tmp_path):
    _, X, _, Y = problem(0)
    Y[17] += 30.0
    model = LBNNRegressor(depth=1, robust=True, average=False).fit(X[:60], Y[:60, 0])
    model.save(tmp_path / "model.lbnn")
    loaded = LBNNRegressor.load(tmp_path / "model.lbnn")
    np.testing.assert_array_equal(loaded.row_variances_, model.row_variances_)
    np.testing.assert_allclose(loaded.predict(X[:5]), model.predict(X[:5]))
    with pytest.raises(ValueError, match="rows in memory"):
        LBNNRegressor(robust=True).fit_chunks([(X, Y)])
