"""The observed cells of a table, and the regressions of its targets on the features of the rows.

Given the features C (p, K) of all rows, the targets are independent Bayesian linear regressions. They are
written in units of the noise deviation: T̃_j = T_j/√τ_j has the prior N(0, I/ρ_j), and with the likelihood of
every observed cell to the power t

    Q = ρ_j I + t CᵀC,   C of the observed rows of target j.

Noise that is known: ρ_j = τ_j, and the targets are divided by √τ_j. Noise that is sampled: ρ_j = 1, so that
the prior of T_j scales with τ_j, and 1/τ_j ~ Gamma(a, rate b_j) integrates out in closed form with T_j.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import special

from lbnn._base.types import Array, Mask

#: Shape of the prior of 1/τ_j: two gives τ_j a mean and no variance.
NOISE_SHAPE = 2.0


@dataclass(frozen=True)
class Regressions:
    """Of every target on the features of every particle: CᵀC = V diag(values) Vᵀ and Vᵀ Cᵀ y.

    Attributes
    ----------
    values : (n_d, m, K)
    vectors : (n_d, m, K, K)
    moments : (n_d, m, K)
    """

    values: Array
    vectors: Array
    moments: Array


@dataclass(frozen=True)
class Table:
    """Observed cells in units of the noise.

    Attributes
    ----------
    targets : (p, n_d)
        y/√τ where the noise is known, else y; zero where not observed.
    observed : (p, n_d)
        One where observed, else zero.
    variances : (n_d,) or None
        τ where it is known.
    rates : (n_d,)
        b of the prior of 1/τ; not used where the noise is known.
    """

    targets: Array
    observed: Array
    variances: Array | None
    rates: Array

    @classmethod
    def of(cls, Y: Array, observed: Mask, variances: Array | None, rates: Array | None = None) -> Table:
        """From Y (p, n_d) with any numbers where nothing was observed.

        The rate of the prior of an unknown noise is by default half the mean square of the target, so that
        the prior mean of τ_j is half of that square.
        """
        filled = np.where(observed, Y, 0.0)
        if rates is None:
            rates = 0.5 * (filled**2).sum(axis=0) / observed.sum(axis=0)
        units = 1.0 if variances is None else np.sqrt(variances)
        return cls(filled / units, observed.astype(float), variances, rates)

    @cached_property
    def counts(self) -> Array:
        """Observed rows of every target, (n_d, 1)."""
        return self.observed.sum(axis=0)[:, None]

    @cached_property
    def squares(self) -> Array:
        """YᵀY of every target, (n_d, 1)."""
        return (self.targets**2).sum(axis=0)[:, None]

    @cached_property
    def precision(self) -> Array:
        """ρ, (n_d, 1)."""
        return (np.ones(len(self.rates)) if self.variances is None else self.variances)[:, None]

    def regressions(self, features: Array) -> Regressions:
        """Of features (p, m, K)."""
        _, m, K = features.shape
        grams = self.grams(self.observed.T, features)
        moments = (self.targets.T @ features.reshape(len(features), -1)).reshape(-1, m, K)
        if K == 1:
            return Regressions(grams[..., 0], np.ones_like(grams), moments)
        values, vectors = np.linalg.eigh(grams)
        return Regressions(np.maximum(values, 0.0), vectors, (moments[..., None, :] @ vectors)[..., 0, :])

    @staticmethod
    def grams(weights: Array, rows: Array) -> Array:
        """Σ_i weights_ai x_i x_iᵀ, (a, m, K, K), of rows (i, m, K)."""
        count, m, K = rows.shape
        first, second = np.triu_indices(K)
        pairs = (rows[..., first] * rows[..., second]).reshape(count, -1)
        sums = (weights @ pairs).reshape(len(weights), m, -1)
        result = np.empty((len(weights), m, K, K))
        result[..., first, second] = result[..., second, first] = sums
        return result

    def log_likelihood(self, values: Array, squares: Array, t: float) -> Array:
        """log ∫ prior(T, τ) · likelihood^t, (m,), from values and squared moments (n_d, m, K).

        Its sum over targets, at any power t.
        """
        spread = self.precision[..., None] + t * values  # eigenvalues of Q
        rest = self.squares - t * (squares / spread).sum(axis=2)
        constant = 0.5 * t * self.counts * math.log(2 * math.pi)
        volume = 0.5 * np.log(spread / self.precision[..., None]).sum(axis=2)
        if self.variances is not None:
            known = 0.5 * t * self.counts * np.log(self.precision)
            return -(constant + known + volume + 0.5 * t * rest).sum(axis=0)
        a, b = NOISE_SHAPE, self.rates[:, None]
        after = a + 0.5 * t * self.counts
        gammas = a * np.log(b) - math.lgamma(a) + special.gammaln(after)
        return (gammas - constant - volume - after * np.log(b + 0.5 * t * np.maximum(rest, 0.0))).sum(axis=0)

    def noise_law(self, fits: Regressions, t: float) -> tuple[Array, Array]:
        """Shape (n_d, 1) and rate (n_d, m) of the Gamma law of 1/τ given the features; of unknown noise."""
        spread = 1.0 + t * fits.values
        rest = self.squares - t * (fits.moments**2 / spread).sum(axis=2)
        return NOISE_SHAPE + 0.5 * t * self.counts, self.rates[:, None] + 0.5 * t * np.maximum(rest, 0.0)

    def draw(self, fits: Regressions, t: float, rng: np.random.Generator) -> tuple[Array, Array]:
        """Loadings T̃ (n_d, m, K) and noise deviations (n_d, m) in units of the targets, given features."""
        shape = fits.values.shape
        deviations = np.ones(shape[:2])
        if self.variances is None:
            degrees, rate = self.noise_law(fits, t)
            deviations = np.sqrt(rate / rng.gamma(np.broadcast_to(degrees, shape[:2])))
        spread = self.precision[..., None] + t * fits.values
        white = t * fits.moments / (spread * deviations[..., None])
        white += rng.standard_normal(shape) / np.sqrt(spread)
        return (fits.vectors @ white[..., None])[..., 0], deviations
