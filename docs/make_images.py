"""Draw the pictures of README and docs: `.venv/bin/python docs/make_images.py`. Same machine, same bytes."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

os.environ["SOURCE_DATE_EPOCH"] = "0"  # no dates in the files

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

import lbnn
from lbnn import plots

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "images"
STYLE = {
    "svg.hashsalt": "lbnn",
    "figure.figsize": (6.4, 3.6),
    "figure.dpi": 100,
    "savefig.facecolor": "white",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
}
INPUTS = np.array([-2.6, -2.2, -1.9, -1.1, -0.5, 0.2, 0.9, 1.3])
GRID = np.linspace(-5, 5, 121)


def concepts_example() -> str:
    """The Python block of the page on concepts that draws scale.svg."""
    blocks = re.findall(
        r"```python\n(.*?)```", (ROOT / "docs" / "concepts.md").read_text(encoding="utf-8"), re.DOTALL
    )
    (example,) = (block for block in blocks if "scale.svg" in block)
    return example


def draw_concepts_example() -> None:
    """scale.svg: by running the example of the page on concepts as it is written, in docs/images."""
    with contextlib.chdir(IMAGES):
        exec(compile(concepts_example(), "concepts.md", "exec"), {})


def draw_bands() -> None:
    """bands.svg: predictive bands of depth one, two and ten on small and on large targets."""
    figure, rows = plt.subplots(2, 3, sharex=True, sharey=True, figsize=(8.4, 5.0), layout="constrained")
    for axes_of_row, amplitude, name in zip(rows, (0.25, 3.0), ("small", "large"), strict=True):
        for axes, depth in zip(axes_of_row, (1, 2, 10), strict=True):
            draw_band(axes, depth, amplitude * np.sin(1.5 * INPUTS))
        axes_of_row[0].set_ylabel(f"output, {name} targets")
    for axes, depth in zip(rows[0], (1, 2, 10), strict=True):
        axes.set_title(f"depth {depth}" + (" (Gaussian process)" if depth == 1 else ", width 5"), fontsize=10)
    rows[0, 0].set_ylim(-5.5, 6.5)
    figure.supxlabel("input t", fontsize=10)
    figure.savefig(IMAGES / "bands.svg")


def draw_band(axes: Axes, depth: int, targets: np.ndarray) -> None:
    """One panel: a network of width five on the features of a squared-exponential kernel."""
    network = lbnn.Network(widths=(5,) * (depth - 1))
    posterior = network.condition_gram(kernel(INPUTS, INPUTS), targets, beta=1e4)
    predictive = posterior.predict(cross_gram=kernel(GRID, INPUTS), test_gram=kernel(GRID, GRID))
    plots.predictive_band(predictive, GRID, axes)
    axes.set(xlabel="", ylabel="")  # the figure names both axes once
    axes.plot(INPUTS, targets, "o", color="black", markersize=3.5)
    text = f"log evidence {posterior.log_evidence:.1f}".replace("-", "\N{MINUS SIGN}")
    axes.text(0.97, 0.97, text, transform=axes.transAxes, ha="right", va="top", fontsize=9)


def draw_zero_temperature() -> None:
    """zero-temperature.svg: evidence, E L and variance on the way to β = ∞, and what is left of the way."""
    betas = 10.0 ** np.arange(0, 9)
    figure, rows = plt.subplots(2, 3, sharex=True, figsize=(9.6, 5.4), layout="constrained")
    generic = [three_outputs(beta) for beta in (*betas, np.inf)]
    zero = [zero_targets(beta) for beta in (*betas, np.inf)]
    titles = "log evidence", "E L, first entry", "variance at a test point"
    for index, title in enumerate(titles):
        upper, lower = rows[:, index]
        mean, error = (np.array([part[index] for part in pair]) for pair in zip(*generic, strict=True))
        upper.errorbar(betas, mean[:-1], 2 * error[:-1], fmt="o-", markersize=3.5, capsize=2, color="C0")
        upper.axhspan(mean[-1] - 2 * error[-1], mean[-1] + 2 * error[-1], color="C0", alpha=0.3, lw=0)
        upper.axhline(mean[-1], color="C0", lw=1, ls="--")
        upper.set_title(title, fontsize=10)
        gap = [abs(part[0][index] - generic[-1][0][index]) for part in generic[:-1]]
        lower.loglog(betas, gap, "o-", markersize=3.5, color="C0", label="three outputs, full rank")
        gap = [abs(part[index] - zero[-1][index]) for part in zero[:-1]]
        lower.loglog(betas, gap, "s-", markersize=3.5, color="C1", label="zero targets, width p + 1")
        lower.loglog(
            betas, 0.5 / betas, color="grey", lw=1, ls=":", label="slopes \N{MINUS SIGN}1 and \N{MINUS SIGN}½"
        )
        lower.loglog(betas, 0.5 / np.sqrt(betas), color="grey", lw=1, ls=":")
        lower.set_ylim(1e-10, 20)
    rows[0, 0].set_ylabel("three outputs, full rank")
    rows[1, 0].set_ylabel("distance to the limit")
    rows[1, 0].legend(fontsize=8, frameon=False, loc="lower left")
    rows[1, 1].set_xlabel("β")
    figure.savefig(IMAGES / "zero-temperature.svg")


def three_outputs(beta: float) -> tuple[np.ndarray, np.ndarray]:
    """Log evidence, (E L)_11 and a variance: means over eight seeds and their standard errors."""
    rng = np.random.default_rng(0)
    X, x = rng.standard_normal((8, 12)), rng.standard_normal((1, 12))
    Y = X @ rng.standard_normal((12, 3)) / np.sqrt(12) + 0.3 * rng.standard_normal((8, 3))
    runs = []
    for seed in range(8):
        posterior = lbnn.Network(widths=(10,)).condition(X, Y, beta, seed=seed)
        variance = posterior.predict(x).variance[0, 0]
        runs.append([posterior.log_evidence, posterior.scale.mean[0, 0], variance])
    return np.mean(runs, axis=0), np.std(runs, axis=0, ddof=1) / np.sqrt(len(runs))


def zero_targets(beta: float) -> np.ndarray:
    """The same for one output that is zero on four examples, and width five; deterministic."""
    rng = np.random.default_rng(0)
    X, x = rng.standard_normal((4, 12)), rng.standard_normal((1, 12))
    posterior = lbnn.Network(widths=(5,)).condition(X, np.zeros(4), beta)
    return np.array([posterior.log_evidence, posterior.scale.mean, posterior.predict(x).variance[0]])


def kernel(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """exp(−(a − b)²/2)."""
    return np.exp(-0.5 * (a[:, None] - b) ** 2)


@contextlib.contextmanager
def style() -> Iterator[None]:
    """Draw everything in one style and leave no figures open."""
    with matplotlib.rc_context(STYLE):
        yield
    plt.close("all")


if __name__ == "__main__":
    IMAGES.mkdir(exist_ok=True)
    with style():
        draw_concepts_example()
        draw_bands()
        draw_zero_temperature()
