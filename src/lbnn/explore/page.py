"""The page in one browser: controls, three pictures, and the newest request wins."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator
from functools import lru_cache, partial
from html import escape
from typing import Any
from urllib.parse import urlencode

from bokeh.document import Document
from bokeh.events import DocumentReady
from bokeh.models import (
    Button,
    Column,
    CustomJS,
    Div,
    InlineStyleSheet,
    RadioButtonGroup,
    Row,
    Select,
    Slider,
    TextInput,
)

from lbnn._base import mathml
from lbnn._base.warn import collected
from lbnn.explore import function, scale, theories
from lbnn.explore.answer import Numbers
from lbnn.explore.controls import CONTROLS, Control
from lbnn.explore.presets import PRESETS
from lbnn.explore.state import State, as_text
from lbnn.explore.words import WORDS

log = logging.getLogger("lbnn.explore")

_PAUSE = 60  # milliseconds in which further moves of a slider join the first one
NUMBERS = {"scale": scale.numbers, "function": function.numbers, "theories": theories.numbers}
#: Side by side on a desktop, one below the other on a phone.
_SIDE_BY_SIDE = ":host { display: flex; flex-wrap: wrap; gap: 0 2rem; }"
_PICTURES = ":host { flex: 1 1 34rem; min-width: min(100%, 20rem); }"
#: On a phone they stay in reach below the picture.
_CONTROLS = """:host { flex: 1 1 16rem; max-width: 34rem; min-width: min(100%, 15rem); }
@media (max-width: 60rem) { :host { background: white; border-top: 2px solid #c3c9d2; bottom: 0;
max-height: 36vh; max-width: none; overflow-y: auto; position: sticky; z-index: 5; } }"""
_TEXT = """:host { font: 1rem/1.45 system-ui, sans-serif; overflow-x: auto; }
th, td { font-weight: 400; padding: .15rem 1rem .15rem 0; text-align: left; }
.error { color: #b3261e; } .message { color: #7a4f00; }"""
_TEMPLATE = """{% block preamble %}<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<style>body { padding: 0 .8rem; } html { height: auto; }</style>{% endblock %}"""


class Field:
    """A control of the page: a choice, or a text with a slider that stops at round values."""

    def __init__(self, control: Control) -> None:
        self.control = control
        self.slider: Slider | None = None
        parts: list[Any]
        if control.choices:
            self.text: Any = Select(title=control.label, options=list(control.choices))
            parts = [self.text]
        else:
            self.text = TextInput(
                title=control.label, description=control.help or None, name=control.name,
                sizing_mode="stretch_width",
            )  # fmt: skip
            last = len(control.stops) - 1
            self.slider = Slider(
                start=0, end=last, step=1, value=0, show_value=False, tooltips=False,
                name=f"{control.name} slider", sizing_mode="stretch_width",
            )  # fmt: skip
            self.slider.on_change("value", self._slid)
            parts = [self.text, self.slider]
        self.place = Column(*parts, sizing_mode="stretch_width")

    def show(self, text: str) -> None:
        """Set the control to a value of the state."""
        self.text.value = text
        if self.slider is not None:
            self.slider.value = self._nearest()

    def _slid(self, attribute: str, old: int, new: int) -> None:
        if self._nearest() != new:  # else the text has moved the slider
            self.text.value = self.control.stops[new]

    def _nearest(self) -> int:
        """The stop that is nearest to the first number of the text."""
        try:
            number = float(self.text.value.partition(",")[0].replace("∞", "inf"))
        except ValueError:
            number = math.nan  # told when the state is made
        stops = [float(stop) for stop in self.control.stops]
        return min(range(len(stops)), key=lambda place: _distance(stops[place], number))


def _distance(stop: float, number: float) -> float:
    """Between a stop and a number; infinity is near to itself only."""
    return 0.0 if stop == number else abs(stop - number) if math.isfinite(stop) else math.inf


class Page:
    """One browser.

    Parameters
    ----------
    document : Document
        To fill; its address is the state to begin with.
    """

    def __init__(self, document: Document) -> None:
        self.document = document
        band = function.FunctionPicture()
        self.pictures: dict[str, Any] = {
            "scale": scale.ScalePicture(),
            "function": band,
            "theories": theories.TheoriesPicture(),
        }
        self.points = band.points
        self.fields = {control.name: Field(control) for control in CONTROLS}
        self.preset = Select(
            title="Begin with",
            options=[("", "a preset …"), *((str(number), each.name) for number, each in enumerate(PRESETS))],
            value="",
        )
        self.places = {
            name: Column(*picture.figures, sizing_mode="stretch_width", visible=False)
            for name, picture in self.pictures.items()
        }
        self.view = RadioButtonGroup(labels=[WORDS[name].title for name in self.pictures], active=0)
        self.texts = _text("")  # what the picture shows, its numbers and messages
        self._steps: Iterator[Numbers] | None = None  # what is still to come of the newest request
        self._pending = True  # nothing is computed before the browser is there
        self.state = State()
        self._lay_out()
        self._listen()
        try:
            self._show_state(State.from_address(_query_of(document)))
        except ValueError as problem:
            self._show_state(State(), _error(f"{problem}. This is where to begin instead."))

    # ------------------------------------------------------------------ the page

    def _lay_out(self) -> None:
        self.equation = _text("")
        self.remove = Button(label="Remove the last point", visible=False)
        left = Column(
            self.view, *self.places.values(), self.remove, self.texts, self.equation,
            sizing_mode="stretch_width", stylesheets=[InlineStyleSheet(css=_PICTURES)],
        )  # fmt: skip
        right = Column(
            self.preset, *(field.place for field in self.fields.values()),
            sizing_mode="stretch_width", stylesheets=[InlineStyleSheet(css=_CONTROLS)],
        )  # fmt: skip
        beside = InlineStyleSheet(css=_SIDE_BY_SIDE)
        self.document.title = "lbnn explore"
        self.document.template = _TEMPLATE
        self.document.add_root(Row(left, right, sizing_mode="stretch_width", stylesheets=[beside]))

    def _listen(self) -> None:
        for field in self.fields.values():
            field.text.on_change("value", self._changed)
        self.points.on_change("data", self._changed)
        self.view.on_change("active", self._changed)
        self.preset.on_change("value", self._choose)
        self.remove.on_click(self._remove_point)
        self.document.on_event(DocumentReady, lambda event: self._begin())
        # the address of the page follows the state
        link = CustomJS(args={"page": self.texts}, code="history.replaceState(null, '', '?' + page.tags[0])")
        self.texts.js_on_change("tags", link)

    def _choose(self, attribute: str, old: str, new: str) -> None:
        if new:
            chosen = PRESETS[int(new)]
            self._show_state(chosen.state, f"<p>{escape(chosen.story)}</p>")

    def _remove_point(self) -> None:
        self.points.data = {name: list(column)[:-1] for name, column in self.points.data.items()}

    # ------------------------------------------------------------------ requests

    def _show_state(self, state: State, note: str = "") -> None:
        """Set all controls to a state; the note stands beside it until a control is moved."""
        self._noted, self._note = state, note
        for name, field in self.fields.items():
            field.show(as_text(getattr(state, name)))
        self.view.active = list(self.pictures).index(state.view)
        x, y = zip(*state.points, strict=True)
        self.points.data = {"x": list(x), "y": list(y)}

    def _changed(self, attribute: str, old: Any, new: Any) -> None:
        self._request()

    def _request(self) -> None:
        if not self._pending:
            self._pending = True
            self.document.add_timeout_callback(self._begin, _PAUSE)

    def _begin(self) -> None:
        """Start on what the controls say; an answer that is still under way is given up."""
        self._pending = False
        self._steps = None
        try:
            self.state = State.from_address(self._address())
        except ValueError as problem:
            self._complain(problem)
            return
        for name, field in self.fields.items():
            field.place.visible = self.state.view in field.control.views
            field.show(as_text(getattr(self.state, name)))
        for name, place in self.places.items():
            place.visible = name == self.state.view
        self.remove.visible = self.state.view == "function"
        self.equation.text = _equation(self.state.view)
        self.texts.tags = [self.state.address()]
        self.texts.text = "<p>computing …</p>"
        self._steps = NUMBERS[self.state.view](self.state)
        self.document.add_next_tick_callback(partial(self._advance, self._steps))

    def _address(self) -> str:
        """What the controls say, as an address."""
        points = zip(self.points.data["x"], self.points.data["y"], strict=True)
        texts = {name: field.text.value.strip() for name, field in self.fields.items()}
        texts["view"] = list(self.pictures)[self.view.active]
        texts["points"] = as_text(tuple((float(x), float(y)) for x, y in points))
        return urlencode(texts)

    def _advance(self, steps: Iterator[Numbers]) -> None:
        """Show the next numbers of an answer, if it is still the newest one."""
        if steps is not self._steps:
            return
        try:
            with collected():  # messages are part of the numbers
                numbers = next(steps, None)
        except (ValueError, ArithmeticError, MemoryError) as problem:
            self._complain(problem)
            return
        except Exception as problem:
            log.exception("an answer of the page failed")
            self._complain(problem)
            return
        if numbers is not None:
            note = self._note if self.state == self._noted else ""
            self.pictures[self.state.view].draw(numbers)
            self.texts.text = note + _texts(numbers, self.state)
            self.document.add_next_tick_callback(partial(self._advance, steps))

    def _complain(self, problem: Exception) -> None:
        self.texts.text = _error(f"{problem}. The picture is that of the last answer.")


def _query_of(document: Document) -> str:
    """The query of the address that was opened."""
    context = document.session_context
    request = None if context is None else context.request
    arguments = {} if request is None else request.arguments
    return urlencode([(name, value) for name, values in arguments.items() for value in values])


def _text(html: str) -> Div:
    return Div(
        text=html, disable_math=True, sizing_mode="stretch_width", stylesheets=[InlineStyleSheet(css=_TEXT)]
    )


def _error(text: str) -> str:
    return f'<p class="error" role="alert">{escape(text)}</p>' if text else ""


def _texts(numbers: Numbers, state: State) -> str:
    """What the picture shows, messages and numbers; everything is escaped."""
    notes = (*state.unused, *numbers.messages)
    messages = "".join(f'<p class="message">{escape(each)}</p>' for each in notes)
    rows = "".join(
        f"<tr><th>{escape(value.name)}</th><td>{escape(value.text)}</td></tr>" for value in numbers.values
    )
    return f"<p>{escape(numbers.sentence)}</p>{messages}<table>{rows}</table>"


@lru_cache
def _equation(view: str) -> str:
    words = WORDS[view]
    return f"{mathml.display(words.latex)}<p>{escape(words.reading)}</p>"
