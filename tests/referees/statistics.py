"""A z-test between a Monte Carlo estimate and a value that claims to be exact."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats


def critical_value(comparisons: int, family_error: float, degrees_of_freedom: float = math.inf) -> float:
    """Return the two-sided threshold for a family-wise error over that many comparisons (Sidak)."""
    per_test = -math.expm1(math.log1p(-family_error) / comparisons)
    return float(stats.t.isf(per_test / 2, degrees_of_freedom))


def assert_agrees(
    estimate: ArrayLike,
    standard_error: ArrayLike,
    exact: ArrayLike,
    *,
    comparisons: int | None = None,
    family_error: float = 1e-3,
    degrees_of_freedom: float = math.inf,
    largest_error: float | None = None,
) -> None:
    """Assert that `exact` lies within the noise of `estimate`, elementwise.

    `comparisons` counts all tests that share the family error (default: the elements here).
    `largest_error` demands that every standard error be at most that, so that the test has power.
    A zero standard error is accepted only where estimate and exact are equal.
    """
    estimates, errors, exacts = (np.asarray(a, dtype=float) for a in (estimate, standard_error, exact))
    assert estimates.shape == errors.shape == exacts.shape, (
        f"shapes differ: estimate {estimates.shape}, standard error {errors.shape}, exact {exacts.shape}"
    )
    assert estimates.size > 0, "nothing to compare"
    for name, values in (("estimate", estimates), ("standard error", errors), ("exact", exacts)):
        assert np.all(np.isfinite(values)), f"{name} is not finite:\n{values}"
    assert np.all(errors >= 0), f"negative standard error:\n{errors}"

    differences = np.abs(estimates - exacts)
    certain = errors == 0
    assert np.all(differences[certain] == 0), "zero standard error, yet estimate and exact differ"
    scores = np.divide(differences, errors, out=np.zeros_like(differences), where=~certain)
    count = estimates.size if comparisons is None else comparisons
    assert count >= estimates.size, f"comparisons={count} is less than the {estimates.size} made here"
    threshold = critical_value(count, family_error, degrees_of_freedom)
    worst = np.unravel_index(int(scores.argmax()), scores.shape)
    assert scores[worst] <= threshold, (
        f"worst z = {scores[worst]:.2f} > {threshold:.2f} ({count} comparisons) at index "
        f"{tuple(int(i) for i in worst)}: estimate {estimates[worst]:.6g} +- {errors[worst]:.2g}, "
        f"exact {exacts[worst]:.6g}"
    )
    if largest_error is not None:
        assert errors.max() <= largest_error, f"standard error {errors.max():.3g} exceeds {largest_error:.3g}"
