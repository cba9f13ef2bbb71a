"""Batches of small matrices, one column at a time for the whole batch.

LAPACK takes microseconds a matrix for its bookkeeping; for thousands of matrices of a few columns a loop over
columns in NumPy is ten times faster.
"""

from __future__ import annotations

import contextlib

import numpy as np
from scipy.linalg import lapack, solve_triangular

from lbnn._base.types import Array

_LARGEST = 12  # columns from which LAPACK wins
_CORNER = 1e300  # larger than any vᵀA⁻¹v
_LAPACK_FROM = 48  # rows from which one matrix after the other beats NumPy's batches
_TINY = float(np.finfo(float).eps) ** 2


def triangular_root(stack: Array) -> Array:
    """R upper triangular with RᵀR = stackᵀ stack, (m, w, w), from stack (m, k, w): modified Gram–Schmidt."""
    width = stack.shape[2]
    if width > _LARGEST:
        return np.asarray(np.linalg.qr(stack, mode="r"), float)
    rest = stack.copy()
    root = np.zeros((len(stack), width, width))
    for j in range(width):
        column = rest[:, :, j]
        size = np.sqrt((column**2).sum(axis=1))
        root[:, j, j] = size
        if j + 1 < width:
            unit = column / np.where(size > 0, size, 1.0)[:, None]
            share = (unit[:, None, :] @ rest[:, :, j + 1 :])[:, 0]
            root[:, j, j + 1 :] = share
            rest[:, :, j + 1 :] -= unit[:, :, None] * share[:, None, :]
    return root


def solve_transposed(root: Array, rows: Array) -> Array:
    """z with Rᵀ z = row, (m, w), for upper triangular R (m, w, w)."""
    if root.shape[1] > _LARGEST:
        return _each_by_lapack(root, rows, transposed=True)
    result = np.empty_like(rows)
    for j in range(rows.shape[1]):
        known = (root[:, :j, j] * result[:, :j]).sum(axis=1)
        result[:, j] = (rows[:, j] - known) / root[:, j, j]
    return result


def solve_upper(root: Array, rows: Array) -> Array:
    """z with R z = row, (m, w), for upper triangular R (m, w, w)."""
    if root.shape[1] > _LARGEST:
        return _each_by_lapack(root, rows, transposed=False)
    result = np.empty_like(rows)
    for j in range(rows.shape[1] - 1, -1, -1):
        known = (root[:, j, j + 1 :] * result[:, j + 1 :]).sum(axis=1)
        result[:, j] = (rows[:, j] - known) / root[:, j, j]
    return result


def solve_lower(lower: Array, right: Array) -> Array:
    """Z with R Z = right, (m, w, k), for lower triangular R (m, w, w) of few rows."""
    result = np.empty_like(right)
    for j in range(right.shape[1]):
        known = (lower[:, j, None, :j] @ result[:, :j])[:, 0] if j else 0.0
        result[:, j] = (right[:, j] - known) / lower[:, j, j, None]
    return result


def solve_lower_transposed(lower: Array, right: Array) -> Array:
    """Z with Rᵀ Z = right, (m, w, k), for lower triangular R (m, w, w) of few rows."""
    result, width = np.empty_like(right), right.shape[1]
    for j in range(width - 1, -1, -1):
        known = (lower[:, None, j + 1 :, j] @ result[:, j + 1 :])[:, 0] if j + 1 < width else 0.0
        result[:, j] = (right[:, j] - known) / lower[:, j, j, None]
    return result


def _each_by_lapack(root: Array, rows: Array, transposed: bool) -> Array:
    """Solutions (m, n) of Rᵀ z = row or R z = row, roots (m, n, n), rows (m, n), each by LAPACK."""
    pairs = zip(root, rows, strict=True)
    solved = [lapack.dtrtrs(each.T, row, lower=1, trans=not transposed) for each, row in pairs]
    if any(info for _, info in solved):  # LAPACK then leaves the right-hand side as it was
        raise np.linalg.LinAlgError("Singular matrix")
    return np.stack([solution for solution, _ in solved])


def lower_root(root: Array) -> tuple[Array, Array]:
    """(T, Q) with root = T Qᵀ, T lower trapezoidal with positive diagonal: root (m, n, r), Q (m, r, r)."""
    columns = root.shape[2]
    rotation, upper = np.linalg.qr(root[:, :columns].swapaxes(1, 2))
    signs = np.where(np.diagonal(upper, axis1=1, axis2=2) < 0, -1.0, 1.0)
    rotation = np.asarray(rotation * signs[:, None, :], float)
    return np.tril(root @ rotation), rotation


