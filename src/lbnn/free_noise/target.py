"""From a network, its noise and data to the posterior of signal and noise."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from lbnn._base import check
from lbnn._base.small_matrices import one_sign
from lbnn._base.types import Array
from lbnn.data.spectrum import Spectrum
from lbnn.engines.signal_noise_target import GivenUnits, SignalNoiseTarget, root_coordinates
from lbnn.likelihood.signal_and_noise import SignalNoiseLikelihood
from lbnn.scale.prior import ScalePrior


def likelihood_of(spectrum: Spectrum) -> SignalNoiseLikelihood:
    """The likelihood of data whose targets outside the range of G are known output by output."""
    if spectrum.outside is None:
        raise ValueError(
            "noise='free' needs the targets outside the range of the Gram matrix output by output, got a "
            "spectrum that keeps their total square only: condition on X and Y, or use noise='independent'"
        )
    unseen = spectrum.examples - spectrum.rank
    return SignalNoiseLikelihood(
        spectrum.eigenvalues, spectrum.targets, spectrum.outside, unseen, spectrum.log_jacobian
    )


def noise_variance(beta: Any) -> float:
    """The part 1/beta of a noise covariance of which the rest is the scale of a network."""
    number = math.nan if beta is None else check.inverse_temperature(beta)
    if not 0 < number < math.inf:
        raise ValueError(
            "with noise_network the noise has the covariance I/beta + L₂, for 0 < beta < inf, got "
            f"beta={beta}"
        )
    return 1 / number


def given_target(
    prior: ScalePrior, spectrum: Spectrum, variance: float, noise_prior: ScalePrior
) -> SignalNoiseTarget:
    """The posterior where Σ is variance · I + L₂ with L₂ the scale of a network."""
    likelihood = likelihood_of(spectrum)
    axes = target_axes(likelihood)
    signal, noise = root_coordinates(prior, axes), root_coordinates(noise_prior, axes)
    return SignalNoiseTarget(signal, noise, GivenUnits(spectrum.outputs, math.log(variance)), likelihood)


def target_axes(likelihood: SignalNoiseLikelihood, units: Array | float = 1.0) -> Array:
    """Principal axes of the targets in units (n_d,), strongest first, as columns."""
    rows = np.concatenate([likelihood.targets, likelihood.outside]) / units
    return one_sign(np.linalg.svd(rows, full_matrices=len(rows) < rows.shape[1]).Vh.T)
