"""The state of the page: every rule, and an address that restores it."""

from __future__ import annotations

import math
from dataclasses import fields, replace
from urllib.parse import urlencode

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lbnn.explore.controls import CONTROLS
from lbnn.explore.presets import PRESETS
from lbnn.explore.state import GROWTHS, RANGES, VIEWS, State, carried_on
from lbnn.theories.comparison import QUANTITIES

NUMBERS = st.floats(0.011, 99.0).map(lambda x: float(f"{x:.6g}"))
STATES = st.builds(
    State,
    view=st.sampled_from(VIEWS),
    depth=st.integers(1, 20),
    widths=st.lists(st.integers(1, 1000), min_size=1, max_size=19).map(tuple),
    beta=st.one_of(st.sampled_from([0.0, math.inf]), NUMBERS),
    variances=st.lists(NUMBERS, min_size=1, max_size=20).map(tuple),
    examples=st.integers(1, 200),
    size=NUMBERS,
    quantity=st.sampled_from(list(QUANTITIES)),
    growth=st.sampled_from(GROWTHS),
    points=st.lists(st.tuples(st.floats(-5, 5), st.floats(-1000, 1000)), min_size=1, max_size=60).map(tuple),
)


@settings(max_examples=60, deadline=None)
@given(STATES)
def test_address_restores_every_state(state):
    if len(state.address()) <= 4000:
        assert State.from_address(state.address()) == state
        assert State.from_address("?" + state.address()) == state
    else:
        with pytest.raises(ValueError, match="fewer points"):
            State.from_address(state.address())


def test_defaults_have_no_address_and_the_empty_address_is_the_default():
    assert State().address() == ""
    assert State.from_address("") == State()


@pytest.mark.parametrize("name", RANGES)
def test_every_range_is_kept_at_both_ends_and_beyond(name):
    several = isinstance(getattr(State(), name), tuple)
    kind = type(np.ravel(getattr(State(), name))[0].item())
    for value in RANGES[name]:
        chosen = kind(value)
        assert State(**{name: (chosen,) if several else chosen})
    for value in (RANGES[name][0] - 1, RANGES[name][1] + 1, math.nan):
        with pytest.raises(ValueError, match=f"{name} must be from"):
            State(**{name: (value,) if several else value})


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("depth=21", "depth must be from 1 to 20, got 21"),
        ("depth=two", "depth must be a whole number, got 'two'"),
        ("depth=3&depth=4", "one of them twice"),
        ("beta=-1", "beta must be 0, from 1e-06 to 1e"),
        ("beta=nan", "beta must be 0"),
        ("beta=1e-300", "beta must be 0"),
        ("widths=", "widths must be numbers separated by commas"),
        ("widths=5,,5", "widths must be numbers"),
        ("widths=" + ",".join(["5"] * 20), "widths must be 1 to 19 numbers, got 20"),
        ("widths=0", "widths must be from 1 to 1000"),
        ("points=", "points must be 1 to 60, got 0"),
        ("points=1:2:3", "points x:y separated by commas"),
        ("points=9:0", "x from -5 to 5"),
        ("points=nan:0", "x from -5 to 5"),
        ("view=admin", "view must be one of scale"),
        ("quantity=x", "quantity must be one of"),
        ("source=/etc/passwd", "the address may name view"),
        ("outputs=4", "outputs must be from 1 to 2"),
        ("__class__=1", "the address may name view"),
        ("size=1e400", "size must be from 0"),
        ("seed=" + "9" * 3000, "seed must be"),
        ("view=" + "x" * 5000, "4000 characters"),
    ],
)
def test_bad_addresses_state_the_rule(query, message):
    with pytest.raises(ValueError, match=message) as problem:
        State.from_address(query)
    assert len(str(problem.value)) < 300


def test_500_random_addresses_are_states_or_clear_errors():
    rng = np.random.default_rng(0)
    names = [each.name for each in fields(State)] + ["x", "", "depth", "beta"]
    texts = [
        "0",
        "1",
        "-1",
        "inf",
        "-inf",
        "nan",
        "1e999",
        "",
        "💥",
        "%00",
        "3,4",
        "1:2",
        "a" * 300,
        "0x10",
        "1_0",
        "٣",
    ]
    good, told = 0, []
    for _ in range(500):
        pairs = [f"{rng.choice(names)}={rng.choice(texts)}" for _ in range(rng.integers(1, 5))]
        try:
            state = State.from_address("&".join(pairs))
        except ValueError as problem:
            told.append(str(problem))
        else:
            good += 1
            assert State.from_address(state.address()) == state
    assert 0 < good < 500
    assert all(0 < len(message) < 400 for message in told)


def test_widths_carry_on():
    assert carried_on((5, 3), 4) == (5, 3, 3, 3)
    assert carried_on((5, 3), 1) == (5,)
    assert carried_on((5,), 0) == ()
    assert State(depth=4, widths=(5, 3)).network_widths == (5, 3, 3)


def test_core_keeps_what_matters():
    state = State(view="theories", quantity="scale", depth=5, seed=7, points=((0.0, 1.0),))
    assert state.core() == State(depth=5, seed=7)
    assert replace(state, beta=3.0).core() != state.core()


def test_presets_have_names_stories_and_addresses_of_their_own():
    assert len({preset.name for preset in PRESETS}) == len(PRESETS) == len({p.state for p in PRESETS})
    assert all(preset.story.endswith(".") for preset in PRESETS)
    assert {preset.state.view for preset in PRESETS} == set(VIEWS)


def test_every_stop_of_every_control_is_allowed_and_reaches_both_ends():
    for control in CONTROLS:
        for stop in (*control.stops, *control.choices):
            State.from_address(urlencode({control.name: stop}))
    stops = {control.name: control.stops for control in CONTROLS}
    assert (stops["beta"][0], stops["beta"][-1]) == ("0", "inf")
    assert (stops["depth"][0], stops["depth"][-1]) == ("1", "20")
    assert (stops["widths"][0], stops["widths"][-1]) == ("1", "1000")
    assert stops["outputs"] == ("1", "2")
    unmoved = {each.name for each in fields(State)} - {control.name for control in CONTROLS}
    assert unmoved == {"view", "points"}  # which have controls of their own
