"""Pictures in the report of a fit, as SVG."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pandas as pd

from lbnn import plots
from lbnn._base.warn import collected
from lbnn.plots._style import heat_map, plain

_MOST_DEVIATIONS = 300  # features whose coefficients get intervals: the covariance of all is formed
_MOST_TARGETS = 6  # whose predictions and residuals are drawn


def fit_pictures(model: Any, names: list[str], targets: Any) -> list[tuple[str, str]]:
    """Captions and SVG texts for a fitted `LBNNRegressor` and the frame of its targets, None in parts."""
    found = [] if targets is None else _left_out(model, names, targets.to_numpy())
    if hasattr(model, "coef_"):
        found.append(("Coefficients, each for a feature of deviation one", _coefficients(model, names)))
    if len(names) > 1:
        coupling = _correlations(np.asarray(model.scale_mean_))
        picture = _single(lambda ax: _draw_coupling(ax, coupling, names))
        found.append(("Coupling of the targets, as correlations", picture))
    if len(model.evidence_table_) > 2:
        table = model.evidence_table_
        found.append(("Evidence over widths", _single(lambda ax: plots.evidence_over_widths(table, ax))))
    return found


def _left_out(model: Any, names: list[str], truth: Any) -> list[tuple[str, str]]:
    """Predictions of every row from all others."""
    with collected():  # the report has them
        scores = model.leave_one_out()
    shown = names[:_MOST_TARGETS]
    measured, residuals = _panels(plots.measured_against_predicted), _panels(plots.standardised_residuals)
    calibration = _single(lambda ax: plots.calibration_curve(scores, truth, ax))
    return [
        ("Measured against left-out predictions, with 90% intervals", measured(scores, truth, shown)),
        ("Left-out residuals in predicted standard deviations", residuals(scores, truth, shown)),
        ("Calibration of left-out predictions", calibration),
    ]


def _coefficients(model: Any, names: list[str]) -> str:
    deviations = model._state.transform.columns.deviation
    units = deviations if model.inputs_ == "standardised" else 1.0
    matrix = np.atleast_2d(model.coef_) * units
    features = [str(name) for name in model.feature_names_in_]
    targets = names if len(names) <= _MOST_TARGETS else None
    own = _coefficient_deviations(model)
    reach = None if own is None else own * units
    return _single(
        lambda ax: plots.coefficients(matrix, ax, deviations=reach, features=features, targets=targets)
    )


def _coefficient_deviations(model: Any) -> Any:
    """Posterior deviations of `coef_`, (n_targets, n_features): of f(e_j) − f(0); None for many features."""
    count = model.n_features_in_
    if count > _MOST_DEVIATIONS:
        return None
    frame = pd.DataFrame(np.vstack([np.zeros(count), np.eye(count)]), columns=model.feature_names_in_)
    outputs = len(np.atleast_2d(model.coef_))
    covariance = np.reshape(model.predictive(frame).covariance, (count + 1, outputs, count + 1, outputs))
    own = np.einsum("iaja->aij", covariance)
    variance = own[:, 1:, 1:].diagonal(axis1=1, axis2=2) + own[:, :1, 0] - 2 * own[:, 0, 1:]
    return np.sqrt(np.maximum(variance, 0.0))


def _draw_coupling(axes: Any, coupling: Any, names: list[str]) -> None:
    heat_map(axes, coupling, 1.0, digits=2 if len(names) <= 8 else None)
    if len(names) <= 20:
        labels = [plain(name) for name in names]
        axes.set_xticks(range(len(names)), labels, rotation=90)
        axes.set_yticks(range(len(names)), labels)


def _correlations(covariance: Any) -> Any:
    size = np.sqrt(np.diag(covariance))
    return covariance / np.outer(size, size)


def _panels(draw: Any) -> Any:
    """One panel for each target."""

    def picture(scores: Any, truth: Any, names: list[str]) -> str:
        from matplotlib.figure import Figure

        columns = min(3, len(names))
        rows = -(-len(names) // columns)
        figure = Figure(figsize=(3.4 * columns, 3.2 * rows), layout="constrained")
        panels = figure.subplots(rows, columns, squeeze=False).ravel()
        for output, axes in enumerate(panels):
            if output < len(names):
                draw(scores, truth, output, axes)
                axes.set_title(plain(names[output]))
            else:
                axes.set_visible(False)
        return _svg(figure)

    return picture


def _single(draw: Any) -> str:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.0, 3.8), layout="constrained")
    draw(figure.subplots())
    return _svg(figure)


def _svg(figure: Any) -> str:
    page = io.StringIO()
    figure.savefig(page, format="svg", metadata={"Date": None})
    text = page.getvalue()
    return text[text.index("<svg") :]
