"""A small document of headings, lines, tables and pictures: in a terminal, as text, Markdown or HTML."""

from __future__ import annotations

import base64
import html
import io
import re
from collections.abc import Callable, Sequence
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
.caption { font-style: italic; margin: 1rem 0 -0.6rem; }
th, td { padding: 0.2rem 0.8rem; text-align: right; border-bottom: 1px solid #8884; }
th:first-child, td:first-child { text-align: left; }
nav ul { columns: 2 16rem; padding-left: 1.2rem; } nav li { break-inside: avoid; }
p, li { overflow-wrap: anywhere; }
figure { margin: 1.5rem 0; } figure img { max-width: 100%; height: auto; background: #fff; }
@media print { .wide { overflow: visible; } }
"""


@dataclass(frozen=True)
class Grid:
    """A table: first column left, the others right."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""


@dataclass(frozen=True)
class Picture:
    """A picture, drawn as SVG where it is shown; text and terminals go without."""

    caption: str
    draw: Callable[[], str]


@dataclass
class Section:
    """A heading with lines, tables and pictures below it, in this order."""

    title: str
    parts: list[str | Grid | Picture] = field(default_factory=list)

    @property
    def anchor(self) -> str:
        """What links to it end in."""
        return re.sub(r"[^a-z0-9]+", "-", self.title.lower()).strip("-")


@dataclass
class Document:
    """A title and sections."""

    title: str
    sections: list[Section] = field(default_factory=list)

    def show(self, console: Console) -> None:
        """Print it."""
        console.print(Text(self.title, style="bold"))
        for section in self.sections:
            if all(isinstance(part, Picture) for part in section.parts):
                continue
            console.print()
            console.print(Text(section.title, style="bold"))
            for part in section.parts:
                if isinstance(part, str):
                    console.print(Text(part))
                elif isinstance(part, Grid):
                    show_grid(part, console)

    def text(self) -> str:
        """As plain text."""
        page = io.StringIO()
        self.show(Console(file=page, width=160, color_system=None))
        return "\n".join(line.rstrip() for line in page.getvalue().splitlines()) + "\n"

    def html(self) -> str:
        """As one page that needs nothing else."""
        title = html.escape(self.title)
        links = "".join(
            f'<li><a href="#{section.anchor}">{html.escape(section.title)}</a></li>'
            for section in self.sections
        )
        body = f'<nav aria-label="Contents"><ul>{links}</ul></nav>\n'
        for section in self.sections:
            body += f'<section><h2 id="{section.anchor}">{html.escape(section.title)}</h2>\n'
            body += "\n".join(map(_html_part, section.parts)) + "</section>\n"
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
        contents = "\n".join(f"- [{section.title}](#{section.anchor})" for section in self.sections)
        blocks = [f"# {self.title}", contents]
        for section in self.sections:
            blocks.append(f"## {section.title}")
            blocks += [_markdown_part(part) for part in section.parts]
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


def _markdown_part(part: str | Grid | Picture) -> str:
    if isinstance(part, Picture):
        return f"![{part.caption}]({_embedded(part.draw())})\n\n*{part.caption}*"
    return part if isinstance(part, str) else _markdown_grid(part)


def _markdown_grid(grid: Grid) -> str:
    """A table with its caption above."""

    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

    rule = "|" + "|".join([":--", *["--:"] * (len(grid.header) - 1)]) + "|"
    caption = f"*{grid.caption}*\n\n" if grid.caption else ""
    return caption + "\n".join([line(grid.header), rule, *map(line, grid.rows)])


def _html_part(part: str | Grid | Picture) -> str:
    if isinstance(part, Grid):
        above = f'<p class="caption">{html.escape(part.caption)}</p>' if part.caption else ""
        return above + html_table(part.header, part.rows)  # a caption within would be as narrow as the table
    if isinstance(part, str):
        return f"<p>{html.escape(part)}</p>"
    caption = html.escape(part.caption)
    return (
        f'<figure><img alt="{caption}" src="{_embedded(part.draw())}">'
        f"<figcaption>{caption}</figcaption></figure>"
    )
