"""One claim on the page."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from html import escape
from typing import Any

from lbnn.paper.page import mathml
from lbnn.paper.page.images import Image
from lbnn.paper.registry import Claim, Outcome, Picture

MARKS = {"holds": "✓", "corrected": "✎", "fails": "✗"}


def card(outcome: Outcome, image: Image | None) -> str:
    """The claim, its equation, what was measured and its picture."""
    claim, name = outcome.claim, escape(outcome.claim.id)
    parts = [
        f'<article class="claim" id="{name}" aria-labelledby="{name}-title">\n<h3>'
        f'<a id="{name}-title" href="#{name}">{name}</a> <span class="place">{escape(claim.equation)}</span>'
        f'<span class="verdict {outcome.verdict}"><span aria-hidden="true">{MARKS[outcome.verdict]}</span> '
        f"{outcome.verdict}</span></h3>\n",
        f"<p>{prose(claim.statement)}</p>\n",
        *(_equation(latex, claim) for latex in claim.latex),
        _note("corrected", "Correction", claim.correction),
        _note("fails", "Error", outcome.error),
        _measured(outcome),
        _record(outcome.record),
        _figure(outcome.picture, image),
        "</article>\n",
    ]
    return "".join(parts)


def prose(text: str) -> str:
    """Plain text with `code` marked, and subscripts and superscripts set: n_1, G_xx, det(L)^{−1/2}."""
    parts = re.split(r"`([^`]*)`", escape(text))
    return "".join(f"<code>{part}</code>" if odd % 2 else _indices(part) for odd, part in enumerate(parts))


_SUBSCRIPT = re.compile(r"_(?:\{([^{}]*)\}|([0-9]+|[A-Za-z\u0370-\u03ffℓ∞\u0302]+))")
_SUPERSCRIPT = re.compile(r"\^(?:\{([^{}]*)\}|(\w))")


def _indices(text: str) -> str:
    text = _SUBSCRIPT.sub(lambda m: f"<sub>{m[1] or m[2]}</sub>", text)
    return _SUPERSCRIPT.sub(lambda m: f"<sup>{m[1] or m[2]}</sup>", text)


def number(value: float) -> str:
    """A number as a reader writes it: 3.2, 0.05, 1.2 × 10⁻¹⁴."""
    if math.isnan(value):
        return "not computed"
    if value == 0 or 0.01 <= abs(value) < 1e4:
        return f"{value:.2g}" if abs(value) < 1 else f"{value:.3g}"
    if math.isinf(value):
        return "∞"
    digits, exponent = f"{value:.1e}".split("e")
    sign = "−" if int(exponent) < 0 else ""
    return f"{digits} × 10<sup>{sign}{abs(int(exponent))}</sup>"


def _equation(latex: str, claim: Claim) -> str:
    """Wide equations scroll inside their own box, which the keyboard reaches too."""
    label = escape(f"Equation of {claim.id}")
    math = mathml.display(latex)
    return f'<div class="equation" role="group" tabindex="0" aria-label="{label}">{math}</div>\n'


def _note(kind: str, name: str, text: str) -> str:
    return f'<p class="note {kind}"><strong>{name}.</strong> <span>{prose(text)}</span></p>\n' if text else ""


def _measured(outcome: Outcome) -> str:
    claim = outcome.claim
    rows = {
        "Compared with": prose(claim.route),
        "Discrepancy": number(outcome.discrepancy),
        "Tolerance": f"{number(claim.tolerance)} <small>({prose(claim.tolerance_reason)})</small>",
        "Time": f"{outcome.seconds:.2f} s",
    }
    return (
        "<dl>\n" + "".join(f"<dt>{name}</dt><dd>{value}</dd>\n" for name, value in rows.items()) + "</dl>\n"
    )


def _record(record: Mapping[str, Any]) -> str:
    """Further numbers that the check kept, one row each."""
    if not record:
        return ""
    rows = "".join(
        f'<tr><th scope="row">{escape(name)}</th>'
        + "".join(f'<td class="count">{_plain(value)}</td>' for value in _as_list(values))
        + "</tr>\n"
        for name, values in record.items()
    )
    return (
        f'<div class="scroll" tabindex="0" role="group" aria-label="Measured"><table>\n{rows}</table></div>\n'
    )


def _plain(value: float) -> str:
    """Four digits, large numbers in full."""
    text = f"{value:,.0f}" if 1e4 <= abs(value) < 1e8 else f"{value:.4g}"
    return text.replace("-", "−")


def _as_list(values: Any) -> list[float]:
    return list(values) if isinstance(values, (list, tuple)) else [values]


def _figure(picture: Picture | None, image: Image | None) -> str:
    if picture is None or image is None:
        return ""
    return (
        f'<figure>\n<img src="{image.data_uri}" width="{image.width}" height="{image.height}" '
        f'alt="{escape(picture.alt)}">\n<figcaption>{prose(picture.caption)}</figcaption>\n</figure>\n'
    )
