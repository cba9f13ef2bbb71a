"""Moments and factors that a user hands over: their shapes, and whether they come from the same data."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from lbnn._base import check
from lbnn._base.arrays import largest, like
from lbnn._base.types import AnyArray, Array
from lbnn.data.bases import GRAM_TOLERANCE
from lbnn.data.factor import Factor, moment_rows
from lbnn.data.projection import RANK_TOLERANCE

_LARGEST_TARGET = 1e100
_OR_DEPENDENT = (
    "; where they do come from the same data, the inputs are too close to dependent for moments: use "
    "from_inputs, from_chunks with passes=2, or from_factor"
)


def require_in_range(cross: AnyArray, vectors: AnyArray) -> None:
    """Raise unless XᵀY lies in the range of XᵀX, as moments of the same data do."""
    outside = largest(cross - vectors @ (vectors.T @ cross))
    if outside > GRAM_TOLERANCE * largest(cross):
        raise ValueError(
            "input_moment and cross_moment must come from the same data, got a cross_moment with "
            f"{outside:.3g} outside the range of input_moment{_OR_DEPENDENT}"
        )


def require_representable(targets: AnyArray, name: str) -> None:
    """Raise where the squares of targets, which enter everywhere, would overflow."""
    if largest(targets) > _LARGEST_TARGET:
        raise ValueError(f"{name} must be below {_LARGEST_TARGET:g} in size, got larger values: rescale Y")


def moment_residual(total: float, explained: float) -> float:
    """‖Y‖² − ‖ỹ‖², where rounding counts as zero; raises if negative, as for moments of different data."""
    if explained > total * (1 + GRAM_TOLERANCE):
        raise ValueError(
            "input_moment, cross_moment and target_moment must come from the same data, got targets of "
            f"squared norm {total:.6g} of which the inputs explain {explained:.6g}{_OR_DEPENDENT}"
        )
    return total - explained if total - explained > 100 * RANK_TOLERANCE * total else 0.0


def _cross_moment(value: ArrayLike, dimension: int) -> tuple[Array, bool]:
    """XᵀY (n0, n_d) as given, and whether it was a vector."""
    array = check.real_array(value, "cross_moment")
    if array.ndim not in (1, 2) or array.shape[0] != dimension or array.size == 0:
        raise ValueError(
            f"cross_moment must be XᵀY with n0 = {dimension} rows, got cross_moment.shape={array.shape}"
        )
    return array.reshape(dimension, -1), array.ndim == 1


def given_moments(
    input_moment: ArrayLike, cross_moment: ArrayLike, target_moment: ArrayLike, examples: int
) -> tuple[AnyArray, AnyArray, float, int, bool]:
    """XᵀX/n0, XᵀY, ‖Y‖² and p as `Spectrum.from_moments` was given them, and whether there is one output."""
    moment = check.square_matrix(input_moment, "input_moment")
    dimension = moment.shape[0]
    cross, single = _cross_moment(cross_moment, dimension)
    square = check.real_array(target_moment, "target_moment")
    if square.size != cross.shape[1] ** 2:
        raise ValueError(f"target_moment must be YᵀY for {cross.shape[1]} outputs, got shape {square.shape}")
    count = check.positive_integer(examples, "examples")
    require_representable(cross, "XᵀY")
    total = float(np.trace(square.reshape(cross.shape[1], -1)))
    return moment / dimension, like(cross, moment), total, count, single


def given_factor(
    factor: ArrayLike, targets: ArrayLike, residual_moment: ArrayLike, examples: int
) -> tuple[Factor, int, bool]:
    """The factor that `Spectrum.from_factor` was given, p, and whether there is one output."""
    root = check.matrix(factor, "factor")
    along, single = check.targets(targets, len(root))
    require_representable(along, "QᵀY")
    moment = np.atleast_2d(check.real_array(residual_moment, "residual_moment"))
    if moment.shape != (along.shape[1], along.shape[1]):
        raise ValueError(
            f"residual_moment must have shape {(along.shape[1],) * 2}, got {np.shape(residual_moment)}"
        )
    moment = check.square_matrix(moment, "residual_moment")
    if np.linalg.eigvalsh(moment)[0] < -GRAM_TOLERANCE * float(np.abs(moment).max()):
        raise ValueError("residual_moment must be positive semi-definite, got negative eigenvalues")
    count = check.positive_integer(examples, "examples")
    if len(root) > count:
        raise ValueError(f"factor must have at most p rows, got {len(root)} with examples={count}")
    return Factor(root, along, moment_rows(moment)), count, single
