"""Training rows in the eigenbasis of their Gram matrix."""

from __future__ import annotations

import numpy as np

from lbnn._base.types import Array
from lbnn.data.spectrum import Spectrum


def level_of(spectrum: Spectrum, rows: int) -> Array:
    """The level of rows times √w as a vector of length one, (p,): √w/|√w|."""
    weights = np.ones(rows) if spectrum.weights is None else spectrum.weights
    return np.sqrt(weights / weights.sum())


def example_vectors(spectrum: Spectrum) -> Array:
    """U, the eigenvectors of the Gram matrix over the examples, (p, r), as NumPy."""
    return spectrum.basis.example_vectors(spectrum.eigenvalues)
