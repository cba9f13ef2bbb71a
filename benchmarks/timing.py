"""Medians of interleaved repeats, and the conditions they were taken under."""

from __future__ import annotations

import os
import platform
import statistics
import time
from collections.abc import Callable, Mapping

import numpy as np
import scipy
import threadpoolctl

import lbnn
from lbnn.paper.environment import commit


def median_seconds(tasks: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Median CPU seconds of every task on one thread: the clock would count other processes as well.

    The tasks take turns, so that all meet the same conditions.
    """
    seconds: dict[str, list[float]] = {name: [] for name in tasks}
    with threadpoolctl.threadpool_limits(1):
        for task in tasks.values():
            task()
        for _ in range(repeats):
            for name, task in tasks.items():
                started = time.process_time()
                task()
                seconds[name].append(time.process_time() - started)
    return {name: statistics.median(values) for name, values in seconds.items()}


def conditions() -> str:
    """Commit, versions, cores, BLAS threads and what else is running."""
    pools = threadpoolctl.threadpool_info()
    blas = ", ".join(sorted({f"{pool['internal_api']} {pool['num_threads']} threads" for pool in pools}))
    load = ", ".join(f"{value:.2f}" for value in os.getloadavg())
    return (
        f"lbnn {lbnn.__version__} (commit {commit() or 'unknown'}), "
        f"numpy {np.__version__}, scipy {scipy.__version__}, "
        f"Python {platform.python_version()}; {os.cpu_count()} cores, {blas}; load average {load}"
    )


def busy() -> bool:
    """Whether other processes had a share of the machine in the last minute, before the benchmark."""
    return os.getloadavg()[0] > 0.5
