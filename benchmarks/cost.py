"""posterior and predictions against the floor: one Gram matrix and one eigh, in CPU seconds on one thread.

Mean and variance at 100 test points. The aim is a ratio of at most 1.15.
"""

from __future__ import annotations

import numpy as np

import lbnn
from benchmarks.timing import median_seconds

CASES = (  # examples, inputs, outputs, hidden widths
    (500, 800, 1, (100,) * 9),
    (2000, 2500, 1, (100,) * 9),
    (2000, 2500, 4, (100,)),
)
BETA, AIM = 4.0, 1.15


def run(repeats: int) -> None:
    print(f"{'p':>6} {'n0':>6} {'n_d':>4} {'floor s':>9} {'fit/floor':>10} {'both/floor':>11}")
    for examples, inputs, outputs, widths in CASES:
        rng = np.random.default_rng(0)
        X, X_test = rng.standard_normal((examples, inputs)), rng.standard_normal((100, inputs))
        Y = X @ rng.standard_normal((inputs, outputs)) / np.sqrt(inputs)
        Y = Y + 0.5 * rng.standard_normal(Y.shape)
        network, targets = lbnn.Network(widths), Y[:, 0] if outputs == 1 else Y

        def floor(X=X) -> object:
            return np.linalg.eigh(X @ X.T / X.shape[1])

        def fit(network=network, X=X, targets=targets) -> lbnn.Posterior:
            return network.condition(X, targets, beta=BETA)

        def both(fit=fit, X_test=X_test) -> object:
            predictive = fit().predict(X_test)
            return predictive.mean, predictive.variance

        seconds = median_seconds({"floor": floor, "fit": fit, "both": both}, repeats)
        ratios = [seconds[name] / seconds["floor"] for name in ("fit", "both")]
        note = "ok" if ratios[1] <= AIM else "above the aim"
        print(
            f"{examples:6} {inputs:6} {outputs:4} {seconds['floor']:9.4f} {ratios[0]:10.3f} "
            f"{ratios[1]:11.3f}  {note}",
            flush=True,
        )
