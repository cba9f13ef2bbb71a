"""Files as an earlier commit wrote them: run with the package of that commit on the path.

git worktree add /tmp/before 51131f5 && PYTHONPATH=/tmp/before/src python tests/archive/make_files.py
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

import lbnn
from lbnn import archive

FOLDER = Path(__file__).parent / "files"


def data() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """X (12, 4), Y (12, 2) and X_test (3, 4)."""
    rng = np.random.default_rng(26)
    return rng.normal(size=(12, 4)), rng.normal(size=(12, 2)), rng.normal(size=(3, 4))


def main() -> None:
    """Write two posteriors, an estimator, and what they predicted."""
    X, Y, X_test = data()
    one = lbnn.Network((3,)).condition(X, Y[:, 0], 4.0)
    two = lbnn.Network((5,)).condition(X, Y, 4.0, noise="coupled", target_error=0.3)
    for name, post in (("one", one), ("two", two)):
        archive.write(FOLDER / f"{name}.lbnn", "posterior", *archive.pack_posterior(post))
    model = lbnn.LBNNRegressor(width=3, noise="isotropic", average=False, target_error=0.3).fit(X, Y)
    model.save(FOLDER / "model.lbnn")
    default = lbnn.LBNNRegressor(average=False).fit(X, Y[:, 0])
    default.save(FOLDER / "default.lbnn")
    answers = {
        "one": one.predict(X_test).variance.tolist(),
        "two": two.predict(X_test).variance.tolist(),
        "model": model.predict(X_test).tolist(),
        "default": default.predict(X_test).tolist(),
    }
    (FOLDER / "answers.json").write_text(json.dumps(answers, indent=1) + "\n")


if __name__ == "__main__":
    main()
