"""The verdict and its thresholds: what makes an answer ok, and that every threshold decides what it says."""

from __future__ import annotations

import math
from dataclasses import fields, replace
from types import SimpleNamespace

import numpy as np
import pytest

import lbnn
from lbnn.engines.estimate import Call, Estimate, Located, group_spread
from lbnn.engines.inference import Diagnostics, EvidenceEstimate, InferenceOptions
from lbnn.engines.policy import GROUPS, POLICY, Policy, joint_errors
from lbnn.engines.table import Problem, plan
from lbnn.engines.verdict import (
    _shortfall,
    agree,
    can_check,
    evidence_agrees,
    in_words,
    means_agree,
    reaches,
    verdict,
)
from tests.helpers.problems import narrow_per_output

CALL = Call(InferenceOptions(0.05, 0))


def estimate(size=1600, spread=0.3, seed=0, shift=0.0, outputs=2, **changes) -> Estimate:
    """Log-normal weights of a given spread, and L_jj that are independent of them."""
    rng = np.random.default_rng(seed)
    log_weights = spread * rng.standard_normal(size) + shift
    diagonal = 0.2 * rng.standard_normal((size, outputs))
    made = Estimate.of_weights("made", log_weights, diagonal, Located(np.zeros((size, 1))))
    return replace(made, **changes)


def heavy(size=1600, seed=0, tail=1.5, of_means=False) -> Estimate:
    """Weights, or weights times L_jj, with a Pareto tail of the given index."""
    rng = np.random.default_rng(seed)
    tails = tail * rng.exponential(size=size)
    log_weights = np.zeros(size) if of_means else tails
    diagonal = np.stack([tails, np.zeros(size)], axis=1) if of_means else np.zeros((size, 2))
    return Estimate.of_weights("heavy", log_weights, diagonal, Located(np.zeros((size, 1))))


# ---------------------------------------------------------------- estimates


def test_evidence_and_error_of_weights():
    """Over 400 samples: the mean weight is unbiased, and the stated error is the spread."""
    made = [estimate(seed=seed) for seed in range(400)]
    values = np.array([each.log_evidence for each in made])
    stated = np.array([each.log_evidence_error for each in made])
    assert abs(values.mean() - 0.045) < 4 * values.std() / 20
    assert values.std() == pytest.approx(math.sqrt((stated**2).mean()), rel=0.15)


def test_means_of_the_scale_and_their_errors():
    made = [estimate(seed=seed) for seed in range(400)]
    means = np.array([each.scale_mean[0] for each in made])
    stated = np.array([each.scale_mean[1] for each in made])
    np.testing.assert_allclose(means.mean(axis=0), math.exp(0.02), atol=4 * means.std() / 20)
    assert (stated.mean(axis=0) > 0.9 * means.std(axis=0)).all()
    assert (stated.mean(axis=0) < 1.5 * means.std(axis=0)).all()


def test_group_spread_is_exact_for_equal_groups():
    value, error = group_spread(np.zeros(64), 16)
    assert value == pytest.approx(0.0, abs=1e-12)
    assert error == pytest.approx(0.0, abs=1e-12)
    by_group = np.repeat(np.log([1.0, 3.0]), 32)
    assert group_spread(by_group, 2) == (pytest.approx(math.log(2)), pytest.approx(0.5))


def test_correlated_draws_count_for_less():
    full, half = estimate(), estimate(efficiency=0.5)
    assert half.effective_sample_size == pytest.approx(0.5 * full.effective_sample_size)
    assert (half.scale_mean[1] >= full.scale_mean[1]).all()


def test_stored_estimates_keep_their_points():
    points = np.arange(6.0).reshape(3, 2)
    made = replace(estimate(size=16), locate=lambda: points)
    assert made.stored().points is points


# ---------------------------------------------------------------- streams and work


def test_streams_have_names_and_are_never_shared():
    call = Call(InferenceOptions(0.05, 3))
    first, second = call.stream("rows").random(4), call.stream("mixture").random(4)
    assert not np.array_equal(first, second)
    with pytest.raises(RuntimeError, match="'rows' is in use already"):
        call.stream("rows")
    again = Call(InferenceOptions(0.05, 3))
    np.testing.assert_array_equal(again.stream("rows").random(4), first)  # whatever was asked for before
    assert not np.array_equal(again.within("kernel").stream("rows").random(4), first)
    with pytest.raises(RuntimeError, match="kernel: rows"):
        again.within("kernel").stream("rows")


