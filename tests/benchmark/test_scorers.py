"""Scorers: exact draws pass, planted faults are found, bad input is refused."""

from __future__ import annotations

import json

import numpy as np
import pytest

from lbnn.benchmark import invariance, load, score
from lbnn.benchmark.scorers.chains import effective_draws, effective_draws_about, split_r_hat
from tests.referees.hamiltonian import chains_from, hamiltonian


def exact_draws(name, seed=5, shape=(4, 250)):
    task = load(name)
    return task, task.reference(shape[0] * shape[1], seed).reshape(*shape, -1)


def named(report, name):
    return next(each for each in report.scores if each.name == name)


@pytest.mark.parametrize(
    "name", ["coexist-10", "deep-7-scalars", pytest.param("plain-40-two-outputs", marks=pytest.mark.slow)]
)
def test_exact_draws_pass(name):
    task, draws = exact_draws(name)
    report = score(
        task, draws, log_evidence=task.log_evidence, log_evidence_error=0.1, seconds=2.0, gradients=1e4
    )
    assert report.verdict.startswith("pass"), report
    assert report.speed["true ESS per second"] == report.speed["true ESS"] / 2
    assert report.speed["true ESS"] > 500
    content = json.loads(json.dumps(report.as_json(), allow_nan=False))
    assert content["passed"]
    assert content["digest"] == task.digest
    assert len(report.table()) == len(task.functions.names)


def test_chains_in_one_phase_fail_though_every_chain_is_content():
    task = load("coexist-10")
    draws = task.reference(3_000, 6)
    inside = draws[task.phase_of(draws) == 0][:1_200].reshape(4, 300, -1)
    report = score(task, inside)
    assert report.verdict.startswith("fail")
    assert not named(report, "phase mass").passed
    assert named(report, "phase mass").details["crossings"] == 0
    assert report.blind["largest r̂ of a weight"] < 1.02  # blind
    assert report.speed["true ESS"] < 10 < 800 < report.speed["claimed ESS"]


def test_wrong_evidence_fails_and_an_honest_error_passes():
    task, draws = exact_draws("plain-15")
    far = score(task, draws, log_evidence=task.log_evidence + 1, log_evidence_error=0.1)
    near = score(task, draws, log_evidence=task.log_evidence + 0.15, log_evidence_error=0.1)
    silent = score(task, draws, log_evidence=task.log_evidence + 0.6)
    assert named(far, "evidence").details["z"] == pytest.approx(10)
    assert (far.passed, near.passed, silent.passed) == (False, True, False)


def test_no_warm_up_fails():
    task = load("plain-15")
    draws = chains_from(task, hamiltonian(task, 0.05), 5 * task.prior_draws(4, 1), 250, 1)
    assert not score(task, draws).passed


def test_a_narrower_posterior_fails():
    task, draws = exact_draws("plain-15")
    centre = draws.mean(axis=(0, 1))
    assert not score(task, centre + 0.8 * (draws - centre)).passed


@pytest.mark.parametrize(
    ("wrong", "passes"),
    [
        ({}, True),
        ({"prior_precision": 1.2}, False),
        ({"noise_precision": 1.1}, False),
        ({"accept": False, "step": 0.2}, False),
    ],
)
def test_invariance_finds_wrong_kernels(wrong, passes):
    task = load("plain-15")
    steps = 20 if "noise_precision" in wrong else 5
    assert invariance(task, hamiltonian(task, **wrong), steps=steps, seed=3).passed == passes


def test_invariance_of_kernels_that_do_nothing_or_break():
    task = load("plain-15")
    still = invariance(task, lambda z, rng: z, chains=100)
    assert still.passed
    assert "moved nothing" in still.words
    fresh = invariance(
        task, lambda z, rng: task.reference(len(z), int(rng.integers(2**30))), chains=1_000, steps=1
    )
    assert fresh.passed
    with pytest.raises(ValueError, match="finite chains of shape"):
        invariance(task, lambda z, rng: np.full_like(z, np.nan), chains=50)
    with pytest.raises(ValueError, match="finite chains of shape"):
        invariance(task, lambda z, rng: z[:, :3], chains=50)


# ---------------------------------------------------------------------- effective draws


def autoregressive(correlation, chains=4, length=4_000, seed=0):
    rng = np.random.default_rng(seed)
    x = np.empty((chains, length, 1))
    x[:, 0] = rng.standard_normal((chains, 1))
    noise = np.sqrt(1 - correlation**2) * rng.standard_normal((chains, length, 1))
    for t in range(1, length):
        x[:, t] = correlation * x[:, t - 1] + noise[:, t]
    return x


@pytest.mark.parametrize("correlation", [-0.3, 0.0, 0.5, 0.9])
def test_effective_draws_of_an_autoregressive_process(correlation):
    x = autoregressive(correlation)
    expected = x.size * (1 - correlation) / (1 + correlation)
    assert effective_draws(x)[0] == pytest.approx(expected, rel=0.15)
    assert effective_draws_about(x, np.zeros(1), np.ones(1))[0] == pytest.approx(expected, rel=0.25)


def test_true_effective_draws_see_a_shift_that_claimed_ones_do_not():
    x = autoregressive(0.0) + 1.0
    assert effective_draws(x)[0] > 10_000
    assert effective_draws_about(x, np.zeros(1), np.ones(1))[0] < 20
    assert split_r_hat(x)[0] < 1.01


# ---------------------------------------------------------------------- bad input


def test_bad_draws_are_refused():
    task, draws = exact_draws("plain-15", shape=(2, 20))
    broken = draws.copy()
    broken[0, 3, 2] = np.nan
    cases = {
        "must have the shape": draws[0],
        "at least two chains": draws[:1],
        "at least 10 draws": draws[:, :5],
        "NaN or infinity in 1 of 40 draws": broken,
        r"\(chains, draws, 15\)": draws[:, :, :14],
    }
    for message, bad in cases.items():
        with pytest.raises(ValueError, match=message):
            score(task, bad)
    with pytest.raises(TypeError, match="real numbers"):
        score(task, draws.astype(complex))
    with pytest.raises(TypeError, match="as load"):
        score("plain-15", draws)
    with pytest.raises(ValueError, match="seconds must be positive"):
        score(task, draws, seconds=0.0)
    with pytest.raises(ValueError, match="log_evidence must be finite"):
        score(task, draws, log_evidence=float("nan"))
    with pytest.raises(ValueError, match="must not be negative"):
        score(task, draws, log_evidence=0.0, log_evidence_error=-1.0)
    with pytest.raises(ValueError, match="level"):
        score(task, draws, level=1.5)


def test_constant_chains_are_judged_not_a_crash():
    task, draws = exact_draws("plain-15", shape=(4, 50))
    report = score(task, np.repeat(draws[:, :1], 50, axis=1))
    assert not report.passed
    assert not score(task, np.broadcast_to(draws[:1, :1], draws.shape)).passed  # one point, all chains


def test_picture_has_two_panels():
    pytest.importorskip("matplotlib")
    task, draws = exact_draws("coexist-10", shape=(4, 100))
    titles = [axes.get_title() for axes in score(task, draws).picture().axes]
    assert titles == ["means", "size of the signal"]
