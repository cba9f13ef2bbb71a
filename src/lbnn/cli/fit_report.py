"""The report of a fit: what was chosen, what else was tried, coupling, calibration."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import special

from lbnn._base.types import Array
from lbnn._base.warn import collected
from lbnn.cli.document import Document, Grid, Section
from lbnn.cli.modelling import counted, counted_rows, fit_scores, shown, shown_widths

_MOST_CANDIDATES = 8  # rows of the evidence table that are shown
_LARGEST_MATRIX = 8  # targets whose coupling is shown as a matrix; of more, ...
_MOST_PAIRS = 12  # ... so many pairs
_INTERVALS = (0.5, 0.9, 0.99)  # probabilities


def fit_report(model: Any, names: list[str], rows: int, targets: Any, title: str) -> Document:
    """The document for a fitted `LBNNRegressor` and the frame of its targets (rows, n_d), None in parts."""
    sections = [_chosen(model, names, rows), _candidates(model)]
    if len(names) > 1:
        sections.append(_coupling(model, names))
    if targets is not None:
        sections.append(_calibration(model, targets))
    return Document(title, [section for section in sections if section.parts])


def _chosen(model: Any, names: list[str], rows: int) -> Section:
    """Network and noise."""
    width = shown_widths(model.widths_)
    network = (
        f"depth {model.depth_}, width {width}" if model.widths_ else "infinite width (a Gaussian process)"
    )
    lines: list[str | Grid] = [
        counted(rows, model.n_features_in_, len(names)),
        f"Network: {network}; prior scale {shown(model.prior_scale_)}; features "
        f"{model.inputs_}{_kernel(model)}",
        f"Log evidence {model.log_evidence_:.2f} ± {model.log_evidence_error_:.2g}",
    ]
    if len(model.models_) > 1:
        lines.append(
            f"Predictions average {len(model.models_)} models, of other noise, scale or width as well; "
            "this is the best of them."
        )
    deviations = np.sqrt(np.atleast_1d(model.noise_variance_))
    lines.append(
        Grid(
            ("target", "noise"),
            [(n, shown(d)) for n, d in zip(names, deviations, strict=True)],
            "Standard deviation of the noise",
        )
    )
    lines += [f"Note: {message}" for message in model.messages_]
    return Section("What was chosen", lines)


def _kernel(model: Any) -> str:
    """The kernel with its parameters."""
    if model.kernel == "linear":
        return ""
    given = ", ".join(f"{name} {_listed(value)}" for name, value in model.kernel_params_.items())
    return f"; kernel {model.kernel} ({given})"


def _listed(value: Any) -> str:
    return ", ".join(shown(each, 3) for each in np.atleast_1d(value))


def _candidates(model: Any) -> Section:
    """The evidence table, best first: by evidence less penalty."""
    table = sorted(model.evidence_table_, key=lambda row: row["penalty"] - row["log_evidence"])
    if len(table) < 2:
        return Section("Evidence")
    scores = [row["log_evidence"] - row["penalty"] for row in table]
    rows = [
        (
            str(row["depth"]),
            shown_widths(row["widths"]),
            row["noise"],
            row["inputs"],
            f"{row['log_evidence']:.2f}",
            f"{row['penalty']:.2f}",
            f"{scores[0] - score:.2f}",
            shown(row["beta"], 3),
            shown(row["prior_scale"], 3),
        )
        for row, score in list(zip(table, scores, strict=True))[:_MOST_CANDIDATES]
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


def _coupling(model: Any, names: list[str]) -> Section:
    """E L as correlations: the matrix, or its largest entries where it does not fit on a page."""
    scale = np.asarray(model.scale_mean_)
    size = np.sqrt(np.diag(scale))
    correlations = scale / np.outer(size, size)
    caption = "Correlation of the targets as functions of the features, as learned: the scale E L"
    if len(names) > _LARGEST_MATRIX:
        return Section("Coupling of the targets", [_strongest(correlations, names, caption)])
    rows = [(name, *(f"{value:.2f}" for value in row)) for name, row in zip(names, correlations, strict=True)]
    return Section("Coupling of the targets", [Grid(("target", *names), rows, caption)])


def _strongest(correlations: Array, names: list[str], caption: str) -> Grid:
    """The pairs of targets that are coupled most."""
    first, second = np.triu_indices(len(names), 1)
    order = np.argsort(-np.abs(correlations[first, second]))[:_MOST_PAIRS]
    rows = [(names[first[k]], names[second[k]], f"{correlations[first[k], second[k]]:.2f}") for k in order]
    header = "target", "with", "correlation"
    return Grid(header, rows, f"{caption}; {len(rows)} strongest of {len(first)} pairs")


def _calibration(model: Any, targets: Any) -> Section:
    """Leave-one-out predictions against the targets."""
    with collected():  # the notes below have them
        scores = model.leave_one_out()
    truth = targets.to_numpy()
    mean, variance = (np.reshape(each, truth.shape) for each in (scores.mean, scores.variance))
    residuals = truth - mean
    z = residuals / np.sqrt(variance)
    rows = [
        _calibration_row(name, residuals[:, j], z[:, j], truth[:, j])
        for j, name in enumerate(targets.columns)
    ]
    header = ("target", "R²", "RMSE", "mean z", "sd z", *(f"in {level:.0%}" for level in _INTERVALS))
    caption = "Each row predicted from all others; z is (value − prediction) / predicted standard deviation"
    lines: list[str | Grid] = [
        Grid(header, rows, caption),
        "Trust the intervals if sd z is near 1 and the last columns near their headings.",
        f"Log predictive density {scores.elpd:.2f} ± {scores.elpd_error:.2g} over {counted_rows(len(truth))}",
    ]
    lines += [f"Note: {message}" for message in scores.messages]
    return Section("Leave-one-out calibration", lines)


def _calibration_row(name: str, residual: Array, z: Array, truth: Array) -> tuple[str, ...]:
    reach = special.ndtri((1 + np.array(_INTERVALS)) / 2)
    inside = [f"{float((np.abs(z) < each).mean()):.0%}" for each in reach]
    return (
        name,
        *fit_scores(truth, truth - residual),
        f"{round(float(z.mean()), 2) + 0.0:.2f}",  # no minus sign before zero
        f"{z.std():.2f}",
        *inside,
    )
