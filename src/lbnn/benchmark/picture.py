"""Pictures of a report."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

from lbnn._base.colours import COLOURS
from lbnn._base.types import Array
from lbnn.benchmark.scorers.ranks import envelope, reference_values

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from lbnn.benchmark.scorers.chains import Chains
    from lbnn.benchmark.scorers.score import Score
    from lbnn.benchmark.task import Task

BLUE, ORANGE = COLOURS[:2]


def draw_report(chains: Chains, means: Score, ranks: Score) -> Figure:
    """Three panels: errors of means, the distribution of log tr L, differences of distribution functions."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10.5, 3.4), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    _draw_errors(left, means)
    draw_scale(middle, chains.task, chains.values[..., chains.task.functions.names.index("log tr L")])
    _draw_distances(right, chains, ranks.level)
    return figure


def _draw_errors(axes: Axes, means: Score) -> None:
    """z of every function, on an axis that is linear near zero."""
    details = means.details
    z, judged = np.array(details["z"]), np.array(details["judged"])
    limit = stats.norm.isf(means.level / (2 * max(1, judged.sum())))
    places = np.arange(len(z))
    axes.axvspan(-limit, limit, color="0.85", lw=0)
    for mask, colour, name in (judged, BLUE, "judged"), (~judged, "0.6", "heavy tails: shown only"):
        if mask.any():
            axes.plot(z[mask], places[mask], "o", ms=4, color=colour, label=name)
    axes.set_yticks(places, details["function"], fontsize=7 if len(z) < 40 else 4)
    axes.set_xscale("symlog", linthresh=4)
    axes.invert_yaxis()
    axes.set(xlabel="error of the mean / claimed standard error", title="means")
    axes.legend(frameon=False, fontsize=7)


def draw_scale(axes: Axes, task: Task, values: Array) -> None:
    """Distribution of log tr L: exact, and of every chain (chains, draws)."""
    exact = reference_values(task)[:, task.functions.names.index("log tr L")]
    low, high = np.quantile(np.concatenate([exact, values.ravel()]), [0.001, 0.999])
    edges = np.linspace(low, high, 41).tolist()
    axes.hist(exact, edges, density=True, color="0.8", label="exact")
    axes.hist(values.ravel(), edges, density=True, histtype="step", color=ORANGE, lw=1.5, label="draws")
    axes.set(xlabel="log tr L", yticks=[], title="size of the signal")
    axes.legend(frameon=False, fontsize=8)


def _draw_distances(axes: Axes, chains: Chains, level: float) -> None:
    """ECDF of ranks minus the diagonal for all functions, with the envelope."""
    sample, reference = chains.independent, reference_values(chains.task)
    grid = np.linspace(0, 1, 201)
    for own, exact in zip(sample.T, reference.T, strict=True):
        ranks = np.sort(np.searchsorted(np.sort(exact), own) / len(exact))
        axes.plot(grid, np.searchsorted(ranks, grid, "right") / len(ranks) - grid, color=BLUE, lw=0.6)
    width = envelope(len(sample), len(reference), level / sample.shape[1])
    for sign in (-1, 1):
        axes.axhline(sign * width, color=ORANGE, lw=1, ls="--")
    axes.set(xlabel="rank among exact draws", ylabel="distribution − diagonal", title="ranks")
