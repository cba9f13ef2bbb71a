"""Bands against other routes: the quadrature of one network, a grid, dense algebra; rules of input."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special, stats

import lbnn
from tests.bands.dense import log_gamma_density, mixture_at, two_bands, weighted_draws
from tests.helpers.libraries import every_library, put


def inputs(rng, p, columns):
    return [rng.normal(size=(p, each)) for each in columns]


def noisy(rng, blocks, signal, targets, noise=1.0):
    total = noise * rng.normal(size=(len(blocks[0]), targets))
    for block, size in zip(blocks, signal, strict=True):
        total += np.sqrt(size / block.shape[1]) * block @ rng.normal(size=(block.shape[1], targets))
    return total


# ---------------------------------------------------------------- one band


@pytest.mark.parametrize("widths", [(3,), (4, 4)])
def test_targets_far_larger_than_the_prior(widths):
    """The scale lies in the prior's tail and is known better than p/2 says: evidence was off by 0.5."""
    rng = np.random.default_rng([52, 2])
    (block,) = inputs(rng, 7, (3,))
    Y = rng.normal(size=(7, 1)) * np.array([1.0, 15.0, 50.0])
    network = lbnn.Network(widths)
    fit = lbnn.Bands([network]).condition([block], Y, noise_variance=0.4)
    for place, target in enumerate(Y.T):
        exact = network.condition(block, target, 2.5)
        assert fit.log_evidence[place] == pytest.approx(exact.log_evidence, abs=2e-9)
        assert fit.scale_mean[place, 0] == pytest.approx(exact.scale.mean, rel=2e-9)


@pytest.mark.parametrize(
    ("p", "columns", "widths", "noise", "unit"),
    [
        (7, 12, (5,), 0.5, 1.0),
        (40, 25, (5, 5), 0.1, 1.0),
        (60, 80, (1,), 2.0, 1.0),
        (90, 60, (20, 4), 0.01, 1.0),
        (30, 50, (3, 3, 3), 1e-4, 0.01),
        (30, 50, (200,), 100.0, 10.0),
    ],
)
def test_one_band_equals_the_quadrature_of_one_network(p, columns, widths, noise, unit):
    rng = np.random.default_rng(p)
    (X,) = blocks = inputs(rng, p, [columns])
    Y = unit * noisy(rng, blocks, [1.0], 3)
    network, X_test = lbnn.Network(widths, [0.7, *[1.3] * len(widths)]), rng.normal(size=(4, columns))
    fit = lbnn.Bands([network]).condition(blocks, Y, noise_variance=noise)
    law = fit.predict([X_test])
    assert fit.ok.all()
    assert (fit.log_evidence_error < 1e-8).all()
    for v in range(3):
        post = network.condition(X, Y[:, v], beta=1 / noise)
        prediction = post.predict(X_test)
        assert fit.log_evidence[v] == pytest.approx(post.log_evidence, abs=1e-8)
        assert fit.scale_mean[v, 0] == pytest.approx(post.scale.mean, rel=1e-8)
        np.testing.assert_allclose(law.mean[:, v], prediction.mean, rtol=0, atol=1e-8 * unit)
        # spread of means over λ from a Gauss rule of nine nodes
        np.testing.assert_allclose(law.standard_deviation[:, v], prediction.standard_deviation, rtol=1e-5)
        np.testing.assert_allclose(
            law.with_noise().pointwise_log_density(Y[:4])[:, v],
            prediction.with_noise().pointwise_log_density(Y[:4, v]),
            atol=1e-4,
        )


def test_quantiles_of_shares_near_zero_and_one():
    """G = I and width one: a grid of (log λ, log τ), whose share λ/(λ + τ) has a density like x^(−1/2)."""
    for y in (np.array([3.0, -2.0, 4.0]), np.array([0.03, -0.02, 0.04])):  # mostly noise, and mostly signal
        fit = lbnn.Bands([lbnn.Network((1,))]).condition([np.eye(3)], y, kernels=True)
        x, t = np.meshgrid(np.linspace(-40, 8, 1201), np.linspace(-40, 20, 1201), indexing="ij")
        total, z = np.logaddexp(x, t), (t - np.log(y @ y / 3)) / 2
        logs = log_gamma_density(x, 1) - np.logaddexp(z, -z) - 1.5 * total - 0.5 * (y @ y) * np.exp(-total)
        weights = np.exp(logs - logs.max())
        levels = np.array([0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99])
        ends = fit.share_quantile(levels)[0, 0]
        below = [weights[x - total <= np.log(end)].sum() / weights.sum() for end in ends]
        np.testing.assert_allclose(below, levels, atol=0.005)


