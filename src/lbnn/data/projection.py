"""Test points as the training inputs see them.

The training Gram matrix is G_xx = U diag(g) Uᵀ. A test point splits into a part that the training inputs
explain and a rest that they do not:

    G_x̂x̂ = Φ Φᵀ + R,    Φ = G_x̂x U diag(g)^{-1/2}.

Everything a prediction needs of its inputs is Φ and R. Where the inputs themselves are at hand, R is the
Gram of what is left of X̂ after projection, so that it is accurate however small it is: differences of
Gram matrices would lose 1/β below 1e-16.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np

from lbnn._base.types import Array, Mask

#: One cutoff for all ranks: eigenvalues below this multiple of (size · largest) count as zero.
RANK_TOLERANCE = float(np.finfo(np.float64).eps)

_LARGE_REST = 0.05  # unexplained share of a test point from which a difference of squares has its digits


def positive_part(eigenvalues: Array, size: int, scale: float = 0.0) -> Mask:
    """Mask of the eigenvalues that count as positive: the one rank decision of the library.

    `scale` is that of the matrix the eigenvalues come from, where it exceeds the largest of them.
    """
    return eigenvalues > RANK_TOLERANCE * size * max(scale, float(eigenvalues.max(initial=0.0)))


class Projection(Protocol):
    """Test points: the explained features Φ (p̂, r) and the unexplained Gram R, in whatever form is cheap."""

    @property
    def explained(self) -> Array:
        """Φ, shape (p̂, r)."""
        ...

    @property
    def unexplained_diagonal(self) -> Array:
        """diag R, shape (p̂,), in memory linear in p̂."""
        ...

    @property
    def unexplained_gram(self) -> Array:
        """R, shape (p̂, p̂)."""
        ...

    @property
    def unexplained_root(self) -> Array:
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

    def coordinates(self, inputs: Array) -> Array:
        """Inputs (p̂, n0) to coordinates (p̂, r)."""
        ...

    def combine(self, coordinates: Array) -> Array:
        """Coordinates (p̂, r) back to inputs (p̂, n0)."""
        ...


@dataclass(frozen=True)
class InputDirections:
    """v_i = Xᵀ u_i / √(n0 g_i), for p ≤ n0: applied as two thin products, never formed."""

    inputs: Array  # X, (p, n0)
    combination: Array  # u_i / √(n0 g_i), (p, r)

    def coordinates(self, inputs: Array) -> Array:
        return (inputs @ self.inputs.T) @ self.combination

    def combine(self, coordinates: Array) -> Array:
        return (coordinates @ self.combination.T) @ self.inputs


@dataclass(frozen=True)
class FeatureDirections:
    """The eigenvectors of XᵀX as columns (n0, r), for p > n0 and for accumulated moments."""

    vectors: Array

    def coordinates(self, inputs: Array) -> Array:
        return inputs @ self.vectors

    def combine(self, coordinates: Array) -> Array:
        return coordinates @ self.vectors.T


class SharedInputs:
    """Test points without inputs of their own; they can be given some."""

    def observed(self: Projection, own: float) -> Projection:
        return PrivateProjection(self, np.ones(self.explained.shape[1]), own=own) if own else self

    def shifted(self: Projection, shared: float) -> Projection:
        return PrivateProjection(self, np.ones(self.explained.shape[1]), shared=shared) if shared else self


@dataclass(frozen=True)
class InputProjection(SharedInputs):
    """Test inputs themselves: G_x̂x̂ = scale · X̂ X̂ᵀ, where scale carries 1/n0."""

    directions: Directions
    inputs: Array
    scale: float

    @cached_property
    def explained(self) -> Array:
        return np.sqrt(self.scale) * self.directions.coordinates(self.inputs)

    @cached_property
    def unexplained_diagonal(self) -> Array:
        """|x̂|² − |Φ|² where that keeps its digits; else from what is left of the inputs themselves."""
        lengths = self.scale * np.einsum("ij,ij->i", self.inputs, self.inputs)
        result = lengths - np.einsum("ij,ij->i", self.explained, self.explained)
        small = np.flatnonzero(~(result > _LARGE_REST * lengths))
        if len(small):
            near = InputProjection(self.directions, self.inputs[small], self.scale)
            squares = [np.einsum("ij,ij->i", rest, rest) for rest in near._rest_in_blocks(1024)]
            result[small] = self.scale * np.concatenate(squares)
        return result

    @cached_property
    def unexplained_root(self) -> Array:
        return np.sqrt(self.scale) * np.concatenate(list(self._rest_in_blocks(1024)))

    @cached_property
    def unexplained_gram(self) -> Array:
        return self.unexplained_root @ self.unexplained_root.T

    def _rest_in_blocks(self, size: int) -> Iterator[Array]:
        """What the directions leave over of each input, zero where that is only rounding.

        Small rests are projected twice, so that the rounding of the directions does not leak into them.
        """
        for start in range(0, len(self.inputs), size):
            inputs = self.inputs[start : start + size]
            seen = self.explained[start : start + size] / np.sqrt(self.scale)
            rest = inputs - self.directions.combine(seen)
            length = np.linalg.norm(inputs, axis=1)
            small = np.linalg.norm(rest, axis=1) < 1e-3 * length
            if small.any():
                rest[small] -= self.directions.combine(self.directions.coordinates(rest[small]))
            rounding = RANK_TOLERANCE * inputs.shape[1] * length
            yield np.where((np.linalg.norm(rest, axis=1) > rounding)[:, None], rest, 0.0)


@dataclass(frozen=True)
class GramProjection(SharedInputs):
    """Test points of a kernel: R is known as a matrix."""

    explained: Array
    unexplained_gram: Array

    @property
    def unexplained_diagonal(self) -> Array:
        return np.diagonal(self.unexplained_gram)

    @cached_property
    def unexplained_root(self) -> Array:
        return gram_root(self.unexplained_gram)


@dataclass(frozen=True)
class TrainingProjection(SharedInputs):
    """The training points: explained entirely, R = 0."""

    explained: Array

    @property
    def unexplained_diagonal(self) -> Array:
        return np.zeros(len(self.explained))

    @property
    def unexplained_gram(self) -> Array:
        return np.zeros((len(self.explained), len(self.explained)))

    @property
    def unexplained_root(self) -> Array:
        return np.zeros((len(self.explained), 0))


@dataclass(frozen=True)
class PrivateProjection:
    """Test points where every example has an input of its own besides the shared ones: Gram matrix G + ν I.

    Training directions keep their vectors, and g_i becomes g_i + ν. So Φ shrinks by √(g/(g + ν)), and what it
    loses is unexplained. `own` is the variance of new private inputs (ν for observations, 0 for the function)
    and `shared` that of one more input that all test points have in common (the level).
    """

    inner: Projection
    seen: Array  # g/(g + ν), (r,)
    own: float = 0.0
    shared: float = 0.0

    @cached_property
    def explained(self) -> Array:
        return self.inner.explained * np.sqrt(self.seen)

    def observed(self, own: float) -> PrivateProjection:
        return replace(self, own=own)

    def shifted(self, shared: float) -> PrivateProjection:
        return replace(self, shared=shared)

    @cached_property
    def _lost(self) -> Array:
        return self.inner.explained * np.sqrt(1 - self.seen)

    @cached_property
    def unexplained_diagonal(self) -> Array:
        return self.inner.unexplained_diagonal + (self._lost**2).sum(axis=1) + (self.own + self.shared)

    @cached_property
    def unexplained_gram(self) -> Array:
        gram = self.inner.unexplained_gram + self._lost @ self._lost.T + self.shared
        gram[np.diag_indices_from(gram)] += self.own
        return gram

    @cached_property
    def unexplained_root(self) -> Array:
        points = len(self._lost)
        own, shared = np.sqrt(self.own) * np.eye(points), np.full((points, 1), np.sqrt(self.shared))
        return np.hstack([self.inner.unexplained_root, self._lost, own, shared])


def gram_root(gram: Array) -> Array:
    """E with E Eᵀ = gram, of the numerical rank of gram."""
    values, vectors = np.linalg.eigh(gram)
    keep = positive_part(values, len(values))
    return vectors[:, keep] * np.sqrt(values[keep])
