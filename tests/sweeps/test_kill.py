"""Sweeps that are killed: stores end as they would have, and nothing finished is computed again."""

from __future__ import annotations

import os
import signal
import threading

import numpy as np
import pytest

from tests.sweeps.campaign import disturbed, drive, files

POINTS = 80


@pytest.fixture(scope="module")
def calm(tmp_path_factory):
    """The files of a sweep that nobody disturbs."""
    path = tmp_path_factory.mktemp("calm") / "run.zarr"
    drive(str(path), 0, POINTS)
    return files(path)


@pytest.mark.slow
def test_killed_driver(tmp_path, calm):
    assert disturbed(tmp_path / "run.zarr", 0, POINTS, [("driver", 0.05)], seed=1) == 1
    assert files(tmp_path / "run.zarr") == calm


@pytest.mark.slow
def test_killed_worker_of_a_client_that_is_handed_over(tmp_path, calm):
    from distributed import Client, LocalCluster

    settings = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None, "silence_logs": 50}
    with LocalCluster(**settings) as cluster, Client(cluster) as client:
        victim = next(iter(client.run(os.getpid).values()))
        killer = threading.Timer(0.3, os.kill, (victim, signal.SIGKILL))
        killer.start()
        drive(str(tmp_path / "run.zarr"), 0, POINTS, client=client)
        killer.join()
    assert files(tmp_path / "run.zarr") == calm


@pytest.mark.slow
@pytest.mark.parametrize("campaign", range(4))
def test_killed_at_random_times_on_two_workers(tmp_path, campaign):
    """2,000 points, five kills each: of the driver, of a worker, of everything."""
    rng = np.random.default_rng(campaign)
    targets = rng.permutation(["driver", "worker", "everything", "worker", "driver"])
    kills = [(str(target), float(rng.uniform(0, 1.0))) for target in targets]
    drive(str(tmp_path / "calm.zarr"), 0, 2000)
    hits = disturbed(tmp_path / "killed.zarr", 2, 2000, kills, seed=campaign)
    print(f"campaign {campaign}: {hits} of {len(kills)} kills hit a running sweep")
    assert hits == len(kills)
    assert files(tmp_path / "killed.zarr") == files(tmp_path / "calm.zarr")
