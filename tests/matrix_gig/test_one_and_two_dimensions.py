"""N = 1 against Bessel functions, N = 2 against quadrature."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
import pytest
from scipy import stats

from lbnn import MatrixGIG
from tests.helpers.problems import Array
from tests.referees.matrix_gig import PlaneReferee, ScalarReferee
from tests.referees.statistics import assert_agrees

SCALARS = [
    *itertools.product([-3.7, -0.5, 0.0, 0.3, 2.0, 40.0], [(1.0, 1.0), (0.02, 3.0), (5.0, 80.0)]),
    (0.0, (1e-12, 1e-3)),
    (0.5, (1e-10, 1.0)),
    (-1.3, (1.0, 1e-9)),
    (300.0, (2.0, 3.0)),
    (-300.0, (1e-3, 1.0)),
    (1e4, (50.0, 1.0)),
    (3.0, (2e3, 5e3)),
    (0.0, (1e6, 1e6)),
    (700.0, (1e5, 1e4)),
]


@pytest.mark.parametrize(("nu", "scales"), SCALARS, ids=str)
def test_one_dimension_by_bessel_functions(nu: float, scales: tuple[float, float]) -> None:
    law, exact = MatrixGIG(*scales, nu), ScalarReferee(*scales, nu)
    assert law.log_normalizer == pytest.approx(exact.log_normalizer, rel=1e-10, abs=1e-10)
    assert law.log_normalizer_error == 0.0
    assert law.diagnostics.engine == "bessel"
    np.testing.assert_allclose(law.mean, [[exact.moment(1)]], rtol=1e-10)
    np.testing.assert_allclose(law.inverse_mean, [[exact.moment(-1)]], rtol=1e-10)
    np.testing.assert_array_equal(law.mean_error, [[0.0]])


@pytest.mark.parametrize(("nu", "scales"), SCALARS[:21], ids=str)
def test_one_dimension_density_against_scipy(nu: float, scales: tuple[float, float]) -> None:
    psi, phi = scales
    b, scale = math.sqrt(psi * phi), math.sqrt(psi / phi)
    x = float(MatrixGIG(psi, phi, nu).mode[0, 0]) * np.array([0.1, 0.5, 1.0, 1.7, 6.0])
    reference = stats.geninvgauss(nu, b, scale=scale)
    found = MatrixGIG(psi, phi, nu).log_density(x[:, None, None])
    np.testing.assert_allclose(found, reference.logpdf(x), rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(np.exp(found), reference.pdf(x), rtol=1e-9)


def test_numbers_and_one_by_one_matrices_are_the_same() -> None:
    number, matrix = MatrixGIG(2, 3, 1), MatrixGIG([[2.0]], [[3.0]], 1)
    assert number.log_normalizer == matrix.log_normalizer
    assert number.dimension == 1
    assert number.psi.shape == (1, 1)


PSI, PHI = np.array([[1.3, -0.6], [-0.6, 0.9]]), np.array([[0.8, 0.35], [0.35, 2.1]])
RANK_ONE = np.outer([1.1, -0.4], [1.1, -0.4])
PLANES = {
    "positive": (PSI, PHI, 2.3),
    "integer": (PSI, PHI, 3.0),
    "negative": (PSI, PHI, -1.7),
    "zero": (PSI, PHI, 0.0),
    "2ν < N": (PSI, PHI, 0.35),
    "weak psi": (1e-3 * PSI, PHI, 1.2),
    "weak phi": (PSI, 1e-3 * PHI, -0.8),
    "strong": (60 * PSI, 40 * PHI, 5.0),
    "large ν": (PSI, PHI, 60.0),
    "singular psi": (RANK_ONE, PHI, 1.6),
    "singular phi": (PSI, RANK_ONE, -2.1),
}


@lru_cache
def plane(name: str) -> PlaneReferee:
    return PlaneReferee(*PLANES[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", PLANES)
def test_plane_quadrature_has_converged(name: str) -> None:
    """To 1e-8, from two thirds of the nodes."""
    fine, coarse = plane(name), PlaneReferee(*PLANES[name], nodes=100)
    assert coarse.log_normalizer == pytest.approx(fine.log_normalizer, abs=1e-8)
    for which in ("mean", "inverse mean"):
        np.testing.assert_allclose(coarse.expect(which), fine.expect(which), rtol=1e-8)


@pytest.mark.parametrize("name", PLANES)
def test_two_dimensions_against_quadrature(name: str) -> None:
    """Normaliser, E X and E X⁻¹, within stated errors; to rounding where Ψ or Φ has rank one."""
    law, exact = MatrixGIG(*PLANES[name]), plane(name)
    assert law.diagnostics.ok
    found = law.log_normalizer, law.mean, law.inverse_mean
    errors = law.log_normalizer_error, law.mean_error, law.inverse_mean_error
    expected = exact.log_normalizer, exact.expect("mean"), exact.expect("inverse mean")
    for value, error, truth in zip(found, errors, expected, strict=True):
        if "singular" in name:
            assert law.diagnostics.engine == "bessel"
            np.testing.assert_allclose(value, truth, rtol=1e-9, atol=1e-9)
            np.testing.assert_array_equal(error, np.zeros_like(truth))
        else:
            scale = np.sqrt(np.abs(np.diagonal(truth))) if np.ndim(truth) else 1.0
            largest = float(0.05 * np.max(scale) ** 2)  # far below a standard deviation
            assert_agrees(value, error, truth, comparisons=9 * len(PLANES), largest_error=largest)


@pytest.mark.parametrize("name", ["singular psi", "singular phi"])
def test_normalizer_generates_the_moments(name: str) -> None:
    """∂/∂ν = E log det X, ∂/∂Φ = −½ E X, ∂/∂Ψ = −½ E X⁻¹, along directions that keep the ranks."""
    psi, phi, nu = PLANES[name]
    step = 1e-4

    def slope(value: Callable[[float], float]) -> float:
        near, far = (value(h) - value(-h) for h in (step, 2 * step))
        return (8 * near - far) / (12 * step)

    law, exact = MatrixGIG(psi, phi, nu), plane(name)
    found = slope(lambda h: MatrixGIG(psi, phi, nu + h).log_normalizer)
    assert found == pytest.approx(exact.expect("log det")[0, 0], abs=1e-8)
    found = slope(lambda h: MatrixGIG(psi, (1 + h) * phi, nu).log_normalizer)
    assert found == pytest.approx(-0.5 * np.trace(phi @ law.mean), abs=1e-8)
    found = slope(lambda h: MatrixGIG((1 + h) * psi, phi, nu).log_normalizer)
    assert found == pytest.approx(-0.5 * np.trace(psi @ law.inverse_mean), abs=1e-8)


def test_means_that_diverge_in_the_plane() -> None:
    """A singular Ψ and 2ν ≤ 2: no E X⁻¹ (its null direction), but E X; and mirrored."""
    law = MatrixGIG(RANK_ONE, PHI, 0.8)
    assert np.isinf(np.diag(law.inverse_mean)).all()
    np.testing.assert_allclose(
        law.mean, PlaneReferee(RANK_ONE, PHI, 0.8, inverse=False).expect("mean"), rtol=1e-9
    )
    mirrored = MatrixGIG(PSI, RANK_ONE, -0.8)
    assert np.isinf(np.diag(mirrored.mean)).all()
    expected = PlaneReferee(RANK_ONE, PSI, 0.8, inverse=False).expect("mean")  # E X⁻¹ of the mirrored law
    np.testing.assert_allclose(mirrored.inverse_mean, expected, rtol=1e-9)
    axis_aligned = MatrixGIG(np.diag([0.0, 2.0]), np.eye(2), 0.8).inverse_mean
    assert math.isinf(axis_aligned[0, 0])
    referee = ScalarReferee(2.0, 1.0, 0.3)  # the Schur complement: order ν − ½
    assert axis_aligned[1, 1] == pytest.approx(referee.moment(-1), rel=1e-10)


def laplace_log_normalizer(psi: Array, phi: Array, nu: float) -> float:
    """Laplace approximation in log X around ν + κ, κ = √(ν² + δ), after Butler & Wood (2003)."""
    root = np.linalg.cholesky(phi)
    kappa = np.sqrt(nu**2 + np.linalg.eigvalsh(root.T @ psi @ root))
    point = nu + kappa
    peak = (nu * np.log(point) - 0.5 * (point + (kappa - nu))).sum()
    curvatures = math.log(kappa.sum()) + np.log(kappa).sum()
    return float(peak + 0.5 * (3 * math.log(2 * math.pi) - curvatures) - nu * np.linalg.slogdet(phi)[1])


@pytest.mark.parametrize(
    ("psi", "phi", "nu"), [(PSI, PHI, 1e5), (PSI, PHI, 1e6), (1e5 * PSI, 1e5 * PHI, 1.0)]
)
def test_two_dimensions_at_extreme_parameters(psi: Array, phi: Array, nu: float) -> None:
    """The Laplace approximation is exact to O(1/ν) here, and so is the mode."""
    law = MatrixGIG(psi, phi, nu)
    assert law.diagnostics.ok
    assert law.log_normalizer == pytest.approx(laplace_log_normalizer(psi, phi, nu), abs=1e-3)
    np.testing.assert_allclose(law.mean, law.mode, rtol=1e-3)


@pytest.mark.parametrize("size", [2, 3])
def test_weak_directions_of_both_scales_are_not_dropped(size: int) -> None:
    """Ψ = Φ = diag(1e-8, 1, ...) are definite, and so the law exists for ν = 0."""
    weak = np.diag([1e-8] + [1.0] * (size - 1))
    stronger = np.diag([1e-6] + [1.0] * (size - 1))
    nearby = MatrixGIG(stronger, stronger, 0.0).log_normalizer
    found = MatrixGIG(weak, weak, 0.0).log_normalizer
    assert nearby < found < nearby + 0.5  # grows like log log(1/δ)
