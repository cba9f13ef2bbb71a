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
    parts = [(share, *model.covariance_draws()) for share, model in zip(weights, models, strict=True)]
    mass = np.concatenate([share * own for share, own, _, _ in parts])
    variances = [[np.diagonal(each, axis1=1, axis2=2) for each in part[2:]] for part in parts]
    with np.errstate(invalid="ignore"):
        share = np.nan_to_num(np.concatenate([signal / (signal + noise) for signal, noise in variances]))
    tail = (1 - INTERVAL) / 2
    interval = np.stack([_quantiles(column, mass, (tail, 1 - tail)) for column in share.T])
    correlations = (_correlations([(part[0] * part[1], part[kind]) for part in parts]) for kind in (2, 3))
    return Shares(mass @ share, interval, *(each for pair in correlations for each in pair))


def _correlations(parts: Sequence[tuple[Array, Array]]) -> tuple[Array, Array]:
    """Mean and standard deviation of correlations, (n_d, n_d) each; zero beside an output without variance.

    From parts with masses (m,) and covariances (m, n_d, n_d), or (1, n_d, n_d) where all draws have the same.
    In blocks of draws: 200 outputs have 300 MB of them.
    """
    first = parts[0][1][0]
    centre = _correlation(first[None])[0]  # near the mean: squares lose no digits
    mean, square = np.zeros((2, *first.shape))
    for masses, covariances in parts:
        mass = masses if len(covariances) == len(masses) else masses.sum(keepdims=True)
        for block in blocks(len(mass), centre.size):
            values = _correlation(covariances[block])
            values -= centre
            mean += np.tensordot(mass[block], values, axes=1)
            values *= values
            square += np.tensordot(mass[block], values, axes=1)
    return centre + mean, np.sqrt(np.maximum(square - mean**2, 0.0))


def _correlation(covariances: Array) -> Array:
    """Correlations of covariances, (m, n_d, n_d) each."""
    deviations = np.sqrt(np.diagonal(covariances, axis1=1, axis2=2))
    inverse = np.divide(1.0, deviations, out=np.zeros_like(deviations), where=deviations > 0)
    values = covariances * inverse[:, :, None]
    values *= inverse[:, None, :]
    return values


def _quantiles(values: Array, mass: Array, levels: Sequence[float]) -> Array:
    """Of weighted values (m,), by linear interpolation of their distribution function."""
    order = np.argsort(values)
    ends = np.cumsum(mass[order])
    return np.interp(levels, (ends - 0.5 * mass[order]) / ends[-1], values[order])