def over_scales_and_noise(grams, y, widths, sigmas=7.0, points=41):
    """Log evidence, E τ and means of shares: Gauss-Legendre in every log λ, the trapezoid rule in log τ."""
    p, (place, weight) = len(y), np.polynomial.legendre.leggauss(points)
    deviations = np.sqrt(special.polygamma(1, np.array(widths) / 2))
    middles = special.digamma(np.array(widths) / 2) - np.log(np.array(widths) / 2)
    axes = [
        middle + sigmas * deviation * place for middle, deviation in zip(middles, deviations, strict=True)
    ]
    logs = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(widths))
    weights = np.prod(np.meshgrid(*[weight * sigmas * each for each in deviations], indexing="ij"), axis=0)
    t = np.log(y @ y / p) + np.arange(-30, 12, 0.15)
    z = (t - np.log(y @ y / p)) / 2
    sizes = np.trace(grams, axis1=1, axis2=2) / p
    found, noise, shares = np.empty(len(logs)), np.empty(len(logs)), np.empty((len(logs), len(widths)))
    for i, row in enumerate(logs):
        g, U = np.linalg.eigh(np.tensordot(np.exp(row), grams, axes=1))
        v = np.maximum(g, 0) + np.exp(t)[:, None]
        terms = (
            -np.log(np.pi) - np.logaddexp(z, -z) - 0.5 * (np.log(2 * np.pi * v) + (U.T @ y) ** 2 / v).sum(1)
        )
        own = special.softmax(terms)
        found[i] = special.logsumexp(terms) + np.log(0.15)
        found[i] += sum(log_gamma_density(x, width) for x, width in zip(row, widths, strict=True))
        whole = np.exp(row) * sizes
        noise[i], shares[i] = own @ np.exp(t), whole * (own @ (1 / (np.exp(t) + whole.sum())))
    terms = found + np.log(weights.reshape(-1))
    own = special.softmax(terms)
    return special.logsumexp(terms), own @ noise, own @ shares


def few_columns(columns, p, seed):
    rng = np.random.default_rng(seed)
    blocks = inputs(rng, p, columns)
    y = noisy(rng, blocks, [1.5, 0.4, 0.1][: len(columns)], 1)[:, 0]
    return blocks, np.stack([block @ block.T / block.shape[1] for block in blocks]), y


@pytest.mark.parametrize(
    ("p", "columns", "widths"),
    [(60, [6], [5000]), (60, [40], [300]), (100, [6], [100_000]), (12, [3, 2], [20_000, 500])],
)
def test_unknown_noise_behind_wide_networks(p, columns, widths):
    """A narrow prior of the scale: log s − log τ is as wide as log τ, not as log s (off by 0.45 and more)."""
    blocks, grams, y = few_columns(columns, p, 1)
    fit = lbnn.Bands([lbnn.Network((width,)) for width in widths]).condition(blocks, y)
    evidence, noise, shares = over_scales_and_noise(grams, y, widths)
    assert abs(fit.log_evidence[0] - evidence) < 4 * fit.log_evidence_error[0] + 1e-5
    assert fit.noise_mean[0] == pytest.approx(noise, rel=1e-4)
    np.testing.assert_allclose(fit.share_mean[0], shares, rtol=0, atol=4 * fit.share_error.max() + 1e-6)


@pytest.mark.parametrize(
    ("p", "columns", "width", "noise"), [(12, 13, 2, 0.1), (30, 28, 26, 0.03), (5, 6, 122, 1.0)]
)
def test_deviations_of_predictions_with_wide_posteriors(p, columns, width, noise):
    """Against a grid of (log λ, log τ): nine nodes for u were off by up to 2%."""
    rng = np.random.default_rng([1, p])
    X = rng.normal(size=(p + 3, columns))
    Y = X @ rng.normal(size=(columns, 3)) / columns**0.5 + noise * rng.normal(size=(p + 3, 3))
    law = lbnn.Bands([lbnn.Network((width,))]).condition([X[:p]], Y[:p]).predict([X[p:]])
    g, U = np.linalg.eigh(X[:p] @ X[:p].T / columns)
    cross, own = X[p:] @ X[:p].T / columns @ U, (X[p:] ** 2).mean(axis=1)
    for v, y in enumerate(Y[:p].T):
        middle = np.log(y @ y / p)
        a, t = np.linspace(-30, 6, 721)[:, None], np.linspace(middle - 50, middle + 14, 1281)
        logs, ratio = (
            log_gamma_density(a, width) - np.logaddexp((t - middle) / 2, (middle - t) / 2),
            np.exp(a - t),
        )
        means, left = np.zeros((2, 3, *logs.shape))
        for i in range(p):
            size = 1 + ratio * max(g[i], 0.0)
            logs -= 0.5 * (np.log(size) + t + (U[:, i] @ y) ** 2 * np.exp(-t) / size)
            means += np.multiply.outer(cross[:, i] * (U[:, i] @ y), ratio / size)
            left += np.multiply.outer(cross[:, i] ** 2, ratio / size)
        weights = special.softmax(logs)
        mean = (weights * means).sum(axis=(1, 2))
        within = (weights * np.exp(a) * (own[:, None, None] - left)).sum(axis=(1, 2))
        deviation = np.sqrt(within + (weights * (means - mean[:, None, None]) ** 2).sum(axis=(1, 2)))
        np.testing.assert_allclose(law.mean[:, v], mean, rtol=0, atol=1e-5 * deviation.max())
        np.testing.assert_allclose(law.standard_deviation[:, v], deviation, rtol=1e-4)


