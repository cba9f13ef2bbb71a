"""Column loops over batches of small matrices against NumPy's QR and solve, one matrix at a time."""

from __future__ import annotations

import numpy as np
import pytest

from lbnn._base.small_matrices import (
    inverses,
    lower_factor,
    lower_root,
    lower_roots_and_rows,
    solve_transposed,
    solve_upper,
    triangular_root,
)
from tests.helpers.problems import Array

COUNT = 7
SIZES = [1, 2, 3, 5, 12, 13, 20]  # from 13 columns LAPACK takes over
TALL = [(1, 1), (6, 1), (4, 3), (9, 5), (30, 12), (14, 13), (40, 20)]
TRAPEZOIDS = [(1, 1), (4, 4), (5, 2), (6, 1), (12, 12), (20, 12), (13, 13), (18, 15)]
# backward stable routes differ by rounding times the condition of matrices as below, at most 1e3
RELATIVE = 1e-11


def random_stack(rows: int, columns: int, seed: int) -> Array:
    return np.random.default_rng(seed).standard_normal((COUNT, rows, columns))


def random_triangles(size: int, seed: int) -> Array:
    """Upper triangular, well conditioned, with entries of both signs above the diagonal."""
    upper = np.triu(random_stack(size, size, seed), 1) / np.sqrt(size)
    return upper + np.eye(size) * np.random.default_rng(seed + 1).uniform(0.5, 2.0, (COUNT, 1, size))


def with_positive_diagonal(upper: Array) -> Array:
    return upper * np.where(np.diag(upper) < 0, -1.0, 1.0)[:, None]


@pytest.mark.parametrize(("rows", "columns"), TALL, ids=str)
def test_triangular_root_is_that_of_qr(rows: int, columns: int) -> None:
    stack = random_stack(rows, columns, 1)
    kept = stack.copy()
    root = triangular_root(stack)
    assert root.shape == (COUNT, columns, columns)
    assert (np.tril(root, -1) == 0).all()
    for matrix, found in zip(stack, root, strict=True):
        expected = with_positive_diagonal(np.asarray(np.linalg.qr(matrix, mode="r"), float))
        scale = np.abs(expected).max()
        np.testing.assert_allclose(with_positive_diagonal(found), expected, atol=RELATIVE * scale)
    np.testing.assert_array_equal(stack, kept)


def test_triangular_root_of_ill_conditioned_columns() -> None:
    """Columns that agree to 1e-6: Gram–Schmidt keeps RᵀR to rounding, which normal equations would not."""
    rng = np.random.default_rng(2)
    common = rng.standard_normal((COUNT, 8, 1))
    stack = common + 1e-6 * rng.standard_normal((COUNT, 8, 4))
    root = triangular_root(stack)
    for matrix, found in zip(stack, root, strict=True):
        expected = with_positive_diagonal(np.asarray(np.linalg.qr(matrix, mode="r"), float))
        np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-14 * np.abs(expected).max())


@pytest.mark.parametrize("columns", [3, 14])
def test_roots_of_columns_without_length(columns: int) -> None:
    """A zero column leaves a zero on the diagonal and no NaN."""
    stack = random_stack(columns + 2, columns, 3)
    stack[:, :, 1] = 0.0
    root = triangular_root(stack)
    np.testing.assert_allclose(root.swapaxes(1, 2) @ root, stack.swapaxes(1, 2) @ stack, atol=1e-12)
    assert (np.abs(root[:, 1, 1]) < 1e-14).all()


@pytest.mark.parametrize("size", SIZES)
def test_solves_are_those_of_numpy(size: int) -> None:
    root, rows = random_triangles(size, 4), random_stack(size, 1, 5)[:, :, 0]
    kept = rows.copy()
    upper, transposed = solve_upper(root, rows), solve_transposed(root, rows)
    for index in range(COUNT):
        np.testing.assert_allclose(upper[index], np.linalg.solve(root[index], rows[index]), rtol=RELATIVE)
        expected = np.linalg.solve(root[index].T, rows[index])
        np.testing.assert_allclose(transposed[index], expected, rtol=RELATIVE)
    np.testing.assert_array_equal(rows, kept)


@pytest.mark.parametrize("size", [2, 6, 15])
def test_whitening_by_a_root(size: int) -> None:
    """‖z‖² = r (SᵀS)⁻¹ rᵀ and x = (SᵀS)⁻¹ rᵀ: how the row walk uses the three together."""
    stack, rows = random_stack(size + 3, size, 6), random_stack(size, 1, 7)[:, :, 0]
    root = triangular_root(stack)
    white = solve_transposed(root, rows)
    solution = solve_upper(root, white)
    for index in range(COUNT):
        expected = np.linalg.solve(stack[index].T @ stack[index], rows[index])
        np.testing.assert_allclose(solution[index], expected, rtol=1e-8, atol=1e-10)
        assert white[index] @ white[index] == pytest.approx(rows[index] @ expected, rel=1e-8)


