"""Targets in the units of the search, and combinations of them that do not vary.

Targets that add up to 100, or fulfil any other linear relation, have a covariance without an inverse. The
model is then one of the contrasts that vary: Y = mean + Z Mᵀ with Z (p, q), q < n_d. Predictions fulfil the
relation exactly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lbnn._base.types import Array
from lbnn.data.centring import Columns

#: Smallest deviation of a combination of standardised targets, relative to the largest, ...
_DEPENDENT = 1e-8
#: ... and where it is the square root of a moment, which is known to rounding of the largest.
DEPENDENT_BY_MOMENTS = 1e-6


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

    @classmethod
    def of(
        cls, y: Array, centre: bool, weights: Array | None = None, *, contrasts: bool
    ) -> tuple[TargetUnits, Array]:
        """Units of targets (p,) or (p, n_d), and the targets in them; contrasts where wanted and needed.

        The mean is weighted where rows have weights.
        """
        columns = y.reshape(len(y), -1)
        level = Columns.of(columns, centre, weights)
        centred = level.centred_training(columns)
        basis = _varying(centred, len(y), _DEPENDENT) if contrasts else None
        units = cls._from(centred, level.means, len(y), centre, basis, y.ndim == 1)
        return units, units.inner(centred).reshape(y.shape if basis is None else (len(y), -1))

    @classmethod
    def of_rotated(
        cls, rotated: Array, mean: Array, count: int, centre: bool, single: bool, *, contrasts: bool
    ) -> TargetUnits:
        """`of` for rows that have the moments of `count` centred targets."""
        basis = _varying(rotated, count, DEPENDENT_BY_MOMENTS) if contrasts else None
        return cls._from(rotated, mean, count, centre, basis, single)

    @classmethod
    def _from(
        cls, centred: Array, mean: Array, count: int, centre: bool, basis: Array | None, single: bool
    ) -> TargetUnits:
        squares = (centred**2).sum(axis=0)
        if basis is not None:
            return cls(mean, np.sqrt(squares / count)[:, None] * basis, False)
        size = math.sqrt(float(squares.mean()) / max(count - centre, 1))
        return cls(mean, (size if size > 0 else 1.0) * np.eye(len(squares)), single)


def _varying(centred: Array, count: int, smallest: float) -> Array | None:
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
