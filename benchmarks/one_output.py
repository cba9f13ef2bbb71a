"""fit and predict of one output, depth ten, against the floor: one Gram matrix and one eigh.

Widths (100,)*9, beta = 4, mean and variance at 100 test points. The aim is a ratio of at most 1.15.
"""

from __future__ import annotations

import numpy as np

import lbnn
from benchmarks.timing import median_seconds

SIZES = ((500, 800), (2000, 2500))
NETWORK = lbnn.Network(widths=(100,) * 9)
BETA = 4.0
AIM = 1.15


def run(repeats: int) -> None:
    print(
        f"{'p':>6} {'n0':>6} {'floor s':>9} {'fit s':>9} {'both s':>9} {'fit/floor':>10} {'both/floor':>11}"
    )
    for examples, inputs in SIZES:
        seconds = median_seconds(tasks(examples, inputs), repeats)
        floor, fit, both = seconds["floor"], seconds["fit"], seconds["fit and predict"]
        print(
            f"{examples:6} {inputs:6} {floor:9.4f} {fit:9.4f} {both:9.4f} {fit / floor:10.3f} "
            f"{both / floor:11.3f}  {'ok' if both <= AIM * floor else 'above the aim'}",
            flush=True,
        )


def tasks(examples: int, inputs: int) -> dict:
    rng = np.random.default_rng(0)
    X, X_test = rng.standard_normal((examples, inputs)), rng.standard_normal((100, inputs))
    y = X @ rng.standard_normal(inputs) / np.sqrt(inputs) + 0.5 * rng.standard_normal(examples)

    def floor() -> object:
        return np.linalg.eigh(X @ X.T / inputs)

    def fit() -> lbnn.Posterior:
        return NETWORK.condition(X, y, beta=BETA)

    def fit_and_predict() -> object:
        predictive = fit().predict(X_test)
        return predictive.mean, predictive.variance

    return {"floor": floor, "fit": fit, "fit and predict": fit_and_predict}
