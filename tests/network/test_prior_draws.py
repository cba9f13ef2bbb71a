"""Every noise × width × depth against draws of all hidden layers from the prior, weighted by dense densities.

Evidence, E L, predictions, densities, `given` and leave-one-out. The problems are small, and the noise
is large enough for draws of the prior to serve.
"""

from __future__ import annotations

import math
import warnings
from functools import cached_property

import numpy as np
import pytest
from scipy import special

import lbnn
from lbnn.cross_validation import left_out_scores

P, OUTPUTS, DRAWS = 3, 3, 20_000
NOISES = {"independent": 1.5, "per_output": np.array([0.5, 8.0, 2.0]), "coupled": 1.2}
_QUICK = [("per_output", (2,)), ("per_output", (2, 5)), ("independent", (3, 1, 4)), ("coupled", (4, 5))]
CASES = [
    pytest.param(noise, widths, marks=[] if (noise, widths) in _QUICK else pytest.mark.slow)
    for noise in NOISES
    for widths in [(2,), (4,), (2, 5), (4, 5), (3, 1, 4), (4, 5, 6)]
    if noise != "coupled" or min(widths) >= OUTPUTS
]
ALLOWED = 4.5  # joint standard errors: 16 problems of some 30 numbers, a false alarm in three hundred runs


def problem(seed=1):
    rng = np.random.default_rng(seed)
    X, X_test = rng.normal(size=(P, 5)), rng.normal(size=(2, 5))
    return X, 1.2 * rng.normal(size=(P, OUTPUTS)), X_test, rng.normal(size=(2, OUTPUTS))


class PriorDraws:
    """L = W_d ⋯ W_2 W_2ᵀ ⋯ W_dᵀ from the prior, and Gaussian algebra over points and outputs given each."""

    def __init__(self, noise, widths, X, Y, X_test):
        rng = np.random.default_rng([*widths, len(noise)])
        root = np.eye(OUTPUTS)
        for above, below in zip((OUTPUTS, *widths[::-1][:-1]), widths[::-1], strict=True):
            root = root @ rng.standard_normal((DRAWS, above, below)) / math.sqrt(below)
        self.scales = root @ root.swapaxes(1, 2)
        self.points = np.concatenate([X, X_test])
        self.gram = self.points @ self.points.T / X.shape[1]
        beta = NOISES[noise]
        fixed = np.diag(np.broadcast_to(1 / np.asarray(beta), OUTPUTS))
        self.noise = self.scales / beta if noise == "coupled" else np.broadcast_to(fixed, self.scales.shape)
        self.Y = Y

    def covariance(self, noisy):
        """Of function (and noise where `noisy`) at all points, (draws, points · n_d, points · n_d)."""
        size = len(self.points) * OUTPUTS
        total = np.einsum("ab,mjk->majbk", self.gram, self.scales)
        total = total + np.einsum("ab,mjk->majbk", np.diag(np.asarray(noisy, float)), self.noise)
        return total.reshape(DRAWS, size, size)

    def log_density(self, values, index, noisy):
        """Log density of some entries of all points and outputs given every L, (draws,)."""
        covariance = self.covariance(noisy)[:, index][:, :, index]
        root = np.linalg.cholesky(covariance)
        white = np.linalg.solve(root, np.broadcast_to(values, (DRAWS, len(values)))[..., None])[..., 0]
        logs = 2 * np.log(np.diagonal(root, axis1=1, axis2=2)).sum(1) + len(values) * math.log(2 * math.pi)
        return -0.5 * (logs + (white**2).sum(1))

    @cached_property
    def log_likelihood(self):
        return self.log_density(self.Y.ravel(), np.arange(P * OUTPUTS), [True] * P + [False] * 2)

    def log_mean(self, log_terms):
        """log of the mean of exp(log_terms), and its standard error."""
        weights = special.softmax(log_terms)
        error = math.sqrt(max((weights**2).sum() - 1 / DRAWS, 0.0))
        return float(special.logsumexp(log_terms)) - math.log(DRAWS), error

    def average(self, values, log_terms=None):
        """Posterior mean of values (draws, ...) and its standard error."""
        weights = special.softmax(self.log_likelihood if log_terms is None else log_terms)
        mean = np.tensordot(weights, values, axes=1)
        return mean, np.sqrt(np.tensordot(weights**2, (values - mean) ** 2, axes=1))

    def conditional_mean(self, values, index, wanted, noisy):
        """Mean of wanted entries given others, for every L."""
        covariance = self.covariance(noisy)
        own, cross = covariance[:, index][:, :, index], covariance[:, wanted][:, :, index]
        solved = np.linalg.solve(own, np.broadcast_to(values, (DRAWS, len(values)))[..., None])
        return (cross @ solved)[..., 0]


