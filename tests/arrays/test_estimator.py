"""LBNNRegressor with arrays of other libraries, under scikit-learn's array API dispatch."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sklearn

import lbnn
from lbnn._base.arrays import device_of, to_numpy
from lbnn.estimator.table import distinct_rows
from tests.helpers.libraries import device, every_library, put

FIXED: dict[str, Any] = {"beta": 10.0, "width": 8, "depth": 2}


def one_output(rng: np.random.Generator) -> tuple[Any, Any, dict[str, Any]]:
    X = rng.normal(size=(30, 12))
    return X, X[:, 0] + 0.3 * rng.normal(size=30), FIXED


def two_outputs(rng: np.random.Generator) -> tuple[Any, Any, dict[str, Any]]:
    X = rng.normal(size=(30, 12))
    return X, X[:, :2] + 0.3 * rng.normal(size=(30, 2)), FIXED


def unequal_columns(rng: np.random.Generator) -> tuple[Any, Any, dict[str, Any]]:
    """Everything by evidence, in columns of different units: they are standardised."""
    X = rng.normal(size=(30, 12))
    y = X.sum(axis=1) + 0.3 * rng.normal(size=30)
    return 5 + X * 10.0 ** np.arange(-3, 3).repeat(2), y, {}


def copied_rows(rng: np.random.Generator) -> tuple[Any, Any, dict[str, Any]]:
    """More inputs than rows, and two rows that are copies: they are counted once."""
    X = rng.normal(size=(15, 20))
    y = X[:, 0] + 0.3 * rng.normal(size=15)
    return np.vstack([X, X[[3, 7]]]), np.append(y, y[[3, 7]]), {"depth": 2, "width": 6}


def shares(rng: np.random.Generator) -> tuple[Any, Any, dict[str, Any]]:
    """Targets that add up to one: two contrasts of three."""
    X = rng.normal(size=(25, 6))
    Y = np.exp(0.3 * X[:, :3] + 0.1 * rng.normal(size=(25, 3)))
    return X, Y / Y.sum(axis=1, keepdims=True), {"depth": 1}


def averaged(rng: np.random.Generator) -> tuple[Any, Any, dict[str, Any]]:
    X = rng.normal(size=(14, 10))
    return X, X[:, 0] + rng.normal(size=14), {"average": True, "depth": 2}


PROBLEMS = {
    each.__name__: each for each in (one_output, two_outputs, unequal_columns, copied_rows, shares, averaged)
}


@pytest.fixture
def dispatched(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Scikit-learn's dispatch; its check wants the variable, and nothing here calls SciPy with X."""
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    with sklearn.config_context(array_api_dispatch=True):
        yield


@every_library
@pytest.mark.parametrize("name", PROBLEMS)
def test_same_fit_and_predictions(name: str, library: str, dispatched: Any, tmp_path: Path) -> None:
    X, y, settings = PROBLEMS[name](np.random.default_rng(0))
    new = X[:5] + 0.01 * X.std(axis=0)
    X_test = put(new, library)
    warned = name in ("copied_rows", "averaged")  # the last has a weak signal
    with pytest.warns(lbnn.DataWarning) if warned else contextlib.nullcontext():
        plain = lbnn.LBNNRegressor(**settings).fit(X, y)
        model = lbnn.LBNNRegressor(**settings).fit(put(X, library), put(y, library))
    assert [each.code for each in model.notices_] == [each.code for each in plain.notices_]
    assert (model.kernel_.columns, model.widths_) == (plain.kernel_.columns, plain.widths_)
    assert model.kernel_.columns == "standardised" or name != "unequal_columns"
    mean, deviation = model.predict(X_test, return_std=True)
    expected_mean, expected_deviation = plain.predict(new, return_std=True)
    assert device_of(mean) == device_of(deviation) == device(library)
    assert device_of(model.sample_y(X_test, 3, 0)) == device(library)
    near(mean, expected_mean)
    near(deviation, expected_deviation)
    near(model.predict(X_test, return_cov=True)[1], plain.predict(new, return_cov=True)[1])
    near(model.coef_, plain.coef_)
    near(model.intercept_, plain.intercept_)
    scores, expected_scores = model.leave_one_out(), plain.leave_one_out()
    near(scores.mean, expected_scores.mean, 1e-5)
    model.save(tmp_path / "model.lbnn")
    loaded = lbnn.LBNNRegressor.load(tmp_path / "model.lbnn")
    np.testing.assert_allclose(loaded.predict(new), to_numpy(mean), rtol=1e-12)


