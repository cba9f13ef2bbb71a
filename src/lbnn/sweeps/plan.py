"""What makes two sweeps the same (axes, functions by their code, versions), and how the grid is cut."""

from __future__ import annotations

import functools
import hashlib
import json
import math
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from types import CodeType
from typing import Any

import numpy as np

from lbnn._base import check
from lbnn._base.checkout import commit
from lbnn.sweeps.axes import Axes, ContractError, parameters, require_taken
from lbnn.sweeps.chunk import Answer, Work, answer_point, data_of, one_blas_thread
from lbnn.sweeps.quantities import RESERVED, resolve

#: Seconds that a chunk should take: Dask and zarr cost a hundredth of it, and no more is lost by a kill.
CHUNK_SECONDS = 4.0
_MOST_POINTS = 20_000
_PILOTS = 3  # points that are timed

#: What a number of the sweep depends on beside its specification.
_COMPARED = ("lbnn", "source", "numpy", "scipy", "blas")
#: Folders of the package that no number of a sweep depends on.
_NOT_COMPUTED_WITH = {"archive", "benchmark", "cli", "estimator", "explore", "paper", "plots"}


def plan(
    axes: Mapping[str, Sequence[Any]],
    data: Callable[..., Any],
    network: Callable[..., Any],
    quantities: Sequence[Any],
    beta: Any,
    *,
    noise: str,
    target_error: float,
    seed: int,
) -> tuple[Work, str]:
    """The work, and its specification: two sweeps with the same text fill a store with the same numbers."""
    grid = Axes.of(axes, reserved=(*RESERVED, "rng"))
    wanted = resolve(quantities, grid.names)
    data_takes = parameters(data, "data", [*grid.names, "rng"])
    network_takes = parameters(network, "network", grid.names)
    at, beta_takes = _temperature(beta, grid)
    asked = [name for each in wanted for name in each.takes(grid.names)]
    takers = {"data": data_takes, "network": network_takes, "beta": beta_takes, "a quantity": asked}
    require_taken(grid, takers)
    target_error, seed = float(check.probability(target_error, "target_error")), check.seed(seed)
    about = {
        "lbnn": metadata.version("lbnn"),
        "axes": {name: list(values) for name, values in grid.values.items()},
        "data": signature(data),
        "network": signature(network),
        "quantities": {each.name: signature(each.function) for each in wanted},
        "beta": "axis" if beta is None else signature(beta),
        "noise": str(noise),
        "target_error": target_error,
        "seed": seed,
    }
    text = json.dumps(about, indent=1, ensure_ascii=False)
    takes = data_takes, network_takes, beta_takes
    key = hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
    return Work(grid, data, network, at, *takes, str(noise), target_error, seed, wanted, key), text


def _temperature(beta: Any, grid: Axes) -> tuple[Any, tuple[str, ...]]:
    """beta as a number, or as a function and the axes that it takes."""
    if beta is None:
        if "beta" not in grid.names:
            raise ValueError(
                "beta must be an axis, or be given as beta=number or beta=function of axes, got neither"
            )
        return _the_axis, ("beta",)
    if callable(beta):
        return beta, parameters(beta, "beta", grid.names)
    if "beta" in grid.names:
        raise ValueError(f"beta must be an axis or be given, got both the axis and beta={beta!r}")
    return check.inverse_temperature(beta), ()


def _the_axis(beta: float) -> float:
    return beta


# ---------------------------------------------------------------------- what is the same


def signature(thing: Any) -> str:
    """A function's name and a digest of its code; a plain value as it is written.

    Values that a function closes over, and its defaults, count where they are plain; what its globals hold
    does not, nor the lines where it stands.
    """
    if thing is None or isinstance(thing, bool | int | float | str):
        return repr(thing)
    name = getattr(thing, "__qualname__", type(thing).__name__)
    return f"{name} #{hashlib.blake2b(repr(_contents(thing)).encode(), digest_size=6).hexdigest()}"


def _contents(value: Any) -> Any:
    """Plain values as they are, functions by instructions, constants, defaults and closures."""
    if isinstance(value, CodeType):
        return value.co_code, value.co_names, value.co_varnames, _contents(list(value.co_consts))
    if isinstance(value, functools.partial):
        return _contents([value.func, value.args, value.keywords])
    if isinstance(value, np.ndarray):
        return value.tobytes()
    if isinstance(value, set | frozenset):
        return sorted(map(repr, value))
    if isinstance(value, list | tuple):
        return [_contents(each) for each in value]
    if isinstance(value, dict):
        return [(name, _contents(each)) for name, each in sorted(value.items())]
    function = getattr(value, "__func__", value)
    if hasattr(function, "__code__"):
        cells = [cell.cell_contents for cell in function.__closure__ or ()]
        return _contents([function.__code__, function.__defaults__, cells])
    if callable(value) and hasattr(type(value).__call__, "__code__"):
        return _contents([type(value).__call__, vars(value)])
    plain = value is None or isinstance(value, bool | int | float | str | bytes)
    return value if plain else type(value).__qualname__