def test_estimates_and_their_checks_are_not_correlated():
    """Over 60 seeds; with one stream for both the correlation of two log evidences was 0.49."""
    rng = np.random.default_rng(2)
    X, Y, network = rng.normal(size=(8, 12)), rng.normal(size=(8, 2)), lbnn.Network((6,))
    spectrum = lbnn.Spectrum.from_inputs(X, Y)
    found = [network.condition_spectrum(spectrum, 2.0, seed=seed).diagnostics.estimates for seed in range(60)]
    pairs = np.array([[each.log_evidence for each in both] for both in found])
    assert abs(np.corrcoef(pairs.T)[0, 1]) < 0.4  # three deviations of 60 pairs


def test_all_estimates_of_a_call_share_one_budget():
    call = Call(InferenceOptions(0.05, 0), replace(POLICY, work=10.0))
    assert call.work(4.0) == 4.0
    call.spend(8.0)
    assert call.work(4.0) == 2.0
    assert call.within("kernel").work(4.0) == 2.0
    call.within("kernel").spend(5.0)
    assert call.work(4.0) == 0.0


# ---------------------------------------------------------------- verdict


def test_two_estimates_that_agree_are_ok():
    answer = verdict("importance", estimate(), estimate(seed=1), CALL)
    assert answer.diagnostics.ok
    assert answer.diagnostics.messages == ()
    assert [each.method for each in answer.diagnostics.estimates] == ["made", "made"]
    assert answer.log_evidence_error == answer.estimate.log_evidence_error


def test_false_alarms_are_as_rare_as_stated():
    """2000 pairs of right estimates; the rate is one in a hundred, over evidence and means together."""
    made = [estimate(size=320, seed=seed, outputs=4) for seed in range(4000)]
    alarms = sum(not agree(one, two, POLICY) for one, two in zip(made[::2], made[1::2], strict=True))
    assert alarms <= 2 * POLICY.false_alarm * 2000


@pytest.mark.parametrize("shift", [-0.2, 0.2])
def test_estimates_that_differ_are_not_ok_and_the_error_holds_both(shift):
    answer = verdict("importance", estimate(), estimate(seed=1, shift=shift), CALL)
    assert not answer.diagnostics.ok
    assert "differ by" in answer.diagnostics.messages[0]
    assert answer.log_evidence_error >= 0.08


def test_the_error_of_sequential_monte_carlo_holds_its_check():
    """Up to the target error: the spread of its groups does not show what all of them have in common."""
    moved = estimate(size=16_000, spread=0.02, weighted=False)
    for difference, stated in ((0.03, 0.03), (0.08, CALL.target_error)):
        check = EvidenceEstimate("other", moved.log_evidence + difference, 0.04)
        answer = verdict("smc", moved, check, CALL)
        assert answer.diagnostics.ok
        assert moved.log_evidence_error < 0.01
        assert answer.log_evidence_error == pytest.approx(stated)
    weighted = replace(moved, weighted=True)
    assert verdict("importance", weighted, check, CALL).log_evidence_error < 0.01


def test_a_check_without_draws_that_agrees_is_pooled():
    """Weights of inverse squared errors; both estimates are told as they are. One that differs is not."""
    path = replace(estimate(weighted=False), log_evidence=1.0, log_evidence_error=0.06)
    call = Call(InferenceOptions(0.05, 0))
    answer = verdict("smc", path, EvidenceEstimate("annealing", 1.03, 0.08), call)
    assert answer.log_evidence == pytest.approx((1.0 / 36 + 1.03 / 64) / (1 / 36 + 1 / 64))
    assert answer.log_evidence_error == pytest.approx(0.048)  # alone it would miss the target error
    assert answer.diagnostics.ok
    assert [told.error for told in answer.diagnostics.estimates] == [0.06, 0.08]
    other = verdict("smc", path, EvidenceEstimate("annealing", 1.5, 0.08), call)
    assert other.log_evidence == 1.0
    assert other.log_evidence_error == pytest.approx(0.25)
    assert not other.diagnostics.ok


def test_means_that_differ_are_not_ok():
    other = estimate(seed=1)
    other = replace(other, log_diagonal=other.log_diagonal + np.array([0.0, 0.2]))
    assert evidence_agrees(estimate(), other, POLICY)
    assert not means_agree(estimate(), other, POLICY)
    answer = verdict("importance", estimate(), other, CALL)
    assert any("mean of the scale" in message for message in answer.diagnostics.messages)


def test_axes_that_a_check_cannot_tell_are_not_compared():
    other = heavy(of_means=True)
    assert can_check(other, POLICY)
    assert means_agree(estimate(), other, POLICY)


def test_an_answer_alone_is_not_ok_unless_none_is_needed():
    assert (
        "no independent second estimate"
        in verdict("importance", estimate(), None, CALL).diagnostics.messages[0]
    )
    assert verdict("importance", estimate(), None, CALL, needs_check=False).diagnostics.ok
    moved = estimate(weighted=False)
    assert "too heavy a tail" in verdict("smc", moved, None, CALL).diagnostics.messages[0]


