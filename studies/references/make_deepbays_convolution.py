"""Saddle points of deepbays 0.1.11 for one convolutional layer with the identity, into a JSON file.

    pip install deepbays==0.1.11 && python studies/references/make_deepbays_convolution.py

Its order parameters Q (M × M, M patches) make tr Q − log det Q + (1/n)[log det A + yᵀA⁻¹y] stationary, with
A = T I + Σ_ij Q_ij X_i X_jᵀ/(m λ_0 λ_1 M), X_i the patches of m numbers at position i and n channels.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
import types
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch

# deepbays imports cupy, though only its classes for a GPU use it.
for name in ("cupy", "cupy.cuda"):
    sys.modules.setdefault(name, types.ModuleType(name))
sys.modules["cupy.cuda"].Device = None  # type: ignore[attr-defined]
import deepbays.kernels  # noqa: E402
from deepbays.rkgp.theory_1HL_CONV import CONV_1HL  # noqa: E402

# 0.1.11 has the identity's kernel for NumPy but does not export it; for torch it has none.
deepbays.kernels.kernel_id = deepbays.kernels.kernels.kernel_id
deepbays.kernels.kernel_id_torch = lambda cxx, cxy, cyy: cxy

SIDE, MASK = 4, 2
CASES = [
    {"examples": 12, "channels": 4, "temperature": 0.25, "precisions": [1.0, 1.0]},
    {"examples": 12, "channels": 32, "temperature": 0.0625, "precisions": [0.8, 0.5]},
    {"examples": 30, "channels": 200, "temperature": 0.125, "precisions": [1.0, 0.25]},
]


def solved(case: dict, number: int) -> dict:
    """One case with its data and the solution Q of deepbays."""
    rng = np.random.default_rng(number)
    images = np.round(rng.normal(size=(case["examples"], SIDE, SIDE)), 3)
    y = np.round(images[:, :2, :2].sum(axis=(1, 2)) + 0.3 * rng.normal(size=len(images)), 3)
    l0, l1 = case["precisions"]
    theory = CONV_1HL(case["channels"], case["temperature"], MASK, MASK, l0, l1, act="id")
    theory.preprocess(images.reshape(len(images), -1), torch.tensor(y))
    with contextlib.redirect_stdout(io.StringIO()):
        theory.optimize(minimizationTol=1e-12, gradTol=1e-8)
    if not theory.converged:
        raise RuntimeError(f"deepbays did not converge in case {number}")
    action = float(theory.effectiveAction(torch.tensor(theory.optQ)))
    return {
        **case,
        "images": images.tolist(),
        "y": y.tolist(),
        "order_parameters": theory.optQ.tolist(),
        "action": action,
    }


def main() -> None:
    cases = [solved(case, number) for number, case in enumerate(CASES)]
    stored = {"deepbays": version("deepbays"), "patch": MASK, "cases": cases}
    path = Path(__file__).resolve().parents[2] / "tests" / "reference" / "deepbays_convolution.json"
    path.write_text(json.dumps(stored) + "\n")


if __name__ == "__main__":
    main()
