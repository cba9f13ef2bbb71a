"""Value and gradient of the log posterior over many scales at once."""

from __future__ import annotations

from typing import Any

from benchmarks.gpu.devices import BETA, device, min_seconds, timed, warm

ATOMS = ((3, 8192), (20, 1024), (50, 1024), (100, 256))  # outputs, atoms
SMALL_ATOMS = ((3, 512), (20, 32))


def atoms(library: str, small: bool) -> dict[str, Any]:
    """Value and gradient of the log posterior over atoms, against NumPy on one core.

    "In place" are atoms that are on the device already; "whole" is what engines call, with the way there and
    back and the checks of NumPy's points.
    """
    place = device(library)
    warm(place)
    result: dict[str, Any] = {}
    for outputs, count in SMALL_ATOMS if small else ATOMS:
        result[f"{outputs} x {count}"] = row = compared(place, outputs, count)
        print(outputs, count, row, flush=True)
    return result


def compared(place: Any, outputs: int, count: int) -> dict[str, float]:
    """Milliseconds at a place and on one core, and how far the results are apart."""
    import numpy as np

    from lbnn._base.arrays import HOST
    from lbnn.engines import target as module

    module._WORTH_MOVING = 0.0
    host, there = (scale_target(where, outputs) for where in (HOST, place))
    u = np.random.default_rng(0).standard_normal((count, host.dimension))
    there.value_and_gradient(u), there.value_and_gradient(u)
    whole, (value, gradient) = min_seconds(lambda: there.value_and_gradient(u), 5)
    few = max(1, count // 16)  # NumPy's time is proportional to the number of atoms
    part, (host_value, host_gradient) = min_seconds(lambda: host.value_and_gradient(u[:few]), 3)
    one_core = part * count / few
    in_place, eigen, way = parts(place, there, u)
    return {
        "in place ms": 1e3 * in_place,
        "whole ms": 1e3 * whole,
        "one core ms": 1e3 * one_core,
        "ratio in place": one_core / in_place,
        "ratio, whole": one_core / whole,
        "eigh alone ms": 1e3 * eigen,
        "way there and back ms": 1e3 * way,
        "value differs by": float(np.abs(value[:few] / host_value - 1).max()),
        "gradient differs by": float(
            np.abs(gradient[:few] - host_gradient).max() / np.abs(host_gradient).max()
        ),
    }


def parts(place: Any, target: Any, u: Any) -> tuple[float, float, float]:
    """Seconds of value and gradient of points that are there, of their eigendecompositions, of the way."""
    from lbnn._base.arrays import to_numpy

    points, function, scales = place.put(u), target.value_and_gradient_at, target.scales
    if place.library == "jax":
        import jax

        function, scales = jax.jit(function), jax.jit(scales)
    grams = scales(points)
    function(points), place.xp.linalg.eigh(grams)
    in_place, _ = timed(lambda: function(points), place, 5)
    eigen, _ = timed(lambda: tuple(place.xp.linalg.eigh(grams)), place, 3)
    way, _ = min_seconds(lambda: to_numpy(place.put(u)), 3)
    return in_place, eigen, way


def scale_target(place: Any, outputs: int, examples: int = 0, width: int = 0) -> Any:
    """The posterior of L in its coordinates, for data at a place."""
    import numpy as np

    import lbnn
    from lbnn._base.small_matrices import one_sign
    from lbnn.engines.run import principal_axes
    from lbnn.engines.target import ScaleTarget
    from lbnn.noise.independent import IndependentNoise

    rng, size = np.random.default_rng(1), examples or max(200, 4 * outputs)
    X, Y = rng.standard_normal((size, size + 20)), rng.standard_normal((size, outputs))
    spectrum = lbnn.Spectrum.from_inputs(place.put(X), place.put(Y))
    likelihood = IndependentNoise(1 / BETA).likelihood(spectrum)
    widths = (width or 4 * outputs,)
    axes = one_sign(principal_axes(likelihood.gradient_rows, widths))
    return ScaleTarget(lbnn.Network(widths).scale_prior(outputs).coordinates, likelihood, axes)
