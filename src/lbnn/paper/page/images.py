"""Figures as files: SVG for the page, PNG for slides."""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from lbnn._base.extras import needed
from lbnn.paper.registry import Outcome, Picture

INK = "#1b1f24"  # of axes and words; the grey of auxiliary lines reads on both grounds
#: One look for all figures; letters are drawn as paths, so that no font is needed, and files carry no date.
STYLE: Any = {  # keys are literals to matplotlib's types
    "svg.hashsalt": "lbnn",
    "svg.fonttype": "path",
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "legend.facecolor": "none",
    "savefig.facecolor": "none",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    **{
        f"{name}.{part}": INK
        for name, part in (("text", "color"), ("xtick", "color"), ("ytick", "color"), ("patch", "edgecolor"))
    },
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
}
PNG_DPI = 200
#: On a dark page the ink turns light; programs that know no media query see dark ink on no ground.
DARK = (
    f'<style>@media (prefers-color-scheme: dark) {{ [style*="fill: {INK}"] {{ fill: #e6e9ee !important }} '
    f'[style*="stroke: {INK}"] {{ stroke: #e6e9ee !important }} }}</style>'
)


@dataclass(frozen=True)
class Image:
    """One figure in both formats, and its size in CSS pixels."""

    svg: bytes
    png: bytes
    width: int
    height: int

    @property
    def data_uri(self) -> str:
        """The SVG as an address that holds it."""
        return "data:image/svg+xml;base64," + base64.b64encode(self.svg).decode("ascii")


@contextmanager
def drawing() -> Iterator[None]:
    """Draw in the report's style, without a display, and leave no figures open."""
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


def save(picture: Picture) -> Image:
    """Both formats of a picture: SVG without a ground, for light and dark pages; PNG on white."""
    inches = picture.figure.get_size_inches()
    picture.figure.draw_without_rendering()  # the layout of square panels settles at the second drawing
    svg = _saved(picture, "svg", metadata={"Date": None, "Creator": None})
    png = _saved(picture, "png", dpi=PNG_DPI, facecolor="white")
    # the svg element alone, since a document type names an outside address; with a rule for dark pages
    found = re.search(rb"(<svg[^>]*>)(.*)", svg, re.DOTALL)
    assert found, "matplotlib writes an svg element"
    return Image(found[1] + DARK.encode() + found[2], png, *(round(96 * x) for x in inches))


def files(outcomes: Sequence[Outcome]) -> dict[str, Image]:
    """Every picture by the identifier of its claim."""
    return {each.claim.id: save(each.picture) for each in outcomes if each.picture}


def _saved(picture: Picture, kind: str, **options: object) -> bytes:
    buffer = io.BytesIO()
    picture.figure.savefig(buffer, format=kind, **options)  # type: ignore[arg-type]
    return buffer.getvalue()
