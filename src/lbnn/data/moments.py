"""Moments and factors that a user hands over: their shapes, and whether they come from the same data."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from lbnn._base import check
from lbnn._base.arrays import largest, like
from lbnn._base.types import AnyArray, Array
from lbnn.data.bases import GRAM_TOLERANCE
from lbnn.data.projection import RANK_TOLERANCE
from lbnn.data.stream import Factor

_USE = "use from_inputs, from_chunks, or from_factor"


def require_in_range(cross: AnyArray, vectors: AnyArray, total: float, dropped: float) -> None:
    """Raise unless XᵀY (n0, n_d) lies in the range of XᵀX, spanned by vectors (n0, r).

    `total` is ‖Y‖² and `dropped` a bound of the eigenvalues of XᵀX that count as zero: along their vectors
    XᵀY may be as large as the root of the product of the two.
    """
    outside = largest(cross - vectors @ (vectors.T @ cross))
    if outside <= GRAM_TOLERANCE * largest(cross):
        return
    if outside <= np.sqrt(total * dropped):
        raise ValueError(
            "moments need inputs that are not close to dependent, got a cross_moment with "
            f"{outside:.3g} along directions that input_moment does not distinguish from rounding: {_USE}"
        )
    raise ValueError(
        "input_moment and cross_moment must come from the same data, got a cross_moment with "
        f"{outside:.3g} outside the range of input_moment"
    )


def moment_residual(total: float, explained: float, rounding: float, condition: float) -> float:
    """‖Y‖² − ‖ỹ‖², where rounding counts as zero; raises if negative beyond that.

    `rounding` bounds the error of half the difference, and `condition` is that of XᵀX.
    """
    if explained > total * (1 + GRAM_TOLERANCE):
        found = f"got targets of squared norm {total:.6g} of which the inputs explain {explained:.6g}"
        if explained - total <= 2 * rounding:
            raise ValueError(
                "moments need inputs that are not close to dependent: the condition of input_moment is "
                f"{condition:.2g}, and rounding may change what the inputs explain by {2 * rounding:.2g}; "
                f"{found}: {_USE}"
            )
        raise ValueError(
            f"input_moment, cross_moment and target_moment must come from the same data, {found}"
        )
    return total - explained if total - explained > 100 * RANK_TOLERANCE * total else 0.0


def given_moments(
    input_moment: ArrayLike, cross_moment: ArrayLike, target_moment: ArrayLike, examples: int
) -> tuple[AnyArray, AnyArray, float, int, bool]:
    """XᵀX/n0 (n0, n0), XᵀY (n0, n_d), ‖Y‖² and p as `Spectrum.from_moments` was given them, single output."""
    moment = check.square_matrix(input_moment, "input_moment")
    dimension = moment.shape[0]
    products = check.real_array(cross_moment, "cross_moment")
    if products.ndim not in (1, 2) or products.shape[0] != dimension or products.size == 0:
        raise ValueError(
            f"cross_moment must be XᵀY with n0 = {dimension} rows, got cross_moment.shape={products.shape}"
        )
    cross, single = products.reshape(dimension, -1), products.ndim == 1
    square = check.real_array(target_moment, "target_moment")
    if square.size != cross.shape[1] ** 2:
        raise ValueError(f"target_moment must be YᵀY for {cross.shape[1]} outputs, got shape {square.shape}")
    count = check.positive_integer(examples, "examples")
    total = float(np.trace(square.reshape(cross.shape[1], -1)))
    check.size(largest(moment), "input_moment", power=2)
    check.size(abs(total), "target_moment", power=2)
    return moment / dimension, like(cross, moment), total, count, single


def given_factor(
    factor: ArrayLike, targets: ArrayLike, residual_moment: ArrayLike, examples: int
) -> tuple[Factor, int, bool]:
    """The factor R (k, n0) that `Spectrum.from_factor` was given, p, and whether there is one output."""
    root = check.matrix(factor, "factor")
    along, single = check.targets(targets, len(root))
    check.size(largest(root), "factor")
    check.size(largest(along), "QᵀY")
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
    values, vectors = np.linalg.eigh(moment)  # AᵀA = moment for its rows A; values below zero are rounding
    rest = np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T
    return Factor(root, along, rest), count, single


def moment_rounding(values: Array, targets: Array, residual: float, directions: int) -> float:
    """Bound of the error in ½(‖Y‖² − ‖ỹ‖²) from moments: g (r,) and ỹ (r, n_d) known to ε of the largest.

    Directions that count as zero although `directions` could be there may be lost altogether, and with them
    all of the residual.
    """
    total = float((targets**2).sum()) + residual
    lost = residual / RANK_TOLERANCE if len(values) < directions else 0.0
    if not len(values):
        return 0.5 * RANK_TOLERANCE * lost
    condition = np.sqrt(values[-1] / values)[:, None]
    terms = 2 * np.abs(targets) * np.sqrt(total) * condition + (targets * condition) ** 2
    return 0.5 * RANK_TOLERANCE * (total + float(terms.sum()) + lost)
