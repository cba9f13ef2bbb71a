"""How much of each output is signal, and how outputs correlate, from the draws of all models of a fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lbnn._base.blocks import blocks
from lbnn._base.types import Array
from lbnn.estimator.model import FittedModel

INTERVAL = 0.9  # probability of the interval of the share of the signal


@dataclass(frozen=True)
class Shares:
    """Share of the signal of each output, and correlations across outputs.

    Attributes
    ----------
    share : (n_d,)
        Posterior mean of signal variance/(signal + noise variance) at a typical training row.
    interval : (n_d, 2)
        Equal-tailed, of probability 0.9.
    signal_correlation, noise_correlation : (n_d, n_d)
        Posterior means.
    signal_correlation_error, noise_correlation_error : (n_d, n_d)
        Posterior standard deviations.
    """

    share: Array
    interval: Array
    signal_correlation: Array
    signal_correlation_error: Array
    noise_correlation: Array
    noise_correlation_error: Array


def shares(models: Sequence[FittedModel], weights: Array) -> Shares:
    """Of the mixture of models."""
    parts = [model.covariance_draws() for model in models]
    mass = np.concatenate([share * part[0] for share, part in zip(weights, parts, strict=True)])
    signal, noise = (np.concatenate([part[k] for part in parts]) for k in (1, 2))
    signals, noises = (np.diagonal(each, axis1=1, axis2=2) for each in (signal, noise))
    with np.errstate(invalid="ignore"):
        share = np.nan_to_num(signals / (signals + noises))
    tail = (1 - INTERVAL) / 2
    interval = np.stack([_quantiles(column, mass, (tail, 1 - tail)) for column in share.T])
    return Shares(mass @ share, interval, *_correlations(signal, mass), *_correlations(noise, mass))


def _correlations(covariances: Array, mass: Array) -> tuple[Array, Array]:
    """Mean and standard deviation of correlations, (n_d, n_d) each; zero beside an output without variance.

    In blocks of draws: 200 outputs have 300 MB of them.
    """
    deviations = np.sqrt(np.diagonal(covariances, axis1=1, axis2=2))
    inverse = np.divide(1.0, deviations, out=np.zeros_like(deviations), where=deviations > 0)
    mean, square = np.zeros((2, *covariances.shape[1:]))
    centre = inverse[0, :, None] * covariances[0] * inverse[0]  # near the mean: squares lose no digits
    for block in blocks(len(mass), centre.size):
        values = covariances[block] * inverse[block, :, None]
        values *= inverse[block, None, :]
        values -= centre
        mean += np.tensordot(mass[block], values, axes=1)
        values *= values
        square += np.tensordot(mass[block], values, axes=1)
    return centre + mean, np.sqrt(np.maximum(square - mean**2, 0.0))


def _quantiles(values: Array, mass: Array, levels: Sequence[float]) -> Array:
    """Of weighted values (m,), by linear interpolation of their distribution function."""
    order = np.argsort(values)
    ends = np.cumsum(mass[order])
    return np.interp(levels, (ends - 0.5 * mass[order]) / ends[-1], values[order])
