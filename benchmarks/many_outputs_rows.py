"""Many outputs, and deep narrow networks at low noise: CPU seconds, and whether the answer says ok.

python -m benchmarks.many_outputs_rows
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np

import lbnn

ROWS: list[tuple[tuple[int, ...], int, int, float]] = [  # widths, outputs, examples, β
    ((40,), 20, 300, 10.0),
    ((100,), 50, 300, 10.0),
    ((500,), 100, 300, 10.0),
    ((4000,), 200, 300, 10.0),
    ((2,) * 7, 2, 20, 1e4),
    ((5,) * 7, 5, 20, 1e4),
    ((10,) * 7, 10, 50, 1e3),
]


def answer(
    widths: tuple[int, ...], outputs: int, examples: int, beta: float, seed: int = 0
) -> dict[str, Any]:
    """One posterior of a linear teacher of full rank with noise 0.3, after the eigendecomposition."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((examples, 2 * examples))
    Y = X @ rng.standard_normal((2 * examples, outputs)) / np.sqrt(2 * examples)
    spectrum = lbnn.Spectrum.from_inputs(X, Y + 0.3 * rng.standard_normal(Y.shape))
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        post = lbnn.Network(widths).condition_spectrum(spectrum, beta)
    told = post.diagnostics
    return {
        "seconds": round(time.process_time() - start, 2),
        "ok": told.ok,
        "engine": told.engine,
        "log_evidence": post.log_evidence,
        "error": post.log_evidence_error,
        "witnesses": [(each.method, each.log_evidence, each.error) for each in told.estimates],
        "messages": told.messages,
    }


def run(repeats: int) -> None:
    """Each row once: they take seconds to a minute."""
    for row in ROWS:
        print(row, answer(*row), flush=True)


if __name__ == "__main__":
    run(1)
