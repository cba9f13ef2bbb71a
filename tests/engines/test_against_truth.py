"""Several outputs against stored truths, integrals and closed forms: an answer that says ok has to be right.

The truths of `several_outputs.json` were made by `tests/referees` and share nothing with the engines.
"""

from __future__ import annotations

import json
import math
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lbnn
from tests.helpers.problems import Array
from tests.referees.matrix_gig import PlaneReferee
from tests.referees.statistics import assert_agrees
from tests.reference import several_outputs_cases as cases

RECORDS = {
    record["name"]: record
    for record in json.loads(
        (Path(__file__).parents[1] / "reference" / "several_outputs.json").read_text(encoding="utf-8")
    )
}
CASES = {case.name: case for case in cases.all_cases()}
ISSUE = [case.name for case in cases.issue_cases()]
# A sample over depths, outputs and teachers of those that took less than half a second when they were chosen.
SAMPLE = [
    "rand-136", "rand-224", "rand-290", "rand-269", "designed-21", "rand-005", "rand-232", "rand-176",
    "rand-120", "rand-019", "designed-13", "rand-081", "rand-084", "rand-231", "rand-079", "rand-143",
    "rand-225", "rand-095", "rand-123", "rand-247",
]  # fmt: skip
SINGLE = ["single-00", "single-01", "single-12", "single-20", "single-21"]
FREEDOM = 7  # errors come from eight replicates
LARGEST = 4.5  # errors, of a log evidence


