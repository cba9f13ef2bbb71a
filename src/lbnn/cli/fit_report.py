"""The report of a fit: what was chosen, what else was tried, how good it is, which rows to look at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lbnn._base.types import Array
from lbnn.cli.fit_pictures import FitPictures
from lbnn.cli.fit_results import INTERVAL, LEVELS, FitResults
from lbnn.cli.modelling import counted, counted_rows, shown, shown_widths
from lbnn.cli.provenance import origin_section, table_section
from lbnn.plots.page import Document, Grid, Part, Section

_MOST_CANDIDATES = 8  # rows of the evidence table that are shown
_LARGEST_MATRIX = 8  # targets whose coupling is shown as a matrix; of more, ...
_MOST_PAIRS = 12  # ... so many pairs
_MOST_ROWS = 10  # outliers, and rows of large leverage
_MOST_COEFFICIENTS = 12  # of a target


def brief_report(results: FitResults, title: str) -> Document:
    """What is printed."""
    sections = [
        _chosen(results),
        _candidates(results),
        _coupling(results),
        _calibration(results),
        _rows_to_look_at(results),
    ]
    return Document(title, [section for section in sections if section.parts])


def full_report(results: FitResults, origin: dict[str, Any], title: str) -> Document:
    """What is written: tables, pictures, coefficients, and where it comes from."""
    pictures = FitPictures(results)
    evidence, coupling, calibration = _candidates(results), _coupling(results), _calibration(results)
    coupling.parts += pictures.coupling()
    calibration.parts += pictures.left_out()
    sections = [
        _chosen(results),
        table_section(results.notes),
        evidence,
        coupling,
        calibration,
        _rows_to_look_at(results),
        _coefficients(results, pictures.most_targets),
        origin_section(origin),
    ]
    return Document(title, [section for section in sections if section.parts])


def _chosen(results: FitResults) -> Section:
    """Network and noise."""
    model = results.model
    width = shown_widths(model.widths_)
    network = (
        f"depth {len(model.widths_) + 1}, width {width}"
        if model.widths_
        else "infinite width (a Gaussian process)"
    )
    lines: list[Part] = [
        counted(results.rows, model.n_features_in_, len(results.names)),
        f"Network: {network}; prior scale {shown(model.prior_scale_)}; features "
        f"{model.kernel_.columns}{'' if model.kernel_.name == 'linear' else f'; kernel {model.kernel_}'}",
        f"Log evidence {model.log_evidence_:.2f} ± {model.log_evidence_error_:.2g}",
    ]
    models = len(model._state.models)
    if models > 1:
        lines.append(
            f"Predictions average {models} models, of other noise, scale or width as well; "
            "this is the best of them."
        )
    chosen = results.chosen()
    rows = []
    for name, deviation in chosen["noise_deviation"].items():
        low, high = chosen["signal_share_interval"][name]
        interval = f"{low:.2f} to {high:.2f}"
        rows.append((name, shown(deviation), f"{chosen['signal_share'][name]:.2f}", interval))
    header = ("target", "noise", "share of the signal", "90% interval")
    caption = "Standard deviation of the noise, and share of the signal in the variance of the target"
    lines.append(Grid(header, rows, caption))
    lines += _missing_targets(results)
    lines += [f"Note: {message}" for message in results.messages]
    return Section("What was chosen", lines)


def _missing_targets(results: FitResults) -> list[Grid]:
    """How many targets were missing, and what the other targets of their rows explain of them."""
    model = results.model
    missing = [each for each in model.notices_ if each.code == "missing_cells"]
    if not missing:
        return []
    shares = ["–" if np.isnan(share) else f"{share:.2f}" for share in model.missing_explained_]
    counts = (str(count) for count in missing[0].fields["counts"])
    caption = (
        "Missing targets, and the share of their variance that the other targets of the same rows explain "
        "in addition to all other rows"
    )
    rows = list(zip(results.names, counts, shares, strict=True))
    return [Grid(("target", "missing", "explained by others"), rows, caption)]


def _candidates(results: FitResults) -> Section:
    """The evidence table, best first: by evidence less penalty."""
    table = results.candidates()
    if len(table) < 2:
        return Section("Evidence")
    rows = [
        (
            str(row["depth"]),
            shown_widths(row["widths"]),
            row["noise"],
            row["columns"],
            f"{row['log_evidence']:.2f}",
            f"{row['penalty']:.2f}",
            f"{abs(row['below_the_best']):.2f}",  # no minus sign before zero
            shown(row["beta"], 3),
            shown(row["prior_scale"], 3),
        )
        for row in table[:_MOST_CANDIDATES]
    ]
    header = (
        *("depth", "width", "noise", "inputs", "log evidence", "penalty"),
        *("below the best", "beta", "prior scale"),
    )
    caption = (
        f"{len(rows)} best of {len(table)} networks, by evidence less a penalty for hyperparameters; "
        "a difference of 3 is a factor of 20 in odds"
    )
    return Section("Evidence", [Grid(header, rows, caption)])


def _coupling(results: FitResults) -> Section:
    """E L as correlations: the matrix, or its largest entries where it does not fit on a page."""
    names, title = results.names, "Coupling of the targets"
    if len(names) < 2:
        return Section(title)
    correlations = results.correlations()
    if not results.coupled:
        return Section(title, ["At infinite width the scale is fixed: the targets are not coupled."])
    caption = "Correlation of the targets as functions of the features, as learned: the scale E L"
    if len(names) > _LARGEST_MATRIX:
        return Section(title, [_strongest(correlations, names, caption)])
    rows = [(name, *(f"{value:.2f}" for value in row)) for name, row in zip(names, correlations, strict=True)]
    return Section(title, [Grid(("target", *names), rows, caption)])


def _strongest(correlations: Array, names: list[str], caption: str) -> Grid:
    """The pairs of targets that are coupled most."""
    first, second = np.triu_indices(len(names), 1)
    order = np.argsort(-np.abs(correlations[first, second]))[:_MOST_PAIRS]
    rows = [(names[first[k]], names[second[k]], f"{correlations[first[k], second[k]]:.2f}") for k in order]
    header = "target", "with", "correlation"
    return Grid(header, rows, f"{caption}; {len(rows)} strongest of {len(first)} pairs")


def _calibration(results: FitResults) -> Section:
    """Leave-one-out predictions against the targets, beside two baselines."""
    title, scores = "Leave-one-out calibration", results.scores
    if scores is None:
        return Section(title)
    rows = [
        (
            each["target"],
            f"{each['r2']:.3f}" if np.isfinite(each["r2"]) else "–",
            shown(each["rmse"]),
            _or_dash(each["rmse_of_ridge"]),
            _or_dash(each["rmse_of_mean"]),
            f"{round(each['mean_z'], 2) + 0.0:.2f}",  # no minus sign before zero
            f"{each['sd_z']:.2f}",
            *(f"{share:.0%}" for share in each["coverage"].values()),
        )
        for each in results.left_out()
    ]
    inside = (f"in {level:.0%}" for level in LEVELS)
    header = ("target", "R²", "RMSE", "of ridge", "of mean", "mean z", "sd z", *inside)
    caption = "Each row predicted from all others; z is (value − prediction) / predicted standard deviation"
    lines: list[Part] = [
        Grid(header, rows, caption),
        "For comparison, the RMSE of a ridge regression, whose penalty has the least left-out error, and of "
        "the mean of the other rows. Intervals are reliable if sd z is near 1 and the last columns are near "
        "their headings.",
        f"Log predictive density {scores.elpd:.2f} ± {scores.elpd_error:.2g} over "
        f"{counted_rows(results.rows)}",
    ]
    return Section(title, lines)


def _or_dash(value: float) -> str:
    return shown(value) if np.isfinite(value) else "–"


def _rows_to_look_at(results: FitResults) -> Section:
    """Outliers, and rows whose features are far from those of all others."""
    outliers, far = results.outliers(), results.leverage()
    parts: list[Part] = []
    if outliers:
        rows = [
            (each["row"], each["target"], shown(each["value"]), shown(each["predicted"]), f"{each['z']:+.1f}")
            for each in outliers[:_MOST_ROWS]
        ]
        caption = (
            "Values far from the predictions of the other rows: z is larger than Gaussian noise explains"
        )
        parts.append(Grid(("row", "target", "value", "predicted", "z"), rows, caption + _more(outliers)))
    if far:
        distant = [(each["row"], f"{each['variance']:.1f}") for each in far[:_MOST_ROWS]]
        caption = (
            "Features far from those of the other rows: variance of the function there, relative to the "
            "median row"
        )
        parts.append(Grid(("row", "variance"), distant, caption + _more(far)))
    return Section("Rows to look at", parts)


def _more(rows: Sequence[Any]) -> str:
    return f" ({_MOST_ROWS} of {len(rows)})" if len(rows) > _MOST_ROWS else ""


def _coefficients(results: FitResults, most_targets: int) -> Section:
    """The largest of each target, with intervals."""
    found = results.coefficients()
    if found is None:
        return Section("Coefficients")
    rows = found.rows()
    parts: list[Part] = []
    for target in found.targets[:most_targets]:
        own = [row for row in rows if row["target"] == target]
        lines = [
            (
                row["feature"],
                shown(row["value"]),
                f"{shown(row['low'])} to {shown(row['high'])}" if np.isfinite(row["low"]) else "–",
                _or_dash(row["effect"]),
            )
            for row in own[:_MOST_COEFFICIENTS]
        ]
        count = (
            f"{len(lines)} of {len(own)} largest by effect"
            if len(lines) < len(own)
            else "largest effect first"
        )
        parts.append(
            Grid(
                ("feature", "coefficient", f"{INTERVAL:.0%} interval", "effect"), lines, f"{target}: {count}"
            )
        )
    parts.append(
        "A coefficient is the change of the target for a change of the feature by one unit; its effect, that "
        "for a change by one standard deviation of the feature."
    )
    return Section("Coefficients", parts)
