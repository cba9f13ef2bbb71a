"""Rows of T behind a layer narrower than the outputs: the evidence against integrals over the hidden kernel.

With two examples the values of one hidden unit are two numbers, whatever the number of outputs: their law is
integrated on a grid, without Bartlett factors, rows or draws.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import special, stats

import lbnn
from lbnn.engines.estimate import Call
from lbnn.engines.inference import InferenceOptions
from lbnn.engines.policy import POLICY
from lbnn.engines.rowwise import proposals, row_estimates
from lbnn.engines.run import primal_target
from lbnn.engines.target import Target
from lbnn.engines.verdict import agree, reaches
from lbnn.likelihood.gaussian import GaussianLikelihood
from lbnn.noise.make import make_noise
from lbnn.scale.prior import ScalePrior


def one_unit_evidence(X: np.ndarray, Y: np.ndarray, beta: float) -> float:
    """log p(Y) of a network of width one with two examples: the hidden unit's value at them on a grid."""
    gram, outputs = X @ X.T / X.shape[1], Y.shape[1]
    root = np.linalg.cholesky(gram)
    grid = np.linspace(-14, 14, 1601)
    white = np.stack(np.meshgrid(grid, grid, indexing="ij"), axis=-1).reshape(-1, 2)
    hidden = white @ root.T  # value of the unit at both examples
    noise = 1 / beta
    norm = (hidden**2).sum(axis=1)
    along = ((hidden @ Y) ** 2).sum(axis=1)
    log_value = -0.5 * outputs * (np.log(noise) + np.log(noise + norm) + 2 * math.log(2 * math.pi))
    log_value -= 0.5 * ((Y**2).sum() - along / (noise + norm)) / noise
    log_prior = stats.norm.logpdf(white).sum(axis=1)
    return float(special.logsumexp(log_value + log_prior) + 2 * math.log(grid[1] - grid[0]))


@pytest.mark.parametrize("size", [*(pytest.param(size, marks=pytest.mark.slow) for size in (0.3, 1.0)), 4.0])
def test_one_unit_and_two_examples_against_a_grid(size):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(2, 3))
    Y = size * (X @ rng.normal(size=(3, 1)) @ rng.normal(size=(1, 40)) + 0.5 * rng.normal(size=(2, 40)))
    spectrum = lbnn.Spectrum.from_inputs(X, Y)
    likelihood = make_noise("independent", 4.0, spectrum).likelihood(spectrum)
    target, call = primal_target(ScalePrior((1,), 40), likelihood), Call(InferenceOptions(0.02, 0))
    found, other = row_estimates(target, call)
    assert reaches(found, call)
    assert agree(found, other, POLICY)
    error = found.log_evidence + likelihood.log_constant - one_unit_evidence(X, Y, 4.0)
    assert abs(error) < 4 * found.log_evidence_error


def low_rank_signal(examples, seed):
    """A network of three units given thirty outputs of three factors."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(examples, 12))
    Y = X @ rng.normal(size=(12, 3)) @ rng.normal(size=(3, 30)) / 6 + 0.7 * rng.normal(size=(examples, 30))
    return lbnn.Network((3,)).condition(X, Y, beta=2.0, target_error=0.1)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::lbnn.AccuracyWarning")
def test_of_eight_signals_in_few_examples_four_are_ok_and_those_agree():
    """The others say why they are not: tails that are too heavy, or two estimates that differ."""
    every = [low_rank_signal(20, seed) for seed in range(5, 13)]
    fine = [post for post in every if post.diagnostics.ok]
    assert len(fine) >= 4
    assert all(post.diagnostics.messages for post in every if not post.diagnostics.ok)
    for post in fine:
        first, second = post.diagnostics.estimates
        assert abs(first.log_evidence - second.log_evidence) < 4 * math.hypot(first.error, second.error)


def test_a_low_rank_signal_in_many_outputs_is_ok_and_both_orders_agree():
    post = low_rank_signal(60, 5)
    assert post.diagnostics.ok
    assert post.diagnostics.engine == "importance"
    first, second = post.diagnostics.estimates
    assert abs(first.log_evidence - second.log_evidence) < 4 * math.hypot(first.error, second.error)
    assert np.linalg.matrix_rank(np.asarray(post.scale.mean), tol=1e-8) >= 3


def test_draws_of_the_prior_weigh_the_same():
    """Without targets' say the proposal is close to the prior: weights are finite and their mean is right."""
    rng = np.random.default_rng(6)
    weak = GaussianLikelihood(np.full(4, 0.01), 0.1 * rng.normal(size=(4, 12)), 0.0, 4, 1.0)
    prior = ScalePrior((4,), 12)
    target = Target(prior.coordinates, weak, np.eye(12))
    sample = next(proposals(target))[0].sample(64, rng)
    factors = prior.coordinates.factors(rng.normal(size=(4000, target.dimension)))
    plain = target.log_likelihood(factors[0], np.eye(12))
    truth = special.logsumexp(plain) - math.log(4000)
    spread = plain.std() / math.sqrt(4000)
    own = sample.estimate
    assert abs(own.log_evidence - truth) < 4 * math.hypot(own.log_evidence_error, spread)