def lower_factor(root: Array) -> Array:
    """T of `lower_root` alone, (m, n, r): the coefficients of Gram–Schmidt on the rows of root."""
    rows, columns = root.shape[1:]
    if columns > _LARGEST:
        return lower_root(root)[0]
    rest = root.copy()
    result = np.zeros_like(root)
    for j in range(columns):
        size = np.sqrt((rest[:, j] ** 2).sum(axis=1))
        result[:, j, j] = size
        if j + 1 < rows:
            unit = rest[:, j] / np.where(size > 0, size, 1.0)[:, None]
            share = (rest[:, j + 1 :] @ unit[:, :, None])[:, :, 0]
            result[:, j + 1 :, j] = share
            rest[:, j + 1 :] -= share[:, :, None] * unit[:, None, :]
    return result


def gram_eigen(grams: Array) -> tuple[Array, Array]:
    """Eigenvalues (m, w) and eigenvectors of Gram matrices (m, w, w).

    Eigenvalues that rounding made zero or negative are kept just above zero.
    """
    values, vectors = np.linalg.eigh(grams)
    return np.maximum(values, _TINY * values[:, -1:]), vectors


def one_sign(axes: Array) -> Array:
    """Axes (n, k), the largest entry of each positive: one sign for each, however the last digits fall."""
    signs = np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(axes.shape[1])])
    return np.asarray(axes * signs, float)


def lower_roots(matrices: Array, floors: Array) -> Array:
    """Cholesky factors (m, n, n) of symmetric matrices with eigenvalues known to be at least floors (m,).

    Only lower triangles are read. Where rounding has left a matrix indefinite its eigenvalues are raised to
    the floor; NaN where it is not finite or beyond double precision.
    """
    try:
        return np.asarray(np.linalg.cholesky(matrices), float)
    except np.linalg.LinAlgError:
        return np.stack([_raised_root(*each) for each in zip(matrices, floors, strict=True)])


def lower_roots_and_rows(matrices: Array, floors: Array) -> tuple[Array, Array]:
    """Lower roots R (m, n, n) of the leading blocks of symmetric matrices (m, n + 1, n + 1), and R⁻¹v (m, n).

    v is the last row, which is whitened by the factorisation itself. Its last entry is without meaning. The
    roots are written over the matrices: fresh memory for them would cost as much as the factorisations.
    Eigenvalues as in `lower_roots`.
    """
    size = matrices.shape[1] - 1
    matrices[:, size, size] = _CORNER
    if size < _LAPACK_FROM:
        with contextlib.suppress(np.linalg.LinAlgError):
            matrices[:] = np.linalg.cholesky(matrices)
            return matrices[:, :size, :size], matrices[:, size, :size]
    for matrix, floor in zip(matrices, floors, strict=True):
        root, failed = lapack.dpotrf(matrix.T, lower=0)  # of a copy: if it fails the matrix is still there
        if failed:
            block = _raised_root(matrix[:size, :size], float(floor))
            regular = np.isfinite(block[-1]).all()
            white = (
                solve_triangular(block, matrix[size, :size], lower=True, check_finite=False)
                if regular
                else np.nan
            )
            matrix[:size, :size], matrix[size, :size] = block, white
        else:
            matrix[:] = root.T
    return matrices[:, :size, :size], matrices[:, size, :size]


def _raised_root(matrix: Array, floor: float) -> Array:
    """The Cholesky factor of one matrix (n, n), its eigenvalues raised to the floor if need be."""
    try:
        return np.asarray(np.linalg.cholesky(matrix), float)
    except np.linalg.LinAlgError:
        if not np.isfinite(np.tril(matrix)).all():
            return np.full_like(matrix, np.nan)
        values, vectors = np.linalg.eigh(matrix)
        root = np.sqrt(np.maximum(values, floor))[:, None] * vectors.T
        upper = np.asarray(np.linalg.qr(root, mode="r"), float)
        signs = np.sign(np.diagonal(upper))  # zero where eigenvalues differ by more than double precision has
        return np.asarray(upper.T * np.where(signs == 0, np.nan, signs))


def inverses(lower: Array) -> Array:
    """(R Rᵀ)⁻¹ of lower roots R (m, n, n); NaN where a root is singular or not finite."""
    diagonal = np.diagonal(lower, axis1=1, axis2=2)
    regular = np.all((diagonal > 0) & (diagonal < np.inf), axis=1)
    if not regular.all():
        result = np.full_like(lower, np.nan)
        result[regular] = inverses(lower[regular])
        return result
    if lower.shape[1] < _LAPACK_FROM:
        try:
            inverse = np.linalg.inv(lower)
            return np.asarray(inverse.swapaxes(1, 2) @ inverse)
        except np.linalg.LinAlgError:
            pass  # it exchanges rows, and finds roots singular whose inverse is beyond the range of doubles
    result = np.empty_like(lower)
    for number, root in enumerate(lower):
        own = lapack.dpotri(root.T, lower=0)[0].T  # the lower triangle, without a copy
        result[number] = np.tril(own) + np.tril(own, -1).T
    return result
