"""Data of rank one: evidence and E L against integrals that share no code, and what a posterior answers."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import special, stats

import lbnn
from lbnn import archive
from tests.referees.one_example import one_example

CASES = [
    (3, (4,), 10.0, 1.0),
    (5, (2, 3), 100.0, 1.0),
    (2, (1, 1), 1000.0, 2.0),
    pytest.param(8, (3, 50, 2), 30.0, 0.3, marks=pytest.mark.slow),
    pytest.param(4, (2, 2, 2, 2), 1e4, 5.0, marks=pytest.mark.slow),
    (30, (2,), 1e6, 1.0),
]


@pytest.mark.parametrize(("outputs", "widths", "beta", "size"), CASES)
def test_evidence_and_mean_against_the_referee(outputs, widths, beta, size):
    rng = np.random.default_rng(outputs)
    X, Y = rng.standard_normal((1, 6)), size * rng.standard_normal((1, outputs))
    variances = (1.0, *np.linspace(0.7, 1.4, len(widths)))
    truth = one_example(SimpleNamespace(widths=widths, variances=variances, beta=beta, X=X, Y=Y))
    post = lbnn.Network(widths, variances).condition(X, Y, beta)
    assert post.diagnostics.ok
    assert post.log_evidence == pytest.approx(truth.log_evidence, abs=2e-6)
    assert (np.abs(post.scale.mean - truth.scale_mean) < 5 * post.scale.mean_error).all()


@pytest.mark.parametrize(
    ("widths", "variances", "gram", "noise", "outputs", "length", "seed"),
    [
        ((2, 2, 2), (0.155,) * 4, 0.035, 0.43, 20, 26.0, 0),  # was −311.92 for −276.20
        ((1, 3), (0.1, 0.1, 0.1), 1.0, 0.1, 12, 100.0, 1),
        ((5,), (0.01, 0.01), 1.0, 0.01, 30, 30.0, 2),
        ((5, 4), (1.0, 2.0, 0.5), 3.0, 1.0, 8, 1e-3, 3),
        ((4, 2), (1.0, 1.0, 1.0), 1.0, 0.0, 6, 50.0, 4),  # zero temperature
    ],
)
def test_targets_far_from_their_prior_are_those_of_one_output(
    widths, variances, gram, noise, outputs, length, seed
):
    """Given the kernel λ the outputs are independent, N(0, τ + g λ), as examples of one output are."""
    y = np.random.default_rng(seed).normal(size=outputs)
    y *= length / np.linalg.norm(y)
    network = lbnn.Network(widths, variances)
    beta = math.inf if noise == 0 else 1 / noise
    post = network.condition_gram([[gram]], y[None], beta)
    reverse = lbnn.Network(widths[::-1], (variances[0], *variances[:0:-1]))
    for other in (network, reverse):
        one = other.condition_gram(gram * np.eye(outputs), y, beta)
        assert post.log_evidence == pytest.approx(one.log_evidence, rel=1e-11, abs=1e-11)


def dense(width, gram, noise, y):
    """log p(y) and E L behind one hidden layer: y_j ~ N(0, τ_j + g χ²/n), on a dense grid of log χ²."""
    x = np.linspace(-60, 12, 40_001)
    signal = gram * np.exp(x)[:, None] / width
    total = signal + noise
    logs = stats.chi2.logpdf(np.exp(x), width) + x - 0.5 * (np.log(2 * np.pi * total) + y**2 / total).sum(1)
    log_evidence = special.logsumexp(logs) + math.log(x[1] - x[0])
    weights = np.exp(logs - special.logsumexp(logs) - x)  # times 1/h, h the squared length of the activity
    share = signal / total
    mean = np.einsum("m,mi,mj->ij", weights, share * y, share * y) + np.diag(weights @ (share * noise))
    return log_evidence, mean / gram + (width - 1) / width * np.eye(len(y))


@pytest.mark.parametrize("width", [2, 7])
@pytest.mark.parametrize("kind", ["per_output", "coupled", "zero temperature", "weights"])
def test_every_kind_of_noise_against_a_dense_integral(kind, width):
    gram, y, noise = 1.3, 2 * np.random.default_rng(width).normal(size=5), np.full(5, 0.4)
    network, options, beta = lbnn.Network((width,)), {}, 1 / 0.4
    own = gram
    if kind == "per_output":
        noise = np.array([0.01, 0.1, 0.4, 1.0, 5.0])
        beta, options = 1 / noise, {"noise": kind}
    elif kind == "coupled":  # function and noise together have the covariance (g + ν) L
        own, noise, options = gram + 0.4, np.zeros(5), {"noise": kind}
    elif kind == "weights":
        beta, options = 1 / 1.2, {"weights": [3.0]}
    else:
        noise, beta = np.zeros(5), math.inf
    post = network.condition(np.array([[math.sqrt(gram)]]), y[None], beta, **options)
    log_evidence, mean = dense(width, own, noise, y)
    assert post.diagnostics.ok
    assert post.log_evidence == pytest.approx(log_evidence, abs=1e-9)
    assert (np.abs(post.scale.mean - mean) < 5 * post.scale.mean_error).all()


@pytest.mark.parametrize(
    ("noise", "beta"),
    [
        ("independent", 5.0),
        ("independent", math.inf),
        ("per_output", np.array([1.0, 5.0, 25.0])),
        ("coupled", 5.0),
    ],
)
@pytest.mark.parametrize("widths", [(4, 6), (2,)])
def test_everything_that_a_posterior_answers(noise, beta, widths, tmp_path):
    rng = np.random.default_rng(3)
    X, Y, new = rng.normal(size=(1, 5)), rng.normal(size=(1, 3)), rng.normal(size=(2, 5))
    post = lbnn.Network(widths).condition(X, Y, beta, noise=noise)
    predictive = post.predict(new)
    if noise != "coupled":  # whose weights act on private inputs too
        drawn = np.broadcast_to(new.T, (4000, *new.T.shape))
        for layer in post.sample_weights(4000, np.random.default_rng(0)):
            drawn = layer @ drawn
        drawn = drawn.swapaxes(1, 2)
        error = drawn.std(axis=0) * math.sqrt(1 / 4000 + 1 / post.diagnostics.effective_sample_size)
        assert (np.abs(drawn.mean(axis=0) - predictive.mean) < 4.5 * error).all()
    assert (predictive.variance > 0).all()
    assert post.scale.phases().mass.sum() == pytest.approx(1)
    assert post.scale.sample(3, 0).shape == (3, 3, 3)
    path = tmp_path / "model.lbnn"
    archive.write(path, "posterior", *post._packed())
    again = lbnn.Posterior._unpacked(*archive.read(path, "posterior"))
    assert again.log_evidence == post.log_evidence
    np.testing.assert_allclose(again.predict(new).mean, predictive.mean, rtol=1e-12)


def test_the_row_left_out_has_the_density_of_the_evidence():
    Y = np.random.default_rng(3).normal(size=(1, 3))
    post = lbnn.Network((8, 9)).condition(np.ones((1, 5)), Y, 1.0)
    assert post.leave_one_out().log_density[0] == pytest.approx(post.log_evidence, abs=0.15)
