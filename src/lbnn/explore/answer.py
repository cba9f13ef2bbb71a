"""A number of the page with its standard error, and what the numbers of every picture have in common."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

from lbnn.posterior import Posterior


@dataclass(frozen=True)
class Value:
    """A named number of the page, with its standard error: zero where exact, infinite where unknown.

    Examples
    --------
    >>> Value("log evidence", -12.345678).text
    '−12.346'
    """

    name: str
    number: float
    error: float = 0.0

    @property
    def text(self) -> str:
        """The number as the page writes it, with its error."""
        if not self.error:
            return written(self.number)
        if math.isinf(self.error):
            return f"about {written(self.number)}"
        digits = max(0, 1 - math.floor(math.log10(self.error)))
        if abs(self.number) < 1e5 and digits < 8:
            return f"{self.number:.{digits}f} ± {self.error:.{digits}f}".replace("-", "−")
        return f"{written(self.number)} ± {self.error:.2g}"


def written(number: float) -> str:
    """Five digits, with the signs of print."""
    if math.isinf(number):
        return "∞" if number > 0 else "−∞"
    return f"{number:.5g}".replace("-", "−")


class Numbers(Protocol):
    """The numbers of one picture."""

    @property
    def values(self) -> tuple[Value, ...]:
        """The few numbers that stand below the picture."""
        ...

    @property
    def sentence(self) -> str:
        """What to see."""
        ...

    @property
    def messages(self) -> tuple[str, ...]:
        """Messages for the user: answers that are not ok, what does not apply."""
        ...


def evidence_of(posterior: Posterior) -> Value:
    """The log evidence with its standard error."""
    return Value("log evidence", posterior.log_evidence, posterior.log_evidence_error)
