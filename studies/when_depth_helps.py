"""When does depth help on average: exact learning curves of one-output networks over a grid.

    python -m studies.when_depth_helps run     # three minutes of one core: when-depth-helps.json
    python -m studies.when_depth_helps         # the tables and the picture of the page

All networks are given the same data sets, so that differences between them have small errors of their own.
"""

from __future__ import annotations

import itertools
import json
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np

import lbnn
from lbnn._base.checkout import provenance
from lbnn.learning_curves.curve import _problem
from lbnn.learning_curves.gaussian_data import Teacher
from lbnn.learning_curves.limits import Asymptotics, limit_curve
from lbnn.learning_curves.sampled import QUANTITIES, sample_point

STORED = Path(__file__).with_name("when-depth-helps.json")
IMAGE = STORED.parent.parent / "docs" / "images" / "when-depth-helps-gain.svg"
INPUTS = {20: 300, 100: 100, 1000: 12}  # data sets of each
RATIOS, NORMS, NOISES = (0.25, 0.5, 1.0, 2.0), (0.3, 1.0, 3.0), (0.1, 0.5)
WIDTHS, DEPTHS = (3, 10, 100), (2, 3, 5)
NETWORKS = ((), *((width,) * (depth - 1) for depth in DEPTHS for width in WIDTHS))
THEORIES = "infinite width", "proportional"
BETTER = {"error": -1, "gibbs_error": -1, "log_evidence": 1}


def point(inputs: int, ratio: float, norm: float, noise: float, draws: int) -> dict[str, Any]:
    """Of every network the averages, their differences from depth one with errors, and the theories."""
    examples, rows, first = round(ratio * inputs), [], None
    for widths in NETWORKS:
        net = lbnn.Network(widths)
        problem = _problem(net, examples, inputs, Teacher(norm, noise), noise**-2)
        values = sample_point(problem, 1e-9, draws, 0).values  # (draws, quantities); always all draws
        first = values if first is None else first
        gap, size = values - first, [Asymptotics(examples, inputs, norm**2, noise**2, noise**2)]
        curves = {name: limit_curve(name, size, widths, net.prior_variances) for name in THEORIES}
        rows.append(
            {
                "widths": widths,
                "mean": values.mean(axis=0).tolist(),
                "gain": gap.mean(axis=0).tolist(),
                "gain_error": (gap.std(axis=0, ddof=1) / math.sqrt(len(gap))).tolist(),
                "limits": {name: [float(getattr(curves[name], q)[0]) for q in QUANTITIES] for name in curves},
            }
        )
    return {"inputs": inputs, "ratio": ratio, "norm": norm, "noise": noise, "networks": rows}


def run() -> None:
    """Compute every point."""
    grid = itertools.product(INPUTS.items(), RATIOS, NORMS, NOISES)
    points = [point(inputs, *at, draws) for (inputs, draws), *at in grid]
    origin = [provenance("python -m studies.when_depth_helps run")]
    STORED.write_text(json.dumps({"provenance": origin, "quantities": QUANTITIES, "points": points}) + "\n")


def best(point: dict[str, Any], quantity: str) -> tuple[str, float, float, float]:
    """Depth × width of the network with the best average, its advantage over depth one, error, and base."""
    sign, index = BETTER[quantity], QUANTITIES.index(quantity)
    found = max(point["networks"], key=lambda each: sign * each["mean"][index])
    widths, base = found["widths"], point["networks"][0]["mean"][index]
    name = f"{len(widths) + 1} × {widths[0]}" if widths else "1"
    return name, sign * found["gain"][index], found["gain_error"][index], base


def print_winners(points: list[dict[str, Any]]) -> None:
    """The best network at every point."""
    for point in points:
        cells = [f"{point[name]:g}" for name in ("inputs", "ratio", "norm", "noise")]
        for quantity in ("error", "gibbs_error"):
            name, gain, error, base = best(point, quantity)
            cells += [name, f"{100 * gain / base:.1f}({100 * error / base:.1f})%"]
        name, gain, error, _ = best(point, "log_evidence")
        print("|", " | ".join([*cells, name, f"{gain:.2f}({error:.2f})"]), "|")


def print_distances(points: list[dict[str, Any]]) -> None:
    """Median and largest relative distance of the Gibbs errors of the theories, by the number of inputs."""
    index = QUANTITIES.index("gibbs_error")
    for inputs, theory in itertools.product(INPUTS, THEORIES):
        networks = [each for at in points if at["inputs"] == inputs for each in at["networks"][1:]]
        gaps = [100 * abs(each["limits"][theory][index] / each["mean"][index] - 1) for each in networks]
        print(f"| {inputs} | {theory} | {np.median(gaps):.1f}% | {max(gaps):.0f}% |")


def draw(points: list[dict[str, Any]]) -> None:
    """Share of the Gibbs error saved by the best network, noise 0.5."""
    import matplotlib.pyplot as plt

    from lbnn.plots import COLOURS

    figure, panels = plt.subplots(1, len(NORMS), figsize=(11, 3.6), layout="constrained", sharey=True)
    for axes, norm in zip(panels, NORMS, strict=True):
        for inputs, colour in zip(INPUTS, COLOURS, strict=False):
            here = [p for p in points if (p["inputs"], p["norm"], p["noise"]) == (inputs, norm, NOISES[1])]
            gains = [100 * gain / base for _, gain, _, base in (best(p, "gibbs_error") for p in here)]
            axes.semilogx(RATIOS, gains, "o-", color=colour, label=f"$n_0$ = {inputs}")
        axes.set(title=f"|w| = {norm:g}, noise 0.5", xlabel="$p/n_0$")
        axes.set_xticks(RATIOS, [f"{ratio:g}" for ratio in RATIOS], minor=False)
        axes.minorticks_off()
    panels[0].set_ylabel("Gibbs error saved by depth, %")
    panels[0].legend(frameon=False)
    figure.savefig(IMAGE, metadata={"Date": None})


if __name__ == "__main__":
    if sys.argv[1:] == ["run"]:
        run()
    stored = json.loads(STORED.read_text())["points"]
    print_winners(stored)
    print_distances(stored)
    draw(stored)
