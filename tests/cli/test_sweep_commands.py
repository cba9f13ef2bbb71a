"""`lbnn sweep` and `lbnn sweep-report`: from a specification to a page."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

import lbnn
from lbnn.cli.sweep_spec import equal_widths, read_spec, teacher
from lbnn.sweeps import open_sweep
from tests.cli.test_cli import ok, refused

SPEC = """
quantities = ["log_evidence", "kernel_change", "test_error"]
[axes]
seed = {count = 2}
width = [3, 30]
beta = {from = 0.1, to = 10, count = 3, spacing = "log"}
[data]
examples = 8
inputs = 10
test_points = 5
"""


@pytest.fixture(autouse=True)
def empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")


@pytest.fixture
def spec():
    Path("spec.toml").write_text(SPEC)
    return "spec.toml"


def test_a_specification_is_swept_reported_and_resumed(spec):
    printed = ok("sweep", spec, "--out", "run.zarr", "--workers", 0, "--quiet")
    assert "ok" in printed
    assert "12" in printed
    found = open_sweep("run.zarr").load()
    assert dict(found.sizes) == {"seed": 2, "width": 2, "beta": 3}
    np.testing.assert_allclose(found.beta, [0.1, 1.0, 10.0])
    assert "give --resume" in refused("sweep", spec, "--out", "run.zarr")
    ok("sweep", spec, "--out", "run.zarr", "--workers", 0, "--quiet", "--resume")
    assert "Written: run.html" in ok("sweep-report", "run.zarr")
    page = Path("run.html").read_text()
    assert "12 points: 12 ok, 0 warned, 0 failed" in page
    assert page.count("<img src=") == 2 * 3
    assert "http://" not in page.replace("http://www.w3.org", "")
    HTMLParser().feed(page)
    assert "exists already" in refused("sweep-report", "run.zarr")


def test_functions_of_a_file_and_failed_points_on_the_page():
    Path("parts.py").write_text(
        "import lbnn, numpy as np\n"
        "def problem(seed, examples):\n"
        "    rng = np.random.default_rng(seed)\n"
        "    if seed == 1:\n        raise RuntimeError('<lost>')\n"
        "    return rng.normal(size=(examples, 4)), rng.normal(size=examples)\n"
        "def network(kind):\n    return lbnn.Network((5,) if kind == 'deep' else ())\n"
    )
    Path("spec.toml").write_text(
        'data = "parts.py:problem"\nnetwork = "parts.py:network"\nbeta = 2.0\n'
        '[axes]\nseed = [0, 1]\nexamples = [4]\nkind = ["deep", "flat"]\n'
    )
    printed = ok("sweep", "spec.toml", "--out", "run.zarr", "--workers", 0, "--quiet")
    assert "The first failed with: data: RuntimeError: <lost>. --retry-failed" in printed
    ok("sweep-report", "run.zarr", "--out", "page.html", "--x", "kind")
    page = Path("page.html").read_text()
    assert "4 points: 2 ok, 0 warned, 2 failed" in page
    assert "RuntimeError: &lt;lost&gt;" in page
    ok("sweep", "spec.toml", "--out", "run.zarr", "--workers", 0, "--quiet", "--retry-failed")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("axes = 3", "needs a table .axes."),
        ("colour = 1\n[axes]\nwidth = [3]", "got colour"),
        ("[axes\n", "must be TOML"),
        ("[axes]\nwidth = {from = 1, to = 2}", "axis width: give a list"),
        ("beta = 1.0\n[axes]\nwidth = {from = -1, to = 2, count = 3, spacing = 'log'}", "axis width: "),
        ("data = 'none.py:f'\nbeta = 1.0\n[axes]\nwidth = [3]", "data must be .file.py:function."),
        ("beta = 1.0\n[axes]\nwidth = [3]\n[data]\ncolour = 1", "table with some of examples"),
        ("beta = 1.0\n[axes]\nexamples = [3]\n[data]\nexamples = 4", "axis or stands in .data."),
        ("[axes]\nwidth = [3]", "beta must be an axis"),
        ("beta = 1.0\nquantities = ['colour']\n[axes]\nwidth = [3]", "got 'colour'"),
    ],
)
def test_bad_specifications_are_refused(text, message):
    Path("spec.toml").write_text(text)
    complaint = refused("sweep", "spec.toml", "--out", "run.zarr", "--workers", 0)
    assert re.search(message, complaint), complaint
    assert not Path("run.zarr").exists()


def test_bad_options_are_refused(spec):
    assert "got both" in refused("sweep", spec, "--out", "a.zarr", "--workers", 1, "--scheduler", "tcp://x:1")
    assert "must be a file that can be read" in refused("sweep", "none.toml", "--out", "a.zarr")
    assert "must be the store of a sweep" in refused("sweep-report", "none.zarr", code=1)
    ok("sweep", spec, "--out", "run.zarr", "--workers", 0, "--quiet")
    assert "among seed, width, beta, got colour" in refused("sweep-report", "run.zarr", "--x", "colour")
    assert "name=value" in refused("sweep-report", "run.zarr", "--at", "width")
    assert "must name axes that are not drawn" in refused("sweep-report", "run.zarr", "--at", "beta=1")


def test_report_at_a_value(spec):
    Path("spec.toml").write_text(
        SPEC.replace("[data]", "depth = [2, 3]\n[data]").replace('"kernel_change", ', "")
    )
    ok("sweep", spec, "--out", "run.zarr", "--workers", 0, "--quiet")
    ok("sweep-report", "run.zarr", "--x", "beta", "--by", "width", "--at", "depth=2")
    assert "depth = 2" in Path("run.html").read_text()
    assert "must be one of 2, 3, got 7" in refused(
        "sweep-report", "run.zarr", "--force", "--x", "beta", "--by", "width", "--at", "depth=7"
    )


def test_the_teacher_is_what_it_says():
    X, Y, X_test, Y_test = teacher(
        np.random.default_rng(0), 0, 3000, 40, 6, rank=2, size=4.0, noise_variance=0.0, test_points=7
    )
    assert (X.shape, Y.shape, X_test.shape, Y_test.shape) == ((3000, 40), (3000, 6), (7, 40), (7, 6))
    assert np.linalg.matrix_rank(Y) == 2
    sizes = [teacher(np.random.default_rng(s), 0, 50, 40, 3, size=4.0)[1].var() for s in range(200)]
    assert np.mean(sizes) == pytest.approx(4.1, abs=4 * np.std(sizes) / np.sqrt(200))
    assert equal_widths(7, 3) == lbnn.Network((7, 7))


def test_axes_of_a_specification(spec):
    arguments = read_spec(Path(spec))
    assert list(arguments["axes"]["seed"]) == [0, 1]
    assert arguments["data"].keywords == {"examples": 8, "inputs": 10, "test_points": 5}
