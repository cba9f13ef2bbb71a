"""What depth buys: pictures of the numbers that `what_depth_buys_report.py` takes from the stores."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from what_depth_buys_data import Pair

from lbnn import plots
from lbnn._base.types import Array
from lbnn.paper.curves import size_curves

Rows = list[list[Pair]]  # over misfit, then examples

#: Contenders of the map of winners, with their colours.
COLOURS = {
    "fixed scale": "#8c8c8c",
    "scale by evidence": plots.COLOURS[0],
    "matrix-t": plots.COLOURS[2],
    "network by evidence": plots.COLOURS[1],
}


def signed(value: float, digits: int) -> str:
    """With its sign, minus as a minus."""
    return f"{value:+.{digits}f}".replace("-", "−")


def marked(value: float, error: float) -> str:
    """Two lines for a cell of a map, with digits that the error allows."""
    digits = 2 if error >= 0.005 else 3
    return f"{signed(value, digits)}\n±{error:.{digits}f}"


def draw_winners(
    cells: dict[str, list[list[tuple[str, Pair]]]],
    examples: Sequence[int],
    misfits: Sequence[float],
    path: Path,
) -> None:
    """A map for every task: the colour is the winner, its strength and the number the margin."""
    import matplotlib.pyplot as plt
    from matplotlib.colors import to_rgb

    figure, panels = _panels(cells, 3.4)
    for ax, rows in zip(panels, cells.values(), strict=True):
        picture = np.ones((len(misfits), len(examples), 3))
        for row, columns in enumerate(rows):
            for column, (winner, (margin, error)) in enumerate(columns):
                sure = min(1.0, 0.25 + 0.75 * margin / 0.2) if margin > 2 * error else 0.15
                picture[row, column] = 1 - sure * (1 - np.array(to_rgb(COLOURS[winner])))
                dark = picture[row, column].mean() < 0.5
                text = marked(margin, error)
                ax.text(column, row, text, ha="center", va="center", fontsize=7.5, color="w" if dark else "k")
        ax.imshow(picture, origin="lower", aspect="auto")
        _ticks(ax, examples, misfits)
    handles = [plt.Rectangle((0, 0), 1, 1, color=colour, label=name) for name, colour in COLOURS.items()]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False)
    save(figure, path)


def draw_phases(
    cells: dict[str, Rows], examples: Sequence[int], misfits: Sequence[float], path: Path
) -> None:
    """Log density gained over the scale by evidence; red where the network is better."""
    figure, panels = _panels(cells, 3.1)
    values = {name: np.array([[pair[0] for pair in row] for row in rows]) for name, rows in cells.items()}
    limit = max(float(np.nanmax(np.abs(each))) for each in values.values())
    for ax, (name, rows) in zip(panels, cells.items(), strict=True):
        image = ax.imshow(values[name], cmap="RdBu_r", vmin=-limit, vmax=limit, origin="lower", aspect="auto")
        for (row, column), value in np.ndenumerate(values[name]):
            colour = "white" if abs(value) > 0.6 * limit else "black"
            text = marked(value, rows[row][column][1])
            ax.text(column, row, text, ha="center", va="center", fontsize=7.5, color=colour)
        _ticks(ax, examples, misfits)
    figure.colorbar(image, ax=panels, label="nats per test target")
    save(figure, path)


def _panels(cells: dict[str, Any], height: float) -> tuple[Any, Array]:
    """One panel for every task."""
    import matplotlib.pyplot as plt

    size = (2.6 * len(cells) + 0.6, height)
    figure, panels = plt.subplots(
        1, len(cells), figsize=size, sharey=True, layout="constrained", squeeze=False
    )
    for ax, name in zip(panels[0], cells, strict=True):
        ax.set(xlabel="examples", title=name)
    panels[0][0].set_ylabel("misfit (variance of the targets\nover what the prior expects)")
    return figure, panels[0]


def _ticks(ax: Any, examples: Sequence[int], misfits: Sequence[float]) -> None:
    ax.set_xticks(range(len(examples)), examples)
    ax.set_yticks(range(len(misfits)), [f"{misfit:g}" for misfit in misfits])


def draw_vanishing(
    widths: dict[str, tuple[Array, Array, Array]], examples: dict[str, tuple[Array, Array, Array]], path: Path
) -> None:
    """Gains against the width and against the number of examples: x, means and errors of every curve."""
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, 2, figsize=(10.5, 4.3), layout="constrained")
    for ax, curves, slope in zip(panels, (widths, examples), (-1.0, -2.0), strict=True):
        sizes = next(iter(curves.values()))[0]
        means, bars = (np.stack([curve[part] for curve in curves.values()]) for part in (1, 2))
        size_curves(ax, sizes, means, bars, list(curves), slope=slope)
        ax.set_ylabel("nats per test target gained by the network")
    panels[0].set(xlabel="width", title="over fixed scale: one output, 50 examples")
    panels[1].set(xlabel="examples", title="depth 3, width 30")
    save(figure, path)


def draw_kernels(
    changes: dict[int, Array], alphas: Sequence[float], gammas: Sequence[float], path: Path
) -> None:
    """‖⟨K⟩ − G‖/‖G‖ over α and γ, a panel for every depth; changes (γ, α)."""
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(
        1, len(changes), figsize=(11, 3.3), sharey=True, layout="constrained", squeeze=False
    )
    top = max(float(each.max()) for each in changes.values())
    for ax, (depth, values) in zip(panels[0], changes.items(), strict=True):
        image = ax.imshow(values, cmap="viridis", vmin=0, vmax=top, origin="lower", aspect="auto")
        for (row, column), value in np.ndenumerate(values):
            colour = "black" if value > 0.6 * top else "white"
            ax.text(column, row, f"{value:.2f}", ha="center", va="center", fontsize=8, color=colour)
        ax.set_xticks(range(len(alphas)), [f"{alpha:g}" for alpha in alphas])
        ax.set_yticks(range(len(gammas)), [f"{gamma:g}" for gamma in gammas])
        ax.set(xlabel=r"$\alpha = p/n_1$", title=f"depth {depth}")
    panels[0][0].set_ylabel(r"$\gamma = n_d/n_1$")
    label = r"$\Vert\langle K\rangle - G\Vert\,/\,\Vert G\Vert$"
    figure.colorbar(image, ax=panels[0], label=label)
    save(figure, path)


def save(figure: Any, path: Path) -> None:
    """As SVG, without a date, letters as paths."""
    import matplotlib

    with matplotlib.rc_context({"svg.hashsalt": "lbnn", "svg.fonttype": "path"}):
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
