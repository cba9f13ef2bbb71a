"""Docstrings and messages use the words of statistics: a list of words that they must not contain.

Numbers and modules are not persons: they do not know, see, tell or doubt. The terms of the library itself are
defined in docs/glossary.md, once.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "lbnn"

#: Pattern -> what to write in its place.
BANNED = {
    r"witness\w*": "estimate, independent estimate",
    r"testi(?:mony|monies|fy|fies)": "estimate",
    r"(?<!pass with )doubt\w*": "say which number may be wrong, and why ('pass with doubts: ' is a verdict)",
    r"told": "given, known, conditioned on; distinguished",
    r"tells?": "gives, determines, distinguishes",
    r"(?<!if you )(?<!you )knows?": "depends on, uses, imports; 'if you know the noise' is for people",
    r"sees": "uses, depends on, gets",
    r"seen by": "projected on, transformed by",
    r"elsewhere": "otherwise, at other points",
    r"ladder": "list of widths",
    r"(?<!random )walks?": "search, recursion",
    r"(?:where|in which|whose mean) \w* ?lives?": "is held, is carried by",
    r"thin (?:root|product|form)s?": "root with few columns, reduced",
    r"rooms?": "folder, module",
    r"honest": "calibrated, right",
    r"strangers?": "say who",
    r"wants": "takes",
    r"personif\w*": "nothing",
}

#: Terms that docs/glossary.md must define.
TERMS = (
    *("scale", "phase", "fitted direction", "collapsed direction", "effective draws", "estimate"),
    *("cross-check", "target error", "grade", "atom", "evidence", "level", "spectrum", "hidden kernel"),
    *("Gauss rule", "kinds of noise", "noise included", "ok"),
)


def texts(file: Path) -> Iterator[tuple[int, str]]:
    """Line and text of every docstring and every message of a file: strings of several words."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts = [part.value if isinstance(part, ast.Constant) else "…" for part in node.values]
            yield node.lineno, "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.lineno, node.value


@pytest.mark.parametrize(
    "folder", sorted({file.relative_to(PACKAGE).parts[0] for file in PACKAGE.rglob("*.py")})
)
def test_docstrings_and_messages_have_no_private_words(folder):
    place = PACKAGE / folder
    found = [
        f"{file.relative_to(PACKAGE)}:{line}: {match[0]!r}: write {better}"
        for file in (sorted(place.rglob("*.py")) if place.is_dir() else [place])
        for line, text in texts(file)
        for pattern, better in BANNED.items()
        for match in re.finditer(rf"\b(?:{pattern})\b", " ".join(text.split()), re.IGNORECASE)
    ]
    assert not found, "\n".join(dict.fromkeys(found))


def test_the_list_catches_what_it_is_for():
    for text in (
        "the atoms know",
        "two witnesses agree",
        "a bound tells",
        "zero elsewhere",
        "where they live",
    ):
        assert any(re.search(rf"\b(?:{pattern})\b", text) for pattern in BANNED), text
    for text in ("Give beta if you know the noise", "random walks", "pass with doubts: few draws"):
        assert not any(re.search(rf"\b(?:{pattern})\b", text) for pattern in BANNED), text


def test_glossary_defines_every_term_once():
    page = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    defined = re.findall(r"^\*\*(.+?)\*\*", page, re.MULTILINE)
    assert len(set(defined)) == len(defined)
    words = {word.strip().lower() for entry in defined for word in entry.split(",")}
    assert {term.lower() for term in TERMS} <= words
