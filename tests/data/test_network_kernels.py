"""Kernels of infinitely wide networks: against neural-tangents, quadrature, and wide random networks."""

from __future__ import annotations

import functools
import json
import math
from pathlib import Path

import mpmath
import numpy as np
import pytest
from scipy import special

import lbnn
from lbnn.data.network_kernels import ACTIVATIONS

STORED = json.loads((Path(__file__).parent.parent / "reference" / "network_kernels.json").read_text())
FUNCTIONS = {
    "relu": lambda z: np.maximum(z, 0),
    "erf": special.erf,
}


@pytest.mark.parametrize("case", STORED["cases"], ids=lambda each: f"{each['activation']}-{each['depth']}")
def test_against_neural_tangents(case):
    """Stored values of neural-tangents 0.6.5 (studies/references/make_network_kernels.py)."""
    settings = {name: value for name, value in case.items() if name != "kernel"}
    found = lbnn.network_kernel(STORED["X"], STORED["X_test"], **settings)
    np.testing.assert_allclose(found, case["kernel"], rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("activation", FUNCTIONS)
def test_average_of_one_layer_by_quadrature(activation):
    """E φ(u)φ(v) on a fine grid."""
    g = np.linspace(-9, 9, 1201)
    weights = np.exp(-(g**2) / 2)
    weights /= weights.sum()
    for a, b, correlation in [(1.0, 1.0, 0.3), (4.0, 0.2, -0.9), (0.01, 9.0, 0.99), (2.0, 2.0, 0.0)]:
        u = math.sqrt(a) * g[:, None]
        v = math.sqrt(b) * (correlation * g[:, None] + math.sqrt(1 - correlation**2) * g[None])
        phi = FUNCTIONS[activation]
        exact = float(weights @ (phi(u) * phi(v)) @ weights)
        c = correlation * math.sqrt(a * b)
        found = ACTIVATIONS[activation](np.array([c]), np.array([a]), np.array([b]))[0]
        assert found == pytest.approx(exact, abs=2e-6 * (1 + a) * (1 + b))  # kinks of relu on the grid


@pytest.mark.parametrize("activation", FUNCTIONS)
@pytest.mark.parametrize("depth", [2, 3])
def test_against_wide_random_networks(activation, depth):
    """Kernels of networks of width 200: within 4.5 standard errors and their finite-width bias."""
    rng = np.random.default_rng(depth)
    X, width, draws, weight_variance, bias_variance = rng.normal(size=(3, 4)), 200, 400, 1.7, 0.3
    kernel = lbnn.network_kernel(
        X, activation=activation, depth=depth, weight_variance=weight_variance, bias_variance=bias_variance
    )
    products = []
    for _ in range(draws):
        h = X
        for _ in range(depth - 1):
            W = rng.normal(size=(h.shape[1], width)) * math.sqrt(weight_variance / h.shape[1])
            h = FUNCTIONS[activation](h @ W + math.sqrt(bias_variance) * rng.normal(size=width))
        products.append(bias_variance + weight_variance * h @ h.T / width)  # the last layer averaged out
    products = np.array(products)
    error = products.std(axis=0) / math.sqrt(draws)
    bias = 3 / width * np.abs(kernel) * (depth > 2)  # of order 1/width from the second hidden layer on
    assert (np.abs(products.mean(axis=0) - kernel) < 4.5 * error + bias).all()


def test_depth_one_is_linear_and_kernels_are_positive():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 3))
    np.testing.assert_allclose(lbnn.network_kernel(X, depth=1, weight_variance=1.0), X @ X.T / 3, rtol=1e-12)
    for activation in FUNCTIONS:
        kernel = lbnn.network_kernel(X, activation=activation, depth=4, bias_variance=0.1)
        np.testing.assert_allclose(kernel, kernel.T, rtol=1e-12)
        assert np.linalg.eigvalsh(kernel).min() > -1e-10


def test_rows_of_zeros_and_repeated_rows():
    X = np.array([[0.0, 0.0], [1.0, 2.0], [1.0, 2.0], [-1.0, -2.0]])
    kernel = lbnn.network_kernel(X, activation="relu", depth=2)
    assert kernel[0].tolist() == [0.0] * 4
    assert kernel[1, 2] == pytest.approx(kernel[1, 1], rel=1e-14)
    assert kernel[1, 3] == pytest.approx(0.0, abs=1e-14)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"activation": "tanh"}, "activation must be one of relu, erf, got 'tanh'"),
        ({"depth": 0}, "depth must be a positive integer"),
        ({"bias_variance": -1.0}, "bias_variance not negative"),
        ({"weight_variance": 0.0}, "weight_variance must be positive"),
        ({"X_test": np.zeros((2, 5))}, "same number of columns"),
    ],
)
def test_bad_input_is_a_sentence(settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        lbnn.network_kernel(np.ones((3, 2)), **settings)


def test_in_the_estimator():
    """Depth and bias by evidence; a curve is followed where the linear kernel cannot."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(60, 2))
    y = np.abs(X[:, 0]) + 0.1 * rng.normal(size=60)
    model = lbnn.LBNNRegressor(kernel="relu", depth=1).fit(X, y)
    with pytest.warns(lbnn.DataWarning, match="prefers a signal only slightly"):
        linear = lbnn.LBNNRegressor(depth=1).fit(X, y)
    assert [each.fields["kernel"] for each in linear.notices_ if each.code == "nonlinear"] == ["relu"]
    assert set(model.kernel_.parameters) == {"depth", "bias_variance"}
    assert model.log_evidence_ > linear.log_evidence_ + 20
    new = rng.normal(size=(200, 2))
    assert np.sqrt(np.mean((model.predict(new) - np.abs(new[:, 0])) ** 2)) < 0.25
    given = functools.partial(lbnn.network_kernel, depth=3, bias_variance=0.5)
    other = lbnn.LBNNRegressor(kernel=lambda a, b: given(a, X_test=b).T, depth=1).fit(X, y)
    assert other.log_evidence_ > linear.log_evidence_ + 20


def test_kernels_of_nearly_equal_and_of_large_inputs():
    """Against the formulas at fifty digits; 1 − cos² had lost the sine."""
    rng = np.random.default_rng(0)
    with mpmath.workdps(50):
        for size, apart in [(1e-3, 1e-4), (1.0, 1e-4), (1.0, 1e-6), (1e3, 1e-3)]:
            u = size * rng.normal(size=3)
            v = u + apart * size * rng.normal(size=3)
            c, a, b = (np.array([each]) for each in (u @ v, u @ u, v @ v))
            cosine = mpmath.mpf(c[0]) / mpmath.sqrt(mpmath.mpf(a[0]) * mpmath.mpf(b[0]))
            angle = mpmath.acos(min(cosine, mpmath.mpf(1)))
            exact = mpmath.sqrt(mpmath.mpf(a[0]) * mpmath.mpf(b[0])) / (2 * mpmath.pi)
            exact *= mpmath.sin(angle) + (mpmath.pi - angle) * mpmath.cos(angle)
            assert float(ACTIVATIONS["relu"](c, a, b)[0] / exact - 1) == pytest.approx(0.0, abs=2e-15)
    large = np.array([1e20])
    for activation in ACTIVATIONS.values():
        assert np.isfinite(activation(large * (1 + 1e-15), large, large)).all()
