"""Pictures in the report of a fit, as SVG."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lbnn import plots
from lbnn.cli.fit_results import FitResults
from lbnn.plots._style import heat_map, plain
from lbnn.plots.page import Picture, drawing, svg


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
        return [
            Picture(
                f"{name}: left-out predictions with 90% intervals, and their calibration",
                _panels(
                    lambda axes, output=output: plots.left_out(scores, self.results.targets, output, axes)
                ),
            )
            for output, name in enumerate(self.names[: self.most_targets])
        ]

    def coupling(self) -> list[Picture]:
        """E L as correlations."""
        if len(self.names) < 2 or not self.results.coupled:
            return []
        matrix = self.results.correlations()
        return [
            Picture(
                "Coupling of the targets, as correlations",
                _panels(lambda axes: _draw_coupling(axes[0], matrix, self.names), 1),
            )
        ]


def _draw_coupling(axes: Any, coupling: Any, names: list[str]) -> None:
    heat_map(axes, coupling, 1.0, digits=2 if len(names) <= 8 else None)
    if len(names) <= 20:
        labels = [plain(name) for name in names]
        axes.set_xticks(range(len(names)), labels, rotation=90)
        axes.set_yticks(range(len(names)), labels)


def _panels(draw: Any, count: int = 2) -> Callable[[], str]:
    """Axes beside each other."""

    def picture() -> str:
        from matplotlib.figure import Figure

        with drawing():
            figure = Figure(figsize=(7.2, 3.4 if count > 1 else 3.8), layout="constrained")
            draw(figure.subplots(1, count, squeeze=False)[0])
            return svg(figure)

    return picture
