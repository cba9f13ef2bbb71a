"""The law of log λ at very many points: Chebyshev interpolation of its log density, unit by unit of log λ.

`GammaProduct.log_density` takes a contour integral for every point. Its logarithm is analytic in log λ well
beyond a unit's distance from the real axis, so that twenty points on every unit interval give it to rounding
everywhere in between. For narrow laws, of wide networks, units are shorter, since rounding is relative to the
largest log density in a unit. Units are filled when they are asked for, each checked between its nodes.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.polynomial import chebyshev

from lbnn._base.blocks import blocks
from lbnn._base.types import Array, IndexArray
from lbnn.scale.gamma_product import GammaProduct

_NODES = 20
TABLE_DEVIATIONS = 8.0  # standard deviations of a narrow law that make a unit
_PLACES = chebyshev.chebpts1(_NODES)
_BETWEEN = np.array([-0.83, 0.13, 0.71])  # where every unit is checked
#: From values at the Chebyshev points to coefficients, (nodes, nodes).
_TRANSFORM = np.linalg.inv(chebyshev.chebvander(_PLACES, _NODES - 1)).T
_ALLOWED = 1e-12  # of one plus the size of the log density


class LogDensity(Protocol):
    """A law with a log density of x = log λ that is analytic in x."""

    def log_density(self, x: Array) -> Array:
        """At points (m,)."""
        ...


class DensityTable:
    """Log density of x = log λ as Chebyshev series on units of x of the given length."""

    @classmethod
    def of_product(cls, law: GammaProduct) -> DensityTable:
        """The table of a prior."""
        return cls(law, min(1.0, TABLE_DEVIATIONS * law.spread(0.0)))

    def __init__(self, law: LogDensity, length: float) -> None:
        self.law, self.accurate, self._length = law, True, length
        self._first, self._series = 0, np.zeros((0, _NODES))
        self._known = np.zeros(0, bool)

    def log_density(self, x: Array) -> Array:
        """Log density at x of any shape."""
        flat, result = x.ravel() / self._length, np.empty(x.size)
        unit = np.floor(flat).astype(int)
        self._fill(np.unique(unit))
        place, row = 2 * (flat - unit) - 1, unit - self._first
        for block in blocks(len(flat), 2 * _NODES):
            powers = chebyshev.chebvander(place[block], _NODES - 1)
            result[block] = np.einsum("mk,mk->m", powers, self._series[row[block]])
        return result.reshape(x.shape)

    def _fill(self, units: IndexArray) -> None:
        """Make the series of units (k,), ascending, that have none."""
        self._grow(int(units[0]), int(units[-1]))
        new = units[~self._known[units - self._first]]
        if not len(new):
            return
        places = np.concatenate([_PLACES, _BETWEEN])
        x = self._length * (new[:, None] + (1 + places) / 2)
        values = self.law.log_density(x.ravel()).reshape(x.shape)
        series = values[:, :_NODES] @ _TRANSFORM
        between = series @ chebyshev.chebvander(_BETWEEN, _NODES - 1).T
        wrong = np.abs(between - values[:, _NODES:]) > _ALLOWED * (1 + np.abs(values[:, _NODES:]))
        self.accurate &= not wrong.any()
        self._series[new - self._first], self._known[new - self._first] = series, True

    def _grow(self, low: int, high: int) -> None:
        """Allocate units from low to high."""
        if not len(self._known):
            self._first = low
        before, after = max(self._first - low, 0), max(high + 1 - self._first - len(self._known), 0)
        self._series = np.pad(self._series, ((before, after), (0, 0)))
        self._known, self._first = np.pad(self._known, (before, after)), self._first - before
