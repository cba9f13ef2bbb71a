"""PyStan: `stan.build(task.stan().code, data=task.stan().data)`, and the draws of its fit."""

from __future__ import annotations

from typing import Any

import numpy as np

from lbnn._base.types import Array


def from_pystan(fit: Any) -> Array:
    """Draws of a PyStan 3 fit, whose arrays are (dimension, draws · chains) with chains running fastest."""
    values = np.asarray(fit["z"], float)
    return values.reshape(len(values), -1, fit.num_chains).transpose(2, 1, 0)
