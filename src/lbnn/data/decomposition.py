"""Eigenvectors of a Gram matrix or singular vectors of the inputs, in any library.

Eigenvalues g of XXᵀ/n0 (or XᵀX/n0) are known to ε g_max: those of small singular values σ = √(n0 g) lose
(σ_max/σ)² times the rounding, where the singular values themselves lose σ_max/σ. So a Gram matrix is
decomposed only while its eigenvalues differ by a factor of `WELL_CONDITIONED` at most, else the inputs are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lbnn._base.arrays import (
    device_of,
    eigh,
    like,
    namespace,
    row_sizes,
    svd,
    take,
    to_numpy,
    with_columns,
    within_memory,
)
from lbnn._base.types import AnyArray, Array
from lbnn.data.bases import GRAM_TOLERANCE
from lbnn.data.projection import RANK_TOLERANCE, positive_eigen, positive_part

#: Ratio of the eigenvalues of a Gram matrix up to which they stand for singular values: each is then known to
#: 1e4 ε = 2e-12 of itself. Gaussian inputs keep it while p and n0 differ by 4% (2000 × 2080) or more.
WELL_CONDITIONED = 1e4


#: From this size of the smaller side on, and while no more than a quarter of the eigenvalues is too small for
#: the Gram matrix, its eigenvectors stand for the others: a whole singular value decomposition takes three to
#: four times as long as Gram matrix and `eigh` with NumPy, and fifteen times on a GPU.
_LARGE = 200
_FEW = 0.25
#: Ratio of the sizes of rows or columns beyond which singular values may be small because rows or columns
#: are, and are better known than to ε σ_max: sums with larger rows would lose that.
_SIMILAR = 1e3


def positive_eigenvectors(
    gram: AnyArray, size: int, name: str, overwrite: bool = False, scale: float = 0.0
) -> tuple[Array, AnyArray]:
    """Positive eigenvalues (r,) and eigenvectors (n, r) of gram (n, n), which may be overwritten.

    Entries that are differences of numbers as large as `scale` have the rounding of these.
    """
    values, vectors = _semidefinite_eigh(gram, name, overwrite, scale)
    return positive_eigen(values, vectors, size, scale)


def _semidefinite_eigh(
    gram: AnyArray, name: str, overwrite: bool, scale: float = 0.0
) -> tuple[Array, AnyArray]:
    """All eigenvalues (n,), ascending, and eigenvectors (n, n); none negative but for rounding."""
    count = gram.shape[0]
    purpose = f"the eigendecomposition of {name} ({count} × {count})"
    values, vectors = within_memory(lambda: eigh(gram, overwrite), device_of(gram), 5.0 * count**2, purpose)
    # four roundings of entries of size `scale`: two of the kernel, two of the differences
    if values[0] < -GRAM_TOLERANCE * max(values[-1], 0.0) - 4 * RANK_TOLERANCE * count * scale:
        raise ValueError(
            f"{name} must be positive semi-definite, got eigenvalues from {values[0]:.3g} to {values[-1]:.3g}"
        )
    return values, vectors


@dataclass(frozen=True)
class SmallerSide:
    """Eigenvectors of the Gram matrix of the smaller side of X: XXᵀ/n0 for p ≤ n0, else XᵀX/n0."""

    eigenvalues: Array  # ascending, those of rounding too, (k,)
    vectors: AnyArray  # (k, k)

    @classmethod
    def of(cls, X: AnyArray) -> SmallerSide:
        """Of X (p, n0), by one product and one `eigh`."""
        wide = X.shape[0] <= X.shape[1]
        gram = X @ X.T if wide else X.T @ X
        gram /= X.shape[1]
        return cls(*_semidefinite_eigh(gram, "XXᵀ/n0" if wide else "XᵀX/n0", overwrite=True))

    @property
    def weak(self) -> int:
        """Number of the eigenvalues, the first ones, that are too small to be known from the Gram matrix."""
        return int(
            (self.eigenvalues * WELL_CONDITIONED < max(self.eigenvalues[-1], np.finfo(float).tiny)).sum()
        )


def singular_vectors(
    X: AnyArray, size: int, side: SmallerSide | None = None
) -> tuple[Array, AnyArray, AnyArray]:
    """X = U diag(σ) Vᵀ for X (p, n0): positive σ (r,), ascending, U (p, r), V (n0, r).

    `size` is that of the rank decision. For large X the eigenvectors of `side` are used.
    """
    examples, dimension = X.shape
    floats = 4.0 * examples * dimension + 6.0 * min(examples, dimension) ** 2
    purpose = f"the singular value decomposition of X ({examples} × {dimension})"
    left, values, right = within_memory(lambda: _svd(X, side), device_of(X), floats, purpose)
    first = len(values) - int(positive_part(values, size).sum())
    return values[first:], left[:, first:], right[:, first:]


def _svd(X: AnyArray, side: SmallerSide | None) -> tuple[AnyArray, Array, AnyArray]:
    """U (p, k), σ (k,) and V (n0, k) of X (p, n0) with σ ascending, by one of two ways."""
    if side is None or len(side.eigenvalues) < _LARGE or side.weak > _FEW * len(side.eigenvalues):
        return _sorted_svd(X)
    if not (_of_similar_size(X) and _of_similar_size(X.T)):
        return _sorted_svd(X)
    if X.shape[0] <= X.shape[1]:
        return _completed_svd(X, side)
    right, values, left = _completed_svd(X.T, side, 1 / X.shape[1])
    return left, values, right


def _of_similar_size(rows: AnyArray) -> bool:
    """Whether the largest entries of the rows of a matrix (m, n) are within a factor of each other."""
    sizes = row_sizes(rows)
    return bool(sizes.max() <= _SIMILAR * sizes[sizes > 0].min(initial=np.inf))


def _sorted_svd(X: AnyArray) -> tuple[AnyArray, Array, AnyArray]:
    """U (p, k), σ (k,), V (n0, k) from the QR decomposition of X (p, n0), rows and columns sorted by size.

    So singular values that are small because rows or columns are (in other units, say) keep all of their
    digits, as Jacobi's method would keep them (Higham 2000, "QR factorization with complete pivoting and
    accurate computation of the SVD"); the others are known to ε σ_max.
    """
    if X.shape[0] < X.shape[1]:
        right, values, left = _sorted_svd(X.T)
        return left, values, right
    rows, columns = (np.argsort(-row_sizes(each), kind="stable") for each in (X, X.T))
    orthonormal, triangle = namespace(X).linalg.qr(take(take(X, rows, axis=0), columns, axis=1))
    inner, sizes, outer = svd(triangle.T)  # R = outerᵀ diag(σ) innerᵀ
    ascending = np.arange(len(columns))[::-1]
    left = take(take(orthonormal @ outer.T, np.argsort(rows), axis=0), ascending, axis=1)
    right = take(take(inner, np.argsort(columns), axis=0), ascending, axis=1)
    return left, sizes[::-1], right


def _completed_svd(
    X: AnyArray, side: SmallerSide, scale: float | None = None
) -> tuple[AnyArray, Array, AnyArray]:
    """U (p, p), σ (p,), V (n0, p) for p ≤ n0: strong eigenvectors U₁ of XXᵀ, and an SVD of the rest of X.

    With V₁ = XᵀU₁ diag(1/σ₁) the rows B = U₂ᵀX of the weak ones, made orthogonal to V₁, are as good as X:
    their error is ε σ_max, where that of the weak eigenvalues is ε σ_max². What B loses to V₁ turns U₁ and U₂
    by θ = B V₁ diag(1/σ₁), of the size of rounding times `WELL_CONDITIONED`. `scale` is 1/n0 of the data.
    NumPy's eigenvectors are overwritten: memory is scarce.
    """
    weak = side.weak
    sizes = np.sqrt(side.eigenvalues[weak:] * (X.shape[1] if scale is None else 1 / scale))  # σ₁
    products = X.T @ side.vectors  # XᵀU
    rest = products[:, :weak].T + 0.0  # B
    products /= like(np.concatenate([np.ones(weak), sizes]), X)
    right = products[:, weak:]  # V₁
    along = rest @ right
    turn = along / like(sizes, X)  # θ
    inner, values, outer = _sorted_svd(rest - along @ right.T)
    outer = outer - right @ (right.T @ outer)  # again, for the directions of the smallest values
    others, strong = side.vectors[:, :weak], side.vectors[:, weak:]
    turned = (others - strong @ turn.T) @ inner
    left = with_columns(side.vectors, turned, strong + others @ turn)
    return left, np.concatenate([values, sizes]), with_columns(products, outer, right)


def rest_of_targets(targets: AnyArray, vectors: AnyArray) -> Array:
    """Y − UUᵀY, (p, n_d), as NumPy; no rows where U is square."""
    if vectors.shape[0] == vectors.shape[1]:
        return np.zeros((0, targets.shape[1]))
    return to_numpy(targets - vectors @ (vectors.T @ targets))