def provenance() -> dict[str, str]:
    """With what a store was made."""
    blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
    made = {
        **{name: metadata.version(name) for name in ("lbnn", "numpy", "scipy", "zarr")},
        "source": source_digest(),
        "python": platform.python_version(),
        "blas": f"{blas['name']} {blas['version']}",
    }
    found = commit()
    return made | ({"commit": found} if found else {})


def compared(provenance: dict[str, str]) -> dict[str, str]:
    """The part of a provenance that numbers depend on."""
    return {name: provenance.get(name, "unknown") for name in _COMPARED}


@functools.cache
def source_digest() -> str:
    """A digest of the code that sweeps run: also in a checkout with changes, and without Git."""
    package = Path(__file__).resolve().parent.parent
    found = hashlib.blake2b(digest_size=8)
    for path in sorted(package.rglob("*.py")):
        inside = path.relative_to(package)
        if inside.parts[0] not in _NOT_COMPUTED_WITH:
            found.update(inside.as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return found.hexdigest()


def differences(theirs: dict[str, Any], ours: dict[str, Any]) -> str:
    """Entries of two descriptions that differ, the store's first; of lists what only one of them has."""
    told = []
    for name in dict.fromkeys([*theirs, *ours]):
        one, other = theirs.get(name), ours.get(name)
        if isinstance(one, dict) and isinstance(other, dict):
            told += [f"{name}, {inner}"] if (inner := differences(one, other)) else []
        elif one != other:
            if isinstance(one, list) and isinstance(other, list) and {*one} != {*other}:
                one, other = [e for e in one if e not in other], [e for e in other if e not in one]
            told.append(f"{name}: the store has {_short(one)}, this sweep {_short(other)}")
    if not told and list(theirs) != list(ours):
        told.append(f"the order: the store has {', '.join(theirs)}, this sweep {', '.join(ours)}")
    return "; ".join(told)


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) < 120 else f"{text[:80]} … ({len(text)} characters)"


# ---------------------------------------------------------------------- how the grid is cut


def seconds_per_point(work: Work) -> float:
    """Time of a few points along the diagonal of the grid, with their share of that of their data sets.

    What fails there fails later, by itself; functions that give something of the wrong kind are refused now.
    """
    sharing = math.prod(len(work.axes.values[name]) for name in work.other_axes)
    places = np.linspace(0, np.array(work.axes.shape) - 1, _PILOTS).round().astype(int)
    total = 0.0
    for index in places:
        answer = Answer(work.axes.at(index), ())
        with one_blas_thread():
            start = time.perf_counter()
            problem = data_of(work, [answer])
            made = time.perf_counter()
            if problem is not None:
                answer_point(work, problem, answer)
        total += (made - start) / sharing + time.perf_counter() - made
        if isinstance(answer.problem, ContractError):
            raise answer.problem
    return total / _PILOTS


def chunk_shape(work: Work, chunks: Mapping[str, int] | None, seconds: float) -> tuple[int, ...]:
    """The chunks asked for, or such that each takes a few seconds."""
    if chunks is None:
        points = round(CHUNK_SECONDS / max(seconds, 1e-6))
        return cut(work.axes.shape, work.axes.names, work.data_axes, points)
    unknown = [name for name in chunks if name not in work.axes.names]
    if unknown:
        raise ValueError(f"chunks must name axes, {', '.join(work.axes.names)}, got {', '.join(unknown)}")
    sizes = {name: check.positive_integer(size, f"chunks[{name!r}]") for name, size in chunks.items()}
    return tuple(min(sizes.get(name, 1), n) for name, n in zip(work.axes.names, work.axes.shape, strict=True))


def cut(shape: Sequence[int], names: Sequence[str], data_axes: Sequence[str], points: int) -> tuple[int, ...]:
    """The shape of chunks of about so many points: whole families of networks first, then data sets.

    Examples
    --------
    >>> cut((50, 3, 4, 10), ("seed", "examples", "width", "beta"), ("seed", "examples"), points=100)
    (1, 2, 4, 10)
    """
    chunk = dict.fromkeys(names, 1)
    sizes = dict(zip(names, shape, strict=True))
    left = max(1, min(points, _MOST_POINTS))
    others = [name for name in names if name not in data_axes]
    for name in [*reversed(others), *reversed([name for name in names if name in data_axes])]:
        pieces = math.ceil(sizes[name] / max(1, left))
        chunk[name] = math.ceil(sizes[name] / pieces)  # pieces of equal size
        left //= chunk[name]
        if not left:
            break
    return tuple(chunk[name] for name in names)
