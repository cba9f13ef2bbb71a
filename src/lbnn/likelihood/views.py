"""The likelihood of observations that see the outputs of a network through several views.

Observation μ is y_μ = Σ_m [P ψ_m(x_μ)]_m + noise, P = W_d ⋯ W_1. Given the scale L (M × M) of the M channels,
with K_mm' = σ_1² Ψ_m Ψ_m'ᵀ/n0 the Gram matrices between views,

    y ~ N(0, C(L)),   C(L) = τ I + Σ_mm' L_mm' K_mm'.

The K_mm' have no common eigenvectors, so every scale takes a Cholesky factorisation of C. Its size q is the
smaller of the number of observations and of all features, M n0: rows are first reduced to the span of the
features (`data.view_data`).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lbnn._base.blocks import blocks
from lbnn._base.small_matrices import inverses, lower_roots, lower_roots_and_rows
from lbnn._base.types import Array, IndexArray
from lbnn.likelihood.gaussian import GaussianLikelihood
from lbnn.likelihood.missing import PartialLikelihood
from lbnn.likelihood.observed import CellsOfKernel, CellsOfScale
from lbnn.likelihood.root import ScaleFunction

# of a gradient, in operations: small factorisations are far from peak speed (8 observations: 5 µs, 15: 11 µs)
_COST, _OVERHEAD = 4.0, 2e4


class Design(ABC):
    """How a scale makes the covariance of q rows: a linear map L ↦ Σ_mm' L_mm' K_mm', and its adjoint."""

    @property
    @abstractmethod
    def rows(self) -> int:
        """q."""

    @property
    @abstractmethod
    def channels(self) -> int:
        """M."""

    @property
    @abstractmethod
    def operations(self) -> float:
        """Rough number of floating-point operations of one covariance."""

    @abstractmethod
    def covariances(self, scales: Array) -> Array:
        """Σ_mm' L_mm' K_mm' of scales (k, M, M), (k, q, q)."""

    @abstractmethod
    def contracted(self, matrices: Array) -> Array:
        """⟨W, K_mm'⟩ of symmetric matrices W (k, q, q), as symmetric matrices (k, M, M)."""


@dataclass(frozen=True)
class ViewDesign(Design):
    """Any views: the Gram matrices of all pairs of them."""

    grams: Array  # K_mm' + K_m'm for m < m' and K_mm, in the order of np.triu_indices, (pairs, q, q)
    number: int  # M

    @classmethod
    def of(cls, features: Array) -> ViewDesign:
        """From features (q, M, n), whose inner products are the kernel."""
        return cls.of_blocks(np.einsum("ami,bni->ambn", features, features, optimize=True))

    @classmethod
    def of_blocks(cls, kernel: Array) -> ViewDesign:
        """From the Gram matrices between all views, (q, M, q, M)."""
        count = kernel.shape[1]
        first, second = np.triu_indices(count)
        grams = np.stack([kernel[:, m, :, n] for m, n in zip(first, second, strict=True)])
        mixed = first != second
        grams[mixed] += grams[mixed].swapaxes(1, 2)
        return cls(grams, count)

    @property
    def rows(self) -> int:
        return self.grams.shape[1]

    @property
    def channels(self) -> int:
        return self.number

    @property
    def operations(self) -> float:
        return 2.0 * self.grams.size

    def covariances(self, scales: Array) -> Array:
        upper = scales[:, *np.triu_indices(self.number)]
        return np.asarray((upper @ self.grams.reshape(len(self.grams), -1)).reshape(-1, self.rows, self.rows))

    def contracted(self, matrices: Array) -> Array:
        pairs = matrices.reshape(len(matrices), -1) @ self.grams.reshape(len(self.grams), -1).T
        first, second = np.triu_indices(self.number)
        result = np.empty((len(matrices), self.number, self.number))
        halves = np.where(first == second, pairs, 0.5 * pairs)
        result[:, first, second] = halves
        result[:, second, first] = halves
        return result


@dataclass(frozen=True)
class CellDesign(Design):
    """Observed cells of a table: cell (a, j) is output j of row a, C = G ∘ L over cells."""

    gram: Array  # G between the rows of cells, (q, q); cells are sorted by output
    outputs: IndexArray  # j of every cell, (q,)
    number: int  # n_d

    @property
    def rows(self) -> int:
        return len(self.gram)

    @property
    def channels(self) -> int:
        return self.number

    @property
    def operations(self) -> float:
        return 4.0 * self.gram.size

    def covariances(self, scales: Array) -> Array:
        return np.asarray(self.gram * scales[:, self.outputs[:, None], self.outputs])

    def contracted(self, matrices: Array) -> Array:
        present, starts = np.unique(self.outputs, return_index=True)
        sums = np.add.reduceat(np.add.reduceat(self.gram * matrices, starts, axis=1), starts, axis=2)
        result = np.zeros((len(matrices), self.number, self.number))
        result[:, present[:, None], present] = sums
        return result


