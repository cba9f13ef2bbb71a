"""CPU time of tables with missing cells beside complete ones, in turns, and of a gated network.

`OPENBLAS_NUM_THREADS=1 python -m benchmarks.views_cost --out docs/results/views-cost.json`
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np

import lbnn
from lbnn._base.checkout import provenance

INPUTS, ROWS, OUTPUTS, MISSING, BETA = (30, 100, 300), 200, 10, 0.05, 10.0


def seconds(condition):
    """CPU seconds of one call, and whether its answer is ok."""
    began = time.process_time()
    post = condition()
    return time.process_time() - began, post.diagnostics.ok


def tables(inputs, repeats):
    """Complete and incomplete tables in turns, the first turn not counted."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(ROWS, inputs))
    Y = X @ rng.normal(size=(inputs, OUTPUTS)) / np.sqrt(inputs) + 0.3 * rng.normal(size=(ROWS, OUTPUTS))
    observed, network = rng.random(Y.shape) > MISSING, lbnn.Network(widths=(20,))
    runs = []
    for seed in range(repeats + 1):
        whole = seconds(lambda seed=seed: network.condition(X, Y, BETA, seed=seed))
        partial = seconds(lambda seed=seed: network.condition(X, Y, BETA, observed=observed, seed=seed))
        runs.append((*whole, *partial))
    columns = np.array(runs[1:], float).T
    return {
        "inputs": inputs,
        "complete": float(np.median(columns[0])),
        "missing": float(np.median(columns[2])),
        "ratios": (columns[2] / columns[0]).tolist(),
        "ok": bool(columns[[1, 3]].all()),
    }


def gated():
    """300 observations, four gates of 100 inputs, depth three."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 100))
    scores = x @ rng.normal(size=(100, 4))
    views = lbnn.views.gates(x, (scores == scores.max(axis=1, keepdims=True)).astype(float))
    y = np.abs(x[:, 0]) + 0.1 * rng.normal(size=300)
    took, ok = seconds(lambda: lbnn.Network((20, 20)).condition_views(views, y, 100.0))
    return {"seconds": took, "ok": ok}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    result = {"tables": [tables(inputs, options.repeats) for inputs in INPUTS], "gated": gated()}
    print(json.dumps(result))
    origin = provenance("OPENBLAS_NUM_THREADS=1 python -m benchmarks.views_cost --out FILE")
    options.out.write_text(json.dumps(result | {"provenance": [origin]}, indent=1) + "\n")


if __name__ == "__main__":
    main()
