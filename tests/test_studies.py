"""The models that the study of depth compares the network with, and its tables from a small run."""

from __future__ import annotations

import json

import numpy as np
import pytest

pytest.importorskip("xarray")

import lbnn
from studies import what_depth_buys as study


@pytest.fixture(params=[1, 3])
def data(request):
    return study.problem(np.random.default_rng(0), 0, 60, request.param, 2, 1.0, 0.1)


def test_matrix_t_predictive_is_the_ratio_of_evidences(data):
    X, Y, X_test, Y_test = data
    post, more = (
        study.MatrixT().condition_spectrum(lbnn.Spectrum.from_inputs(inputs, targets), 7.0)
        for inputs, targets in ((X, Y), (np.vstack([X, X_test[:1]]), np.concatenate([Y, Y_test[:1]])))
    )
    density = post.predict(X_test[:1]).with_noise().pointwise_log_density(Y_test[:1])
    assert density[0] == pytest.approx(more.log_evidence - post.log_evidence, rel=1e-9)


def test_matrix_t_evidence_is_an_average_over_the_inverse_wishart_law():
    """One output: λ is inverse gamma of mean one, and the evidence a mean over its draws."""
    X, y, *_ = study.problem(np.random.default_rng(1), 0, 4, 1, 1, 1.0, 0.5)
    post = study.MatrixT().condition_spectrum(lbnn.Spectrum.from_inputs(X, y), 2.0)
    freedom, spread = post.freedom, post.spread
    scale = 0.5 * spread / np.random.default_rng(2).gamma(freedom / 2, size=200_000)
    covariance = X @ X.T / study.INPUTS + np.eye(4) / 2.0
    square = y @ np.linalg.solve(covariance, y)
    logs = -0.5 * (4 * np.log(2 * np.pi * scale) + np.linalg.slogdet(covariance)[1] + square / scale)
    values = np.exp(logs)
    error = values.std() / values.mean() / np.sqrt(values.size)
    assert abs(np.log(values.mean()) - post.log_evidence) < 4 * error


def test_scale_by_evidence_is_the_best_scale(data):
    X, Y, *_ = data
    spectrum = lbnn.Spectrum.from_inputs(X, 5 * Y)
    best = study.EmpiricalBayes().condition_spectrum(spectrum, 2.0).log_evidence
    scales = np.geomspace(1e-2, 1e3, 300)
    others = [lbnn.Network((), (v,)).condition_spectrum(spectrum, 2.0).log_evidence for v in scales]
    assert max(others) <= best + 1e-9
    assert best - max(others) < 0.03


def test_errors_are_those_of_an_average_over_cells():
    rng = np.random.default_rng(0)
    cells = rng.normal(size=30), rng.uniform(0.1, 2.0, size=30)
    runs = [study.mean_and_error(cells[0] + cells[1] * rng.normal(size=(5, 30))) for _ in range(4000)]
    means, errors = np.array(runs).T
    assert means.std() == pytest.approx(np.sqrt((cells[1] ** 2).sum() / 5) / 30, rel=0.05)
    assert np.sqrt((errors**2).mean()) == pytest.approx(means.std(), rel=0.05)


@pytest.mark.slow
def test_a_small_run_makes_the_tables(tmp_path, monkeypatch):
    monkeypatch.setattr(study, "WIDTHS", (10,))
    monkeypatch.setattr(study, "MODELS", (*study.SIMPLE, "depth 2, width 10", "depth 3, width 10"))
    monkeypatch.setattr(study, "RATE_WIDTHS", (10, 30))
    monkeypatch.setattr(study, "RATE_EXAMPLES", (6, 12))
    monkeypatch.setattr(study, "STORED", tmp_path / "stored.json")
    monkeypatch.setattr(study, "IMAGE", tmp_path / "image.svg")
    grid = {"examples": [5, 8], "misfit": [1.0, 10.0], "noise": [0.1]}
    study.run(tmp_path, {1: 3, 2: 2}, grid, (2, 2), workers=0, progress=False)
    study.report(tmp_path)
    tables = json.loads((tmp_path / "stored.json").read_text())["tables"]
    assert {name: len(rows) for name, rows in tables.items()} == {
        "by_misfit": 6,
        "by_model": 3,
        "by_size": 14,
    }
    name, outputs, sweep, chosen = list(study.tasks(tmp_path))[1]
    assert (name, outputs) == ("2 outputs, rank 1", 2)
    for seed, p in np.ndindex(2, 2):
        at = {"seed": seed, "examples": p, "misfit": 1, "noise": 0}
        deep = [sweep.isel(at).sel(model=each) for each in study.MODELS[3:]]
        best = max(deep, key=lambda point: float(point["log_evidence"]))
        assert float(chosen["test_log_density"].isel(at)) == float(best["test_log_density"])