def test_evidence_converges_with_the_width():
    """Three blocks of 6, 5, 4 columns and 100 rows: the evidence at infinite width is one integral over τ."""
    blocks, grams, y = few_columns([6, 5, 4], 100, 0)
    t = np.log(y @ y / 100) + np.arange(-30, 12, 0.1)
    z = (t - np.log(y @ y / 100)) / 2
    g, U = np.linalg.eigh(grams.sum(axis=0))
    v = np.maximum(g, 0) + np.exp(t)[:, None]
    terms = (
        -np.log(np.pi) - np.logaddexp(z, -z) - 0.5 * (np.log(2 * np.pi * v) + (U.T @ y) ** 2 / v).sum(axis=1)
    )
    limit = special.logsumexp(terms) + np.log(0.1)
    off = []
    for width in (1000, 10_000, 100_000):
        fit = lbnn.Bands([lbnn.Network((width,))] * 3).condition(blocks, y)
        assert fit.ok.all()
        off.append(abs(fit.log_evidence[0] - limit) - 4 * fit.log_evidence_error[0])
    assert off[0] < 0.05
    assert off[1] < 0.005
    assert off[2] < 0.0005


def test_the_stated_error_sees_the_rule_along_a_direction(monkeypatch):
    """Too large a step, too small a range, too few nodes in log τ: differences that both halves share."""
    from dataclasses import replace

    from lbnn.bands import quadrature

    blocks, _, y = few_columns([6], 60, 1)
    bands = lbnn.Bands([lbnn.Network((50,))])
    exact = bands.condition(blocks, y)
    for worse in ({"deviations": 3.5}, {"drop": 4.0}, {"noise_error": 0.1}):
        monkeypatch.setattr(quadrature, "FINE", replace(quadrature.FINE, **worse))
        fit = bands.condition(blocks, y)
        off = abs(fit.log_evidence[0] - exact.log_evidence[0])
        assert 1e-6 < off < 4 * fit.log_evidence_error[0]
        monkeypatch.undo()


# ---------------------------------------------------------------- two bands


