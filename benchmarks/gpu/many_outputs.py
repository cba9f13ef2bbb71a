"""n_d = 1000, n_1 = 4000, p = 2000."""

from __future__ import annotations

import time
from typing import Any

from benchmarks.gpu.atoms import scale_target
from benchmarks.gpu.devices import BETA, device, min_seconds, problem, timed, warm


def profile(library: str, small: bool) -> dict[str, Any]:
    """n_d = 1000, n_1 = 4000, p = 2000: what one gradient costs, and the search for the mode."""
    import numpy as np

    from lbnn.engines import target as module
    from lbnn.engines.importance import find_mode

    place = device(library)
    warm(place)
    module._WORTH_MOVING = 0.0
    outputs, examples, width = (40, 80, 160) if small else (1000, 2000, 4000)
    started = time.perf_counter()
    target = scale_target(place, outputs, examples, width)
    result: dict[str, Any] = {"coordinates": target.dimension, "spectrum s": time.perf_counter() - started}
    u = np.random.default_rng(0).standard_normal((4, target.dimension))
    target.value_and_gradient(u[:1])
    result["gradient, one atom, s"] = min_seconds(lambda: target.value_and_gradient(u[:1]), 3)[0]
    result["gradient, four atoms, s"] = min_seconds(lambda: target.value_and_gradient(u), 2)[0]
    total = place.put(np.tril(np.random.default_rng(1).standard_normal((outputs, outputs))))
    result["eigh of one L, s"] = timed(lambda: place.xp.linalg.eigh(total @ total.T)[0], place, 3)[0]
    print(result, flush=True)
    started = time.perf_counter()
    mode = find_mode(target, np.zeros(target.dimension))
    result["mode by L-BFGS s"] = time.perf_counter() - started
    gradient = target.value_and_gradient(mode[None])[1][0]
    result["largest slope left at the mode"] = float(np.abs(gradient).max())
    result["dense curvature would take GB"] = 8e-9 * target.dimension**2
    return result


def posterior(library: str, small: bool) -> dict[str, Any]:
    """n_d = 1000, n_1 = 4000, p = 2000: the posterior as `condition` finds it."""
    import warnings

    import lbnn

    place = device(library)
    warm(place)
    outputs, examples, width = (40, 80, 160) if small else (1000, 2000, 4000)
    X, Y, _ = problem(place, examples, examples + 500, outputs, 10)
    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        post = lbnn.Network((width,)).condition(X, Y, BETA)
    seconds = time.perf_counter() - started
    diagnostics = post.diagnostics
    return {
        "seconds": seconds,
        "ok": diagnostics.ok,
        "engine": diagnostics.engine,
        "effective draws": diagnostics.effective_sample_size,
        "messages": list(diagnostics.messages),
    }
