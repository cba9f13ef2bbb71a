"""Draw the pictures of docs/concepts.md: `.venv/bin/python docs/make_concept_images.py` (half a minute)."""

from __future__ import annotations

import itertools
import math

import matplotlib.pyplot as plt
import numpy as np
from make_images import GRID, IMAGES, INPUTS, kernel, style
from matplotlib.axes import Axes
from matplotlib.patches import Circle

import lbnn
from lbnn import plots

BLUE, ORANGE, GREEN = plots.COLOURS[:3]
WIDTHS = (1, 2, 3, 4, 6, 8, 12, 16, 32, 64, 128, 256)


def draw_network() -> None:
    """network.svg: the weights of a network, and what is left of them in function space."""
    figure, axes = plt.subplots(figsize=(8.4, 2.9), layout="constrained")
    columns = [(0.0, 6), (1.3, 4), (2.6, 4), (3.9, 2)]
    for (left, below), (right, above) in itertools.pairwise(columns):
        colour = BLUE if left == 0 else ORANGE
        for i in range(below):
            for j in range(above):
                axes.plot(
                    [left, right], [height(i, below), height(j, above)], color=colour, lw=0.6, alpha=0.6
                )
    for x, units in columns:
        for i in range(units):
            axes.add_patch(
                Circle((x, height(i, units)), 0.09, facecolor="white", edgecolor="black", zorder=3)
            )
    for x, name in zip((0, 1.3, 2.6, 3.9), ("inputs", "width $n_1$", "width $n_2$", "outputs"), strict=True):
        axes.text(x, -1.45, name, ha="center", va="top")
    for x, name, colour in ((0.65, "$W_1$", BLUE), (1.95, "$W_2$", ORANGE), (3.25, "$W_3$", ORANGE)):
        axes.text(x, 1.4, name, ha="center", va="bottom", color=colour)
    axes.annotate(
        "", (5.7, 0), (4.5, 0), arrowprops={"arrowstyle": "-|>", "color": "black", "mutation_scale": 14}
    )
    axes.text(6.0, 0.55, "Gaussian process over the inputs", color=BLUE, va="center")
    axes.text(6.0, 0.0, "times one random matrix over the outputs:", va="center")
    axes.text(6.0, -0.55, "$L = W_3 W_2 W_2^{\\top} W_3^{\\top}$", color=ORANGE, va="center", fontsize=13)
    axes.set(xlim=(-0.4, 10.1), ylim=(-1.9, 1.9), aspect="equal")
    axes.axis("off")
    figure.savefig(IMAGES / "network.svg")


def height(unit: int, units: int) -> float:
    """Where a unit of a layer is drawn."""
    return 0.45 * (unit - (units - 1) / 2)


def draw_coupling() -> None:
    """coupling.svg: two outputs at one point, before the data and after them, at depth one and two."""
    figure, panels = plt.subplots(1, 4, figsize=(9.6, 2.9), layout="constrained")
    for axes, widths in zip(panels[:2], ((), (2,)), strict=True):
        draw_prior_cloud(axes, widths)
    for axes, widths in zip(panels[2:], ((), (2,)), strict=True):
        draw_posterior_cloud(axes, widths)
    for axes in panels:
        axes.set(xlabel="output 1", xticks=(-3, 0, 3), yticks=(-3, 0, 3), xlim=(-4, 4), ylim=(-4, 4))
        axes.set_aspect("equal")
    panels[0].set_ylabel("output 2")
    figure.savefig(IMAGES / "coupling.svg")


def draw_prior_cloud(axes: Axes, widths: tuple[int, ...]) -> None:
    """Outputs of the prior at one input."""
    draws = lbnn.Network(widths).prior(np.ones((1, 4)), outputs=2).sample(500, seed=0)[:, 0]
    axes.plot(*draws.T, ".", color=BLUE if not widths else ORANGE, markersize=1.5)
    axes.set_title(f"prior, {depth_name(widths)}", fontsize=10)


