"""PyMC: the task as a model with the variable z; `from_arviz` reads what `pymc.sample` returns."""

from __future__ import annotations

from typing import Any

import numpy as np

from lbnn.benchmark.task import Task


def pymc_model(task: Task) -> Any:
    """A `pymc.Model`: z standard normal, targets normal around the network's outputs."""
    import pymc

    density = task.density
    with pymc.Model() as model:
        z = pymc.Normal("z", 0.0, 1.0, shape=task.dimension)
        features: Any = density.X
        starts = [0, *density.ends[:-1]]
        for start, end, shape, deviation in zip(
            starts, density.ends, density.shapes, density.deviations, strict=True
        ):
            features = pymc.math.dot(features, deviation * z[start:end].reshape(shape).T)
        if density.views:  # Σ_m of output m at view m
            own = features.reshape((len(density.Y), density.views, density.views))
            features = (own * np.eye(density.views)).sum(axis=(1, 2))[:, None]
        pymc.Normal("Y", features, density.noise, observed=density.Y)
    return model
