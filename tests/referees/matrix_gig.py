"""The matrix generalised inverse Gaussian by Bessel functions, quadrature and Gibbs chains."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import mpmath
import numpy as np
from scipy import special

from lbnn import MatrixGIG
from tests.helpers.problems import Array, random_rotation
from tests.referees.weight_space import chain_mean_and_error, propose_log_scale


def with_spectrum(values: list[float], seed: int) -> Array:
    """A symmetric matrix with the given eigenvalues in random axes; not diagonal."""
    axes = random_rotation(len(values), seed)
    matrix = (axes * np.array(values)) @ axes.T
    return (matrix + matrix.T) / 2


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
