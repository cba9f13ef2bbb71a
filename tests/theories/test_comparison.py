"""The comparison of theories with the exact answer: numbers, what it leaves out, Monte Carlo error."""

from __future__ import annotations

import math
from xml.etree import ElementTree

import numpy as np
import pytest

import lbnn
from lbnn import asymptotics
from lbnn.scale.measure import ScaleMeasure
from lbnn.scale.phases import standard_error
from lbnn.theories.comparison import QUANTITIES, Comparison, Discrepancy, group_error
from tests.helpers.problems import Problem, make_problem

ONE = make_problem(20, 30, seed=541, signal=1.5)
TWO = make_problem(12, 20, 2, seed=542, signal=1.5)


def norm_ratio(given: object, exact: object, size: object) -> float:
    return float(np.linalg.norm(np.asarray(given) - np.asarray(exact)) / np.linalg.norm(np.asarray(size)))


@pytest.mark.parametrize("beta", [4.0, math.inf])
@pytest.mark.parametrize("data", [ONE, TWO], ids=["one output", "two outputs"])
def test_rows_by_hand(data: Problem, beta: float) -> None:
    """Every number of the proportional and the infinitely wide theory, from their own answers."""
    net = lbnn.Network((25, 30), (1.2, 0.9, 1.0))
    result = lbnn.compare(net, data.X, data.Y, beta, data.X_test, seed=3)
    exact = net.condition(data.X, data.Y, beta, seed=3)
    theories = {
        "proportional": asymptotics.proportional(net, data.X, data.Y, beta=beta),
        "infinite width": asymptotics.infinite_width(net, data.X, data.Y, beta, order=0),
        "infinite width, order 1": asymptotics.infinite_width(net, data.X, data.Y, beta),
        "many outputs": asymptotics.many_outputs(net, data.X, data.Y, beta=beta),
    }
    kernel = exact.feature_kernel()
    points = exact.predict(data.X_test)
    for name, theory in theories.items():
        own = theory.predict(data.X_test)
        expected = {
            "kernel": norm_ratio(theory.kernel, kernel, kernel),
            "kernel correction": norm_ratio(theory.kernel, kernel, kernel - 1.2 * data.gram),
            "mean": norm_ratio(own.mean, points.mean, points.mean),
            "covariance": norm_ratio(
                own.output_covariance, points.output_covariance, points.output_covariance
            ),
            "log evidence": theory.log_evidence - exact.log_evidence,
        }
        if theory.scale is not None:
            expected["scale"] = norm_ratio(theory.scale.mean, exact.scale.mean, exact.scale.mean)
        found = {row.quantity: row.error for row in result.rows if row.theory == name}
        assert found == pytest.approx(expected, rel=1e-6, abs=1e-9)
    assert result.exact.log_evidence == exact.log_evidence


def test_training_points_by_default() -> None:
    """Predictors are compared at the training inputs where no others are given."""
    net = lbnn.Network((25,))
    default = lbnn.compare(net, ONE.X, ONE.Y, 4.0, quantities=("mean",))
    named = lbnn.compare(net, ONE.X, ONE.Y, 4.0, ONE.X, quantities=("mean",))
    for first, second in zip(default.rows, named.rows, strict=True):
        assert first.error == pytest.approx(second.error, rel=1e-8)
    assert {row.quantity for row in default.rows} == {"mean"}


def test_applicable_theories() -> None:
    """Which theories take part, and the rule that keeps the others out."""
    wide = lbnn.compare(lbnn.Network((25,)), ONE.X, ONE.Y, math.inf, quantities=("scale",))
    assert set(wide.theories) == {
        "infinite width",
        "infinite width, order 1",
        "infinite data",
        "proportional",
        "proportional, as printed",
        "proportional, first order",
        "many outputs",
    }
    assert wide.left_out == {}
    warm = lbnn.compare(lbnn.Network((25,)), ONE.X, ONE.Y, 2.0, quantities=("scale",))
    assert set(warm.theories) == set(wide.theories) - set(warm.left_out)
    assert len(warm.theories) == 4
    assert all("zero temperature" in reason for reason in warm.left_out.values())
    narrow = lbnn.compare(lbnn.Network((15,)), ONE.X, ONE.Y, math.inf, quantities=("scale",))
    assert "fewer examples" in narrow.left_out["proportional, first order"]
    bottleneck = lbnn.compare(lbnn.Network((1,)), TWO.X, TWO.Y, 2.0, quantities=("kernel",), target_error=0.2)
    assert set(bottleneck.theories) == {"infinite width", "many outputs"}
    assert "at least n_d" in bottleneck.left_out["proportional"]
    assert "use order=0" in bottleneck.left_out["infinite width, order 1"]


def test_table() -> None:
    """One line for each theory, a dash where it has no answer, then Monte Carlo error and reasons."""
    result = lbnn.compare(lbnn.Network((25,)), ONE.X, ONE.Y, 2.0)
    lines = result.table().splitlines()
    assert lines[0].split()[0] == "theory"
    assert all(quantity in lines[0] for quantity in QUANTITIES)
    assert [line[:26].strip() for line in lines[1:6]] == [*result.theories, "Monte Carlo"]
    many = next(line for line in lines if line.startswith("many outputs"))
    assert many[26:].split()[2] == "–"
    wide = next(line for line in lines if line.startswith("infinite width"))
    assert float(wide[26:].split()[0]) == pytest.approx(result.error("infinite width", "kernel"), rel=0.05)
    assert lines[6:] == [f"{name}: {reason}" for name, reason in result.left_out.items()]


