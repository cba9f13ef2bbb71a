"""Law of Σ log χ(k_ℓ): its table against Mellin inversion, mpmath and closed forms; how it splits."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from scipy import integrate, interpolate, optimize, special, stats

from lbnn.scale.diagonal_law import DiagonalLaw
from lbnn.scale.gamma_product import GammaProduct
from tests.helpers.problems import Array
from tests.referees.statistics import assert_agrees

# numbers of degrees of freedom: equal and unequal, one degree, many factors, wide layers beside narrow ones
DEGREES = [
    (4.0, 3.0),
    (1.0, 1.0),
    (2.0, 2.0, 2.0),
    (10.0, 9.0, 2.0),
    (3.0,) * 5,
    (1.0, 500.0),
    (200.0, 300.0),
    (7.0, 1.0, 30.0, 4.0, 4.0, 2.0),
]
# A log density off by this much moves a log evidence by no more: 1/100 of the smallest error asked for.
BULK = 1e-5


def centre_and_spread(degrees: tuple[float, ...]) -> tuple[float, float]:
    half = np.array(degrees) / 2
    mean = 0.5 * (special.digamma(half) + math.log(2)).sum()
    return float(mean), float(0.5 * np.sqrt(special.polygamma(1, half).sum()))


def by_mellin(degrees: tuple[float, ...], x: Array) -> Array:
    """Log density of x from `GammaProduct` for 2x = Σ log χ², without a table."""
    return GammaProduct(degrees, float(np.prod(degrees))).log_density(2 * x) + math.log(2)


def location(degrees: tuple[float, ...], gap: Array) -> Array:
    """x whose saddle point is `gap` away from the rightmost pole: e^{−7}..e^{24} spans both tables."""
    half = np.array(degrees) / 2
    return 0.5 * (special.digamma(half - half.min() + gap[:, None]) + math.log(2)).sum(axis=1)


def log_chi_density(degrees: float, x: Array) -> Array:
    """Log density of log χ(degrees), by SciPy's χ."""
    return stats.chi.logpdf(np.exp(x), degrees) + x


def ks_p_value(draws: Array, law: interpolate.PchipInterpolator) -> float:
    """Kolmogorov–Smirnov: uniform after the distribution function."""
    return float(stats.kstest(np.clip(law(draws), 0, 1), "uniform").pvalue)


# ---------------------------------------------------------------- density


@pytest.mark.parametrize("degrees", DEGREES, ids=str)
def test_density_is_that_of_the_gamma_product(degrees: tuple[float, ...]) -> None:
    """Absolutely within ten deviations of the centre."""
    mean, spread = centre_and_spread(degrees)
    x = mean + spread * np.linspace(-10.0, 4.0, 997)
    np.testing.assert_allclose(
        DiagonalLaw.of(degrees).log_density(x)[0], by_mellin(degrees, x), atol=BULK, rtol=1e-6
    )


@pytest.mark.parametrize(
    ("first", "last"), [(-6.9, -2.0), (-2.0, 3.0), (3.0, 6.5), (5.9, 12.0), (12.0, 23.9)]
)
@pytest.mark.parametrize("degrees", DEGREES, ids=str)
def test_density_in_the_tails(degrees: tuple[float, ...], first: float, last: float) -> None:
    """Relatively, from e^{−1e3} on the left to e^{−1e10} on the right, across the seam of the tables."""
    x = location(degrees, np.exp(np.linspace(first, last, 401)))
    value, slope = DiagonalLaw.of(degrees).log_density(x)
    np.testing.assert_allclose(value, by_mellin(degrees, x), rtol=1e-6, atol=BULK)
    step = 1e-4
    expected = (by_mellin(degrees, x + step) - by_mellin(degrees, x - step)) / (2 * step)
    # differences: truncation f‴ h²/6 with f‴ of the size of the slope, and rounding of the value over h
    rounding = 4 * np.finfo(float).eps * np.abs(value) / step
    assert (np.abs(slope - expected) < 2e-4 * (1 + np.abs(expected)) + rounding).all()


@pytest.mark.parametrize("degrees", DEGREES, ids=str)
def test_derivative_is_that_of_the_value(degrees: tuple[float, ...]) -> None:
    """Central differences of the law's own value: exact for a cubic up to its third derivative."""
    law = DiagonalLaw.of(degrees)
    mean, spread = centre_and_spread(degrees)
    x, step = mean + spread * np.linspace(-8.0, 3.0, 301), 1e-5
    differences = (law.log_density(x + step)[0] - law.log_density(x - step)[0]) / (2 * step)
    np.testing.assert_allclose(law.log_density(x)[1], differences, rtol=1e-6, atol=1e-5)


