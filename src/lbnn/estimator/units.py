"""Units: of the columns of the inputs, and of the targets, with combinations of them that do not vary.

Targets that add up to 100, or fulfil any other linear relation, have a covariance without an inverse. The
model is then one of the contrasts that vary: Y = mean + Z Mᵀ with Z (p, q), q < n_d. Predictions fulfil the
relation exactly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lbnn._base.arrays import device_of, like, to_numpy
from lbnn._base.blocks import blocks
from lbnn._base.types import AnyArray, Array, Mask
from lbnn.data.centring import column_sizes
from lbnn.data.projection import RANK_TOLERANCE

RAW, STANDARDISED = "raw", "standardised"
OWN = "own"  # a prior scale for each column or group, by evidence


@dataclass(frozen=True)
class ColumnUnits:
    """The network's or the kernel's input is (x − offset)/deviation, column by column.

    Attributes
    ----------
    name : str
        "raw", "standardised" or "own".
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

    def rescaled(self, variances: Array) -> ColumnUnits:
        """Columns with these prior variances of their coefficients (n0,), relative to the present ones."""
        return ColumnUnits(OWN, self.offset, self.deviation / np.sqrt(variances))

    def seen(self, X: AnyArray) -> AnyArray:
        """(x − offset)/deviation, (rows, n0)."""
        if self.name == RAW:
            return X
        result = X - like(self.offset, X)
        result /= like(self.deviation, X)  # in place where the library can: X may take most of the memory
        return result

    @property
    def alike(self) -> bool:
        """Whether all columns have one deviation, so that dividing by it changes nothing."""
        return bool(np.ptp(self.deviation) <= 1e-9 * self.deviation.max())


def varying(deviation: Array, size: Array) -> Mask:
    """Which columns vary by more than rounding."""
    return deviation > 4 * RANK_TOLERANCE * size


@dataclass(frozen=True)
class TargetUnits:
    """Targets are mean + M · (targets of the search).

    Attributes
    ----------
    mean : (n_d,)
    matrix : (n_d, q)
        M: a multiple of the identity, or contrasts where targets are dependent.
    single_output : bool
    """

    mean: Array
    matrix: Array
    single_output: bool

    @classmethod
    def of(
        cls, centred: Array, mean: Array, count: int, freedom: int, single: bool, smallest: float
    ) -> TargetUnits:
        """Of targets less their means, or rows (any, n_d) with their moments, for `count` examples.

        `freedom` is what their squares are divided by. Combinations of standardised targets with a deviation
        below `smallest`, relative to the largest, count as not varying; zero where contrasts are not wanted.
        """
        squares = (centred**2).sum(axis=0)
        basis = _varying_combinations(centred, count, smallest) if smallest else None
        if basis is not None:
            return cls(mean, np.sqrt(squares / count)[:, None] * basis, False)
        size = math.sqrt(float(squares.mean()) / max(freedom, 1))
        return cls(mean, (size if size > 0 else 1.0) * np.eye(len(squares)), single)

    @cached_property
    def log_unit(self) -> float:
        """Log of the geometric mean of the singular values of M."""
        return float(np.log(np.linalg.svd(self.matrix, compute_uv=False)).mean())

    @property
    def dependent(self) -> int:
        """Number of combinations of the targets that do not vary."""
        return self.matrix.shape[0] - self.matrix.shape[1]

    def inner(self, centred: Array) -> Array:
        """Targets of the search, (p, q), from targets less their mean."""
        return centred @ np.linalg.pinv(self.matrix).T


def _varying_combinations(centred: Array, count: int, smallest: float) -> Array | None:
    """Orthonormal combinations (n_d, q) of standardised targets that vary, or None if all of them do.

    With as few rows as targets every set of targets is dependent, and nothing is concluded from it.
    """
    deviations = np.sqrt((centred**2).sum(axis=0) / count)
    if len(deviations) == 1 or count <= len(deviations) or not deviations.all():
        return None
    sizes, axes = np.linalg.svd(np.linalg.qr(centred / deviations, mode="r"))[1:]
    sizes = np.append(sizes, np.zeros(len(axes) - len(sizes)))
    kept = sizes > smallest * sizes[0]
    return None if kept.all() else axes[kept].T
