"""What one problem of a family says of the library's answer."""

from __future__ import annotations

import math
from dataclasses import dataclass

#: An answer that is ok is silently wrong when it is farther from the referee than this many joint standard
#: errors. With 500 comparisons of normal errors the probability of one beyond 4.5 is 0.3%.
FARTHEST = 4.5


@dataclass(frozen=True)
class Judgement:
    """One answer beside the referee's.

    Parameters
    ----------
    name : str
        The problem in words: enough to build it again.
    answer, error : float
        What the library says, and its stated error.
    truth, truth_error : float
        The same of the referee.
    ok : bool
        Whether the library supports its answer.
    rounding : float
        What rounding alone may change in the answer or the referee.
    seconds : float
        Processor time of the library's answer.
    """

    name: str
    answer: float
    error: float
    truth: float
    truth_error: float
    ok: bool
    rounding: float = 1e-8
    seconds: float = 0.0

    @property
    def z(self) -> float:
        """Distance from the referee in joint standard errors."""
        scale = math.hypot(self.error, self.truth_error, self.rounding * (1 + abs(self.truth)))
        return (self.answer - self.truth) / scale

    @property
    def silently_wrong(self) -> bool:
        """Whether the answer claims to be ok, and is not."""
        return self.ok and not abs(self.z) <= FARTHEST
