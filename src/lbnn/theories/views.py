"""The saddle point of a network seen through views: its scale as one matrix, in the place of a law.

One hidden layer of width n gives the scale L a Wishart law, whose log density for large n is

    −½ n [tr L − log det L − M],

and with observations as many as n the likelihood is as large. Its product with the prior has one maximum, the
scale of the theories of gated networks (Li & Sompolinsky, 2022) and of convolutional networks (local kernel
renormalisation; Aiudi, Pacelli, Baglioni, Vezzani, Burioni & Rotondo, 2023) in the limit of many channels and
observations. Predictions are those of the Gaussian process at that scale.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import optimize

from lbnn._base import check
from lbnn._base.types import Array
from lbnn.data.view_data import ViewData, checked_views
from lbnn.likelihood.views import ViewDesign, ViewLikelihood
from lbnn.network import Network
from lbnn.predict.dense_part import DensePart
from lbnn.predict.predictive import Predictive
from lbnn.predict.view_process import TestViews, ViewProcess
from lbnn.views.posterior import ViewPosterior


@dataclass(frozen=True)
class ViewSaddle:
    """The saddle point of a network seen through views. Returned by `lbnn.asymptotics.view_saddle`.

    Attributes
    ----------
    scale : (M, M)
        L at the saddle.
    log_evidence : float
        The leading order of the log evidence: log prior density and likelihood there.
    """

    scale: Array
    log_evidence: float
    process: ViewProcess

    def predict(self, views: ArrayLike) -> Predictive:
        """The Gaussian process at the saddle, at test views (p̂, M, n0)."""
        array, data = checked_views(views), self.process.data
        assert data.features is not None
        expected = data.features.shape[1:]
        if array.shape[1:] != expected:
            raise ValueError(
                f"views at test points must have shape (p̂, M, n0) with (M, n0) = {expected}, got "
                f"views.shape={array.shape}"
            )
        test = TestViews.of_features(math.sqrt(data.variance / expected[1]) * array, data)
        means, variances = self.process.moments(test, self.scale[None])
        part = DensePart(
            np.ones(1),
            means[:, :, None],
            lambda rows: variances[:, rows, None, None],
            lambda number: self.process.joint(test, self.scale),
            self.scale[None],
            (self.process.noise, 0.0),
        )
        return Predictive((part,), single_output=True)


def view_saddle(network: Network, views: ArrayLike, y: ArrayLike, beta: float) -> ViewSaddle:
    """The saddle point of a network with one hidden layer, seen through views.

    Parameters
    ----------
    network : Network
        Of depth two.
    views : (p, M, n0)
    y : (p,)
    beta : float in (0, inf)

    Returns
    -------
    ViewSaddle

    Examples
    --------
    >>> import numpy as np, lbnn
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(30, 3))
    >>> views = lbnn.views.gates(x, np.stack([x[:, 0] > 0, x[:, 0] <= 0], axis=1))
    >>> y = np.abs(x[:, 0])
    >>> network = lbnn.Network(widths=(1000,))
    >>> saddle = lbnn.asymptotics.view_saddle(network, views, y, beta=10.0)
    >>> exact = network.condition_views(views, y, beta=10.0)
    >>> bool(np.abs(saddle.scale - exact.scale.mean).max() < 0.02)
    True
    """
    if network.depth != 2:
        raise ValueError(f"the saddle is known for one hidden layer, got widths={network.widths}")
    array, number = checked_views(views), check.inverse_temperature(beta)
    if array.ndim != 3 or not 0 < number < math.inf:
        raise ValueError(f"the saddle needs views (p, M, n0) and 0 < beta < inf, got beta={number:g}")
    observations = check.real_array(y, "y")
    if observations.shape != array.shape[:1]:
        raise ValueError(f"y must have {len(array)} numbers, got y.shape={observations.shape}")
    first, variance = network.prior_variances
    data = ViewData.of_views(array, observations, first * variance)
    likelihood = ViewLikelihood(
        ViewDesign.of_blocks(data.kernel), data.observations, data.residual, len(observations), 1 / number
    )
    scale, value = _maximum(likelihood, float(network.widths[0]), data.channels)
    return ViewSaddle(
        variance * scale, value, ViewProcess(ViewData.of_views(array, observations, first), 1 / number)
    )


def _maximum(likelihood: ViewLikelihood, width: float, channels: int) -> tuple[Array, float]:
    """L (M, M) that maximises prior times likelihood, and the log of that; by a triangular root of L."""
    rows, columns = np.tril_indices(channels)
    diagonal = rows == columns

    def root(flat: Array) -> Array:
        """The triangular root (M, M), whose diagonal is given by its logarithms."""
        lower = np.zeros((channels, channels))
        lower[rows, columns] = np.where(diagonal, np.exp(np.where(diagonal, flat, 0.0)), flat)
        return lower

    def negative(flat: Array) -> tuple[float, Array]:
        """Minus log prior and log likelihood, and its gradient, shaped like `flat`."""
        lower = root(flat)
        scale = lower @ lower.T
        values, vectors = np.linalg.eigh(scale)
        fit, slope = likelihood.value_and_gradient(np.maximum(values, 0.0)[None], vectors[None])
        logs = 2 * float(flat[diagonal].sum())
        prior = -0.5 * width * (float(np.trace(scale)) - logs - channels)
        inner = 2 * (slope[0] - 0.5 * width * np.eye(channels)) @ lower
        gradient = inner[rows, columns] * np.where(diagonal, lower[rows, columns], 1.0)
        gradient[diagonal] += width
        return -(prior + float(fit[0])), -gradient

    found = optimize.minimize(
        negative, np.zeros(len(rows)), jac=True, method="L-BFGS-B", options={"maxiter": 2000, "ftol": 1e-14}
    )
    lower = root(found.x)
    return lower @ lower.T, likelihood.log_constant - float(found.fun)


def saddle_errors(
    exact: ViewPosterior, saddle: ViewSaddle, views_test: Array
) -> dict[str, tuple[float, float]]:
    """Errors of the saddle by quantity, each with the Monte Carlo error of the exact side.

    Of the scale L, and of predictive means and variances at test views (p̂, M, n0), relative and as norms; of
    the log evidence a difference.
    """
    own, theirs = exact.predict(views=views_test), saddle.predict(views_test)
    weights, means, deviations = own.marginals(slice(None))
    squares = deviations**2 + (means - own.mean[:, None]) ** 2  # one output: (atoms, points, 1)
    measure = exact.scale
    return {
        "scale": _relative(saddle.scale, measure.mean, measure.weights, measure.scales),
        "mean": _relative(theirs.mean, own.mean, weights, means),
        "covariance": _relative(theirs.variance, own.variance, weights, squares),
        "log evidence": (saddle.log_evidence - exact.log_evidence, exact.log_evidence_error),
    }


def _relative(given: Array, exact: ArrayLike, weights: Array, values: Array) -> tuple[float, float]:
    """|given − exact|/|exact|, and the standard error of a weighted mean of values (m, ...) in its units."""
    centred = values - np.average(values, axis=0, weights=weights)
    error = np.sqrt(np.average(centred**2, axis=0, weights=weights**2) * (weights**2).sum())
    away, size = given - np.asarray(exact), float(np.linalg.norm(exact))
    return float(np.linalg.norm(away)) / size, float(np.linalg.norm(error)) / size
