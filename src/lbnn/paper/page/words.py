"""Words and numbers of the page, as the templates' filters."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from markupsafe import Markup

_SUBSCRIPT = re.compile(r"_(?:\{([^{}]*)\}|([0-9]+|[A-Za-z\u0370-\u03ffℓ∞\u0302]+))")
_SUPERSCRIPT = re.compile(r"\^(?:\{([^{}]*)\}|(\w))")


def prose(text: str) -> Markup:
    """Plain text with `code` marked, and subscripts and superscripts set: n_1, G_xx, det(L)^{−1/2}."""
    from markupsafe import Markup, escape

    parts = re.split(r"`([^`]*)`", str(escape(text)))
    return Markup(
        "".join(f"<code>{part}</code>" if odd % 2 else _indices(part) for odd, part in enumerate(parts))
    )


def _indices(text: str) -> str:
    text = _SUBSCRIPT.sub(lambda m: f"<sub>{m[1] or m[2]}</sub>", text)
    return _SUPERSCRIPT.sub(lambda m: f"<sup>{m[1] or m[2]}</sup>", text)


def number(value: float) -> str:
    """A number as a reader writes it, for `prose`: 3.2, 0.05, 1.2 × 10^{−14}."""
    if math.isnan(value):
        return "not computed"
    if value == 0 or 0.01 <= abs(value) < 1e4:
        return f"{value:.2g}" if abs(value) < 1 else f"{value:.3g}"
    if math.isinf(value):
        return "∞"
    digits, exponent = f"{value:.1e}".split("e")
    sign = "−" if int(exponent) < 0 else ""
    return f"{digits} × 10^{{{sign}{abs(int(exponent))}}}"


def plain(value: float) -> str:
    """Four digits, large numbers in full."""
    text = f"{value:,.0f}" if 1e4 <= abs(value) < 1e8 else f"{value:.4g}"
    return text.replace("-", "−")


def as_list(values: Any) -> list[float]:
    """One number, or several, as a list."""
    return list(values) if isinstance(values, (list, tuple)) else [values]
