"""`lbnn sweep`: from a study to a store."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from lbnn.sweeps import open_sweep
from tests.cli.test_cli import ok, refused

STUDY = """
import lbnn, numpy as np

axes = {"seed": range(2), "width": [3, 30], "beta": np.geomspace(0.1, 10, 3)}
quantities = ["log_evidence", "kernel_change", "test_error"]


def data(rng, seed, examples=8, inputs=10):
    X = rng.normal(size=(examples + 5, inputs))
    y = X @ rng.normal(size=inputs) + rng.normal(size=len(X))
    return X[:examples], y[:examples], X[examples:], y[examples:]


def network(width, depth=2):
    return lbnn.Network((width,) * (depth - 1))
"""


@pytest.fixture(autouse=True)
def empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")


@pytest.fixture
def study():
    Path("study.py").write_text(STUDY)
    return "study.py"


def test_a_study_is_swept_and_resumed(study):
    printed = ok("sweep", study, "--out", "run.zarr", "--workers", 0, "--quiet")
    assert "ok" in printed
    assert "12" in printed
    found = open_sweep("run.zarr").load()
    assert dict(found.sizes) == {"seed": 2, "width": 2, "beta": 3}
    np.testing.assert_allclose(found.beta, [0.1, 1.0, 10.0])
    assert "give --resume" in refused("sweep", study, "--out", "run.zarr")
    ok("sweep", study, "--out", "run.zarr", "--workers", 0, "--quiet", "--resume")


def test_failed_points_are_announced():
    Path("study.py").write_text(
        "import lbnn, numpy as np\n"
        "axes = {'seed': [0, 1], 'examples': [4], 'kind': ['deep', 'flat']}\n"
        "quantities, beta = ['log_evidence'], 2.0\n"
        "def data(seed, examples):\n"
        "    rng = np.random.default_rng(seed)\n"
        "    if seed == 1:\n        raise RuntimeError('<lost>')\n"
        "    return rng.normal(size=(examples, 4)), rng.normal(size=examples)\n"
        "def network(kind):\n    return lbnn.Network((5,) if kind == 'deep' else ())\n"
    )
    printed = ok("sweep", "study.py", "--out", "run.zarr", "--workers", 0, "--quiet")
    assert "The first failed with: data: RuntimeError: <lost>. --retry-failed" in printed
    ok("sweep", "study.py", "--out", "run.zarr", "--workers", 0, "--quiet", "--retry-failed")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("axes = ", "directions = "), "must define axes, data, network, quantities, .* got none of axes"),
        (("axes = {", "axes = 3 + {"), "cannot be run: TypeError"),
        (("axes = {", "axes = {{"), "cannot be run: SyntaxError"),
        (("import lbnn", "import no_such_package"), "cannot be run: ModuleNotFoundError"),
        (('"beta"', '"colour"'), "beta must be an axis"),
        (('"kernel_change"', '"colour"'), "got 'colour'"),
    ],
)
def test_bad_studies_are_refused(change, message):
    assert change[0] in STUDY
    Path("study.py").write_text(STUDY.replace(*change))
    complaint = refused("sweep", "study.py", "--out", "run.zarr", "--workers", 0)
    assert re.search(message, complaint), complaint
    assert not Path("run.zarr").exists()


def test_bad_options_are_refused(study):
    assert "got both" in refused(
        "sweep", study, "--out", "a.zarr", "--workers", 1, "--scheduler", "tcp://x:1"
    )
    assert "a Python file that can be read" in refused("sweep", "none.py", "--out", "a.zarr")
    assert "described in Python" in refused("sweep", "spec.toml", "--out", "a.zarr")
