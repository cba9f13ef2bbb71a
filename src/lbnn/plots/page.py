"""Documents of headings, lines, tables and pictures: in a terminal, as text, Markdown, or a page of HTML."""

from __future__ import annotations

import base64
import html
import io
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from lbnn._base.extras import needed

if TYPE_CHECKING:
    from jinja2 import Template
    from matplotlib.figure import Figure
    from rich.console import Console

FORMATS = (".html", ".txt", ".md")
INK = "#1b1f24"  # of axes and words; the grey of auxiliary lines reads on both grounds
#: One look for all pictures; letters are drawn as paths, so that no font is needed, and files carry no date.
STYLE: Any = {  # keys are literals to matplotlib's types
    "svg.hashsalt": "lbnn",
    "svg.fonttype": "path",
    **{f"{part}.facecolor": "none" for part in ("figure", "axes", "legend", "savefig")},
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    **dict.fromkeys(
        [
            *("text.color", "xtick.color", "ytick.color", "patch.edgecolor"),
            *("axes.edgecolor", "axes.labelcolor", "axes.titlecolor"),
        ],
        INK,
    ),
}
#: On a dark page the ink turns light; programs that know no media query see dark ink on no ground.
_DARK = (
    f'<style>@media (prefers-color-scheme: dark) {{ [style*="fill: {INK}"] {{ fill: #e6e9ee !important }} '
    f'[style*="stroke: {INK}"] {{ stroke: #e6e9ee !important }} }}</style>'
)


@contextmanager
def drawing() -> Iterator[None]:
    """Draw in the style of the page, without a display, and leave no figures open."""
    try:
        import matplotlib
    except ImportError as error:
        raise ImportError(needed("the report", "matplotlib", "report")) from error
    import matplotlib.pyplot as plt

    before = set(plt.get_fignums())
    plt.switch_backend("Agg")
    with matplotlib.rc_context(STYLE):
        try:
            yield
        finally:
            for number in set(plt.get_fignums()) - before:
                plt.close(number)


def svg(figure: Figure) -> str:
    """A figure as an svg element without a ground, with a rule for dark pages."""
    figure.draw_without_rendering()  # the layout of square panels settles at the second drawing
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    text = buffer.getvalue()  # a document type before the element names an outside address
    opening, closing, rest = text[text.index("<svg") :].partition(">")
    return opening + closing + _DARK + rest


@dataclass(frozen=True)
class Grid:
    """A table: its first column names the rows. Without a header it lists names and values."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""


@dataclass(frozen=True)
class Picture:
    """A picture, drawn as SVG where it is shown; text and terminals go without."""

    caption: str
    draw: Callable[[], str]
    alt: str = ""
    anchor: str = ""

    @property
    def address(self) -> str:
        """One that needs no other file."""
        return f"data:image/svg+xml;base64,{base64.b64encode(self.draw().encode()).decode()}"


@dataclass
class Section:
    """A heading with what stands below it, in this order; `mark` is a word beside the heading."""

    title: str
    parts: list[Part] = field(default_factory=list)
    mark: str = ""
    anchor: str = ""

    def __post_init__(self) -> None:
        self.anchor = self.anchor or re.sub(r"[^a-z0-9]+", "-", self.title.lower()).strip("-")

    @property
    def sections(self) -> list[Section]:
        """Those below this one."""
        return [part for part in self.parts if isinstance(part, Section)]


Part = str | Grid | Picture | Section


@dataclass
class Document:
    """A title and sections. Texts are escaped, `markupsafe.Markup` is taken as HTML.

    Examples
    --------
    >>> from lbnn.plots.page import Document, Grid, Section
    >>> page = Document("A fit", [Section("Noise", [Grid(("target", "noise"), [("a < b", "0.3")])])])
    >>> print(page.text())
    A fit
    <BLANKLINE>
    Noise
    target  noise
    a < b     0.3
    <BLANKLINE>
    >>> "<td>0.3</td>" in page.html()
    True
    """

    title: str
    sections: list[Section] = field(default_factory=list)
    lead: Sequence[str] = ()
    footer: str = ""

    def show(self, console: Console) -> None:
        """Print it."""
        from rich.text import Text

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
        from rich.console import Console

        page = io.StringIO()
        self.show(Console(file=page, width=160, color_system=None))
        return "\n".join(line.rstrip() for line in page.getvalue().splitlines()) + "\n"

    def markdown(self) -> str:
        """As Markdown, with the pictures inside."""
        contents = "\n".join(f"- [{section.title}](#{section.anchor})" for section in self.sections)
        blocks = [f"# {self.title}", contents]
        for section in self.sections:
            blocks += [f"## {section.title}", *(_markdown(part) for part in section.parts)]
        return "\n\n".join(blocks) + "\n"

    def html(self) -> str:
        """As one page that needs nothing else."""
        return template().render(page=self)

    def rendered(self, suffix: str) -> str:
        """In the format that a file name asks for."""
        return {".html": self.html, ".md": self.markdown}.get(suffix.lower(), self.text)()


def show_grid(grid: Grid, console: Console) -> None:
    """Print a table below its caption."""
    from rich.table import Table
    from rich.text import Text

    if grid.caption:
        console.print(Text(grid.caption, style="italic"))
    table = Table(box=None, pad_edge=False, show_header=bool(grid.header))
    for number, name in enumerate(grid.header or grid.rows[0]):
        table.add_column(Text(name), justify="left" if number == 0 else "right", no_wrap=True)
    for row in grid.rows:
        table.add_row(*map(Text, row))
    console.print(table)


def template() -> Template:
    """The page's template; an error that says how to get jinja2."""
    try:
        from jinja2 import Environment, StrictUndefined
        from markupsafe import Markup
    except ImportError as error:
        raise ImportError(needed("the page", "jinja2", "report")) from error
    source = files("lbnn.plots").joinpath("page.html").read_text(encoding="utf-8")
    style = files("lbnn.plots").joinpath("page.css").read_text(encoding="utf-8")
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.from_string(source, {"style": Markup(style)})


def _markdown(part: Part) -> str:
    if isinstance(part, Picture):
        return f"![{part.caption}]({part.address})\n\n*{part.caption}*"
    if not isinstance(part, Grid):
        return str(part)

    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(html.escape(cell, quote=False).replace("|", "\\|") for cell in cells) + " |"

    rule = "|" + "|".join([":--", *["--:"] * (len(part.header) - 1)]) + "|"
    caption = f"*{part.caption}*\n\n" if part.caption else ""
    return caption + "\n".join([line(part.header), rule, *map(line, part.rows)])
