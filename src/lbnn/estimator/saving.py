"""Fitted estimators as archives: plain arrays and a header, nothing that executes."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from lbnn import archive
from lbnn._base.types import Array
from lbnn.data.centring import CentredInputs, CentredKernel, Columns
from lbnn.estimator.model import FittedModel, FittedState

KIND = "LBNNRegressor"

_MALFORMED = (AttributeError, IndexError, KeyError, TypeError, ValueError)


def plain_parameters(parameters: dict[str, Any]) -> dict[str, Any]:
    """Parameters that a header can hold; functions and generators are refused."""
    return {name: _plain(value, name) for name, value in parameters.items()}


def _plain(value: Any, name: str) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, dict):
        return {key: _plain(each, name) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each, name) for each in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise ValueError(f"only numbers, strings and containers of them can be saved, got {name}={value!r}")


def write(path: str | os.PathLike[str], about: dict[str, Any], state: FittedState) -> None:
    """Write what describes the estimator and what its predictions need."""
    inputs_header, arrays = _pack_inputs(state.inputs)
    arrays |= {"targets": state.targets, "training_inputs": state.training_inputs}
    models = []
    for number, model in enumerate(state.models):
        header, model_arrays = _pack_model(model)
        models.append(header)
        arrays |= {f"model{number}/{name}": array for name, array in model_arrays.items()}
    archive.write(path, KIND, {**about, "inputs": inputs_header, "models": models}, arrays)


def read(path: str | os.PathLike[str]) -> tuple[dict[str, Any], FittedState]:
    """Read them back."""
    header, arrays = archive.read(path, KIND)
    try:
        return header, _unpack_state(header, arrays)
    except _MALFORMED as error:
        raise ValueError(f"{os.fspath(path)!r} must hold a fitted LBNNRegressor, got {error!r}") from error


def _unpack_state(header: dict[str, Any], arrays: dict[str, Array]) -> FittedState:
    models = []
    for number, each in enumerate(header["models"]):
        prefix = f"model{number}/"
        own = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
        models.append(_unpack_model(each, own))
    inputs = _unpack_inputs(header["inputs"], arrays)
    return FittedState(tuple(models), inputs, arrays["training_inputs"], arrays["targets"])


def _pack_inputs(inputs: CentredInputs | CentredKernel) -> tuple[dict[str, Any], dict[str, Array]]:
    if isinstance(inputs, CentredInputs):
        return {"kind": "inputs"}, {"input_means": inputs.columns.means}
    header = {"kind": "kernel", "grand_mean": inputs.grand_mean, "centre": inputs.centre}
    return header, {"input_means": inputs.means}


def _unpack_inputs(header: dict[str, Any], arrays: dict[str, Array]) -> CentredInputs | CentredKernel:
    if header["kind"] == "inputs":
        return CentredInputs(Columns(arrays["input_means"]))
    return CentredKernel(arrays["input_means"], float(header["grand_mean"]), bool(header["centre"]))


def _pack_model(model: FittedModel) -> tuple[dict[str, Any], dict[str, Array]]:
    posterior, arrays = archive.pack_posterior(model.posterior)
    header = {
        "posterior": posterior,
        "level_examples": model.level_examples,
        "prior_scale": model.prior_scale,
        "log_evidence": model.log_evidence,
        "single_output": model.single_output,
        "penalty": model.penalty,
    }
    units = {"units/deviations": model.deviations, "units/mean": model.mean}
    return header, units | {f"posterior/{name}": array for name, array in arrays.items()}


def _unpack_model(header: dict[str, Any], arrays: dict[str, Array]) -> FittedModel:
    prefix = "posterior/"
    own = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
    return FittedModel(
        archive.unpack_posterior(header["posterior"], own),
        arrays["units/deviations"],
        arrays["units/mean"],
        None if header["level_examples"] is None else int(header["level_examples"]),
        float(header["prior_scale"]),
        float(header["log_evidence"]),
        bool(header["single_output"]),
        float(header["penalty"]),
    )
