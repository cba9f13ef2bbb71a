"""How the data were reached, and so how test points are projected: inputs or a Gram matrix."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from lbnn._base import check
from lbnn._base.arrays import (
    add_to_diagonal,
    cholesky,
    like,
    namespace,
    require_one_device,
    row_sizes,
    take,
    to_numpy,
)
from lbnn._base.types import AnyArray, Array
from lbnn.data.projection import RANK_TOLERANCE, Directions, Projection, Remainder

#: Grams and moments that are inconsistent beyond this fraction of their scale are refused.
GRAM_TOLERANCE = 1e-8


@dataclass(frozen=True)
class InputBasis:
    """Data from inputs or moments: test points are inputs X_test (p̂, n0)."""

    directions: Directions
    dimension: int  # n0
    training_inputs: AnyArray | None
    scale: float  # variance / n0
    #: X V = U diag(σ), (p, r), where it comes from a singular value decomposition: the product of X and V
    #: would lose the digits of small σ. None where V comes from a Gram matrix, and from moments.
    training_coordinates: AnyArray | None = None

    @property
    def example(self) -> AnyArray:
        """An array of any shape, of the library and device of the inputs."""
        return self.directions.columns

    def project(self, *test: ArrayLike) -> Projection:
        if len(test) != 1:
            raise TypeError(f"test points are one array X_test of shape (p̂, n0), got {_arrays(len(test))}")
        inputs = check.matrix_in_place(test[0], "X_test")
        require_one_device(X=self.example, X_test=inputs)
        if inputs.shape[1] != self.dimension:
            raise ValueError(
                f"X_test must have n0 = {self.dimension} columns, got X_test.shape={tuple(inputs.shape)}"
            )
        coordinates = self.directions.coordinates(inputs)
        rest = Remainder(self.directions, inputs, coordinates, self.scale)
        return Projection(math.sqrt(self.scale) * coordinates, rest)

    def training(self) -> Projection:
        if self.training_inputs is None:
            raise ValueError(
                "the training inputs are not kept with moments: pass X_test explicitly, got none"
            )
        coordinates = self.training_coordinates
        if coordinates is None:
            coordinates = self.directions.coordinates(self.training_inputs)
        return Projection(math.sqrt(self.scale) * coordinates)

    def scaled(self, variance: float) -> InputBasis:
        return replace(self, scale=variance * self.scale)

    @property
    def rank(self) -> int:
        return self.directions.columns.shape[1]

    @property
    def keeps_examples(self) -> bool:
        """Whether the training points are known; they are not after moments."""
        return self.training_inputs is not None

    @property
    def derives_example_vectors(self) -> bool:
        """Whether U is computed from V, with its rounding."""
        return self.directions.inputs is None

    def most_directions(self, examples: int) -> int:
        """The largest rank that so many examples could have besides their number: n0."""
        return self.dimension

    def without_first(self) -> InputBasis:
        """Without the smallest eigenvalue."""
        coordinates = self.training_coordinates
        return replace(
            self,
            directions=replace(self.directions, columns=self.directions.columns[:, 1:]),
            training_coordinates=None if coordinates is None else coordinates[:, 1:],
        )

    def example_vectors(self, eigenvalues: Array) -> Array:
        """U (p, r) given the eigenvalues (r,) of the Gram matrix, as NumPy."""
        own = self.directions.example_vectors()
        if own is not None:
            return own
        vectors = to_numpy(self.training().explained)  # a new array
        vectors /= np.sqrt(eigenvalues)
        return vectors

    def example_rows(self, eigenvalues: Array) -> Callable[[slice], Array]:
        """Rows of U (p, r), given the eigenvalues (r,), for a block of training rows.

        Where U is a product with the inputs it is made block by block: all of it takes as much memory as the
        inputs.
        """
        inputs, directions = self.training_inputs, self.directions
        if not self.derives_example_vectors or inputs is None or self.training_coordinates is not None:
            vectors = self.example_vectors(eigenvalues)
            return lambda block: vectors[block]
        factor = np.sqrt(self.scale / eigenvalues)
        return lambda block: to_numpy(directions.coordinates(inputs[block, :])) * factor

    def weighted_points(self, test: tuple[ArrayLike, ...], roots: Array) -> tuple[ArrayLike, ...]:
        """Test points for training rows that were multiplied by roots (p,): inputs stay as they are."""
        return test

    def function_weights(self, coefficients: Array, roots: Array | None) -> Array:
        """Weights (k, n0) of the inputs in functions with coefficients (k, r) in the eigenbasis."""
        return math.sqrt(self.scale) * to_numpy(self.directions.combine(like(coefficients, self.example)))


@dataclass(frozen=True)
class GramBasis:
    """Data from a Gram matrix: test points are rows of a kernel, cross_gram (p̂, p) and test_gram (p̂, p̂)."""

    vectors: AnyArray  # U, (p, r)
    eigenvalues: Array  # of the Gram matrix as given, (r,)
    scale: float = 1.0

    @property
    def example(self) -> AnyArray:
        """An array of any shape, of the library and device of the Gram matrix."""
        return self.vectors

    def project(self, *test: ArrayLike) -> Projection:
        if len(test) != 2:
            raise TypeError(
                f"after a Gram matrix, test points are cross_gram and test_gram, got {_arrays(len(test))}"
            )
        cross, gram = check.matrix_in_place(test[0], "cross_gram"), check.square_matrix(test[1], "test_gram")
        require_one_device(gram=self.vectors, cross_gram=cross, test_gram=gram)
        expected = gram.shape[0], self.vectors.shape[0]
        if tuple(cross.shape) != expected:
            raise ValueError(
                f"cross_gram must have shape (p̂, p) = {expected}, got cross_gram.shape={tuple(cross.shape)}"
            )
        explained = cross @ self.vectors / like(np.sqrt(self.eigenvalues), self.vectors)
        rest = _unexplained(gram, cross, explained, self)
        return Projection(math.sqrt(self.scale) * explained, gram=self.scale * rest)

    def training(self) -> Projection:
        return Projection(like(np.sqrt(self.scale * self.eigenvalues), self.vectors) * self.vectors)

    def scaled(self, variance: float) -> GramBasis:
        return replace(self, scale=variance * self.scale)

    @property
    def rank(self) -> int:
        return self.vectors.shape[1]

    @property
    def keeps_examples(self) -> bool:
        """The training points are known."""
        return True

    @property
    def derives_example_vectors(self) -> bool:
        """U is kept."""
        return False

    def most_directions(self, examples: int) -> int:
        """The largest rank that so many examples could have besides their number: no other."""
        return examples

    def without_first(self) -> GramBasis:
        """Without the smallest eigenvalue."""
        return replace(self, vectors=self.vectors[:, 1:], eigenvalues=self.eigenvalues[1:])

    def example_vectors(self, eigenvalues: Array) -> Array:
        """U (p, r), as NumPy; the eigenvalues (r,) are not needed."""
        return to_numpy(self.vectors)

    def example_rows(self, eigenvalues: Array) -> Callable[[slice], Array]:
        """Rows of U (p, r) for a block of training rows; the eigenvalues (r,) are not needed."""
        vectors = self.example_vectors(eigenvalues)
        return lambda block: vectors[block]

    def weighted_points(self, test: tuple[ArrayLike, ...], roots: Array) -> tuple[ArrayLike, ...]:
        """Kernels (p̂, p), (p̂, p̂) for training rows that were multiplied by roots (p,)."""
        cross = check.matrix_in_place(test[0], "cross_gram")
        if cross.shape[1] != len(roots):  # refused by `project`
            return test
        return (cross * like(roots, cross), *test[1:])

    def function_weights(self, coefficients: Array, roots: Array | None) -> Array:
        """Weights (k, p) of the training points in functions with coefficients (k, r) in the eigenbasis.

        With the training rows multiplied by roots (p,), the kernel with them is that of the rows times these.
        """
        weights = math.sqrt(self.scale) * (coefficients / np.sqrt(self.eigenvalues)) @ self.vectors.T
        return weights if roots is None else weights * roots


Basis = InputBasis | GramBasis


def given_points(
    X_test: ArrayLike | None,
    more: tuple[ArrayLike, ...],
    cross_gram: ArrayLike | None,
    test_gram: ArrayLike | None,
) -> tuple[ArrayLike, ...]:
    """Arrays of test points: none for training points, X_test (p̂, n0), or kernels (p̂, p), (p̂, p̂)."""
    if cross_gram is None and test_gram is None:
        return () if X_test is None and not more else (X_test, *more)  # type: ignore[arg-type]
    if X_test is not None or more:
        raise TypeError("test points are X_test or else cross_gram with test_gram, got both")
    if cross_gram is None or test_gram is None:
        missing = "cross_gram" if cross_gram is None else "test_gram"
        raise TypeError(f"cross_gram and test_gram are given together, got no {missing}")
    return cross_gram, test_gram


def _unexplained(gram: AnyArray, cross: AnyArray, explained: AnyArray, basis: GramBasis) -> AnyArray:
    """R = G_x̂x̂ − ΦΦᵀ (p̂, p̂) from gram (p̂, p̂), cross (p̂, p) and Φ (p̂, r).

    Points whose unexplained variance is at the rounding of the difference count as explained entirely. Every
    point is judged by bounds of its own, so that an answer does not depend on the other test points.
    """
    own, top = np.abs(_diagonal(gram)), float(basis.eigenvalues.max(initial=0.0))
    outside = row_sizes(cross - (cross @ basis.vectors) @ basis.vectors.T)
    rest = gram - explained @ explained.T
    diagonal, rounding = _diagonal(rest), _difference_rounding(own, to_numpy(explained), basis)
    allowed = GRAM_TOLERANCE * np.maximum(own, top)
    if (outside > allowed).any() or not _is_semidefinite(rest, allowed):
        found = (
            f"got unexplained variances from {diagonal.min():.3g} and {outside.max():.3g} outside the range "
            "of the training gram"
        )
        # At worst errors grow with the size of the matrices, and eigenvectors that were not kept mattered.
        size = basis.vectors.shape[0]
        worst, lost = size * len(own) * rounding, 2 * np.sqrt(RANK_TOLERANCE * size * top * own)
        if (outside <= allowed + lost).all() and _is_semidefinite(rest, allowed + worst):
            raise ValueError(
                "predictions need a training gram that is not close to singular along what it explains of "
                f"the test points: rounding may change unexplained variances by {worst.max():.3g}; {found}: "
                "use inputs instead of kernels, or a kernel matrix of smaller condition"
            )
        raise ValueError(
            "cross_gram and test_gram must form a positive semi-definite matrix with the training gram, "
            f"{found}"
        )
    unknown = like((diagonal > rounding).astype(float), rest)
    return rest * unknown[:, None] * unknown


def _difference_rounding(own: Array, explained: Array, basis: GramBasis) -> Array:
    """Bound of what rounding does to each diagonal entry of G_x̂x̂ − ΦΦᵀ, (p̂,).

    The entries of the kernels are known to ε of themselves. Eigenvalues are known to ε g_max, which changes
    φ_i² by ε κ_i² φ_i² with κ_i² = g_max/g_i, and φ_i itself is known to ε κ_i √G_x̂x̂.
    """
    top = float(basis.eigenvalues.max(initial=0.0))
    along = np.abs(explained) * np.sqrt(top / basis.eigenvalues)  # κ_i |φ_i|
    amplified = (along**2).sum(axis=1) + 2 * np.sqrt(own) * along.sum(axis=1)
    return RANK_TOLERANCE * (amplified + basis.vectors.shape[0] * own)


def _diagonal(matrix: AnyArray) -> Array:
    """Diagonal (n,) of a matrix (n, n), as NumPy."""
    return to_numpy(namespace(matrix).linalg.diagonal(matrix))


def _arrays(count: int) -> str:
    return "one array" if count == 1 else f"{count} arrays"


def _is_semidefinite(matrix: AnyArray, tolerance: Array) -> bool:
    """Whether matrix (n, n) + diag(tolerance), tolerance (n,), has no negative eigenvalue."""
    counted = np.flatnonzero(tolerance > 0)
    if row_sizes(matrix)[tolerance == 0].any():  # a zero on the diagonal allows no other entry in its row
        return False
    part = take(take(matrix, counted, axis=0), counted, axis=1)
    return not len(counted) or cholesky(add_to_diagonal(part, like(tolerance[counted], part))) is not None
