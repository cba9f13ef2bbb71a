"""Widths, outputs and examples growing together: `python docs/experiments/joint_limit.py [--quick]`.

Random-design teacher and student at fixed p/n, n_d/n, p/n0. Exact posteriors at growing n, extrapolated to
1/n → 0, beside limit theories that keep only one of the ratios. Writes docs/results/joint-limit.json, the
picture and the tables of docs/results/joint-limit.md; with --quick it prints the tables of a small run and
writes nothing.
"""

from __future__ import annotations

import argparse
import math
import os
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"  # one core means one core

import numpy as np
from joint_limit_report import gap_table, limit_table, read, study, write

import lbnn
from lbnn._base.types import Array
from lbnn.likelihood.hidden_kernel import dual
from lbnn.predict.feature_kernel import average_feature_kernel
from lbnn.theories.comparison import group_error
from lbnn.theories.limits.kernel_saddle import KernelSaddle
from lbnn.theories.limits.regimes import as_setting
from lbnn.theories.limits.saddle import find_saddle
from lbnn.theories.limits.setting import Setting
from lbnn.theories.limits.single_scale import from_scale
from lbnn.theories.limits.wide_prior import WidePrior

TEACHER_SCALE = 1.5  # away from one, where prior and data would agree on the scale
INPUTS_PER_EXAMPLE = 2  # n0/p

#: Random data sets at each n: many where they are cheap and fluctuate most.
DATA_SETS = {8: 96, 12: 64, 16: 48, 24: 24, 32: 16, 48: 8, 64: 8}
QUICK_DATA_SETS = {8: 8, 12: 6, 16: 4, 24: 3, 32: 3}


@dataclass(frozen=True)
class Case:
    """One path to infinity: α = p/n, γ = n_d/n, temperature, depth, and where the teacher comes from."""

    name: str
    alpha: float
    gamma: float
    beta: float
    depth: int
    sizes: tuple[int, ...]
    matched: bool = False  # the teacher is a draw of the network's prior, not a full-rank Gaussian

    @property
    def label(self) -> str:
        temperature = "∞" if math.isinf(self.beta) else f"{self.beta:g}"
        teacher = ", matched" if self.matched else ""
        return f"α = {self.alpha:g}, γ = {self.gamma:g}, β = {temperature}, depth {self.depth}{teacher}"


_TO_32, _EIGHTHS = (8, 12, 16, 24, 32), (16, 24, 32, 48, 64)
CASES = (
    Case("centre", 0.5, 0.5, 10.0, 2, (*_TO_32, 48)),
    Case("few outputs", 0.5, 0.25, 10.0, 2, (*_TO_32, 48, 64)),
    Case("fewest outputs", 0.5, 0.125, 10.0, 2, _EIGHTHS),
    Case("most outputs", 0.5, 1.0, 10.0, 2, (8, 12, 16, 24)),
    Case("few examples", 0.25, 0.5, 10.0, 2, (*_TO_32, 48, 64)),
    Case("fewest examples", 0.125, 0.5, 10.0, 2, _EIGHTHS),
    Case("most examples", 1.0, 0.5, 10.0, 2, _TO_32),
    Case("zero temperature", 0.5, 0.5, math.inf, 2, _TO_32),
    Case("depth three", 0.5, 0.5, 10.0, 3, (8, 12, 16, 24)),
    Case("matched teacher", 0.5, 0.5, 10.0, 2, _TO_32, matched=True),
)


# ---------------------------------------------------------------------- one data set


@dataclass(frozen=True)
class Problem:
    """Inputs X (p, n0), targets Y (p, n_d), the teacher B (n0, n_d) with Y = XB + noise, and the network."""

    network: lbnn.Network
    X: Array
    Y: Array
    teacher: Array
    teacher_power: float  # E of one squared output of the teacher
    beta: float


def draw_problem(case: Case, n: int, rng: np.random.Generator) -> Problem:
    """A random design, a random teacher, noise of variance 1/β."""
    examples, outputs = round(case.alpha * n), round(case.gamma * n)
    inputs = INPUTS_PER_EXAMPLE * examples
    teacher = (
        _matched_teacher(case, n, inputs, outputs, rng)
        if case.matched
        else _full_rank_teacher(inputs, outputs, rng)
    )
    X = rng.standard_normal((examples, inputs))
    noise = rng.standard_normal((examples, outputs)) / math.sqrt(case.beta)
    power = 1.0 if case.matched else TEACHER_SCALE**2
    return Problem(lbnn.Network((n,) * (case.depth - 1)), X, X @ teacher + noise, teacher, power, case.beta)


