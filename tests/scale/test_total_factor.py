"""The prior of the total factor T = T_d ⋯ T_2: its density, its inner factors, and frames.

Raw Bartlett factors, drawn entry by entry here, are the other route: nothing of `TotalFactorLaw` is in them.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import special, stats

from lbnn.scale.bartlett import BartlettCoordinates
from lbnn.scale.prior import ScalePrior
from lbnn.scale.total_factor import TotalFactorLaw, rotate_factors
from tests.helpers.problems import Array, random_rotation
from tests.referees.statistics import assert_agrees

SIZE, GROUPS, WIDE = 1 << 14, 16, 10.0
# widths, outputs, layer variances of layers 2..d
SQUARE = [
    ((4,), 3, (0.7,)),
    ((3, 2), 2, (1.0, 1.0)),
    ((5, 4), 3, (0.05, 2.0)),
    ((2, 6, 3), 2, (0.7, 1.6, 1.2)),
    ((6, 4, 5), 3, (1.0, 1.0, 1.0)),
]
BOTTLENECKS = [
    ((2,), 3, (1.3,)),
    ((1, 3), 2, (2.0, 0.5)),
    ((4, 1), 3, (1.0, 0.2)),
    ((5, 2, 4), 3, (1.0, 1.0, 1.0)),
    ((2, 3, 5), 4, (0.5, 1.0, 2.0)),
]
LAWS = SQUARE + BOTTLENECKS
#: Depth four with three outputs or more takes most of the time of a comparison.
SHORT_AND_LONG = [
    pytest.param(*law, marks=pytest.mark.slow) if len(law[0]) == 3 and law[1] >= 3 else law for law in LAWS
]


def law_of(widths: tuple[int, ...], outputs: int, variances: tuple[float, ...]) -> TotalFactorLaw:
    return TotalFactorLaw(coordinates_of(widths, outputs, variances).shapes)


def coordinates_of(
    widths: tuple[int, ...], outputs: int, variances: tuple[float, ...]
) -> BartlettCoordinates:
    return ScalePrior(widths, outputs, variances).coordinates


def raw_totals(law: TotalFactorLaw, size: int, rng: np.random.Generator) -> Array:
    """T from factors drawn entry by entry: χ on the diagonal, normal below."""
    total = np.broadcast_to(np.eye(law.rows), (size, law.rows, law.rows))
    for shape in law.shapes:
        factor = np.tril(rng.standard_normal((size, shape.rows, shape.columns)), -1)
        for i in range(shape.columns):
            factor[:, i, i] = np.sqrt(rng.chisquare(shape.width - i, size))
        total = total @ (math.sqrt(shape.variance / shape.width) * factor)
    return total


def product(factors: list[Array]) -> Array:
    total = factors[0]
    for factor in factors[1:]:
        total = total @ factor
    return total


def group_error(values: Array) -> Array:
    """Standard error of the mean over the leading axis, from independent groups."""
    means = values.reshape(GROUPS, -1, *values.shape[1:]).mean(axis=1)
    return means.std(axis=0, ddof=1) / math.sqrt(GROUPS)


def widened(law: TotalFactorLaw, rng: np.random.Generator) -> tuple[Array, Array]:
    """θ with exact diagonals and Student rows, every fifth entry WIDE times too broad; log density.

    Rows of T behind small diagonals are much broader than their typical spread (see the test of coverage).
    """
    logs = np.stack([own.sample(SIZE, rng) + law.shift for own in law.diagonal_marginals], axis=1)
    spread = np.exp(0.5 * law.log_typical_variance(logs)[0])
    rows = rng.standard_t(3.0, size=spread.shape) * np.where(rng.random(spread.shape) < 0.2, WIDE, 1.0)
    log_rows = np.logaddexp(
        math.log(0.8) + stats.t.logpdf(rows, 3.0), math.log(0.2 / WIDE) + stats.t.logpdf(rows / WIDE, 3.0)
    )
    log_diagonal = sum(
        own.log_density(logs[:, i] - law.shift)[0] for i, own in enumerate(law.diagonal_marginals)
    )
    return np.concatenate([logs, spread * rows], axis=1), log_diagonal + (log_rows - np.log(spread)).sum(
        axis=1
    )


def weighted(law: TotalFactorLaw, copies: int, seed: int) -> tuple[Array, Array, list[Array]]:
    """θ, prior density over that of the draws, and drawn factors."""
    rng = np.random.default_rng(seed)
    theta, log_drawn = widened(law, rng)
    inner = law.integrate(theta, copies, rng)
    return theta, np.exp(inner.log_density - log_drawn), inner.factors


# ---------------------------------------------------------------- density of T


@pytest.mark.parametrize("copies", [1, 4])
@pytest.mark.parametrize(("widths", "outputs", "variances"), LAWS, ids=str)
def test_density_has_mass_one(
    widths: tuple[int, ...], outputs: int, variances: tuple[float, ...], copies: int
) -> None:
    """The mean of prior over proposal is one, with one inner draw for each T or several."""
    _, weights, _ = weighted(law_of(widths, outputs, variances), copies, 1)
    assert_agrees(
        weights.mean(), group_error(weights), 1.0,
        comparisons=2 * len(LAWS), degrees_of_freedom=GROUPS - 1, largest_error=0.06,
    )  # fmt: skip


@pytest.mark.parametrize(("widths", "outputs", "variances"), SHORT_AND_LONG, ids=str)
def test_weighted_draws_have_the_law_of_raw_products(
    widths: tuple[int, ...], outputs: int, variances: tuple[float, ...]
) -> None:
    """E of bounded functions of T: of its diagonal, of what is below, and of eigenvalues of L."""
    law = law_of(widths, outputs, variances)
    theta, weights, _ = weighted(law, 4, 2)
    size = float(np.sqrt(np.prod(law.scales * [shape.width for shape in law.shapes])))

    def features(total: Array) -> Array:
        scaled = total / size
        values = np.linalg.eigvalsh(scaled @ scaled.swapaxes(1, 2))[:, -law.columns :]
        entries = np.concatenate(
            [np.diagonal(scaled, axis1=1, axis2=2), scaled[:, *law.below] ** 2, values], axis=1
        )
        return np.concatenate([np.exp(-entries), np.exp(-10 * entries)], axis=1)

    found = features(law.matrices(theta)) * weights[:, None]
    raw = features(raw_totals(law, 1 << 17, np.random.default_rng(3)))
    error = np.sqrt(group_error(found) ** 2 + raw.var(axis=0) / len(raw))
    assert_agrees(
        found.mean(axis=0), error, raw.mean(axis=0),
        comparisons=found.shape[1] * len(LAWS), degrees_of_freedom=GROUPS - 1, largest_error=0.03,
    )  # fmt: skip


@pytest.mark.parametrize(("widths", "outputs"), [((4,), 2), ((6,), 3), ((3,), 3)], ids=str)
def test_density_at_depth_two_is_wishart(widths: tuple[int, ...], outputs: int) -> None:
    """Density of L by SciPy times |∂L/∂θ| = 2ⁿ Π T_ii^{n−i+1} · Π T_ii (i from 1), to rounding."""
    variance, width = 0.7, widths[0]
    law = law_of(widths, outputs, (variance,))
    rng = np.random.default_rng(4)
    theta = 0.5 * rng.standard_normal((40, law.dimension))
    total = law.matrices(theta)
    scale = total @ total.swapaxes(1, 2)
    log_wishart = stats.wishart(width, variance / width * np.eye(outputs)).logpdf(np.moveaxis(scale, 0, -1))
    powers = outputs - np.arange(outputs) + 1.0
    expected = log_wishart + outputs * math.log(2) + theta[:, :outputs] @ powers
    np.testing.assert_allclose(law.integrate(theta, 1, rng).log_density, expected, atol=1e-9)


@pytest.mark.parametrize("copies", [1, 16])
def test_density_at_depth_three_against_integration(copies: int) -> None:
    """Two outputs: p(θ) = ∫ da db p(a) p(b) …, by a lattice over the diagonals of the inner factor.

    T = A B: T_11 = a_1 b_1, T_22 = a_2 b_2, T_21 = A_21 b_1 + a_2 B_21 ~ N(0, s_A b_1² + s_B a_2²).
    """
    widths, variances = (3, 4), (0.8, 1.5)  # n_1, n_2; σ_2², σ_3²
    law = law_of(widths, 2, variances)
    outer, inner = variances[1] / widths[1], variances[0] / widths[0]
    points = np.array(
        [[0.0, 0.0, 0.0], [0.3, -0.4, 0.5], [-1.0, 0.2, -0.8], [-2.0, -2.5, 0.01], [0.5, 0.6, 3.0]]
    )
    log_b = np.linspace(-9, 3, 601)
    step = log_b[1] - log_b[0]

    def log_chi(x: Array, degrees: int, scale: float) -> Array:
        """Log density of x = log(√scale χ)."""
        y = x - 0.5 * math.log(scale)
        return stats.chi.logpdf(np.exp(y), degrees) + y

    for theta in points:
        first = log_chi(theta[0] - log_b, widths[1], outer) + log_chi(log_b, widths[0], inner)  # over log b_1
        second = log_chi(log_b, widths[1] - 1, outer) + log_chi(
            theta[1] - log_b, widths[0] - 1, inner
        )  # log a_2
        variance = outer * np.exp(2 * log_b)[:, None] + inner * np.exp(2 * log_b)[None, :]
        log_row = -0.5 * (np.log(2 * np.pi * variance) + theta[2] ** 2 / variance)
        expected = special.logsumexp(first[:, None] + second[None, :] + log_row) + 2 * math.log(step)
        repeated = np.repeat(theta[None], 8192, axis=0)
        ratios = np.exp(law.integrate(repeated, copies, np.random.default_rng(5)).log_density - expected)
        assert_agrees(
            ratios.mean(), ratios.std() / math.sqrt(len(ratios)), 1.0,
            comparisons=2 * len(points), largest_error=0.05,
        )  # fmt: skip


@pytest.mark.parametrize(
    ("widths", "outputs", "variances"),
    [*LAWS, ((1, 2), 3, (1.0, 1.0)), ((2, 3), 4, (1.0, 1.0)), ((3, 2, 1), 6, (1.0, 1.0, 1.0))],
    ids=str,
)
def test_typical_draws_cover_the_prior(
    widths: tuple[int, ...], outputs: int, variances: tuple[float, ...]
) -> None:
    """The defensive part of mixtures: weights of the prior by it average one and most draws count."""
    law, rng = law_of(widths, outputs, variances), np.random.default_rng(23)
    theta = law.sample_typical(SIZE, rng)
    weights = np.exp(law.integrate(theta, 4, rng).log_density - law.log_drawn(theta))
    assert weights.sum() ** 2 / (weights**2).sum() > 0.2 * SIZE
    if law.columns == 1 < len(widths):  # draws of the prior itself
        np.testing.assert_allclose(weights, 1, rtol=1e-6)
        return
    assert_agrees(
        weights.mean(), group_error(weights), 1.0,
        comparisons=len(LAWS), degrees_of_freedom=GROUPS - 1, largest_error=0.02,
    )  # fmt: skip


@pytest.mark.parametrize(("widths", "outputs", "variances"), LAWS, ids=str)
def test_draws_have_the_density_they_state(
    widths: tuple[int, ...], outputs: int, variances: tuple[float, ...]
) -> None:
    """`log_drawn` of `sample_typical` by its own mass: E of a normal density over it is one."""
    law, rng = law_of(widths, outputs, variances), np.random.default_rng(6)
    theta = law.sample_typical(SIZE, rng)
    logs = theta[:, : law.columns]
    centre, spread = logs.mean(axis=0), 0.6 * logs.std(axis=0)
    half = 0.5 * law.log_typical_variance(logs)[0]
    other = stats.norm.logpdf(logs, centre, spread).sum(axis=1)
    other += (stats.norm.logpdf(theta[:, law.columns :] * np.exp(-half)) - half).sum(axis=1)
    ratios = np.exp(other - law.log_drawn(theta))
    assert_agrees(
        ratios.mean(), group_error(ratios), 1.0,
        comparisons=len(LAWS), degrees_of_freedom=GROUPS - 1, largest_error=0.03,
    )  # fmt: skip


# ---------------------------------------------------------------- inner factors


@pytest.mark.parametrize(("widths", "outputs", "variances"), LAWS, ids=str)
def test_drawn_factors_multiply_to_the_total(
    widths: tuple[int, ...], outputs: int, variances: tuple[float, ...]
) -> None:
    """Exactly, with shapes and zeros of Bartlett factors, also for T far from the prior."""
    law, rng = law_of(widths, outputs, variances), np.random.default_rng(7)
    theta = law.sample_typical(500, rng)
    theta[:250] *= 3
    total, factors = law.matrices(theta), law.integrate(theta, 3, rng).factors
    scale = np.abs(total).max(axis=(1, 2), keepdims=True)
    assert (np.abs(product(factors) - total) < 1e-9 * scale).all()
    for factor, shape in zip(factors, law.shapes, strict=True):
        assert factor.shape == (500, shape.rows, shape.columns)
        assert (np.triu(factor, 1) == 0).all()
        assert (np.diagonal(factor, axis1=1, axis2=2) > 0).all()


@pytest.mark.parametrize(("widths", "outputs", "variances"), SHORT_AND_LONG, ids=str)
def test_weighted_factors_have_the_bartlett_prior(
    widths: tuple[int, ...], outputs: int, variances: tuple[float, ...]
) -> None:
    """T by its weights, factors drawn given T: together the prior, entry by entry and uncorrelated.

    In coordinates of `locate` a standard normal; moments of bounded functions, since weights have tails.
    """
    law = law_of(widths, outputs, variances)
    _, weights, factors = weighted(law, 4, 8)
    u = coordinates_of(widths, outputs, variances).locate(factors)
    waves = [np.cos(u), np.sin(u), np.cos(2 * u)]
    exact = [np.full(u.shape[1], value) for value in (math.exp(-0.5), 0.0, math.exp(-2.0))]
    first, second = np.triu_indices(u.shape[1], 1)
    waves += [np.sin(u)[:, first] * np.sin(u)[:, second], np.sin(u)[:, first] * np.cos(u)[:, second]]
    exact += [np.zeros(len(first)), np.zeros(len(first))]
    functions, expected = np.concatenate(waves, axis=1), np.concatenate(exact)
    # ratio estimate: weights and functions scatter together
    terms = weights[:, None] * (functions - expected)
    assert_agrees(
        expected + terms.mean(axis=0), group_error(terms), expected,
        comparisons=len(expected) * len(LAWS), degrees_of_freedom=GROUPS - 1, largest_error=0.03,
    )  # fmt: skip


# ---------------------------------------------------------------- typical values


def differences(function: object, theta: Array, step: float = 1e-5) -> Array:
    """Central differences of function(θ)[0] (m,) in every coordinate."""
    columns = []
    for index in range(theta.shape[1]):
        shift = np.zeros(theta.shape[1])
        shift[index] = step
        columns.append((function(theta + shift)[0] - function(theta - shift)[0]) / (2 * step))  # type: ignore[operator]
    return np.stack(columns, axis=1)


@pytest.mark.parametrize(("widths", "outputs", "variances"), LAWS, ids=str)
def test_gradient_of_the_typical_density(
    widths: tuple[int, ...], outputs: int, variances: tuple[float, ...]
) -> None:
    """By central differences, at draws of the prior and three times further out in the logs."""
    law, rng = law_of(widths, outputs, variances), np.random.default_rng(10)
    theta = law.sample_typical(40, rng)
    theta[20:, : law.columns] = 3 * theta[20:, : law.columns] - 2
    value, gradient = law.log_typical(theta)
    found = differences(law.log_typical, theta)
    rounding = 1e-10 * (1 + np.abs(value[:, None]))
    scale = 1 + np.abs(gradient)
    # third derivatives times 1e-10, and those of rows in units of their spread
    spread = np.exp(-0.5 * law.log_typical_variance(theta[:, : law.columns])[0]).max(axis=1, initial=1.0)
    assert (
        np.abs(gradient - found) < 1e-5 * scale * np.maximum(1, 1e-5 * spread[:, None]) ** 2 + rounding / 1e-5
    ).all()


@pytest.mark.parametrize(("widths", "outputs", "variances"), [SQUARE[0], BOTTLENECKS[0]], ids=str)
def test_typical_density_at_depth_two_is_the_density(
    widths: tuple[int, ...], outputs: int, variances: tuple[float, ...]
) -> None:
    """There are no inner factors."""
    law, rng = law_of(widths, outputs, variances), np.random.default_rng(11)
    theta = law.coordinates(raw_totals(law, 500, rng))
    np.testing.assert_allclose(law.log_typical(theta)[0], law.integrate(theta, 1, rng).log_density, atol=1e-9)


@pytest.mark.parametrize(("widths", "outputs", "variances"), LAWS, ids=str)
def test_typical_factors_multiply_to_the_total(
    widths: tuple[int, ...], outputs: int, variances: tuple[float, ...]
) -> None:
    """Bartlett shapes, the inner ones diagonal, and coordinates that are not far from the prior."""
    law = law_of(widths, outputs, variances)
    theta = law.sample_typical(100, np.random.default_rng(12))
    factors = law.typical_factors(theta)
    np.testing.assert_allclose(product(factors), law.matrices(theta), rtol=1e-9, atol=1e-12)
    for factor, shape in zip(factors, law.shapes, strict=True):
        assert factor.shape == (100, shape.rows, shape.columns)
        assert (np.diagonal(factor, axis1=1, axis2=2) > 0).all()
    for factor in factors[1:]:
        index = np.arange(factor.shape[2])
        off = factor.copy()
        off[:, index, index] = 0.0
        assert (off == 0).all()
    u = coordinates_of(widths, outputs, variances).locate(factors)
    assert np.isfinite(u).all()


# ---------------------------------------------------------------- frames


@pytest.mark.parametrize(("widths", "outputs", "variances"), LAWS, ids=str)
def test_turned_factors_keep_the_scale(
    widths: tuple[int, ...], outputs: int, variances: tuple[float, ...]
) -> None:
    """L ↦ O L Oᵀ, with the shapes of Bartlett factors; turned back, the factors themselves."""
    law, rng = law_of(widths, outputs, variances), np.random.default_rng(13)
    coordinates = coordinates_of(widths, outputs, variances)
    factors = coordinates.factors(rng.standard_normal((50, coordinates.dimension)))
    rotation = random_rotation(outputs, 14)
    after = rotate_factors(factors, rotation)
    for factor, shape in zip(after, law.shapes, strict=True):
        assert factor.shape == (50, shape.rows, shape.columns)
        np.testing.assert_allclose(np.triu(factor, 1), 0, atol=1e-15)
        assert (np.diagonal(factor, axis1=1, axis2=2) > 0).all()
    before, total = product(factors), product(after)
    np.testing.assert_allclose(
        total @ total.swapaxes(1, 2), rotation @ before @ before.swapaxes(1, 2) @ rotation.T, atol=1e-12
    )
    for factor, original in zip(rotate_factors(after, rotation.T), factors, strict=True):
        np.testing.assert_allclose(factor, original, atol=1e-10)


@pytest.mark.parametrize(("widths", "outputs", "variances"), LAWS, ids=str)
def test_turned_factors_of_the_prior_are_the_prior(
    widths: tuple[int, ...], outputs: int, variances: tuple[float, ...]
) -> None:
    """u of turned factors is standard normal again, and uncorrelated, for a rotation that u does not know."""
    coordinates = coordinates_of(widths, outputs, variances)
    u = np.random.default_rng(15).standard_normal((SIZE, coordinates.dimension))
    after = coordinates.locate(rotate_factors(coordinates.factors(u), random_rotation(outputs, 16)))
    values = np.concatenate([after, after**2 - 1], axis=1)
    pairs = np.triu_indices(after.shape[1], 1)
    values = np.concatenate([values, (after.T[pairs[0]] * after.T[pairs[1]]).T], axis=1)
    zero = np.zeros(values.shape[1])
    error = values.std(axis=0) / math.sqrt(SIZE)
    assert_agrees(values.mean(axis=0), error, zero, comparisons=values.shape[1] * len(LAWS))


@pytest.mark.parametrize(("widths", "outputs", "variances"), LAWS, ids=str)
def test_density_in_the_frameless_measure_does_not_know_of_frames(
    widths: tuple[int, ...], outputs: int, variances: tuple[float, ...]
) -> None:
    """p(θ)/volume at T and at T turned are the same: estimated by many inner draws, exact at depth two."""
    law, rng = law_of(widths, outputs, variances), np.random.default_rng(19)
    total = raw_totals(law, 6, rng)
    rotation = random_rotation(outputs, 18)
    there = rotate_factors([total], rotation)[0]
    values = []
    for matrices in (total, there):
        theta = np.repeat(law.coordinates(matrices), 4096, axis=0)
        copies = law.integrate(theta, 1, rng).log_density - law.log_volume(theta)
        values.append(copies.reshape(6, 4096))
    if len(widths) == 1 or law.columns == 1:
        np.testing.assert_allclose(values[0][:, 0], values[1][:, 0], atol=1e-9)
        return
    peak = np.maximum(values[0].max(axis=1), values[1].max(axis=1))[:, None]
    own, other = (np.exp(value - peak) for value in values)
    difference = np.log(own.mean(axis=1) / other.mean(axis=1))
    error = np.sqrt(sum((part.std(axis=1) / part.mean(axis=1)) ** 2 / 4096 for part in (own, other)))
    assert_agrees(difference, error, np.zeros(6), comparisons=6 * len(LAWS), largest_error=0.2)


@pytest.mark.parametrize(
    ("widths", "outputs", "variances"), [SQUARE[2], SQUARE[3], BOTTLENECKS[1], BOTTLENECKS[3]], ids=str
)
def test_evidence_in_two_frames(widths: tuple[int, ...], outputs: int, variances: tuple[float, ...]) -> None:
    """∫ p(T) f(O T Tᵀ Oᵀ) dT does not depend on O, for a factor f that singles out directions."""
    law = law_of(widths, outputs, variances)
    strengths = 1.0 + np.arange(outputs)
    found = []
    for seed, rotation in ((19, np.eye(outputs)), (20, random_rotation(outputs, 21))):
        theta, weights, _ = weighted(law, 4, seed)
        root = rotation @ law.matrices(theta)
        diagonal = (root**2).sum(axis=2)
        terms = weights * np.exp(-diagonal @ strengths)
        found.append((terms.mean(), float(group_error(terms))))
    raw = np.exp(-(raw_totals(law, 1 << 17, np.random.default_rng(22)) ** 2).sum(axis=2) @ strengths)
    found.append((raw.mean(), raw.std() / math.sqrt(len(raw))))
    for one, other in ((0, 1), (0, 2), (1, 2)):
        error = math.hypot(found[one][1], found[other][1])
        assert_agrees(
            found[one][0],
            error,
            found[other][0],
            comparisons=12,
            degrees_of_freedom=GROUPS - 1,
            largest_error=0.02,
        )
