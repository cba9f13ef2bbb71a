"""The plan as a table: kind of problem → steps, without drawing; and that what is planned is what runs."""

from __future__ import annotations

import math

import numpy as np
import pytest

import lbnn
from lbnn.engines.run import problem_of
from lbnn.engines.table import Problem, plan
from lbnn.noise.make import make_noise

SMALL = ("mixture", "rows", "smc")
MANY = ("rows", "gaussian", "smc")
MANY_SHALLOW = ("gaussian", "rows", "smc")  # one wide hidden layer
VERY_MANY = ("rows", "smc")
FEW_NARROW = ("mixture", "rows", "spectral smc")
NARROW = ("rows", "spectral smc")
RELATIVE = ("gaussian", "rows", "smc")  # behind a narrow layer, many entries
MANY_NARROW = ("gaussian", *NARROW)


def steps(problem: Problem, **options) -> list[tuple[str, ...]]:
    """Names of the steps for every matrix, in the order in which they come first."""
    found = plan(problem, **options).steps
    matrices = dict.fromkeys(step.of for step in found)
    return [tuple(step.name for step in found if step.of == each) for each in matrices]


# depth × outputs × rank × width: (widths, outputs, rank) → parts
TABLE = [
    # depth one, one output, no data
    ((), 1, 10, [("atom",)]),
    ((), 7, 10, [("atom",)]),
    ((), 7, 0, [("atom",)]),
    ((5,), 1, 10, [("quadrature",)]),
    ((5, 1, 3), 1, 1, [("quadrature",)]),
    ((5,), 1, 0, [("quadrature",)]),
    ((5,), 3, 0, [("prior",)]),
    ((2, 9), 30, 0, [("prior",)]),
    # few outputs, wide: mixtures on up to 36 entries of T
    ((50,), 2, 100, [SMALL]),
    ((50,), 3, 3, [SMALL]),
    ((50,), 8, 100, [SMALL]),
    ((8,), 8, 100, [SMALL]),
    ((50, 50), 3, 100, [SMALL]),
    ((3,) * 6, 3, 100, [SMALL]),
    ((10,) * 7, 8, 20, [SMALL]),
    # few outputs behind a narrow layer
    ((1,), 2, 10, [FEW_NARROW]),
    ((2,), 5, 10, [FEW_NARROW]),
    ((1,), 14, 30, [FEW_NARROW]),
    ((1,), 15, 30, [NARROW]),
    ((3,), 5, 20, [FEW_NARROW]),
    ((3,), 6, 20, [NARROW]),
    # ... and one as wide as the outputs, from six on
    ((5, 5), 5, 20, [SMALL]),
    ((6, 6), 6, 47, [NARROW]),
    ((3,), 13, 20, [NARROW]),
    ((4,), 7, 20, [NARROW]),
    ((3, 20), 9, 20, [NARROW]),
    ((20, 3), 9, 20, [NARROW]),
    ((1, 1), 36, 40, [NARROW]),
    # many outputs: rows
    ((50,), 9, 100, [MANY_SHALLOW]),
    ((50,), 30, 100, [MANY_SHALLOW]),
    ((50, 50), 10, 2000, [MANY]),
    ((3,), 14, 20, [MANY_NARROW]),
    ((2, 4, 4), 19, 47, [MANY_NARROW]),
    ((1, 1), 37, 40, [MANY_NARROW]),
    ((3,), 14, 167, [(*RELATIVE, "spectral smc")]),  # too many rows for particles that carry all of them
    ((3,), 8, 167, [SMALL]),
    ((10,) * 5, 9, 9, [MANY]),
    # so many that no Hessian is made
    ((500,), 55, 100, [VERY_MANY]),
    ((200,) * 3, 40, 100, [VERY_MANY]),
    # more outputs than data: the hidden kernel, then the scale
    ((9,), 5, 3, [SMALL, SMALL]),
    ((9, 9), 8, 7, [SMALL, SMALL]),
    ((20,), 9, 8, [SMALL, MANY_SHALLOW]),
    ((20,), 100, 4, [SMALL, RELATIVE]),
    ((2,), 6, 5, [SMALL, FEW_NARROW]),
    ((5,), 9, 5, [SMALL, NARROW]),
    ((20,), 100, 12, [MANY_SHALLOW, RELATIVE]),
    # ... behind a layer narrower than the data: the scale alone
    ((3,), 30, 20, [MANY_NARROW]),
    ((3,), 30, 8, [MANY_NARROW]),
    ((3,), 9, 8, [NARROW]),
    ((2, 9), 24, 12, [MANY_NARROW]),
    # ... too large for spectral moves: the scale first
    ((11,), 100, 12, [RELATIVE, MANY]),
    # data of rank one
    ((1,), 5, 1, [("quadrature",)]),
    ((50, 3), 2, 1, [("quadrature",)]),
    ((2, 3, 11), 9, 1, [("quadrature",)]),
    ((9,), 1000, 1, [("quadrature",)]),
]


