"""Tasks as files for others: Stan, posteriordb, Inference Gym."""

from __future__ import annotations

import datetime
import io
import json
import zipfile
from importlib import metadata
from pathlib import Path
from typing import Any

from lbnn._base import check
from lbnn._base.files import bytes_writer, text_writer, write_atomically
from lbnn.benchmark.task import DRAWS_OF_ONE_INFERENCE, Task

MODEL = "deep_linear_network"
CHAINS = 10
REFERENCE = "zavatone-veth2021depth"
_BIBLIOGRAPHY = """\
@inproceedings{zavatone-veth2021depth,
  title = {Depth induces scale-averaging in overparameterized linear Bayesian neural networks},
  author = {Zavatone-Veth, Jacob A. and Pehlevan, Cengiz},
  booktitle = {55th Asilomar Conference on Signals, Systems, and Computers},
  year = {2021},
}
"""
_ABOUT_MODEL = {
    "name": MODEL,
    "title": "A deep linear Bayesian network",
    "description": "All weights of a deep linear network with Gaussian priors and noise.",
    "keywords": ["neural network"],
    "model_implementations": {"stan": {"model_code": f"models/stan/{MODEL}.stan"}},
}


def to_posteriordb(
    task: Task,
    folder: str | Path,
    *,
    draws: int = 1_000,
    seed: int = 0,
    date: datetime.date | None = None,
) -> None:
    """Write one task in the layout of posteriordb, which `posteriordb.PosteriorDatabase(folder)` reads.

    The reference draws of grade A are independent and exact: method "analytical". Those of grade B are
    resampled from weighted draws of the scale: method "importance_resampling", and the file says of how many
    effective scales. The Stan program is the same for all tasks; its log density is the task's with all
    constants.

    Parameters
    ----------
    task : Task
    folder : path
        The database; tasks are added to what is there.
    draws : int
        Draws in each of ten chains.
    seed : int
    date : datetime.date, optional
        When the entry was made; today by default.
    """
    origin = {
        "added_by": "lbnn",
        "added_date": (date or datetime.date.today()).isoformat(),
        "references": [REFERENCE],
        "urls": None,
    }
    count, root = check.positive_integer(draws, "draws"), Path(folder)
    name, program = task.name.replace("-", "_"), task.stan()
    posterior = f"{name}-{MODEL}"
    exact = task.reference(CHAINS * count, seed).reshape(CHAINS, count, -1)
    reference = [
        {f"z[{index + 1}]": chain[:, index].tolist() for index in range(task.dimension)} for chain in exact
    ]
    kept = root / "reference_posteriors" / "draws"
    about_posterior = {
        "name": posterior,
        "keywords": ["lbnn", task.family, f"grade {task.grade}"],
        "model_name": MODEL,
        "data_name": name,
        "reference_posterior_name": posterior,
        "dimensions": {"z": task.dimension},
    }
    about_data = {
        "name": name,
        "title": task.name,
        "description": task.summary,
        "keywords": [task.family],
        "data_file": f"data/data/{name}.json",
    }
    _write(root / "posteriors" / f"{posterior}.json", about_posterior | origin)
    _write(root / "models" / "info" / f"{MODEL}.info.json", _ABOUT_MODEL | origin)
    _write(root / "data" / "info" / f"{name}.info.json", about_data | origin)
    _write(kept / "info" / f"{posterior}.info.json", _reference_info(task, posterior, count, seed) | origin)
    _write_text(root / "models" / "stan" / f"{MODEL}.stan", program.code)
    _write_text(root / "bibliography" / "references.bib", _BIBLIOGRAPHY)
    _write_zipped(root / "data" / "data" / f"{name}.json", program.data)
    _write_zipped(kept / "draws" / f"{posterior}.json", reference)


def to_stan(task: Task, folder: str | Path) -> tuple[Path, Path]:
    """Write the Stan program and its data as JSON, for CmdStan and its interfaces in R, Julia and Python.

    Returns
    -------
    program, data : Path
    """
    root, program = Path(folder), task.stan()
    paths = root / f"{MODEL}.stan", root / f"{task.name}.data.json"
    _write_text(paths[0], program.code)
    _write_text(paths[1], json.dumps(program.data, allow_nan=False) + "\n")
    return paths


