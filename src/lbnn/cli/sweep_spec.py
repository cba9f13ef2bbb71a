"""A sweep described by a TOML file: axes, where data and networks come from, quantities."""

from __future__ import annotations

import importlib.util
import inspect
import math
import sys
import tomllib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from lbnn._base.types import Array
from lbnn.cli.problems import BadInputError
from lbnn.network import Network
from lbnn.sweeps.axes import MOST_VALUES

_KEYS = {"axes", "data", "network", "beta", "noise", "quantities", "target_error", "seed", "chunks"}
_RANGE = {"from", "to", "count", "spacing"}


def read_spec(path: Path) -> dict[str, Any]:
    """Arguments of `lbnn.sweep` from a file."""
    try:
        with path.open("rb") as file:
            spec = tomllib.load(file)
    except OSError as problem:
        raise BadInputError(f"the specification must be a file that can be read, got {problem}") from problem
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        raise BadInputError(f"{path}: must be TOML, got {problem}") from problem
    unknown = sorted(set(spec) - _KEYS)
    if unknown or not isinstance(spec.get("axes"), dict):
        raise BadInputError(
            f"{path}: needs a table [axes], and may have {', '.join(sorted(_KEYS - {'axes'}))}, got "
            f"{', '.join(unknown or spec) or 'nothing'}"
        )
    plain = ("noise", "target_error", "seed", "chunks")
    arguments: dict[str, Any] = {name: spec[name] for name in plain if name in spec}
    arguments["axes"] = {name: _values(name, value) for name, value in spec["axes"].items()}
    arguments["quantities"] = spec.get("quantities", ["log_evidence"])
    arguments["data"] = _function(spec.get("data", {}), teacher, path.parent, "data")
    arguments["network"] = _function(spec.get("network", {}), equal_widths, path.parent, "network")
    for what in ("data", "network"):
        twice = (
            sorted(set(spec.get(what, {})) & set(spec["axes"])) if isinstance(spec.get(what), dict) else []
        )
        if twice:
            raise BadInputError(f"{path}: a parameter is an axis or stands in [{what}], got {twice} in both")
    if "beta" in spec:
        given = spec["beta"]
        arguments["beta"] = _loaded(given, path.parent, "beta") if isinstance(given, str) else given
    return arguments


def _values(name: str, value: Any) -> Any:
    """A list, a number of seeds `{count = 50}`, or a range `{from, to, count, spacing}`, linear or log."""
    if not isinstance(value, dict):
        return value
    if set(value) == {"count"}:
        return range(int(value["count"]))
    spacing = value.get("spacing", "linear")
    if (
        not set(value) <= _RANGE
        or not {"from", "to", "count"} <= set(value)
        or spacing not in ("linear", "log")
    ):
        raise BadInputError(
            f'axis {name}: give a list, {{count = n}} or {{from = a, to = b, count = n, spacing = "linear" '
            f'or "log"}}, got {value}'
        )
    if spacing == "log" and not min(value["from"], value["to"]) > 0:
        raise BadInputError(f"axis {name}: a logarithmic range needs positive ends, got {value}")
    make = np.geomspace if spacing == "log" else np.linspace
    try:
        if int(value["count"]) > MOST_VALUES:
            raise ValueError(f"it may have {MOST_VALUES:,} values")
        return make(float(value["from"]), float(value["to"]), int(value["count"]))
    except (TypeError, ValueError) as problem:
        raise BadInputError(f"axis {name}: {problem}, got {value}") from problem


def _function(given: Any, default: Callable[..., Any], folder: Path, what: str) -> Callable[..., Any]:
    """A function of a file, `"file.py:name"`, or the one that is built in with some parameters set."""
    if isinstance(given, str):
        return _loaded(given, folder, what)
    names = set(inspect.signature(default).parameters) - {"rng"}
    if not isinstance(given, dict) or not set(given) <= names:
        raise BadInputError(
            f'{what} must be "file.py:function", or a table with some of {", ".join(sorted(names))}, '
            f"got {given}"
        )
    return partial(default, **given) if given else default


def _loaded(text: str, folder: Path, what: str) -> Callable[..., Any]:
    """The function `file.py:name`, sent to workers as it is and not by the name of its module."""
    import cloudpickle

    file, _, name = text.rpartition(":")
    path = folder / file
    if not file or not path.is_file():
        raise BadInputError(
            f'{what} must be "file.py:function" with a file beside the specification, got {text!r}'
        )
    module = sys.modules.get(_module_name(path))
    if module is None:
        described = importlib.util.spec_from_file_location(_module_name(path), path)
        assert described is not None
        assert described.loader is not None
        module = importlib.util.module_from_spec(described)
        sys.modules[_module_name(path)] = module
        described.loader.exec_module(module)
        cloudpickle.register_pickle_by_value(module)
    found = getattr(module, name, None)
    if not callable(found):
        raise BadInputError(f"{what}: {path} has no function {name!r}")
    return found


def _module_name(path: Path) -> str:
    return f"lbnn_sweep_{path.resolve().as_posix().encode().hex()}"


def teacher(
    rng: np.random.Generator,
    seed: int = 0,
    examples: int = 50,
    inputs: int = 100,
    outputs: int = 1,
    rank: int = 0,
    size: float = 1.0,
    noise_variance: float = 0.1,
    test_points: int = 100,
) -> tuple[Array, Array, Array, Array]:
    """Gaussian inputs and a linear teacher of mean square `size` and that rank (0: full), with noise."""
    rows, inner = examples + test_points, min(rank or outputs, outputs)
    X = rng.normal(size=(rows, inputs))
    weights = rng.normal(size=(inputs, inner)) @ rng.normal(size=(inner, outputs)) / math.sqrt(inputs * inner)
    Y = math.sqrt(size) * X @ weights + math.sqrt(noise_variance) * rng.normal(size=(rows, outputs))
    targets = Y[:, 0] if outputs == 1 else Y
    return X[:examples], targets[:examples], X[examples:], targets[examples:]


def equal_widths(width: int = 50, depth: int = 2) -> Network:
    """A network whose hidden layers have one width."""
    return Network((width,) * (depth - 1))
