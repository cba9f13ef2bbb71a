"""Marginal and joint coverage of the estimator over synthetic data sets, for each of six sizes.

    python -m benchmarks.coverage --sets 300 --out coverage.json [--average auto] [--workers 16]

Data: outputs of three factors of fifteen inputs, noise correlated over outputs and of unequal size: not
drawn from the model. Each set has 150 further rows on which 90% intervals (each output) and 90% ellipsoids
(all outputs) are tried.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

SIZES = ((20, 1), (20, 4), (50, 4), (30, 10), (30, 21), (50, 35))
INPUTS, FACTORS, TEST = 15, 3, 150


def problem(rows: int, outputs: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and targets of training and test rows together."""
    rng = np.random.default_rng([14, rows, outputs, seed])
    weights = rng.normal(size=(INPUTS, FACTORS)) @ rng.normal(size=(FACTORS, outputs))
    mixing = (rng.normal(size=(outputs, outputs)) / np.sqrt(outputs) + np.eye(outputs)) / 2
    mixing = mixing * np.exp(0.5 * rng.normal(size=outputs))
    X = rng.normal(size=(rows + TEST, INPUTS))
    Y = X @ weights / np.sqrt(INPUTS * FACTORS) + rng.normal(size=(rows + TEST, outputs)) @ mixing
    return X, Y


def one(job: tuple[int, int, int, dict[str, Any]]) -> dict[str, float]:
    """Coverage and seconds of one data set."""
    import lbnn
    from benchmarks.real_data.metrics import Mixture

    rows, outputs, seed, parameters = job
    X, Y = problem(rows, outputs, seed)
    targets = Y[:, 0] if outputs == 1 else Y
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lbnn.AccuracyWarning)
        start = time.perf_counter()
        model = lbnn.LBNNRegressor(**parameters).fit(X[:rows], targets[:rows])
        seconds = time.perf_counter() - start
        forecast = Mixture.of(model.predictive(X[rows:]).with_noise())
        inside, jointly = forecast.inside(Y[rows:]).mean(), forecast.inside_jointly(Y[rows:]).mean()
    return {
        "marginal": float(inside),
        "joint": float(jointly),
        "seconds": seconds,
        "models": len(model.models_),
    }


def main() -> None:
    """Run and print a table; the numbers go into a file."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sets", type=int, default=300)
    parser.add_argument("--sizes", default=",".join(f"{p}x{n}" for p, n in SIZES))
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--average", default="best", help="best (the default of the estimator), auto or all")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    parameters = {"average": {"auto": "auto", "best": False, "all": True}[options.average]}
    found = {}
    for size in options.sizes.split(","):
        rows, outputs = map(int, size.split("x"))
        jobs = [(rows, outputs, seed, parameters) for seed in range(options.sets)]
        with ProcessPoolExecutor(options.workers) as pool:
            results = list(pool.map(one, jobs))
        found[size] = results
        options.out.write_text(json.dumps({"average": options.average, "results": found}), encoding="utf-8")
        lines = []
        for name in ("marginal", "joint", "seconds", "models"):
            values = np.array([each[name] for each in results])
            lines.append(f"{name} {values.mean():.3f} ± {values.std(ddof=1) / np.sqrt(len(values)):.3f}")
        print(f"{size:>6}: " + ", ".join(lines), flush=True)


if __name__ == "__main__":
    main()
