"""The parts of mixture sampling by themselves: coordinates of T, modes, mixtures and their fitting."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace

import numpy as np
import pytest

import lbnn
from lbnn.engines import mixture
from lbnn.engines.estimate import Call
from lbnn.engines.inference import InferenceOptions
from lbnn.engines.mixture import (
    Mixture,
    PriorPart,
    StudentPart,
    adapted,
    guidance,
    laplace_mixture,
    mixture_of_draws,
)
from lbnn.engines.modes import AxisScan, find_modes, find_tails, scan_axes
from lbnn.engines.policy import POLICY
from lbnn.engines.run import primal_target
from lbnn.engines.total_target import FactorSpace, TotalTarget
from lbnn.noise.make import make_noise
from tests.helpers.problems import make_problem
from tests.reference.several_outputs_cases import issue_cases


def target_of(widths=(6,), outputs=2, beta=4.0, size=1.0, seed=0, variances=None):
    """The posterior that `condition` samples, on a small regression problem."""
    data = make_problem(8, 12, outputs, seed=seed)
    spectrum = lbnn.Spectrum.from_inputs(data.X, size * data.columns)
    network = lbnn.Network(widths, variances)
    likelihood = make_noise("independent", beta, spectrum).likelihood(
        spectrum.scaled(network.prior_variances[0])
    )
    return primal_target(network.scale_prior(outputs), likelihood)


def numerical_gradient(function, point, step=1e-6):
    steps = step * np.eye(len(point))
    return (function(point + steps) - function(point - steps)) / (2 * step)


# ---------------------------------------------------------------- coordinates of T


@pytest.mark.parametrize("widths", [(6,), (5, 4), (1,), (4, 1, 6)], ids=str)
def test_gradient_of_the_typical_posterior(widths):
    total = TotalTarget(target_of(widths, 3))
    rng = np.random.default_rng(1)
    theta = total.law.sample_typical(4, rng)
    frame = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    value, gradient = total.typical(theta, frame)
    np.testing.assert_allclose(total.typical_value(theta, frame), value)
    for point, slope in zip(theta, gradient, strict=True):
        expected = numerical_gradient(lambda points: total.typical_value(points, frame), point)
        np.testing.assert_allclose(slope, expected, rtol=1e-4, atol=1e-4 * np.abs(slope).max())


def test_points_beyond_double_precision_have_no_density():
    total = TotalTarget(target_of())
    far = np.full((2, total.dimension), 400.0)
    assert (total.typical_value(far, total.axes) == -np.inf).all()
    assert (total.evaluate(far, total.axes, np.random.default_rng(0)).log_posterior == -np.inf).all()


@pytest.mark.parametrize("widths", [(6,), (2,), (5, 2, 7)], ids=str)
def test_the_same_scale_seen_from_another_frame(widths):
    total = TotalTarget(target_of(widths, 4))
    rng = np.random.default_rng(2)
    theta, frames = total.law.sample_typical(5, rng), np.linalg.qr(rng.normal(size=(2, 4, 4)))[0]
    roots = total.roots(theta, frames[0])
    seen = total.to_coordinates(roots, frames[1])
    again = total.roots(seen, frames[1])
    scale = roots @ roots.swapaxes(1, 2)
    np.testing.assert_allclose(again @ again.swapaxes(1, 2), scale, atol=1e-9 * np.abs(scale).max())
    own = total.diagonalising_frame(roots[0])
    diagonal = own.T @ scale[0] @ own
    np.testing.assert_allclose(diagonal, np.diag(np.diagonal(diagonal)), atol=1e-9 * diagonal.max())
    along = np.exp(total.log_diagonal(roots))
    expected = np.diagonal(total.axes.T @ scale @ total.axes, axis1=1, axis2=2)
    np.testing.assert_allclose(along, expected, rtol=1e-8, atol=1e-12)


def log_jacobian(function, point, step=1e-6):
    """log |det ∂function/∂point|, by differences."""
    steps = step * np.eye(len(point))
    return np.linalg.slogdet((function(point + steps) - function(point - steps)) / (2 * step))[1]


def test_the_density_of_t_at_depth_two():
    """One factor: nothing is integrated, and the density is that of u times the Jacobian, in any frame."""
    target = target_of((6,), 2)
    total, plain = TotalTarget(target), FactorSpace(target)
    u = 0.7 * np.random.default_rng(3).normal(size=(4, target.dimension))
    roots = total.roots_of(u)
    theta = total.to_coordinates(roots, total.axes)
    rng = np.random.default_rng(0)
    found = total.evaluate(theta, total.axes, rng).log_posterior + total.log_volume(theta)
    of_u = lambda points: total.to_coordinates(total.roots_of(points), total.axes)  # noqa: E731
    jacobian = np.array([log_jacobian(of_u, point) for point in u])
    expected = plain.evaluate(u, plain.axes, rng).log_posterior - jacobian
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-5)


# ---------------------------------------------------------------- modes


@pytest.mark.parametrize("widths", [(6,), (2,), (6, 5), (4, 9, 7)], ids=str)
def test_modes_are_stationary_and_diagonal(widths):
    total = TotalTarget(target_of(widths, 3, size=2.0))
    modes = find_modes(total, scan_axes(total, total.axes))
    assert modes
    for mode in modes:
        value, gradient = total.typical(mode.theta[None], mode.frame)
        assert value[0] == pytest.approx(mode.height)
        values = np.linalg.eigvalsh(mode.hessian)
        step = np.linalg.solve(mode.hessian + 0.05 * np.eye(len(values)), gradient[0] * mode.units)
        assert abs(step @ (gradient[0] * mode.units)) < 0.05  # nats that a step could gain
        assert values.min() > -1e-3
        root = mode.frame @ total.law.matrices(mode.theta[None])[0]
        scale = mode.frame.T @ root @ root.T @ mode.frame
        off = scale - np.diag(np.diagonal(scale))
        assert np.abs(off).max() < 0.1 * np.diagonal(scale).max()
    assert [mode.height for mode in modes] == sorted((mode.height for mode in modes), reverse=True)


def test_every_phase_of_a_deep_network_is_found():
    """Both directions fitted, and one of them collapsed 31 nats below: both are found."""
    case = next(each for each in issue_cases() if each.name == "issue-3")
    spectrum = lbnn.Spectrum.from_inputs(case.X, case.Y).scaled(case.variances[0])
    prior = lbnn.Network(case.widths, case.variances).scale_prior(2)
    likelihood = make_noise("independent", case.beta, spectrum).likelihood(spectrum)
    total = TotalTarget(primal_target(prior, likelihood))
    modes = find_modes(total, scan_axes(total, total.axes))
    assert len(modes) >= 2
    assert modes[0].height - modes[1].height == pytest.approx(31.07, abs=0.05)
    assert modes[0].theta[1] - modes[1].theta[1] > 3  # one direction, e⁶ in scale


def test_tilted_modes_are_further_out():
    total = TotalTarget(target_of((3, 3, 3), 2, beta=0.05, size=0.3))
    scans = scan_axes(total, total.axes)
    tails = find_tails(total, scans)
    assert tails
    best = find_modes(total, scans)[0]
    for mode in tails:
        row = total.axes.T[mode.tilt] @ mode.frame @ total.law.matrices(mode.theta[None])[0]
        own = total.axes.T[mode.tilt] @ best.frame @ total.law.matrices(best.theta[None])[0]
        assert (row**2).sum() > (own**2).sum()


def test_peaks_of_a_scan():
    logs = np.linspace(-10, 5, 151)
    leading = -0.5 * (logs - 1) ** 2
    last = np.logaddexp(leading, -1 - 2 * (logs + 6) ** 2)
    (first, *others) = AxisScan(logs, leading, last).peaks()
    assert first[0] == pytest.approx(1.0, abs=0.1)
    assert [peak[0] for peak in others] == [pytest.approx(-6.0, abs=0.1)]


# ---------------------------------------------------------------- mixtures


@pytest.mark.parametrize("widths", [(6,), (2,), (4, 5)], ids=str)
def test_every_part_is_a_density_in_one_measure(widths):
    """The average of one part's density over the mixture's, over draws of the mixture, is one."""
    total = TotalTarget(target_of(widths, 3))
    mixture = laplace_mixture(total)
    assert mixture.shares.sum() == pytest.approx(1.0)
    other = np.linalg.qr(np.random.default_rng(1).normal(size=(3, 3)))[0]
    part = mixture.parts[0]
    moved = StudentPart(other, part.mean, 1.5 * part.root)  # one more, in another frame
    both = Mixture(total, (moved, *mixture.parts), np.append(0.3, 0.7 * mixture.shares))
    sample = both.sample(256, 16, np.random.default_rng(2))
    for index in range(len(both.parts)):
        ratio = np.exp(sample.log_densities[:, index] - sample.log_mixture)
        assert ratio.mean() == pytest.approx(1.0, abs=5 * ratio.std() / math.sqrt(len(ratio)))


def test_prior_part_has_the_evidence_of_draws_of_the_prior():
    """Weights of the prior part alone average the likelihood, as plain draws of the prior do."""
    target = target_of((5, 6), 2, beta=0.5)
    total = TotalTarget(target)
    mixture = Mixture(total, (PriorPart(total.axes, total.law),), np.ones(1))
    weights = np.exp(mixture.sample(512, 16, np.random.default_rng(1)).log_weights)
    u = np.random.default_rng(2).normal(size=(8192, target.dimension))
    plain = np.exp(target.log_density(u) + 0.5 * (u**2).sum(axis=1))
    spread = math.hypot(weights.std(), plain.std()) / math.sqrt(8192)
    assert abs(weights.mean() - plain.mean()) < 5 * spread


def test_fitting_brings_more_effective_draws():
    total = TotalTarget(target_of((3, 3), 2, size=3.0, beta=100.0))
    mixture, rng = laplace_mixture(total), np.random.default_rng(0)
    first = guidance(mixture.sample(64, 16, rng)).shares[0]
    for _ in range(4):
        mixture = adapted(mixture.sample(64, 16, rng), grow=False)
    assert guidance(mixture.sample(64, 16, rng)).shares[0] > max(first, 0.2)
    assert mixture.shares.min() >= 0.005
    assert mixture.shares.sum() == pytest.approx(1.0)


def test_a_part_is_added_where_few_draws_dominate():
    total = TotalTarget(target_of((3, 3), 2))
    mixture = laplace_mixture(total)
    sample = mixture.sample(64, 16, np.random.default_rng(0))
    assert len(adapted(sample, grow=True).parts) == len(mixture.parts) + 1
    assert len(adapted(sample, grow=False).parts) == len(mixture.parts)


def test_parts_without_draws_stay_as_they_are():
    total = TotalTarget(target_of())
    mixture = laplace_mixture(total)
    sample = mixture.sample(16, 16, np.random.default_rng(0))
    tiny = replace(sample, log_posterior=np.where(np.arange(256) == 7, 0.0, -2000.0))
    fitted = adapted(tiny, grow=False)  # one draw has all the weight, squares of the others underflow
    for old, new in zip(mixture.parts, fitted.parts, strict=True):
        if isinstance(new, StudentPart):
            np.testing.assert_array_equal(new.root, old.root)
            np.testing.assert_array_equal(new.mean, old.mean)


def test_mixtures_of_draws_have_a_part_for_every_label():
    target = target_of((6,), 2)
    rng = np.random.default_rng(0)
    points = np.concatenate([rng.normal(size=(300, 3)), 5 + rng.normal(size=(100, 3))])
    mixture = mixture_of_draws(FactorSpace(target), points, np.repeat([0, 4], [300, 100]))
    assert len(mixture.parts) == 3
    np.testing.assert_allclose(mixture.parts[1].mean, points[300:].mean(axis=0))
    np.testing.assert_allclose(mixture.shares, [0.675, 0.225, 0.1])
    assert (mixture.labels(points)[300:] == 1).mean() > 0.95


def test_one_coordinate_is_a_matrix_too():
    target, draws = target_of((1,), 1), np.random.default_rng(0).normal(size=(50, 1))
    mixture = mixture_of_draws(FactorSpace(target), draws, np.zeros(50, int))
    np.testing.assert_allclose(mixture.parts[0].root, [[draws.std(ddof=1)]])
    np.testing.assert_allclose(mixture.parts[0].mean, draws.mean(axis=0))


@pytest.mark.slow
def test_all_weight_on_one_draw_adds_no_part():
    """Noise a billion times smaller than what one unit leaves: fitting the mixture ended in a LinAlgError."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 400))
    Y = X @ rng.normal(size=(400, 4)) / 20
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lbnn.AccuracyWarning)
        post = lbnn.Network((1,)).condition(X, Y, 1e9)
    assert np.isfinite(post.log_evidence)


