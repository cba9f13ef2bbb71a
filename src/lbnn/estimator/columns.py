"""Columns of the inputs in the units of the network's inputs: their own, or standard deviations."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lbnn._base.arrays import device_of, like, to_numpy
from lbnn._base.blocks import blocks
from lbnn._base.types import AnyArray, Array, Mask
from lbnn.data.centring import column_sizes
from lbnn.data.projection import RANK_TOLERANCE

RAW, STANDARDISED = "raw", "standardised"
OWN_SCALES = "own scales"  # a prior scale for each column or group, by evidence


@dataclass(frozen=True)
class ColumnUnits:
    """The network's or the kernel's input is (x − offset)/deviation, column by column.

    Attributes
    ----------
    name : str
        "raw", "standardised" or "own scales".
    offset, deviation : (n0,)
        Zero and one for raw columns.
    """

    name: str
    offset: Array
    deviation: Array

    @classmethod
    def raw(cls, columns: int) -> ColumnUnits:
        """Columns as they are."""
        return cls(RAW, np.zeros(columns), np.ones(columns))

    @classmethod
    def standardised(cls, X: AnyArray, centre: bool, weights: Array | None = None) -> ColumnUnits:
        """Mean zero and variance one over the rows of X (mean square one without centring).

        Columns that vary by rounding only are divided by one. Moments are weighted where rows have weights.
        """
        shares = np.full(X.shape[0], 1 / X.shape[0]) if weights is None else weights / weights.sum()
        offset = to_numpy(like(shares, X) @ X) if centre else np.zeros(X.shape[1])
        centre_of = like(offset, X)
        variance = np.zeros(X.shape[1])
        for some in blocks(X.shape[0], X.shape[1], device_of(X).block_floats):  # no copy of all of X
            variance += to_numpy(like(shares[some], X) @ (X[some, :] - centre_of) ** 2)
        return cls.of_moments(offset, np.sqrt(variance), column_sizes(X))

    @classmethod
    def of_moments(cls, offset: Array, deviation: Array, size: Array) -> ColumnUnits:
        """`standardised` from moments of the columns; `size` is what rounding is relative to."""
        return cls(STANDARDISED, offset, np.where(varying(deviation, size), deviation, 1.0))

    def rescaled(self, variances: Array, name: str) -> ColumnUnits:
        """Columns with these prior variances of their coefficients (n0,), relative to the present ones."""
        return ColumnUnits(name, self.offset, self.deviation / np.sqrt(variances))

    def seen(self, X: AnyArray) -> AnyArray:
        """(x − offset)/deviation, (rows, n0)."""
        if self.name == RAW:
            return X
        result = X - like(self.offset, X)
        result /= like(self.deviation, X)  # in place where the library can: X may take most of the memory
        return result


def varying(deviation: Array, size: Array) -> Mask:
    """Which columns vary by more than rounding."""
    return deviation > 4 * RANK_TOLERANCE * size


def candidates(wanted: str, standardised: ColumnUnits) -> list[ColumnUnits]:
    """The units to be compared: the one that is wanted, or both where they differ."""
    raw = ColumnUnits.raw(len(standardised.deviation))
    if wanted != "evidence":
        return [raw if wanted == RAW else standardised]
    same = np.ptp(standardised.deviation) <= 1e-9 * standardised.deviation.max()
    return [raw] if same else [raw, standardised]
