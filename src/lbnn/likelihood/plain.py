"""The likelihood by its plain formula: a dense Cholesky factorisation of the covariance of every row.

In the eigenbasis of G the rows of the targets are independent, and row i has the covariance

    C_i = diag(v) + (g_i + ν) L,   v the noise variances of the outputs, ν the share of L in the noise,

in the units of the data as they were given; rows outside the range of G have g = 0. No eigenvectors of L, no
roots of low rank, no units of the noise, no Gauss rule: nothing that the engines use to be fast. So it checks
the integrand of every answer at a few of its draws, at a cost of r n_d³ operations each. The hidden kernel Λ
has the same formula with the outputs as rows, each of the covariance diag(√g) Λ diag(√g) + v_j.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace

import numpy as np

from lbnn._base.blocks import blocks
from lbnn._base.types import AnyArray, Array, IndexArray, Mask

_EPS = float(np.finfo(float).eps)
_FLOOR = 1e-6  # nats, and relative to the sum of all terms: what fast formulas may lose
_TYPICAL = 1e-4  # of a bound: the largest error in extended precision over it, in 24 ill-conditioned problems
_NEGLIGIBLE = 1e-3  # nats: bounds of rounding below which nothing is computed more precisely
_ROUNDING = 64.0  # times n ε κ: what a factorisation may lose of a quadratic form


class PlainFormula(ABC):
    """log p(Y | L) by a formula with which fast ones are compared."""

    @property
    @abstractmethod
    def operations(self) -> float:
        """Of one value, roughly."""

    @abstractmethod
    def log_value(self, scale: Array) -> tuple[float, float]:
        """log p(Y | L) at one L (n_d, n_d), constant included, and a bound on what rounding may do to it.

        NaN where a covariance is singular to rounding.
        """

    def log_kernel_value(self, kernel: Array) -> tuple[float, float]:
        """The same for the hidden kernel Λ (r, r); NaN where there is no such formula."""
        return math.nan, math.nan

    def rounding(self, scale: Array, found: float) -> float:
        """What rounding did to a fast value found at one L (n_d, n_d), in nats; by default nothing is said.

        Formulas that factorise the covariance of all observations lose digits where it is ill-conditioned.
        """
        return 0.0


@dataclass(frozen=True)
class PlainLikelihood(PlainFormula):
    """log p(Y | L) of data in the units in which they were given."""

    eigenvalues: Array  # g, (r,)
    targets: Array  # ỹ, (r, n_d)
    variances: Array  # v, (n_d,)
    coupling: float  # ν
    outside: Array  # rows with the moments of the targets outside the range of G, (at most `unseen`, n_d) ...
    unseen: int  # ... and how many rows these stand for
    log_jacobian: float = 0.0  # from densities of rows times √w to those of the rows

    @property
    def operations(self) -> float:
        return float(len(self.targets)) * self.targets.shape[1] ** 3

    def log_value(self, scale: Array) -> tuple[float, float]:
        strength = self.eigenvalues + self.coupling
        value, bound = self._rows(strength, self.targets, scale)
        value += self.log_jacobian
        if self.unseen:
            covariance = np.diag(self.variances) + self.coupling * scale
            root = _cholesky(covariance[None])
            if root is None:
                return math.nan, math.nan
            fit = float((self.outside * np.linalg.solve(covariance, self.outside.T).T).sum())
            logs = self.unseen * (_log_determinant(root)[0] + len(scale) * math.log(2 * math.pi))
            value -= 0.5 * (logs + fit)
            bound += _allowed(logs, fit, root, len(scale))
        return value, bound + _FLOOR

    def log_kernel_value(self, kernel: Array) -> tuple[float, float]:
        """log p(Y | Λ) at one hidden kernel Λ (r, r), and a bound on rounding; all v_j are equal."""
        strength, targets, unseen = self.eigenvalues + self.coupling, self.targets, self.unseen
        if self.coupling:  # noise passes through the network: every row is one of its kernel
            outside = np.zeros((unseen, targets.shape[1]))
            outside[: len(self.outside)] = self.outside
            strength = np.append(strength, np.full(unseen, self.coupling))
            targets, unseen = np.concatenate([targets, outside]), 0
        root = np.sqrt(strength)
        covariance = root[:, None] * kernel * root + self.variances[0] * np.eye(len(root))
        lower = _cholesky(covariance[None])
        if lower is None:
            return math.nan, math.nan
        outputs = targets.shape[1]
        fit = float((np.linalg.solve(lower[0], targets) ** 2).sum())
        logs = outputs * (_log_determinant(lower)[0] + len(root) * math.log(2 * math.pi))
        bound = _allowed(logs, fit, lower, len(root)) + _FLOOR
        if unseen:
            logs += unseen * outputs * math.log(2 * math.pi * self.variances[0])
            fit += float((self.outside**2).sum()) / self.variances[0]
        return self.log_jacobian - 0.5 * (logs + fit), bound + _FLOOR * (abs(logs) + fit)

    def _rows(self, strength: Array, targets: Array, scale: Array) -> tuple[float, float]:
        """Log density of rows of targets (k, n_d) with strengths (k,), and a bound of its rounding."""
        value = bound = 0.0
        size = len(scale)
        if size > 1 and not np.any(scale - np.diag(np.diagonal(scale))):  # independent outputs: one at a time
            parts = [
                replace(self, variances=self.variances[j : j + 1])._rows(
                    strength, targets[:, j : j + 1], scale[j : j + 1, j : j + 1]
                )
                for j in range(size)
            ]
            return sum(part[0] for part in parts), sum(part[1] for part in parts)
        for block in blocks(len(targets), 4 * size * size):
            covariance = strength[block, None, None] * scale + np.diag(self.variances)
            lower = _cholesky(covariance)
            if lower is None:
                return math.nan, math.nan
            white = (
                targets[block] / lower[:, 0]
                if size == 1
                else np.linalg.solve(lower, targets[block, :, None])[..., 0]
            )
            fit = (white**2).sum(axis=1)
            logs = _log_determinant(lower) + size * math.log(2 * math.pi)
            value -= 0.5 * float((logs + fit).sum())
            bound += _allowed(logs, fit, lower, size)
        if (self.variances > 0).all():  # fast formulas may subtract squares of targets in units of the noise
            bound += _ROUNDING * _EPS * float((targets**2 / self.variances).sum())
        return value, bound


@dataclass(frozen=True)
class PlainViews(PlainFormula):
    """log p(y | L) of observations through views as they were given, with the dense covariance."""

    kernel: Array  # K(a, m; b, n), (p, M, p, M)
    observations: Array  # (p,)
    noise: float
    features: Array | None = None  # (p, M, n) whose inner products the kernel is, where there are any

    @property
    def operations(self) -> float:
        return 20.0 * float(len(self.observations)) ** 3

    def log_value(self, scale: Array) -> tuple[float, float]:
        covariance = np.einsum("ambn,mn->ab", self.kernel, scale) + self.noise * np.eye(len(self.kernel))
        lower = _cholesky(covariance[None])
        if lower is None:
            return math.nan, math.nan
        fit = float(self.observations @ np.linalg.solve(covariance, self.observations))
        logs = _log_determinant(lower)[0] + len(covariance) * math.log(2 * math.pi)
        spread = np.linalg.cond(covariance)
        bound = _FLOOR * (1 + abs(logs) + fit) + _ROUNDING * len(covariance) * _EPS * spread * (fit + 1)
        return -0.5 * float(logs + fit), float(bound)

    def rounding(self, scale: Array, found: float) -> float:
        _, bound = self.log_value(scale)
        if bound < _NEGLIGIBLE:
            return 0.0
        noise = np.longdouble(self.noise) * np.eye(len(self.kernel))
        if self.features is None:
            covariance = np.einsum("ambn,mn->ab", self.kernel.astype(np.longdouble), scale)
        else:
            values, axes = np.linalg.eigh(scale)
            root = (axes * np.sqrt(np.maximum(values, 0.0))).astype(np.longdouble)
            seen = np.einsum("ami,mk->aki", self.features.astype(np.longdouble), root)
            flat = seen.reshape(len(seen), -1)
            covariance = flat @ flat.T
        value = _extended_log_density(covariance + noise, self.observations)
        return abs(found - value) if math.isfinite(value) else math.inf


@dataclass(frozen=True)
class PlainCells(PlainFormula):
    """log p(Y_obs | L) of the observed cells of a table, with their dense covariance."""

    features: Array  # of the rows (times √w), whose inner products are the Gram matrix, (p, r)
    table: Array  # (p, n_d), times √w; cells that were not observed have no effect
    observed: Mask  # (p, n_d)
    weights: Array  # w, (p,)
    centred: bool  # whether every output has a level, of which contrasts are free
    noise: float

    @property
    def operations(self) -> float:
        return 2.0 * float(self.observed.sum()) ** 3

    def log_value(self, scale: Array) -> tuple[float, float]:
        covariance, values, log_weights = (np.asarray(each, float) for each in self._gaussian(scale))
        lower = _cholesky(covariance[None])
        if lower is None:
            return math.nan, math.nan
        fit = float(values @ np.linalg.solve(covariance, values))
        logs = float(_log_determinant(lower)[0]) + len(values) * math.log(2 * math.pi)
        bound = _allowed(np.array([logs]), np.array([fit]), lower, len(values))
        smallest = self.noise or float(np.linalg.eigvalsh(covariance)[0])
        bound += _FLOOR + _ROUNDING * _EPS * float(values @ values) / smallest
        return float(log_weights) - 0.5 * (logs + fit), bound

    def log_kernel_value(self, kernel: Array) -> tuple[float, float]:
        """Outputs are independent given Λ, with the covariance Φ Λ Φᵀ over rows."""
        values, axes = np.linalg.eigh(kernel)
        features = self.features @ (axes * np.sqrt(np.maximum(values, 0.0)))
        return replace(self, features=features).log_value(np.eye(self.table.shape[1]))

    def _gaussian(self, scale: Array) -> tuple[AnyArray, Array, float]:
        """Covariance (k, k) and values (k,) of what is observed, in extended precision; log Jacobian."""
        outputs, rows = np.nonzero(self.observed.T)
        gram = self.features.astype(np.longdouble) @ self.features.T.astype(np.longdouble)
        covariance = gram[np.ix_(rows, rows)] * scale[outputs[:, None], outputs]
        covariance += np.longdouble(self.noise) * np.eye(len(rows))
        values, log_weights = self.table[rows, outputs], 0.5 * float(np.log(self.weights[rows]).sum())
        if self.centred:  # combinations of the rows of each output that are orthogonal to √w
            contrasts = np.zeros((len(rows), 0))
            for output in range(self.table.shape[1]):
                here = np.flatnonzero(outputs == output)
                level = np.sqrt(self.weights[rows[here]])
                own = np.zeros((len(rows), len(here) - 1))
                own[here] = np.linalg.svd(level[None])[2][1:].T
                contrasts = np.hstack([contrasts, own])
                log_weights -= 0.5 * math.log(float((level**2).mean()))
            covariance, values = contrasts.T @ covariance @ contrasts, contrasts.T @ values
        return covariance, values, log_weights

    def rounding(self, scale: Array, found: float) -> float:
        _, bound = self.log_value(scale)
        if bound < _NEGLIGIBLE:
            return 0.0
        covariance, values, log_weights = self._gaussian(scale)
        value = log_weights + _extended_log_density(covariance, values)
        return abs(found - value) if math.isfinite(value) else math.inf


@dataclass(frozen=True)
class PlainElimination(PlainFormula):
    """The same for very many cells: the complete table, less the density of the missing cells.

    Those have the precision P_cc' = Σ_i U_ai U_bi [(τ I + g_i L)⁻¹]_jk for cells c = (a, j), c' = (b, k), of
    which every inverse is a dense one.
    """

    complete: PlainLikelihood  # of the filled table
    vectors: Array  # U of the rows of missing cells, (m, r)
    outputs: IndexArray  # of missing cells, (m,)
    unseen: Array  # I − UUᵀ between cells of the same output, (m, m)
    rest: Array  # targets of missing cells outside the range of G, (m,)
    log_extra: float  # levels and weights of rows

    @property
    def targets(self) -> Array:
        """(r, n_d)."""
        return self.complete.targets

    @property
    def operations(self) -> float:
        count, rank, outputs = len(self.outputs), *self.targets.shape
        return count**2 * (count + 20.0 * rank) + rank * outputs**3  # elementwise, not products

    def log_value(self, scale: Array) -> tuple[float, float]:
        value, bound = self.complete.log_value(scale)
        noise = float(self.complete.variances[0])
        eye = noise * np.eye(len(scale))
        own = np.linalg.inv(self.complete.eigenvalues[:, None, None] * scale + eye)  # (r, n_d, n_d)
        precision = self.unseen / noise if self.unseen.any() else self.unseen
        for row, vector in zip(own, self.vectors.T, strict=True):
            precision = precision + np.outer(vector, vector) * row[np.ix_(self.outputs, self.outputs)]
        pulled = (own @ self.targets[:, :, None])[:, :, 0]  # (τ + g_i L)⁻¹ỹ_i, (r, n_d)
        pulled = (self.vectors * pulled[:, self.outputs].T).sum(axis=1)
        if self.rest.any():
            pulled = pulled + self.rest / noise
        lower = _cholesky(precision[None])
        if lower is None:
            return math.nan, math.nan
        fit = float(pulled @ np.linalg.solve(precision, pulled))
        logs = float(_log_determinant(lower)[0]) - len(precision) * math.log(2 * math.pi)
        bound += _allowed(np.array([logs]), np.array([fit]), lower, len(precision))
        return value + self.log_extra - 0.5 * (logs - fit), bound

    def rounding(self, scale: Array, found: float) -> float:
        """By its bound: extended precision takes too long for so many cells."""
        bound = self.log_value(scale)[1]
        return _TYPICAL * bound if math.isfinite(bound) else math.inf


def _extended_log_density(covariance: AnyArray, values: Array) -> float:
    """log N(values; 0, covariance) in extended precision, (k,) and (k, k); NaN where it has none."""
    if np.finfo(np.longdouble).eps > 0.01 * _EPS:  # no extended precision on this platform
        return math.nan
    rest = np.array(covariance, np.longdouble)
    white = np.array(values, np.longdouble)
    value = -0.5 * len(white) * math.log(2 * math.pi)
    for k in range(len(white)):  # Cholesky's factorisation, a column at a time
        pivot = rest[k, k]
        if not pivot > 0:
            return math.nan
        column = rest[k + 1 :, k] / pivot
        value -= 0.5 * float(np.log(pivot) + white[k] ** 2 / pivot)
        white[k + 1 :] -= column * white[k]
        rest[k + 1 :, k + 1 :] -= column[:, None] * rest[k, k + 1 :]
    return float(value)


def _cholesky(covariances: Array) -> Array | None:
    """Lower roots (m, n, n), or (m, 1, 1) roots of numbers; None where one is singular to rounding."""
    if covariances.shape[1] == 1:
        return np.sqrt(covariances) if (covariances > 0).all() else None
    try:
        return np.asarray(np.linalg.cholesky(covariances), float)
    except np.linalg.LinAlgError:
        return None


def _log_determinant(lower: Array) -> Array:
    """log det of matrices with Cholesky factors (m, n, n), (m,)."""
    return 2 * np.log(np.diagonal(lower, axis1=1, axis2=2)).sum(axis=1)


def _allowed(logs: Array | float, fit: Array | float, lower: Array, size: int) -> float:
    """Bound of the rounding of terms (m,), with Cholesky factors (m, n, n).

    Relative to all terms, and n ε κ of every quadratic form.
    """
    diagonal = np.diagonal(lower, axis1=1, axis2=2)
    condition = (diagonal.max(axis=1) / diagonal.min(axis=1)) ** 2
    lost = _ROUNDING * size * _EPS * condition * (np.asarray(fit) + size)
    return float(_FLOOR * (np.abs(logs) + fit).sum() + lost.sum())
