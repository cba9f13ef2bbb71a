"""Learning curves: exact averages with their errors, limit theories beside them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from lbnn.learning_curves.curve import LearningCurve
from lbnn.plots._style import COLOURS, MARKERS, axes_or_new, names_or_numbers

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_NAMES = {
    "error": "squared error of the mean",
    "gibbs_error": "squared error of a posterior draw",
    "scale_mean": "E λ",
    "log_evidence": "log evidence",
    "interval_width": "width of the interval",
    "coverage": "probability that the interval holds the truth",
}
_LINES = ("--", ":", "-.", (0, (1, 3)))


def learning_curves(
    curves: LearningCurve | Sequence[LearningCurve],
    quantity: str = "error",
    theories: Sequence[str] = ("proportional",),
    labels: Sequence[str] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw a quantity of learning curves against the number of examples, limit theories as broken lines.

    Parameters
    ----------
    curves : LearningCurve or sequence of LearningCurve
    quantity : str
        "error", "gibbs_error", "scale_mean", "log_evidence", "interval_width" or "coverage".
    theories : sequence of str
        Names in `LearningCurve.limits`.
    labels : sequence of str, optional
        One for each curve; depth and width by default.
    ax : matplotlib axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib axes

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> import lbnn, lbnn.plots
    >>> curve = lbnn.learning_curve(lbnn.Network((20,)), [5, 10, 15], inputs=20, teacher_norm=0.5)
    >>> ax = lbnn.plots.learning_curves(curve, "gibbs_error")
    >>> sorted(ax.get_legend_handles_labels()[1])
    ['proportional', 'widths (20,)']
    >>> matplotlib.pyplot.close(ax.figure)
    """
    every = [curves] if isinstance(curves, LearningCurve) else list(curves)
    if not every:
        raise ValueError("curves must be at least one learning curve, got none")
    if quantity not in _NAMES:
        raise ValueError(f"quantity must be one of {', '.join(_NAMES)}, got {quantity!r}")
    unknown = [each for each in theories if each not in every[0].limits]
    if unknown:
        raise ValueError(f"theories must be among {', '.join(every[0].limits)}, got {unknown[0]!r}")
    own = [f"widths {each.network.widths}" for each in every] if labels is None else list(labels)
    names = names_or_numbers(own, len(every))
    axes = axes_or_new(ax)
    for number, (curve, name) in enumerate(zip(every, names, strict=True)):
        colour, marker = COLOURS[number % len(COLOURS)], MARKERS[number % len(MARKERS)]
        order = np.argsort(curve.examples)
        value, error = (getattr(curve, f"{quantity}{end}")[order] for end in ("", "_error"))
        axes.errorbar(
            curve.examples[order],
            value,
            2 * error if error.any() else None,
            label=name,
            color=colour,
            marker=marker,
            markersize=4,
            linestyle="-",
            capsize=2,
        )
        for line, theory in zip(_LINES, theories, strict=False):
            limit = getattr(curve.limits[theory], quantity)[order]
            label = theory if number == 0 else None
            axes.plot(curve.examples[order], limit, linestyle=line, color=colour, linewidth=1, label=label)
    axes.set(xlabel="examples $p$", ylabel=_NAMES[quantity])
    axes.legend(frameon=False)
    return axes
