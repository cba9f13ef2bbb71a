"""Test points projected on the training inputs.

The training Gram matrix is G_xx = U diag(g) Uᵀ. A test point splits into a part that the training inputs
explain and a rest that they do not:

    G_x̂x̂ = Φ Φᵀ + R,    Φ = G_x̂x U diag(g)^{-1/2}.

Everything a prediction needs of its inputs is Φ and R. Where the inputs themselves are at hand, R is the
Gram of what is left of X̂ after projection, so that it is accurate however small it is: differences of
Gram matrices would lose 1/β below 1e-16. Φ and R stay in the library and on the device of the test points.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from lbnn._base.arrays import device_of, eigh, like, namespace, row_squares, take, to_numpy
from lbnn._base.blocks import blocks
from lbnn._base.types import AnyArray, Array, IndexArray, Mask

#: One cutoff for all ranks: eigenvalues below this multiple of (size · largest) count as zero.
RANK_TOLERANCE = float(np.finfo(np.float64).eps)

_LARGE_REST = 0.05  # unexplained share of a test point from which a difference of squares has its digits


def positive_part(eigenvalues: Array, size: int, scale: float = 0.0) -> Mask:
    """Mask (n,) of the eigenvalues (n,) that count as positive: the one rank decision of the library.

    `scale` is that of the matrix the eigenvalues come from, where it exceeds the largest of them.
    """
    return eigenvalues > RANK_TOLERANCE * size * max(scale, float(eigenvalues.max(initial=0.0)))


@dataclass(frozen=True)
class Directions:
    """Orthonormal directions v_1..v_r in input space, held in whatever form is cheap to apply.

    For p > n0 and for accumulated moments the eigenvectors of XᵀX, as columns (n0, r). For p ≤ n0 v_i =
    Xᵀ u_i/√(n0 g_i), by the inputs X (p, n0) and columns u_i/√(n0 g_i), (p, r): applied as two products with
    r columns, never formed.
    """

    columns: AnyArray
    inputs: AnyArray | None = None

    def coordinates(self, inputs: AnyArray) -> AnyArray:
        """Coordinates (m, r) of inputs (m, n0)."""
        return (inputs if self.inputs is None else inputs @ self.inputs.T) @ self.columns

    def combine(self, coordinates: AnyArray) -> AnyArray:
        """Inputs (m, n0) with coordinates (m, r)."""
        combined = coordinates @ self.columns.T
        return combined if self.inputs is None else combined @ self.inputs

    def example_vectors(self) -> Array | None:
        """U (p, r), as NumPy, where it is held; X V would lose directions of small g to rounding."""
        if self.inputs is None:
            return None
        combination = to_numpy(self.columns)
        return combination / np.linalg.norm(combination, axis=0)


@dataclass(frozen=True)
class Remainder:
    """What directions leave of test inputs (p̂, n0) with coordinates (p̂, r): G_x̂x̂ = scale · X̂ X̂ᵀ."""

    directions: Directions
    inputs: AnyArray
    coordinates: AnyArray
    scale: float  # with 1/n0

    def taken(self, rows: IndexArray) -> Remainder:
        """Of some inputs, rows (k,)."""
        inputs, coordinates = (take(each, rows, axis=0) for each in (self.inputs, self.coordinates))
        return replace(self, inputs=inputs, coordinates=coordinates)

    @property
    def diagonal(self) -> Array:
        """scale (|x̂|² − |coordinates|²), (p̂,), where that keeps its digits; else from what is left of x̂."""
        lengths = row_squares(self.inputs)
        result = lengths - row_squares(self.coordinates)
        small = np.flatnonzero(~(result > _LARGE_REST * lengths))
        if len(small):
            near = self.taken(small)
            result[small] = np.concatenate([row_squares(rest) for rest in near._in_blocks(1024)])
        return self.scale * result

    @property
    def root(self) -> AnyArray:
        """E with E Eᵀ = R, (p̂, n0)."""
        return math.sqrt(self.scale) * namespace(self.inputs).concat(list(self._in_blocks(1024)))

    def _in_blocks(self, size: int) -> Iterator[AnyArray]:
        """Blocks (rows, n0) of what the directions leave of each input, zero where that is rounding.

        Small rests are projected twice, so that the rounding of the directions does not leak into them.
        """
        xp = namespace(self.inputs)
        for rows in blocks(self.inputs.shape[0], 1, size):
            inputs = self.inputs[rows, :]
            rest = inputs - self.directions.combine(self.coordinates[rows, :])
            length = xp.linalg.vector_norm(inputs, axis=1)
            small = xp.linalg.vector_norm(rest, axis=1) < 1e-3 * length
            if xp.any(small):
                again = rest - self.directions.combine(self.directions.coordinates(rest))
                rest = xp.where(small[:, None], again, rest)
            kept = xp.linalg.vector_norm(rest, axis=1) > RANK_TOLERANCE * inputs.shape[1] * length
            yield xp.where(kept[:, None], rest, xp.zeros_like(rest))


@dataclass(frozen=True)
class Projection:
    """Test points: the explained features Φ (p̂, r) and the unexplained Gram R, a sum of what is given of it.

    Attributes
    ----------
    explained : (p̂, r)
        Φ.
    rest : Remainder, optional
        Of inputs.
    gram : (p̂, p̂), optional
        Of kernels.
    hidden : (p̂, any), optional
        Columns E of a part E Eᵀ.
    shared : float
        Variance of one more input that all test points have in common.
    """

    explained: AnyArray
    rest: Remainder | None = None
    gram: AnyArray | None = None
    hidden: AnyArray | None = None
    shared: float = 0.0

    @cached_property
    def unexplained_diagonal(self) -> Array:
        """diag R, (p̂,), in memory linear in p̂, as NumPy."""
        total = np.full(self.explained.shape[0], self.shared)
        if self.rest is not None:
            total += self.rest.diagonal
        if self.gram is not None:
            total += to_numpy(namespace(self.gram).linalg.diagonal(self.gram))
        return total if self.hidden is None else total + row_squares(self.hidden)

    @cached_property
    def unexplained_gram(self) -> AnyArray:
        """R, (p̂, p̂)."""
        points = self.explained.shape[0]
        total = device_of(self.explained).zeros(points, points) if self.gram is None else self.gram
        roots = [None if self.rest is None else self.rest.root, self.hidden]
        for root in roots:
            total = total if root is None else total + root @ root.T
        return total + self.shared

    @cached_property
    def unexplained_root(self) -> AnyArray:
        """E with E Eᵀ = R, (p̂, any)."""
        points, device = self.explained.shape[0], device_of(self.explained)
        parts = [
            device.zeros(points, 0) if self.rest is None else self.rest.root,
            None if self.gram is None else gram_root(self.gram),
            self.hidden,
            device.put(np.full((points, 1), math.sqrt(self.shared))) if self.shared else None,
        ]
        return namespace(self.explained).concat([each for each in parts if each is not None], axis=1)

    def taken(self, rows: IndexArray) -> Projection:
        """Some of the points, rows (k,)."""
        explained, hidden = (
            None if each is None else take(each, rows, axis=0) for each in (self.explained, self.hidden)
        )
        gram = None if self.gram is None else take(take(self.gram, rows, axis=0), rows, axis=1)
        rest = None if self.rest is None else self.rest.taken(rows)
        return Projection(explained, rest, gram, hidden, self.shared)

    def scaled(self, factor: float) -> Projection:
        """Under a Gram matrix that is multiplied by a factor: models that differ in the prior scale alone."""
        root = math.sqrt(factor)
        return Projection(
            root * self.explained,
            None if self.rest is None else replace(self.rest, scale=factor * self.rest.scale),
            None if self.gram is None else factor * self.gram,
            None if self.hidden is None else root * self.hidden,
            factor * self.shared,
        )

    def behind(self, seen: Array, hidden: Array) -> Projection:
        """Where training examples have inputs of their own besides the shared ones: Gram matrix G + ν I.

        Training directions keep their vectors, and g_i becomes g_i + ν. So Φ shrinks by √(g/(g + ν)), and
        what it loses, √(ν/(g + ν)) of it, is unexplained: shares `seen` and `hidden`, (r,), as one less the
        other would lose its digits.
        """
        lost = self.explained * like(np.sqrt(hidden), self.explained)
        if self.hidden is not None:
            lost = namespace(lost).concat([self.hidden, lost], axis=1)
        return replace(self, explained=self.explained * like(np.sqrt(seen), self.explained), hidden=lost)

    def without_data(self) -> Projection:
        """All of the Gram matrix unexplained, and one direction in which no point lies."""
        nothing = device_of(self.explained).zeros(self.explained.shape[0], 1)
        return replace(self.behind(np.zeros(1), np.ones(1)), explained=nothing)

    def shifted(self, shared: float) -> Projection:
        """All points with one more input of that variance in common."""
        return replace(self, shared=self.shared + shared)


def gram_root(gram: AnyArray) -> AnyArray:
    """E (n, k) with E Eᵀ = gram (n, n), k its numerical rank."""
    kept, vectors = positive_eigen(*eigh(gram), gram.shape[0])
    return vectors * like(np.sqrt(kept), vectors)


def positive_eigen(values: Array, vectors: AnyArray, size: int, scale: float = 0.0) -> tuple[Array, AnyArray]:
    """The eigenvalues, ascending, that count as positive (r,), and their eigenvectors (n, r)."""
    first = len(values) - int(positive_part(values, size, scale).sum())
    return values[first:], vectors[:, first:]
