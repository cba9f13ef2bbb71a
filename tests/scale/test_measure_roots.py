"""Scales behind a narrow layer, held by roots F of L = F Fᵀ: the same measure in less memory."""

from __future__ import annotations

import math
import tracemalloc

import numpy as np
import pytest

import lbnn
from lbnn.scale.draws import Draws
from lbnn.scale.measure import ScaleMeasure, Tails


def pair() -> tuple[ScaleMeasure, ScaleMeasure]:
    """The same weighted draws by roots (7 x 2), and as scales."""
    rng = np.random.default_rng(1)
    roots, weights = rng.normal(size=(64, 7, 2)), rng.gamma(2.0, size=64)
    rest = weights / weights.sum(), False, Tails(False), None, np.repeat(np.arange(16), 4)
    return ScaleMeasure(roots, *rest), ScaleMeasure(roots @ roots.swapaxes(1, 2), *rest)


def test_roots_and_scales_are_one_measure():
    narrow, wide = pair()
    assert narrow.factor.shape == (64, 7, 2)
    assert wide.factor.shape == (64, 7, 7)
    for one in (narrow, wide):
        np.testing.assert_allclose(one.factor @ one.factor.swapaxes(1, 2), wide.atoms, atol=1e-12)
        values, vectors = one.eigen
        np.testing.assert_allclose(
            (vectors * values[:, None]) @ vectors.swapaxes(1, 2), wide.atoms, atol=1e-12
        )
    np.testing.assert_allclose(narrow.mean, wide.mean, rtol=1e-12)
    np.testing.assert_allclose(narrow.mean_error, wide.mean_error, rtol=1e-10)
    np.testing.assert_allclose(narrow.variances, wide.variances, rtol=1e-12)
    np.testing.assert_allclose(narrow.sample(5, 3), wide.sample(5, 3), rtol=1e-12)
    np.testing.assert_array_equal(narrow.inverse_mean, wide.inverse_mean)
    assert narrow.typical == pytest.approx(wide.typical, rel=1e-12)
    assert narrow.expect(lambda L: (L**2).sum()) == pytest.approx(wide.expect(lambda L: (L**2).sum()))
    assert narrow.phases()[0].fitted_directions == 2
    matrix = np.random.default_rng(2).normal(size=(7, 7))
    moved = narrow.image(matrix)
    np.testing.assert_allclose(moved @ moved.swapaxes(1, 2), wide.image(matrix), atol=1e-11)


@pytest.mark.parametrize(("variance", "coupling"), [(0.3, 0.0), (0.0, 0.4), (0.0, 0.0)])
def test_draws_of_signal_and_noise_are_the_same(variance, coupling):
    both = [Draws.of(each, variance, coupling) for each in pair()]
    np.testing.assert_allclose(both[0].signal, both[1].signal, atol=1e-11)
    assert both[0].basis.shape == both[1].basis.shape


def problem(outputs: int, rows: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Outputs of a linear map of rank `width`, and noise."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, 6))
    signal = X @ rng.normal(size=(6, width)) @ rng.normal(size=(width, outputs)) / math.sqrt(6 * width)
    return X, signal + 0.5 * rng.normal(size=(rows, outputs))


def peak_of(outputs: int, rows: int, width: int) -> tuple[float, lbnn.Posterior]:
    """Largest memory, in bytes, of a posterior with a predictive, and the posterior."""
    X, Y = problem(outputs, rows, width)
    tracemalloc.start()
    try:
        posterior = lbnn.Network((width,)).condition(X, Y, 4.0)
        predictive = posterior.predict(X[:20])
        assert predictive.mean.shape == predictive.variance.shape == (20, outputs)
        return float(tracemalloc.get_traced_memory()[1]), posterior
    finally:
        tracemalloc.stop()


def test_many_outputs_behind_a_narrow_layer_take_little_memory(tmp_path):
    """Scales of 200 rows and columns were kept: 0.6 GB, and fewer draws the more outputs there are."""
    peak, posterior = peak_of(200, 40, 2)
    assert posterior.diagnostics.ok
    assert posterior.scale.factor.shape[1:] == (200, 2)
    assert len(posterior.scale.factor) >= 1000
    assert peak < 1.2e8
    posterior.save(tmp_path / "posterior")
    assert (tmp_path / "posterior").stat().st_size < 4e7
    again = lbnn.Posterior.load(tmp_path / "posterior")
    np.testing.assert_array_equal(again.scale.factor, posterior.scale.factor)


@pytest.mark.slow
def test_thousands_of_outputs_behind_a_narrow_layer():
    peak, posterior = peak_of(2500, 200, 5)
    assert posterior.diagnostics.ok
    assert peak < 1e9


def test_feature_kernel_behind_a_narrow_layer_is_the_limit_of_little_noise():
    """Directions that a draw of the scale does not have repeat the prior, whatever the noise."""
    rng = np.random.default_rng(4)
    X, Y = rng.normal(size=(2, 5)), rng.normal(size=(2, 6))
    network = lbnn.Network((3,))
    exact = network.condition(X, Y, math.inf, seed=1, target_error=0.02)
    near = network.condition(X, Y, 1e7, seed=2, engine="dual", target_error=0.02)
    np.testing.assert_allclose(exact.feature_kernel(), near.feature_kernel(), rtol=0.1)
