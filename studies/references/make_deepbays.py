"""Saddle points of deepbays 0.1.11 for linear networks of one output, into deepbays.json.

    pip install deepbays==0.1.11 && python studies/references/make_deepbays.py

Its order parameters Q minimise Σ_ℓ (Q_ℓ − log Q_ℓ) + (1/n)[log det A + yᵀA⁻¹y] with
A = T I + Π_ℓ (Q_ℓ/λ_ℓ) XXᵀ/(n0 λ_0), T the temperature and λ the prior precisions of the layers.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
import types
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch

# deepbays imports cupy, though only its classes for a GPU use it.
for name in ("cupy", "cupy.cuda"):
    sys.modules.setdefault(name, types.ModuleType(name))
sys.modules["cupy.cuda"].Device = None  # type: ignore[attr-defined]
import deepbays.kernels  # noqa: E402
from deepbays import rkgp  # noqa: E402

# 0.1.11 has the identity's kernel for NumPy but does not export it; for torch (deep networks) it has none.
deepbays.kernels.kernel_id = deepbays.kernels.kernels.kernel_id
deepbays.kernels.kernel_id_torch = lambda cxx, cxy, cyy: cxy

# Gram matrices are invertible: deepbays takes eigenvectors by `eig`, not orthogonal in a null space. In deep
# networks it holds T·I in single precision, hence temperatures that are powers of two.
CASES: list[dict[str, Any]] = [
    {"examples": 6, "inputs": 10, "width": 20, "layers": 1, "temperature": 0.5, "precisions": [1.0, 1.0]},
    {"examples": 6, "inputs": 10, "width": 20, "layers": 1, "temperature": 0.01, "precisions": [0.8, 1.6]},
    {"examples": 12, "inputs": 15, "width": 5, "layers": 1, "temperature": 0.1, "precisions": [1.0, 0.5]},
    {"examples": 12, "inputs": 14, "width": 300, "layers": 1, "temperature": 1.0, "precisions": [1.3, 1.0]},
    {
        "examples": 6,
        "inputs": 10,
        "width": 20,
        "layers": 2,
        "temperature": 0.5,
        "precisions": [1.0, 1.0, 1.0],
    },
    {
        "examples": 10,
        "inputs": 15,
        "width": 8,
        "layers": 3,
        "temperature": 0.0625,
        "precisions": [0.9, 1.1, 1.2, 0.7],
    },
]
PROBES = (0.3, 1.0, 2.5)


def saddle(case: dict[str, Any], X: np.ndarray, y: np.ndarray, X_test: np.ndarray) -> dict[str, Any]:
    """Order parameters, values of the action and predictions."""
    first, *others = case["precisions"]
    if case["layers"] == 1:
        model = rkgp.FC_1HL(case["width"], case["temperature"], first, others[0], act="id")
        model.preprocess(X, y)
        action = [float(model.effectiveAction(probe)) for probe in PROBES]
        targets: Any = y
    else:
        model = rkgp.FC_deep(case["layers"], case["width"], case["temperature"], case["precisions"], act="id")
        targets = torch.tensor(y)
        model.preprocess(X, targets)
        action = [
            float(model.effectiveAction(torch.full((case["layers"],), probe, dtype=torch.float64)))
            for probe in PROBES
        ]
    model.optimize()
    mean = np.asarray(model.predict(X_test), float)
    return {"order_parameters": np.atleast_1d(model.optQ).tolist(), "action": action, "mean": mean.tolist()}


def main() -> None:
    rng = np.random.default_rng(20)
    entries = []
    for case in CASES:
        X = rng.standard_normal((case["examples"], case["inputs"])).round(3)
        y = (1.6 * X @ rng.standard_normal(case["inputs"]) / np.sqrt(case["inputs"])).round(3)
        X_test = rng.standard_normal((2, case["inputs"])).round(3)
        with contextlib.redirect_stdout(io.StringIO()):
            answer = saddle(case, X, y, X_test)
        data = {"X": X.tolist(), "y": y.tolist(), "X_test": X_test.tolist()}
        entries.append({**case, **data, **answer})
    content = {"deepbays": version("deepbays"), "probes": PROBES, "cases": entries}
    (Path(__file__).resolve().parents[2] / "tests" / "reference" / "deepbays.json").write_text(
        json.dumps(content) + "\n", encoding="utf-8"
    )


if __name__ == "__main__":
    main()
