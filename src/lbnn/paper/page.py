"""The page of the report: claims as a document, claims.json and figures, written completely or not at all."""

from __future__ import annotations

import io
import json
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import lbnn
from lbnn._base import mathml
from lbnn._base.files import bytes_writer, write_atomically
from lbnn.paper.environment import Environment
from lbnn.paper.registry import VERDICTS, Outcome, section_title
from lbnn.paper.registry import Picture as Figure
from lbnn.plots.page import Document, Grid, Picture, Section, svg

if TYPE_CHECKING:
    from markupsafe import Markup

FIGURES = "figures"
PNG_DPI = 200
_SUBSCRIPT = re.compile(r"_(?:\{([^{}]*)\}|([0-9]+|[A-Za-z\u0370-\u03ffℓ∞\u0302]+))")
_SUPERSCRIPT = re.compile(r"\^(?:\{([^{}]*)\}|(\w))")
_TITLE = "Depth induces scale-averaging in linear Bayesian networks: the results, recomputed"
_PAPER = (
    "J. A. Zavatone-Veth and C. Pehlevan, Depth induces scale-averaging in overparameterized linear Bayesian "
    "neural networks, 55th Asilomar Conference on Signals, Systems, and Computers (2021), arXiv:2111.11954."
)
_METHOD = (
    "Each is checked against the library `lbnn` by a route that does not use the function being checked. A "
    "claim holds if the discrepancy is at most the tolerance; the reason for each tolerance is given. "
    "Equation numbers are those that LaTeX gives the paper's source."
)
_CITE = """@inproceedings{{zavatoneveth2021depth,
  title     = {{Depth induces scale-averaging in overparameterized linear {{Bayesian}} neural networks}},
  author    = {{Zavatone-Veth, Jacob A. and Pehlevan, Cengiz}},
  booktitle = {{55th Asilomar Conference on Signals, Systems, and Computers}},
  year      = {{2021}},
  note      = {{arXiv:2111.11954}}
}}
@software{{lbnn,
  title   = {{lbnn: exact {{Bayesian}} inference for finite-width deep linear networks}},
  author  = {{{{The lbnn authors}}}},
  version = {{{version}}},
  note    = {{Claims checked with seed {seed} on {date}}}
}}"""


def prose(text: str) -> Markup:
    """Plain text with `code` marked, and subscripts and superscripts set: n_1, G_xx, det(L)^{−1/2}."""
    from markupsafe import Markup, escape

    parts = re.split(r"`([^`]*)`", str(escape(text)))
    return Markup(
        "".join(f"<code>{part}</code>" if odd % 2 else _indices(part) for odd, part in enumerate(parts))
    )


def _indices(text: str) -> str:
    text = _SUBSCRIPT.sub(lambda m: f"<sub>{m[1] or m[2]}</sub>", text)
    return _SUPERSCRIPT.sub(lambda m: f"<sup>{m[1] or m[2]}</sup>", text)


def number(value: float) -> str:
    """A number as a reader writes it, for `prose`: 3.2, 0.05, 1.2 × 10^{−14}."""
    if math.isnan(value):
        return "not computed"
    if value == 0 or 0.01 <= abs(value) < 1e4:
        return f"{value:.2g}" if abs(value) < 1 else f"{value:.3g}"
    if math.isinf(value):
        return "∞"
    digits, exponent = f"{value:.1e}".split("e")
    sign = "−" if int(exponent) < 0 else ""
    return f"{digits} × 10^{{{sign}{abs(int(exponent))}}}"


def _link(anchor: str, text: str) -> Markup:
    from markupsafe import Markup

    return Markup('<a href="#{}">{}</a>').format(anchor, text)  # format escapes both


def document(outcomes: Sequence[Outcome], environment: Environment, images: dict[str, Image]) -> Document:
    """The whole page."""
    from markupsafe import Markup

    groups = {
        name: [each for each in outcomes if each.claim.section == name]
        for name in dict.fromkeys(outcome.claim.section for outcome in outcomes)
    }
    counts = _counts(outcomes)
    told = (
        f"{len(outcomes)} claims: {counts['holds']} hold, {counts['corrected']} hold once the printed text "
        f"is corrected, {counts['fails']} fail."
    )
    pictures = [_picture(each.claim.id, each.picture, images) for each in outcomes if each.picture]
    header = ("section", *VERDICTS)
    rows = [(_link(f"section-{name}", section_title(name)), *_cells(own)) for name, own in groups.items()]
    corrected = [
        _link(each.claim.id, each.claim.equation) + ": " + prose(each.claim.correction)
        for each in outcomes
        if each.claim.correction
    ]
    rows_of_run = list(environment.rows().items())
    cite = _CITE.format(version=lbnn.__version__, seed=environment.seed, date=environment.rows()["Date"][:10])
    sections = [
        Section("In pictures", [*pictures]),
        Section("Summary", [Grid(header, [*rows, ("all", *_cells(outcomes))])]),
        Section("Where the printed text needs care", [*corrected]),
        *(
            Section(section_title(name), [*map(_claim, own)], anchor=f"section-{name}")
            for name, own in groups.items()
        ),
        Section(
            "This run",
            [
                Grid((), rows_of_run),
                "The same seed gives the same data and draws on the same machine; timings differ.",
            ],
        ),
        Section(
            "How to cite",
            [
                prose(
                    "Cite the paper for the results and the software for the numbers. Every claim has an "
                    "address of its own, as in `index.html#prior.gamma`: the claim's name links to it."
                ),
                Markup("<pre>{}</pre>").format(cite),
            ],
        ),
    ]
    footer = prose(
        f"Made by lbnn {lbnn.__version__} with `python -m lbnn.paper`; its numbers are in `claims.json`, the "
        f"figures as SVG and PNG in `{FIGURES}/`."
    )
    return Document(_TITLE, [each for each in sections if each.parts], (_PAPER, told, prose(_METHOD)), footer)


