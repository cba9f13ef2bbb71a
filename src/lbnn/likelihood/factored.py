"""The likelihood of one output from Cholesky factorisations at a few scales.

A survey of the data (`data.factored`) gives log p(Y | λ) roughly everywhere. On a range of x = log λ that
holds the posterior, the difference of the exact curve from the survey is analytic (its nearest singularity is
a distance π off the real axis), so that its values at a few Chebyshev points give it to rounding in between.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.polynomial import chebyshev

from lbnn._base.arrays import row_squares
from lbnn._base.errors import NotFactorised
from lbnn._base.types import Array
from lbnn.data.factored import FactoredGram
from lbnn.data.spectrum import FactoredSpectrum
from lbnn.likelihood.gaussian import GaussianLikelihood

_FIRST, _MOST = 6, 24  # intervals between Chebyshev points: doubled until the series has ended
_DIGITS = 20.0  # nats below one to which functions analytic up to ± iπ are resolved, as those of test points
_ROUNDING = 1e-9
_ENDED = (
    1e-9  # larger of the last two coefficients at which it has; further ones are at least five times smaller
)


@dataclass(frozen=True)
class Correction:
    """Chebyshev series of exact − survey in log λ, on a range; its ends stand for what is outside."""

    low: float
    high: float
    series: Array
    factorisations: int

    def __call__(self, x: Array) -> Array:
        """At x = log λ."""
        half = max((self.high - self.low) / 2, np.finfo(float).tiny)
        places = np.clip((x - (self.low + self.high) / 2) / half, -1.0, 1.0)
        return np.asarray(chebyshev.chebval(places, self.series), float)

    @property
    def nodes(self) -> Array:
        """The points of log λ at which the Gram matrix was factorised, ascending."""
        return chebyshev_points(self.low, self.high, len(self.series) - 1)


@dataclass(frozen=True)
class FactoredLikelihood(GaussianLikelihood):
    """log p(Y | λ) of one output: a survey, and its correction once a range is known (`corrected`)."""

    data: FactoredGram = field(kw_only=True)
    probes: tuple[tuple[Array, Array], ...] = field(kw_only=True)
    correction: Correction | None = field(kw_only=True, default=None)

    @property
    def log_constant(self) -> float:
        """−½ p log 2π: no direction is left to the noise alone."""
        return -0.5 * self.examples * math.log(2 * math.pi)

    def log_value(self, eigenvalues: Array, vectors: Array) -> Array:
        """The survey, corrected where it has been."""
        value = super().log_value(eigenvalues, vectors)
        return value if self.correction is None else value + self.correction(np.log(eigenvalues[:, 0]))

    def deviation(self, x: Array, centre: float) -> Array:
        """Standard error of the survey's log p(Y | λ) at x relative to that at the centre, (m,)."""
        points = np.exp(np.append(x, centre))[:, None]
        each = np.stack([np.log(self.noise + points * nodes) @ counts for nodes, counts in self.probes])
        relative = each[:, :-1] - each[:, -1:]
        return 0.5 * relative.std(axis=0, ddof=1) / math.sqrt(len(self.probes))

    def exact(self, x: float) -> float:
        """log p(Y | λ) less the constant, at x = log λ, by one factorisation."""
        log_determinant, half = self.data.solve(x - math.log(self.noise), self.data.targets)
        square = float(row_squares(half.T)[0]) / self.noise
        return -0.5 * (self.examples * math.log(self.noise) + log_determinant + square)

    def corrected(self, low: float, high: float) -> FactoredLikelihood:
        """The same, exact in a range; raises `NotFactorised` where a few points are not enough."""
        self._require_digits(high)
        known: dict[float, float] = {}
        intervals = _FIRST if high > low else 0
        while True:
            points = chebyshev_points(low, high, intervals)
            for x in (float(point) for point in points if point not in known):
                known[x] = self.exact(x) - self._surveyed(x)
            series = _series(np.array([known[float(x)] for x in points]))
            enough = not intervals or intervals * math.asinh(2 * math.pi / (high - low)) >= _DIGITS
            if enough and (not intervals or np.abs(series[-2:]).max() <= _ENDED * self._size):
                return self._with(Correction(low, high, series, len(known)))
            if 2 * intervals > _MOST:
                raise NotFactorised
            intervals *= 2

    def _require_digits(self, high: float) -> None:
        """Raise where the rounding of λ G/τ is seen beside the identity."""
        largest = math.exp(high) / self.noise * float(self.eigenvalues.max())
        if np.finfo(float).eps * largest * math.sqrt(self.examples) > _ROUNDING:
            raise NotFactorised

    @cached_property
    def _size(self) -> float:
        """What rounding makes of one: sums of p logarithms."""
        return max(1.0, 1e-4 * self.examples)

    def _surveyed(self, x: float) -> float:
        return float(super().log_value(np.array([[math.exp(x)]]), np.ones((1, 1, 1)))[0])

    def _with(self, correction: Correction) -> FactoredLikelihood:
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return FactoredLikelihood(**(values | {"correction": correction}))


def factored_likelihood(spectrum: FactoredSpectrum, noise: float) -> FactoredLikelihood:
    """The survey of factored data as a likelihood, to be corrected."""
    return FactoredLikelihood(
        spectrum.eigenvalues,
        spectrum.targets,
        0.0,
        spectrum.examples,
        noise,
        condensed=spectrum.survey,
        data=spectrum.basis,
        probes=spectrum.probes,
    )


def chebyshev_points(low: float, high: float, intervals: int) -> Array:
    """Chebyshev points of the second kind, ascending; those of half as many intervals are among them."""
    if not intervals:
        return np.array([low])
    middle, half = (low + high) / 2, (high - low) / 2
    index = np.arange(intervals + 1)
    return middle + half * np.sin(np.pi * (2 * index - intervals) / (2 * intervals))


def _series(values: Array) -> Array:
    """Chebyshev coefficients from values at ascending `chebyshev_points`."""
    count = len(values) - 1
    if not count:
        return values
    points = np.sin(np.pi * (2 * np.arange(count + 1) - count) / (2 * count))
    return np.asarray(np.linalg.solve(chebyshev.chebvander(points, count), values), float)
