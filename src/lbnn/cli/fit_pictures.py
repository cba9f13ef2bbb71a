"""Pictures in the report of a fit, as SVG."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np

from lbnn import plots
from lbnn.cli.document import Picture
from lbnn.cli.fit_results import Coefficients, FitResults, LearningCurve
from lbnn.plots._style import COLOURS, MARKERS, heat_map, plain

_FEW_FEATURES = 25  # whose coefficients are points with names


class FitPictures:
    """The pictures of a fit; each method returns those of one section."""

    most_targets = 6  # that are drawn

    def __init__(self, results: FitResults) -> None:
        self.results = results
        self.names = results.names

    def left_out(self) -> list[Picture]:
        """Predictions of every row from all others."""
        scores = self.results.scores
        if scores is None:
            return []
        truth, names = self.results.targets, self.names[: self.most_targets]
        measured = _panels(plots.measured_against_predicted, scores, truth, names)
        residuals = _panels(plots.standardised_residuals, scores, truth, names)
        calibration = _single(lambda ax: plots.calibration_curve(scores, truth, ax, targets=names))
        return [
            Picture("Measured against left-out predictions, with 90% intervals", measured),
            Picture("Left-out residuals in predicted standard deviations", residuals),
            Picture("Calibration of left-out predictions", calibration),
        ]

    def coefficients(self, found: Coefficients) -> list[Picture]:
        """Effects of the features; against numbers in their names, such as wavelengths."""
        units = 1.0 if found.units is None else found.units
        values, names = found.values[: self.most_targets] * units, self.names[: self.most_targets]
        deviations = None if found.deviations is None else found.deviations[: self.most_targets] * units
        together = len(found.features) <= _FEW_FEATURES  # points with bars; else bands that would overlap
        groups = [slice(None)] if together else [slice(j, j + 1) for j in range(len(names))]

        def draw(panels: Any) -> None:
            for axes, group in zip(panels, groups, strict=True):
                own = None if deviations is None else deviations[group]
                plots.coefficients(
                    values[group], axes, deviations=own, features=found.features, targets=names[group]
                )
                if not together:
                    axes.set_title(plain(names[group][0]))
                    axes.label_outer()

        of = "Coefficients"
        if found.units is not None:
            of += " times the standard deviation of the feature"
        return [
            Picture(
                f"{of}{'' if deviations is None else ', with 90% intervals'}", _stacked(draw, len(groups))
            )
        ]

    def coupling(self) -> list[Picture]:
        """E L as correlations."""
        if len(self.names) < 2:
            return []
        matrix = self.results.correlations()
        return [
            Picture(
                "Coupling of the targets, as correlations",
                _single(lambda ax: _draw_coupling(ax, matrix, self.names)),
            )
        ]

    def evidence(self) -> list[Picture]:
        """Over widths."""
        table = self.results.model.evidence_table_
        if len(table) <= 2:
            return []
        return [Picture("Evidence over widths", _single(lambda ax: plots.evidence_over_widths(table, ax)))]

    def learning_curve(self, curve: LearningCurve) -> list[Picture]:
        """Errors over the number of rows."""
        return [
            Picture(
                "Error on other rows for fits to fewer rows, with standard errors; leave-one-out last",
                _single(lambda ax: _draw_curve(ax, curve, self.most_targets)),
            )
        ]


def _draw_curve(axes: Any, curve: LearningCurve, most: int) -> None:
    mean = curve.errors.mean(axis=0)
    error = (
        curve.errors.std(axis=0, ddof=1) / np.sqrt(len(curve.errors)) if len(curve.errors) > 1 else 0 * mean
    )
    for j, name in enumerate(curve.targets[:most]):
        rows, heights = [*curve.sizes, curve.last], [*mean[:, j], curve.last_errors[j]]
        style = {"color": COLOURS[j % len(COLOURS)], "marker": MARKERS[j % len(MARKERS)]}
        axes.errorbar(rows, heights, [*error[:, j], 0.0], ms=4, lw=1, capsize=2, label=plain(name), **style)
    axes.axhline(1.0, color="0.5", lw=1, ls=":")  # the mean
    axes.set(xlabel="rows", ylabel="RMSE / standard deviation", ylim=(0, None))
    axes.legend(fontsize="small", ncols=2)


def _draw_coupling(axes: Any, coupling: Any, names: list[str]) -> None:
    heat_map(axes, coupling, 1.0, digits=2 if len(names) <= 8 else None)
    if len(names) <= 20:
        labels = [plain(name) for name in names]
        axes.set_xticks(range(len(names)), labels, rotation=90)
        axes.set_yticks(range(len(names)), labels)


def _panels(draw: Any, scores: Any, truth: Any, names: list[str]) -> Callable[[], str]:
    """One panel for each target."""

    def picture() -> str:
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


def _single(draw: Any) -> Callable[[], str]:
    return _stacked(lambda panels: draw(panels[0]), 1)


def _stacked(draw: Any, count: int) -> Callable[[], str]:
    """Panels below each other, with one horizontal axis."""

    def picture() -> str:
        from matplotlib.figure import Figure

        figure = Figure(figsize=(7.0, 3.8 if count == 1 else 2.4 * count), layout="constrained")
        draw(figure.subplots(count, 1, sharex=True, squeeze=False)[:, 0])
        return _svg(figure)

    return picture


def _svg(figure: Any) -> str:
    page = io.StringIO()
    figure.savefig(page, format="svg", metadata={"Date": None})
    text = page.getvalue()
    return text[text.index("<svg") :]
