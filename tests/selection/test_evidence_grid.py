"""Evidence over a grid: the numbers of the single quadrature, for any data and any network."""

from __future__ import annotations

import math

import numpy as np
import pytest

import lbnn
from lbnn._base import log_integrals
from lbnn.scale import density_table
from lbnn.scale.density_table import DensityTable
from lbnn.scale.gamma_product import GammaProduct

NETWORKS = [(), (1,), (3,), (200,), (2, 2, 2), (4, 50), (30,) * 6]


def spectrum_of(p: int, n0: int, size: float = 1.0, seed: int = 0) -> lbnn.Spectrum:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((p, n0))
    return lbnn.Spectrum.from_inputs(
        X, size * (X @ rng.standard_normal(n0) / math.sqrt(n0) + 0.5 * rng.standard_normal(p))
    )


DATA = {
    "typical": spectrum_of(60, 80),
    "one example": spectrum_of(1, 4),
    "tall": spectrum_of(50, 7),
    "targets too small": spectrum_of(30, 40, 1e-6),
    "targets too large": spectrum_of(30, 40, 1e3),
    "no targets": lbnn.Spectrum.from_inputs(np.eye(5, 8), np.zeros(5)),
    "many examples": spectrum_of(400, 420),
}


@pytest.mark.parametrize("data", DATA.values(), ids=list(DATA))
def test_the_single_quadrature_at_every_point(data: lbnn.Spectrum) -> None:
    """Log evidence, E λ and E λ⁻¹ from β = 1e-8 to 1e12."""
    betas = np.geomspace(1e-8, 1e12, 9)
    grid = lbnn.evidence_grid(data, NETWORKS, betas)
    for row, widths in enumerate(NETWORKS):
        for column in range(row % 2, len(betas), 2):
            post = lbnn.Network(widths).condition_spectrum(data, betas[column])
            expected = post.log_evidence, post.scale.mean, post.scale.inverse_mean
            got = (
                each[row, column] for each in (grid.log_evidence, grid.scale_mean, grid.scale_inverse_mean)
            )
            np.testing.assert_allclose(list(got), expected, rtol=2e-11, err_msg=f"{widths} {betas[column]}")
    assert not grid.single[1:].all()


def test_limits_of_the_temperature_and_depth_one() -> None:
    """β = 0 and ∞ are answered by the single quadrature; at depth one the scale is one."""
    data = spectrum_of(5, 20)
    grid = lbnn.evidence_grid(data, [(), (6,)], [0.0, 1.0, 2.0, 3.0, math.inf])
    assert grid.single[1].tolist() == [True, False, False, False, True]
    assert (grid.log_evidence[:, 0] == -math.inf).all()
    assert grid.log_evidence[1, -1] == lbnn.Network((6,)).condition_spectrum(data, math.inf).log_evidence
    np.testing.assert_array_equal(grid.scale_mean[0], 1.0)


def test_inverse_moments_that_diverge() -> None:
    """E λ⁻¹ needs a width of three."""
    grid = lbnn.evidence_grid(spectrum_of(20, 30), [(2,), (3,)], [1.0, 2.0, 3.0])
    assert np.isinf(grid.scale_inverse_mean[0]).all()
    assert np.isfinite(grid.scale_inverse_mean[1]).all()


def test_points_that_do_not_converge_are_said_as_condition_says_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a coarse rule every point is marked and warned of; without the check they would be wrong."""
    data, betas = DATA["typical"], np.geomspace(0.1, 1e4, 5)
    right = lbnn.evidence_grid(data, [(2, 2, 2)], betas)
    assert not right.single.any()
    monkeypatch.setattr(log_integrals, "_FIRST_STEP", 4.0)
    monkeypatch.setattr(log_integrals, "_HALVINGS", 1)
    with pytest.warns(lbnn.AccuracyWarning, match="did not converge"):
        marked = lbnn.evidence_grid(data, [(2, 2, 2)], betas)
    assert marked.single.any()
    monkeypatch.setattr(log_integrals, "_TOLERANCE", math.inf)
    wrong = lbnn.evidence_grid(data, [(2, 2, 2)], betas)
    assert np.abs(wrong.log_evidence - right.log_evidence).max() > 1e-6


def test_a_table_that_is_wrong_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Series that do not follow the density between nodes leave every point to the single quadrature."""
    monkeypatch.setattr(density_table, "_ALLOWED", 0.0)
    data, betas = DATA["typical"], [1.0, 2.0, 3.0]
    grid = lbnn.evidence_grid(data, [(5, 5)], betas)
    assert grid.single.all()


@pytest.mark.parametrize("widths", [(1,), (1, 1), (2,) * 12, (10**6, 10**6), (50, 3)], ids=str)
def test_table_of_the_prior(widths: tuple[int, ...]) -> None:
    """The series agree with the contour integral, in both tails."""
    law = GammaProduct(widths, 0.7)
    table = DensityTable.of_product(law)
    centre, spread = law.location(0.0), law.spread(0.0)
    x = centre + np.linspace(-min(30 * spread, 60), 6 * spread, 300)
    expected = law.log_density(x)
    np.testing.assert_allclose(table.log_density(x.reshape(30, 10)).ravel(), expected, rtol=1e-11, atol=1e-11)
    assert table.accurate


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([], [1.0]), "at least one network"),
        (([(3,)], []), "at least one network"),
        (([(3,)], [[1.0]]), "at least one network"),
        (([(0,)], [1.0]), "width"),
        (([(3,)], [-1.0]), "beta"),
    ],
    ids=["no networks", "no betas", "betas in a matrix", "width zero", "negative beta"],
)
def test_bad_input(arguments: tuple[list, list], message: str) -> None:
    """The rule and what was given."""
    with pytest.raises(ValueError, match=message):
        lbnn.evidence_grid(DATA["typical"], *arguments)


def test_several_outputs_are_refused() -> None:
    """The scale would be a matrix."""
    data = lbnn.Spectrum.from_inputs(np.eye(4), np.ones((4, 2)))
    with pytest.raises(ValueError, match="one output"):
        lbnn.evidence_grid(data, [(3,)], [1.0])
