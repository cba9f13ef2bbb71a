"""Leave-one-out scores where signal and noise each have a covariance of their own.

Given a draw Σ = M Mᵀ, L = M diag(l) Mᵀ the outputs Y M⁻ᵀ are independent Gaussian processes with noise of
variance one, whose left-out predictions are those of `cross_validation`. Draws are weighted anew for each
example, and the weights smoothed.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import special

from lbnn._base.blocks import blocks
from lbnn._base.types import Array
from lbnn._base.warn import warn_of
from lbnn.cross_validation import LeaveOneOut
from lbnn.cross_validation.averages import Scores, group_error, left_out_log_weights
from lbnn.cross_validation.examples import unseen_part
from lbnn.cross_validation.scores import pareto_messages
from lbnn.data.examples import example_vectors
from lbnn.data.spectrum import Spectrum
from lbnn.scale.draws import Draws


def free_noise_scores(
    spectrum: Spectrum,
    draws: Draws,
    targets: Array,
    *,
    centred: bool,
    matrix: Array,
    offset: Array | float,
    messages: tuple[str, ...],
) -> LeaveOneOut:
    """Scores of targets (p, q), in outputs Y Aᵀ + b."""
    row_weights = np.ones(len(targets)) if spectrum.weights is None else spectrum.weights
    vectors, columns = example_vectors(spectrum), np.sqrt(row_weights)[:, None] * targets
    unseen, rest = unseen_part(spectrum, vectors, columns, centred)
    log_density = np.empty((len(targets), len(draws.weights)))
    residuals = np.empty((len(draws.weights), len(targets), len(matrix)))
    variances = np.empty_like(residuals)
    for block in blocks(len(draws.weights), 4 * targets.size):
        inverse = 1 / (1 + spectrum.eigenvalues[:, None] * draws.ratios[block, None, :])  # (k, r, q)
        back = draws.inverse[block].swapaxes(1, 2)
        precision = vectors**2 @ inverse + unseen[:, None]
        weighted = vectors @ (inverse * (spectrum.targets @ back)) + rest @ back
        residual = weighted / precision
        terms = np.log(precision / (2 * math.pi)) - residual**2 * precision
        log_density[:, block] = (0.5 * terms.sum(axis=2) - draws.log_volumes[block, None]).T
        outward = (matrix @ draws.basis[block]).swapaxes(1, 2)
        residuals[block], variances[block] = residual @ outward, (1 / precision) @ outward**2
    log_weights, shapes = left_out_log_weights(draws, log_density)
    average = special.logsumexp(log_weights + log_density, axis=1)
    weights = np.exp(log_weights)  # (p, m)
    mean = np.einsum("am,mak->ak", weights, residuals)
    spread = np.einsum("am,mak->ak", weights, variances + residuals**2) - mean**2
    shares = np.exp(log_weights + log_density - average[:, None])
    error = group_error(shares - weights, draws.groups)
    scores = Scores(mean, spread, average, error, shapes).of_rows(row_weights, targets.shape[1])
    said = pareto_messages(shapes)
    warn_of(said)
    log_volume = float(np.log(np.linalg.svd(matrix, compute_uv=False)).sum())
    return LeaveOneOut(
        targets @ matrix.T + offset - scores.residual,
        scores.variance,
        scores.residual,
        scores.log_density - log_volume,
        error,
        shapes,
        messages + said,
    )