def test_moves_that_were_cut_short_are_not_ok():
    answer = verdict("smc", estimate(weighted=False, complete=False), estimate(seed=1), CALL)
    assert "cut short" in answer.diagnostics.messages[0]


def test_messages_and_ok_are_one_thing():
    told = Diagnostics("importance", 100.0, messages=("doubt",))
    assert not told.ok
    assert Diagnostics("importance", 100.0).with_message("doubt") == told
    shifted = Diagnostics("smc", 9.0, estimates=(EvidenceEstimate("one", 1.0, 0.1),)).shifted(2.0)
    assert shifted.estimates[0].log_evidence == 3.0


@pytest.mark.parametrize(
    ("seconds", "words"), [(3.2, "3 seconds"), (150, "2 minutes"), (9000, "2 hours"), (4e5, "5 days")]
)
def test_seconds_in_words(seconds, words):
    assert in_words(seconds) == words


# ---------------------------------------------------------------- every threshold decides


def tail(limit: str) -> Estimate:
    """Enough draws and a small error, but a tail of index 0.9 that has hardly been seen."""
    uniform = np.random.default_rng(3).random(1600)
    log_weights = np.log1p(0.003 * (uniform**-0.9 - 1))
    made = Estimate.of_weights("tail", log_weights, np.zeros((1600, 2)), Located(np.zeros((1600, 1))))
    return replace(made, limit=limit)


def _reach(made: Estimate, policy: Policy, target_error: float = 0.05) -> bool:
    return reaches(made, Call(InferenceOptions(target_error, 0), policy))


#: threshold: factor in the harmful direction, and what must differ then
DECISIONS = {
    "largest_k": (3.0, lambda policy: can_check(tail("largest_k"), policy)),
    "largest_row_k": (3.0, lambda policy: can_check(tail("largest_row_k"), policy)),
    "fewest_effective": (1 / 3, lambda policy: _reach(estimate(240, 0.01), policy, 0.1)),
    "largest_mean_k": (3.0, lambda policy: _reach(tail_of_means(), policy)),
    "fewest_for_means": (1 / 3, lambda policy: _reach(few_for_means(), policy)),
    "false_alarm": (1 / 3, lambda policy: evidence_agrees(estimate(), near(), policy)),
    "fewest_to_check": (1 / 3, lambda policy: can_check(estimate(size=64, spread=0.1), policy)),
    "largest_check_error": (3.0, lambda policy: cannot_confirm(policy)),
    "most_for_mixture": (3.0, lambda policy: names(Problem((50,), 12, 99), policy)),
    "most_fitted": (3.0, lambda policy: names(Problem((3,), 9, 20, kernel=False), policy)),
    "most_fitted_narrow": (3.0, lambda policy: names(Problem((3,), 9, 20), policy)),
    "most_for_spectral": (1 / 3, lambda policy: names(Problem((6,), 30, 60), policy)),
    "most_for_last_spectral": (1 / 3, lambda policy: names(Problem((10,), 35, 60), policy)),
    "most_log_condition": (3, lambda policy: names(Problem((10,) * 7, 10, 50), policy)),
    "most_for_curvature": (3.0, lambda policy: checks(Problem((500,), 60, 99), policy)),
}

#: where a factor of three does not change whether a right answer is given, and why
HARMLESS = {
    "gaussian_alone": "it only spares a check of an estimate that has reached the target error",
    "most_outputs_by_rows": "limits memory; the hidden kernel answers instead, with a check of its own",
    "fewest_narrow_rows": "decides which of two answers is tried first, and the time it takes",
    "work": "time: an answer that runs out of work says so",
    "row_work": "time: an answer that runs out of work says so",
    "narrow_row_work": "time: an answer that runs out of work says so",
    "mixture_work": "time: an answer that runs out of work says so",
    "smc_work": "time: an answer that runs out of work says so",
    "smc_work_cut": "time: an answer that runs out of work says so",
}


def tail_of_means() -> Estimate:
    return replace(heavy(16000, tail=0.6, of_means=True), mean_limit="largest_mean_k")


def few_for_means() -> Estimate:
    """Enough draws for the evidence, 100 for the mean along one axis."""
    made = estimate(size=1600, spread=0.01)
    diagonal = np.zeros((1600, 2))
    diagonal[:100, 0] = 12.0  # a hundred draws hold the mean
    return replace(made, log_diagonal=np.random.default_rng(0).permuted(diagonal, axis=0))


def near() -> Estimate:
    """Another estimate, three and a half joint errors away."""
    one, other = estimate(), estimate(seed=1)
    joint = math.hypot(one.log_evidence_error, other.independent_error)
    return replace(other, log_evidence=one.log_evidence + 3.5 * joint)


