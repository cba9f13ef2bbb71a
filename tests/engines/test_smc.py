"""The sampling engines on targets whose answers are known, and their parts."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest
from scipy import special, stats

import lbnn
from lbnn.engines import importance, smc
from lbnn.engines.estimate import Call, Estimate
from lbnn.engines.importance import curvature, find_mode, laplace_proposal
from lbnn.engines.inference import InferenceOptions
from lbnn.engines.pareto import pareto_k
from lbnn.engines.verdict import reaches
from tests.helpers.problems import Array, make_problem
from tests.referees.statistics import assert_agrees


@dataclass(frozen=True)
class GaussianTarget:
    """Likelihood exp(−½ Σ_i c_i (u_i − m_i)²) under a standard normal prior: everything is known."""

    precision: Array
    centre: Array
    operations: float = 1e4

    @property
    def dimension(self) -> int:
        return len(self.precision)

    @property
    def log_evidence(self) -> float:
        c, m = self.precision, self.centre
        return float(-0.5 * np.log1p(c).sum() - 0.5 * (c * m**2 / (1 + c)).sum())

    @property
    def posterior(self) -> tuple[Array, Array]:
        """Mean and variance."""
        return self.precision * self.centre / (1 + self.precision), 1 / (1 + self.precision)

    def log_density(self, u: Array) -> Array:
        return self.value_and_gradient(u)[0]

    def value_and_gradient(self, u: Array) -> tuple[Array, Array]:
        rest = u - self.centre
        return -0.5 * (u**2 + self.precision * rest**2).sum(1), -u - self.precision * rest

    def scales(self, u: Array) -> Array:
        return np.exp(0.1 * u[:, :1, None]) * np.eye(2)

    rotation = np.eye(2)

    @property
    def coordinates(self) -> GaussianTarget:
        return self

    def factors(self, u: Array) -> list[Array]:
        return [np.sqrt(self.scales(u))]


TARGET = GaussianTarget(np.array([0.0, 0.5, 3.0, 20.0]), np.array([1.0, 2.0, -1.0, 0.5]))


class SkewedTarget(GaussianTarget):
    """Logistic likelihoods, far from Gaussian."""

    @property
    def log_evidence(self) -> float:
        return -self.dimension * math.log(2)  # E expit(a u) = 1/2 for every a

    def value_and_gradient(self, u: Array) -> tuple[Array, Array]:
        a = 4.0
        return (special.log_expit(a * u) - u**2 / 2).sum(1), a * special.expit(-a * u) - u


SKEWED = SkewedTarget(np.ones(3), np.zeros(3))


def smc_of(target: GaussianTarget, seed: int, target_error: float = 0.05) -> Estimate:
    return smc.smc_estimate(target, laplace_proposal(target), Call(InferenceOptions(target_error, seed)))


# ---------------------------------------------------------------- Laplace


def test_mode_and_curvature_of_a_gaussian() -> None:
    mean, variance = TARGET.posterior
    mode = find_mode(TARGET, np.zeros(TARGET.dimension))
    np.testing.assert_allclose(mode, mean, atol=1e-5)
    np.testing.assert_allclose(curvature(TARGET, mode), np.diag(1 / variance), rtol=1e-6, atol=1e-6)


def test_proposal_whitens_what_it_places() -> None:
    proposal = laplace_proposal(TARGET)
    white = np.random.default_rng(1).standard_normal((5, 4))
    np.testing.assert_allclose(proposal.whiten(proposal.place(white)), white, atol=1e-12)
    assert proposal.root is not None
    assert proposal.log_determinant == pytest.approx(np.linalg.slogdet(proposal.root)[1], rel=1e-10)


# ---------------------------------------------------------------- engines on known targets


def gaussian_of_known(target: GaussianTarget, seed: int) -> Estimate:
    call = Call(InferenceOptions(0.05, seed))
    return importance.gaussian_importance(target, laplace_proposal(target), call, "Gaussian")


@pytest.mark.parametrize("target", [TARGET, SKEWED], ids=["gaussian", "skewed"])
def test_importance_sampling_of_known_targets(target: GaussianTarget) -> None:
    sample = gaussian_of_known(target, 2)
    assert_agrees(sample.log_evidence, sample.log_evidence_error, target.log_evidence, degrees_of_freedom=7)
    assert reaches(sample, Call(InferenceOptions(0.05, 2)))


def test_importance_weights_of_the_right_gaussian_are_bounded() -> None:
    """Below (1 + ½/√D)^D / 0.9 of the evidence: the proposal is that much wider, and 0.9 of the points."""
    sample = gaussian_of_known(TARGET, 2)
    bound = (1 + 0.5 / math.sqrt(TARGET.dimension)) ** TARGET.dimension / 0.9
    assert np.exp(sample.log_weights - TARGET.log_evidence).max() < bound + 1e-6
    # 1.25⁸/2.125² = 1.32 for the wider Gaussian alone, which gets 0.9 of the points: 0.68 to 0.76 count
    assert sample.effective_sample_size > 0.68 * len(sample.log_weights)


def test_importance_moments() -> None:
    sample = gaussian_of_known(TARGET, 3)
    weights = np.exp(sample.log_weights - special.logsumexp(sample.log_weights))
    mean, variance = TARGET.posterior
    found = weights @ sample.points
    np.testing.assert_allclose(found, mean, atol=0.02)
    np.testing.assert_allclose(weights @ (sample.points - found) ** 2, variance, rtol=0.05)


@pytest.mark.parametrize("target", [TARGET, SKEWED], ids=["gaussian", "skewed"])
def test_smc_of_known_targets(target: GaussianTarget) -> None:
    """Evidence over twelve seeds: no bias, and the spread that is stated."""
    samples = [smc_of(target, seed) for seed in range(12)]
    values = np.array([sample.log_evidence for sample in samples])
    stated = np.array([sample.log_evidence_error for sample in samples])
    error = math.sqrt(np.mean(stated**2) / 12)
    assert_agrees(values.mean(), error, target.log_evidence, comparisons=2, degrees_of_freedom=100)
    ratio = 11 * values.var(ddof=1) / np.mean(stated**2)
    assert stats.chi2.cdf(ratio, 11) < 0.9995  # the spread is not beyond what is stated


def test_smc_moments() -> None:
    samples = [smc_of(SKEWED, seed) for seed in range(8)]
    grid = np.linspace(-10, 10, 20_001)
    density = stats.norm.pdf(grid) * special.expit(4 * grid)
    exact = np.array([np.sum(grid**k * density) / density.sum() for k in (1, 2)])
    found = []
    for sample in samples:
        weights = np.exp(sample.log_weights - special.logsumexp(sample.log_weights))
        found.append([(weights @ sample.points**k).mean() for k in (1, 2)])
    error = np.std(found, axis=0, ddof=1) / math.sqrt(8)
    assert_agrees(np.mean(found, axis=0), error, exact, degrees_of_freedom=7, largest_error=0.02)


def test_smc_from_a_wrong_start() -> None:
    """Started from the prior rather than the Laplace Gaussian, several temperatures and the same evidence."""
    sharp = GaussianTarget(np.full(3, 200.0), np.full(3, 1.5))
    start = laplace_proposal(GaussianTarget(np.zeros(3), np.zeros(3)))
    sample = smc.smc_estimate(sharp, start, Call(InferenceOptions(0.05, 4)))
    assert sample.stages >= 3
    assert_agrees(sample.log_evidence, sample.log_evidence_error, sharp.log_evidence, degrees_of_freedom=15)


def test_merged_rounds_average() -> None:
    first, second = smc_of(SKEWED, 5), smc_of(SKEWED, 6)
    both = smc.combined([first, second])
    assert both.log_evidence == pytest.approx((first.log_evidence + second.log_evidence) / 2)
    expected = math.hypot(first.log_evidence_error, second.log_evidence_error) / 2
    assert both.log_evidence_error == pytest.approx(expected)
    assert len(both.points) == len(first.points) + len(second.points)


# ---------------------------------------------------------------- parts


def test_temperature_step_halves_the_effective_sample_size() -> None:
    ratio = 5 * np.random.default_rng(7).standard_normal(2000)
    step = smc.temperature_step(ratio, 1.0)
    weights = np.exp(step * ratio)
    assert weights.sum() ** 2 / (weights**2).sum() == pytest.approx(1000, rel=1e-6)
    assert smc.temperature_step(0.01 * ratio, 0.4) == 0.4


def test_bridge_between_gaussians() -> None:
    """log ∫exp(−½ x²/4) − log ∫exp(−½ x²) = log 2, from draws of both."""
    rng = np.random.default_rng(8)
    estimates = []
    for _ in range(40):
        narrow, wide = rng.standard_normal(2000), 2 * rng.standard_normal(2000)
        estimates.append(smc.bridge(0.375 * narrow**2, 0.375 * wide**2))
    error = np.std(estimates, ddof=1) / math.sqrt(40)
    assert_agrees(np.mean(estimates), error, math.log(2), degrees_of_freedom=39, largest_error=0.01)


def test_bridge_of_a_constant_ratio() -> None:
    assert smc.bridge(np.full(10, 1.7), np.full(10, 1.7)) == 1.7


def test_draws_without_density_are_counted() -> None:
    """Half of the draws of the first law have none under the second: the ratio is one half."""
    before = np.where(np.arange(1000) % 2, -np.inf, 0.0)
    assert smc.bridge(before, np.zeros(1000)) == pytest.approx(np.log(0.5))
    assert smc.temperature_step(before, 1.0) == 1.0


def test_jackknife_error_of_a_chain_of_bridges() -> None:
    """The stated error is the spread over repetitions."""
    rng = np.random.default_rng(9)
    shape = smc.ISLANDS, smc.PER_ISLAND
    results = np.array(
        [
            smc.chain_of_bridges(
                [
                    (0.375 * rng.standard_normal(shape) ** 2, 1.5 * rng.standard_normal(shape) ** 2)
                    for _ in range(2)
                ]
            )
            for _ in range(60)
        ]
    )
    assert_agrees(results[:, 0].mean(), results[:, 0].std(ddof=1) / math.sqrt(60), 2 * math.log(2))
    ratio = results[:, 0].var(ddof=1) / np.mean(results[:, 1] ** 2)
    law = stats.f(59, 60 * (smc.ISLANDS - 1))
    assert 2 * min(law.cdf(ratio), law.sf(ratio)) > 1e-3


def test_resampling_stays_on_its_island_and_keeps_expectations() -> None:
    """Systematic: every particle is copied floor or ceil of its expected number of times."""
    rng = np.random.default_rng(10)
    log_weights = rng.standard_normal((4, 50))
    index = smc.resample(log_weights, rng).reshape(4, 50)
    for island in range(4):
        own = index[island] - 50 * island
        assert own.min() >= 0
        assert own.max() < 50
        expected = 50 * special.softmax(log_weights[island])
        counts = np.bincount(own, minlength=50)
        assert (counts >= np.floor(expected)).all()
        assert (counts <= np.ceil(expected)).all()


def test_chain_efficiency() -> None:
    """One for independent states, 1/length for frozen ones, the worst summary counts."""
    rng = np.random.default_rng(11)
    independent = rng.standard_normal((4, 5000, 2))
    assert smc.chain_efficiency(independent) > 0.93
    frozen = np.broadcast_to(independent[:1], independent.shape)
    assert smc.chain_efficiency(frozen) == pytest.approx(0.25, rel=1e-6)
    mixed = np.stack([independent[..., 0], frozen[..., 0]], axis=-1)
    assert smc.chain_efficiency(mixed) == pytest.approx(0.25, rel=1e-6)


@pytest.mark.parametrize("k", [0.2, 0.5, 0.9])
def test_pareto_k_of_pareto_weights(k: float) -> None:
    """Weights with tail index k; the reference's prior pulls the estimate slightly towards 1/2."""
    estimates = [pareto_k(np.log(stats.genpareto(k).rvs(8000, random_state=seed))) for seed in range(20)]
    assert np.mean(estimates) == pytest.approx(k, abs=0.1)


