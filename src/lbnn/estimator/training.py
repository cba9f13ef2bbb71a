"""The rows that a fit is about, after they were checked."""

from __future__ import annotations

from dataclasses import dataclass

from lbnn._base.types import AnyArray, Array, Mask
from lbnn.estimator.extent import Extent
from lbnn.estimator.rows import Rows


@dataclass(frozen=True)
class Training:
    """What `fit` was given, without the rows that are not counted.

    Attributes
    ----------
    inputs : (p, n0), or (p, p) for a precomputed kernel
    targets : (p,) or (p, n_d)
        Filled anyhow where they were not observed.
    weights : (p,) or None
        Of the rows; None where all are one.
    observed : (p, n_d) or None
        Which targets were observed; None where all were.
    rows : Rows
        Which rows of the table these are.
    extent : Extent
        How far all rows of the table reach.
    """

    inputs: AnyArray
    targets: Array
    weights: Array | None
    observed: Mask | None
    rows: Rows
    extent: Extent
