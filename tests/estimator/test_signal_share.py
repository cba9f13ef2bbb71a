"""The share of the signal: its interval covers the truth, and is as wide as dense integrals say."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import lbnn

LEVELS = (0.05, 0.95)


def drawn(seed: int, outputs: int, widths: tuple[int, ...], rows: int = 40, columns: int = 10):
    """Inputs, targets of unit noise from the model, and the true shares at a typical row, (n_d,)."""
    rng = np.random.default_rng([31, seed])
    X = rng.normal(size=(rows, columns))
    scale = np.reshape(lbnn.Network(widths).scale_prior(outputs).sample(1, rng), (outputs, outputs))
    mean_gram = float(((X - X.mean(axis=0)) ** 2).sum()) / columns / (rows - 1)
    share = rng.uniform(0.1, 0.9)
    prior_scale = share / (1 - share) / mean_gram
    values, vectors = np.linalg.eigh(prior_scale * scale)
    weights = rng.normal(size=(columns, outputs)) @ (np.sqrt(np.maximum(values, 0))[:, None] * vectors.T)
    ratios = mean_gram * prior_scale * np.diagonal(scale)
    Y = X @ weights / np.sqrt(columns) + rng.normal(size=(rows, outputs))
    return X, Y, ratios / (1 + ratios)


def interval_of(density, values):
    """Ends of the equal-tailed interval of a density on a grid of values."""
    mass = np.cumsum(density) / np.sum(density)
    return np.interp(LEVELS, mass, values)


def dense_interval(X, Y, per_output: bool):
    """By a dense grid over share and noise variance of each output, from p × p covariances.

    The prior is du/u for the noise and Beta(½, ½) for the share; the level is flat.
    """
    rows = len(X)
    contrasts = np.linalg.svd(np.eye(rows) - 1 / rows)[0][:, : rows - 1].T
    gram, targets = contrasts @ X @ X.T @ contrasts.T / X.shape[1], contrasts @ Y
    mean_gram = np.trace(gram) / (rows - 1)
    shares = np.linspace(0.0005, 0.9995, 1000)
    log_units = np.linspace(-6, 6, 601)
    log_density = stats.beta(0.5, 0.5).logpdf(shares)
    for k, share in enumerate(shares):
        covariance = np.eye(rows - 1) + share / (1 - share) / mean_gram * gram
        misfit = (targets * np.linalg.solve(covariance, targets)).sum(axis=0)
        groups = misfit if per_output else misfit.sum(keepdims=True)
        count = (rows - 1) * Y.shape[1] / len(groups)
        log_density[k] -= 0.5 * Y.shape[1] * np.linalg.slogdet(covariance)[1]
        for own in groups:
            terms = -0.5 * (own / np.exp(log_units) + count * log_units)
            log_density[k] += terms.max() + np.log(np.exp(terms - terms.max()).sum())
    return interval_of(np.exp(log_density - log_density.max()), shares)


@pytest.mark.parametrize("average", [False, "auto"])
@pytest.mark.parametrize("noise", ["independent", "per_output"])
def test_the_interval_at_infinite_width_is_that_of_a_dense_integral(noise, average):
    for outputs in (1, 2):
        X, Y, _ = drawn(3, outputs, ())
        targets = Y[:, 0] if outputs == 1 else Y
        model = lbnn.LBNNRegressor(depth=1, column_scales="raw", noise=noise, average=average).fit(X, targets)
        expected = dense_interval(X, Y, noise == "per_output")
        assert np.allclose(model.signal_share_interval_, expected, atol=2e-3)  # the grids' steps
        assert np.all((expected[0] < model.signal_share_) & (model.signal_share_ < expected[1]))


def test_one_output_of_a_finite_network_has_the_interval_of_any_width():
    """A prior scale that is unknown, with a flat law of its logarithm, hides the law of λ."""
    X, Y, _ = drawn(4, 1, (3,))
    fits = [lbnn.LBNNRegressor(column_scales="raw", width=width).fit(X, Y[:, 0]) for width in (2, "evidence")]
    first, second = (model.signal_share_interval_ for model in fits)
    assert first[1] - first[0] > 0.05
    assert np.allclose(first, second, atol=1e-12)


def test_hyperparameters_that_are_given_have_no_uncertainty():
    X, Y, _ = drawn(5, 1, ())
    known = lbnn.LBNNRegressor(depth=1, column_scales="raw", beta=1.0, prior_scale=2.0).fit(X, Y[:, 0])
    mean_gram = float(((X - X.mean(axis=0)) ** 2).sum()) / X.shape[1] / (len(X) - 1)
    assert known.signal_share_ == pytest.approx(2 * mean_gram / (2 * mean_gram + 1))
    assert np.allclose(known.signal_share_interval_, known.signal_share_)
    for given in ({"beta": 1.0}, {"prior_scale": 2.0}):
        low, high = lbnn.LBNNRegressor(depth=1, **given).fit(X, Y[:, 0]).signal_share_interval_
        assert 0 < low < high < 1
    (low, high), share = (lambda m: (m.signal_share_interval_, m.signal_share_))(
        lbnn.LBNNRegressor(depth=1, beta=np.inf, fit_intercept=False).fit(X[:8], Y[:8, 0])
    )
    assert low == high == share == 1.0


def test_targets_without_signal_may_have_one():
    """The interval begins at zero and ends where the rows exclude a signal."""
    rng = np.random.default_rng(7)
    with pytest.warns(lbnn.DataWarning, match="without signal"):
        model = lbnn.LBNNRegressor().fit(rng.normal(size=(30, 5)), rng.normal(size=30))
    low, high = model.signal_share_interval_
    assert low < 0.01
    assert 0.1 < high < 0.7


def test_the_interval_is_kept_in_a_file(tmp_path):
    X, Y, _ = drawn(6, 2, (2,))
    model = lbnn.LBNNRegressor(width=(2,), noise="independent").fit(X, Y)
    model.save(tmp_path / "model.lbnn")
    again = lbnn.LBNNRegressor.load(tmp_path / "model.lbnn")
    assert np.array_equal(again.signal_share_interval_, model.signal_share_interval_)
    assert np.array_equal(again.signal_share_, model.signal_share_)


@pytest.mark.slow
def test_several_outputs_behind_a_finite_network_against_draws_of_the_prior():
    """Shares from 40,000 draws of L on a grid of log u and log κ, both flat."""
    X, Y, _ = drawn(8, 2, (2,), rows=25, columns=4)
    rng = np.random.default_rng(1)
    rows = len(X)
    contrasts = np.linalg.svd(np.eye(rows) - 1 / rows)[0][:, : rows - 1].T
    gram, targets = contrasts @ X @ X.T @ contrasts.T / X.shape[1], contrasts @ Y
    values, axes = np.linalg.eigh(gram)
    values, targets, mean_gram = np.maximum(values, 0), axes.T @ targets, np.trace(gram) / (rows - 1)
    scales = lbnn.Network((2,)).scale_prior(2).sample(40_000, rng)
    sizes, vectors = np.linalg.eigh(scales)
    squares = np.einsum("ia,mab->mib", targets, vectors) ** 2  # (m, rows, 2)
    weights, shares = [], []
    for log_scale in np.linspace(-4, 7, 34):
        variance = 1 + np.exp(log_scale) * values[:, None] * sizes[:, None, :]
        misfit = (squares / variance).sum(axis=(1, 2))  # u integrated with du/u: misfit^(−(p − 1) n_d/2)
        weights.append(-0.5 * np.log(variance).sum(axis=(1, 2)) - (rows - 1) * np.log(misfit))
        ratio = mean_gram * np.exp(log_scale) * np.diagonal(scales, axis1=1, axis2=2)
        shares.append(ratio / (1 + ratio))
    weights, shares = np.concatenate(weights), np.concatenate(shares)
    weights = np.exp(weights - weights.max())
    options = {"depth": 2, "width": 2, "noise": "independent", "column_scales": "raw"}
    for average in (False, "auto"):
        model = lbnn.LBNNRegressor(**options, average=average).fit(X, Y)
        for j in range(2):
            order = np.argsort(shares[:, j])
            low, high = interval_of(weights[order], shares[order, j])
            found = model.signal_share_interval_[j]
            assert np.all(np.abs(found - (low, high)) < 0.15 * (high - low))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("outputs", "widths", "options"),
    [
        (1, (), {}),
        (1, (), {"average": False}),
        (1, (3,), {}),
        (2, (3,), {"depth": 2, "width": 3, "noise": "independent"}),
        (2, (3,), {"depth": 2, "width": 3, "noise": "independent", "average": False}),
    ],
)
def test_the_interval_covers_the_truth(outputs, widths, options):
    covered = []
    for seed in range(200):
        X, Y, truth = drawn(seed, outputs, widths)
        model = lbnn.LBNNRegressor(column_scales="raw", **options).fit(X, Y[:, 0] if outputs == 1 else Y)
        low, high = np.reshape(model.signal_share_interval_, (-1, 2)).T
        covered.append((low <= truth) & (truth <= high))
    assert 0.80 <= np.mean(covered) <= 0.97
