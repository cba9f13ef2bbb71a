"""Tables that are made to go wrong: huge numbers, names of columns that are formulas, fields without end."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import lbnn
from lbnn import archive
from lbnn.estimator.saving import KIND
from tests.cli import test_cli
from tests.cli.test_cli import QUICK, files, ok, refused

empty_folder, frame, data, model = test_cli.empty_folder, test_cli.frame, test_cli.data, test_cli.model


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("size", [1e308, -1e308, 1.7e308, 1e200])
def test_predictions_that_are_no_numbers_are_not_written(frame, model, size):
    """Before: an empty cell for each of them, and exit code 0."""
    rows = frame.head(3).copy()
    rows.iloc[1, 0] = size
    rows.drop(columns=["y1", "y2"], errors="ignore").to_csv("huge.csv", index=False)
    message = refused("predict", model, "huge.csv", "-o", "p.csv")
    assert "predictions must be finite" in message
    assert "in line 3" in message
    assert "p.csv" not in files()


ODD_NAMES = ["$x_{$", "$", "$$", r"\frac{", "$\\alpha$", "a_b^c", "<b>&", "{", "%", "#", "$a$b$"]


def test_names_that_are_no_formulas_are_drawn_as_they_are():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(16, len(ODD_NAMES)))
    targets = [f"{name} t" for name in ODD_NAMES[::2]]
    goals = X @ rng.normal(size=(X.shape[1], len(targets))) + 0.3 * rng.normal(size=(16, len(targets)))
    table = pd.DataFrame(np.hstack([X, goals]), columns=[*ODD_NAMES, *targets])
    table.to_csv("odd.csv", index=False)
    given = [part for name in targets for part in ("-t", name)]
    ok("fit", "odd.csv", *given, "--depth", "1", *QUICK[4:], "-o", "m.lbnn", "--report", "r.html")
    assert {"m.lbnn", "r.html"} <= files()
    assert lbnn.LBNNRegressor.load("m.lbnn").feature_names_in_.tolist() == ODD_NAMES


def test_a_field_without_end_is_named_with_its_file():
    Path("long.csv").write_text("a,y\n" + "x" * 200_000 + ",1\n2,3\n")
    assert "long.csv" in refused("fit", "long.csv", "-t", "y", "-o", "m.lbnn")
    Path("header.csv").write_text("a" * 200_000 + ",z\n1,2\n2,3\n")
    message = refused("fit", "header.csv", "-t", "y", "-o", "m.lbnn")
    assert "header.csv has no column y" in message
    assert len(message) < 300


def test_formulas_do_not_reach_a_spreadsheet():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12, 2))
    table = pd.DataFrame(X, columns=["a", "b"])
    table["=1+1"] = X @ [1.0, 2.0] + 0.1 * rng.normal(size=12)
    table["who"] = [
        "@SUM(A1)",
        "+cmd|' /C calc'!A0",
        "-2",
        "-x",
        "plain",
        "=A1",
        *[f"P{j}" for j in range(6)],
    ]
    table.to_csv("data.csv", index=False)
    ok("fit", "data.csv", "-t", "=1+1", "--id", "who", *QUICK, "-o", "m.lbnn")
    said = ok("predict", "m.lbnn", "data.csv", "-o", "p.csv")
    assert "apostrophe" in said
    lines = Path("p.csv").read_text().splitlines()
    cells = [cell.strip('"') for line in lines for cell in line.split(",")]
    numbers = pd.to_numeric(pd.Series(cells), errors="coerce").notna()
    assert not [c for c, number in zip(cells, numbers, strict=True) if c[:1] in "=+-@" and c and not number]
    written = pd.read_csv("p.csv")
    assert list(written.columns[:3]) == ["who", "'=1+1", "'=1+1_std"]
    assert list(written["who"][:6]) == ["'@SUM(A1)", "'+cmd|' /C calc'!A0", "-2", "'-x", "plain", "'=A1"]
    assert "apostrophe" not in ok("predict", "m.lbnn", "data.csv", "-o", "p.parquet")
    kept = pd.read_parquet("p.parquet")
    assert kept.columns[1] == "=1+1"
    assert kept["who"][0] == "@SUM(A1)"


def test_plain_tables_are_written_without_a_word(frame, model):
    frame.to_csv("new.csv", index=False)
    assert "apostrophe" not in ok("predict", model, "new.csv", "-o", "p.csv")


@pytest.mark.parametrize("count", [10**9, 1_000_001])
def test_an_axis_of_a_billion_points_is_refused_at_once(count):
    Path("study.py").write_text(
        f"import lbnn\naxes = {{'seed': range({count}), 'beta': [1.0]}}\nquantities = ['log_evidence']\n"
        "data, network = lambda rng, seed: rng.normal(size=(2, 3, 3)), lambda: lbnn.Network((3,))\n"
    )
    started = time.process_time()
    message = refused("sweep", "study.py", "--out", "run.zarr")
    assert "1,000,000 values" in message
    assert time.process_time() - started < 5
    assert files() == {"study.py"}


def test_a_grid_of_too_many_points_is_refused():
    axes = {"seed": range(10_000), "width": range(1, 200), "beta": np.geomspace(1, 10, 1000)}
    with pytest.raises(
        ValueError, match=r"may have 100,000,000 points, got 1,990,000,000: 10,000 seed × 199"
    ):
        lbnn.sweep(
            axes,
            data=lambda seed: None,
            network=lambda width: lbnn.Network((width,)),
            quantities=["log_evidence"],
            store="run.zarr",
        )
    with pytest.raises(ValueError, match="may have 1,000,000 values, got more"):
        lbnn.sweep(
            {"beta": (float(n) for n in range(10**9))},
            data=lambda: None,
            network=lambda: lbnn.Network((2,)),
            quantities=["log_evidence"],
            store="run.zarr",
        )


@pytest.mark.parametrize("odd", [{}, {"preparation": {"x": 1}}, {"target_names": 3}, {"models": {}}])
def test_models_with_odd_headers_are_refused_in_a_line(model, data, odd):
    header, arrays = archive.read(model, KIND)
    changed = {key: value for key, value in header.items() if odd or key != "models"} | odd
    archive.write(model, KIND, changed, arrays)
    refused("predict", model, data, "-o", "p.csv")
    assert "p.csv" not in files()
