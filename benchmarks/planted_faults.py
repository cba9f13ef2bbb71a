"""Rates at which the scorers of `lbnn.benchmark` find planted faults, and at which exact draws fail.

    python -m benchmarks.planted_faults control --repetitions 200 --workers 2 --out control.json
    python -m benchmarks.planted_faults faults --repetitions 50 --out faults.json

The control scores independent exact draws of every task (4 chains of 250; of 60 above 20,000 weights); a
scorer's rate of failure is to be that of its level. Faults: kernels with a wrong prior precision, a wrong
noise precision or no accept step (found by `invariance`, 4,000 chains), a wrong sign in the evidence, chains
that share a phase, no warm-up (found by `score`).
"""

from __future__ import annotations

import argparse
import json
import math
import os
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import numpy as np

import lbnn
from lbnn.benchmark import invariance, load, score, tasks
from lbnn.benchmark.report import SCORERS
from lbnn.benchmark.scorers.chains import Chains
from lbnn.benchmark.task import Task

LEVEL = 0.01  # of every scorer, in the control
SHAPE = 4, 250
SHAPE_OF_LARGE = 4, 60  # above LARGE weights, where a thousand draws take gigabytes
LARGE = 20_000
BLOCK = 25  # repetitions that a worker does at a time

Kernel = Callable[[np.ndarray, np.random.Generator], np.ndarray]


