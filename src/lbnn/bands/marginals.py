"""Distribution functions of the scales and of the noise variance, on demand.

Along one direction log λ_k = u + log τ + log θ_k, with log τ normal given u. Where answers are interpolated
between directions, the distribution functions are those of the fit.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy import special

from lbnn._base.arrays import to_numpy
from lbnn._base.types import Array, IndexArray
from lbnn.bands.block_posterior import BlockPosterior
from lbnn.bands.data import BandKernels, BandTargets
from lbnn.bands.distributions import PLACES
from lbnn.bands.prior import BandPriors
from lbnn.bands.quadrature import Directions


def logs_below(
    kernels: BandKernels,
    targets: BandTargets,
    priors: BandPriors,
    posterior: BlockPosterior,
    scales: Array | None,
    noise: Array | None,
) -> tuple[Array, Array]:
    """P(log λ_k ≤ mean + deviation · z) for z (V, K), and of log τ for z (V,); zeros where z is None."""
    count, bands = posterior.share_mean.shape
    z = np.zeros((count, bands + 1))
    if scales is not None:
        z[:, :bands] = scales
    if noise is not None:
        z[:, bands] = noise
    known = np.isfinite(posterior.log_distribution[:, 0, 0])
    if known.any():  # all of them, or none
        curves = posterior.log_distribution
        found = np.empty_like(z)
        for v, k in np.ndindex(z.shape):
            found[v, k] = np.interp(z[v, k], PLACES, np.maximum.accumulate(curves[v, k]))
        return found[:, :bands], found[:, bands]
    first, second, total = (np.zeros((count, bands + 1)) for _ in range(3))
    for columns, weights, middle, spread in _along(kernels, targets, priors, posterior):
        own = weights[:, None, :] * middle  # (nodes, bands + 1, v)
        first[columns] += own.sum(axis=0).T
        second[columns] += (own * middle + weights[:, None, :] * spread[:, None, :] ** 2).sum(axis=0).T
        total[columns] += weights.sum(axis=0)[:, None]
    mean = first / total
    deviation = np.sqrt(np.maximum(second / total - mean**2, 0.0))
    places, found = mean + deviation * z, np.zeros((count, bands + 1))
    for columns, weights, middle, spread in _along(kernels, targets, priors, posterior):
        away = places[columns].T - middle  # (nodes, bands + 1, v)
        below = special.ndtr(away / np.maximum(spread, 1e-12)[:, None, :])
        found[columns] += (weights[:, None, :] * below).sum(axis=0).T
    found /= total
    return found[:, :bands], found[:, bands]


def _along(
    kernels: BandKernels, targets: BandTargets, priors: BandPriors, posterior: BlockPosterior
) -> Iterator[tuple[IndexArray, Array, Array, Array]]:
    """For every direction: its targets, weights of its nodes (n, v), E[log λ_k, log τ | u] and deviations.

    (n, K + 1, v) and (n, v); in units of the targets.
    """
    directions = Directions(kernels, targets, priors)
    for log_theta, columns, (own, _, _) in posterior.by_direction():
        found = directions.given(directions.line(log_theta), targets.some(columns))
        log_noise, u = to_numpy(found.log_noise(directions.xp)), to_numpy(found.u)
        logs = [u + log_noise + each for each in log_theta]
        mass = to_numpy(found.mass) * own
        yield columns, mass, np.stack([*logs, log_noise], axis=1), to_numpy(found.noise_spread)
