"""Nine outputs and more: proposals by rows against routes that share nothing with them."""

from __future__ import annotations

import math

import numpy as np
import pytest

import lbnn
from lbnn.data.spectrum import Spectrum
from lbnn.engines import InferenceOptions, rowwise
from lbnn.engines.axis_laws import AxisLaws, examples_of
from lbnn.engines.estimate import Call
from lbnn.engines.policy import POLICY
from lbnn.engines.rowwise import Candidate, EntryProposal, RowProposal, RowSample, proposals, row_estimates
from lbnn.engines.run import principal_axes
from lbnn.engines.target import Target
from lbnn.engines.verdict import agree, can_check
from lbnn.likelihood.gaussian import GaussianLikelihood
from lbnn.noise.make import make_noise
from lbnn.scale.total_factor import TotalFactorLaw
from tests.helpers.lattice import TwoOutputLattice
from tests.helpers.problems import Array, Problem, make_problem
from tests.referees.statistics import assert_agrees


def target_of(data: Problem, widths: tuple[int, ...], beta: float) -> Target:
    """The target that `condition` samples."""
    spectrum = Spectrum.from_inputs(data.X, data.Y)
    likelihood = make_noise("independent", beta, spectrum).likelihood(spectrum)
    prior = lbnn.Network(widths).scale_prior(spectrum.outputs)
    axes = principal_axes(likelihood.gradient_rows, prior.widths)
    return Target(prior.coordinates, likelihood, axes)


def sampled(candidate: Candidate, size: int, seed: int = 0) -> RowSample:
    return candidate.sample(size, np.random.default_rng(seed))


def constant(target: Target) -> float:
    assert isinstance(target.likelihood, GaussianLikelihood)
    return target.likelihood.log_constant


def with_entries(candidate: Candidate) -> Candidate:
    """The same order, entries by themselves."""
    own = candidate.proposal
    return Candidate(
        candidate.target,
        candidate.law,
        candidate.frame,
        EntryProposal(own.law, own.laws, own.groups),
        "entries",
    )


def low_rank(p: int, outputs: int, rank: int, seed: int, size: float = 1.0, noise: float = 0.3) -> Problem:
    """Targets of equal size in a few directions, and noise."""
    rng = np.random.default_rng(seed)
    X, X_test = rng.standard_normal((p, 2 * p)), rng.standard_normal((3, 2 * p))
    left, right = (np.linalg.qr(rng.standard_normal((n, rank)))[0] for n in (2 * p, outputs))
    Y = X @ left @ right.T * math.sqrt(outputs) + noise * rng.standard_normal((p, outputs))
    return Problem(X, size * Y, X_test)


# ---------------------------------------------------------------- weights have no bias


@pytest.mark.parametrize(
    ("p", "width", "beta"), [(4, 3, 4.0), (6, 5, 50.0), (3, 2, 0.5), (3, 4, math.inf)], ids=str
)
def test_every_proposal_against_the_lattice(p: int, width: int, beta: float) -> None:
    """Two outputs, a deterministic referee: evidence and E L by rows and by entries in both orders."""
    data = make_problem(p, 8, 2, seed=600 + p, signal=1.5)
    target, grid = target_of(data, (width,), beta), TwoOutputLattice(data, width, beta)
    options = {"comparisons": 60, "degrees_of_freedom": 15}
    for plans in proposals(target):
        for candidate in (plans[0], with_entries(plans[0])):
            sample = sampled(candidate, 512)
            weighted = sample.estimate
            assert_agrees(
                weighted.log_evidence + constant(target),
                weighted.log_evidence_error,
                grid.log_evidence,
                largest_error=0.05,
                **options,
            )
            exact = np.diagonal(target.rotation.T @ grid.mean @ target.rotation)
            assert_agrees(*sample.estimate.scale_mean, exact, **options)


