"""ArviZ: InferenceData and xarray's DataTree, which nutpie, PyMC and others return."""

from __future__ import annotations

from typing import Any

import numpy as np

from lbnn._base.types import Array
from lbnn.benchmark.task import Task


def from_arviz(task: Task, data: Any, name: str = "z") -> Array:
    """Draws of the variable `name` in the group posterior of an InferenceData or a DataTree, or of a Dataset.

    What `nutpie.sample` and `pymc.sample` return is of this kind.
    """
    try:
        group = data if hasattr(data, "data_vars") and name in data else data["posterior"]
        variable = group[name]
    except (KeyError, TypeError) as error:
        raise ValueError(
            f"expected ArviZ data whose group posterior has the variable {name!r}, got "
            f"{type(data).__name__} without {error}"
        ) from error
    rest = [dimension for dimension in variable.dims if dimension not in ("chain", "draw")]
    draws = np.asarray(variable.transpose("chain", "draw", *rest), float)
    if draws.ndim != 3 or draws.shape[2] != task.dimension:
        raise ValueError(
            f"draws of {task.name} must have the shape (chains, draws, {task.dimension}), got {draws.shape}"
        )
    return draws


def to_arviz(task: Task, draws: Array) -> Any:
    """Draws and their functions as an xarray DataTree with the groups posterior and observed_data."""
    import xarray

    names = list(task.functions.names)
    posterior = xarray.Dataset(
        {
            "z": (("chain", "draw", "weight"), draws),
            "functions": (("chain", "draw", "function"), task.functions(draws)),
        },
        coords={
            "chain": np.arange(draws.shape[0]),
            "draw": np.arange(draws.shape[1]),
            "weight": np.arange(task.dimension),
            "function": names,
        },
        attrs={"task": task.name, "digest": task.digest},
    )
    names_of_axes = ("example", "input") if task.views is None else ("example", "view", "input")
    inputs = (names_of_axes, task.X if task.views is None else task.views)
    observed = xarray.Dataset({"X": inputs, "Y": (("example", "output"), task.Y)})
    return xarray.DataTree.from_dict({"posterior": posterior, "observed_data": observed})
