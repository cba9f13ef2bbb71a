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
from typing import ClassVar, Protocol

import numpy as np

from lbnn._base.arrays import (
    add_to_diagonal,
    device_of,
    eigh,
    like,
    namespace,
    row_squares,
    take,
    to_numpy,
)
from lbnn._base.blocks import blocks
from lbnn._base.types import AnyArray, Array, Mask

#: One cutoff for all ranks: eigenvalues below this multiple of (size · largest) count as zero.
RANK_TOLERANCE = float(np.finfo(np.float64).eps)

_LARGE_REST = 0.05  # unexplained share of a test point from which a difference of squares has its digits


def positive_part(eigenvalues: Array, size: int, scale: float = 0.0) -> Mask:
    """Mask (n,) of the eigenvalues (n,) that count as positive: the one rank decision of the library.

    `scale` is that of the matrix the eigenvalues come from, where it exceeds the largest of them.
    """
    return eigenvalues > RANK_TOLERANCE * size * max(scale, float(eigenvalues.max(initial=0.0)))


class Projection(Protocol):
    """Test points: the explained features Φ (p̂, r) and the unexplained Gram R, in whatever form is cheap."""

    @property
    def explained(self) -> AnyArray:
        """Φ, shape (p̂, r)."""
        ...

    @property
    def unexplained_diagonal(self) -> Array:
        """diag R, shape (p̂,), in memory linear in p̂, as NumPy."""
        ...

    @property
    def unexplained_gram(self) -> AnyArray:
        """R, shape (p̂, p̂)."""
        ...

    @property
    def unexplained_root(self) -> AnyArray:
        """A matrix E with E Eᵀ = R, shape (p̂, any)."""
        ...

    def observed(self, own: float) -> Projection:
        """Every point with one more input of its own, of that variance, which no other has."""
        ...

    def shifted(self, shared: float) -> Projection:
        """All points with one more input of that variance in common."""
        ...


class Directions(Protocol):
    """Orthonormal directions v_1..v_r in input space, held in whatever form is cheap to apply."""

    holds_example_vectors: ClassVar[bool]

    @property
    def example(self) -> AnyArray:
        """An array of any shape, of the library and device in which they are held."""
        ...

    def coordinates(self, inputs: AnyArray) -> AnyArray:
        """Inputs (p̂, n0) to coordinates (p̂, r)."""
        ...

    def combine(self, coordinates: AnyArray) -> AnyArray:
        """Coordinates (p̂, r) back to inputs (p̂, n0)."""
        ...

    @property
    def columns(self) -> AnyArray:
        """What is held of each direction, (any, r)."""
        ...

    def with_columns(self, columns: AnyArray) -> Directions:
        """Those with other columns (any, k)."""
        ...

    def example_vectors(self) -> Array | None:
        """U (p, r), if `holds_example_vectors`, as NumPy; else None."""
        ...

    def packed(self, training_inputs: AnyArray | None) -> tuple[str, dict[str, Array]]:
        """Their kind and their arrays, for a file that holds the training inputs (p, n0) if there are any."""
        ...


@dataclass(frozen=True)
class InputDirections:
    """v_i = Xᵀ u_i / √(n0 g_i), for p ≤ n0: applied as two products with r columns, never formed."""

    inputs: AnyArray  # X, (p, n0)
    combination: AnyArray  # u_i / √(n0 g_i), (p, r)
    holds_example_vectors: ClassVar[bool] = True

    @property
    def example(self) -> AnyArray:
        """The inputs (p, n0)."""
        return self.inputs

    def coordinates(self, inputs: AnyArray) -> AnyArray:
        """Coordinates (m, r) of inputs (m, n0)."""
        return (inputs @ self.inputs.T) @ self.combination

    def combine(self, coordinates: AnyArray) -> AnyArray:
        """Inputs (m, n0) with coordinates (m, r)."""
        return (coordinates @ self.combination.T) @ self.inputs

    @property
    def columns(self) -> AnyArray:
        """u_i / √(n0 g_i), (p, r)."""
        return self.combination

    def with_columns(self, columns: AnyArray) -> InputDirections:
        """The same inputs with other combinations (p, k)."""
        return InputDirections(self.inputs, columns)

    def example_vectors(self) -> Array:
        """U (p, r); X V would lose directions of small g to rounding."""
        combination = to_numpy(self.combination)
        return combination / np.linalg.norm(combination, axis=0)

    def packed(self, training_inputs: AnyArray | None) -> tuple[str, dict[str, Array]]:
        """Their kind and their arrays, for a file that holds the inputs (p, n0), too."""
        if training_inputs is not self.inputs:
            raise ValueError("directions that combine the training inputs are stored with them, got others")
        return "inputs", {"basis.combination": to_numpy(self.combination)}


