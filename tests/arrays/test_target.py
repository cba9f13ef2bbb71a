"""The posterior of the scale in its coordinates, in batches that are moved to the place of the data."""

from __future__ import annotations

import numpy as np
import pytest

import lbnn
from lbnn._base import arrays
from lbnn._base.arrays import HOST, Device
from lbnn.engines import target as target_module
from lbnn.engines.target import ScaleTarget
from lbnn.noise.independent import IndependentNoise
from tests.helpers.libraries import device, every_library
from tests.helpers.problems import make_problem


def target(where: Device, widths: tuple[int, ...], outputs: int) -> ScaleTarget:
    data = make_problem(30, 40, outputs, seed=1)
    spectrum = lbnn.Spectrum.from_inputs(where.put(data.X), where.put(data.Y))
    likelihood = IndependentNoise(0.25).likelihood(spectrum)
    return ScaleTarget(lbnn.Network(widths).scale_prior(outputs).coordinates, likelihood, np.eye(outputs))


@every_library
@pytest.mark.parametrize("block", [1 << 26, 100])
@pytest.mark.parametrize(("widths", "outputs"), [((6,), 3), ((7, 5), 4), ((2, 8), 3)])
def test_same_values_and_gradients(
    widths: tuple[int, ...], outputs: int, block: int, library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one batch and in several; with points far out, beyond all factors, and not numbers at all."""
    monkeypatch.setattr(target_module, "_WORTH_MOVING", 0.0)
    monkeypatch.setattr(arrays, "_DEVICE_BLOCK", block)
    host, there = (target(where, widths, outputs) for where in (HOST, device(library)))
    u = np.random.default_rng(0).standard_normal((12, host.dimension))
    ordinary = u.copy()
    u[1, 0], u[2, 1], u[3, 0] = 7.5, -8.0, -70.0
    u[4, -1], u[5, -1] = 2e8, np.nan
    for points in (ordinary, u, u[3:6]):
        expected_value, expected_gradient = host.value_and_gradient(points)
        value, gradient = there.value_and_gradient(points)
        np.testing.assert_allclose(value, expected_value, rtol=1e-11)
        np.testing.assert_allclose(gradient, expected_gradient, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(there.log_density(points), expected_value, rtol=1e-11)
    assert np.isneginf(host.value_and_gradient(u)[0][3:6]).all()


@pytest.mark.slow
def test_jax_can_compile_it() -> None:
    jax = pytest.importorskip("jax")
    host, there = (target(where, (7, 5), 4) for where in (HOST, device("jax")))
    program = jax.jit(there.value_and_gradient_at)
    for seed in range(2):  # nothing of the first call is kept in the second
        u = np.random.default_rng(seed).standard_normal((8, host.dimension))
        value, gradient = program(device("jax").put(u))
        expected_value, expected_gradient = host.value_and_gradient(u)
        np.testing.assert_allclose(value, expected_value, rtol=1e-11)
        np.testing.assert_allclose(gradient, expected_gradient, rtol=1e-9, atol=1e-9)
    eager = there.value_and_gradient_at(device("jax").put(u))
    np.testing.assert_allclose(eager[0], value, rtol=1e-12)
