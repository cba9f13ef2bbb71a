"""Many outputs: the saddle point over hidden kernels, by equation, duality and exact posteriors."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import integrate, linalg, stats

import lbnn
from lbnn import asymptotics
from lbnn.theories.limits.wide_prior import WidePrior
from tests.helpers.problems import Problem, make_problem
from tests.referees.matrix_gig import PlaneReferee

Array = NDArray[np.float64]

DATA = make_problem(3, 5, 12, seed=521, points=2, signal=1.4)
DEEP = lbnn.Network((15, 25), (1.3, 0.7, 1.6))
networks = pytest.mark.parametrize("net", [lbnn.Network((18,)), DEEP], ids=str)


# ---------------------------------------------------------------------- the Riccati equation (eqn:42)


@pytest.mark.parametrize("width", [120, 24, 12, 11, 4])
@pytest.mark.parametrize("strength", [1.0, 1e3])
def test_riccati_residual(width: int, strength: float) -> None:
    """K G⁻¹ K − γ G_yy + (γ − 1) K = 0 for γ from 0.1 to 3, also for targets far from the prior."""
    Y = strength * DATA.Y
    kernel = asymptotics.many_outputs(lbnn.Network((width,)), DATA.X, Y).kernel
    square = kernel @ np.linalg.solve(DATA.gram, kernel)
    residual = square - Y @ Y.T / width + (12 / width - 1) * kernel
    assert np.abs(residual).max() < 1e-12 * np.abs(square).max()
    np.testing.assert_allclose(kernel, kernel.T, rtol=0, atol=1e-14 * np.abs(kernel).max())
    assert np.linalg.eigvalsh(kernel)[0] > 0


@pytest.mark.parametrize("width", [40, 12, 5])
def test_closed_form_and_solver(width: int) -> None:
    """½G[(1 − γ)I + ((1 − γ)²I + 4γG⁻¹G_yy)^{1/2}] (eqn:43), and SciPy's solver with Q = γG_yy, R = G."""
    gamma, target = 12 / width, DATA.Y @ DATA.Y.T / width
    kernel = asymptotics.many_outputs(lbnn.Network((width,)), DATA.X, DATA.Y).kernel
    root = linalg.sqrtm((1 - gamma) ** 2 * np.eye(3) + 4 * np.linalg.solve(DATA.gram, target)).real
    np.testing.assert_allclose(kernel, 0.5 * DATA.gram @ ((1 - gamma) * np.eye(3) + root), rtol=1e-11)
    solved = linalg.solve_continuous_are(0.5 * (1 - gamma) * np.eye(3), np.eye(3), target, DATA.gram)
    np.testing.assert_allclose(kernel, solved, rtol=1e-10)


def test_equal_width_and_outputs() -> None:
    """γ = 1: K = G (G⁻¹G_yy)^{1/2} = (G_yy G⁻¹)^{1/2} G."""
    kernel = asymptotics.many_outputs(lbnn.Network((12,)), DATA.X, DATA.Y).kernel
    target = DATA.Y @ DATA.Y.T / 12
    left = DATA.gram @ linalg.sqrtm(np.linalg.solve(DATA.gram, target)).real
    right = linalg.sqrtm(target @ np.linalg.inv(DATA.gram)).real @ DATA.gram
    np.testing.assert_allclose(kernel, left, rtol=1e-11)
    np.testing.assert_allclose(kernel, right, rtol=1e-11)


# ---------------------------------------------------------------------- duality


@networks
def test_exchange_of_examples_and_outputs(net: lbnn.Network) -> None:
    """At zero temperature G^{−1/2} K_{d−1} G^{−1/2} is the scale of the problem with targets (G^{−1/2}Y)ᵀ."""
    values, vectors = np.linalg.eigh(DATA.gram)
    white = (vectors / np.sqrt(values)) @ vectors.T
    last = len(net.widths)
    kernel = asymptotics.many_outputs(net, DATA.X, DATA.Y).feature_kernel(layer=last)
    first, *others = net.prior_variances
    swapped = lbnn.Network(net.widths, (1.0, *others))
    X = math.sqrt(12) * np.eye(12)
    dual = asymptotics.proportional(swapped, X, (white @ DATA.Y).T / math.sqrt(first))
    np.testing.assert_allclose(
        others[-1] * white @ kernel @ white / first, dual.scale.mean, rtol=1e-10, atol=1e-13
    )
    # The densities of Y and of its dual differ by the Jacobian of Y → (σ_1² G)^{−1/2} Y.
    jacobian = -0.5 * 12 * float(np.log(first * values).sum())
    evidence = asymptotics.many_outputs(net, DATA.X, DATA.Y).log_evidence
    assert evidence == pytest.approx(dual.log_evidence + jacobian, rel=1e-11)


