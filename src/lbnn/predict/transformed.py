"""Predictives of targets that were transformed before the fit: z = t(y) with t increasing in each output.

Quantiles and draws are those of z, put through the inverse of t; densities have the factor |t'(y)|. Means and
variances are averages of t⁻¹ over the Gaussians that the predictive of z is a mixture of.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NoReturn

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from lbnn._base import check
from lbnn._base.blocks import blocks
from lbnn._base.types import AnyArray, Array
from lbnn.predict.predictive import ConditionedPredictive, PredictiveOfAnother

_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(40)
_FLOATS = 1 << 21  # of the Gaussians of one block of points at all nodes


@dataclass(frozen=True)
class Transform:
    """An increasing function of the targets, its inverse and the logarithm of its slope.

    Attributes
    ----------
    name : str
    lowest, highest : float
        Targets are strictly between these; `closed` where they may be the lowest.
    """

    name: str
    forward: Callable[[Array], Array]
    inverse: Callable[[Array], Array]
    log_slope: Callable[[Array], Array]
    lowest: float
    highest: float = math.inf
    closed: bool = False

    def takes(self, values: Array) -> bool:
        """Whether the transform is defined at all values, of any shape."""
        above = values >= self.lowest if self.closed else values > self.lowest
        return bool(above.all() and (values < self.highest).all())


def _square(values: Array) -> Array:
    """Squares of the positive parts of values of any shape."""
    return np.maximum(values, 0.0) ** 2


def _half_log(values: Array) -> Array:
    """log t'(y) of the square root, for values of any shape."""
    with np.errstate(divide="ignore"):
        return -math.log(2.0) - 0.5 * np.log(values)


#: Transforms by name.
TRANSFORMS = {
    each.name: each
    for each in (
        Transform("log", np.log, np.exp, lambda y: -np.log(y), 0.0),
        Transform("log1p", np.log1p, np.expm1, lambda y: -np.log1p(y), -1.0),
        Transform("sqrt", np.sqrt, _square, _half_log, 0.0),
        Transform("logit", special.logit, special.expit, lambda y: -np.log(y) - np.log1p(-y), 0.0, 1.0),
    )
}


