"""Batched integrals against closed forms, and what is said of integrands that doubles cannot hold."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

from lbnn._base import log_integrals
from lbnn._base.log_integrals import BEYOND, NONE, NOT_FINITE, TOO_NARROW, integrate

SHAPES = np.array([0.2, 1.0, 7.5, 4e5])


def log_gamma(x, which):
    """Log density of the logarithm of a Gamma variable of each shape, up to its normaliser."""
    a = SHAPES[which, None]
    return a * x - np.exp(x)


def test_gamma_densities_of_very_different_width_in_one_batch():
    """∫ exp(a x − e^x + k x) dx = Γ(a + k)."""
    start = np.log(SHAPES)
    found = integrate(log_gamma, log_gamma, start - 1, start + 1, (0, 1, 2))
    assert found.converged.all()
    for power in found.powers:
        np.testing.assert_allclose(
            found.log_total(power), special.gammaln(SHAPES + power), rtol=1e-13, atol=1e-13
        )


def test_a_batch_gives_what_each_member_gives_alone():
    start = np.log(SHAPES)
    together = integrate(log_gamma, log_gamma, start - 1, start + 1, (0, 1))
    for member in range(len(SHAPES)):

        def alone(x, which, member=member):
            return log_gamma(x, np.full(len(x), member))

        ends = start[[member]]
        nodes = integrate(alone, alone, ends - 1, ends + 1, (0, 1)).one()
        assert nodes.log_total == pytest.approx(together.log_total()[member], rel=1e-13)
        assert nodes.weights @ np.exp(nodes.x) == pytest.approx(SHAPES[member], rel=1e-12)


def test_complex_values():
    """∫ exp(−x²/2 + i t x) dx = √2π e^{−t²/2}."""
    t = np.array([0.5, 3.0])

    def wave(x, which):
        return -0.5 * x**2 + 1j * t[which, None] * x

    found = integrate(wave, wave, -np.ones(2), np.ones(2))
    np.testing.assert_allclose(found.log_totals[0], 0.5 * np.log(2 * np.pi) - t**2 / 2, atol=1e-12)


def test_problems_are_marked_for_the_member_that_has_them():
    """Mass beyond |x| = 690, no finite value, a peak narrower than doubles; the fourth is normal."""

    def mixed(x, which):
        every = [0 * x, x - np.inf, -np.abs(x - 1 / 3) * 1e18, -0.5 * x**2]
        return np.stack([every[member][row] for row, member in enumerate(which)])

    found = integrate(mixed, mixed, -np.ones(4), np.ones(4))
    assert found.problem.tolist() == [BEYOND, NOT_FINITE, TOO_NARROW, NONE]
    assert found.converged.tolist() == [False, False, False, True]
    assert found.log_total()[3] == pytest.approx(0.5 * np.log(2 * np.pi), rel=1e-14)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x, which: 0 * x, "mass beyond it"),
        (lambda x, which: x - np.inf, "representable as a double"),
        (lambda x, which: -np.abs(x - 1 / 3) * 1e18, "wider than the spacing of doubles"),
    ],
)
def test_one_raises_what_stands_in_the_way(function, message):
    with pytest.raises(ValueError, match=message):
        integrate(function, function, np.array([-1.0]), np.array([1.0])).one()


def test_an_integral_that_does_not_converge_is_marked(monkeypatch):
    monkeypatch.setattr(log_integrals, "_HALVINGS", 1)
    monkeypatch.setattr(log_integrals, "_FIRST_STEP", 4.0)
    found = integrate(log_gamma, log_gamma, np.log(SHAPES) - 1, np.log(SHAPES) + 1)
    assert not found.converged.any()
    assert not found.nodes[0].converged


def test_a_plateau_with_sharp_ends():
    """1/(1 + e^{x − 40}) · exp(−e^{−40 − x}) is flat over 80 units and falls within one at both ends."""

    def plateau(x, which):
        return -np.logaddexp(0, x - 40) - np.exp(-40 - x)

    found = integrate(plateau, plateau, np.array([-45.0]), np.array([45.0]))
    assert found.converged.all()
    x = np.linspace(-50, 110, 2_000_001)
    expected = np.trapezoid(np.exp(plateau(x, None)), x)
    assert np.exp(found.log_total()[0]) == pytest.approx(expected, rel=1e-9)
