"""What every engine returns: the posterior measure of the scale, the evidence, and how far to trust them."""

from __future__ import annotations

from dataclasses import dataclass

from lbnn.scale.measure import ScaleMeasure


@dataclass(frozen=True)
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
    """

    engine: str
    effective_sample_size: float
    pareto_k: float | None = None
    ok: bool = True
    messages: tuple[str, ...] = ()
    stages: int = 0


@dataclass(frozen=True)
class ScaleInference:
    """An engine's answer: prior × likelihood factor → measure and log evidence."""

    measure: ScaleMeasure
    log_evidence: float
    log_evidence_error: float
    diagnostics: Diagnostics
