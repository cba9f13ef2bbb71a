"""Where in the plane of data and outputs a network learns representations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from lbnn.plots._style import axes_or_new
from lbnn.posterior import Posterior

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes


def phase_diagram(posteriors: Sequence[Posterior] | xr.Dataset, ax: Axes | None = None) -> Axes:
    """Draw ‖⟨K⟩ − G_xx‖ / ‖G_xx‖ over α = p/n_1 and γ = n_d/n_1.

    Parameters
    ----------
    posteriors : sequence of Posterior, or xarray.Dataset
        One for every pair of α and γ on a grid, in any order; several for one pair are averaged. Or a sweep
        with the variable kernel_change over the axes examples, outputs and width, of which one width is
        chosen; other axes are averaged.
    ax : matplotlib axes, optional

    Examples
    --------
    >>> import numpy as np, lbnn
    >>> from lbnn import plots
    >>> rng = np.random.default_rng(0)
    >>> posteriors = [
    ...     lbnn.Network(widths=(8,)).condition(rng.normal(size=(p, 9)), rng.normal(size=(p, k)), beta=9.0)
    ...     for p in (4, 8)
    ...     for k in (1, 2)
    ... ]
    >>> ax = plots.phase_diagram(posteriors)
    >>> ax.collections[0].get_array().shape  # (values of γ, values of α)
    (2, 2)
    """
    measured: dict[tuple[float, float], list[float]] = {}
    for pair, change in _changes(posteriors):
        measured.setdefault(pair, []).append(change)
    alphas, gammas = (sorted({pair[axis] for pair in measured}) for axis in (0, 1))
    if len(measured) < len(alphas) * len(gammas):
        raise ValueError(
            "posteriors must cover a grid of α and γ, got "
            f"{len(measured)} pairs for {len(alphas)} values of α and {len(gammas)} of γ"
        )
    values = np.array([[np.mean(measured[alpha, gamma]) for alpha in alphas] for gamma in gammas])
    axes = axes_or_new(ax)
    image = axes.pcolormesh(
        alphas, gammas, values, cmap="viridis", shading="nearest", vmin=0.0, edgecolors="face"
    )
    axes.figure.colorbar(image, ax=axes, label=r"$\Vert\langle K\rangle - G\Vert\,/\,\Vert G\Vert$")
    axes.set(xlabel=r"data per width, $\alpha = p/n_1$", ylabel=r"outputs per width, $\gamma = n_d/n_1$")
    return axes


def _changes(given: Any) -> Iterator[tuple[tuple[float, float], float]]:
    """(α, γ) and ‖⟨K⟩ − G‖ / ‖G‖ of every posterior, or of every point of a sweep."""
    if not hasattr(given, "data_vars"):
        for posterior in given:
            if not posterior.prior.widths:
                raise ValueError("a phase diagram needs a hidden layer, got a posterior of depth one")
            width = posterior.prior.widths[0]
            place = posterior.spectrum.examples / width, posterior.prior.outputs / width
            yield place, posterior.kernel_change()
        return
    widths = np.ravel(given["width"]) if "width" in given.coords else np.zeros(0)
    if not {"examples", "outputs", "kernel_change"} <= {*given.coords, *given} or len(widths) != 1:
        raise ValueError(
            "a sweep needs kernel_change over examples and outputs at one width, as dataset.sel(width=[30]), "
            f"got axes {tuple(given.coords)} and widths {widths.tolist()}"
        )
    width = float(widths[0])
    for examples, outputs in product(np.ravel(given["examples"]), np.ravel(given["outputs"])):
        values = np.ravel(given["kernel_change"].sel(examples=examples, outputs=outputs))
        yield from (((examples / width, outputs / width), float(value)) for value in values)
