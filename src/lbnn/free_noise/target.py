"""From a network, its noise and data to the posterior of signal and noise."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from lbnn._base import check
from lbnn._base.small_matrices import one_sign
from lbnn._base.types import Array
from lbnn.data.spectrum import Spectrum
from lbnn.engines.signal_noise_target import (
    GivenRoot,
    GivenUnits,
    RootCoordinates,
    SignalNoiseTarget,
    root_coordinates,
)
from lbnn.likelihood.signal_and_noise import SignalNoiseLikelihood
from lbnn.scale.prior import ScalePrior

_SMALLEST = 1e-12  # relative eigenvalue of a noise covariance that is called singular


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


def given_target(
    prior: ScalePrior,
    spectrum: Spectrum,
    beta: Any,
    noise_prior: ScalePrior | None,
    noise_covariance: Any,
) -> SignalNoiseTarget:
    """The posterior where Σ is given, or is I/beta + L₂ with L₂ the scale of a network."""
    likelihood, outputs = likelihood_of(spectrum), spectrum.outputs
    if (noise_prior is None) == (noise_covariance is None):
        raise ValueError(
            "noise='free' needs one of noise_covariance, a positive definite (n_d, n_d) matrix, and "
            "noise_network, the network whose scale is the covariance of the noise less I/beta, got "
            f"{'neither' if noise_prior is None else 'both'}"
        )
    noise: RootCoordinates
    if noise_prior is None:
        if beta is not None:
            raise ValueError("with noise_covariance the noise is given, and beta must be None, got beta too")
        variance, noise = _split(_covariance(noise_covariance, outputs))
    else:
        number = math.nan if beta is None else check.inverse_temperature(beta)
        if not 0 < number < math.inf:
            raise ValueError(
                "with noise_network the noise has the covariance I/beta + L₂, for 0 < beta < inf, got "
                f"beta={beta}"
            )
        variance, noise = 1 / number, root_coordinates(noise_prior, target_axes(likelihood))
    signal = root_coordinates(prior, target_axes(likelihood))
    return SignalNoiseTarget(signal, noise, GivenUnits(outputs, math.log(variance)), likelihood)


def target_axes(likelihood: SignalNoiseLikelihood, units: Array | float = 1.0) -> Array:
    """Principal axes of the targets in units (n_d,), strongest first, as columns."""
    rows = np.concatenate([likelihood.targets, likelihood.outside]) / units
    return one_sign(np.linalg.svd(rows, full_matrices=len(rows) < rows.shape[1]).Vh.T)


def _covariance(noise_covariance: Any, outputs: int) -> Array:
    """A given covariance (n_d, n_d), if it is positive definite."""
    matrix = check.real_array(noise_covariance, "noise_covariance")
    if matrix.shape != (outputs, outputs) or not np.allclose(matrix, matrix.T, rtol=1e-10, atol=0):
        raise ValueError(
            f"noise_covariance must be a symmetric ({outputs}, {outputs}) matrix, got shape {matrix.shape}"
        )
    values = np.linalg.eigvalsh(matrix)
    if not values[0] > _SMALLEST * values[-1]:
        raise ValueError(
            "noise_covariance must be positive definite, got smallest and largest eigenvalues "
            f"{values[0]:.3g} and {values[-1]:.3g}: leave out outputs that others determine"
        )
    return matrix


def _split(covariance: Array) -> tuple[float, GivenRoot]:
    """Σ (n_d, n_d) = t I + A Aᵀ with t half of its smallest eigenvalue."""
    values, vectors = np.linalg.eigh(covariance)
    variance = 0.5 * float(values[0])
    return variance, GivenRoot(vectors * np.sqrt(values - variance))
