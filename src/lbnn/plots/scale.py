"""The scale before and after the data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from lbnn._base.types import Array
from lbnn.plots._style import COLOURS, axes_or_new
from lbnn.posterior import Posterior
from lbnn.scale.prior import ScalePrior

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_POINTS = 400
_TAIL_MASS = 1e-4  # mass beyond either end of a density curve


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
    labels : sequence of str, optional
        One per posterior; "depth 2" and so on by default.
    prior : bool
        Whether to draw the priors.

    Examples
    --------
    >>> import numpy as np, lbnn
    >>> from lbnn import plots
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(20, 50)), rng.normal(size=20)
    >>> posteriors = [lbnn.Network(widths).condition(X, y, beta=4.0) for widths in [(10,), (10,) * 9]]
    >>> ax = plots.scale_density(posteriors)
    >>> ax.get_xlabel(), len(ax.lines)
    ('scale λ', 4)
    """
    several = [posteriors] if isinstance(posteriors, Posterior) else list(posteriors)
    names = [f"depth {len(each.prior.widths) + 1}" for each in several] if labels is None else list(labels)
    if len(names) != len(several):
        raise ValueError(f"labels must be one per posterior, got {len(names)} for {len(several)} posteriors")
    axes = axes_or_new(ax)
    for index, (posterior, name) in enumerate(zip(several, names, strict=True)):
        _draw_scale(axes, posterior, name, COLOURS[index % len(COLOURS)], prior)
    axes.set(xscale="log", xlabel="scale λ", ylabel="density of log λ")
    axes.set_ylim(bottom=0)
    _add_legend(axes, prior and any(each.prior.widths for each in several))
    return axes


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
    x = posterior_range(posterior)
    axes.plot(np.exp(x), np.exp(log_scale_density(posterior, x)), color=colour, label=label)
    if prior:
        x = prior_range(posterior.prior)
        density = np.exp(posterior.prior.log_scale_law.log_density(x))
        axes.plot(np.exp(x), density, color=colour, linestyle="--", linewidth=1)


def log_scale_density(posterior: Posterior, x: Array) -> Array:
    """Log density of x = log λ under ρ: log ϖ + log p(Y | λ) − log p(Y)."""
    likelihood = posterior.noise.likelihood(posterior.spectrum)
    log_prior = posterior.prior.log_scale_law.log_density(x)
    if math.isinf(posterior.noise.variance):
        return log_prior
    log_value = likelihood.log_value(np.exp(x)[:, None], np.ones((len(x), 1, 1)))
    return log_prior + likelihood.log_constant + log_value - posterior.log_evidence


def posterior_range(posterior: Posterior, points: int = _POINTS) -> Array:
    """Values of log λ, (points,), between which all but a little of the posterior's mass lies."""
    measure = posterior.scale
    mass = measure.weights.cumsum()
    first, last = np.searchsorted(mass, [_TAIL_MASS, 1 - _TAIL_MASS])
    log_scale = np.log(measure.scales[:, 0, 0])
    return np.linspace(log_scale[max(first - 1, 0)], log_scale[min(last + 1, len(mass) - 1)], points)


def prior_range(prior: ScalePrior, points: int = _POINTS) -> Array:
    """Values of log λ, (points,), over four standard deviations of the prior to either side."""
    law = prior.log_scale_law
    centre, spread = law.location(0.0), law.spread(0.0)
    return np.linspace(centre - 4 * spread, centre + 4 * spread, points)
