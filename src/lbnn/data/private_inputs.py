"""Data in which every example has an input of its own besides the shared ones: the Gram matrix G + ν I.

Noise of the covariance ν L given the scale L is the function of such inputs. The eigenvectors of G stay, with
g + ν in the place of g; the directions outside its range have ν, so that nothing is left to other noise.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lbnn._base.types import Array
from lbnn.data.bases import GramBasis
from lbnn.data.examples import example_vectors, level_of
from lbnn.data.spectrum import Spectrum


def with_private_inputs(spectrum: Spectrum, targets: Array, variance: float, centred: bool) -> Spectrum:
    """The data with the Gram matrix G + ν I, which has full rank over the examples, less their level.

    Parameters
    ----------
    spectrum : Spectrum
        Of rank r.
    targets : (p, n_d)
        Of all rows, as the spectrum has them.
    variance : float
        ν.
    centred : bool
        Whether the level of the rows is left out.
    """
    vectors = example_vectors(spectrum)
    level = level_of(spectrum, len(vectors))[:, None] if centred else np.zeros((len(vectors), 0))
    known = np.hstack([vectors, level])
    others = np.linalg.qr(known, mode="complete")[0][:, known.shape[1] :]
    whole = np.hstack([vectors, others])
    values = np.append(spectrum.eigenvalues + variance, np.full(others.shape[1], variance))
    return replace(
        spectrum,
        eigenvalues=values,
        targets=whole.T @ targets,
        residual=0.0,
        outside=np.zeros((0, targets.shape[1])),
        basis=GramBasis(whole, values),
    )
