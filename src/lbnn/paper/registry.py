"""Claims and their verdicts."""

from __future__ import annotations

import importlib
import math
import time
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: One file each, in the order of the page; importing it registers its claims. Titles as the page prints them.
SECTIONS = {
    "prior": "The function-space prior (§II, §III-A)",
    "posterior": "The posterior predictive (§III-B, appendix)",
    "one_output": "One output (§III-B)",
    "several_outputs": "Several outputs (§III-B, §III-C)",
    "zero_temperature": "Zero temperature (§III-C)",
    "kernel": "The feature kernel (§IV, appendix)",
    "asymptotics": "Limit theories (§V)",
    "dual": "The adaptive-kernel interpretation (§VI)",
}


@dataclass(frozen=True)
class Run:
    """What a check may draw on: random numbers of its own, and how many; and where it may keep records."""

    claim_id: str
    seed: int = 0
    quick: bool = False
    #: Measurements worth keeping beside the verdict, as plain JSON values: into claims.json and the figure.
    record: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def rng(self) -> np.random.Generator:
        """A generator that depends on the seed and on the claim, not on the other claims."""
        return np.random.default_rng([self.seed, zlib.crc32(self.claim_id.encode())])

    def draws(self, full: int) -> int:
        """Number of Monte Carlo draws: all of them, or a tenth with --quick."""
        return full // 10 if self.quick else full

    def seeds(self, count: int) -> range:
        """Seeds of independent runs of the library, none of them shared with another seed of the report."""
        return range(count * self.seed, count * (self.seed + 1))


@dataclass(frozen=True)
class Picture:
    """A figure and the words that go with it: what to see, and what is drawn for those who cannot see it."""

    figure: Figure
    caption: str
    alt: str


Check = Callable[[Run], float]
Draw = Callable[[Run], Picture]


@dataclass(frozen=True)
class Claim:
    """One result of the paper and the check that measures how far the library is from it."""

    id: str
    equation: str
    statement: str
    route: str
    tolerance: float
    tolerance_reason: str
    check: Check
    latex: tuple[str, ...] = ()
    correction: str = ""
    figure: Draw | None = None

    @property
    def section(self) -> str:
        """The part of the identifier before the first dot."""
        return self.id.partition(".")[0]


@dataclass(frozen=True)
class Outcome:
    """A claim with what was measured; `discrepancy` is NaN where the check raised an error."""

    claim: Claim
    discrepancy: float
    seconds: float
    error: str = ""
    record: dict[str, Any] = field(default_factory=dict)
    picture: Picture | None = None

    @property
    def verdict(self) -> str:
        """holds, corrected (holds, once the printed text is corrected) or fails."""
        if self.error or not self.discrepancy <= self.claim.tolerance:
            return "fails"
        return "corrected" if self.claim.correction else "holds"

    def as_json(self) -> dict[str, Any]:
        """The outcome as plain JSON values; a discrepancy that is not finite becomes null."""
        words = {name: getattr(self.claim, name) for name in _WORDS}
        return {
            **words,
            "discrepancy": self.discrepancy if math.isfinite(self.discrepancy) else None,
            "verdict": self.verdict,
            "seconds": round(self.seconds, 3),
            "error": self.error,
            "record": self.record,
            "caption": self.picture.caption if self.picture else "",
        }


VERDICTS = ("holds", "corrected", "fails")
#: Of a claim, into claims.json.
_WORDS = (
    *("id", "section", "equation", "latex", "statement", "route", "tolerance", "tolerance_reason"),
    "correction",
)

CLAIMS: dict[str, Claim] = {}


def claim(*, latex: str | Sequence[str] = (), **words: Any) -> Callable[[Check], Check]:
    """Register a check as a claim. The check returns the measured discrepancy.

    Parameters
    ----------
    id : str
        "section.name", unique.
    equation : str
        Where in the paper: "(7)" as LaTeX numbers its equations, or a section.
    statement : str
        What is claimed.
    route : str
        What the library is compared with.
    tolerance : float
        Largest discrepancy at which the claim holds.
    tolerance_reason : str
        Where the tolerance comes from. `compare.rounding(1e-11)`, `compare.quadrature(1e-10)` and
        `compare.standard_errors(6)` give both: `**rounding(1e-11)`.
    latex : str or sequence of str
        The equation as printed, each a displayed line; no environments but matrices.
    correction : str, optional
        What the printed text must be corrected to for the claim to hold.
    figure : function of a Run, optional
        Returns a `Picture`. It runs after the check and has the check's `run.record`.
    """

    def register(check: Check) -> Check:
        found = Claim(latex=(latex,) if isinstance(latex, str) else tuple(latex), check=check, **words)
        if found.id in CLAIMS:
            raise ValueError(f"claim identifiers must be unique, got {found.id!r} twice")
        CLAIMS[found.id] = found
        return check

    return register


def load() -> None:
    """Import every section, which registers its claims."""
    for section in SECTIONS:
        importlib.import_module(f"lbnn.paper.claims.{section}")


def section_title(section: str) -> str:
    """Title of the section of a claim; sections that the page does not list keep their name."""
    return SECTIONS.get(section.replace("-", "_"), section.replace("-", " ").capitalize())


def select(only: Iterable[str]) -> list[Claim]:
    """The claims whose identifier or section is in `only`; all of them if it is empty."""
    wanted = list(only)
    for name in wanted:
        if not any(name in (each.id, each.section) for each in CLAIMS.values()):
            raise ValueError(f"--only takes a claim or a section, got {name!r}: try --list")
    return [each for each in CLAIMS.values() if not wanted or {each.id, each.section} & set(wanted)]


def judge(claim: Claim, seed: int, quick: bool) -> Outcome:
    """Run the check of one claim and draw its figure. An error in them fails the claim, not the report."""
    started = time.perf_counter()
    discrepancy, error, picture = math.nan, "", None
    run = Run(claim.id, seed, quick)
    try:
        discrepancy = float(claim.check(run))
        picture = claim.figure(run) if claim.figure else None
    except Exception as problem:
        error = f"{type(problem).__name__}: {problem}"
    return Outcome(claim, discrepancy, time.perf_counter() - started, error, run.record, picture)
