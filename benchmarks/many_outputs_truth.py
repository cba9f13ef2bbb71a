"""nine outputs and more against the dual route: random problems, two routes that share nothing.

The hidden kernel is a matrix over the examples. With up to eight of them its posterior is sampled as that of
a few outputs is, over all phases and with two witnesses, and gives the evidence of the same data.
`engine="importance"` samples the scale over the outputs instead, by rows. Problems are not drawn from the
prior: targets too large and too small by an order of magnitude, of rank one and more, in equal directions;
widths from the number of outputs on.

    OPENBLAS_NUM_THREADS=1 python -m benchmarks.many_outputs_truth --problems 40
"""

from __future__ import annotations

import argparse
import math
import time
import warnings
from dataclasses import dataclass

import numpy as np

import lbnn


@dataclass(frozen=True)
class Problem:
    """Data and a network for them."""

    X: np.ndarray
    Y: np.ndarray
    network: lbnn.Network
    beta: float
    name: str


def random_problem(seed: int) -> Problem:
    """One of the problems."""
    rng = np.random.default_rng([20, seed])
    outputs, examples, depth = int(rng.integers(9, 13)), int(rng.integers(5, 13)), int(rng.integers(2, 5))
    widths = tuple(int(outputs * rng.choice([1, 1.5, 3, 10])) for _ in range(depth - 1))
    size, noise = 10 ** rng.uniform(-1, 1), 10 ** rng.uniform(-1.5, 0)
    rank = int(rng.integers(1, min(examples, outputs) + 1))
    X = rng.standard_normal((examples, 20))
    left = np.linalg.qr(rng.standard_normal((20, rank)))[0]
    right = np.linalg.qr(rng.standard_normal((outputs, rank)))[0]  # equal directions
    strength = np.ones(rank) if rng.random() < 0.4 else 10 ** rng.uniform(-1, 0.5, rank)
    signal = X @ (left * strength) @ right.T
    Y = size * (signal / signal.std() + noise * rng.standard_normal((examples, outputs)))
    beta = math.inf if rng.random() < 0.15 and rank == examples else 1 / (size * noise) ** 2
    name = (
        f"n_d={outputs} p={examples} {widths} size {size:.2g} noise {noise:.2g} rank {rank} beta {beta:.2g}"
    )
    return Problem(X, Y, lbnn.Network(widths), beta, name)


def scores(problem: Problem, seed: int) -> tuple[bool, float, float, float]:
    """Whether the primal answer is ok; its error of log evidence and of tr E L in stated errors; seconds."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lbnn.AccuracyWarning)
        dual = problem.network.condition(
            problem.X, problem.Y, problem.beta, engine="dual", target_error=0.02, seed=seed
        )
        began = time.perf_counter()
        primal = problem.network.condition(problem.X, problem.Y, problem.beta, engine="importance", seed=seed)
        seconds = time.perf_counter() - began
    joint = math.hypot(primal.log_evidence_error, dual.log_evidence_error)
    (own, own_error), (other, other_error) = (
        post.scale.expect_with_error(np.trace) for post in (primal, dual)
    )
    evidence = (primal.log_evidence - dual.log_evidence) / joint
    trace = float((own - other) / math.hypot(own_error, other_error))
    return primal.diagnostics.ok and dual.diagnostics.ok, evidence, trace, seconds


def main() -> None:
    """Print one line a problem and a summary."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problems", type=int, default=40)
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args()
    rows = []
    for seed in range(options.first, options.first + options.problems):
        problem = random_problem(seed)
        ok, evidence, trace, seconds = scores(problem, seed)
        rows.append((ok, evidence, trace))
        print(f"{seed:4} {ok!s:5} {evidence:7.2f} {trace:7.2f} {seconds:6.1f} s  {problem.name}", flush=True)
    fine = np.array([row[1:] for row in rows if row[0]])
    print(
        f"{len(fine)} of {len(rows)} ok by both routes; of these log evidence beyond 4 stated errors: "
        f"{int((np.abs(fine[:, 0]) > 4).sum())}, tr E L: {int((np.abs(fine[:, 1]) > 4).sum())}; "
        f"standard deviations {fine[:, 0].std():.2f} and {fine[:, 1].std():.2f}"
    )


if __name__ == "__main__":
    main()
