"""From a checked table to the data of the search: units, kernel and scales of columns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lbnn._base.types import Array, IndexArray
from lbnn.estimator import settings
from lbnn.estimator.column_scales import groups_of_columns
from lbnn.estimator.inputs import InputCandidate, Setting, best_inputs, best_kernel
from lbnn.estimator.kernels import Kernel, stationary
from lbnn.estimator.table import Table
from lbnn.estimator.units import OWN, RAW, STANDARDISED, TargetUnits
from lbnn.selection import EvidenceData


@dataclass(frozen=True)
class Prepared:
    """The table after units, kernel and scales of columns were chosen.

    Attributes
    ----------
    table : Table
    filled : (p, n_d)
        Its targets, completed where they were not observed.
    units : TargetUnits
    setting : Setting
    chosen : InputCandidate
        The best transform of the inputs at infinite width.
    others : list of InputCandidate
    """

    table: Table
    filled: Array
    units: TargetUnits
    setting: Setting
    chosen: InputCandidate
    others: list[InputCandidate]

    @property
    def data(self) -> EvidenceData:
        """Of the search."""
        return self.chosen.data

    @property
    def log_unit_jacobian(self) -> float:
        """From log densities of the search's targets to those of the user's."""
        return -self.data.spectrum.examples * self.data.outputs * self.units.log_unit


def prepare(model: Any, table: Table, filled: Array) -> Prepared:
    """Units, kernel and scales of columns: one decomposition of what is chosen."""
    contrasts = table.complete and settings.may_be_contrasts(model.noise, model.beta)
    units, inner = table.units(filled, contrasts)
    kind = model.noise if table.complete else "per_output"
    spec = settings.comparison_spec(kind, settings.given(model, units), inner, table.count)
    noise, seed = settings.noise_unit(model.beta), settings.as_seed(model.random_state)
    setting = Setting(table, inner, spec, noise, seed)
    names = getattr(model, "feature_names_in_", None)
    group_of = groups_of(model.column_scales, model.kernel, model.beta, model.n_features_in_, names)
    wanted = model.column_scales
    wanted = wanted if isinstance(wanted, str) and wanted in (RAW, STANDARDISED) else "auto"
    kernel = model.kernel
    if isinstance(kernel, str) and kernel == "auto":
        kernel = best_kernel(wanted, setting)
    return Prepared(table, filled, units, setting, *best_inputs(Kernel(kernel), wanted, group_of, setting))


def groups_of(
    scales: Any, kernel: Any, beta: Any, columns: int, names: Sequence[str] | None
) -> IndexArray | None:
    """The group of each column that may have a scale of its own, (n0,); None where all have one."""
    if isinstance(scales, str) and scales != OWN:
        return None
    if not (isinstance(kernel, str) and (kernel == "linear" or stationary(kernel))):
        raise ValueError(
            "scales of columns are for kernel='linear' and for kernels with a length scale, got "
            f"kernel={kernel!r}: use column_scales='auto'"
        )
    if beta == math.inf:
        raise ValueError(
            "scales of columns are chosen where there is noise, got beta=inf: use column_scales='auto'"
        )
    return np.arange(columns) if isinstance(scales, str) else groups_of_columns(scales, columns, names)
