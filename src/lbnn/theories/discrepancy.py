"""The error of a theory in one quantity, and many of them as a table and as a picture."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass

from lbnn._base.colours import COLOURS

#: What is compared, and in which units the error is given.
QUANTITIES = {
    "kernel": "‖K − ⟨K⟩‖ / ‖⟨K⟩‖",
    "kernel correction": "‖K − ⟨K⟩‖ / ‖⟨K⟩ − G‖",
    "scale": "‖L − E L‖ / ‖E L‖",
    "mean": "‖mean − exact‖ / ‖exact‖",
    "covariance": "‖cov − exact‖ / ‖exact‖, across outputs at each point",
    "log evidence": "log p − exact, in nats",
}

#: Smaller errors stand at the left edge of a picture.
SMALLEST_SHOWN = 1e-5

_LEFT, _WIDTH, _LINE = 130, 330, 26  # of the picture, in pixels: room for names, the axis, one quantity


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


def shown_quantities(rows: Sequence[Discrepancy]) -> list[str]:
    """Those of `QUANTITIES` that some theory answers."""
    return [name for name in QUANTITIES if any(row.quantity == name for row in rows)]


def error_picture(theories: Sequence[str], rows: Sequence[Discrepancy]) -> str:
    """An SVG: a row for each quantity, a dot for each theory, grey up to the Monte Carlo error; log axis."""
    quantities = shown_quantities(rows)
    sizes = [abs(row.error) for row in rows if math.isfinite(row.error)]
    largest = 10 ** math.ceil(math.log10(max([10 * SMALLEST_SHOWN, *sizes])))
    height = _LINE * len(quantities)
    parts = [_axis(largest, height)]
    for line, quantity in enumerate(quantities):
        middle = _LINE * (line + 0.5)
        parts.append(
            f'<text x="{_LEFT - 8}" y="{middle + 4:g}" text-anchor="end">{html.escape(quantity)}</text>'
        )
        noise = max(row.monte_carlo for row in rows if row.quantity == quantity)
        if noise > SMALLEST_SHOWN:
            end = _position(noise, largest) - _LEFT
            parts.append(
                f'<rect x="{_LEFT}" y="{middle - 9:g}" width="{end:.1f}" height="18" opacity="0.2"/>'
            )
    for number, name in enumerate(theories):
        colour, shift = COLOURS[number % len(COLOURS)], 14 * ((number + 0.5) / len(theories) - 0.5)
        for row in rows:
            if row.theory == name and math.isfinite(row.error):
                middle = _LINE * (quantities.index(row.quantity) + 0.5) + shift
                title = html.escape(f"{name}, {row.quantity}: {row.error:.3g}")
                place = f'cx="{_position(abs(row.error), largest):.1f}" cy="{middle:.1f}"'
                parts.append(f'<circle {place} r="3.5" fill="{colour}"><title>{title}</title></circle>')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="errors of the theories" '
        f'width="{_LEFT + _WIDTH + 20}" height="{height + 20}" fill="currentColor" font-size="12" '
        f'font-family="sans-serif">{"".join(parts)}</svg>'
    )


def _position(error: float, largest: float) -> float:
    """Where an error stands on the axis, in pixels."""
    low = math.log10(SMALLEST_SHOWN)
    share = (math.log10(max(error, SMALLEST_SHOWN)) - low) / (math.log10(largest) - low)
    return _LEFT + _WIDTH * min(share, 1.0)


def _axis(largest: float, height: int) -> str:
    """Thin lines at powers of ten, with their exponents below."""
    exponents = range(round(math.log10(SMALLEST_SHOWN)), round(math.log10(largest)) + 1)
    step = 1 + len(exponents) // 10
    return "".join(
        f'<path d="M{_position(10.0**e, largest):.1f} 0V{height}" stroke="currentColor" opacity="0.15"/>'
        f'<text x="{_position(10.0**e, largest):.1f}" y="{height + 15}" text-anchor="middle">1e{e}</text>'
        for e in exponents
        if e % step == 0
    )


def legend(theories: Sequence[str]) -> str:
    """The theories in the colours of the picture."""
    return " ".join(
        f'<span style="white-space: nowrap"><span style="color: {COLOURS[number % len(COLOURS)]}">●</span> '
        f"{html.escape(name)}</span>"
        for number, name in enumerate(theories)
    )
