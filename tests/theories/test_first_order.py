"""The expansion of scale, predictor and evidence in 1/n, against finite differences and the exact answer."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from numpy.typing import NDArray

import lbnn
from lbnn import asymptotics
from tests.helpers.problems import make_problem, random_rotation

Array = NDArray[np.float64]
VARIANCES = (1.2, 0.7, 1.5)
PREFACTOR = 0.7 * 1.5  # of the layers in L


def dense(problem, beta: float, scale: Array) -> tuple[Array, Array, float]:
    """Mean (p̂, n_d), covariance (p̂, n_d, p̂, n_d) and log p(Y | L) given L."""
    inputs = np.concatenate([problem.X, problem.X_test])
    gram = VARIANCES[0] * inputs @ inputs.T / inputs.shape[1]
    p, outputs = problem.Y.shape
    joint = np.kron(gram, scale)
    split = p * outputs
    noisy = joint[:split, :split] + np.eye(split) / beta
    targets = problem.Y.ravel()
    gain = np.linalg.solve(noisy, joint[:split, split:]).T
    mean = (gain @ targets).reshape(-1, outputs)
    covariance = joint[split:, split:] - gain @ joint[:split, split:]
    value = targets @ np.linalg.solve(noisy, targets) + np.linalg.slogdet(2 * math.pi * noisy)[1]
    return mean, covariance.reshape(len(mean), outputs, len(mean), outputs), -0.5 * value


def directions(outputs: int) -> list[Array]:
    """Orthonormal symmetric matrices."""
    found = []
    for i, j in itertools.combinations_with_replacement(range(outputs), 2):
        each = np.zeros((outputs, outputs))
        each[i, j] = each[j, i] = 1.0 if i == j else math.sqrt(0.5)
        found.append(each)
    return found


@pytest.mark.parametrize("outputs", [1, 2, 3])
@pytest.mark.parametrize("beta", [0.5, 20.0, 1e4])
def test_expansion_is_that_of_finite_differences(outputs: int, beta: float) -> None:
    """E f = f(I) + v [⟨∇f, ∇ℓ⟩ + ½ Δf] with numerical derivatives of dense formulas."""
    problem = make_problem(4, 6, outputs, seed=77)
    net = lbnn.Network((400, 300), VARIANCES)
    spread, step = 2 / 400 + 2 / 300, 1e-3

    def at(move: Array) -> tuple[Array, Array, float]:
        return dense(problem, beta, PREFACTOR * (np.eye(outputs) + move))

    mean, covariance, log_evidence = at(np.zeros((outputs, outputs)))
    scale = np.eye(outputs)
    between = np.zeros_like(covariance)
    start = mean.copy(), covariance.copy(), log_evidence
    for direction in directions(outputs):
        up, down = at(step * direction), at(-step * direction)
        slope = (up[2] - down[2]) / (2 * step)
        for total, k in ((mean, 0), (covariance, 1)):
            total += spread * slope * (up[k] - down[k]) / (2 * step)
            total += 0.5 * spread * (up[k] + down[k] - 2 * start[k]) / step**2
        log_evidence += 0.5 * spread * (slope**2 + (up[2] + down[2] - 2 * start[2]) / step**2)
        tilt = (up[0] - down[0]) / (2 * step)
        between += spread * tilt[:, :, None, None] * tilt
        scale += spread * slope * direction
    theory = asymptotics.infinite_width(net, problem.X, problem.Y, beta)
    found = theory.predict(problem.X_test)
    # central differences of step 1e-3: relative errors of 1e-6, more where the noise is small
    tolerance = {"rtol": 1e-4, "atol": 1e-5 * np.abs(covariance).max()}
    np.testing.assert_allclose(found.mean, mean, rtol=1e-4, atol=1e-5 * np.abs(mean).max())
    np.testing.assert_allclose(found.covariance, covariance + between, **tolerance)
    np.testing.assert_allclose(theory.scale.mean, PREFACTOR * scale, rtol=1e-4, atol=1e-5)
    assert theory.log_evidence == pytest.approx(log_evidence, abs=1e-4)


@pytest.mark.parametrize("shape", [(1,), (2, 1, 1)])
@pytest.mark.parametrize("beta", [0.7, math.inf])
def test_error_falls_as_the_square_of_the_width(shape: tuple[int, ...], beta: float) -> None:
    """One output: mean, covariance, scale and evidence are right up to terms in 1/n²."""
    problem = make_problem(5, 8, seed=78)
    errors = []
    for n in (2000, 8000):
        net = lbnn.Network(tuple(n * each for each in shape))
        exact = net.condition(problem.X, problem.Y, beta)
        theory = asymptotics.infinite_width(net, problem.X, problem.Y, beta)
        own, expected = theory.predict(problem.X_test), exact.predict(problem.X_test)
        errors.append(
            [
                np.abs(own.mean - expected.mean).max() if beta < math.inf else 1.0,  # exact without noise
                np.abs(own.covariance - expected.covariance).max(),
                abs(theory.scale.mean - exact.scale.mean),
                abs(theory.log_evidence - exact.log_evidence),
            ]
        )
    ratios = np.array(errors[0]) / errors[1]
    np.testing.assert_allclose(ratios[int(beta == math.inf) :], 16.0, rtol=0.1)


def test_several_outputs_against_the_exact_posterior() -> None:
    """Three outputs: 2.25 times the width, a fifth of the error.

    One exact answer has a Monte Carlo error as large as that of the theory at the larger width: the mean of
    sixteen seeds is compared, and the variance of that mean is taken out of the squared differences.
    """
    problem, seeds = make_problem(6, 9, 3, seed=79), range(16)
    errors = []
    for n in (60, 135):
        net = lbnn.Network((n,))
        posts = [net.condition(problem.X, problem.Y, 30.0, target_error=0.02, seed=seed) for seed in seeds]
        exact = np.array([post.predict(problem.X_test).output_covariance for post in posts])
        noise = (exact.var(axis=0, ddof=1) / len(exact)).sum()
        theories = [asymptotics.infinite_width(net, problem.X, problem.Y, 30.0, order=k) for k in (1, 0)]
        gaps = [each.predict(problem.X_test).output_covariance - exact.mean(axis=0) for each in theories]
        errors.append([math.sqrt((gap**2).sum() - noise) for gap in gaps])
    assert errors[0][0] < 0.5 * errors[0][1]
    assert errors[1][0] / errors[0][0] == pytest.approx(2.25**-2, rel=0.35)
    assert errors[1][1] / errors[0][1] == pytest.approx(1 / 2.25, rel=0.35)


def test_rotated_outputs_rotate() -> None:
    problem = make_problem(5, 7, 3, seed=80)
    turn = random_rotation(3, np.random.default_rng(0))
    net = lbnn.Network((90, 70))
    first, second = (
        asymptotics.infinite_width(net, problem.X, Y, 3.0).predict(problem.X_test)
        for Y in (problem.Y, problem.Y @ turn)
    )
    np.testing.assert_allclose(second.mean, first.mean @ turn, atol=1e-12)
    np.testing.assert_allclose(second.output_covariance, turn.T @ first.output_covariance @ turn, atol=1e-12)


def test_law_of_the_expansion() -> None:
    problem = make_problem(5, 7, 2, seed=81)
    theory = asymptotics.infinite_width(lbnn.Network((90,)), problem.X, problem.Y, 4.0)
    found = theory.predict(problem.X_test)
    points, outputs = found.mean.shape
    full = found.covariance.reshape(points * outputs, -1)
    np.testing.assert_allclose(full, full.T, atol=1e-14)
    np.testing.assert_allclose(found.variance.ravel(), np.diag(full))
    np.testing.assert_allclose(found.standard_deviation**2, found.variance)
    np.testing.assert_allclose(found.output_covariance[1], found.covariance[1, :, 1])
    np.testing.assert_allclose(found.with_noise().variance, found.variance + 0.25)
    np.testing.assert_allclose(
        found.interval(0.95)[1], found.mean + 1.959963984540054 * found.standard_deviation
    )
    assert "order 1" in repr(theory)


def test_order_zero_is_the_process() -> None:
    problem = make_problem(5, 7, 2, seed=82)
    net = lbnn.Network((9, 8), (1.0, 1.3, 0.8))
    theory = asymptotics.infinite_width(net, problem.X, problem.Y, 4.0, order=0)
    first = asymptotics.infinite_width(net, problem.X, problem.Y, 4.0)
    flat = lbnn.Network((), (1.3 * 0.8,)).condition(problem.X, problem.Y, 4.0).predict(problem.X_test)
    np.testing.assert_allclose(theory.predict(problem.X_test).covariance, flat.covariance, rtol=1e-10)
    np.testing.assert_array_equal(theory.feature_kernel(layer=2), first.feature_kernel(layer=2))


def test_what_is_refused() -> None:
    problem = make_problem(5, 7, 2, seed=83)
    with pytest.raises(ValueError, match="order must be 0 or 1, got 2"):
        asymptotics.infinite_width(lbnn.Network((9,)), problem.X, problem.Y, 4.0, order=2)
    with pytest.raises(ValueError, match="use order=0"):
        asymptotics.infinite_width(lbnn.Network((2,)), problem.X, 0 * problem.Y, math.inf)
