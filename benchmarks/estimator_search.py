"""choosing noise, prior scale, width and depth by evidence, against the training of peers; and what it buys.

First table: fit of LBNNRegressor with everything chosen (p = 500, n0 = 800, four outputs), of scikit-learn's
GaussianProcessRegressor with its default optimiser on the same kernel family (one model for all outputs), and
of GPyTorch's multitask model (200 steps of Adam) where it is installed. CPU seconds on one thread, medians of
interleaved repeats, as multiples of lbnn in the same run. The aim is that lbnn costs least.

Second table: twelve outputs driven by three latent factors, 100 examples of 300 inputs, 300 test points: mean
squared error and joint negative log predictive density per output, mean over repeats of the problem. The aim
is to be first in both.
"""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable

import numpy as np
import threadpoolctl
from sklearn.exceptions import ConvergenceWarning

import lbnn
from benchmarks.real_data import metrics, peers
from benchmarks.real_data.study import network
from benchmarks.real_data.tables import LINEAR, OURS
from benchmarks.timing import median_seconds

EXAMPLES, INPUTS, OUTPUTS = 500, 800, 4
NOISE = 0.5  # standard deviation, where the signal has one
ICM_RANK, ICM_STEPS, ICM_RATE = 3, 200, 0.1


def run(repeats: int) -> None:
    with threadpoolctl.threadpool_limits(1):
        search_table(max(repeats // 2, 1))
        factor_table(max(repeats, 2))


# ---------------------------------------------------------------- what the choice costs


def search_table(repeats: int) -> None:
    seconds = median_seconds(tasks(*teacher(EXAMPLES, INPUTS, OUTPUTS, rank=2, seed=0)), repeats)
    print(f"{'':34} {'seconds':>9} {'times lbnn':>11}")
    for name, value in seconds.items():
        print(f"{name:34} {value:9.3f} {value / seconds[OURS]:11.2f}", flush=True)
    least = min(seconds, key=seconds.__getitem__)
    print("ok: lbnn costs least\n" if least == OURS else f"aim missed: {least} costs least\n")


def tasks(X: np.ndarray, Y: np.ndarray) -> dict[str, Callable[[], object]]:
    """Training alone. The processes see inputs over √n0, so that kernels are of order one."""
    scaled = X / np.sqrt(X.shape[1])

    def search() -> object:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", lbnn.AccuracyWarning)
            return lbnn.LBNNRegressor().fit(X, Y)

    def gaussian_process() -> object:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return peers.linear_process().fit(scaled, Y)

    chosen: dict[str, Callable[[], object]] = {OURS: search, "GaussianProcessRegressor": gaussian_process}
    if importlib.util.find_spec("gpytorch"):
        from benchmarks.real_data import icm

        chosen[f"GPyTorch ICM, {ICM_STEPS} steps"] = lambda: icm.fit(scaled, Y, ICM_RANK, ICM_STEPS, ICM_RATE)
    else:
        print("gpytorch is not installed here: left out")
    return chosen


# ---------------------------------------------------------------- what the choice buys


def factor_table(problems: int) -> None:
    """Twelve outputs from three factors (design §12): every method on the same problems."""
    linear = {name: method for name, method in peers.methods(outputs=12).items() if name in LINEAR}
    methods = {OURS: network, **linear}
    scores = {name: np.empty((problems, 4)) for name in methods}
    for seed in range(problems):
        X, Y = teacher(400, 300, 12, rank=3, noise=0.8, seed=seed)
        for name, method in methods.items():
            values = metrics.measures(method(X[:100], Y[:100], X[100:]), Y[100:])
            scores[name][seed] = (
                values["rmse"] ** 2, values["joint"], values["covers"], values["covers jointly"]
            )  # fmt: skip
    print_factors(scores, problems)


def print_factors(scores: dict[str, np.ndarray], problems: int) -> None:
    print(f"{'':24} {'MSE':>7} {'joint':>7} {'covers':>7} {'jointly':>8}   less lbnn: MSE, joint (± error)")
    for name, values in scores.items():
        excess = (values - scores[OURS])[:, :2]
        errors = excess.std(axis=0, ddof=1) / np.sqrt(problems)
        paired = "".join(
            f"  {mean:+.4f} ± {error:.4f}" for mean, error in zip(excess.mean(0), errors, strict=True)
        )
        mean = values.mean(axis=0)
        print(f"{name:24} {mean[0]:7.4f} {mean[1]:7.4f} {mean[2]:7.3f} {mean[3]:8.3f} {paired}", flush=True)
    first = all(min(scores, key=lambda name: scores[name][:, column].mean()) == OURS for column in (0, 1))
    print("ok: first in both" if first else "aim missed: not first in both")


def teacher(
    examples: int, inputs: int, outputs: int, rank: int, seed: int, noise: float = NOISE
) -> tuple[np.ndarray, np.ndarray]:
    """X and Y = X A B + noise with signals of variance one, of the rank given."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((examples, inputs))
    signal = X @ rng.standard_normal((inputs, rank)) @ rng.standard_normal((rank, outputs))
    return X, signal / np.sqrt(inputs * rank) + noise * rng.standard_normal((examples, outputs))
