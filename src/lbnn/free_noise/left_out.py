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
from lbnn.cross_validation.averages import left_out_log_weights
from lbnn.cross_validation.scores import pareto_messages
from lbnn.data.examples import example_vectors
from lbnn.data.spectrum import Spectrum
from lbnn.scale.signal_noise import SignalNoiseDraws


def free_noise_scores(
    spectrum: Spectrum,
    draws: SignalNoiseDraws,
    targets: Array,
    *,
    centred: bool,
    matrix: Array,
    offset: Array | float,
    messages: tuple[str, ...],
) -> LeaveOneOut:
    """Scores of targets (p, q), in outputs Y Aᵀ + b."""
    vectors = example_vectors(spectrum)
    rest = targets - vectors @ (vectors.T @ targets)
    unseen = 1 - (vectors**2).sum(axis=1)
    if centred:
        rest, unseen = rest - rest.mean(axis=0), unseen - 1 / len(targets)
    unseen = np.where(unseen > 1e-10, unseen, 0.0)
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
    said = pareto_messages(shapes)
    warn_of(said)
    log_volume = float(np.log(np.linalg.svd(matrix, compute_uv=False)).sum())
    return LeaveOneOut(
        targets @ matrix.T + offset - mean,
        spread,
        mean,
        average - log_volume,
        _group_error(shares - weights, draws),
        shapes,
        messages + said,
    )


def _group_error(terms: Array, draws: SignalNoiseDraws) -> Array:
    """Standard error of sums of terms (p, m) of mean zero, from the spread of independent groups, (p,)."""
    labels, index = np.unique(draws.groups, return_inverse=True)
    if len(labels) < 2:
        return np.zeros(len(terms))
    parts = terms @ (index[:, None] == np.arange(len(labels)))
    return np.asarray(np.sqrt((parts**2).sum(axis=1) * len(labels) / (len(labels) - 1)))