@pytest.mark.parametrize(("widths", "outputs", "rank", "expected"), TABLE, ids=lambda value: str(value)[:40])
def test_what_is_tried(widths, outputs, rank, expected):
    assert steps(Problem(widths, outputs, rank)) == expected


def test_the_table_is_large_enough():
    assert len(TABLE) >= 40


@pytest.mark.parametrize(
    ("problem", "expected"),
    [
        (Problem((20,), 9, 4, kernel=False), [MANY_SHALLOW]),  # noise per output has no kernel form
        (Problem((3,), 30, 8, kernel=False), [RELATIVE]),
        (Problem((3,), 9, 20, kernel=False), [("rows", "mixture", "smc")]),
        (
            Problem((1,), 5, 1, kernel=False),
            [("quadrature",)],
        ),  # but a hidden kernel that is a number has one
        (Problem((1,), 5, 1, scale=False), [("quadrature",)]),
        (Problem((9,), 5, 1, deficient=True), [("quadrature",)]),
        (Problem((1,), 5, 1, kernel=False, number=False), [SMALL]),
        (Problem((1,), 5, 1, scale=False, number=False), [SMALL]),
        (Problem((9,), 5, 1, deficient=True, number=False), [SMALL, SMALL]),
        (Problem((9,), 20, 5, scale=False), [SMALL]),  # zero temperature behind a narrow layer
        (Problem((4,), 5, 4, scale=False), [SMALL]),
        (Problem((20,), 3, 10, deficient=True), [SMALL]),
    ],
)
def test_forms_of_the_likelihood_that_do_not_exist(problem, expected):
    assert steps(problem) == expected


@pytest.mark.parametrize(
    ("engine", "problem", "expected"),
    [
        ("importance", Problem((9,), 3, 20), [SMALL[:1]]),
        ("smc", Problem((9,), 3, 20), [("smc",)]),
        ("importance", Problem((9,), 12, 20), [RELATIVE[:2]]),
        ("smc", Problem((9,), 12, 20), [("spectral smc",)]),
        ("dual", Problem((9,), 3, 20), [MANY]),
        ("dual", Problem((9,), 12, 4), [SMALL]),
        ("importance", Problem((9,), 12, 4), [RELATIVE[:2]]),
        ("importance", Problem((9,), 1, 4), [SMALL[:1]]),
        ("importance", Problem((9,), 3, 0), [("prior",)]),
        ("quadrature", Problem((9,), 1, 4), [("quadrature",)]),
        ("quadrature", Problem((9,), 3, 1), [("quadrature",)]),
        ("dual quadrature", Problem((9,), 3, 1), [("quadrature",)]),
        ("dual", Problem((9,), 3, 1), [SMALL]),
        ("importance", Problem((9,), 3, 1), [SMALL[:1]]),
        ("smc", Problem((3,), 9, 20), [("spectral smc",)]),
        ("importance", Problem((3,), 9, 20), [("rows", "mixture")]),
    ],
)
def test_engines_by_name(engine, problem, expected):
    assert steps(problem, engine=engine) == expected


