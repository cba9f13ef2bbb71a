"""The posterior of the total factor T, in any frame of the outputs: what mixtures are made for.

A frame is a rotation O of the outputs: L = O T Tᵀ Oᵀ. The prior is the same in every frame, and in the frame
of a mode T is diagonal there. Densities are compared between frames with respect to the measure of any root A
of L = A Aᵀ, which does not depend on frames (`TotalFactorLaw.log_volume`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lbnn._base.blocks import blocks
from lbnn._base.small_matrices import lower_factor, one_sign
from lbnn._base.types import Array, IndexArray
from lbnn.engines.target import Target
from lbnn.scale.bartlett import product
from lbnn.scale.total_factor import TotalFactorLaw, rotate_factors

_HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)
_COPIES = 4  # draws of the inner factors for each T; 1 lost a fifth of the effective draws at depth three
_LARGEST_LOG = 300.0  # of a diagonal entry of T: beyond, its square leaves double precision


class FactorSpace:
    """All factors by their coordinates u, in which the prior is normal: one frame, nothing integrated."""

    name = "mixture fitted to all factors"

    def __init__(self, target: Target) -> None:
        self.target = target

    @property
    def dimension(self) -> int:
        """Number of coordinates u."""
        return self.target.dimension

    @property
    def axes(self) -> Array:
        """The frame of the data, (n, n)."""
        return self.target.rotation

    def diagonalising_frame(self, root: Array) -> Array:
        """The one frame, (n, n)."""
        return self.axes

    def evaluate(self, theta: Array, frame: Array, rng: np.random.Generator) -> Evaluated:
        """Log posterior at u (m, k)."""
        return Evaluated(self.target.log_density(theta) - theta.shape[1] * _HALF_LOG_TWO_PI, theta)

    def roots(self, theta: Array, frame: Array) -> Array:
        """The coordinates themselves, (m, k)."""
        return theta

    def to_coordinates(self, roots: Array, frame: Array) -> Array:
        """The coordinates themselves, (m, k)."""
        return roots

    def log_volume(self, theta: Array) -> Array:
        """Zeros (m,)."""
        return np.zeros(len(theta))

    def log_diagonal(self, roots: Array) -> Array:
        """Logs of the diagonal of L along the axes of the data, (m, n)."""
        total = product(self.target.coordinates.factors(roots))  # in these axes
        assert total is not None
        with np.errstate(divide="ignore"):
            return np.log((total**2).sum(axis=2))


@dataclass(frozen=True)
class Evaluated:
    """The log posterior at some points (in the frameless measure), and u of all factors there."""

    log_posterior: Array  # (m,)
    points: Array  # u, (m, D)


class TotalTarget:
    """Prior of T times likelihood, in coordinates θ of `TotalFactorLaw` and any frame."""

    name = "mixture over phases of the product"

    def __init__(self, target: Target) -> None:
        self.target = target

    @cached_property
    def law(self) -> TotalFactorLaw:
        """Prior law of T."""
        return TotalFactorLaw(self.target.coordinates.shapes)

    def typical(self, theta: Array, frame: Array) -> tuple[Array, Array]:
        """Log posterior of θ with inner factors at typical values, (m,), and its gradient.

        One frame for all, or one for each, (m, n, n).
        """
        value, gradient = np.full(len(theta), -np.inf), np.zeros_like(theta)
        fine = np.flatnonzero((np.abs(theta[:, : self.law.columns]) < _LARGEST_LOG).all(axis=1))
        if not len(fine):
            return value, gradient
        total = self.law.matrices(theta[fine])
        log_prior, prior_slope = self.law.log_typical(theta[fine])
        frames = frame if frame.ndim == 2 else frame[fine]
        log_likelihood, slope = self.target.likelihood_gradient(total, frames)
        value[fine] = log_prior + log_likelihood
        gradient[fine] = prior_slope + self.law.pull_back(total, slope)
        return value, gradient

    def typical_value(self, theta: Array, frame: Array) -> Array:
        """The value of `typical` alone, (m,)."""
        value = np.full(len(theta), -np.inf)
        fine = np.flatnonzero((np.abs(theta[:, : self.law.columns]) < _LARGEST_LOG).all(axis=1))
        if len(fine):
            frames = frame if frame.ndim == 2 else frame[fine]
            log_likelihood = self.target.log_likelihood(self.law.matrices(theta[fine]), frames)
            value[fine] = self.law.log_typical(theta[fine])[0] + log_likelihood
        return value

    def evaluate(self, theta: Array, frame: Array, rng: np.random.Generator) -> Evaluated:
        """Log posterior at θ (m, k) in a frame (n, n) with inner factors integrated, and one draw of them."""
        log_posterior = np.full(len(theta), -np.inf)
        points = np.zeros((len(theta), self.target.coordinates.dimension))
        fine = np.flatnonzero((np.abs(theta[:, : self.law.columns]) < _LARGEST_LOG).all(axis=1))
        each = 8 * _COPIES * len(self.law.shapes) * self.law.rows**2
        for block in blocks(len(fine), each, 1 << 22):
            with np.errstate(over="ignore", divide="ignore", invalid="ignore"):  # draws beyond all plausible
                self._evaluate(theta, frame, rng, fine[block], log_posterior, points)
        return Evaluated(log_posterior, points)

    def _evaluate(
        self,
        theta: Array,
        frame: Array,
        rng: np.random.Generator,
        here: IndexArray,
        log_posterior: Array,
        points: Array,
    ) -> None:
        """Fill in log posterior (m,) and u of the θ `here` (j,); −inf and zeros beyond double precision."""
        inner = self.law.integrate(theta[here], _COPIES, rng)
        log_likelihood = self.target.log_likelihood(self.law.matrices(theta[here]), frame)
        value = inner.log_density + log_likelihood - self.law.log_volume(theta[here])
        located = self.target.coordinates.locate(
            rotate_factors(inner.factors, self.target.rotation.T @ frame)
        )
        fine = ~np.isnan(value) & np.isfinite(located).all(axis=1)
        log_posterior[here] = np.where(fine, value, -np.inf)
        points[here] = np.where(fine[:, None], located, 0.0)

    @property
    def dimension(self) -> int:
        """Number of coordinates θ."""
        return self.law.dimension

    @property
    def axes(self) -> Array:
        """The frame of the data, (n, n)."""
        return self.target.rotation

    def diagonalising_frame(self, root: Array) -> Array:
        """The frame (n, n) in which one scale, given by its root, is diagonal, largest first."""
        if not self.target.any_frame:
            return self.axes
        return one_sign(np.linalg.svd(root, full_matrices=True).U)

    def log_volume(self, theta: Array) -> Array:
        """Log of the frameless measure over dθ, (m,)."""
        return self.law.log_volume(theta)

    def log_diagonal(self, roots: Array) -> Array:
        """Logs of the diagonal of L along the axes of the data, (m, n)."""
        with np.errstate(divide="ignore"):
            return np.log(((self.axes.T @ roots) ** 2).sum(axis=2))

    def roots_of(self, points: Array) -> Array:
        """O T at given u, (m, n, r)."""
        total = product(self.target.coordinates.factors(points))
        assert total is not None
        return self.axes @ total

    def roots(self, theta: Array, frame: Array) -> Array:
        """O T, (m, n, r)."""
        return frame @ self.law.matrices(theta)

    def to_coordinates(self, roots: Array, frame: Array) -> Array:
        """θ of the same scales in a frame, (m, dimension); logs of zeros are −inf."""
        with np.errstate(divide="ignore"):
            return self.law.coordinates(lower_factor(frame.T @ roots))


#: Coordinates θ of the scale in which mixtures are fitted; a frame may turn them.
Space = TotalTarget | FactorSpace