def _full_rank_teacher(inputs: int, outputs: int, rng: np.random.Generator) -> Array:
    return TEACHER_SCALE * rng.standard_normal((inputs, outputs)) / math.sqrt(inputs)


def _matched_teacher(case: Case, n: int, inputs: int, outputs: int, rng: np.random.Generator) -> Array:
    """(W_d ⋯ W_1)ᵀ with every W_ℓ from the prior."""
    sizes = (inputs, *(n,) * (case.depth - 1), outputs)
    product = np.eye(inputs)
    for rows, columns in pairwise(sizes):
        product = product @ rng.standard_normal((rows, columns)) / math.sqrt(rows)
    return product


@dataclass(frozen=True)
class Answer:
    """What an exact posterior or a theory says: kernel (p, p), and the quantities it has."""

    kernel: Array
    values: dict[str, float]


def answer_of(
    problem: Problem, kernel: Array, scale: Array | None, evidence: float | None, predictive: Any
) -> Answer:
    """The function is linear, so that sums over the axes are exact averages over Gaussian test inputs."""
    gram = problem.X @ problem.X.T / problem.X.shape[1]
    examples, outputs = problem.Y.shape
    values = {
        "kernel": float(np.linalg.norm(kernel - gram) / np.linalg.norm(gram)),
        "test": float(((predictive.mean - problem.teacher) ** 2).sum()) / outputs / problem.teacher_power,
        "variance": float(predictive.variance.sum()) / outputs,
    }
    if scale is not None:
        values["scale"] = float(np.trace(scale)) / outputs
    if evidence is not None:
        values["evidence"] = evidence / (examples * outputs)
    return Answer(kernel, values)


def theory_answer(problem: Problem, theory: lbnn.asymptotics.Theory) -> Answer:
    """The answers of a theory."""
    scale = None if theory.scale is None else theory.scale.average(theory.scale.scales)
    axes = np.eye(problem.X.shape[1])
    return answer_of(problem, theory.kernel, scale, theory.log_evidence, theory.predict(axes))


# ---------------------------------------------------------------------- theories


@dataclass(frozen=True)
class NaiveRate(WidePrior):
    """The Wishart density itself at depth two: its exponent keeps the dimension that `WidePrior` neglects."""

    kept: int = 0  # n_d for L, p for the hidden kernel

    def rate(self, values: Array) -> Array:
        """½[(n − kept) log l − n l] + constant."""
        width = self.widths[0]
        return 0.5 * ((width - self.kept) * np.log(values) - width * (values - 1))

    def log_slope(self, values: Array) -> Array:
        """Derivative of the rate in log l."""
        return 0.5 * ((self.widths[0] - self.kept) - self.widths[0] * values)


def laplace_in_scale(setting: Setting) -> lbnn.asymptotics.Theory:
    """The mode of the density of L, γ kept: the paper's naive Laplace approximation."""
    outputs = setting.spectrum.outputs
    rate = NaiveRate(setting.widths, 1.0, outputs)
    scale = find_saddle(rate, setting.likelihood, np.zeros((outputs, outputs)), setting.spectrum.examples)
    return from_scale("Laplace in L", setting, scale, None, aligned=False)


def laplace_in_kernel(setting: Setting) -> lbnn.asymptotics.Theory:
    """The mode of the density of the hidden kernel, α kept."""
    rank = setting.spectrum.rank
    rate = NaiveRate(setting.widths, 1.0, rank)
    likelihood = dual(setting.likelihood)
    saddle = KernelSaddle(setting, find_saddle(rate, likelihood, np.zeros((rank, rank)), rank))
    return lbnn.asymptotics.Theory(
        "Laplace in K", setting.spectrum, None, None, 1, saddle.kernel_at, saddle._predictive_at
    )


