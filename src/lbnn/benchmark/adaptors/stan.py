"""Stan: `task.stan()` is the program and its data; readers for CmdStanPy and PyStan."""

from __future__ import annotations

from typing import Any

import numpy as np

from lbnn._base.types import Array
from lbnn.benchmark.adaptors.calls import MISSING, arguments, checked
from lbnn.benchmark.task import Task


def from_cmdstanpy(task: Task, fit: Any) -> Array:
    """Draws of a `CmdStanMCMC`, without those of the warm-up."""
    names = list(fit.column_names)
    wanted = [f"z[{number}]" for number in range(1, task.dimension + 1)]
    absent = [name for name in wanted if name not in names]
    if absent:
        raise ValueError(f"the fit must have the columns z[1] to {wanted[-1]}, got none named {absent[0]}")
    values = np.asarray(fit.draws(inc_warmup=False), float)  # (draws, chains, columns)
    return checked(
        "from_cmdstanpy", task, values[:, :, [names.index(name) for name in wanted]].swapaxes(0, 1)
    )


def from_pystan(task: Task, fit: Any = MISSING) -> Array:
    """Draws of a PyStan 3 fit, whose arrays are (dimension, draws · chains) with chains running fastest."""
    known, result = arguments("from_pystan", task, fit)
    values = np.asarray(result["z"], float)
    return checked(
        "from_pystan", known, values.reshape(len(values), -1, result.num_chains).transpose(2, 1, 0)
    )
