"""Fitted estimators as archives: plain arrays and a header, nothing that executes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, cast

import numpy as np

from lbnn import archive
from lbnn._base.types import Array
from lbnn.data.centring import CentredInputs, CentredKernel, Columns
from lbnn.estimator.fitted import FittedModel, FittedState, FreeNoiseModel
from lbnn.estimator.fitting import Candidate
from lbnn.estimator.inputs import InputTransform
from lbnn.estimator.kernels import Kernel
from lbnn.estimator.leverage import Extent
from lbnn.estimator.notices import notice
from lbnn.estimator.table import Rows
from lbnn.estimator.units import ColumnUnits
from lbnn.free_noise.posterior import FreeNoisePosterior
from lbnn.posterior import Posterior

KIND = "LBNNRegressor"
LAYOUT = 4  # of the header and the arrays below


def description(estimator: Any) -> dict[str, Any]:
    """What a header says of a fitted estimator."""
    names = getattr(estimator, "feature_names_in_", None)
    posteriors = [id(model.posterior) for model in estimator._state.models]
    return {
        "parameters": {name: _plain(each, name) for name, each in estimator.get_params(deep=False).items()},
        "features": estimator.n_features_in_,
        "feature_names": None if names is None else [str(name) for name in names],
        "target_names": estimator.target_names_,
        "missing_explained": [
            None if np.isnan(each) else float(each) for each in estimator.missing_explained_
        ],
        "candidates": [_candidate(each, posteriors) for each in estimator.candidates_],
        "notices": [[each.code, _plain(each.fields, each.code)] for each in estimator.notices_],
    }


def _candidate(candidate: Candidate, posteriors: list[int]) -> dict[str, Any]:
    """Its numbers, its kernel, and which model has its posterior."""
    place = posteriors.index(id(candidate.posterior)) if candidate.posterior is not None else None
    found = {**vars(candidate), "posterior": place, "kernel": _packed_kernel(candidate.kernel)}
    return {name: _plain(each, name) for name, each in found.items()}


def described(estimator: Any, about: dict[str, Any], state: FittedState) -> Any:
    """The estimator that a header and the state of its predictions describe."""
    estimator.n_features_in_ = int(about["features"])
    if about["feature_names"] is not None:
        estimator.feature_names_in_ = np.array([str(name) for name in about["feature_names"]], object)
    names = about["target_names"]
    candidates = [
        Candidate(
            **{
                **each,
                "widths": tuple(each["widths"]),
                "kernel": _unpacked_kernel(each["kernel"]),
                "posterior": None if each["posterior"] is None else state.models[each["posterior"]].posterior,
            }
        )
        for each in about["candidates"]
    ]
    explained = np.array([np.nan if each is None else each for each in about["missing_explained"]])
    estimator._set(state, candidates, explained, None if names is None else [str(name) for name in names])
    estimator.notices_ = tuple(notice(code, **fields) for code, fields in about["notices"])
    return estimator


def _packed_kernel(kernel: Kernel) -> dict[str, Any]:
    return {"metric": _plain(kernel.metric, "kernel"), "parameters": _plain(kernel.parameters, "kernel")}


def _unpacked_kernel(packed: dict[str, Any]) -> Kernel:
    return Kernel(str(packed["metric"]), dict(packed["parameters"]))


def _plain(value: Any, name: str) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Mapping):
        return {key: _plain(each, name) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each, name) for each in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise ValueError(f"only numbers, strings and containers of them can be saved, got {name}={value!r}")


def write(path: str | os.PathLike[str], about: dict[str, Any], state: FittedState) -> None:
    """Write what describes the estimator and what its predictions need."""
    inputs_header, arrays = _pack_transform(state.transform)
    arrays |= {
        "targets": state.targets,
        "signal_share": state.signal_share,
        "rows/kept": state.rows.kept.astype(float),
        "rows/stands_for": state.rows.stands_for.astype(float),
        "extent/lowest": state.extent.lowest,
        "extent/highest": state.extent.highest,
        "extent/rows_variance": np.array([state.extent.rows, state.extent.variance]),
    }
    models = []
    for number, model in enumerate(state.models):
        header, model_arrays = _pack_model(model)
        models.append(header)
        arrays |= {f"model{number}/{name}": array for name, array in model_arrays.items()}
    content = {**about, "layout": LAYOUT, "inputs": inputs_header, "models": models}
    archive.write(path, KIND, content, arrays)


def read(path: str | os.PathLike[str]) -> tuple[dict[str, Any], FittedState]:
    """Read them back."""
    header, arrays = archive.read(path, KIND)
    layout = header.get("layout", 1)
    if layout != LAYOUT:
        raise ValueError(
            f"{os.fspath(path)!r} must hold an LBNNRegressor in layout {LAYOUT}, got layout {layout!r} of "
            f"another version of lbnn: fit it again, or load it there"
        )
    try:
        return header, _unpack_state(header, arrays)
    except Exception as error:  # what a header of something else leads to cannot be listed
        raise refusal(path, error) from error


def refusal(path: str | os.PathLike[str], error: Exception) -> ValueError:
    """What is raised for an archive whose content is not that of a fitted estimator."""
    return ValueError(f"{os.fspath(path)!r} must hold a fitted LBNNRegressor, got {error!r}")


def _unpack_state(header: dict[str, Any], arrays: dict[str, Array]) -> FittedState:
    models = []
    for number, each in enumerate(header["models"]):
        prefix = f"model{number}/"
        own = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
        models.append(_unpack_model(each, own))
    rows = Rows(arrays["rows/kept"].astype(int), arrays["rows/stands_for"].astype(int))
    transform = _unpack_transform(header["inputs"], arrays)
    return FittedState(
        tuple(models),
        transform,
        arrays["targets"],
        rows,
        _unpack_extent(arrays),
        arrays["signal_share"],
    )


def _unpack_extent(arrays: dict[str, Array]) -> Extent:
    rows, variance = arrays["extent/rows_variance"]
    return Extent(arrays["extent/lowest"], arrays["extent/highest"], int(rows), float(variance))


def _pack_transform(transform: InputTransform) -> tuple[dict[str, Any], dict[str, Array]]:
    header, means = transform.inputs.packed()
    header |= {"columns": transform.columns.name, "kernel": _packed_kernel(transform.kernel)}
    arrays = {
        "input_means": means,
        "columns/offset": transform.columns.offset,
        "columns/deviation": transform.columns.deviation,
        "training_inputs": transform.training_inputs,
        "feature_map": transform.feature_map,
    }
    return header, arrays


def _unpack_transform(header: dict[str, Any], arrays: dict[str, Array]) -> InputTransform:
    return InputTransform(
        ColumnUnits(str(header["columns"]), arrays["columns/offset"], arrays["columns/deviation"]),
        _unpacked_kernel(header["kernel"]),
        _unpack_inputs(header, arrays["input_means"]),
        arrays["training_inputs"],
        arrays["feature_map"],
    )


def _unpack_inputs(header: dict[str, Any], means: Array) -> CentredInputs | CentredKernel:
    if header["kind"] == "inputs":
        return CentredInputs(Columns(means))
    shares = header.get("shares")
    return CentredKernel(
        means,
        float(header["grand_mean"]),
        bool(header["centre"]),
        None if shares is None else np.asarray(shares, float),
    )


def _pack_model(model: FittedModel) -> tuple[dict[str, Any], dict[str, Array]]:
    posterior, arrays = model.posterior._packed()
    header = {
        "posterior": posterior,
        "level_examples": model.level_examples,
        "prior_scale": model.prior_scale,
        "log_evidence": model.log_evidence,
        "single_output": model.single_output,
        "penalty": model.penalty,
        "log_weight": model.log_weight,
        "noise": model.noise,
        "signal": model.signal,
        "at_maximum": model.at_maximum,
    }
    units = {"units/matrix": model.matrix, "units/mean": model.mean}
    return header, units | {f"posterior/{name}": array for name, array in arrays.items()}


def _unpack_model(header: dict[str, Any], arrays: dict[str, Array]) -> FittedModel:
    prefix = "posterior/"
    own = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
    free = "noise" not in header["posterior"]  # it is part of the draws
    posterior = FreeNoisePosterior._unpacked if free else Posterior._unpacked
    return (FreeNoiseModel if free else FittedModel)(
        cast(Posterior, posterior(header["posterior"], own)),
        arrays["units/matrix"],
        arrays["units/mean"],
        None if header["level_examples"] is None else float(header["level_examples"]),
        float(header["prior_scale"]),
        float(header["log_evidence"]),
        bool(header["single_output"]),
        float(header["penalty"]),
        float(header["log_weight"]),
        str(header["noise"]),
        bool(header["signal"]),
        bool(header["at_maximum"]),
    )
