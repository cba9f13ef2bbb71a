"""Draws of signal and noise, in the basis that makes both diagonal."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from lbnn._base.types import Array, IndexArray


@dataclass(frozen=True)
class SignalNoiseDraws:
    """Weighted draws of signal and noise: Σ = M Mᵀ and L = M diag(l) Mᵀ.

    Attributes
    ----------
    basis : (m, n_d, n_d)
        M, invertible.
    ratios : (m, n_d)
        l, the ratio of signal to noise along each column of M at g = 1; zero without signal.
    weights : (m,)
    groups : (m,)
        Independent replicate of every draw.
    """

    basis: Array
    ratios: Array
    weights: Array
    groups: IndexArray

    @property
    def deterministic(self) -> bool:
        """Draws are none."""
        return False

    @property
    def outputs(self) -> int:
        """n_d."""
        return self.basis.shape[1]

    @cached_property
    def inverse(self) -> Array:
        """M⁻¹, (m, n_d, n_d)."""
        return np.asarray(np.linalg.inv(self.basis), float)

    @cached_property
    def log_volumes(self) -> Array:
        """log |det M|, (m,)."""
        return np.asarray(np.linalg.slogdet(self.basis)[1], float)

    @property
    def signal(self) -> Array:
        """L, (m, n_d, n_d)."""
        return (self.basis * self.ratios[:, None, :]) @ self.basis.swapaxes(1, 2)

    @property
    def noise(self) -> Array:
        """Σ, (m, n_d, n_d)."""
        return self.basis @ self.basis.swapaxes(1, 2)

    def signal_shares(self, mean_gram: float) -> Array:
        """ḡ L_jj/(ḡ L_jj + Σ_jj), (m, n_d)."""
        squares = self.basis**2
        signal = mean_gram * (squares * self.ratios[:, None, :]).sum(axis=2)
        return np.asarray(signal / (signal + squares.sum(axis=2)))

    def in_units(self, matrix: Array) -> SignalNoiseDraws:
        """Of outputs Y Dᵀ with an invertible D (n_d, n_d)."""
        return replace(self, basis=matrix @ self.basis)

    def average(self, values: Array) -> Array:
        """Σ_s w_s values_s, values (m, ...)."""
        return np.tensordot(self.weights, values, axes=1)

    def thinned(self, most: int, rng: np.random.Generator) -> SignalNoiseDraws:
        """At most so many draws, resampled in proportion to their weights."""
        if len(self.weights) <= most:
            return self
        bounds = np.cumsum(self.weights) / self.weights.sum()
        index = np.minimum(np.searchsorted(bounds, (np.arange(most) + rng.random()) / most), len(bounds) - 1)
        return SignalNoiseDraws(
            self.basis[index], self.ratios[index], np.full(most, 1 / most), self.groups[index]
        )
