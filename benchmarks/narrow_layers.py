"""targets of low rank behind a layer narrower than the outputs: what `Network.condition` answers, in CPU
seconds on one thread.

Three named problems and 60 random ones (p 10–60, n_d 6–30, widths 2–6, signal of rank one to the width, β
10–1000, depth 2–4), each with `repeats` seeds. Rows are written to narrow_layers.json as they are made, in
the folder of the reference answers.
"""

from __future__ import annotations

import json
import math
import sys
import time
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

import lbnn

STORED = Path(__file__).resolve().parent.parent / "tests" / "reference" / "narrow_layers.json"
RANDOM, SECONDS = 60, 5.0


@dataclass(frozen=True)
class Problem:
    """Size of one problem; its data follow from the seed."""

    examples: int
    outputs: int
    widths: tuple[int, ...]
    rank: int
    beta: float
    seed: int

    def data(self) -> tuple[np.ndarray, np.ndarray]:
        """Inputs, and targets of a teacher of low rank with noise."""
        rng = np.random.default_rng([self.seed, 7])
        inputs = 2 * self.examples
        X = rng.standard_normal((self.examples, inputs))
        left, right = rng.standard_normal((inputs, self.rank)), rng.standard_normal((self.rank, self.outputs))
        Y = X @ left @ right / math.sqrt(inputs * self.rank)
        return X, Y + rng.standard_normal(Y.shape) / math.sqrt(self.beta)


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
    """One posterior: what it states, its two estimates of the log evidence, and CPU seconds."""
    X, Y = problem.data()
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lbnn.AccuracyWarning)
        post = lbnn.Network(problem.widths).condition(X, Y, problem.beta, seed=seed)
    told = post.diagnostics
    return {
        **asdict(problem),
        "run": seed,
        "seconds": time.process_time() - start,
        "ok": bool(told.ok),
        "engine": told.engine,
        "stages": told.stages,
        "log_evidence": post.log_evidence,
        "error": post.log_evidence_error,
        "effective": told.effective_sample_size,
        "estimates": [[each.method, each.log_evidence, each.error] for each in told.estimates],
        "messages": list(told.messages),
    }


def run(repeats: int) -> None:
    """Print and store one row for each problem and seed."""
    rows = []
    for problem in (*NAMED, *(random_problem(number) for number in range(RANDOM))):
        for seed in range(repeats):
            row = solve(problem, seed)
            rows.append(row)
            print(
                f"p {problem.examples:2d} n_d {problem.outputs:2d} widths {problem.widths!s:12s} "
                f"rank {problem.rank} β {problem.beta:6.1f}  "
                f"{row['log_evidence']:9.3f} ± {row['error']:.3f}  {row['seconds']:5.1f} s  "
                f"{row['engine']} {'ok' if row['ok'] else 'NOT ok'}",
                flush=True,
            )
            lines = ",\n".join(json.dumps(each, ensure_ascii=False) for each in rows)
            STORED.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    fine = [bool(row["ok"]) for row in rows]
    quick = [bool(row["ok"] and row["seconds"] <= SECONDS) for row in rows]
    within = f"{np.mean(quick):.0%} ok within {SECONDS:g} CPU seconds"
    print(f"{len(rows)} answers, {np.mean(fine):.0%} ok, {within}")


def main() -> None:
    run(int(sys.argv[1]) if len(sys.argv) > 1 else 1)


if __name__ == "__main__":
    main()
