"""The prior of the scales along one direction of the simplex.

The scales λ_k are independent products of Gammas (`GammaProduct`). With λ_k = s θ_k and θ fixed, the log
density of (log λ_1, …, log λ_K) is a function of log s alone,

    P_θ(log s) = Σ_k log π_k(log s + log θ_k),

which is tabulated once for each direction and then serves all targets, noise variances and total scales.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from scipy import interpolate, special

from lbnn._base.arrays import HOST, Device, take
from lbnn._base.types import AnyArray, Array
from lbnn.scale.gamma_product import GammaProduct

_SHAPE = 8.0  # of a Gamma; the fourth derivative of log densities grows with the shape
#: Log density at which a table ends on the right, and the same in units of the shape of the law: along any
#: direction of twelve bands the prior's mode has λ_k of at most twelve modes, 8.6 shapes below the maximum.
_LOWEST, _LOWEST_OF_SHAPE = -1e5, -50.0
_REACH = 120.0  # length of a table in log λ; e^(−120 · ½) is beyond what any posterior shows


@dataclass(frozen=True)
class BandPriors:
    """Priors of log λ_k, k = 1..K, each in units in which its kernel has mean diagonal one.

    Attributes
    ----------
    laws : sequence of GammaProduct
    log_sizes : (K,)
        Logarithms of the mean diagonals of the kernels as given: what is added to log λ_k.
    """

    laws: Sequence[GammaProduct]
    log_sizes: Array

    @property
    def mean(self) -> Array:
        """Prior means of the logarithms of the scales, (K,)."""
        means = [
            law.shift + float((law.multiplicity * (special.digamma(law.shapes) - np.log(law.shapes))).sum())
            for law in self.laws
        ]
        return np.array(means) + self.log_sizes

    @property
    def variance(self) -> Array:
        """Prior variances of the logarithms of the scales, (K,)."""
        return np.array(
            [float((law.multiplicity * special.polygamma(1, law.shapes)).sum()) for law in self.laws]
        )

    def along(self, log_direction: Array, largest_step: float, device: Device) -> PriorTable:
        """P_θ for log θ (K,), in steps of `largest_step` at most."""
        step = self._step(largest_step)
        tables = [_of_law(law.widths, law.shift, step) for law in self.laws]
        offsets = log_direction - self.log_sizes
        high = min(each.high - offset for each, offset in zip(tables, offsets, strict=True))
        x = high - step * np.arange(int(_REACH / step), -1, -1)
        total = np.zeros(len(x))
        for each, offset in zip(tables, offsets, strict=True):
            total += each.value(x + offset, np)
        return _table(x, total, device)

    def each(self, largest_step: float, device: Device) -> tuple[PriorTable, ...]:
        """Log densities of the log λ_k, k = 1..K, for kernels of mean diagonal one, by themselves."""
        tables = [_of_law(law.widths, law.shift, self._step(largest_step)) for law in self.laws]
        return tuple(
            PriorTable(
                table.low + float(size),
                table.step,
                tuple(device.put(part) for part in table.coefficients),
                table.peak + float(size),
                table.shape,
            )
            for table, size in zip(tables, self.log_sizes, strict=True)
        )

    def _step(self, largest: float) -> float:
        """Step of tables: less than the largest for laws narrower than a Gamma of shape 8."""
        sharpest = max(float((law.shapes * law.multiplicity).sum()) for law in self.laws)
        return largest * min(1.0, (_SHAPE / sharpest) ** 0.25)


@dataclass(frozen=True)
class PriorTable:
    """A log density of log s as a cubic spline with equal steps, on the device of the data.

    Attributes
    ----------
    low, step : float
    coefficients : tuple of four (cells,)
        Of 1, x, x², x³.
    peak, shape : float
        The mode, and −(second derivative) there, which is the shape if s has the law of a Gamma.
    """

    low: float
    step: float
    coefficients: tuple[AnyArray, ...]
    peak: float
    shape: float

    @property
    def high(self) -> float:
        """Right end; beyond both ends the log density goes on as a straight line."""
        return self.low + self.step * float(self.coefficients[0].shape[0])

    def __call__(self, x: AnyArray, xp: Any) -> tuple[AnyArray, AnyArray, AnyArray]:
        """Value, slope and curvature at x of any shape."""
        c0, c1, c2, c3, away = self._cells(x, xp)
        value = c0 + away * (c1 + away * (c2 + away * c3))
        return value, c1 + away * (2 * c2 + away * 3 * c3), 2 * c2 + 6 * away * c3

    def value(self, x: AnyArray, xp: Any) -> AnyArray:
        """Value at x of any shape."""
        c0, c1, c2, c3, away = self._cells(x, xp)
        return c0 + away * (c1 + away * (c2 + away * c3))

    def _cells(self, x: AnyArray, xp: Any) -> tuple[AnyArray, ...]:
        """Coefficients of the cubic and distance from its left end at x of any shape."""
        cells = self.coefficients[0].shape[0]
        flat = xp.reshape(x, (-1,))
        cell = xp.clip(xp.floor((flat - self.low) / self.step), 0.0, cells - 1.0)
        index, away = xp.astype(cell, xp.int64), flat - (self.low + self.step * cell)
        # one coefficient at a time: rows of four take an H200 ten times as long
        own = [take(each, index, axis=0) for each in self.coefficients]
        return tuple(xp.reshape(each, x.shape) for each in (*own, away))


def _table(x: Array, values: Array, device: Device) -> PriorTable:
    """A cubic spline through values (n,) at equidistant x (n,), with straight lines beyond the ends."""
    coefficients = interpolate.CubicSpline(x, values).c[::-1].copy()  # (4, cells), constant first
    top = int(np.argmax(values[:-1]))
    slope, shape = coefficients[1, top], -2 * coefficients[2, top]
    peak = float(x[top] + slope / shape)
    coefficients[2:, [0, -1]] = 0.0
    on_device = tuple(device.put(each) for each in coefficients)
    return PriorTable(float(x[0]), float(x[1] - x[0]), on_device, peak, float(shape))


@lru_cache(maxsize=64)
def _of_law(widths: tuple[float, ...], shift: float, step: float) -> PriorTable:
    """Log density of log λ on the host."""
    law = GammaProduct(widths, float(np.exp(shift)))
    x = np.asarray(_right_end(law) - step * np.arange(int(_REACH / step), -1, -1), np.float64)
    return _table(x, law.log_density(x), HOST)


def _right_end(law: GammaProduct) -> float:
    """Where the log density has fallen to the lowest of a table."""
    x = np.linspace(law.shift, law.shift + 100.0, 2001)
    below = law.log_density(x) < min(_LOWEST, _LOWEST_OF_SHAPE * float((law.shapes * law.multiplicity).sum()))
    return float(x[np.argmax(below)]) if below.any() else float(x[-1])
