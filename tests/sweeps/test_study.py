"""The models of the study what depth buys, and its report on a tiny run."""

from __future__ import annotations

import importlib.util
import json
import shutil
import sys

import numpy as np
import pytest
from scipy import stats

import lbnn
from tests.sweeps.campaign import ROOT

FOLDER = ROOT / "docs" / "experiments"


def load(name: str):
    described = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(described)
    sys.modules[name] = module
    described.loader.exec_module(module)
    return module


study, _, _, report = map(load, [f"what_depth_buys{part}" for part in ("", "_data", "_pictures", "_report")])


@pytest.fixture(params=[1, 3])
def data(request):
    return study.problem(np.random.default_rng(0), 0, 60, request.param, 2, 1.0, 0.1)


@pytest.mark.skipif(not hasattr(stats, "matrix_t"), reason="needs SciPy 1.17")
def test_matrix_t_evidence_is_that_of_the_dense_law(data):
    X, Y, *_ = data
    beta, columns = 7.0, Y.reshape(len(Y), -1)
    post = study.MatrixT().condition_spectrum(lbnn.Spectrum.from_inputs(X, Y), beta)
    rows = X @ X.T / X.shape[1] + np.eye(len(X)) / beta
    law = stats.matrix_t(
        np.zeros_like(columns), rows, 4 * np.eye(columns.shape[1]), df=post.freedom - columns.shape[1] + 1
    )
    assert post.log_evidence == pytest.approx(law.logpdf(columns), rel=1e-10)


def test_matrix_t_predictive_is_the_ratio_of_evidences(data):
    X, Y, X_test, Y_test = data
    post, more = (
        study.MatrixT().condition_spectrum(lbnn.Spectrum.from_inputs(inputs, targets), 7.0)
        for inputs, targets in ((X, Y), (np.vstack([X, X_test[:1]]), np.concatenate([Y, Y_test[:1]])))
    )
    density = post.predict(X_test[:1]).with_noise().pointwise_log_density(Y_test[:1])
    assert density[0] == pytest.approx(more.log_evidence - post.log_evidence, rel=1e-9)


def test_matrix_t_intervals_hold_their_share_of_its_own_draws(data):
    X, Y, X_test, _ = data
    law = (
        study.MatrixT().condition_spectrum(lbnn.Spectrum.from_inputs(X, Y), 7.0).predict(X_test).with_noise()
    )
    low, high = law.interval(0.9)
    deviation = np.sqrt(law.factor[:, None] * np.diagonal(law.shape)).reshape(low.shape)
    below = stats.t(law.freedom).cdf((high - law.mean) / deviation)
    np.testing.assert_allclose(below, 0.95)
    np.testing.assert_allclose(law.mean - low, high - law.mean)


def test_scale_by_evidence_is_the_best_scale(data):
    X, Y, *_ = data
    spectrum = lbnn.Spectrum.from_inputs(X, 5 * Y)
    best = study.EmpiricalBayes().condition_spectrum(spectrum, 2.0).log_evidence
    others = [
        lbnn.Network((), (scale,)).condition_spectrum(spectrum, 2.0).log_evidence
        for scale in np.geomspace(1e-2, 1e3, 600)
    ]
    assert max(others) <= best + 1e-9
    assert best - max(others) < 0.01


def test_errors_are_those_of_an_average_over_cells():
    rng = np.random.default_rng(0)
    cells = rng.normal(size=30), rng.uniform(0.1, 2.0, size=30)
    runs = [report.mean_and_error(cells[0] + cells[1] * rng.normal(size=(5, 30))) for _ in range(4000)]
    means, errors = np.array(runs).T
    assert means.std() == pytest.approx(np.sqrt((cells[1] ** 2).sum() / 5) / 30, rel=0.05)
    assert np.sqrt((errors**2).mean()) == pytest.approx(means.std(), rel=0.05)


def test_slope_of_a_power_law():
    rng, sizes = np.random.default_rng(0), np.array([1e3, 3e3, 1e4])
    values = rng.uniform(0.5, 1.5, size=(40, 1)) / sizes * rng.uniform(0.95, 1.05, size=(40, 3))
    found, error = (float(part.replace("−", "-")) for part in report.slope(sizes, values).split(" ± "))
    assert abs(found + 1) < 3 * error + 0.005
    assert error < 0.02
    assert report.slope(sizes, rng.normal(size=(40, 3))) == "–"


@pytest.mark.slow
def test_a_tiny_run_makes_the_page(tmp_path, monkeypatch):
    tiny = {"examples": [5, 8], "misfit": [1.0, 10.0], "noise": [0.1]}
    models = ("gp", "gp-eb", "matrix-t", "depth 2, width 10", "depth 3, width 10")
    for name, value in {"MODELS": models, "RATE_EXAMPLES": (6, 12, 24), "KERNEL_WIDTHS": (8, 16)}.items():
        monkeypatch.setattr(study, name, value)
    monkeypatch.setattr(study, "AXES", tiny)
    folder, calm = tmp_path / "study", {"workers": 0, "progress": False}
    study.run(folder, {1: 3, 2: 2}, tiny, **calm)
    for part in (
        study.run_gaussian,
        study.run_widths,
        study.run_examples,
        study.run_kernels,
        study.run_repeats,
    ):
        assert (part(folder, 2, **calm).status == 1).all()
    study.keep_time(folder, 60.0)
    docs = tmp_path / "docs"
    (docs / "images").mkdir(parents=True)
    (docs / "results").mkdir()
    shutil.copy(ROOT / "docs" / "results" / "what-depth-buys.md", docs / "results")
    report.write(folder, docs)
    told = json.loads((docs / "results" / "what-depth-buys.json").read_text())["run"]
    assert told["posteriors"] == 3 * 4 * 5 + 2 * 2 * 4 * 5
    assert (told["to do"], told["failed"], told["minutes"]) == (0, 0, 1)
    assert len(list((docs / "images").glob("*.svg"))) == 4
    found = report.Study(folder)
    two = found.sweeps[2].sel(outputs=2, rank=1, misfit=10.0).test_log_density
    difference = (two.sel(model="gp-eb") - two.sel(model="gp")) / 2
    mean, error = found.gain("gp-eb", "gp", "2 outputs, rank 1", misfit=10.0)
    assert mean == pytest.approx(float(difference.mean()))
    spread = difference.var("seed", ddof=1).sum() / 2
    assert error == pytest.approx(float(np.sqrt(spread)) / 2)
    here = found.sweeps[2].sel(outputs=2, rank=1, misfit=10.0, noise=0.1)
    expected = []
    for seed in range(2):
        for p in (5, 8):
            each = {m: here.sel(seed=seed, examples=p, model=m) for m in found.deep}
            best = max(each.values(), key=lambda point: float(point.log_evidence))
            expected.append(float(best.test_log_density) / 2)
    chosen = found.values("test_log_density", report.CHOSEN, "2 outputs, rank 1", misfit=10.0)
    np.testing.assert_allclose(chosen.ravel(), expected)
