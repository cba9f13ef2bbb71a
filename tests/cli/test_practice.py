"""Tables as they come: dialects of CSV, ids, categories, missing cells, partly known targets, reports."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import lbnn
from lbnn._base.files import write_all_atomically
from lbnn.cli.reading import Dialect, guessed
from tests.cli.test_cli import QUICK, empty_folder, files, ok, refused  # noqa: F401


@pytest.fixture
def frame():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(24, 3)) * [1.0, 1000.0, 0.01]
    kind = rng.choice(["red", "blue", "green"], size=24)
    shift = pd.Series(kind).map({"red": 0.0, "blue": 2.0, "green": -1.0}).to_numpy()
    fat = X[:, 0] + X[:, 1] / 1000 + shift + 0.3 * rng.normal(size=24)
    return pd.DataFrame(
        {"id": [f"P{j}" for j in range(24)], "a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "kind": kind}
        | {"fat": fat, "water": 80 - fat + 0.2 * rng.normal(size=24)}
    )


@pytest.fixture
def german(frame):
    holes = frame.assign(b=frame["b"].mask(frame.index.isin([3, 7])))
    holes.rename(columns={"a": "Größe"}).to_csv(
        "data.csv", index=False, sep=";", decimal=",", encoding="cp1252", float_format="%.5f"
    )
    return "data.csv"


@pytest.mark.parametrize(
    ("sep", "decimal", "encoding"),
    [
        (",", ".", "utf-8"),
        (";", ",", "utf-8"),
        (";", ".", "cp1252"),
        ("\t", ",", "cp1252"),
        ("|", ".", "utf-8"),
    ],
)
def test_dialects_are_guessed(frame, sep, decimal, encoding):
    named = frame.rename(columns={"a": "Größe"})
    named.to_csv("x.csv", index=False, sep=sep, decimal=decimal, encoding=encoding)
    assert guessed(Path("x.csv"), Dialect()) == Dialect(sep, decimal, encoding)


def test_a_newcomer_follows_what_the_program_says(german):
    fit = ("fit", german, "-t", "fat,water", *QUICK, "-o", "m.lbnn")
    message = refused(*fit)  # everything that is wrong, in one message
    assert (
        "Try: --id id --categorical kind; --missing drop to leave rows with gaps out, or --missing median"
        in (message)
    )
    assert "2 missing or infinite values: b in lines 5, 9" in message
    assert files() == {"data.csv"}
    fit = (*fit, "--id", "id", "--categorical", "kind", "--missing", "median", "--report", "r.html")
    assert "read with --sep ';' --decimal ',' --encoding cp1252" in ok(*fit)
    page = Path("r.html").read_text(encoding="utf-8")
    assert page.count("data:image/svg+xml") == 3  # coupling, and left-out predictions of two targets
    output = ok("predict", "m.lbnn", german, "-o", "p.csv")  # the model knows the column of the ids
    assert "2 missing values are replaced by medians of the fit, in b" in output
    assert "Not used" not in output
    predictions = pd.read_csv("p.csv")
    assert list(predictions["id"]) == [f"P{j}" for j in range(24)]
    assert lbnn.LBNNRegressor.load("m.lbnn").feature_names_in_.tolist() == [
        "Größe", "b", "c", "kind=green", "kind=red",
    ]  # fmt: skip


def test_rows_with_missing_cells_are_left_out(german):
    common = (*QUICK, "--id", "id", "--categorical", "kind", "--missing", "drop")
    output = ok("fit", german, "-t", "fat,water", *common, "-o", "m.lbnn")
    assert "2 rows of data.csv with missing values in b left out" in output
    assert "22 rows, 5 features, 2 targets" in output
    ok("predict", "m.lbnn", german, "-o", "p.csv", "--id", "id")
    assert len(pd.read_csv("p.csv")) == 22


def test_new_levels_of_a_category_are_refused(frame):
    frame.to_csv("data.csv", index=False)
    ok(
        "fit",
        "data.csv",
        "-t",
        "fat",
        *QUICK,
        "-o",
        "m.lbnn",
        "--id",
        "id",
        "--categorical",
        "kind",
        "--drop",
        "water",
    )
    frame.assign(kind="violet").to_csv("new.csv", index=False)
    assert "must have the levels of the fit" in refused("predict", "m.lbnn", "new.csv", "-o", "p.csv")


def test_known_targets_help_to_predict_the_others(frame):
    frame.drop(columns=["kind", "id"]).to_csv("data.csv", index=False)
    ok("fit", "data.csv", "-t", "fat,water", *QUICK, "--noise", "coupled", "-o", "m.lbnn")
    frame.drop(columns=["kind", "water", "fat"]).to_csv("none.csv", index=False)
    frame.drop(columns=["kind", "water"]).to_csv("some.csv", index=False)
    ok("predict", "m.lbnn", "none.csv", "-o", "without.csv")
    assert "24 rows have some of the targets" in ok("predict", "m.lbnn", "some.csv", "-o", "with.csv")
    told, untold = pd.read_csv("with.csv"), pd.read_csv("without.csv")
    assert np.allclose(told["fat"], frame["fat"])
    assert told["water_std"].mean() < 0.5 * untold["water_std"].mean()
    assert (
        np.abs(told["water"] - frame["water"]).mean() < 0.5 * np.abs(untold["water"] - frame["water"]).mean()
    )


def test_reports_in_markdown_are_markdown(frame):
    frame.drop(columns=["kind", "id"]).to_csv("data.csv", index=False)
    ok("fit", "data.csv", "-t", "fat,water", *QUICK, "-o", "m.lbnn", "--report", "r.md")
    text = Path("r.md").read_text(encoding="utf-8")
    assert text.startswith("# Fit of fat, water to data.csv\n")
    assert "\n## Leave-one-out calibration\n" in text
    assert "|:--|--:|" in text
    assert (
        "![fat: left-out predictions with 90% intervals, and their calibration](data:image/svg+xml;base64,"
        in text
    )


def test_parquet_index_and_booleans_are_handled_openly(frame):
    table = frame.drop(columns=["kind", "id"]).assign(wet=frame["a"] > 0).set_index("c")
    table.to_parquet("data.parquet")
    output = ok("fit", "data.parquet", "-t", "fat,water", *QUICK, "-o", "m.lbnn")
    assert "the index c is a column like the others" in output
    assert "true and false are read as 1 and 0 in wet" in output
    assert set(lbnn.LBNNRegressor.load("m.lbnn").feature_names_in_) == {"a", "b", "c", "wet"}


def test_evidence_is_sorted_and_names_the_noise(frame):
    frame.drop(columns=["kind", "id"]).to_csv("data.csv", index=False)
    output = ok(
        "evidence", "data.csv", "-t", "fat,water", "--depths", "1,2", "--widths", "2,8", "-o", "e.csv"
    )
    table = pd.read_csv("e.csv")
    assert (np.diff(table["log_evidence"]) <= 0).all()
    assert set(table["inputs"]) <= {"raw", "standardised"}
    assert "coupled" in output


def test_every_advice_has_its_option(frame):
    frame.drop(columns=["kind", "id"]).to_csv("data.csv", index=False)
    ok(
        *("fit", "data.csv", "-t", "fat,water", *QUICK, "-o", "m.lbnn", "--target-error", "0.3"),
        *("--inputs", "standardised", "--kernel", "rbf", "--kernel-param", "length_scale=3"),
    )
    model = lbnn.LBNNRegressor.load("m.lbnn")
    assert (model.inputs_, model.kernel_params_, model.target_error) == (
        "standardised",
        {"length_scale": 3.0},
        0.3,
    )
    message = refused("fit", "data.csv", "-t", "fat", "-o", "x.lbnn", "--kernel-param", "length_scale")
    assert "NAME=NUMBER" in message
    for option, value in (("--sep", ";;"), ("--decimal", "x"), ("--encoding", "klingon")):
        assert option in refused("fit", "data.csv", "-t", "fat", "-o", "x.lbnn", option, value)


def test_all_files_or_none():
    Path("old.txt").write_text("old")
    with pytest.raises(ZeroDivisionError):
        write_all_atomically(
            {Path("old.txt"): lambda path: path.write_text("new"), Path("b"): lambda _: 1 / 0}
        )
    assert files() == {"old.txt"}
    assert Path("old.txt").read_text() == "old"


def test_stale_files_are_removed_and_fresh_ones_left():
    for name, age in ((".lbnn-stale", 7200), (".lbnn-fresh", 10)):
        Path(name).write_text("x")
        os.utime(name, (time.time() - age,) * 2)
    write_all_atomically({Path("a"): lambda path: path.write_text("a")})
    assert files() == {"a", ".lbnn-fresh"}


def test_termination_leaves_no_temporary_file():
    program = (
        "import time, signal, sys; from pathlib import Path; from lbnn._base.files import write_atomically; "
        "from lbnn.cli.entry import _end; signal.signal(signal.SIGTERM, _end); "
        "write_atomically(Path('x'), lambda p: (print('ready', flush=True), time.sleep(30)))"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 143
    assert files() == set()


def test_few_rows_are_averaged_over_hyperparameters_unless_told_not_to():
    """The default is `average="auto"`: of twelve rows the noise is uncertain, and models are mixed."""
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(rng.normal(size=(12, 3)), columns=["a", "b", "y"])
    frame["y"] += frame["a"]
    frame.to_csv("few.csv", index=False)
    options = ("fit", "few.csv", "-t", "y", "--depth", "1", "-o", "m.lbnn")
    assert "Predictions average" in ok(*options)
    assert "Predictions average" not in ok(*options, "--no-integrate", "--force")


def test_targets_that_are_not_gaussian_are_named():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(60, 3))
    table = pd.DataFrame(X, columns=list("abc"))
    table["conc"] = np.exp(X @ [1.0, 0.5, -0.5] + 0.3 * rng.normal(size=60))
    table.to_csv("data.csv", index=False)
    told = ok("fit", "data.csv", "-t", "conc", "-o", "m.lbnn", "--depth", "1")
    assert "the log of the targets raises the log evidence" in " ".join(told.split())


def test_the_kernel_that_was_chosen_is_named():
    rng = np.random.default_rng(2)
    X = rng.uniform(-2, 2, size=(40, 1))
    pd.DataFrame({"x": X[:, 0], "y": np.sin(3 * X[:, 0]) + 0.1 * rng.normal(size=40)}).to_csv(
        "data.csv", index=False
    )
    told = ok("fit", "data.csv", "-t", "y", "-o", "m.lbnn", "--depth", "1", "--kernel", "auto")
    assert "kernel auto" not in told
    assert "; kernel" in told
