"""A sweep that is killed: the driver, kills at random times, and what must be the same afterwards."""

from __future__ import annotations

import contextlib
import hashlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import lbnn

ROOT = Path(__file__).resolve().parents[2]


def problem(seed: int):
    rng = np.random.default_rng(seed)
    X, teacher = rng.normal(size=(70, 12)), rng.normal(size=12)
    y = X @ teacher / 3 + 0.2 * rng.normal(size=70)
    return X[:20], y[:20], X[20:], y[20:]


def network(depth: int, width: int) -> lbnn.Network:
    return lbnn.Network((width,) * (depth - 1))


def drive(store: str, workers: int, points: int, **settings: Any) -> None:
    """A sweep of so many points, 10 in a chunk."""
    axes = {
        "seed": range(max(1, points // 40)),
        "depth": [2, 3],
        "width": [3, 30],
        "beta": np.geomspace(0.1, 1e3, 10),
    }
    lbnn.sweep(
        axes,
        data=problem,
        network=network,
        quantities=("log_evidence", "scale_mean", "test_error"),
        store=store,
        workers=workers,
        chunks={"beta": 10},
        progress=False,
        **settings,
    )


def start(store: Path, workers: int, points: int) -> subprocess.Popen[bytes]:
    """The driver, in a session of its own."""
    code = f"from tests.sweeps.campaign import drive; drive({str(store)!r}, {workers}, {points})"
    command = [sys.executable, "-c", code]
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    environment = {**os.environ, "PYTHONPATH": paths, "OPENBLAS_NUM_THREADS": "1"}
    return subprocess.Popen(command, cwd=ROOT, env=environment, start_new_session=True)


def files(store: Path) -> dict[str, str]:
    """Every file of a store by its digest."""
    found = [path for path in store.rglob("*") if path.is_file()]
    return {
        str(path.relative_to(store)): hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(found)
    }


def finished(store: Path) -> dict[str, tuple[int, int]]:
    """Status files of finished chunks, each with what changes when it is written again."""
    folder = store / "status" / "c"
    found = [path for path in folder.rglob("*") if path.is_file()] if folder.exists() else []
    return {
        str(path): (path.stat().st_ino, path.stat().st_mtime_ns) for path in found if "." not in path.name
    }


def workers_of(driver: subprocess.Popen[bytes]) -> list[int]:
    """Processes that compute for the driver."""
    import psutil

    with contextlib.suppress(psutil.Error):
        children = psutil.Process(driver.pid).children(recursive=True)
        return [child.pid for child in children if "spawn_main" in " ".join(child.cmdline())]
    return []


def kill(driver: subprocess.Popen[bytes], target: str, rng: np.random.Generator) -> None:
    """SIGKILL the driver, one of its workers, or everything."""
    with contextlib.suppress(ProcessLookupError):
        if target == "driver":
            os.kill(driver.pid, signal.SIGKILL)
        elif target == "everything":
            os.killpg(driver.pid, signal.SIGKILL)
        else:
            workers = workers_of(driver)
            if workers:
                os.kill(int(rng.choice(workers)), signal.SIGKILL)


def end(driver: subprocess.Popen[bytes]) -> None:
    """No process of the driver's session is left."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(driver.pid, signal.SIGKILL)
    driver.wait()


def disturbed(store: Path, workers: int, points: int, kills: list[tuple[str, float]], seed: int) -> int:
    """Run a sweep to its end through kills (target, seconds after a chunk was finished); how many hit it.

    A sweep that loses a worker goes on; one whose driver is killed is started again. Chunks that are finished
    when a driver starts are left alone by it.
    """
    rng, hits = np.random.default_rng(seed), 0
    before, driver = finished(store), start(store, workers, points)
    for target, delay in kills:
        if driver.poll() is not None:
            _require_untouched(before, store)
            before, driver = finished(store), start(store, workers, points)
        _wait_for_a_chunk(driver, store)
        time.sleep(delay)
        hits += driver.poll() is None
        kill(driver, target, rng)
        if target != "worker":
            driver.wait()
            time.sleep(0.3)
            end(driver)
    if driver.poll() is not None and driver.returncode:
        _require_untouched(before, store)
        before, driver = finished(store), start(store, workers, points)
    assert driver.wait() == 0
    _require_untouched(before, store)
    end(driver)
    return hits


def _require_untouched(before: dict[str, tuple[int, int]], store: Path) -> None:
    assert before.items() <= finished(store).items(), "a finished chunk was computed again"


def _wait_for_a_chunk(driver: subprocess.Popen[bytes], store: Path) -> None:
    """Until one more chunk is finished, or the sweep."""
    count, limit = len(finished(store)), time.monotonic() + 120
    while driver.poll() is None and len(finished(store)) <= count and time.monotonic() < limit:
        time.sleep(0.02)
