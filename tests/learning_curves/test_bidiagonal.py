"""Draws in bidiagonal form: against dense posteriors draw by draw, and against simulated data."""

from __future__ import annotations

import math

import numpy as np
import pytest

import lbnn
from lbnn.learning_curves import sampled
from lbnn.learning_curves.bidiagonal import Tridiagonal
from lbnn.learning_curves.curve import _problem
from lbnn.learning_curves.gaussian_data import Teacher, sample_data

NET = lbnn.Network((6, 9), prior_variances=[1.3, 0.7, 1.1])


def dense(data, row):
    """X and y of one draw, in the frame of its bidiagonal form."""
    rank, X = data.diagonal.shape[1], np.zeros((data.examples, data.inputs))
    for k in range(rank):
        X[k, k] = data.diagonal[row, k]
        if k + 1 < data.inputs:
            X[k, k + 1] = data.upper[row, k]
    y = np.zeros(data.examples)
    y[:rank] = data.targets[row]
    if data.examples > rank:
        y[rank] = math.sqrt(data.residual[row])
    return X, y


@pytest.mark.parametrize("net", [NET, lbnn.Network((3,)), lbnn.Network((), prior_variances=[0.4])])
@pytest.mark.parametrize(("p", "n0"), [(1, 1), (1, 5), (5, 1), (8, 12), (12, 8), (10, 10)])
@pytest.mark.parametrize("beta", [0.5, 30.0, 1e8])
def test_each_draw_is_the_dense_posterior(net, p, n0, beta):
    problem = _problem(net, p, n0, Teacher(1.4, 0.5), beta)
    data = sample_data(p, n0, problem.teacher, problem.norm_law, 2, np.random.default_rng(1))
    found = sampled._answers(problem, data)
    for row in range(2):
        X, y = dense(data, row)
        post = net.condition(X, y, beta)
        everywhere = post.predict(np.eye(n0))
        teacher = np.zeros(n0)
        teacher[0] = data.norms[row]
        error = float(((everywhere.mean - teacher) ** 2).sum())
        gibbs = error + float(everywhere.variance.sum())
        expected = [post.scale.mean, post.log_evidence, error, gibbs]
        precision = 1e-10 if beta < 1e6 else 1e-6  # the dense route loses digits of the variance
        np.testing.assert_allclose(found[row], expected, rtol=precision, atol=1e-10 * beta)


def simulate(net, p, n0, norm, noise, beta, size, rng):
    """The quantities of data sets drawn as X and y, (size, 4); shares no code with the bidiagonal form."""
    rows = []
    for _ in range(size):
        X, teacher = rng.normal(size=(p, n0)), rng.normal(size=n0)
        teacher *= norm / np.linalg.norm(teacher)
        y = X @ teacher + noise * rng.normal(size=p)
        post = net.condition(X, y, beta)
        everywhere = post.predict(np.eye(n0))
        error = ((everywhere.mean - teacher) ** 2).sum()
        rows.append([float(post.scale.mean), post.log_evidence, error, error + everywhere.variance.sum()])
    return np.array(rows)


