"""Limit theories against the exact answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lbnn.plots._style import COLOURS, MARKERS, axes_or_new
from lbnn.theories.comparison import QUANTITIES, Comparison

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Smaller errors stand at the left edge.
_SMALLEST_SHOWN = 1e-5


def comparison(result: Comparison, ax: Axes | None = None) -> Axes:
    """Draw the errors of every theory in every quantity, on a logarithmic axis.

    Parameters
    ----------
    result : Comparison
        What `lbnn.compare` returns.
    ax : matplotlib axes, optional

    Returns
    -------
    matplotlib axes
        One row for each quantity, one marker for each theory; a grey bar reaches up to the Monte Carlo error
        of the exact side. Errors of the log evidence are in nats, the others relative; those below 1e-5 are
        arrows at the left edge.

    Examples
    --------
    >>> import numpy as np, lbnn
    >>> from lbnn import plots
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(8, 12)), rng.normal(size=8)
    >>> ax = plots.comparison(lbnn.compare(lbnn.Network(widths=(20,)), X, y, beta=4.0))
    >>> ax.get_legend_handles_labels()[1]
    ['infinite width', 'infinite width, order 1', 'proportional', 'many outputs']
    """
    axes = axes_or_new(ax)
    if ax is None:
        axes.figure.set_size_inches(8.0, 4.2)  # type: ignore[union-attr]
    answered = {row.quantity for row in result.rows}
    quantities = [name for name in QUANTITIES if name in answered]
    for position, quantity in enumerate(quantities):
        noise = max(row.monte_carlo for row in result.rows if row.quantity == quantity)
        if noise > _SMALLEST_SHOWN:
            axes.barh(position, noise, height=0.8, color="0.5", alpha=0.25, linewidth=0)
    count = len(result.theories)
    for number, name in enumerate(result.theories):
        rows = [row for row in result.rows if row.theory == name]
        heights = [quantities.index(row.quantity) + 0.6 * ((number + 0.5) / count - 0.5) for row in rows]
        errors = np.abs([row.error for row in rows])
        colour, marker = COLOURS[number % len(COLOURS)], MARKERS[number % len(MARKERS)]
        inside = errors >= _SMALLEST_SHOWN
        axes.plot(
            errors[inside],
            np.array(heights)[inside],
            linestyle="none",
            marker=marker,
            color=colour,
            label=name,
        )
        for height in np.array(heights)[~inside]:  # beyond the axis: an arrow, no measured place
            axes.annotate(
                "", (_SMALLEST_SHOWN / 1.45, height), (_SMALLEST_SHOWN * 1.5, height),
                arrowprops={"arrowstyle": "->", "color": colour, "linewidth": 1.5},
            )  # fmt: skip
    axes.set(xscale="log", xlabel="distance to the exact answer", yticks=range(len(quantities)))
    axes.set_yticklabels([f"{name} (nats)" if name == "log evidence" else name for name in quantities])
    axes.set_xlim(left=_SMALLEST_SHOWN / 1.5)
    axes.set_ylim(len(quantities) - 0.5, -0.5)
    axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return axes
