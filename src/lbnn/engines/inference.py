"""What every engine returns: the posterior measure of the scale, the evidence, and how far to trust them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from lbnn.scale.measure import ScaleMeasure

_ALLOWED = 3.0  # joint standard errors between two witnesses that agree


@dataclass(frozen=True)
class Witness:
    """One estimate of the log evidence: how it was made, its value and its standard error."""

    method: str
    log_evidence: float
    error: float

    def agrees_with(self, other: Witness) -> bool:
        """Whether two estimates differ by no more than their errors allow."""
        return abs(self.log_evidence - other.log_evidence) <= _ALLOWED * math.hypot(self.error, other.error)


@dataclass(frozen=True, repr=False)
class Diagnostics:
    """How an answer was computed and whether it supports itself.

    Attributes
    ----------
    engine : str
        Name of the engine.
    effective_sample_size : float
        Infinite for deterministic engines.
    pareto_k : float or None
        Tail index of importance weights; None where there are none.
    ok : bool
        False means that an `AccuracyWarning` was given.
    messages : tuple of str
        What was noticed, and what to try next.
    stages : int
        Temperatures that sequential Monte Carlo went through; 0 for other engines.
    witnesses : tuple of Witness
        Estimates of the log evidence that share no proposal; `ok` needs them to agree. Empty where the answer
        is deterministic, one where a second is not needed (see docs/engines.md).
    """

    engine: str
    effective_sample_size: float
    pareto_k: float | None = None
    ok: bool = True
    messages: tuple[str, ...] = ()
    stages: int = 0
    witnesses: tuple[Witness, ...] = ()

    def __repr__(self) -> str:
        """One line: who answered, whether it supports itself, and how many witnesses were heard."""
        return (
            f"Diagnostics(engine={self.engine!r}, ok={self.ok}, "
            f"effective_sample_size={self.effective_sample_size:.4g}, pareto_k={self.pareto_k}, "
            f"witnesses={len(self.witnesses)}, messages={len(self.messages)})"
        )

    def shifted(self, log_constant: float) -> Diagnostics:
        """The same with a constant added to the log evidence of every witness."""
        witnesses = (replace(one, log_evidence=one.log_evidence + log_constant) for one in self.witnesses)
        return replace(self, witnesses=tuple(witnesses))


@dataclass(frozen=True)
class ScaleInference:
    """An engine's answer: prior × likelihood factor → measure and log evidence."""

    measure: ScaleMeasure
    log_evidence: float
    log_evidence_error: float
    diagnostics: Diagnostics

    def doubted(self, message: str) -> ScaleInference:
        """The same answer, not ok for a reason that the engine cannot know."""
        known = self.diagnostics
        return replace(self, diagnostics=replace(known, ok=False, messages=(*known.messages, message)))