@dataclass(frozen=True)
class ViewLikelihood(ScaleFunction):
    """log p(y | L) as a function of L, with its gradient, for one data set and one noise variance."""

    design: Design
    observations: Array  # y in the span of the features, (q,)
    residual: float  # ‖y‖² outside of it
    examples: int  # all observations
    noise_variance: float  # τ, finite; zero where the signal's covariance has full rank
    log_jacobian: float = 0.0
    completion: PartialLikelihood | None = None  # of a table with missing cells: the same in another form
    smallest: float = 0.0  # g with Σ L_mm' K_mm' at least g l_min I, where that is known
    row_noise: Array | None = None  # noise variance of every row, (q,), where it is not τ for all of them
    narrow: CellsOfScale | None = None
    kernel: CellsOfKernel | None = None

    @cached_property
    def surrogate(self) -> GaussianLikelihood | None:
        """A likelihood of a complete table from which proposals are made, where there is one."""
        return None if self.completion is None else self.completion.surrogate_of(self)

    # -- what the engines ask of every likelihood

    @property
    def output_units(self) -> Array:
        """Ones (M,)."""
        return np.ones(self.design.channels)

    @property
    def log_constant(self) -> float:
        """The part of log p(y | L) that does not depend on L."""
        constant = -0.5 * self.examples * math.log(2 * math.pi) + self.log_jacobian
        unseen = self.examples - self.design.rows
        if not unseen:
            return constant
        return constant - 0.5 * (unseen * math.log(self.noise_variance) + self.residual / self.noise_variance)

    @property
    def operations(self) -> float:
        """Rough number of floating-point operations of one gradient, for planning."""
        if self.narrow is not None:
            return self.narrow.operations
        return _COST * (self.design.operations + self.design.rows**3) + _OVERHEAD

    @cached_property
    def eigenvalues(self) -> Array:
        """Of the signal's covariance at L = I, (q,)."""
        signal = self.design.covariances(np.eye(self.design.channels)[None])[0]
        return np.maximum(np.linalg.eigvalsh(signal), 0.0)

    @cached_property
    def _pull(self) -> Array:
        """⟨αα ᵀ, K_mm'⟩ with α = C⁻¹y at L = I, (M, M): what the fit gains from every channel."""
        covariance = self._covariances(np.eye(self.design.channels)[None])[0]
        alpha = np.linalg.solve(covariance, self.observations)
        return np.asarray(self.design.contracted(np.outer(alpha, alpha)[None])[0])

    @property
    def gradient_rows(self) -> Array:
        """Rows (M, M) whose Gram matrix is twice the gradient of the fit at L = I: their axes are used."""
        values, vectors = np.linalg.eigh(self._pull)
        return np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T

    @property
    def target_moment(self) -> Array:
        """A diagonal matrix (M, M): the channels are a second frame in which modes are searched."""
        return np.diag(np.diagonal(self._pull))

    # -- value and gradient

    def log_value(self, eigenvalues: Array, vectors: Array) -> Array:
        """Log p(y | L) less `log_constant`, for scales V diag(l) Vᵀ: l (m, M), V (m, M, M) -> (m,)."""
        result = np.empty(len(eigenvalues))
        for block, covariances in self._in_blocks(eigenvalues, vectors):
            # y is one more row of the matrix that is factorised: its row of the root R is R⁻¹y
            size = self.design.rows
            matrices = np.empty((len(covariances), size + 1, size + 1))
            matrices[:, :size, :size] = covariances
            matrices[:, size, :size] = self.observations
            own, white = lower_roots_and_rows(matrices, self._floors(eigenvalues[block]))
            logs = 2 * np.log(np.diagonal(own, axis1=1, axis2=2)).sum(axis=1)
            value = -0.5 * (logs + (white**2).sum(axis=1))
            result[block] = np.where(np.isfinite(value), value, -np.inf)
        return result

    def value_and_gradient(self, eigenvalues: Array, vectors: Array) -> tuple[Array, Array]:
        """`log_value` (m,) and its gradient in L, ½ ⟨ααᵀ − C⁻¹, K_mm'⟩ with α = C⁻¹y, (m, M, M)."""
        value, gradient = np.empty(len(eigenvalues)), np.empty_like(vectors)
        for block, covariances in self._in_blocks(eigenvalues, vectors):
            lower = lower_roots(covariances, self._floors(eigenvalues[block]))
            inverse = inverses(lower)
            alpha = inverse @ self.observations
            logs = 2 * np.log(np.diagonal(lower, axis1=1, axis2=2)).sum(axis=1)
            value[block] = -0.5 * (logs + alpha @ self.observations)
            pull = alpha[:, :, None] * alpha[:, None, :] - inverse
            gradient[block] = 0.5 * self.design.contracted(pull)
        fine = np.isfinite(value)
        return np.where(fine, value, -np.inf), np.where(fine[:, None, None], gradient, 0.0)

    def _floors(self, eigenvalues: Array) -> Array:
        """What no eigenvalue of C(L) is below, (k,), for the eigenvalues (k, M) of scales."""
        noise = self.noise_variance if self.row_noise is None else float(self.row_noise.min())
        return np.asarray(noise + self.smallest * eigenvalues.min(axis=1))

    def _covariances(self, scales: Array) -> Array:
        """C(L) with noise, (m, p, p), of scales (m, M, M)."""
        covariances = self.design.covariances(scales)
        index = np.arange(self.design.rows)
        covariances[:, index, index] += self.noise_variance if self.row_noise is None else self.row_noise
        return covariances

    def _in_blocks(self, eigenvalues: Array, vectors: Array) -> Iterator[tuple[slice, Array]]:
        """C(L), (k, p, p), of blocks of scales."""
        for block in blocks(len(eigenvalues), 4 * self.design.rows**2):
            axes = vectors[block]
            yield block, self._covariances((axes * eigenvalues[block, None, :]) @ axes.swapaxes(1, 2))