def log_density(data: Problem, kernel: Array, beta: float) -> float:
    """log MN(Y; 0, K + I/β, I)."""
    covariance = kernel + (0.0 if math.isinf(beta) else 1 / beta) * np.eye(len(kernel))
    return sum(
        stats.multivariate_normal.logpdf(column, np.zeros(len(kernel)), covariance) for column in data.Y.T
    )


@networks
@pytest.mark.parametrize("beta", [0.4, 30.0, math.inf])
def test_stationary(net: lbnn.Network, beta: float) -> None:
    """Finite differences of Σψ + log p(Y | K_{d−1}) vanish everywhere; the maximum is the evidence."""
    first, *others = net.prior_variances
    theory = asymptotics.many_outputs(net, DATA.X, DATA.Y, beta=beta)
    values, vectors = np.linalg.eigh(first * DATA.gram)
    root = (vectors * np.sqrt(values)) @ vectors.T
    white = np.linalg.inv(root)
    hidden = others[-1] * white @ theory.feature_kernel(layer=len(net.widths)) @ white
    prior, step = WidePrior(net.widths, math.prod(others)), 1e-4

    def value(matrix: Array) -> float:
        rate = float(prior.rate(np.linalg.eigvalsh(matrix)).sum())
        return rate + log_density(DATA, root @ matrix @ root, beta)

    assert theory.log_evidence == pytest.approx(value(hidden), rel=1e-10)
    for i in range(3):
        for j in range(i + 1):
            change = np.zeros((3, 3))
            change[i, j] = change[j, i] = step
            slope = (value(hidden + change) - value(hidden - change)) / (2 * step)
            assert abs(slope) < 2e-5
            assert value(hidden + change) < value(hidden)


def test_layers_below_are_the_cheapest() -> None:
    """Kernels of all layers share axes, and n_ℓ(1 − c_ℓ) is the same for every layer."""
    first, second, _ = DEEP.prior_variances
    theory = asymptotics.many_outputs(DEEP, DATA.X, DATA.Y, beta=3.0)
    bare, lower, upper = first * DATA.gram, theory.feature_kernel(layer=1), theory.feature_kernel(layer=2)
    ratio_1, ratio_2 = np.linalg.solve(bare, lower), np.linalg.solve(lower, upper) / second
    np.testing.assert_allclose(ratio_1 @ ratio_2, ratio_2 @ ratio_1, atol=1e-10)
    np.testing.assert_allclose(15 * (np.eye(3) - ratio_1), 25 * (np.eye(3) - ratio_2), atol=1e-8)


def test_cold_limit() -> None:
    cold = asymptotics.many_outputs(DEEP, DATA.X, DATA.Y)
    gaps = [
        np.linalg.norm(asymptotics.many_outputs(DEEP, DATA.X, DATA.Y, beta=beta).kernel - cold.kernel)
        for beta in (1e4, 1e5)
    ]
    assert gaps[0] / gaps[1] == pytest.approx(10, rel=0.05)


# ---------------------------------------------------------------------- predictive


@networks
@pytest.mark.parametrize("beta", [0.4, 30.0, math.inf])
def test_predictive_is_the_process_of_the_learned_kernel(net: lbnn.Network, beta: float) -> None:
    """Conditioning a dense Gaussian process with σ_d² K_{d−1} on train and test points together."""
    theory = asymptotics.many_outputs(net, DATA.X, DATA.Y, beta=beta)
    points = np.concatenate([DATA.X, DATA.X_test])
    joint = net.prior_variances[-1] * theory.feature_kernel(points, layer=len(net.widths))
    noisy = joint[:3, :3] + np.eye(3) / beta
    gain = np.linalg.solve(noisy, joint[:3, 3:]).T
    predictive = theory.predict(DATA.X_test)
    np.testing.assert_allclose(predictive.mean, gain @ DATA.Y, rtol=1e-9, atol=1e-12)
    covariance = joint[3:, 3:] - gain @ joint[:3, 3:]
    expected = np.einsum("mn,jk->mjnk", covariance, np.eye(12))
    np.testing.assert_allclose(predictive.covariance, expected, rtol=1e-8, atol=1e-11)
    independent = sum(
        stats.multivariate_normal.logpdf(column, mean, covariance)
        for column, mean in zip(np.zeros((12, 2)), (gain @ DATA.Y).T, strict=True)
    )
    assert predictive.log_density(np.zeros((2, 12))) == pytest.approx(independent, rel=1e-8)


