"""Hooks of the site: equations become MathML, and stored results say when and how they were measured.

In a page, `<!-- measured: real-data.json -->` becomes one line with date, machine and command, from
the key `provenance` of that file in `benchmarks/results` or `studies`, so that no page has to repeat it.
"""

from __future__ import annotations

import html
import json
import re
from datetime import date
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from markdown import Markdown
from markdown.extensions import Extension

#: What pymdownx.arithmatex makes of $...$ and of $$...$$.
INLINE = re.compile(r'<span class="arithmatex">\\\((.*?)\\\)</span>', re.DOTALL)
DISPLAY = re.compile(r'<div class="arithmatex">\s*\\\[(.*?)\\\]\s*</div>', re.DOTALL)

MEASURED = re.compile(r"^<!-- measured: (?P<file>[\w-]+\.json) -->$", re.MULTILINE)
ROOT = Path(__file__).resolve().parent.parent


class PlainUnderscores(Extension):
    """Emphasis is written with asterisks: the underscores of W_1 and [W_ℓ]_ij mean subscripts."""

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802
        md.delimiters.remove("_")  # Python-Markdown 3.11 and later


def on_config(config: Any) -> Any:
    """Add the extension, for pages and docstrings alike."""
    config.markdown_extensions.append(PlainUnderscores())
    return config


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Print the provenance of stored results where the page asks for it."""
    return MEASURED.sub(lambda found: measured(found["file"]), markdown)


def measured(name: str) -> str:
    """One line on the results of a file."""
    (file,) = (found for folder in ("benchmarks/results", "studies") for found in (ROOT / folder).glob(name))
    records = json.loads(file.read_text(encoding="utf-8"))["provenance"]
    days = _distinct(f"{date.fromisoformat(record['date'][:10]):%d %B %Y}".lstrip("0") for record in records)
    machines = _distinct(record["machine"] for record in records)
    commands = _distinct(f"`{record['command']}`" for record in records)
    stored = f"`{file.relative_to(ROOT)}`"
    return f"{stored}: measured on {days}; {machines}; {commands}.\n{{: .measured }}"


def _distinct(texts: Any) -> str:
    return ", ".join(dict.fromkeys(texts))


def on_page_content(content: str, **_: Any) -> str:
    """Replace the equations of a rendered page, so that no script has to be fetched to draw them."""
    content = DISPLAY.sub(lambda found: f'<div class="formula">{_mathml(found[1], "block")}</div>', content)
    return INLINE.sub(lambda found: _mathml(found[1], "inline"), content)


def _mathml(latex: str, display: str) -> str:
    """One equation, with its source for those who cannot see it."""
    source = html.unescape(latex).strip()
    math = convert(source, display=display)
    math = re.sub(r"(<mi>(?:log|det|max)</mi>)(?!<mo)", r'\1<mspace width="0.17em"/>', math)  # log x, log(x)
    return math.replace("<math ", f'<math alttext="{html.escape(source)}" ', 1)
