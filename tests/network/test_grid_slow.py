"""Several outputs over a grid of sizes: every case ends well and in time, or says that it did not."""

from __future__ import annotations

import math
import time
import warnings
from dataclasses import dataclass

import numpy as np
import pytest
from scipy import stats

import lbnn
from tests.helpers.problems import Problem, make_problem

pytestmark = pytest.mark.slow

SECONDS, EFFECTIVE = 30.0, 400


@dataclass(frozen=True)
class Case:
    """Sizes of data and network."""

    examples: int
    outputs: int
    widths: tuple[int, ...]
    beta: float

    @property
    def data(self) -> Problem:
        inputs = max(2 * self.examples, 10)
        return make_problem(self.examples, inputs, self.outputs, seed=self.examples + self.outputs)

    @property
    def name(self) -> str:
        distinct = set(self.widths)
        same = len(self.widths) > 1 and len(distinct) == 1
        widths = f"({self.widths[0]},)×{len(self.widths)}" if same else str(self.widths)
        return f"p={self.examples}, n_d={self.outputs}, {widths}, β={self.beta:g}"


@dataclass(frozen=True)
class Row:
    """What one run came to."""

    case: Case
    post: lbnn.Posterior
    seconds: float
    warned: bool

    @property
    def supported(self) -> bool:
        """Ended well and in time."""
        report = self.post.diagnostics
        return report.ok and report.effective_sample_size >= EFFECTIVE and self.seconds < SECONDS

    @property
    def announced(self) -> bool:
        """Ended badly, and said so."""
        return not self.post.diagnostics.ok and self.warned

    def markdown(self) -> str:
        report = self.post.diagnostics
        k = "–" if report.pareto_k is None else f"{report.pareto_k:.2f}"
        engine = report.engine + (f", {report.stages} stages" if report.stages else "")
        cells = [
            self.case.name,
            str(dimension(self)),
            engine,
            f"{report.effective_sample_size:.0f}",
            k,
            f"{self.post.log_evidence_error:.2g}",
            f"{self.seconds:.1f}",
            "yes" if report.ok else "no, warned" if self.warned else "no, silent",
        ]
        return "| " + " | ".join(cells) + " |"


def dimension(row: Row) -> int:
    """Coordinates that were sampled."""
    case = row.case
    dual = row.post.diagnostics.engine.startswith("dual")
    size = min(case.examples, case.data.X.shape[1]) if dual else case.outputs
    return lbnn.Network(case.widths).scale_prior(size).coordinates.dimension


GRID = (
    Case(5, 2, (2,), 0.1),
    Case(5, 2, (10,), 4.0),
    Case(20, 2, (100, 100), 100.0),
    Case(20, 2, (2,) * 5, 100.0),
    Case(20, 2, (5,) * 7, 10.0),
    Case(500, 2, (50,), 1e4),
    Case(100, 3, (50,), 4.0),
    Case(100, 3, (3,), 1e4),
    Case(50, 3, (10, 5, 10), 1.0),
    Case(30, 3, (6, 2, 6), 10.0),
    Case(100, 5, (20,), 4.0),
    Case(20, 5, (10,) * 5, 100.0),
    Case(500, 5, (1000,) * 3, 4.0),
    Case(50, 5, (5, 5), 1.0),
    Case(100, 10, (50,), 4.0),
    Case(100, 10, (20,), 4.0),
    Case(100, 10, (50, 50, 50), 4.0),
    Case(200, 10, (10,), 100.0),
    Case(20, 10, (100,) * 7, 0.1),
    Case(40, 20, (80,), 50.0),
    Case(200, 20, (200, 200), 10.0),
    Case(5, 20, (20,), 4.0),
    Case(5, 50, (50,), 1e4),
    Case(100, 30, (500,), 4.0),
    Case(10, 50, (1000,), 1.0),
    Case(500, 50, (1000,), 1.0),
    # hard on purpose: as narrow as the outputs, deep, cold
    Case(20, 3, (3,) * 4, 0.1),
    Case(500, 2, (2,) * 7, 1e4),
    Case(50, 5, (5,) * 7, 1e4),
    Case(100, 10, (10,) * 7, 1e3),
)


def run(case: Case, seed: int = 0, target_error: float = 0.05) -> Row:
    """One inference as a user runs it, timed."""
    data = case.data
    start = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", lbnn.AccuracyWarning)
        post = lbnn.Network(case.widths).condition(
            data.X, data.Y, case.beta, seed=seed, target_error=target_error
        )
    warned = any(issubclass(w.category, lbnn.AccuracyWarning) for w in caught)
    return Row(case, post, time.perf_counter() - start, warned)


@pytest.mark.parametrize("case", GRID, ids=lambda c: c.name)
def test_ends_well_and_in_time_or_says_so(case: Case) -> None:
    """At least 400 effective draws in less than 30 s, or `ok` False and a warning."""
    row = run(case)
    print(row.markdown())
    assert row.supported or row.announced


CHEAP = (Case(5, 2, (2,), 0.1), Case(20, 2, (5,) * 7, 10.0), Case(5, 20, (20,), 4.0))


def long_run(case: Case) -> tuple[float, float, float, float]:
    """Log evidence and tr E L, with errors, averaged over eighty runs with seeds of their own."""
    rows = [run(case, seed=1000 + seed) for seed in range(80)]
    values = np.array([[row.post.log_evidence, np.trace(row.post.scale.mean)] for row in rows])
    mean, error = values.mean(0), values.std(0, ddof=1) / math.sqrt(len(rows))
    return float(mean[0]), float(error[0]), float(mean[1]), float(error[1])


@pytest.mark.parametrize("case", CHEAP, ids=lambda c: c.name)
def test_stated_errors_cover_a_long_run_at_their_nominal_rate(case: Case) -> None:
    """Twenty seeds: squared scores of log evidence and of tr E L, summed, against their law, two-sided."""
    evidence, evidence_error, trace, trace_error = long_run(case)
    posts = [run(case, seed=seed).post for seed in range(20)]
    freedom = 7 if "importance" in posts[0].diagnostics.engine else 15
    for scores in (
        [(p.log_evidence - evidence) / math.hypot(p.log_evidence_error, evidence_error) for p in posts],
        [
            (value - trace) / math.hypot(error, trace_error)
            for value, error in (p.scale.expect_with_error(np.trace) for p in posts)
        ],
    ):
        outside = int((np.abs(scores) > stats.t.isf(0.05, freedom)).sum())  # one in ten by chance
        p_value = stats.binomtest(outside, 20, 0.1).pvalue
        print(f"{case.name}: {outside} of 20 outside a 90% interval, p = {p_value:.2g}")
        assert p_value > 1e-3 / 6, np.round(scores, 2)
