"""The evidence does not depend on the axes in which the Bartlett factors are taken."""

from __future__ import annotations

import numpy as np

import lbnn
from lbnn.engines.estimate import Answer
from lbnn.engines.inference import InferenceOptions
from lbnn.engines.run import draw_posterior
from lbnn.engines.target import Target
from lbnn.likelihood.gaussian import GaussianLikelihood
from tests.referees.statistics import assert_agrees


def switched_off_directions() -> tuple[GaussianLikelihood, np.ndarray]:
    """Six outputs of which two directions carry signal, low noise: factors go far into prior tails."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 100))
    teacher = rng.normal(size=(100, 2)) / 10 @ rng.normal(size=(2, 6))
    spectrum = lbnn.Spectrum.from_inputs(X, X @ teacher + 0.01 * rng.normal(size=(50, 6)))
    factor = GaussianLikelihood(spectrum.eigenvalues, spectrum.targets, spectrum.residual, 50, 1e-4)
    return factor, np.linalg.svd(factor.gradient_rows).Vh.T


def draws(rotation: np.ndarray, factor: GaussianLikelihood) -> Answer:
    coordinates = lbnn.Network((20,)).scale_prior(6).coordinates
    return draw_posterior(Target(coordinates, factor, rotation), InferenceOptions(0.05, 0))


def test_evidence_is_the_same_in_other_axes() -> None:
    """Strongest first, weakest first, and the outputs as they come: one number, however far factors go."""
    factor, axes = switched_off_directions()
    weakest, strongest, plain = (draws(axis, factor) for axis in (axes[:, ::-1].copy(), axes, np.eye(6)))
    assert max(np.abs(weakest.points).max(), np.abs(strongest.points).max()) > 9  # beyond the normal table
    for other in (strongest, plain):
        error = np.hypot(weakest.log_evidence_error, other.log_evidence_error)
        assert_agrees(other.log_evidence, error, weakest.log_evidence, comparisons=2, degrees_of_freedom=7)
