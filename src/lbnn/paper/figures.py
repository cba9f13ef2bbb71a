"""The pictures of the report: each a function of a run that returns a figure with its caption.

They are made of the functions in `lbnn.plots`; what is particular to the report is the data.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from lbnn import plots
from lbnn._base.types import Array
from lbnn._base.warn import collected
from lbnn.network import Network
from lbnn.paper.registry import Picture, Run
from lbnn.plots._style import MINUS, curve
from lbnn.plots.page import INK
from lbnn.posterior import Posterior
from lbnn.theories.convergence import REGIMES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DEPTHS = (1, 2, 10)
GRID = np.linspace(-5.0, 5.0, 121)
#: The paper's regimes.
REGIMES_SHOWN = ("infinite width", "infinite data", "proportional", "many outputs")


def new_figure(
    rows: int = 1, columns: int = 1, size: tuple[float, float] = (6.4, 3.6), *, shared: bool = False
) -> tuple[Figure, list[Axes]]:
    """A figure and its axes, row by row, with one range for all of them if `shared`."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(
        rows, columns, figsize=size, layout="constrained", sharex=shared, sharey=shared, squeeze=False
    )
    return figure, list(axes.flat)


def scale(run: Run) -> Picture:
    """λ before and after the data at depths two, four and ten, for targets smaller than the prior expects."""
    X, teacher = run.rng.standard_normal((40, 100)), run.rng.standard_normal(100)
    y = 0.04 * X @ teacher + 0.1 * run.rng.standard_normal(40)
    posteriors = [Network((10,) * (depth - 1)).condition(X, y, beta=100.0) for depth in (2, 4, 10)]
    figure, (axes,) = new_figure()
    plots.scale_density(posteriors, axes)
    means = ", ".join(f"{post.scale.mean:.2f}" for post in posteriors)
    return Picture(
        figure,
        "The scale λ before (dashed) and after the data (solid), width 10, 40 examples of 100 inputs, β = "
        "100. The targets are smaller than unit prior variance expects, so the posterior of λ is far below "
        f"1, and farther for deeper networks: E λ = {means} at depth 2, 4 and 10.",
        "Three dashed curves, the priors, wide and near one; three solid narrow curves, the posteriors, "
        "near 0.2, further left for deeper networks.",
    )


def bands(run: Run) -> Picture:
    """Predictive bands of depth one, two and ten on small and on large targets."""
    figure, axes = new_figure(2, len(DEPTHS), (7.6, 4.6), shared=True)
    inputs = np.sort(run.rng.uniform(-2.8, 1.5, 8))
    for row, (amplitude, name) in enumerate(((0.25, "small targets"), (3.0, "large targets"))):
        for column, depth in enumerate(DEPTHS):
            panel = axes[row * len(DEPTHS) + column]
            _band(panel, depth, inputs, amplitude * np.sin(1.5 * inputs))
            if not row:
                panel.set_title(f"depth {depth}" + (" (Gaussian process)" if depth == 1 else ""), fontsize=10)
        axes[row * len(DEPTHS)].set_ylabel(name)
    axes[0].set_ylim(-6, 7.5)
    figure.supxlabel("input", fontsize=10)
    return Picture(
        figure,
        "Mean and 95% band given eight points (dots) on a squared-exponential kernel, width 5. Top: small "
        "targets; bottom: the same targets, twelve times larger. Far from the data the band of depth one is "
        "the prior's, ±2, whatever the targets; with depth its width is inferred from the data, and the "
        "evidence is higher in both rows.",
        "Six panels of predictive bands. At depth one the outer band is the same in both rows; at depth "
        "two and ten it is narrow for small targets and wide for large ones.",
    )


