"""Matrices as pictures: the learned coupling of outputs, the learned kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from lbnn._base import check
from lbnn._base.arrays import to_numpy
from lbnn._base.types import Array
from lbnn.plots._style import axes_or_new, heat_map, names_or_numbers
from lbnn.posterior import Posterior

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_ANNOTATED = 12  # entries per row that are still readable


def coupling_matrix(
    posterior: Posterior,
    ax: Axes | None = None,
    labels: Sequence[str] | None = None,
    *,
    correlation: bool = True,
) -> Axes:
    """Draw E L, how the outputs are coupled after the data, as a heat map with its values.

    Parameters
    ----------
    posterior : Posterior
    ax : matplotlib axes, optional
    labels : sequence of str, optional
        Names of the outputs; 1, 2, ... by default.
    correlation : bool
        Whether to divide by the diagonal, E L_jk / √(E L_jj E L_kk), or to draw E L itself.

    Examples
    --------
    >>> import numpy as np, lbnn
    >>> from lbnn import plots
    >>> rng = np.random.default_rng(0)
    >>> X, Y = rng.normal(size=(20, 50)), rng.normal(size=(20, 3))
    >>> ax = plots.coupling_matrix(lbnn.Network(widths=(10,)).condition(X, Y, beta=4.0))
    >>> len(ax.texts)  # one value per entry
    9
    """
    scale = np.atleast_2d(posterior.scale.mean)
    names = names_or_numbers(labels, len(scale))
    deviation = np.sqrt(np.diagonal(scale))
    matrix = scale / np.outer(deviation, deviation) if correlation else scale
    axes = axes_or_new(ax)
    heat_map(axes, matrix, float(np.abs(matrix).max()), 2 if len(scale) <= _MOST_ANNOTATED else None)
    axes.set_xticks(range(len(scale)), names)
    axes.set_yticks(range(len(scale)), names)
    axes.set(xlabel="output", ylabel="output")
    return axes


def kernel_panels(
    posterior: Posterior, targets: ArrayLike, axes: Sequence[Axes] | None = None, *, layer: int = 1
) -> Sequence[Axes]:
    """Draw G_xx, the learned kernel ⟨K⟩ and the targets' Gram matrix side by side, on one colour scale each.

    Parameters
    ----------
    posterior : Posterior
        Of a network with a hidden layer.
    targets : (p,) or (p, n_d)
        Y.
    axes : three matplotlib axes, optional
        Where to draw; a new figure by default.
    layer : int
        Hidden layer of ⟨K⟩.

    Returns
    -------
    three matplotlib axes

    Examples
    --------
    >>> import numpy as np, lbnn
    >>> from lbnn import plots
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(20, 50)), rng.normal(size=20)
    >>> panels = plots.kernel_panels(lbnn.Network(widths=(10,)).condition(X, y, beta=4.0), y)
    >>> len(panels)
    3
    """
    Y = to_numpy(check.targets(targets, posterior.spectrum.examples)[0])
    if axes is None:
        import matplotlib.pyplot as plt

        axes = plt.subplots(1, 3, figsize=(7.2, 3.0), layout="constrained")[1]
    panels: list[Axes] = list(axes)
    if len(panels) != 3:
        raise ValueError(f"axes must be three, got {len(panels)}")
    gram, kernel = input_gram(posterior), to_numpy(posterior.feature_kernel(layer=layer))
    limit = float(max(np.abs(gram).max(), np.abs(kernel).max()))
    target_gram = Y @ Y.T / Y.shape[1]
    limits = limit, limit, float(np.abs(target_gram).max())
    titles = "inputs, $G_{xx}$", f"learned, $\\langle K_{layer} \\rangle$", "targets, $G_{yy}$"
    for panel, matrix, bound, title in zip(panels, (gram, kernel, target_gram), limits, titles, strict=True):
        image = heat_map(panel, matrix, bound)
        panel.set_title(title, fontsize="medium")
        panel.set_xticks([])
        panel.set_yticks([])
        panel.figure.colorbar(image, ax=panel, orientation="horizontal", shrink=0.9, pad=0.04)
    return panels


def input_gram(posterior: Posterior) -> Array:
    """G_xx on the training points, with the first layer's prior variance in it, (p, p)."""
    features = to_numpy(posterior.spectrum.project().explained)
    return features @ features.T