def agree(value, error, other, other_error):
    spread = np.hypot(error, other_error)
    assert (np.abs(np.asarray(value) - other) <= ALLOWED * spread).all(), (value, other, spread)


@pytest.mark.parametrize(("noise", "widths"), CASES, ids=str)
def test_everything_against_draws_of_the_prior(noise, widths):
    X, Y, X_test, F = problem()
    post = lbnn.Network(widths).condition(X, Y, NOISES[noise], noise=noise, target_error=0.02)
    assert post.diagnostics.ok
    prior = PriorDraws(noise, widths, X, Y, X_test)
    evidence, error = prior.log_mean(prior.log_likelihood)
    agree(post.log_evidence, post.log_evidence_error, evidence, error)
    agree(post.scale.mean, post.scale.mean_error, *prior.average(prior.scales))

    seen, test = np.arange(P * OUTPUTS), np.arange(P * OUTPUTS, (P + 2) * OUTPUTS)
    own = 0.02 * post.predict(X_test).standard_deviation  # errors of means aimed at
    given_data = [True] * P + [False] * 2
    mean = prior.conditional_mean(Y.ravel(), seen, test, given_data).reshape(DRAWS, 2, OUTPUTS)
    agree(post.predict(X_test).mean, own, *prior.average(mean))

    everything = np.concatenate([Y, F]).ravel()
    joint = prior.log_mean(prior.log_density(everything, np.append(seen, test), [True] * 5))
    density = post.predict(X_test).with_noise().log_density(F)
    agree(density, 0.03, joint[0] - evidence, math.hypot(joint[1], error))

    one = np.append(seen, test[:OUTPUTS])
    joint = prior.log_mean(prior.log_density(everything[: len(one)], one, [True] * 5))
    pointwise = post.predict(X_test).with_noise().pointwise_log_density(F)[0]
    agree(pointwise, 0.03, joint[0] - evidence, math.hypot(joint[1], error))


@pytest.mark.parametrize(("noise", "widths"), CASES, ids=str)
def test_given_some_outputs_against_draws_of_the_prior(noise, widths):
    X, Y, X_test, F = problem(2)
    post = lbnn.Network(widths).condition(X, Y, NOISES[noise], noise=noise, target_error=0.02)
    partial = F.copy()
    partial[:, 1:] = np.nan
    law = post.predict(X_test).with_noise().given(partial)
    prior = PriorDraws(noise, widths, X, Y, X_test)
    seen, test = np.arange(P * OUTPUTS), np.arange(P * OUTPUTS, (P + 2) * OUTPUTS).reshape(2, OUTPUTS)
    known, wanted = np.append(seen, test[:, 0]), test[:, 1:].ravel()
    values = np.append(Y.ravel(), F[:, 0])
    log_terms = prior.log_density(values, known, [True] * 5)
    mean = prior.conditional_mean(values, known, wanted, [True] * 5).reshape(DRAWS, 2, OUTPUTS - 1)
    expected = prior.average(mean, log_terms)
    agree(law.mean[:, 1:], 0.03 * law.standard_deviation[:, 1:], *expected)


@pytest.mark.parametrize(("noise", "widths"), CASES, ids=str)
def test_leave_one_out_against_draws_of_the_prior(noise, widths):
    X, Y, X_test, _ = problem(3)
    post = lbnn.Network(widths).condition(X, Y, NOISES[noise], noise=noise, target_error=0.02)
    with warnings.catch_warnings():  # examples of which it warns are left out below
        warnings.simplefilter("ignore", lbnn.AccuracyWarning)
        left = left_out_scores(post, Y)
    prior = PriorDraws(noise, widths, X, Y, X_test)
    everywhere = np.arange(P * OUTPUTS).reshape(P, OUTPUTS)
    evidence, error = prior.log_mean(prior.log_likelihood)
    for a in np.flatnonzero(left.pareto_k < 0.7):
        others = np.delete(everywhere, a, axis=0).ravel()
        log_terms = prior.log_density(Y.ravel()[others], others, [True] * 5)
        without, own_error = prior.log_mean(log_terms)
        agree(left.log_density[a], 0.04, evidence - without, math.hypot(error, own_error))
        mean = prior.conditional_mean(Y.ravel()[others], others, everywhere[a], [True] * 5)
        agree(left.mean[a], 0.04 * np.sqrt(left.variance[a]), *prior.average(mean, log_terms))
