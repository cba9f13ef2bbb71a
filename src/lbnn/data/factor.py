"""Tall data through a triangular factor X = QR, which keeps the digits that XᵀX loses.

Singular values of R are known to rounding of the largest one, so that directions count down to a condition
of 1e15; eigenvalues of XᵀX are their squares, and those below the square root of that drown. `Moments`,
`Refined` and `Triangle` summarise blocks of rows and can be merged, so that data may come in any number of
parts:

    Moments   XᵀX, XᵀY, YᵀY about the means, by Chan's update: one pass
    Refined   Q₁ = X R₁⁻¹ with R₁ from the moments; Q₁ᵀQ₁ = R₂ᵀR₂, R = R₂R₁ (CholeskyQR2): a second pass
    Triangle  R of [X Y] by Householder reflections, stacked and reduced (TSQR), at any condition

In all of them the targets split into QᵀY and a rest whose moments are accumulated as they are, not as a
difference of large numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg

from lbnn._base.types import Array
from lbnn.data.decomposition import rest_of_targets, singular_vectors
from lbnn.data.projection import RANK_TOLERANCE

#: Condition of XᵀX, columns scaled to one, up to which R₁ leaves Q₁ close to orthonormal.
LARGEST_CONDITION = 1e12

_DIGEST_ENTRIES = 1 << 14  # at a time: they stay in the cache


@dataclass(frozen=True)
class Factor:
    """X = QR: R (k, n0), the targets QᵀY (k, n_d), and rows with the moments of Y − QQᵀY."""

    root: Array
    targets: Array
    outside: Array

    def decomposed(self, examples: int) -> tuple[Array, Array, Array, Array]:
        """Eigenvalues of XᵀX/n0 (r,), ascending, their vectors (n0, r), ỹ (r, n_d), and rows of the rest.

        From the singular values of R; targets along those that count as zero belong to the rest.
        """
        dimension = self.root.shape[1]
        values, left, right = singular_vectors(self.root, max(dimension, examples))
        rest = np.vstack([self.outside, rest_of_targets(self.targets, left)])
        return values**2 / dimension, right, left.T @ self.targets, rest


@dataclass(frozen=True)
class RowSet:
    """Which rows of [X Y] a pass has read, whatever their order and the blocks they came in."""

    count: int
    digest: int  # sum over rows of a hash of their bits, modulo 2⁶⁴
    largest_input: float
    largest_target: float

    @classmethod
    def of(cls, block: Array, inputs: int) -> RowSet:
        """Of one block [X Y] (rows, n0 + n_d), whose first columns are inputs."""
        sizes = np.abs(block).max(axis=0)
        return cls(len(block), _digest(block), float(sizes[:inputs].max()), float(sizes[inputs:].max()))

    def merge(self, other: RowSet) -> RowSet:
        """Of both."""
        return RowSet(
            self.count + other.count,
            (self.digest + other.digest) % 2**64,
            max(self.largest_input, other.largest_input),
            max(self.largest_target, other.largest_target),
        )

    def require_same(self, again: RowSet) -> None:
        """Raise unless a second pass has read the same rows."""
        if self != again:
            found = (
                f"{self.count} rows and then {again.count}"
                if self.count != again.count
                else f"{self.count} rows twice, but other numbers the second time"
            )
            raise ValueError(
                f"data that are read twice must have the same rows both times, to the last bit, got {found}: "
                "store them, or pass a function that makes them anew from a fixed seed"
            )


def _digest(block: Array) -> int:
    """Sum of the rows' hashes of (rows, columns): entries mixed with a constant of their column."""
    columns = block.shape[1]
    draws = np.random.default_rng(0).integers(2**63, size=columns, dtype=np.uint64)
    constants = np.asarray(2 * draws + 1, np.uint64)
    total, half, step = 0, np.uint64(32), max(1, _DIGEST_ENTRIES // columns)
    for start in range(0, len(block), step):
        bits = np.ascontiguousarray(block[start : start + step]).view(np.uint64)
        bits = (bits ^ (bits >> half)) * constants
        hashes = (bits ^ (bits >> half)).sum(axis=1)
        hashes = (hashes ^ (hashes >> half)) * constants[0]
        total += int((hashes ^ (hashes >> half)).sum())
    return total % 2**64


@dataclass(frozen=True)
class Moments:
    """Means of the columns of [X Y], their moments about the means, and which rows they are of."""

    rows: RowSet
    means: Array  # (n0 + n_d,)
    centred: Array  # (n0 + n_d, n0 + n_d)

    @classmethod
    def of(cls, X: Array, Y: Array) -> Moments:
        """Of one block X (rows, n0), Y (rows, n_d)."""
        block = np.hstack([X, Y])
        rows, means = RowSet.of(block, X.shape[1]), block.mean(axis=0)
        block -= means
        return cls(rows, means, block.T @ block)

    @property
    def count(self) -> int:
        """Number of rows."""
        return self.rows.count

    def merge(self, other: Moments) -> Moments:
        """Chan, Golub and LeVeque's update."""
        rows = self.rows.merge(other.rows)
        shift = other.means - self.means
        cross = (self.count * other.count / rows.count) * np.outer(shift, shift)
        means = self.means + (other.count / rows.count) * shift
        return Moments(rows, means, self.centred + other.centred + cross)

    def about(self, centre: bool) -> Array:
        """Moments of [X Y] about the means, or about zero, (n0 + n_d, n0 + n_d)."""
        return self.centred if centre else self.centred + self.count * np.outer(self.means, self.means)


@dataclass(frozen=True)
class Frame:
    """What a second pass needs of the first: means, a first factor, first coefficients."""

    means: Array  # subtracted from [X Y]
    root: Array | None  # R₁ (n0, n0), upper; None where XᵀX is too close to singular
    targets: Array  # R₁⁻ᵀ XᵀY, (n0, n_d)

    @classmethod
    def of(cls, moments: Moments, inputs: int, centre: bool) -> Frame:
        """From the first pass."""
        means = moments.means if centre else np.zeros_like(moments.means)
        total = moments.about(centre)
        units = np.sqrt(np.diagonal(total)[:inputs])
        if not (units > 0).all():
            return cls(means, None, np.zeros((inputs, 0)))
        scaled = total[:inputs, :inputs] / np.outer(units, units)
        values = np.linalg.eigvalsh(scaled)
        if values[0] * LARGEST_CONDITION < values[-1]:
            return cls(means, None, np.zeros((inputs, 0)))
        root = np.linalg.cholesky(scaled).T * units
        return cls(means, root, linalg.solve_triangular(root, total[:inputs, inputs:], trans="T"))

    def centred(self, X: Array, Y: Array) -> tuple[Array, Array]:
        """A block X (rows, n0), Y (rows, n_d) less the means."""
        inputs = X.shape[1]
        return X - self.means[:inputs], Y - self.means[inputs:]


@dataclass(frozen=True)
class Refined:
    """Q₁ᵀQ₁, Q₁ᵀE and EᵀE with Q₁ = X R₁⁻¹ and E = Y − Q₁ Z₁, for the frame's R₁ and Z₁."""

    gram: Array
    cross: Array
    rest: Array

    @classmethod
    def of(cls, X: Array, Y: Array, frame: Frame) -> Refined:
        """Of one block X (rows, n0), Y (rows, n_d)."""
        inputs, targets = frame.centred(X, Y)
        assert frame.root is not None
        thin = linalg.solve_triangular(frame.root, inputs.T, trans="T", overwrite_b=True, check_finite=False)
        rest = targets - thin.T @ frame.targets
        return cls(thin @ thin.T, thin @ rest, rest.T @ rest)

    def merge(self, other: Refined) -> Refined:
        """Sums."""
        return Refined(self.gram + other.gram, self.cross + other.cross, self.rest + other.rest)

    def factor(self, frame: Frame) -> Factor:
        """R = R₂R₁, QᵀY = R₂Z₁ + R₂⁻ᵀQ₁ᵀE; the rest loses what R₂ finds in it."""
        assert frame.root is not None
        second = np.linalg.cholesky(self.gram).T
        found = linalg.solve_triangular(second, self.cross, trans="T")
        return Factor(
            second @ frame.root, second @ frame.targets + found, moment_rows(self.rest - found.T @ found)
        )


@dataclass(frozen=True)
class Triangle:
    """R of [X Y]: its first columns are R of X, the others QᵀY and, below, rows of the rest's moments."""

    root: Array  # (k, n0 + n_d), k ≤ n0 + n_d
    inputs: int

    @classmethod
    def of(cls, X: Array, Y: Array) -> Triangle:
        """Of one block X (rows, n0), Y (rows, n_d)."""
        return cls(_triangular(np.hstack([X, Y])), X.shape[1])

    def merge(self, other: Triangle) -> Triangle:
        """R of the two stacked."""
        return Triangle(_triangular(np.vstack([self.root, other.root])), self.inputs)

    def factor(self) -> Factor:
        """Cut at the last input."""
        top, below = self.root[: self.inputs], self.root[self.inputs :]
        return Factor(top[:, : self.inputs], top[:, self.inputs :], below[:, self.inputs :])


def _triangular(rows: Array) -> Array:
    """R of the QR decomposition of rows (m, n), (min(m, n), n)."""
    return np.asarray(np.linalg.qr(rows, mode="r"), float)


def moment_rows(moment: Array) -> Array:
    """Rows A with AᵀA = moment, (n_d, n_d); eigenvalues below zero are rounding."""
    values, vectors = np.linalg.eigh(moment)
    return np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T


def moment_rounding(values: Array, targets: Array, residual: float, directions: int) -> float:
    """Bound of the error in ½(‖Y‖² − ‖ỹ‖²) from moments: g (r,) and ỹ (r, n_d) known to ε of the largest.

    Directions that count as zero although `directions` could be there may be lost altogether, and with them
    all of the residual.
    """
    total = float((targets**2).sum()) + residual
    lost = residual / RANK_TOLERANCE if len(values) < directions else 0.0
    if not len(values):
        return 0.5 * RANK_TOLERANCE * lost
    condition = np.sqrt(values[-1] / values)[:, None]
    terms = 2 * np.abs(targets) * np.sqrt(total) * condition + (targets * condition) ** 2
    return 0.5 * RANK_TOLERANCE * (total + float(terms.sum()) + lost)
