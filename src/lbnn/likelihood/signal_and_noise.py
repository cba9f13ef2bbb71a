"""The likelihood where signal and noise each have a covariance of their own.

In the eigenbasis of G the rows of the targets are independent, and row i has the covariance

    C_i = diag(t) + A Aᵀ + g_i B Bᵀ,      noise Σ = diag(t) + A Aᵀ, signal L = B Bᵀ,

with roots A (n_d, k_2) and B (n_d, k_1) that may be narrow. In units of √t, with C = (I + AᵀA)⁻¹,

    Σ⁻¹ = I − A C Aᵀ,     K = Bᵀ Σ⁻¹ B = U diag(l) Uᵀ,     V = Σ⁻¹ B U,     z_i = Vᵀ y_i,

    log det C_i = log det(I + AᵀA) + Σ_j log(1 + g_i l_j),
    C_i⁻¹ = Σ⁻¹ − V diag_j(g_i/(1 + g_i l_j)) Vᵀ:

one decomposition of (k, k) matrices serves all rows, and the rest are products with the targets. Rows outside
the range of G have g = 0.
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
    """

    eigenvalues: Array
    targets: Array
    outside: Array
    unseen: int

    @property
    def outputs(self) -> int:
        """n_d."""
        return self.targets.shape[1]

    @property
    def examples(self) -> int:
        """p."""
        return len(self.eigenvalues) + self.unseen

    @cached_property
    def _rows(self) -> tuple[Array, Array]:
        """Eigenvalues (rows,) and targets (rows, n_d) with the rows outside, whose eigenvalue is zero."""
        values = np.append(self.eigenvalues, np.zeros(len(self.outside)))
        return values, np.concatenate([self.targets, self.outside])

    @property
    def log_constant(self) -> float:
        """−½ p n_d log 2π."""
        return -0.5 * self.examples * self.outputs * math.log(2 * math.pi)

    def log_value(self, roots: Roots) -> Array:
        """log p(Y | L, Σ) less `log_constant`, (m,)."""
        return self.value_and_gradient(roots, gradient=False)[0]

    def value_and_gradient(self, roots: Roots, gradient: bool = True) -> tuple[Array, Roots | None]:
        """`log_value` (m,), and its gradient in B, A and log t."""
        g, targets = self._rows
        inverse_units = np.exp(-0.5 * roots.log_variances)[:, :, None]
        A, B = roots.noise * inverse_units, roots.signal * inverse_units
        Y = targets * inverse_units.swapaxes(1, 2)  # (m, rows, n_d)
        gram = A.swapaxes(1, 2) @ A
        index = np.arange(gram.shape[1])
        gram[:, index, index] += 1
        # noise so large that the one is lost to rounding: a likelihood of about −p log(1e15), as good as none
        lost = ~(np.abs(gram).max(axis=(1, 2), initial=1.0) < _LARGEST_NOISE)
        gram[lost] = np.eye(gram.shape[1])
        C = np.linalg.inv(gram)
        AC = A @ C
        fit = Y - (Y @ A) @ AC.swapaxes(1, 2)  # Σ⁻¹ y_i
        SB = B - AC @ (A.swapaxes(1, 2) @ B)  # Σ⁻¹ B
        scales, U = np.linalg.eigh(B.swapaxes(1, 2) @ SB)
        scales = np.maximum(scales, 0.0)[:, None, :]
        V = SB @ U
        z = Y @ V
        spread = 1 + g[:, None] * scales  # 1 + g_i l_j, (m, rows, k_1)
        shrunk = z / spread
        logs = self.examples * (np.linalg.slogdet(gram)[1] + roots.log_variances.sum(axis=1))
        logs = logs + np.log(spread).sum(axis=(1, 2))
        squares = (Y * fit).sum(axis=(1, 2)) - (g[:, None] * z * shrunk).sum(axis=(1, 2))
        value = np.where(lost, _HOPELESS, -0.5 * (logs + squares))
        if not gradient:
            return value, None
        fit = fit - (g[:, None] * shrunk) @ V.swapaxes(1, 2)  # C_i⁻¹ y_i
        weights = (g[:, None] / spread).sum(axis=1)[:, None, :]  # Σ_i g_i/(1 + g_i l_j)
        to_signal = fit.swapaxes(1, 2) @ (g[:, None] * shrunk) - V * weights
        to_signal = to_signal @ U.swapaxes(1, 2)
        weighted = V * weights
        to_noise = fit.swapaxes(1, 2) @ (fit @ A) - self.examples * AC + weighted @ (V.swapaxes(1, 2) @ A)
        diagonal = self.examples * (1 - (AC * A).sum(axis=2)) - (weighted * V).sum(axis=2)
        to_variances = 0.5 * ((fit**2).sum(axis=1) - diagonal)
        return value, Roots(to_signal * inverse_units, to_noise * inverse_units, to_variances)


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
    return likelihood.log_constant + value, bound + 1e-13 * total


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
