"""targets of low rank behind a layer narrower than the outputs: log evidence, reverse estimate, CPU
seconds on one thread.

Three named problems and 60 random ones (p 10–60, n_d 6–30, widths 2–6, signal of rank one to the width, β
10–1000, depth 2–4), each with `repeats` seeds. An answer is ok where the stated error reaches the target
and the reverse estimate agrees within `ALLOWED` joint errors. Rows are written to narrow_layers.json as
they are made, in the folder of the reference answers.
"""

from __future__ import annotations

import json
import math
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from lbnn.engines.spectral import reverse_evidence, sample_narrow

STORED = Path(__file__).resolve().parent.parent / "tests" / "reference" / "narrow_layers.json"
TARGET_ERROR, ALLOWED, RANDOM = 0.05, 4.0, 60


@dataclass(frozen=True)
class Problem:
    """Size of one problem; its data follow from the seed."""

    examples: int
    outputs: int
    widths: tuple[int, ...]
    rank: int
    beta: float
    seed: int

    def data(self) -> tuple[np.ndarray, np.ndarray, float]:
        """Eigenvalues of the Gram matrix, targets in its eigenbasis, their squared norm outside."""
        rng = np.random.default_rng([self.seed, 7])
        inputs = 2 * self.examples
        X = rng.standard_normal((self.examples, inputs))
        left, right = rng.standard_normal((inputs, self.rank)), rng.standard_normal((self.rank, self.outputs))
        Y = X @ left @ right / math.sqrt(inputs * self.rank)
        Y += rng.standard_normal(Y.shape) / math.sqrt(self.beta)
        values, vectors = np.linalg.eigh(X @ X.T / inputs)
        targets = vectors.T @ Y
        return values, targets, 0.0


NAMED = (
    Problem(20, 9, (3,), 1, 100.0, 0),
    Problem(12, 16, (4,), 1, 100.0, 0),
    Problem(20, 24, (3,), 1, 100.0, 0),
)


def random_problem(number: int) -> Problem:
    """Problem of the stated ranges."""
    rng = np.random.default_rng([number, 11])
    depth = int(rng.integers(2, 5))
    widths = tuple(int(width) for width in rng.integers(2, 7, depth - 1))
    outputs = int(rng.integers(max(6, min(widths)), 31))
    rank = int(rng.integers(1, min(widths) + 1))
    beta = float(10 ** rng.uniform(1, 3))
    return Problem(int(rng.integers(10, 61)), outputs, widths, rank, beta, number)


def solve(problem: Problem, seed: int) -> dict[str, object]:
    """Both estimates with their errors and times."""
    g, targets, residual = problem.data()
    shared = {"residual": residual, "examples": problem.examples}
    start = time.process_time()
    sample = sample_narrow(
        g,
        targets,
        1 / problem.beta,
        problem.widths,
        np.random.default_rng([seed, 0]),
        target_error=TARGET_ERROR,
        **shared,
    )
    middle = time.process_time()
    reverse, error = reverse_evidence(
        g, targets, 1 / problem.beta, problem.widths, np.random.default_rng([seed, 1]), **shared
    )
    agrees = abs(sample.log_evidence - reverse) <= ALLOWED * math.hypot(sample.log_evidence_error, error)
    return {
        **asdict(problem),
        "run": seed,
        "log_evidence": sample.log_evidence,
        "error": sample.log_evidence_error,
        "effective": sample.effective_sample_size,
        "groups": len(sample.group_log_evidence),
        "stages": sample.stages,
        "reverse": reverse,
        "reverse_error": error,
        "seconds": middle - start,
        "reverse_seconds": time.process_time() - middle,
        "agrees": agrees,
        "ok": agrees and sample.reaches(TARGET_ERROR),
    }


def run(repeats: int) -> None:
    """Print and store one row for each problem and seed."""
    rows = []
    for problem in (*NAMED, *(random_problem(number) for number in range(RANDOM))):
        for seed in range(repeats):
            row = solve(problem, seed)
            rows.append(row)
            print(
                f"p {problem.examples:2d} n_d {problem.outputs:2d} "
                f"widths {problem.widths!s:12s} rank {problem.rank} "
                f"β {problem.beta:6.1f}  {row['log_evidence']:9.3f} ± {row['error']:.3f}  "
                f"reverse {row['reverse']:9.3f} ± {row['reverse_error']:.3f}  {row['seconds']:5.1f} + "
                f"{row['reverse_seconds']:4.1f} s  ess {row['effective']:.0f} "
                f"{'ok' if row['ok'] else 'agrees' if row['agrees'] else 'differs'}",
                flush=True,
            )
            STORED.write_text(json.dumps(rows, indent=1))
    share = np.mean([bool(row["ok"]) for row in rows])
    print(f"{len(rows)} answers, {share:.0%} ok")


def main() -> None:
    run(int(sys.argv[1]) if len(sys.argv) > 1 else 1)


if __name__ == "__main__":
    main()