@pytest.mark.parametrize(
    ("widths", "beta"), [((4, 3), 4.0), pytest.param((3, 3, 5), 30.0, marks=pytest.mark.slow)], ids=str
)
@pytest.mark.filterwarnings("ignore:no independent second estimate:lbnn.AccuracyWarning")
def test_rows_of_deeper_networks_against_the_mixture(widths: tuple[int, ...], beta: float) -> None:
    """Three outputs: the mixture over phases of T, which integrates inner factors in another way.

    Six examples at depth four, weakest axis first, come out 0.17 nats low with Pareto k around 0.7: such
    weights must not testify. Every order that does has to be right, and one of them does.
    """
    data = make_problem(6, 9, 3, seed=610, signal=1.5)
    post = lbnn.Network(widths).condition(data.X, data.Y, beta, target_error=0.02)
    target = target_of(data, widths, beta)
    axes = target.rotation
    options = {"comparisons": 20, "degrees_of_freedom": 15}
    samples = [sampled(plans[0], 512) for plans in proposals(target)]
    heard = [sample for sample in samples if can_check(sample.estimate, POLICY)]
    assert heard
    for sample in heard:
        error = math.hypot(sample.estimate.log_evidence_error, post.log_evidence_error)
        found = sample.estimate.log_evidence + constant(target)
        assert_agrees(found, error, post.log_evidence, largest_error=0.1, **options)
        mean, mean_error = post.scale.expect_with_error(lambda L: np.diagonal(axes.T @ L @ axes))
        joint = np.hypot(sample.estimate.scale_mean[1], mean_error)
        assert_agrees(sample.estimate.scale_mean[0], joint, mean, **options)


def test_draws_are_where_they_say() -> None:
    """Coordinates u of the draws give back L, in the frame of the proposal and in that of the target."""
    target = target_of(make_problem(20, 30, 4, seed=620), (6, 5), 4.0)
    for plans in proposals(target):
        sample = sampled(plans[0], 2)
        roots = plans[0].frame @ sample.total
        np.testing.assert_allclose(
            target.scales(sample.estimate.points), roots @ roots.swapaxes(1, 2), atol=1e-9
        )
        np.testing.assert_allclose(
            np.exp(sample.log_diagonal),
            np.diagonal(
                target.rotation.T @ target.scales(sample.estimate.points) @ target.rotation, axis1=1, axis2=2
            ),
            rtol=1e-8,
        )