def near(got: Any, expected: Any, rtol: float = 1e-6) -> None:
    expected = np.asarray(expected)
    np.testing.assert_allclose(to_numpy(got), expected, rtol=rtol, atol=1e-2 * rtol * np.abs(expected).max())


@every_library
def test_known_outputs_of_new_rows(library: str, dispatched: Any) -> None:
    X, Y, settings = two_outputs(np.random.default_rng(1))
    partly = np.array([[0.5, np.nan], [np.nan, 1.0], [np.nan, np.nan]])
    plain = lbnn.LBNNRegressor(noise="coupled", **settings).fit(X, Y).predictive(X[:3]).with_noise()
    model = lbnn.LBNNRegressor(noise="coupled", **settings).fit(put(X, library), put(Y, library))
    told = model.predictive(put(X[:3], library)).with_noise().given(put(partly, library))
    assert (
        device_of(told.mean) == device_of(told.variance) == device_of(told.quantile(0.3)) == device(library)
    )
    near(told.mean, plain.given(partly).mean)
    near(told.variance, plain.given(partly).variance)


@every_library
def test_rules(library: str, dispatched: Any) -> None:
    X, y, settings = one_output(np.random.default_rng(0))
    there, model = put(X, library), lbnn.LBNNRegressor(**settings)
    with pytest.raises(ValueError, match="kernel='linear'"):
        lbnn.LBNNRegressor(kernel="rbf").fit(there, put(y, library))
    with pytest.raises((ValueError, TypeError), match=r"one library|same namespace|device"):
        model.fit(there, y)
    with pytest.raises(ValueError, match="one library"):
        model.fit(there, put(y, library)).predictive(X)
    with pytest.raises(ValueError, match="one library"):
        model.predict(X)
    with pytest.raises(ValueError, match="NaN"):
        model.fit(put(np.where(X > 2, np.nan, X), library), put(y, library))
    missing = np.column_stack([y, np.where(y > 1, np.nan, y)])
    with pytest.raises(ValueError, match="every row needs all of its targets"):
        model.fit(there, put(missing, library))


@pytest.mark.parametrize("library", ["numpy", "array_api_strict"])
def test_equal_rows_are_found_wherever_they_live(library: str) -> None:
    """Against a sort of all rows; marks of rows that cancel, and rows that differ in the last digit."""
    rng = np.random.default_rng(2)
    X = rng.integers(-1, 2, size=(60, 3)).astype(float)
    X[5], X[6] = [1e8, -1e8, 1e-9], [1e8, -1e8, 2e-9]
    X[7] = X[5]
    X[8] = X[9] * (1 + 2e-16)
    Y = rng.integers(0, 2, size=(60, 1)).astype(float)
    rows = distinct_rows(put(X, library), Y)
    copies = 60 - len(np.unique(np.hstack([X, Y]), axis=0))
    replicates = 60 - len(np.unique(X, axis=0))
    assert (rows.copies, rows.replicates) == (copies, replicates - copies)


SCRIPT = """
import sys, numpy as np, sklearn, lbnn
from lbnn._base.arrays import device_of
from tests.helpers.libraries import device, put

library, rng = sys.argv[1], np.random.default_rng(0)
X = rng.normal(size=(30, 12))
with sklearn.config_context(array_api_dispatch=True):
    model = lbnn.LBNNRegressor(beta=10.0, width=8).fit(put(X, library), put(X[:, :2], library))
    assert device_of(model.predict(put(X, library))) == device(library)
print("fine")
"""


@pytest.mark.slow
@pytest.mark.parametrize("library", ["array_api_strict", "torch", "jax"])
def test_with_scipy_that_dispatches_too(library: str, tmp_path: Path) -> None:
    """In a process of its own: SciPy reads SCIPY_ARRAY_API when it is imported."""
    device(library)  # skips where it is not installed
    root = Path(__file__).parents[2]
    environment = os.environ | {
        "SCIPY_ARRAY_API": "1",
        "PYTHONPATH": os.pathsep.join([str(root / "src"), str(root)]),
    }
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, library], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.stdout.strip() == "fine", done.stderr[-3000:]


def test_without_dispatch_scikit_learn_decides() -> None:
    """NumPy arrays and lists work as ever."""
    X = np.random.default_rng(0).normal(size=(12, 4))
    model = lbnn.LBNNRegressor(beta=4.0, width=5, depth=2).fit(X.tolist(), X[:, 0].tolist())
    assert isinstance(model.predict(X), np.ndarray)
    with pytest.raises(ValueError, match="features"):
        model.predict(X[:, :2])
