"""One call that judges a set of draws by every scorer: `score(task, draws)`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from lbnn._base import check
from lbnn._base.types import Array
from lbnn.benchmark.scorers.chains import Chains, check_draws, split_r_hat
from lbnn.benchmark.scorers.energy import score_energy
from lbnn.benchmark.scorers.evidence import score_evidence
from lbnn.benchmark.scorers.moments import POWER, score_enough, score_moments
from lbnn.benchmark.scorers.phase_mass import score_phase_mass
from lbnn.benchmark.scorers.predictive import score_predictive
from lbnn.benchmark.scorers.ranks import score_ranks
from lbnn.benchmark.scorers.score import Score
from lbnn.benchmark.task import Task

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Of half chains: what has not mixed by usual standards. Exact draws stay below 1.05 from 400 on.
_LARGEST_R_HAT = 1.1
#: In standard deviations: a mean that is known worse is of little use to anyone.
_LARGEST_SHIFT = 0.5

SCORERS = (score_moments, score_ranks, score_energy, score_phase_mass, score_predictive, score_enough)


@dataclass(frozen=True, eq=False)
class Report:
    """What `score` found.

    Attributes
    ----------
    task : Task
    scores : tuple of Score
        One per scorer: p-value, level, words, details.
    chains : Chains
        Function values of the draws, effective numbers.
    blind : dict
        Largest r̂ of a raw weight: shown, not judged, since it compares chains with each other and cannot
        detect what none of them visits.
    speed : dict
        True effective draws (of the worst function) in all, per second and per gradient where these are
        given.
    """

    task: Task
    scores: tuple[Score, ...]
    chains: Chains
    blind: dict[str, float]
    speed: dict[str, float]

    @property
    def passed(self) -> bool:
        """Whether no scorer failed."""
        return all(score.passed for score in self.scores)

    @property
    def verdict(self) -> str:
        """Begins with "pass" or "fail", and says in words why."""
        failed = [score for score in self.scores if not score.passed]
        if failed:
            return "fail: " + "; ".join(score.words for score in failed)
        judged = sum(score.judged for score in self.scores)
        found = f"{judged} of {len(self.scores)} scorers judged and found nothing; {self.strength}"
        return f"pass with doubts: {'; '.join(self.doubts)}; {found}" if self.doubts else f"pass: {found}"

    @property
    def strength(self) -> str:
        """What a pass is worth: the shift of a mean that would have been seen with a chance of 90%."""
        seen = self._shifts
        if np.isnan(seen).all():
            return "no mean could be judged"
        return (
            f"a shift of {np.nanmax(seen):.2g} standard deviations in any of {int((~np.isnan(seen)).sum())} "
            f"functions would have been seen with {POWER:.0%} chance"
        )

    @property
    def doubts(self) -> tuple[str, ...]:
        """Reasons not to trust a pass: chains that disagree, means that are hardly known."""
        names = self.chains.task.expectations.names
        mixing = split_r_hat(self.chains.values)
        found = []
        if not np.isnan(mixing).all() and np.nanmax(mixing) > _LARGEST_R_HAT:
            worst = int(np.nanargmax(mixing))
            found.append(f"the chains disagree, r̂ {mixing[worst]:.2f} of {names[worst]}")
        if np.isnan(self._shifts).all() or np.nanmax(self._shifts) > _LARGEST_SHIFT:
            found.append(f"there are {self.speed['claimed ESS']:.0f} effective draws of the worst function")
        return tuple(found)

    @property
    def _shifts(self) -> Array:
        """Shifts of each mean that would have been seen, in standard deviations; NaN where not judged."""
        return np.array(self.scores[0].details["shift seen"], float)

    def __repr__(self) -> str:
        """The verdict and a line per scorer."""
        lines = [f"{self.task.name}: {self.verdict}"]
        lines += [
            f"  {score.verdict:10s} {score.name:16s} {_p(score.p_value)}  {score.words}"
            for score in self.scores
        ]
        lines += [f"  {'':10s} {name:16s} {value:.4g}" for name, value in (self.speed | self.blind).items()]
        return "\n".join(lines)

    def table(self) -> list[dict[str, Any]]:
        """One row per function: means, bias, z, effective draws claimed and true, distances."""
        details = {score.name: score.details for score in self.scores}
        columns = dict(details["means"])
        columns["distance"] = details["ranks"].get("distance", [math.nan] * len(columns["function"]))
        return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]

    def picture(self) -> Figure:
        """z of every function, and the distribution of log tr L."""
        from lbnn.benchmark.picture import draw_report

        return draw_report(self.chains, self.scores[0])

    def as_json(self) -> dict[str, Any]:
        """The report as JSON values."""
        return _finite(
            {
                "task": self.task.name,
                "digest": self.task.digest,
                "verdict": self.verdict,
                "passed": self.passed,
                "strength": self.strength,
                "doubts": list(self.doubts),
                "scores": [{**vars(score), "verdict": score.verdict} for score in self.scores],
                "speed": self.speed,
                "blind": self.blind,
            }
        )


def score(
    task: Task,
    draws: ArrayLike,
    *,
    log_evidence: float | None = None,
    log_evidence_error: float | None = None,
    seconds: float | None = None,
    gradients: float | None = None,
    level: float = 0.01,
) -> Report:
    """Judge draws of all weights by every scorer.

    Parameters
    ----------
    task : Task
    draws : (chains, draws, dimension)
        Flat vectors z; docs/packages.md shows how to get them from other packages.
    log_evidence, log_evidence_error : float, optional
        What the method claims about the log evidence.
    seconds, gradients : float, optional
        What the draws cost.
    level : float
        Rate at which exact draws fail, over all scorers together (at most).

    Returns
    -------
    Report

    Examples
    --------
    >>> import lbnn
    >>> task = lbnn.benchmark.load("plain-15")
    >>> draws = task.reference(2000, seed=0).reshape(4, 500, -1)
    >>> print(lbnn.benchmark.score(task, draws, log_evidence=task.log_evidence).verdict)
    pass: 6 of 7 scorers judged and found nothing; a shift of 0.1... standard deviations in any of ...
    >>> lbnn.benchmark.score(task, 0.9 * draws).verdict[:4]
    'fail'
    """
    if not isinstance(task, Task):
        raise TypeError(f"task must be a Task, as load(name) gives it, got {task!r}")
    array = check_draws(draws, task)
    rate = float(check.probability(level, "level"))
    share = rate / (len(SCORERS) + (log_evidence is not None))
    chains = Chains.of(array, task)
    scores = [scorer(chains, share) for scorer in SCORERS]
    if log_evidence is not None:
        scores.append(score_evidence(task, log_evidence, log_evidence_error, share))
    blind = {"largest r̂ of a weight": float(np.nanmax(split_r_hat(array)))}
    return Report(task, tuple(scores), chains, blind, _speed(chains, seconds, gradients))


def _speed(chains: Chains, seconds: float | None, gradients: float | None) -> dict[str, float]:
    """Effective draws of the worst function, in all and per unit of cost."""
    true, claimed = float(np.nanmin(chains.true)), chains.claimed
    result = {
        "true ESS": true,
        "claimed ESS": float(np.nanmin(claimed)) if not np.isnan(claimed).all() else 0.0,
    }
    for name, cost in ("second", seconds), ("gradient", gradients):
        if cost is not None:
            if not check.finite_number(cost, f"{name}s") > 0:
                raise ValueError(f"{name}s must be positive, got {cost}")
            result[f"true ESS per {name}"] = true / cost
    return result


def _p(value: float) -> str:
    return "p  –    " if math.isnan(value) else f"p {value:<6.2g}"


def _finite(value: Any) -> Any:
    """Numbers that JSON does not have become null."""
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
