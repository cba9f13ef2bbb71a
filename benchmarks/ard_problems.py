"""Scales of columns by evidence (`ard=True`, `groups=`) on problems that its penalty was not chosen on.

    python -m benchmarks.ard_problems [problems of each kind] [--write]

Kinds: a sparse signal, a dense one, a signal in one group of columns, columns that are correlated, no signal,
and several outputs with the same relevant columns. Beside it scikit-learn's ARDRegression and RidgeCV, and
`LBNNRegressor()` without `ard`. Relative errors are root mean square errors of the noiseless function at 500
new rows over its standard deviation (with no signal: over that of the noise).
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
from sklearn.linear_model import ARDRegression, RidgeCV
from sklearn.multioutput import MultiOutputRegressor

import lbnn
from lbnn._base.checkout import provenance

ROOT = Path(__file__).resolve().parent.parent
TEST = 500
Problem = tuple[np.ndarray, np.ndarray, np.ndarray, list[int] | None]  # X, f, Y, columns of a group


def noisy(X: np.ndarray, weights: np.ndarray, share: float, rng: np.random.Generator) -> tuple:
    """The function and targets with noise of `share` of its deviation (one where it is zero)."""
    f = X @ weights
    deviation = share * f.std() if f.any() else 1.0
    return f, f + deviation * rng.normal(size=f.shape)


def sparse(rng: np.random.Generator) -> Problem:
    """Two to twelve of 20 to 400 columns, weights of Student's law with three degrees."""
    columns, rows = int(rng.integers(20, 400)), int(rng.integers(40, 150))
    X, w = rng.normal(size=(rows + TEST, columns)), np.zeros(columns)
    some = rng.choice(columns, int(rng.integers(2, 13)), replace=False)
    w[some] = rng.standard_t(3, size=len(some))
    return X, *noisy(X, w, rng.uniform(0.3, 1.2), rng), None


def dense(rng: np.random.Generator) -> Problem:
    """All of 10 to 200 columns."""
    columns, rows = int(rng.integers(10, 200)), int(rng.integers(40, 150))
    X = rng.normal(size=(rows + TEST, columns))
    return X, *noisy(X, rng.normal(size=columns), rng.uniform(0.3, 1.2), rng), None


def grouped(rng: np.random.Generator) -> Problem:
    """Most of the signal in a group of 5 to 20 columns, a tenth of it in 100 to 300 others."""
    few, many, rows = int(rng.integers(5, 20)), int(rng.integers(100, 300)), int(rng.integers(60, 150))
    X = rng.normal(size=(rows + TEST, few + many))
    w = np.append(rng.normal(size=few) / np.sqrt(few), 0.1 * rng.normal(size=many) / np.sqrt(many))
    return X, *noisy(X, w, rng.uniform(0.3, 1.0), rng), list(range(few))


def correlated(rng: np.random.Generator) -> Problem:
    """Neighbouring columns with a correlation of 0.7 to 0.97, as in a spectrum, four of them relevant."""
    columns, rows, rho = int(rng.integers(40, 200)), int(rng.integers(40, 120)), rng.uniform(0.7, 0.97)
    X = rng.normal(size=(rows + TEST, columns))
    for k in range(1, columns):
        X[:, k] = rho * X[:, k - 1] + np.sqrt(1 - rho**2) * X[:, k]
    w = np.zeros(columns)
    w[rng.choice(columns, 4, replace=False)] = rng.normal(size=4)
    return X, *noisy(X, w, rng.uniform(0.3, 1.0), rng), None


def no_signal(rng: np.random.Generator) -> Problem:
    """Noise alone, 10 to 200 columns."""
    columns, rows = int(rng.integers(10, 200)), int(rng.integers(40, 120))
    X = rng.normal(size=(rows + TEST, columns))
    return X, *noisy(X, np.zeros(columns), 1.0, rng), None


