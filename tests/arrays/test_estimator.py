"""LBNNRegressor with arrays of other libraries, under scikit-learn's array API dispatch."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.libraries import every_library, place

SCRIPT = """
import sys, numpy as np, sklearn, lbnn
from lbnn._base.arrays import place_of, to_numpy
from tests.helpers.libraries import place, put

library = sys.argv[1]
rng = np.random.default_rng(0)
X, X_test = rng.normal(size=(30, 12)), rng.normal(size=(5, 12))
Y = X[:, :2] + 0.3 * rng.normal(size=(30, 2))
for y in (Y[:, 0], Y):
    settings = dict(beta=10.0, width=8, depth=2, random_state=0)
    plain = lbnn.LBNNRegressor(**settings).fit(X, y)
    with sklearn.config_context(array_api_dispatch=True):
        model = lbnn.LBNNRegressor(**settings).fit(put(X, library), put(y, library))
        mean, deviation = model.predict(put(X_test, library), return_std=True)
        assert place_of(mean) == place_of(deviation) == place(library)
        draws = model.sample_y(put(X_test, library), 3, 0)
        assert place_of(draws) == place(library)
        scores = model.leave_one_out()
        try:
            lbnn.LBNNRegressor(kernel="rbf").fit(put(X, library), put(y, library))
        except ValueError as error:
            assert "kernel='linear'" in str(error)
        else:
            raise AssertionError("no error")
        try:
            model.predictive(X_test)
        except ValueError as error:
            assert "one library" in str(error)
        else:
            raise AssertionError("no error")
    expected_mean, expected_deviation = plain.predict(X_test, return_std=True)
    np.testing.assert_allclose(to_numpy(mean), expected_mean, rtol=1e-6)
    np.testing.assert_allclose(to_numpy(deviation), expected_deviation, rtol=1e-6)
    np.testing.assert_allclose(model.coef_, plain.coef_, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(model.intercept_, plain.intercept_, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(scores.mean, plain.leave_one_out().mean, rtol=1e-5, atol=1e-7)
    model.save("model.lbnn")
    loaded = lbnn.LBNNRegressor.load("model.lbnn")
    np.testing.assert_allclose(loaded.predict(X_test), to_numpy(mean), rtol=1e-12)
print("fine")
"""


@every_library
def test_estimator_under_dispatch(library: str, tmp_path: Path) -> None:
    """In a process of its own: SciPy reads SCIPY_ARRAY_API when it is imported."""
    place(library)  # skips where it is not installed
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
    import numpy as np

    import lbnn

    rng = np.random.default_rng(0)
    X = rng.normal(size=(12, 4))
    model = lbnn.LBNNRegressor(beta=4.0, width=5, depth=2).fit(X.tolist(), X[:, 0].tolist())
    assert isinstance(model.predict(X), np.ndarray)
    with pytest.raises(ValueError, match="features"):
        model.predict(X[:, :2])