@dataclass(frozen=True)
class FeatureDirections:
    """The eigenvectors of XᵀX as columns (n0, r), for p > n0 and for accumulated moments."""

    vectors: AnyArray
    holds_example_vectors: ClassVar[bool] = False

    @property
    def example(self) -> AnyArray:
        """The directions (n0, r)."""
        return self.vectors

    def coordinates(self, inputs: AnyArray) -> AnyArray:
        """Coordinates (m, r) of inputs (m, n0)."""
        return inputs @ self.vectors

    def combine(self, coordinates: AnyArray) -> AnyArray:
        """Inputs (m, n0) with coordinates (m, r)."""
        return coordinates @ self.vectors.T

    @property
    def columns(self) -> AnyArray:
        """The directions (n0, r)."""
        return self.vectors

    def with_columns(self, columns: AnyArray) -> FeatureDirections:
        """Other directions (n0, k)."""
        return FeatureDirections(columns)

    def example_vectors(self) -> None:
        """None: U = XV/√(n0 g), of shape (p, r), is not kept."""

    def packed(self, training_inputs: AnyArray | None) -> tuple[str, dict[str, Array]]:
        """Their kind and their arrays, for a file; they do not need the training inputs (p, n0)."""
        return "features", {"basis.vectors": to_numpy(self.vectors)}


class SharedInputs:
    """Test points without inputs of their own; they can be given some."""

    def observed(self: Projection, own: float) -> Projection:
        return PrivateProjection(self, *_all_seen(self), own=own) if own else self

    def shifted(self: Projection, shared: float) -> Projection:
        return PrivateProjection(self, *_all_seen(self), shared=shared) if shared else self


@dataclass(frozen=True)
class InputProjection(SharedInputs):
    """Test inputs themselves: G_x̂x̂ = scale · X̂ X̂ᵀ, where scale carries 1/n0."""

    directions: Directions
    inputs: AnyArray
    scale: float

    @cached_property
    def explained(self) -> AnyArray:
        """Φ, (p̂, r)."""
        return math.sqrt(self.scale) * self.directions.coordinates(self.inputs)

    @cached_property
    def unexplained_diagonal(self) -> Array:
        """|x̂|² − |Φ|², (p̂,), where that keeps its digits; else from what is left of the inputs."""
        lengths = self.scale * row_squares(self.inputs)
        result = lengths - row_squares(self.explained)
        small = np.flatnonzero(~(result > _LARGE_REST * lengths))
        if len(small):
            near = InputProjection(self.directions, take(self.inputs, small, axis=0), self.scale)
            result[small] = self.scale * np.concatenate([row_squares(x) for x in near._rest_in_blocks(1024)])
        return result

    @cached_property
    def unexplained_root(self) -> AnyArray:
        """E with E Eᵀ = R, (p̂, n0)."""
        return math.sqrt(self.scale) * namespace(self.inputs).concat(list(self._rest_in_blocks(1024)))

    @cached_property
    def unexplained_gram(self) -> AnyArray:
        """R, (p̂, p̂)."""
        return self.unexplained_root @ self.unexplained_root.T

    def _rest_in_blocks(self, size: int) -> Iterator[AnyArray]:
        """Blocks (rows, n0) of what the directions leave of each input, zero where that is rounding.

        Small rests are projected twice, so that the rounding of the directions does not leak into them.
        """
        xp = namespace(self.inputs)
        for rows in blocks(self.inputs.shape[0], 1, size):
            inputs = self.inputs[rows, :]
            seen = self.explained[rows, :] / math.sqrt(self.scale)
            rest = inputs - self.directions.combine(seen)
            length = xp.linalg.vector_norm(inputs, axis=1)
            small = xp.linalg.vector_norm(rest, axis=1) < 1e-3 * length
            if xp.any(small):
                again = rest - self.directions.combine(self.directions.coordinates(rest))
                rest = xp.where(small[:, None], again, rest)
            kept = xp.linalg.vector_norm(rest, axis=1) > RANK_TOLERANCE * inputs.shape[1] * length
            yield xp.where(kept[:, None], rest, xp.zeros_like(rest))


@dataclass(frozen=True)
class GramProjection(SharedInputs):
    """Test points of a kernel: R is known as a matrix."""

    explained: AnyArray
    unexplained_gram: AnyArray

    @property
    def unexplained_diagonal(self) -> Array:
        """Diagonal of R, (p̂,)."""
        return to_numpy(namespace(self.unexplained_gram).linalg.diagonal(self.unexplained_gram))

    @cached_property
    def unexplained_root(self) -> AnyArray:
        """E with E Eᵀ = R, (p̂, rank)."""
        return gram_root(self.unexplained_gram)