def test_laws_of_axes_show_both_phases() -> None:
    """A narrow network with small prior variances: the table of an axis has a fitted and a collapsed peak."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 2))
    Y = X @ rng.normal(size=(2, 1)) + 0.1 * rng.normal(size=(20, 1))
    spectrum = Spectrum.from_inputs(X, np.hstack([Y, 0.1 * rng.normal(size=(20, 1))])).scaled(0.01)
    likelihood = make_noise("independent", 30.0, spectrum).likelihood(spectrum)
    prior = lbnn.Network((2, 2), prior_variances=(0.01,) * 3).scale_prior(2)
    axes = principal_axes(likelihood.targets, prior.widths)[:, ::-1]
    examples = examples_of(likelihood, axes)
    assert examples is not None
    table = AxisLaws(TotalFactorLaw(prior.coordinates.shapes), examples).tables[0]
    peaks = np.flatnonzero(
        (table.density[1:-1] > table.density[:-2]) & (table.density[1:-1] > table.density[2:])
    )
    assert len(peaks) == 2


# ---------------------------------------------------------------- through the front door


def twice_slope(target: Target, L: Array) -> Array:
    """2 L ∂f/∂L = F (∂f/∂F)ᵀ for any root F of L."""
    values, vectors = np.linalg.eigh(L)
    root = vectors * np.sqrt(values)
    return root @ target.likelihood.of_root.value_and_gradient(root[None])[1][0].T


@pytest.mark.parametrize(
    ("data", "width", "beta"),
    [
        pytest.param(make_problem(60, 80, 12, seed=630), 20, 10.0, marks=pytest.mark.slow),
        (make_problem(60, 80, 10, seed=631), 10, math.inf),
        pytest.param(low_rank(60, 12, 2, seed=632), 15, 11.0, marks=pytest.mark.slow),
        (low_rank(60, 12, 2, seed=633, size=0.03), 15, 1e4),
    ],
    ids=["plain", "zero temperature", "low rank", "small low rank"],
)
def test_stein_identity(data: Problem, width: int, beta: float) -> None:
    """n_1 (I − E L) + 2 E[L ∂f/∂L] = 0 for a Wishart prior times e^f: at β = ∞ it ties E L to E L⁻¹."""
    post = lbnn.Network((width,)).condition(data.X, data.Y, beta)
    assert post.diagnostics.ok
    assert len(post.diagnostics.estimates) == 2
    target = target_of(data, (width,), beta)
    outputs = data.Y.shape[1]

    def identity(L: Array) -> Array:
        stein = width * (np.eye(outputs) - L) + twice_slope(target, L)
        return np.diagonal(target.rotation.T @ stein @ target.rotation)

    value, error = post.scale.expect_with_error(identity)
    assert_agrees(value, error, np.zeros(outputs), comparisons=4 * outputs, degrees_of_freedom=15)


@pytest.mark.parametrize(
    ("outputs", "p", "widths"),
    [(12, 8, (12,)), pytest.param(10, 7, (30, 12), marks=pytest.mark.slow)],
    ids=str,
)
def test_primal_and_dual_agree_for_many_outputs(outputs: int, p: int, widths: tuple[int, ...]) -> None:
    """The dual samples a matrix over the examples, small enough for all phases and two estimates."""
    data = make_problem(p, 20, outputs, seed=640 + p)
    dual = lbnn.Network(widths).condition(data.X, data.Y, 4.0, target_error=0.03)
    assert dual.diagnostics.engine == "dual importance"
    primal = lbnn.Network(widths).condition(data.X, data.Y, 4.0, engine="importance")
    assert primal.diagnostics.ok
    error = math.hypot(primal.log_evidence_error, dual.log_evidence_error)
    options = {"comparisons": 2 * (outputs + 1), "degrees_of_freedom": 15}
    assert_agrees(primal.log_evidence, error, dual.log_evidence, largest_error=0.06, **options)
    (own, own_error), (other, other_error) = (
        post.scale.expect_with_error(np.diagonal) for post in (primal, dual)
    )
    assert_agrees(own, np.hypot(own_error, other_error), other, **options)


def test_phases_of_many_outputs_against_the_dual() -> None:
    """Two inputs: the dual samples a 2 × 2 matrix over all phases. Small priors let L collapse."""
    rng = np.random.default_rng(1)
    X, right = rng.normal(size=(20, 2)), np.linalg.qr(rng.normal(size=(9, 2)))[0]
    Y = X @ right.T + 0.1 * rng.normal(size=(20, 9))
    network = lbnn.Network((9, 9), prior_variances=(0.02,) * 3)
    sizes = []
    for beta in (20.0, 80.0):
        dual = network.condition(X, Y, beta)
        primal = network.condition(X, Y, beta, engine="importance")
        assert primal.diagnostics.ok
        error = math.hypot(primal.log_evidence_error, dual.log_evidence_error)
        assert_agrees(primal.log_evidence, error, dual.log_evidence, comparisons=4, degrees_of_freedom=15)
        (own, own_error), (other, other_error) = (
            post.scale.expect_with_error(np.trace) for post in (primal, dual)
        )
        assert_agrees(own, math.hypot(own_error, other_error), other, comparisons=4, degrees_of_freedom=15)
        sizes.append(float(own))
    assert sizes[0] < 0.1 * sizes[1]


def test_units_do_not_matter() -> None:
    """Targets times 1000, and noise and prior with them: the same evidence but for the units."""
    data = make_problem(40, 60, 10, seed=650)
    network = lbnn.Network((15,))
    scaled = lbnn.Network((15,), prior_variances=(1e6, 1.0))
    plain, units = (
        network.condition(data.X, data.Y, 4.0),
        scaled.condition(data.X, 1e3 * data.Y, 4e-6),
    )
    assert units.diagnostics.ok
    assert units.log_evidence + data.Y.size * math.log(1e3) == pytest.approx(plain.log_evidence, abs=1e-6)


def test_twenty_outputs_at_width_forty() -> None:
    """What took 23 s and was not ok."""
    data = make_problem(300, 600, 20, seed=660)
    post = lbnn.Network((40,)).condition(data.X, data.Y, 10.0)
    assert post.diagnostics.ok
    assert post.diagnostics.engine == "importance"
    assert post.log_evidence_error < 0.05


def test_rows_do_not_apply_behind_a_bottleneck_without_noise() -> None:
    target = target_of(make_problem(20, 30, 10, seed=670), (4,), np.inf)
    assert list(proposals(target)) == []
    assert row_estimates(target, Call(InferenceOptions(0.05, 0))) is None


def test_groups_keep_the_sums() -> None:
    """One group for each noise: counts and moments of the rows in it; few groups: all rows are somewhere."""
    target = target_of(make_problem(30, 50, 3, seed=680), (5,), 4.0)
    examples = examples_of(target.likelihood, target.rotation)
    assert examples is not None
    for most in (1, 4, 1000):
        groups = examples.grouped(1.0, 1e-6, most)
        assert len(groups) <= most
        np.testing.assert_allclose(groups.count.sum(axis=0), examples.count.sum(axis=0))
    np.testing.assert_allclose(groups.moments.sum(axis=0), examples.rows.T @ examples.rows, rtol=1e-6)
    assert isinstance(next(proposals(target))[0].proposal, RowProposal)


def test_merged_examples_keep_counts_and_squares_and_the_law_of_an_axis() -> None:
    """Very many examples by levels of noise: what a diagonal T says of them hardly changes."""
    target = target_of(make_problem(400, 600, 3, seed=681), (5,), 4.0)
    examples = examples_of(target.likelihood, target.rotation)
    assert examples is not None
    merged = examples.merged
    assert len(merged.rows) <= 128
    np.testing.assert_allclose(merged.count.sum(axis=0), examples.count.sum(axis=0))
    np.testing.assert_allclose((merged.rows**2).sum(axis=0), (examples.rows**2).sum(axis=0))
    heights = []
    for each in (examples, merged):
        variance = each.noise[:, :, None] + np.exp(np.linspace(-3, 3, 25))
        sums = each.count[:, :, None] * np.log(variance) + each.rows[:, :, None] ** 2 / variance
        heights.append(-0.5 * sums.sum(axis=0))
    peak = heights[0].max(axis=1, keepdims=True)
    offset = heights[1] - heights[0] - (heights[1].max(axis=1, keepdims=True) - peak)
    assert np.abs(np.where(heights[0] > peak - 20, offset, 0.0)).max() < 0.1


@pytest.mark.parametrize("entries", [False, True])
def test_draws_do_not_depend_on_the_number_of_threads(monkeypatch: pytest.MonkeyPatch, entries: bool) -> None:
    target = target_of(make_problem(30, 50, 12, seed=682), (15,), 4.0)
    candidate = next(proposals(target))[-1]
    monkeypatch.setattr("lbnn.engines.rowwise._STATE_FLOATS", 1 << 12)  # many blocks
    weights = []
    for count in (1, 2):
        monkeypatch.setattr("lbnn._base.threads.threads", lambda count=count: count)
        weights.append(sampled(with_entries(candidate) if entries else candidate, 4).log_weights)
    np.testing.assert_array_equal(weights[0], weights[1])


def test_orders_that_differ_are_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the two orders contradict each other both get more draws before anything is said."""
    target = target_of(make_problem(30, 50, 10, seed=683), (15,), 4.0)
    plain, other = row_estimates(target, Call(InferenceOptions(0.1, 0)))
    assert agree(plain, other, POLICY)
    monkeypatch.setattr(rowwise, "agree", lambda *_: False)
    again, _ = row_estimates(target, Call(InferenceOptions(0.1, 0)))
    assert len(again.log_weights) == 4 * len(plain.log_weights)
    assert again.evidence.agrees_with(plain.evidence)
