"""`LBNNRegressor(kernel="relu")` on the nonlinear sets of the study of real data, beside linear+rbf.

    python -m docs.experiments.relu_kernel_data

Run from the root of a checkout (it uses `benchmarks.real_data`); prints the table of
docs/results/relu-reach.md and writes docs/results/relu-kernel.json. Splits are the first of that study's.
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import numpy as np

import lbnn
from benchmarks.real_data import datasets
from benchmarks.real_data.metrics import measures
from benchmarks.real_data.study import forecast
from lbnn._base.checkout import provenance

DOCS = Path(__file__).resolve().parent.parent
SETS = (datasets.concrete, datasets.chemical_process, datasets.biomass, datasets.boston, datasets.cars)
KERNELS, SPLITS = ("linear+rbf", "relu"), 3


def main() -> None:
    """Fit every kernel on every split."""
    found: dict = {"provenance": [provenance("python -m docs.experiments.relu_kernel_data")]}
    for load in SETS:
        data = load()
        rows: dict = {kernel: {"evidence": [], "rmse": [], "joint": []} for kernel in KERNELS}
        for seed in range(SPLITS):
            X, Y, X_test, Y_test = data.split(seed)
            for kernel in KERNELS:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", lbnn.AccuracyWarning)
                    said = forecast(lbnn.LBNNRegressor(kernel=kernel), X, Y, X_test)
                    score = measures(said, Y_test)
                rows[kernel]["evidence"].append(float(said.log_evidence))
                for name in ("rmse", "joint"):
                    rows[kernel][name].append(float(score[name]))
        found[data.name] = rows
        first, second = (rows[kernel] for kernel in KERNELS)
        cells = [
            f"{np.mean(np.subtract(second['evidence'], first['evidence'])):+.1f}",
            *(f"{np.mean(each[name]):.3f}" for name in ("joint", "rmse") for each in (first, second)),
        ]
        print(f"| {data.name} | " + " | ".join(cells) + " |", flush=True)
        (DOCS / "results" / "relu-kernel.json").write_text(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