@dataclass(frozen=True)
class TrainingProjection(SharedInputs):
    """The training points: explained entirely, R = 0."""

    explained: AnyArray

    @property
    def unexplained_diagonal(self) -> Array:
        """Zeros (p,)."""
        return np.zeros(self.explained.shape[0])

    @property
    def unexplained_gram(self) -> AnyArray:
        """Zeros (p, p)."""
        points = self.explained.shape[0]
        return device_of(self.explained).zeros(points, points)

    @property
    def unexplained_root(self) -> AnyArray:
        """No columns, (p, 0)."""
        return device_of(self.explained).zeros(self.explained.shape[0], 0)


@dataclass(frozen=True)
class ScaledProjection(SharedInputs):
    """Test points of a Gram matrix that is multiplied by a factor: √factor Φ and factor R.

    Models that differ in the prior scale alone share the projection of their test points.
    """

    inner: Projection
    factor: float

    @cached_property
    def explained(self) -> AnyArray:
        """√factor Φ, (p̂, r)."""
        return math.sqrt(self.factor) * self.inner.explained

    @property
    def unexplained_diagonal(self) -> Array:
        """Diagonal of factor · R, (p̂,)."""
        return self.factor * self.inner.unexplained_diagonal

    @property
    def unexplained_gram(self) -> AnyArray:
        """Factor · R, (p̂, p̂)."""
        return self.factor * self.inner.unexplained_gram

    @property
    def unexplained_root(self) -> AnyArray:
        """√factor E, (p̂, columns)."""
        return math.sqrt(self.factor) * self.inner.unexplained_root


@dataclass(frozen=True)
class PrivateProjection:
    """Test points where every example has an input of its own besides the shared ones: Gram matrix G + ν I.

    Training directions keep their vectors, and g_i becomes g_i + ν. So Φ shrinks by √(g/(g + ν)), and what it
    loses, √(ν/(g + ν)) of it, is unexplained. `own` is the variance of new private inputs (ν for
    observations, 0 for the function) and `shared` that of one more input that all test points have in common
    (the level).
    """

    inner: Projection
    seen: Array  # g/(g + ν), (r,)
    hidden: Array  # ν/(g + ν), (r,): one less `seen` would lose its digits
    own: float = 0.0
    shared: float = 0.0

    @cached_property
    def explained(self) -> AnyArray:
        """Φ diag(√seen), (p̂, r)."""
        return self.inner.explained * like(np.sqrt(self.seen), self.inner.explained)

    def observed(self, own: float) -> PrivateProjection:
        return replace(self, own=own)

    def shifted(self, shared: float) -> PrivateProjection:
        return replace(self, shared=shared)

    @cached_property
    def _lost(self) -> AnyArray:
        """Φ diag(√hidden), (p̂, r): what the private inputs hide of it."""
        return self.inner.explained * like(np.sqrt(self.hidden), self.inner.explained)

    @cached_property
    def unexplained_diagonal(self) -> Array:
        """Diagonal of R with the private and shared inputs, (p̂,)."""
        lost = to_numpy(namespace(self._lost).sum(self._lost**2, axis=1))
        return self.inner.unexplained_diagonal + lost + (self.own + self.shared)

    @cached_property
    def unexplained_gram(self) -> AnyArray:
        """R with the private and shared inputs, (p̂, p̂)."""
        gram = self.inner.unexplained_gram + self._lost @ self._lost.T + self.shared
        return add_to_diagonal(gram, self.own)

    @cached_property
    def unexplained_root(self) -> AnyArray:
        """E with E Eᵀ = R, (p̂, columns)."""
        points = self._lost.shape[0]
        own, shared = math.sqrt(self.own) * np.eye(points), np.full((points, 1), math.sqrt(self.shared))
        parts = [self.inner.unexplained_root, self._lost, like(own, self._lost), like(shared, self._lost)]
        return namespace(self._lost).concat(parts, axis=1)


def _all_seen(projection: Projection) -> tuple[Array, Array]:
    """Shares seen and hidden, (r,) each, where training examples have no inputs of their own."""
    return np.ones(projection.explained.shape[1]), np.zeros(projection.explained.shape[1])


def gram_root(gram: AnyArray) -> AnyArray:
    """E (n, k) with E Eᵀ = gram (n, n), k its numerical rank."""
    kept, vectors = positive_eigen(*eigh(gram), gram.shape[0])
    return vectors * like(np.sqrt(kept), vectors)


def positive_eigen(values: Array, vectors: AnyArray, size: int, scale: float = 0.0) -> tuple[Array, AnyArray]:
    """The eigenvalues, ascending, that count as positive (r,), and their eigenvectors (n, r)."""
    first = len(values) - int(positive_part(values, size, scale).sum())
    return values[first:], vectors[:, first:]
