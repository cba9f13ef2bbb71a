"""Draw pictures of pages of docs/results from the numbers stored beside them.

.venv/bin/python docs/make_result_images.py
"""

from __future__ import annotations

import json
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from make_images import IMAGES, ROOT, style
from scipy import stats

from lbnn import plots

BLUE, ORANGE, GREEN = plots.COLOURS[:3]


def stored(name: str) -> Any:
    """Numbers stored beside the pages of results."""
    return json.loads((ROOT / "docs" / "results" / f"{name}.json").read_text(encoding="utf-8"))


def draw_several_outputs() -> None:
    """several-outputs.svg: errors in units of stated errors, beside the standard normal distribution."""
    rows = [row for row in stored("against-truth")["rows"] if row["ok"]]
    sampled = [row["z"] for row in rows if row["error"] > 0]
    entries = [z for row in rows for z in row["z_scale"] if z is not None]
    figure, panels = plt.subplots(1, 2, figsize=(8.4, 3.0), layout="constrained", sharex=True)
    edges, line = np.linspace(-5, 5, 41), np.linspace(-5, 5, 201)
    for axes, values, title in (
        (panels[0], sampled, f"log evidence, {len(sampled)} answers"),
        (panels[1], entries, f"diagonal entries of E L, {len(entries)}"),
    ):
        axes.hist(values, edges, density=True, color=BLUE, alpha=0.7)
        axes.plot(line, stats.norm.pdf(line), color="black", lw=1)
        axes.set_title(title, fontsize=10)
        axes.set(xlabel="error / stated error", yticks=[])
    figure.savefig(IMAGES / "several-outputs.svg")


def draw_himalaya() -> None:
    """bands-himalaya.svg: errors of functions and of shares against the signal-to-noise ratio."""
    figure, panels = plt.subplots(1, 2, figsize=(8.4, 3.2), layout="constrained")
    for rows, marker in ((500, "o-"), (250, "s--")):
        found = stored("bands")[f"himalaya, p = {rows}"]
        for program, colour in (("lbnn", BLUE), ("himalaya", ORANGE)):
            for axes, quantity in (
                (panels[0], "squared error of the function over its variance"),
                (panels[1], "error of shares"),
            ):
                errors = found[f"{program}: {quantity}"]
                ratios = [float(ratio) for ratio in errors]
                axes.loglog(
                    ratios, list(errors.values()), marker, ms=4, color=colour, label=f"{program}, {rows} rows"
                )
    for axes, name, ticks in (
        (panels[0], "squared error / variance", [0.5, 1, 2]),
        (panels[1], "error of a share", [0.03, 0.05, 0.1]),
    ):
        axes.set(xlabel="signal-to-noise ratio", ylabel=name)
        axes.set_xticks(ratios, [f"{ratio:g}" for ratio in ratios], minor=False)
        axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks], minor=False)
        axes.minorticks_off()
    panels[0].legend(frameon=False, fontsize=8)
    figure.savefig(IMAGES / "bands-himalaya.svg")


def draw_relu() -> None:
    """relu-reach.svg: distance to the exact predictive with and without the random scale."""
    rows = stored("relu-reach")["rows"]
    figure, axes = plt.subplots(figsize=(5.2, 3.8), layout="constrained")
    for size, colour in zip((0.3, 1.0, 3.0), plots.COLOURS, strict=False):
        pairs = [
            (row["approximations"]["NNGP"], row["approximations"]["scale of a linear network"])
            for row in rows
            if row["size"] == size
        ]
        divergences = np.array([[one["divergence"], other["divergence"]] for one, other in pairs])
        axes.loglog(*divergences.T, "o", ms=4, color=colour, label=f"targets of size {size:g}")
    line = np.array([1e-4, 50])
    axes.loglog(line, line, color="0.5", lw=0.8)
    axes.set(xlabel="KL divergence, NNGP kernel (nats)", ylabel="KL divergence, with a random scale")
    axes.legend(frameon=False, fontsize=8)
    figure.savefig(IMAGES / "relu-reach.svg")


def draw_speed() -> None:
    """speed.svg: effective draws of all weights per CPU second against their number."""
    rows = stored("benchmarks")["several outputs"]
    weights = [row["weights"] for row in rows]
    figure, axes = plt.subplots(figsize=(5.2, 3.4), layout="constrained")
    for program, marker, colour in (("lbnn", "o-", BLUE), ("nutpie", "s-", ORANGE), ("NumPyro", "^-", GREEN)):
        rates = [row["median ESS per CPU second"][program] for row in rows]
        axes.loglog(weights, rates, marker, ms=4, color=colour, label=program)
    axes.set(xlabel="number of weights", ylabel="effective draws per CPU second")
    axes.legend(frameon=False, fontsize=8)
    figure.savefig(IMAGES / "speed.svg")


if __name__ == "__main__":
    with style():
        draw_speed()
        draw_several_outputs()
        draw_himalaya()
        draw_relu()