def draw_posterior_cloud(axes: Axes, widths: tuple[int, ...]) -> None:
    """Outputs at a new input, given twenty examples on which the outputs are nearly opposite."""
    rng = np.random.default_rng(3)
    X, new = rng.standard_normal((20, 60)), rng.standard_normal((1, 60))
    signal = X @ rng.standard_normal(60) / math.sqrt(60)
    Y = np.stack([signal, -signal], axis=1) + 0.1 * rng.standard_normal((20, 2))
    predictive = lbnn.Network(widths).condition(X, Y, beta=100.0).predict(new)
    draws = predictive.sample(500, seed=0)[:, 0]
    axes.plot(*draws.T, ".", color=BLUE if not widths else ORANGE, markersize=1.5)
    axes.set_title(f"posterior, {depth_name(widths)}", fontsize=10)


def depth_name(widths: tuple[int, ...]) -> str:
    """For a title."""
    return f"depth {len(widths) + 1}" + (f", width {widths[0]}" if widths else "")


def draw_widths() -> None:
    """widths.svg: log evidence against the width, for outputs of one cause and for outputs of their own."""
    figure, panels = plt.subplots(1, 2, figsize=(8.4, 3.2), layout="constrained")
    names = "four outputs, one cause", "four outputs, four causes"
    for axes, causes, name in zip(panels, (1, 4), names, strict=True):
        spectrum = four_outputs(causes)
        plain = lbnn.Network(()).condition_spectrum(spectrum, 4.0).log_evidence
        for hidden, colour in ((1, BLUE), (2, ORANGE)):
            networks = [lbnn.Network((width,) * hidden) for width in WIDTHS]
            gains = [net.condition_spectrum(spectrum, 4.0).log_evidence - plain for net in networks]
            axes.plot(WIDTHS, gains, "o-", color=colour, markersize=3, label=f"depth {hidden + 1}")
        axes.axhline(0, color="grey", lw=1, ls="--")
        axes.set_xscale("log", base=2)
        axes.set_xticks(WIDTHS[::2] + WIDTHS[-1:], [str(width) for width in WIDTHS[::2] + WIDTHS[-1:]])
        axes.set_xlabel("width of the hidden layers")
        axes.set_title(name, fontsize=10)
    panels[0].set_ylabel("log evidence less\nthat of infinite width")
    panels[1].set_ylim(-30, 4)  # widths below four cannot carry four causes: far below
    panels[1].legend(frameon=False, fontsize=9, loc="lower right")
    figure.savefig(IMAGES / "widths.svg")


def four_outputs(causes: int) -> lbnn.Spectrum:
    """Sixty examples of a hundred inputs; the outputs have unit variance and noise of variance 1/4 on top."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((60, 100))
    mixing = rng.standard_normal((causes, 4)) if causes < 4 else np.eye(4)
    teacher = rng.standard_normal((100, causes)) / 10 @ (mixing / np.linalg.norm(mixing, axis=0))
    return lbnn.Spectrum.from_inputs(X, X @ teacher + 0.5 * rng.standard_normal((60, 4)))


def draw_temperature() -> None:
    """temperature.svg: the same data, believed a little, more, and entirely."""
    figure, panels = plt.subplots(1, 3, sharey=True, figsize=(8.4, 2.9), layout="constrained")
    targets = np.sin(1.5 * INPUTS) + 0.3 * np.random.default_rng(5).standard_normal(len(INPUTS))
    for axes, beta in zip(panels, (1.0, 10.0, math.inf), strict=True):
        posterior = lbnn.Network((5, 5)).condition_gram(kernel(INPUTS, INPUTS), targets, beta)
        predictive = posterior.predict(cross_gram=kernel(GRID, INPUTS), test_gram=kernel(GRID, GRID))
        plots.predictive_band(predictive, GRID, axes)
        axes.plot(INPUTS, targets, "o", color="black", markersize=3.5)
        axes.set_title("β = ∞" if math.isinf(beta) else f"β = {beta:g}", fontsize=10)
        axes.set(xlabel="input t", ylabel="", ylim=(-3, 3))
    panels[0].set_ylabel("output")
    figure.savefig(IMAGES / "temperature.svg")


if __name__ == "__main__":
    with style():
        draw_network()
        draw_coupling()
        draw_widths()
        draw_temperature()
