"""Scales of columns and of groups of columns by evidence, with the linear kernel."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import optimize, stats
from sklearn.linear_model import ARDRegression

from lbnn import LBNNRegressor
from lbnn.estimator import column_scales
from lbnn.selection import NoiseSpec


def problem(seed, rows, columns, outputs=1):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, columns))
    return rng, X, rng.normal(size=(rows, outputs))


@pytest.mark.parametrize(("rows", "columns"), [(12, 5), (6, 9)])
@pytest.mark.parametrize("per_output", [True, False])
def test_log_evidence_is_the_gaussian_density_at_its_best_noise(rows, columns, per_output):
    """Against SciPy's density of the contrasts, maximised over the noise; and the gradient by differences."""
    rng, X, Y = problem(0, rows, columns, outputs=2)
    Xc, Yc = X - X.mean(axis=0), Y - Y.mean(axis=0)
    found = column_scales.Rows.of(Xc, Yc, True)
    s, choice = rng.uniform(0.1, 2.0, size=columns), NoiseSpec(per_output=per_output)
    contrasts = np.linalg.svd(np.ones((1, rows)))[2][1:]
    K = contrasts @ (np.eye(rows) + (Xc * s) @ Xc.T) @ contrasts.T
    Z = contrasts @ Y

    def dense(log_units):
        units = np.exp(log_units * np.ones(2))
        return -sum(stats.multivariate_normal(cov=u * K).logpdf(z) for u, z in zip(units, Z.T, strict=True))

    best = optimize.minimize(dense, np.zeros(2 if per_output else 1), tol=1e-10)
    constant = -(rows - 1) * np.log(2 * np.pi)
    value, slope = column_scales.log_evidence(found, s, choice)
    assert value + constant == pytest.approx(-best.fun, rel=1e-8)
    for k in range(columns):
        step = 1e-5 * (np.arange(columns) == k)
        ahead, behind = (column_scales.log_evidence(found, s * np.exp(d), choice)[0] for d in (step, -step))
        assert slope[k] == pytest.approx((ahead - behind) / 2e-5, rel=1e-4, abs=1e-6)


def test_gain_of_a_split_is_the_change_of_the_evidence_at_the_present_noise():
    _, X, Y = problem(1, 20, 6)
    rows = column_scales.Rows.of(X - X.mean(axis=0), Y - Y.mean(axis=0), True)
    group_of, s = np.array([0, 0, 1, 1, 2, 2]), np.full(6, 0.3)
    units = column_scales._units(rows, s, NoiseSpec())
    group, gain, size = column_scales._best_split(rows, s, group_of, [], NoiseSpec())
    given = NoiseSpec(noise_variance=float(units[0]))
    after = np.where(group_of == group, np.exp(size), s)
    change = column_scales.log_evidence(rows, after, given)[0] - column_scales.log_evidence(rows, s, given)[0]
    assert gain == pytest.approx(change, rel=1e-8)


@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.filterwarnings("ignore:the evidence prefers a signal only slightly")  # with one scale
def test_sparse_signals_are_found(outputs):
    """Before: column_scales="own" was ignored, bit for bit."""
    rng, X, _ = problem(2, 560, 150)
    W = np.zeros((150, outputs))
    W[:5] = rng.normal(size=(5, outputs))
    F = X @ W
    Y = F + 0.6 * F.std(axis=0) * rng.normal(size=F.shape)
    fixed = {"width": (20,), "noise": "independent"}
    plain = LBNNRegressor(**fixed).fit(X[:60], Y[:60])
    model = LBNNRegressor(column_scales="own", **fixed).fit(X[:60], Y[:60])
    error, before = (((each.predict(X[60:]) - F[60:]) ** 2).sum() for each in (model, plain))
    assert error < 0.4 * before
    assert model.kernel_.columns == "own"
    assert set(np.argsort(-model.column_scales_)[:2]) < set(range(5))
    assert "columns with a prior scale of their own" in " ".join(map(str, model.notices_))
    if outputs == 1:
        peer = ARDRegression().fit(X[:60], Y[:60, 0]).predict(X[60:])
        assert error < ((peer - F[60:, 0]) ** 2).sum()


