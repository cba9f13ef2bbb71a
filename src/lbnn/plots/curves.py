"""Curves over a size, on logarithmic axes: how a theory converges, how a method scales."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from lbnn._base import check
from lbnn._base.types import Array
from lbnn.plots._style import MINUS, axes_or_new, curve, names_or_numbers

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_INSIDE = 3  # entries of a legend that leave room for the data


def convergence(
    sizes: ArrayLike,
    errors: ArrayLike,
    error_bars: ArrayLike | None = None,
    labels: Sequence[str] | None = None,
    ax: Axes | None = None,
    *,
    slope: float | None = -1.0,
) -> Axes:
    """Draw errors against a size on logarithmic axes, with a line of a reference slope.

    Parameters
    ----------
    sizes : (m,)
        Widths or whatever grows.
    errors : (m,) or (k, m)
        Distances to the exact answer, one row per theory; positive.
    error_bars : like errors, optional
        Standard errors; bars show two of them. A bar that reaches zero ends at the lower edge.
    labels : sequence of str, optional
        One per theory.
    ax : matplotlib axes, optional
    slope : float, optional
        Slope of the dashed reference line through the last point of the first row; None for no line.

    Examples
    --------
    >>> from lbnn import plots
    >>> ax = plots.convergence([10, 20, 40], [0.2, 0.1, 0.05], [0.01, 0.01, 0.01], ["infinite width"])
    >>> ax.get_xscale(), ax.get_legend_handles_labels()[1]
    ('log', ['slope −1', 'infinite width'])
    """
    x, rows, bars = _curves(sizes, errors, error_bars, "errors")
    axes = _draw(x, rows, bars, labels, ax)
    if slope is not None:
        line = rows[0, -1] * (x / x[-1]) ** slope
        name = f"slope {slope:g}".replace("-", MINUS)
        axes.plot(x, line, color="0.5", linestyle="--", linewidth=1, label=name, zorder=1)
    axes.set(xlabel="width", ylabel="distance to the exact answer")
    _finish(axes, x, labels is not None or slope is not None)
    return axes


def speed(
    sizes: ArrayLike,
    rates: ArrayLike,
    error_bars: ArrayLike | None = None,
    labels: Sequence[str] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw effective draws per second against the width on logarithmic axes.

    Parameters
    ----------
    sizes : (m,)
        Hidden widths.
    rates : (m,) or (k, m)
        Effective draws per second, one row per method.
    error_bars : like rates, optional
        Standard errors; bars show two of them.
    labels : sequence of str, optional
        One per method.
    ax : matplotlib axes, optional

    Examples
    --------
    >>> from lbnn import plots
    >>> ax = plots.speed([5, 50], [[9e4, 9e4], [1e3, 1e2]], labels=["scale", "weights"])
    >>> ax.get_ylabel()
    'effective draws per second'
    """
    x, rows, bars = _curves(sizes, rates, error_bars, "rates")
    axes = _draw(x, rows, bars, labels, ax)
    axes.set(xlabel="hidden width $n_1$", ylabel="effective draws per second")
    _finish(axes, x, labels is not None)
    return axes


def _curves(
    sizes: ArrayLike, values: ArrayLike, error_bars: ArrayLike | None, name: str
) -> tuple[Array, Array, Array]:
    """Sizes (m,), values (k, m) and bars (k, m), checked."""
    x = check.real_array(sizes, "sizes")
    rows = np.atleast_2d(check.real_array(values, name))
    bars = np.zeros_like(rows) if error_bars is None else check.real_array(error_bars, "error_bars")
    bars = np.atleast_2d(bars)
    if x.ndim != 1 or rows.shape[1:] != x.shape or bars.shape != rows.shape:
        raise ValueError(
            f"sizes must be (m,), {name} and error_bars (m,) or (k, m), got shapes {x.shape}, {rows.shape} "
            f"and {bars.shape}"
        )
    if min(x.min(), rows.min()) <= 0:
        raise ValueError(f"logarithmic axes need positive sizes and {name}, got {min(x.min(), rows.min()):g}")
    return x, rows, bars


def _draw(x: Array, rows: Array, bars: Array, labels: Sequence[str] | None, ax: Axes | None) -> Axes:
    axes = axes_or_new(ax)
    names = [None] * len(rows) if labels is None else names_or_numbers(labels, len(rows))
    axes.set(xscale="log", yscale="log")
    for index, (values, bar, name) in enumerate(zip(rows, bars, names, strict=True)):
        curve(axes, index, x, values, bar, name)
    return axes


def _finish(axes: Axes, x: Array, legend: bool) -> None:
    """Ticks at the sizes themselves; a legend, below the axes where it would cover the data."""
    from matplotlib.ticker import NullLocator

    axes.set_xticks(x, [f"{size:g}" for size in x])
    axes.xaxis.set_minor_locator(NullLocator())
    if not legend:
        return
    if len(axes.get_legend_handles_labels()[1]) <= _MOST_INSIDE:
        axes.legend(frameon=False)
    else:
        axes.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.17), ncols=2, fontsize="small")
