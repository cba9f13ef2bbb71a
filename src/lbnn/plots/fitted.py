"""Pictures of a fitted estimator: left-out predictions and their calibration."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from lbnn.cross_validation import LeaveOneOut
from lbnn.plots._style import COLOURS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_NINETY = float(special.ndtri(0.95))  # deviations on either side of a 90% interval


def left_out(
    scores: LeaveOneOut, y: ArrayLike, output: int = 0, axes: Sequence[Axes] | None = None
) -> tuple[Axes, Axes]:
    """Draw measured values over left-out predictions, and the calibration of the predictions.

    Left, predictions have 90% intervals. Right, the share of measured values inside intervals over the
    probability of the intervals: the diagonal is what it should be, the band what chance allows (95%).

    Parameters
    ----------
    scores : LeaveOneOut
        Of a fitted estimator, `model.leave_one_out()`.
    y : (p,) or (p, n_d)
        Measured.
    output : int
    axes : two matplotlib axes, optional

    Examples
    --------
    >>> import numpy as np, lbnn
    >>> from lbnn import plots
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(30, 5))
    >>> y = X[:, 0] + rng.normal(size=30)
    >>> model = lbnn.LBNNRegressor(depth=1).fit(X, y)
    >>> plots.left_out(model.leave_one_out(), y)[0].get_xlabel()
    'predicted from the other rows'
    """
    if axes is None:
        import matplotlib.pyplot as plt

        axes = plt.subplots(1, 2, figsize=(7.2, 3.4), layout="constrained")[1]
    left, right = axes
    rows = len(scores.log_density)
    columns = (np.reshape(np.asarray(each), (rows, -1)) for each in (scores.mean, scores.variance, y))
    mean, variance, truth = (each[:, output] for each in columns)
    deviation = np.sqrt(variance)
    left.errorbar(mean, truth, xerr=_NINETY * deviation, fmt="o", ms=3, lw=0.6, color=COLOURS[0], alpha=0.7)
    ends = [min(mean.min(), truth.min()), max(mean.max(), truth.max())]
    left.plot(ends, ends, color="0.5", lw=1)
    left.set(xlabel="predicted from the other rows", ylabel="measured")
    levels = np.linspace(0.02, 0.98, 49)
    allowed = 1.96 * np.sqrt(levels * (1 - levels) / rows)
    z = np.abs(truth - mean) / deviation
    shares = (z[:, None] < special.ndtri((1 + levels) / 2)).mean(axis=0)
    right.fill_between(levels, levels - allowed, levels + allowed, color="0.9", label="what chance allows")
    right.plot([0, 1], [0, 1], color="0.5", lw=1)
    right.plot(levels, shares, color=COLOURS[0], lw=1.2)
    right.legend(fontsize="small", frameon=False, loc="upper left")
    labels = {"xlabel": "probability of the interval", "ylabel": "share of left-out values inside"}
    right.set(**labels, xlim=(0, 1), ylim=(0, 1))
    return left, right
