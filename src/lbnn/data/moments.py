"""Moments that a user hands over: their shape, and whether they come from the same data."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from lbnn._base import check
from lbnn._base.types import Array
from lbnn.data.bases import GRAM_TOLERANCE
from lbnn.data.projection import RANK_TOLERANCE

_OR_DEPENDENT = (
    "; where they do come from the same data, the inputs are too close to dependent for moments: use "
    "from_inputs, from_chunks with passes=2, or from_factor"
)


def require_in_range(cross: Array, vectors: Array) -> None:
    """Raise unless XᵀY lies in the range of XᵀX, as moments of the same data do."""
    outside = float(np.abs(cross - vectors @ (vectors.T @ cross)).max())
    if outside > GRAM_TOLERANCE * float(np.abs(cross).max()):
        raise ValueError(
            "input_moment and cross_moment must come from the same data, got a cross_moment with "
            f"{outside:.3g} outside the range of input_moment{_OR_DEPENDENT}"
        )


def moment_residual(total: float, explained: float) -> float:
    """‖Y‖² − ‖ỹ‖², where rounding counts as zero; raises if negative, as for moments of different data."""
    if explained > total * (1 + GRAM_TOLERANCE):
        raise ValueError(
            "input_moment, cross_moment and target_moment must come from the same data, got targets of "
            f"squared norm {total:.6g} of which the inputs explain {explained:.6g}{_OR_DEPENDENT}"
        )
    return total - explained if total - explained > 100 * RANK_TOLERANCE * total else 0.0


def as_cross_moment(value: ArrayLike, dimension: int) -> tuple[Array, bool]:
    """XᵀY as a matrix (n0, n_d), and whether it was given for one output."""
    array = check.real_array(value, "cross_moment")
    if array.ndim not in (1, 2) or array.shape[0] != dimension or array.size == 0:
        raise ValueError(
            f"cross_moment must be XᵀY with n0 = {dimension} rows, got cross_moment.shape={array.shape}"
        )
    return array.reshape(dimension, -1), array.ndim == 1
