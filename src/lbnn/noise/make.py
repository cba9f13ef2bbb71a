"""Noise from the user's words: by name, or by its covariance."""

from __future__ import annotations

import difflib
import math
from numbers import Real
from typing import Any

import numpy as np

from lbnn._base import check
from lbnn._base.types import Array
from lbnn.data.spectrum import Spectrum
from lbnn.noise.noise import Noise, targets_outside

#: Every kind of noise by its name.
KINDS = ("independent", "per_output", "coupled", "free")
_SMALLEST = 1e-12  # relative eigenvalue of a noise covariance that is called singular


def noise_kind(name: Any) -> str:
    """The name of a kind of noise, if it is one."""
    if isinstance(name, str) and name in KINDS:
        return name
    hint = ""
    if isinstance(name, str):
        near = difflib.get_close_matches(name, KINDS, 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
    elif isinstance(name, Real) and not isinstance(name, bool) and float(name) > 0:
        hint = f": a noise variance of {float(name):g} is given as beta={1 / float(name):g}"
    raise ValueError(f"noise must be one of {KINDS}, got {name!r}{hint}")


def make_noise(name: str, beta: Any, spectrum: Spectrum) -> Noise:
    """The noise of that name with the user's beta, for these data."""
    kind = noise_kind(name)
    if kind == "free":
        raise ValueError(
            "noise='free' is given by noise_covariance or noise_network, which condition and condition_gram "
            f"take, got beta={beta!r} alone"
        )
    if beta is None:
        raise TypeError(
            "beta is needed: the noise variance of the targets is 1/beta, and beta=math.inf is for targets "
            "without noise, got none. If the noise is not known, LBNNRegressor chooses it by evidence"
        )
    if kind == "per_output":
        return _per_output(beta, spectrum)
    number = check.inverse_temperature(beta)
    if kind == "independent":
        return Noise.independent(1 / number if number else math.inf)
    if not 0 < number < math.inf:
        raise ValueError(
            "noise='coupled' has the covariance L/beta given L, for 0 < beta < inf, got "
            f"beta={number:g}: use noise='independent'"
        )
    targets_outside(spectrum, kind)
    return Noise.coupled(1 / number)


def _per_output(beta: Any, spectrum: Spectrum) -> Noise:
    """Beta is a vector of positive finite numbers, one for each output; if all are equal, one for all."""
    betas, outputs = check.real_array(beta, "beta"), spectrum.outputs
    with np.errstate(all="ignore"):  # what has no variance is refused
        finite = np.isfinite(1 / betas)
    if betas.shape != (outputs,) or not ((betas > 0) & finite).all():
        raise ValueError(
            f"with noise='per_output' beta must be a vector of {outputs} positive numbers, one for each "
            f"output, got beta={beta!r}"
        )
    if (betas == betas[0]).all():
        return Noise.independent(1 / float(betas[0]))
    targets_outside(spectrum, "per_output")
    return Noise("per_output", 1.0, deviations=1 / np.sqrt(betas))


def given_noise(noise_covariance: Any, spectrum: Spectrum) -> Noise:
    """Noise of the covariance (n_d, n_d); where it is diagonal, with a variance for each output."""
    matrix = checked_covariance(noise_covariance, spectrum.outputs)
    if not np.any(matrix - np.diag(np.diagonal(matrix))):
        return _per_output(1 / np.diagonal(matrix), spectrum)
    values, axes = np.linalg.eigh(matrix)
    targets_outside(spectrum, "free")
    return Noise("free", 1.0, deviations=np.sqrt(values), axes=axes)


def checked_covariance(noise_covariance: Any, outputs: int) -> Array:
    """A covariance (n_d, n_d), if it is positive definite."""
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