@pytest.mark.parametrize(("rows", "columns"), TRAPEZOIDS, ids=str)
def test_lower_root_is_a_turned_factor(rows: int, columns: int) -> None:
    """Root = T Qᵀ with T lower trapezoidal, positive on its diagonal, and Q orthogonal."""
    root = random_stack(rows, columns, 8)
    total, rotation = lower_root(root)
    assert total.shape == root.shape
    assert (np.triu(total, 1) == 0).all()
    assert (np.diagonal(total, axis1=1, axis2=2) > 0).all()
    np.testing.assert_allclose(total @ rotation.swapaxes(1, 2), root, atol=1e-12)
    identity = np.broadcast_to(np.eye(columns), (COUNT, columns, columns))
    np.testing.assert_allclose(rotation.swapaxes(1, 2) @ rotation, identity, atol=1e-13)


@pytest.mark.parametrize(("rows", "columns"), TRAPEZOIDS, ids=str)
def test_lower_factor_is_unique(rows: int, columns: int) -> None:
    """T of T Tᵀ by Cholesky of the leading block, the rows below by a solve; also from `lower_root`."""
    root = random_stack(rows, columns, 9)
    kept = root.copy()
    found = lower_factor(root)
    np.testing.assert_allclose(found, lower_root(root)[0], atol=1e-11 * np.abs(found).max())
    assert (np.triu(found, 1) == 0).all()
    for matrix, factor in zip(root, found, strict=True):
        gram = matrix @ matrix.T
        leading = np.linalg.cholesky(gram[:columns, :columns])
        below = np.linalg.solve(leading, gram[:columns, columns:]).T
        expected = np.concatenate([leading, below])
        np.testing.assert_allclose(factor, expected, rtol=0, atol=1e-7 * np.abs(gram).max())
    np.testing.assert_array_equal(root, kept)


def test_lower_factor_of_a_lower_factor_is_itself() -> None:
    factor = np.tril(random_stack(6, 4, 10))
    diagonal = np.arange(4)
    factor[:, diagonal, diagonal] = np.abs(factor[:, diagonal, diagonal])
    np.testing.assert_allclose(lower_factor(factor), factor, atol=1e-13)


def test_lower_factor_of_a_row_without_length() -> None:
    """A dead output has a zero on the diagonal and no NaN: its log is −inf, and densities leave it out."""
    root = random_stack(3, 3, 11)
    root[:, 1] = 0.0
    factor = lower_factor(root)
    np.testing.assert_allclose(factor @ factor.swapaxes(1, 2), root @ root.swapaxes(1, 2), atol=1e-13)
    assert (factor[:, 1, 1] == 0).all()


@pytest.mark.parametrize("solve", [solve_upper, solve_transposed])
def test_large_singular_roots_are_refused(solve):
    """LAPACK leaves the right-hand side as it was, which would pass for a solution."""
    root = np.eye(20)[None].copy()
    root[0, 5, 5] = 0.0
    with pytest.raises(np.linalg.LinAlgError):
        solve(root, np.ones((1, 20)))


def test_inverses_of_singular_roots_are_nan_and_leave_the_others() -> None:
    for size in (3, 60):  # NumPy's batches, LAPACK one by one
        roots = np.tril(np.ones((3, size, size))) + np.eye(size)
        roots[1, 1, 1], roots[2, 0, 0] = 0.0, np.nan
        found = inverses(roots)
        assert np.allclose(found[0] @ roots[0] @ roots[0].T, np.eye(size), atol=1e-8)
        assert np.isnan(found[1:]).all()


def test_inverses_beyond_the_range_of_doubles_are_not_finite_and_leave_the_others() -> None:
    """NumPy's inverse exchanges rows and then reports that such a root is singular, for the whole batch."""
    roots = np.array([[[1e-170, 0.0], [1.0, 1e-170]], [[2.0, 0.0], [0.0, 1.0]]])
    found = inverses(roots)
    assert not np.isfinite(found[0]).all()
    assert np.allclose(found[1], np.diag([0.25, 1.0]))


@pytest.mark.parametrize("size", [3, 60])  # NumPy's batches, LAPACK one by one
@pytest.mark.parametrize("broken", [False, True])
def test_lower_roots_and_rows_of_each_matrix_alone(size: int, broken: bool) -> None:
    """One that rounding has left indefinite, and one that is not finite, leave the others as they are."""
    stack = random_stack(size + 2, size, 12)
    grams, rng = stack.swapaxes(1, 2) @ stack, np.random.default_rng(0)
    rows = rng.normal(size=(COUNT, size))
    if broken:
        grams[0] = np.outer(rows[0], rows[0])
        grams[0, 0, 0] -= 1e-9
        grams[1, 0, 0] = np.nan
    matrices = np.full((COUNT, size + 1, size + 1), np.nan)  # what is above the diagonal is not read
    lower = np.tril_indices(size)
    matrices[:, *lower], matrices[:, size, :size] = grams[:, *lower], rows
    roots, white = lower_roots_and_rows(matrices, np.full(COUNT, 1e-6))
    for number in range(2 * broken, COUNT):
        expected = np.linalg.cholesky(grams[number])
        np.testing.assert_allclose(roots[number], expected, rtol=0, atol=1e-10 * np.abs(expected).max())
        np.testing.assert_allclose(expected @ white[number], rows[number], rtol=0, atol=1e-6)
    if broken:
        assert np.linalg.eigvalsh(roots[0] @ roots[0].T)[0] >= 0.9e-6
        np.testing.assert_allclose(roots[0] @ white[0], rows[0], rtol=0, atol=1e-6)
        assert not np.isfinite(white[1]).any()
