"""The presets of `lbnn explore` as still pictures, for those who start no server."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lbnn._base.colours import COLOURS
from lbnn.explore.numbers import features, function, learning, scale, theories
from lbnn.explore.numbers.answer import Numbers
from lbnn.explore.presets import PRESETS, Preset
from lbnn.paper.figures import new_figure
from lbnn.paper.page.images import INK
from lbnn.paper.registry import Picture

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Still:
    """A preset and its picture."""

    preset: Preset
    picture: Picture


def stills() -> list[Still]:
    """Every preset in the view that it opens."""
    return [_still(preset) for preset in PRESETS]


def _still(preset: Preset) -> Still:
    state = preset.state
    *_, numbers = _NUMBERS[state.view](state)
    values = "; ".join(f"{value.name} {value.text}" for value in numbers.values[:4])
    return Still(
        preset, Picture(_DRAW[type(numbers)](numbers), f"{preset.story} ({values}.)", numbers.sentence)
    )


_NUMBERS: dict[str, Any] = {
    "scale": scale.numbers,
    "function": function.numbers,
    "features": features.numbers,
    "theories": theories.numbers,
    "learning": learning.numbers,
}


def _densities(numbers: scale.DensityNumbers) -> Figure:
    figure, (axes,) = new_figure(size=(5.6, 3.2))
    depths = list(dict.fromkeys(curve.depth for curve in numbers.curves))
    for curve in numbers.curves:
        number = depths.index(curve.depth)
        after = curve.when == "after"
        axes.plot(
            curve.scale,
            curve.density,
            color=COLOURS[number],
            linewidth=2.4 if number == 0 else 1.2,
            linestyle="-" if after else "--",
            label=f"depth {curve.depth}" if after else None,
        )
    axes.set(xscale="log", xlabel="scale λ", ylabel="density of log λ")
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False, fontsize="small")
    return figure


def _ellipses(numbers: scale.MatrixNumbers) -> Figure:
    figure, (axes,) = new_figure(size=(4.2, 3.6))
    for draw in numbers.draws:
        axes.plot(*draw.T, color=COLOURS[0], alpha=0.25, linewidth=0.8)
    axes.plot(*numbers.before.T, color=COLOURS[1], linestyle="--", label="before the data")
    axes.plot(*numbers.mean.T, color=COLOURS[0], linewidth=2.4, label="after")
    axes.set(aspect="equal", xlabel="output 1", ylabel="output 2")
    axes.legend(frameon=False, fontsize="small")
    return figure


def _bands(numbers: function.FunctionNumbers) -> Figure:
    figure, (axes,) = new_figure(size=(5.6, 3.2))
    network, process = numbers.band, numbers.process_band
    for low, high, alpha in ((0, 3, 0.18), (1, 2, 0.3)):
        axes.fill_between(
            function.GRID,
            network.quantiles[low],
            network.quantiles[high],
            color=COLOURS[0],
            alpha=alpha,
            lw=0,
        )
        for edge in (low, high):
            axes.plot(function.GRID, process.quantiles[edge], ":", color=COLOURS[1], linewidth=1)
    axes.plot(function.GRID, network.mean, color=COLOURS[0], label="network")
    axes.plot(function.GRID, process.mean, "--", color=COLOURS[1], label="Gaussian process")
    axes.plot(*zip(*numbers.points, strict=True), "o", color=INK, markersize=4)
    axes.set(xlabel="input x", ylabel="output")
    axes.legend(frameon=False, fontsize="small")
    return figure


def _kernels(numbers: features.FeatureNumbers) -> Figure:
    figure, panels = new_figure(1, 4, (7.6, 2.3))
    limit = float(max(np.abs(numbers.before).max(), np.abs(numbers.learned).max()))
    difference = numbers.learned - numbers.before
    drawn = (
        ("G", numbers.before, limit),
        (f"⟨K⟩, layer {numbers.layer}", numbers.learned, limit),
        ("⟨K⟩ − G", difference, float(np.abs(difference).max())),
        ("YYᵀ", numbers.targets, float(np.abs(numbers.targets).max())),
    )
    for axes, (title, matrix, bound) in zip(panels, drawn, strict=True):
        axes.imshow(matrix, cmap="RdBu_r", vmin=-bound, vmax=bound)
        axes.set_title(title, fontsize=10)
        axes.set_axis_off()
    return figure


def _errors(numbers: theories.TheoryNumbers) -> Figure:
    figure, (axes,) = new_figure(size=(5.6, 3.4))
    names = list(dict.fromkeys(row[0] for each in numbers.sizes for row in each.rows))
    for name, colour, marker in zip(names, COLOURS, "os^Dv<", strict=False):
        found = [
            (each.size, abs(error), 2 * noise)
            for each in numbers.sizes
            for theory, error, noise in each.rows
            if theory == name and math.isfinite(error)
        ]
        sizes, errors, bars = np.array(found).T
        axes.errorbar(sizes, errors, bars, color=colour, marker=marker, markersize=5, label=name)
    axes.axvline(numbers.here.size, color=INK, linestyle=":")
    axes.set(xscale="log", yscale="log", xlabel=f"size: {numbers.state.growth}")
    axes.set_ylabel(f"error of the {numbers.state.quantity}")
    axes.legend(frameon=False, fontsize="x-small")
    return figure


def _learning(numbers: learning.LearningNumbers) -> Figure:
    figure, (axes,) = new_figure(size=(5.6, 3.2))
    curve = numbers.curve
    for number, (values, errors, label) in enumerate(
        (
            (curve.error, curve.error_error, "error of the mean"),
            (curve.gibbs_error, curve.gibbs_error_error, "error of a draw"),
        )
    ):
        axes.errorbar(
            curve.examples, values, 2 * errors, color=COLOURS[number], marker="o", markersize=3, label=label
        )
    for number, (name, limit) in enumerate(curve.limits.items(), start=2):
        shown = np.isfinite(limit.error) & (limit.error > 0)
        if shown.any():
            axes.plot(
                curve.examples[shown],
                limit.error[shown],
                "--",
                linewidth=1.2,
                color=COLOURS[number % len(COLOURS)],
                label=name,
            )
    axes.set(xscale="log", yscale="log", xlabel="examples", ylabel="squared error")
    axes.legend(frameon=False, fontsize="small")
    return figure


_DRAW: dict[type[Numbers], Any] = {
    scale.DensityNumbers: _densities,
    scale.MatrixNumbers: _ellipses,
    function.FunctionNumbers: _bands,
    features.FeatureNumbers: _kernels,
    theories.TheoryNumbers: _errors,
    learning.LearningNumbers: _learning,
}
