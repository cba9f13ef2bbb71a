"""The report as a page of its own: one HTML file, no outside assets, light and dark."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from lbnn.report.registry import Outcome

_STYLE = """
:root { color-scheme: light dark; --line: #d0d4da; --soft: #5a6472; --holds: #00664a; --corrected: #8a5a00;
  --fails: #b3261e; --back: #ffffff; --text: #1b1f24; }
@media (prefers-color-scheme: dark) {
  :root { --line: #3a414b; --soft: #a0a9b6; --holds: #5fd3ac; --corrected: #f0b860; --fails: #ff9a90;
    --back: #14171b; --text: #e6e9ee; } }
body { background: var(--back); color: var(--text); font: 15px/1.5 system-ui, sans-serif;
  margin: 2rem auto; max-width: 75rem; padding: 0 1rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; }
th, td { border-bottom: 1px solid var(--line); padding: .4rem .6rem; text-align: left; vertical-align: top; }
th { color: var(--soft); font-weight: 600; }
td.number { font-variant-numeric: tabular-nums; white-space: nowrap; }
code, .soft { color: var(--soft); font-size: .9em; }
.holds { color: var(--holds); } .corrected { color: var(--corrected); } .fails { color: var(--fails); }
"""

_HEADINGS = ("claim", "equation", "statement", "compared with", "discrepancy", "tolerance", "verdict")


def render(outcomes: Sequence[Outcome], summary: str) -> str:
    """The whole page."""
    sections = list(dict.fromkeys(outcome.claim.section for outcome in outcomes))
    tables = [_table(name, [each for each in outcomes if each.claim.section == name]) for name in sections]
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>lbnn: the paper's results, recomputed</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        "<h1>Depth induces scale-averaging in overparameterized linear Bayesian neural networks: "
        f"the results, recomputed</h1>\n<p>{escape(summary)}</p>\n"
        "<p>Each claim is checked against the library by a route that does not use the function being "
        "checked. <em>Corrected</em> means: holds once the printed text is corrected as noted.</p>\n"
        + "".join(tables)
        + "</body>\n</html>\n"
    )


def _table(section: str, outcomes: Sequence[Outcome]) -> str:
    head = "".join(f"<th>{heading}</th>" for heading in _HEADINGS)
    rows = "".join(_row(outcome) for outcome in outcomes)
    title = section.replace("-", " ").capitalize()
    return (
        f'<h2>{escape(title)}</h2>\n<div class="wide"><table>\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}</tbody>\n</table></div>\n"
    )


def _row(outcome: Outcome) -> str:
    claim = outcome.claim
    notes = "".join(
        f'<br><span class="soft">{escape(note)}</span>' for note in (claim.correction, outcome.error) if note
    )
    return (
        f'<tr id="{escape(claim.id)}"><td><code>{escape(claim.id)}</code></td>'
        f"<td>{escape(claim.equation)}</td>"
        f"<td>{escape(claim.statement)}{notes}</td><td>{escape(claim.route)}</td>"
        f'<td class="number">{outcome.discrepancy:.1e}</td><td class="number">{claim.tolerance:.1e}</td>'
        f'<td class="{outcome.verdict}">{outcome.verdict}</td></tr>\n'
    )
