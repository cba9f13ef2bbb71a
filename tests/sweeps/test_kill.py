"""Sweeps that are killed: stores end as they would have, and nothing finished is computed again."""

from __future__ import annotations

import numpy as np
import pytest

from tests.sweeps.campaign import disturbed, drive, files


def test_killed_driver_and_everything_without_workers(tmp_path):
    drive(str(tmp_path / "calm.zarr"), 0, 480)
    kills = [("driver", 0.05), ("everything", 0.25)]
    assert disturbed(tmp_path / "killed.zarr", 0, 480, kills, seed=1) >= 1
    assert files(tmp_path / "killed.zarr") == files(tmp_path / "calm.zarr")


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
    assert hits >= 3
    assert files(tmp_path / "killed.zarr") == files(tmp_path / "calm.zarr")
