"""Draw the picture of docs/results/ten-weights.md: `python -m studies.ten_weights`.

Histograms of chains of plain Hamiltonian Monte Carlo from the prior and from exact fitted networks.
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np

from lbnn import plots
from lbnn.benchmark import load
from studies.pictures import IMAGES, STYLE
from tests.referees.hamiltonian import chains_from, hamiltonian

TASK = load("coexist-10")
SCALE = TASK.functions.names.index("log tr L")


def histograms() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Edges and shares of log λ by the name of a method."""
    exact = TASK.reference(400, 1)
    fitted = exact[TASK.phase_of(exact) == 1][:4]
    edges = np.linspace(-18, 0, 41)
    result = {}
    for name, start in ("from the prior", TASK.prior_draws(4, 0)), ("from fitted networks", fitted):
        draws = chains_from(TASK, hamiltonian(TASK, 0.1, 20), start, 1_000, 1)
        values = TASK.functions(draws)[..., SCALE].ravel()
        result[name] = edges, np.histogram(values, edges)[0] / values.size
    return result


def main() -> None:
    """ten-weights.svg: the exact law of log λ with its two phases, and what chains report."""
    shown = histograms()
    x = np.linspace(-18, 0.5, 600)
    density = np.exp(np.asarray(TASK.posterior.scale.log_density(np.exp(x))) + x)
    columns = min(4, len(shown))
    rows = -(-len(shown) // columns)
    figure, panels = plt.subplots(
        rows, columns, figsize=(2.3 * columns, 1.9 * rows), sharex=True, squeeze=False
    )
    for axes, (name, (edges, shares)) in zip(panels.ravel(), shown.items(), strict=False):
        axes.fill_between(x, density, color="0.8", lw=0)
        axes.stairs(shares / np.diff(edges), edges, color=plots.COLOURS[1], lw=1.2)
        axes.axvline(float(TASK.phases.cuts[0]), color="0.5", lw=0.8, ls="--")
        axes.set_title(name, fontsize=9)
        axes.set(yticks=[], ylim=(0, 2.6 * density.max()), xlim=(-18, 0.5))
    for axes in panels.ravel()[len(shown) :]:
        axes.set_visible(False)
    figure.supxlabel("log λ (grey: exact)", fontsize=9)
    figure.savefig(IMAGES / "ten-weights.svg")


if __name__ == "__main__":
    with plt.rc_context(STYLE):
        main()
