"""The data as rows y = T z + noise: what proposals for many outputs know of a likelihood.

With L = T Tᵀ in a frame of the outputs, a row of targets divided by √g is y ~ N(0, L + e), e = τ/g: the sum
of T z, z standard normal, and independent noise. Rows of similar noise are put into one group, of which only
the moments matter. This approximates: what is made of it is for proposals, never for a density.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from lbnn._base.types import Array
from lbnn.likelihood.gaussian import GaussianLikelihood, LikelihoodRatio
from lbnn.likelihood.hidden_kernel import HiddenKernelLikelihood
from lbnn.likelihood.rank_deficient import RegularLikelihood


@dataclass(frozen=True)
class Examples:
    """Rows of targets y ~ N(0, L + diag(e)) along the axes of a frame."""

    rows: Array  # y, (rows, n)
    noise: Array  # e, (rows, n)
    count: Array  # how often a row counts in the determinant, (rows, n)

    def grouped(self, reference: float, width: float, most: int) -> Groups:
        """Rows whose e + reference lies within a factor e^width together, in at most so many groups."""
        total = self.noise.mean(axis=1) + reference
        place = np.log(total / total.min())
        bins = min(most, max(1, math.ceil(float(place.max()) / width)))
        labels = np.minimum((place / max(float(place.max()), 1e-12) * bins).astype(int), bins - 1)
        groups = [self._group(labels == label, reference) for label in np.unique(labels)]
        noise, count, moments = (np.stack(each) for each in zip(*groups, strict=True))
        return Groups(noise, count, moments)

    def merged(self, most: int) -> Examples:
        """Rows of about the same noise as one, Σ y² along every axis kept: for one axis at a time."""
        level = np.log(self.noise.mean(axis=1))
        cells = (level - level.min()) / max(float(np.ptp(level)), 1e-12) * most
        order = np.argsort(cells)
        first = np.flatnonzero(np.diff(np.minimum(cells[order].astype(int), most - 1), prepend=-1))

        def sums(each: Array) -> Array:
            return np.add.reduceat(each[order], first, axis=0)

        noise = np.exp(sums(np.log(self.noise)) / sums(np.ones_like(self.noise)))
        return Examples(np.sqrt(sums(self.rows**2)), noise, sums(self.count))

    def _group(self, own: Array, reference: float) -> tuple[Array, Array, Array]:
        """Noise, count and moments of one group; rows are shrunk so that y/(e + reference) stays."""
        inverse = 1 / (self.noise[own] + reference)
        noise = np.maximum(1 / inverse.mean(axis=0) - reference, 0.0)
        rows = self.rows[own] * inverse / inverse.mean(axis=0)
        return noise, self.count[own].sum(axis=0), rows.T @ rows


@dataclass(frozen=True)
class Groups:
    """Groups of rows of the same noise."""

    noise: Array  # e, (groups, n)
    count: Array  # (groups, n)
    moments: Array  # Σ y yᵀ, (groups, n, n)

    def __len__(self) -> int:
        """How many there are."""
        return len(self.noise)

    @property
    def squares(self) -> Array:
        """Σ y_j², (groups, n)."""
        return np.diagonal(self.moments, axis1=1, axis2=2)


def examples_of(likelihood: object, frame: Array) -> Examples | None:
    """The rows behind a likelihood as seen in a frame; None where it is not of this kind."""
    if isinstance(likelihood, GaussianLikelihood):
        return _of_gaussian(likelihood, frame)
    if isinstance(likelihood, LikelihoodRatio) and not likelihood.denominators:
        parts = [_of_gaussian(factor, frame) for factor in likelihood.numerators if not factor.flat]
        return _joined(parts) if parts else None
    if isinstance(likelihood, HiddenKernelLikelihood):
        return _of_hidden_kernel(likelihood.primal, frame)
    if isinstance(likelihood, RegularLikelihood):
        rows = _of_gaussian(likelihood.likelihood, frame)
        free = (np.abs(likelihood.null.T @ frame) > 0.5).any(axis=0)  # axes whose determinant was taken out
        return Examples(rows.rows, rows.noise, np.where(free, 0.0, rows.count))
    return None


def _of_gaussian(factor: GaussianLikelihood, frame: Array) -> Examples:
    """In the units of L; where outputs differ in noise, an axis of the frame has the average along it."""
    units, noise = factor.output_units, (factor.noise / factor.eigenvalues)[:, None]
    rows = factor.targets / units @ frame / np.sqrt(factor.eigenvalues)[:, None]
    noise = np.broadcast_to(noise, rows.shape) if factor.units is None else noise * (units**-2 @ frame**2)
    return Examples(rows, noise, np.full(rows.shape, factor.multiplicity))


def _of_hidden_kernel(primal: GaussianLikelihood, frame: Array) -> Examples:
    """Every output is a row over the examples, with noise τ/g_i; what a frame mixes of it is left out."""
    rows = (primal.targets / np.sqrt(primal.eigenvalues)[:, None]).T @ frame
    noise = (primal.noise / primal.eigenvalues) @ frame**2
    return Examples(rows, np.broadcast_to(noise, rows.shape), np.ones(rows.shape))


def _joined(parts: list[Examples]) -> Examples:
    return Examples(
        *(np.concatenate([getattr(p, name) for p in parts]) for name in ("rows", "noise", "count"))
    )