# ---------------------------------------------------------------------- approach to the exact answer


@pytest.mark.parametrize("shape", [(1,), (1, 2)])
def test_one_example_by_duality(shape: tuple[int, ...]) -> None:
    """p = 1: the hidden kernel is a number whose exact law is that of one output and n_d examples."""
    errors = []
    for n in (50, 200):
        targets = 1.5 + np.cos(np.arange(n // 2) / (n // 2) * 7.0)
        net = lbnn.Network(tuple(n * each for each in shape))
        theory = asymptotics.many_outputs(net, [[1.0]], targets[None])
        dual = net.condition(math.sqrt(n // 2) * np.eye(n // 2), targets, math.inf)
        errors.append(float(theory.feature_kernel(layer=len(shape))[0, 0] / dual.scale.mean - 1))
    assert errors[0] / errors[1] == pytest.approx(4, rel=0.1)
    assert abs(errors[1]) < 0.05


def mean_kernel(gram: float, targets: Array, width: int, beta: float) -> float:
    """⟨K⟩ for p = 1 by adaptive quadrature over K ~ Gamma(n_1/2, 2g/n_1)."""
    prior, size = stats.gamma(width / 2, scale=2 * gram / width), float((targets**2).sum())

    def log_value(kernel: float) -> float:
        variance = kernel + 1 / beta
        return prior.logpdf(kernel) - 0.5 * (len(targets) * math.log(variance) + size / variance)

    top = max(log_value(kernel) for kernel in np.linspace(0.5, 8, 50))

    def moment(power: int) -> float:
        return integrate.quad(lambda k: k**power * math.exp(log_value(k) - top), 0.2, 9.0, epsabs=1e-12)[0]

    return moment(1) / moment(0)


def test_one_example_by_an_integral() -> None:
    """p = 1 at finite temperature."""
    errors = []
    for n in (50, 200):
        targets = 1.5 + np.cos(np.arange(n // 2) / (n // 2) * 7.0)
        theory = asymptotics.many_outputs(lbnn.Network((n,)), [[math.sqrt(1.7)]], targets[None], beta=3.0)
        errors.append(float(theory.kernel[0, 0]) / mean_kernel(1.7, targets, n, 3.0) - 1)
    assert errors[0] / errors[1] == pytest.approx(4, rel=0.1)
    assert abs(errors[1]) < 0.05


def test_exact_kernel_is_approached() -> None:
    """p = 2, n_1 = 2 n_d, zero temperature: K follows the matrix law MGIG(YYᵀ, n_1 G⁻¹, (n_1 − n_d)/2)."""
    X = np.array([[1.0, 0.4, 0.0], [0.2, 1.1, 0.7]])
    gram, errors = X @ X.T / 3, []
    for n in (20, 80):
        place = np.arange(n // 2) / (n // 2)
        Y = 1.5 * np.stack([1 + np.cos(9 * place), np.sin(7 * place) - 1])
        exact = PlaneReferee(Y @ Y.T, n * np.linalg.inv(gram), n / 4).expect("mean")
        kernel = asymptotics.many_outputs(lbnn.Network((n,)), X, Y).kernel
        errors.append(np.linalg.norm(kernel - exact) / np.linalg.norm(exact))
    assert errors[0] / errors[1] == pytest.approx(4, rel=0.2)


@pytest.mark.slow
@pytest.mark.parametrize("beta", [4.0, math.inf])
def test_exact_engine_is_approached(beta: float) -> None:
    """p = 3 and n_1 = 2 n_d by the exact engine."""
    data = {n: make_problem(3, 6, n // 2, seed=522, signal=2.0) for n in (20, 80)}
    rows = []
    for n, each in data.items():
        result = lbnn.compare(
            lbnn.Network((n,)), each.X, each.Y, beta, quantities=("kernel",), target_error=0.01
        )
        rows.append(next(row for row in result.rows if row.theory == "many outputs"))
    assert rows[1].monte_carlo < 0.2 * rows[1].error
    assert 2.0 < rows[0].error / rows[1].error < 8.0
