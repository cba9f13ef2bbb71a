"""Sums of networks: against quadrature, draws of all weights, closed forms; and what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest

import lbnn
from benchmarks.silent_errors import sums as family
from benchmarks.silent_errors.free_noise import problem_of as two_phases
from lbnn.sums import effort

RNG = np.random.default_rng(0)
X = RNG.normal(size=(12, 4))
Y = X[:, :1] @ RNG.normal(size=(1, 3)) + 0.5 * RNG.normal(size=(12, 3))
OBSERVED = RNG.random((12, 3)) < 0.6
OBSERVED[:, 0] |= ~OBSERVED.any(axis=1)
NET = lbnn.Network((2,))


@pytest.fixture(scope="module")
def post():
    """Two networks, noise unknown."""
    return lbnn.condition_sum([NET, lbnn.Network((1,))], [X, None], Y, observed=OBSERVED)


@pytest.mark.parametrize("widths", [(2,), (3, 2), (2, 3, 2)])
def test_one_output_is_the_quadrature(widths):
    """One network and one output: `condition` integrates it without draws."""
    network = lbnn.Network(widths, [0.5, *(2.0 for _ in widths)])
    y = X[:, 0] + 0.5 * X[:, 1]
    exact = network.condition(X, y, 4.0)
    post = lbnn.condition_sum([network], [X], y, beta=4.0, target_error=0.05)
    assert post.diagnostics.ok
    assert abs(post.log_evidence - exact.log_evidence) < 4 * post.log_evidence_error
    new = RNG.normal(size=(5, 4))
    ours, theirs = post.predict([new]), exact.predict(new)
    assert ours.mean.shape == (5,)
    np.testing.assert_array_less(np.abs(ours.mean - theirs.mean), 5 * ours.mean_error + 1e-9)
    # 768 draws: their variance has an error of some 5%
    np.testing.assert_allclose(ours.variance, theirs.variance, rtol=0.25)
    assert np.abs(post.cells.mean - exact.predict(X).mean).max() < 5 * post.cells.mean_error.max()


def test_complete_outputs_agree_with_condition():
    exact = NET.condition(X, Y, 4.0)
    post = lbnn.condition_sum([NET], [X], Y, 0.25, target_error=0.1)
    error = math.hypot(post.log_evidence_error, exact.log_evidence_error)
    assert post.diagnostics.ok
    assert abs(post.log_evidence - exact.log_evidence) < 4 * error


@pytest.mark.parametrize("number", [1, 2, 8, 9])
def test_small_tables_against_draws_of_the_prior(number):
    for found in family.judge(family.problem_of(number, 1)):
        assert found.ok
        assert not found.silently_wrong, found


@pytest.mark.slow
def test_many_small_tables_against_draws_of_the_prior():
    found = [each for problem in family.problems(60, 2) for each in family.judge(problem)]
    assert len(found) > 60
    assert not [each for each in found if each.silently_wrong]
    assert np.mean([each.ok for each in found]) > 0.9


def test_a_kernel_and_its_inputs_are_the_same_block(post):
    grams = [X @ X.T / 4, np.eye(12)]
    other = lbnn.condition_sum([NET, lbnn.Network((1,))], grams, Y, observed=OBSERVED, kernels=True)
    error = math.hypot(post.log_evidence_error, other.log_evidence_error)
    assert abs(post.log_evidence - other.log_evidence) < 4 * error
    new = RNG.normal(size=(2, 4))
    ours = post.predict([new, None])
    theirs = other.predict([new @ X.T / 4, np.zeros((2, 12))], [new @ new.T / 4, np.eye(2)])
    errors = np.hypot(ours.mean_error, theirs.mean_error)
    np.testing.assert_array_less(np.abs(ours.mean - theirs.mean), 5 * errors)
    np.testing.assert_allclose(ours.variance, theirs.variance, rtol=0.4)


def test_scale_is_that_of_condition():
    """E L of complete outputs, within five errors of draws that are correlated over some ten sweeps."""
    exact, post = NET.condition(X, Y, 4.0), lbnn.condition_sum([NET], [X], Y, 0.25, target_error=0.1)
    draws = np.einsum("mik,mjk->mij", post.scale.factor, post.scale.factor)
    error = 5 * draws.std(axis=0) * math.sqrt(10 / len(draws))
    np.testing.assert_array_less(np.abs(post.scale.mean - exact.scale.mean), error)


def test_new_points_at_rows_of_the_table_are_its_cells():
    """Of a block on inputs; what is left of the kernel is rounding."""
    post = lbnn.condition_sum([NET], [X], Y, 0.25, observed=OBSERVED)
    again = post.predict([X[:3]])
    np.testing.assert_allclose(again.mean, post.cells.mean[:3], rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(again.variance, post.cells.variance[:3], rtol=1e-5)


def test_moments_and_quantiles_are_those_of_draws(post):
    """20,000 draws of observations, of a law with 768 atoms: five standard errors."""
    pred = post.predict([RNG.normal(size=(2, 4)), None]).with_noise()
    draws = pred.sample(20_000, 0)
    assert draws.shape == (20_000, 2, 3)
    between = 5 * pred.standard_deviation * (1 / math.sqrt(20_000) + 1 / math.sqrt(700))
    np.testing.assert_array_less(np.abs(draws.mean(axis=0) - pred.mean), between)
    low, high = pred.interval(0.8)
    inside = ((draws > low) & (draws < high)).mean(axis=0)
    np.testing.assert_allclose(inside, 0.8, atol=5 * math.sqrt(0.16 / 20_000))
    one = pred.marginal_log_density(pred.mean)
    assert one.shape == (2, 3)
    width = 0.2 * pred.standard_deviation
    near = (np.abs(draws - pred.mean) < width / 2).mean(axis=0)
    np.testing.assert_allclose(near / width, np.exp(one), rtol=0.2)


def test_shares_scales_and_imputations(post):
    assert post.share_mean.shape == (2, 3)
    ends = post.share_interval(0.9)
    assert ends.shape == (2, 3, 2)
    assert ((ends[..., 0] < post.share_mean) & (post.share_mean < ends[..., 1])).all()
    assert [each.factor.shape[1:] for each in post.scales] == [(3, 2), (3, 1)]
    assert post.noise_mean.shape == (3,)
    filled, deviation = post.impute(return_std=True)
    np.testing.assert_array_equal(filled[OBSERVED], Y[OBSERVED])
    assert (deviation[OBSERVED] == 0).all()
    assert (deviation[~OBSERVED] ** 2 > post.cells.variance[~OBSERVED]).all()
    several = post.impute(5)
    assert several.shape == (5, 12, 3)
    assert (several[:, OBSERVED] == Y[OBSERVED]).all()


def test_units_of_outputs_change_nothing_but_the_units(post):
    """With unknown noise: the same seeds, powers of two."""
    units = np.array([1.0, 1024.0, 1 / 64])
    other = lbnn.condition_sum([NET, lbnn.Network((1,))], [X, None], Y * units, observed=OBSERVED)
    shift = (OBSERVED.sum(axis=0) * np.log(units)).sum()
    assert other.log_evidence == pytest.approx(post.log_evidence - shift, abs=1e-6)
    np.testing.assert_allclose(other.cells.mean, post.cells.mean * units, rtol=1e-6)
    np.testing.assert_allclose(other.noise_mean, post.noise_mean * units**2, rtol=1e-6)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"noise_variance": 1.0, "beta": 1.0}, "got both"),
        ({"noise_variance": [1.0, 2.0]}, "one for each of 3 outputs"),
        ({"beta": math.inf}, "beta must be finite"),
        ({"noise_variance": 0.0}, "must be a positive number"),
        ({"observed": OBSERVED[:, :2]}, "with the shape of Y"),
        ({"observed": OBSERVED & [True, True, False]}, "every output needs at least one"),
        ({"observed": OBSERVED & (np.arange(12) > 0)[:, None]}, "rows without any target"),
        ({"blocks": [X]}, "one block for each of 2 networks"),
        ({"blocks": [X[:5], None]}, "must have the 12 rows of Y"),
        ({"blocks": [0 * X, None]}, "must not be zero"),
        ({"blocks": [-X @ X.T, None], "kernels": True}, "positive semi-definite"),
        ({"networks": [lbnn.Network(()), NET]}, "needs a hidden layer"),
        ({"networks": [lbnn.Network((13,)), NET]}, "as many units as there are rows, 12"),
        ({"networks": [1, 2]}, "sequence of lbnn.Network"),
        ({"Y": Y * [1.0, 0.0, 1.0]}, "an observed target that is not zero"),
        ({"Y": np.where(OBSERVED, np.nan, Y)}, "observed targets must be finite"),
        ({"target_error": 1.0}, "strictly between 0 and 1"),
    ],
)
def test_what_is_refused(change, message):
    arguments = {"networks": [NET, NET], "blocks": [X, None], "Y": Y, "observed": OBSERVED} | change
    with pytest.raises((ValueError, TypeError), match=message):
        lbnn.condition_sum(**arguments)


def test_large_tables_with_missing_cells_go_this_way():
    """`condition` and `condition_gram` with `observed`, behind a layer narrower than the outputs."""
    rng = np.random.default_rng(1)
    inputs = rng.normal(size=(60, 5))
    table = inputs @ rng.normal(size=(5, 2)) @ rng.normal(size=(2, 9)) + rng.normal(size=(60, 9))
    observed = rng.random((60, 9)) < 0.8
    network = lbnn.Network((3,), (0.5, 2.0))
    one = network.condition(inputs, table, 1.0, observed=observed, target_error=0.5)
    other = network.condition_gram(inputs @ inputs.T / 5, table, 1.0, observed=observed, target_error=0.5)
    sums = lbnn.condition_sum([network], [inputs], table, 1.0, observed=observed)
    assert one.log_evidence == pytest.approx(sums.log_evidence)
    for post in (one, other):
        assert isinstance(post, lbnn.SumPosterior)
        assert post.diagnostics.ok
    assert abs(one.log_evidence - other.log_evidence) < 4 * math.hypot(
        one.log_evidence_error, other.log_evidence_error
    )
    new = rng.normal(size=(2, 5))
    ours, theirs = one.predict(new), other.predict(new @ inputs.T / 5, new @ new.T / 5)
    np.testing.assert_allclose(ours.mean, theirs.mean, atol=0.2 * ours.standard_deviation.max())


def test_noise_of_every_output_with_missing_cells():
    beta = [1.0, 4.0, 2.0]
    post = NET.condition(X, Y, beta, noise="per_output", observed=OBSERVED, target_error=0.3)
    sums = lbnn.condition_sum([NET], [X], Y, beta=beta, observed=OBSERVED, target_error=0.3)
    assert post.log_evidence == pytest.approx(sums.log_evidence)
    with pytest.raises(ValueError, match="as many units as there are rows, 12"):
        lbnn.Network((20,)).condition(X, Y, beta, noise="per_output", observed=OBSERVED)


def test_gram_and_inputs_agree_for_small_tables():
    one = NET.condition(X, Y, 4.0, observed=OBSERVED)
    other = NET.condition_gram(X @ X.T / 4, Y, 4.0, observed=OBSERVED)
    assert isinstance(other, lbnn.Posterior)
    assert one.log_evidence == pytest.approx(other.log_evidence, abs=1e-6)


def test_missed_phase_is_not_ok(monkeypatch):
    """The path stays in the collapsed phase; a second start is in the other one. One round of paths."""
    monkeypatch.setattr(effort, "_ROUNDS", 1)
    problem = two_phases(0, 5)
    beta = 1 / problem.covariance[0, 0]
    network = lbnn.Network(problem.widths, problem.variances)
    exact = network.condition(problem.X, problem.Y, beta)
    with pytest.warns(lbnn.AccuracyWarning, match="several phases"):
        post = lbnn.condition_sum([network], [problem.X], problem.Y, beta=beta)
    assert abs(post.log_evidence - exact.log_evidence) > 5 * post.log_evidence_error
    assert not post.diagnostics.ok


def test_predictions_need_blocks_that_fit(post):
    with pytest.raises(ValueError, match="one block of points for each"):
        post.predict([X])
    with pytest.raises(ValueError, match="only a block on the identity"):
        post.predict([None, None])
    with pytest.raises(ValueError, match="no density"):
        post.cells.marginal_log_density(Y)
