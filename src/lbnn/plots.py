"""Pictures of posteriors. Needs matplotlib: `pip install lbnn[plots]`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from lbnn._types import Array
from lbnn.likelihood import LikelihoodFactor
from lbnn.posterior import Posterior
from lbnn.predictive import Predictive

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Okabe and Ito's colours, told apart by colour-blind readers.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")

_POINTS = 400
_LEFT_OUT = 1e-4  # mass beyond either end of a density curve


def scale_density(
    posteriors: Posterior | Sequence[Posterior],
    ax: Axes | None = None,
    labels: Sequence[str] | None = None,
    *,
    prior: bool = True,
) -> Axes:
    """Draw the density of log λ after the data (solid), and before them (dashed).

    Parameters
    ----------
    posteriors : Posterior or sequence of Posterior
        Of networks with one output. At depth one the scale is fixed: a vertical line.
    ax : matplotlib axes, optional
        Where to draw; a new figure by default.
    labels : sequence of str, optional
        One per posterior; "depth 2" and so on by default.
    prior : bool
        Whether to draw the priors.

    Returns
    -------
    matplotlib axes

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> import numpy as np, lbnn
    >>> from lbnn import plots
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(20, 50)), rng.normal(size=20)
    >>> posteriors = [lbnn.Network(widths).condition(X, y, beta=4.0) for widths in [(10,), (10,) * 9]]
    >>> ax = plots.scale_density(posteriors)
    >>> ax.get_xlabel(), len(ax.lines)
    ('scale λ', 4)
    >>> matplotlib.pyplot.close(ax.figure)
    """
    several = [posteriors] if isinstance(posteriors, Posterior) else list(posteriors)
    names = [f"depth {len(each.prior.widths) + 1}" for each in several] if labels is None else list(labels)
    if len(names) != len(several):
        raise ValueError(f"labels must be one per posterior, got {len(names)} for {len(several)} posteriors")
    axes = _axes(ax)
    for index, (posterior, name) in enumerate(zip(several, names, strict=True)):
        _draw_scale(axes, posterior, name, COLOURS[index % len(COLOURS)], prior)
    axes.set(xscale="log", xlabel="scale λ", ylabel="density of log λ")
    axes.set_ylim(bottom=0)
    _add_legend(axes, prior and any(each.prior.widths for each in several))
    return axes


def predictive_band(
    predictive: Predictive,
    coordinate: Any,
    ax: Axes | None = None,
    label: str | None = None,
    *,
    probability: float = 0.95,
    output: int = 0,
    colour: str = COLOURS[0],
) -> Axes:
    """Draw mean and equal-tailed interval of one output along a coordinate.

    Parameters
    ----------
    predictive : Predictive
    coordinate : (p̂,)
        Where the test points lie on the horizontal axis, in increasing order.
    ax : matplotlib axes, optional
        Where to draw; a new figure by default.
    label : str, optional
        Name of the mean in a legend.
    probability : float
        Mass of the interval at each point.
    output : int
        Which output to draw.
    colour : str

    Returns
    -------
    matplotlib axes

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> import numpy as np, lbnn
    >>> from lbnn import plots
    >>> t = np.linspace(-1, 1, 30)
    >>> powers = t[:, None] ** np.arange(4)
    >>> post = lbnn.Network(widths=(5,)).condition(powers[::6], np.sin(3 * t[::6]), beta=100.0)
    >>> pred = post.predict(powers)
    >>> ax = plots.predictive_band(pred, t, label="depth 2")
    >>> ax.get_legend_handles_labels()[1]
    ['depth 2']
    >>> matplotlib.pyplot.close(ax.figure)
    """
    points, outputs = predictive.shape
    positions = np.asarray(coordinate, float)
    if positions.shape != (points,):
        raise ValueError(f"coordinate must have shape ({points},), got coordinate.shape={positions.shape}")
    column = range(outputs)[output]
    mean, low, high = (
        values.reshape(points, outputs)[:, column]
        for values in (predictive.mean, *predictive.interval(probability))
    )
    axes = _axes(ax)
    axes.fill_between(positions, low, high, color=colour, alpha=0.25, linewidth=0)
    axes.plot(positions, mean, color=colour, label=label)
    return axes


def _axes(ax: Axes | None) -> Axes:
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    return plt.subplots(layout="constrained")[1]


def _add_legend(axes: Axes, prior: bool) -> None:
    from matplotlib.lines import Line2D

    handles, names = axes.get_legend_handles_labels()
    if prior:
        handles.append(Line2D([], [], color="0.4", linestyle="--", linewidth=1))
        names.append("before the data")
    axes.legend(handles, names, frameon=False)


def _draw_scale(axes: Axes, posterior: Posterior, label: str, colour: str, prior: bool) -> None:
    if posterior.prior.outputs != 1:
        raise ValueError(f"scale_density draws networks of one output, got {posterior.prior.outputs} outputs")
    if not posterior.prior.widths:
        axes.axvline(posterior.prior.variance, color=colour, label=label)
        return
    x = _posterior_range(posterior)
    axes.plot(np.exp(x), np.exp(_log_density(posterior, x)), color=colour, label=label)
    if prior:
        x = _prior_range(posterior)
        density = np.exp(posterior.prior.log_scale_law.log_density(x))
        axes.plot(np.exp(x), density, color=colour, linestyle="--", linewidth=1)


def _log_density(posterior: Posterior, x: Array) -> Array:
    """Log density of x = log λ under ρ: log ϖ + log p(Y | λ) − log p(Y)."""
    data = posterior.spectrum
    factor = LikelihoodFactor(data.eigenvalues, data.targets, data.residual, data.examples, posterior.noise)
    log_prior = posterior.prior.log_scale_law.log_density(x)
    if math.isinf(posterior.noise):
        return log_prior
    log_factor = factor.log_constant + factor.log_value(np.exp(x)[:, None], np.ones((len(x), 1, 1)))
    return log_prior + log_factor - posterior.log_evidence


def _posterior_range(posterior: Posterior) -> Array:
    measure = posterior.scale
    mass = measure.weights.cumsum()
    first, last = np.searchsorted(mass, [_LEFT_OUT, 1 - _LEFT_OUT])
    log_scale = np.log(measure.scales[:, 0, 0])
    return np.linspace(log_scale[max(first - 1, 0)], log_scale[min(last + 1, len(mass) - 1)], _POINTS)


def _prior_range(posterior: Posterior) -> Array:
    law = posterior.prior.log_scale_law
    centre, spread = law.location(0.0), law.spread(0.0)
    return np.linspace(centre - 4 * spread, centre + 4 * spread, _POINTS)
