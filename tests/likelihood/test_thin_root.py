"""The likelihood of a scale of low rank from its thin root, against that of the full matrices."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from lbnn._base.gauss_rule import make_gauss_rule
from lbnn._base.small_matrices import gram_eigen
from lbnn.likelihood.gaussian import GaussianLikelihood
from lbnn.likelihood.hidden_kernel import HiddenKernelLikelihood
from lbnn.likelihood.thin_root import thin_likelihood


def likelihood(rank: int, outputs: int, amplitude: float = 1.0, noise: float = 0.3) -> GaussianLikelihood:
    rng = np.random.default_rng([rank, outputs])
    eigenvalues, targets = 10 * rng.exponential(size=rank), amplitude * rng.normal(size=(rank, outputs))
    return GaussianLikelihood(eigenvalues, targets, 2.0, rank + 3, noise)


@pytest.mark.parametrize(("rank", "outputs", "columns"), [(20, 35, 3), (7, 5, 2), (15, 21, 1), (4, 6, 4)])
@pytest.mark.parametrize("amplitude", [0.1, 1.0, 100.0])
@pytest.mark.parametrize("dual", [False, True])
def test_value_and_gradient_are_those_of_the_full_matrix(rank, outputs, columns, amplitude, dual):
    own = likelihood(rank, outputs, amplitude)
    full = HiddenKernelLikelihood(own) if dual else own
    rows = rank if dual else outputs
    root = np.random.default_rng(1).normal(size=(6, rows, columns))
    value, gradient = full.value_and_gradient(*gram_eigen(root @ root.swapaxes(1, 2)))
    thin = thin_likelihood(full)
    thin_value, thin_gradient = thin.value_and_gradient(root)
    slope = 2 * gradient @ root
    np.testing.assert_allclose(thin_value, value, rtol=1e-10)
    np.testing.assert_allclose(thin.log_value(root), value, rtol=1e-10)
    np.testing.assert_allclose(thin_gradient, slope, rtol=1e-8, atol=1e-9 * np.abs(slope).max())


def test_units_of_the_outputs():
    """Targets in units D are those of the scale D L D: the same value, and a gradient by differences."""
    units = np.array([0.3, 1.0, 4.0, 0.7])
    own = replace(likelihood(6, 4), units=units)
    root = np.random.default_rng(2).normal(size=(3, 4, 2))
    thin = thin_likelihood(own)
    value, gradient = thin.value_and_gradient(root)
    scaled = units[:, None] * root
    plain = thin_likelihood(likelihood(6, 4)).log_value(scaled)
    np.testing.assert_allclose(value - value[0], plain - plain[0], rtol=1e-10)
    np.testing.assert_allclose(value, own.log_value(*gram_eigen(root @ root.swapaxes(1, 2))), rtol=1e-10)
    step = 1e-6 * np.random.default_rng(3).normal(size=root.shape)
    change = thin.log_value(root + step) - thin.log_value(root - step)
    np.testing.assert_allclose(change, 2 * (gradient * step).sum(axis=(1, 2)), rtol=1e-6)


def test_condensed_rows_are_used():
    rng = np.random.default_rng(0)
    eigenvalues, targets = rng.uniform(1, 3, size=400), rng.normal(size=(400, 5))
    plain = GaussianLikelihood(eigenvalues, targets, 0.0, 400, 0.5)
    few = GaussianLikelihood(
        eigenvalues, targets, 0.0, 400, 0.5, gauss_rule=make_gauss_rule(eigenvalues, targets)
    )
    assert few.gauss_rule is not None
    root = rng.normal(size=(3, 5, 2))
    for one, other in zip(
        thin_likelihood(few).value_and_gradient(root),
        thin_likelihood(plain).value_and_gradient(root),
        strict=True,
    ):
        np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("noise", [0.0, 1e-12, math.inf])
def test_there_is_none_without_noise_or_with_hardly_any(noise):
    assert thin_likelihood(likelihood(5, 4, noise=noise)) is None
