"""Data of rank one: quadrature and exact draws against integrals that share no code."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from lbnn.engines.rank_one import sample_rank_one
from lbnn.scale.prior import ScalePrior
from tests.referees.one_example import one_example

CASES = [
    (3, (4,), 10.0, 1.0),
    (5, (2, 3), 100.0, 1.0),
    (2, (1, 1), 1000.0, 2.0),
    pytest.param(8, (3, 50, 2), 30.0, 0.3, marks=pytest.mark.slow),
    pytest.param(4, (2, 2, 2, 2), 1e4, 5.0, marks=pytest.mark.slow),
    (30, (2,), 1e6, 1.0),
]


@pytest.mark.parametrize(("outputs", "widths", "beta", "size"), CASES)
def test_evidence_and_mean_against_the_referee(
    outputs: int, widths: tuple[int, ...], beta: float, size: float
) -> None:
    rng = np.random.default_rng(outputs)
    X, Y = rng.standard_normal((1, 6)), size * rng.standard_normal((1, outputs))
    variances = (1.0, *np.linspace(0.7, 1.4, len(widths)))
    truth = one_example(SimpleNamespace(widths=widths, variances=variances, beta=beta, X=X, Y=Y))
    sample = sample_rank_one(
        float((X**2).mean()), Y[0], 1 / beta, widths, 8000, rng, layer_variances=variances[1:]
    )
    assert sample.log_evidence == pytest.approx(truth.log_evidence, abs=2e-6)
    assert sample.log_evidence_error < 1e-6
    weights, scales = np.exp(sample.log_weights), sample.scales
    mean = np.einsum("s,sij->ij", weights, scales)
    error = np.sqrt(np.einsum("s,sij->ij", weights**2, (scales - mean) ** 2))
    assert np.abs((mean - truth.scale_mean) / error).max() < 5
    assert weights.max() * len(weights) < 1.1


def test_factors_are_those_of_the_prior_coordinates() -> None:
    sample = sample_rank_one(1.0, np.ones(4), 0.5, (3, 6), 10, np.random.default_rng(0))
    shapes = ScalePrior((3, 6), 4, (1.0, 1.0)).coordinates.shapes
    assert [factor.shape[1:] for factor in sample.factors] == [(each.rows, each.columns) for each in shapes]
    for factor in sample.factors:
        np.testing.assert_allclose(np.triu(factor, 1), 0, atol=1e-12)
        assert (np.diagonal(factor, axis1=1, axis2=2) > 0).all()