def _band(axes: Axes, depth: int, inputs: Array, targets: Array) -> None:
    posterior = Network((5,) * (depth - 1)).condition_gram(_smooth(inputs, inputs), targets, beta=1e4)
    predictive = posterior.predict(cross_gram=_smooth(GRID, inputs), test_gram=_smooth(GRID, GRID))
    plots.predictive_band(predictive, GRID, axes)
    axes.set(xlabel="", ylabel="")  # the figure names both axes once
    axes.plot(inputs, targets, "o", color=INK, markersize=3)
    text = f"log evidence {posterior.log_evidence:.1f}".replace("-", MINUS)
    axes.text(0.96, 0.96, text, transform=axes.transAxes, ha="right", va="top", fontsize=8)


def _smooth(a: Array, b: Array) -> Array:
    """exp(−(a − b)²/2)."""
    return np.exp(-0.5 * (a[:, None] - b) ** 2)


def coupling(run: Run) -> Picture:
    """E L of six outputs driven by two latent factors, at depth one and two."""
    X = run.rng.standard_normal((60, 80))
    loadings = np.array([[1.0, 1.0, 1.0, -1.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0, 1.0, 1.0]])
    latent = X @ run.rng.standard_normal((80, 2)) / math.sqrt(80)
    Y = latent @ loadings + 0.3 * run.rng.standard_normal((60, 6))
    figure, axes = new_figure(1, 2, (7.0, 3.6))
    for panel, widths in zip(axes, ((), (8,)), strict=True):
        posterior = Network(widths).condition(X, Y, beta=11.0, target_error=0.1, seed=run.seed)
        plots.coupling_matrix(posterior, panel)
        panel.set_title(f"depth {len(widths) + 1}" + (", width 8" if widths else ", any data"), fontsize=10)
    return Picture(
        figure,
        "Learned coupling E L, as correlations, of six outputs: the first four follow one latent factor "
        "(the fourth with the opposite sign), the last two another. Depth two finds both groups and the "
        "sign; at depth one L is the identity for every data set.",
        "Two six by six heat maps. Left, depth one: the identity. Right, depth two: a block of four "
        "outputs with the fourth negative, and a block of two.",
    )


def kernels(run: Run) -> Picture:
    """⟨K⟩ between the Gram matrix of the inputs and that of targets in three classes."""
    classes = np.repeat(np.arange(3), 8)
    X = run.rng.standard_normal((24, 60)) + 0.5 * run.rng.standard_normal((3, 60))[classes]
    Y = 3.0 * (np.eye(3)[classes] - 1 / 3)
    posterior = Network((6,)).condition(X, Y, beta=100.0, seed=run.seed)
    figure, panels = new_figure(1, 3, (7.2, 3.0))
    plots.kernel_panels(posterior, Y, panels)
    change = posterior.kernel_change()
    return Picture(
        figure,
        "Feature kernel of the first hidden layer between the Gram matrices of inputs and targets: 24 "
        "examples in three classes, width 6, β = 100. The classes are hardly visible in the inputs, but "
        f"clear in the learned kernel: the change is {change:.0%} of the norm of G_xx.",
        "Three heat maps of 24 by 24 examples. Inputs: a diagonal with faint blocks. Learned kernel: the "
        "same diagonal with three clear blocks. Targets: three blocks.",
    )


def phase(run: Run) -> Picture:
    """‖⟨K⟩ − G‖/‖G‖ over α and γ at width eight, averaged over data sets."""
    width, sets = 8, 1 if run.quick else 3
    examples, outputs = list(range(1, 12, 2)), list(range(1, 7))
    changes = [
        [np.mean([_teacher(run, p, n, width).kernel_change() for _ in range(sets)]) for p in examples]
        for n in outputs
    ]
    figure, (axes,) = new_figure(size=(5.6, 4.0))
    image = axes.pcolormesh(
        np.divide(examples, width),
        np.divide(outputs, width),
        changes,
        shading="nearest",
        vmin=0.0,
        edgecolors="face",
    )
    figure.colorbar(image, ax=axes, label=r"$\Vert\langle K\rangle - G\Vert\,/\,\Vert G\Vert$")
    axes.set(xlabel=r"data per width, $\alpha = p/n_1$", ylabel=r"outputs per width, $\gamma = n_d/n_1$")
    averaged = "one data set" if sets == 1 else f"the average over {sets} data sets"
    return Picture(
        figure,
        "How far the kernel moves from that of the inputs, at β = 20, depth two, width 8: targets of unit "
        f"mean square from random linear teachers, {averaged} for each square. The change grows with data "
        f"and outputs per hidden unit; with few of both the network is nearly the Gaussian process.",
        "A map over data per width and outputs per width, dark where both are small, bright where both are "
        "large.",
    )


