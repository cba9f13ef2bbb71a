"""Eigenvectors of a Gram matrix or singular vectors of the inputs, wherever they live.

Eigenvalues g of XXᵀ/n0 (or XᵀX/n0) are known to ε g_max: those of small singular values σ = √(n0 g) lose
(σ_max/σ)² times the rounding, where the singular values themselves lose σ_max/σ. So a Gram matrix is
decomposed only while its eigenvalues differ by a factor of `WELL_CONDITIONED` at most, else the inputs are.
"""

from __future__ import annotations

import numpy as np

from lbnn._base.arrays import eigh, namespace, place_of, row_sizes, take, to_numpy, within_memory
from lbnn._base.types import AnyArray, Array
from lbnn.data.bases import GRAM_TOLERANCE
from lbnn.data.projection import positive_eigen, positive_part

#: Ratio of the eigenvalues of a Gram matrix up to which they stand for singular values: each is then known to
#: 1e4 ε = 2e-12 of itself. Gaussian inputs keep it while p and n0 differ by 4% (2000 × 2080) or more.
WELL_CONDITIONED = 1e4


def positive_eigenvectors(
    gram: AnyArray, size: int, name: str, overwrite: bool = False
) -> tuple[Array, AnyArray]:
    """Positive eigenvalues and their eigenvectors, in the memory of a matrix that is ours to overwrite."""
    count = gram.shape[0]
    purpose = f"the eigendecomposition of {name} ({count} × {count})"
    values, vectors = within_memory(lambda: eigh(gram, overwrite), place_of(gram), 5.0 * count**2, purpose)
    if values[0] < -GRAM_TOLERANCE * max(values[-1], 0.0):
        raise ValueError(
            f"{name} must be positive semi-definite, got eigenvalues from {values[0]:.3g} to {values[-1]:.3g}"
        )
    return positive_eigen(values, vectors, size)


def well_conditioned(eigenvalues: Array, directions: int) -> bool:
    """Whether the positive eigenvalues, ascending, are as many as the directions and of similar size."""
    return len(eigenvalues) == directions and eigenvalues[-1] <= WELL_CONDITIONED * eigenvalues[0]


def singular_vectors(X: AnyArray, size: int) -> tuple[Array, AnyArray, AnyArray]:
    """X = U diag(σ) Vᵀ for X (p, n0): σ (r,), ascending, of those that count as positive, U (p, r), V (n0, r).

    Rows and columns are sorted by size before a QR decomposition, and the singular values are those of Rᵀ:
    then singular values that are small because rows or columns are (in other units, say) keep all of their
    digits, as Jacobi's method would keep them (Higham 2000, "QR factorization with complete pivoting and
    accurate computation of the SVD"); the others are known to ε σ_max. `size` is that of the rank decision.
    """
    examples, dimension = X.shape
    floats = 4.0 * examples * dimension + 6.0 * min(examples, dimension) ** 2
    purpose = f"the singular value decomposition of X ({examples} × {dimension})"
    left, values, right = within_memory(lambda: _sorted_svd(X), place_of(X), floats, purpose)
    first = len(values) - int(positive_part(values, size).sum())
    return values[first:], left[:, first:], right[:, first:]


def _sorted_svd(X: AnyArray) -> tuple[AnyArray, Array, AnyArray]:
    """U, σ and V with σ ascending."""
    if X.shape[0] < X.shape[1]:
        right, values, left = _sorted_svd(X.T)
        return left, values, right
    xp = namespace(X)
    rows, columns = (np.argsort(-row_sizes(each), kind="stable") for each in (X, X.T))
    orthonormal, triangle = xp.linalg.qr(take(take(X, rows, axis=0), columns, axis=1))
    inner, sizes, outer = xp.linalg.svd(triangle.T, full_matrices=False)  # R = outerᵀ diag(σ) innerᵀ
    ascending = np.arange(len(columns))[::-1]
    left = take(take(orthonormal @ outer.T, np.argsort(rows), axis=0), ascending, axis=1)
    right = take(take(inner, np.argsort(columns), axis=0), ascending, axis=1)
    return left, to_numpy(sizes)[::-1], right


def rest_of_targets(targets: AnyArray, vectors: AnyArray) -> Array:
    """Y − UUᵀY, (p, n_d), as NumPy; no rows where U is square."""
    if vectors.shape[0] == vectors.shape[1]:
        return np.zeros((0, targets.shape[1]))
    return to_numpy(targets - vectors @ (vectors.T @ targets))
