"""Marginal and joint coverage of the default fit over synthetic data sets, for each of six sizes.

    python -m benchmarks.coverage --sets 60 --sizes 20x1,20x4,50x4 [--noise correlated] [--workers 2]

Outputs are three factors of fifteen inputs and noise of unequal size, independent between outputs (which
the estimator can say) or correlated (which it cannot say of a signal of low rank as well). Each set has
forty further rows, on which 90% intervals (each output) and 90% ellipsoids (all outputs) are tried.
"""

from __future__ import annotations

import argparse
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np

SIZES = ((20, 1), (20, 4), (50, 4), (30, 10), (30, 21), (50, 35))
INPUTS, FACTORS, TEST, DRAWS, LEVEL = 15, 3, 40, 1000, 0.9
MEASURES = ("marginal", "joint", "log density", "ok", "CPU seconds")


def problem(rows: int, outputs: int, seed: int, noise: str = "correlated") -> tuple[np.ndarray, np.ndarray]:
    """Inputs and targets of training and test rows together."""
    rng = np.random.default_rng([14, rows, outputs, seed])
    weights = rng.normal(size=(INPUTS, FACTORS)) @ rng.normal(size=(FACTORS, outputs))
    mixing = (rng.normal(size=(outputs, outputs)) / np.sqrt(outputs) + np.eye(outputs)) / 2
    if noise == "independent":
        mixing = np.eye(outputs) / np.sqrt(2)
    mixing = mixing * np.exp(0.5 * rng.normal(size=outputs))
    X = rng.normal(size=(rows + TEST, INPUTS))
    Y = X @ weights / np.sqrt(INPUTS * FACTORS) + rng.normal(size=(rows + TEST, outputs)) @ mixing
    return X, Y


def one(job: tuple[int, int, int, str]) -> tuple[float, ...]:
    """Measures of one data set."""
    import lbnn

    rows, outputs, seed, noise = job
    X, Y = problem(rows, outputs, seed, noise)
    targets = Y[:, 0] if outputs == 1 else Y
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        start = time.process_time()
        model = lbnn.LBNNRegressor().fit(X[:rows], targets[:rows])
        seconds = time.process_time() - start
        found = measured(model.predictive(X[rows:]).with_noise(), Y[rows:])
    ok = not any(issubclass(each.category, lbnn.AccuracyWarning) for each in caught)
    return *found, float(ok), seconds


def measured(law: Any, Y: np.ndarray) -> tuple[float, float, float]:
    """Coverage of each output, of all together, and log density for each output."""
    draws = law.sample(DRAWS, 0).reshape(DRAWS, *Y.shape)
    low, high = np.quantile(draws, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
    covariance = law.output_covariance.reshape(len(Y), Y.shape[1], Y.shape[1])
    whitening = np.linalg.inv(np.linalg.cholesky(covariance))
    own, drawn = (
        (np.einsum("mjk,...mk->...mj", whitening, each - draws.mean(axis=0)) ** 2).sum(axis=-1)
        for each in (Y, draws)
    )
    jointly = own <= np.quantile(drawn, LEVEL, axis=0)
    density = law.pointwise_log_density(Y.reshape(law.mean.shape)).mean() / Y.shape[1]
    return float(np.mean((low <= Y) & (high >= Y))), float(jointly.mean()), float(density)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sets", type=int, default=60)
    parser.add_argument("--sizes", default=",".join(f"{p}x{n}" for p, n in SIZES))
    parser.add_argument("--noise", default="independent", choices=("independent", "correlated"))
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    with ProcessPoolExecutor(options.workers) as pool:
        for size in options.sizes.split(","):
            jobs = [(*map(int, size.split("x")), seed, options.noise) for seed in range(options.sets)]
            values = np.array(list(pool.map(one, jobs)))
            errors = values.std(axis=0, ddof=1) / np.sqrt(len(values))
            cells = zip(MEASURES, values.mean(axis=0), errors, strict=True)
            print(
                size, ", ".join(f"{name} {mean:.3f} ± {error:.3f}" for name, mean, error in cells), flush=True
            )


if __name__ == "__main__":
    main()
