"""Draws from elsewhere: files, other packages' results in one signature; how strong a pass is; export."""

from __future__ import annotations

import datetime
import inspect
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


# ---------------------------------------------------------------------- one signature


def test_every_reader_takes_the_task_first():
    for name in adaptors.__all__:
        if name.startswith("from_"):
            first = next(iter(inspect.signature(getattr(adaptors, name)).parameters))
            assert first == "task", name


class Cmdstan:
    """What cmdstanpy's CmdStanMCMC has: names of columns, and draws (draws, chains, columns)."""

    def __init__(self, draws, prefix=("lp__", "accept_stat__")):
        chains, count, dimension = draws.shape
        self.column_names = (*prefix, *(f"z[{k}]" for k in range(1, dimension + 1)))
        self._draws = np.concatenate([np.zeros((count, chains, len(prefix))), draws.swapaxes(0, 1)], axis=2)

    def draws(self, inc_warmup=False):
        assert not inc_warmup
        return self._draws


class Numpyro:
    def __init__(self, draws):
        self._draws = draws

    def get_samples(self, group_by_chain):
        assert group_by_chain
        return {"z": self._draws}


def test_readers_give_the_same_draws(task, draws):
    class State:
        position = draws

    class Pystan(dict):
        num_chains = 4

    pystan = Pystan(z=draws.transpose(2, 1, 0).reshape(15, -1))
    for name, result in (
        ("from_cmdstanpy", Cmdstan(draws)),
        ("from_numpyro", Numpyro(draws)),
        ("from_blackjax", State()),
        ("from_pystan", pystan),
        ("from_arrays", draws),
    ):
        np.testing.assert_array_equal(getattr(adaptors, name)(task, result), draws)


def test_old_calls_warn_and_work(task, draws):
    with pytest.warns(DeprecationWarning, match=r"call from_numpyro\(task, result\)"):
        np.testing.assert_array_equal(adaptors.from_numpyro(Numpyro(draws)), draws)
    with pytest.raises(TypeError, match="got the task alone"):
        adaptors.from_blackjax(task)


def test_results_of_another_task_are_refused(draws):
    other = load("deep-24")
    with pytest.raises(ValueError, match=r"must have the shape \(chains, draws, 24\), got \(4, 200, 15\)"):
        adaptors.from_numpyro(other, Numpyro(draws))
    with pytest.raises(ValueError, match=r"columns z\[1\] to z\[24\], got none named z\[16\]"):
        adaptors.from_cmdstanpy(other, Cmdstan(draws))


# ---------------------------------------------------------------------- files


def table(draws, names, chain=None):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(draws.reshape(-1, draws.shape[2]), columns=names)
    if chain:
        frame.insert(0, chain, np.repeat(np.arange(1, len(draws) + 1), draws.shape[1]))
    return frame


@pytest.mark.parametrize("pattern", ["z.{}", "z[{}]", "z_{}", "z{}"])
@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_files_of_draws(task, draws, pattern, suffix, tmp_path):
    names = [pattern.format(k) for k in range(1, 16)]
    path = tmp_path / f"draws{suffix}"

    def write(frame):
        return frame.to_csv(path, index=False) if suffix == ".csv" else frame.to_parquet(path)

    write(table(draws, names, ".chain").sample(frac=1.0, random_state=0).sort_index())
    np.testing.assert_allclose(adaptors.from_files(task, [path]), draws, rtol=1e-12)
    write(table(draws, names[::-1])[names])  # other names, other order
    assert adaptors.from_files(task, [path], chains=4).shape == draws.shape


def test_a_file_for_each_chain_as_cmdstan_writes_them(task, draws, tmp_path):
    names = [f"z.{k}" for k in range(1, 16)]
    for number, chain in enumerate(draws):
        text = table(chain[None], names).to_csv(index=False)
        (tmp_path / f"out_{number}.csv").write_text(f"# stan_version\n# model\n{text}# Elapsed Time\n")
    found = adaptors.from_files(task, sorted(tmp_path.glob("*.csv")))
    np.testing.assert_allclose(found, draws, rtol=1e-12)


def test_netcdf_of_arviz(task, draws, tmp_path):
    pytest.importorskip("h5netcdf")
    pytest.importorskip("h5py")
    adaptors.to_arviz(task, draws).to_netcdf(tmp_path / "trace.nc", engine="h5netcdf")
    np.testing.assert_array_equal(adaptors.from_files(task, [tmp_path / "trace.nc"]), draws)


@pytest.mark.parametrize(
    ("text", "chains", "message"),
    [
        ("a,b\n1,2\n", None, "must have the columns z.1 to z.15"),
        ("", None, "cannot be read"),
        (None, None, "in a file that exists"),
        ("HEADER\nROW\nROW\nROW\n", 2, "3 draws must divide into the chains, got 2"),
    ],
)
def test_files_that_are_no_draws(task, text, chains, message, tmp_path):
    path = tmp_path / "draws.csv"
    if text is not None:
        text = text.replace("HEADER", ",".join(f"z.{k}" for k in range(1, 16))).replace(
            "ROW", "0," * 14 + "0"
        )
        path.write_text(text)
    with pytest.raises(ValueError, match=message):
        adaptors.from_files(task, [path], chains)
    with pytest.raises(ValueError, match="draws must be in a file"):
        adaptors.from_files(task, [tmp_path / "draws.txt"])


def test_score_from_the_command_line(task, draws, tmp_path):
    from tests.cli.test_cli import ok, refused, run

    path = tmp_path / "draws.csv"
    table(draws, [f"z.{k}" for k in range(1, 16)], "chain").to_csv(path, index=False)
    printed = ok("benchmark", "score", path, "--task", TASK, "--out", tmp_path / "r.json")
    assert f"{TASK}: pass: 6 of 6 scorers" in printed or f"{TASK}: pass: 5 of 6 scorers" in printed
    report = json.loads((tmp_path / "r.json").read_text())
    assert report["passed"] is True
    assert "would have been seen with 90% chance" in report["strength"]
    printed = ok("benchmark", "score", path, "--task", TASK, "--json")
    assert json.loads(printed)["digest"] == task.digest
    table(0.8 * draws, [f"z.{k}" for k in range(1, 16)], "chain").to_csv(path, index=False)
    result = run("benchmark", "score", path, "--task", TASK)
    assert result.exit_code == 1
    assert "fail" in result.output
    assert "must have the columns z.1 to z.24" in refused("benchmark", "score", path, "--task", "deep-24")
    assert "exist" in refused("benchmark", "score", tmp_path / "none.csv", "--task", TASK)


def test_export_from_the_command_line(tmp_path, task):
    from tests.cli.test_cli import ok, run

    ok("benchmark", "export", "--task", TASK, "--to", "stan", "--out", tmp_path / "stan")
    data = json.loads((tmp_path / "stan" / f"{TASK}.data.json").read_text())
    assert data["examples"] == len(task.X)
    assert "std_normal_lpdf" in (tmp_path / "stan" / "deep_linear_network.stan").read_text()
    ok("benchmark", "export", TASK, "--draws", "10", "--out", tmp_path / "db")
    assert (tmp_path / "db" / "bibliography" / "references.bib").exists()
    assert run("benchmark", "export", "--task", TASK, "--to", "julia").exit_code == 2
    assert to_stan(task, tmp_path / "again")[1].exists()
    ok("benchmark", "export", TASK, "--to", "inference-gym", "--out", tmp_path / "gym")
    assert "class Plain15(gym.targets.Model)" in (tmp_path / "gym" / "plain_15.py").read_text()


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