@dataclass(frozen=True, repr=False)
class TransformedPredictive(PredictiveOfAnother):
    """The law of targets y whose transform z = t(y) has a given predictive.

    Attributes
    ----------
    predictive : Predictive
        Of z.
    transform : Transform

    Examples
    --------
    >>> import numpy as np, lbnn
    >>> from lbnn.predict.transformed import TRANSFORMS, TransformedPredictive
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(20, 5))
    >>> inner = lbnn.Network(widths=(10,)).condition(X, X[:, 0], beta=4.0).predict(X[:3]).with_noise()
    >>> law = TransformedPredictive(inner, TRANSFORMS["log"])
    >>> bool(np.allclose(law.quantile(0.5), np.exp(inner.quantile(0.5))))
    True
    >>> bool((law.mean > law.quantile(0.5)).all())  # a law with a long upper tail
    True
    """

    transform: Transform

    @property
    def leverage(self) -> Array | None:
        """As in `AffinePredictive`, (p̂,)."""
        found: Array | None = getattr(self.predictive, "leverage", None)
        return found

    def _scale_values(self) -> tuple[Array, Array]:
        return self.predictive._scale_values()

    # ------------------------------------------------------------------ moments

    @cached_property
    def _moments(self) -> tuple[Array, Array]:
        """Means and variances of y, (p̂, n_d) each, by quadrature over each Gaussian of z."""
        mean, square = np.empty(self.shape), np.empty(self.shape)
        for rows, weights, means, deviations in self._gaussian_parts():
            mean[rows], square[rows] = self._averages(weights, means, deviations)
        return mean, np.maximum(square - mean**2, 0.0)

    def _gaussian_parts(self) -> Iterator[tuple[slice, Array, Array, Array]]:
        """Points with weights (atoms,), means and deviations (atoms, rows, n_d) of their Gaussians."""
        if isinstance(self.predictive, ConditionedPredictive):  # every point has weights of its own
            for row in range(self.shape[0]):
                log_weights, means, covariances = self.predictive.gaussians(row)
                deviations = np.sqrt(np.maximum(np.diagonal(covariances, axis1=1, axis2=2), 0.0))
                yield slice(row, row + 1), special.softmax(log_weights), means[:, None], deviations[:, None]
            return
        atoms = len(self.predictive.marginals(slice(0, 1))[0])
        for rows in blocks(self.shape[0], atoms * self.shape[1] * len(_NODES), _FLOATS):
            yield rows, *self.predictive.marginals(rows)

    def _averages(self, weights: Array, means: Array, deviations: Array) -> tuple[Array, Array]:
        """Averages of y and of y² over a mixture of Gaussians of z, (rows, n_d) each."""
        if self.transform.name in ("log", "log1p"):  # moments of lognormal laws
            shift = 1.0 if self.transform.name == "log1p" else 0.0
            raw = np.exp(means + 0.5 * deviations**2)
            first = np.tensordot(weights, raw, axes=1) - shift
            second = np.tensordot(weights, raw**2 * np.exp(deviations**2), axes=1)
            return first, second - 2 * shift * first - shift**2
        first, second = np.zeros(means.shape[1:]), np.zeros(means.shape[1:])
        for node, weight in zip(_NODES, _WEIGHTS / _WEIGHTS.sum(), strict=True):
            values = self.transform.inverse(means + node * deviations)
            first += weight * np.tensordot(weights, values, axes=1)
            second += weight * np.tensordot(weights, values**2, axes=1)
        return first, second

    @property
    def _mean(self) -> Array:
        return self._moments[0]

    @property
    def _variance(self) -> Array:
        return self._moments[1]

    @property
    def _output_covariance(self) -> Array:
        if self.shape[1] > 1:
            self._refuse("covariances across outputs")
        return self._moments[1][:, :, None]

    @property
    def _covariance(self) -> AnyArray:
        self._refuse("covariances")

    # ------------------------------------------------------------------ densities, quantiles and draws

    def _log_density(self, values: Array) -> float:
        inner, slope = self._inner(values)
        return self.predictive._log_density(inner) + float(slope.sum())

    def _pointwise_log_density(self, values: Array) -> Array:
        inner, slope = self._inner(values)
        return self.predictive._pointwise_log_density(inner) + slope.sum(axis=1)

    def _inner(self, values: Array) -> tuple[Array, Array]:
        """Values of z (p̂, n_d) and log t'(y); values of y outside the domain have no density."""
        if not self.transform.takes(values):
            raise ValueError(
                f"targets transformed by {self.transform.name!r} are between {self.transform.lowest:g} and "
                f"{self.transform.highest:g}, got values from {values.min():.4g} to {values.max():.4g}"
            )
        return self.transform.forward(values), self.transform.log_slope(values)

    def marginals(self, rows: slice) -> tuple[Array, Array, Array]:
        """Not Gaussian."""
        self._refuse("Gaussian marginals")

    def gaussians(self, row: int) -> tuple[Array, Array, Array]:
        """Not Gaussian."""
        self._refuse("Gaussian components")

    def _quantiles(self, levels: Sequence[float]) -> Array:
        return self.transform.inverse(self.predictive._quantiles(levels))

    def _sample(self, size: int, rng: np.random.Generator) -> Array:
        return self.transform.inverse(self.predictive._sample(size, rng))

    def _cgf(self, source: Array) -> float:
        self._refuse("generating functions")

    def _characteristic(self, source: Array) -> complex:
        self._refuse("characteristic functions")

    def _refuse(self, what: str) -> NoReturn:
        raise ValueError(
            f"{what} of transformed targets are not offered, got target_transform={self.transform.name!r}: "
            "use sample, or .predictive, which is the law of the transformed targets"
        )

    # ------------------------------------------------------------------ observations

    def given(self, Y_partial: ArrayLike) -> TransformedPredictive:  # type: ignore[override]
        """The law where some outputs are known, as `Predictive.given`: NaN where they are not."""
        values = check.like_mean_or_missing(Y_partial, self.shape, self.single_output, "Y_partial")
        with np.errstate(invalid="ignore"):
            inner = self.transform.forward(values)
        inner = inner[:, 0] if self.single_output else inner
        return replace(self, predictive=self.predictive.given(inner))

    def with_noise(self) -> TransformedPredictive:
        """The predictive of observations rather than of the function."""
        return replace(self, predictive=self.predictive.with_noise())
