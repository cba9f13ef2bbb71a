"""Factors of every layer from those with the narrowest layer last, against products of plain weights."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from lbnn._base.types import Array
from lbnn.scale.layer_factors import layer_factors
from lbnn.scale.prior import ScalePrior
from tests.referees.statistics import assert_agrees

SIZE = 100_000
CASES = [((1, 2), 4), ((2, 3), 4), ((2, 1, 3), 4), ((1, 4, 2), 3), ((3, 2, 6, 3), 5)]


def partial_scales(factors: list[Array]) -> list[Array]:
    """A Aᵀ (m, n_d, n_d) of the products A of the first, the first two, ... of the factors."""
    totals = itertools.accumulate(factors, lambda left, right: left @ right)
    return [total @ total.swapaxes(1, 2) for total in totals]


def statistics(scales: list[Array]) -> Array:
    """Numbers (m, k) that depend on each of the partial scales and on pairs of them."""
    pairs = itertools.combinations_with_replacement(scales, 2)
    overlaps = [np.log1p((one * other).sum(axis=(1, 2))) for one, other in pairs]
    return np.stack([*overlaps, *(np.log(scale[:, 0, 0]) for scale in scales)], axis=1)


@pytest.mark.parametrize(("widths", "outputs"), CASES)
def test_joint_law_of_all_layers(widths: tuple[int, ...], outputs: int) -> None:
    """W_d, W_d W_{d−1}, ..., W_d ⋯ W_2 together: their Gram matrices against those of plain weights."""
    rng = np.random.default_rng(31)
    variances = tuple(float(each) for each in rng.uniform(0.5, 2, len(widths)))
    prior = ScalePrior(widths, outputs, variances)
    drawn = prior.coordinates.factors(rng.standard_normal((SIZE, prior.coordinates.dimension)))
    found = layer_factors(drawn, prior, rng)
    for factor in found:
        np.testing.assert_allclose(factor, np.tril(factor), atol=1e-12)
    ends = zip(widths, (*widths[1:], outputs), variances, strict=True)
    weights = [math.sqrt(v / below) * rng.standard_normal((SIZE, above, below)) for below, above, v in ends]
    ours, plain = (statistics(partial_scales(each)) for each in (found, weights[::-1]))
    error = np.sqrt((ours.var(axis=0) + plain.var(axis=0)) / SIZE)
    assert_agrees(ours.mean(axis=0), error, plain.mean(axis=0), largest_error=0.05, comparisons=41)
    np.testing.assert_allclose(partial_scales(found)[-1], partial_scales(drawn)[-1], rtol=1e-9, atol=1e-9)


def test_the_order_of_the_widths_does_not_matter() -> None:
    """Behind a narrow layer the coordinates of every order have the narrowest layer last."""
    first, *others = (
        ScalePrior(widths, 4, (1.0, 1.0, 1.0)).coordinates for widths in itertools.permutations((2, 1, 3))
    )
    for other in others:
        assert other.dimension == first.dimension
        assert other.shapes[0].width == 1
