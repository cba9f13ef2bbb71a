"""The report as a page of its own: one HTML file, no scripts, no outside assets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from importlib import resources

import lbnn
from lbnn.paper.environment import Environment
from lbnn.paper.page.claim_card import card, prose
from lbnn.paper.page.images import Image
from lbnn.paper.registry import VERDICTS, Outcome, section_title

PAPER = (
    "J. A. Zavatone-Veth and C. Pehlevan, <cite>Depth induces scale-averaging in overparameterized linear "
    "Bayesian neural networks</cite>, 55th Asilomar Conference on Signals, Systems, and Computers (2021), "
    "arXiv:2111.11954"
)
BIBTEX = """@inproceedings{zavatoneveth2021depth,
  title     = {Depth induces scale-averaging in overparameterized linear {Bayesian} neural networks},
  author    = {Zavatone-Veth, Jacob A. and Pehlevan, Cengiz},
  booktitle = {55th Asilomar Conference on Signals, Systems, and Computers},
  year      = {2021},
  note      = {arXiv:2111.11954}
}
@software{lbnn,
  title   = {lbnn: exact {Bayesian} inference for finite-width deep linear networks},
  author  = {{The lbnn authors}},
  version = {%s},
  note    = {Claims checked with seed %d on %s}
}"""

Groups = Mapping[str, Sequence[Outcome]]


def render(outcomes: Sequence[Outcome], environment: Environment, images: Mapping[str, Image]) -> str:
    """The whole page."""
    groups = {
        name: [each for each in outcomes if each.claim.section == name]
        for name in dict.fromkeys(outcome.claim.section for outcome in outcomes)
    }
    rows = environment.rows()
    parts = [
        _head(),
        '<body>\n<a class="skip" href="#summary">Skip to the summary</a>\n',
        _header(outcomes),
        "<main>\n",
        _summary(groups),
        _corrections(outcomes),
        *(_section(name, group, images) for name, group in groups.items()),
        _environment(rows),
        _citation(environment.seed, rows["Date"]),
        "</main>\n",
        f"<footer><p>Made by lbnn {escape(lbnn.__version__)} with <code>python -m lbnn.paper</code>. The "
        "same numbers are in <code>claims.json</code>, the figures as SVG and PNG in <code>figures/</code>."
        "</p></footer>\n",
        "</body>\n</html>\n",
    ]
    return "".join(parts)


def _head() -> str:
    style = resources.files("lbnn.paper.page").joinpath("style.css").read_text(encoding="utf-8")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="description" content="Every result of the paper, recomputed by an independent route.">\n'
        f"<title>lbnn: the paper's results, recomputed</title>\n<style>\n{style}</style>\n</head>\n"
    )


def _header(outcomes: Sequence[Outcome]) -> str:
    counts = {name: sum(outcome.verdict == name for outcome in outcomes) for name in VERDICTS}
    return (
        "<header>\n<h1>Depth induces scale-averaging in linear Bayesian networks: the results, recomputed"
        "</h1>\n"
        f'<p class="lead">{PAPER}.</p>\n'
        f"<p><strong>{len(outcomes)} claims: {counts['holds']} hold, {counts['corrected']} hold once the "
        f"printed text is corrected, {counts['fails']} fail.</strong> Each is checked against the library "
        "<code>lbnn</code> by a route that does not use the function being checked. A claim holds if the "
        "discrepancy is at most the tolerance; every tolerance says where it comes from. Equation numbers "
        "are those that LaTeX gives the paper's source.</p>\n</header>\n"
    )


def _summary(groups: Groups) -> str:
    head = "".join(f'<th scope="col" class="count">{name}</th>' for name in VERDICTS)
    body = "".join(_summary_row(name, group) for name, group in groups.items())
    everything = [outcome for group in groups.values() for outcome in group]
    index = "".join(
        f'<li><a href="#{escape(each.claim.id)}">{escape(each.claim.id)}</a> '
        f'<span class="{each.verdict}">{each.verdict}</span></li>\n'
        for each in everything
    )
    return (
        '<section id="summary" aria-labelledby="summary-title">\n<h2 id="summary-title">Summary</h2>\n'
        '<nav aria-label="Sections and claims">\n<div class="scroll"><table>\n'
        f'<thead><tr><th scope="col">section</th>{head}</tr></thead>\n<tbody>\n{body}</tbody>\n'
        f'<tfoot><tr><th scope="row">all</th>{_counts(everything)}</tr></tfoot>\n</table></div>\n'
        f'<details><summary>All claims</summary>\n<ul class="index">\n{index}</ul></details>\n'
        "</nav>\n</section>\n"
    )


def _summary_row(name: str, outcomes: Sequence[Outcome]) -> str:
    link = f'<a href="#section-{escape(name)}">{escape(section_title(name))}</a>'
    return f'<tr><th scope="row">{link}</th>{_counts(outcomes)}</tr>\n'


def _counts(outcomes: Sequence[Outcome]) -> str:
    """One cell for each verdict; a verdict that does not occur is a dash."""
    verdicts = [outcome.verdict for outcome in outcomes]
    cells = [(name, verdicts.count(name)) for name in VERDICTS]
    return "".join(
        f'<td class="count{f" {name}" if count else ""}">{count or "–"}</td>' for name, count in cells
    )


def _corrections(outcomes: Sequence[Outcome]) -> str:
    corrected = [outcome for outcome in outcomes if outcome.claim.correction]
    if not corrected:
        return ""
    items = "".join(
        f'<li><a href="#{escape(each.claim.id)}">{escape(each.claim.equation)}</a>: '
        f"{prose(each.claim.correction)}</li>\n"
        for each in corrected
    )
    return (
        '<section id="corrections" aria-labelledby="corrections-title">\n'
        '<h2 id="corrections-title">Where the printed text needs care</h2>\n'
        f"<ul>\n{items}</ul>\n</section>\n"
    )


def _section(name: str, outcomes: Sequence[Outcome], images: Mapping[str, Image]) -> str:
    cards = "".join(card(outcome, images.get(outcome.claim.id)) for outcome in outcomes)
    anchor = f"section-{escape(name)}"
    return (
        f'<section id="{anchor}" aria-labelledby="{anchor}-title">\n'
        f'<h2 id="{anchor}-title">{escape(section_title(name))}</h2>\n{cards}</section>\n'
    )


def _environment(rows: Mapping[str, str]) -> str:
    items = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>\n" for name, value in rows.items())
    return (
        '<section id="environment" aria-labelledby="environment-title">\n'
        f'<h2 id="environment-title">This run</h2>\n<dl>\n{items}</dl>\n'
        "<p>The same seed gives the same data and draws on the same machine; timings differ.</p>\n"
        "</section>\n"
    )


def _citation(seed: int, date: str) -> str:
    bibtex = escape(BIBTEX % (lbnn.__version__, seed, date[:10]))
    return (
        '<section id="cite" aria-labelledby="cite-title">\n<h2 id="cite-title">How to cite</h2>\n'
        "<p>Cite the paper for the results and the software for the numbers. Every claim has an address of "
        "its own, as in <code>index.html#prior.gamma</code>: the claim's name links to it.</p>\n"
        f'<pre tabindex="0" aria-label="BibTeX">{bibtex}</pre>\n</section>\n'
    )
