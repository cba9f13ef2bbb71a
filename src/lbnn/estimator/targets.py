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

_DEPENDENT = 1e-8  # smallest deviation of a combination of standardised targets, relative to the largest


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

    def inner(self, Y: Array) -> Array:
        """Targets of the search, (p, q)."""
        return (Y - self.mean) @ np.linalg.pinv(self.matrix).T

    @classmethod
    def of(cls, y: Array, centre: bool, *, contrasts: bool) -> tuple[TargetUnits, Array]:
        """Units of targets (p,) or (p, n_d), and the targets in them; contrasts where wanted and needed."""
        columns = y.reshape(len(y), -1)
        level = Columns.of(columns, centre)
        centred = level.centred_training(columns)
        basis = _varying(centred) if contrasts else None
        if basis is not None:
            deviations = np.sqrt((centred**2).mean(axis=0))
            matrix = np.where(deviations > 0, deviations, 1.0)[:, None] * basis
            return cls(level.means, matrix, False), centred @ np.linalg.pinv(matrix).T
        size = math.sqrt(float((centred**2).mean()) * len(y) / max(len(y) - centre, 1))
        unit = size if size > 0 else 1.0
        units = cls(level.means, unit * np.eye(columns.shape[1]), y.ndim == 1)
        return units, (centred / unit).reshape(y.shape)


def _varying(centred: Array) -> Array | None:
    """Orthonormal combinations (n_d, q) of standardised targets that vary, or None if all of them do.

    With as few rows as targets every set of targets is dependent, and nothing is concluded from it.
    """
    rows, outputs = centred.shape
    deviations = np.sqrt((centred**2).mean(axis=0))
    if outputs == 1 or rows <= outputs or not deviations.all():
        return None
    sizes, axes = np.linalg.svd(centred / deviations, full_matrices=False)[1:]
    kept = sizes > _DEPENDENT * sizes[0]
    return None if kept.all() else axes[kept].T
