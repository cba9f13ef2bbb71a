"""Loadings and noise integrated out given the features, against dense multivariate laws and quadrature."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import integrate, stats

from lbnn.sums.table import NOISE_SHAPE, Table

RNG = np.random.default_rng(3)
Y = RNG.normal(size=(6, 3))
OBSERVED = RNG.random((6, 3)) < 0.7
OBSERVED[0] = True
FEATURES = RNG.normal(size=(6, 2, 2))  # of two particles


def dense_log_density(particle, output, noise, power, loading_variance):
    """log ∫ prior(T) likelihood(T)^power for one output: a Gaussian with noise/power, and its constant."""
    here = OBSERVED[:, output]
    C, y = FEATURES[here, particle], Y[here, output]
    covariance = loading_variance * C @ C.T + noise / power * np.eye(len(y))
    constant = 0.5 * len(y) * ((1 - power) * math.log(2 * math.pi * noise) - math.log(power))
    return stats.multivariate_normal(cov=covariance).logpdf(y) + constant


@pytest.mark.parametrize("power", [1.0, 0.3])
def test_known_noise_is_a_dense_gaussian(power):
    variances = np.array([0.2, 1.0, 3.0])
    table = Table.of(Y, OBSERVED, variances)
    fits = table.regressions(FEATURES)
    expected = [sum(dense_log_density(s, j, variances[j], power, 1.0) for j in range(3)) for s in range(2)]
    # densities of targets over their deviation, to the power, are those of targets less the Jacobian
    np.testing.assert_allclose(
        table.log_likelihood(fits.values, fits.moments**2, power), expected, rtol=1e-10
    )


@pytest.mark.parametrize("power", [1.0, 0.3])
def test_unknown_noise_is_an_integral_over_it(power):
    """The prior of row j of T scales with the noise variance, and 1/τ ~ Gamma(2, rate)."""
    table = Table.of(Y, OBSERVED, None)
    fits = table.regressions(FEATURES)
    total = np.zeros(2)
    for j in range(3):
        law = stats.gamma(NOISE_SHAPE, scale=1 / table.rates[j])
        for s in range(2):

            def density(u, s=s, j=j, law=law):
                precision = math.exp(u)
                return math.exp(dense_log_density(s, j, 1 / precision, power, 1 / precision)) * (
                    law.pdf(precision) * precision
                )

            total[s] += math.log(integrate.quad(density, -12, 8, epsabs=0, epsrel=1e-10, limit=200)[0])
    np.testing.assert_allclose(table.log_likelihood(fits.values, fits.moments**2, power), total, rtol=1e-8)


def test_draws_have_the_moments_of_the_regression():
    """Of 40,000 draws; five standard errors for 18 means."""
    table = Table.of(Y, OBSERVED, None)
    draws = 40_000
    fits = table.regressions(np.repeat(FEATURES[:, :1], draws, axis=1))
    loadings, deviations = table.draw(fits, 1.0, np.random.default_rng(0))
    true = loadings * deviations[..., None]  # T in the units of Y
    for j in range(3):
        here = OBSERVED[:, j]
        C, y = FEATURES[here, 0], Y[here, j]
        precision = np.eye(2) + C.T @ C
        mean = np.linalg.solve(precision, C.T @ y)
        rate = table.rates[j] + 0.5 * (y @ y - y @ C @ mean)
        noise = rate / (NOISE_SHAPE + 0.5 * len(y) - 1)
        for k in range(2):
            values = true[j, :, k]
            assert abs(values.mean() - mean[k]) < 5 * values.std() / math.sqrt(draws)
        squares = deviations[j] ** 2
        assert abs(squares.mean() - noise) < 5 * squares.std() / math.sqrt(draws)
        white = np.linalg.cholesky(precision).T @ (true[j] - mean).T / deviations[j]
        np.testing.assert_allclose(white @ white.T / draws, np.eye(2), atol=5 * math.sqrt(2 / draws))
