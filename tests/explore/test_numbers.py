"""The numbers of each picture against the library."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import lbnn

pytest.importorskip("bokeh")

from lbnn.explore import function, scale, theories
from lbnn.explore.answer import Value
from lbnn.explore.page import NUMBERS
from lbnn.explore.presets import PRESETS
from lbnn.explore.problem import data
from lbnn.explore.state import State
from lbnn.explore.theories import Errors, closest_of, slope_of

pytestmark = pytest.mark.filterwarnings("ignore::lbnn.AccuracyWarning")

SMALL = {"examples": 8, "inputs": 12}


def last(numbers):
    *_, final = numbers
    return final


# ---------------------------------------------------------------------- data


def test_more_examples_are_added_to_those_that_were_there():
    few, many = data(State(examples=5)), data(State(examples=9))
    np.testing.assert_array_equal(many[0][:5], few[0])
    np.testing.assert_allclose(many[1][:5], few[1], rtol=1e-12)


def test_size_noise_and_rank_of_the_targets():
    Y = data(State(examples=200, inputs=400, outputs=2, rank=1, noise=0.0, size=2.0))[1]
    values = np.linalg.svd(Y, compute_uv=False)
    assert values[1] < 1e-12 * values[0]
    full = data(State(examples=200, inputs=400, outputs=2, noise=0.0, size=2.0))[1]
    assert np.linalg.matrix_rank(full) == 2
    sizes = [data(State(examples=100, inputs=400, noise=0.0, size=2.0, seed=seed))[1] for seed in range(30)]
    assert np.mean(np.square(sizes)) == pytest.approx(4.0, rel=0.35)  # rank 4: few draws behind each teacher


# ---------------------------------------------------------------------- views


def test_scale_is_that_of_the_library_and_its_densities_are_normalised():
    state = State(depth=4, widths=(6, 9), variances=(2.0, 0.5), **SMALL)
    numbers = last(scale.numbers(state))
    X, y = data(state)
    exact = lbnn.Network((6, 9, 9), [2.0, 0.5, 0.5, 0.5]).condition(X, y, beta=25.0)
    values = {value.name: value.number for value in numbers.values}
    assert values["E λ"] == pytest.approx(exact.scale.mean, rel=1e-12)
    assert values["log evidence"] == pytest.approx(exact.log_evidence, rel=1e-12)
    assert {curve.depth for curve in numbers.curves} == {2, 4, 10}
    for curve in numbers.curves:
        assert np.trapezoid(curve.density, np.log(curve.scale)) == pytest.approx(1.0, abs=5e-3)


def test_depth_one_has_a_fixed_scale():
    numbers = last(scale.numbers(State(depth=1, variances=(3.0,), **SMALL)))
    assert numbers.fixed == 1.0  # the only variance belongs to the Gram matrix
    assert "no scale is learned" in numbers.sentence


def test_no_data_leave_the_prior():
    numbers = last(scale.numbers(State(beta=0.0, **SMALL)))
    values = {value.name: value.number for value in numbers.values}
    assert values["E λ"] == pytest.approx(1.0, rel=1e-10)
    assert values["log evidence"] == -math.inf


def test_ellipses():
    numbers = last(scale.numbers(State(outputs=2, depth=2, widths=(8,), **SMALL)))
    mean = numbers.posterior.scale.mean[:2, :2]
    on_it = np.einsum("ti,ij,tj->t", numbers.mean, np.linalg.inv(mean), numbers.mean)
    np.testing.assert_allclose(on_it, 1.0, rtol=1e-9)
    errors = [value.error for value in numbers.values if value.name.startswith("E L")]
    assert len(errors) == 3
    assert min(errors) > 0


def test_function_band_against_the_library_and_the_process():
    state = State(view="function", depth=1)
    numbers = last(function.numbers(state))
    np.testing.assert_allclose(numbers.band.quantiles, numbers.process_band.quantiles, rtol=1e-9, atol=1e-12)
    deep = last(function.numbers(replace(state, depth=5, widths=(4,))))
    assert not np.allclose(deep.band.quantiles, deep.process_band.quantiles, rtol=1e-3)
    exact = last(function.numbers(State(view="function", beta=math.inf, points=((-1.0, 2.0), (1.0, -1.0)))))
    at = [np.argmin(np.abs(function.GRID - x)) for x in (-1.0, 1.0)]
    np.testing.assert_allclose(exact.band.mean[at], [2.0, -1.0], rtol=1e-9)


def test_two_points_at_one_place_cannot_be_interpolated():
    with pytest.raises(ValueError, match=r"."):
        last(function.numbers(State(view="function", beta=math.inf, points=((0.0, 1.0), (0.0, 2.0)))))


def test_theories_are_those_of_compare_and_sizes_grow():
    state = State(view="theories", depth=2, widths=(16,), growth="width", **SMALL)
    *_, final = stages = list(theories.numbers(state))
    assert len(stages) > 3
    assert [each.size for each in final.sizes] == [2, 4, 8, 16, 32, 64, 128]
    X, y = data(state)
    exact = lbnn.compare(lbnn.Network((16,)), X, y, 25.0, quantities=("kernel",))
    assert {row[0]: row[1] for row in final.here.rows} == pytest.approx(
        {row.theory: row.error for row in exact.rows}, rel=1e-9
    )
    wide = {row[0]: row[1] for row in final.sizes[-1].rows}
    assert wide["infinite width"] < 0.1 * {row[0]: row[1] for row in final.here.rows}["infinite width"]


def test_compare_takes_some_theories():
    X, y = data(State(**SMALL))
    some = lbnn.compare(lbnn.Network((9,)), X, y, 4.0, theories=("infinite width",))
    assert tuple(some.theories) == ("infinite width",)
    assert not some.left_out
    with pytest.raises(ValueError, match="theories must be among"):
        lbnn.compare(lbnn.Network((9,)), X, y, 4.0, theories=("everything",))


# ---------------------------------------------------------------------- words


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Value("a", 0.123456789), "0.12346"),
        (Value("a", -1.5, 0.02), "−1.500 ± 0.020"),
        (Value("a", -math.inf), "−∞"),
        (Value("a", 1e9, 1e-3), "1e+09 ± 0.001"),
    ],
)
def test_numbers_as_written(value, text):
    assert value.text == text


@pytest.mark.parametrize("preset", PRESETS, ids=lambda preset: preset.name)
def test_every_preset_has_numbers_in_every_picture_for_which_it_is_deep_enough(preset):
    for view in NUMBERS.values():
        numbers = last(view(preset.state))
        assert numbers.sentence.endswith(".")
        assert numbers.values
        assert all(math.isfinite(value.number) or value.name == "effective draws" for value in numbers.values)
        assert not any("not ok" in message for message in numbers.messages)


@pytest.mark.slow
def test_drawn_functions_have_the_law_of_the_band(monkeypatch):
    """First λ, then a function given it, against the mean and variance of the predictive itself."""
    monkeypatch.setattr(function, "_DRAWS", 600)
    state = State(view="function", depth=4, widths=(3,), variances=(2.0, 0.5), beta=5.0)
    *_, last = function.numbers(state)
    x = np.array([point[0] for point in state.points])
    grid = function.GRID
    law = last.posterior.predict(cross_gram=function.kernel(grid, x), test_gram=function.kernel(grid, grid))
    for place in (0, 80, 120, 160):
        mean, variance = float(law.mean[place]), float(law.variance[place])
        values = last.draws.functions[:, place]
        assert abs(values.mean() - mean) < 4 * np.sqrt(variance / 600)
        squares = (values - mean) ** 2
        assert abs(squares.mean() - variance) < 4 * squares.std() / np.sqrt(600)
    assert (np.diff(last.draws.scales) >= 0).all()


def test_theories_that_the_monte_carlo_error_does_not_distinguish_are_named_together():
    rows = (("infinite width", 0.2, 0.01), ("proportional", 0.1022, 0.01), ("many outputs", -0.114, 0.01))
    assert [name for name, _, _ in closest_of(rows)] == ["proportional", "many outputs"]
    here = Errors(8, rows, (), ())
    sentence = theories.TheoryNumbers(State(view="theories", outputs=2), here, (here,), 0.1).sentence
    assert "does not distinguish between “proportional” (0.1022), “many outputs” (0.114)" in sentence
    assert [name for name, _, _ in closest_of([("a", 0.1, 0.0), ("b", 0.1001, 0.0)])] == ["a"]


def test_slopes_of_errors():
    sizes = [Errors(n, (("a", 3.0 / n**2, 0.0), ("b", 1.0, 5.0)), (), ()) for n in (10, 20, 40, 80)]
    assert slope_of("a", sizes) == pytest.approx(-2)
    assert slope_of("b", sizes) is None  # noise


def test_the_theory_that_takes_long_is_left_out_by_name():
    for depth, examples, left_out in ((2, 8, False), (3, 8, True), (2, 41, True)):
        state = State(view="theories", depth=depth, widths=(8,), examples=examples, inputs=50)
        numbers = next(theories.numbers(state))
        assert any("depth 2 with up to" in message for message in numbers.messages) == left_out
        assert ("many outputs" in {value.name for value in numbers.values}) != left_out
