"""Pictures of a sweep: curves with error bars over seeds, and heat maps over two of its axes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from lbnn._base.types import Array
from lbnn.plots._style import axes_or_new, curve, plain

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes

_MOST_CURVES = 12


def sweep_curves(
    dataset: xr.Dataset,
    variable: str,
    x: str,
    by: str | None = None,
    ax: Axes | None = None,
    *,
    at: Mapping[str, Any] | None = None,
    over: str = "seed",
) -> Axes:
    """Draw a variable of a sweep along one axis, a curve for every value of another.

    Parameters
    ----------
    dataset : xarray.Dataset
        From `lbnn.sweep`.
    variable : str
    x, by : str
        Axes of the sweep; `by` may be left out.
    ax : matplotlib axes, optional
    at : mapping, optional
        Values of all axes that are not drawn.
    over : str
        Axis of replicates, where there is one: means are drawn, and bars of two standard errors of them.

    Examples
    --------
    >>> import numpy as np, xarray as xr
    >>> from lbnn import plots
    >>> shape = {"seed": range(3), "width": [5, 50], "beta": [1.0, 10.0, 100.0]}
    >>> values = np.random.default_rng(0).normal(size=(3, 2, 3))
    >>> found = xr.Dataset({"test_error": (tuple(shape), values)}, shape)
    >>> ax = plots.sweep_curves(found, "test_error", x="beta", by="width")
    >>> ax.get_legend_handles_labels()[1]
    ['width = 5', 'width = 50']
    """
    array = _chosen(dataset, variable, [x] if by is None else [by, x], at or {}, over)
    means, errors = _over(array, over)
    axes = axes_or_new(ax)
    names: list[str | None] = [None]
    if by is not None:
        names = [f"{by} = {_shown(value)}" for value in dataset[by].values.tolist()]
    else:
        means, errors = means[None], errors[None]
    if len(names) > _MOST_CURVES:
        raise ValueError(f"at most {_MOST_CURVES} curves can be read, got {len(names)} values of {by}")
    places, words = _ticks(axes, dataset[x].values)
    for number, (mean, error, name) in enumerate(zip(means, errors, names, strict=True)):
        beside = _beside(axes, places, number - (len(means) - 1) / 2, bool(np.isfinite(error).any()))
        curve(axes, number, beside, mean, error, name)
    if words:
        axes.set_xticks(places, words)
    axes.set(xlabel=x, ylabel=_label(dataset, variable))
    if by is not None:
        axes.legend(frameon=False, fontsize="small")
    return axes


def sweep_map(
    dataset: xr.Dataset,
    variable: str,
    x: str,
    y: str,
    ax: Axes | None = None,
    *,
    at: Mapping[str, Any] | None = None,
    over: str = "seed",
) -> Axes:
    """Draw a variable of a sweep over two of its axes as a heat map; means over the axis of replicates.

    Parameters
    ----------
    dataset, variable, ax, at, over
        As in `sweep_curves`.
    x, y : str
        Axes of the sweep.

    Examples
    --------
    >>> import numpy as np, xarray as xr
    >>> from lbnn import plots
    >>> shape = {"width": [5, 50], "beta": [1.0, 10.0, 100.0]}
    >>> found = xr.Dataset({"kernel_change": (tuple(shape), np.ones((2, 3)))}, shape)
    >>> plots.sweep_map(found, "kernel_change", x="beta", y="width").get_ylabel()
    'width'
    """
    means = _over(_chosen(dataset, variable, [y, x], at or {}, over), over)[0]
    axes = axes_or_new(ax)
    signed = bool((means < 0).any() and (means > 0).any())
    limit = float(np.nanmax(np.abs(means))) if signed and np.isfinite(means).any() else None
    colours = {"cmap": "RdBu_r", "vmin": -limit, "vmax": limit} if limit else {"cmap": "viridis"}
    image = axes.pcolormesh(means, edgecolors="face", **colours)
    for name, set_ticks in ((x, axes.set_xticks), (y, axes.set_yticks)):
        values = dataset[name].values.tolist()
        step = max(1, len(values) // 8)
        kept = range(0, len(values), step)
        set_ticks([place + 0.5 for place in kept], [_shown(values[place]) for place in kept])
    axes.figure.colorbar(image, ax=axes, label=_label(dataset, variable))
    axes.set(xlabel=x, ylabel=y)
    return axes


def _chosen(dataset: Any, variable: str, drawn: list[str], at: Mapping[str, Any], over: str) -> Any:
    """The variable with the axes that are drawn first and replicates last; all others must be in `at`."""
    if variable not in dataset:
        raise ValueError(f"variable must be among {', '.join(map(str, dataset))}, got {variable!r}")
    array = dataset[variable]
    for name in (*drawn, *at):
        if name not in array.dims:
            raise ValueError(f"axes must be among {', '.join(map(str, array.dims))}, got {name!r}")
    left = [name for name in array.dims if name not in {*drawn, *at, over}]
    if left:
        raise ValueError(f"at must have a value for every axis that is not drawn, got none for {left}")
    ends = [over] if over in array.dims and over not in {*drawn, *at} else []
    return array.sel(at).transpose(*drawn, *ends)


def _over(array: Any, over: str) -> tuple[Array, Array]:
    """Means over the last axis if it is that of replicates, and their standard errors (NaN without)."""
    values = np.asarray(array, float)
    if array.dims[-1] != over:
        return values, np.full(values.shape, np.nan)
    count = np.isfinite(values).sum(axis=-1)
    safe = np.where(np.isfinite(values), values, 0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        means = np.where(count > 0, safe.sum(axis=-1) / count, np.nan)
        squares = (np.where(np.isfinite(values), values - means[..., None], 0.0) ** 2).sum(axis=-1)
        errors = np.where(count > 1, np.sqrt(squares / (count - 1) / count), np.nan)
    return means, errors


def _ticks(axes: Axes, values: Any) -> tuple[Any, list[str]]:
    """Where the points lie: on a logarithmic axis if they span much, at 0, 1, … if they are no numbers."""
    if values.dtype.kind not in "iuf" or not np.isfinite(values).all():
        return np.arange(len(values)), [_shown(value) for value in values.tolist()]
    if values.min() > 0 and values.max() >= 20 * values.min():
        axes.set_xscale("log")
    return values, []


def _beside(axes: Axes, places: Array, number: float, bars: bool) -> Array:
    """The places of one of several curves: a little apart where bars would cover each other."""
    if not bars or len(places) < 2:
        return places
    if axes.get_xscale() == "log":
        return np.asarray(places * np.exp(0.06 * number * np.diff(np.log(places)).min()))
    return np.asarray(places + 0.06 * number * np.diff(np.sort(places)).min())


def _label(dataset: Any, variable: str) -> str:
    units = dataset[variable].attrs.get("units", "1")
    words = variable.replace("_", " ")
    return words if units == "1" else f"{words} ({units})"


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}".replace("inf", "∞")
    return plain(value)
