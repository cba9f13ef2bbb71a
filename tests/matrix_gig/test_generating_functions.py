"""log E etr(J X) and log E etr(J X⁻¹): Bessel functions, Wishart laws, draws, domains."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import special

from lbnn import MatrixGIG
from tests.referees.matrix_gig import with_spectrum


def log_normalizer(psi: float, phi: float, nu: float) -> float:
    """Of one number: 2 (ψ/φ)^{ν/2} K_ν(√(ψφ)), by SciPy."""
    size = math.sqrt(psi * phi)
    return math.log(2 * special.kve(nu, size)) - size + 0.5 * nu * math.log(psi / phi)


@pytest.mark.parametrize("J", [-3.0, 0.1, 0.24])
def test_one_number_is_a_ratio_of_bessel_functions(J: float) -> None:
    law = MatrixGIG(2.0, 0.5, -0.7)
    expected = log_normalizer(2.0, 0.5 - 2 * J, -0.7) - log_normalizer(2.0, 0.5, -0.7)
    assert law.log_mgf(J) == pytest.approx(expected, rel=1e-9)
    expected = log_normalizer(2.0 - 2 * J, 0.5, -0.7) - log_normalizer(2.0, 0.5, -0.7)
    assert law.log_inverse_mgf(J) == pytest.approx(expected, rel=1e-9)


def test_the_end_of_the_domain() -> None:
    """At 2 J = Φ the law is an inverse Gamma law, if ν < 0; beyond, the expectation is infinite."""
    law = MatrixGIG(2.0, 0.5, -0.7)
    expected = math.lgamma(0.7) - 0.7 * math.log(1.0) - log_normalizer(2.0, 0.5, -0.7)
    assert law.log_mgf(0.25) == pytest.approx(expected, rel=1e-9)
    assert law.log_mgf(0.2501) == math.inf
    assert MatrixGIG(2.0, 0.5, 0.7).log_mgf(0.25) == math.inf
    assert law.log_mgf(0.0, return_error=True) == (0.0, 0.0)
    assert MatrixGIG(np.eye(2), np.eye(2), 1.0).log_inverse_mgf(np.diag([0.6, -9.0])) == math.inf
    with pytest.raises(ValueError, match="J must have the shape"):
        law.log_mgf(np.eye(2))


def test_wishart_laws() -> None:
    phi, nu = with_spectrum([0.5, 1.0, 2.0], 430), 4.0
    law, inverse = MatrixGIG(np.zeros((3, 3)), phi, nu), MatrixGIG(phi, np.zeros((3, 3)), -nu)
    J = np.array([[0.1, 0.2, 0.0], [-0.1, -0.4, 0.05], [0.0, 0.0, 0.1]])  # whose symmetric part counts
    expected = -nu * np.linalg.slogdet(np.eye(3) - np.linalg.solve(phi, J + J.T))[1]
    assert law.log_mgf(J) == pytest.approx(expected, rel=1e-10)
    assert inverse.log_inverse_mgf(J) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("nu", [-1.3, 2.0])
def test_three_dimensions_against_draws(nu: float) -> None:
    law = MatrixGIG(with_spectrum([0.4, 1.0, 3.0], 4), with_spectrum([1.0, 1.5, 2.0], 5), nu)
    J = 0.1 * with_spectrum([-1.0, 0.5, 1.0], 6)
    draws, log_weights = law.weighted_sample(40_000, 7)
    weights = np.exp(log_weights - log_weights.max())
    for matrices, found in (
        (draws, law.log_mgf(J, return_error=True)),
        (np.linalg.inv(draws), law.log_inverse_mgf(J, return_error=True)),
    ):
        values = np.exp(np.einsum("ij,mij->m", J, matrices))
        mean = weights @ values / weights.sum()
        error = math.sqrt(((weights * (values - mean)) ** 2).sum()) / weights.sum() / mean
        value, own = found
        assert 0 < own < 0.03
        assert abs(value - math.log(mean)) < 4 * math.hypot(error, own)
