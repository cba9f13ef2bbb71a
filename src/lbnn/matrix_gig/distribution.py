"""MatrixGIG: the matrix generalised inverse Gaussian distribution."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from lbnn._base import check
from lbnn._base.types import Array
from lbnn._base.warn import warn_of
from lbnn.data.projection import positive_part
from lbnn.engines import Diagnostics, InferenceOptions
from lbnn.matrix_gig.canonical import Canonical

_OVERSAMPLING = 20  # weighted draws for every draw that is resampled from them


class MatrixGIG:
    """Density ∝ det(X)^{ν − (N+1)/2} etr(−½ Ψ X⁻¹ − ½ Φ X) on positive definite matrices X (N, N).

    At zero temperature the scale of a network of depth two has this law, with Ψ = YᵀG⁻¹Y, Φ = n_1 I and
    ν = (n_1 − p)/2. Ψ = 0 is a Wishart law, Φ = 0 an inverse Wishart law, N = 1 the generalised inverse
    Gaussian.

    Parameters
    ----------
    psi, phi : (N, N)
        Symmetric, positive semi-definite, at least one of them definite; numbers for N = 1. The law exists
        for every ν if both are definite, for 2ν > N − 1 − rank(Ψ) if Ψ is not, for −2ν > N − 1 − rank(Φ) if Φ
        is not.
    nu : float
    target_error : float
        Standard error aimed at, of the log normaliser and of means in units of standard deviations, where
        draws are needed. N = 1, and Ψ or Φ of rank one or zero, are computed to rounding.
    seed : int
        Seed of the draws behind normaliser and means.

    Examples
    --------
    >>> import numpy as np, lbnn
    >>> law = lbnn.MatrixGIG(np.diag([1.0, 4.0]), np.eye(2), nu=3.0)
    >>> round(law.log_normalizer, 2)
    5.03
    >>> bool(law.mean_error.max() < 0.05)
    True
    >>> law.sample(5, seed=0).shape
    (5, 2, 2)
    """

    def __init__(self, psi: Any, phi: Any, nu: float, *, target_error: float = 0.01, seed: int = 0) -> None:
        self.psi, self.phi = _scale_matrix(psi, "psi"), _scale_matrix(phi, "phi")
        if self.psi.shape != self.phi.shape:
            raise ValueError(
                f"psi and phi must have the same shape, got {self.psi.shape} and {self.phi.shape}"
            )
        self.nu = check.finite_number(nu, "nu")
        error = float(check.probability(target_error, "target_error"))
        self._options = InferenceOptions(error, check.seed(seed))
        if reason := _why_not(self.psi, self.phi, self.nu):
            raise ValueError(reason)

    def __repr__(self) -> str:
        """One line: size, order, and the traces of both matrices."""
        return (
            f"MatrixGIG(N={self.dimension}, nu={self.nu:g}, "
            f"trace psi={np.trace(self.psi):.4g}, trace phi={np.trace(self.phi):.4g})"
        )

    @property
    def dimension(self) -> int:
        """N."""
        return len(self.psi)

    @property
    def diagnostics(self) -> Diagnostics:
        """How normaliser and means are computed: "wishart", "bessel" or "importance"."""
        return self._law.diagnostics

    @property
    def mode(self) -> Array:
        """Maximum of the density, (N, N), which solves the Riccati equation X Φ X − (2ν − N − 1) X = Ψ.

        On the boundary where the density is unbounded or largest (Ψ singular), it is singular.
        """
        excess = self.nu - (self.dimension + 1) / 2
        if _is_definite(self.phi):
            return _riccati(self.psi, self.phi, excess)
        return np.asarray(np.linalg.inv(_riccati(self.phi, self.psi, -excess)), float)

    @property
    def mean(self) -> Array:
        """E X, (N, N), infinite where it diverges."""
        return self._transformed(0)[0]

    @property
    def mean_error(self) -> Array:
        """Monte Carlo standard error of `mean`, (N, N); zero where it is deterministic."""
        return self._transformed(0)[1]

    @property
    def inverse_mean(self) -> Array:
        """E X⁻¹, (N, N), infinite where it diverges."""
        return self._transformed(1)[0]

    @property
    def inverse_mean_error(self) -> Array:
        """Monte Carlo standard error of `inverse_mean`, (N, N)."""
        return self._transformed(1)[1]

    @property
    def log_normalizer(self) -> float:
        """log ∫ det(X)^{ν − (N+1)/2} etr(−½ Ψ X⁻¹ − ½ Φ X) dX: a Bessel function of matrix argument."""
        return self._law.log_normalizer[0] - self._order * float(np.linalg.slogdet(self._definite)[1])

    @property
    def log_normalizer_error(self) -> float:
        """Standard error of `log_normalizer`; zero where it is deterministic."""
        return self._law.log_normalizer[1]

    def log_mgf(self, J: Any, *, return_error: bool = False) -> float | tuple[float, float]:
        """log E etr(J X): a ratio of two Bessel functions of matrix argument.

        Parameters
        ----------
        J : (N, N)
            Of which the symmetric part counts; a number for N = 1.
        return_error : bool
            Also return the Monte Carlo standard error; zero where both normalisers are deterministic.

        Returns
        -------
        float, or (float, float)
            Infinite where the expectation is: unless MGIG(Ψ, Φ − 2 J, ν) exists.

        Examples
        --------
        A Wishart law has −ν log det(I − 2 Φ⁻¹J):

        >>> import numpy as np, lbnn
        >>> law = lbnn.MatrixGIG(np.zeros((2, 2)), np.eye(2), nu=3.0)
        >>> round(law.log_mgf(np.diag([0.1, 0.2])), 3), law.log_mgf(np.eye(2))
        (2.202, inf)
        """
        log_ratio = self._log_ratio(self.psi, self.phi - 2 * self._symmetric(J))
        return log_ratio if return_error else log_ratio[0]

    def log_inverse_mgf(self, J: Any, *, return_error: bool = False) -> float | tuple[float, float]:
        """log E etr(J X⁻¹), as `log_mgf`: infinite unless MGIG(Ψ − 2 J, Φ, ν) exists."""
        log_ratio = self._log_ratio(self.psi - 2 * self._symmetric(J), self.phi)
        return log_ratio if return_error else log_ratio[0]

    def _symmetric(self, J: Any) -> Array:
        """The symmetric part of J (N, N), on which tr(J X) depends alone."""
        array = check.real_array(J, "J")
        matrix = array.reshape(1, 1) if array.ndim == 0 else array
        if matrix.shape != self.psi.shape:
            raise ValueError(f"J must have the shape {self.psi.shape} of psi and phi, got {matrix.shape}")
        return np.asarray((matrix + matrix.T) / 2, float)

    def _log_ratio(self, psi: Array, phi: Array) -> tuple[float, float]:
        """Log normaliser of another law of the same ν, (N, N) each, less the own one, and its error."""
        if any(_is_indefinite(each) for each in (psi, phi)) or _why_not(psi, phi, self.nu):
            return np.inf, 0.0
        other = self._like(psi, phi, self.nu)
        if np.array_equal(psi, self.psi) and np.array_equal(phi, self.phi):
            return 0.0, 0.0
        error = float(np.hypot(other.log_normalizer_error, self.log_normalizer_error))
        return other.log_normalizer - self.log_normalizer, error

    def log_density(self, X: Any) -> Array | float:
        """Log density with respect to Lebesgue measure on symmetric matrices, X (..., N, N)."""
        array = check.real_array(X, "X")
        if array.ndim < 2 or array.shape[-2:] != self.psi.shape:
            raise ValueError(
                f"X must have shape (..., {self.dimension}, {self.dimension}), got {array.shape}"
            )
        if np.abs(array - array.swapaxes(-1, -2)).max(initial=0.0) > 1e-10 * np.abs(array).max(initial=0.0):
            raise ValueError("X must be symmetric, got a matrix that differs from its transpose")
        values, vectors = np.linalg.eigh(array.reshape(-1, *self.psi.shape))
        inside = values[:, 0] > 0
        result = np.full(len(values), -np.inf)
        result[inside] = self._log_kernel(values[inside], vectors[inside]) - self.log_normalizer
        shaped = result.reshape(array.shape[:-2])
        return float(shaped) if shaped.ndim == 0 else shaped

    def weighted_sample(self, size: int, seed: Any) -> tuple[Array, Array]:
        """Independent draws (size, N, N) with log weights (size,).

        All weights are equal where the law is drawn directly: Ψ or Φ of rank one or zero, and N = 1.
        """
        count, generator = check.positive_integer(size, "size"), check.generator(seed)
        canonical, log_weights = self._law.weighted_sample(count, generator)
        draws = self._frame @ canonical @ self._frame.T
        return (np.asarray(np.linalg.inv(draws), float) if self._inverted else draws), log_weights

    def sample(self, size: int, seed: Any) -> Array:
        """Draws (size, N, N) of equal weight: direct where possible, else resampled from 20 times as many."""
        count, generator = check.positive_integer(size, "size"), check.generator(seed)
        if self._law.direct:
            return self.weighted_sample(count, generator)[0]
        draws, log_weights = self.weighted_sample(max(_OVERSAMPLING * count, 1000), generator)
        weights = np.exp(log_weights - log_weights.max())
        return draws[generator.choice(len(draws), size=count, p=weights / weights.sum())]

    def inverse(self) -> MatrixGIG:
        """The law of X⁻¹: MGIG(Φ, Ψ, −ν)."""
        return self._like(self.phi, self.psi, -self.nu)

    def congruence(self, A: Any) -> MatrixGIG:
        """The law of A X Aᵀ for invertible A: MGIG(A Ψ Aᵀ, A⁻ᵀ Φ A⁻¹, ν)."""
        matrix = check.matrix(A, "A")
        if matrix.shape != self.psi.shape or np.linalg.matrix_rank(matrix) < len(matrix):
            raise ValueError(f"A must be an invertible {self.psi.shape} matrix, got A.shape={matrix.shape}")
        back = np.linalg.inv(matrix)
        return self._like(matrix @ self.psi @ matrix.T, back.T @ self.phi @ back, self.nu)

    def _like(self, psi: Array, phi: Array, nu: float) -> MatrixGIG:
        """Another law, (N, N) each, with the same target error and seed."""
        options = self._options
        scales = (psi + psi.T) / 2, (phi + phi.T) / 2
        return MatrixGIG(*scales, nu, target_error=options.target_error, seed=options.seed)

    # ------------------------------------------------------------------ canonical form

    @property
    def _inverted(self) -> bool:
        """Whether X⁻¹ rather than X has the canonical form with a definite Φ and ν ≥ 0."""
        return not _is_definite(self.phi) or (self.nu < 0 and _is_definite(self.psi))

    @property
    def _order(self) -> float:
        return -self.nu if self._inverted else self.nu

    @property
    def _definite(self) -> Array:
        """Φ of the canonical form, (N, N)."""
        return self.psi if self._inverted else self.phi

    @cached_property
    def _canonical_form(self) -> tuple[Array, Array]:
        """δ (N,) ascending, and the frame A (N, N) with A Y Aᵀ ~ MGIG for Y ~ MGIG(diag δ, I, ν)."""
        other = self.phi if self._inverted else self.psi
        values, vectors = np.linalg.eigh(self._definite)
        root, back = (vectors * np.sqrt(values)) @ vectors.T, (vectors / np.sqrt(values)) @ vectors.T
        axes = np.linalg.svd(_root(other) @ root)  # singular values keep the digits of weak directions
        delta = np.where(np.arange(len(root)) < _rank(other), axes.S**2, 0.0)
        return delta[::-1].copy(), (back @ axes.Vh.T)[:, ::-1].copy()

    @property
    def _frame(self) -> Array:
        """A, (N, N)."""
        return self._canonical_form[1]

    @cached_property
    def _law(self) -> Canonical:
        law = Canonical(self._canonical_form[0], self._order, self._options)
        warn_of(law.diagnostics.messages)
        return law

    def _transformed(self, which: int) -> tuple[Array, Array]:
        """E X (which = 0) or E X⁻¹ (1) and its error, (N, N) each.

        From the diagonals in the canonical frame.
        """
        of_inverse = bool(which) != self._inverted
        value, covariance = self._law.inverse_mean if of_inverse else self._law.mean
        frame = np.linalg.inv(self._frame).T if of_inverse else self._frame
        pairs = frame[:, None] * frame  # of every element, what each entry of the diagonal adds to it
        error = np.sqrt(np.maximum(np.einsum("ijk,kl,ijl->ij", pairs, covariance, pairs, optimize=True), 0.0))
        infinite = np.isinf(value)
        total = pairs @ np.where(infinite, 0.0, value)
        if infinite.any():
            touched = np.abs(frame[:, infinite]).max(axis=1) > 1e-12 * np.abs(frame).max()
            both = np.outer(touched, touched)
            total, error = np.where(both, np.nan, total), np.where(both, 0.0, error)
            total[np.diag_indices_from(total)] = np.where(touched, np.inf, np.diagonal(total))
        return total, error

    def _log_kernel(self, values: Array, vectors: Array) -> Array:
        """Log of the unnormalised density at V diag(values) Vᵀ, (m,)."""
        psi = np.einsum("sia,ij,sja->sa", vectors, self.psi, vectors)
        phi = np.einsum("sia,ij,sja->sa", vectors, self.phi, vectors)
        power = self.nu - (self.dimension + 1) / 2
        return (power * np.log(values) - 0.5 * (psi / values + phi * values)).sum(axis=1)


def _scale_matrix(value: Any, name: str) -> Array:
    """A symmetric positive semi-definite matrix; a number counts as (1, 1)."""
    array = check.real_array(value, name)
    matrix = check.square_matrix(array.reshape(1, 1) if array.ndim == 0 else array, name)
    if _is_indefinite(matrix):
        smallest = float(np.linalg.eigvalsh(matrix)[0])
        raise ValueError(f"{name} must be positive semi-definite, got smallest eigenvalue {smallest:.3g}")
    return matrix


def _is_indefinite(matrix: Array) -> bool:
    """Whether a symmetric matrix (N, N) has an eigenvalue below zero, beyond rounding."""
    values = np.linalg.eigvalsh(matrix)
    return bool(values[0] < -1e-10 * np.abs(values).max())


def _root(matrix: Array) -> Array:
    """Symmetric square root of a matrix (N, N)."""
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T


def _rank(matrix: Array) -> int:
    """Rank of a positive semi-definite matrix (N, N)."""
    return int(positive_part(np.asarray(np.linalg.eigvalsh(matrix), float), len(matrix)).sum())


def _is_definite(matrix: Array) -> bool:
    """Whether a positive semi-definite matrix (N, N) is definite."""
    return _rank(matrix) == len(matrix)


def _why_not(psi: Array, phi: Array, nu: float) -> str:
    """Why the law with Ψ, Φ (N, N) and ν does not exist; empty where it does."""
    size, psi_rank, phi_rank = len(psi), _rank(psi), _rank(phi)
    given = f"got nu={nu:g}, N={size}, rank(psi)={psi_rank}, rank(phi)={phi_rank}"
    if psi_rank < size and phi_rank < size:
        return f"at least one of psi and phi must be positive definite, {given}"
    if psi_rank < size and not 2 * nu > size - psi_rank - 1:
        return f"with a singular psi the law exists only for 2 nu > N − 1 − rank(psi), {given}"
    if phi_rank < size and not -2 * nu > size - phi_rank - 1:
        return f"with a singular phi the law exists only for −2 nu > N − 1 − rank(phi), {given}"
    return ""


def _riccati(psi: Array, phi: Array, excess: float) -> Array:
    """Positive solution (N, N) of X Φ X − 2·excess X = Ψ for definite Φ.

    It has a closed form in the eigenbasis of Φ^½ Ψ Φ^½.
    """
    values, vectors = np.linalg.eigh(phi)
    root, back = (vectors * np.sqrt(values)) @ vectors.T, (vectors / np.sqrt(values)) @ vectors.T
    delta, axes = np.linalg.eigh(root @ psi @ root)
    delta = np.maximum(delta, 0.0)
    spread = np.sqrt(excess**2 + delta)
    # excess + spread without cancellation for a negative excess
    solution = excess + spread if excess >= 0 else delta / (spread - excess)
    frame = back @ axes
    return (frame * solution) @ frame.T