def test_notebooks_see_a_table() -> None:
    """Well-formed, every cell of the text; nothing is loaded from anywhere."""
    result = lbnn.compare(lbnn.Network((25,)), ONE.X, ONE.Y, 2.0)
    page = ElementTree.fromstring(f"<div>{result._repr_html_()}</div>")
    cells = [[cell.text for cell in row.iter("td")] for row in page.iter("tr")]
    assert [tuple(line) for line in cells[1:]] == result.grid()
    assert [item.text for item in page.iter("li")] == [f"{k}: {v}" for k, v in result.left_out.items()]
    assert not {"href", "src"} & {name for element in page.iter() for name in element.attrib}
    assert repr(result).startswith("Comparison(widths=(25,), theories=(")
    assert len(repr(result)) < 200


def test_grid_says_what_is_missing_or_infinite() -> None:
    rows = [Discrepancy("a", "kernel", math.inf, 0.0), Discrepancy("b", "mean", 0.5, 0.25)]
    exact = lbnn.Network((3,)).condition(ONE.X, ONE.Y, 4.0)
    lines = Comparison(exact, {"a": None, "b": None}, {}, tuple(rows)).grid()
    grid = {line[0]: dict(zip(QUANTITIES, line[1:], strict=True)) for line in lines}
    assert (grid["a"]["kernel"], grid["a"]["mean"], grid["b"]["mean"]) == ("∞", "–", "0.5")
    assert (grid["Monte Carlo"]["mean"], grid["Monte Carlo"]["scale"]) == ("0.2", "–")


def test_one_output_has_no_monte_carlo_error() -> None:
    result = lbnn.compare(lbnn.Network((25,)), ONE.X, ONE.Y, 2.0)
    assert {row.monte_carlo for row in result.rows} == {0.0}


def test_refusals() -> None:
    with pytest.raises(ValueError, match="quantities must be among"):
        lbnn.compare(lbnn.Network((25,)), ONE.X, ONE.Y, 2.0, quantities=("kernels",))
    with pytest.raises(ValueError, match="depth one"):
        lbnn.compare(lbnn.Network(()), ONE.X, ONE.Y, 2.0)
    with pytest.raises(ValueError, match="beta"):
        lbnn.compare(lbnn.Network((25,)), ONE.X, ONE.Y, math.nan)


# ---------------------------------------------------------------------- Monte Carlo error


def test_group_error_of_a_mean() -> None:
    """For a linear statistic it is the norm of the entrywise standard errors from the groups."""
    post = lbnn.Network((6,)).condition(TWO.X, TWO.Y, 4.0)

    def mean(measure: ScaleMeasure) -> np.ndarray:
        return measure.average(measure.scales)

    error = group_error(post.scale, mean, mean(post.scale))
    entries = standard_error(post.scale.atoms, post.scale.weights, post.scale.groups)
    assert error == pytest.approx(np.linalg.norm(entries), rel=1e-10)
    assert error <= np.linalg.norm(post.scale.mean_error)  # which is pooled with the design effect
    assert error > 0


def test_group_error_against_the_spread_over_seeds() -> None:
    """Root mean square of the stated errors and of the deviations over seeds agree within a factor."""
    net, runs = lbnn.Network((6,)), 24

    def once(seed: int) -> Comparison:
        return lbnn.compare(
            net, TWO.X, TWO.Y, 4.0, quantities=("kernel", "scale"), target_error=0.2, seed=seed
        )

    results = [once(seed) for seed in range(runs)]
    answers = {
        "kernel": np.stack([result.exact.feature_kernel() for result in results]),
        "scale": np.stack([np.asarray(result.exact.scale.mean) for result in results]),
    }
    for quantity, values in answers.items():
        centre = values.mean(axis=0)
        spread = math.sqrt(((values - centre) ** 2).sum() / (runs - 1))
        stated = [
            row.monte_carlo * np.linalg.norm(values[run])
            for run, result in enumerate(results)
            for row in result.rows
            if (row.theory, row.quantity) == ("infinite width", quantity)
        ]
        ratio = math.sqrt(np.mean(np.square(stated))) / spread
        assert 0.7 < ratio < 1.5, (quantity, ratio)


def test_only_the_theories_that_are_asked_for() -> None:
    """The rows are those of a comparison of all; what is not asked for is not computed."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(20, 30)), rng.normal(size=20)
    network = lbnn.Network(widths=(40,))
    every = lbnn.compare(network, X, y, beta=4.0)
    some = lbnn.compare(network, X, y, beta=4.0, theories=("proportional", "infinite width"))
    assert list(some.theories) == ["proportional", "infinite width"]
    assert some.error("proportional", "kernel") == every.error("proportional", "kernel")
    assert not some.left_out


@pytest.mark.parametrize(
    "theories", [("proportional", "no such"), "proportional"], ids=["unknown", "a string"]
)
def test_theories_must_be_known(theories: object) -> None:
    """The rule and what was given."""
    with pytest.raises(ValueError, match="theories must be"):
        lbnn.compare(lbnn.Network((3,)), np.eye(2), np.ones(2), beta=1.0, theories=theories)  # type: ignore[arg-type]
