"""The observed cells of a table given a root of the scale, or of the kernel of the last hidden layer.

With features φ_c of the rows, r of them, an observed cell c of output j is

    y_c = φ_cᵀ Z F_j + noise of variance τ,   Z (r, k) the hidden units along the features, F (n, k) the last

layer's weights: a normal law of either given the other. A root F of the scale, L = F Fᵀ, leaves Z standard
normal: one regression on its r k numbers (`CellsOfScale`). A root Z of the hidden kernel, Λ = Z Zᵀ, leaves
the rows of F standard normal: a regression on k numbers for every output (`CellsOfKernel`). With the design A
and M = τ I + AᵀA, ζ̂ = M⁻¹Aᵀy has

    log p(y) = −½ [(q − size of M) log τ + log det M + ‖y − Aζ̂‖²/τ + ‖ζ̂‖²] + constant,
    ∂/∂A     = (y − Aζ̂) ζ̂ᵀ/τ − A M⁻¹.

The features enter M by their Gram matrices H_j over the observed rows of each output. Nothing has n rows and
n columns, and what is missing costs nothing. The quadratic form is at its minimum in ζ, so that errors of ζ̂
enter squared.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from lbnn._base.blocks import blocks
from lbnn._base.small_matrices import inverses, lower_roots
from lbnn._base.types import Array, IndexArray
from lbnn.likelihood.root import RootLikelihood

_OVERHEAD = 2e4  # operations in the time (some 15 µs) that a gradient takes beside those counted


@dataclass(frozen=True)
class _Cells(RootLikelihood):
    """Observed cells, sorted by output."""

    features: Array  # φ, (q, r)
    targets: Array  # y, (q,)
    labels: IndexArray  # j of every cell, (q,)
    outputs: int  # n
    noise: float  # τ, positive
    width: int  # k, by which the operations are counted
    constant: float  # what the value has beside the formula
    basis: Array | None = None  # O: the root is O T

    def in_frame(self, frame: Array) -> _Cells:
        """With one more turn of the root."""
        return replace(self, basis=frame if self.basis is None else self.basis @ frame)

    @property
    def rank(self) -> int:
        """r."""
        return self.features.shape[1]

    def _evaluate(self, root: Array, slope: bool) -> tuple[Array, Array | None]:
        seen = root if self.basis is None else self.basis @ root
        value, gradient = np.empty(len(root)), np.empty_like(root) if slope else None
        for block in blocks(len(root), self._floats(root.shape[2])):
            own, part = self._of_block(seen[block], slope)
            fine = np.isfinite(own)
            value[block] = np.where(fine, self.constant + own, -np.inf)
            if gradient is not None and part is not None:
                gradient[block] = np.where(fine[:, None, None], part, 0.0)
        if gradient is not None and self.basis is not None:
            gradient = self.basis.swapaxes(-1, -2) @ gradient
        return value, gradient

    @abstractmethod
    def _floats(self, columns: int) -> int:
        """Of the largest array for one root with so many columns."""

    @abstractmethod
    def _of_block(self, root: Array, slope: bool) -> tuple[Array, Array | None]:
        """The value less the constant (m,), and its gradient in the root (m, any, k)."""

    def _rest(self, hidden: Array) -> Array:
        """y − φ_cᵀ h_j (m, q) for the numbers h of every output, (m, n, r)."""
        return self.targets - np.einsum("qi,mqi->mq", self.features, hidden[:, self.labels])

    def _value(self, lower: Array, latent: Array, rest: Array) -> Array:
        """From roots of M (m, size, size) or (m, n, size, size), ζ̂ and y − Aζ̂ (m, q), (m,)."""
        count = len(rest)
        diagonal = np.diagonal(lower, axis1=-2, axis2=-1).reshape(count, -1)
        logs = 2 * np.log(diagonal).sum(axis=1) + (rest.shape[1] - diagonal.shape[1]) * math.log(self.noise)
        squares = (rest**2).sum(axis=1) / self.noise + (latent.reshape(count, -1) ** 2).sum(axis=1)
        return np.asarray(-0.5 * (logs + squares))

    def _pulled(self, rest: Array) -> Array:
        """Σ φ_c (y − Aζ̂)_c/τ over the cells of every output, (m, n, r)."""
        return self._summed(self.features * (rest / self.noise)[:, :, None])

    def _summed(self, values: Array) -> Array:
        """Sums over the cells of every output, values (m, q, any) -> (m, n, any)."""
        present, starts = np.unique(self.labels, return_index=True)
        result = np.zeros((len(values), self.outputs, values.shape[2]))
        result[:, present] = np.add.reduceat(values, starts, axis=1)
        return result

    @cached_property
    def _grams(self) -> Array:
        """H_j = Σ φ_c φ_cᵀ over the cells of output j, (n, r, r)."""
        products = (self.features[:, :, None] * self.features[:, None]).reshape(1, len(self.features), -1)
        return self._summed(products).reshape(-1, self.rank, self.rank)

    @cached_property
    def _moments(self) -> Array:
        """Σ φ_c y_c over the cells of output j, (n, r)."""
        return self._summed((self.features * self.targets[:, None])[None])[0]


@dataclass(frozen=True)
class CellsOfScale(_Cells):
    """log p(Y_obs | F Fᵀ)."""

    @property
    def operations(self) -> float:
        """Rough number of floating-point operations of one gradient, for planning."""
        size = self.rank * self.width
        return 2.0 * size**3 + 4.0 * size**2 * self.outputs + 6.0 * self.features.size + _OVERHEAD

    def _floats(self, columns: int) -> int:
        size = self.rank * columns
        return max(self.features.size, size**2, self.outputs * max(columns, self.rank) * columns)

    def _of_block(self, root: Array, slope: bool) -> tuple[Array, Array | None]:
        """M = τ I + Σ_j H_j ⊗ F_j F_jᵀ, (m, r k, r k)."""
        count, _, width = root.shape
        squares = root[:, :, :, None] * root[:, :, None, :]
        matrix = np.tensordot(squares, self._grams, axes=(1, 0)).transpose(0, 3, 1, 4, 2)
        matrix = matrix.reshape(count, self.rank * width, self.rank * width)
        lower, inverse = _root_and_inverse(matrix, self.noise)
        right = (self._moments.T @ root).reshape(count, -1, 1)
        latent = (inverse @ right).reshape(count, self.rank, width)
        rest = self._rest(root @ latent.swapaxes(1, 2))
        value = self._value(lower, latent, rest)
        if not slope:
            return value, None
        inverse = inverse.reshape(count, self.rank, width, self.rank, width)
        turned = np.tensordot(inverse, self._grams, axes=((1, 3), (1, 2)))  # (m, k, k, n)
        return value, self._pulled(rest) @ latent - np.einsum("mabj,mjb->mja", turned, root)


@dataclass(frozen=True)
class CellsOfKernel(_Cells):
    """log p(Y_obs | Λ) as a function of a root Z of Λ = Z Zᵀ."""

    @property
    def operations(self) -> float:
        """Rough number of floating-point operations of one gradient, for planning."""
        k, r = min(self.width, self.rank), self.rank
        return self.outputs * (4.0 * r * r * k + 4.0 * k**3) + 6.0 * self.features.size + _OVERHEAD

    @property
    def target_moment(self) -> Array:
        """Second moment of the targets along the features, (r, r)."""
        return self._moments.T @ self._moments

    @property
    def gradient_rows(self) -> Array:
        """(τ + H_j)⁻¹ Σ φ_c y_c, (n, r): half their Gram matrix is a part of the gradient at Λ = I."""
        matrix = self._grams + self.noise * np.eye(self.rank)
        return np.asarray(np.linalg.solve(matrix, self._moments[:, :, None])[:, :, 0], float)

    def last_layer(self, root: Array, rng: np.random.Generator) -> Array:
        """Draws of F given the data and roots Z (m, r, k), one each, (m, n, k)."""
        latent, lower, _ = self._regressions(root)
        noise = rng.standard_normal((*latent.shape, 1))
        spread = np.linalg.solve(lower.swapaxes(-1, -2), noise)[..., 0]
        return np.asarray(latent + math.sqrt(self.noise) * spread, float)

    def _floats(self, columns: int) -> int:
        return max(self.features.size, self.outputs * columns * max(columns, self.rank))

    def _of_block(self, root: Array, slope: bool) -> tuple[Array, Array | None]:
        latent, lower, inverse = self._regressions(root)
        rest = self._rest(latent @ root.swapaxes(1, 2))
        value = self._value(lower, latent, rest)
        if not slope:
            return value, None
        seen = self._grams @ root[:, None]  # H_j Z, (m, n, r, k)
        lost = (seen @ inverse).sum(axis=1)
        return value, self._pulled(rest).swapaxes(1, 2) @ latent - lost

    def _regressions(self, root: Array) -> tuple[Array, Array, Array]:
        """Of every output: ζ̂ (m, n, k), a root of M_j = τ I + ZᵀH_jZ, and its inverse, (m, n, k, k)."""
        count, _, width = root.shape
        matrix = root.swapaxes(1, 2)[:, None] @ self._grams @ root[:, None]
        both = _root_and_inverse(matrix.reshape(-1, width, width), self.noise)
        lower, inverse = (each.reshape(count, self.outputs, width, width) for each in both)
        right = self._moments @ root
        return (inverse @ right[..., None])[..., 0], lower, inverse


def _root_and_inverse(matrices: Array, noise: float) -> tuple[Array, Array]:
    """Lower roots and inverses of A + τ I, of matrices A (m, size, size), which are overwritten."""
    index = np.arange(matrices.shape[1])
    matrices[:, index, index] += noise
    lower = lower_roots(matrices, np.full(len(matrices), noise))
    return lower, inverses(lower)
