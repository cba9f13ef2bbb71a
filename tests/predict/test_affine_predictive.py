"""Predictives in other units against dense mixtures of Gaussians built atom by atom, and against itself."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import special, stats

import lbnn
from tests.helpers.predictives import affine
from tests.helpers.problems import make_problem
from tests.referees.statistics import assert_agrees

MATRIX = np.array([[2.0, 0.5], [-1.0, 3.0]])
OFFSET = np.array([4.0, -2.0])
LEVEL = 0.3


def make_inner(outputs=2, widths=(6,), seed=0, beta=4.0) -> lbnn.Predictive:
    problem = make_problem(12, 20, outputs, seed=seed, points=3)
    return lbnn.Network(widths).condition(problem.X, problem.Y, beta=beta).predict(problem.X_test)


def make_law(outputs=2, widths=(6,), seed=0, level=LEVEL, beta=4.0) -> lbnn.Predictive:
    size = outputs or 1
    inner = make_inner(outputs, widths, seed, beta)
    return affine(inner, MATRIX[:size, :size], OFFSET[:size], level, outputs is None)


@pytest.fixture(scope="module")
def law() -> lbnn.Predictive:
    return make_law()


def dense_atoms(law: lbnn.Predictive):
    """Weights, means (p̂ n_d,) and covariances (p̂ n_d, p̂ n_d) given every atom, all by Kronecker products."""
    (part,) = law.parts
    process, projection = part.process, part.points
    variance = float(process.draws.variances[0])
    points, outputs = law.shape
    gram = np.diag(process.eigenvalues)  # training points in the eigenbasis
    cross = projection.explained * np.sqrt(process.eigenvalues)
    test = projection.unexplained_gram + projection.explained @ projection.explained.T
    noise = variance * (part.noisy * np.eye(points) + part.level)
    every_point = np.kron(np.eye(points), part.matrix)
    atoms = []
    for scale in process.draws.signal:
        train = np.kron(gram, scale) + variance * np.eye(len(gram) * outputs)
        gain = np.linalg.solve(train, np.kron(cross, scale).T).T
        mean = gain @ process.targets.ravel()
        covariance = np.kron(test, scale) - gain @ np.kron(cross, scale).T + np.kron(noise, np.eye(outputs))
        atoms.append(
            (every_point @ mean + np.tile(part.offset, points), every_point @ covariance @ every_point.T)
        )
    return part.weights, *(np.stack(part) for part in zip(*atoms, strict=True))


def test_moments_are_those_of_the_dense_mixture(law):
    for each in (law, law.with_noise()):
        weights, means, covariances = dense_atoms(each)
        mean = weights @ means
        deviations = means - mean
        covariance = np.tensordot(weights, covariances, axes=1) + (weights * deviations.T) @ deviations
        shaped = covariance.reshape(each.shape * 2)
        np.testing.assert_allclose(each.mean, mean.reshape(each.shape), rtol=1e-10)
        np.testing.assert_allclose(each.covariance, shaped, rtol=1e-9, atol=1e-10)
        diagonal = np.einsum("mjmk->mjk", shaped)
        np.testing.assert_allclose(each.output_covariance, diagonal, rtol=1e-9, atol=1e-10)
        np.testing.assert_allclose(each.variance, np.einsum("mjj->mj", diagonal), rtol=1e-9)
        np.testing.assert_allclose(each.standard_deviation**2, each.variance)


@pytest.mark.parametrize("level", [0.0, LEVEL])
def test_joint_density_of_observations_is_that_of_the_dense_mixture(level):
    law = make_law(level=level).with_noise()
    weights, means, covariances = dense_atoms(law)
    Y = law.mean + 0.3 * np.random.default_rng(1).normal(size=law.shape)
    terms = [
        stats.multivariate_normal(m, c).logpdf(Y.ravel()) for m, c in zip(means, covariances, strict=True)
    ]
    assert law.log_density(Y) == pytest.approx(special.logsumexp(terms, b=weights), abs=1e-9)


def test_joint_density_of_a_function_with_a_level_is_that_of_the_dense_mixture(law):
    weights, means, covariances = dense_atoms(law)
    F = law.mean + 0.3 * np.random.default_rng(1).normal(size=law.shape)
    terms = [
        stats.multivariate_normal(m, c).logpdf(F.ravel()) for m, c in zip(means, covariances, strict=True)
    ]
    assert law.log_density(F) == pytest.approx(special.logsumexp(terms, b=weights), abs=1e-9)


def test_joint_density_of_a_function_in_other_units():
    certain, inner = make_law(level=0.0), make_inner()
    expected = inner.log_density(inner.mean) - 3 * np.log(np.linalg.det(MATRIX))
    assert certain.log_density(certain.mean) == pytest.approx(expected)


@pytest.mark.parametrize("noisy", [False, True])
def test_pointwise_density_is_that_of_the_dense_mixture(law, noisy):
    each = law.with_noise() if noisy else law
    weights, means, covariances = dense_atoms(each)
    Y = each.mean + 0.5
    expected = []
    for point in range(each.shape[0]):
        here = slice(2 * point, 2 * point + 2)
        terms = [
            stats.multivariate_normal(m[here], c[here, here]).logpdf(Y[point])
            for m, c in zip(means, covariances, strict=True)
        ]
        expected.append(special.logsumexp(terms, b=weights))
    np.testing.assert_allclose(each.pointwise_log_density(Y), expected, atol=1e-9)


def test_pointwise_and_joint_density_agree_at_one_point():
    problem = make_problem(12, 20, None, seed=3, points=1)
    inner = lbnn.Network((4, 4)).condition(problem.X, problem.Y, beta=3.0).predict(problem.X_test)
    law = affine(inner, np.array([[2.0]]), np.array([1.0]), 0.2, True).with_noise()
    Y = law.mean + 0.7
    assert law.pointwise_log_density(Y)[0] == pytest.approx(law.log_density(Y), abs=1e-8)


def test_quantiles_invert_the_dense_distribution_function(law):
    levels = np.array([0.05, 0.5, 0.9])
    weights, means, covariances = dense_atoms(law)
    deviations = np.sqrt(np.einsum("sii->si", covariances))
    quantiles = law.quantile(levels)
    assert quantiles.shape == (3, *law.shape)
    for level, quantile in zip(levels, quantiles, strict=True):
        reached = weights @ special.ndtr((quantile.ravel() - means) / deviations)
        np.testing.assert_allclose(reached, level, atol=1e-9)
    low, high = law.interval(0.9)
    np.testing.assert_allclose([low, high], law.quantile([0.05, 0.95]))


def test_one_dimensional_targets_drop_the_output_axis():
    law = make_law(outputs=None)
    assert law.mean.shape == law.variance.shape == law.quantile(0.3).shape == (3,)
    assert law.covariance.shape == (3, 3)
    assert law.sample(5, 0).shape == (5, 3)
    np.testing.assert_allclose(np.diag(law.covariance), law.variance)
    np.testing.assert_allclose(
        law.covariance, MATRIX[0, 0] ** 2 * (make_inner(None).covariance + LEVEL), rtol=1e-12
    )


def test_draws_have_the_moments(law):
    draws = law.with_noise().sample(20_000, 0).reshape(20_000, -1)
    assert_agrees(draws.mean(0), draws.std(0) / np.sqrt(len(draws)), law.mean.ravel())
    squares = (draws - law.mean.ravel())[:, :, None] * (draws - law.mean.ravel())[:, None, :]
    covariance = law.with_noise().covariance.reshape(6, 6)
    assert_agrees(squares.mean(0), squares.std(0) / np.sqrt(len(draws)), covariance, largest_error=0.3)


def test_a_mixture_of_equals_is_the_same(law):
    noisy = law.with_noise()
    mixture = lbnn.Predictive.average((law, law), np.array([0.3, 0.7])).with_noise()
    Y = noisy.mean + 0.4
    for name in ("mean", "variance", "standard_deviation", "output_covariance", "covariance"):
        np.testing.assert_allclose(getattr(mixture, name), getattr(noisy, name), rtol=1e-12)
    assert mixture.log_density(Y) == pytest.approx(noisy.log_density(Y))
    np.testing.assert_allclose(mixture.pointwise_log_density(Y), noisy.pointwise_log_density(Y))
    np.testing.assert_allclose(mixture.quantile([0.1, 0.6]), noisy.quantile([0.1, 0.6]), rtol=1e-9)


def test_a_mixture_obeys_the_laws_of_total_expectation_and_variance():
    parts = make_law(), make_law(widths=(3,), beta=9.0)
    weights = np.array([0.25, 0.75])
    mixture = lbnn.Predictive.average(parts, weights).with_noise()
    means = np.stack([part.mean for part in parts])
    second = np.stack([part.with_noise().variance + part.mean**2 for part in parts])
    np.testing.assert_allclose(mixture.mean, np.tensordot(weights, means, 1))
    np.testing.assert_allclose(mixture.variance, np.tensordot(weights, second, 1) - mixture.mean**2)
    diagonal = np.einsum("mjmj->mj", mixture.covariance)
    np.testing.assert_allclose(diagonal, mixture.variance)
    draws = mixture.sample(20_000, 0)
    assert_agrees(draws.mean(0), draws.std(0) / np.sqrt(len(draws)), mixture.mean)
    below = (draws < mixture.quantile(0.2)).mean(0)
    assert_agrees(below, np.full_like(below, np.sqrt(0.16 / 20_000)), np.full_like(below, 0.2))


def with_weights(law: lbnn.Predictive, weights: np.ndarray) -> lbnn.Predictive:
    """The same draws with other weights, of which no law is known."""
    (part,) = law.parts
    draws = replace(part.draws, weights=weights, groups=None)
    return replace(law, parts=(replace(part, process=part.process.with_draws(draws), evidence=None),))


def test_weights_may_underflow(law):
    tiny = np.full(len(law.parts[0].weights), 1e-320)
    tiny[0] = 1.0
    tiny[1] = 0.0
    alone = with_weights(law, tiny)
    Y = law.mean + 50.0  # where an atom of no weight has the larger density
    densities = alone.parts[0].point_terms(Y, slice(None))
    expected = np.logaddexp(densities[0], special.logsumexp(densities[2:], axis=0) + math.log(1e-320))
    np.testing.assert_allclose(alone.pointwise_log_density(Y), expected, rtol=1e-3)
