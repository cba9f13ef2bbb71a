"""`BartlettCoordinates.locate`: the inverse of `factors`, within the table and beyond it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import special, stats

from lbnn.scale.bartlett import BartlettCoordinates
from lbnn.scale.prior import ScalePrior

# widths, outputs, layer variances: square, deep, with bottlenecks, wide, one degree of freedom
LAWS = [
    ((4,), 3, (1.0,)),
    ((3, 6, 4), 3, (0.7, 1.6, 1.2)),
    ((2,), 2, (0.01,)),
    ((5, 2, 4), 3, (1.0, 30.0, 1.0)),
    ((1, 3), 2, (2.0, 0.5)),
    ((400, 300), 4, (1.0, 1.0)),
]


def coordinates_of(
    widths: tuple[int, ...], outputs: int, variances: tuple[float, ...]
) -> BartlettCoordinates:
    return ScalePrior(widths, outputs, variances).coordinates


def is_diagonal(coordinates: BartlettCoordinates) -> np.ndarray:
    """Which coordinates stand for diagonal entries."""
    marks = []
    for shape in coordinates.shapes:
        below = len(np.tril_indices(shape.rows, -1, shape.columns)[0])
        marks += [True] * shape.columns + [False] * below
    return np.array(marks)


@pytest.mark.parametrize("size", [1.0, 5.9, 6.0, 6.1, 9.0, 50.0])
@pytest.mark.parametrize(("widths", "outputs", "variances"), LAWS, ids=str)
def test_locate_inverts_factors(
    widths: tuple[int, ...], outputs: int, variances: tuple[float, ...], size: float
) -> None:
    """Within the table, and with diagonal coordinates of both signs up to 50, where log χ is linear in u."""
    coordinates = coordinates_of(widths, outputs, variances)
    rng = np.random.default_rng(2)
    u = rng.standard_normal((300, coordinates.dimension))
    diagonal = is_diagonal(coordinates)
    u[:, diagonal] = size * rng.choice([-1.0, 1.0], (300, int(diagonal.sum())))
    found = coordinates.locate(coordinates.factors(u))
    # a diagonal entry has log χ to rounding; the slope of log χ in u is at least a hundredth of 1/√k here
    np.testing.assert_allclose(found, u, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("widths", "outputs", "variances"), LAWS, ids=str)
def test_factors_inverts_locate(widths: tuple[int, ...], outputs: int, variances: tuple[float, ...]) -> None:
    """From factors over forty decades of diagonal entries back to them."""
    coordinates = coordinates_of(widths, outputs, variances)
    rng = np.random.default_rng(3)
    factors = []
    for shape in coordinates.shapes:
        factor = np.tril(rng.standard_normal((200, shape.rows, shape.columns)))
        index = np.arange(shape.columns)
        factor[:, index, index] = 10.0 ** rng.uniform(-20, 2, (200, shape.columns))
        factors.append(factor)
    for found, factor in zip(coordinates.factors(coordinates.locate(factors)), factors, strict=True):
        np.testing.assert_allclose(found, factor, rtol=1e-9, atol=1e-14)


@pytest.mark.parametrize("degrees", [1, 2, 5, 40])
def test_locate_is_the_normal_quantile_of_chi(degrees: int) -> None:
    """u = Φ⁻¹(F(χ)) by SciPy's distribution functions: both tails, one factor of one entry."""
    variance, width = 0.7, degrees
    coordinates = coordinates_of((width,), 1, (variance,))
    chi = stats.chi.ppf([1e-8, 1e-3, 0.2, 0.5, 0.9], degrees)
    chi = np.concatenate([chi, stats.chi.isf([1e-3, 1e-8], degrees)])
    lower = stats.chi2.cdf(chi**2, degrees)
    expected = np.where(lower < 0.5, special.ndtri(lower), -special.ndtri(stats.chi2.sf(chi**2, degrees)))
    found = coordinates.locate([math.sqrt(variance / width) * chi[:, None, None]])[:, 0]
    # the table interpolates log χ to 5e-10, and a slope of log χ in u of 0.01 turns that into 5e-8
    np.testing.assert_allclose(found, expected, atol=2e-7)


def test_prior_at_located_factors_is_the_law_of_log_chi() -> None:
    """Beyond the table: density of u = density of log χ times d log χ/du, the slope of the last cell."""
    degrees, step = 5.0, 1e-6
    coordinates = coordinates_of((5,), 1, (5.0,))  # s = 1: the factor is χ(5) itself
    u = np.array([[-15.0], [-6.5], [7.0], [12.0]])
    log_chi = np.log(coordinates.factors(u)[0][:, 0, 0])
    further = np.log(coordinates.factors(u + step)[0][:, 0, 0])
    expected = stats.chi.logpdf(np.exp(log_chi), degrees) + log_chi + np.log((further - log_chi) / step)
    found = coordinates.log_prior(u)[0] - 0.5 * math.log(2 * math.pi)
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-6)
