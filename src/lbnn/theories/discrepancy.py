"""The error of a theory in one quantity, and many of them as a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

#: What is compared, and in which units the error is given.
QUANTITIES = {
    "kernel": "‖K − ⟨K⟩‖ / ‖⟨K⟩‖",
    "kernel correction": "‖K − ⟨K⟩‖ / ‖⟨K⟩ − G‖",
    "scale": "‖L − E L‖ / ‖E L‖",
    "mean": "‖mean − exact‖ / ‖exact‖",
    "covariance": "‖cov − exact‖ / ‖exact‖, across outputs at each point",
    "log evidence": "log p − exact, in nats",
}


@dataclass(frozen=True)
class Discrepancy:
    """One theory and one quantity: its error, and the Monte Carlo error of the exact side in its units."""

    theory: str
    quantity: str
    error: float
    monte_carlo: float


def error_grid(theories: Sequence[str], rows: Sequence[Discrepancy]) -> list[tuple[str, ...]]:
    """A line of text for each theory, a cell for each of `QUANTITIES`; then the Monte Carlo error."""
    errors = {(row.theory, row.quantity): row.error for row in rows}
    known = {row.quantity: row.monte_carlo for row in rows}
    lines = [(name, *(_cell(errors.get((name, each)), 2) for each in QUANTITIES)) for name in theories]
    return [*lines, ("Monte Carlo", *(_cell(known.get(each), 1) for each in QUANTITIES))]


def _cell(value: float | None, digits: int) -> str:
    return "–" if value is None else f"{value:.{digits}g}".replace("inf", "∞")
