"""A claimed log evidence against the exact one: Δ and Δ/√(claimed error² + exact error²).

Null distribution: normal, if the claimed error is right. A claim without an error is taken to be meant to
half a nat.
"""

from __future__ import annotations

import math

from scipy import stats

from lbnn._base import check
from lbnn.benchmark.scorers.score import Score
from lbnn.benchmark.task import Task

TOLERANCE = 0.5  # nats, of a claim without an error


def score_evidence(task: Task, claimed: float, error: float | None, level: float) -> Score:
    """Judge a claim about the log evidence."""
    value = check.finite_number(claimed, "log_evidence")
    difference = value - task.log_evidence
    details = {"claimed": value, "exact": task.log_evidence, "difference": difference, "claimed error": error}
    if error is None:
        p_value = 1.0 if abs(difference) <= TOLERANCE else 0.0
        words = f"log evidence off by {difference:+.2f} nats; no error was claimed, half a nat is allowed"
        return Score("evidence", p_value, level, words, details)
    own = check.finite_number(error, "log_evidence_error")
    if own < 0:
        raise ValueError(f"log_evidence_error must not be negative, got {own}")
    total = math.hypot(own, task.log_evidence_error) or 1e-10 * (1 + abs(task.log_evidence))
    z = difference / total
    words = f"log evidence off by {difference:+.2f} nats, {z:+.1f} claimed standard errors"
    return Score("evidence", float(2 * stats.norm.sf(abs(z))), level, words, details | {"z": z})
