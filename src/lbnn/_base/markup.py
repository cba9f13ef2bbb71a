"""Small pieces of HTML for notebooks and reports; every text is escaped."""

from __future__ import annotations

import html
from collections.abc import Sequence

#: Okabe and Ito's colours, told apart by colour-blind readers: of every picture.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")


def html_table(header: Sequence[str], rows: Sequence[Sequence[str]], caption: str = "") -> str:
    """A table that scrolls sideways where it does not fit."""
    top = f"<caption>{html.escape(caption)}</caption>" if caption else ""
    names = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in header)
    lines = "\n".join(
        "<tr>" + "".join(f"<td>{html.escape(value)}</td>" for value in row) + "</tr>" for row in rows
    )
    body = f"<thead><tr>{names}</tr></thead><tbody>{lines}</tbody>"
    return f'<div class="wide" style="overflow-x: auto"><table>{top}{body}</table></div>'