def several_outputs(rng: np.random.Generator) -> Problem:
    """Two to five outputs with the same five relevant columns of 30 to 150."""
    columns, rows, outputs = int(rng.integers(30, 150)), int(rng.integers(50, 120)), int(rng.integers(2, 6))
    X, w = rng.normal(size=(rows + TEST, columns)), np.zeros((columns, outputs))
    w[rng.choice(columns, 5, replace=False)] = rng.normal(size=(5, outputs))
    return X, *noisy(X, w, rng.uniform(0.3, 1.0), rng), None


KINDS: tuple[Callable[[np.random.Generator], Problem], ...] = (
    sparse, dense, grouped, correlated, no_signal, several_outputs,
)  # fmt: skip
METHODS = ("lbnn", "lbnn, ard", "lbnn, groups", "ARDRegression", "RidgeCV")


def fitted(method: str, X: np.ndarray, Y: np.ndarray, group: list[int] | None):
    """The estimator of a method, fitted; None where it does not apply."""
    if method == "lbnn, groups":
        return None if group is None else lbnn.LBNNRegressor(groups=[group]).fit(X, Y)
    if method.startswith("lbnn"):
        return lbnn.LBNNRegressor(ard=method.endswith("ard")).fit(X, Y)
    if method == "RidgeCV":
        return RidgeCV(np.logspace(-3, 5, 33)).fit(X, Y)
    return ARDRegression().fit(X, Y) if Y.ndim == 1 else MultiOutputRegressor(ARDRegression()).fit(X, Y)


def one(kind: Callable[[np.random.Generator], Problem], number: int) -> dict[str, dict[str, float]]:
    """Relative error and CPU seconds of every method on one problem."""
    X, f, Y, group = kind(np.random.default_rng([30, number, KINDS.index(kind)]))
    train, unit, found = len(X) - TEST, f.std() or 1.0, {}
    for method in METHODS:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            began = time.process_time()
            model = fitted(method, X[:train], Y[:train], group)
            seconds = time.process_time() - began
            if model is not None:
                error = float(np.sqrt(np.mean((model.predict(X[train:]) - f[train:]) ** 2)) / unit)
                found[method] = {"error": error, "seconds": seconds}
    return found


def summary(rows: list[dict[str, dict[str, float]]]) -> dict[str, dict[str, float]]:
    """Mean errors with the standard error of the difference from lbnn with ard, and median seconds."""
    ours = np.array([row["lbnn, ard"]["error"] for row in rows])
    found = {}
    for method in (each for each in METHODS if each in rows[0]):
        errors = np.array([row[method]["error"] for row in rows])
        spread = (errors - ours).std(ddof=1) / np.sqrt(len(rows)) if len(rows) > 1 else np.nan
        found[method] = {
            "error": float(errors.mean()),
            "error of the difference": float(spread),
            "median seconds": float(np.median([row[method]["seconds"] for row in rows])),
        }
    return found


def table(kinds: dict[str, dict[str, dict[str, float]]], count: int) -> str:
    """The summaries as a table."""
    lines = ["| problems | " + " | ".join(METHODS) + " |", "|---" * (len(METHODS) + 1) + "|"]
    for kind, found in kinds.items():
        cells = [
            "{error:.3f} ± {error of the difference:.3f} ({median seconds:.2g} s)".format(**found[method])
            if method in found
            else "–"
            for method in METHODS
        ]
        lines.append(f"| {kind} ({count}) | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    """Run, print, and store."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ard_problems")
    parser.add_argument("problems", type=int, nargs="?", default=12, help="of each kind")
    parser.add_argument("--write", action="store_true", help="store docs/results/ard.json")
    options = parser.parse_args()
    results: dict[str, list] = {}
    for number in range(options.problems):
        for kind in KINDS:
            results.setdefault(kind.__name__.replace("_", " "), []).append(one(kind, number))
        kinds = {kind: summary(rows) for kind, rows in results.items()}
        print(table(kinds, number + 1), flush=True)
    if options.write:
        command = f"python -m benchmarks.ard_problems {options.problems} --write"
        document = {
            "provenance": [provenance(command)],
            "problems of each kind": options.problems,
            "kinds": kinds,
        }
        path = ROOT / "docs" / "results" / "ard.json"
        path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
