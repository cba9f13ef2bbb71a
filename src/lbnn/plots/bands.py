"""A picture of bands: shares of one target."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from lbnn.bands import BandsFit
from lbnn.plots._style import COLOURS, axes_or_new, names_or_numbers

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def band_shares(
    fit: BandsFit,
    target: int = 0,
    ax: Axes | None = None,
    *,
    names: Sequence[str] | None = None,
    probability: float = 0.9,
) -> Axes:
    """Draw the share of variance that each band explains of one target, with posterior intervals.

    Parameters
    ----------
    fit : BandsFit
        Of an estimator, `model.fit_`.
    target : int
    ax : matplotlib axes, optional
    names : sequence of str, optional
        Of the bands.
    probability : float
        Of the intervals.

    Examples
    --------
    >>> import numpy as np, lbnn
    >>> from lbnn import plots
    >>> rng = np.random.default_rng(0)
    >>> blocks = [rng.normal(size=(20, 5)), rng.normal(size=(20, 8))]
    >>> fit = lbnn.Bands([lbnn.Network((3,))] * 2).condition(blocks, rng.normal(size=(20, 2)))
    >>> plots.band_shares(fit, names=["genes", "images"]).get_xlabel()
    'share of the variance'
    """
    axes, mean = axes_or_new(ax), fit.share_mean[target]
    labels = names_or_numbers(names, len(mean))
    low, high = fit.share_interval(probability)[target].T
    places = np.arange(len(mean))
    for place in places:
        colour = COLOURS[place % len(COLOURS)]
        axes.plot([low[place], high[place]], [place, place], color=colour, lw=2)
        axes.plot(mean[place], place, "o", color=colour, ms=5)
    axes.set_yticks(places, labels)
    axes.invert_yaxis()
    axes.set(xlabel="share of the variance", xlim=(0, 1))
    return axes
