"""What is asked of the engines, and what they answer: the measure of the scale, the evidence, diagnostics."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from lbnn.engines.policy import POLICY, Policy, joint_errors
from lbnn.scale.measure import ScaleMeasure


@dataclass(frozen=True)
class InferenceOptions:
    """What is asked for.

    Attributes
    ----------
    target_error : float
        Standard error aimed at: of the log evidence, and of means in posterior standard deviations.
    seed : int
        From which every random stream is derived by its name.
    engine : str
        "auto", or the name of one engine.
    rough : bool
        Whether a few dozen effective draws without a cross-check are enough: one of many models in a mixture.
    """

    target_error: float
    seed: int
    engine: str = "auto"
    rough: bool = False


@dataclass(frozen=True)
class EvidenceEstimate:
    """One estimate of the log evidence: how it was made, its value and its standard error."""

    method: str
    log_evidence: float
    error: float

    def agrees_with(self, other: EvidenceEstimate, policy: Policy = POLICY) -> bool:
        """Whether two estimates differ by no more than chance allows, as `ok` needs it."""
        allowed = joint_errors(0.5 * policy.false_alarm) * math.hypot(self.error, other.error)
        return abs(self.log_evidence - other.log_evidence) <= allowed


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
        True where there are no messages. False means that an `AccuracyWarning` was given.
    messages : tuple of str
        What was noticed, and what to try next.
    stages : int
        Temperatures that sequential Monte Carlo went through; 0 for other engines.
    estimates : tuple of EvidenceEstimate
        Estimates of the log evidence that share no proposal; `ok` needs them to agree. Empty where the answer
        is deterministic, one where a second is not needed (see docs/engines.md).
    """

    engine: str
    effective_sample_size: float
    pareto_k: float | None = None
    ok: bool = True
    messages: tuple[str, ...] = ()
    stages: int = 0
    estimates: tuple[EvidenceEstimate, ...] = ()

    def __post_init__(self) -> None:
        """An answer with messages is not ok, whoever made it."""
        object.__setattr__(self, "ok", self.ok and not self.messages)

    def __repr__(self) -> str:
        """One line: the engine, whether the answer supports itself, and how many estimates were compared."""
        return (
            f"Diagnostics(engine={self.engine!r}, ok={self.ok}, "
            f"effective_sample_size={self.effective_sample_size:.4g}, pareto_k={self.pareto_k}, "
            f"estimates={len(self.estimates)}, messages={len(self.messages)})"
        )

    def shifted(self, log_constant: float) -> Diagnostics:
        """The same with a constant added to the log evidence of every estimate."""
        estimates = (replace(one, log_evidence=one.log_evidence + log_constant) for one in self.estimates)
        return replace(self, estimates=tuple(estimates))

    def with_message(self, message: str) -> Diagnostics:
        """The same with one message more, and so not ok."""
        return replace(self, messages=(*self.messages, message))


@dataclass(frozen=True)
class ScaleInference:
    """An engine's answer: prior × likelihood factor → measure and log evidence."""

    measure: ScaleMeasure
    log_evidence: float
    log_evidence_error: float
    diagnostics: Diagnostics

    def doubted(self, message: str) -> ScaleInference:
        """The same answer, not ok for a reason outside of the engine."""
        return replace(self, diagnostics=self.diagnostics.with_message(message))
