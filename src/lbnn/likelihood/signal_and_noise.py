"""The likelihood where signal and noise each have a covariance of their own.

In the eigenbasis of G the rows of the targets are independent, and row i has the covariance

    C_i = diag(t) + A Aᵀ + g_i B Bᵀ,      noise Σ = diag(t) + A Aᵀ, signal L = B Bᵀ,

with roots A (n_d, k_2) and B (n_d, k_1) that may be narrow. In units of √t, with C = (I + AᵀA)⁻¹,

    Σ⁻¹ = I − A C Aᵀ,     K = Bᵀ Σ⁻¹ B = U diag(l) Uᵀ,     V = Σ⁻¹ B U,     z_i = Vᵀ y_i,

    log det C_i = log det(I + AᵀA) + Σ_j log(1 + g_i l_j),
    C_i⁻¹ = Σ⁻¹ − V diag_j(g_i/(1 + g_i l_j)) Vᵀ:

one decomposition of (k, k) matrices serves all rows. Noise terms depend on the moments S = Σ_i y_i y_iᵀ of
the targets only; rows outside the range of G have g = 0 and enter nowhere else.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lbnn._base.errors import LikelihoodMismatch
from lbnn._base.types import Array


@dataclass(frozen=True)
class Roots:
    """Signal and noise of a batch of draws: L = B Bᵀ and Σ = diag(t) + A Aᵀ."""

    signal: Array  # B, (m, n_d, k_1); k_1 = 0 without signal
    noise: Array  # A, (m, n_d, k_2); k_2 = 0 for independent noise
    log_variances: Array  # log t, (m, n_d)

    @property
    def signal_covariance(self) -> Array:
        """L, (m, n_d, n_d)."""
        return self.signal @ self.signal.swapaxes(1, 2)

    @property
    def noise_covariance(self) -> Array:
        """Σ, (m, n_d, n_d)."""
        covariance = self.noise @ self.noise.swapaxes(1, 2)
        index = np.arange(covariance.shape[1])
        covariance[:, index, index] += np.exp(self.log_variances)
        return covariance


@dataclass(frozen=True)
class SignalNoiseLikelihood:
    """log p(Y | L, Σ) for roots of L and Σ, with its gradient.

    Attributes
    ----------
    eigenvalues : (r,)
        g.
    targets : (r, n_d)
        ỹ.
    outside : (any, n_d)
        Rows with the moments of the targets outside the range of G, ...
    unseen : int
        ... and how many rows these stand for.
    log_jacobian : float
        From densities of rows times the roots of their weights to those of the rows.
    """

    eigenvalues: Array
    targets: Array
    outside: Array
    unseen: int
    log_jacobian: float = 0.0

    @property
    def outputs(self) -> int:
        """n_d."""
        return self.targets.shape[1]

    @property
    def examples(self) -> int:
        """p."""
        return len(self.eigenvalues) + self.unseen

    @cached_property
    def _moments(self) -> Array:
        """S = Σ_i y_i y_iᵀ over all rows, (n_d, n_d)."""
        return self.targets.T @ self.targets + self.outside.T @ self.outside

    @property
    def log_constant(self) -> float:
        """−½ p n_d log 2π, and the Jacobian of row weights."""
        return self.log_jacobian - 0.5 * self.examples * self.outputs * math.log(2 * math.pi)

    def log_value(self, roots: Roots) -> Array:
        """log p(Y | L, Σ) less `log_constant`, (m,)."""
        return self.value_and_gradient(roots, gradient=False)[0]

    def value_and_gradient(self, roots: Roots, gradient: bool = True) -> tuple[Array, Roots | None]:
        """`log_value` (m,), and its gradient in B, A and log t, with f_i = C_i⁻¹ y_i the gradient of row i.

        Rows enter through S, once for all draws, and through the z_i of the signal.
        """
        inverse_units = np.exp(-0.5 * roots.log_variances)[:, :, None]
        A, B = roots.noise * inverse_units, roots.signal * inverse_units
        gram = A.swapaxes(1, 2) @ A
        index = np.arange(gram.shape[1])
        gram[:, index, index] += 1
        # noise so large that the one is lost to rounding: a likelihood of about −p log(1e15), as good as none
        lost = ~(np.abs(gram).max(axis=(1, 2), initial=1.0) < _LARGEST_NOISE)
        gram[lost] = np.eye(gram.shape[1])
        C = np.linalg.inv(gram)
        AC = A @ C  # Σ⁻¹A
        SA = inverse_units * _times_all(self._moments, inverse_units * A)
        diagonal = np.diagonal(self._moments) * inverse_units[:, :, 0] ** 2  # of S in units of √t, (m, n_d)
        own = (SA * AC).sum(axis=2)
        squares = diagonal.sum(axis=1) - own.sum(axis=1)  # tr Σ⁻¹S
        logs = self.examples * (np.linalg.slogdet(gram)[1] + roots.log_variances.sum(axis=1))
        signal = _SignalPart.of(self, A, AC, B, inverse_units) if B.shape[2] else None
        if signal is not None:
            logs, squares = logs + signal.log_determinant, squares - signal.explained
        value = np.where(lost, _HOPELESS, -0.5 * (logs + squares))
        if not gradient:
            return value, None
        W = SA @ C
        fits_A = W - AC @ (A.swapaxes(1, 2) @ W)  # Σ⁻¹SΣ⁻¹A, and with a signal Σ_i f_i f_iᵀ A
        fits = (
            diagonal - 2 * own + (AC @ (A.swapaxes(1, 2) @ SA) * AC).sum(axis=2)
        )  # diagonal of Σ_i f_i f_iᵀ
        to_noise = fits_A - self.examples * AC
        to_variances = fits - self.examples * (1 - (AC * A).sum(axis=2))
        to_signal = B
        if signal is not None:
            to_signal, more_noise, more_variances = signal.gradient(A, AC, inverse_units)
            to_noise, to_variances = to_noise + more_noise, to_variances + more_variances
        return value, Roots(to_signal * inverse_units, to_noise * inverse_units, 0.5 * to_variances)


@dataclass(frozen=True)
class _SignalPart:
    """What the signal adds: U, V, z and l of the module's docstring, and w_i = g_i z_i/(1 + g_i l).

    Rows are the last axis of z, w and of 1 + g_i l_j, (m, k_1, r).
    """

    likelihood: SignalNoiseLikelihood
    U: Array
    V: Array
    w: Array
    spread: Array
    log_determinant: Array  # Σ_ij log(1 + g_i l_j), (m,)
    explained: Array  # Σ_i w_iᵀ z_i, (m,)

    @classmethod
    def of(
        cls, likelihood: SignalNoiseLikelihood, A: Array, AC: Array, B: Array, inverse_units: Array
    ) -> _SignalPart:
        """From A (m, n_d, k_2), Σ⁻¹A, B (m, n_d, k_1) in units of √t (m, n_d, 1)."""
        g, targets = likelihood.eigenvalues, likelihood.targets
        SB = B - AC @ (A.swapaxes(1, 2) @ B)  # Σ⁻¹B
        scales, U = np.linalg.eigh(B.swapaxes(1, 2) @ SB)
        V = SB @ U
        z = _all_times((inverse_units * V).swapaxes(1, 2), targets.T)
        spread = 1 + np.maximum(scales, 0.0)[:, :, None] * g
        w = g * z / spread
        return cls(
            likelihood, U, V, w, spread, np.log(spread).sum(axis=(1, 2)), np.einsum("mkr,mkr->m", w, z)
        )

    def gradient(self, A: Array, AC: Array, inverse_units: Array) -> tuple[Array, Array, Array]:
        """In B (m, n_d, k_1), and what is added to that in A (m, n_d, k_2) and to twice that in log t."""
        weights = (self.likelihood.eigenvalues / self.spread).sum(axis=2)[:, None, :]  # Σ_i g_i/(1 + g_i l_j)
        Yw = inverse_units * _all_times(self.w, self.likelihood.targets).swapaxes(1, 2)
        R = Yw - AC @ (A.swapaxes(1, 2) @ Yw)  # Σ⁻¹ Σ_i y_i w_iᵀ
        H = R - self.V @ (self.w @ self.w.swapaxes(1, 2))  # Σ_i f_i w_iᵀ
        weighted, VA = self.V * weights, self.V.swapaxes(1, 2) @ A
        to_noise = weighted @ VA - R @ VA - self.V @ (H.swapaxes(1, 2) @ A)
        to_variances = ((weighted - R - H) * self.V).sum(axis=2)
        return (H - weighted) @ self.U.swapaxes(1, 2), to_noise, to_variances


def _times_all(matrix: Array, batch: Array) -> Array:
    """A matrix (n, n) times every one of (m, n, k), as one product."""
    return np.tensordot(batch, matrix, (1, 1)).swapaxes(1, 2)


def _all_times(batch: Array, matrix: Array) -> Array:
    """Every one of (m, k, n) times a matrix (n, r), as one product."""
    count, rows, columns = batch.shape
    return (batch.reshape(count * rows, columns) @ matrix).reshape(count, rows, matrix.shape[1])


_LARGEST_NOISE = 1e15  # variance of common noise, in units of the own noise of an output
_HOPELESS = -1e100  # a log likelihood that is finite at every temperature, zero included
_ROUNDING = 1e-8  # relative to the sum of all terms and times the condition number: what products may lose


def plain_log_value(likelihood: SignalNoiseLikelihood, signal: Array, noise: Array) -> tuple[float, float]:
    """log p(Y | L, Σ), L and Σ (n_d, n_d), by dense factorisations row by row, and a bound of rounding."""
    value, bound = 0.0, 1e-6
    outside = likelihood.outside.T @ likelihood.outside
    for strength, row in zip(likelihood.eigenvalues, likelihood.targets, strict=True):
        covariance = strength * signal + noise
        logs, fit = float(np.linalg.slogdet(covariance)[1]), float(row @ np.linalg.solve(covariance, row))
        value -= 0.5 * (logs + fit)
        bound += _ROUNDING * (abs(logs) + fit)
    logs, fit = float(np.linalg.slogdet(noise)[1]), float(np.trace(np.linalg.solve(noise, outside)))
    value -= 0.5 * (likelihood.unseen * logs + fit)
    bound += _ROUNDING * (likelihood.unseen * abs(logs) + fit)
    total = float((likelihood.targets**2).sum() + np.trace(outside)) / float(np.linalg.eigvalsh(noise)[0])
    constant = likelihood.log_jacobian - 0.5 * likelihood.examples * len(noise) * math.log(2 * math.pi)
    return constant + value, bound + 1e-13 * total


def check_integrand(likelihood: SignalNoiseLikelihood, roots: Roots, log_values: Array) -> None:
    """Raise unless log p(Y | L, Σ) (m,) is what the plain formula gives."""
    for signal, noise, found in zip(roots.signal_covariance, roots.noise_covariance, log_values, strict=True):
        expected, bound = plain_log_value(likelihood, signal, noise)
        if not abs(found - expected) <= bound:
            raise LikelihoodMismatch(
                f"the likelihood that was integrated is {found:.10g} at a draw where the plain formula "
                f"gives {expected:.10g}, with rounding of at most {bound:.2g}: this is an error of lbnn, "
                "please report it with the data; no answer is returned"
            )
