"""Pictures of a fitted estimator: left-out predictions, residuals, coefficients, calibration, evidence."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from lbnn._base.types import Array
from lbnn.cross_validation import LeaveOneOut
from lbnn.plots._style import COLOURS, MARKERS, axes_or_new, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_NINETY = float(special.ndtri(0.95))  # deviations on either side of a 90% interval
_SHOWN_NATS = 20.0  # below the best evidence: odds of one to half a billion
_MOST_LABELS = 25  # features whose names fit below an axis
_OF_NOISE = {"independent": "--", "per_output": ":", "coupled": "-."}  # lines of infinite width


def measured_against_predicted(
    scores: LeaveOneOut, y: ArrayLike, output: int = 0, ax: Axes | None = None
) -> Axes:
    """Draw measured values over left-out predictions, with 90% intervals.

    Parameters
    ----------
    scores : LeaveOneOut
        Of a fitted estimator, `model.leave_one_out()`.
    y : (p,) or (p, n_d)
        Measured.
    output : int
    ax : matplotlib axes, optional

    Examples
    --------
    >>> import numpy as np, lbnn
    >>> from lbnn import plots
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(30, 5))
    >>> y = X[:, 0] + rng.normal(size=30)
    >>> model = lbnn.LBNNRegressor(depth=1).fit(X, y)
    >>> plots.measured_against_predicted(model.leave_one_out(), y).get_xlabel()
    'predicted from the other rows'
    """
    axes = axes_or_new(ax)
    mean, deviation, truth = _one_output(scores, y, output)
    axes.errorbar(mean, truth, xerr=_NINETY * deviation, fmt="o", ms=3, lw=0.6, color=COLOURS[0], alpha=0.7)
    ends = [min(mean.min(), truth.min()), max(mean.max(), truth.max())]
    axes.plot(ends, ends, color="0.5", lw=1)
    axes.set(xlabel="predicted from the other rows", ylabel="measured")
    return axes


def standardised_residuals(
    scores: LeaveOneOut, y: ArrayLike, output: int = 0, ax: Axes | None = None
) -> Axes:
    """Draw (measured − predicted)/deviation of left-out rows over the prediction; lines at ±2.

    Parameters are those of `measured_against_predicted`.
    """
    axes = axes_or_new(ax)
    mean, deviation, truth = _one_output(scores, y, output)
    axes.plot(mean, (truth - mean) / deviation, "o", ms=3, color=COLOURS[0], alpha=0.7)
    for level in (-2, 0, 2):
        axes.axhline(level, color="0.5", lw=1, ls="-" if level == 0 else ":")
    axes.set(xlabel="predicted from the other rows", ylabel="residual / predicted deviation")
    return axes


def calibration_curve(
    scores: LeaveOneOut, y: ArrayLike, ax: Axes | None = None, *, targets: Sequence[str] | None = None
) -> Axes:
    """Draw the share of left-out values inside intervals over the probability of the intervals.

    One line for each output, with its name if `targets` are given; the diagonal is what it should be, and the
    band what chance allows (95%).
    """
    axes = axes_or_new(ax)
    truth = np.reshape(np.asarray(y, float), (len(scores.log_density), -1))
    levels = np.linspace(0.02, 0.98, 49)
    allowed = 1.96 * np.sqrt(levels * (1 - levels) / len(truth))
    axes.fill_between(levels, levels - allowed, levels + allowed, color="0.9", label="what chance allows")
    axes.plot([0, 1], [0, 1], color="0.5", lw=1)
    for output in range(truth.shape[1]):
        mean, deviation, values = _one_output(scores, truth, output)
        z = np.abs(values - mean) / deviation
        shares = (z[:, None] < special.ndtri((1 + levels) / 2)).mean(axis=0)
        name = plain(targets[output]) if targets is not None and output < len(targets) else None
        axes.plot(levels, shares, color=COLOURS[output % len(COLOURS)], lw=1.2, label=name)
    axes.legend(fontsize="small", frameon=False, loc="upper left")
    axes.set(
        xlabel="probability of the interval",
        ylabel="share of left-out values inside",
        xlim=(0, 1),
        ylim=(0, 1),
    )
    return axes


def coefficients(
    coefficient_matrix: ArrayLike,
    ax: Axes | None = None,
    *,
    deviations: ArrayLike | None = None,
    features: Sequence[str] | None = None,
    targets: Sequence[str] | None = None,
) -> Axes:
    """Draw coefficients over the features: like a spectrum where there are many, with names where few.

    Parameters
    ----------
    coefficient_matrix : (n_targets, n_features) or (n_features,)
        As `model.coef_`; multiply by the deviations of the features to compare them.
    ax : matplotlib axes, optional
    deviations : like coefficient_matrix, optional
        Posterior standard deviations; 90% intervals are drawn, as bars where features are few, else as bands.
    features, targets : sequence of str, optional
        Names; names of features that are numbers become the horizontal axis.
    """
    axes, matrix = axes_or_new(ax), np.atleast_2d(np.asarray(coefficient_matrix, float))
    reach = None if deviations is None else _NINETY * np.atleast_2d(np.asarray(deviations, float))
    if reach is not None and reach.shape != matrix.shape:
        raise ValueError(f"deviations must have shape {matrix.shape}, got {reach.shape}")
    positions, unit = _positions(features, matrix.shape[1])
    few = matrix.shape[1] <= _MOST_LABELS
    for number, row in enumerate(matrix):
        colour, name = COLOURS[number % len(COLOURS)], None if targets is None else plain(targets[number])
        if few:
            spacing = float(np.abs(np.diff(positions)).min()) if len(positions) > 1 else 1.0
            shift = (number - (len(matrix) - 1) / 2) * min(0.12, 0.6 / len(matrix)) * spacing
            bars = None if reach is None else reach[number]
            marker = MARKERS[number % len(MARKERS)]
            axes.errorbar(
                positions + shift, row, bars, color=colour, fmt=marker, ms=4, lw=1, capsize=2, label=name
            )
        else:
            axes.plot(positions, row, color=colour, lw=1, label=name)
            if reach is not None:
                low, high = row - reach[number], row + reach[number]
                axes.fill_between(positions, low, high, color=colour, alpha=0.2, linewidth=0)
    axes.axhline(0, color="0.5", lw=1)
    if few and features is not None:
        axes.set_xticks(positions, [plain(name) for name in features], rotation=90)
    axes.set(xlabel=unit, ylabel="coefficient")
    if targets is not None and len(matrix) > 1:
        axes.legend(fontsize="small", ncols=2)
    return axes


def evidence_over_widths(table: Sequence[dict[str, Any]], ax: Axes | None = None) -> Axes:
    """Draw the log evidence less its penalty over hidden widths, a line for each depth and kind of noise.

    Parameters
    ----------
    table : list of dict
        `model.evidence_table_`.
    ax : matplotlib axes, optional
    """
    axes = axes_or_new(ax)
    best = max(row["log_evidence"] - row["penalty"] for row in table)
    several = {name: len({row.get(name, "") for row in table}) > 1 for name in ("noise", "inputs")}
    lines: dict[str, list[tuple[float, float]]] = {}
    constant: dict[str, tuple[float, str]] = {}
    for row in table:
        height = row["log_evidence"] - row["penalty"] - best
        told = [str(row[name]).replace("_", " ") for name, differ in several.items() if differ]
        if row["widths"]:
            name = ", ".join([f"depth {row['depth']}", *told])
            lines.setdefault(name, []).append((row["widths"][0], height))
        else:
            style = "-" if row.get("inputs", "raw") == "raw" else "--"
            name = ", ".join(["infinite width", *told])
            constant[name] = height, _OF_NOISE.get(row["noise"], style) if several["noise"] else style
    heights = [height for points in lines.values() for _, height in points]
    heights += [height for height, _ in constant.values()]
    lowest = min(height for height in heights if height >= -_SHOWN_NATS)
    for name, (height, style) in constant.items():
        if height >= lowest:
            axes.axhline(height, color="0.5", lw=1, ls=style, label=name)
    for number, (name, points) in enumerate(lines.items()):
        x, height = np.array(sorted(points)).T
        colour, marker = COLOURS[number % len(COLOURS)], MARKERS[number % len(MARKERS)]
        if height.max() >= lowest:
            axes.plot(x, height, ms=4, lw=1, label=name, color=colour, marker=marker)
    if lines:
        axes.set_xscale("log")
        widths = _apart(sorted({int(width) for points in lines.values() for width, _ in points}))
        axes.set_xticks(widths, [str(width) for width in widths])
        axes.minorticks_off()
        axes.legend(fontsize="small", frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    below = sum(height < lowest for height in heights)
    left = f"; {below} more than {_SHOWN_NATS:g} below are not shown" if below else ""
    axes.set(xlabel=f"hidden width{left}", ylabel="log evidence below the best")
    margin = 0.06 * max(-lowest, 1.0)
    axes.set_ylim(lowest - margin, margin)
    return axes


def _one_output(scores: LeaveOneOut, y: ArrayLike, output: int) -> tuple[Array, Array, Array]:
    rows = len(scores.log_density)
    mean, variance, truth = (
        np.reshape(np.asarray(each), (rows, -1)) for each in (scores.mean, scores.variance, y)
    )
    return mean[:, output], np.sqrt(variance[:, output]), truth[:, output]


def _apart(widths: list[int]) -> list[int]:
    """Those of increasing widths whose labels do not cover each other on a logarithmic axis."""
    kept: list[int] = []
    least = (widths[-1] / widths[0]) ** 0.1  # labels of three digits take a tenth of the axis
    for width in widths:
        if not kept or width >= least * kept[-1]:
            kept.append(width)
    return kept


def _positions(features: Sequence[str] | None, count: int) -> tuple[Array, str]:
    """Numbers in names, such as wavelengths 1100, nm1102 or 1104 nm, if they are in order; or 1, 2, ...

    Also the label of the axis: what stands beside the numbers, as nm.
    """
    numbers = [re.search(r"\d+(\.\d+)?", name) for name in features or []]
    around = {re.sub(r"\d+(\.\d+)?", "", name, count=1) for name in features or []}
    found = np.array([float(match[0]) for match in numbers if match])
    steps = np.diff(found)
    if len(found) == count and len(around) == 1 and ((steps > 0).all() or (steps < 0).all()):
        return found, plain(around.pop().strip(" _-[]()")) or "feature"
    return np.arange(1.0, count + 1), "feature"
