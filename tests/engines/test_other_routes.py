"""Targets that the prior does not expect, by routes that do not share the search: dual, matrix law."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import special

import lbnn
from tests.referees.matrix_gig import PlaneReferee
from tests.referees.statistics import assert_agrees

SIZES = (
    1e-2,
    pytest.param(0.1, marks=pytest.mark.slow),
    pytest.param(1.0, marks=pytest.mark.slow),
    pytest.param(10.0, marks=pytest.mark.slow),
    100.0,
)
FREEDOM = 7


def problem(seed: int, p: int, outputs: int, size: float) -> tuple[np.ndarray, np.ndarray]:
    """Inputs, and targets of rank one with unequal outputs and a little noise, of any size."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(p, p + 4))
    teacher = rng.normal(size=(p + 4, 1)) @ rng.normal(size=(1, outputs)) / math.sqrt(p + 4)
    return X, size * (X @ teacher + 0.2 * rng.normal(size=(p, outputs)))


def matrix_law_evidence(X: np.ndarray, Y: np.ndarray, width: int) -> float:
    """log p(Y) at depth two and zero temperature from the matrix law's normaliser, two outputs: no draws."""
    p, outputs = Y.shape
    gram = X @ X.T / X.shape[1]
    scatter = Y.T @ np.linalg.solve(gram, Y)
    law = PlaneReferee(scatter, width * np.eye(outputs), (width - p) / 2, inverse=False)
    wishart = -width * outputs / 2 * math.log(2 / width) - special.multigammaln(width / 2, outputs)
    data = -0.5 * p * outputs * math.log(2 * math.pi) - outputs / 2 * np.linalg.slogdet(gram)[1]
    return law.log_normalizer + wishart + data


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("p", "width"), [(5, 3), (8, 4), (4, 9)])
def test_zero_temperature_is_the_matrix_law(p: int, width: int, size: float) -> None:
    X, Y = problem(p, p, 2, size)
    post = lbnn.Network((width,)).condition(X, Y, math.inf)
    assert post.diagnostics.ok
    exact = matrix_law_evidence(X, Y, width)
    assert_agrees(
        post.log_evidence, post.log_evidence_error, exact, comparisons=15, degrees_of_freedom=FREEDOM
    )


@pytest.mark.parametrize("size", SIZES)
def test_coupled_noise_is_the_matrix_law(size: float) -> None:
    """Noise that passes through the network makes the Gram matrix nonsingular: the same law."""
    X, Y = problem(7, 8, 2, size)
    post = lbnn.Network((4,)).condition(X, Y, 2.0, noise="coupled")
    root = np.linalg.cholesky(X @ X.T / X.shape[1] + np.eye(8) / 2.0)
    exact = matrix_law_evidence(root * math.sqrt(8), Y, 4)
    assert post.diagnostics.ok
    assert_agrees(
        post.log_evidence, post.log_evidence_error, exact, comparisons=5, degrees_of_freedom=FREEDOM
    )


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    ("p", "outputs", "width", "beta"), [(3, 4, 5, 10.0), pytest.param(4, 3, 3, 100.0, marks=pytest.mark.slow)]
)
def test_dual_and_primal_agree(p: int, outputs: int, width: int, beta: float, size: float) -> None:
    """The hidden kernel (p, p) in the place of L: no line of the likelihood is shared."""
    X, Y = problem(11, p, outputs, size)
    net = lbnn.Network((width,))
    primal, dual = (net.condition(X, Y, beta, engine=engine) for engine in ("importance", "dual"))
    assert primal.diagnostics.ok
    assert dual.diagnostics.ok
    error = math.hypot(primal.log_evidence_error, dual.log_evidence_error)
    assert_agrees(
        primal.log_evidence, error, dual.log_evidence, comparisons=10, degrees_of_freedom=2 * FREEDOM
    )