def cannot_confirm(policy: Policy) -> bool:
    """Sequential Monte Carlo with a check that is uncertain by five target errors, and off by ten."""
    check = replace(estimate(size=32, seed=1, spread=1.5), log_evidence=0.5, log_evidence_error=0.25)
    moved = replace(estimate(weighted=False), log_evidence=0.0, log_evidence_error=0.02)
    return verdict("smc", moved, check, Call(InferenceOptions(0.05, 0), policy)).diagnostics.ok


def names(problem: Problem, policy: Policy) -> tuple[str, ...]:
    return tuple(step.name for step in plan(problem, policy=policy).steps)


def checks(problem: Problem, policy: Policy) -> tuple[str, ...]:
    return tuple(step.check for step in plan(problem, policy=policy).steps)


def test_every_threshold_is_accounted_for():
    assert DECISIONS.keys() | HARMLESS.keys() == {each.name for each in fields(Policy)}
    assert not DECISIONS.keys() & HARMLESS.keys()


@pytest.mark.parametrize("name", DECISIONS)
def test_a_threshold_moved_in_the_harmful_direction_decides_otherwise(name):
    factor, decision = DECISIONS[name]
    value = getattr(POLICY, name)
    moved = replace(POLICY, **{name: type(value)(factor * value)})
    assert decision(moved) != decision(POLICY)


def test_quantiles_of_agreement():
    """The figures in the docstring of `verdict`."""
    half = 0.5 * POLICY.false_alarm
    assert joint_errors(half) == pytest.approx(3.29, abs=0.01)
    assert joint_errors(half / 3) == pytest.approx(3.83, abs=0.02)
    assert joint_errors(half / 50) == pytest.approx(5.24, abs=0.02)
    assert GROUPS == 16


def test_groups_alike_by_chance_do_not_make_the_error_small():
    """Every group has the same weights: their spread is zero, that of independent draws is not."""
    weights = np.random.default_rng(0).exponential(size=64)
    log_weights = np.log(np.tile(weights, GROUPS))
    rest = (log_weights[:, None], Located(log_weights[:, None]))
    made = Estimate.of_weights("made", log_weights, *rest)
    expected = weights.std() / weights.mean() / math.sqrt(log_weights.size)  # of the mean of so many weights
    np.testing.assert_allclose(made.log_evidence_error, expected, rtol=1e-12)
    assert Estimate.of_weights("made", log_weights, *rest, quasi_random=True).log_evidence_error < 1e-12


@pytest.mark.slow
def test_errors_of_narrow_per_output_problems_hold():
    """Widths (3, 2), noise per output, ten seeds: one was off by 4.8 stated errors, nine were low."""
    case = narrow_per_output(6)
    truth, truth_error = (
        -11.485258745905707,
        0.0024357058110401316,
    )  # `referee(case, 200000)`, draws of the prior
    net = lbnn.Network(case["widths"], case["variances"])
    scores = []
    for seed in range(10):
        post = net.condition(case["X"], case["Y"], case["beta"], noise="per_output", seed=seed)
        assert post.diagnostics.ok
        scores.append((post.log_evidence - truth) / math.hypot(post.log_evidence_error, truth_error))
    assert np.abs(scores).max() < 3.5


def test_a_shortfall_names_what_is_missing_and_nothing_else():
    """An error and a Pareto k that are fine beside "not ok" would contradict it."""
    fine = {"weighted": True, "pareto_k": 0.18, "limit": "largest_k", "complete": True}
    fine |= {"heavy_tailed": lambda policy: False, "heavy_tailed_means": lambda policy: False}
    fine |= {"effective_sample_size": 500.0, "log_evidence_error": 0.027, "mean_limit": "largest_k"}
    fine |= {"mean_sizes": np.array([300.0, 250.0]), "mean_tails": np.array([0.1, 0.2])}
    call = SimpleNamespace(target_error=0.1, effective=400.0, policy=POLICY)
    cases = {
        "120 draws are effective (400 are needed)": {"effective_sample_size": 120.0},
        "Pareto k of 0.91 (should be below 0.7)": {
            "heavy_tailed": lambda policy: True,
            "pareto_k": 0.91,
        },
        "error of the log evidence is 0.3": {"log_evidence_error": 0.3},
        "rests on 12 effective draws (200 are needed)": {"mean_sizes": np.array([300.0, 12.0])},
        "mean of the scale have a Pareto k of 0.95": {
            "mean_tails": np.array([0.1, 0.95]),
            "heavy_tailed_means": lambda policy: True,
        },
    }
    for expected, changed in cases.items():
        message = _shortfall(SimpleNamespace(**(fine | changed)), call, "try engine='smc'")
        assert expected in message
        assert message.startswith("importance sampling is not accurate enough for a target error of 0.1: ")
        assert not any(other in message for other in cases if other != expected)
        assert message.count(", ") == 0