def _teacher(run: Run, examples: int, outputs: int, width: int) -> Posterior:
    X = run.rng.standard_normal((examples, 24))
    Y = X @ run.rng.standard_normal((24, outputs))
    Y /= math.sqrt(float((Y**2).mean()))
    network = Network((width,))
    with collected():
        rough = network.condition(X, Y, beta=20.0, target_error=0.3, seed=run.seed)
    # one pair of witnesses in some hundred differs by three errors by chance: ask again, more precisely
    return (
        rough
        if rough.diagnostics.ok
        else network.condition(X, Y, beta=20.0, target_error=0.1, seed=run.seed + 1)
    )


def infinite_width(run: Run) -> Picture:
    """Error of the leading correction of the kernel against the width, as the check recorded it."""
    figure, (axes,) = new_figure()
    labels = ["leading correction $\\Delta_1$"]
    distances = run.record["distance"]
    size_curves(axes, run.record["width"], [distances], [np.zeros(len(distances))], labels)
    axes.set(xlabel="width", ylabel="relative error of $n_1(\\langle K\\rangle - G_{xx})$")
    return Picture(
        figure,
        "Distance of n_1(⟨K⟩ − G_xx) from Δ_1, relative to Δ_1, at depth three: it falls as 1/n (dashed), "
        "so the remainder of (37) is of second order. Deterministic: no error bars.",
        "Points on logarithmic axes along a straight line of slope minus one.",
    )


def convergence(run: Run) -> Picture:
    """Errors of the theories against the growing size, as the check recorded them."""
    figure, (axes,) = new_figure()
    record = run.record
    size_curves(
        axes,
        record["size"],
        [record[name] for name in REGIMES_SHOWN],
        [record[f"{name}, standard error"] for name in REGIMES_SHOWN],
        [_label(name, record[f"{name}, rate"]) for name in REGIMES_SHOWN],
    )
    axes.set(xlabel="growing size", ylabel="relative error of the kernel")
    return Picture(
        figure,
        "Error of each limit theory against the exact kernel as its size grows (geometric mean over four "
        "data sets), with the fitted slopes; bars are two standard errors over data sets. Every theory "
        "converges at about one over the size (dashed). "
        "Relative to the change of the kernel, for many outputs to the kernel.",
        "Four curves on logarithmic axes that fall along a line of slope minus one.",
    )


def _label(name: str, rate: float) -> str:
    growing = REGIMES[name].growing.replace("n_1", "$n_1$").replace("n_d", "$n_d$")
    return f"{name}, {growing}: slope {rate:.2f}".replace("-", MINUS)


def size_curves(
    axes: Axes, sizes: Sequence[float], rows: Sequence[Any], errors: Sequence[Any], labels: Sequence[str]
) -> None:
    """Draw rows (k, m) over sizes (m,), with bars of two standard errors, and a line of slope −1."""
    from matplotlib.ticker import NullLocator

    x = np.asarray(sizes, float)
    axes.set(xscale="log", yscale="log")
    for number, (own, bar, label) in enumerate(zip(rows, errors, labels, strict=True)):
        curve(axes, number, x, np.asarray(own), np.asarray(bar), label)
    axes.plot(x, rows[0][-1] * x[-1] / x, "--", color="0.5", lw=1, label=f"slope {MINUS}1", zorder=1)
    axes.set_xticks(x, [f"{size:g}" for size in x])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.17), ncols=2, fontsize="small")
