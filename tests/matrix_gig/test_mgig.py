"""The matrix generalised inverse Gaussian against closed forms, quadrature and Gibbs chains."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import special, stats

import lbnn
from lbnn import MatrixGIG
from tests.helpers.problems import Array, random_rotation, random_scale
from tests.referees.statistics import assert_agrees
from tests.referees.weight_space import chain_mean_and_error, propose_log_scale

REPLICATE_FREEDOM = 7  # errors of the library come from eight replicates


def with_spectrum(values: list[float], seed: int) -> Array:
    """A symmetric matrix with the given eigenvalues in random axes; not diagonal."""
    axes = random_rotation(len(values), seed)
    matrix = (axes * np.array(values)) @ axes.T
    return (matrix + matrix.T) / 2


# ---------------------------------------------------------------- referees


def log_bessel(order: float, argument: float) -> float:
    """log K at 40 digits."""
    with mpmath.workdps(40):
        return float(mpmath.log(mpmath.besselk(order, argument)))


@dataclass(frozen=True)
class ScalarReferee:
    """N = 1 in Bessel functions at 40 digits."""

    psi: float
    phi: float
    nu: float

    @property
    def argument(self) -> float:
        return math.sqrt(self.psi * self.phi)

    @property
    def log_normalizer(self) -> float:
        bessel = log_bessel(self.nu, self.argument)
        return math.log(2) + bessel + self.nu / 2 * math.log(self.psi / self.phi)

    def moment(self, power: int) -> float:
        """E x^power."""
        with mpmath.workdps(40):
            ratio = mpmath.besselk(self.nu + power, self.argument) / mpmath.besselk(self.nu, self.argument)
        return float(ratio) * (self.psi / self.phi) ** (power / 2)


@dataclass(frozen=True)
class PlaneReferee:
    """N = 2 by a three-dimensional trapezoid rule over X = C Cᵀ, C = [[e^a, 0], [b, e^c]].

    dX = 4 e^{3a + 2c} da db dc. Given a and c the integrand is Gaussian in b; nodes of b are placed about its
    centre in units of its width. General psi and phi: nothing is rotated.
    """

    psi: Array
    phi: Array
    nu: float
    nodes: int = 150
    inverse: bool = True  # whether E X⁻¹ exists and is wanted

    @cached_property
    def _lattice(self) -> tuple[Array, Array, Array, Array, Array, float]:
        """X11, X12, X22, log det X, log terms, and the log volume of a cell."""
        box = np.array([[-60.0, 12.0], [-60.0, 12.0]])
        for _ in range(3):
            box = self._support(box)
        return self._evaluate(box, self.nodes, 46)

    def _support(self, box: Array) -> Array:
        """Where the integrand and its moments count."""
        x11, _, x22, log_det, log_terms, _ = self._evaluate(box, 121, 3, math.inf)
        log_trace = np.log(x11 + x22)
        largest = np.logaddexp(log_trace, log_trace - log_det) if self.inverse else log_trace
        log_terms = log_terms + np.logaddexp(0, largest)
        rows, columns, _ = np.nonzero(log_terms > np.nanmax(log_terms) - 45)
        ends = []
        for (low, high), index in zip(box, (rows, columns), strict=True):
            step = (high - low) / 120
            ends.append([low + step * (index.min() - 2), low + step * (index.max() + 2)])
        return np.array(ends)

    def _evaluate(
        self, box: Array, nodes: int, cross: int, longest: float = 20.0
    ) -> tuple[Array, Array, Array, Array, Array, float]:
        a, c = (
            np.linspace(low, high, max(nodes, round(nodes * (high - low) / longest))) for low, high in box
        )
        s = np.linspace(-10, 10, 2 * cross + 1)
        cell = math.log((a[1] - a[0]) * (c[1] - c[0]) * (s[1] - s[0]))
        a, c, s = a[:, None, None], c[None, :, None], s[None, None, :]
        p, f = self.psi, self.phi
        first, second = np.exp(a), np.exp(c)
        # tr ΦX + tr ΨX⁻¹ = precision b² − 2 linear b + ..., C⁻¹ = [[1/first, 0], [−b/(first second), ·]]
        precision = f[1, 1] + p[0, 0] / (first * second) ** 2
        linear = p[0, 1] / (first * second**2) - f[0, 1] * first
        b = linear / precision + s / np.sqrt(precision)
        exponent = np.zeros_like(
            b
        )  # as squares of C⁻¹v and Cᵀv over Ψ = Σ vvᵀ and Φ = Σ vvᵀ: nothing cancels
        for v in _columns(p):
            exponent += (v[0] / first) ** 2 + ((v[1] - b * v[0] / first) / second) ** 2
        for v in _columns(f):
            exponent += (first * v[0] + b * v[1]) ** 2 + (second * v[1]) ** 2
        power = 2 * self.nu - 3
        log_terms = power * (a + c) + math.log(4) + 3 * a + 2 * c - 0.5 * exponent - 0.5 * np.log(precision)
        one = np.ones_like(b)
        return first**2 * one, first * b, b**2 + second**2, 2 * (a + c) * one, log_terms * one, cell

    @property
    def log_normalizer(self) -> float:
        *_, log_terms, cell = self._lattice
        return float(special.logsumexp(log_terms)) + cell

    def expect(self, which: str) -> Array:
        """E X, E X⁻¹ or E log det X."""
        x11, x12, x22, log_det, log_terms, _ = self._lattice
        weights = np.exp(log_terms - special.logsumexp(log_terms))
        inverse = np.exp(-log_det)
        entries = {
            "mean": (x11, x12, x22),
            "inverse mean": (x22 * inverse, -x12 * inverse, x11 * inverse),
            "log det": (log_det,) * 3,
        }[which]
        first, cross, second = (float((weights * entry).sum()) for entry in entries)
        return np.array([[first, cross], [cross, second]])


def _columns(matrix: Array) -> Array:
    """Vectors v with Σ vvᵀ = matrix, as rows."""
    values, vectors = np.linalg.eigh(matrix)
    keep = values > 1e-13 * values[-1]
    return (vectors[:, keep] * np.sqrt(values[keep])).T


@dataclass(frozen=True)
class SpaceReferee:
    """N = 3 with Ψ = diag(δ), Φ = I: T_21 and T_31 by hand, a trapezoid rule over log T_ii and T_32.

    tr Δ X⁻¹ = Σ_ij δ_j (T⁻¹)_ij²; given the rest, (T_21, T_31) has precision I + (δ_1/T_11²) S, with
    S = [[1/T_22² + t²/(T_22 T_33)², −t/(T_22 T_33²)], [·, 1/T_33²]] and t = T_32.
    """

    delta: tuple[float, float, float]
    nu: float
    nodes: int = 44

    @cached_property
    def _terms(self) -> tuple[list[Array], Array, Array, float]:
        """Squares of T_ii, precision of (T_21, T_31), log terms, log volume of a cell."""
        d = self.delta
        axes = []
        for index in range(3):
            v = np.linspace(-12, 5, 4001)
            log_values = np.stack([(2 * self.nu - index + tilt) * v for tilt in (-2, 0, 2)])
            log_values -= 0.5 * (np.exp(2 * v) + d[index] * np.exp(-2 * v))
            keep = v[(log_values > log_values.max(axis=1, keepdims=True) - 36).any(axis=0)]
            axes.append(np.linspace(keep[0], keep[-1], self.nodes))
        axes.append(np.linspace(-9, 9, self.nodes))
        cell = math.log(math.prod(float(axis[1] - axis[0]) for axis in axes))
        v1, v2, v3, s = np.meshgrid(*axes, indexing="ij", sparse=True)
        q1, q2, q3 = np.exp(2 * v1), np.exp(2 * v2), np.exp(2 * v3)
        scale = 1 / np.sqrt(1 + d[1] / (q2 * q3))
        t = s * scale
        entries = (
            1 + d[0] / q1 * (1 / q2 + t**2 / (q2 * q3)),
            -d[0] / q1 * t / (np.sqrt(q2) * q3),
            1 + d[0] / (q1 * q3),
        )
        determinant = entries[0] * entries[2] - entries[1] ** 2
        # dX = 2³ Π T_ii^{4−i} dT and dT_ii = T_ii dv_i make T_ii^{2ν − i + 1}
        log_terms = 2 * self.nu * v1 + (2 * self.nu - 1) * v2 + (2 * self.nu - 2) * v3 + math.log(8)
        log_terms = log_terms - 0.5 * (q1 + q2 + q3 + d[0] / q1 + d[1] / q2 + d[2] / q3 + s**2)
        log_terms = log_terms + np.log(scale) + math.log(2 * math.pi) - 0.5 * np.log(determinant)
        return [q1, q2, q3, t], np.stack(np.broadcast_arrays(*entries, determinant)), log_terms, cell

    @property
    def log_normalizer(self) -> float:
        return float(special.logsumexp(self._terms[2])) + self._terms[3]

    @property
    def means(self) -> tuple[Array, Array]:
        """Diagonals of E X and of E X⁻¹."""
        (q1, q2, q3, t), (first, cross, second, determinant), log_terms, _ = self._terms
        weights = np.exp(log_terms - special.logsumexp(log_terms))
        v21, v31, c = second / determinant, first / determinant, -cross / determinant
        values = [q1, q2 + v21, q3 + t**2 + v31]
        # (T⁻¹)_21² and (T⁻¹)_31² average over (T_21, T_31)
        b31 = (t**2 * v21 - 2 * t * np.sqrt(q2) * c + q2 * v31) / (q1 * q2 * q3)
        inverses = [1 / q1 + v21 / (q1 * q2) + b31, 1 / q2 + t**2 / (q2 * q3), 1 / q3]
        mean, inverse = ([float((weights * value).sum()) for value in group] for group in (values, inverses))
        return np.array(mean), np.array(inverse)


def gibbs_chains(
    psi: Array, phi: Array, nu: float, *, seed: int, chains: int = 300, sweeps: int = 150, burn_in: int = 40
) -> tuple[Array, Array]:
    """Means of X, X⁻¹ and log det X and their errors by Gibbs chains over X = A D Aᵀ, A unit triangular.

    After Hamura, Irie & Sugasawa: D given A is generalised inverse Gaussian entry by entry (here by a nearly
    exact Metropolis step); A⁻¹ is affine in each column of A, so that a column given the rest is Gaussian.
    """
    rng, size = np.random.default_rng(seed), len(psi)
    A = np.broadcast_to(np.eye(size), (chains, size, size)).copy()
    B = A.copy()  # A⁻¹
    d = np.ones((chains, size))
    total = np.zeros((chains, 2 * size**2 + 1))
    for step in range(-burn_in, sweeps):
        for j in range(size):
            _redraw_scale(A, B, d, psi, phi, nu, j, rng)
            if j < size - 1:
                _redraw_column(A, B, d, psi, phi, j, rng)
        if step >= 0:
            X = (A * d[:, None, :]) @ A.swapaxes(1, 2)
            inverse = (B.swapaxes(1, 2) / d[:, None, :]) @ B
            logs = np.log(d).sum(axis=1, keepdims=True)
            total += np.concatenate([X.reshape(chains, -1), inverse.reshape(chains, -1), logs], axis=1)
    return chain_mean_and_error(total[:, None] / sweeps)


def _redraw_scale(
    A: Array, B: Array, d: Array, psi: Array, phi: Array, nu: float, j: int, rng: np.random.Generator
) -> None:
    """d_j: order ν + (N − 1)/2 − j (j from 0), since dX = Π d_j^{N−1−j} dd dA."""
    large = np.einsum("sa,ab,sb->s", A[:, :, j], phi, A[:, :, j]) * d[:, j]
    small = np.einsum("sa,ab,sb->s", B[:, j], psi, B[:, j]) / d[:, j]
    excess = 2 * nu + d.shape[1] - 1 - 2 * j
    d[:, j] *= np.exp(2 * propose_log_scale(large, small, excess, rng))


def _redraw_column(
    A: Array, B: Array, d: Array, psi: Array, phi: Array, j: int, rng: np.random.Generator
) -> None:
    """Column j of A below the diagonal: A⁻¹ = B₀ − R v r with R the trailing block of A⁻¹ and r its row j."""
    below = slice(j + 1, None)
    trailing, row = B[:, below, below], B[:, j]
    free = B[:, below] + (trailing @ A[:, below, j, None]) * row[:, None, :]  # rows of A⁻¹ for v = 0
    weighted = trailing.swapaxes(1, 2) / d[:, None, below]
    through = row @ psi
    precision = weighted @ trailing * (through * row).sum(axis=1)[:, None, None]
    precision = precision + d[:, j, None, None] * phi[below, below]
    linear = (weighted @ (free @ through[:, :, None]))[:, :, 0] - d[:, j, None] * phi[below, j]
    root = np.linalg.cholesky(precision)
    white = np.linalg.solve(root, linear[:, :, None]) + rng.standard_normal((*linear.shape, 1))
    column = np.linalg.solve(root.swapaxes(1, 2), white)
    A[:, below, j] = column[:, :, 0]
    B[:, below] = free - (trailing @ column) * row[:, None, :]


def library_values(law: MatrixGIG) -> tuple[Array, Array]:
    """What `gibbs_chains` returns less log det, from the library."""
    values = np.concatenate([law.mean.ravel(), law.inverse_mean.ravel()])
    return values, np.concatenate([law.mean_error.ravel(), law.inverse_mean_error.ravel()])


# ---------------------------------------------------------------- one dimension

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


# ---------------------------------------------------------------- two dimensions

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


@pytest.mark.parametrize("name", PLANES)
def test_plane_quadrature_has_converged(name: str) -> None:
    """To 1e-8, from two thirds of the nodes."""
    fine, coarse = plane(name), PlaneReferee(*PLANES[name], nodes=100)
    assert coarse.log_normalizer == pytest.approx(fine.log_normalizer, abs=1e-8)
    for which in ("mean", "inverse mean"):
        np.testing.assert_allclose(coarse.expect(which), fine.expect(which), rtol=1e-8)


@pytest.mark.parametrize("name", PLANES)
def test_two_dimensions_against_quadrature(name: str) -> None:
    """Normaliser, E X and E X⁻¹ to 1e-9."""
    law, exact = MatrixGIG(*PLANES[name]), plane(name)
    assert law.diagnostics.engine == "quadrature"
    assert law.log_normalizer == pytest.approx(exact.log_normalizer, rel=1e-9, abs=1e-9)
    np.testing.assert_allclose(law.mean, exact.expect("mean"), rtol=1e-9)
    np.testing.assert_allclose(law.inverse_mean, exact.expect("inverse mean"), rtol=1e-9)
    np.testing.assert_array_equal(law.mean_error, np.zeros((2, 2)))


@pytest.mark.parametrize("name", ["positive", "negative", "2ν < N"])
def test_normalizer_generates_the_moments(name: str) -> None:
    """∂/∂ν = E log det X, ∂/∂Φ = −½ E X, ∂/∂Ψ = −½ E X⁻¹."""
    psi, phi, nu = PLANES[name]
    step = 1e-4

    def slope(value: Callable[[float], float]) -> float:
        near, far = (value(h) - value(-h) for h in (step, 2 * step))
        return (8 * near - far) / (12 * step)

    direction = np.array([[0.3, 0.2], [0.2, -0.4]])
    law, exact = MatrixGIG(psi, phi, nu), plane(name)
    found = slope(lambda h: MatrixGIG(psi, phi, nu + h).log_normalizer)
    assert found == pytest.approx(exact.expect("log det")[0, 0], abs=1e-8)
    found = slope(lambda h: MatrixGIG(psi, phi + h * direction, nu).log_normalizer)
    assert found == pytest.approx(-0.5 * np.trace(direction @ law.mean), abs=1e-8)
    found = slope(lambda h: MatrixGIG(psi + h * direction, phi, nu).log_normalizer)
    assert found == pytest.approx(-0.5 * np.trace(direction @ law.inverse_mean), abs=1e-8)


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


@pytest.mark.parametrize(
    ("psi", "phi", "nu"), [(PSI, PHI, 1e5), (PSI, PHI, 1e6), (1e5 * PSI, 1e5 * PHI, 1.0)]
)
def test_two_dimensions_at_extreme_parameters(psi: Array, phi: Array, nu: float) -> None:
    """The Laplace approximation is exact to O(1/ν) here, and so is the mode."""
    law = MatrixGIG(psi, phi, nu)
    assert law.log_normalizer == pytest.approx(law.laplace_log_normalizer, abs=1e-3)
    np.testing.assert_allclose(law.mean, law.mode, rtol=1e-3)


@pytest.mark.parametrize("size", [2, 3])
def test_weak_directions_of_both_scales_are_not_dropped(size: int) -> None:
    """Ψ = Φ = diag(1e-8, 1, ...) are definite, and so the law exists for ν = 0."""
    weak = np.diag([1e-8] + [1.0] * (size - 1))
    stronger = np.diag([1e-6] + [1.0] * (size - 1))
    nearby = MatrixGIG(stronger, stronger, 0.0, target_error=0.1).log_normalizer
    found = MatrixGIG(weak, weak, 0.0, target_error=0.1).log_normalizer
    assert nearby < found < nearby + 0.5  # grows like log log(1/δ)


# ---------------------------------------------------------------- three dimensions and more

SPACES = [((0.5, 1.0, 4.0), 2.5), ((0.3, 2.0, 9.0), 1.3), ((1.0, 1.0, 1.0), 4.0)]


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
    options = {"comparisons": 3 * 26, "degrees_of_freedom": REPLICATE_FREEDOM}
    inverted = law.inverse()
    for found, first, second in ((law, "mean", "inverse_mean"), (inverted, "inverse_mean", "mean")):
        assert_agrees(found.log_normalizer, found.log_normalizer_error, exact.log_normalizer, **options)
        assert found.log_normalizer_error < 0.01
        for name, values in ((first, mean), (second, inverse)):
            error = np.sqrt(np.diag(axes.T**2 @ getattr(found, f"{name}_error") ** 2 @ axes**2))
            diagonal = np.diag(axes.T @ getattr(found, name) @ axes)
            assert_agrees(diagonal, error, values, largest_error=0.02, **options)


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
    assert law.diagnostics.engine in ("importance", "smc")
    options = {"comparisons": 6 * 9, "degrees_of_freedom": REPLICATE_FREEDOM}
    assert_agrees(law.log_normalizer, law.log_normalizer_error, log_normalizer, **options)
    assert law.log_normalizer_error < 0.02
    corner = (slice(rest, None),) * 2
    mean = exact.expect("mean") + rest * np.eye(2)
    assert_agrees(law.mean[corner], law.mean_error[corner], mean, **options)
    np.testing.assert_array_less(np.abs(np.diag(law.mean)[:rest] - 2 * whole), 6 * law.mean_error[0, 0])
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
    options = {"comparisons": 9, "degrees_of_freedom": REPLICATE_FREEDOM}
    assert_agrees(law.log_normalizer, law.log_normalizer_error, log_normalizer, **options)
    assert_agrees(law.mean[-1, -1], law.mean_error[-1, -1], exact.moment(1) + size - 1, **options)
    finite = nu > 0.5  # 2ν of the whole above (N − 1) + 1
    assert np.isfinite(np.diag(law.inverse_mean)[:-1]).all() == finite
    if finite:
        assert_agrees(law.inverse_mean[-1, -1], law.inverse_mean_error[-1, -1], exact.moment(-1), **options)
    else:
        assert law.inverse_mean[-1, -1] == pytest.approx(exact.moment(-1), rel=0.05)


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
    freedom = {"comparisons": len(CHAINS) * 50, "degrees_of_freedom": 2 * REPLICATE_FREEDOM}
    assert_agrees(values, error, chains[:-1], **freedom)
    spread = np.sqrt(np.abs(chains[:-1]).max())
    assert error.max() < 0.05 * spread  # the comparison has power


def test_gibbs_chains_know_the_plane() -> None:
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
    assert_agrees(values, error, chains[:-1], comparisons=3 * 450, degrees_of_freedom=2 * REPLICATE_FREEDOM)


# ---------------------------------------------------------------- Wishart laws


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
    if size == 2:
        assert difference == pytest.approx(change, abs=1e-9)
    else:
        options = {"degrees_of_freedom": REPLICATE_FREEDOM, "largest_error": 1e-3}
        assert_agrees(difference, law.log_normalizer_error, change, **options)


# ---------------------------------------------------------------- identities


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
@given(laws(), st.integers(0, 1000))
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
@given(laws(), st.integers(0, 1000), st.integers(0, 1000))
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


# ---------------------------------------------------------------- Laplace approximation


@pytest.mark.parametrize("size", [1, 2])
def test_laplace_approximation_improves_with_nu(size: int) -> None:
    """An error of O(1/ν): it halves as ν doubles."""
    psi, phi = random_scale(size, 425), random_scale(size, 426)
    errors = []
    for nu in (5.0, 10.0, 20.0, 40.0, 80.0):
        law = MatrixGIG(psi, phi, nu)
        errors.append(abs(law.laplace_log_normalizer - law.log_normalizer))
    ratios = np.array(errors[:-1]) / errors[1:]
    assert errors[0] < 0.2
    assert ((ratios > 1.5) & (ratios < 2.6)).all()
    assert ratios[-1] == pytest.approx(2, abs=0.25)


@pytest.mark.parametrize("sign", [1, -1])
def test_laplace_approximation_by_hand(sign: int) -> None:
    """N = 1: √(2π/κ) times the peak of exp(νt − ½ψe^{−t} − ½φe^t); the inverse law has the same."""
    psi, phi, nu = 2.0, 3.0, 4.0 * sign
    t = math.log((nu + math.sqrt(nu**2 + psi * phi)) / phi)
    peak = nu * t - 0.5 * (psi * math.exp(-t) + phi * math.exp(t))
    curvature = 0.5 * (psi * math.exp(-t) + phi * math.exp(t))
    expected = peak + 0.5 * math.log(2 * math.pi / curvature)
    assert MatrixGIG(psi, phi, nu).laplace_log_normalizer == pytest.approx(expected, rel=1e-12)


# ---------------------------------------------------------------- density


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


# ---------------------------------------------------------------- draws

DRAWN = {
    "one": (2.0, 0.5, -0.7),
    "one, large": (30.0, 2.0, 12.0),
    "plane": PLANES["positive"],
    "plane, negative": PLANES["negative"],
    "plane, singular psi": PLANES["singular psi"],
    "three": CHAINS["three"],
    "five": CHAINS["five"],
    "five, negative": CHAINS["five, negative"],
    "wishart": (np.zeros((3, 3)), with_spectrum([0.5, 1.0, 2.0], 430), 4.0),
    "inverse wishart": (with_spectrum([0.5, 1.0, 2.0], 431), np.zeros((3, 3)), -4.5),
}


def functions_of(X: Array) -> Array:
    """X, X⁻¹ and log det X, side by side."""
    return np.concatenate(
        [X.reshape(len(X), -1), np.linalg.inv(X).reshape(len(X), -1), np.linalg.slogdet(X)[1][:, None]],
        axis=1,
    )


@lru_cache
def expected_functions(name: str) -> tuple[Array, Array]:
    """Means of `functions_of` and their errors: by Gibbs chains, or deterministic where the library is."""
    law = MatrixGIG(*DRAWN[name])
    if law.log_normalizer_error > 0:
        return gibbs_chains(law.psi, law.phi, law.nu, seed=440)
    step = 1e-3
    ahead, behind = (MatrixGIG(law.psi, law.phi, law.nu + h).log_normalizer for h in (step, -step))
    values, errors = library_values(law)
    return np.append(values, (ahead - behind) / (2 * step)), np.append(errors, 0.0)


@pytest.mark.parametrize(
    "name", [name if name != "five" else pytest.param(name, marks=pytest.mark.slow) for name in DRAWN]
)
def test_moments_of_draws(name: str) -> None:
    """Two-sided: X, X⁻¹ and log det X against the means. Resampling from 20 times as many costs up to 5 %."""
    size = 20_000
    law = MatrixGIG(*DRAWN[name])
    draws = law.sample(size, 432)
    assert draws.shape == (size, law.dimension, law.dimension)
    np.testing.assert_allclose(draws, draws.swapaxes(1, 2), rtol=1e-9, atol=1e-12)
    values = functions_of(draws)
    exact, exact_error = expected_functions(name)
    share = 0.1 if law.diagnostics.engine in ("importance", "quadrature") else 0.0
    error = np.hypot(values.std(axis=0) * math.sqrt((1 + share) / size), exact_error)
    assert_agrees(values.mean(axis=0), error, exact, comparisons=len(DRAWN) * 60)


@pytest.mark.parametrize("name", DRAWN)
def test_weighted_draws(name: str) -> None:
    """Weighted means with delta-method errors; equal weights where draws are direct."""
    size = 20_000
    law = MatrixGIG(*DRAWN[name])
    draws, log_weights = law.weighted_sample(size, 433)
    assert log_weights.shape == (size,)
    assert draws.shape == (size, law.dimension, law.dimension)
    weights = np.exp(log_weights - special.logsumexp(log_weights))
    direct = law.diagnostics.engine in ("wishart", "bessel")
    assert (np.ptp(log_weights) == 0) == direct
    assert 1 / (weights**2).sum() > 0.3 * size
    values = functions_of(draws)
    mean = weights @ values
    error = np.sqrt(weights**2 @ (values - mean) ** 2)
    exact, exact_error = expected_functions(name)
    assert_agrees(mean, np.hypot(error, exact_error), exact, comparisons=len(DRAWN) * 60)


@pytest.mark.parametrize("name", ["plane", "plane, negative", "three", "five"])
def test_weights_are_the_density_over_the_proposal(name: str) -> None:
    """The mean weight is the normaliser, up to a constant that does not depend on Ψ."""
    psi, phi, nu = DRAWN[name]
    constants, errors = [], []
    for factor in (1.0, 0.6):
        law = MatrixGIG(factor * psi, phi, nu)
        log_weights = law.weighted_sample(20_000, 434)[1]
        weights = np.exp(log_weights - log_weights.max())
        mean = log_weights.max() + math.log(weights.mean())
        base = law.log_normalizer + law._order * np.linalg.slogdet(law._definite)[1]
        constants.append(mean - base)
        errors.append(
            math.hypot(weights.std() / weights.mean() / math.sqrt(20_000), law.log_normalizer_error)
        )
    assert_agrees(constants[0], math.hypot(*errors), constants[1], comparisons=4, largest_error=0.05)


def test_marginal_of_draws_in_one_dimension() -> None:
    """Kolmogorov–Smirnov against SciPy."""
    draws = MatrixGIG(2.0, 0.5, -0.7).sample(5000, 435)[:, 0, 0]
    law = stats.geninvgauss(-0.7, 1.0, scale=2.0)
    assert stats.kstest(draws, law.cdf).pvalue > 1e-3


def test_determinant_of_a_singular_psi_law() -> None:
    """(X⁻¹)_NN of Ψ = diag(0, 0, ψ) is the inverse of a generalised inverse Gaussian: its whole law."""
    draws = MatrixGIG(np.diag([0.0, 0.0, 2.0]), np.eye(3), 2.2).sample(5000, 436)
    schur = 1 / np.linalg.inv(draws)[:, 2, 2]
    law = stats.geninvgauss(1.2, math.sqrt(2), scale=math.sqrt(2))
    assert stats.kstest(schur, law.cdf).pvalue > 1e-3


def test_draws_follow_the_seed() -> None:
    law = MatrixGIG(PSI, PHI, 2.0)
    np.testing.assert_array_equal(law.sample(5, 1), law.sample(5, np.random.default_rng(1)))
    assert not np.array_equal(law.sample(5, 1), law.sample(5, 2))
    other = MatrixGIG(*CHAINS["three"], seed=1, target_error=0.05)
    same = MatrixGIG(*CHAINS["three"], seed=1, target_error=0.05)
    different = MatrixGIG(*CHAINS["three"], seed=2, target_error=0.05)
    assert other.log_normalizer == same.log_normalizer != different.log_normalizer


# ---------------------------------------------------------------- errors

FOUR = (with_spectrum([0.5, 1.0, 3.0, 7.0], 437), with_spectrum([1.0, 1.5, 2.0, 4.0], 438), 1.7)


def test_target_error_controls_the_error() -> None:
    """Of the log normaliser, and of means in units of standard deviations (eight replicates tell)."""
    deviations = functions_of(MatrixGIG(*FOUR).sample(4000, 439)).std(axis=0)[:-1]
    noise = math.sqrt(stats.chi2.isf(1e-3 / 96, REPLICATE_FREEDOM) / REPLICATE_FREEDOM)
    errors = []
    for target in (0.05, 0.02, 0.01):
        law = MatrixGIG(*FOUR, target_error=target)
        assert law.diagnostics.ok
        assert law.log_normalizer_error <= target
        relative = library_values(law)[1] / deviations
        assert relative.max() <= noise * target
        assert math.sqrt((relative**2).mean()) <= target
        assert law.diagnostics.effective_sample_size >= target**-2
        errors.append(law.log_normalizer_error)
    assert errors[2] < errors[0]


def test_stated_errors_are_honest() -> None:
    """Thirty seeds: the spread of normalisers and means is what is stated, neither more nor less."""
    exact = MatrixGIG(*FOUR, target_error=0.01)
    runs = [MatrixGIG(*FOUR, target_error=0.05, seed=seed) for seed in range(30)]
    index = np.tril_indices(4)
    values = np.array([[run.log_normalizer, *run.mean[index], *run.inverse_mean[index]] for run in runs])
    errors = np.array(
        [[run.log_normalizer_error, *run.mean_error[index], *run.inverse_mean_error[index]] for run in runs]
    )
    truth = np.array([exact.log_normalizer, *exact.mean[index], *exact.inverse_mean[index]])
    truth_error = np.array(
        [exact.log_normalizer_error, *exact.mean_error[index], *exact.inverse_mean_error[index]]
    )
    count = values.shape[1]
    spread = values.std(axis=0, ddof=1)
    stated = np.sqrt((errors**2).mean(axis=0))
    # spread²/stated² is about F(29, 30 · 7)
    level = 1e-3 / count / 2
    low, high = stats.f.ppf([level, 1 - level], 29, 30 * REPLICATE_FREEDOM)
    ratio = (spread / stated) ** 2
    assert (ratio > low).all()
    assert (ratio < high).all()
    assert_agrees(
        values.mean(axis=0), np.hypot(spread / math.sqrt(30), truth_error), truth, degrees_of_freedom=29
    )


# ---------------------------------------------------------------- existence and bad input

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
    with pytest.raises(TypeError, match="rng must be"):
        MatrixGIG(np.eye(2), np.eye(2), 1.0, seed=seed)
    with pytest.raises(TypeError, match="rng must be"):
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
    """Nearly no information and no degrees of freedom; of what was tried, the better is taken."""
    law = MatrixGIG(np.eye(3), np.eye(3), 0.0, target_error=0.001)
    with pytest.warns(lbnn.AccuracyWarning, match="target error of 0.001: take the stated errors"):
        _ = law.log_normalizer
    assert not law.diagnostics.ok
    own, other = law.diagnostics.estimates
    assert own.error < other.error
