"""Eigenvectors of a Gram matrix, wherever it lives, and the targets along them."""

from __future__ import annotations

import numpy as np

from lbnn._base.arrays import eigh, namespace, place_of, to_numpy, within_memory
from lbnn._base.types import AnyArray, Array
from lbnn.data.bases import GRAM_TOLERANCE
from lbnn.data.projection import positive_eigen


def positive_eigenvectors(
    gram: AnyArray, size: int, name: str, overwrite: bool = False
) -> tuple[Array, AnyArray]:
    """Positive eigenvalues and their eigenvectors, in the memory of a matrix that is ours to overwrite."""
    xp, count = namespace(gram), gram.shape[0]
    if not bool(xp.all(xp.isfinite(gram))):
        raise ValueError(
            f"{name} must be representable in double precision, got values that overflow: rescale X"
        )
    purpose = f"the eigendecomposition of {name} ({count} × {count})"
    values, vectors = within_memory(lambda: eigh(gram, overwrite), place_of(gram), 5.0 * count**2, purpose)
    if values[0] < -GRAM_TOLERANCE * max(values[-1], 0.0):
        raise ValueError(
            f"{name} must be positive semi-definite, got eigenvalues from {values[0]:.3g} to {values[-1]:.3g}"
        )
    return positive_eigen(values, vectors, size)


def rest_of_targets(targets: AnyArray, vectors: AnyArray) -> Array:
    """Y − UUᵀY, (p, n_d), as NumPy; no rows where U is square."""
    if vectors.shape[0] == vectors.shape[1]:
        return np.zeros((0, targets.shape[1]))
    return to_numpy(targets - vectors @ (vectors.T @ targets))
