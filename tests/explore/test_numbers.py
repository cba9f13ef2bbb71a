"""The numbers of each view against the library, and the lines of Python against the numbers."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import math
from dataclasses import replace

import numpy as np
import pytest

import lbnn
from lbnn.explore.code import code
from lbnn.explore.numbers import features, function, learning, phase, scale, theories
from lbnn.explore.numbers.answer import Value, as_csv
from lbnn.explore.presets import PRESETS
from lbnn.explore.problem import data, posterior
from lbnn.explore.session import NUMBERS
from lbnn.explore.state import State
from lbnn.explore.table import Table

pytestmark = pytest.mark.filterwarnings("ignore::lbnn.AccuracyWarning")

SMALL = {"examples": 8, "inputs": 12}


def last(numbers):
    *_, final = numbers
    return final


def run(lines: str, tmp_path, monkeypatch) -> dict[str, float]:
    """What copied lines print, by name."""
    monkeypatch.chdir(tmp_path)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(lines, "copied", "exec"), {"__name__": "__main__"})
    pairs = (line.rpartition(" = ") for line in printed.getvalue().splitlines())
    return {name: float(number) for name, _, number in pairs}


# ---------------------------------------------------------------------- data


def test_more_examples_are_added_to_those_that_were_there():
    few, many = data(State(examples=5)), data(State(examples=9))
    np.testing.assert_array_equal(many[0][:5], few[0])
    np.testing.assert_allclose(many[1][:5], few[1], rtol=1e-12)


def test_size_noise_and_rank_of_the_targets():
    Y = data(State(examples=200, inputs=400, outputs=3, rank=1, noise=0.0, size=2.0))[1]
    values = np.linalg.svd(Y, compute_uv=False)
    assert values[1] < 1e-12 * values[0]
    full = data(State(examples=200, inputs=400, outputs=3, noise=0.0, size=2.0))[1]
    assert np.linalg.matrix_rank(full) == 3
    sizes = [data(State(examples=100, inputs=400, noise=0.0, size=2.0, seed=seed))[1] for seed in range(30)]
    assert np.mean(np.square(sizes)) == pytest.approx(4.0, rel=0.35)  # rank 4: few draws behind each teacher


def test_file_without_a_file_is_told():
    with pytest.raises(ValueError, match="needs a data file"):
        posterior(State(source="file"))


def table(outputs: int = 1, rows: int = 30) -> Table:
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(rows, 4)) * 7 + 3, rng.normal(size=(rows, outputs))
    return Table.standardised("a.csv", tuple("abcd"), tuple("uvwz"[:outputs]), X, Y)


def test_tables_are_equal_by_their_numbers():
    assert table() == table()
    assert hash(table()) == hash(table())
    assert table() != table(2)
    X, y = data(State(source="file", examples=20), table())
    assert X.shape == (20, 4)
    assert y.shape == (20,)


@pytest.mark.parametrize(
    ("X", "Y", "message"),
    [
        (np.ones((5, 2)), np.arange(5.0)[:, None], "constant column cannot be standardised, got x0"),
        (np.arange(10.0).reshape(5, 2), np.arange(25.0).reshape(5, 5), "targets must be 1 to 4 columns"),
        (np.zeros((2, 2001)), np.arange(2.0)[:, None], "at most 2000 columns"),
    ],
)
def test_tables_that_break_a_rule(X, Y, message):
    names = tuple(f"x{i}" for i in range(X.shape[1])), tuple(f"y{i}" for i in range(Y.shape[1]))
    with pytest.raises(ValueError, match=message):
        Table.standardised("a.csv", *names, X, Y)


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


def test_ellipses_and_eigenvalues():
    numbers = last(scale.numbers(State(outputs=3, depth=2, widths=(8,), **SMALL)))
    mean = numbers.posterior.scale.mean[:2, :2]
    on_it = np.einsum("ti,ij,tj->t", numbers.mean, np.linalg.inv(mean), numbers.mean)
    np.testing.assert_allclose(on_it, 1.0, rtol=1e-9)
    assert numbers.eigenvalues.shape == (3, 5)
    for quantiles in (numbers.eigenvalues, numbers.eigenvalues_before):
        assert (np.diff(quantiles, axis=1) >= 0).all()  # levels
        assert (np.diff(quantiles, axis=0) <= 0).all()  # largest first
    errors = [value.error for value in numbers.values if value.name.startswith("E L")]
    assert len(errors) == 6
    assert min(errors) > 0


def test_prior_eigenvalues_against_the_wishart_law():
    """One hidden layer, very wide: all eigenvalues of L near one, by ±2/√n."""
    numbers = last(scale.numbers(State(outputs=2, depth=2, widths=(1000,), **SMALL)))
    assert np.abs(numbers.eigenvalues_before - 1).max() < 4 / math.sqrt(1000) * 1.5


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


def test_features_of_every_layer():
    state = State(view="features", depth=4, widths=(5,), layer=2, variances=(1.0, 2.0), **SMALL)
    first, final = features.numbers(state)
    X, y = data(state)
    post = lbnn.Network((5,) * 3, [1.0, 2.0, 2.0, 2.0]).condition(X, y, beta=25.0)
    np.testing.assert_allclose(final.learned, post.feature_kernel(layer=2), rtol=1e-10)
    np.testing.assert_allclose(final.before, 2.0 * X @ X.T / 12, rtol=1e-10)
    assert np.isnan(first.alignments[3])
    expected = [features.alignment(post.feature_kernel(layer=layer), np.outer(y, y)) for layer in (1, 2, 3)]
    np.testing.assert_allclose(final.alignments[1:], expected, rtol=1e-10)
    for layer, kernel in enumerate(post.feature_kernels(), 1):
        np.testing.assert_allclose(kernel, post.feature_kernel(layer=layer), rtol=1e-12)


def test_theories_are_those_of_compare_and_sizes_grow():
    state = State(view="theories", depth=2, widths=(16,), growth="width", **SMALL)
    *_, final = stages = list(theories.numbers(state))
    assert len(stages) > 3
    assert final.complete
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


@pytest.mark.slow
def test_a_learning_curve_is_that_of_the_library_and_its_rough_form_comes_first():
    state = State(view="learning", depth=2, widths=(6,), examples=12, inputs=16, size=1.0, noise=0.5)
    first, final = learning.numbers(state)
    assert first.rough
    assert not final.rough
    assert 12 in final.curve.examples
    plain = lbnn.learning_curve(
        lbnn.Network((6,)), learning.sizes(state), 16, 1.0, 0.5, 25.0, target_error=0.03, max_draws=2000
    )
    np.testing.assert_array_equal(final.curve.error, plain.error)
    assert final.values[0].number == plain.error[final.place]
    assert max(learning.sizes(State(beta=math.inf, inputs=20, examples=5))) == 20
    for wrong, message in (
        ({"beta": 0.0}, "positive β"),
        ({"beta": math.inf, "examples": 30}, "at most as many"),
    ):
        with pytest.raises(ValueError, match=message):
            list(learning.numbers(replace(state, **wrong)))


def test_limits_of_extreme_states_have_no_overflow():
    state = State(view="learning", depth=20, widths=(1,), beta=1e-3, examples=3, inputs=4)
    assert np.isfinite(learning.rough(state).curve.limits["proportional"].error).all()


@pytest.mark.parametrize("view", ["features", "theories"])
def test_depth_one_has_no_features(view):
    with pytest.raises(ValueError, match="got depth 1"):
        last(NUMBERS[view](State(view=view, depth=1, **SMALL)))


def test_phase_map_is_what_the_functions_give():
    cells = {(cell.alpha, cell.gamma): cell.change for cell in phase.coarse()}
    assert len(cells) > 40
    sizes = phase.sizes_at(1.0, 0.25)
    assert cells[1.0, 0.25] == pytest.approx(phase.cell(sizes).change, rel=1e-3)
    assert phase.sizes_at(1e-3, 1.0) is None  # no example is left
    assert phase.sizes_at(1.0, 1e-4) is None  # too wide
    found = phase.around(2.0, 0.5)
    assert found
    assert all(0.5 < cell.alpha / 2.0 < 2 and 0.5 < cell.gamma / 0.5 < 2 for cell in found)


# ---------------------------------------------------------------------- words, files, lines


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


CASES = {
    "scale": State(depth=3, widths=(6, 4), variances=(1.0, 2.0), **SMALL),
    "scale, depth one": State(depth=1, **SMALL),
    "scale, zero temperature": State(beta=math.inf, **SMALL),
    "matrix": State(outputs=2, depth=2, widths=(5,), rank=1, **SMALL),
    "function": State(view="function", depth=3, beta=math.inf, variances=(2.0,)),
    "features": State(view="features", depth=3, layer=9, widths=(5,), variances=(2.0, 3.0, 1.0), **SMALL),
    "theories": State(view="theories", depth=2, widths=(8,), **SMALL),
    "theories, outputs": State(
        view="theories", depth=2, widths=(4,), growth="width and outputs", quantity="scale",
        beta=math.inf, **SMALL,
    ),
    "learning": State(view="learning", depth=2, widths=(6,), examples=2, inputs=2),
    "theories, data": State(
        view="theories", depth=2, widths=(4,), growth="data", quantity="scale", examples=2, inputs=8
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    "state",
    [
        pytest.param(state, id=name, marks=pytest.mark.slow if name == "learning" else ())
        for name, state in CASES.items()
    ],
)
def test_copied_lines_print_the_numbers_of_the_page(state, tmp_path, monkeypatch):
    numbers = last(NUMBERS[state.view](state, None))
    printed = run(code(state, None, numbers), tmp_path, monkeypatch)
    assert printed == pytest.approx({value.name: value.number for value in numbers.values}, rel=1e-9)
    assert len(list(tmp_path.glob("*.svg"))) == 1


@pytest.mark.parametrize("view", ["scale", "features", "theories"])
@pytest.mark.parametrize("outputs", [1, 2])
def test_copied_lines_read_the_file(view, outputs, tmp_path, monkeypatch):
    import pandas as pd

    from lbnn.cli.explore import read_for_page
    from lbnn.cli.preparing import Columns

    rng = np.random.default_rng(1)
    frame = pd.DataFrame(rng.normal(size=(14, 5)), columns=["a'", 'b"', "c", "u", "v"])
    frame.to_csv(tmp_path / "data.csv", index=False)
    targets = ["u", "v"][:outputs]
    columns = Columns(targets, [], ["v"][outputs - 1 :])
    mine = read_for_page(tmp_path / "data.csv", "data.csv", columns)
    state = State(view=view, source="file", depth=2, widths=(4,), examples=12, growth="data")
    numbers = last(NUMBERS[view](state, mine))
    printed = run(code(state, mine, numbers), tmp_path, monkeypatch)
    assert printed == pytest.approx({value.name: value.number for value in numbers.values}, rel=1e-8)


@pytest.mark.parametrize(
    "name",
    ["scale", "matrix", "function", "features", "theories", pytest.param("learning", marks=pytest.mark.slow)],
)
def test_numbers_as_a_file(name):
    state = CASES[name]
    numbers = last(NUMBERS[state.view](state, None))
    header, *lines = csv.reader(io.StringIO(as_csv(numbers)))
    assert lines
    assert all(len(line) == len(header) for line in lines)
    assert numbers.sentence.endswith(".")


@pytest.mark.slow
@pytest.mark.parametrize("preset", PRESETS, ids=lambda preset: preset.name)
def test_every_preset_in_every_view(preset, tmp_path, monkeypatch):
    for view in NUMBERS:
        state = replace(preset.state, view=view)
        numbers = last(NUMBERS[view](state, None))
        assert numbers.sentence
        assert not any("not ok" in message for message in numbers.messages)
        printed = run(code(state, None, numbers), tmp_path, monkeypatch)
        assert printed == pytest.approx({value.name: value.number for value in numbers.values}, rel=1e-9)
        json.dumps(state.address())


@pytest.mark.slow
def test_drawn_functions_have_the_law_of_the_band(monkeypatch):
    """First λ, then a function given it, against the mean and variance of the predictive itself."""
    from lbnn.explore.numbers import function

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
    density = np.exp(
        np.interp(np.log(last.draws.scales), np.log(last.law.scale_after), np.log(last.law.after))
    )
    np.testing.assert_allclose(last.draws.heights, density, rtol=0.05)


def test_law_of_the_scale_integrates_to_one():
    from lbnn.explore.numbers import function

    *_, last = function.numbers(State(view="function"))
    for x, density in ((last.law.scale_before, last.law.before), (last.law.scale_after, last.law.after)):
        assert np.trapezoid(density, np.log(x)) == pytest.approx(1.0, abs=5e-3)


def test_every_step_of_the_tour_can_be_shown():
    from lbnn.explore.controls import CONTROLS
    from lbnn.explore.numbers.views import NUMBERS
    from lbnn.explore.steps import STEPS

    known = {control.name: control for control in CONTROLS}
    for step in STEPS:
        assert step.control == "points" or step.state.view in known[step.control].views
        assert step.words.count(". ") == 1
        assert State.from_address(step.state.address()) == step.state
        assert next(NUMBERS[step.state.view](step.state, None)).sentence