@pytest.mark.parametrize(
    ("engine", "problem"),
    [
        ("nuts", Problem((9,), 3, 20)),
        ("atom", Problem((9,), 3, 20)),
        ("quadrature", Problem((9,), 3, 20)),
        ("smc", Problem((), 3, 20)),
        ("dual", Problem((9,), 3, 0)),
        ("dual", Problem((9,), 3, 20, kernel=False)),
        ("importance", Problem((2,), 3, 2, scale=False)),
    ],
)
def test_engines_that_do_not_apply(engine, problem):
    with pytest.raises(ValueError, match="engine"):
        plan(problem, engine)


def test_draws_of_both_matrices_come_before_moves_for_either():
    order = [(step.of, step.name) for step in plan(Problem((9,), 5, 3)).steps]
    both = [(of, name) for of in ("kernel", "scale") for name in SMALL[:2]]
    assert order == [*both, ("kernel", "smc"), ("scale", "smc")]


@pytest.mark.parametrize(("widths", "outputs", "rank", "_"), TABLE, ids=lambda value: str(value)[:40])
def test_every_step_has_words_and_a_method(widths, outputs, rank, _):
    found = plan(Problem(widths, outputs, rank))
    assert found.reason
    assert str(found).count("\n") == len(found.steps)
    for step in found.steps:
        assert step.reason
        assert step.name in str(step)
        assert step.answer or found.engine in ("atom", "quadrature")


@pytest.mark.parametrize(
    ("widths", "outputs", "examples", "inputs", "noise", "beta"),
    [
        ((), 2, 6, 9, "independent", 2.0),
        ((5,), 1, 6, 9, "independent", 2.0),
        ((20,), 2, 6, 9, "independent", 2.0),
        ((20,), 5, 30, 3, "independent", 2.0),  # more outputs than the rank of the data
        ((20,), 4, 3, 9, "independent", 2.0),
        ((20,), 4, 3, 9, "independent", math.inf),
        ((20,), 3, 6, 9, "independent", math.inf),
        ((20,), 4, 3, 9, "per_output", 2.0),
        ((20,), 4, 1, 9, "independent", 2.0),
        ((2, 20), 4, 9, 1, "independent", 2.0),
        ((20,), 4, 1, 9, "independent", math.inf),
        ((20,), 4, 1, 9, "per_output", 2.0),
        ((20,), 3, 9, 5, "coupled", 2.0),
        ((20,), 4, 3, 9, "coupled", 2.0),
    ],
)
def test_what_is_said_is_what_runs(widths, outputs, examples, inputs, noise, beta):
    rng = np.random.default_rng(1)
    X, Y = rng.normal(size=(examples, inputs)), rng.normal(size=(examples, outputs))
    network = lbnn.Network(widths)
    said = network.choose_engine(
        examples, outputs, inputs=inputs, noise=noise, zero_temperature=math.isinf(beta)
    )
    given = np.arange(2.0, 2.0 + outputs) if noise == "per_output" else beta
    spectrum = lbnn.Spectrum.from_inputs(X, Y)
    likelihood = make_noise(noise, given, spectrum).likelihood(spectrum)
    if outputs > 1:
        assert plan(problem_of(network.scale_prior(outputs), likelihood)) == said
    assert network.condition(X, Y, given, noise=noise).diagnostics.engine == said.engine


def test_plans_are_frozen_and_printable():
    text = str(lbnn.Network((50,)).choose_engine(examples=100, outputs=5, inputs=3))
    assert text.startswith("dual importance: more outputs than data")
    assert "1. mixture (kernel)" in text
    with pytest.raises(AttributeError):
        lbnn.Network((50,)).choose_engine(examples=9, outputs=2).engine = "smc"


@pytest.mark.parametrize(
    "options", [{"examples": 0}, {"outputs": 0}, {"inputs": 0}, {"noise": "pink"}, {"examples": 2.5}]
)
def test_bad_sizes(options):
    with pytest.raises((ValueError, TypeError)):
        lbnn.Network((5,)).choose_engine(**({"examples": 5, "outputs": 2} | options))
