"""Examples given all others and a scale: the precision P_j in the eigenbasis of the data."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from lbnn._base.arrays import to_numpy
from lbnn._base.types import Array
from lbnn.data.bases import GramBasis
from lbnn.data.projection import RANK_TOLERANCE, InputDirections
from lbnn.data.spectrum import Spectrum


class LeftOut(ABC):
    """Some examples: their predictive given all other examples and a scale, for any scale."""

    @property
    @abstractmethod
    def extent(self) -> tuple[int, int]:
        """Number of examples, and of floats for each of them and each eigenvector of L: sizes of blocks."""

    @abstractmethod
    def take(self, rows: slice) -> LeftOut:
        """Some of the examples."""

    @abstractmethod
    def precision_and_residual(self, scale_values: Array, scale_vectors: Array) -> tuple[Array, Array]:
        """(P_j)_aa and (P_j Y V_j)_a/(P_j)_aa for scales l (m, n_d), V (m, n_d, n_d): (rows, m, n_d) each."""

    def log_density(self, scale_values: Array, scale_vectors: Array) -> Array:
        """log p(y_a | Y_{−a}, L), (rows, m)."""
        precision, residual = self.precision_and_residual(scale_values, scale_vectors)
        terms = np.log(precision / (2 * math.pi)) - residual * (residual * precision)
        return 0.5 * terms.sum(axis=2)

    def moments(self, scale_values: Array, scale_vectors: Array, matrix: Array) -> tuple[Array, Array]:
        """Residual y_a − E[y_a | Y_{−a}, L] and its variance in outputs of Y Aᵀ, (m, rows, outputs) each."""
        precision, residual = self.precision_and_residual(scale_values, scale_vectors)
        back = (matrix @ scale_vectors).swapaxes(1, 2)
        return residual.transpose(1, 0, 2) @ back, (1 / precision).transpose(1, 0, 2) @ back**2


@dataclass(frozen=True)
class PrivateExamples(LeftOut):
    """Examples with private inputs: P_j = K⁻¹/l_j with K = G + ν I, so that residuals do not depend on L."""

    variance: Array  # 1/(K⁻¹)_aa, (rows,)
    residual: Array  # (K⁻¹Y)_a/(K⁻¹)_aa, (rows, n_d)

    @classmethod
    def of(cls, spectrum: Spectrum, private: float, Y: Array, centred: bool) -> PrivateExamples:
        """All examples of a data set."""
        vectors = example_vectors(spectrum)
        unseen, rest = _unseen(spectrum, vectors, Y, centred)
        eigenvalues = spectrum.eigenvalues + private
        precision = vectors**2 @ (1 / eigenvalues) + unseen / private
        weighted = vectors @ (spectrum.targets / eigenvalues[:, None]) + rest / private
        return cls(1 / precision, weighted / precision[:, None])

    @property
    def extent(self) -> tuple[int, int]:
        return len(self.variance), 1

    def take(self, rows: slice) -> PrivateExamples:
        return PrivateExamples(self.variance[rows], self.residual[rows])

    def precision_and_residual(self, scale_values: Array, scale_vectors: Array) -> tuple[Array, Array]:
        precision = 1 / (self.variance[:, None, None] * scale_values)
        return precision, np.einsum("ak,mkj->amj", self.residual, scale_vectors)


@dataclass(frozen=True)
class Examples(LeftOut):
    """Some examples a in the eigenbasis of the data: all that P_j needs, for any scale."""

    vectors: Array  # U_a, (rows, r)
    unseen_precision: Array  # (I − UUᵀ)_aa / τ, (rows,)
    unseen_targets: Array  # ((I − UUᵀ)Y)_a / τ, (rows, n_d)
    eigenvalues: Array  # g, (r,)
    targets: Array  # ỹ, (r, n_d)
    noise: float  # τ

    @property
    def extent(self) -> tuple[int, int]:
        rows, rank = self.vectors.shape
        return rows, rank

    @classmethod
    def of(cls, spectrum: Spectrum, noise: float, Y: Array, centred: bool) -> Examples:
        """All examples of a data set."""
        vectors = example_vectors(spectrum)
        unseen, rest = _unseen(spectrum, vectors, Y, centred)
        if noise > 0:
            unseen, rest = unseen / noise, rest / noise
        return cls(vectors, unseen, rest, spectrum.eigenvalues, spectrum.targets, noise)

    def take(self, rows: slice) -> Examples:
        """Some of the examples."""
        return replace(
            self,
            vectors=self.vectors[rows],
            unseen_precision=self.unseen_precision[rows],
            unseen_targets=self.unseen_targets[rows],
        )

    @cached_property
    def _squares(self) -> Array:
        return self.vectors**2

    def precision_and_residual(self, scale_values: Array, scale_vectors: Array) -> tuple[Array, Array]:
        """(P_j)_aa and (P_j Y V_j)_a/(P_j)_aa for scales l (m, n_d), V (m, n_d, n_d): (rows, m, n_d) each."""
        axes = scale_vectors.transpose(1, 0, 2).reshape(scale_values.shape[1], -1)  # V side by side
        inverse = 1 / (self.noise + np.outer(self.eigenvalues, self._positive(scale_values)))
        precision = self._squares @ inverse + self.unseen_precision[:, None]
        weighted = self.vectors @ (inverse * (self.targets @ axes)) + self.unseen_targets @ axes
        shape = len(self.vectors), *scale_values.shape
        return precision.reshape(shape), (weighted / precision).reshape(shape)

    def _positive(self, scale_values: Array) -> Array:
        """Eigenvalues of L; at zero temperature, where L is invertible, above zero against rounding."""
        if self.noise > 0:
            return scale_values
        return np.maximum(scale_values, np.finfo(float).eps ** 2 * scale_values.max(axis=1, keepdims=True))


def _unseen(spectrum: Spectrum, vectors: Array, Y: Array, centred: bool) -> tuple[Array, Array]:
    """(I − UUᵀ)_aa (p,) and ((I − UUᵀ)Y)_a (p, n_d) on contrasts; zero where the directions span all."""
    unseen, rest = np.zeros(len(Y)), np.zeros_like(Y)
    if spectrum.rank < spectrum.examples:
        unseen = 1 - centred / len(Y) - (vectors**2).sum(axis=1)
        rest = Y - centred * Y.mean(axis=0) - vectors @ spectrum.targets
        spanned = unseen <= RANK_TOLERANCE * len(Y)
        unseen[spanned], rest[spanned] = 0.0, 0.0
    return unseen, rest


def example_vectors(spectrum: Spectrum) -> Array:
    """U, the eigenvectors of the Gram matrix over the examples, (p, r), as NumPy."""
    basis = spectrum.basis
    if isinstance(basis, GramBasis):
        return to_numpy(basis.vectors)
    if isinstance(basis.directions, InputDirections):  # XXᵀ u would lose directions of small g to rounding
        combination = to_numpy(basis.directions.combination)
        return combination / np.linalg.norm(combination, axis=0)
    return to_numpy(basis.training().explained) / np.sqrt(spectrum.eigenvalues)