def test_weak_and_dense_signals_keep_one_scale():
    rng, X, Y = problem(3, 60, 150)
    for y in (0.1 * X @ rng.normal(size=150) + Y[:, 0], X @ rng.normal(size=150) + Y[:, 0]):
        plain, model = (LBNNRegressor(depth=1, beta=1.0, column_scales=s).fit(X, y) for s in ("auto", "own"))
        assert model.kernel_.columns != "own"
        np.testing.assert_array_equal(model.predict(X), plain.predict(X))
        assert "no column gains" in str(model.notices_[-1])


@pytest.mark.parametrize("outputs", [1, 3])
def test_a_block_of_genes_and_covariates_is_balanced_alone(outputs):
    """Before: relative error 0.9; the block had to be rescaled by hand."""
    rng, X, _ = problem(4, 500, 410)
    F = 0.02 * X[:, :400] @ rng.normal(size=(400, outputs)) + X[:, 400:] @ rng.normal(size=(10, outputs))
    Y = F + rng.normal(size=F.shape)
    frame = pd.DataFrame(X, columns=[f"g{k}" for k in range(400)] + [f"c{k}" for k in range(10)])
    fixed = {"depth": 1, "noise": "independent", "average": False}
    plain = LBNNRegressor(**fixed).fit(frame[:100], Y[:100])
    model = LBNNRegressor(column_scales=[[f"c{k}" for k in range(10)]], **fixed).fit(frame[:100], Y[:100])
    error, before = (
        np.sqrt(((each.predict(frame[100:]) - F[100:]) ** 2).mean() / F.var()) for each in (model, plain)
    )
    assert before > 0.8
    assert error < 0.5
    assert model.log_evidence_ > plain.log_evidence_ + 20
    by_number = LBNNRegressor(column_scales=[range(400)], **fixed).fit(X[:100], Y[:100])
    np.testing.assert_allclose(by_number.predict(X[100:]), model.predict(frame[100:]), rtol=0.05, atol=0.05)
    whole = X @ model.coef_.T + model.intercept_
    np.testing.assert_allclose(whole, model.predict(frame), rtol=1e-8, atol=1e-8)


def test_blocks_and_weights_agree_with_rows_in_memory():
    import dask.array as da

    rng, X, _ = problem(5, 80, 30)
    Y = X[:, :1] @ np.array([[2.0, -1.0]]) + 0.5 * rng.normal(size=(80, 2))
    fixed = {"depth": 1, "noise": "independent", "average": False, "column_scales": "own"}
    model = LBNNRegressor(**fixed).fit(X, Y)
    parts = LBNNRegressor(**fixed).fit(da.from_array(X, chunks=(50, 30)), Y)
    assert model.kernel_.columns == parts.kernel_.columns == "own"
    np.testing.assert_allclose(parts.predict(X[:5]), model.predict(X[:5]), rtol=1e-5, atol=1e-6)
    left_out = LBNNRegressor(**fixed).fit(X, Y, sample_weight=np.repeat([1.0, 0.0], [60, 20]))
    few = LBNNRegressor(**fixed).fit(X[:60], Y[:60])
    np.testing.assert_allclose(left_out.predict(X[:5]), few.predict(X[:5]), rtol=1e-6, atol=1e-8)
    doubled = LBNNRegressor(**fixed).fit(X, Y, sample_weight=np.full(80, 2.0))
    np.testing.assert_allclose(doubled.predict(X[:5]), model.predict(X[:5]), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"column_scales": [[0], [0, 1]]}, "in two"),
        ({"column_scales": [[0, 9]]}, "by number from 0 to 3"),
        ({"column_scales": [["a"]]}, "got 'a'"),
        ({"column_scales": [[]]}, "every group needs a column"),
        ({"column_scales": "own", "kernel": "relu"}, "kernel='relu'"),
        ({"column_scales": "own", "kernel": "precomputed"}, "kernel='precomputed'"),
        ({"column_scales": "own", "beta": np.inf}, "beta=inf"),
    ],
)
def test_bad_groups_are_refused(settings, match):
    _, X, Y = problem(6, 10, 4)
    with pytest.raises(ValueError, match=match):
        LBNNRegressor(**settings).fit(X, Y[:, 0])


def test_groups_of_columns_may_have_length_scales():
    rng, X, _ = problem(7, 60, 4)
    y = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=60)
    model = LBNNRegressor(kernel="rbf", column_scales=[[0]], depth=1).fit(X, y)
    lengths = model.kernel_.parameters["length_scale"]
    assert len(set(lengths[1:])) == 1
    assert lengths[0] < lengths[1]
