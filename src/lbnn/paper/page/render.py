"""The report as one HTML file that needs nothing else, from the templates beside this module."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import lbnn
from lbnn._base import mathml
from lbnn._base.extras import needed
from lbnn.paper.environment import Environment
from lbnn.paper.page import words
from lbnn.paper.page.images import Image
from lbnn.paper.registry import VERDICTS, Outcome, section_title

if TYPE_CHECKING:
    from jinja2 import Environment as Templates
    from jinja2 import Template

MARKS = {"holds": "✓", "corrected": "✎", "fails": "✗"}


def render(
    outcomes: Sequence[Outcome],
    environment: Environment,
    images: Mapping[str, Image],
) -> str:
    """The whole page."""
    groups = {
        name: [each for each in outcomes if each.claim.section == name]
        for name in dict.fromkeys(outcome.claim.section for outcome in outcomes)
    }
    return template().render(
        outcomes=outcomes,
        groups=groups,
        corrected=[each.claim for each in outcomes if each.claim.correction],
        images=images,
        environment=environment.rows(),
        version=lbnn.__version__,
    )


def template() -> Template:
    """The page's template, with what it may call."""
    templates = templates_of("lbnn.paper.page")
    templates.filters.update(mathml=mathml.display)
    templates.globals.update(verdicts=VERDICTS, marks=MARKS, title=section_title, counts=_counts)
    return templates.get_template("page.html")


def templates_of(*packages: str) -> Templates:
    """Templates of packages, the first that has a name gives it; an error that says how to get jinja2."""
    try:
        from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
    except ImportError as error:
        raise ImportError(needed("the page", "jinja2", "report")) from error
    templates = Environment(
        loader=ChoiceLoader([PackageLoader(package) for package in packages]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    templates.filters.update(prose=words.prose, number=words.number, plain=words.plain)
    templates.globals.update(as_list=words.as_list)
    return templates


def _counts(outcomes: Sequence[Outcome]) -> dict[str, int]:
    """How many claims have each verdict."""
    verdicts = [outcome.verdict for outcome in outcomes]
    return {name: verdicts.count(name) for name in VERDICTS}
