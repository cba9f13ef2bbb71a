"""Pictures of bands: shares of one target, a map of shares over targets, evidence for bands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

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
    for place, colour in zip(places, _colours(len(mean)), strict=True):
        axes.plot([low[place], high[place]], [place, place], color=colour, lw=2)
        axes.plot(mean[place], place, "o", color=colour, ms=5)
    axes.set_yticks(places, labels)
    axes.invert_yaxis()
    axes.set(xlabel="share of the variance", xlim=(0, 1))
    return axes


def band_share_map(
    fit: BandsFit,
    band: int,
    index: ArrayLike | None = None,
    ax: Axes | None = None,
    *,
    name: str | None = None,
) -> Axes:
    """Draw the posterior mean of one band's share for all targets.

    Parameters
    ----------
    fit : BandsFit
    band : int
    index : (rows, columns) of int, or (V, 2) of float, optional
        An image of target numbers, −1 where there is none; or the places of the targets. None draws shares
        in their order, over their posterior deviations.
    ax : matplotlib axes, optional
    name : str, optional
        Of the band.
    """
    axes, share = axes_or_new(ax), fit.share_mean[:, band]
    label = f"share of {name if name is not None else f'band {band + 1}'}"
    if index is None:
        axes.errorbar(
            np.arange(len(share)),
            share,
            yerr=fit.share_deviation[:, band],
            fmt="o",
            ms=_marker_size(len(share)),
            lw=0.5,
            color=COLOURS[0],
        )
        axes.set(xlabel="target", ylabel=label, ylim=(0, 1))
        axes.locator_params(axis="x", integer=True)
        return axes
    places = np.asarray(index)
    image: Any
    if places.dtype.kind in "iu":
        image = axes.imshow(np.where(places < 0, np.nan, share[places]), vmin=0, vmax=1, cmap="viridis")
    elif places.shape == (len(share), 2):
        image = axes.scatter(places[:, 0], places[:, 1], c=share, s=8, vmin=0, vmax=1, cmap="viridis")
    else:
        raise ValueError(
            f"index must be an image of target numbers or the places of {len(share)} targets, "
            f"got shape {places.shape}"
        )
    axes.figure.colorbar(image, ax=axes, label=label)
    return axes


def band_evidence(evidence: ArrayLike, ax: Axes | None = None, *, names: Sequence[str] | None = None) -> Axes:
    """Draw how much the log evidence of targets falls without each band.

    Parameters
    ----------
    evidence : (V, K)
        `fit.evidence_for_bands()`.
    """
    axes, values = axes_or_new(ax), np.asarray(evidence, float)
    labels = names_or_numbers(names, values.shape[1])
    axes.set_yscale("symlog", linthresh=3)  # before the points, so that its margins are those of this scale
    rng, size = np.random.default_rng(0), _marker_size(len(values))
    for k, colour in enumerate(_colours(values.shape[1])):
        axes.plot(
            k + rng.uniform(-0.25, 0.25, len(values)), values[:, k], "o", ms=size, color=colour, alpha=0.6
        )
    axes.axhline(0, color="0.5", lw=1)
    axes.set_xticks(range(values.shape[1]), labels)
    axes.set_ylabel("log evidence for the band")
    return axes


def _marker_size(count: int) -> int:
    """In points: dots of a hundred targets or more are small enough not to cover each other."""
    return 4 if count < 100 else 2


def _colours(count: int) -> list[str]:
    return [COLOURS[number % len(COLOURS)] for number in range(count)]
