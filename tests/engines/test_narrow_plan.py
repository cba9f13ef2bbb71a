"""Data of rank one and narrow layers by `condition`: what the plan names answers, is ok, and is right."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import integrate, special

import lbnn
from lbnn import archive
from lbnn.engines.estimate import Call, Estimate, Located
from lbnn.engines.inference import EvidenceEstimate, InferenceOptions
from lbnn.engines.run import primal_target
from lbnn.engines.sampling import Sampling
from lbnn.engines.verdict import verdict
from lbnn.noise.make import make_noise


def low_rank(examples: int, outputs: int, rank: int, beta: float, seed: int = 0):
    """A Gram matrix and targets of low rank with noise."""
    rng = np.random.default_rng(seed)
    inputs = 2 * examples
    X = rng.standard_normal((examples, inputs))
    signal = rng.standard_normal((inputs, rank)) @ rng.standard_normal((rank, outputs))
    Y = X @ signal / math.sqrt(inputs * rank) + rng.standard_normal((examples, outputs)) / math.sqrt(beta)
    return X @ X.T / inputs, Y


def one_layer_evidence(gram: float, y: np.ndarray, beta: float, width: int, variances: tuple[float, float]):
    """log p(y) of one example and one hidden layer by adaptive quadrature.

    y ~ N(0, (1/β + g σ₁²σ₂² χ²/n) I).
    """
    scale = gram * variances[0] * variances[1] / width

    def log_terms(chi2: float) -> float:
        total = 1 / beta + scale * chi2
        prior = (
            (width / 2 - 1) * math.log(chi2) - chi2 / 2 - width / 2 * math.log(2) - special.gammaln(width / 2)
        )
        return prior - 0.5 * (len(y) * math.log(2 * math.pi * total) + y @ y / total)

    grid = np.exp(np.linspace(-80, 7, 8000))
    top = max(log_terms(each) + math.log(each) for each in grid)
    value = integrate.quad(
        lambda x: math.exp(log_terms(math.exp(x)) + x - top), -80, 7, limit=500, epsabs=0, epsrel=1e-11
    )[0]
    return top + math.log(value)


# ---------------------------------------------------------------- rank one


def first_crash():
    Y = np.zeros((1, 9))
    Y[0, 0] = 3
    return lbnn.Network((2, 3, 11), (0.89,) * 4).condition_gram([[0.029]], Y, 1 / 0.12)


def second_crash():
    Y = 0.07 * np.random.default_rng(0).normal(size=(1, 100))
    return lbnn.Network((1,), (0.56, 0.56)).condition_gram([[1.4]], Y, 1 / 0.12)


@pytest.mark.parametrize("case", [first_crash, second_crash])
def test_problems_that_ended_in_errors(case):
    post = case()
    assert post.diagnostics.ok
    assert post.diagnostics.engine == "dual quadrature"
    assert len(post.diagnostics.estimates) == 1


def test_rank_one_against_adaptive_quadrature():
    Y = 0.07 * np.random.default_rng(0).normal(size=(1, 100))
    truth = one_layer_evidence(1.4, Y[0], 1 / 0.12, 1, (0.56, 0.56))
    assert truth == pytest.approx(9.2903, abs=1e-4)
    assert second_crash().log_evidence == pytest.approx(truth, abs=1e-8)


@pytest.mark.parametrize("widths", [(9,), (2,), (4, 6)])
def test_rank_one_against_the_hidden_kernel(widths):
    """Several examples with one input: importance sampling of the kernel gives the same evidence and E L."""
    rng = np.random.default_rng(5)
    X, Y = rng.normal(size=(6, 1)), rng.normal(size=(6, 3))
    network = lbnn.Network(widths)
    post, other = network.condition(X, Y, 3.0), network.condition(X, Y, 3.0, engine="dual")
    assert post.diagnostics.engine == "dual quadrature"
    assert other.diagnostics.engine == "dual importance"
    assert abs(post.log_evidence - other.log_evidence) < 4 * other.log_evidence_error
    joint = np.hypot(post.scale.mean_error, other.scale.mean_error)
    assert (np.abs(post.scale.mean - other.scale.mean) < 4.5 * joint).all()


def test_what_a_posterior_of_rank_one_can_do(tmp_path):
    rng = np.random.default_rng(3)
    X, Y, new = rng.normal(size=(1, 5)), rng.normal(size=(1, 3)), rng.normal(size=(2, 5))
    post = lbnn.Network((4, 6)).condition(X, Y, 5.0)
    answers(post, new, tmp_path, widths=(4, 6))


def answers(post, new, tmp_path, widths):
    """Weights, predictions and files: the mean output of weight draws is the predictive mean."""
    predictive = post.predict(new)
    weights = post.sample_weights(4000, np.random.default_rng(0))
    assert [each.shape[1] for each in weights[:-1]] == list(widths)
    outputs = np.broadcast_to(new.T, (4000, *new.T.shape))
    for layer in weights:
        outputs = layer @ outputs
    drawn = outputs.swapaxes(1, 2)
    error = drawn.std(axis=0) * math.sqrt(1 / 4000 + 1 / post.diagnostics.effective_sample_size)
    assert (np.abs(drawn.mean(axis=0) - predictive.mean) < 4.5 * error).all()
    assert np.isfinite(predictive.variance).all()
    path = tmp_path / "model.lbnn"
    archive.write(path, "posterior", *post._packed())
    again = lbnn.Posterior._unpacked(*archive.read(path, "posterior"))
    assert again.log_evidence == post.log_evidence
    assert again.diagnostics == post.diagnostics
    np.testing.assert_allclose(again.predict(new).mean, predictive.mean, rtol=1e-12)


# ---------------------------------------------------------------- narrow layers


@pytest.mark.slow
def test_targets_of_rank_one_behind_three_units():
    """It took 37 s and was not ok; three units for a signal of rank one."""
    gram, Y = low_rank(20, 9, 1, 100.0)
    post = lbnn.Network((3,)).condition_gram(gram, Y, 100.0)
    assert post.diagnostics.ok
    assert len(post.diagnostics.estimates) == 2


def narrow_sampling(widths=(2,), examples=8, outputs=5, beta=10.0, target_error=0.2):
    gram, Y = low_rank(examples, outputs, 1, beta, seed=4)
    spectrum = lbnn.Spectrum.from_gram(gram, Y)
    likelihood = make_noise("independent", beta, spectrum).likelihood(spectrum)
    prior = lbnn.Network(widths).scale_prior(outputs)
    return Sampling(primal_target(prior, likelihood), Call(InferenceOptions(target_error, 0)))


@pytest.mark.parametrize(
    "widths",
    [(2,), pytest.param((2, 4), marks=pytest.mark.slow), pytest.param((4, 2), marks=pytest.mark.slow)],
)
def test_spectral_draws_have_coordinates_and_constants(widths):
    """Coordinates give the same L; evidence and E L are those of the mixture."""
    sampling = narrow_sampling(widths, target_error=0.1)
    answer = sampling.spectral_answer(last=True)
    scales = sampling.target.scales(answer.points)
    along = np.einsum("ji,mjk,ki->mi", sampling.target.rotation, scales, sampling.target.rotation)
    np.testing.assert_allclose(np.log(along), answer.estimate.log_diagonal, rtol=1e-6, atol=1e-6)
    mixture, _ = sampling.fitted
    joint = math.hypot(answer.log_evidence_error, mixture.independent_error)
    assert abs(answer.log_evidence - mixture.log_evidence) < 4 * joint
    (mean, error), (other, other_error) = answer.estimate.scale_mean, mixture.scale_mean
    assert (np.abs(mean - other) < 4.5 * np.hypot(error, other_error)).all()


def test_the_reverse_way_checks_where_rows_cannot():
    sampling = narrow_sampling()
    sampling.rows = None
    answer = sampling.spectral_answer(last=True)
    own, check = answer.diagnostics.estimates
    assert check.method == "annealing from the posterior to the prior"
    assert own.agrees_with(check)
    assert answer.diagnostics.ok


def test_a_check_without_draws():
    """It tells the evidence only: agreement, contradiction, and an error that is too large."""
    rng = np.random.default_rng(0)
    drawn = Estimate.of_weights(
        "made", np.zeros(1600), rng.normal(size=(1600, 2)), Located(np.zeros((1600, 1)))
    )
    moved = replace(drawn, log_evidence=0.0, log_evidence_error=0.02, weighted=False)
    call = Call(InferenceOptions(0.05, 0))

    def with_check(value: float, error: float):
        return verdict("smc", moved, EvidenceEstimate("other", value, error), call)

    assert with_check(0.02, 0.02).diagnostics.ok
    contradicted = with_check(1.0, 0.02)
    assert not contradicted.diagnostics.ok
    assert contradicted.log_evidence_error == pytest.approx(0.5)
    assert "other" in contradicted.diagnostics.messages[0]
    assert "cannot confirm" in with_check(0.02, 0.5).diagnostics.messages[0]


@pytest.mark.slow
def test_what_a_posterior_behind_a_narrow_layer_can_do(tmp_path):
    rng = np.random.default_rng(0)
    X, new = rng.normal(size=(12, 24)), rng.normal(size=(2, 24))
    Y = X @ rng.normal(size=(24, 1)) @ rng.normal(size=(1, 16)) / math.sqrt(24) + 0.1 * rng.normal(
        size=(12, 16)
    )
    post = lbnn.Network((4,)).condition(X, Y, 100.0)
    assert post.diagnostics.engine == "smc"
    assert post.diagnostics.ok
    answers(post, new, tmp_path, widths=(4,))
