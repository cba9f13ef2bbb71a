"""What every posterior answers, whatever its data: the evidence, its error, diagnostics, one line of text."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Protocol

from lbnn._base.html import card
from lbnn.engines.inference import Diagnostics
from lbnn.scale.prior import ScalePrior


class Found(Protocol):
    """What an engine found."""

    @property
    def log_evidence(self) -> float: ...

    @property
    def log_evidence_error(self) -> float: ...

    @property
    def diagnostics(self) -> Diagnostics: ...


class Conditioned(ABC):
    """The base of all posteriors: a prior of the scale, and what an engine found given data."""

    prior: ScalePrior
    _channels: ClassVar[str] = "outputs"  # what rows and columns of the scale are called

    @property
    @abstractmethod
    def _examples(self) -> int:
        """p."""

    @property
    @abstractmethod
    def _found(self) -> Found:
        """What the engine found."""

    def __repr__(self) -> str:
        """One line: network, data, evidence, engine."""
        return (
            f"{type(self).__name__}(widths={self.prior.widths}, examples={self._examples}, "
            f"{self._channels}={self.prior.outputs}, log_evidence={self.log_evidence:.6g}, "
            f"engine={self.diagnostics.engine!r}, ok={self.diagnostics.ok})"
        )

    @property
    def log_evidence(self) -> float:
        """Log p(Y | X): log E_ϖ of the normalised likelihood (β/2π)^{p n_d/2} exp(−β/2 ‖F − Y‖²).

        At zero temperature the prior density of Y; −inf at β = 0, where every Y is infinitely unlikely.
        """
        return self._found.log_evidence

    @property
    def log_evidence_error(self) -> float:
        """Standard error of `log_evidence`; 0.0 where it is deterministic."""
        return self._found.log_evidence_error

    @property
    def diagnostics(self) -> Diagnostics:
        """How the answer was computed, and whether its checks were passed."""
        return self._found.diagnostics

    def _card(self, more: list[tuple[str, object]]) -> str:
        """A small table for notebooks, with some rows more."""
        error = f" ± {self.log_evidence_error:.2g}" if self.log_evidence_error else ""
        rows = [
            ("hidden widths", self.prior.widths or "none"),
            ("examples", self._examples),
            (self._channels, self.prior.outputs),
            *more,
            ("log evidence", f"{self.log_evidence:.6g}{error}"),
            ("engine", self.diagnostics.engine),
            ("diagnostics", "ok" if self.diagnostics.ok else "; ".join(self.diagnostics.messages)),
        ]
        return card(type(self).__name__, rows)
