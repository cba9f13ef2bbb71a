"""Pictures of the page on views: `python docs/make_view_images.py` writes them to docs/images."""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib as mpl
import numpy as np

mpl.use("Agg")
import matplotlib.pyplot as plt

import lbnn

FOLDER = Path(__file__).parent / "images"


def gated_function(count: int = 40) -> None:
    """A gated network on a function of one variable, with its exact band and that of the saddle."""
    rng = np.random.default_rng(3)
    x = np.sort(rng.uniform(-1, 1, count))
    y = np.abs(x) + 0.3 * np.sin(4 * x) + 0.05 * rng.normal(size=count)
    knots = np.array([-0.5, 0.0, 0.5])

    def views(points):
        inputs = np.stack([points, np.ones_like(points)], axis=1)
        piece = np.searchsorted(knots, points)
        return lbnn.views.gates(inputs, (piece[:, None] == np.arange(4)).astype(float))

    network = lbnn.Network(widths=(4,), prior_variances=(4.0, 1.0))
    grid = np.linspace(-1.2, 1.2, 241)
    exact = network.condition_views(views(x), y, beta=400.0).predict(views=views(grid))
    saddle = lbnn.asymptotics.view_saddle(network, views(x), y, beta=400.0).predict(views(grid))
    figure, axes = plt.subplots(figsize=(6.4, 3.6))
    low, high = exact.interval(0.95)
    axes.fill_between(grid, low, high, alpha=0.3, label="exact, 95%", linewidth=0)
    axes.plot(grid, exact.mean, label="exact, mean")
    low, high = saddle.interval(0.95)
    axes.plot(grid, low, "k--", linewidth=0.8, label="saddle, 95%")
    axes.plot(grid, high, "k--", linewidth=0.8)
    axes.plot(x, y, "k.", markersize=4)
    axes.set(xlabel="x", ylabel="f(x)", ylim=(-0.8, 2.0))
    axes.legend(frameon=False)
    figure.tight_layout()
    figure.savefig(FOLDER / "views-gated.svg")


def convolution(count: int = 40) -> None:
    """E L of a convolutional network over positions, exact and at the saddle, as channels grow."""
    rng = np.random.default_rng(5)
    images = rng.normal(size=(count, 4, 4))
    views = lbnn.views.patches(images, size=2, stride=2)
    y = views[:, 0] @ rng.normal(size=4) - views[:, 3] @ rng.normal(size=4) + 0.1 * rng.normal(size=count)
    widths = [2, 4, 8, 16, 32, 64, 128, 256]
    exact, errors, saddle = [], [], []
    for width in widths:
        network = lbnn.Network(widths=(width,))
        scale = network.condition_views(views, y, beta=100.0).scale
        value, error = scale.expect_with_error(np.trace)
        exact.append(value), errors.append(error)
        saddle.append(np.trace(lbnn.asymptotics.view_saddle(network, views, y, beta=100.0).scale))
    exact, saddle = np.array(exact), np.array(saddle)
    for width, own, error, point in zip(widths, exact, errors, saddle, strict=True):
        print(f"width {width}: tr E L {own:.4f} ± {error:.4f}, saddle {point:.4f} ({point / own - 1:+.2%})")
    figure, axes = plt.subplots(figsize=(6.4, 3.6))
    axes.errorbar(widths, exact, yerr=2 * np.array(errors), fmt="o-", markersize=4, label="exact, E tr L")
    axes.plot(widths, saddle, "k--", label="saddle")
    axes.set(xscale="log", xlabel="channels of the hidden layer", ylabel="tr L over four positions")
    axes.legend(frameon=False)
    figure.tight_layout()
    figure.savefig(FOLDER / "views-convolution.svg")


if __name__ == "__main__":
    gated_function()
    convolution()
    sys.exit(0)
