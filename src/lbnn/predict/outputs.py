"""What every part of a predictive has in common: the units of its outputs, and averages over its draws."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Self

import numpy as np

from lbnn._base.arrays import Device
from lbnn._base.blocks import blocks
from lbnn._base.types import AnyArray, Array, IndexArray
from lbnn.predict.tilted import Averages, OfNumber, average_anew, mass_beyond, unresolved_nodes
from lbnn.scale.draws import Line

LOG_TWO_PI = math.log(2 * math.pi)
_PLANE = 1e-6  # relative distance from the plane of dependent outputs that is not held against them
_FLOATS = 1 << 18  # terms of one block of points: 2 MB, of which there are some

#: Log of an integrand given draws: of a part, which points these are (k,), and which draws -> (b, k).
Terms = Callable[[Any, IndexArray, Any], Array]


@dataclass(frozen=True, kw_only=True)
class Outputs(ABC):
    """A posterior at p̂ test points with outputs F Aᵀ + offset + level, and its share of several.

    Attributes
    ----------
    matrix : (q, n_d) or None
        A, of full column rank; the identity by default.
    offset : (q,) or number
    level : float
        Gaussian, shared by all points, of so many times the covariance of the noise.
    noisy : bool
        Whether these are observations.
    share : float
        Probability of this posterior among several.
    """

    matrix: Array | None = None
    offset: Array | float = 0.0
    level: float = 0.0
    noisy: bool = False
    share: float = 1.0

    # ------------------------------------------------------------------ what each part answers

    @property
    @abstractmethod
    def weights(self) -> Array:
        """Of the draws, (m,)."""

    @property
    @abstractmethod
    def size(self) -> tuple[int, int]:
        """p̂ and n_d."""

    @property
    @abstractmethod
    def device(self) -> Device:
        """Library and device of the test points."""

    @property
    @abstractmethod
    def deterministic(self) -> bool:
        """Whether the draws are quadrature nodes, or one."""

    @property
    @abstractmethod
    def groups(self) -> IndexArray | None:
        """Independent replicate of every draw, (m,); None where the draws carry no Monte Carlo error."""

    @abstractmethod
    def weighted(self, weights: Array) -> Self:
        """With other weights of the draws, (m,); outlying points are not integrated anew."""

    def without_groups(self, groups: IndexArray) -> list[Self]:
        """With the draws of all groups but one, for each of them; groups (m,)."""
        kept = [self.weights * (groups != label) for label in np.unique(groups)]
        return [self.weighted(weights / weights.sum()) for weights in kept]

    @property
    def line(self) -> Line | None:
        """The law of one number behind quadrature nodes."""
        return None

    @property
    def work(self) -> float:
        """Operations of a gradient of an integral at one point, where these are bounded."""
        return 0.0

    @property
    @abstractmethod
    def mean(self) -> Array:
        """(p̂, q)."""

    @property
    @abstractmethod
    def mean_error(self) -> Array:
        """Monte Carlo standard error of the mean, (p̂, q)."""

    @property
    @abstractmethod
    def group_weights(self) -> Array:
        """Weight of every independent group of draws, (G,)."""

    @abstractmethod
    def seconds(self, full: bool, grouped: bool = False) -> Array:
        """Σ weight · second moments about the mean, by groups or in one: (G, p̂, q), or (G, p̂, q, q)."""

    @property
    @abstractmethod
    def covariance(self) -> AnyArray:
        """Over points and outputs, where the points are, (p̂, q, p̂, q)."""

    @abstractmethod
    def gaussians(self, full: bool = True) -> tuple[Array, Array]:
        """Means (m, p̂, q), and covariances (m, p̂, q, q) or deviations (m, p̂, q)."""

    @abstractmethod
    def point_terms(self, values: Array, some: Any) -> Array:
        """Log densities of values (p̂, q) at single points given draws, (b, p̂)."""

    @abstractmethod
    def joint_terms(self, values: Array) -> Terms:
        """Log densities of values (p̂, q) at all points together given draws, (b, 1)."""

    @abstractmethod
    def source_terms(self, source: Array, unit: complex) -> Terms:
        """Log E exp(unit tr JᵀF̂) given draws, (b, 1), for J (p̂, q)."""

    @abstractmethod
    def finite(self, source: Array) -> bool:
        """Whether E exp(tr JᵀF̂) is finite, for J (p̂, q)."""

    @abstractmethod
    def evidence_of(self, values: Array) -> float | None:
        """Log density of values (p̂, q) at all points, as a difference of two log evidences, or None."""

    def has_pole(self, values: Array) -> bool:
        """Whether values (p̂, q) have infinite density given all points together."""
        return False

    @abstractmethod
    def sample(self, size: int, rng: np.random.Generator) -> Array:
        """So many draws over points and outputs, (size, p̂, q)."""

    @abstractmethod
    def taken(self, rows: IndexArray) -> Self:
        """At some of the points (k,)."""

    @abstractmethod
    def every(self, points: int) -> Iterator[slice]:
        """All draws, in blocks for so many points."""

    # ------------------------------------------------------------------ units

    @property
    def shape(self) -> tuple[int, int]:
        """(p̂, q)."""
        points, outputs = self.size
        return points, outputs if self.matrix is None else len(self.matrix)

    def affine(self, matrix: Array, offset: Array | float, level: float) -> Self:
        """Outputs F Aᵀ + offset (k,) + level, A (k, q)."""
        own = matrix if self.matrix is None else matrix @ self.matrix
        moved = np.broadcast_to(self.offset, self.shape[1:]) @ matrix.T + offset
        return replace(self, matrix=own, offset=moved, level=self.level + level)

    def observed(self) -> Self:
        """Of observations."""
        return replace(self, noisy=True)

    @property
    def own(self) -> float:
        """Variance at one point besides the function's, in units of the noise."""
        return self.level + float(self.noisy)

    def outward(self, values: Array) -> Array:
        """Values F (..., n_d) as F Aᵀ, (..., q)."""
        return values if self.matrix is None else values @ self.matrix.T

    def inner(self, values: Array) -> Array:
        """Values (p̂, q) less the offset in units of the network, (p̂, n_d)."""
        if self.matrix is None:
            return values - self.offset
        inner = (values - self.offset) @ np.linalg.pinv(self.matrix).T
        outside = np.abs(values - self.offset - inner @ self.matrix.T).max(axis=1)
        allowed = _PLANE * (np.abs(values).max(axis=1) + np.abs(self.matrix).sum(axis=1).max())
        if len(self.matrix) > self.matrix.shape[1] and (outside > allowed).any():
            raise ValueError(
                "outputs that fulfil a linear relation have a density only where it holds, got "
                f"{np.count_nonzero(outside > allowed)} of {len(values)} rows that are off by up to "
                f"{outside.max():.3g}: leave an output out, or correct the rows"
            )
        return inner

    @cached_property
    def log_volume(self) -> float:
        """Log of the volume of A."""
        if self.matrix is None:
            return 0.0
        return float(np.log(np.linalg.svd(self.matrix, compute_uv=False)).sum())

    # ------------------------------------------------------------------ averages of exponentials

    def averages(self, terms: Terms, count: int, *, pointwise: bool) -> Averages:
        """Log E exp(terms) of integrands (count,): one for each point, or of all points together.

        Anew where quadrature nodes miss the mass of an integrand.
        """
        found, line = Averages.unknown(count), self.line
        with np.errstate(divide="ignore"):
            log_weights = np.log(self.weights)[:, None]
        for block in blocks(count, len(log_weights) * (self.size[1] if pointwise else 1), _FLOATS):
            rows = np.arange(count)[block]
            here = self.taken(rows) if pointwise else self
            each = np.concatenate([terms(here, rows, some) for some in here.every(len(rows))]) + log_weights
            found.take(rows, each, self.deterministic)
            if line is None:
                continue
            totals = found.log_value[rows].real
            far = unresolved_nodes(each, totals) | mass_beyond(line, here.along(terms, rows), totals)
            if far.any():
                outside = np.flatnonzero(far)

                found.anew[rows[far]] = True
                found.log_value[rows[far]] = average_anew(
                    line, partial(here._along_some, terms, pointwise, rows, outside), len(outside)
                )
        return found

    def _along_some(
        self, terms: Terms, pointwise: bool, rows: IndexArray, chosen: IndexArray, index: IndexArray
    ) -> OfNumber:
        """`along` of some, index (j,), of the integrands that were chosen, (k,)."""
        part = self.taken(chosen[index]) if pointwise else self
        return part.along(terms, rows[chosen[index]])

    def along(self, terms: Terms, rows: IndexArray) -> Callable[[Array], Array]:
        """Terms (m, k) as a function of x = log λ of the line (m,)."""
        raise NotImplementedError


def group_deviations(sums: Array, weights: Array) -> Array:
    """Sums (G, ...) of weight times value by groups less their share of all: squares add to a variance."""
    count = len(weights)
    if count == 1:
        return np.zeros((0, *sums.shape[1:]))
    apart = sums - weights.reshape(-1, *(1,) * (sums.ndim - 1)) * sums.sum(axis=0)
    return np.asarray(math.sqrt(count / (count - 1)) * apart)
