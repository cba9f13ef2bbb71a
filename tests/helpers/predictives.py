"""Predictives in other units, with a level whose variance is given."""

from __future__ import annotations

import lbnn
from lbnn._base.types import Array


def affine(
    inner: lbnn.Predictive,
    matrix: Array,
    offset: Array,
    level_variance: float = 0.0,
    single_output: bool = False,
) -> lbnn.Predictive:
    """Outputs F̂ Aᵀ + offset and a level N(0, level_variance · A Aᵀ); noise has the covariance τ A Aᵀ."""
    assert single_output == inner.single_output or not single_output
    level = level_variance / float(inner.parts[0].draws.variances[0]) if level_variance else 0.0
    return inner.affine(matrix, offset, level)
