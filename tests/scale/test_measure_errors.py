"""Stated errors of averages over weighted draws: not small by chance, and of the right size."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from lbnn.scale.measure import ScaleMeasure

GROUPS, EACH = 16, 32


def measure_of(scales: np.ndarray) -> ScaleMeasure:
    """Draws (m, n, n) of equal weight in groups one after the other."""
    groups = np.repeat(np.arange(GROUPS), EACH)
    return ScaleMeasure(scales, np.full(len(scales), 1 / len(scales)), False, groups=groups)


def test_groups_that_agree_by_chance_do_not_make_an_error_small() -> None:
    """One entry has the same mean in every group; the others say what an average of these draws is worth."""
    rng = np.random.default_rng(0)
    scales = rng.standard_normal((GROUPS, EACH, 4, 4))
    scales[..., 1, 1] -= scales[..., 1, 1].mean(axis=1, keepdims=True)
    measure = measure_of(scales.reshape(-1, 4, 4))
    independent = scales[..., 1, 1].std() / np.sqrt(GROUPS * EACH)
    error = np.asarray(measure.mean_error)[1, 1]
    assert 0.6 * independent < error < 0.8 * independent  # √½ of it, times the root of the design effect


def test_errors_of_correlated_draws_follow_the_groups() -> None:
    """Draws that are equal within a group: EACH times the variance of independent ones."""
    rng = np.random.default_rng(1)
    scales = np.repeat(rng.standard_normal((GROUPS, 5, 5)), EACH, axis=0)
    ratio = np.asarray(measure_of(scales).mean_error) / np.sqrt(1 / GROUPS)
    assert np.sqrt((ratio**2).mean()) == pytest.approx(1.0, abs=0.25)
    assert ratio.min() > 0.5


def test_rate_of_large_scores_is_that_of_many_groups() -> None:
    """True means are zero. Of 20,000, 23 were beyond 4 errors of the groups alone, 1 beyond 4 of these."""
    rng = np.random.default_rng(2)
    scores = []
    for _ in range(500):
        measure = measure_of(rng.standard_normal((GROUPS * EACH, 4, 4)))
        own = np.triu_indices(4)
        scores.append((np.asarray(measure.mean) / np.asarray(measure.mean_error))[own])
    z = np.concatenate(scores)
    assert (np.abs(z) > 4).sum() <= 2
    assert np.sqrt((z**2).mean()) == pytest.approx(1.0, abs=0.05)


def test_deterministic_atoms_have_no_error() -> None:
    """Nodes of quadrature carry none."""
    measure = ScaleMeasure(np.ones((3, 2, 2)), np.full(3, 1 / 3), False)
    assert not np.asarray(measure.mean_error).any()


def test_error_of_the_inverse_mean_is_the_spread_of_repetitions() -> None:
    """Inverses of independent draws of I + A Aᵀ/3: root mean square of errors in stated errors."""
    rng = np.random.default_rng(3)
    roots = rng.standard_normal((200, GROUPS * EACH, 2, 2))
    scales = np.eye(2) + roots @ roots.swapaxes(2, 3) / 3
    truth = np.linalg.inv(scales).mean(axis=(0, 1))
    measures = [measure_of(each) for each in scales]
    z = [(np.asarray(each.inverse_mean) - truth) / np.asarray(each.inverse_mean_error) for each in measures]
    assert np.sqrt((np.array(z) ** 2).mean()) == pytest.approx(1.0, abs=0.12)  # of 600 entries, ±3%


def test_nodes_of_quadrature_have_no_error_of_the_inverse() -> None:
    measure = ScaleMeasure(np.full((3, 2, 2), 0.5) + np.eye(2), np.full(3, 1 / 3), False)
    assert not np.asarray(measure.inverse_mean_error).any()


def test_atoms_of_weight_zero_do_not_count() -> None:
    """A draw whose weight is zero in double precision may have a singular scale."""
    groups = np.array([0, 0, 1, 1])
    measure = ScaleMeasure(
        np.array([[[1.0]], [[3.0]], [[0.0]], [[2.0]]]), np.array([0.5, 0.25, 0, 0.25]), False
    )
    mean = 0.5 + 0.25 / 3 + 0.25 / 2
    assert measure.expect(lambda scale: 1 / float(scale[0, 0])) == pytest.approx(mean)
    value, error = replace(measure, groups=groups).expect_with_error(lambda scale: 1 / float(scale[0, 0]))
    assert value == pytest.approx(mean)
    assert np.isfinite(error)


def test_squares_beyond_the_range_of_doubles() -> None:
    """Errors are linear in the values: those of 2¹⁰⁰⁰ times the scales are 2¹⁰⁰⁰ times as large."""
    scales = np.random.default_rng(3).standard_normal((GROUPS * EACH, 2, 2))
    error = np.asarray(measure_of(scales).mean_error)
    np.testing.assert_allclose(measure_of(2.0**1000 * scales).mean_error, 2.0**1000 * error, rtol=1e-13)
