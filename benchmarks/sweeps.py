"""Sweeps: posteriors a second against a plain loop, two workers against one, what Dask and zarr cost."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

import lbnn
from lbnn.sweeps import workers
from lbnn.sweeps.chunk import compute

EXAMPLES, INPUTS = 200, 250
AXES = {"seed": range(4), "depth": [2, 3, 5], "width": [10, 30, 100], "beta": np.geomspace(0.1, 1e3, 50)}
SLOW_AXES = {"seed": range(8), "depth": [2, 3], "width": [10, 40], "beta": [1.0, 10.0, 100.0]}


def problem(seed, outputs=1):
    rng = np.random.default_rng(seed)
    X, teacher = rng.normal(size=(EXAMPLES, INPUTS)), rng.normal(size=(INPUTS, outputs)) / np.sqrt(INPUTS)
    Y = X @ teacher + 0.3 * rng.normal(size=(EXAMPLES, outputs))
    return X, Y[:, 0] if outputs == 1 else Y


def three_outputs(seed):
    return problem(seed, outputs=3)


def network(depth, width):
    return lbnn.Network((width,) * (depth - 1))


def swept(axes, data, **settings) -> float:
    """Seconds of a sweep of the evidence and the scale."""
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        lbnn.sweep(
            axes,
            data=data,
            network=network,
            quantities=("log_evidence", "scale_mean"),
            store=Path(folder) / "run.zarr",
            progress=False,
            **settings,
        )
        return time.perf_counter() - start


def plain_loop(points: int) -> float:
    """Seconds a point of `Network.condition` in a loop, over some points of the grid."""
    rng = np.random.default_rng(0)
    start = time.perf_counter()
    for _ in range(points):
        X, y = problem(int(rng.choice(AXES["seed"])))
        net = network(int(rng.choice(AXES["depth"])), int(rng.choice(AXES["width"])))
        post = net.condition(X, y, float(rng.choice(AXES["beta"])))
        _ = post.log_evidence, post.scale.mean
    return (time.perf_counter() - start) / points


def run(repeats: int = 3) -> None:
    points = int(np.prod([len(values) for values in AXES.values()]))
    with threadpool_limits(1):
        loop = min(plain_loop(60) for _ in range(repeats))
        here = min(swept(AXES, problem, workers=0) for _ in range(repeats)) / points
    print(f"one output, p = {EXAMPLES}, {points} posteriors of evidence and scale")
    print(f"  plain loop over condition  {1 / loop:9.0f} a second")
    print(f"  sweep, this process        {1 / here:9.0f} a second, {loop / here:.1f} times")
    _scaling(repeats)


def _scaling(repeats: int) -> None:
    """Three outputs, a second or so of work in a chunk."""
    counted = []

    def timed(work, region):
        start = time.perf_counter()
        chunk = compute(work, region)
        counted.append(time.perf_counter() - start)
        return chunk

    settings = {"chunks": {"depth": 2, "width": 2, "beta": 3}}
    workers.compute = timed
    total = swept(SLOW_AXES, three_outputs, workers=0, **settings)
    workers.compute = compute
    print(
        f"three outputs, 96 posteriors in 8 chunks: {sum(counted):.1f} s of computing, {total:.1f} s in all"
    )
    print(f"  zarr, the pilot and all else cost {total / sum(counted) - 1:.1%}")
    from distributed import Client, LocalCluster

    seconds = {}
    for count in (1, 2):
        options = {"n_workers": count, "threads_per_worker": 1, "dashboard_address": None}
        with LocalCluster(**options) as cluster, Client(cluster) as client:
            client.run(lambda: __import__("lbnn") and None)
            seconds[count] = min(
                swept(SLOW_AXES, three_outputs, client=client, **settings) for _ in range(repeats)
            )
    print(f"  one worker of Dask {seconds[1]:.1f} s, {seconds[1] / total - 1:+.1%} against this process")
    print(f"  two workers {seconds[2]:.1f} s: {seconds[1] / seconds[2]:.2f} times one")


if __name__ == "__main__":
    run()
