"""Noise-free likelihoods from a triangular root, against the sum over eigenvectors."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from lbnn.engines.target import ScaleTarget
from lbnn.likelihood.gaussian import GaussianLikelihood
from lbnn.likelihood.zero_temperature import ScatterLikelihood
from lbnn.scale.prior import ScalePrior

RNG = np.random.default_rng(3)
G, Y = RNG.gamma(2.0, size=7), RNG.standard_normal((7, 4))


@pytest.mark.parametrize("multiplicity", [1.0, 2.5])
@pytest.mark.parametrize(
    "targets", [Y, Y * [1e-8, 1.0, 1e8, 1.0], Y * [1.0, 1.0, 0.0, 1.0]], ids=["", "units", "zero"]
)
def test_value_and_gradient(targets: np.ndarray, multiplicity: float) -> None:
    """The same numbers as from eigenvectors, in a common frame and in frames of their own."""
    likelihood = GaussianLikelihood(G, targets, 0.0, 7, 0.0, multiplicity)
    scatter = ScatterLikelihood.of(likelihood)
    total = np.tril(RNG.standard_normal((6, 4, 4)))
    total[:, np.arange(4), np.arange(4)] = np.exp(RNG.standard_normal((6, 4)))
    frames = np.linalg.qr(RNG.standard_normal((6, 4, 4))).Q
    for frame in (frames[0], frames):
        root = frame @ total
        expected, slope = likelihood.value_and_gradient(*np.linalg.eigh(root @ root.swapaxes(1, 2)))
        value, gradient = scatter.value_and_gradient(total, frame)
        np.testing.assert_allclose(value, expected, rtol=1e-9)
        np.testing.assert_allclose(scatter.log_value(total, frame), value, rtol=1e-14)
        lower = np.tril_indices(4)
        other = 2 * np.swapaxes(frame, -1, -2) @ slope @ root
        np.testing.assert_allclose(
            gradient[:, *lower], other[:, *lower], rtol=1e-7, atol=1e-9 * np.abs(other).max()
        )


def test_directions_far_below_rounding_keep_their_digits() -> None:
    """T = diag(1, 1e-12): L has an eigenvalue below its rounding, and log det and trace are exact here."""
    likelihood = GaussianLikelihood(np.ones(2), np.diag([1.0, 1e-12]), 0.0, 2, 0.0)
    value = ScatterLikelihood.of(likelihood).log_value(np.diag([1.0, 1e-12])[None], np.eye(2))[0]
    assert value == pytest.approx(2 * 12 * np.log(10) - 1.0, rel=1e-14)


@pytest.mark.parametrize("widths", [(6,), (6, 5)], ids=str)
def test_target_takes_it_without_noise_only(widths: tuple[int, ...]) -> None:
    """The target's density and gradient agree with those of a vanishing noise, which takes the other way."""
    prior = ScalePrior(widths, 4, (1.0,) * len(widths))
    exact = ScaleTarget(prior.coordinates, GaussianLikelihood(G, Y, 0.0, 7, 0.0), np.eye(4)[:, ::-1])
    noisy = replace(exact, likelihood=GaussianLikelihood(G, Y, 0.0, 7, 1e-13))
    assert exact._scatter is not None
    assert noisy._scatter is None
    u = 0.5 * RNG.standard_normal((5, exact.dimension))
    for one, other in zip(exact.value_and_gradient(u), noisy.value_and_gradient(u), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-6 * np.abs(other).max())
    np.testing.assert_allclose(exact.log_density(u), exact.value_and_gradient(u)[0], rtol=1e-12)