CASES = [
    pytest.param(2, 2, 1.0, 0.5, 4.0, 100, marks=pytest.mark.slow),
    (2, 30, 0.3, 0.1, 100.0, 30),
    pytest.param(2, 30, 0.3, 0.1, 100.0, 100, marks=pytest.mark.slow),
    pytest.param(30, 2, 2.0, 1.0, 1.0, 100, marks=pytest.mark.slow),
    pytest.param(15, 10, 1.0, 0.5, 50.0, 100, marks=pytest.mark.slow),  # noise that is assumed too small
    pytest.param(10, 20, 0.2, 1.0, 1.0, 100, marks=pytest.mark.slow),
    pytest.param(200, 120, 1.0, 0.3, 11.0, 100, marks=pytest.mark.slow),
    pytest.param(100, 200, 3.0, 0.3, 11.0, 100, marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("p", "n0", "norm", "noise", "beta", "data_sets"), CASES)
def test_curve_against_simulated_data(p, n0, norm, noise, beta, data_sets):
    """Four quantities within 4.5 standard errors of the difference: 32 comparisons."""
    net = lbnn.Network((5, 4))
    plain = simulate(net, p, n0, norm, noise, beta, data_sets, np.random.default_rng([p, n0]))
    curve = lbnn.learning_curve(net, [p], n0, norm, noise, beta, target_error=0.01, seed=3)
    for number, name in enumerate(sampled.QUANTITIES):
        own = plain[:, number].std(ddof=1) / math.sqrt(len(plain))
        error = math.hypot(own, getattr(curve, f"{name}_error")[0])
        assert abs(plain[:, number].mean() - getattr(curve, name)[0]) < 4.5 * error, name


@pytest.mark.slow
def test_a_wrong_law_is_noticed():
    """With n0 − k + 1 in the place of n0 − k degrees of freedom the comparison above fails."""
    p, n0 = 2, 2
    problem = _problem(lbnn.Network((5, 4)), p, n0, Teacher(1.0, 0.5), 4.0)
    rng = np.random.default_rng(0)
    data = sample_data(p, n0, problem.teacher, problem.norm_law, 3000, rng)
    wrong = sampled.BidiagonalData(
        p,
        n0,
        data.diagonal,
        np.sqrt(rng.chisquare([2, 1], (3000, 2))),
        data.targets,
        data.residual,
        data.norms,
    )
    wrong.upper[:, -1] = 0.0
    right, other = (sampled._answers(problem, each) for each in (data, wrong))
    gap = np.abs((right - other).mean(axis=0)) / ((right - other).std(axis=0) / math.sqrt(3000))
    assert gap.max() > 6


@pytest.mark.slow
def test_teacher_from_the_prior_is_calibrated():
    """Data from the model: the Gibbs error is twice the error."""
    for net in (lbnn.Network((4,)), lbnn.Network((8, 5, 8), prior_variances=[0.5, 1.0, 2.0, 1.0])):
        problem = _problem(net, 12, 8, Teacher(None, 0.4), 0.4**-2)
        values = sampled.sample_point(problem, 0.01, 6000, 7).values
        gap = values[:, 3] - 2 * values[:, 2]
        assert abs(gap.mean()) < 4 * gap.std() / math.sqrt(len(values))


@pytest.mark.slow
@pytest.mark.parametrize("target", [0.05, 0.02])
def test_stated_errors_cover(target):
    """Forty curves with seeds of their own around one of many draws: 4 deviations never, 2 seldom passed."""
    net, where = lbnn.Network((10,)), ([8], 12, 1.0, 0.3, 10.0)
    truth = lbnn.learning_curve(net, *where, target_error=0.002, max_draws=60_000, seed=99)
    scores = []
    for seed in range(40):
        curve = lbnn.learning_curve(net, *where, target_error=target, seed=seed)
        for name in sampled.QUANTITIES:
            value, error = getattr(curve, name)[0], getattr(curve, f"{name}_error")[0]
            reference, own = getattr(truth, name)[0], getattr(truth, f"{name}_error")[0]
            scores.append((value - reference) / math.hypot(error, own))
    scores = np.array(scores)
    assert np.abs(scores).max() < 4.5
    assert np.mean(np.abs(scores) > 2) < 0.12


@pytest.mark.parametrize(("p", "n0"), [(4, 9), (9, 9), (12, 9)])
def test_hardly_any_noise_assumed(p, n0):
    """The same data sets at beta = 1e6 and 1e13: nothing but log evidence beyond p = n0 still moves."""
    answers = []
    for beta in (1e6, 1e13):
        problem = _problem(NET, p, n0, Teacher(1.4, 0.5), beta)
        data = sample_data(p, n0, problem.teacher, problem.norm_law, 5, np.random.default_rng(1))
        answers.append(sampled._answers(problem, data))
    for column in (0, 2, 3) if p > n0 else (0, 1, 2, 3):
        np.testing.assert_allclose(answers[0][:, column], answers[1][:, column], rtol=1e-3)


def test_inverse_trace_and_solutions_of_tridiagonal_matrices():
    rng = np.random.default_rng(0)
    beside = rng.normal(size=(2, 3, 7))
    beside[..., -1] = 0.0
    diagonal = 3 + np.abs(beside) + rng.random((2, 3, 7))
    diagonal[..., 1:] += np.abs(beside[..., :-1])
    matrices, right = Tridiagonal(diagonal, beside), rng.normal(size=(2, 7))
    for i in range(2):
        for j in range(3):
            full = np.diag(diagonal[i, j]) + np.diag(beside[i, j, :-1], 1) + np.diag(beside[i, j, :-1], -1)
            assert np.isclose(matrices.inverse_trace()[i, j], np.trace(np.linalg.inv(full)), rtol=1e-12)
            assert np.isclose(matrices.log_determinant()[i, j], np.linalg.slogdet(full)[1], rtol=1e-12)
            np.testing.assert_allclose(
                matrices.solve(right)[i, j], np.linalg.solve(full, right[i]), rtol=1e-10
            )


def test_same_seed_same_answer_and_networks_share_data():
    first, again = (
        lbnn.learning_curve(lbnn.Network((10,)), [8], 12, noise=0.3, beta=10.0, target_error=0.1, seed=5)
        for _ in range(2)
    )
    assert first.error[0] == again.error[0]
    problems = [_problem(lbnn.Network(widths), 8, 12, Teacher(1.0, 0.3), 10.0) for widths in ((), (10**6,))]
    values = [sampled.sample_point(each, 0.5, 40, 5).values for each in problems]
    np.testing.assert_allclose(values[0], values[1][: len(values[0])], rtol=1e-3)  # the same data, row by row
