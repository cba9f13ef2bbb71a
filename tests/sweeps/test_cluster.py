"""A cluster started by its own commands, as docs/sweeps.md says: a scheduler and two workers."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.sweeps.campaign import ROOT, drive, files

STUDY = """
import lbnn
import numpy as np

axes = {"seed": range(2), "depth": [2, 3], "width": [3, 30], "beta": np.geomspace(0.1, 1000.0, 10)}
quantities = ["log_evidence", "scale_mean", "test_error"]
chunks = {"beta": 10}


"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def start(folder: Path, *arguments: str) -> subprocess.Popen[bytes]:
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT / "src"),
        "OPENBLAS_NUM_THREADS": "1",
        "DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "60s",
    }
    command = [sys.executable, "-m", *arguments]
    return subprocess.Popen(command, cwd=folder, env=environment, start_new_session=True)


@pytest.mark.slow
def test_scheduler_and_workers_started_by_their_commands(tmp_path):
    source = (ROOT / "tests" / "sweeps" / "campaign.py").read_text()
    parts = source[source.index("def problem") : source.index("def drive")]
    (tmp_path / "study.py").write_text(f"{STUDY}{parts}\n\ndata = problem\n")
    port = free_port()
    address = f"tcp://127.0.0.1:{port}"
    cluster = [
        start(
            tmp_path,
            "distributed.cli.dask_scheduler",
            "--host",
            "127.0.0.1",
            "--port",
            str(port),
            "--no-dashboard",
        )
    ]
    try:
        time.sleep(5)
        for _ in range(2):
            arguments = ["--nthreads", "1", "--worker-port", str(free_port()), "--no-dashboard"]
            cluster.append(start(tmp_path, "distributed.cli.dask_worker", address, *arguments))
        command = ("lbnn.cli", "sweep", "study.py", "--out", "run.zarr", "--scheduler", address)
        assert start(tmp_path, *command).wait(timeout=240) == 0
    finally:
        for process in cluster:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    drive(str(tmp_path / "here.zarr"), 0, 80)
    there, here = files(tmp_path / "run.zarr"), files(tmp_path / "here.zarr")
    same = {name for name in here if not name.startswith("zarr.json")}
    assert {name: there.get(name) for name in same} == {name: here[name] for name in same}
