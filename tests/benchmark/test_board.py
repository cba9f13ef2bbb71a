"""The leaderboard: resumable runs, limits, plugins, the page; files for others."""

from __future__ import annotations

import json
import zipfile

import numpy as np
import pytest

from lbnn.benchmark import adaptors, load, to_netcdf, to_posteriordb
from lbnn.benchmark.board import page
from lbnn.benchmark.board.runner import Plan, run

PLUGIN = """
import time
from lbnn.benchmark.board.method import Outcome, method

@method("shrunk", "exact draws made smaller")
def shrunk(task, seed):
    return Outcome(0.9 * task.reference(400, seed).reshape(4, 100, -1), task.log_evidence - 3)

@method("broken", "raises")
def broken(task, seed):
    raise RuntimeError("nothing here")

@method("slow", "sleeps")
def slow(task, seed):
    time.sleep(60)

@method("small", "exact draws", largest=12)
def small(task, seed):
    return Outcome(task.reference(400, seed).reshape(4, 100, -1))
"""


@pytest.fixture(scope="module")
def board(tmp_path_factory):
    folder = tmp_path_factory.mktemp("board")
    plugin = folder / "plugin.py"
    plugin.write_text(PLUGIN, encoding="utf-8")
    plan = Plan(
        ("small", "shrunk", "broken", "slow"),
        ("coexist-10", "plain-15"),
        folder / "out",
        limit=8.0,
        plugins=(plugin,),
    )
    said = []
    quick = Plan(plan.methods[:3], plan.tasks, plan.folder, limit=60.0, plugins=plan.plugins)
    results = run(quick, said.append)
    return plan, quick, results, said


def test_board_judges_keeps_and_resumes(board):
    _, plan, results, said = board
    verdicts = {(each["method"], each["task"]): each["verdict"] for each in results}
    assert verdicts["small", "coexist-10"].startswith("pass")
    assert ("small", "plain-15") not in verdicts  # more weights than the method takes
    assert verdicts["shrunk", "plain-15"].startswith("fail: ")
    assert "RuntimeError: nothing here" in verdicts["broken", "coexist-10"]
    assert len(said) == len(results) == 5
    again = []
    assert run(plan, again.append) == results
    assert again == []
    spoiled = plan.folder / "results" / "small--coexist-10.json"
    spoiled.write_text("{", encoding="utf-8")
    run(plan, again.append)
    assert len(again) == 1


@pytest.mark.slow
def test_methods_past_their_limit_are_ended(board):
    plan, *_ = board
    results = run(
        Plan(("slow", "small"), ("coexist-10",), plan.folder, limit=8.0, plugins=plan.plugins), print
    )
    assert results[0]["verdict"] == "fail: ran past 8 s"
    assert results[1]["passed"]


def test_page_shows_every_run_and_needs_nothing_else(board, tmp_path):
    _, _, results, _ = board
    text = page.write_page(results, tmp_path, 3.0).read_text(encoding="utf-8")
    for result in results:
        assert result["method"] in text
        assert result["task"] in text
    assert "://" not in text.replace("http://www.w3.org", "")
    assert "RuntimeError: nothing here" in text
    assert json.loads((tmp_path / "board.json").read_text(encoding="utf-8"))[0]["method"] == "small"


def test_unknown_names_are_refused(tmp_path):
    with pytest.raises(ValueError, match="a method is one of"):
        run(Plan(("nuts",), ("plain-15",), tmp_path))
    with pytest.raises(ValueError, match="a task is one of"):
        run(Plan(("exact",), ("plain-16",), tmp_path))
    with pytest.raises(ValueError, match="a plugin must be a Python file"):
        run(Plan(("exact",), ("plain-15",), tmp_path, plugins=(tmp_path / "absent.py",)))


def test_command_line_runs_the_control(tmp_path):
    typer_testing = pytest.importorskip("typer.testing")
    from lbnn.cli.app import app

    runner = typer_testing.CliRunner()
    out = tmp_path / "board"
    done = runner.invoke(
        app, ["benchmark", "run", "--methods", "exact", "--tasks", "plain-15", "--out", str(out)]
    )
    assert done.exit_code == 0, done.output
    assert "plain-15" in done.output
    assert (out / "index.html").exists()
    assert runner.invoke(app, ["benchmark", "run", "--tasks", "none"]).exit_code == 2
    assert "coexist-10" in runner.invoke(app, ["benchmark", "tasks"]).output


# ---------------------------------------------------------------------- files for others


def test_posteriordb_layout(tmp_path):
    task = load("coexist-10")
    to_posteriordb(task, tmp_path, draws=20, seed=1)
    name = "coexist_10-deep_linear_network"
    info = json.loads((tmp_path / "posteriors" / f"{name}.json").read_text(encoding="utf-8"))
    assert info["dimensions"] == {"z": 10}
    with zipfile.ZipFile(
        tmp_path / "reference_posteriors" / "draws" / "draws" / f"{name}.json.zip"
    ) as archive:
        chains = json.loads(archive.read(f"{name}.json"))
    assert len(chains) == 10
    z = np.array([[chain[f"z[{k + 1}]"] for k in range(10)] for chain in chains]).transpose(0, 2, 1)
    np.testing.assert_array_equal(z.reshape(-1, 10), task.reference(200, 1))
    with zipfile.ZipFile(tmp_path / "data" / "data" / "coexist_10.json.zip") as archive:
        data = json.loads(archive.read("coexist_10.json"))
    np.testing.assert_array_equal(data["X"], task.X)


def test_netcdf_and_arviz(tmp_path):
    xarray = pytest.importorskip("xarray")
    pytest.importorskip("h5netcdf")
    pytest.importorskip("h5py")
    task = load("plain-15")
    to_netcdf(task, tmp_path / "plain.nc", draws=20)
    tree = xarray.open_datatree(tmp_path / "plain.nc", engine="h5netcdf")
    draws = adaptors.from_arviz(task, tree)
    assert draws.shape == (4, 20, 15)
    np.testing.assert_array_equal(adaptors.from_arviz(task, tree["posterior"].to_dataset()), draws)
    assert tree["posterior"].attrs["log_evidence"] == task.log_evidence
    with pytest.raises(ValueError, match="no variable 'weights'"):
        adaptors.from_arviz(task, tree, "weights")
    with pytest.raises(ValueError, match=r"must end in \.nc or \.zarr"):
        to_netcdf(task, tmp_path / "plain.csv")


def test_plain_arrays():
    task = load("plain-15")
    draws = task.reference(40, 0)
    assert adaptors.from_arrays(task, draws, chains=3).shape == (3, 13, 15)
    np.testing.assert_allclose(
        adaptors.from_weights(task, task.unflatten(draws[None])), draws[None], rtol=1e-14
    )
    for bad in (draws, draws[:, :3]):
        with pytest.raises(ValueError, match="with a number of chains"):
            adaptors.from_arrays(task, bad)
