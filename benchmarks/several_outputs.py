"""several outputs at depth two: against NUTS on the weights.

Effective draws per second. 100 examples of 200 inputs, beta = 4, targets of a linear teacher
plus noise. Everybody is asked for the same functions: the predictions at five test points and log det L. All
on one thread, in CPU seconds: on an idle machine these are seconds, on a busy one they leave out the others.

- NumPyro, nutpie: one chain. ESS by numpyro.diagnostics, minimum and median over the functions. Compilation
  is not counted.
- lbnn weights: `condition` and `sample_weights`, as many draws as the atoms are effective (1/Σw²), and the
  functions computed from W_1 and W_2. Like for like: this is what NUTS returns.
- lbnn predictions: the same with draws of `predict(X_test)`; no log det L.
- lbnn averages: `condition`, and predict(X_test).mean and E log det L from the atoms: posterior means only.
- lbnn scale: `condition` alone, and 1/Σw² effective draws of L.

ESS of lbnn's first three rows is posterior variance / variance of the estimate over independent runs of the
whole, one for each seed: it does not rest on what lbnn says of itself. The seconds are of one run, all of it:
Gram, eigh, mode, curvature, sampling. z compares posterior means with those of `lbnn averages`.
"""

from __future__ import annotations

import importlib.util
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import threadpoolctl

import lbnn
from benchmarks.timing import conditions

BETA = 4.0
EXAMPLES, INPUTS, TEST_POINTS = 100, 200, 5
RUNS = 20  # independent runs of lbnn that its errors are taken from
BATCH_FLOATS = 1 << 23  # weights held at a time


