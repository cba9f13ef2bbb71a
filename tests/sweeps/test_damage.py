"""A store that is damaged anywhere is refused: no number is wrong without a word."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

import lbnn
from lbnn.sweeps import open_sweep
from tests.sweeps.campaign import files, network, problem

DAMAGES = ("bit", "cut", "gone", "zeros")


def run(path, **settings):
    return lbnn.sweep(
        {"seed": range(3), "depth": [2], "width": [3, 30], "beta": np.geomspace(0.1, 10, 3)},
        data=problem,
        network=network,
        quantities=("log_evidence", "test_error"),
        store=path,
        workers=0,
        chunks={"beta": 3, "width": 2},
        progress=False,
        **settings,
    )


def damage(path, rng):
    """Something happens to a file; what, and to which."""
    every = sorted(file for file in path.rglob("*") if file.is_file())
    file, how = every[rng.integers(len(every))], str(rng.choice(DAMAGES))
    content = bytearray(file.read_bytes())
    if how == "gone":
        file.unlink()
        return file, how
    if how == "cut":
        content = content[: rng.integers(len(content))]
    elif how == "zeros":
        start = rng.integers(len(content))
        content[start : start + 64] = bytes(len(content[start : start + 64]))
    else:
        content[rng.integers(len(content))] ^= 1 << int(rng.integers(8))
    file.write_bytes(content)
    return file, how


@pytest.mark.parametrize("count", [3, pytest.param(300, marks=pytest.mark.slow)])
def test_no_damage_is_silent(tmp_path, count):
    """Read: the truth or an error. Swept again: the truth or an error. Without the status of its chunk: the
    truth, byte by byte, where a chunk is damaged.
    """
    calm = tmp_path / "calm.zarr"
    whole = run(calm).load()
    expected, rng, told = files(calm), np.random.default_rng(count), 0
    for number in range(count):
        path = tmp_path / "run.zarr"
        shutil.copytree(calm, path)
        file, how = damage(path, rng)
        where = f"{number}: {how} {file.relative_to(path)}"
        changed = files(path) != expected
        for read in (lambda path=path: open_sweep(path).load(), lambda path=path: run(path).load()):
            try:
                found = read()
            except Exception:
                told += 1
                assert changed, where
            else:
                ready = np.asarray(found.status) > 0
                for name in whole.data_vars:
                    same = np.asarray(found[name])[ready].tolist() == np.asarray(whole[name])[ready].tolist()
                    assert same, f"{where}: {name}"
                assert {name: found[name].values.tolist() for name in found.dims} == {
                    name: whole[name].values.tolist() for name in whole.dims
                }, where
        if file.name != "zarr.json" and file.relative_to(path).parts[0] in whole.data_vars:
            path.joinpath("status", *file.relative_to(path).parts[1:]).unlink(missing_ok=True)
            assert run(path).load().identical(whole), where
            assert files(path) == expected, where
        shutil.rmtree(path)
    print(f"{count} damages: {told} of {2 * count} attempts to read were refused, none was wrong")
