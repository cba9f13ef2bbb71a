"""Small tables for notebooks and reports, and a picture of a law, as HTML that loads nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

import numpy as np

from lbnn._base.types import Array

_WIDTH, _HEIGHT, _FOOT = 240, 64, 14  # pixels: of the picture, and of the line of numbers under it
_POINTS = 120
_SMOOTHING = 0.06  # of the range: width of the kernel that makes a curve of draws


def card(title: str, rows: Iterable[tuple[str, object]], picture: str = "") -> str:
    """A titled table of names and values, all text escaped, with a picture (SVG, trusted) below.

    Examples
    --------
    >>> "<td>1 &lt; 2</td>" in card("Example", [("rule", "1 < 2")])
    True
    """
    cells = "".join(
        f'<tr><th style="text-align:left">{escape(name)}</th><td>{escape(str(value))}</td></tr>'
        for name, value in rows
    )
    return f"<div><strong>{escape(title)}</strong><table>{cells}</table>{picture}</div>"


def table(header: Sequence[str], rows: Sequence[Sequence[str]], caption: str = "") -> str:
    """A table of text, all of it escaped, that scrolls sideways where it does not fit.

    Examples
    --------
    >>> "<td>a &amp; b</td>" in table(("name",), [("a & b",)])
    True
    """
    top = f"<caption>{escape(caption)}</caption>" if caption else ""
    names = "".join(f'<th scope="col">{escape(name)}</th>' for name in header)
    lines = "\n".join(
        "<tr>" + "".join(f"<td>{escape(value)}</td>" for value in row) + "</tr>" for row in rows
    )
    body = f"<thead><tr>{names}</tr></thead><tbody>{lines}</tbody>"
    return f'<div class="wide" style="overflow-x: auto"><table>{top}{body}</table></div>'


def density_picture(values: Array, weights: Array, caption: str) -> str:
    """Density of log values (k,) with weights (k,), as an inline SVG; one value is a line."""
    logs, shares = _positive(values, weights)
    if not len(logs):
        return ""
    low, high = _range(logs, shares)
    x = np.linspace(low, high, _POINTS)
    width = _SMOOTHING * (high - low)
    total = np.concatenate([_density(part, logs, shares, width) for part in np.array_split(x, 4)])
    across = _WIDTH * (x - low) / (high - low)
    up = (_HEIGHT - 2) * (1 - total / max(float(total.max()), np.finfo(float).tiny)) + 2
    points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(across, up, strict=True))
    return (
        f'<svg width="{_WIDTH}" height="{_HEIGHT + _FOOT}" role="img" aria-label="{escape(caption)}">'
        f"<title>{escape(caption)}</title>"
        f'<polyline points="{points}" fill="none" stroke="currentColor" stroke-width="1.5"/>'
        f'<line x1="0" y1="{_HEIGHT}" x2="{_WIDTH}" y2="{_HEIGHT}" stroke="currentColor" opacity="0.4"/>'
        f"{_label(0, 'start', np.exp(low))}{_label(_WIDTH // 2, 'middle', caption)}"
        f"{_label(_WIDTH, 'end', np.exp(high))}</svg>"
    )


def _positive(values: Array, weights: Array) -> tuple[Array, Array]:
    """Logarithms of the positive values (k,), and their weights, (j,) each."""
    keep = (values > 0) & (weights > 0)
    return np.log(values[keep]), weights[keep]


def _range(logs: Array, shares: Array) -> tuple[float, float]:
    """A range that holds all but a thousandth of the mass of logs (j,) with shares (j,) at either end."""
    order = np.argsort(logs)
    mass = np.cumsum(shares[order]) / shares.sum()
    low, high = logs[order][np.searchsorted(mass, [0.001, 0.999]).clip(0, len(logs) - 1)]
    margin = max(0.1 * (high - low), 0.1)
    return float(low - margin), float(high + margin)


def _density(x: Array, logs: Array, shares: Array, width: float) -> Array:
    """Kernel density estimate at x (m,) from logs (j,) with shares (j,), (m,)."""
    return np.exp(-0.5 * ((x[:, None] - logs) / width) ** 2) @ shares


def _label(across: int, anchor: str, value: object) -> str:
    text = escape(value if isinstance(value, str) else f"{value:.2g}")
    return (
        f'<text x="{across}" y="{_HEIGHT + _FOOT - 3}" font-size="10" fill="currentColor" '
        f'text-anchor="{anchor}">{text}</text>'
    )
