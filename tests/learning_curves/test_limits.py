"""Curves of infinite size: against large matrices, the replica equation and the exact curves."""

from __future__ import annotations

import math

import numpy as np
import pytest

import lbnn
from lbnn.learning_curves.limits import Asymptotics, saddle


@pytest.mark.parametrize(("p", "n0"), [(600, 1500), (1500, 600), (1000, 1000)])
@pytest.mark.parametrize("scale", [0.2, 5.0])
def test_sums_over_large_matrices(p, n0, scale):
    """Log likelihood, error and variance of ridge regression on one data set of a thousand rows."""
    rng, norm, noise, temperature = np.random.default_rng([p, n0]), 1.3, 0.6, 0.3
    X = rng.normal(size=(p, n0))
    y = norm * X[:, 0] + noise * rng.normal(size=p)
    C = temperature * np.eye(p) + scale * X @ X.T / n0
    alpha = np.linalg.solve(C, y)
    limit = Asymptotics(p, n0, norm**2, noise**2, temperature)
    exact = -0.5 * (np.linalg.slogdet(C)[1] + y @ alpha + p * math.log(2 * math.pi))
    at = np.array([scale])
    assert limit.log_likelihood(at)[0] == pytest.approx(exact, rel=0.03)
    mean = scale / n0 * X.T @ alpha
    mean[0] -= norm
    assert limit.error(at)[0] == pytest.approx(mean @ mean, rel=0.1)
    trace = scale - scale**2 / n0**2 * np.einsum("pi,pi->", X, np.linalg.solve(C, X))
    assert limit.variance(at)[0] == pytest.approx(trace, rel=0.05)


@pytest.mark.parametrize("widths", [(30,), (30, 80), (40, 40, 40)])
def test_saddle_solves_the_replica_equation(widths):
    """λ = Π_ℓ [1 − (p/n_ℓ)(1 − ŝ/λ)], ŝ = |w|² + σ²/(1 − α), of arXiv:2203.00573 at zero temperature."""
    data = Asymptotics(50, 100, 1.7, 0.4, 0.0)
    found, _ = saddle(data, widths, 1.0)
    s = 1.7 + 0.4 / 0.5
    assert found == pytest.approx(math.prod(1 - 50 / width * (1 - s / found) for width in widths), rel=1e-6)


def test_exact_curves_approach_the_replica_curve_like_one_over_n0():
    """Slopes of the relative distance between n0 = 100 and 400 within 0.05 of −1, at two depths."""
    for depth in (2, 3):
        gaps = []
        for n0 in (100, 400):
            curve = lbnn.learning_curve(lbnn.Network((n0 // 2,) * (depth - 1)), [n0 // 2], n0, 1.5, 0.5)
            limit = curve.limits["proportional"]
            gaps.append(
                [
                    getattr(limit, q)[0] / getattr(curve, q)[0] - 1
                    for q in ("scale_mean", "error", "gibbs_error")
                ]
            )
        slopes = np.log(np.divide(gaps[1], gaps[0])) / math.log(4)
        np.testing.assert_allclose(slopes, -1, atol=0.05)


def test_limits_by_name():
    curve = lbnn.learning_curve(lbnn.Network((40,)), [10, 30], 60, 1.0, 0.2)
    assert set(curve.limits) == {
        "infinite width",
        "infinite data",
        "proportional",
        "proportional, first order",
    }
    np.testing.assert_allclose(curve.limits["infinite width"].scale_mean, 1.0)
    np.testing.assert_allclose(
        curve.limits["proportional, first order"].scale_mean, 1 - np.array([10, 30]) / 40
    )
    warm = lbnn.learning_curve(lbnn.Network((40,)), [10], 60, 1.0, 0.2, beta=25.0)
    assert np.isnan(warm.limits["infinite data"].error).all()
    square = lbnn.learning_curve(lbnn.Network((40,)), [60], 60, 1.0, 0.2, beta=25.0, target_error=0.1)
    assert np.isfinite(square.limits["proportional"].error).all()
    nothing = lbnn.learning_curve(lbnn.Network((40,)), [10], 60, 0.0, 0.0)
    assert np.isnan(nothing.limits["infinite data"].scale_mean).all()
    one = lbnn.learning_curve(lbnn.Network(()), [10], 60, 1.0, 0.2)
    assert one.limits["proportional"].scale_mean[0] == 1.0