def theories_of(case: Case, problem: Problem) -> dict[str, lbnn.asymptotics.Theory]:
    """Those that apply. A naive Laplace approximation needs its mode inside: a kept ratio below one."""
    network, X, Y, beta = problem.network, problem.X, problem.Y, problem.beta
    found = {
        "proportional": lbnn.asymptotics.proportional(network, X, Y, beta=beta),
        "many outputs": lbnn.asymptotics.many_outputs(network, X, Y, beta=beta),
    }
    if case.depth == 2:
        setting = as_setting(network, lbnn.Spectrum.from_inputs(X, Y), beta)
        if case.gamma < 1:
            found["Laplace in L"] = laplace_in_scale(setting)
        if case.alpha < 1:
            found["Laplace in K"] = laplace_in_kernel(setting)
    return found


# ---------------------------------------------------------------------- measuring


def measure(case: Case, n: int, seed: list[int]) -> dict[str, Any]:
    """One data set: the exact answer, every theory's, and the gaps between them."""
    started = time.process_time()
    problem = draw_problem(case, n, np.random.default_rng(seed))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lbnn.AccuracyWarning)  # counted in `ok`, and reported
        exact = problem.network.condition(problem.X, problem.Y, problem.beta, seed=seed[-1])
    truth = answer_of(
        problem,
        exact.feature_kernel(),
        exact.scale.average(exact.scale.scales),
        exact.log_evidence,
        exact.predict(np.eye(problem.X.shape[1])),
    )
    answers = {name: theory_answer(problem, each) for name, each in theories_of(case, problem).items()}
    return {
        "exact": truth.values,
        "theories": {name: answer.values for name, answer in answers.items()},
        "gaps": {name: gaps(problem, answer, truth) for name, answer in answers.items()},
        "monte_carlo": monte_carlo_errors(problem, exact, truth),
        "engine": exact.diagnostics.engine,
        "ok": exact.diagnostics.ok,
        "seconds": time.process_time() - started,
    }


def gaps(problem: Problem, answer: Answer, truth: Answer) -> dict[str, float]:
    """Theory − exact on the same data, so that most of the data's randomness cancels."""
    gram = problem.X @ problem.X.T / problem.X.shape[1]
    found = {name: value - truth.values[name] for name, value in answer.values.items()}
    if math.isinf(problem.beta):
        del found["test"]  # the interpolator does not depend on L: rounding
    distance = np.linalg.norm(answer.kernel - truth.kernel) / np.linalg.norm(truth.kernel - gram)
    return found | {"kernel": float(distance)}


def monte_carlo_errors(problem: Problem, exact: lbnn.Posterior, truth: Answer) -> dict[str, float]:
    """Stated errors of the exact side; the kernel's relative to its change, where it would bias a norm."""
    outputs, width = problem.Y.shape[1], problem.network.widths[0]
    projection, process = exact.spectrum.project(), exact._process
    gram = problem.X @ problem.X.T / problem.X.shape[1]
    noise = group_error(
        exact.scale, lambda part: average_feature_kernel(projection, process, part, width), truth.kernel
    )
    traces = np.trace(exact.scale.scales, axis1=1, axis2=2)[:, None] / outputs
    return {
        "scale": float(exact.scale.standard_error(traces)[0]),
        "kernel": noise / float(np.linalg.norm(truth.kernel - gram)),
        "evidence": exact.log_evidence_error / problem.Y.size,
    }


def run(cases: tuple[Case, ...], data_sets: dict[int, int], jobs: int) -> dict[str, dict[str, Any]]:
    """Measure and extrapolate every case, one line of progress for each."""
    studies = {}
    with ProcessPoolExecutor(jobs) as pool:
        for index, case in enumerate(cases):
            sizes = [n for n in case.sizes if n in data_sets]
            tasks = [(case, n, [0, index, n, number]) for n in sizes for number in range(data_sets[n])]
            records: dict[int, list[dict[str, Any]]] = {n: [] for n in sizes}
            for (_, n, _), record in zip(tasks, pool.map(measure, *zip(*tasks, strict=True)), strict=True):
                records[n].append(record)
            studies[case.name] = {"label": case.label} | study(records)
            print(f"{case.name}: {studies[case.name]['seconds']:.0f} s of one core", flush=True)
    return studies


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="few data sets, rough error bars; prints, writes nothing"
    )
    parser.add_argument("--redraw", action="store_true", help="tables and picture from the last full run")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    options = parser.parse_args()
    sets = QUICK_DATA_SETS if options.quick else DATA_SETS
    studies = read() if options.redraw else run(CASES, sets, options.jobs)
    print(limit_table(studies), gap_table(studies), sep="\n\n")
    if not options.quick:
        write(studies)


if __name__ == "__main__":
    main()
