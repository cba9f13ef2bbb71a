"""Sixty default fits as a newcomer makes them: what notices and `diagnose()` say, and the time of the fit.

    python -m benchmarks.default_fits [fits] > default-fits.json

Data of many kinds, for which it is known what a statistician would say: linear with noise, no signal,
without noise, an outlier, a nonlinear relation, lognormal targets, compositions.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Callable

import numpy as np

import lbnn
from lbnn._base.checkout import provenance

Problem = tuple[np.ndarray, np.ndarray]


def linear(rng: np.random.Generator) -> Problem:
    rows, columns, outputs = rng.integers(30, 150), rng.integers(3, 80), rng.integers(1, 5)
    X = rng.normal(size=(rows, columns))
    Y = X @ rng.normal(size=(columns, outputs)) / np.sqrt(columns) + 0.5 * rng.normal(size=(rows, outputs))
    return X, Y[:, 0] if outputs == 1 else Y


def no_signal(rng: np.random.Generator) -> Problem:
    return rng.normal(size=(80, 6)), rng.normal(size=80)


def no_noise(rng: np.random.Generator) -> Problem:
    X = rng.normal(size=(40, 5))
    return X, X @ rng.normal(size=5)


def outlier(rng: np.random.Generator) -> Problem:
    X = rng.normal(size=(60, 8))
    y = X @ rng.normal(size=8) + rng.normal(size=60)
    y[rng.integers(60)] += 20.0
    return X, y


def nonlinear(rng: np.random.Generator) -> Problem:
    X = rng.uniform(-2, 2, size=(120, 3))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] ** 2 + 0.2 * rng.normal(size=120)


def lognormal(rng: np.random.Generator) -> Problem:
    X = rng.normal(size=(100, 4))
    return X, np.exp(X @ rng.normal(size=4) + 0.3 * rng.normal(size=100))


def composition(rng: np.random.Generator) -> Problem:
    X = rng.normal(size=(60, 5))
    parts = np.exp(0.4 * X @ rng.normal(size=(5, 3)) + 0.2 * rng.normal(size=(60, 3)))
    return X, 100 * parts / parts.sum(axis=1, keepdims=True)


#: Each kind of data: how often, a part of the code that a statistician would expect (empty: none).
KINDS: dict[str, tuple[Callable[[np.random.Generator], Problem], int, str]] = {
    "linear": (linear, 30, ""),
    "no signal": (no_signal, 5, "signal"),
    "no noise": (no_noise, 5, "without_noise"),
    "outlier": (outlier, 5, "odd_rows"),
    "nonlinear": (nonlinear, 5, "nonlinear"),
    "lognormal": (lognormal, 5, "nonlinear"),
    "composition": (composition, 5, "dependent_targets"),
}


def run(fits: int) -> dict[str, object]:
    """Fit the first `fits` problems, in turn over the kinds."""
    problems = [(kind, number) for kind, (_, count, _) in KINDS.items() for number in range(count)]
    order = np.random.default_rng(0).permutation(len(problems))[:fits]
    rows, seconds = [], []
    for kind, number in (problems[index] for index in order):
        make, _, expected = KINDS[kind]
        X, Y = make(np.random.default_rng([number, len(kind)]))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            start = time.process_time()
            model = lbnn.LBNNRegressor().fit(X, Y)
            seconds.append(time.process_time() - start)
            told = [notice.code for notice in (*model.notices_, *model.diagnose())]
        right = any(expected in code for code in told) if expected else not told
        rows.append({"kind": kind, "shape": [*X.shape, *Y.shape[1:]], "right": right, "told": told})
    kinds = {kind: [row["right"] for row in rows if row["kind"] == kind] for kind in KINDS}
    return {
        "provenance": [provenance("python -m benchmarks.default_fits > default-fits.json")],
        "fits": len(rows),
        "share with a notice": float(np.mean([bool(row["told"]) for row in rows])),
        "share right": float(np.mean([row["right"] for row in rows])),
        "right by kind": {kind: f"{sum(found)} of {len(found)}" for kind, found in kinds.items()},
        "cpu seconds": {"median": float(np.median(seconds)), "worst": float(np.max(seconds))},
        "not right": [row for row in rows if not row["right"]],
    }


def main() -> None:
    print(json.dumps(run(int(sys.argv[1]) if len(sys.argv) > 1 else 60), indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main()
