"""The convergence study: rates of the limit theories at small sizes, and its statistics."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from lbnn.convergence import REGIMES, Regime, study
from lbnn.theories.limits.regimes import THEORIES


@pytest.mark.parametrize(
    ("regime", "sizes", "quantity", "rate"),
    [
        ("infinite width", (100, 200, 400), None, -1.0),
        ("infinite width", (100, 200, 400), "kernel", -2.0),
        pytest.param("infinite width, depth three", (100, 200, 400), "scale", -1.0, marks=pytest.mark.slow),
        ("infinite data", (80, 160, 320), "scale", -1.0),
        ("proportional", (40, 80, 160), None, -1.0),
    ],
)
def test_rates(regime: str, sizes: tuple[int, ...], quantity: str | None, rate: float) -> None:
    """The slope is the theory's within its stated error and a tenth for higher orders."""
    result = study(regime, sizes, quantity=quantity, data_sets=3, target_error=0.03)
    assert (result.monte_carlo < 0.3 * result.errors).all(), result
    assert (np.diff(result.errors) < 0).all(), result
    assert abs(result.rate - rate) < 0.1 + 3 * result.rate_error, result
    assert result.rate_error < 0.15, result


def test_study_is_reproducible_and_complete() -> None:
    """Same seed, same numbers; the fields are those of the regime."""
    first = study("infinite width", (20, 40, 80), data_sets=2, target_error=0.2)
    second = study("infinite width", (20, 40, 80), data_sets=2, target_error=0.2)
    assert repr(first).startswith(
        "ConvergenceStudy('infinite width', 'kernel correction', sizes=[20, 40, 80], rate="
    )
    other = study("infinite width", (20, 40, 80), data_sets=2, target_error=0.2, seed=1)
    np.testing.assert_array_equal(first.errors, second.errors)
    assert not np.array_equal(first.errors, other.errors)
    assert (first.regime, first.growing, first.quantity) == ("infinite width", "n_1", "kernel correction")
    np.testing.assert_array_equal(first.sizes, [20, 40, 80])


def test_statistics_over_data_sets() -> None:
    """Geometric means with their standard errors, and the mean slope, from studies of one data set each."""
    settings = {"sizes": (20, 40, 80), "target_error": 0.2, "quantity": "scale"}
    counts = [study("infinite data", data_sets=count, **settings) for count in (1, 2, 3)]
    # Data sets keep their numbers, so that the logs of each follow from the running means.
    logs = [np.log(counts[0].errors)]
    for count in (2, 3):
        logs.append(count * np.log(counts[count - 1].errors) - np.sum(logs, axis=0))
    sample = np.array(logs)  # (data sets, sizes)
    np.testing.assert_allclose(counts[2].error_bars, counts[2].errors * stats.sem(sample, axis=0), rtol=1e-9)
    slopes = [stats.linregress(np.log([20, 40, 80]), each).slope for each in sample]
    assert counts[2].rate == pytest.approx(np.mean(slopes), rel=1e-9)
    assert counts[2].rate_error == pytest.approx(stats.sem(slopes), rel=1e-9)
    assert np.isnan(counts[0].error_bars).all()
    assert np.isnan(counts[0].rate_error)


@pytest.mark.parametrize("regime", REGIMES.values(), ids=REGIMES.keys())
def test_regimes_are_consistent(regime: Regime) -> None:
    """Default sizes double; the ratios that a limit holds fixed are fixed."""
    sizes = np.array(regime.default)
    np.testing.assert_array_equal(sizes[1:], 2 * sizes[:-1])
    problems = [regime.sizes(int(n)) for n in sizes]
    assert regime.theory in THEORIES
    assert all(min(each.widths) >= each.outputs for each in problems)
    if regime.theory == "proportional":
        assert len({each.examples / each.widths[0] for each in problems}) == 1
    if regime.theory == "many outputs":
        assert len({each.outputs / each.widths[0] for each in problems}) == 1


def test_refusals() -> None:
    with pytest.raises(ValueError, match="regime must be one of"):
        study("narrow")
    with pytest.raises(ValueError, match="quantity must be one of"):
        study("proportional", quantity="kernels")
    for sizes in ((40,), (80, 40), (40, 40), (40, 0)):
        with pytest.raises(ValueError, match=r"sizes must be|every size"):
            study("proportional", sizes)