def hamiltonian(
    task: Task,
    step: float = 0.15,
    leaps: int = 10,
    *,
    prior_precision: float = 1.0,
    noise_precision: float = 1.0,
    accept: bool = True,
) -> Kernel:
    """Hamiltonian Monte Carlo on all chains at once, with what may be wrong about it."""

    def energy(z: np.ndarray) -> np.ndarray:
        return -prior_precision * task.log_prior(z) - noise_precision * task.log_likelihood(z)

    def slope(z: np.ndarray) -> np.ndarray:
        return noise_precision * (-task.gradient(z) - z) + prior_precision * z

    def kernel(z: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        start = momentum = rng.standard_normal(z.shape)
        new, length = z, step * rng.uniform(0.8, 1.2)
        with np.errstate(over="ignore", invalid="ignore"):  # of trajectories that diverge and are refused
            for _ in range(leaps):
                momentum = momentum - 0.5 * length * slope(new)
                new = new + length * momentum
                momentum = momentum - 0.5 * length * slope(new)
            lost = energy(new) - energy(z) + 0.5 * ((momentum**2).sum(1) - (start**2).sum(1))
            diverged = ~(lost < 1_000)  # refused even where there is no accept step, as a user would
            take = ~diverged & ((np.log(rng.random(len(z))) < -lost) | (not accept))
        return np.where(take[:, None], new, z)

    return kernel


def chains_from(task: Task, kernel: Kernel, start: np.ndarray, draws: int, seed: int) -> np.ndarray:
    """Every state of chains from the start on, (chains, draws, dimension): no warm-up."""
    rng, z, kept = np.random.default_rng(seed), start, []
    for _ in range(draws):
        z = kernel(z, rng)
        kept.append(z)
    return np.stack(kept, axis=1)


# ---------------------------------------------------------------------- control


def control(name: str, repetitions: range) -> Counter[str]:
    """How often each scorer fails on exact draws of one task, and how often it judges."""
    task, counts = load(name), Counter[str]()
    shape = SHAPE_OF_LARGE if task.dimension > LARGE else SHAPE
    for repetition in repetitions:
        draws = task.reference(math.prod(shape), 10_000 + repetition).reshape(*shape, -1)
        chains = Chains.of(draws, task)
        for scorer in SCORERS:
            result = scorer(chains, LEVEL)
            counts.update(
                {f"{result.name}: failed": not result.passed, f"{result.name}: judged": result.judged}
            )
    return counts


# ---------------------------------------------------------------------- faults


def by_invariance(name: str, seed: int, steps: int = 5, **wrong: Any) -> bool:
    """Whether `invariance` fails a kernel of plain Hamiltonian Monte Carlo with something wrong about it."""
    task = load(name)
    return not invariance(task, hamiltonian(task, **wrong), steps=steps, seed=seed).passed


def wrong_sign(name: str, seed: int) -> bool:
    """log p(Y) = E log p(Y|z) − KL; with + in the place of − and a claimed error of 0.1."""
    task = load(name)
    claimed = 2 * task.expectations["log likelihood"][0] - task.log_evidence
    draws = task.reference(1_000, seed).reshape(*SHAPE, -1)
    return not score(task, draws, log_evidence=claimed, log_evidence_error=0.1).passed


def shared_phase(name: str, seed: int) -> bool:
    """Exact draws of one phase only."""
    task = load(name)
    draws = task.reference(4_000, seed)
    inside = draws[task.phase_of(draws) == 0][:1_000]
    return not score(task, inside.reshape(*SHAPE, -1)).passed


def no_warm_up(name: str, seed: int) -> bool:
    """Correct chains from five times the prior's spread, every state kept."""
    task = load(name)
    start = 5 * task.prior_draws(4, seed)
    return not score(task, chains_from(task, hamiltonian(task, 0.05), start, 250, seed)).passed


FAULTS: dict[str, tuple[Callable[..., bool], dict[str, Any]]] = {
    "none (correct kernel)": (by_invariance, {"name": "plain-15"}),
    "prior precision +20%": (by_invariance, {"name": "plain-15", "prior_precision": 1.2}),
    "noise precision +10%": (by_invariance, {"name": "plain-15", "noise_precision": 1.1}),
    "noise precision +10%, 20 steps": (
        by_invariance,
        {"name": "plain-15", "noise_precision": 1.1, "steps": 20},
    ),
    "no accept step": (by_invariance, {"name": "plain-15", "accept": False, "step": 0.2}),
    "wrong sign in the evidence": (wrong_sign, {"name": "plain-15"}),
    "chains that share a phase": (shared_phase, {"name": "coexist-10"}),
    "no warm-up": (no_warm_up, {"name": "plain-15"}),
}


def find(fault: str, repetitions: range) -> Counter[str]:
    """How often a fault is found."""
    judge, settings = FAULTS[fault]
    found = sum(judge(seed=20_000 + repetition, **settings) for repetition in repetitions)
    return Counter(found=found)


def blocks(repetitions: int) -> list[range]:
    return [range(first, min(first + BLOCK, repetitions)) for first in range(0, repetitions, BLOCK)]


def measure(
    run: Callable[[str, range], Counter[str]], names: list[str], repetitions: int, workers: int
) -> Iterator[dict[str, Counter[str]]]:
    """The rows so far, one for each name, after each block that has ended."""
    rows: dict[str, Counter[str]] = {name: Counter(repetitions=0) for name in names}
    with ProcessPoolExecutor(workers) as pool:
        jobs = {
            pool.submit(run, name, block): (name, block) for name in names for block in blocks(repetitions)
        }
        for job in as_completed(jobs):
            name, block = jobs[job]
            rows[name].update(job.result())
            rows[name]["repetitions"] += len(block)
            yield rows


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("control", "faults"))
    parser.add_argument("--repetitions", type=int, default=200)
    parser.add_argument("--only", default="", help="tasks or faults, separated by commas")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    every = [entry.name for entry in tasks()][::-1] if options.what == "control" else list(FAULTS)
    names = [name for name in options.only.split(",") if name] or every
    run = control if options.what == "control" else find
    for rows in measure(run, names, options.repetitions, options.workers):
        print(".", end="", flush=True)
        if options.out:
            content = {"lbnn": lbnn.__version__, "level": LEVEL, "rows": rows}
            options.out.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print("\n" + "\n".join(f"{name}: {json.dumps(row, ensure_ascii=False)}" for name, row in rows.items()))


if __name__ == "__main__":
    main()
