"""Claims and their verdicts."""

from __future__ import annotations

import importlib
import math
import time
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

#: One file each, in the order of the paper; importing it registers its claims.
SECTIONS = ("prior", "posterior", "one_output", "zero_temperature", "kernel")


@dataclass(frozen=True)
class Run:
    """What a check may draw on: random numbers of its own, and how many."""

    claim_id: str
    seed: int = 0
    quick: bool = False

    @cached_property
    def rng(self) -> np.random.Generator:
        """A generator that depends on the seed and on the claim, not on the other claims."""
        return np.random.default_rng([self.seed, zlib.crc32(self.claim_id.encode())])

    def draws(self, full: int) -> int:
        """Number of Monte Carlo draws: all of them, or a tenth with --quick."""
        return full // 10 if self.quick else full


Check = Callable[[Run], float]


@dataclass(frozen=True)
class Claim:
    """One result of the paper and the check that measures how far the library is from it."""

    id: str
    equation: str
    statement: str
    route: str
    tolerance: float
    check: Check
    correction: str = ""

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

    @property
    def verdict(self) -> str:
        """holds, corrected (holds, once the printed text is corrected) or fails."""
        if not self.discrepancy <= self.claim.tolerance:
            return "fails"
        return "corrected" if self.claim.correction else "holds"

    def as_json(self) -> dict[str, Any]:
        """The outcome as plain JSON values; a discrepancy that is not finite becomes null."""
        claim = self.claim
        return {
            "id": claim.id,
            "section": claim.section,
            "equation": claim.equation,
            "statement": claim.statement,
            "route": claim.route,
            "discrepancy": self.discrepancy if math.isfinite(self.discrepancy) else None,
            "tolerance": claim.tolerance,
            "verdict": self.verdict,
            "correction": claim.correction,
            "seconds": round(self.seconds, 3),
            "error": self.error,
        }


CLAIMS: dict[str, Claim] = {}


def claim(
    *, id: str, equation: str, statement: str, route: str, tolerance: float, correction: str = ""
) -> Callable[[Check], Check]:
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
    correction : str, optional
        What the printed text must be corrected to for the claim to hold.
    """

    def register(check: Check) -> Check:
        if id in CLAIMS:
            raise ValueError(f"claim identifiers must be unique, got {id!r} twice")
        CLAIMS[id] = Claim(id, equation, statement, route, tolerance, check, correction)
        return check

    return register


def load() -> None:
    """Import every section, which registers its claims."""
    for section in SECTIONS:
        importlib.import_module(f"lbnn.report.{section}")


def select(only: Iterable[str]) -> list[Claim]:
    """The claims whose identifier or section is in `only`; all of them if it is empty."""
    wanted = list(only)
    for name in wanted:
        if not any(name in (each.id, each.section) for each in CLAIMS.values()):
            raise ValueError(f"--only takes a claim or a section, got {name!r}: try --list")
    return [each for each in CLAIMS.values() if not wanted or {each.id, each.section} & set(wanted)]


def judge(claim: Claim, seed: int, quick: bool) -> Outcome:
    """Run the check of one claim. An error in it fails the claim, not the report."""
    started = time.perf_counter()
    discrepancy, error = math.nan, ""
    try:
        discrepancy = float(claim.check(Run(claim.id, seed, quick)))
    except Exception as problem:
        error = f"{type(problem).__name__}: {problem}"
    return Outcome(claim, discrepancy, time.perf_counter() - started, error)