@dataclass(frozen=True)
class Problem:
    """A network of depth two, data for it, and how long the peers may run."""

    outputs: int
    width: int
    warmup: int
    draws: int

    @cached_property
    def data(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return teacher(EXAMPLES, INPUTS, self.outputs, TEST_POINTS)

    @property
    def weights(self) -> int:
        return self.width * (INPUTS + self.outputs)

    def condition(self, seed: int) -> lbnn.Posterior:
        X, Y, _ = self.data
        return lbnn.Network(widths=(self.width,)).condition(X, Y, beta=BETA, seed=seed)


PROBLEMS = (
    Problem(outputs=5, width=50, warmup=500, draws=1000),
    Problem(outputs=10, width=200, warmup=300, draws=400),
    Problem(outputs=10, width=1000, warmup=80, draws=120),
)


@dataclass(frozen=True)
class Row:
    """What one method achieved: effective draws of every function, CPU seconds, estimates."""

    name: str
    draws: int
    effective: np.ndarray
    warmup_seconds: float
    seconds: float
    means: np.ndarray | None = None
    errors: np.ndarray | None = None
    note: str = ""

    @property
    def sampling_rate(self) -> float:
        return float(np.median(self.effective)) / self.seconds

    @property
    def rate(self) -> float:
        return float(np.median(self.effective)) / (self.warmup_seconds + self.seconds)


def run(repeats: int) -> None:
    with threadpoolctl.threadpool_limits(1):
        for problem in PROBLEMS:
            sampling_table(problem)


# ---------------------------------------------------------------- effective draws per second


def sampling_table(problem: Problem) -> None:
    print(f"n_d = {problem.outputs}, n_1 = {problem.width}: {problem.weights:,} weights", flush=True)
    ours = lbnn_rows(problem)
    peers = list(peer_rows(problem))
    reference = ours["averages"]
    print(
        f"{'':17} {'draws':>6} {'warm-up s':>10} {'sampling s':>11} {'ESS min':>8} {'median':>8} "
        f"{'per sampling s':>15} {'per total s':>12} {'z rms':>6} {'z max':>6}"
    )
    for row in peers:
        print(line(row), scores(row, reference), f" {row.note}")
    for row in ours.values():
        print(line(row))
    if peers:
        print("times the median ESS per second of the better peer, in total and without its warm-up:")
        total, sampling = max(row.rate for row in peers), max(row.sampling_rate for row in peers)
        for name in ("weights", "predictions", "scale"):
            rate = ours[name].rate
            print(f"{ours[name].name:17} {rate / total:9,.0f} {rate / sampling:9,.0f}")
    print(f"{conditions()}\n", flush=True)


def line(row: Row) -> str:
    return (
        f"{row.name:17} {row.draws:6} {row.warmup_seconds:10.2f} {row.seconds:11.3f} "
        f"{row.effective.min():8.0f} {np.median(row.effective):8.0f} {row.sampling_rate:15.1f} "
        f"{row.rate:12.1f}"
    )


def scores(row: Row, reference: Row) -> str:
    """Root mean square and largest z between the posterior means of two independent methods."""
    z = (row.means - reference.means) / np.hypot(row.errors, reference.errors)
    return f"{np.sqrt((z**2).mean()):6.2f} {np.abs(z).max():6.2f}"


def lbnn_rows(problem: Problem) -> dict[str, Row]:
    """The four ways to count, from independent runs."""
    X_test, methods = problem.data[2], {"weights": weights, "predictions": predictions, "averages": averages}
    seconds: dict[str, list[float]] = {"condition": [], **{name: [] for name in methods}}
    values: dict[str, list[np.ndarray]] = {name: [] for name in methods}
    sizes = []

    def timed(name: str, task: Callable, *arguments: object) -> Any:
        started = time.process_time()
        result = task(*arguments)
        seconds[name].append(time.process_time() - started)
        return result

    for seed in range(RUNS):
        post = timed("condition", problem.condition, seed)
        sizes.append(post.scale.effective_sample_size)
        for name, method in methods.items():
            values[name].append(timed(name, method, post, X_test, np.random.default_rng([seed, 1])))
    base = statistics.median(seconds["condition"])
    variance = np.concatenate(values["weights"]).var(axis=0)
    atoms = len(post.scale.weights)
    rows = {}
    for name in methods:
        draws = atoms if name == "averages" else len(values[name][0])
        cost = base + statistics.median(seconds[name])
        rows[name] = lbnn_row(name, draws, values[name], variance, cost)
    rows["scale"] = Row("lbnn scale", atoms, np.array(sizes), 0.0, base)
    return rows


def lbnn_row(name: str, draws: int, values: list[np.ndarray], variance: np.ndarray, seconds: float) -> Row:
    """ESS from the spread of the estimates of independent runs; without bias, as E 1/χ²_k = 1/(k − 2)."""
    estimates = [one.mean(axis=0) for one in values]
    spread = np.var(estimates, axis=0, ddof=1)
    effective = (RUNS - 3) / (RUNS - 1) * variance[: len(spread)] / spread
    means, errors = np.mean(estimates, axis=0), np.sqrt(spread / RUNS)
    return Row(f"lbnn {name}", draws, effective, 0.0, seconds, means, errors)


def weights(post: lbnn.Posterior, X_test: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Predictions and log det L of exact draws of the weights, (draws, functions)."""
    count, values = round(post.scale.effective_sample_size), []
    size = max(1, BATCH_FLOATS // (post.prior.widths[0] * (X_test.shape[1] + post.prior.outputs)))
    for start in range(0, count, size):
        first, second = post.sample_weights(min(size, count - start), rng)
        outputs = (X_test @ first.swapaxes(1, 2)) @ second.swapaxes(1, 2)
        log_det = np.linalg.slogdet(second @ second.swapaxes(1, 2))[1]
        values.append(np.column_stack([outputs.reshape(len(log_det), -1), log_det]))
    return np.concatenate(values)


def predictions(post: lbnn.Posterior, X_test: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draws of the predictions, (draws, functions less one)."""
    count = round(post.scale.effective_sample_size)
    return post.predict(X_test).sample(count, rng).reshape(count, -1)


def averages(post: lbnn.Posterior, X_test: np.ndarray, _: np.random.Generator) -> np.ndarray:
    """Posterior means from the atoms, (1, functions)."""
    log_det = np.linalg.slogdet(post.scale.atoms)[1]
    return np.append(post.predict(X_test).mean.ravel(), post.scale.average(log_det))[None]


def peer_rows(problem: Problem) -> Iterator[Row]:
    if importlib.util.find_spec("numpyro") is None or importlib.util.find_spec("nutpie") is None:
        print("numpyro and nutpie are not installed here: `make bench` has them")
        return
    from benchmarks import nuts

    print(nuts.VERSIONS)
    space = nuts.WeightSpace(*problem.data, problem.width, BETA, seed=1)
    for name, sample in (("NumPyro", nuts.sample_numpyro), ("nutpie", nuts.sample_nutpie)):
        chain = sample(space, problem.warmup, problem.draws)
        effective, values = chain.effective_sample_size, chain.values
        note = (
            f"{chain.warmup} warm-up, {chain.gradients:.0f} gradients a draw, {chain.divergences} divergent"
        )
        yield Row(
            name,
            problem.draws,
            effective,
            chain.warmup_seconds,
            chain.seconds,
            values.mean(axis=0),
            np.sqrt(values.var(axis=0, ddof=1) / effective),
            note,
        )


def teacher(examples: int, inputs: int, outputs: int, test_points: int) -> tuple[np.ndarray, ...]:
    """X, Y of a linear teacher with noise of variance 1/beta, and X_test."""
    rng = np.random.default_rng(0)
    X, X_test = rng.standard_normal((examples, inputs)), rng.standard_normal((test_points, inputs))
    signal = X @ rng.standard_normal((inputs, outputs)) / np.sqrt(inputs)
    return X, signal + rng.standard_normal((examples, outputs)) / np.sqrt(BETA), X_test
