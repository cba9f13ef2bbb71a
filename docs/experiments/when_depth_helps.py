"""When does depth help on average: exact learning curves of one-output networks over a grid.

    python docs/experiments/when_depth_helps.py run       # three minutes of one core
    python docs/experiments/when_depth_helps.py report    # tables and pictures of the page

Every network meets the same data sets, so that differences between networks have small errors of their own.
"""

from __future__ import annotations

import json
import math
import os
import sys
import time
from pathlib import Path

os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"


import lbnn
from lbnn._base.checkout import provenance
from lbnn.learning_curves.curve import _problem
from lbnn.learning_curves.gaussian_data import Teacher
from lbnn.learning_curves.limits import Asymptotics, limit_curve
from lbnn.learning_curves.sampled import QUANTITIES, sample_point

DOCS = Path(__file__).resolve().parent.parent
INPUTS = {20: 300, 100: 100, 1000: 12}  # data sets of each
RATIOS, NORMS, NOISES = (0.25, 0.5, 1.0, 2.0), (0.3, 1.0, 3.0), (0.1, 0.5)
WIDTHS, DEPTHS = (3, 10, 100), (2, 3, 5)
NETWORKS = ((), *((width,) * (depth - 1) for depth in DEPTHS for width in WIDTHS))
SIZES = (10, 20, 40, 80, 160, 320, 640, 1280)  # n0 of the approach to the replica curve


def point(inputs: int, ratio: float, norm: float, noise: float, draws: int) -> dict:
    """All networks at one place: averages, their errors, differences from depth one, and the theories."""
    examples, rows = round(ratio * inputs), []
    first = None
    for widths in NETWORKS:
        net = lbnn.Network(widths)
        problem = _problem(net, examples, inputs, Teacher(norm, noise), noise**-2)
        values = sample_point(problem, 1e-9, draws, 0).values  # always all draws
        first = values if first is None else first
        gap = values - first
        limits = {
            theory: [
                float(
                    getattr(
                        limit_curve(
                            theory,
                            [_limit(examples, inputs, norm, noise)],
                            widths,
                            net.prior_variances,
                        ),
                        q,
                    )[0]
                )
                for q in QUANTITIES
            ]
            for theory in ("infinite width", "proportional")
        }
        rows.append(
            {
                "widths": widths,
                "mean": values.mean(axis=0).tolist(),
                "error": (values.std(axis=0, ddof=1) / math.sqrt(len(values))).tolist(),
                "gain": gap.mean(axis=0).tolist(),
                "gain_error": (gap.std(axis=0, ddof=1) / math.sqrt(len(gap))).tolist(),
                "limits": limits,
            }
        )
    return {
        "inputs": inputs,
        "examples": examples,
        "ratio": ratio,
        "norm": norm,
        "noise": noise,
        "networks": rows,
    }


def _limit(examples: int, inputs: int, norm: float, noise: float) -> Asymptotics:
    return Asymptotics(examples, inputs, norm**2, noise**2, noise**2)


def approach(inputs: int, depth: int) -> dict:
    """Exact curve at zero temperature and the replica formula, p = n0/2 = widths."""
    half = inputs // 2
    net = lbnn.Network((half,) * (depth - 1))
    curve = lbnn.learning_curve(net, [half], inputs, 1.5, 0.5)
    limit = curve.limits["proportional"]
    return {
        "inputs": inputs,
        "depth": depth,
        **{q: [float(getattr(curve, q)[0]), float(getattr(limit, q)[0])] for q in QUANTITIES},
    }


def run() -> None:
    """Compute every point, and write docs/results/when-depth-helps.json."""
    begin, points = time.time(), []
    for inputs, draws in INPUTS.items():
        for ratio in RATIOS:
            for norm in NORMS:
                for noise in NOISES:
                    points.append(point(inputs, ratio, norm, noise, draws))
            print(f"{time.time() - begin:.0f} s: n0 = {inputs}, p/n0 = {ratio:g}", flush=True)
    approaches = [approach(inputs, depth) for depth in (2, 3) for inputs in SIZES]
    document = {
        "provenance": [provenance("python docs/experiments/when_depth_helps.py run")],
        "quantities": QUANTITIES,
        "draws": INPUTS,
        "points": points,
        "approach": approaches,
    }
    (DOCS / "results" / "when-depth-helps.json").write_text(json.dumps(document) + "\n")


if __name__ == "__main__":
    if sys.argv[1:] == ["run"]:
        run()
    else:
        from when_depth_helps_report import report

        report()
