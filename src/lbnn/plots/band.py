"""Predictions along a coordinate."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from lbnn.plots._style import COLOURS, axes_or_new
from lbnn.predict.predictive import Predictive

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def predictive_band(
    predictive: Predictive,
    coordinate: ArrayLike,
    ax: Axes | None = None,
    label: str | None = None,
    *,
    probability: float = 0.95,
    output: int = 0,
    colour: str = COLOURS[0],
) -> Axes:
    """Draw mean and equal-tailed interval of one output along a coordinate.

    Parameters
    ----------
    predictive : Predictive
    coordinate : (p̂,)
        Where the test points lie on the horizontal axis, in increasing order.
    ax : matplotlib axes, optional
    label : str, optional
        Name of the mean in a legend.
    probability : float
        Mass of the interval at each point.
    output : int
        Which output to draw.
    colour : str

    Examples
    --------
    >>> import numpy as np, lbnn
    >>> from lbnn import plots
    >>> t = np.linspace(-1, 1, 30)
    >>> powers = t[:, None] ** np.arange(4)
    >>> post = lbnn.Network(widths=(5,)).condition(powers[::6], np.sin(3 * t[::6]), beta=100.0)
    >>> pred = post.predict(powers)
    >>> ax = plots.predictive_band(pred, t, label="depth 2")
    >>> ax.get_legend_handles_labels()[1]
    ['depth 2']
    """
    points, outputs = predictive.shape
    positions = np.asarray(coordinate, float)
    if positions.shape != (points,):
        raise ValueError(f"coordinate must have shape ({points},), got coordinate.shape={positions.shape}")
    column = range(outputs)[output]
    mean, low, high = (
        values.reshape(points, outputs)[:, column]
        for values in (predictive.mean, *predictive.interval(probability))
    )
    axes = axes_or_new(ax)
    axes.fill_between(positions, low, high, color=colour, alpha=0.25, linewidth=0)
    axes.plot(positions, mean, color=colour, label=label)
    if not axes.get_xlabel():
        axes.set_xlabel("coordinate")
    if not axes.get_ylabel():
        axes.set_ylabel("output" if outputs == 1 else f"output {column + 1}")
    return axes