def test_draws_do_not_grow_without_end_for_a_tail_that_stays():
    """The tail index of w L_jj does not fall with the number of draws: 0.46 to 0.58 from 2,048 to 262,144."""
    call = Call(InferenceOptions(0.05, 0), replace(POLICY, largest_mean_k=-10.0))
    estimate, _ = mixture.mixture_estimate(laplace_mixture(TotalTarget(target_of())), call)
    assert len(estimate.log_weights) <= 8192


def test_no_second_mixture_settles_that_a_check_is_higher(monkeypatch):
    """A wrong constant in Student's density lowers every mixture alike, so that two of them agree."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(20, 5))
    signal = X @ rng.normal(size=(5, 3)) @ rng.normal(size=(3, 3)) / math.sqrt(15)
    Y = signal + 0.4 * rng.normal(size=(20, 3))
    network, noise = lbnn.Network((6, 5)), {"beta": [2.0, 8.0, 30.0], "noise": "per_output"}
    right = network.condition(X, Y, seed=1, **noise)
    density = StudentPart.log_density
    monkeypatch.setattr(StudentPart, "log_density", lambda part, theta: density(part, theta) + 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lbnn.AccuracyWarning)
        found = network.condition(X, Y, **noise)
    error = math.hypot(found.log_evidence_error, right.log_evidence_error)
    assert not found.diagnostics.ok or abs(found.log_evidence - right.log_evidence) <= 4.5 * error