_GYM_MODULE = """\
'''{summary}

The task {name} of lbnn as a target of Inference Gym, on JAX:

    import {module}
    target = {module}.{cls}()

A flat vector z holds the weights W_1, ..., W_d row by row in units of their prior deviations; the log density
has all constants, so that it integrates to the evidence. It computes in the precision of JAX:
jax.config.update("jax_enable_x64", True) before the import for double.
'''

import json
import math
from pathlib import Path

import jax.numpy as jnp
import numpy as np
from inference_gym import using_jax as gym
from tensorflow_probability.substrates import jax as tfp

_DATA = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))


class {cls}(gym.targets.Model):
    '''All weights of a deep linear network with Gaussian priors and noise, given data.'''

    log_evidence = _DATA["log_evidence"]

    def __init__(self, name="{module}", pretty_name="{name}"):
        self._X, self._Y = jnp.asarray(_DATA["X"]), jnp.asarray(_DATA["Y"])
        dimension = sum(a * b for a, b in zip(_DATA["sizes"][1:], _DATA["sizes"]))
        known = _DATA["outputs"]
        super().__init__(
            default_event_space_bijector=tfp.bijectors.Identity(),
            event_shape=(dimension,),
            dtype=self._X.dtype,
            name=name,
            pretty_name=pretty_name,
            sample_transformations={{
                "identity": gym.targets.Model.SampleTransformation(
                    fn=lambda z: z, pretty_name="Identity", dtype=self._X.dtype
                ),
                "outputs": gym.targets.Model.SampleTransformation(
                    fn=self.outputs,
                    pretty_name="Outputs at the training inputs",
                    ground_truth_mean=np.array(known["mean"]),
                    ground_truth_standard_deviation=np.array(known["standard_deviation"]),
                    dtype=self._X.dtype,
                ),
            }},
        )

    def outputs(self, z):
        '''Outputs of the network at the training inputs, (..., examples, outputs).'''
        sizes, start, features = _DATA["sizes"], 0, self._X
        for columns, rows, deviation in zip(sizes, sizes[1:], _DATA["deviations"]):
            weight = deviation * z[..., start : start + rows * columns].reshape(*z.shape[:-1], rows, columns)
            features, start = features @ jnp.swapaxes(weight, -1, -2), start + rows * columns
        views = _DATA["views"]
        if views:  # the sum of output m at view m
            own = features.reshape(*features.shape[:-2], -1, views, views)
            features = (own * jnp.eye(views)).sum((-2, -1))[..., None]
        return features

    def _unnormalized_log_prob(self, z):
        noise = _DATA["noise"]
        squares = ((self.outputs(z) - self._Y) ** 2).sum((-2, -1)) / noise**2 + (z**2).sum(-1)
        constant = self._Y.size * math.log(noise) + 0.5 * (self._Y.size + z.shape[-1]) * math.log(2 * math.pi)
        return -0.5 * squares - constant
"""


def to_inference_gym(task: Task, folder: str | Path) -> tuple[Path, Path]:
    """Write a Python module with the task as a target of Inference Gym on JAX, and its data as JSON.

    The module needs inference-gym, JAX and TensorFlow Probability, not lbnn. The exact means and standard
    deviations of the outputs at the training inputs are its ground truth; for several outputs they have
    the error of the task's inference.

    Returns
    -------
    module, data : Path
    """
    name = task.name.replace("-", "_")
    path = Path(folder) / f"{name}.py"
    names = {"name": task.name, "module": name, "summary": task.summary}
    cls = "".join(part.capitalize() for part in name.split("_"))
    predicted = task.posterior.predict()
    shape = task.Y.shape
    known = {
        "mean": predicted.mean.reshape(shape).tolist(),
        "standard_deviation": predicted.standard_deviation.reshape(shape).tolist(),
    }
    data = task.stan().data | {"outputs": known, "log_evidence": task.log_evidence}
    _write_text(path, _GYM_MODULE.format(cls=cls, **names))
    _write_text(path.with_suffix(".json"), json.dumps(data, allow_nan=False) + "\n")
    return path, path.with_suffix(".json")


def _reference_info(task: Task, posterior: str, count: int, seed: int) -> dict[str, Any]:
    if task.grade == "A":
        method, how = "analytical", "independent exact draws: the scale by quadrature, the weights given it"
    else:
        method = "importance_resampling"
        how = (
            "weights given scales that were resampled from weighted draws of the exact posterior of the "
            "scale; "
            f"every {DRAWS_OF_ONE_INFERENCE:,} draws come from an inference of their own with about 30,000 "
            "effective scales, so that they are nearly, not strictly, independent"
        )
    return {
        "name": posterior,
        "inference": {"method": method, "method_arguments": {"description": how, "seed": seed}},
        "diagnostics": {"ndraws": CHAINS * count, "nchains": CHAINS, "log_evidence": task.log_evidence},
        "checks_made": {"ndraws_is_10k": CHAINS * count == 10_000, "nchains_is_gte_4": True},
        "comments": f"lbnn digest {task.digest}",
        "versions": {"lbnn": metadata.version("lbnn")},
    }


def _write(path: Path, content: Any) -> None:
    _write_text(path, json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def _write_text(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, text_writer(text))


def _write_zipped(path: Path, content: Any) -> None:
    """A zip archive with one file, as posteriordb keeps data."""
    path.parent.mkdir(parents=True, exist_ok=True)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        entry = zipfile.ZipInfo(path.name)  # without a date: the same bytes whenever written
        archive.writestr(entry, json.dumps(content, allow_nan=False), zipfile.ZIP_DEFLATED)
    write_atomically(path.with_name(path.name + ".zip"), bytes_writer(buffer.getvalue()))
