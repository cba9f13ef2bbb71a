"""A small document of headings, lines and tables, shown in a terminal, as plain text or as HTML."""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Sequence
from dataclasses import dataclass, field

from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from lbnn._base.html import table as html_table

REPORT_FORMATS = (".html", ".txt", ".md")

_STYLE = """
:root { color-scheme: light dark; }
body { font: 1rem/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; margin: 1rem 0; }
caption { text-align: left; font-style: italic; padding-bottom: 0.3rem; }
th, td { padding: 0.2rem 0.8rem; text-align: right; border-bottom: 1px solid #8884; }
th:first-child, td:first-child { text-align: left; }
figure { margin: 1.5rem 0; } figure img { max-width: 100%; height: auto; background: #fff; }
@media print { .wide { overflow: visible; } }
"""


@dataclass(frozen=True)
class Grid:
    """A table: first column left, the others right."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""


@dataclass
class Section:
    """A heading with lines and tables below it, in this order."""

    title: str
    parts: list[str | Grid] = field(default_factory=list)


@dataclass
class Document:
    """A title and sections."""

    title: str
    sections: list[Section] = field(default_factory=list)
    pictures: list[tuple[str, str]] = field(default_factory=list)  # captions and SVG

    def show(self, console: Console) -> None:
        """Print it."""
        console.print(Text(self.title, style="bold"))
        for section in self.sections:
            console.print()
            console.print(Text(section.title, style="bold"))
            for part in section.parts:
                if isinstance(part, str):
                    console.print(Text(part))
                else:
                    show_grid(part, console)

    def text(self) -> str:
        """As plain text."""
        page = io.StringIO()
        self.show(Console(file=page, width=160, color_system=None))
        return "\n".join(line.rstrip() for line in page.getvalue().splitlines()) + "\n"

    def html(self) -> str:
        """As one page that needs nothing else."""
        title = html.escape(self.title)
        body = "\n".join(_html_section(section) for section in self.sections)
        body += "".join(
            f'<figure><img alt="{html.escape(caption)}" src="{_embedded(svg)}">'
            f"<figcaption>{html.escape(caption)}</figcaption></figure>\n"
            for caption, svg in self.pictures
        )
        head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        return (
            f'<!doctype html>\n<html lang="en"><head>{head}<title>{title}</title>'
            f"<style>{_STYLE}</style></head>\n"
            f"<body><main><h1>{title}</h1>\n{body}\n</main></body></html>\n"
        )

    def rendered(self, suffix: str) -> str:
        """In the format that a file name asks for."""
        formats = {".html": self.html, ".md": self.markdown}
        return formats.get(suffix.lower(), self.text)()

    def markdown(self) -> str:
        """As Markdown, with the pictures inside."""
        blocks = [f"# {self.title}"]
        for section in self.sections:
            blocks.append(f"## {section.title}")
            blocks += [part if isinstance(part, str) else _markdown_grid(part) for part in section.parts]
        for caption, svg in self.pictures:
            blocks.append(f"![{caption}]({_embedded(svg)})\n\n*{caption}*")
        return "\n\n".join(blocks) + "\n"


def show_grid(grid: Grid, console: Console) -> None:
    """Print a table below its caption."""
    if grid.caption:
        console.print(Text(grid.caption, style="italic"))
    table = RichTable(box=None, pad_edge=False)
    for number, name in enumerate(grid.header):
        table.add_column(Text(name), justify="left" if number == 0 else "right", no_wrap=True)
    for row in grid.rows:
        table.add_row(*map(Text, row))
    console.print(table)


def _embedded(svg: str) -> str:
    """A picture as an address that needs no other file."""
    return f"data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()}"


def _markdown_grid(grid: Grid) -> str:
    """A table with its caption above."""

    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

    rule = "|" + "|".join([":--", *["--:"] * (len(grid.header) - 1)]) + "|"
    caption = f"*{grid.caption}*\n\n" if grid.caption else ""
    return caption + "\n".join([line(grid.header), rule, *map(line, grid.rows)])


def _html_section(section: Section) -> str:
    parts = "\n".join(
        f"<p>{html.escape(part)}</p>"
        if isinstance(part, str)
        else html_table(part.header, part.rows, part.caption)
        for part in section.parts
    )
    return f"<section><h2>{html.escape(section.title)}</h2>\n{parts}</section>"
