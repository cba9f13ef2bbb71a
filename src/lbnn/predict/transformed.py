"""Predictives of targets that were transformed before the fit: z = t(y) with t increasing in each output.

Quantiles and draws are those of z, put through the inverse of t; densities have the factor |t'(y)|. Means and
variances are averages of t⁻¹ over the Gaussians that the predictive of z is a mixture of. For the logarithm
these are values of the generating function, which is infinite for most networks of finite width at points
that the training inputs do not determine (`Predictive.mgf`): the median is the number to predict.
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

_FLOATS = 1 << 18  # of the Gaussians of one block of points
#: Share of the rate at which an exponential moment diverges from which it has an integral of its own: draws
#: weighted by its integrand have no variance from one half on, and quadrature nodes end within its tail.
_FAR = 0.5


@dataclass(frozen=True)
class Transform:
    """An increasing function of the targets, its inverse and the logarithm of its slope.

    Attributes
    ----------
    name : str
    moments : function of (means, deviations) -> (means, variances)
        Of y where z is Gaussian, for arrays of one shape.
    lowest, highest : float
        Targets are strictly between these; `closed` where they may be the lowest.
    """

    name: str
    forward: Callable[[Array], Array]
    inverse: Callable[[Array], Array]
    log_slope: Callable[[Array], Array]
    moments: Callable[[Array, Array], tuple[Array, Array]]
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


def _lognormal_moments(means: Array, deviations: Array) -> tuple[Array, Array]:
    """Mean and variance of exp(z) for z ~ N(m, s²), of any shape; infinite beyond the range of doubles."""
    with np.errstate(over="ignore", invalid="ignore"):
        first = np.exp(means + 0.5 * deviations**2)
        second = np.where(deviations > 0, first**2 * np.expm1(deviations**2), 0.0)
    return first, second


def _lognormal_moments_less_one(means: Array, deviations: Array) -> tuple[Array, Array]:
    """The same of exp(z) − 1."""
    first, second = _lognormal_moments(means, deviations)
    return first - 1.0, second


def _square_moments(means: Array, deviations: Array) -> tuple[Array, Array]:
    """Mean and variance of max(z, 0)² for z ~ N(m, s²), of any shape.

    With e_k = E max(z, 0)^k of −|m|: e_2 and e_4 − e_2² for m ≤ 0; for m > 0, where z² = max(z, 0)² +
    max(−z, 0)², m² + s² − e_2 and 2s⁴ + 4m²s² − e_4 + 2(m² + s²)e_2 − e_2², a form without cancellation.
    """
    s = np.maximum(deviations, np.finfo(float).tiny)
    a = -np.abs(means) / s
    tail, density = special.ndtr(a), np.exp(-0.5 * a**2) / math.sqrt(2 * math.pi)
    e2 = s**2 * np.maximum((1 + a**2) * tail + a * density, 0.0)
    e4 = s**4 * np.maximum((3 + 6 * a**2 + a**4) * tail + (5 * a + a**3) * density, 0.0)
    square = means**2 + s**2
    variance = 2 * s**4 + 4 * means**2 * s**2 - e4 + 2 * square * e2 - e2**2
    above = means > 0
    return np.where(above, square - e2, e2), np.where(above, variance, np.maximum(e4 - e2**2, 0.0))


#: Deviations s up to which E f(z), f(z) = 1/(1 + e⁻ᶻ), is summed by the trapezoid rule over u = (z − m)/s,
#: and its step h. f has poles at u = ± iπ/s, and the error is exp(−2πy/h + y²/2), y = min(π/s, 2π/h): 1e−14.
_STEPS = ((0.5, 0.75), (1.2, 0.45), (3.0, 0.19))
_LOWEST, _HIGHEST = -9.0, 15.0  # deviations between which it is summed: e^{2z} has its mass at 2s ≤ 6
#: Ends of the panels of a Gauss rule, for integrals over t > 0 of e^{−t} times a Gaussian wider than 3.
_PANELS = np.array([0.0, 2.0, 8.0, 20.0, 40.0])


def _share_moments(means: Array, deviations: Array) -> tuple[Array, Array]:
    """Mean and variance of f(z) = 1/(1 + e⁻ᶻ) for z ~ N(m, s²), of any shape, to 1e−13.

    f(−z) = 1 − f(z), so that m ≤ 0 is enough, where means are small and lose no digits.
    """
    m, s = -np.abs(means).ravel(), deviations.ravel()
    first, second = np.empty_like(m), np.empty_like(m)
    lower = -np.inf
    for upper, step in _STEPS:
        here = (s > lower) & (s <= upper)
        first[here], second[here] = _narrow_shares(m[here], s[here], step)
        lower = upper
    first[s > lower], second[s > lower] = _wide_shares(m[s > lower], s[s > lower])
    mean = first.reshape(means.shape)
    return np.where(means > 0, 1 - mean, mean), second.reshape(means.shape)


def _narrow_shares(m: Array, s: Array, step: float) -> tuple[Array, Array]:
    """Mean and variance of f(z), by the trapezoid rule; m and s (k,)."""
    nodes = step * np.arange(math.floor(_LOWEST / step), math.ceil(_HIGHEST / step) + 1)
    weights = step * np.exp(-0.5 * nodes**2) / math.sqrt(2 * math.pi)
    first, second = np.zeros_like(m), np.zeros_like(m)
    for node, weight in zip(nodes, weights, strict=True):
        first += weight * special.expit(m + node * s)
    for node, weight in zip(nodes, weights, strict=True):
        second += weight * (special.expit(m + node * s) - first) ** 2
    return first, second


def _wide_shares(m: Array, s: Array) -> tuple[Array, Array]:
    """Mean and variance of f(z), which is nearly a step; m ≤ 0 and s > 3, (k,).

    f is the step at zero less sgn(z) f(−|z|), and f² = f − f f(−z): with N the density of z

        E f = Φ(m/s) + ∫_0^∞ f(−t) [N(−t) − N(t)] dt,    E f² = E f − ∫_0^∞ f(t) f(−t) [N(−t) + N(t)] dt.
    """
    inner, inner_weights = np.polynomial.legendre.leggauss(16)
    half = np.diff(_PANELS)[:, None] / 2
    nodes = (_PANELS[:-1, None] + half * (inner + 1)).ravel()
    weights = (half * inner_weights).ravel()
    first, lost = special.ndtr(m / s), np.zeros_like(m)
    for t, weight in zip(nodes, weights, strict=True):
        below, above = (np.exp(-0.5 * ((z - m) / s) ** 2) / (s * math.sqrt(2 * math.pi)) for z in (-t, t))
        first += weight * special.expit(-t) * (below - above)
        lost += weight * special.expit(t) * special.expit(-t) * (below + above)
    return first, np.maximum(first - lost - first**2, 0.0)


#: Transforms by name.
TRANSFORMS = {
    each.name: each
    for each in (
        Transform("log", np.log, np.exp, lambda y: -np.log(y), _lognormal_moments, 0.0),
        Transform("log1p", np.log1p, np.expm1, lambda y: -np.log1p(y), _lognormal_moments_less_one, -1.0),
        Transform("sqrt", np.sqrt, _square, _half_log, _square_moments, 0.0),
        Transform(
            "logit",
            special.logit,
            special.expit,
            lambda y: -np.log(y) - np.log1p(-y),
            _share_moments,
            0.0,
            1.0,
        ),
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
        """Means and variances of y, (p̂, n_d) each, from those of each Gaussian of z, or infinite."""
        mean, variance = np.empty(self.shape), np.empty(self.shape)
        for rows, weights, means, deviations in self._gaussian_parts():
            first, second = self.transform.moments(means[weights > 0], deviations[weights > 0])
            own = weights[weights > 0]
            with np.errstate(over="ignore", invalid="ignore"):
                mean[rows] = np.tensordot(own, first, axes=1)
                spread = np.tensordot(own, second + (first - mean[rows]) ** 2, axes=1)
                variance[rows] = np.where(np.isnan(spread), np.inf, spread)  # inf − inf beyond doubles
        return (
            self._exponential(mean, variance) if self.transform.name in ("log", "log1p") else (mean, variance)
        )

    def _exponential(self, mean: Array, variance: Array) -> tuple[Array, Array]:
        """Moments of exp(z) where atoms do not give them: infinite, or with integrals of their own."""
        shift = 1.0 if self.transform.name == "log1p" else 0.0
        growth = self.predictive.exponential_growth()
        mean[growth >= 1], variance[4 * growth >= 1] = np.inf, np.inf
        for point, output in np.argwhere((growth >= _FAR) & (growth < 1)):
            mean[point, output] = self._moment(point, output, 1.0) - shift
        for point, output in np.argwhere((4 * growth >= _FAR) & (4 * growth < 1)):
            square = (mean[point, output] + shift) ** 2
            variance[point, output] = self._moment(point, output, 2.0) - square
        return mean, variance

    def _moment(self, point: int, output: int, power: float) -> float:
        """E exp(power z) of one output at one point."""
        source = np.zeros(self.shape)
        source[point, output] = power
        with np.errstate(over="ignore"):
            return float(np.exp(self.predictive._cgf(source)))

    def _gaussian_parts(self) -> Iterator[tuple[slice, Array, Array, Array]]:
        """Points with weights (atoms,), means and deviations (atoms, rows, n_d) of their Gaussians."""
        if isinstance(self.predictive, ConditionedPredictive):  # every point has weights of its own
            for row in range(self.shape[0]):
                log_weights, means, covariances = self.predictive.gaussians(row)
                deviations = np.sqrt(np.maximum(np.diagonal(covariances, axis1=1, axis2=2), 0.0))
                yield slice(row, row + 1), special.softmax(log_weights), means[:, None], deviations[:, None]
            return
        atoms = len(self.predictive.marginals(slice(0, 1))[0])
        for rows in blocks(self.shape[0], atoms * self.shape[1], _FLOATS):
            yield rows, *self.predictive.marginals(rows)

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
        """Values of z and log t'(y), shaped like y; values of y outside the domain have neither."""
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
            f"{what} of transformed targets are not available, got target_transform={self.transform.name!r}: "
            "use sample, or .predictive, which is the law of the transformed targets"
        )

    # ------------------------------------------------------------------ observations

    def given(self, Y_partial: ArrayLike) -> TransformedPredictive:  # type: ignore[override]
        """The law where some outputs are known, as `Predictive.given`: NaN where they are not."""
        values = check.like_mean_or_missing(Y_partial, self.shape, self.single_output, "Y_partial")
        known = ~np.isnan(values)
        inner = np.full_like(values, np.nan)
        inner[known] = self._inner(values[known])[0]
        inner = inner[:, 0] if self.single_output else inner
        return replace(self, predictive=self.predictive.given(inner))

    def with_noise(self) -> TransformedPredictive:
        """The predictive of observations rather than of the function."""
        return replace(self, predictive=self.predictive.with_noise())