def test_pareto_k_of_bounded_and_of_equal_weights() -> None:
    assert pareto_k(np.log(np.random.default_rng(12).uniform(size=8000))) < 0.2
    assert pareto_k(np.zeros(1000)) == -math.inf
    assert pareto_k(np.zeros(10)) == math.inf


# ---------------------------------------------------------------- through the front door


def test_smc_groups_and_weights_are_consistent() -> None:
    """Islands keep their size after thinning; weights are constant on an island and sum to one."""
    data = make_problem(6, 9, 2, seed=13)
    post = lbnn.Network((3, 3, 3)).condition(data.X, data.Y, 4.0, engine="smc")
    measure = post.scale
    assert measure.groups is not None
    counts = np.bincount(measure.groups)
    assert len(counts) % smc.ISLANDS == 0
    assert counts.min() == counts.max()
    for label in range(len(counts)):
        assert np.ptp(measure.weights[measure.groups == label]) == 0
    assert measure.weights.sum() == pytest.approx(1, abs=1e-12)


def test_a_mixture_with_a_heavy_tail_confirms_nothing(monkeypatch):
    data = make_problem(8, 12, 2, seed=700)
    network = lbnn.Network((4,))
    assert network.condition(data.X, data.Y, 4.0, engine="smc").diagnostics.ok
    monkeypatch.setattr(Estimate, "heavy_tailed", lambda self, policy: self.weighted)
    with pytest.warns(lbnn.AccuracyWarning, match="too heavy a tail to confirm"):
        told = network.condition(data.X, data.Y, 4.0, engine="smc").diagnostics
    assert not told.ok
    assert len(told.estimates) == 1
