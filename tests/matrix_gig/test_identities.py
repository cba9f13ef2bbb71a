"""Wishart laws, inverses, congruences, the mode and the density."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import stats

from lbnn import MatrixGIG
from tests.helpers.problems import Array, random_rotation, random_scale
from tests.matrix_gig.test_one_and_two_dimensions import PHI, PSI, RANK_ONE
from tests.matrix_gig.test_three_dimensions_and_more import CHAINS
from tests.referees.matrix_gig import with_spectrum
from tests.referees.statistics import assert_agrees


@pytest.mark.parametrize("size", [1, 2, 3, 6])
def test_wishart(size: int) -> None:
    phi, nu = random_scale(size, 415), size / 2 + 1.3
    law, exact = MatrixGIG(np.zeros((size, size)), phi, nu), stats.wishart(2 * nu, np.linalg.inv(phi))
    X = exact.rvs(5, random_state=416).reshape(5, size, size)
    assert law.diagnostics.engine == "wishart"
    found = law.log_density(X)
    np.testing.assert_allclose(found, exact.logpdf(np.moveaxis(X, 0, -1)), rtol=1e-10)
    np.testing.assert_allclose(law.mean, 2 * nu * np.linalg.inv(phi), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(law.inverse_mean, phi / (2 * nu - size - 1), rtol=1e-10, atol=1e-12)
    assert law.log_normalizer_error == 0.0


@pytest.mark.parametrize("size", [1, 2, 3, 6])
def test_inverse_wishart(size: int) -> None:
    psi, nu = random_scale(size, 417), -size / 2 - 1.3
    law, exact = MatrixGIG(psi, np.zeros((size, size)), nu), stats.invwishart(-2 * nu, psi)
    X = exact.rvs(5, random_state=418).reshape(5, size, size)
    found = law.log_density(X)
    np.testing.assert_allclose(found, exact.logpdf(np.moveaxis(X, 0, -1)), rtol=1e-10)
    np.testing.assert_allclose(law.mean, psi / (-2 * nu - size - 1), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(law.inverse_mean, -2 * nu * np.linalg.inv(psi), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize(("excess", "finite"), [(0.02, True), (0.0, False), (-0.5, False)])
def test_wishart_inverse_mean_exists_above_two_degrees_more(size: int, excess: float, finite: bool) -> None:
    """2ν > N + 1, and only then."""
    nu = (size + 1 + excess) / 2
    wishart = MatrixGIG(np.zeros((size, size)), np.eye(size), nu).inverse_mean
    mirrored = MatrixGIG(np.eye(size), np.zeros((size, size)), -nu).mean
    for value in (wishart, mirrored):
        expected = np.full(size, 1 / excess if finite else math.inf)
        np.testing.assert_allclose(np.diag(value), expected, rtol=1e-10)


@pytest.mark.parametrize("size", [2, 4])
def test_weak_psi_tends_to_a_wishart(size: int) -> None:
    """Ψ = ε I with many degrees of freedom: the log normaliser by first-order perturbation."""
    nu, weak = 6.0, 1e-6
    law, limit = (MatrixGIG(w * np.eye(size), np.eye(size), nu) for w in (weak, 0.0))
    change = -0.5 * weak * np.trace(limit.inverse_mean)
    difference = law.log_normalizer - limit.log_normalizer
    assert_agrees(difference, law.log_normalizer_error, change, largest_error=1e-6)


@st.composite
def laws(draw: Any, sizes: tuple[int, ...] = (1, 2)) -> MatrixGIG:
    size = draw(st.sampled_from(sizes))
    scales = []
    for _ in range(2):
        values = draw(st.lists(st.floats(0.05, 20), min_size=size, max_size=size))
        scales.append(with_spectrum(values, draw(st.integers(0, 1000))))
    return MatrixGIG(*scales, draw(st.floats(-6, 6)))


def draw_matrix(size: int, seed: int) -> Array:
    """A well-conditioned matrix that is neither symmetric nor orthogonal."""
    return random_rotation(size, seed) + 0.3 * np.random.default_rng(seed).standard_normal((size, size))


QUICK = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)


@QUICK
@given(laws((1,)), st.integers(0, 1000))
def test_law_of_the_inverse(law: MatrixGIG, seed: int) -> None:
    """Density with the Jacobian det(X)^{N+1}, normaliser, means, and twice is once."""
    size, inverse = law.dimension, law.inverse()
    X = random_scale(size, seed)
    jacobian = (size + 1) * np.linalg.slogdet(X)[1]
    assert inverse.log_density(np.linalg.inv(X)) == pytest.approx(law.log_density(X) + jacobian, abs=1e-8)
    assert inverse.log_normalizer == pytest.approx(law.log_normalizer, abs=1e-9, rel=1e-10)
    np.testing.assert_allclose(inverse.mean, law.inverse_mean, rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(inverse.inverse_mean, law.mean, rtol=1e-8, atol=1e-12)
    assert inverse.inverse().log_normalizer == law.log_normalizer


@QUICK
@given(laws((1,)), st.integers(0, 1000), st.integers(0, 1000))
def test_law_of_a_congruence(law: MatrixGIG, seed: int, other: int) -> None:
    """A X Aᵀ: density with the Jacobian |det A|^{N+1}, normaliser, means."""
    size = law.dimension
    A, X = draw_matrix(size, seed), random_scale(size, other)
    image, log_det = law.congruence(A), np.linalg.slogdet(A)[1]
    Z = A @ X @ A.T
    expected = law.log_density(X) - (size + 1) * log_det
    assert image.log_density((Z + Z.T) / 2) == pytest.approx(expected, abs=1e-7)
    expected = law.log_normalizer + 2 * law.nu * log_det
    assert image.log_normalizer == pytest.approx(expected, abs=1e-9, rel=1e-9)
    np.testing.assert_allclose(image.mean, A @ law.mean @ A.T, rtol=1e-7, atol=1e-10)
    back = np.linalg.inv(A)
    np.testing.assert_allclose(image.inverse_mean, back.T @ law.inverse_mean @ back, rtol=1e-7, atol=1e-10)


@QUICK
@given(laws((2, 3, 6)))
def test_means_solve_the_riccati_equation_in_expectation(law: MatrixGIG) -> None:
    """E(X Φ − Ψ X⁻¹) = 2ν I: integration by parts, from X → (1 + ε A) X (1 + ε A)ᵀ for every A."""
    difference = law.mean @ law.phi - law.psi @ law.inverse_mean
    errors = law.mean_error @ np.abs(law.phi) + np.abs(law.psi) @ law.inverse_mean_error
    allowed = 5 * errors + 1e-9 * np.abs(law.mean @ law.phi).max()
    assert (np.abs(difference - 2 * law.nu * np.eye(law.dimension)) < allowed).all()


@pytest.mark.parametrize("nu", [2.5, -2.5])
def test_identities_in_four_dimensions(nu: float) -> None:
    """The same canonical form and seed: the same answers to rounding, transformed."""
    psi, phi = with_spectrum([0.5, 1.0, 3.0, 7.0], 419), with_spectrum([1.0, 1.5, 2.0, 4.0], 420)
    law = MatrixGIG(psi, phi, nu, target_error=0.05)
    A = draw_matrix(4, 421)
    image, inverse = law.congruence(A), law.inverse()
    expected = law.log_normalizer + 2 * nu * np.linalg.slogdet(A)[1]
    assert image.log_normalizer == pytest.approx(expected, abs=5 * law.log_normalizer_error + 1e-9)
    scale = np.abs(A @ law.mean_error @ A.T).sum()
    np.testing.assert_allclose(image.mean, A @ law.mean @ A.T, atol=10 * scale)
    assert inverse.log_normalizer == pytest.approx(law.log_normalizer, rel=1e-9)
    np.testing.assert_allclose(inverse.mean, law.inverse_mean, rtol=1e-8, atol=1e-10)


@QUICK
@given(laws((1, 2, 3, 6)))
def test_mode_solves_the_riccati_equation(law: MatrixGIG) -> None:
    """To 1e-12 relative: X Φ X − (2ν − N − 1) X = Ψ; and the gradient of the log density is zero there."""
    X, size = law.mode, law.dimension
    excess = 2 * law.nu - size - 1
    terms = X @ law.phi @ X, excess * X, law.psi
    largest = max(np.abs(term).max() for term in terms)
    np.testing.assert_allclose(terms[0] - terms[1] - terms[2], 0, atol=1e-12 * largest * size)
    np.testing.assert_allclose(X, X.T, rtol=1e-12, atol=1e-13 * np.abs(X).max())
    back = np.linalg.inv(X)
    gradient = 0.5 * (excess * back + back @ law.psi @ back - law.phi)
    scale = np.abs(back @ law.psi @ back).max() + np.abs(law.phi).max() + abs(excess) * np.abs(back).max()
    np.testing.assert_allclose(gradient, 0, atol=1e-9 * scale)


@pytest.mark.parametrize("nu", [4.0, 0.3, -2.0])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_mode_is_a_maximum(size: int, nu: float) -> None:
    """Lower nearby in every direction, by the log density itself (differences need no normaliser)."""
    law = MatrixGIG(random_scale(size, 422), random_scale(size, 423), nu, target_error=0.2)
    root = np.linalg.cholesky(law.mode)
    rng = np.random.default_rng(424)
    for shift in (1e-3, 0.1, 0.5):
        step = rng.standard_normal((40, size, size))
        step = step + step.swapaxes(1, 2)
        step *= shift / np.abs(np.linalg.eigvalsh(step)).max(axis=1)[:, None, None]
        nearby = root @ (np.eye(size) + step) @ root.T
        values = law.log_density((nearby + nearby.swapaxes(1, 2)) / 2)
        assert (values < law.log_density(law.mode)).all()


def test_mode_with_singular_scales() -> None:
    """Singular Φ: still a positive definite solution. Singular Ψ and a small ν: on the boundary."""
    law = MatrixGIG(PSI, RANK_ONE, -1.5)
    X = law.mode
    np.testing.assert_allclose(X @ RANK_ONE @ X - (2 * -1.5 - 3) * X, PSI, rtol=1e-11)
    assert np.linalg.eigvalsh(X)[0] > 0
    inside = MatrixGIG(RANK_ONE, PHI, 2.0).mode
    np.testing.assert_allclose(inside @ PHI @ inside - inside, RANK_ONE, rtol=1e-11, atol=1e-14)
    assert np.linalg.eigvalsh(MatrixGIG(RANK_ONE, PHI, 0.9).mode)[0] == pytest.approx(0, abs=1e-12)


def test_density_is_zero_off_the_cone() -> None:
    law = MatrixGIG(PSI, PHI, 2.0)
    outside = np.array([[[1.0, 2.0], [2.0, 1.0]], [[-1.0, 0.0], [0.0, -1.0]], [[1.0, 1.0], [1.0, 1.0]]])
    np.testing.assert_array_equal(law.log_density(outside), [-np.inf] * 3)
    assert law.log_density(np.zeros((2, 2))) == -math.inf
    assert MatrixGIG(1.0, 1.0, 2.0).log_density([[-1.0]]) == -math.inf


@pytest.mark.parametrize("size", [1, 2, 3])
def test_density_of_batches(size: int) -> None:
    law = MatrixGIG(random_scale(size, 427), random_scale(size, 428), 2.0, target_error=0.1)
    X = np.stack([random_scale(size, seed) for seed in range(12)])
    one_by_one = [law.log_density(x) for x in X]
    assert all(isinstance(value, float) for value in one_by_one)
    np.testing.assert_allclose(law.log_density(X), one_by_one, rtol=1e-12)
    batch = law.log_density(X.reshape(3, 4, size, size))
    assert batch.shape == (3, 4)
    np.testing.assert_allclose(batch.ravel(), one_by_one, rtol=1e-12)
    assert law.log_density(X[:0]).shape == (0,)


def test_density_by_the_definition() -> None:
    """det(X)^{ν − (N+1)/2} etr(−½ΨX⁻¹ − ½ΦX) over the normaliser, in three dimensions."""
    psi, phi, nu = CHAINS["three"]
    law, X = MatrixGIG(psi, phi, nu, target_error=0.1), random_scale(3, 429)
    kernel = (nu - 2) * np.linalg.slogdet(X)[1]
    kernel -= 0.5 * (np.trace(psi @ np.linalg.inv(X)) + np.trace(phi @ X))
    assert law.log_density(X) == pytest.approx(kernel - law.log_normalizer, rel=1e-12)
