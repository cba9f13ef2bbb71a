"""What every scorer returns."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Score:
    """The answer of one scorer.

    Attributes
    ----------
    name : str
    p_value : float
        Probability, were the draws exact, of a statistic at least as large; NaN where nothing was judged.
    level : float
        The scorer fails below it: the rate at which exact draws fail.
    words : str
        What was found.
    details : dict
        Numbers behind it.
    """

    name: str
    p_value: float
    level: float
    words: str
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def judged(self) -> bool:
        """Whether there was enough to judge."""
        return not math.isnan(self.p_value)

    @property
    def passed(self) -> bool:
        """Not failed; what was not judged counts as passed."""
        return not (self.judged and self.p_value < self.level)

    @property
    def verdict(self) -> str:
        """One of "pass", "fail" and "not judged"."""
        if not self.judged:
            return "not judged"
        return "pass" if self.passed else "fail"


def not_judged(name: str, level: float, why: str, **details: Any) -> Score:
    """A score without a verdict, and why."""
    return Score(name, math.nan, level, why, details)
