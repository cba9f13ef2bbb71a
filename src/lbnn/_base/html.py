"""Small tables for notebooks and reports, as HTML that loads nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape


def card(title: str, rows: Iterable[tuple[str, object]]) -> str:
    """A titled table of names and values, all text escaped.

    Examples
    --------
    >>> "<td>1 &lt; 2</td>" in card("Example", [("rule", "1 < 2")])
    True
    """
    cells = "".join(
        f'<tr><th style="text-align:left">{escape(name)}</th><td>{escape(str(value))}</td></tr>'
        for name, value in rows
    )
    return f"<div><strong>{escape(title)}</strong><table>{cells}</table></div>"


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
