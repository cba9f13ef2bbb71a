"""Draws from elsewhere; how strong a pass is; files for others."""

from __future__ import annotations

import datetime
import json
import zipfile

import numpy as np
import pytest

from lbnn.benchmark import adaptors, load, score, to_inference_gym, to_posteriordb, to_stan
from lbnn.benchmark.scorers.chains import Chains
from lbnn.benchmark.scorers.moments import POWER, score_moments

TASK = "plain-15"


@pytest.fixture(scope="module")
def task():
    return load(TASK)


@pytest.fixture(scope="module")
def draws(task):
    return task.reference(800, 3).reshape(4, 200, -1)


def test_plain_arrays(task):
    draws = task.reference(40, 0)
    assert adaptors.from_arrays(task, draws, chains=3).shape == (3, 13, 15)
    np.testing.assert_allclose(
        adaptors.from_weights(task, task.unflatten(draws[None])), draws[None], rtol=1e-14
    )
    for bad in (draws, draws[:, :3]):
        with pytest.raises(ValueError, match="with a number of chains"):
            adaptors.from_arrays(task, bad)


def test_arviz_and_netcdf(task, draws, tmp_path):
    xarray = pytest.importorskip("xarray")
    pytest.importorskip("h5netcdf")
    pytest.importorskip("h5py")
    tree = adaptors.to_arviz(task, draws)
    np.testing.assert_array_equal(adaptors.from_arviz(task, tree), draws)
    np.testing.assert_array_equal(adaptors.from_arviz(task, tree["posterior"].to_dataset()), draws)
    tree.to_netcdf(tmp_path / "plain.nc", engine="h5netcdf")
    kept = xarray.open_datatree(tmp_path / "plain.nc", engine="h5netcdf")
    np.testing.assert_array_equal(adaptors.from_arviz(task, kept), draws)
    for data, name in ((tree, "weights"), ({}, "z"), (3, "z")):
        with pytest.raises(ValueError, match=f"has the variable {name!r}, got"):
            adaptors.from_arviz(task, data, name)
    with pytest.raises(ValueError, match=r"must have the shape \(chains, draws, 24\), got \(4, 200, 15\)"):
        adaptors.from_arviz(load("deep-24"), tree)


# ---------------------------------------------------------------------- files for others


def test_posteriordb_layout(tmp_path):
    task = load("coexist-10")
    to_posteriordb(task, tmp_path, draws=20, seed=1)
    name = "coexist_10-deep_linear_network"
    info = json.loads((tmp_path / "posteriors" / f"{name}.json").read_text(encoding="utf-8"))
    assert info["dimensions"] == {"z": 10}
    kept = tmp_path / "reference_posteriors" / "draws" / "draws" / f"{name}.json.zip"
    with zipfile.ZipFile(kept) as archive:
        chains = json.loads(archive.read(f"{name}.json"))
    assert len(chains) == 10
    z = np.array([[chain[f"z[{k + 1}]"] for k in range(10)] for chain in chains]).transpose(0, 2, 1)
    np.testing.assert_array_equal(z.reshape(-1, 10), task.reference(200, 1))
    with zipfile.ZipFile(tmp_path / "data" / "data" / "coexist_10.json.zip") as archive:
        data = json.loads(archive.read("coexist_10.json"))
    np.testing.assert_array_equal(data["X"], task.X)


def test_a_stan_program_and_its_data(task, tmp_path):
    program, data = to_stan(task, tmp_path)
    assert json.loads(data.read_text())["examples"] == len(task.X)
    assert "std_normal_lpdf" in program.read_text()


def test_a_target_of_inference_gym_has_the_density_and_the_outputs_of_the_task(task, tmp_path, monkeypatch):
    """The written module with its three packages replaced by the little of them that it uses."""
    import sys
    from types import ModuleType, SimpleNamespace

    class Model:
        SampleTransformation = SimpleNamespace

        def __init__(self, **about):
            self.about = about

    gym = SimpleNamespace(targets=SimpleNamespace(Model=Model))
    tfp = SimpleNamespace(bijectors=SimpleNamespace(Identity=lambda: None))
    names = {"inference_gym": {"using_jax": gym}, "tensorflow_probability.substrates": {"jax": tfp}}
    for name in ("inference_gym", "tensorflow_probability", "tensorflow_probability.substrates", "jax"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
        for key, value in names.get(name, {}).items():
            setattr(sys.modules[name], key, value)
    monkeypatch.setitem(sys.modules, "jax.numpy", np)
    path, _ = to_inference_gym(task, tmp_path)
    space = {"__file__": str(path), "__name__": "plain_15"}
    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), space)
    target = space["Plain15"]()
    z = task.prior_draws(4, 0)
    np.testing.assert_allclose(target._unnormalized_log_prob(z), task.log_density(z), rtol=1e-12)
    assert target.about["event_shape"] == (task.dimension,)
    known = target.about["sample_transformations"]["outputs"]
    values = known.fn(task.reference(4000, 0))
    off = (values.mean(axis=0) - known.ground_truth_mean) / known.ground_truth_standard_deviation
    assert np.abs(off).max() < 4.5 / np.sqrt(4000)
    np.testing.assert_allclose(values.std(axis=0), known.ground_truth_standard_deviation, rtol=0.1)


