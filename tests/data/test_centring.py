"""Centred kernels: eigenvectors are contrasts, however small their eigenvalues."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

import lbnn
from lbnn.data.centring import CentredKernel, contrasts


def smooth(rows: int, length_scale: float) -> tuple[np.ndarray, np.ndarray]:
    """A kernel whose small eigenvalues come near to rounding, and targets that are not smooth."""
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(rows, 5)), rng.normal(size=rows) + 7
    distances = ((X[:, None] - X) ** 2).sum(axis=2)
    return np.exp(-0.5 * distances / length_scale**2), y


@pytest.mark.parametrize("length_scale", [1.0, 30.0, 300.0])
def test_no_part_of_the_targets_is_lost_to_the_level(length_scale):
    gram, y = smooth(24, length_scale)
    spectrum = contrasts(CentredKernel.of(gram, True).spectrum(gram, y - y.mean()))
    assert np.abs(spectrum.basis.example.sum(axis=0)).max() < 1e-12
    kept = (spectrum.targets**2).sum() + (spectrum.outside**2).sum()
    assert kept == pytest.approx(((y - y.mean()) ** 2).sum(), rel=1e-12)
    assert spectrum.examples == 23


def test_the_spectrum_is_that_of_the_centred_matrix():
    gram, y = smooth(24, 1.0)
    centred = gram - gram.mean(axis=0) - gram.mean(axis=0)[:, None] + gram.mean()
    spectrum = contrasts(CentredKernel.of(gram, True).spectrum(gram, y - y.mean()))
    assert spectrum.eigenvalues == pytest.approx(np.linalg.eigvalsh(centred)[1:], rel=1e-10)
    vectors = spectrum.basis.example
    assert np.abs(centred @ vectors - vectors * spectrum.eigenvalues).max() < 1e-12


def test_left_out_scores_exist_for_a_long_length_scale():
    """These raised that the Gram matrix was not centred; the centred kernel is nearly the linear x·x'/ℓ²."""
    rng = np.random.default_rng(90)
    X = rng.normal(size=(24, 5))
    y = X.sum(axis=1) + rng.normal(size=24)
    model = lbnn.LBNNRegressor(kernel=RBF(167.0), depth=2, width=6).fit(X, y)
    linear = lbnn.LBNNRegressor(depth=2, width=6).fit(X, y).leave_one_out()
    np.testing.assert_allclose(model.leave_one_out().log_density, linear.log_density, atol=3e-3)
