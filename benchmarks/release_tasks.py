"""Tasks that `against_release` times, with public names that both releases have; as a script, a worker.

A worker reads the name of a task from a line, runs the task once and answers with its CPU seconds and a
number that says what came out.
"""

from __future__ import annotations

import dataclasses
import sys
import time
import warnings
from collections.abc import Callable
from functools import lru_cache

import numpy as np

import lbnn
from tests.reference.several_outputs_cases import all_cases

BETA = 4.0
WIDTHS = [(w,) for w in (5, 10, 20, 50, 100)] + [(w, w) for w in (5, 10, 20, 50, 100)]
WIDTHS += [(w,) * 3 for w in (5, 10, 20, 50, 100)] + [(w,) * 5 for w in (5, 10, 20, 50, 100)]
BETAS = np.geomspace(1e-2, 1e4, 100)
GRID_STEP = 10  # without `evidence_grid` every tenth noise variance is computed, and the time taken ten times


@lru_cache(maxsize=4)
def data(examples: int, inputs: int, outputs: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Inputs, noisy targets of a linear teacher, and 200 test inputs."""
    rng = np.random.default_rng(0)
    X, X_test = rng.standard_normal((examples, inputs)), rng.standard_normal((200, inputs))
    Y = X @ rng.standard_normal((inputs, outputs)) / np.sqrt(inputs)
    return X, Y + 0.5 * rng.standard_normal(Y.shape), X_test


@lru_cache(maxsize=4)
def spectrum(examples: int, inputs: int, outputs: int) -> lbnn.Spectrum:
    X, Y, _ = data(examples, inputs, outputs)
    return lbnn.Spectrum.from_inputs(X, Y[:, 0] if outputs == 1 else Y)


def fresh(of: lbnn.Spectrum) -> lbnn.Spectrum:
    """The same data without what was computed from them before."""
    return dataclasses.replace(of)


def grid() -> tuple[float, float]:
    """2,000 posteriors of one output: E log evidence, and how many times the task must be counted."""
    own = fresh(spectrum(200, 300, 1))
    if hasattr(lbnn, "evidence_grid"):
        return float(lbnn.evidence_grid(own, WIDTHS, BETAS).log_evidence[:, ::GRID_STEP].mean()), 1.0
    networks = [lbnn.Network(widths) for widths in WIDTHS]
    values = [
        net.condition_spectrum(own, beta).log_evidence for net in networks for beta in BETAS[::GRID_STEP]
    ]
    return float(np.mean(values)), float(GRID_STEP)


def single() -> tuple[float, float]:
    """One posterior of one output, depth four."""
    return lbnn.Network((50, 40, 30)).condition_spectrum(fresh(spectrum(200, 300, 1)), BETA).log_evidence, 1.0


def several(examples: int, inputs: int, outputs: int, widths: tuple[int, ...]) -> tuple[float, float]:
    """`condition` after the spectrum."""
    own = fresh(spectrum(examples, inputs, outputs))
    return lbnn.Network(widths).condition_spectrum(own, BETA).log_evidence, 1.0


def predictions(outputs: int) -> tuple[float, float]:
    """Mean, variance and intervals at 200 points from a posterior that is there."""
    post = posterior(outputs)
    predictive = post.predict(data(2000, 2500, outputs)[2])
    return float(predictive.mean.sum() + predictive.variance.sum()), 1.0


@lru_cache(maxsize=2)
def posterior(outputs: int) -> lbnn.Posterior:
    return lbnn.Network((100,)).condition_spectrum(spectrum(2000, 2500, outputs), BETA)


def weights() -> tuple[float, float]:
    """A thousand exact draws of all weights, n_d = 5, n_1 = 50, 100 examples of 200 inputs."""
    draws = drawn_posterior().sample_weights(1000, np.random.default_rng(0))
    return float(sum(each.var() for each in draws)), 1.0


@lru_cache(maxsize=1)
def drawn_posterior() -> lbnn.Posterior:
    return lbnn.Network((50,)).condition_spectrum(spectrum(100, 200, 5), BETA)


def compare() -> tuple[float, float]:
    """Every limit theory beside the exact answer, two outputs, 60 examples."""
    X, Y, X_test = data(60, 100, 2)
    return lbnn.compare(lbnn.Network((40,)), X, Y, BETA, X_test[:5]).error("proportional", "kernel"), 1.0


def truths() -> tuple[float, float]:
    """All problems of tests/reference with several outputs whose answers are known, one after another."""
    values = [
        lbnn.Network(case.widths, case.variances).condition(case.X, case.Y, case.beta).log_evidence
        for case in all_cases()
    ]
    return float(np.sum(values)), 1.0


TASKS: dict[str, Callable[[], tuple[float, float]]] = {
    "2,000 posteriors of one output, p = 200": grid,
    "one posterior of one output, depth 4, p = 200": single,
    "n_d = 3, p = 100": lambda: several(100, 200, 3, (50,)),
    "n_d = 3, p = 100, depth 4": lambda: several(100, 200, 3, (50, 50, 50)),
    "n_d = 10, p = 2000": lambda: several(2000, 2500, 10, (50,)),
    "n_d = 20, p = 100": lambda: several(100, 200, 20, (50,)),
    "n_d = 20, p = 300": lambda: several(300, 600, 20, (40,)),
    "n_d = 50, p = 300": lambda: several(300, 600, 50, (100,)),
    "n_d = 100, p = 300": lambda: several(300, 600, 100, (500,)),
    "416 problems with known answers": truths,
    "n_d = 4, p = 2000: mean and variance at 200 points": lambda: predictions(4),
    "n_d = 5, n_1 = 50: a thousand draws of all weights": weights,
    "compare, n_d = 2, p = 60": compare,
}


def main() -> None:
    warnings.simplefilter("ignore")
    for line in sys.stdin:
        task = TASKS[line.rstrip("\n")]
        started = time.process_time()
        value, times = task()
        print(times * (time.process_time() - started), value, flush=True)


if __name__ == "__main__":
    main()
