"""The density of λ = Π χ²(n_ℓ)/n_ℓ against 35-digit references and closed forms."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import special, stats

import lbnn
from lbnn.scale.gamma_product import GammaProduct

DENSITY_FILE = Path(__file__).parents[1] / "reference" / "density.json"
DENSITIES: list[dict[str, Any]] = json.loads(DENSITY_FILE.read_text())
RELATIVE = 1e-10


def floats(texts: Any) -> np.ndarray:
    return np.array(texts, dtype=float)


def label(record: dict[str, Any]) -> str:
    widths = record["widths"]
    return "-".join(map(str, widths)) if len(widths) < 4 else f"{widths[0]}x{len(widths)}"


@pytest.mark.parametrize("record", DENSITIES, ids=label)
def test_density_of_the_scale(record: dict[str, Any]) -> None:
    """Log density of λ = Π χ²(n)/n from tail to tail, down to e^−20000."""
    scales, expected = floats(record["scale"]), floats(record["log_density"])
    assert np.isfinite(expected).all(), "the reference itself is not a number"
    got = lbnn.Network(record["widths"]).scale_prior(1).log_density(scales)
    np.testing.assert_allclose(got, expected, rtol=RELATIVE, atol=1e-12)


def test_density_references_reach_far_below_the_smallest_double() -> None:
    """The reference has values whose exponential is zero in double precision."""
    lowest = [floats(record["log_density"]).min() for record in DENSITIES]
    assert np.sum(np.array(lowest) < -700) >= len(lowest) / 2


@pytest.mark.parametrize("width", [1, 2, 7, 300, 10**4])
@pytest.mark.parametrize("variance", [1.0, 0.01, 300.0])
def test_one_factor_is_a_gamma(width: int, variance: float) -> None:
    """k = 1: λ ~ Gamma(n/2, scale 2·variance/n), x = log λ."""
    law = stats.gamma(width / 2, scale=2 * variance / width)
    x = np.log(law.ppf([1e-9, 0.01, 0.3, 0.5, 0.9, 0.999, 1 - 1e-9]))
    got = GammaProduct((width,), variance).log_density(x)
    rounding = np.finfo(float).eps * width * math.log(width + 1)  # of terms that cancel in scipy's logpdf
    np.testing.assert_allclose(got, law.logpdf(np.exp(x)) + x, rtol=1e-12, atol=1e-13 + rounding)


@pytest.mark.parametrize("scale", [1e-300, 1e30, 1e50, 1e100, 1e300])
def test_one_factor_at_the_ends_of_double_precision(scale: float) -> None:
    """Log density a log a − log Γ(a) + (a − 1) log λ − aλ, far beyond the references; here a = 2."""
    expected = 2 * math.log(2) + math.log(scale) - 2 * scale
    assert lbnn.Network((4,)).scale_prior(1).log_density(scale) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("widths", [(1, 1), (1, 4), (3, 5), (2, 40), (60, 60)])
@pytest.mark.parametrize("variance", [1.0, 0.01, 300.0])
def test_two_factors_are_a_bessel_function(widths: tuple[int, int], variance: float) -> None:
    """k = 2: π(x) = 2 u^{a+b} K_{a−b}(2u) / Γ(a)Γ(b), u² = a b λ/variance."""
    a, b = widths[0] / 2, widths[1] / 2
    x = np.linspace(-9.0, 4.0, 27) + math.log(variance)
    u = np.sqrt(a * b * np.exp(x) / variance)
    expected = math.log(2) + (a + b) * np.log(u) + np.log(special.kve(a - b, 2 * u)) - 2 * u
    expected -= special.gammaln(a) + special.gammaln(b)
    got = GammaProduct(widths, variance).log_density(x)
    np.testing.assert_allclose(got, expected, rtol=1e-11, atol=1e-12)


def test_order_of_the_widths_does_not_matter() -> None:
    """The law of a product is symmetric in its factors."""
    x = np.linspace(-9.0, 4.0, 27)
    one, other = GammaProduct((1, 2, 30)), GammaProduct((30, 1, 2))
    np.testing.assert_array_equal(one.log_density(x), other.log_density(x))


@pytest.mark.parametrize("tilt", [-0.4, 0.0, 1.0, 2.5])
def test_location_and_spread_are_moments_of_the_tilted_law(tilt: float) -> None:
    """Times e^{tilt x} each factor χ²(n) has n + 2 tilt degrees: E log = ψ(n/2 + tilt) + log 2, var = ψ'."""
    widths, variance = np.array([1, 3, 8]), 2.5
    law = GammaProduct(tuple(widths.tolist()), variance)
    mean = float((special.digamma(widths / 2 + tilt) - np.log(widths / 2)).sum()) + math.log(variance)
    assert law.location(tilt) == pytest.approx(mean, rel=1e-12)
    deviation = math.sqrt(float(special.polygamma(1, widths / 2 + tilt).sum()))
    assert law.spread(tilt) == pytest.approx(deviation, rel=1e-12)
