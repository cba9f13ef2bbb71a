"""The rules that a posterior and targets must keep for leave-one-out scores to exist."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from lbnn._base import check
from lbnn._base.arrays import to_numpy
from lbnn._base.types import Array
from lbnn.cross_validation.fitted import Fitted
from lbnn.data.examples import example_vectors, level_of
from lbnn.data.spectrum import Spectrum
from lbnn.likelihood.existence import require_zero_temperature

_SAME_TARGETS = 1e-6  # relative difference above which Y is not what the posterior has seen


def kept_targets(spectrum: Spectrum) -> Array:
    """Y (p, n_d) or (p,) as the data keep it: U ỹ and what is outside the range of G; else a ValueError.

    For centred data, whose spectrum counts p − 1 examples, the centred targets.
    """
    if not spectrum.basis.keeps_examples:
        raise ValueError("leave-one-out scores need the training inputs, got a posterior from moments")
    vectors = example_vectors(spectrum)
    inside, outside = vectors @ spectrum.targets, spectrum.outside
    if outside is not None and len(outside) == len(vectors):
        inside = inside + outside
    elif spectrum.rank < spectrum.examples:
        raise ValueError(
            "leave-one-out scores need the targets, got a posterior that does not keep them: use "
            "leave_one_out(Y)"
        )
    if spectrum.weights is not None:  # the spectrum is that of rows times √w
        inside = inside / np.sqrt(spectrum.weights)[:, None]
    return inside[:, 0] if spectrum.single_output else inside


def checked_targets(posterior: Fitted, Y: ArrayLike, centred: bool) -> tuple[Array, bool]:
    """Y as (p, n_d), if posterior and Y belong together and leave-one-out scores exist."""
    spectrum = posterior.spectrum
    noise = float(posterior._left_out_draws.variances[0])
    if not spectrum.basis.keeps_examples:
        raise ValueError("leave-one-out scores need the training inputs, got a posterior from moments")
    if math.isinf(noise):
        raise ValueError("left-out observations have finite variance only for beta > 0, got beta=0")
    if centred and spectrum.examples < 1:
        raise ValueError("with an intercept, leaving one out needs two examples, got one")
    targets, one_dimensional = check.targets(Y, spectrum.examples + centred)
    columns = to_numpy(targets)
    rows = columns if spectrum.weights is None else np.sqrt(spectrum.weights)[:, None] * columns
    _require_same_data(spectrum, rows, centred)
    if noise == 0:
        _require_left_out_exist(posterior, columns, centred)
    return columns, one_dimensional


def _require_same_data(spectrum: Spectrum, Y: Array, centred: bool) -> None:
    """Raise unless UᵀY = ỹ for rows of Y (p, n_d) times √w, and Uᵀ√w = 0 if centred."""
    vectors = example_vectors(spectrum)
    if len(vectors) != len(Y):
        raise ValueError(
            "centred must be True exactly if the spectrum counts one example less than its inputs have "
            f"rows, got centred={centred} with {len(vectors)} rows counted as {spectrum.examples} examples"
        )
    if Y.shape[1] != spectrum.outputs or (
        np.linalg.norm(vectors.T @ Y - spectrum.targets) > _SAME_TARGETS * np.linalg.norm(Y)
    ):
        raise ValueError("Y must be the targets that the posterior was conditioned on, got others")
    if centred and np.abs(level_of(spectrum, len(Y)) @ vectors).max(initial=0.0) > _SAME_TARGETS:
        raise ValueError("centred=True needs inputs (or a Gram matrix) that were centred, got others")


def _require_left_out_exist(posterior: Fitted, Y: Array, centred: bool) -> None:
    """Raise unless the zero-temperature posterior exists without each row of Y (p, n_d), L invertible."""
    prior, spectrum = posterior.prior, posterior.spectrum
    if not prior.full_rank:
        raise ValueError(
            "at zero temperature a left-out example has no density behind a hidden layer narrower than the "
            f"outputs, got widths={prior.widths} for {prior.outputs} outputs: use a finite beta"
        )
    for a in range(len(Y) if spectrum.examples > 1 else 0):
        others = np.delete(Y, a, axis=0)
        others = others - centred * others.mean(axis=0)
        fewer = spectrum.examples - 1
        left = replace(spectrum, eigenvalues=np.ones(fewer), targets=others, examples=fewer)
        try:
            require_zero_temperature(prior, left)
        except ValueError as error:
            raise ValueError(f"leaving out example {a}: {error}") from error
