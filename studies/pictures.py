"""Draw the pictures of README and of the page on concepts: `python -m studies.pictures` (two minutes)."""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import re
import warnings
from collections.abc import Sequence
from pathlib import Path

os.environ["SOURCE_DATE_EPOCH"] = "0"  # no dates in the files: same machine, same bytes

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

import lbnn
from lbnn import plots

DOCS = Path(__file__).resolve().parent.parent / "docs"
IMAGES = DOCS / "images"
STYLE = {"svg.hashsalt": "lbnn", "savefig.facecolor": "white", "figure.constrained_layout.use": True}
STYLE |= {"font.size": 10, "axes.titlesize": 10, "axes.spines.top": False, "axes.spines.right": False}
BLUE, ORANGE, _ = plots.COLOURS[:3]
INPUTS = np.array([-2.6, -2.2, -1.9, -1.1, -0.5, 0.2, 0.9, 1.3])
GRID = np.linspace(-5, 5, 121)
WIDTHS = (1, 2, 3, 4, 6, 8, 12, 16, 32, 64, 128, 256)


def draw_example() -> None:
    """scale.svg: by the Python block of the page on concepts, as it is written."""
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / "concepts.md").read_text("utf-8"), re.DOTALL)
    with contextlib.chdir(IMAGES):
        exec(next(block for block in blocks if "scale.svg" in block), {})


def draw_bands() -> None:
    """bands.svg: predictive bands of depth one, two and ten on small and on large targets."""
    figure, rows = plt.subplots(2, 3, sharex=True, sharey=True, figsize=(8.4, 5.0))
    for panels, amplitude, name in zip(rows, (0.25, 3.0), ("small", "large"), strict=True):
        for axes, depth in zip(panels, (1, 2, 10), strict=True):
            post = draw_band(axes, (5,) * (depth - 1), amplitude * np.sin(1.5 * INPUTS), 1e4)
            text = f"log evidence {post.log_evidence:.1f}".replace("-", "\N{MINUS SIGN}")
            axes.text(0.97, 0.97, text, transform=axes.transAxes, ha="right", va="top", fontsize=9)
        panels[0].set_ylabel(f"output, {name} targets")
    for axes, depth in zip(rows[0], (1, 2, 10), strict=True):
        axes.set_title(f"depth {depth}" + (" (Gaussian process)" if depth == 1 else ", width 5"))
    rows[0, 0].set_ylim(-5.5, 6.5)
    figure.supxlabel("input t", fontsize=10)
    figure.savefig(IMAGES / "bands.svg")


def draw_temperature() -> None:
    """temperature.svg: the same data at three inverse temperatures."""
    figure, panels = plt.subplots(1, 3, sharey=True, figsize=(8.4, 2.9))
    targets = np.sin(1.5 * INPUTS) + 0.3 * np.random.default_rng(5).standard_normal(len(INPUTS))
    for axes, beta in zip(panels, (1.0, 10.0, math.inf), strict=True):
        draw_band(axes, (5, 5), targets, beta)
        axes.set(title="β = ∞" if math.isinf(beta) else f"β = {beta:g}", xlabel="input t", ylim=(-3, 3))
    panels[0].set_ylabel("output")
    figure.savefig(IMAGES / "temperature.svg")


def draw_band(axes: Axes, widths: Sequence[int], targets: np.ndarray, beta: float) -> lbnn.Posterior:
    """A network on the features of a squared-exponential kernel."""
    kernel = np.exp(-0.5 * (np.concatenate([INPUTS, GRID])[:, None] - np.concatenate([INPUTS, GRID])) ** 2)
    count = len(INPUTS)
    post = lbnn.Network(widths).condition_gram(kernel[:count, :count], targets, beta)
    predictive = post.predict(cross_gram=kernel[count:, :count], test_gram=kernel[count:, count:])
    plots.predictive_band(predictive, GRID, axes)
    axes.plot(INPUTS, targets, "o", color="black", markersize=3.5)
    axes.set(xlabel="", ylabel="")
    return post


def draw_network() -> None:
    """network.svg: the weights of a network, and what is left of them in function space."""
    figure, axes = plt.subplots(figsize=(8.4, 2.9))
    columns = [(x, 0.45 * (np.arange(units) - (units - 1) / 2)) for x, units in enumerate((6, 4, 4, 2))]
    for (left, below), (right, above) in itertools.pairwise(columns):
        for start, end in itertools.product(below, above):
            axes.plot([left, right], [start, end], color=ORANGE if left else BLUE, lw=0.6, alpha=0.6)
    names = ("inputs", "width $n_1$", "width $n_2$", "outputs")
    for (x, units), name in zip(columns, names, strict=True):
        axes.plot(np.full(len(units), x), units, "o", mfc="white", mec="black", ms=9)
        axes.text(x, -1.45, name, ha="center", va="top")
        if x:
            axes.text(x - 0.5, 1.4, f"$W_{x}$", ha="center", color=ORANGE if x > 1 else BLUE)
    axes.annotate("", (4.3, 0), (3.4, 0), arrowprops={"arrowstyle": "-|>", "color": "black"})
    for y, text, colour in (
        (0.55, "Gaussian process over the inputs", BLUE),
        (0.0, "times one random matrix over the outputs:", "black"),
        (-0.55, "$L = W_3 W_2 W_2^{\\top} W_3^{\\top}$", ORANGE),
    ):
        axes.text(4.5, y, text, color=colour, va="center")
    axes.set(xlim=(-0.4, 8.0), ylim=(-1.9, 1.9))
    axes.axis("off")
    figure.savefig(IMAGES / "network.svg")


