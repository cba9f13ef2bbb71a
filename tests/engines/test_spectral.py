"""Narrow layers: Gibbs moves against densities, evidence against deterministic integrals."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from lbnn.engines import spectral, spectral_moves
from lbnn.engines.spectral import factors_of, reverse_evidence, sample_narrow
from lbnn.engines.spectral_moves import (
    SignalTable,
    draw_log_gig,
    draw_prior,
    inner_roots,
    log_determinant,
    log_likelihood,
    log_prior,
    move_column,
    move_inner,
    move_root,
    move_values,
    narrow_posterior,
    particles_of,
    precisions,
    rotate_columns,
)
from lbnn.scale.prior import ScalePrior
from tests.referees.narrow_layers import two_examples, width_one

Array = NDArray[np.float64]


def low_rank(rows: int, outputs: int, size: float, beta: float, seed: int) -> tuple[Array, Array, float]:
    """Eigenvalues, targets of rank one with noise, noise variance."""
    rng = np.random.default_rng(seed)
    g = np.exp(0.7 * rng.standard_normal(rows))
    signal = np.sqrt(g)[:, None] * rng.standard_normal((rows, 1)) * rng.standard_normal(outputs)
    return g, size * signal + rng.standard_normal((rows, outputs)) / math.sqrt(beta), 1 / beta


@pytest.mark.parametrize(
    ("widths", "seed"), [((1,), 1), ((1, 3), 2), pytest.param((4, 1, 3), 3, marks=pytest.mark.slow)]
)
def test_evidence_of_a_layer_of_one_unit(widths: tuple[int, ...], seed: int) -> None:
    g, targets, noise = low_rank(10, 6, 1.0, 30.0, seed)
    truth = width_one(g, targets, noise, widths)
    posterior = narrow_posterior(g, targets, noise, widths)
    sample = sample_narrow(posterior, np.random.default_rng(seed), particles=512, most_rounds=1)
    assert abs(sample.log_evidence - truth) < 4 * sample.log_evidence_error
    assert sample.log_evidence_error < 0.25


@pytest.mark.parametrize(("outputs", "width"), [(6, 2), (12, 4)])
def test_evidence_of_two_examples(outputs: int, width: int) -> None:
    rng = np.random.default_rng(outputs)
    g = np.array([1.7, 0.6])
    targets = np.sqrt(g)[:, None] * rng.standard_normal((2, 1)) * rng.standard_normal(outputs)
    targets += 0.1 * rng.standard_normal(targets.shape)
    truth = two_examples(g, targets, 0.01, width)
    posterior = narrow_posterior(g, targets, 0.01, (width,))
    sample = sample_narrow(posterior, rng, particles=512, most_rounds=1)
    reverse, error = reverse_evidence(posterior, rng, particles=512)
    assert abs(sample.log_evidence - truth) < 4 * sample.log_evidence_error
    assert abs(reverse - truth) < 4 * error


@pytest.mark.slow
def test_the_mean_of_the_scale_against_prior_draws_weighted_by_the_likelihood() -> None:
    g, targets, noise = low_rank(5, 4, 0.7, 2.0, 4)
    scales = ScalePrior((2, 3), 4, (1.0, 1.0)).sample(200_000, 0)
    values, vectors = np.linalg.eigh(scales)
    variance = noise + g[:, None] * np.maximum(values, 0.0)[:, None, :]
    logs = -0.5 * (np.log(2 * math.pi * variance) + (targets @ vectors) ** 2 / variance).sum(axis=(1, 2))
    weights = np.exp(logs - logs.max())
    shares = weights / weights.sum()
    mean = np.einsum("s,sij->ij", shares, scales)
    error = np.sqrt(np.einsum("s,sij->ij", shares**2, (scales - mean) ** 2))
    posterior = narrow_posterior(g, targets, noise, (2, 3))
    sample = sample_narrow(posterior, np.random.default_rng(1), particles=1024, most_rounds=1)
    own = np.exp(sample.log_weights)
    ours = np.einsum("s,sij->ij", own, sample.scales)
    deviation = np.sqrt(
        np.einsum("s,sij->ij", own, (sample.scales - ours) ** 2) / sample.effective_sample_size
    )
    assert np.abs((ours - mean) / np.hypot(error, deviation)).max() < 4.5
    truth = logs.max() + math.log(weights.mean())
    joint = math.hypot(sample.log_evidence_error, weights.std() / weights.mean() / math.sqrt(len(weights)))
    assert abs(sample.log_evidence - truth) < 4 * joint


@pytest.mark.parametrize("widths", [(3,), (3, 4), pytest.param((4, 3, 5), marks=pytest.mark.slow)])
@pytest.mark.parametrize("move", ["values", "column", "rotate", "inner", "root"])
def test_moves_leave_the_posterior_invariant(move: str, widths: tuple[int, ...]) -> None:
    """Prior draws of L with data drawn given each are draws of the posterior given those data: moves keep
    the joint law. One set of data serves all particles, so weights p(Y | L) stand for its posterior."""
    g, targets, noise = low_rank(4, 6, 0.3, 1.0, 5)
    posterior = narrow_posterior(g, targets, noise, widths)
    rng = np.random.default_rng(6)
    size = 6000
    particles = draw_prior(posterior, size, rng)
    logs = log_likelihood(posterior, particles.values, particles.projections, noise)
    weights = np.exp(logs - logs.max())
    index = rng.choice(size, size, p=weights / weights.sum())
    particles = particles.take(index)
    before = _statistics(posterior, particles, noise)
    signal = SignalTable(posterior, noise)
    for _ in range(3):
        chain = precisions(posterior, particles)
        if move == "values":
            move_values(posterior, particles, chain, signal, rng)
        if move == "column":
            move_column(posterior, particles, chain, signal, rng, int(rng.integers(3)), int(rng.integers(2)))
        if move == "rotate":
            rotate_columns(posterior, particles, noise, rng)
        if move == "inner":
            move_inner(posterior, particles, chain, rng)
        if move == "root":
            particles = move_root(posterior, particles, chain, noise, rng)
    after = _statistics(posterior, particles, noise)
    shares_of = weights / weights.sum()
    effective = 1 / float((shares_of**2).sum())
    z = (after.mean(axis=0) - before.mean(axis=0)) / (
        before.std(axis=0) * math.sqrt(2 / min(effective, size))
    )
    assert np.abs(z).max() < 4
    np.testing.assert_allclose(particles.projections, particles.directions @ posterior.targets.T, atol=1e-8)
    gram = particles.directions @ particles.directions.swapaxes(1, 2)
    np.testing.assert_allclose(gram, np.broadcast_to(np.eye(3), gram.shape), atol=1e-8)


def _statistics(posterior: object, particles: object, noise: float) -> Array:
    values = np.sort(np.log(particles.values), axis=1)
    likelihood = log_likelihood(posterior, particles.values, particles.projections, noise)
    first = (particles.directions[:, :, 0] ** 2 * particles.values).sum(axis=1)
    inner = [np.log(np.trace(each, axis1=1, axis2=2)) for each in particles.inner]
    inner += [np.linalg.slogdet(each)[1] for each in particles.inner]
    return np.column_stack([values, likelihood, first, *inner])


@pytest.mark.parametrize("widths", [(3,), (3, 4), (4, 2, 5)])
def test_scores_of_the_transport_are_derivatives(widths: tuple[int, ...]) -> None:
    g, targets, noise = low_rank(8, 6, 1.0, 10.0, 7)
    posterior, rng = narrow_posterior(g, targets, noise, widths), np.random.default_rng(8)
    particles = draw_prior(posterior, 32, rng)
    path = spectral._Path(posterior, particles, math.log(noise), rng)
    scores, step = path._scores(precisions(posterior, path.particles)), 1e-5
    for k in range(scores.shape[1]):
        ends = []
        for sign in (1, -1):
            change = np.zeros_like(scores)
            change[:, k] = sign * step
            moved, log_jacobian = path._transport(change)
            there = log_likelihood(posterior, moved.values, moved.projections, noise)
            prior = log_prior(posterior, moved, precisions(posterior, moved))
            ends.append(there + prior + log_jacobian)
        numeric = (ends[0] - ends[1]) / (2 * step)
        np.testing.assert_allclose(scores[:, k], numeric, rtol=1e-4, atol=1e-6 * np.abs(numeric).max())


def test_jacobian_of_the_spectral_map() -> None:
    """F → F V diag(e^δ) Vᵀ with FᵀF = V diag(l) Vᵀ: its Jacobian by differences in all six entries of F."""
    posterior = narrow_posterior(np.array([1.0, 0.5]), np.ones((2, 3)), 0.3, (2,))
    root, change = np.random.default_rng(3).standard_normal((3, 2)), np.array([[0.2, -0.3, 0.1, 0.1, -0.2]])

    def split(entries: Array) -> tuple[Array, Array, spectral_moves.Particles]:
        values, vectors = np.linalg.eigh(entries.reshape(3, 2).T @ entries.reshape(3, 2))
        directions = entries.reshape(3, 2) @ vectors / np.sqrt(values)
        projections = posterior.targets @ directions
        return (
            values,
            vectors,
            spectral_moves.Particles(directions.T[None], values[None], projections.T[None], []),
        )

    def mapped(entries: Array) -> Array:
        values, vectors, particles = split(entries)
        moved = spectral._spectral_map(posterior, particles, 0.3, change)[0].values[0]
        return (entries.reshape(3, 2) @ (vectors * np.sqrt(moved / values)) @ vectors.T).ravel()

    start, step = root.ravel(), 1e-6
    columns = [(mapped(start + step * unit) - mapped(start - step * unit)) / (2 * step) for unit in np.eye(6)]
    numeric = np.linalg.slogdet(np.array(columns))[1]
    ours = spectral._spectral_map(posterior, split(start)[2], 0.3, change)[1]
    assert ours[0] == pytest.approx(numeric, abs=1e-6)


def test_noise_score_is_a_derivative() -> None:
    g, targets, noise = low_rank(8, 6, 1.0, 10.0, 9)
    posterior = narrow_posterior(g, targets, noise, (3,))
    particles = draw_prior(posterior, 16, np.random.default_rng(0))
    ends = [
        log_likelihood(posterior, particles.values, particles.projections, noise * math.exp(h))
        for h in (1e-5, -1e-5)
    ]
    ours = spectral._noise_score(posterior, particles, noise)
    np.testing.assert_allclose(ours, (ends[0] - ends[1]) / 2e-5, rtol=1e-5)


def test_log_likelihood_is_the_dense_gaussian() -> None:
    g, targets, noise = low_rank(5, 4, 1.0, 10.0, 10)
    posterior = narrow_posterior(g, targets, noise, (2, 3))
    particles = draw_prior(posterior, 3, np.random.default_rng(0))
    ours = log_likelihood(posterior, particles.values, particles.projections, noise)
    roots = posterior.axes @ particles.roots
    for value, scale in zip(ours, roots @ roots.swapaxes(1, 2), strict=True):
        dense = sum(
            stats.multivariate_normal(np.zeros(4), noise * np.eye(4) + each * scale).logpdf(row)
            for each, row in zip(g, targets, strict=True)
        )
        assert value == pytest.approx(dense, rel=1e-10)


@pytest.mark.parametrize(
    ("widths", "outputs"), [((3,), 5), ((3, 5), 3), ((5, 3), 6), ((4, 2, 7), 2), ((7, 3, 3), 9)]
)
def test_factors_of_prior_draws_have_the_laws_of_bartlett(widths: tuple[int, ...], outputs: int) -> None:
    rng = np.random.default_rng(11)
    variances = tuple(np.linspace(0.6, 1.5, len(widths)))
    posterior = narrow_posterior(np.ones(2), np.zeros((2, outputs)), 1.0, widths, math.prod(variances))
    particles = draw_prior(posterior, 3000, rng)
    factors = factors_of(particles.roots, particles.inner, widths, rng, variances)
    shapes = ScalePrior(widths, outputs, variances).coordinates.shapes
    product = factors[0]
    for factor in factors[1:]:
        product = product @ factor
    scales = particles.roots @ particles.roots.swapaxes(1, 2)
    np.testing.assert_allclose(product @ product.swapaxes(1, 2), scales, rtol=1e-8, atol=1e-10)
    p_values = []
    for factor, shape in zip(factors, shapes, strict=True):
        assert factor.shape[1:] == (shape.rows, shape.columns)
        unit = math.sqrt(shape.width / shape.variance)
        for i in range(shape.rows):
            for j in range(min(i + 1, shape.columns)):
                law = stats.chi(shape.degrees[i]) if i == j else stats.norm()
                p_values.append(stats.kstest(factor[:, i, j] * unit, law.cdf).pvalue)
    assert min(p_values) * len(p_values) > 1e-3


@pytest.mark.parametrize(
    ("power", "rate", "inverse_rate"), [(2.5, 1.0, 0.3), (-3.0, 0.2, 4.0), (0.0, 1e-3, 1e-3)]
)
def test_logs_of_generalised_inverse_gaussians(power: float, rate: float, inverse_rate: float) -> None:
    x = draw_log_gig(power, np.full(4000, rate), np.full(4000, inverse_rate), np.random.default_rng(12))
    law = stats.geninvgauss(power, math.sqrt(rate * inverse_rate), scale=math.sqrt(inverse_rate / rate))
    grid = np.linspace(x.min() - 3, x.max() + 3, 4001)
    density = np.exp(power * grid - 0.5 * (rate * np.exp(grid) + inverse_rate * np.exp(-grid)))
    cumulative = np.cumsum(density) / density.sum()
    assert stats.kstest(x, lambda q: np.interp(q, grid, cumulative)).pvalue > 1e-3
    if power:
        assert np.exp(x).mean() == pytest.approx(law.mean(), rel=0.1)


def test_order_of_outputs_and_units_change_nothing() -> None:
    g, targets, noise = low_rank(8, 5, 1.0, 20.0, 13)
    order = np.array([3, 1, 4, 0, 2])
    one = narrow_posterior(g, targets, noise, (2,))
    two = narrow_posterior(4 * g[::-1], 2 * targets[::-1][:, order], 4 * noise, (2,))
    plain = sample_narrow(one, np.random.default_rng(0), particles=512, most_rounds=1)
    other = sample_narrow(two, np.random.default_rng(1), particles=512, most_rounds=1)
    shift = targets.size * math.log(2)
    joint = math.hypot(plain.log_evidence_error, other.log_evidence_error)
    assert abs(other.log_evidence + shift - plain.log_evidence) < 4 * joint


def test_what_cannot_be_sampled_is_refused() -> None:
    g, targets, noise = low_rank(8, 3, 1.0, 20.0, 14)
    with pytest.raises(ValueError, match="at most as many units as there are outputs, got 4"):
        narrow_posterior(g, targets, noise, (4,))
    with pytest.raises(ValueError, match="positive and finite"):
        narrow_posterior(g, targets, 0.0, (2,))


def test_particles_keep_the_root_and_the_inner_matrices() -> None:
    posterior = narrow_posterior(np.ones(3), np.ones((3, 5)), 0.1, (2, 3))
    rng = np.random.default_rng(15)
    roots, inner_root = rng.standard_normal((7, 5, 2)), rng.standard_normal((7, 2, 2))
    inner = inner_root.swapaxes(1, 2) @ inner_root
    made = particles_of(posterior, roots.swapaxes(1, 2), [inner_root], rng)
    np.testing.assert_allclose(
        made.roots @ made.roots.swapaxes(1, 2), roots @ roots.swapaxes(1, 2), atol=1e-12
    )
    ours = made.roots @ np.linalg.inv(made.inner[0]) @ made.roots.swapaxes(1, 2)
    np.testing.assert_allclose(ours, roots @ np.linalg.inv(inner) @ roots.swapaxes(1, 2), rtol=1e-8)


def test_columns_come_in_random_order() -> None:
    """Sorted columns would bias every move of "column j": 0.5 nats in the evidence when it was tried."""
    posterior = narrow_posterior(np.ones(3), np.ones((3, 5)), 0.1, (3,))
    rng = np.random.default_rng(16)
    made = particles_of(posterior, rng.standard_normal((3000, 3, 5)), [], rng)
    largest = np.bincount(np.argmax(made.values, axis=1), minlength=3)
    assert stats.chisquare(largest).pvalue > 1e-3


def test_a_path_that_is_cut_states_a_large_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few noise variances allowed: the rest is one step, there is one round, its error covers the truth."""
    rng = np.random.default_rng(3)
    gains, targets = rng.uniform(0.5, 2.0, 8), rng.normal(size=(8, 1)) @ rng.normal(size=(1, 4)) * 3
    posterior = narrow_posterior(gains, targets, 1e-3, (1,))
    whole = sample_narrow(posterior, np.random.default_rng(0), particles=256, most_rounds=1)
    monkeypatch.setattr(spectral, "_MOST_STAGES", 3)
    cut = sample_narrow(posterior, np.random.default_rng(0), particles=256, most_rounds=4)
    assert cut.stages == 4 < whole.stages  # three, and that at the noise of the data
    assert len(cut.group_log_evidence) == len(whole.group_log_evidence)  # no second round
    assert whole.reaches(0.3)
    assert not cut.reaches(0.3)
    assert abs(cut.log_evidence - whole.log_evidence) < 3 * cut.log_evidence_error


@pytest.mark.parametrize("widths", [(3,) * 8, (2,) * 8, (10,) * 7])
def test_draws_of_the_prior_behind_many_narrow_layers(widths: tuple[int, ...]) -> None:
    """S_k is positive definite to the last digits: its smallest eigenvalues are 1e−20 of the largest.

    Diagonals of S_k that were rotated with S_k, not with its root, were negative for one draw in thousands
    (an error in `condition` of seven layers of ten units).
    """
    rng = np.random.default_rng(0)
    posterior = narrow_posterior(np.ones(20), rng.standard_normal((20, 12)), 0.1, widths)
    particles = draw_prior(posterior, 4096, rng)
    moved = particles_of(posterior, particles.roots.swapaxes(1, 2), inner_roots(particles), rng)
    for each in (particles, moved):
        for matrices in each.inner:
            assert (np.diagonal(matrices, axis1=1, axis2=2) > 0).all()
            np.linalg.cholesky(matrices)
    for before, after in zip(particles.inner, moved.inner, strict=True):
        # turned by permutations only: the determinant is that of before
        np.testing.assert_allclose(log_determinant(before), log_determinant(after), atol=1e-6)
