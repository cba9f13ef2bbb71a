"""Limit theories and prior beside deepbays and neural-tangents (values in tests/reference)."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import lbnn
from lbnn import asymptotics
from lbnn.likelihood.gaussian import GaussianLikelihood
from lbnn.theories.limits.wide_prior import WidePrior
from tests.referees.statistics import assert_agrees

Array = NDArray[np.float64]

REFERENCE = Path(__file__).parents[1] / "reference"
DEEPBAYS = json.loads((REFERENCE / "deepbays.json").read_text(encoding="utf-8"))
TANGENTS = json.loads((REFERENCE / "neural_tangents.json").read_text(encoding="utf-8"))
saddles = pytest.mark.parametrize(
    "case", DEEPBAYS["cases"], ids=lambda case: f"{case['width']}x{case['layers']}"
)
kernels = pytest.mark.parametrize("case", TANGENTS["cases"], ids=lambda case: str(case["widths"]))
GROUPS = TANGENTS["groups"]


# ---------------------------------------------------------------------- deepbays: one output


def as_network(case: dict[str, Any]) -> lbnn.Network:
    """Its prior precisions are inverse variances."""
    return lbnn.Network((case["width"],) * case["layers"], [1 / each for each in case["precisions"]])


def as_factor(case: dict[str, Any]) -> GaussianLikelihood:
    """log p(y | λ)."""
    X, y = np.array(case["X"]), np.array(case["y"])
    values, vectors = np.linalg.eigh(X @ X.T / X.shape[1] / case["precisions"][0])
    return GaussianLikelihood(values, vectors.T @ y[:, None], 0.0, len(y), case["temperature"])


@saddles
def test_order_parameters_are_the_factors(case: dict[str, Any]) -> None:
    """Π Q_ℓ/λ_ℓ is the scale of the proportional theory, Q_ℓ its factors (its optimiser leaves 1e-7)."""
    net = as_network(case)
    theory = asymptotics.proportional(net, case["X"], case["y"], beta=1 / case["temperature"])
    variance = math.prod(net.prior_variances[1:])
    assert theory.scale.mean == pytest.approx(math.prod(case["order_parameters"]) * variance, rel=2e-7)
    factors = WidePrior(net.widths, variance).layer_values(np.array([theory.scale.mean]))[0]
    np.testing.assert_allclose(factors, case["order_parameters"], rtol=2e-7)
    np.testing.assert_allclose(theory.predict(case["X_test"]).mean, case["mean"], rtol=1e-6)


@saddles
def test_action_is_the_log_evidence(case: dict[str, Any]) -> None:
    """−(n/2)(action − layers) = ψ + log p(y | λ) + ½ p log 2π, to rounding, at equal order parameters."""
    net, factor, layers = as_network(case), as_factor(case), case["layers"]
    variance = math.prod(net.prior_variances[1:])
    for probe, action in zip(DEEPBAYS["probes"], case["action"], strict=True):
        scale = np.array([[variance * probe**layers]])
        own = (
            WidePrior(net.widths, variance).rate(scale[0]).sum()
            + factor.log_value(scale, np.ones((1, 1, 1)))[0]
        )
        assert -0.5 * case["width"] * (action - layers) == pytest.approx(own, rel=1e-12)


@saddles
def test_difference_from_the_exact_mean_is_of_order_one_over_n(case: dict[str, Any]) -> None:
    """E λ is not its mode: growing n, p and the targets' power together, the gap falls like 1/n."""
    X, y = np.array(case["X"]), np.array(case["y"])
    gaps = []
    for copies in (4, 16):  # the same spectrum `copies` times over
        net = lbnn.Network((copies * case["width"],) * case["layers"], as_network(case).prior_variances)
        inputs = math.sqrt(copies) * np.kron(np.eye(copies), X)
        targets = np.tile(y, copies)
        beta = 1 / case["temperature"]
        exact = net.condition(inputs, targets, beta).scale.mean
        gaps.append(asymptotics.proportional(net, inputs, targets, beta=beta).scale.mean / exact - 1)
    assert gaps[0] / gaps[1] == pytest.approx(4, rel=0.25)


@saddles
def test_difference_from_the_exact_mean_is_explained(case: dict[str, Any]) -> None:
    """Next order of Laplace's method for E e^x at the saddle: Φ'/κ + 1/(2κ) + Φ'''/(2κ²), κ = −Φ''."""
    net, y, beta = as_network(case), np.array(case["y"]), 1 / case["temperature"]
    saddle = asymptotics.proportional(net, case["X"], y, beta=beta).scale.mean
    exact = net.condition(case["X"], y, beta).scale.mean
    factor, prior, step = as_factor(case), net.scale_prior(1).log_scale_law, 1e-2
    x = math.log(saddle) + step * np.arange(-2, 3)
    value = prior.log_density(x) + factor.log_value(np.exp(x)[:, None], np.ones((5, 1, 1)))
    slope = (value[3] - value[1]) / (2 * step)  # zero at depth two; in deep networks the prior's next order
    kappa = -(value[3] - 2 * value[2] + value[1]) / step**2
    third = (value[4] - 2 * value[3] + 2 * value[1] - value[0]) / (2 * step**3)
    expected = slope / kappa + 1 / (2 * kappa) + third / (2 * kappa**2)
    assert exact / saddle - 1 == pytest.approx(expected, rel=0.1, abs=2e-5)


