"""Curves over a size, on logarithmic axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from lbnn.plots._style import MINUS, curve

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_INSIDE = 3  # entries of a legend that leave room for the data


def size_curves(
    axes: Axes,
    sizes: ArrayLike,
    rows: ArrayLike,
    errors: ArrayLike | None = None,
    labels: Sequence[str] | None = None,
    slope: float | None = None,
) -> Axes:
    """Draw rows (k, m) or (m,) over sizes (m,), with bars of two standard errors.

    `slope` is that of a dashed line through the last point of the first row.
    """
    from matplotlib.ticker import NullLocator

    x, values = np.asarray(sizes, float), np.atleast_2d(np.asarray(rows, float))
    bars = np.zeros_like(values) if errors is None else np.atleast_2d(np.asarray(errors, float))
    axes.set(xscale="log", yscale="log")
    for number, (own, bar) in enumerate(zip(values, bars, strict=True)):
        curve(axes, number, x, own, bar, None if labels is None else labels[number])
    if slope is not None:
        name = f"slope {slope:g}".replace("-", MINUS)
        axes.plot(x, values[0, -1] * (x / x[-1]) ** slope, "--", color="0.5", lw=1, label=name, zorder=1)
    axes.set_xticks(x, [f"{size:g}" for size in x])
    axes.xaxis.set_minor_locator(NullLocator())
    names = axes.get_legend_handles_labels()[1]
    if len(names) > _MOST_INSIDE:
        axes.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.17), ncols=2, fontsize="small")
    elif names:
        axes.legend(frameon=False)
    return axes
