"""Draws and stated errors."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import pytest
from scipy import special, stats

from lbnn import MatrixGIG
from tests.helpers.problems import Array
from tests.matrix_gig.test_one_and_two_dimensions import PHI, PLANES, PSI
from tests.matrix_gig.test_three_dimensions_and_more import CHAINS
from tests.referees.matrix_gig import gibbs_chains, library_values, with_spectrum
from tests.referees.statistics import assert_agrees

DRAWN = {
    "one": (2.0, 0.5, -0.7),
    "one, large": (30.0, 2.0, 12.0),
    "plane": PLANES["positive"],
    "plane, negative": PLANES["negative"],
    "plane, singular psi": PLANES["singular psi"],
    "three": CHAINS["three"],
    "five": CHAINS["five"],
    "five, negative": CHAINS["five, negative"],
    "wishart": (np.zeros((3, 3)), with_spectrum([0.5, 1.0, 2.0], 430), 4.0),
    "inverse wishart": (with_spectrum([0.5, 1.0, 2.0], 431), np.zeros((3, 3)), -4.5),
}


def functions_of(X: Array) -> Array:
    """X, X⁻¹ and log det X, side by side."""
    return np.concatenate(
        [X.reshape(len(X), -1), np.linalg.inv(X).reshape(len(X), -1), np.linalg.slogdet(X)[1][:, None]],
        axis=1,
    )


@lru_cache
def expected_functions(name: str) -> tuple[Array, Array]:
    """Means of `functions_of` and their errors: by Gibbs chains, or deterministic where the library is."""
    law = MatrixGIG(*DRAWN[name])
    if law.log_normalizer_error > 0:
        return gibbs_chains(law.psi, law.phi, law.nu, seed=440)
    step = 1e-3
    ahead, behind = (MatrixGIG(law.psi, law.phi, law.nu + h).log_normalizer for h in (step, -step))
    values, errors = library_values(law)
    return np.append(values, (ahead - behind) / (2 * step)), np.append(errors, 0.0)


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.slow) if name.startswith("five") else name for name in DRAWN],
)
def test_moments_of_draws(name: str) -> None:
    """Two-sided: X, X⁻¹ and log det X against the means. Resampling from 20 times as many costs up to 5 %."""
    size = 20_000
    law = MatrixGIG(*DRAWN[name])
    draws = law.sample(size, 432)
    assert draws.shape == (size, law.dimension, law.dimension)
    np.testing.assert_allclose(draws, draws.swapaxes(1, 2), rtol=1e-9, atol=1e-12)
    values = functions_of(draws)
    exact, exact_error = expected_functions(name)
    share = 0.1 if law.diagnostics.engine == "importance" else 0.0
    error = np.hypot(values.std(axis=0) * math.sqrt((1 + share) / size), exact_error)
    assert_agrees(values.mean(axis=0), error, exact, comparisons=len(DRAWN) * 60)


@pytest.mark.parametrize("name", DRAWN)
def test_weighted_draws(name: str) -> None:
    """Weighted means with delta-method errors; equal weights where draws are direct."""
    size = 20_000
    law = MatrixGIG(*DRAWN[name])
    draws, log_weights = law.weighted_sample(size, 433)
    assert log_weights.shape == (size,)
    assert draws.shape == (size, law.dimension, law.dimension)
    weights = np.exp(log_weights - special.logsumexp(log_weights))
    direct = law.diagnostics.engine in ("wishart", "bessel")
    assert (np.ptp(log_weights) == 0) == direct
    assert 1 / (weights**2).sum() > 0.3 * size
    values = functions_of(draws)
    mean = weights @ values
    error = np.sqrt(weights**2 @ (values - mean) ** 2)
    exact, exact_error = expected_functions(name)
    assert_agrees(mean, np.hypot(error, exact_error), exact, comparisons=len(DRAWN) * 60)


@pytest.mark.parametrize("name", ["plane", "plane, negative", "three", "five"])
def test_weights_are_the_density_over_the_proposal(name: str) -> None:
    """The mean weight is the normaliser, up to a constant that does not depend on Ψ."""
    psi, phi, nu = DRAWN[name]
    constants, errors = [], []
    for factor in (1.0, 0.6):
        law = MatrixGIG(factor * psi, phi, nu)
        log_weights = law.weighted_sample(20_000, 434)[1]
        weights = np.exp(log_weights - log_weights.max())
        mean = log_weights.max() + math.log(weights.mean())
        base = law.log_normalizer + law._order * np.linalg.slogdet(law._definite)[1]
        constants.append(mean - base)
        errors.append(
            math.hypot(weights.std() / weights.mean() / math.sqrt(20_000), law.log_normalizer_error)
        )
    assert_agrees(constants[0], math.hypot(*errors), constants[1], comparisons=4, largest_error=0.05)


def test_marginal_of_draws_in_one_dimension() -> None:
    """Kolmogorov–Smirnov against SciPy."""
    draws = MatrixGIG(2.0, 0.5, -0.7).sample(5000, 435)[:, 0, 0]
    law = stats.geninvgauss(-0.7, 1.0, scale=2.0)
    assert stats.kstest(draws, law.cdf).pvalue > 1e-3


def test_determinant_of_a_singular_psi_law() -> None:
    """(X⁻¹)_NN of Ψ = diag(0, 0, ψ) is the inverse of a generalised inverse Gaussian: its whole law."""
    draws = MatrixGIG(np.diag([0.0, 0.0, 2.0]), np.eye(3), 2.2).sample(5000, 436)
    schur = 1 / np.linalg.inv(draws)[:, 2, 2]
    law = stats.geninvgauss(1.2, math.sqrt(2), scale=math.sqrt(2))
    assert stats.kstest(schur, law.cdf).pvalue > 1e-3


def test_draws_follow_the_seed() -> None:
    law = MatrixGIG(PSI, PHI, 2.0)
    np.testing.assert_array_equal(law.sample(5, 1), law.sample(5, np.random.default_rng(1)))
    assert not np.array_equal(law.sample(5, 1), law.sample(5, 2))
    other = MatrixGIG(*CHAINS["three"], seed=1, target_error=0.05)
    same = MatrixGIG(*CHAINS["three"], seed=1, target_error=0.05)
    different = MatrixGIG(*CHAINS["three"], seed=2, target_error=0.05)
    assert other.log_normalizer == same.log_normalizer != different.log_normalizer


FOUR = (with_spectrum([0.5, 1.0, 3.0, 7.0], 437), with_spectrum([1.0, 1.5, 2.0, 4.0], 438), 1.7)


def test_target_error_controls_the_error() -> None:
    """Of the log normaliser, and of means in units of standard deviations along the axes of the law."""
    deviations = functions_of(MatrixGIG(*FOUR).sample(4000, 439)).std(axis=0)[:-1]
    errors = []
    for target in (0.05, 0.02, 0.01):
        law = MatrixGIG(*FOUR, target_error=target)
        assert law.diagnostics.ok
        assert law.log_normalizer_error <= target
        relative = library_values(law)[1] / deviations
        assert relative.max() <= 1.1 * target  # deviations are of 4,000 draws: known to 4 %
        assert law.diagnostics.effective_sample_size >= target**-2
        errors.append(law.log_normalizer_error)
    assert errors[2] < errors[0]


@pytest.mark.slow
def test_stated_errors_hold() -> None:
    """Thirty seeds: the spread of normalisers and means is what is stated, neither more nor less."""
    exact = MatrixGIG(*FOUR, target_error=0.01)
    runs = [MatrixGIG(*FOUR, target_error=0.05, seed=seed) for seed in range(30)]
    index = np.tril_indices(4)
    values = np.array([[run.log_normalizer, *run.mean[index], *run.inverse_mean[index]] for run in runs])
    errors = np.array(
        [[run.log_normalizer_error, *run.mean_error[index], *run.inverse_mean_error[index]] for run in runs]
    )
    truth = np.array([exact.log_normalizer, *exact.mean[index], *exact.inverse_mean[index]])
    truth_error = np.array(
        [exact.log_normalizer_error, *exact.mean_error[index], *exact.inverse_mean_error[index]]
    )
    count = values.shape[1]
    spread = values.std(axis=0, ddof=1)
    stated = np.sqrt((errors**2).mean(axis=0))
    level = 1e-3 / count / 2
    low, high = stats.chi2.ppf([level, 1 - level], 29) / 29
    ratio = (spread / stated) ** 2
    assert (ratio > low).all()
    assert (ratio < high).all()
    assert_agrees(
        values.mean(axis=0), np.hypot(spread / math.sqrt(30), truth_error), truth, degrees_of_freedom=29
    )
