"""How much of each output is signal, and how outputs correlate, from the draws of all models of a fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

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
    moments = [*_moments(_correlations(signal), mass), *_moments(_correlations(noise), mass)]
    return Shares(mass @ share, interval, *moments)


def _correlations(covariances: Array) -> Array:
    """Zero beside an output without variance."""
    deviations = np.sqrt(np.diagonal(covariances, axis1=1, axis2=2))
    scale = deviations[:, :, None] * deviations[:, None, :]
    return np.divide(covariances, scale, out=np.zeros_like(covariances), where=scale > 0)


def _moments(values: Array, mass: Array) -> tuple[Array, Array]:
    mean = np.tensordot(mass, values, axes=1)
    variance = np.tensordot(mass, (values - mean) ** 2, axes=1)
    return mean, np.sqrt(variance)


def _quantiles(values: Array, mass: Array, levels: Sequence[float]) -> Array:
    """Of weighted values (m,), by linear interpolation of their distribution function."""
    order = np.argsort(values)
    ends = np.cumsum(mass[order])
    return np.interp(levels, (ends - 0.5 * mass[order]) / ends[-1], values[order])
