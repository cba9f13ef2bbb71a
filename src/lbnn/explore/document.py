"""A document for every browser: figures, session, and the page around them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from bokeh.document import Document

import lbnn
from lbnn._base import mathml
from lbnn.explore.controls import CONTROLS
from lbnn.explore.numbers import phase
from lbnn.explore.presets import PRESETS
from lbnn.explore.session import Reader, Session, described
from lbnn.explore.state import State
from lbnn.explore.table import Table
from lbnn.explore.views.features import FeaturesView
from lbnn.explore.views.function import FunctionView
from lbnn.explore.views.scale import ScaleView
from lbnn.explore.views.style import SCHEMES, paint
from lbnn.explore.views.theories import TheoriesView
from lbnn.explore.wire import LARGEST_FILE, Wire
from lbnn.explore.words import WORDS

if TYPE_CHECKING:
    from jinja2 import Template

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
    open : list of Session
        Those whose browser is there.
    """

    pool: ThreadPoolExecutor
    table: Table | None = None
    reader: Reader | None = None
    open: list[Session] = field(default_factory=list)

    def __call__(self, document: Document) -> None:
        """Fill a new document."""
        document.title = "lbnn explore"
        document.template = template()
        document.template_variables.update(page_variables(self.table))
        if len(self.open) >= _MOST_SESSIONS:
            document.template_variables["full"] = f"{_MOST_SESSIONS} pages are open: close one and reload"
            return
        session = self._session(document)
        self.open.append(session)
        document.on_session_destroyed(lambda context: self._close(session))

    def _session(self, document: Document) -> Session:
        views: dict[str, Any] = {
            "scale": ScaleView(),
            "function": FunctionView(),
            "features": FeaturesView(),
            "theories": TheoriesView(phase.coarse()),
        }
        figures = [each for view in views.values() for each in view.figures]

        def repaint(scheme: str) -> None:
            if scheme not in SCHEMES:
                raise ValueError(f"scheme must be one of {', '.join(SCHEMES)}, got {scheme[:20]!r}")
            paint(figures, SCHEMES[scheme])

        repaint("light")
        wire = Wire(name="wire")
        figures[0].tags = [wire]  # part of the document by way of a figure, since it has no place on the page
        with document.models.freeze():  # one walk over all models in the place of eleven
            for each in figures:
                document.add_root(each)
        later = document.add_next_tick_callback
        session = Session(wire, views, later, self.pool, self.table, self.reader, repaint)
        wire.on_change("asked", lambda attribute, old, new: session.receive(new))
        return session

    def _close(self, session: Session) -> None:
        session.closed = True
        self.open.remove(session)


def page_variables(table: Table | None) -> dict[str, Any]:
    """What the template shows beside the figures."""
    return {
        "controls": CONTROLS,
        "presets": [(each.name, each.story, each.state.address()) for each in PRESETS],
        "words": WORDS,
        "equations": _equations(),
        "start": State(source="drawn" if table is None else "file").address(),
        "table": "" if table is None else described(table),
        "largest_file": LARGEST_FILE,
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
