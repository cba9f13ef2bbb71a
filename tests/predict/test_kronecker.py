"""The library in the eigenbasis against the paper's equations, written with Kronecker products.

The library's own quadrature supplies atoms and weights where the algebra is at stake; where the measure is,
an adaptive quadrature over λ that shares no code does.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

import lbnn
from tests.helpers.problems import Problem, make_problem
from tests.referees import kronecker

DEEP = [(4,), (3, 5), (2, 1, 6)]
BETAS = [0.3, 40.0, math.inf]
WIDE, TALL = make_problem(4, 9, seed=1), make_problem(7, 3, seed=2)
# Dense inverses of matrices of condition up to 1e4 in the referee, and sums over some 100 atoms.
CLOSE = {"rtol": 1e-9, "atol": 1e-10}

networks = pytest.mark.parametrize("widths", DEEP, ids=str)
temperatures = pytest.mark.parametrize("beta", BETAS)


def problems_at(beta: float) -> list[Problem]:
    """Zero temperature needs p ≤ n0."""
    return [WIDE] if math.isinf(beta) else [WIDE, TALL]


problems = pytest.mark.parametrize(
    ("data", "beta"), [(data, beta) for beta in BETAS for data in problems_at(beta)],
    ids=[f"p{len(data.X)}-beta{beta}" for beta in BETAS for data in problems_at(beta)],
)  # fmt: skip


def atoms_of(post: lbnn.Posterior) -> tuple[np.ndarray, np.ndarray]:
    return post.scale.atoms.reshape(-1, 1, 1), post.scale.weights


@networks
@problems
def test_mean(data: Problem, beta: float, widths: tuple[int, ...]) -> None:
    """⟨F̂⟩ = E β (G_x̂x ⊗ L) Γ_L⁻¹ v(Y)."""
    post = lbnn.Network(widths).condition(data.X, data.Y, beta)
    expected = kronecker.average_mean(*atoms_of(post), data.gram, data.cross, data.columns, beta)
    np.testing.assert_allclose(post.predict(data.X_test).mean, expected[:, 0], **CLOSE)


@networks
@problems
def test_covariance(data: Problem, beta: float, widths: tuple[int, ...]) -> None:
    """cov F̂ = E Σ_L + cov μ_L, and the variance is its diagonal."""
    post = lbnn.Network(widths).condition(data.X, data.Y, beta)
    pred = post.predict(data.X_test)
    expected = kronecker.average_covariance(
        *atoms_of(post), data.gram, data.cross, data.test_gram, data.columns, beta
    )[:, 0, :, 0]
    np.testing.assert_allclose(pred.covariance, expected, **CLOSE)
    np.testing.assert_allclose(pred.variance, np.diag(expected), **CLOSE)
    np.testing.assert_allclose(pred.output_covariance[:, 0, 0], np.diag(expected), **CLOSE)


@networks
@problems
def test_feature_kernel(data: Problem, beta: float, widths: tuple[int, ...]) -> None:
    """⟨K⟩ = G + E Δ_L / n_1."""
    post = lbnn.Network(widths).condition(data.X, data.Y, beta)
    expected = kronecker.average_kernel(*atoms_of(post), data.gram, data.columns, beta, widths[0])
    np.testing.assert_allclose(post.feature_kernel(), expected, **CLOSE)


@networks
@temperatures
def test_generating_function_at_training_points(widths: tuple[int, ...], beta: float) -> None:
    """Z(J) = E exp(μ_Lᵀ v(J) + ½ v(J)ᵀ Σ_L v(J)), where it exists at every depth."""
    J = np.array([0.4, -0.7, 0.2, 0.5])
    post = lbnn.Network(widths).condition(WIDE.X, WIDE.Y, beta)
    expected = kronecker.average_generating_function(
        J[:, None], *atoms_of(post), WIDE.gram, WIDE.gram, WIDE.gram, WIDE.columns, beta
    )
    assert post.predict().mgf(J) == pytest.approx(expected, rel=1e-9)


@temperatures
def test_generating_function_at_depth_two(beta: float) -> None:
    """Z(J) at new points, well inside its domain."""
    J = np.array([0.2, -0.3, 0.1])
    post = lbnn.Network((12,)).condition(WIDE.X, WIDE.Y, beta)
    expected = kronecker.average_generating_function(
        J[:, None], *atoms_of(post), WIDE.gram, WIDE.cross, WIDE.test_gram, WIDE.columns, beta
    )
    assert post.predict(WIDE.X_test).mgf(J) == pytest.approx(expected, rel=1e-9)


@temperatures
def test_training_set_predictor(beta: float) -> None:
    """predict() without arguments is the prediction at the training inputs."""
    post = lbnn.Network((3, 5)).condition(WIDE.X, WIDE.Y, beta)
    own, explicit = post.predict(), post.predict(WIDE.X)
    arguments = (*atoms_of(post), WIDE.gram, WIDE.gram)
    mean = kronecker.average_mean(*arguments, WIDE.columns, beta)[:, 0]
    covariance = kronecker.average_covariance(*arguments, WIDE.gram, WIDE.columns, beta)[:, 0, :, 0]
    for pred in (own, explicit):
        np.testing.assert_allclose(pred.mean, mean, **CLOSE)
        np.testing.assert_allclose(pred.covariance, covariance, **CLOSE)


# ---------------------------------------------------------------- the measure too


def quadrature_of(data: Problem, beta: float, n_1: int, variances: tuple[float, float]) -> tuple:
    """The referee's own integral over λ; the first layer's variance goes into the Gram matrices."""
    first, second = variances
    grams = first * data.gram, first * data.cross, first * data.test_gram
    return kronecker.DepthTwoQuadrature(grams[0], data.Y, beta, n_1, scale_variance=second), grams


@pytest.mark.parametrize("n_1", [3, 20])
@pytest.mark.parametrize("data", [WIDE, TALL], ids=["p4", "p7"])
def test_depth_two_by_independent_quadrature(data: Problem, n_1: int) -> None:
    """Evidence, E λ, mean, covariance and kernel at finite temperature with prior variances."""
    beta, variances = 5.0, (0.3, 2.5)
    quadrature, (gram, cross, test_gram) = quadrature_of(data, beta, n_1, variances)
    post = lbnn.Network((n_1,), prior_variances=variances).condition(data.X, data.Y, beta)
    pred, points = post.predict(data.X_test), len(data.X_test)

    def moments(scale: float) -> np.ndarray:
        mean = kronecker.mu_lambda(scale, gram, cross, data.Y, beta)
        second = kronecker.sigma_lambda(scale, gram, cross, test_gram, beta) + np.outer(mean, mean)
        delta = kronecker.delta_lambda(scale, gram, data.Y, beta)
        return np.concatenate([[scale], mean, second.ravel(), delta.ravel()])

    expected = quadrature.expect(moments)
    scale, mean, second, delta = np.split(expected, np.cumsum([1, points, points**2]))
    assert post.log_evidence == pytest.approx(quadrature.log_evidence(), rel=1e-9)
    assert post.scale.mean == pytest.approx(scale[0], rel=1e-9)
    np.testing.assert_allclose(pred.mean, mean, **CLOSE)
    covariance = second.reshape(points, points) - np.outer(mean, mean)
    np.testing.assert_allclose(pred.covariance, covariance, **CLOSE)
    np.testing.assert_allclose(post.feature_kernel(), gram + delta.reshape(gram.shape) / n_1, **CLOSE)


@pytest.mark.parametrize("variances", [(1.0, 1.0), (0.3, 2.5)])
def test_depth_two_at_zero_temperature(variances: tuple[float, float]) -> None:
    """Mean G_x̂x G⁻¹ y, covariance E λ · Schur complement, kernel G + (E[1/λ] y yᵀ − G)/n_1."""
    quadrature, (gram, cross, test_gram) = quadrature_of(WIDE, math.inf, 5, variances)
    post = lbnn.Network((5,), prior_variances=variances).condition(WIDE.X, WIDE.Y, math.inf)
    scale, inverse = quadrature.expect(lambda s: np.array([s, 1 / s]))
    pred, gain = post.predict(WIDE.X_test), np.linalg.solve(gram, cross).T
    np.testing.assert_allclose(pred.mean, gain @ WIDE.Y, **CLOSE)
    np.testing.assert_allclose(pred.covariance, scale * (test_gram - gain @ cross), **CLOSE)
    kernel = gram + (inverse * np.outer(WIDE.Y, WIDE.Y) - gram) / 5
    np.testing.assert_allclose(post.feature_kernel(), kernel, **CLOSE)
    assert post.scale.inverse_mean == pytest.approx(inverse, rel=1e-9)


# ---------------------------------------------------------------- depth one, several outputs


@pytest.mark.parametrize("variance", [1.0, 0.3])
@temperatures
def test_depth_one_with_several_outputs(beta: float, variance: float) -> None:
    """L = I: evidence, mean and covariance over points and outputs, with the first layer's variance."""
    data, identity = make_problem(4, 9, 3, seed=3, points=2), np.eye(3)[None]
    gram, cross, test_gram = (variance * G for G in (data.gram, data.cross, data.test_gram))
    post = lbnn.Network((), prior_variances=(variance,)).condition(data.X, data.Y, beta)
    pred = post.predict(data.X_test)
    _, evidence = kronecker.posterior_weights(identity, np.ones(1), gram, data.Y, beta)
    assert post.log_evidence == pytest.approx(evidence, rel=1e-10)
    mean = kronecker.average_mean(identity, np.ones(1), gram, cross, data.Y, beta)
    np.testing.assert_allclose(pred.mean, mean, **CLOSE)
    covariance = kronecker.average_covariance(identity, np.ones(1), gram, cross, test_gram, data.Y, beta)
    np.testing.assert_allclose(pred.covariance, covariance, **CLOSE)
    np.testing.assert_allclose(pred.output_covariance, np.einsum("mjmk->mjk", covariance), **CLOSE)
    np.testing.assert_allclose(pred.variance, np.einsum("mjmj->mj", covariance), **CLOSE)
    J = np.array([[0.3, -0.2, 0.5], [0.1, 0.4, -0.6]])
    expected = kronecker.average_generating_function(
        J, identity, np.ones(1), gram, cross, test_gram, data.Y, beta
    )
    assert pred.mgf(J) == pytest.approx(expected, rel=1e-10)


def test_shapes_follow_the_targets() -> None:
    """One-dimensional Y drops the output axis everywhere; a single column keeps it."""
    flat = lbnn.Network((4,)).condition(WIDE.X, WIDE.Y, 2.0)
    column = lbnn.Network((4,)).condition(WIDE.X, WIDE.columns, 2.0)
    assert isinstance(flat.scale.mean, float)
    assert column.scale.mean.shape == (1, 1)
    assert column.scale.atoms.shape == (len(column.scale.weights), 1, 1)
    one, two = flat.predict(WIDE.X_test), column.predict(WIDE.X_test)
    np.testing.assert_array_equal(two.mean, one.mean[:, None])
    np.testing.assert_array_equal(two.variance, one.variance[:, None])
    np.testing.assert_array_equal(two.covariance, one.covariance[:, None, :, None])
    np.testing.assert_array_equal(two.quantile([0.1, 0.9]), one.quantile([0.1, 0.9])[..., None])
    assert two.sample(5, 0).shape == (5, 3, 1)
    assert one.sample(5, 0).shape == (5, 3)
