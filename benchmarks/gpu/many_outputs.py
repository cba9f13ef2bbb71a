"""n_d = 1000, n_1 = 4000, p = 2000."""

from __future__ import annotations

import time
from typing import Any

from benchmarks.gpu.devices import BETA, device, problem, warm


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
