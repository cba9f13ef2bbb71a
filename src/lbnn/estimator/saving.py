"""Fitted estimators as archives: plain arrays and a header, nothing that executes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, cast, get_type_hints

import numpy as np

from lbnn import archive
from lbnn._base.types import Array
from lbnn.archive.schema import packed, unpacked
from lbnn.estimator.fitted import FittedModel, FittedState, FreeNoiseModel
from lbnn.estimator.fitting import Candidate
from lbnn.estimator.inputs import InputTransform
from lbnn.estimator.kernels import Kernel
from lbnn.estimator.notices import notice
from lbnn.free_noise.posterior import FreeNoisePosterior
from lbnn.posterior import Posterior

KIND = "LBNNRegressor"
LAYOUT = 4  # of the header and the arrays below


def write(path: str | os.PathLike[str], estimator: Any) -> None:
    """Write what predictions need and what describes the fit."""
    state, names = estimator._state, getattr(estimator, "feature_names_in_", None)
    posteriors = [model.posterior for model in state.models]
    header, arrays = packed(
        state=_fields(state, "models", "transform"),
        transform=_fields(state.transform, "kernel"),
        models=[_fields(model, "posterior") for model in state.models],
        candidates=[_fields(each, "kernel", "posterior") for each in estimator.candidates_],
        explained=estimator.missing_explained_,
    )
    parts = [posterior._packed() for posterior in posteriors]
    kernels = [each.kernel for each in (state.transform, *estimator.candidates_)]
    for number, (_, own) in enumerate(parts):
        arrays |= {f"posterior{number}/{name}": array for name, array in own.items()}
    header |= {
        "layout": LAYOUT,
        "parameters": {name: _plain(each, name) for name, each in estimator.get_params(deep=False).items()},
        "features": estimator.n_features_in_,
        "feature_names": None if names is None else [str(name) for name in names],
        "target_names": estimator.target_names_,
        "posteriors": [own for own, _ in parts],
        "kernels": [_plain(vars(each), "kernel") for each in kernels],
        "of_models": [_place(each.posterior, posteriors) for each in estimator.candidates_],
        "notices": [[each.code, _plain(each.fields, each.code)] for each in estimator.notices_],
    }
    archive.write(path, KIND, header, arrays)


def _fields(value: Any, *but: str) -> dict[str, Any]:
    """Fields of a dataclass, without some."""
    return {each.name: getattr(value, each.name) for each in fields(value) if each.name not in but}


def _place(posterior: Any, posteriors: list[Any]) -> int | None:
    """Which of the posteriors it is."""
    return next((k for k, each in enumerate(posteriors) if each is posterior), None)


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


def read(path: str | os.PathLike[str], kind: type[Any]) -> Any:
    """Read an estimator of this kind back; a ValueError where the file holds none."""
    header, arrays = archive.read(path, KIND)
    layout = header.get("layout", 1)
    if layout != LAYOUT:
        raise ValueError(
            f"{os.fspath(path)!r} must hold an LBNNRegressor in layout {LAYOUT}, got layout {layout!r} of "
            f"another version of lbnn: fit it again, or load it there"
        )
    try:
        return _described(kind(**header["parameters"]), header, arrays)
    except Exception as error:  # what a header of something else leads to cannot be listed
        raise ValueError(f"{os.fspath(path)!r} must hold a fitted LBNNRegressor, got {error!r}") from error


def _described(estimator: Any, header: dict[str, Any], arrays: dict[str, Array]) -> Any:
    """The estimator with the attributes of its fit."""

    def made(own: type[Any], tree: dict[str, Any], **given: Any) -> Any:
        hints = get_type_hints(own)
        return own(**{key: unpacked(each, hints[key], arrays) for key, each in tree.items()}, **given)

    kernel, *kernels = (Kernel(**each) for each in header["kernels"])
    models = [
        made(FreeNoiseModel if each["noise"] == "free" else FittedModel, each, posterior=posterior)
        for each, posterior in zip(header["models"], _posteriors(header, arrays), strict=True)
    ]
    transform = made(InputTransform, header["transform"], kernel=kernel)
    state = made(FittedState, header["state"], models=tuple(models), transform=transform)
    candidates = [
        made(Candidate, each, kernel=own, posterior=None if place is None else models[place].posterior)
        for each, own, place in zip(header["candidates"], kernels, header["of_models"], strict=True)
    ]
    estimator.n_features_in_ = int(header["features"])
    if header["feature_names"] is not None:
        estimator.feature_names_in_ = np.array([str(name) for name in header["feature_names"]], object)
    names = header["target_names"]
    explained = unpacked(header["explained"], Array, arrays)
    estimator._set(state, candidates, explained, None if names is None else [str(name) for name in names])
    estimator.notices_ = tuple(notice(code, **told) for code, told in header["notices"])
    return estimator


def _posteriors(header: dict[str, Any], arrays: dict[str, Array]) -> list[Posterior]:
    found = []
    for number, own in enumerate(header["posteriors"]):
        prefix = f"posterior{number}/"
        parts = {name.removeprefix(prefix): each for name, each in arrays.items() if name.startswith(prefix)}
        # noise with a covariance of its own is part of the draws
        kind = Posterior if "noise" in own else FreeNoisePosterior
        found.append(cast(Posterior, kind._unpacked(own, parts)))
    return found
