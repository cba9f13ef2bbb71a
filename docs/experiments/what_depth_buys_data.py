"""What depth buys: the stores of the study in memory, and averages over their cells."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from lbnn import open_sweep
from lbnn._base.types import Array

Pair = tuple[float, float]  # a mean and its standard error

CHOSEN = "network by evidence"
BASELINES = {"gp": "fixed scale", "gp-eb": "scale by evidence", "matrix-t": "matrix-t"}
#: Outputs and rank of the teacher; a rank of four is full.
TASKS = {
    "1 output": (1, 1),
    "2 outputs, rank 1": (2, 1),
    "2 outputs, full rank": (2, 4),
    "4 outputs, rank 1": (4, 1),
    "4 outputs, full rank": (4, 4),
}


class Study:
    """The sweeps of the study in memory, by the number of outputs; of a run that goes on, whole seeds."""

    def __init__(self, folder: Path) -> None:
        stores = [open_sweep(path).load() for path in sorted(folder.glob("outputs-*.zarr"))]
        self.unfinished = sum(int((each["status"] == 0).sum()) for each in stores)
        found = [whole_seeds(each) for each in stores]
        self.sweeps = {int(each["outputs"].values[0]): each for each in found}
        self.tasks = {name: each for name, each in TASKS.items() if each[0] in self.sweeps}
        one = found[0]
        self.models = [str(name) for name in one["model"].values]
        self.deep = [name for name in self.models if name.startswith("depth")]
        self.examples, self.misfits, self.noises = (
            one[name].values.tolist() for name in ("examples", "misfit", "noise")
        )

    def values(self, variable: str, model: str, task: str, **at: Any) -> Array:
        """One number for every data set, (seeds, cells); log densities for each target.

        Of a model, or of the network with the largest evidence.
        """
        outputs, rank = self.tasks[task]
        chosen = self.sweeps[outputs].sel(outputs=outputs, rank=rank, **at)
        each = chosen[variable].transpose("seed", ..., "model")
        if model == CHOSEN:
            best = as_array(chosen["log_evidence"].sel(model=self.deep)).argmax(axis=-1)
            picked = np.take_along_axis(as_array(each.sel(model=self.deep)), best[..., None], axis=-1)[..., 0]
        else:
            picked = np.asarray(each.sel(model=model))
        per_target = outputs if variable == "test_log_density" else 1
        return picked.reshape(len(picked), -1) / per_target

    def gain(self, model: str, base: str, task: str, **at: Any) -> Pair:
        """Log predictive density of a model less that of another, in nats for each test target."""
        ours, theirs = (self.values("test_log_density", each, task, **at) for each in (model, base))
        return mean_and_error(ours - theirs)


def whole_seeds(sweep: Any) -> Any:
    """The seeds of which every point is done."""
    left = [name for name in sweep["status"].dims if name != "seed"]
    return sweep.isel(seed=np.flatnonzero((sweep["status"] > 0).all(left)))


def as_array(data: Any) -> Array:
    """With seeds first and models last."""
    return np.asarray(data.transpose("seed", ..., "model"))


def mean_and_error(values: Array) -> Pair:
    """Mean over the cells of a design and its standard error, from values (seeds, cells)."""
    spread = values.var(axis=0, ddof=1) / len(values)
    return float(values.mean()), float(np.sqrt(spread.sum())) / values.shape[1]
