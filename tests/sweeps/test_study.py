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


study, report = load("what_depth_buys"), load("what_depth_buys_report")


@pytest.fixture(params=[1, 3])
def data(request):
    return study.problem(np.random.default_rng(0), 0, 60, request.param, 2, 1.0, 0.1)


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


@pytest.mark.slow
def test_a_tiny_run_makes_the_page(tmp_path, monkeypatch):
    tiny = {"examples": [5, 8], "outputs": [1, 2], "rank": [1, 4], "misfit": [1.0, 10.0], "noise": [0.1]}
    models = ("gp", "gp-eb", "matrix-t", "depth 2, width 10", "depth 2, width 30")
    monkeypatch.setattr(study, "MODELS", models)
    found = study.run(tmp_path / "run.zarr", seeds=2, grid=tiny, workers=0, progress=False)
    assert (found.status < 3).all()
    docs = tmp_path / "docs"
    (docs / "images").mkdir(parents=True)
    shutil.copy(ROOT / "docs" / "what-depth-buys.md", docs)
    rates = study.run_rates(study.rates_store(tmp_path / "run.zarr"), 2, workers=0, progress=False)
    report.write(report.Study(tmp_path / "run.zarr"), rates.load(), docs)
    page = (docs / "what-depth-buys.md").read_text()
    assert "not run yet" not in page
    assert json.loads((docs / "what-depth-buys.json").read_text())["conditions"]["posteriors"] == 160
    assert len(list((docs / "images").glob("*.svg"))) == 3
    gain = report.Study(tmp_path / "run.zarr").gain
    two = found.sel(outputs=2, rank=1, misfit=10.0).test_log_density
    difference = (two.sel(model="gp-eb") - two.sel(model="gp")).values.ravel() / 2
    mean, error = gain("test_log_density", "gp-eb", "gp", outputs=2, rank=1, misfit=10.0)
    assert mean == pytest.approx(difference.mean())
    assert error == pytest.approx(difference.std(ddof=1) / np.sqrt(difference.size))
