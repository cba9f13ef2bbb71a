"""The page without a browser: controls, answers, errors, and the newest request wins."""

from __future__ import annotations

import math

import numpy as np
import pytest

pytest.importorskip("bokeh")

from bokeh.core.property.vectorization import Value
from bokeh.document import Document

from lbnn.explore import page as page_module
from lbnn.explore.page import Page
from lbnn.explore.presets import PRESETS
from lbnn.explore.state import State

QUICK = {"examples": "6", "inputs": "8", "widths": "5"}


class Asked(Page):
    """A page whose callbacks are run by `settle`."""

    def __init__(self):
        self.waiting = []
        document = Document()
        document.add_timeout_callback = lambda call, milliseconds: self.waiting.append(call)
        document.add_next_tick_callback = self.waiting.append
        super().__init__(document)
        self._begin()  # what the browser's arrival does

    def settle(self):
        while self.waiting:
            self.waiting.pop(0)()
        return self

    def choose(self, **texts):
        for name, text in texts.items():
            self.fields[name].text.value = text
        return self.settle()

    def see(self, view):
        self.view.active = list(self.pictures).index(view)
        return self.settle()


@pytest.fixture(autouse=True)
def opened(monkeypatch):
    """The address comes from the page's maker instead of a browser."""
    monkeypatch.setattr(page_module, "_query_of", lambda document: "")


@pytest.fixture
def page():
    return Asked().choose(**QUICK)


def opened_at(query, monkeypatch):
    monkeypatch.setattr(page_module, "_query_of", lambda document: query)
    return Asked().settle()


@pytest.mark.parametrize("view", ["scale", "function", "theories"])
def test_every_picture_answers(page, view):
    page.see(view)
    assert page.state.view == view
    assert [name for name, place in page.places.items() if place.visible] == [view]
    assert "<table><tr>" in page.texts.text
    assert "error" not in page.texts.text.partition("<table>")[0].partition("class=")[2]
    assert "<math" in page.equation.text
    assert State.from_address(page.texts.tags[0]) == page.state


def test_the_address_that_is_opened_is_the_state(monkeypatch):
    address = "view=function&depth=4&widths=5,3&beta=inf&points=0:1,1:2"
    page = opened_at(address, monkeypatch)
    assert page.state == State.from_address(address)
    assert page.fields["widths"].text.value == "5,3"
    assert page.points.data == {"x": [0.0, 1.0], "y": [1.0, 2.0]}
    assert page.fields["beta"].slider.value == page.fields["beta"].slider.end


def test_a_hostile_address_is_told_escaped_and_the_page_begins(monkeypatch):
    page = opened_at("view=<img src=x onerror=alert(1)>", monkeypatch)
    assert "<img" not in page.texts.text
    assert "&lt;img" in page.texts.text
    assert "This is where to begin instead" in page.texts.text
    assert page.state == State()
    page.choose(depth="2")
    assert "instead" not in page.texts.text


def test_a_value_that_breaks_a_rule_is_told_and_the_page_goes_on(page):
    page.choose(depth="99")
    assert "depth must be from 1 to 20, got 99" in page.texts.text
    assert "<table>" not in page.texts.text  # no number stands beside controls that it does not belong to
    page.choose(depth="<b>")
    assert "<b>" not in page.texts.text
    page.choose(depth="2")
    assert "<table>" in page.texts.text
    page.choose(depth="1").see("theories")
    assert "compared at depth 2 or more" in page.texts.text


def test_an_unforeseen_failure_is_told_and_the_page_goes_on(page, monkeypatch, caplog):
    def failing(state):
        yield from [].pop()

    with monkeypatch.context() as patch:
        patch.setitem(page_module.NUMBERS, "scale", failing)
        page.choose(depth="4")
    assert "pop from empty list" in page.texts.text
    assert "failed" in caplog.text
    page.choose(depth="5")
    assert "<table>" in page.texts.text


def test_sliders_and_fields_follow_each_other(page):
    depth = page.fields["depth"]
    depth.slider.value = 6
    page.settle()
    assert (page.state.depth, depth.text.value) == (7, "7")
    page.choose(widths="20,10,5", beta="24")
    assert page.state.widths == (20, 10, 5)
    assert page.state.beta == 24.0  # not the stop beside it
    assert page.fields["beta"].control.stops[page.fields["beta"].slider.value] in ("20", "30")
    page.choose(beta="∞")
    assert math.isinf(page.state.beta)


def test_the_newest_request_wins(page, monkeypatch):
    page.see("theories")
    begun = []
    monkeypatch.setitem(page_module.NUMBERS, "theories", lambda state: begun.append(state.depth) or iter(()))
    page.fields["depth"].text.value = "4"
    page.fields["depth"].text.value = "5"
    page.settle()
    assert begun == [5]  # moves within the pause are one request
    left = iter([1])
    page._steps = iter(())
    page._advance(left)  # an answer that is no longer wanted
    assert next(left) == 1


@pytest.mark.parametrize("number", range(len(PRESETS)))
def test_presets_are_shown_with_their_story(number):
    page = Asked()
    page.preset.value = str(number)
    page.settle()
    assert page.state == PRESETS[number].state
    assert PRESETS[number].story.partition("'")[0] in page.texts.text


def test_points_are_dragged_added_and_removed(page):
    page.see("function")
    count = len(page.points.data["x"])
    page.points.data = {"x": [*page.points.data["x"], 3.0], "y": [*page.points.data["y"], 40.0]}
    page.settle()
    assert page.state.points[-1] == (3.0, 40.0)
    figure = page.pictures["function"].band
    assert figure.y_range.end > 40
    page._remove_point()
    page.settle()
    assert len(page.state.points) == count
    page.points.data = {"x": [], "y": []}
    page.settle()
    assert "points must be 1 to 60, got 0" in page.texts.text


def test_widths_beyond_the_depth_are_named(page):
    page.choose(depth="3", widths="20,10,5,7")
    assert "widths 5, 7 are not used: depth 3 has 2 hidden layers" in page.texts.text


def test_figures_hold_the_numbers(page):
    curves = page.pictures["scale"]._curves.data
    assert len(curves["x"]) == 8
    assert curves["width"][-1] < curves["width"][-2] == 3.0  # the network of the controls is drawn last
    page.choose(outputs="2")
    assert (page.pictures["scale"].density.visible, page.pictures["scale"].ellipse.visible) == (False, True)
    page.see("function")
    bands = page.pictures["function"]._bands.data
    assert (np.asarray(bands["network q5"]) <= np.asarray(bands["network q95"])).all()


def test_the_legend_of_the_theories_names_them_and_their_slopes(page):
    """Bokeh takes a string for the name of a column, and writes "Invalid field" where there is none."""
    page.choose(depth="2", widths="16").see("theories")
    errors = page.pictures["theories"].errors
    labels = [item.label for item in errors.legend[0].items]
    assert all(isinstance(label, Value) for label in labels)
    assert any("slope −" in label.value for label in labels)
    assert len(errors.yaxis[0].axis_label) < 20  # longer ones are cut off