def draw_coupling() -> None:
    """coupling.svg: two outputs at one point, before and after data in which they are nearly opposite."""
    figure, panels = plt.subplots(1, 4, figsize=(9.6, 2.9))
    rng = np.random.default_rng(3)
    X, new = rng.standard_normal((20, 60)), rng.standard_normal((1, 60))
    signal = X @ rng.standard_normal(60) / math.sqrt(60)
    Y = np.stack([signal, -signal], axis=1) + 0.1 * rng.standard_normal((20, 2))
    for number, axes in enumerate(panels):
        net, after = lbnn.Network((2,) * (number % 2)), number > 1
        law = net.condition(X, Y, beta=100.0).predict(new) if after else net.prior(np.ones((1, 4)), outputs=2)
        axes.plot(*law.sample(500, 0)[:, 0].T, ".", color=(BLUE, ORANGE)[number % 2], markersize=1.5)
        axes.set_title(f"{'posterior' if after else 'prior'}, depth {net.depth}" + ", width 2" * (number % 2))
        axes.set(xlabel="output 1", xticks=(-3, 0, 3), yticks=(-3, 0, 3), xlim=(-4, 4), ylim=(-4, 4))
        axes.set_aspect("equal")
    panels[0].set_ylabel("output 2")
    figure.savefig(IMAGES / "coupling.svg")


def draw_widths() -> None:
    """widths.svg: log evidence against the width, for outputs of one cause and of four causes."""
    figure, panels = plt.subplots(1, 2, figsize=(8.4, 3.2))
    for axes, causes, name in zip(panels, (1, 4), ("one cause", "four causes"), strict=True):
        rng = np.random.default_rng(1)
        X = rng.standard_normal((60, 100))
        mixing = rng.standard_normal((causes, 4)) if causes < 4 else np.eye(4)
        teacher = rng.standard_normal((100, causes)) / 10 @ (mixing / np.linalg.norm(mixing, axis=0))
        spectrum = lbnn.Spectrum.from_inputs(X, X @ teacher + 0.5 * rng.standard_normal((60, 4)))
        plain = lbnn.Network(()).condition_spectrum(spectrum, 4.0).log_evidence
        for hidden, colour in ((1, BLUE), (2, ORANGE)):
            networks = [lbnn.Network((width,) * hidden) for width in WIDTHS]
            gains = [net.condition_spectrum(spectrum, 4.0).log_evidence - plain for net in networks]
            axes.plot(WIDTHS, gains, "o-", color=colour, markersize=3, label=f"depth {hidden + 1}")
        axes.axhline(0, color="grey", lw=1, ls="--")
        axes.set_xscale("log", base=2)
        axes.set(xlabel="width of the hidden layers", title=f"four outputs, {name}")
    panels[0].set_ylabel("log evidence less\nthat of infinite width")
    panels[1].set_ylim(-30, 4)  # widths below four cannot carry four causes: far below
    panels[1].legend(frameon=False, fontsize=9, loc="lower right")
    figure.savefig(IMAGES / "widths.svg")


# ---------------------------------------------------------------------- fitted and collapsed networks


def posterior(widths: Sequence[int], variance: float, noise: float) -> lbnn.Posterior:
    """Twenty examples of two inputs, a teacher of unit length; the same prior variance in every layer."""
    rng = np.random.default_rng(0)
    X, teacher = rng.normal(size=(20, 2)), rng.normal(size=2)
    y = X @ (teacher / np.linalg.norm(teacher)) + noise * rng.normal(size=20)
    return lbnn.Network(widths, (variance,) * (len(widths) + 1)).condition(X, y, 1 / noise**2)


def draw_phases() -> None:
    """phases.svg: log density of log λ, and the mass of the collapsed phase over prior variance and noise."""
    figure, panels = plt.subplots(1, 3, figsize=(9.6, 3.2))
    x, post = np.linspace(-16.0, 2.0, 600), posterior((2, 2), 0.01, 0.1196)
    panels[0].plot(x, post.scale.log_density(np.exp(x)) + x, color=BLUE)
    panels[0].set(xlabel="log λ", ylabel="log density of log λ", ylim=(-40, 5), title="depth 3, width 2")
    variances, noises = np.geomspace(1e-3, 0.5, 24), np.geomspace(0.02, 1.0, 48)
    for axes, depth in zip(panels[1:], (3, 5), strict=True):
        mass = [[collapsed((2,) * (depth - 1), v, noise) for v in variances] for noise in noises]
        image = axes.pcolormesh(variances, noises, mass, cmap="PuOr_r", vmin=0, vmax=1, rasterized=True)
        axes.set(xscale="log", yscale="log", xlabel="prior variance of every layer")
        axes.set_title(f"depth {depth}, width 2")
    panels[1].plot(0.01, 0.1196, "o", color="black", markersize=4)
    panels[1].set_ylabel("noise")
    figure.colorbar(image, ax=panels, label="mass of the collapsed phase", shrink=0.9)
    figure.savefig(IMAGES / "phases.svg", dpi=200)


def collapsed(widths: Sequence[int], variance: float, noise: float) -> float:
    """Posterior probability of the phases in which nothing is fitted."""
    with warnings.catch_warnings(action="ignore", category=lbnn.AccuracyWarning):
        phases = posterior(widths, variance, noise).scale.phases()
    return float(phases.mass[phases.fitted_directions == 0].sum())


if __name__ == "__main__":
    with mpl.rc_context(STYLE):
        for name, draw in list(globals().items()):
            if name.startswith("draw_") and name != "draw_band":
                draw()
