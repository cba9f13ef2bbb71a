"""FactoredPredictive: one output at test points, from solves at a few scales in the place of eigenvectors.

Given λ, with e^s = λ/τ, M = I + e^s G and K the kernel between test and training points,

    mean = e^s K M⁻¹ y,   covariance = λ (K̂ − e^s K M⁻¹ Kᵀ).

As functions of log λ both are analytic, so that their values at the Chebyshev points of the likelihood give
them at every atom. The covariance is a difference: exact to rounding of the prior variance, not of itself.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NoReturn

import numpy as np
from numpy.polynomial import chebyshev

from lbnn._base.arrays import Place, add_to_diagonal, like, namespace, place_of, to_numpy
from lbnn._base.types import AnyArray, Array
from lbnn._base.warn import warn
from lbnn.data.factored import FactoredGram, FactoredPoints
from lbnn.predict.given import Conditionable
from lbnn.predict.pointwise import doubtful_points
from lbnn.predict.predictive import log_average
from lbnn.scale.measure import ScaleMeasure

_LOG_TWO_PI = math.log(2 * math.pi)


@dataclass(frozen=True, repr=False)
class FactoredPredictive(Conditionable):
    """The predictive of data that were factorised and not decomposed (decompose="factor").

    It has moments, quantiles, intervals and pointwise densities; what needs every eigenvector says so.

    Attributes
    ----------
    points : FactoredPoints
        The test points.
    data : FactoredGram
        The training data.
    nodes : (k,)
        Values of log λ at which the Gram matrix is factorised.
    noise : float
        τ.
    measure : ScaleMeasure
        The law of λ.

    Examples
    --------
    >>> import numpy as np, lbnn
    >>> rng = np.random.default_rng(0)
    >>> X, y, X_test = rng.normal(size=(60, 80)), rng.normal(size=60), rng.normal(size=(3, 80))
    >>> spectrum = lbnn.Spectrum.from_inputs(X, y, decompose="factor")
    >>> law = lbnn.Network(widths=(30,)).condition_spectrum(spectrum, beta=4.0).predict(X_test)
    >>> law
    FactoredPredictive(points=3, outputs=1, noisy=False)
    >>> usual = lbnn.Network(widths=(30,)).condition(X, y, beta=4.0).predict(X_test)
    >>> bool(np.allclose(law.mean, usual.mean, rtol=0, atol=1e-8))
    True
    """

    points: FactoredPoints
    data: FactoredGram
    nodes: Array
    noise: float
    measure: ScaleMeasure
    noisy: bool = False

    @property
    def shape(self) -> tuple[int, int]:
        """(p̂, 1)."""
        return self.points.cross.shape[0], 1

    @property
    def place(self) -> Place:
        """That of the test points."""
        return place_of(self.points.cross)

    @property
    def single_output(self) -> bool:
        """Whether Y was one-dimensional."""
        return self.measure.single_output

    def scale_values(self) -> tuple[Array, Array]:
        """All atoms."""
        return self.measure.scales[:, 0, 0], self.measure.weights

    # ------------------------------------------------------------------ from nodes to atoms

    @cached_property
    def _shares(self) -> Array:
        """What each node counts at each atom, (atoms, k): Chebyshev interpolation in log λ."""
        low, high, last = self.nodes[0], self.nodes[-1], len(self.nodes) - 1
        if not last:
            return np.ones((len(self.measure.weights), 1))
        places = np.clip((2 * np.log(self.measure.scales[:, 0, 0]) - low - high) / (high - low), -1.0, 1.0)
        points = chebyshev.chebvander((2 * self.nodes - low - high) / (high - low), last)
        return np.linalg.solve(points.T, chebyshev.chebvander(places, last).T).T

    @cached_property
    def _at_nodes(self) -> tuple[Array, Array]:
        """Means and variances of the function at the nodes, (k, p̂) each: one factorisation for each."""
        prior, found = self.points.diagonal, [self._solved(float(x)) for x in self.nodes]
        means = [ratio * to_numpy(cross.T @ own)[:, 0] for ratio, own, cross in found]
        seen = [ratio * to_numpy(namespace(cross).sum(cross * cross, axis=0)) for ratio, _, cross in found]
        scales = np.exp(self.nodes)[:, None]
        return np.stack(means), scales * (prior - np.stack(seen))

    def _solved(self, x: float) -> tuple[float, AnyArray, AnyArray]:
        """e^s, F⁻¹ y and F⁻¹ Kᵀ at x = log λ."""
        s = x - math.log(self.noise)
        right = namespace(self.data.gram).concat([self.data.targets, self.points.cross.T], axis=1)
        _, half = self.data.solve(s, right)
        return math.exp(s), half[:, :1], half[:, 1:]

    @cached_property
    def _at_atoms(self) -> tuple[Array, Array]:
        """Means and variances of every atom, (atoms, p̂) each; observations with their noise."""
        means, variances = (self._shares @ values for values in self._at_nodes)
        return means, np.maximum(variances, 0.0) + (self.noise if self.noisy else 0.0)

    # ------------------------------------------------------------------ moments

    @property
    def _mean(self) -> Array:
        return (self.measure.weights @ self._at_atoms[0])[:, None]

    @property
    def _output_covariance(self) -> Array:
        means, variances = self._at_atoms
        spread = (means - self._mean[:, 0]) ** 2
        return (self.measure.weights @ (variances + spread))[:, None, None]

    @property
    def _covariance(self) -> AnyArray:
        total: AnyArray = 0.0
        for x, share in zip(self.nodes, self.measure.weights @ self._shares, strict=True):
            ratio, _, cross = self._solved(float(x))
            total = total + float(share * math.exp(x)) * (self.points.gram - ratio * (cross.T @ cross))
        roots = np.sqrt(self.measure.weights)[:, None] * (self._at_atoms[0] - self._mean[:, 0])
        there = like(roots, total)
        total = add_to_diagonal(total + there.T @ there, self.noise if self.noisy else 0.0)
        return total[:, None, :, None]

    # ------------------------------------------------------------------ densities and quantiles

    def marginals(self, rows: slice) -> tuple[Array, Array, Array]:
        """Weights of the atoms, and the Gaussians at some points given each of them."""
        means, variances = (each[:, rows, None] for each in self._at_atoms)
        return self.measure.weights, means, np.sqrt(variances)

    def _pointwise_log_density(self, values: Array) -> Array:
        means, variances = self._at_atoms
        if not variances.all():
            raise ValueError(
                "outputs have a density only at points that the training data do not determine, got "
                f"{np.count_nonzero((variances == 0).any(axis=0))} points of variance zero: use with_noise()"
            )
        terms = -0.5 * (_LOG_TWO_PI + np.log(variances) + (values[:, 0] - means) ** 2 / variances)
        doubtful = doubtful_points(self.measure, terms)
        if doubtful.any():
            warn(
                f"the densities of {np.count_nonzero(doubtful)} of {len(doubtful)} points need other scales "
                "than those at which the data were factorised: use decompose='eigh'"
            )
        return log_average(self.measure.weights, terms)

    def gaussians(self, row: int) -> tuple[Array, Array, Array]:
        """The Gaussians at one point given each atom."""
        means, variances = (each[:, row, None] for each in self._at_atoms)
        with np.errstate(divide="ignore"):  # weights may have underflowed to zero
            return np.log(self.measure.weights), means, variances[:, :, None]

    def with_noise(self) -> FactoredPredictive:
        """The predictive of observations rather than of the function."""
        other = replace(self, noisy=True)
        if "_at_nodes" in vars(self):  # the factorisations are the same
            vars(other)["_at_nodes"] = self._at_nodes
        return other

    # ------------------------------------------------------------------ what needs every eigenvector

    def _log_density(self, values: Array) -> float:
        _not_offered("a joint log density")

    def _draw(self, size: int, rng: np.random.Generator) -> Array:
        _not_offered("a joint draw")

    def _cgf(self, source: Array) -> float:
        _not_offered("a generating function")

    def _characteristic(self, source: Array) -> complex:
        _not_offered("a characteristic function")


def _not_offered(what: str) -> NoReturn:
    raise ValueError(
        f"{what} needs every eigenvector of the data, got data with decompose='factor': use decompose='eigh'"
    )
