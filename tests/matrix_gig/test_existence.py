"""Where the law exists, and bad input."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import lbnn
from lbnn import MatrixGIG
from tests.helpers.problems import Array

EYE = np.eye(3)
NULL = np.diag([0.0, 0.0, 1.0])


@pytest.mark.parametrize(
    ("psi", "phi", "nu", "exists"),
    [
        (EYE, EYE, -50.0, True),
        (NULL, EYE, 0.51, True),
        (NULL, EYE, 0.5, False),
        (np.diag([0.0, 1.0, 1.0]), EYE, 0.01, True),
        (np.diag([0.0, 1.0, 1.0]), EYE, 0.0, False),
        (0 * EYE, EYE, 1.01, True),
        (0 * EYE, EYE, 1.0, False),
    ],
)
def test_existence(psi: Array, phi: Array, nu: float, exists: bool) -> None:
    """Both sides of 2ν > N − 1 − rank(Ψ), and mirrored."""
    for first, second, order, name, sign in ((psi, phi, nu, "psi", ""), (phi, psi, -nu, "phi", "−")):
        if exists:
            assert MatrixGIG(first, second, order).dimension == 3
        else:
            rule = rf"singular {name} the law exists only for {sign}2 nu > N − 1 − rank\({name}\), got nu="
            with pytest.raises(ValueError, match=rule):
                MatrixGIG(first, second, order)


def test_two_singular_scales() -> None:
    rule = (
        r"at least one of psi and phi must be positive definite, got nu=5, N=3, rank\(psi\)=1, rank\(phi\)=2"
    )
    with pytest.raises(ValueError, match=rule):
        MatrixGIG(NULL, np.diag([1.0, 1.0, 0.0]), 5.0)


@pytest.mark.parametrize(
    ("psi", "phi", "nu", "rule"),
    [
        ([[1.0, 0.5], [0.0, 1.0]], np.eye(2), 1.0, r"psi must be symmetric, got max\|psi − psiᵀ\| = 0.5"),
        (np.eye(2), [[1.0, 0.0], [0.1, 1.0]], 1.0, "phi must be symmetric"),
        ([[1.0, 2.0], [2.0, 1.0]], np.eye(2), 1.0, "psi must be positive semi-definite, got smallest eigenv"),
        (np.eye(2), -np.eye(2), 1.0, "phi must be positive semi-definite"),
        (-1.0, 1.0, 1.0, "psi must be positive semi-definite"),
        (np.eye(2), np.eye(3), 1.0, r"same shape, got \(2, 2\) and \(3, 3\)"),
        (np.ones((2, 3)), np.eye(2), 1.0, "psi must be square"),
        (np.eye(2)[None], np.eye(2), 1.0, "psi must be two-dimensional"),
        (np.zeros((0, 0)), np.zeros((0, 0)), 1.0, "psi must be two-dimensional and not empty"),
        ([[math.nan, 0.0], [0.0, 1.0]], np.eye(2), 1.0, "psi must be finite, got 1 NaN"),
        (np.eye(2), math.inf * np.ones((2, 2)), 1.0, "phi must be finite"),
        (np.eye(2), np.eye(2), math.nan, "nu must be finite, got nan"),
        (np.eye(2), np.eye(2), math.inf, "nu must be finite"),
    ],
)
def test_bad_scales_and_orders(psi: Any, phi: Any, nu: Any, rule: str) -> None:
    with pytest.raises(ValueError, match=rule):
        MatrixGIG(psi, phi, nu)


@pytest.mark.parametrize("nu", ["2", None, [1.0], 1j, True])
def test_nu_is_a_number(nu: Any) -> None:
    with pytest.raises(TypeError, match="nu must be a real number, got"):
        MatrixGIG(np.eye(2), np.eye(2), nu)


@pytest.mark.parametrize("psi", ["one", [["a", "b"], ["c", "d"]], 1j * np.eye(2), None])
def test_scales_are_numbers(psi: Any) -> None:
    with pytest.raises(TypeError, match="psi must be"):
        MatrixGIG(psi, np.eye(2), 1.0)


@pytest.mark.parametrize("target_error", [0.0, 1.0, -0.1, math.nan])
def test_bad_target_error(target_error: float) -> None:
    with pytest.raises(ValueError, match="target_error must"):
        MatrixGIG(np.eye(2), np.eye(2), 1.0, target_error=target_error)


@pytest.mark.parametrize("seed", [-1, 1.5, "0", None])
def test_bad_seeds(seed: Any) -> None:
    with pytest.raises(TypeError, match="seed must be"):
        MatrixGIG(np.eye(2), np.eye(2), 1.0, seed=seed)
    with pytest.raises(TypeError, match="seed must be"):
        MatrixGIG(np.eye(2), np.eye(2), 1.0).sample(3, seed)


@pytest.mark.parametrize("size", [0, -1, 2.5])
def test_bad_sizes(size: Any) -> None:
    law = MatrixGIG(np.eye(2), np.eye(2), 1.0)
    for draw in (law.sample, law.weighted_sample):
        with pytest.raises(ValueError, match="size must be a positive integer"):
            draw(size, 0)


@pytest.mark.parametrize("X", [1.0, np.ones(2), np.eye(3), np.ones((2, 3))])
def test_bad_points(X: Any) -> None:
    with pytest.raises(ValueError, match=r"X must have shape \(\.\.\., 2, 2\), got"):
        MatrixGIG(np.eye(2), np.eye(2), 1.0).log_density(X)


def test_asymmetric_points_are_an_error() -> None:
    with pytest.raises(ValueError, match="X must be symmetric"):
        MatrixGIG(np.eye(2), np.eye(2), 1.0).log_density([[2.0, 1.0], [0.0, 2.0]])


@pytest.mark.parametrize("A", [np.ones((2, 2)), np.eye(3), np.zeros((2, 2))])
def test_congruences_are_invertible(A: Array) -> None:
    with pytest.raises(ValueError, match=r"A must be an invertible \(2, 2\) matrix"):
        MatrixGIG(np.eye(2), np.eye(2), 1.0).congruence(A)


@pytest.mark.slow
def test_an_answer_that_misses_the_target_is_announced() -> None:
    law = MatrixGIG(np.eye(3), np.eye(3), 0.0, target_error=5e-4)
    with pytest.warns(lbnn.AccuracyWarning, match=r"target error of 0.0005: .*use the stated errors"):
        _ = law.log_normalizer
    assert not law.diagnostics.ok


@pytest.mark.slow
def test_draws_that_miss_the_law_are_announced() -> None:
    """Six of ten eigenvalues of X are near those of a Wishart matrix and four near δ, in any order."""
    law = MatrixGIG(1e-8 * np.eye(10), np.eye(10), 3.0)
    with pytest.warns(lbnn.AccuracyWarning, match=r"Pareto k"):
        _ = law.log_normalizer
    assert not law.diagnostics.ok
