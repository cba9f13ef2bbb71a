"""`lbnn fit` with missing targets and weights of rows."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import lbnn
from lbnn.cli.app import app

FIXED = ["--depth", "1", "--beta", "4", "--prior-scale", "2"]


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 3))
    Y = X @ rng.normal(size=(3, 2)) + 0.5 * rng.normal(size=(20, 2))
    frame = pd.DataFrame(np.hstack([X, Y]), columns=["a", "b", "c", "y", "z"])
    frame.loc[[2, 5], "y"] = np.nan
    frame["w"] = np.where(np.arange(20) < 10, 1.0, 0.5)
    path = tmp_path / "table.csv"
    frame.to_csv(path, index=False)
    return path, frame


def run(path, tmp_path, *more):
    out = tmp_path / "model.lbnn"
    return CliRunner().invoke(app, ["fit", str(path), "-t", "y,z", "-o", str(out), *FIXED, *more]), out


def test_missing_targets_are_refused_and_allowed(table, tmp_path):
    path, _ = table
    result, _ = run(path, tmp_path, "--drop", "w")
    assert result.exit_code != 0
    result, out = run(path, tmp_path, "--drop", "w", "--missing-targets", "allow")
    assert result.exit_code == 0, result.output
    assert "2 of 40 targets were missing" in " ".join(result.output.split())
    assert out.exists()


def test_weights_are_a_column(table, tmp_path):
    path, frame = table
    complete = frame.dropna()
    complete.to_csv(path, index=False)
    result, _ = run(
        path, tmp_path, "--weights", "w", "--column-scales", "raw", "--noise", "independent", "--json"
    )
    assert result.exit_code == 0, result.output
    expected = lbnn.LBNNRegressor(
        depth=1, beta=4.0, prior_scale=2.0, column_scales="raw", noise="independent"
    ).fit(complete[["a", "b", "c"]], complete[["y", "z"]], sample_weight=complete["w"])
    assert json.loads(result.stdout)["chosen"]["log_evidence"] == pytest.approx(expected.log_evidence_)
    for name, said in (("q", "has no column q"), ("a", "positive numbers in a")):
        result, _ = run(path, tmp_path, "--weights", name, "--force")
        assert result.exit_code != 0
        assert said in " ".join(result.output.split())
