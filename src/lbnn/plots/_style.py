"""What all pictures share: colours, new axes, heat maps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from lbnn._base.colours import COLOURS as COLOURS
from lbnn._base.types import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.image import AxesImage

MARKERS = "os^Dv<"

MINUS = "\N{MINUS SIGN}"


def axes_or_new(ax: Axes | None) -> Axes:
    """The axes given, or those of a new figure."""
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    return plt.subplots(layout="constrained")[1]


def curve(axes: Axes, number: int, x: Array, values: Array, error: Array, label: str | None) -> str:
    """Draw values (m,) at x (m,) with bars of two standard errors; return the colour of curve `number`.

    Bars are left out where all errors (m,) are zero or unknown (NaN).
    """
    colour = COLOURS[number % len(COLOURS)]
    marker = MARKERS[(number + number // len(COLOURS)) % len(MARKERS)]  # other pairs for six more curves
    bars = 2 * error if np.isfinite(error).any() and np.nan_to_num(error).any() else None
    axes.errorbar(x, values, bars, label=label, color=colour, marker=marker, markersize=4, capsize=3)
    return colour


def heat_map(axes: Axes, matrix: Array, limit: float, digits: int | None = None) -> AxesImage:
    """A matrix as squares, from −limit (blue) to limit (red), with its values if `digits` is given."""
    image = axes.imshow(matrix, cmap="RdBu_r", vmin=-limit, vmax=limit)
    if digits is not None:
        for (row, column), value in np.ndenumerate(matrix):
            ground = image.to_rgba(np.array([value]))[0]
            colour = "white" if _luminance(ground) < _DARK else "black"
            text = f"{value:.{digits}f}".replace("-", MINUS)
            axes.text(column, row, text, ha="center", va="center", color=colour, fontsize="small")
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.tick_params(length=0)
    return image


#: Of a ground on which white and black letters have the same contrast, (L + 0.05)² = 1.05 · 0.05 (WCAG 2).
_DARK = 0.179


def _luminance(colour: Any) -> float:
    """Relative luminance of a colour with channels from 0 to 1 (sRGB)."""
    channels = np.asarray(colour[:3], float)
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def plain(name: object) -> str:
    """A name out of data, such as that of a column: dollar signs in it do not begin a formula."""
    return str(name).replace("$", r"\$")


def names_or_numbers(labels: Sequence[str] | None, count: int) -> list[str]:
    """Labels as given, checked for their number, or 1, 2, ..."""
    if labels is None:
        return [str(number + 1) for number in range(count)]
    if len(labels) != count:
        raise ValueError(f"labels must be one for each of {count}, got {len(labels)}")
    return list(labels)
