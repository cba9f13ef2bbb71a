"""Rows measured by the square block: the same factors, the same prior, derivatives by differences."""

import numpy as np
import pytest

from lbnn import Network
from lbnn.scale.relative_rows import RelativeCoordinates

WIDTHS = [(1,), (3,), (4, 2), (3, 3), (2, 3, 2)]


@pytest.fixture(params=WIDTHS, ids=str)
def pair(request):
    """Plain coordinates of seven outputs, and relative ones at a point that is not the origin."""
    plain = Network(request.param).scale_prior(7).coordinates
    centre = np.random.default_rng(1).normal(size=plain.dimension)
    return plain, RelativeCoordinates.at(plain, centre)


def test_there_and_back(pair):
    plain, relative = pair
    u = np.random.default_rng(0).normal(size=(5, plain.dimension))
    v = relative.of_plain(u)
    np.testing.assert_allclose(relative.to_plain(v), u, rtol=1e-9, atol=1e-9)
    for ours, theirs in zip(relative.factors(v), plain.factors(u), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(relative.locate(plain.factors(u)), v, rtol=1e-6, atol=1e-6)


def test_the_prior_is_that_of_the_plain_coordinates_times_the_jacobian(pair):
    """The determinant of ∂u/∂v by differences."""
    plain, relative = pair
    v = 0.5 * np.random.default_rng(2).normal(size=plain.dimension)
    steps = 1e-5 * np.eye(len(v))
    jacobian = (relative.to_plain(v + steps) - relative.to_plain(v - steps)) / 2e-5
    expected = plain.log_prior(relative.to_plain(v[None]))[0][0] + np.linalg.slogdet(jacobian)[1]
    assert relative.log_prior(v[None])[0][0] == pytest.approx(expected, abs=1e-6)


def test_gradients(pair):
    plain, relative = pair
    rng = np.random.default_rng(3)
    v, weight = 0.7 * rng.normal(size=plain.dimension), rng.normal(size=(7, plain.shapes[-1].columns))

    def total(points):
        product = None
        for factor in relative.factors(points):
            product = factor if product is None else product @ factor
        return product

    steps = 1e-5 * np.eye(len(v))
    values = ((total(v + steps) - total(v - steps)) * weight).sum(axis=(1, 2)) / 2e-5
    factors, slopes = relative.factors_and_slopes(v[None])
    np.testing.assert_allclose(
        relative.pull_back(factors, slopes, weight[None])[0], values, rtol=1e-5, atol=1e-6
    )
    of_prior = (relative.log_prior(v + steps)[0] - relative.log_prior(v - steps)[0]) / 2e-5
    np.testing.assert_allclose(relative.log_prior(v[None])[1][0], of_prior, rtol=1e-5, atol=1e-6)
