"""Where the zero-temperature posterior exists: both sides of every rule."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import special

import lbnn
from lbnn.paper.routes.problem import Problem as PaperProblem
from tests.helpers.problems import make_problem

DATA = make_problem(4, 9, seed=121)
ZEROS = np.zeros(4)


@pytest.mark.parametrize("widths", [(4,), (4, 9), (9, 4), (30, 30, 4), (1,), (7, 1, 8)], ids=str)
@pytest.mark.parametrize("targets", [ZEROS, ZEROS[:, None]], ids=["flat", "column"])
def test_zero_targets_need_widths_above_p(widths: tuple[int, ...], targets: np.ndarray) -> None:
    """y = 0 and a width of at most p = 4: E λ^{−p/2} diverges, and the error says which rule broke."""
    with pytest.raises(ValueError, match=r"hidden width .*p = 4.*use a finite beta"):
        lbnn.Network(widths).condition(DATA.X, targets, math.inf)


@pytest.mark.parametrize("widths", [(), (5,), (5, 9), (9, 5), (30, 30, 5), (5,) * 6], ids=str)
def test_zero_targets_with_wide_layers(widths: tuple[int, ...]) -> None:
    """y = 0, every width above p: log p(0) = log E λ^{−p/2} − (p/2) log 2π − ½ log|G|, by Gamma functions."""
    post = lbnn.Network(widths).condition(DATA.X, ZEROS, math.inf)
    shapes = np.array(widths) / 2
    moment = np.sum(special.gammaln(shapes - 2.0) - special.gammaln(shapes) + 2.0 * np.log(shapes))
    expected = -2 * math.log(2 * math.pi) - 0.5 * np.linalg.slogdet(DATA.gram)[1] + moment
    assert post.log_evidence == pytest.approx(expected, rel=1e-11)
    np.testing.assert_array_equal(post.predict(DATA.X_test).mean, np.zeros(3))


@pytest.mark.parametrize("widths", [(1,), (1, 1), (2, 1), (4, 4)], ids=str)
def test_other_targets_exist_for_every_network(widths: tuple[int, ...]) -> None:
    """y ≠ 0, even in one component only: the exponential closes the singularity at λ = 0."""
    y = np.array([0.0, 0.0, 1e-3, 0.0])
    expected = PaperProblem(DATA.X, y[:, None], DATA.X_test).log_evidence(widths, math.inf)
    found = lbnn.Network(widths).condition(DATA.X, y, math.inf).log_evidence
    assert found == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("widths", [(1,), (4, 4)], ids=str)
def test_zero_targets_exist_at_finite_temperature(widths: tuple[int, ...]) -> None:
    """y = 0 at a finite β: ∫ ϖ(λ) N(0; 0, λG + I/β) dλ, by adaptive quadrature."""
    expected = PaperProblem(DATA.X, ZEROS[:, None], DATA.X_test).log_evidence(widths, 1e10)
    found = lbnn.Network(widths).condition(DATA.X, ZEROS, 1e10).log_evidence
    assert found == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("widths", [(), (5,), (3, 5)], ids=str)
@pytest.mark.parametrize("case", ["repeated example", "more examples than inputs", "zero input"])
def test_zero_temperature_needs_an_invertible_gram_matrix(case: str, widths: tuple[int, ...]) -> None:
    """A training set that cannot be interpolated whatever its targets, by inputs, Gram and moments."""
    X = {
        "repeated example": np.concatenate([DATA.X[:3], DATA.X[:1]]),
        "more examples than inputs": DATA.X[:, :3],
        "zero input": np.concatenate([DATA.X[:3], np.zeros((1, 9))]),
    }[case]
    network, rule = lbnn.Network(widths), r"needs an invertible Gram matrix.*got rank 3 with p = 4"
    with pytest.raises(ValueError, match=rule):
        network.condition(X, DATA.Y, math.inf)
    with pytest.raises(ValueError, match=rule):
        network.condition_gram(X @ X.T, DATA.Y, math.inf)
    spectrum = lbnn.Spectrum.from_moments(X.T @ X, X.T @ DATA.Y, DATA.Y @ DATA.Y, 4)
    with pytest.raises(ValueError, match=rule):
        network.condition_spectrum(spectrum, math.inf)
    assert math.isfinite(network.condition(X, DATA.Y, 1e6).log_evidence)


def test_moments_of_an_interpolable_set_reach_zero_temperature() -> None:
    """p = n0 moments at β = ∞ agree with the inputs."""
    data = make_problem(4, 4, seed=122)
    spectrum = lbnn.Spectrum.from_moments(data.X.T @ data.X, data.X.T @ data.Y, data.Y @ data.Y, 4)
    network = lbnn.Network((3, 5))
    got = network.condition_spectrum(spectrum, math.inf).log_evidence
    assert got == pytest.approx(network.condition(data.X, data.Y, math.inf).log_evidence, rel=1e-10)