@pytest.mark.parametrize("degrees", DEGREES, ids=str)
def test_left_tail_goes_on_exponentially(degrees: tuple[float, ...]) -> None:
    """Beyond the table the slope tends to the smallest k.

    The true tail is e^{kx} |x|^{m−1} for k shared by m factors, so a straight line from x₀ is off by
    (m − 1) (log(1 + δ/|x₀|) − δ/|x₀|) at x₀ − δ: at most (m − 1)/2 (δ/x₀)², and the slope by (m − 1)/|x₀|.
    """
    law, smallest = DiagonalLaw.of(degrees), min(degrees)
    shared = degrees.count(smallest)
    start = float(location(degrees, np.array([math.exp(-7.0)]))[0])
    x = start - np.array([1.0, 30.0, 100.0])
    value, slope = law.log_density(x)
    bend = (shared - 1) / 2 * ((start - x) / start) ** 2
    # 1.5: higher terms; e^{−7} of slope from factors whose k is larger
    assert (np.abs(value - by_mellin(degrees, x)) < 1.5 * bend + 1e-3 * (start - x) + BULK).all()
    np.testing.assert_allclose(slope, smallest, atol=2.5 * shared / abs(start) * shared + 1e-2)


@pytest.mark.parametrize("degrees", [1.0, 2.0, 7.0, 300.0])
def test_one_factor_is_log_chi(degrees: float) -> None:
    law = DiagonalLaw.of((degrees,))
    mean, spread = centre_and_spread((degrees,))
    x = mean + spread * np.linspace(-20, 6, 101)
    value, slope = law.log_density(x)
    np.testing.assert_allclose(value, log_chi_density(degrees, x), rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(slope, degrees - np.exp(2 * x), rtol=1e-13)


@pytest.mark.parametrize("degrees", [(4.0, 3.0), (2.0, 2.0), (1.0, 9.0)], ids=str)
def test_two_factors_are_a_bessel_function(degrees: tuple[float, ...]) -> None:
    """λ = χ²(a) χ²(b): 4 e^{(a+b)x/2} K_{(a−b)/2}(e^x) / (2^{(a+b)/2} Γ(a/2) Γ(b/2)) for x = ½ log λ."""
    a, b = degrees
    x = np.array([-30.0, -8.0, -2.0, 0.0, 0.7, 1.5, 2.5, 4.0, 6.0])
    with mpmath.workdps(30):
        constant = (
            mpmath.log(4) - (a + b) / 2 * mpmath.log(2) - mpmath.loggamma(a / 2) - mpmath.loggamma(b / 2)
        )
        expected = [
            float((a + b) / 2 * v + constant + mpmath.log(mpmath.besselk((a - b) / 2, mpmath.exp(v))))
            for v in x
        ]
    np.testing.assert_allclose(DiagonalLaw.of(degrees).log_density(x)[0], expected, rtol=1e-6, atol=BULK)


def test_three_factors_are_a_meijer_function() -> None:
    """∏ χ²(k)/2 has the density z⁻¹ G³⁰₀₃(z | k/2) / ∏ Γ(k/2); dz/z = 2 dx."""
    degrees = (3.0, 4.0, 2.0)
    x = np.array([-4.0, -1.0, 0.5, 1.5, 2.3])
    with mpmath.workdps(25):
        gammas = sum(mpmath.loggamma(k / 2) for k in degrees)
        expected = [
            float(
                mpmath.log(
                    2 * mpmath.meijerg([[], []], [[k / 2 for k in degrees], []], mpmath.exp(2 * v) / 8).real
                )
                - gammas
            )
            for v in x
        ]
    np.testing.assert_allclose(DiagonalLaw.of(degrees).log_density(x)[0], expected, atol=BULK)


@pytest.mark.parametrize("degrees", DEGREES, ids=str)
def test_density_has_mass_one_and_the_moments_of_log_chi(degrees: tuple[float, ...]) -> None:
    law = DiagonalLaw.of(degrees)
    mean, spread = centre_and_spread(degrees)
    x = mean + spread * np.linspace(-25, 6, 4001)
    density = np.exp(law.log_density(x)[0])
    assert integrate.simpson(density, x=x) == pytest.approx(1, abs=BULK)
    assert integrate.simpson(density * (x - mean), x=x) == pytest.approx(0, abs=BULK * spread)
    assert integrate.simpson(density * (x - mean) ** 2, x=x) == pytest.approx(spread**2, rel=10 * BULK)


@pytest.mark.parametrize("degrees", DEGREES, ids=str)
def test_draws_follow_the_density(degrees: tuple[float, ...]) -> None:
    mean, spread = centre_and_spread(degrees)
    x = mean + spread * np.linspace(-25, 6, 1001)
    mass = integrate.cumulative_simpson(np.exp(by_mellin(degrees, x)), x=x, initial=0)
    draws = DiagonalLaw.of(degrees).sample(20_000, np.random.default_rng(1))
    law = interpolate.PchipInterpolator(x, mass)
    assert ks_p_value(draws, law) > 1e-3 / len(DEGREES)


# ---------------------------------------------------------------- how a sum splits

SUMS = [-25.0, -3.0, 0.0, 2.0, 4.0]


def conditional_law(degrees: tuple[float, ...], which: int, total: float) -> tuple[Array, Array]:
    """A grid and the distribution function of log χ(k_which) given the sum of all, by integration."""
    others = tuple(k for index, k in enumerate(degrees) if index != which)

    def log_joint(v: Array) -> Array:
        rest = log_chi_density(others[0], total - v) if len(others) == 1 else by_mellin(others, total - v)
        return log_chi_density(degrees[which], v) + rest

    wide = np.linspace(-40, 8, 801)
    values = log_joint(wide)
    inside = wide[values > values.max() - 40]
    fine = np.linspace(inside[0] - 0.05, inside[-1] + 0.05, 1201)
    density = np.exp(log_joint(fine) - values.max())
    mass = integrate.cumulative_simpson(density, x=fine, initial=0)
    return fine, mass / mass[-1]


@pytest.mark.parametrize("degrees", DEGREES, ids=str)
def test_parts_sum_to_the_whole(degrees: tuple[float, ...]) -> None:
    """Drawn and typical ones, from tail to tail, and in order: the slopes of typical ones sum to one."""
    law = DiagonalLaw.of(degrees)
    x = location(degrees, np.exp(np.linspace(-3.5, 10, 200)))
    rounding = 1e-13 * (1 + np.abs(x)) * len(degrees)
    assert (np.abs(law.split(x, np.random.default_rng(2)).sum(axis=1) - x) < 10 * rounding).all()
    parts, slopes = law.typical_parts(x)
    assert parts.shape == slopes.shape == (len(x), len(degrees))
    assert (np.abs(parts.sum(axis=1) - x) < 10 * rounding).all()
    np.testing.assert_allclose(slopes.sum(axis=1), 1, atol=1e-10)


@pytest.mark.parametrize("total", SUMS)
@pytest.mark.parametrize("degrees", [(4.0, 3.0), (1.0, 6.0), (2.0, 2.0), (3.0, 1.0, 5.0)], ids=str)
def test_split_has_the_conditional_law(degrees: tuple[float, ...], total: float) -> None:
    """Every part against numerical integration of its conditional density, by Kolmogorov–Smirnov."""
    draws = DiagonalLaw.of(degrees).split(np.full(10_000, total), np.random.default_rng(3))
    for which in range(len(degrees)):
        law = interpolate.PchipInterpolator(*conditional_law(degrees, which, total))
        p_value = ks_p_value(draws[:, which], law)
        assert p_value > 1e-3 / 45, (which, p_value)


def test_split_of_drawn_sums_gives_back_the_prior() -> None:
    """Five factors: parts of sums that are drawn are independent log χ, in the order of the degrees."""
    degrees = (7.0, 1.0, 30.0, 4.0, 2.0)
    law, size, rng = DiagonalLaw.of(degrees), 40_000, np.random.default_rng(4)
    parts = law.split(law.sample(size, rng), rng)
    for which, k in enumerate(degrees):
        assert stats.kstest(np.exp(2 * parts[:, which]), stats.chi2(k).cdf).pvalue > 1e-3 / len(degrees)
    half = np.array(degrees) / 2
    centred = (2 * parts - special.digamma(half) - math.log(2)) / np.sqrt(special.polygamma(1, half))
    upper = np.triu_indices(len(degrees), 1)
    assert_agrees(
        (centred.T @ centred / size)[upper], np.full(len(upper[0]), size**-0.5), np.zeros(len(upper[0]))
    )


@pytest.mark.parametrize("degrees", [(4.0,), *DEGREES], ids=str)
def test_typical_parts_are_those_of_one_common_tilt(degrees: tuple[float, ...]) -> None:
    """½(ψ(k_ℓ/2 + c) + log 2) with the c at which they sum to x, by root search; slopes by differences."""
    law, half = DiagonalLaw.of(degrees), np.array(degrees) / 2
    mean, spread = centre_and_spread(degrees)
    x = mean + spread * np.linspace(-6, 4, 11)
    parts, slopes = law.typical_parts(x)

    def at(log_gap: float) -> Array:
        return 0.5 * (special.digamma(half - half.min() + math.exp(log_gap)) + math.log(2))

    for value, found in zip(x, parts, strict=True):
        log_gap = optimize.brentq(lambda t: float(at(t).sum() - value), -9, 25, xtol=1e-13)  # noqa: B023
        np.testing.assert_allclose(found, at(log_gap), atol=BULK)
    step = 1e-4
    differences = (law.typical_parts(x + step)[0] - law.typical_parts(x - step)[0]) / (2 * step)
    np.testing.assert_allclose(slopes, differences, atol=1e-5)