def posterior(case: cases.Case, seed: int) -> lbnn.Posterior:
    """By `auto`; those that are not ok warn, which is what is counted."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lbnn.AccuracyWarning)
        return lbnn.Network(case.widths, case.variances).condition(case.X, case.Y, case.beta, seed=seed)


def score(post: lbnn.Posterior, record: dict[str, Any]) -> float:
    """Error of the log evidence in joint stated errors."""
    return (post.log_evidence - record["log_evidence"]) / math.hypot(post.log_evidence_error, record["error"])


def assert_right(post: lbnn.Posterior, record: dict[str, Any], comparisons: int) -> None:
    """Ok, log evidence within 4.5 joint errors, and every entry of E L within errors of eight replicates."""
    assert post.diagnostics.ok, post.diagnostics.messages
    assert abs(score(post, record)) < LARGEST
    truth, error = np.array(record["scale_mean"]), np.array(record["scale_error"])
    upper = np.triu_indices(len(truth))
    assert_agrees(
        np.asarray(post.scale.mean)[upper], np.hypot(post.scale.mean_error, error)[upper], truth[upper],
        comparisons=comparisons, degrees_of_freedom=FREEDOM,
    )  # fmt: skip
    if post.diagnostics.engine != "dual quadrature":  # data of rank one: the evidence is deterministic
        assert_two_estimates(post)


def assert_two_estimates(post: lbnn.Posterior) -> None:
    """An ok answer has two estimates by different methods that agree; its own is one of them."""
    first, second = post.diagnostics.estimates
    assert math.isclose(first.log_evidence, post.log_evidence, rel_tol=1e-12)
    assert first.method != second.method
    assert first.agrees_with(second)
    assert first.error == post.log_evidence_error


def test_truths_are_settled() -> None:
    """Every problem has a record, every record a problem; at least 60 + 300 of them are settled."""
    assert set(RECORDS) == set(CASES)
    settled = [name for name, record in RECORDS.items() if record["settled"]]
    assert sum(name.startswith("designed") for name in settled) >= 57
    assert sum(name.startswith("rand") for name in settled) >= 300
    assert all(len(RECORDS[name]["agreed"]) >= 2 for name in settled if not name.startswith("single"))


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", ISSUE)
def test_problems_of_the_issue(name: str, seed: int) -> None:
    """Both units of the first, and the table; 6 problems, 12 seeds, 3 entries of L."""
    assert_right(posterior(CASES[name], seed), RECORDS[name], comparisons=6 * 12 * 3)


@pytest.mark.slow
@pytest.mark.parametrize("name", ISSUE)
def test_problems_of_the_issue_by_ten_seeds(name: str) -> None:
    for seed in range(2, 12):
        assert_right(posterior(CASES[name], seed), RECORDS[name], comparisons=6 * 12 * 3)


@pytest.mark.parametrize("name", SAMPLE)
def test_a_sample_of_problems(name: str) -> None:
    entries = sum(CASES[other].outputs * (CASES[other].outputs + 1) // 2 for other in SAMPLE)
    assert_right(posterior(CASES[name], 0), RECORDS[name], comparisons=entries)


@pytest.mark.parametrize("name", SINGLE)
def test_one_example(name: str) -> None:
    """The truth is an integral over one number at any depth and number of outputs."""
    entries = sum(CASES[other].outputs * (CASES[other].outputs + 1) // 2 for other in SINGLE)
    assert_right(posterior(CASES[name], 0), RECORDS[name], comparisons=entries)


@pytest.mark.slow
def test_one_example_whatever_the_depth() -> None:
    """All thirty, depth 3 to 8: right where ok; where not, the stated error still holds the truth."""
    for name in (case.name for case in cases.single_cases()):
        post = posterior(CASES[name], 0)
        if post.diagnostics.ok:
            assert_right(post, RECORDS[name], comparisons=500)
        else:
            assert abs(score(post, RECORDS[name])) < 6, name


@pytest.mark.slow
def test_every_settled_problem() -> None:
    """What the issue asks for: at most 1% of the ok ones beyond 4 errors, none beyond 6; shares of ok."""
    results = []
    for name, record in RECORDS.items():
        if record["settled"] and not name.startswith("single"):
            post = posterior(CASES[name], 0)
            results.append((name, CASES[name].depth, post.diagnostics.ok, score(post, record)))
            if post.diagnostics.ok:
                assert_two_estimates(post)
    scores = np.array([abs(z) for _, _, ok, z in results if ok])
    worst = sorted(((z, name) for name, _, ok, z in results if ok), key=lambda pair: -abs(pair[0]))[:8]
    print(f"{len(results)} problems, rms z {np.sqrt((scores**2).mean()):.2f}, worst {worst}")
    assert (scores > 4).mean() <= 0.01, worst
    assert scores.max() <= 6, worst
    shallow = [ok for _, depth, ok, _ in results if depth == 2]
    deep = [ok for _, depth, ok, _ in results if depth > 2]
    assert np.mean(shallow) >= 0.97
    assert np.mean(deep) >= 0.90


@pytest.mark.slow
def test_heavy_tails_do_not_confirm_sequential_monte_carlo() -> None:
    """It was 0.25 to 0.55 low with errors of 0.03 to 0.05, and a mixture with k 0.7 to 1 agreed within 3."""
    for seed in (0, 4, 5):
        post = posterior(CASES["rand-304"], seed)
        assert not post.diagnostics.ok or abs(score(post, RECORDS["rand-304"])) < 4


# ---------------------------------------------------------------- depth two

WEAK_GRAM = np.diag([1.0] * 10 + [0.005] * 10)
TWO_DIRECTIONS = np.zeros((20, 2))
TWO_DIRECTIONS[:10, 0], TWO_DIRECTIONS[10:, 1] = 1.0, 1.05


@cache
def width_one_truth() -> tuple[float, float, float]:
    """Log evidence, E L_11 and E L_22 for hidden width one: L = w wᵀ, w ~ N(0, I), by a lattice over w.

    Along w and across it: Y G^½-modes are independent, of variance g ‖w‖² + 1/β along w and 1/β across.
    """
    r = np.exp(np.linspace(math.log(1e-6), math.log(12.0), 3001))
    angle = (np.arange(1200) + 0.5) * (math.pi / 1200)  # w and −w are one
    along = np.stack([np.cos(angle), np.sin(angle)])
    noise = 0.01
    log_value = np.zeros((len(r), len(angle)))
    for g, y in zip(np.diag(WEAK_GRAM), TWO_DIRECTIONS, strict=True):
        variance = g * r**2 + noise
        square = (y @ along) ** 2
        log_value -= 0.5 * (np.log(variance)[:, None] + square / variance[:, None] + (y @ y - square) / noise)
    log_value -= 20 * math.log(2 * math.pi) + 10 * math.log(noise)
    # density of w in polar coordinates r dr dφ/2π over the full circle; dr = r d log r
    log_terms = log_value + (2 * np.log(r) - r**2 / 2)[:, None]
    log_terms += math.log(math.log(r[1] / r[0])) + math.log(2 * math.pi / 1200) - math.log(2 * math.pi)
    peak = log_terms.max()
    weights = np.exp(log_terms - peak)
    total = weights.sum()
    first = (weights * (r[:, None] * along[0]) ** 2).sum() / total
    second = (weights * (r[:, None] * along[1]) ** 2).sum() / total
    return float(peak + math.log(total)), float(first), float(second)


def test_width_one_by_a_lattice() -> None:
    """The truth of the issue, −530.56 and 0.0016, from another lattice."""
    log_evidence, _, second = width_one_truth()
    assert log_evidence == pytest.approx(-530.56, abs=0.005)
    assert second == pytest.approx(0.0016, abs=0.0001)


@pytest.mark.parametrize("seed", range(3))
def test_width_one_and_a_weak_direction(seed: int) -> None:
    """Sequential Monte Carlo had −547.50 ± 0.015 and E L_22 = 35.7 here: it fitted the weak direction."""
    post = lbnn.Network((1,)).condition_gram(WEAK_GRAM, TWO_DIRECTIONS, 100.0, seed=seed)
    log_evidence, first, second = width_one_truth()
    assert post.diagnostics.ok
    assert_two_estimates(post)
    assert abs(post.log_evidence - log_evidence) < LARGEST * post.log_evidence_error
    assert post.log_evidence_error < 0.05
    assert_agrees(
        np.diag(post.scale.mean), np.diag(post.scale.mean_error), [first, second],
        comparisons=6, degrees_of_freedom=FREEDOM,
    )  # fmt: skip


def heavy_tail(width: int, p: int, size: float) -> tuple[Array, Array, Array]:
    """X, Y at zero temperature with targets `size` times those of the prior, and E L by quadrature."""
    rng = np.random.default_rng(18)
    X = rng.normal(size=(p, p + 4))
    gram = X @ X.T / X.shape[1]
    Y = size * np.linalg.cholesky(gram) @ rng.normal(size=(p, 2))
    law = PlaneReferee(Y.T @ np.linalg.solve(gram, Y), width * np.eye(2), (width - p) / 2, inverse=False)
    return X, Y, law.expect("mean")


def tail_scores(width: int, p: int, size: float, seeds: range) -> tuple[Array, Array]:
    """(E L found − exact) over stated errors and over exact, (seeds, 3); every run has to be ok."""
    X, Y, mean = heavy_tail(width, p, size)
    upper = np.triu_indices(2)
    scores, ratios = [], []
    for seed in seeds:
        post = lbnn.Network((width,)).condition(X, Y, math.inf, seed=seed)
        assert post.diagnostics.ok
        assert_two_estimates(post)
        away = np.asarray(post.scale.mean) - mean
        scores.append((away / post.scale.mean_error)[upper])
        ratios.append((away / mean)[upper])
    return np.array(scores), np.array(ratios)


HEAVY = pytest.mark.parametrize(("width", "p", "size"), [(4, 6, 1e-3), (4, 8, 0.03)])


@HEAVY
def test_means_in_heavy_tails(width: int, p: int, size: float) -> None:
    """Between targets and prior the law of L is a power; its mean is carried by the tail."""
    scores, _ = tail_scores(width, p, size, range(4))
    assert np.abs(scores).max() < LARGEST, scores


@pytest.mark.slow
@HEAVY
def test_means_in_heavy_tails_by_many_seeds(width: int, p: int, size: float) -> None:
    """A bias of 7% in E L (−6 errors of the mean over 24 seeds) hides from four seeds."""
    scores, ratios = tail_scores(width, p, size, range(24))
    zero = np.zeros_like(scores)
    assert_agrees(scores, np.ones_like(scores), zero, comparisons=2 * scores.size, degrees_of_freedom=FREEDOM)
    error = ratios.std(axis=0, ddof=1) / math.sqrt(24)
    assert_agrees(ratios.mean(axis=0), error, zero[0], comparisons=6, degrees_of_freedom=23)


EASY_X = np.random.default_rng(0).normal(size=(10, 5))
EASY_Y = EASY_X @ np.random.default_rng(1).normal(size=(5, 2)) / math.sqrt(5)


@pytest.mark.parametrize(
    "target_error",
    [
        0.005,
        pytest.param(0.004, marks=pytest.mark.slow),
        pytest.param(0.003, marks=pytest.mark.slow),
        pytest.param(0.002, marks=pytest.mark.slow),
        pytest.param(0.0015, marks=pytest.mark.slow),
    ],
)
def test_no_holes_in_the_errors_that_are_served(target_error: float) -> None:
    """An easy problem: every target error ends ok by importance sampling, and is reached."""
    Y = EASY_Y + 0.3 * np.random.default_rng(2).normal(size=EASY_Y.shape)
    post = lbnn.Network((5,)).condition(EASY_X, Y, 10.0, target_error=target_error)
    assert post.diagnostics.engine == "importance"
    assert post.diagnostics.ok
    assert post.log_evidence_error <= target_error
    assert_two_estimates(post)
