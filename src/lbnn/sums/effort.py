"""How long a path is made, and whether its answer is ok."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lbnn.engines.inference import Diagnostics, EvidenceEstimate
from lbnn.engines.policy import GROUPS, joint_errors
from lbnn.sums.chain import Block
from lbnn.sums.path import Path, Stage, follow, posterior_stage
from lbnn.sums.start import fitted_start
from lbnn.sums.table import Table

#: Operations of all paths of a call: about a minute on one core (2e10 a second measured on 502 × 19).
WORK = 1.2e12
#: Operations of one sweep of all particles under which NumPy's calls cost more than the arithmetic: small
#: tables get more parents, whose sweeps are then nearly free.
_FREE = 4e6
_MOST_PARENTS = 16
_CALLS = 3e7  # operations in the time of NumPy's calls in one sweep (1.5 ms)
_MOST_NUMBERS = 3e7  # that the states at one power may hold (240 MB)
_SHORTEST = 8  # sweeps at each power in the first round
#: Part of the gap between the way up and the way back in the stated error of their mean. In forty runs of ten
#: tables of 125 to 630 cells that were far too short (three and six sweeps, gaps up to 18), the mean differed
#: from that of long runs by 0.77 stated errors in root mean square, 2.8 at most.
_OF_GAP = 0.25
_ROUNDS = 4  # after which an accurate answer that a check contradicts is given as it is
_SWEEPS = 200  # for each of the length in the first round: of 100 powers both ways, as large tables have
_STEPS = 12  # of conjugate gradients, as measured
#: Probability with which a right answer is called different by one of the two checks.
_FALSE_ALARM = 0.005
#: Of the variance of the log likelihood, that of its means over groups: R̂ = √(1 + this) about. Above, groups
#: have not mixed, and their means are no averages over the posterior.
_BETWEEN = 0.5


@dataclass(frozen=True)
class Sampled:
    """The last path, its error, and its diagnostics."""

    path: Path
    log_evidence_error: float
    diagnostics: Diagnostics


def sample(table: Table, blocks: Sequence[Block], target_error: float, seed: int) -> Sampled:
    """Paths with more and more sweeps at each power until the answer is ok, or the work is done."""
    rng = np.random.default_rng(seed)
    each = operations(table, blocks)
    parents = int(np.clip(_FREE / (GROUPS * each), 1, _MOST_PARENTS))
    cost = GROUPS * parents * each + _CALLS  # of one sweep of all particles
    longest = _MOST_NUMBERS / (GROUPS * parents * numbers(table, blocks))
    length, spent, rounds = int(np.clip(WORK / (_SWEEPS * cost), 1, _SHORTEST)), 0.0, 0
    while True:
        rounds += 1
        path = follow(table, blocks, parents, length, rng)
        other = posterior_stage(
            table, blocks, fitted_start(table, blocks, GROUPS * parents, rng), length, parents, rng
        )
        sweeps = 2 * len(path.powers) + 3  # of the path both ways, and of the other start
        spent += cost * length * sweeps
        found = judged(table, path, other, target_error)
        # the gap falls like 1/length, the spread like its root
        lag, spread = _OF_GAP * abs(path.difference) / target_error, path.spread / target_error
        more = float(np.clip(1.2 * max(lag, spread**2), 2.0, 8.0))
        affordable = min((WORK - spent) / (cost * length * sweeps), longest / length)
        settled = rounds >= _ROUNDS and found.log_evidence_error <= target_error
        if found.diagnostics.ok or settled or affordable < 2:
            return found
        length = math.ceil(length * min(more, affordable))


def operations(table: Table, blocks: Sequence[Block]) -> float:
    """Floating-point operations of one sweep of one particle, roughly."""
    (p, outputs), columns = table.targets.shape, sum(block.columns for block in blocks)
    dense = sum(4.0 * p * b.rank * b.columns * _STEPS for b in blocks if b.root is not None)
    return dense + 2.0 * p * outputs * columns * (columns + 3) + 60.0 * (p + outputs) * columns**3


def numbers(table: Table, blocks: Sequence[Block]) -> int:
    """Numbers that a path keeps of one state."""
    outputs, columns = table.targets.shape[1], sum(block.columns for block in blocks)
    return 2 * outputs * columns + sum(b.columns * (b.rank + b.columns * len(b.degrees)) for b in blocks)


def judged(table: Table, path: Path, other: Stage, target_error: float) -> Sampled:
    """The stated error, and what speaks against the answer.

    The way up is low and the way back high where sweeps are too few (each is a bound in expectation for exact
    starts: Grosse, Ghahramani & Adams 2015). Their mean is the answer, and the error has a part of the gap.
    """
    gap = path.difference
    error = math.hypot(path.spread, _OF_GAP * gap)
    messages = []
    if error > target_error:
        messages.append(
            f"the log evidence has an error of {error:.2g} for a target error of {target_error:g} (path from "
            f"the prior {path.up.mean():.2f}, path back {path.back.mean():.2f}): raise target_error, or use "
            "narrower networks"
        )
    heights = path.by_group(path.log_likelihood)
    half = other.log_likelihood(table, 1.0)[:, heights.shape[1] // 4 :]
    between = float(heights.mean(axis=1).var(ddof=1)) / max(float(heights.var()), 1e-300)
    if between > _BETWEEN:
        messages.append(
            f"the posterior draws of {GROUPS} groups have not mixed (R̂ {math.sqrt(1 + between):.2f}, should "
            f"be below {math.sqrt(1 + _BETWEEN):.2f}): a smaller target_error makes longer chains"
        )
    first, second = heights.mean(axis=1), half.mean(axis=1)
    apart = abs(first.mean() - second.mean())
    error_apart = math.sqrt((first.var(ddof=1) + second.var(ddof=1)) / GROUPS)
    if apart > joint_errors(_FALSE_ALARM) * error_apart and apart > 0.1 * float(heights.std()):
        messages.append(
            "draws that start at a fit of the observed cells differ from those that start at the prior (log "
            f"likelihood {second.mean():.2f} and {first.mean():.2f}, errors "
            f"{math.sqrt(second.var(ddof=1) / GROUPS):.2g} and {math.sqrt(first.var(ddof=1) / GROUPS):.2g}): "
            "the posterior may have several phases, which networks of fewer layers do not have"
        )
    effective = GROUPS * min(heights.shape[1], 1 / max(between, 1e-12))
    estimates = tuple(
        EvidenceEstimate(name, float(way.mean()), float(way.std(ddof=1) / math.sqrt(GROUPS)))
        for name, way in (("path from the prior", path.up), ("path back", path.back))
    )
    diagnostics = Diagnostics(
        "chains", effective, messages=tuple(messages), stages=len(path.powers), estimates=estimates
    )
    return Sampled(path, error, diagnostics)
