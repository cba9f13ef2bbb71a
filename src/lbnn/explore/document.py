"""A document for every browser: figures, session, and the page around them."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, fields
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from bokeh.document import Document
from bokeh.embed.bundle import bundle_for_objs_and_resources
from bokeh.embed.elements import html_page_for_render_items
from bokeh.embed.util import RenderItem
from bokeh.resources import Resources

import lbnn
from lbnn._base import mathml
from lbnn.explore.controls import CONTROLS
from lbnn.explore.numbers import phase
from lbnn.explore.presets import PRESETS
from lbnn.explore.session import Reader, Session, described
from lbnn.explore.state import State, as_text
from lbnn.explore.steps import STEPS
from lbnn.explore.table import Table
from lbnn.explore.views.features import FeaturesView
from lbnn.explore.views.function import FunctionView
from lbnn.explore.views.learning import LearningView
from lbnn.explore.views.scale import ScaleView
from lbnn.explore.views.style import SCHEMES, paint
from lbnn.explore.views.theories import TheoriesView
from lbnn.explore.wire import LARGEST_FILE, Wire
from lbnn.explore.words import WORDS
from lbnn.explore.workers import Workers

if TYPE_CHECKING:
    from jinja2 import Template

TITLE = "lbnn explore"
_TOKEN = "token-of-the-session"  # in the page that is made once; each browser gets one of its own
_MOST_SESSIONS = 40  # browsers at once; each holds figures and its newest answers


@dataclass
class Pages:
    """Makes documents.

    Attributes
    ----------
    pool : ThreadPoolExecutor
        Where all of them compute.
    table : Table or None
        The file named at the start.
    reader : callable or None
        Reads files that are picked on the page.
    workers : Workers
        Processes for answers that may take long.
    open : list of Session
        Those whose browser is there.
    """

    pool: ThreadPoolExecutor
    table: Table | None = None
    reader: Reader | None = None
    workers: Workers = field(default_factory=Workers)
    open: list[Session] = field(default_factory=list)
    _made: dict[str, str] = field(default_factory=dict)

    def __call__(self, document: Document) -> None:
        """Fill a new document."""
        document.title = TITLE
        session = self._session(document)
        self.open.append(session)
        document.on_session_destroyed(lambda context: self._close(session))

    @property
    def full(self) -> str:
        """Why no further page can be opened; empty where one can."""
        return (
            f"{_MOST_SESSIONS} pages are open: close one and reload"
            if len(self.open) >= _MOST_SESSIONS
            else ""
        )

    def html(self, token: str) -> str:
        """The page for a browser, whose socket shows this token. The figures come through the socket.

        Everything but the token is the same for all and is made once.
        """
        full = self.full
        if full not in self._made:
            self._made[full] = _render(self.table, full)
        return self._made[full].replace(_TOKEN, token)

    def _session(self, document: Document) -> Session:
        views = make_views()
        figures = [each for view in views.values() for each in view.figures]

        def repaint(scheme: str) -> None:
            if scheme not in SCHEMES:
                raise ValueError(f"scheme must be one of {', '.join(SCHEMES)}, got {scheme[:20]!r}")
            paint(figures, SCHEMES[scheme])

        repaint("light")
        wire = Wire(name="wire")
        figures[0].tags = [wire]  # part of the document by way of a figure, since it has no place on the page
        with document.models.freeze():  # one walk over all models instead of eleven
            for each in figures:
                document.add_root(each)
        later = document.add_next_tick_callback
        session = Session(wire, views, later, self.pool, self.table, self.reader, repaint, self.workers)
        wire.on_change("asked", lambda attribute, old, new: session.receive(new))
        return session

    def _close(self, session: Session) -> None:
        session.closed = True
        self.open.remove(session)


def make_views() -> dict[str, Any]:
    """The views by name; their figures have the same identity in every document: one page fits all."""
    views: dict[str, Any] = {
        "scale": ScaleView(),
        "function": FunctionView(),
        "features": FeaturesView(),
        "theories": TheoriesView(phase.coarse()),
        "learning": LearningView(),
    }
    for view in views.values():
        for each in view.figures:
            each._id = f"figure-{each.name}"
    return views


def _render(table: Table | None, full: str) -> str:
    """The page with a placeholder for the token."""
    figures = [] if full else [each for view in make_views().values() for each in view.figures]
    item = RenderItem(
        token=_TOKEN, roots={each: f"place-{each.name}" for each in figures}, use_for_title=True
    )
    bundle = bundle_for_objs_and_resources(None, Resources(mode="server", root_url="/"))
    variables = page_variables(table) | {"full": full} | ({"roots": []} if full else {})
    return html_page_for_render_items(
        bundle, {}, [] if full else [item], TITLE, template=template(), template_variables=variables
    )


def page_variables(table: Table | None) -> dict[str, Any]:
    """What the template shows beside the figures."""
    return {
        "controls": CONTROLS,
        "presets": [(each.name, each.story, each.state.address()) for each in PRESETS],
        "steps": json.dumps([{**vars(each), "state": each.state.address()} for each in STEPS]),
        "words": WORDS,
        "equations": _equations(),
        "start": State(source="drawn" if table is None else "file").address(),
        "table": "" if table is None else described(table),
        "largest_file": LARGEST_FILE,
        "defaults": json.dumps({each.name: as_text(getattr(State(), each.name)) for each in fields(State)}),
        "version": lbnn.__version__,
        "full": "",
    }


@lru_cache
def _equations() -> dict[str, Any]:
    return {name: mathml.display(words.latex) for name, words in WORDS.items()}


@lru_cache
def template() -> Template:
    """The page's template."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    loader = PackageLoader("lbnn.explore.page", "")
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template("page.html")
