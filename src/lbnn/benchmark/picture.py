"""The picture of a report."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

from lbnn._base.colours import COLOURS
from lbnn.benchmark.scorers.ranks import reference_values

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from lbnn.benchmark.scorers.chains import Chains
    from lbnn.benchmark.scorers.score import Score

BLUE, ORANGE = COLOURS[:2]


def draw_report(chains: Chains, means: Score) -> Figure:
    """Two panels: errors of means, and the distribution of log tr L."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.5, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    _draw_errors(left, means)
    _draw_scale(right, chains)
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


def _draw_scale(axes: Axes, chains: Chains) -> None:
    """Distribution of log tr L: of exact draws, and of those of all chains."""
    index = chains.task.functions.names.index("log tr L")
    exact, own = reference_values(chains.task)[:, index], chains.values[..., index].ravel()
    low, high = np.quantile(np.concatenate([exact, own]), [0.001, 0.999])
    edges = np.linspace(low, high, 41).tolist()
    axes.hist(exact, edges, density=True, color="0.8", label="exact")
    axes.hist(own, edges, density=True, histtype="step", color=ORANGE, lw=1.5, label="draws")
    axes.set(xlabel="log tr L", yticks=[], title="size of the signal")
    axes.legend(frameon=False, fontsize=8)