# ---------------------------------------------------------------------- neural-tangents


@kernels
def test_moments_of_the_prior_kernel(case: dict[str, Any]) -> None:
    """E K and E K² of its finite networks against the product of Wishart laws.

    A layer of n units maps moments as E[K'_ij K'_kl | K] = K_ij K_kl + (K_ik K_jl + K_il K_jk)/n.
    """
    X = np.array(case["X"])
    gram = math.prod(case["variances"][:-1]) * X @ X.T / X.shape[1]
    moments = np.einsum("ij,kl->ijkl", gram, gram)
    for width in case["widths"]:
        moments = moments + (moments.transpose(0, 2, 1, 3) + moments.transpose(0, 3, 2, 1)) / width
    squares = np.einsum("ijij->ij", moments)
    for found, exact in ((case["kernel"], gram), (case["square"], squares)):
        assert_agrees(found["mean"], found["error"], exact, comparisons=18, degrees_of_freedom=GROUPS - 1)
    assert np.max(case["kernel"]["error"]) < 2e-3 * np.max(np.abs(gram))


@kernels
def test_own_prior_has_these_moments(case: dict[str, Any]) -> None:
    """K at one point is g λ with λ of the scale's prior: E λ² by quadrature, its networks by draws."""
    X = np.array(case["X"])
    gains = math.prod(case["variances"][:-1])
    prior = lbnn.Network(case["widths"]).condition(X, np.zeros(3), 0.0).scale
    second = prior.expect(lambda scale: scale**2)
    assert second == pytest.approx(math.prod(1 + 2 / width for width in case["widths"]), rel=1e-10)
    exact = second * (gains * np.diag(X @ X.T) / X.shape[1]) ** 2
    square = case["square"]
    assert_agrees(np.diag(square["mean"]), np.diag(square["error"]), exact, degrees_of_freedom=GROUPS - 1)


@kernels
def test_posterior_kernel_by_weighted_draws(case: dict[str, Any]) -> None:
    """Its draws weighted by the likelihood: the exact kernel, and the leading correction to order 1/n."""
    net = lbnn.Network(case["widths"], case["variances"])
    X, Y, layer = np.array(case["X"]), np.array(case["Y"]), len(case["widths"])
    found = case["posterior_kernel"]
    estimate, error = np.array(found["mean"]), np.array(found["error"])
    runs = [net.condition(X, Y, case["beta"], seed=seed).feature_kernel(layer=layer) for seed in range(20)]
    own_error = np.std(runs, axis=0, ddof=1) / math.sqrt(20)
    assert_agrees(estimate, np.hypot(error, own_error), np.mean(runs, axis=0), degrees_of_freedom=19)
    bare = math.prod(case["variances"][:-1]) * X @ X.T / X.shape[1]
    wide = asymptotics.infinite_width(net, X, Y, case["beta"]).feature_kernel(layer=layer)
    correction = np.linalg.norm(estimate - bare)
    assert np.linalg.norm(error) < 0.05 * correction
    assert np.linalg.norm(wide - estimate) < 4 / min(case["widths"]) * correction


@kernels
def test_infinite_width_is_its_nngp(case: dict[str, Any]) -> None:
    """Kernel, mean and covariance of its Gaussian process."""
    net = lbnn.Network(case["widths"], case["variances"])
    X, X_test = np.array(case["X"]), np.array(case["X_test"])
    theory = asymptotics.infinite_width(net, X, case["Y"], case["beta"], order=0)
    points = np.concatenate([X, X_test])
    prior = asymptotics.infinite_width(net, X, case["Y"], 0.0)
    layer = len(case["widths"])
    kernel = case["variances"][-1] * prior.feature_kernel(points, layer=layer)
    np.testing.assert_allclose(kernel, case["wide_kernel"], rtol=1e-9, atol=1e-12)
    predictive = theory.predict(X_test)
    np.testing.assert_allclose(predictive.mean, case["wide_mean"], rtol=1e-8)
    expected = np.einsum("mn,jk->mjnk", np.array(case["wide_covariance"]), np.eye(2))
    np.testing.assert_allclose(predictive.covariance, expected, rtol=1e-8, atol=1e-12)
