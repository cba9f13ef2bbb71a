"""Left-out predictions against the signal that the evidence found, and targets without signal."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import lbnn
from lbnn.estimator.left_out import left_out_r2, without_signal


def correlated_noise(seed: int, rows: int = 30, outputs: int = 12) -> tuple[np.ndarray, np.ndarray]:
    """Targets with three noise factors, independent of the inputs."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows + 200, 100))
    factors = rng.normal(size=(rows + 200, 3)) @ rng.normal(size=(3, outputs)) / 3**0.5
    return X, 0.8 * factors + 0.6 * rng.normal(size=(rows + 200, outputs))


def test_correlated_noise_that_is_fitted_as_signal_is_said() -> None:
    X, Y = correlated_noise(5)
    with pytest.warns(lbnn.AccuracyWarning, match="left-out predictions do not support it"):
        model = lbnn.LBNNRegressor(width=3, noise="independent", average=False).fit(X[:30], Y[:30])
    assert sum("left-out" in message for message in map(str, model.notices_)) == 1
    assert "R² is -0." in str(model.notices_[0])
    assert "nats" in str(model.notices_[0])


def test_a_signal_that_is_there_is_not_doubted() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 20))
    Y = X @ rng.normal(size=(20, 2)) / 20**0.5 + 0.3 * rng.normal(size=(40, 2))
    model = lbnn.LBNNRegressor(depth=1, noise="independent").fit(X, Y)
    assert not any("left-out" in message for message in map(str, model.notices_))


def test_targets_without_signal_are_predicted_by_their_mean() -> None:
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(60, 10)), rng.normal(2.0, 3.0, size=60)
    with pytest.warns(lbnn.DataWarning, match="without signal"):
        model = lbnn.LBNNRegressor().fit(X, y)
    assert model.candidates_[0].signal is False
    assert any("without signal" in message for message in map(str, model.notices_))
    assert np.allclose(model.predict(X), y.mean(), atol=1e-6)
    assert np.isclose(model.noise_variance_, y.var(ddof=1), rtol=0.2)


@pytest.mark.filterwarnings("ignore::lbnn.DataWarning")
def test_a_signal_that_the_evidence_hardly_prefers_to_none_is_announced() -> None:
    """Signals from none to a clear one: said exactly where the table has none within a nat of the best."""
    rng = np.random.default_rng(3)
    X, noise = rng.normal(size=(60, 4)), rng.normal(size=60)
    said = []
    for strength in np.linspace(0.0, 0.6, 9):
        model = lbnn.LBNNRegressor(average=False).fit(X, strength * X[:, 0] + noise)
        top, rows = model.candidates_[0], model.candidates_
        without = max(row.log_evidence - row.penalty for row in rows if not row.signal)
        lead = top.log_evidence - top.penalty - without
        said.append(any("prefers a signal only slightly" in each for each in map(str, model.notices_)))
        assert said[-1] == (top.signal and lead <= 1.0)
        assert "no signal" in model.summary()
    assert any(said)
    assert not said[-1]


def test_evidence_without_signal_is_that_of_plain_normal_targets() -> None:
    """Contrasts of p normal targets with the maximum likelihood variance SS/(p − 1)."""
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(60, 10)), rng.normal(2.0, 3.0, size=60)
    with pytest.warns(lbnn.DataWarning, match="without signal"):
        model = lbnn.LBNNRegressor().fit(X, y)
    row, squares = model.candidates_[0], ((y - y.mean()) ** 2).sum()
    assert np.isclose(row.log_evidence, -0.5 * 59 * (np.log(2 * np.pi * squares / 59) + 1), atol=1e-6)


@given(st.integers(0, 1000), st.integers(5, 12), st.integers(1, 4))
@settings(max_examples=20, deadline=None)
def test_densities_without_signal_are_those_of_refits(seed: int, rows: int, outputs: int) -> None:
    Y = np.random.default_rng(seed).normal(size=(rows, outputs)) @ np.diag(np.arange(1.0, outputs + 1))
    found = without_signal(Y)
    for a in range(rows):
        others = np.delete(Y, a, axis=0)
        scale = others.std(axis=0, ddof=1) * np.sqrt(1 + 1 / (rows - 1))
        expected = stats.t(rows - 2, others.mean(axis=0), scale).logpdf(Y[a]).sum()
        assert np.isclose(found[a], expected)


def test_left_out_r2_is_zero_for_means_of_the_others_and_one_for_the_targets() -> None:
    Y = np.random.default_rng(1).normal(size=(9, 3))
    means = np.stack([np.delete(Y, a, axis=0).mean(axis=0) for a in range(9)])
    assert abs(left_out_r2(Y, means)) < 1e-12
    assert left_out_r2(Y, Y) == 1


def test_a_missing_intercept_is_named():
    """One output has no noise that is correlated across outputs."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, size=(60, 3)) + 3.0
    y = X @ [1.0, -2.0, 0.5] + 0.5 * rng.normal(size=60) + 50.0
    with pytest.warns(lbnn.AccuracyWarning, match=r"rows alone\. The model has no intercept .* Do not rely"):
        lbnn.LBNNRegressor(depth=1, fit_intercept=False).fit(X, y)
    lbnn.LBNNRegressor(depth=1).fit(X, y)  # no warning
