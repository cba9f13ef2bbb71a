"""Sweeps: posteriors a second against a plain loop, two workers against one, what Dask and zarr cost.

Seconds are of the clock, for a quiet machine, and of the processor, for any.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import lbnn
from lbnn.sweeps import workers
from lbnn.sweeps.chunk import compute

EXAMPLES, INPUTS = 200, 250
AXES = {"seed": range(20), "depth": [2, 3, 5], "width": [10, 30, 100], "beta": np.geomspace(0.1, 1e3, 50)}
SLOW_AXES = {"seed": range(16), "depth": [2, 3], "width": [10, 40], "beta": [1.0, 10.0, 100.0]}


def problem(seed, outputs=1):
    rng = np.random.default_rng(seed)
    X, teacher = rng.normal(size=(EXAMPLES, INPUTS)), rng.normal(size=(INPUTS, outputs)) / np.sqrt(INPUTS)
    Y = X @ teacher + 0.3 * rng.normal(size=(EXAMPLES, outputs))
    return X, Y[:, 0] if outputs == 1 else Y


def three_outputs(seed):
    return problem(seed, outputs=3)


def network(depth, width):
    return lbnn.Network((width,) * (depth - 1))


def swept(axes, data, **settings) -> None:
    """A sweep of the evidence and the scale."""
    with tempfile.TemporaryDirectory() as folder:
        lbnn.sweep(
            axes,
            data=data,
            network=network,
            quantities=("log_evidence", "scale_mean"),
            store=Path(folder) / "run.zarr",
            progress=False,
            **settings,
        )


def plain_loop(points: int) -> None:
    """`Network.condition` in a loop, over some points of the grid."""
    rng = np.random.default_rng(0)
    for _ in range(points):
        X, y = problem(int(rng.choice(AXES["seed"])))
        net = network(int(rng.choice(AXES["depth"])), int(rng.choice(AXES["width"])))
        post = net.condition(X, y, float(rng.choice(AXES["beta"])))
        _ = post.log_evidence, post.scale.mean


def seconds(work: Callable[[], Any]) -> np.ndarray:
    """Of the clock and of this process's processor time."""
    start = time.perf_counter(), time.process_time()
    work()
    return np.array([time.perf_counter() - start[0], time.process_time() - start[1]])


def run(repeats: int = 3) -> None:
    points, few = int(np.prod([len(values) for values in AXES.values()])), 60
    pairs = []
    with threadpool_limits(1):
        plain_loop(5)
        for _ in range(repeats):  # interleaved: the machine may be busier at one time than at another
            loop = seconds(lambda: plain_loop(few)) / few
            pairs.append((loop, seconds(lambda: swept(AXES, problem, workers=0)) / points))
    loop, here = np.min(pairs, axis=0)
    print(f"one output, p = {EXAMPLES}, {points:,} posteriors of evidence and scale: a second of the clock")
    print(f"  plain loop over condition  {1 / loop[0]:9.0f}")
    print(f"  sweep, this process        {1 / here[0]:9.0f}, {loop[0] / here[0]:.1f} times")
    ratios = [pair[0][1] / pair[1][1] for pair in pairs]
    print(f"  in processor time, run by run: {', '.join(f'{ratio:.1f}' for ratio in ratios)} times")
    _scaling(repeats)


def _scaling(repeats: int) -> None:
    """Three outputs, a second or so of work in a chunk."""
    settings = {"chunks": {"depth": 2, "width": 2, "beta": 3}}
    total, computing = _here(settings)
    print(f"three outputs, 192 posteriors in 16 chunks: {total[0]:.1f} s in this process")
    print(f"  zarr, the pilot and all else: {total[1] / computing - 1:.1%} on top of computing (processor)")
    clock = {}
    for count in (1, 2):
        with workers.local_client(count, "auto") as client:
            client.run(lambda: __import__("lbnn") and None)
            runs = [_on_dask(client, settings) for _ in range(repeats)]
        clock[count], workers_own, driver = np.min(runs, axis=0)
        print(
            f"  {count} worker{'s' * (count > 1)} of Dask {clock[count]:.1f} s; processor seconds of workers "
            f"{workers_own:.1f}, of driver and scheduler {driver:.1f}: "
            f"{(workers_own + driver) / computing - 1:+.1%} against computing alone"
        )
    print(f"  two workers: {clock[1] / clock[2]:.2f} times one by the clock")


def _here(settings: dict[str, Any]) -> tuple[np.ndarray, float]:
    """Seconds of the sweep in this process, and the processor seconds of computing in it."""
    counted = []

    def timed(work, region):
        start = time.process_time()
        chunk = compute(work, region)
        counted.append(time.process_time() - start)
        return chunk

    workers.compute = timed
    try:
        return seconds(lambda: swept(SLOW_AXES, three_outputs, workers=0, **settings)), sum(counted)
    finally:
        workers.compute = compute


def _on_dask(client: Any, settings: dict[str, Any]) -> tuple[float, float, float]:
    """Seconds of the clock, and of the processors of the workers and of this process with the scheduler."""
    before = sum(client.run(time.process_time).values())
    clock, driver = seconds(lambda: swept(SLOW_AXES, three_outputs, client=client, **settings))
    return clock, sum(client.run(time.process_time).values()) - before, driver


if __name__ == "__main__":
    run()
