"""From the arguments of `lbnn.sweep` to the work: who takes which axis, a few points timed, the grid cut."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lbnn._base import check
from lbnn.sweeps.axes import Axes, ContractError, Coordinates, parameters, require_taken
from lbnn.sweeps.chunk import (
    OK,
    Work,
    batchable,
    compute,
    conditioned,
    messages_of_point,
    one_blas_thread,
    problem_at,
)
from lbnn.sweeps.identity import signature, specification
from lbnn.sweeps.layout import CHUNK_SECONDS, cut
from lbnn.sweeps.quantities import RESERVED, Problem, resolve

_PILOTS = 3  # points that are timed


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
    """The work, and its specification as text."""
    grid = Axes.of(axes, reserved=(*RESERVED, "rng"))
    wanted = resolve(quantities, grid.names)
    data_takes = parameters(data, "data", [*grid.names, "rng"])
    network_takes = parameters(network, "network", grid.names)
    at, beta_takes = _temperature(beta, grid)
    takers = {"data": data_takes, "network": network_takes, "beta": beta_takes}
    asked = [name for each in wanted for name in each.takes(grid.names)]
    require_taken(grid, takers | {"a quantity": asked})
    settings: dict[str, Any] = {
        "beta": "axis" if beta is None else signature(beta),
        "noise": str(noise),
        "target_error": float(check.probability(target_error, "target_error")),
        "seed": check.seed(seed),
    }
    functions = {"data": data, "network": network}
    named = {each.name: signature(each.function) for each in wanted}
    text = specification(grid.values, functions, named, settings)
    key = hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
    work = Work(
        grid,
        data,
        data_takes,
        network,
        network_takes,
        at,
        beta_takes,
        str(noise),
        settings["target_error"],
        settings["seed"],
        wanted,
        key,
    )
    return work, text


def _temperature(beta: Any, grid: Axes) -> tuple[Any, tuple[str, ...]]:
    """beta as a number, or as a function and the axes that it takes."""
    if beta is None:
        if "beta" not in grid.names:
            raise ValueError(
                "beta must be an axis, or be given as beta=number or beta=function of axes, got neither"
            )
        return _itself, ("beta",)
    if "beta" in grid.names and not callable(beta):
        raise ValueError(f"beta must be an axis or be given, got both the axis and beta={beta!r}")
    if callable(beta):
        return beta, parameters(beta, "beta", grid.names)
    return check.inverse_temperature(beta), ()


def _itself(beta: float) -> float:
    return beta


def seconds_per_point(work: Work) -> float:
    """Time of a few points along the diagonal of the grid, their data sets included.

    What fails there fails later, by itself; functions that give something of the wrong kind are refused now.
    """
    shares = [number / (_PILOTS - 1) for number in range(_PILOTS)]
    corners = dict.fromkeys(tuple(round(share * (n - 1)) for n in work.axes.shape) for share in shares)
    with messages_of_point(), one_blas_thread():
        return sum(_timed(work, corner) for corner in corners) / len(corners)


def _timed(work: Work, index: tuple[int, ...]) -> float:
    """Seconds of one point: its own, and its share of those of its data set."""
    coordinates = work.axes.at(index)
    sharing = math.prod(len(work.axes.values[name]) for name in work.other_axes)
    start = time.perf_counter()
    try:
        problem = problem_at(work, coordinates)
    except ContractError:
        raise
    except Exception:
        return time.perf_counter() - start
    made = time.perf_counter() - start
    own = _timed_family(work, index) if batchable(work, problem) else math.inf
    return made / sharing + (own if math.isfinite(own) else _timed_alone(work, problem, coordinates))


def _timed_alone(work: Work, problem: Problem, coordinates: Coordinates) -> float:
    """Seconds of one point that is conditioned by itself."""
    start = time.perf_counter()
    try:
        point = conditioned(work, problem, coordinates)
    except ContractError:
        raise
    except Exception:
        return time.perf_counter() - start
    for quantity in work.quantities:
        try:
            quantity(point)
        except ContractError:
            raise
        except Exception:
            continue
    return time.perf_counter() - start


def _timed_family(work: Work, index: tuple[int, ...]) -> float:
    """Seconds of one point of all temperatures of a network; infinite where something was amiss."""
    own = {*work.data_takes, *work.network_takes}
    region = tuple(
        slice(i, i + 1) if name in own else slice(0, n)
        for i, name, n in zip(index, work.axes.names, work.axes.shape, strict=True)
    )
    start = time.perf_counter()
    chunk = compute(work, region)
    seconds = (time.perf_counter() - start) / chunk.status.size
    return seconds if (chunk.status == OK).all() else math.inf


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
