"""N ≥ 3 against quadrature, reductions to smaller N and Gibbs chains."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import special

from lbnn import MatrixGIG
from tests.helpers.problems import random_rotation
from tests.matrix_gig.test_one_and_two_dimensions import PLANES, PSI, plane
from tests.referees.matrix_gig import (
    PlaneReferee,
    ScalarReferee,
    SpaceReferee,
    gibbs_chains,
    library_values,
    with_spectrum,
)
from tests.referees.statistics import assert_agrees

SPACES = [((0.5, 1.0, 4.0), 2.5), ((0.3, 2.0, 9.0), 1.3), ((1.0, 1.0, 1.0), 4.0)]


@pytest.mark.slow
@pytest.mark.parametrize(("delta", "nu"), SPACES, ids=str)
def test_space_quadrature_has_converged(delta: tuple[float, float, float], nu: float) -> None:
    fine, coarse = SpaceReferee(delta, nu), SpaceReferee(delta, nu, nodes=36)
    assert coarse.log_normalizer == pytest.approx(fine.log_normalizer, abs=1e-8)
    np.testing.assert_allclose(coarse.means, fine.means, rtol=1e-7)


@pytest.mark.parametrize(("delta", "nu"), SPACES, ids=str)
def test_three_dimensions_against_quadrature(delta: tuple[float, float, float], nu: float) -> None:
    """In random axes and inverted too; errors are honest and small."""
    exact = SpaceReferee(delta, nu)
    mean, inverse = exact.means
    axes = random_rotation(3, 401)
    psi = (axes * np.array(delta)) @ axes.T
    law = MatrixGIG((psi + psi.T) / 2, np.eye(3), nu)
    options = {"comparisons": 3 * 38}
    inverted = law.inverse()
    for found, first, second in ((law, "mean", "inverse_mean"), (inverted, "inverse_mean", "mean")):
        assert_agrees(found.log_normalizer, found.log_normalizer_error, exact.log_normalizer, **options)
        assert found.log_normalizer_error < 0.01
        for name, values in ((first, mean), (second, inverse)):
            value, error = getattr(found, name), getattr(found, f"{name}_error") + 1e-14
            assert_agrees(value, error, (axes * values) @ axes.T, largest_error=0.05, **options)


@pytest.mark.parametrize("size", [3, 5, 8])
@pytest.mark.parametrize("nu", [0.4, 2.6])
def test_rank_two_reduces_to_the_plane(size: int, nu: float) -> None:
    """Ψ = diag(0, Ψ₂): a Wishart block, Gaussians, and the law of the plane with ν − (N − 2)/2.

    `nu` is that of the plane; 2ν of the whole is nu's double plus N − 2, above N − 1 − rank(Ψ).
    """
    whole, rest = nu + (size - 2) / 2, size - 2
    psi = np.zeros((size, size))
    psi[rest:, rest:] = PSI
    exact = PlaneReferee(PSI, np.eye(2), nu)
    log_wishart = special.multigammaln(whole, rest) + rest * whole * math.log(2)
    log_normalizer = exact.log_normalizer + log_wishart + 2 * rest / 2 * math.log(2 * math.pi)
    law = MatrixGIG(psi, np.eye(size), whole, target_error=0.02)
    assert law.diagnostics.ok
    options = {"comparisons": 6 * 9}
    assert_agrees(law.log_normalizer, law.log_normalizer_error, log_normalizer, **options)
    assert law.log_normalizer_error < 0.02
    corner = (slice(rest, None),) * 2
    mean = exact.expect("mean") + rest * np.eye(2)
    assert_agrees(law.mean[corner], law.mean_error[corner], mean, **options)
    np.testing.assert_allclose(np.diag(law.mean)[:rest], 2 * whole, rtol=1e-12)
    inverse, error = law.inverse_mean[corner], law.inverse_mean_error[corner]
    if np.isfinite(law.inverse_mean).all():
        assert_agrees(inverse, error, exact.expect("inverse mean"), **options)


@pytest.mark.parametrize(("size", "nu"), [(4, 0.4), (6, 2.9), (15, 3.0)])
def test_rank_one_in_closed_form(size: int, nu: float) -> None:
    """Ψ = ψ vvᵀ: χ variables, Gaussians, and one generalised inverse Gaussian of order ν − (N − 1)/2."""
    law = MatrixGIG(np.diag([0.0] * (size - 1) + [3.0]), np.eye(size), nu + (size - 1) / 2, target_error=0.02)
    whole = nu + (size - 1) / 2
    exact = ScalarReferee(3.0, 1.0, nu)
    log_normalizer = special.multigammaln(whole, size - 1) + (size - 1) * whole * math.log(2)
    log_normalizer += exact.log_normalizer + (size - 1) / 2 * math.log(2 * math.pi)
    assert law.diagnostics.engine == "bessel"
    assert law.log_normalizer == pytest.approx(log_normalizer, rel=1e-10)
    assert law.mean[-1, -1] == pytest.approx(exact.moment(1) + size - 1, rel=1e-10)
    finite = nu > 0.5  # 2ν of the whole above (N − 1) + 1
    assert np.isfinite(np.diag(law.inverse_mean)[:-1]).all() == finite
    assert law.inverse_mean[-1, -1] == pytest.approx(exact.moment(-1), rel=1e-10)
    if finite:  # E X₁₁⁻¹ (1 + tr E C⁻¹)
        assert law.inverse_mean[0, 0] == pytest.approx((1 + exact.moment(-1)) / (2 * whole - size), rel=1e-10)


def test_finite_part_of_a_divergent_mean_has_an_error() -> None:
    """(X⁻¹)_33 is finite and drawn, so its error is not zero."""
    law = MatrixGIG(np.diag([0.0, 1.0, 2.0]), np.eye(3), 0.9)
    assert math.isinf(law.inverse_mean[0, 0])
    assert law.inverse_mean_error[2, 2] > 0


CHAINS = {
    "three": (with_spectrum([0.4, 1.0, 3.0], 402), with_spectrum([0.5, 1.0, 2.0], 403), 1.8),
    "five": (with_spectrum([0.4, 1.0, 1.0, 3.0, 8.0], 404), with_spectrum([0.5, 1, 1, 2, 4], 405), 3.5),
    "five, negative": (with_spectrum([0.5, 1, 1, 2, 4], 406), with_spectrum([1.0, 1, 2, 3, 3], 407), -4.0),
    "five, 2ν < N": (with_spectrum([2.0, 3, 4, 5, 6], 408), with_spectrum([1.0, 1, 1, 2, 2], 409), 1.5),
    "three, ν = 0": (with_spectrum([2.0, 3.0, 8.0], 410), with_spectrum([1.0, 1.0, 2.0], 411), 0.0),
}


@pytest.mark.parametrize("name", CHAINS)
def test_means_against_gibbs_chains(name: str) -> None:
    """E X and E X⁻¹ of general laws, within the errors of both."""
    psi, phi, nu = CHAINS[name]
    law = MatrixGIG(psi, phi, nu, target_error=0.02)
    values, errors = library_values(law)
    chains, chains_error = gibbs_chains(psi, phi, nu, seed=412)
    error = np.hypot(errors, chains_error[:-1])
    freedom = {"comparisons": len(CHAINS) * 50}
    assert_agrees(values, error, chains[:-1], **freedom)
    spread = np.sqrt(np.abs(chains[:-1]).max())
    assert error.max() < 0.05 * spread  # the comparison has power


def test_gibbs_chains_agree_with_the_plane() -> None:
    """The referee against the other referee."""
    psi, phi, nu = PLANES["2ν < N"]
    values, errors = gibbs_chains(psi, phi, nu, seed=413)
    exact = [plane("2ν < N").expect(which).ravel() for which in ("mean", "inverse mean")]
    logs = plane("2ν < N").expect("log det")[0, 0]
    assert_agrees(values, errors, np.append(np.concatenate(exact), logs))


SCENARIOS = {
    "I": np.eye(15),
    "two strong": np.diag([1.0] * 13 + [10.0, 50.0]),
    "1..15": np.diag(np.arange(1.0, 16.0)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SCENARIOS)
def test_fifteen_dimensions_against_gibbs_chains(name: str) -> None:
    """ν = 10, Φ = I: diagonals and off-diagonals of E X and E X⁻¹."""
    law = MatrixGIG(SCENARIOS[name], np.eye(15), 10.0)
    assert law.diagnostics.ok
    values, errors = library_values(law)
    chains, chains_error = gibbs_chains(SCENARIOS[name], np.eye(15), 10.0, seed=414, chains=200, sweeps=200)
    error = np.hypot(errors, chains_error[:-1])
    assert_agrees(values, error, chains[:-1], comparisons=3 * 450)


def draws_of_the_logarithm(delta: np.ndarray, nu: float, size: int = 60_000) -> tuple[float, float]:
    """Log normaliser of MGIG(diag δ, I, ν) and its error from Student draws of S = log X around the mode.

    There X = diag(ν + κ), κ = √(ν² + δ), and the curvature off the diagonal is κ_i + κ_j. In S the invariant
    measure has the density Π_{i<j} sinh(d_ij/2)/(d_ij/2), d_ij the differences of eigenvalues.
    """
    rng, n, degrees = np.random.default_rng(0), len(delta), 8.0
    kappa = np.sqrt(nu**2 + delta)
    centre = np.log(nu + kappa)
    rows, columns = np.tril_indices(n)
    half = (centre[rows] - centre[columns]) / 2
    deviations = np.where(rows == columns, 1.0, half / np.where(rows == columns, 1.0, np.sinh(half)))
    deviations *= 1.15 / np.sqrt(np.where(rows == columns, 1.0, 2.0) * (kappa[rows] + kappa[columns]) / 2)
    student = rng.standard_normal((size, len(rows))) / np.sqrt(rng.chisquare(degrees, (size, 1)) / degrees)
    power = (degrees + len(rows)) / 2
    log_drawn = math.lgamma(power) - math.lgamma(degrees / 2) - len(rows) / 2 * math.log(degrees * math.pi)
    log_drawn = log_drawn - np.log(deviations).sum() - power * np.log1p((student**2).sum(axis=1) / degrees)
    logs = np.zeros((size, n, n))
    logs[:, rows, columns] = logs[:, columns, rows] = student * deviations
    values, axes = np.linalg.eigh(logs + np.diag(centre))
    inverse = np.einsum("mia,i,mia,ma->m", axes, delta, axes, np.exp(-values))
    differences = (values[:, :, None] - values[:, None, :])[:, *np.triu_indices(n, 1)] / 2
    terms = nu * values.sum(axis=1) - 0.5 * (np.exp(values).sum(axis=1) + inverse) - log_drawn
    terms += np.log(np.sinh(differences) / differences).sum(axis=1)
    weights = np.exp(terms - terms.max())
    error = weights.std() / weights.mean() / math.sqrt(size)
    return float(terms.max() + math.log(weights.mean())), float(error)


@pytest.mark.parametrize(
    ("delta", "nu"),
    [
        ((1.0, 10.0, 100.0, 1000.0), -0.5),
        pytest.param((1.0, 10.0, 100.0, 1000.0), 0.0, marks=pytest.mark.slow),
        pytest.param((0.1, 1.0, 10.0, 100.0, 1000.0), -0.5, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_eigenvalues_over_many_decades(delta: tuple[float, ...], nu: float) -> None:
    """Trajectories reach triangular T that LAPACK calls singular; the inverse law has −ν and the same δ."""
    truth, error = draws_of_the_logarithm(np.array(delta), abs(nu))
    law = MatrixGIG(np.eye(len(delta)), np.diag(delta), nu, target_error=0.05)
    joint = math.hypot(law.log_normalizer_error, error)
    assert_agrees(law.log_normalizer, joint, truth, comparisons=3)
