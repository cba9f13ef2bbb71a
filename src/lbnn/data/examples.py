"""Training rows in the eigenbasis of their Gram matrix."""

from __future__ import annotations

import numpy as np

from lbnn._base.arrays import to_numpy
from lbnn._base.types import Array
from lbnn.data.bases import GramBasis
from lbnn.data.projection import InputDirections
from lbnn.data.spectrum import Spectrum


def level_of(spectrum: Spectrum, rows: int) -> Array:
    """The level of rows times √w as a vector of length one, (p,): √w/|√w|."""
    weights = np.ones(rows) if spectrum.weights is None else spectrum.weights
    return np.sqrt(weights / weights.sum())


def example_vectors(spectrum: Spectrum) -> Array:
    """U, the eigenvectors of the Gram matrix over the examples, (p, r), as NumPy."""
    basis = spectrum.basis
    if isinstance(basis, GramBasis):
        return to_numpy(basis.vectors)
    if isinstance(basis.directions, InputDirections):  # XXᵀ u would lose directions of small g to rounding
        combination = to_numpy(basis.directions.combination)
        return combination / np.linalg.norm(combination, axis=0)
    vectors = to_numpy(basis.training().explained)  # a new array
    vectors /= np.sqrt(spectrum.eigenvalues)
    return vectors
