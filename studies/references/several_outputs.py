"""Brute force for several outputs: importance sampling in the total Bartlett factor T; only numpy and scipy.

Y | L ~ N(0, G ⊗ L + I/β), G = σ_1² X Xᵀ/n_0, L = T Tᵀ, T = T_d ⋯ T_2 with independent Bartlett factors.
A point θ holds S_i = log T_ii and the entries below the diagonal, T_ij in units that depend on S. The prior
density of θ has no closed form, but an unbiased estimate, since everything inside is drawn exactly:

- the layers' log-diagonals given their sums S_i (tables, see `log_chi_sums`);
- row i of T given those and the leading blocks of the inner products P_m = T_m ⋯ T_2 is N(0, V_i),
  V_i = Σ_m s_m² (a_i,m+1 ⋯ a_i,d)² P_{m−1}ᵀ P_{m−1}; the rows of the factors given row i are Gaussian again.

So one samples in n_d(n_d + 1)/2 dimensions whatever the depth, and weights are unbiased with one inner draw
each. The proposal is a mixture of Student parts in θ and of the prior itself, which bounds the weights.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from .log_chi_sums import LogChiSum

Array = NDArray[np.float64]

DEGREES_OF_TAIL = 6.0  # of the smooth stand-in for the law of T_ij, in which modes are sought


class Likelihood:
    """Log density of Y given T, in the eigenbasis of G and in given axes of the outputs (columns)."""

    def __init__(self, X: Array, Y: Array, variance: float, beta: float, turn: Array | None = None) -> None:
        values, vectors = np.linalg.eigh(X @ X.T * (variance / X.shape[1]))
        rank, (p, n) = min(X.shape), Y.shape
        self.eigenvalues, self.noise = np.maximum(values[::-1][:rank], 0.0), 1 / beta
        basis = vectors[:, ::-1][:, :rank]
        targets = basis.T @ Y
        strongest_first = np.linalg.svd(targets, full_matrices=True)[2].T
        self.axes = strongest_first if turn is None else strongest_first @ turn
        self.strengths = np.mean((targets @ strongest_first) ** 2 / self._floored()[:, None], 0)
        self.turn = np.eye(n) if turn is None else turn
        self.targets = targets @ self.axes
        self.signal = np.sum(self.targets**2 / self._floored()[:, None], 0)
        self.level = self.noise / np.median(self._floored())
        rest = np.sum((Y - basis @ targets) ** 2) / self.noise
        self.constant = -0.5 * (p * n * math.log(2 * math.pi) + (p - rank) * n * math.log(self.noise) + rest)

    def _floored(self) -> Array:
        return np.maximum(self.eigenvalues, 1e-3 * self.eigenvalues.max())

    def __call__(self, T: Array) -> Array:
        values, vectors = np.linalg.eigh(T @ np.swapaxes(T, -1, -2))
        variances = self.noise + self.eigenvalues[:, None] * np.maximum(values, 0.0)[..., None, :]
        terms = np.log(variances) + (self.targets @ vectors) ** 2 / variances
        return self.constant - 0.5 * np.sum(terms, axis=(-1, -2))


@dataclass(frozen=True)
class Draws:
    """Points θ with T, the log likelihood and the unbiased estimate of the log prior density of θ."""

    points: Array
    factors: Array
    log_likelihood: Array
    log_prior: Array

    def joined(self, other: Draws) -> Draws:
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return Draws(*(np.concatenate(pair) for pair in pairs))


class Target:
    """The posterior of θ; T_ij in units of its deviation given S ("prior") or given S and Y ("data")."""

    def __init__(
        self,
        widths: Sequence[int],
        variances: Sequence[float],
        beta: float,
        X: Array,
        Y: Array,
        units: str = "prior",
        turn: Array | None = None,
    ) -> None:
        self.likelihood = Likelihood(X, Y, variances[0], beta, turn)
        self.outputs, self.layers, self.units = Y.shape[1], len(widths), units
        self.deviations = np.sqrt(np.asarray(variances[1:]) / np.asarray(widths))
        largest = 0.5 * math.log(max(self.likelihood.strengths.sum(), 1e-12))
        centre = float(np.sum(np.log(self.deviations) + 0.5 * np.log(widths)))
        self.low, self.high = centre - 45.0, max(centre + 5.0, largest + 3.0)
        degrees = np.asarray(widths, float) - np.arange(self.outputs)[:, None]
        self.rows = [LogChiSum(k, self.deviations, self.low, self.high) for k in degrees]
        self.pairs = [(i, j) for i in range(self.outputs) for j in range(i)]
        self.dimension = self.outputs + len(self.pairs)

    # ---------------------------------------------------------------- coordinates

    def _typical_log_variances(self, S: Array) -> Array:
        """Log variance of each T_ij with the layers' diagonals at their conditional means, (..., pairs)."""
        typical = [row.typical(S[..., i]) for i, row in enumerate(self.rows)]
        return np.stack([self._log_variance(typical[i], typical[j]) for i, j in self.pairs], -1)

    def _log_variance(self, own: Array, other: Array) -> Array:
        after = np.cumsum(own[..., ::-1], -1)[..., ::-1] - own
        before = np.cumsum(other, -1) - other
        return special.logsumexp(2 * (after + before + np.log(self.deviations)), axis=-1)

    def _log_units(self, S: Array) -> Array:
        prior = self._typical_log_variances(S)
        if self.units == "prior":
            return 0.5 * prior
        own, other = (np.exp(2 * S[..., list(index)]) for index in zip(*self.pairs, strict=True))
        signal = self.likelihood.signal[[j for _, j in self.pairs]]
        return -0.5 * np.logaddexp(-prior, np.log(signal / (other * (own + self.likelihood.level))))

    def factor(self, points: Array) -> tuple[Array, Array]:
        """T of the points, and the log Jacobian of the entries below its diagonal."""
        S = points[..., : self.outputs]
        units = self._log_units(S)
        T = np.zeros((*points.shape[:-1], self.outputs, self.outputs))
        T[..., range(self.outputs), range(self.outputs)] = np.exp(S)
        rows, columns = zip(*self.pairs, strict=True)
        T[..., rows, columns] = points[..., self.outputs :] * np.exp(units)
        return T, units.sum(-1)

    def point(self, T: Array) -> Array:
        """The inverse of `factor`."""
        S = np.log(np.diagonal(T, axis1=-2, axis2=-1))
        rows, columns = zip(*self.pairs, strict=True)
        return np.concatenate([S, T[..., rows, columns] * np.exp(-self._log_units(S))], -1)

    def outside(self, points: Array) -> NDArray[np.bool_]:
        S = points[..., : self.outputs]
        return np.any(np.clip(S, self.low, self.high) != S, axis=-1)

    def smooth(self, points: Array) -> Array:
        """A smooth stand-in for the log posterior density of θ: typical inner factors, free entries."""
        T, jacobian = self.factor(points)
        S, below = points[..., : self.outputs], T[..., [i for i, _ in self.pairs], [j for _, j in self.pairs]]
        log_variances = self._typical_log_variances(S)
        squares = below**2 * np.exp(-log_variances) / DEGREES_OF_TAIL
        entries = -0.5 * log_variances - 0.5 * (DEGREES_OF_TAIL + 1) * np.log1p(squares)
        diagonal = sum(row.log_density(S[..., i]) for i, row in enumerate(self.rows))
        value = self.likelihood(T) + jacobian + diagonal + entries.sum(-1)
        return np.where(self.outside(points) | ~np.isfinite(value), -1e300, value)

    # ---------------------------------------------------------------- unbiased weights

    def complete(self, points: Array, rng: np.random.Generator) -> Draws:
        """Draw the inner factors of given points, exactly up to the tables."""
        outside = self.outside(points)
        centre = [row.mean for row in self.rows] + [0.0] * len(self.pairs)
        safe = np.where(outside[:, None], centre, points)
        T, jacobian = self.factor(safe)
        logs = [row.sample(safe[:, i], rng) for i, row in enumerate(self.rows)]
        log_prior = jacobian + self._log_prior(T, logs, rng, None)
        log_prior[outside | np.isnan(log_prior)] = -np.inf
        return Draws(points, T, self.likelihood(T), log_prior)

    def prior_draws(self, size: int, rng: np.random.Generator) -> Draws:
        """Draw from the prior; `log_prior` is what `complete` could have said of the same draw."""
        logs = [row.prior_sample(size, rng) for row in self.rows]
        below = [rng.standard_normal((self.layers, size, i)) for i in range(self.outputs)]
        T = self._product(logs, below)
        points = self.point(T)
        log_prior = self._log_units(points[:, : self.outputs]).sum(-1) + self._log_prior(T, logs, rng, below)
        return Draws(points, T, self.likelihood(T), np.where(np.isnan(log_prior), np.inf, log_prior))

    def _product(self, logs: list[Array], below: list[Array]) -> Array:
        """T of factors with given log-diagonals and rows below, in units of the deviations."""
        T = np.broadcast_to(np.eye(self.outputs), (len(logs[0]), self.outputs, self.outputs))
        for layer, deviation in enumerate(self.deviations):
            factor = np.zeros(T.shape)
            for i in range(self.outputs):
                factor[:, i, i] = np.exp(logs[i][:, layer])
                factor[:, i, :i] = deviation * below[i][layer]
            T = factor @ T
        return T

    def _log_prior(
        self, T: Array, logs: list[Array], rng: np.random.Generator, below: list[Array] | None
    ) -> Array:
        """Log of prior over proposal of the inner draws, row by row; rows below are drawn if None."""
        pairs = list(zip(self.rows, logs, strict=True))
        result = np.sum([row.log_prior(u) - row.log_proposal(u) for row, u in pairs], axis=0)
        inner = np.zeros((self.layers, len(T), self.outputs, self.outputs))  # P_{m−1}
        inner[:, :, 0, 0] = np.exp(np.cumsum(logs[0], 1) - logs[0]).T
        for i in range(1, self.outputs):
            design = self._design(inner[:, :, :i, :i], logs[i])
            variance = np.einsum("mnab,mnac->nbc", design, design)
            result += _log_normal(T[:, i, :i], variance)
            if i < self.outputs - 1:
                z = _given(T[:, i, :i], design, variance, rng) if below is None else below[i]
                self._append(inner, i, logs[i], z)
        return result

    def _design(self, inner: Array, own: Array) -> Array:
        """Row i of T is Σ_m z_m design_m with standard normal z_m (row vectors)."""
        after = np.exp(np.cumsum(own[:, ::-1], 1)[:, ::-1] - own)
        return inner * (self.deviations * after).T[:, :, None, None]

    def _append(self, inner: Array, i: int, own: Array, z: Array) -> None:
        """Fill row i of the inner products."""
        row = np.zeros(z.shape[1:])
        inner[:, :, i, i] = np.exp(np.cumsum(own, 1) - own).T
        for layer in range(self.layers - 1):
            step = np.einsum("na,nab->nb", self.deviations[layer] * z[layer], inner[layer, :, :i, :i])
            row = step + np.exp(own[:, layer])[:, None] * row
            inner[layer + 1, :, i, :i] = row


def _given(row: Array, design: Array, variance: Array, rng: np.random.Generator) -> Array:
    """Standard normal z (layers, draws, i), given that Σ_m z_m design_m is the row."""
    z = rng.standard_normal(design.shape[:3])
    missing = row - np.einsum("mna,mnab->nb", z, design)
    multiplier = np.linalg.solve(variance, missing[..., None])[..., 0]
    return z + np.einsum("mnab,nb->mna", design, multiplier)


def _log_normal(row: Array, variance: Array) -> Array:
    root = np.linalg.cholesky(variance * (1 + 1e-12 * np.eye(row.shape[-1])))
    unit = np.linalg.solve(root, row[..., None])[..., 0]
    log_root = np.log(np.diagonal(root, axis1=-2, axis2=-1)).sum(-1)
    return -0.5 * np.sum(unit**2, -1) - log_root - 0.5 * row.shape[-1] * math.log(2 * math.pi)
