"""Correlations across outputs: averages over models and draws in which both outputs vary."""

from __future__ import annotations

import numpy as np
from numpy.testing import assert_allclose

from lbnn.estimator.shares import _moments


def test_models_without_a_signal_do_not_count():
    """Draws of correlations 0.5 and 0.8, masses 1 and 3; a model without any; an output that varies once."""
    first = np.array([[4.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 0.0]])
    second = np.array([[1.0, 0.8, 0.3], [0.8, 1.0, 0.0], [0.3, 0.0, 1.0]])
    draws = np.array([0.15, 0.45]), np.stack([first, second])
    none = np.array([0.2, 0.2]), np.zeros((1, 3, 3))
    mean, deviation = _moments([draws, none])
    assert_allclose(mean[0, 1], 0.25 * 0.5 + 0.75 * 0.8)
    assert_allclose(deviation[0, 1], 0.3 * np.sqrt(0.25 * 0.75))
    assert_allclose(mean[0, 2], 0.3)
    assert_allclose(np.diag(mean), 1.0)
    assert_allclose(np.diag(deviation), 0.0)
    empty, _ = _moments([none])
    assert np.isnan(empty).all()
