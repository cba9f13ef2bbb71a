"""Noise that passes through the network: its covariance across outputs is learned with the scale.

Give every example a private input, orthogonal to all others: the Gram matrix becomes G + ν I, and given L the
targets are MN(0, G + ν I, L), function and noise ν L together. This is the zero-temperature problem of a
network on a nonsingular Gram matrix. Of the data its likelihood needs the scatter S = Yᵀ(G + ν I)⁻¹Y alone:

    log p(Y | L) = −½ tr L⁻¹S − ½ p log det L − ½ n_d log det(G + ν I) + constant,

so that it is written with n_d rows R, RᵀR = S, in the place of p: rows √ḡ R with eigenvalues ḡ, the geometric
mean of those of G + ν I, each row standing for p/n_d directions.
"""

from __future__ import annotations

import math

import numpy as np

from lbnn._base.types import Array
from lbnn.data.bases import PrivateBasis
from lbnn.data.spectrum import Spectrum
from lbnn.likelihood.gaussian import LikelihoodFactor


def scatter_root(spectrum: Spectrum) -> Array:
    """R with RᵀR = Yᵀ(G + ν I)⁻¹Y, (n_d, n_d), for data with private inputs."""
    basis = spectrum.basis
    assert isinstance(basis, PrivateBasis)
    inside = spectrum.targets / np.sqrt(spectrum.eigenvalues)[:, None]
    outside = basis.outside / math.sqrt(basis.private)
    return np.asarray(np.linalg.qr(np.concatenate([inside, outside]), mode="r"), float)


def scatter_factor(spectrum: Spectrum) -> LikelihoodFactor:
    """log p(Y | L) of data with private inputs, from n_d rows."""
    basis, root = spectrum.basis, scatter_root(spectrum)
    assert isinstance(basis, PrivateBasis)
    unseen = spectrum.examples - spectrum.rank
    log_mean = (np.log(spectrum.eigenvalues).sum() + unseen * math.log(basis.private)) / spectrum.examples
    values = np.full(len(root), math.exp(log_mean))
    return LikelihoodFactor(
        values, np.sqrt(values)[:, None] * root, 0.0, spectrum.examples, 0.0, spectrum.examples / len(root)
    )
