"""LaTeX to MathML, when a page is built: browsers then need no script and no font from outside."""

from __future__ import annotations

import re
from collections.abc import Callable
from html import escape
from typing import TYPE_CHECKING

from lbnn._base.extras import needed

if TYPE_CHECKING:
    from markupsafe import Markup

SCRIPT = dict(zip("DGIMNOW", "𝒟𝒢ℐℳ𝒩𝒪𝒲", strict=True))
_SPLIT = re.compile(r"(<math[^>]*>)(.*)(</math>)", re.DOTALL)


def display(latex: str) -> Markup:
    """A displayed equation, with its LaTeX as an annotation for those who copy it."""
    from markupsafe import Markup

    opening, body, closing = _parts(latex)
    note = f'<annotation encoding="application/x-tex">{escape(latex, quote=False)}</annotation>'
    return Markup(f"{opening}<semantics>{_polished(body)}{note}</semantics>{closing}")


def converter() -> Callable[..., str]:
    """The library that converts, or an error that says how to get it."""
    try:
        from latex2mathml.converter import convert
    except ImportError as error:
        raise ImportError(needed("an equation", "latex2mathml", "report")) from error
    return convert


def _parts(latex: str) -> tuple[str, str, str]:
    found = _SPLIT.fullmatch(converter()(latex, display="block"))
    if not found:
        raise ValueError(f"latex must convert to one <math> element, got {latex!r}")
    return found[1], found[2], found[3]


def _polished(body: str) -> str:
    """What browsers need and the converter does not give: operators as operators, script letters."""
    body = re.sub(r'<mi mathvariant="script">(\w)</mi>', lambda m: f"<mi>{SCRIPT[m[1]]}</mi>", body)
    body = body.replace("<mi>&#x0007E;</mi>", "<mo>&#x0223C;</mo>")  # ∼
    body = re.sub(r"<mi>(&#x027E[89];|&#x02016;|&#x02223;)</mi>", r'<mo stretchy="false">\1</mo>', body)
    body = re.sub(r"<mi>(&#x003(?:9[1-9A-F]|A[0-9]);)</mi>", r'<mi mathvariant="normal">\1</mi>', body)  # Γ
    body = re.sub(r"<msub>(<mo>lim</mo><mrow>.*?</mrow>)</msub>", r"<munder>\1</munder>", body)
    return re.sub(r"<mo>(v|etr|tr|cov|Gamma)</mo>", r'<mi mathvariant="normal">\1</mi>', body)