def two_band_problem(number, sizes=(5, 8, 12, 20, 30, 60, 120, 250, 500)):
    """Sizes, signal from none to no noise, near copies, a tiny band, scales and units far apart."""
    rng = np.random.default_rng(number)
    p = int(rng.choice(sizes))
    blocks = inputs(rng, p, rng.integers(2, 2 * p, 2))
    noise = [1.0, 0.3, 1e-3][number % 3]
    Y = noisy(rng, blocks, [[0.0, 0.0], [1.0, 0.0], [0.5, 2.0]][number // 3 % 3], 1, noise)
    kind = number % 7
    if kind == 1:  # nearly equal bands
        blocks[1] = blocks[0] + 0.05 * rng.normal(size=blocks[0].shape)
    if kind == 2:  # a tiny band
        blocks[1] = blocks[1] * 1e-3
    if kind == 3:  # scales a million apart
        blocks[0] = blocks[0] * 1e3
    if kind == 4:
        Y = Y * 1e3
    if kind == 5:
        Y = Y * 1e-3
    widths = tuple(int(each) for each in rng.choice([1, 2, 3, 5, 10], 2))
    return blocks, Y[:, 0], widths


def check_two_bands(number, **sizes):
    blocks, y, widths = two_band_problem(number, **sizes)
    G = [block @ block.T / block.shape[1] for block in blocks]
    truth = two_bands(*G, y, widths, np.sqrt(y @ y / len(y)))
    if truth["halved"] > 0.01:  # a narrow posterior: half of the distances from point to point
        truth = two_bands(*G, y, widths, np.sqrt(y @ y / len(y)), counts=(241, 161, 121))
    fit = lbnn.Bands([lbnn.Network((width,)) for width in widths]).condition(blocks, y)
    assert fit.ok.all()
    off = abs(fit.log_evidence[0] - truth["log_evidence"])
    # For a smooth density the sum over a grid converges like exp(−c/h²): the error of all points is about the
    # fourth power of that of every other one along each axis.
    referee = truth["halved"] ** 4 + 1e-6
    deviation = truth["share_deviation"]
    return {
        "log evidence": off / (3 * fit.log_evidence_error[0] + referee),
        "shares": np.max(
            np.abs(fit.share_mean[0] - truth["share_mean"])
            / (3 * fit.share_error[0] + referee * deviation + 1e-7)
        ),
        "referee": truth["halved"] / 0.3,
    }


@pytest.mark.parametrize("number", [1, 3])
def test_two_bands_equal_a_grid_of_three_dimensions(number):
    assert max(check_two_bands(number, sizes=(6, 9)).values()) < 1


@pytest.mark.slow
@pytest.mark.parametrize("number", range(40))
def test_forty_problems_of_two_bands(number):
    assert max(check_two_bands(number).values()) < 1


def test_units_of_the_targets_and_order_of_bands():
    rng = np.random.default_rng(3)
    blocks = inputs(rng, 40, [15, 30])
    Y = noisy(rng, blocks, [1.0, 0.2], 3)
    networks = [lbnn.Network((5,)), lbnn.Network((2, 4))]
    fit = lbnn.Bands(networks).condition(blocks, Y)
    turned = lbnn.Bands(networks[::-1]).condition(blocks[::-1], Y)
    error = np.hypot(fit.log_evidence_error, turned.log_evidence_error)
    assert (np.abs(fit.log_evidence - turned.log_evidence) < 3 * error).all()
    error = np.hypot(fit.share_error, turned.share_error[:, ::-1])
    assert (np.abs(fit.share_mean - turned.share_mean[:, ::-1]) < 3 * error).all()
    # units that the priors follow change nothing but units
    scaled = [lbnn.Network(each.widths, [1e6, *each.prior_variances[1:]]) for each in networks]
    other = lbnn.Bands(scaled).condition(blocks, 1e3 * Y)
    np.testing.assert_allclose(other.share_mean, fit.share_mean, rtol=1e-9)
    np.testing.assert_allclose(other.noise_mean, 1e6 * fit.noise_mean, rtol=1e-9)
    np.testing.assert_allclose(other.log_evidence, fit.log_evidence - 40 * np.log(1e3), rtol=1e-9)


# ---------------------------------------------------------------- several bands


def test_a_band_of_zeros_changes_nothing_but_its_own_scale():
    rng = np.random.default_rng(5)
    blocks = inputs(rng, 30, [10, 20])
    Y = noisy(rng, blocks, [1.0, 1.0], 2)
    three = [blocks[0], np.zeros((30, 7)), blocks[1]]
    networks = [lbnn.Network((5,)), lbnn.Network((3,), [1.0, 2.0]), lbnn.Network((4,))]
    fit = lbnn.Bands([networks[0], networks[2]]).condition(blocks, Y)
    with_zeros = lbnn.Bands(networks).condition(three, Y)
    np.testing.assert_array_equal(with_zeros.log_evidence, fit.log_evidence)
    np.testing.assert_array_equal(with_zeros.share_mean[:, [0, 2]], fit.share_mean)
    np.testing.assert_array_equal(with_zeros.scale_mean[:, 1], 2.0)  # the prior mean
    np.testing.assert_array_equal(with_zeros.share_mean[:, 1], 0.0)
    np.testing.assert_array_equal(with_zeros.predict(three).mean, fit.predict(blocks).mean)


def test_a_band_that_its_prior_makes_negligible_changes_nothing():
    """Three bands, one a million times smaller: interpolation against the sums over directions of two."""
    rng = np.random.default_rng(6)
    blocks = inputs(rng, 12, [10, 15, 8])
    Y = noisy(rng, blocks, [1.0, 3.0, 0.0], 4, 0.2)
    networks = [lbnn.Network((width,)) for width in (3, 1, 2)]
    fit = lbnn.Bands(networks).condition([*blocks[:2], 1e-6 * blocks[2]], Y)
    two = lbnn.Bands(networks[:2]).condition(blocks[:2], Y)
    assert fit.ok.all()
    error = np.hypot(fit.log_evidence_error, two.log_evidence_error)
    assert (np.abs(fit.log_evidence - two.log_evidence) < 4 * error).all()
    error = np.hypot(fit.share_error[:, :2], two.share_error)
    assert (np.abs(fit.share_mean[:, :2] - two.share_mean) < 4 * error).all()
    assert (fit.share_mean[:, 2] < 1e-9).all()


@pytest.mark.slow
def test_three_bands_against_importance_sampling_from_the_prior():
    """A referee of three bands: draws of (λ, τ) from the prior, weighted by a dense Gaussian likelihood."""
    rng = np.random.default_rng(8)
    p, widths = 8, (3, 5, 2)
    blocks = inputs(rng, p, [4, 6, 10])
    y = noisy(rng, blocks, [1.0, 0.0, 0.5], 1)[:, 0]
    G = np.stack([block @ block.T / block.shape[1] for block in blocks])
    count, unit = 200_000, np.sqrt(y @ y / p)
    scales = np.stack([stats.chi2(width).rvs(count, random_state=rng) / width for width in widths], axis=1)
    noise = (unit * np.abs(rng.standard_cauchy(count))) ** 2
    logs = np.empty(count)
    for part in np.array_split(np.arange(count), 40):
        C = np.einsum("sk,kij->sij", scales[part], G) + noise[part, None, None] * np.eye(p)
        solved = np.linalg.solve(C, np.broadcast_to(y, (len(part), p))[..., None])[..., 0]
        logs[part] = -0.5 * (solved @ y + np.linalg.slogdet(C)[1] + p * np.log(2 * np.pi))
    weight = np.exp(logs - logs.max())
    evidence = logs.max() + np.log(weight.mean())
    error = weight.std() / weight.mean() / np.sqrt(count)
    fit = lbnn.Bands([lbnn.Network((width,)) for width in widths]).condition(blocks, y)
    assert fit.ok.all()
    assert abs(fit.log_evidence[0] - evidence) < 4 * np.hypot(error, fit.log_evidence_error[0])
    sizes = np.trace(G, axis1=1, axis2=2) / p
    shares = scales * sizes / (noise + scales @ sizes)[:, None]
    weight /= weight.sum()
    mean = weight @ shares
    spread = np.sqrt((weight[:, None] ** 2 * (shares - mean) ** 2).sum(axis=0))
    assert (np.abs(fit.share_mean[0] - mean) < 4 * np.hypot(spread, fit.share_error[0])).all()
    # quantiles of the shares
    for k, (low, high) in enumerate(fit.share_interval(0.8)[0]):
        below = weight @ (shares[:, k] < low), weight @ (shares[:, k] < high)
        np.testing.assert_allclose(below, [0.1, 0.9], atol=0.02)
    np.testing.assert_allclose(fit.log_scale_mean[0], weight @ np.log(scales), atol=0.05)


def test_predictions_of_three_bands_against_importance_sampling():
    """Several targets that share few directions: deviations, intervals and densities are interpolated."""
    rng, p, widths = np.random.default_rng(3), 24, (5, 3, 2)
    blocks = inputs(rng, p + 2, [12, 24, 32])
    signals = [5.0, 0.0, 0.1], [0.0, 5.0, 0.0], [0.1, 0.1, 5.0], [5.0, 5.0, 0.0]
    noises = 0.3, 0.1, 0.03, 1.0
    Y = np.hstack([noisy(rng, blocks, each, 1, noise) for each, noise in zip(signals, noises, strict=True)])
    old, new, Y = [block[:p] for block in blocks], [block[p:] for block in blocks], Y[:p]
    bands = lbnn.Bands([lbnn.Network((width,)) for width in widths])
    law = bands.condition(old, Y).predict(new)
    low, high = law.interval(0.9)
    heights = np.exp(law.pointwise_log_density(law.mean))
    G, cross = (np.stack([a @ b.T / b.shape[1] for a, b in zip(x, old, strict=True)]) for x in (old, new))
    diagonals = np.stack([(block**2).mean(axis=1) for block in new])
    for v, y in enumerate(Y.T):
        draws, weights = weighted_draws(G, y, widths, np.sqrt(y @ y / p))
        means, variances = mixture_at(G, cross, diagonals, y, draws)
        mean = weights @ means
        deviation = np.sqrt(weights @ (variances + (means - mean) ** 2))
        np.testing.assert_allclose(law.mean[:, v], mean, rtol=0, atol=0.03 * deviation.min())
        np.testing.assert_allclose(law.standard_deviation[:, v], deviation, rtol=0.02)
        below = weights @ stats.norm.cdf(low[:, v], means, np.sqrt(variances))
        above = weights @ stats.norm.sf(high[:, v], means, np.sqrt(variances))
        np.testing.assert_allclose([below, above], 0.05, atol=0.005)
        density = weights @ stats.norm.pdf(law.mean[:, v], means, np.sqrt(variances))
        np.testing.assert_allclose(heights[:, v], density, rtol=0.03)


@pytest.mark.slow
@pytest.mark.parametrize("bands", [3, 4])
def test_errors_of_predictions_are_those_against_more_directions(bands):
    rng, p = np.random.default_rng(bands), 30
    blocks = inputs(rng, p + 4, [15, 30, 40, 20][:bands])
    Y = np.hstack(
        [noisy(rng, blocks, rng.choice([0.0, 0.2, 4.0], bands), 1, rng.choice([0.1, 1.0])) for _ in range(8)]
    )
    model = lbnn.Bands([lbnn.Network((width,)) for width in (5, 3, 2, 4)[:bands]])
    old, new = [block[:p] for block in blocks], [block[p:] for block in blocks]
    law, finer = (model.condition(old, Y[:p], target_error=error).predict(new) for error in (0.1, 0.004))
    for name in ("mean", "standard_deviation"):
        stated = np.hypot(getattr(law, f"{name}_error"), getattr(finer, f"{name}_error"))
        off = np.abs(getattr(law, name) - getattr(finer, name)) / stated
        assert np.mean(off < 2) > 0.9
        assert np.sqrt(np.mean(off**2)) < 2


def test_contributions_add_up_and_leaving_out_a_band_is_a_fit_without_it():
    rng = np.random.default_rng(6)
    blocks = inputs(rng, 30, [10, 20])
    Y = noisy(rng, blocks, [3.0, 0.0], 2, 0.5)
    networks = [lbnn.Network((5,)), lbnn.Network((4,))]
    fit = lbnn.Bands(networks).condition(blocks, Y)
    law = fit.predict(blocks)
    np.testing.assert_allclose(law.contributions.sum(axis=0), law.mean)
    alone = lbnn.Bands(networks[:1]).condition(blocks[:1], Y)
    np.testing.assert_allclose(fit.without(1).log_evidence, alone.log_evidence, rtol=1e-10)
    evidence = fit.evidence_for_bands()
    assert (evidence[:, 0] > 5).all()
    assert (evidence[:, 1] < 1).all()
    low, high = law.with_noise().interval(0.9)
    np.testing.assert_allclose(law.with_noise().distribution(low), 0.05, atol=3e-3)
    assert (high > low).all()


@every_library
def test_every_library_gives_the_same_numbers(library):
    rng = np.random.default_rng(9)
    blocks = inputs(rng, 20, [6, 9])
    Y = noisy(rng, blocks, [1.0, 0.5], 1)
    bands = lbnn.Bands([lbnn.Network((4,))] * 2)
    fit = bands.condition(blocks, Y, target_error=0.9)
    there = bands.condition([put(block, library) for block in blocks], put(Y, library), target_error=0.9)
    for name in ("log_evidence", "share_mean", "scale_mean", "noise_mean"):
        np.testing.assert_allclose(getattr(there, name), getattr(fit, name), rtol=1e-8)
    np.testing.assert_allclose(there.share_interval(0.9), fit.share_interval(0.9), atol=1e-8)
    law, here = (
        there.predict([put(block[:3], library) for block in blocks]),
        fit.predict([block[:3] for block in blocks]),
    )
    np.testing.assert_allclose(np.asarray(law.mean), here.mean, atol=1e-8)
    np.testing.assert_allclose(law.standard_deviation, here.standard_deviation, rtol=1e-7)


# ---------------------------------------------------------------- directions


def test_the_first_directions_of_many_bands_are_bounded():
    """Without a bound, ten bands begin with 4,151 directions, whatever `max_directions` is."""
    rng = np.random.default_rng(0)
    blocks = inputs(rng, 6, [3] * 10)
    bands = lbnn.Bands([lbnn.Network((4,))] * 10)
    fit = bands.condition(blocks, rng.normal(size=(6, 1)), max_directions=512, warn_of_errors=False)
    assert fit.direction_count[0] <= 512 + 55  # vertices and edges of the simplex


# ---------------------------------------------------------------- input


def test_bad_input_says_the_rule():
    rng = np.random.default_rng(0)
    blocks, Y = inputs(rng, 10, [4, 5]), rng.normal(size=(10, 3))
    bands = lbnn.Bands([lbnn.Network((4,))] * 2)
    with pytest.raises(ValueError, match="finite"):
        bands.condition(blocks, np.nan * Y)
    with pytest.raises(ValueError, match="not all zero"):
        bands.condition(blocks, 0 * Y)
    with pytest.raises(ValueError, match="one for each of the 2 networks"):
        bands.condition(blocks[:1], Y)
    with pytest.raises(ValueError, match="same rows"):
        bands.condition([blocks[0], blocks[1][:5]], Y)
    with pytest.raises(ValueError, match="hidden layer"):
        lbnn.Bands([lbnn.Network(())])
    with pytest.raises(ValueError, match="at most 12 bands, got 13"):
        lbnn.Bands([lbnn.Network((4,))] * 13)
    with pytest.raises(TypeError, match=r"one lbnn\.Network for each band"):
        lbnn.Bands([(5,)])
    indefinite = np.diag([1.0, -1.0, *np.ones(8)])
    with pytest.raises(ValueError, match="positive semi-definite, got kernel 1"):
        bands.condition([np.eye(10), indefinite], Y, kernels=True)
    with pytest.raises(ValueError, match="got both"):
        bands.condition(blocks, Y, noise_variance=1.0, noise_scale=1.0)
    # without noise, or a degree of freedom lost by centring, the density of the data is not bounded
    wide = [np.hstack([block, Y]) for block in blocks]
    with pytest.raises(ValueError, match="do not reproduce exactly, got none among 3"):
        bands.condition([block - block.mean(axis=0) for block in wide], Y - Y.mean(axis=0))
    grams = [block @ block.T for block in wide]
    lbnn.Bands([lbnn.Network((4,))] * 2).condition(grams, Y, kernels=True, target_error=0.9)
    with pytest.raises(ValueError, match="noise_variance must be positive"):
        bands.condition(blocks, Y, noise_variance=0.0)
    fit = bands.condition(blocks, Y)
    with pytest.raises(ValueError, match=r"block 1 must have shape"):
        fit.predict([blocks[0], blocks[1][:, :2]])


def test_targets_without_an_answer_do_not_stop_the_others():
    rng = np.random.default_rng(1)
    blocks = inputs(rng, 14, [4, 5])
    Y, bands = noisy(rng, blocks, [1.0, 0.5], 5), lbnn.Bands([lbnn.Network((4,)), lbnn.Network((300,))])
    Y[3, 1], Y[:, 2], Y[:, 4] = np.nan, 0.0, blocks[0] @ rng.normal(size=4)
    with pytest.warns(lbnn.DataWarning, match=r"3 of 5 targets have no answer.*targets 1, 2, 4"):
        fit = bands.condition(blocks, Y)
    alone, dead = bands.condition(blocks, Y[:, [0, 3]]), [1, 2, 4]
    np.testing.assert_array_equal(fit.dead_targets, dead)
    np.testing.assert_array_equal(fit.ok, [True, False, False, True, False])
    new = [block[:3] for block in blocks]
    law, law_alone = fit.predict(new), alone.predict(new)
    F = rng.normal(size=(3, 5))
    for ours, theirs in (
        *(
            (getattr(fit, name), getattr(alone, name))
            for name in ("log_evidence", "share_mean", "scale_mean")
        ),
        (fit.share_interval(), alone.share_interval()),
        (law.contributions.T, law_alone.contributions.T),
        (law.standard_deviation.T, law_alone.standard_deviation.T),
        (law.interval(0.5)[1].T, law_alone.interval(0.5)[1].T),
        (law.pointwise_log_density(F).T, law_alone.pointwise_log_density(F[:, [0, 3]]).T),
    ):
        np.testing.assert_array_equal(ours[[0, 3]], theirs)
        assert np.isnan(ours[dead]).all()
    # with known noise zeros say something
    assert np.isfinite(bands.condition(blocks, np.zeros((14, 1)), noise_variance=1.0).log_evidence).all()


def test_one_example_has_an_answer():
    fit = lbnn.Bands([lbnn.Network((4,))] * 2).condition(
        [np.ones((1, 2)), np.full((1, 3), 2.0)], np.array([[1.5]])
    )
    assert np.isfinite(fit.log_evidence).all()
    assert fit.ok.all()


def test_answers_that_are_not_ok_are_announced():
    rng = np.random.default_rng(4)
    blocks = inputs(rng, 30, [10] * 4)
    Y = noisy(rng, blocks, [1.0] * 4, 2)
    with pytest.warns(lbnn.AccuracyWarning, match="increase max_directions"):
        fit = lbnn.Bands([lbnn.Network((4,))] * 4).condition(blocks, Y, target_error=1e-4, max_directions=60)
    assert not fit.ok.any()


@pytest.mark.slow
def test_stated_errors_hold():
    """Answers of few directions against those of many: three errors hold in 97% of cases at least."""
    rng = np.random.default_rng(11)
    blocks = inputs(rng, 40, [8, 12, 20])
    signals = [[0.0, 0.0, 0.0], [3.0, 0.3, 0.0], [0.0, 1.0, 1.0], [10.0, 10.0, 0.1], [30.0, 0.0, 0.0]]
    Y = np.hstack([noisy(rng, blocks, signal, 4) for signal in signals])
    bands = lbnn.Bands([lbnn.Network((3,)), lbnn.Network((2, 2)), lbnn.Network((6,))])
    exact = bands.condition(blocks, Y, target_error=0.01, max_directions=1200, seed=1, warn_of_errors=False)
    inside = []
    for seed, target_error in ((2, 0.9), (3, 0.3), (4, 0.1)):
        fit = bands.condition(blocks, Y, target_error=target_error, seed=seed, warn_of_errors=False)
        error = 3 * np.hypot(fit.log_evidence_error, exact.log_evidence_error)
        inside.append(np.abs(fit.log_evidence - exact.log_evidence) < error)
        error = 3 * np.hypot(fit.share_error, exact.share_error)
        inside.extend((np.abs(fit.share_mean - exact.share_mean) < error).T)
        # ends of intervals, of answers that are interpolated too
        off = np.abs(fit.share_interval(0.9) - exact.share_interval(0.9)) / exact.share_deviation[..., None]
        if target_error == 0.1:
            assert np.quantile(off, 0.9) < 0.25
    assert np.mean(inside) >= 0.97


def test_interpolation_between_directions_holds_on_the_faces():
    """A likelihood of three bands: smooth in log(θ + floor), with bands switched off or not."""
    from lbnn.bands.simplex import Interpolation, Rule, face_directions, log_directions

    rng = np.random.default_rng(0)
    rule = Rule.around(np.zeros(2), 4 * np.eye(2), 64, 64, rng)
    assert (rule.doubled().points[:64] == rule.points).all()  # lattices are embedded
    log_theta = np.concatenate([face_directions(3), log_directions(rule.points)])
    values = np.sort(rng.gamma(1.0, size=(3, 40)), axis=1)

    def function(log_theta):
        """Σ_i log(1 + 2 Σ_k θ_k g_ki)."""
        return np.log1p(2 * np.exp(log_theta) @ values).sum(axis=1)

    every = np.ones(len(log_theta), bool)
    way = Interpolation(log_theta, np.full(3, 0.3), every, np.zeros(len(every)), 512)
    new = log_directions(Rule.around(np.zeros(2), 30 * np.eye(2), 512, 512, rng).points)
    assert np.exp(new).min() < 1e-9
    matrix, nearest = way.matrix(new), way.nearest(new)
    assert np.abs(matrix @ function(log_theta) - function(new)).max() < 0.01
    np.testing.assert_allclose(matrix.sum(axis=1), 1.0, atol=1e-8)
    # the nearest of the directions, by brute force
    x, own = (np.log(np.exp(each) + 0.3) for each in (new, log_theta[way.used]))
    x, own = (each - each.mean(axis=1, keepdims=True) for each in (x, own))
    distances = np.linalg.norm(x[:, None] - own, axis=2)
    chosen = distances[:, np.argmax(nearest[:, way.used], axis=1)].diagonal()
    np.testing.assert_allclose(chosen, distances.min(axis=1))
    np.testing.assert_array_equal(np.sort(nearest, axis=1)[:, -2:], [[0.0, 1.0]] * len(new))


def test_directions_that_coincide_do_not_displace_the_others():
    """Behind wide networks hundreds of directions near the mass are within 0.03 of each other."""
    from lbnn.bands.simplex import Interpolation, log_directions

    rng = np.random.default_rng(0)
    log_theta = log_directions(np.concatenate([rng.normal(size=(60, 3)), 1e-3 * rng.normal(size=(600, 3))]))
    below = np.repeat([50.0, 0.0], [60, 600])
    way = Interpolation(log_theta, np.full(4, 0.1), np.ones(660, bool), below, 512)
    assert len(way.used) > 50
    few = Interpolation(log_theta, np.full(4, 0.1), np.ones(660, bool), below, 20)
    assert len(few.used) == 20
    assert few.used[-1] >= 60  # of those near the mass one


def test_the_prior_at_single_scales_is_that_along_a_direction():
    from lbnn._base.arrays import HOST
    from lbnn.bands.prior import BandPriors

    networks = [lbnn.Network((3,)), lbnn.Network((1, 2), [2.0, 1.0, 0.5]), lbnn.Network((400,))]
    laws = tuple(each.scale_prior(1).log_scale_law for each in networks)
    priors = BandPriors(laws, np.array([0.0, 1.0, -2.0]))
    log_theta, x = np.log([0.2, 0.5, 0.3]), np.linspace(-30.0, 3.0, 50)
    along = priors.along(log_theta, 1 / 24, HOST).value(x, np)
    tables = priors.each(1 / 24, HOST)
    alone = sum(table.value(x + log, np) for table, log in zip(tables, log_theta, strict=True))
    exact = sum(
        law.log_density(x + log - size)
        for law, log, size in zip(laws, log_theta, priors.log_sizes, strict=True)
    )
    np.testing.assert_allclose(along, exact, atol=1e-5, rtol=1e-6)
    np.testing.assert_allclose(alone, exact, atol=1e-5, rtol=1e-6)


@pytest.mark.slow
def test_narrow_posteriors_against_dense_sums_over_directions():
    """Strong signal from one, two and three bands: exact integrals along a fine grid of directions."""
    from scipy import special

    from lbnn.bands.data import kernels_of_blocks, targets_in_units
    from lbnn.bands.quadrature import Directions

    rng = np.random.default_rng(12)
    blocks = inputs(rng, 150, [60, 75, 110])
    signals = [[8.0, 0.0, 0.0], [4.0, 2.0, 0.0], [2.0, 3.0, 4.0], [0.05, 9.0, 0.05]]
    Y = np.hstack([noisy(rng, blocks, signal, 3) for signal in signals])
    bands = lbnn.Bands([lbnn.Network((5,))] * 3)
    fit = bands.condition(blocks, Y, target_error=0.1)
    kernels = kernels_of_blocks(blocks, np.ones(3))
    units = (Y**2).mean(axis=0)
    along = Directions(kernels, targets_in_units(Y, units, False, kernels), bands._priors(kernels))
    grid, step = np.linspace(-10, 10, 81, retstep=True)
    logs, shares = np.empty((81, 81, 12)), np.empty((81, 81, 12, 3))
    for i, j in np.ndindex(81, 81):
        log_theta = np.array([grid[i], grid[j], 0.0])
        log_theta -= special.logsumexp(log_theta)
        found = along.given(along.line(log_theta))
        logs[i, j] = found.log_integral
        shares[i, j] = found.moments(np)[0][:, None] * np.exp(log_theta)
    weights = np.exp(logs - logs.max(axis=(0, 1)))
    evidence = logs.max(axis=(0, 1)) + np.log(weights.sum(axis=(0, 1)) * step**2)
    mean = np.einsum("ijv,ijvk->vk", weights / weights.sum(axis=(0, 1)), shares)
    assert fit.ok.all()
    assert (np.abs(fit.share_mean - mean) < 0.1 * fit.share_deviation).all()
    off = fit.log_evidence - (evidence - 75 * np.log(units))
    assert (np.abs(off) < 0.1).all()
    assert np.mean(np.abs(off) < 3 * fit.log_evidence_error + 0.002) >= 0.9


def test_a_strong_signal_is_answered_with_few_directions():
    """Sharp posteriors, of one band too: the first directions against many of another seed."""
    rng = np.random.default_rng(7)
    blocks = inputs(rng, 60, [20, 30, 40])
    Y = np.hstack([noisy(rng, blocks, signal, 1) for signal in ([20.0, 10.0, 5.0], [20.0, 0.0, 0.0])])
    Y /= Y.std(axis=0)
    bands = lbnn.Bands([lbnn.Network((4,))] * 3)
    fit = bands.condition(blocks, Y, target_error=0.1)
    exact = bands.condition(blocks, Y, target_error=0.003, seed=5)
    assert fit.ok.all()
    assert exact.ok.all()
    assert (fit.direction_count < 200).all()
    assert fit.directions < exact.directions
    assert (np.abs(fit.share_mean - exact.share_mean) < 0.1 * exact.share_deviation).all()
    assert (np.abs(fit.log_evidence - exact.log_evidence) < 0.1).all()
    ends = np.abs(fit.share_interval(0.9) - exact.share_interval(0.9))
    assert (ends < 0.2 * exact.share_deviation[..., None]).all()
    # means are those of many directions, although few carry the posterior
    means = [each.predict(blocks).mean for each in (fit, exact)]
    assert np.abs(means[0] - means[1]).max() < 0.02 * np.abs(Y).std()
