"""Learning curves: exact averages with their errors, limit theories beside them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from lbnn.learning_curves.curve import LearningCurve
from lbnn.plots._style import axes_or_new, curve, names_or_numbers

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_NAMES = {
    "error": "squared error of the mean",
    "gibbs_error": "squared error of a posterior draw",
    "scale_mean": "E λ",
    "log_evidence": "log evidence",
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
        "error", "gibbs_error", "scale_mean" or "log_evidence".
    theories : sequence of str
        Names in `LearningCurve.limits`.
    labels : sequence of str, optional
        One for each curve; depth and width by default.
    ax : matplotlib axes, optional

    Examples
    --------
    >>> import lbnn, lbnn.plots
    >>> curve = lbnn.learning_curve(lbnn.Network((20,)), [5, 10, 15], inputs=20, teacher_norm=0.5)
    >>> ax = lbnn.plots.learning_curves(curve, "gibbs_error")
    >>> sorted(ax.get_legend_handles_labels()[1])
    ['proportional', 'widths (20,)']
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
    for number, (each, name) in enumerate(zip(every, names, strict=True)):
        order = np.argsort(each.examples)
        examples = each.examples[order]
        value, error = (getattr(each, f"{quantity}{end}")[order] for end in ("", "_error"))
        colour = curve(axes, number, examples, value, error, name)
        for line, theory in zip(_LINES, theories, strict=False):
            limit = getattr(each.limits[theory], quantity)[order]
            label = theory if number == 0 else None
            axes.plot(examples, limit, linestyle=line, color=colour, linewidth=1, label=label)
    axes.set(xlabel="examples $p$", ylabel=_NAMES[quantity])
    axes.locator_params(axis="x", integer=True)
    axes.legend(frameon=False)
    return axes
