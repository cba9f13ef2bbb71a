"""The evidence search: gradients against differences, values against dense algebra and engines, maxima."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import lbnn
from lbnn.engines import InferenceOptions
from lbnn.likelihood.hidden_kernel import dual
from lbnn.selection import (
    EvidenceData,
    NoiseSpec,
    Shapes,
    condition,
    free_parameters,
    gaussian_process,
    search,
)
from lbnn.selection import gaussian_process as gp
from lbnn.selection.finite_width import DualEvidence, SampledEvidence, network_evidence
from lbnn.selection.optimise import maximise
from lbnn.selection.parameters import FreeParameters
from lbnn.selection.width_search import rank_limited_start
from tests.helpers.evidence import evidence_data
from tests.helpers.problems import make_problem, random_scale
from tests.referees.statistics import assert_agrees


def make_data(p=15, inputs=25, outputs=2, seed=0, noise=1.0) -> EvidenceData:
    problem = make_problem(p, inputs, outputs, seed=seed)
    spectrum = lbnn.Spectrum.from_inputs(problem.X, problem.Y)
    vectors = spectrum.project().explained / np.sqrt(spectrum.eigenvalues)
    rest = problem.Y - vectors @ spectrum.targets
    return EvidenceData(spectrum, rest if spectrum.rank < p else np.zeros((0, outputs)), noise)


def differences(function, h, step=1e-5):
    return np.array([(function(h + e) - function(h - e)) / (2 * step) for e in step * np.eye(len(h))])


H = np.array([-1.0, -0.4, 0.3])


@pytest.mark.parametrize(("p", "inputs"), [(15, 25), (30, 8)])  # without and with a part outside the range
def test_slopes_are_derivatives_of_the_log_likelihood(p, inputs):
    data, scale = make_data(p, inputs), random_scale(2, 1)
    values, vectors = (part[None] for part in np.linalg.eigh(scale))

    def log_likelihood(h):
        factor = data.likelihood(h)
        return factor.log_value(values, vectors)[0] + factor.log_constant + data.log_jacobian(h)

    expected = differences(log_likelihood, H)
    np.testing.assert_allclose(
        data.slopes(H, vectors * np.sqrt(values)[:, None, :])[0], expected, rtol=1e-7, atol=1e-6
    )


@pytest.mark.parametrize(("p", "inputs"), [(15, 25), (30, 8)])
def test_gaussian_process_evidence_is_the_dense_density_of_unequal_noise(p, inputs):
    problem, data = make_problem(p, inputs, 2, seed=0), make_data(p, inputs)
    noise, prior_scale = np.exp(H[:-1]), math.exp(H[-1])
    dense = sum(
        stats.multivariate_normal(cov=u * (prior_scale * problem.gram + np.eye(p))).logpdf(y)
        for u, y in zip(noise, problem.Y.T, strict=True)
    )
    assert gp.log_evidence(data, H[None])[0] == pytest.approx(dense, rel=1e-10)
    wide = condition(data, (10**7,), H)
    assert wide.log_evidence + data.log_jacobian(H) == pytest.approx(dense, abs=0.02)
    assert condition(data, (), H).log_evidence + data.log_jacobian(H) == pytest.approx(dense, rel=1e-10)


def test_gaussian_process_gradient():
    data = make_data()
    expected = differences(lambda h: gp.log_evidence(data, h[None])[0], H)
    np.testing.assert_allclose(gp.evidence_and_gradient(data, H)[1], expected, rtol=1e-7, atol=1e-6)


@pytest.mark.parametrize("widths", [(1,), (5,), (3, 3), (40, 2, 7)])
@pytest.mark.parametrize("noise", [1.0, 0.0])
def test_fisher_identity_is_the_gradient_of_the_quadrature_evidence(widths, noise):
    data = make_data(outputs=1, noise=noise)
    evidence, h = network_evidence(data, widths, np.zeros(2), 0), np.array([-0.7, 0.4])
    expected = differences(lambda each: evidence(each)[0], h, 1e-4)
    if noise:
        np.testing.assert_allclose(evidence(h)[1], expected, rtol=1e-6, atol=1e-6)
    else:  # units and scale are then the same thing, and only the scale is searched
        np.testing.assert_allclose(evidence(h)[1][-1], expected[-1], rtol=1e-6, atol=1e-6)


def test_dual_slopes_are_derivatives_of_the_dual_factor():
    data, kernel = make_data(3, 25, 5), random_scale(3, 1)
    h = np.array([-1.0, -0.4, 0.3, 0.1, -0.2, 0.5])
    values, vectors = (part[None] for part in np.linalg.eigh(kernel))

    def log_likelihood(each):
        factor = data.likelihood(each)
        value = dual(factor).log_value(values, vectors)[0]
        return value + factor.log_constant + data.log_jacobian(each)

    expected = differences(log_likelihood, h)
    np.testing.assert_allclose(
        data.dual_slopes(h, np.linalg.cholesky(kernel)[None])[0], expected, rtol=1e-7, atol=1e-6
    )


def test_dual_and_primal_evidence_and_gradient_agree():
    data, h = make_data(4, 25, 5), np.array([-1.0, -0.4, 0.3, 0.1, -0.2, 0.5])
    assert isinstance(network_evidence(data, (6,), h, 0), DualEvidence)
    answers = []
    for kind in (SampledEvidence, DualEvidence):
        runs = [kind(data, (6,), h, seed, 1024)(h) for seed in range(8)]
        answers.append(np.array([np.append(gradient, value) for value, gradient in runs]))
    difference = answers[0] - answers[1]
    errors = difference.std(axis=0, ddof=1) / math.sqrt(8)
    assert_agrees(difference.mean(0), errors, np.zeros(7), degrees_of_freedom=7, largest_error=0.05)


@pytest.mark.parametrize("widths", [(30,), (5,), (2,), (1,), (20, 20)])
def test_sampled_evidence_and_gradient_agree_with_the_engine(widths):
    data = make_data(40, 60, 3)
    h = np.array([-1.6, -1.2, -1.5, 0.8])
    evidence = network_evidence(data, widths, h, 0)
    value, gradient = evidence(h)
    error = evidence.error

    posterior = condition(data, widths, h, InferenceOptions(0.02, 0))
    exact = posterior.log_evidence + data.log_jacobian(h)
    assert abs(value - exact) < 4 * math.hypot(error, posterior.log_evidence_error)
    values, vectors = posterior.scale.eigen
    slopes = data.slopes(h, vectors * np.sqrt(values)[:, None, :])
    fisher = posterior.scale.average(slopes)
    spread = np.sqrt(posterior.scale.average((slopes - fisher) ** 2))
    fisher_error = posterior.scale.standard_error(slopes)
    # plain averages over as many draws would have an error near 0.08 spread; Stein's term takes most of it
    assert (np.abs(gradient - fisher) < 4 * fisher_error + 0.02 * spread).all()
    smooth = differences(lambda each: evidence(each)[0], h, 1e-3)
    assert (np.abs(gradient - smooth) < 0.03 * spread).all()


def test_search_at_infinite_width_beats_a_dense_grid():
    data, spec = make_data(30, 20, 3), NoiseSpec()
    free = free_parameters(data, spec)
    best = gp.search(data, spec, free)[0]
    lattice = np.stack(np.meshgrid(*np.linspace(free.lower, free.upper, 200).T), -1).reshape(-1, 2)
    values = gp.log_evidence(data, lattice @ free.directions.T + free.base)
    assert best.value >= values.max()
    assert best.value == pytest.approx(values.max(), abs=0.5)
    assert np.abs(best.gradient).max() < 1e-3


@pytest.mark.parametrize(
    "spec",
    [
        NoiseSpec(per_output=True),
        NoiseSpec(noise_variance=0.1),
        NoiseSpec(prior_scale=2.0),
        NoiseSpec(noise_variance=0.1, per_output=True),
        NoiseSpec(noise_variance=0.1, prior_scale=2.0, per_output=True),
        NoiseSpec(noise_variance=0.1, prior_scale=2.0),
    ],
)
def test_given_hyperparameters_are_kept_and_the_others_are_optimal(spec):
    data = make_data(30, 20, 3)
    free = free_parameters(data, spec)
    best = gp.search(data, spec, free)[0]
    h = free.at(best.phi)
    if spec.noise_variance is not None:
        assert h[:-1].mean() == pytest.approx(math.log(spec.noise_variance))
    if spec.prior_scale is not None:
        assert h[-1] + h[:-1].mean() == pytest.approx(math.log(spec.prior_scale))
    if not spec.per_output:
        assert np.ptp(h[:-1]) == 0
    assert np.abs(best.gradient).max(initial=0.0) < 1e-3


def test_zero_temperature_searches_the_prior_scale_only():
    data, spec = make_data(10, 30, 2, noise=0.0), NoiseSpec(noise_variance=0.0)
    free = free_parameters(data, spec)
    assert free.count == 1
    (best,) = gp.search(data, spec, free)
    h = free.at(best.phi)
    # the best scale of n_d·p Gaussian variables is their mean square: tr(YᵀG⁻¹Y)/(p n_d), in units u
    targets = data.spectrum.targets
    mean_square = (targets**2 / data.spectrum.eigenvalues[:, None]).mean()
    assert math.exp(h[-1] + h[0]) == pytest.approx(mean_square, rel=1e-6)


def test_noise_free_targets_end_at_the_edge_and_say_so():
    problem = make_problem(30, 5, 2, seed=0)
    Y = problem.X @ np.ones((5, 2))
    spectrum = lbnn.Spectrum.from_inputs(problem.X, Y)
    data = EvidenceData(spectrum, np.zeros((0, 2)))
    best = search(data, [NoiseSpec()], Shapes(fixed=((),)))[0]
    assert best.on_edge
    variance = (Y**2).mean()
    assert np.exp(best.h[0]) == pytest.approx(1e-10 * variance, rel=1e-6)


def test_maximise_climbs_inside_a_box():
    curvature = np.array([[4.0, 1.0], [1.0, 2.0]])
    centre = np.array([0.5, 5.0])
    free = FreeParameters(np.zeros(2), np.eye(2), np.full(2, -3.0), np.full(2, 3.0))

    def evidence(h):
        return -0.5 * (h - centre) @ curvature @ (h - centre), -curvature @ (h - centre)

    best = maximise(evidence, free, np.array([-2.0, -2.0]), np.eye(2), tolerance=1e-12)
    # held at 3 in the second coordinate, the first minimises 2x² + x(3 − 5) about its centre
    np.testing.assert_allclose(best.phi, [0.5 + 2 / 4, 3.0], atol=1e-5)


def test_maximise_gives_up_a_climb_that_cannot_reach_its_rival():
    free = FreeParameters(np.zeros(1), np.eye(1), np.full(1, -50.0), np.full(1, 50.0))
    calls = []

    def evidence(h):
        calls.append(h)
        return -0.5 * float(h @ h), -h

    maximise(evidence, free, np.array([30.0]), np.eye(1), tolerance=1e-6, rival=1e6)
    assert len(calls) == 1


def test_a_bottleneck_starts_with_the_noise_that_it_leaves():
    data = make_data(40, 60, 3)
    free = free_parameters(data, NoiseSpec())
    h = free.at(gp.search(data, NoiseSpec(), free)[0].phi)
    start = rank_limited_start(data, h, 1)
    assert start[0] > h[0]
    assert start[-1] + start[:-1].mean() == pytest.approx(h[-1] + h[:-1].mean())
    np.testing.assert_array_equal(rank_limited_start(data, h, 3), h)
    near = network_evidence(data, (1,), start, 0)
    assert near(free.at(free.nearest(start)))[0] > near(h)[0]


def test_width_of_the_generating_network_wins():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 40))
    Y = X @ rng.normal(size=(40, 2)) @ rng.normal(size=(2, 6)) / math.sqrt(80) + 0.3 * rng.normal(
        size=(80, 6)
    )
    spectrum = lbnn.Spectrum.from_inputs(X, Y)
    vectors = spectrum.project().explained / np.sqrt(spectrum.eigenvalues)
    data = EvidenceData(spectrum, Y - vectors @ spectrum.targets)
    candidates = search(data, [NoiseSpec()], Shapes(depth=2))
    assert candidates[0].widths == (2,)
    by_width = {candidate.widths: candidate for candidate in candidates}
    assert by_width[(128,)].log_evidence < candidates[0].log_evidence - 20
    assert np.exp(candidates[0].h[0]) == pytest.approx(0.09, rel=0.2)
    # no neighbouring hyperparameters do better, by the engine
    best = candidates[0]
    values = [
        condition(data, (2,), best.h + step).log_evidence + data.log_jacobian(best.h + step)
        for step in (0, *0.3 * np.array([[1] * 6 + [0], [-1] * 6 + [0], [0] * 6 + [1], [0] * 6 + [-1]]))
    ]
    assert values[0] > max(values[1:]) - 0.1


def test_search_does_not_depend_on_the_units_of_the_targets():
    data = make_data(30, 20, 2)
    scaled = replace(
        data,
        spectrum=replace(
            data.spectrum, targets=1e6 * data.spectrum.targets, residual=1e12 * data.spectrum.residual
        ),
        outside=1e6 * data.outside,
    )
    first, second = (search(each, [NoiseSpec()], Shapes(fixed=((3,),)))[0] for each in (data, scaled))
    shift = np.array([math.log(1e12)] * 2 + [0.0])
    np.testing.assert_allclose(second.h, first.h + shift, atol=1e-6)
    assert second.log_evidence == pytest.approx(first.log_evidence - 60 * math.log(1e6), abs=1e-6)


# ---------------------------------------------------------------------- one search at infinite width


def test_kinds_of_noise_share_the_search_at_infinite_width(monkeypatch):
    """One for each unit of the noise: coupled and independent noise are one model at infinite width."""
    searched = []

    def counted(data, spec, free, search=gp.search):
        searched.append(spec)
        return search(data, spec, free)

    monkeypatch.setattr(gp, "search", counted)
    data = make_data(20, 6)
    gp.prefers_own_units(data, NoiseSpec())
    kinds = [NoiseSpec(per_output=own, coupled=kind) for kind in (True, False) for own in (False, True)]
    shared = [gp.optima(data, kind) for kind in kinds]
    assert searched == [NoiseSpec(), NoiseSpec(per_output=True)]
    alone = gp.search(data, kinds[1], free_parameters(data, kinds[1]))
    assert [top.value for top in shared[1]] == [top.value for top in alone]
    gp.optima(EvidenceData(data.spectrum, data.outside), NoiseSpec())
    assert len(searched) == 4  # other data, another search


@pytest.mark.parametrize("noise", [1.0, 0.0])
def test_curvature_at_infinite_width_is_that_of_differences(noise):
    """In closed form; before, by 2 (n_d + 1) gradients, each with a product of n_d columns."""
    rng = np.random.default_rng(7)
    Y = rng.normal(size=(12, 3))
    data = evidence_data(rng.normal(size=(12, 20)), Y - Y.mean(axis=0), noise_variance=noise)
    h, step = np.array([0.1, -0.3, 0.2, 0.5]), 1e-5 * np.eye(4)
    expected = data.slopes(h, np.eye(3)[None])[0]
    np.testing.assert_allclose(gaussian_process.evidence_and_gradient(data, h)[1], expected, rtol=1e-10)
    ahead, behind = (
        np.stack([gaussian_process.evidence_and_gradient(data, h + each)[1] for each in sign * step])
        for sign in (1, -1)
    )
    np.testing.assert_allclose(gaussian_process.curvature(data, h), (behind - ahead) / 2e-5, atol=1e-6)
