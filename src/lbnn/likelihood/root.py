"""log p(Y | L) and its gradient as functions of a root F of the scale, L = F Fᵀ.

A root comes from the factors of the network, F = O T with T = T_d ⋯ T_2 lower trapezoidal in a frame O of the
outputs. L itself is never needed, and a root keeps the digits of directions that L loses. For roots
F (m, n, k), one for each of m draws, every likelihood here has

    log_value(F)            log p(Y | F Fᵀ), (m,), less what does not depend on L
    value_and_gradient(F)   the same and ∂/∂F, (m, n, k)
    in_frame(O)             the same law as a function of T, F = O T; O (n, n), or one for each draw (m, n, n)

- `Gaussian`, noise τ > 0: rows ỹ_i ~ N(0, τ I + g_i A L Aᵀ), A a linear map of the outputs (units, frames).
  For k < n, a layer narrower than the outputs, nothing is computed with n rows and n columns for each draw.
- `Scatter`, τ = 0: the data enter by RᵀR = Σ_i ỹ_i ỹ_iᵀ/g_i alone, and all that is solved is triangular.
  Powers of the diagonal of T make it the density of a matrix generalised inverse Gaussian as well.
- `OfScale`: whatever is known as a function of eigenvalues and eigenvectors of L.

Digits, relative to the largest entry of a gradient, against 60 digits: L over 12 decades in any directions,
2e-12 at τ = 1e-8, 4e-10 at τ = 1e-20; rows of T that rise by 1e6, the order that engines choose, 4e-13;
columns of T that fall by 1e6, 1e-8; narrow roots whose rows differ by 1e6, 2e-4 in the small rows at 1e-12.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from lbnn._base.blocks import blocks
from lbnn._base.small_matrices import gram_eigen
from lbnn._base.types import Array

_COVERED = 1e6  # tr L over what covers its rounding in a Gram matrix: 1e-10 of values, 1e-8 of slopes
_BLOCK = 1 << 15  # floats of one block: elementwise work stays in the cache


class RootLikelihood(ABC):
    """A log likelihood as a function of a root of the scale."""

    @abstractmethod
    def in_frame(self, frame: Array) -> RootLikelihood:
        """The same as a function of T, F = O T, for a frame O (n, n), or one for each draw (m, n, n)."""

    @abstractmethod
    def _evaluate(self, root: Array, slope: bool) -> tuple[Array, Array | None]:
        """Value (m,) and gradient (m, n, k) at roots F (m, n, k); no gradient without `slope`."""

    def log_value(self, root: Array) -> Array:
        """log p(Y | F Fᵀ) at roots F (m, n, k), (m,)."""
        return self._evaluate(root, slope=False)[0]

    def value_and_gradient(self, root: Array) -> tuple[Array, Array]:
        """The value (m,) and its gradient in F (m, n, k)."""
        value, gradient = self._evaluate(root, slope=True)
        assert gradient is not None
        return value, gradient


@dataclass(frozen=True)
class Gaussian(RootLikelihood):
    """Rows ỹ_i ~ N(0, τ I + g_i A F Fᵀ Aᵀ), τ > 0."""

    nodes: Array  # g of the log determinants, (a,) ...
    counts: Array  # ... and how many rows each stands for
    strengths: Array  # g of the targets, (q,)
    targets: Array  # ỹ, (q, n)
    noise: float  # τ
    basis: Array | None = None  # A, (n, n) or (m, n, n); None for the identity

    def in_frame(self, frame: Array) -> Gaussian:
        """With A O for A; where A is the identity, and O one for all (n, n), the targets turn instead."""
        if self.basis is not None:
            return replace(self, basis=self.basis @ frame)
        return replace(self, targets=self.targets @ frame) if frame.ndim == 2 else replace(self, basis=frame)

    def log_value_at(self, eigenvalues: Array, vectors: Array) -> Array:
        """log p(Y | L) at scales V diag(l) Vᵀ, l (m, n), V (m, n, n), (m,)."""
        if self.basis is not None:
            return self.log_value(vectors * np.sqrt(eigenvalues)[:, None, :])
        value = np.empty(len(eigenvalues))
        for block in self._blocks(*vectors.shape):
            value[block] = self._along(vectors[block], eigenvalues[block])[0]
        return value

    def _evaluate(self, root: Array, slope: bool) -> tuple[Array, Array | None]:
        seen = root if self.basis is None else self.basis @ root
        value, gradient = np.empty(len(root)), np.empty_like(root) if slope else None
        for block in self._blocks(*root.shape):
            value[block], part = self._of_block(seen[block], slope)
            if gradient is not None:
                gradient[block] = part
        if gradient is not None and self.basis is not None:
            gradient = self.basis.swapaxes(-1, -2) @ gradient
        return value, gradient

    def target_slopes(self, root: Array, axis: int) -> Array:
        """Σ ỹ ∂/∂ỹ log p = −Σ ỹ (τ + g L)⁻¹ỹ over the rows (axis 1), (m, n), or the outputs (2), (m, q)."""
        seen = root if self.basis is None else self.basis @ root
        sums = []
        for block in blocks(len(root), self.targets.size):
            axes, _, scale = _axes(seen[block], self._resolution)
            turned = self.targets @ axes
            solved = turned / (self.noise + self.strengths[:, None] * scale[:, None, :]) @ axes.swapaxes(1, 2)
            if scale.shape[1] < root.shape[1]:
                solved += (self.targets - turned @ axes.swapaxes(1, 2)) / self.noise
            sums.append(-(self.targets * solved).sum(axis=axis))
        return np.concatenate(sums)

    @property
    def _resolution(self) -> float:
        """τ/g of the strongest row."""
        return self.noise / float(self.nodes.max(initial=np.finfo(float).tiny))

    def _blocks(self, count: int, rows: int, columns: int) -> list[slice]:
        """Of draws, such that the largest array of a block stays in the cache."""
        longest = max(len(self.targets), len(self.nodes), rows, columns)
        return list(blocks(count, longest * min(rows, columns), _BLOCK))

    def _of_block(self, root: Array, slope: bool) -> tuple[Array, Array | None]:
        """Value (m,) and gradient (m, n, k) of one block of roots.

        With F = V B, z = ỹV and D = τ + g l: Vᵀ ∂/∂F = [Σ_i g_i z_i z_iᵀ/(D_i D_i) − diag Σ_i g_i/D_i] B.

        Outside of V, where k < n, rows have the variance τ, and ∂/∂F gains (1 − VVᵀ) ỹᵀ(g z/D)/τ B. No
        derivative of V enters, so that equal eigenvalues are harmless.
        """
        axes, inside, scale = _axes(root, self._resolution)
        value, white, spread = self._along(axes, scale)
        if not slope:
            return value, None
        (count, size, _), width = root.shape, scale.shape[1]
        white *= np.sqrt(self.strengths)[:, None]
        each = white.reshape(-1, count, width).transpose(1, 0, 2)
        inner = each.swapaxes(1, 2) @ each
        pull = (self.counts * self.nodes) @ np.reciprocal(spread, out=spread)
        inner[:, np.arange(width), np.arange(width)] -= pull.reshape(count, width)
        if width == size:
            return value, axes @ (inner @ inside)
        outer = ((np.sqrt(self.strengths) / self.noise)[:, None] * self.targets).T @ white
        outer = outer.reshape(size, count, width).transpose(1, 0, 2)
        return value, (outer + axes @ (inner - axes.swapaxes(1, 2) @ outer)) @ inside

    def _along(self, axes: Array, scale: Array) -> tuple[Array, Array, Array]:
        """The value (m,) at L = V diag(l) Vᵀ, V (m, n, w), l (m, w); z/D (q, m w) and τ + g l (a, m w).

        Arrays over rows have all directions of all draws side by side: few large products.
        """
        (count, size, width), flat = axes.shape, scale.reshape(-1)
        spread = self.noise + self.nodes[:, None] * flat
        variance = spread if self.strengths is self.nodes else self.noise + self.strengths[:, None] * flat
        turned = self.targets @ axes.transpose(1, 0, 2).reshape(size, -1)
        white = turned / variance
        logs = self.counts @ np.log(spread)
        value = (logs + np.einsum("ij,ij->j", turned, white)).reshape(count, width).sum(axis=1)
        if width < size:
            away = self._triangle - (self._triangle @ axes) @ axes.swapaxes(1, 2)
            value += np.einsum("mij,mij->m", away, away) / self.noise
            value += (size - width) * self.counts.sum() * np.log(self.noise)
        return -0.5 * value, white, spread

    @cached_property
    def _triangle(self) -> Array:
        """R with RᵀR = ỹᵀỹ, (≤ n, n): what lies outside of narrow roots is seen through it alone."""
        return np.asarray(np.linalg.qr(self.targets, mode="r"), float)


@dataclass(frozen=True)
class Scatter(RootLikelihood):
    """−Σ_i p_i log T_ii − ½ ‖T⁻¹Rᵀ‖² + constant, where F = T Q, T lower triangular and Q orthonormal rows.

    Without noise all p_i are the number of rows. Where targets of some outputs are zero, see `without`. Of a
    matrix generalised inverse Gaussian RᵀR = Δ, and the p_i are what the law of T leaves of its powers.
    """

    root: Array  # R, (≤ n, n), or one for each draw
    powers: Array  # p, (n,)
    constant: float = 0.0

    @property
    def operations(self) -> float:
        """Rough number of floating-point operations of one gradient, for planning."""
        return 0.0

    @property
    def target_moment(self) -> Array:
        """RᵀR, (n, n)."""
        return self.root.T @ self.root

    def in_frame(self, frame: Array) -> Scatter:
        """With R O for R, (≤ n, n); unequal powers are those of T in the frame in which the law is asked."""
        return replace(self, root=self.root @ frame)

    def without(self, zeros: int) -> Scatter:
        """Times det(C)^{p/2}, C the leading block of L, of outputs (first in this frame) with zero targets.

        Nothing in the data keeps C from singular matrices; det(C)^{−p/2} belongs to the prior, where it only
        takes p degrees of freedom off the first diagonal entries (`ScalePrior._tilted_coordinates`).
        """
        free = np.arange(len(self.powers)) < zeros
        return replace(self, root=np.where(free, 0.0, self.root), powers=np.where(free, 0.0, self.powers))

    def target_slopes(self, root: Array) -> Array:
        """Σ ỹ ∂/∂ỹ log p over the rows, −diag(L⁻¹RᵀR), (m, n)."""
        lower, _ = _triangular(root)
        target = np.broadcast_to(self.root.T, (len(root), *self.root.T.shape))
        return -(target * _solve(lower, _solve(lower, target), transposed=True)).sum(axis=2)

    def log_value_at(self, eigenvalues: Array, vectors: Array) -> Array:
        """The value (m,) at scales V diag(l) Vᵀ, l (m, n), V (m, n, n), where all powers are equal."""
        white = (self.root @ vectors) ** 2 / eigenvalues[:, None, :]
        return self.constant - 0.5 * (np.log(eigenvalues) @ self.powers + white.sum(axis=(1, 2)))

    def _evaluate(self, root: Array, slope: bool) -> tuple[Array, Array | None]:
        """The gradient (m, n, k) is T⁻ᵀ (W Wᵀ − diag p) Q with W = T⁻¹Rᵀ; its lower triangle where F = T.

        −∞, and entries of the gradient that are zero, where T⁻¹ leaves double precision.
        """
        lower, right = _triangular(root)
        target = self.root.swapaxes(-1, -2)
        logs = np.log(np.abs(np.diagonal(lower, axis1=1, axis2=2))) @ self.powers
        with np.errstate(over="ignore", invalid="ignore"):
            white = _solve(lower, np.broadcast_to(target, (len(root), *target.shape[-2:])))
            value = self.constant - logs - 0.5 * np.einsum("mij,mij->m", white, white)
            value[~np.isfinite(value)] = -np.inf
            if not slope:
                return value, None
            inner = white @ white.swapaxes(1, 2)
            index = np.arange(inner.shape[1])
            inner[:, index, index] -= self.powers
            gradient = _solve(lower, inner, transposed=True)
            gradient[~np.isfinite(gradient)] = 0.0
        return value, gradient if right is None else gradient @ right


class ScaleFunction(ABC):
    """A likelihood known as a function of eigenvalues and eigenvectors of L, of rows without common axes.

    `narrow` is the same as a function of a root with few columns, where that is cheaper; `kernel` is one of a
    root of the kernel of the last hidden layer, where there is one.
    """

    flat = False  # the data say something of L, ...
    keeps_from_zero = False  # ... may allow singular L, ...
    multiplicity = 1.0
    units = None
    narrow: RootLikelihood | None = None
    kernel: RootLikelihood | None = None

    @abstractmethod
    def log_value(self, eigenvalues: Array, vectors: Array) -> Array:
        """log p(Y | L), less a constant, at V diag(l) Vᵀ: l (m, n), V (m, n, n) -> (m,)."""

    @abstractmethod
    def value_and_gradient(self, eigenvalues: Array, vectors: Array) -> tuple[Array, Array]:
        """The value (m,) and its gradient in L (m, n, n), symmetric."""

    def in_frame(self, frame: Array) -> RootLikelihood:
        """The same as a function of T, L = O T Tᵀ Oᵀ, for a frame O (n, n), or one for each draw."""
        return OfScale(self, frame) if self.narrow is None else self.narrow.in_frame(frame)


@dataclass(frozen=True)
class OfScale(RootLikelihood):
    """What is known as a function of L."""

    function: ScaleFunction
    frame: Array  # O, (n, n) or (m, n, n)

    def in_frame(self, frame: Array) -> OfScale:
        """With one more turn of the root, (n, n)."""
        return replace(self, frame=self.frame @ frame)

    def _evaluate(self, root: Array, slope: bool) -> tuple[Array, Array | None]:
        """The gradient in F = O T, (m, n, k), is 2 (∂/∂L) F, and that in T is Oᵀ times it."""
        seen = self.frame @ root
        eigen = gram_eigen(seen @ seen.swapaxes(1, 2))
        if not slope:
            return self.function.log_value(*eigen), None
        value, change = self.function.value_and_gradient(*eigen)
        return value, 2 * self.frame.swapaxes(-1, -2) @ (change @ seen)


def _axes(root: Array, resolution: float) -> tuple[Array, Array, Array]:
    """F = V B, V (m, n, w) with orthonormal columns, B (m, w, k), B Bᵀ = diag(l), w = min(n, k); l (m, w).

    From the Gram matrix where the resolution τ/g, or the smallest l_j, covers its rounding ε tr L; else from
    singular values.
    """
    squares = np.einsum("mij,mij->mi", root, root)
    rounded, wide = squares.sum(axis=1) / _COVERED, root.shape[2] >= root.shape[1]
    if wide and (rounded > resolution + squares.min(axis=1)).all():  # no row is below the smallest l_j
        return _from_singular_values(root)
    found = _from_gram(root)
    coarse = rounded > resolution + found[2].min(axis=1)
    if coarse.any():
        for whole, part in zip(found, _from_singular_values(root[coarse]), strict=True):
            whole[coarse] = part
    return found


def _from_gram(root: Array) -> tuple[Array, Array, Array]:
    """V (m, n, w), B and l by `eigh`, of narrow roots after a QR factorisation."""
    frame = None
    if root.shape[2] < root.shape[1]:
        frame, root = np.linalg.qr(root)
    values, axes = np.linalg.eigh(root @ root.swapaxes(1, 2))
    inside = axes.swapaxes(1, 2) @ root
    return axes if frame is None else frame @ axes, inside, np.maximum(values, 0.0)


def _from_singular_values(root: Array) -> tuple[Array, Array, Array]:
    """V (m, n, w), B and l by the SVD: right to ε √(l_1 l_j), to ε l_j where only rows differ in size.

    Rows are sorted for that, the largest first.
    """
    order = np.argsort(-np.einsum("mij,mij->mi", root, root), axis=1)[:, :, None]
    axes, sizes, inside = np.linalg.svd(np.take_along_axis(root, order, axis=1), full_matrices=False)
    result = np.empty_like(axes)
    np.put_along_axis(result, order, axes, axis=1)
    return result, sizes[:, :, None] * inside, sizes**2


def _triangular(root: Array) -> tuple[Array, Array | None]:
    """F = T Q: T (m, n, n) with positive diagonal, Q (m, n, k); no Q, the identity, where F is triangular."""
    rows, columns = root.shape[1:]
    if columns < rows:
        raise ValueError(
            "without noise targets have a density only where no layer is narrower than the outputs, got a "
            f"root of {rows} x {columns}: use a finite beta"
        )
    if rows == columns and not any(root[:, i, i + 1 :].any() for i in range(rows)):
        return root, None
    turn, upper = np.linalg.qr(root.swapaxes(1, 2))
    signs = np.where(np.diagonal(upper, axis1=1, axis2=2) < 0, -1.0, 1.0)
    return (upper * signs[:, :, None]).swapaxes(1, 2), (turn * signs[:, None, :]).swapaxes(1, 2)


def _solve(lower: Array, right: Array, transposed: bool = False) -> Array:
    """T⁻¹R or T⁻ᵀR, T (m, n, n), R (m, n, k), by substitution, which keeps the digits of every row."""
    result, size = np.empty(right.shape), lower.shape[1]
    for i in range(size - 1, -1, -1) if transposed else range(size):
        done = slice(i + 1, size) if transposed else slice(0, i)
        row = lower[:, None, done, i] if transposed else lower[:, i, None, done]
        result[:, i] = (right[:, i] - (row @ result[:, done])[:, 0]) / lower[:, i, i, None]
    return result
