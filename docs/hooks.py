"""Hooks of the site: equations become MathML while the site is built, and subscripts stay subscripts."""

from __future__ import annotations

import html
import re
from typing import Any

from latex2mathml.converter import convert
from markdown import Markdown
from markdown.extensions import Extension

#: What pymdownx.arithmatex makes of $...$ and of $$...$$.
INLINE = re.compile(r'<span class="arithmatex">\\\((.*?)\\\)</span>', re.DOTALL)
DISPLAY = re.compile(r'<div class="arithmatex">\s*\\\[(.*?)\\\]\s*</div>', re.DOTALL)


class PlainUnderscores(Extension):
    """Emphasis is written with asterisks: the underscores of W_1 and [W_ℓ]_ij mean subscripts."""

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802
        md.delimiters.remove("_")  # Python-Markdown 3.11 and later


def on_config(config: Any) -> Any:
    """Add the extension, for pages and docstrings alike."""
    config.markdown_extensions.append(PlainUnderscores())
    return config


def on_page_content(content: str, **_: Any) -> str:
    """Replace the equations of a rendered page, so that no script has to be fetched to draw them."""
    content = DISPLAY.sub(lambda found: f'<div class="formula">{_mathml(found[1], "block")}</div>', content)
    return INLINE.sub(lambda found: _mathml(found[1], "inline"), content)


def _mathml(latex: str, display: str) -> str:
    """One equation, with its source for those who cannot see it."""
    source = html.unescape(latex).strip()
    math = convert(source, display=display)
    return math.replace("<math ", f'<math alttext="{html.escape(source)}" ', 1)