# ---------------------------------------------------------------------- how strong a pass is


def test_a_pass_says_how_strong_it_is(task, draws):
    report = score(task, draws)
    few = score(task, draws[:, :20])
    assert report.verdict.startswith("pass: ")
    assert "standard deviations in any of" in report.verdict
    assert np.nanmax(few._shifts) > 2.5 * np.nanmax(report._shifts)


def test_chains_that_disagree_do_not_pass_silently(task):
    """r̂ of 1.7 and some eighty effective draws, as a short run of a sampler has."""
    rng = np.random.default_rng(0)
    exact = task.reference(4 * 2000, 5).reshape(4, 2000, -1)
    order = np.argsort(task.functions(exact.reshape(-1, 15))[:, 0])  # every chain keeps to its own part
    parts = np.array_split(order, 8)
    rows = [rng.permutation(np.concatenate([parts[k], parts[k + 4]]))[:150] for k in range(4)]
    sticky = exact.reshape(-1, 15)[np.array(rows)]
    report = score(task, sticky)
    assert report.verdict.startswith(("fail", "pass with doubts"))
    short = score(task, exact[:, :15])
    assert short.verdict.startswith(("fail", "pass with doubts"))
    assert any("effective draws" in doubt for doubt in short.doubts) or not short.passed


def power_of(task, length, repetitions, level=0.01 / 6, seed=0):
    """Share of shifts, each as large as stated, that make the means fail; exact draws in four chains."""
    known = task.expectations
    seen, tried = np.zeros(len(known.names)), np.zeros(len(known.names))
    for repetition in range(repetitions):
        z = task.reference(4 * length, seed + repetition).reshape(4, length, -1)
        values = task.functions(z)
        phases = np.zeros(values.shape[:2])
        shifts = score_moments(Chains(values, phases, task), level).details["shift seen"]
        for index, shift in enumerate(shifts):
            if np.isnan(shift):
                continue
            moved = values.copy()
            sign = 1 if (repetition + index) % 2 else -1
            moved[..., index] += sign * shift * known.standard_deviation[index]
            tried[index] += 1
            seen[index] += not score_moments(Chains(moved, phases, task), level).passed
    return seen.sum() / tried.sum(), int(tried.sum()), (seen / np.maximum(tried, 1))[tried > 0]


@pytest.mark.parametrize(
    ("name", "length", "repetitions"),
    [
        (TASK, 250, 12),
        pytest.param(TASK, 60, 100, marks=pytest.mark.slow),
        pytest.param("deep-24", 250, 100, marks=pytest.mark.slow),
        pytest.param("cold-44", 500, 100, marks=pytest.mark.slow),
        pytest.param("coexist-10", 1000, 60, marks=pytest.mark.slow),
    ],
)
def test_stated_power_is_what_simulation_finds(name, length, repetitions):
    share, tried, _ = power_of(load(name), length, repetitions)
    print(f"{name}, 4 chains of {length}: {share:.3f} of {tried} shifts seen, stated {POWER}")
    assert tried >= 60
    assert 0.85 <= share <= 0.95


# ---------------------------------------------------------------------- posteriordb


@pytest.mark.parametrize(
    ("name", "method"), [(TASK, "analytical"), ("plain-40-two-outputs", "importance_resampling")]
)
def test_posteriordb_says_what_is_true(name, method, tmp_path):
    task = load(name)
    to_posteriordb(task, tmp_path, draws=10, date=datetime.date(2026, 11, 16))
    posterior = f"{name.replace('-', '_')}-deep_linear_network"
    info = tmp_path / "reference_posteriors" / "draws" / "info" / f"{posterior}.info.json"
    about = json.loads(info.read_text())
    assert about["inference"]["method"] == method
    described = about["inference"]["method_arguments"]["description"]
    assert ("independent exact draws" in described) == (task.grade == "A")
    for path in tmp_path.rglob("*info.json"):
        entry = json.loads(path.read_text())
        assert entry["added_date"] == "2026-11-16"
        assert entry["references"] == ["zavatone-veth2021depth"]
    assert "zavatone-veth2021depth" in (tmp_path / "bibliography" / "references.bib").read_text()
    kept = tmp_path / "reference_posteriors" / "draws" / "draws" / f"{posterior}.json.zip"
    with zipfile.ZipFile(kept) as archive:
        chains = json.loads(archive.read(f"{posterior}.json"))
    assert len(chains) == 10
    assert len(chains[0]["z[1]"]) == 10


def test_posteriordb_has_today_s_date(tmp_path):
    to_posteriordb(load(TASK), tmp_path, draws=10)
    entry = json.loads(next((tmp_path / "posteriors").glob("*.json")).read_text())
    assert entry["added_date"] == datetime.date.today().isoformat()