def _picture(name: str, figure: Figure, images: dict[str, Image]) -> Picture:
    caption = _link(name, name) + " " + prose(figure.caption)
    return Picture(caption, lambda: images[name].svg, figure.alt, f"picture-{name}")


def _claim(outcome: Outcome) -> Section:
    """One claim: its equation, what was measured, where its picture is."""
    from markupsafe import Markup

    claim = outcome.claim
    limit = prose(f"{number(claim.tolerance)} ({claim.tolerance_reason})")
    facts = [
        ("Compared with", prose(claim.route)),
        ("Discrepancy", prose(number(outcome.discrepancy))),
        ("Tolerance", limit),
        ("Time", f"{outcome.seconds:.2f} s"),
    ]
    if outcome.picture:
        facts.append(("Picture", _link(f"picture-{claim.id}", outcome.picture.alt)))
    notes = {"Correction. ": claim.correction, "Error. ": outcome.error}
    record = [
        (name, *(_plain(each) for each in np.atleast_1d(values))) for name, values in outcome.record.items()
    ]
    return Section(
        f"{claim.id} {claim.equation}",
        [
            prose(claim.statement),
            *(Markup(mathml.display(latex)) for latex in claim.latex),
            *(prose(name + text) for name, text in notes.items() if text),
            Grid((), facts),
            *([Grid((), record)] if record else []),
        ],
        outcome.verdict,
        claim.id,
    )


def _plain(value: float) -> str:
    """Four digits, large numbers in full."""
    text = f"{value:,.0f}" if 1e4 <= abs(value) < 1e8 else f"{value:.4g}"
    return text.replace("-", "−")


def _counts(outcomes: Iterable[Outcome]) -> dict[str, int]:
    """How many claims have each verdict."""
    verdicts = [outcome.verdict for outcome in outcomes]
    return {name: verdicts.count(name) for name in VERDICTS}


def _cells(outcomes: Iterable[Outcome]) -> list[str]:
    return [str(count or "–") for count in _counts(outcomes).values()]


@dataclass(frozen=True)
class Image:
    """One figure: SVG for the page, PNG on white for slides."""

    svg: str
    png: bytes

    @classmethod
    def of(cls, figure: Figure) -> Image:
        """Both formats of a figure."""
        buffer = io.BytesIO()
        vector = svg(figure.figure)
        figure.figure.savefig(buffer, format="png", dpi=PNG_DPI, facecolor="white")
        return cls(vector, buffer.getvalue())


def write(outcomes: Sequence[Outcome], folder: Path, environment: Environment) -> list[Path]:
    """Write index.html, claims.json and figures/, and return their paths.

    Everything is made first; then each file is written beside its place and moved into it, the page last. So
    a run that fails leaves an older report as it was.
    """
    images = {each.claim.id: Image.of(each.picture) for each in outcomes if each.picture}
    contents = {f"{FIGURES}/{name}.svg": image.svg.encode() for name, image in images.items()}
    contents |= {f"{FIGURES}/{name}.png": image.png for name, image in images.items()}
    contents["claims.json"] = claims_json(outcomes).encode()
    contents["index.html"] = document(outcomes, environment, images).html().encode()
    stale = _figures_of_last_report(folder)
    for name, data in contents.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, bytes_writer(data))
    for path in stale - {folder / name for name in contents}:
        path.unlink(missing_ok=True)
    return [folder / name for name in contents]


def claims_json(outcomes: Sequence[Outcome]) -> str:
    """The claims as a JSON list of objects."""
    figures = {
        each.claim.id: [f"{FIGURES}/{each.claim.id}.{kind}" for kind in ("svg", "png")]
        for each in outcomes
        if each.picture
    }
    records = [outcome.as_json() | {"figures": figures.get(outcome.claim.id, [])} for outcome in outcomes]
    return json.dumps(records, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _figures_of_last_report(folder: Path) -> set[Path]:
    """Figures that the claims.json in the folder lists; none where there is no readable one."""
    try:
        records = json.loads((folder / "claims.json").read_text(encoding="utf-8"))
        names = {name for record in records for name in record.get("figures", [])}
    except (OSError, ValueError, AttributeError, TypeError):
        return set()
    return {folder / FIGURES / Path(name).name for name in names}
