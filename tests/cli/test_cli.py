"""The command line: happy paths against the library, every rule about data and files, exit codes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import lbnn
from lbnn._base.files import write_atomically
from lbnn.cli.app import app
from lbnn.cli.columns import Examples, Preparation, numbers
from lbnn.cli.reading import read_table
from lbnn.cli.report import FitReport
from lbnn.plots.page import Document, Grid, Picture, Section

RUNNER = CliRunner()
FEATURES = [f"x{j}" for j in range(6)]
TARGETS = ["fat", "water"]
#: Fixed hyperparameters, so that a fit takes milliseconds.
QUICK = ("--depth", "2", "--width", "4", "--beta", "10", "--prior-scale", "1")


@pytest.fixture(autouse=True)
def empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")


@pytest.fixture
def frame():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 6))
    Y = X @ rng.normal(size=(6, 2)) + 0.3 * rng.normal(size=(20, 2)) + [5.0, -1.0]
    return pd.DataFrame(np.hstack([X, Y]), columns=FEATURES + TARGETS)


@pytest.fixture
def data(frame):
    frame.to_csv("data.csv", index=False)
    return "data.csv"


def run(*arguments: object):
    return RUNNER.invoke(app, [str(each) for each in arguments])


def ok(*arguments: object) -> str:
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return result.output


def refused(*arguments: object, code: int = 2) -> str:
    """The one line that a command gives up with."""
    result = run(*arguments)
    assert result.exit_code == code, (result.exit_code, result.output)
    assert "Traceback" not in result.output
    lines = [line for line in result.stderr.splitlines() if line.startswith("lbnn: ")]
    assert len(lines) == 1, result.output
    return lines[0]


def files() -> set[str]:
    return {path.name for path in Path().iterdir()}


# ---------------------------------------------------------------------- help, version, exit codes


@pytest.mark.parametrize("command", ["fit", "predict", "evidence", "compare", "reproduce", "sweep"])
def test_help_has_examples(command):
    assert f"lbnn {command}" in ok(command, "--help")


def test_bare_command_shows_help():
    result = run()
    assert "Commands" in result.output
    assert result.exit_code == 2  # as a missing argument
    assert ok("--version").strip() == f"lbnn {lbnn.__version__}"
    assert lbnn.__version__ == metadata.version("lbnn")


def test_unknown_option_is_usage(data):
    assert run("fit", data, "--goal", "y").exit_code == 2
    assert run("fit", data, "--out", "m.lbnn").exit_code == 2  # --targets is required


def test_module_runs_as_a_command(data):
    command = [sys.executable, "-m", "lbnn.cli", "evidence", data, "-t", "absent"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert result.returncode == 2
    assert result.stderr.startswith("lbnn: --targets: data.csv has no column absent")


def test_missing_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "typer", None)
    for name in [name for name in sys.modules if name.startswith("lbnn.cli.")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(SystemExit, match=r"needs typer: pip install .*\[cli\]'"):
        lbnn.cli.main()


def test_debug_shows_the_traceback(data):
    result = run("evidence", data, "-t", "absent", "--debug")
    assert result.exit_code == 2
    assert "Traceback" in result.stderr
    assert "lbnn: --targets" in result.stderr


def test_failure_of_the_run_is_code_one(data, monkeypatch):
    def broken(*_, **__):
        raise MemoryError("no room")

    monkeypatch.setattr("lbnn.cli.evidence._row", broken)
    assert refused("evidence", data, "-t", "fat", code=1) == "lbnn: MemoryError: no room"


def test_warnings_are_lines(data, monkeypatch):
    import warnings

    def warned(*_, **__):
        warnings.warn("few atoms", lbnn.AccuracyWarning, stacklevel=2)
        row = {"depth": 1, "width": None, "noise": "independent", "inputs": "raw", "beta": 1.0}
        return {**row, "prior_scale": 1.0, "log_evidence": 0.0, "error": 0.0}

    monkeypatch.setattr("lbnn.cli.evidence._row", warned)
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        assert "lbnn: warning: few atoms\n" in run("evidence", data, "-t", "fat", "--depths", "1").stderr


# ---------------------------------------------------------------------- rules about data


BAD_TABLES = {
    "missing.csv": (
        "a,b,y\n1,2,3\n4,,6\n7,8,\n",
        "missing or infinite values of b in line 3, y in line 4 (--missing drop leaves such rows out",
    ),
    "infinite.csv": ("a,y\n1,2\ninf,3\n", "missing or infinite values of a in line 3"),
    "words.csv": ("a,kind,y\n1,red,3\n2,blue,4\n", "text in kind ('red' in line 2) (--decimal, --thousands,"),
    "stray.csv": ("a,y\n1,2\n3,x7\n", "text in y ('x7' in line 3)"),
    "twice.csv": (
        "a,a,y\n1,2,3\n",
        "column names must be distinct, got a more than once: rename them, or leave",
    ),
    "indexed.csv": (",a,y\n0,1,2\n1,3,4\n", "got (column 1) has no name"),
    "long_row.csv": ("a,y\n1,2\n1,2,3\n", "Expected 2 fields in line 3, saw 3"),
    "long_rows.csv": ("a,y\n1,2,3\n4,5,6\n", "rows have more fields than the first line names columns"),
    "header.csv": ("a,y\n", "at least one column and one row"),
    "empty.csv": ("", "the first line must name the columns"),
    "lonely.csv": ("a\n1\n2\n", "has no column y; it has a: is --sep right?"),
}


@pytest.mark.parametrize("name", BAD_TABLES)
def test_bad_table_is_refused(name):
    content, message = BAD_TABLES[name]
    Path(name).write_text(content, encoding="utf-8")
    assert message in refused("fit", name, "-t", "y", "-o", "model.lbnn")
    assert files() == {name}


def test_unreadable_files_are_refused(data):
    Path("latin.csv").write_bytes("a,größe\n1,2\n".encode("latin-1"))
    Path("torn.parquet").write_bytes(b"PAR1 and then nothing")
    Path("data.xlsx").write_bytes(b"")
    message = refused("evidence", "latin.csv", "-t", "a", "--encoding", "utf-8")
    assert "cannot be read as text with --sep ',' --encoding utf-8: 'utf-8' codec" in message
    assert "cannot be read as Parquet" in refused("evidence", "torn.parquet", "-t", "a")
    assert "cannot be read as an Excel file of 2007 or later without a password" in refused(
        "evidence", "data.xlsx", "-t", "a"
    )
    Path("data.xls").write_bytes(b"")
    assert "got data.xls; save it as .xlsx" in refused("evidence", "data.xls", "-t", "a")
    assert ".csv, .tsv, .txt, .xlsx, .parquet, got data" in refused("evidence", "data", "-t", "a")
    assert "must be a file that exists, got absent.csv" in refused("evidence", "absent.csv", "-t", "a")


def test_duplicate_columns_of_parquet_are_refused():
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table([[1.0], [2.0], [3.0]], names=["a", "a", "y"]), "twice.parquet")
    refused("evidence", "twice.parquet", "-t", "y")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("-t", "fat,protein"), "has no column protein; it has x0, x1, x2, x3, x4 and 3 more"),
        (("-t", "fat,fat"), "columns of --targets must be distinct, got fat more than once"),
        (("-t", ","), "--targets must name at least one column"),
        (("-t", "fat", "-x", "x0,fat"), "a target cannot be a feature or be dropped as well, got fat"),
        (("-t", "fat", "--drop", "fat"), "a target cannot be a feature or be dropped as well, got fat"),
        (("-t", "fat", "--drop", "x9"), "--drop: data.csv has no column x9"),
        (("-t", "fat", "-x", "x1", "--drop", "x2"), "--drop those not to use: got both"),
        (("-t", ",".join(FEATURES + TARGETS)), "at least one feature column is needed"),
        (
            ("-t", "fat", "--widths", "2,wide"),
            "--widths must be whole numbers separated by commas, got '2,wide'",
        ),
        (("-t", "fat", "--widths", "0"), "depths and widths must be positive"),
        (("-t", "fat", "--betas", "-1"), "--betas must be a positive number or evidence, got '-1'"),
        (
            ("-t", "fat", "--prior-scale", "big"),
            "--prior-scale must be a positive number or evidence, got 'big'",
        ),
        (("-t", "fat", "--kernel", "magic"), "--kernel must be one of"),
        (("-t", "fat", "--out", "table.txt"), "--out must end in .csv, got table.txt"),
        (("-t", "fat", "--sheet", "Data"), "--sheet is for .xlsx files, got data.csv"),
    ],
)
def test_bad_options_are_refused(data, options, message):
    assert message in refused("evidence", data, *options)


def test_column_name_with_a_comma(frame):
    frame.rename(columns={"fat": "fat, raw"}).to_csv("data.csv", index=False)
    assert "1 target\n" in ok("evidence", "data.csv", "-t", "fat, raw", "--depths", "1")


def test_parquet_reads_as_csv_does(frame, data):
    frame.to_parquet("data.parquet")
    parquet, text = read_table(Path("data.parquet")), read_table(Path(data))
    np.testing.assert_array_equal(numbers(parquet, FEATURES), numbers(text, FEATURES))
    assert (parquet.rows([1, 3]), text.rows([2])) == ("rows 1, 3", "line 2")


def test_byte_order_mark_and_spaces_in_the_header(frame):
    text = frame.rename(columns={"x0": " x0 "}).to_csv(index=False)
    Path("data.csv").write_text(text, encoding="utf-8-sig")
    assert read_table(Path("data.csv")).columns == FEATURES + TARGETS


# ---------------------------------------------------------------------- files


def test_write_is_atomic():
    path = Path("out.csv")
    path.write_text("old")

    def fail(temporary: Path) -> None:
        temporary.write_text("half")
        raise RuntimeError("torn")

    with pytest.raises(RuntimeError, match="torn"):
        write_atomically(path, fail)
    assert files() == {"out.csv"}
    assert path.read_text() == "old"
    with path.open() as reader:  # whoever reads the old file goes on reading it
        write_atomically(path, lambda temporary: temporary.write_text("new"))
        assert reader.read() == "old"
    assert path.read_text() == "new"


def test_written_files_have_usual_permissions():
    write_atomically(Path("out.csv"), lambda temporary: temporary.write_text("new"))
    Path("plain").write_text("")
    assert os.stat("out.csv").st_mode == os.stat("plain").st_mode


def test_the_mask_of_permissions_is_never_changed(monkeypatch):
    """It belongs to the whole process: what other threads create meanwhile would be open to all."""
    monkeypatch.setattr(os, "umask", lambda _: pytest.fail("umask was set"))
    write_atomically(Path("out.csv"), lambda temporary: temporary.write_text("new"))
    assert os.listdir() == ["out.csv"]


def test_outputs_are_not_replaced_without_force(data):
    arguments = ("evidence", data, "-t", "fat", "--depths", "1", "--out", "table.csv")
    ok(*arguments)
    before = Path("table.csv").read_bytes()
    assert "table.csv exists already; give --force" in refused(*arguments)
    ok(*arguments, "--force")
    assert Path("table.csv").read_bytes() == before


def test_outputs_that_cannot_be_written(data):
    Path("folder.csv").mkdir()
    command = ("evidence", data, "-t", "fat", "--depths", "1", "--out")
    assert "must be a file, got the folder" in refused(*command, "folder.csv")
    assert "folder of an output must exist" in refused(*command, "absent/table.csv")
    assert "must not replace an input" in refused(*command, "data.csv", "--force")


# ---------------------------------------------------------------------- fit and predict


@pytest.fixture
def model(data):
    ok("fit", data, "-t", "fat,water", *QUICK, "-o", "model.lbnn")
    return "model.lbnn"


def test_fit_is_that_of_the_library(frame, model):
    expected = lbnn.LBNNRegressor(depth=2, width=4, beta=10.0, prior_scale=1.0)
    expected.fit(frame[FEATURES], frame[TARGETS])
    loaded = lbnn.LBNNRegressor.load(model)
    values, reference = loaded.predict(frame[FEATURES]), expected.predict(frame[FEATURES])
    # rounding: some versions of pandas keep columns together in memory and others rows, which reorders sums
    np.testing.assert_allclose(values, reference, rtol=1e-12, atol=1e-12)
    assert list(loaded.feature_names_in_) == FEATURES


def test_fit_reports_the_fit(frame, data):
    output = ok("fit", data, "-t", "fat,water", *QUICK, "-o", "m.lbnn", "--report", "fit.txt")
    expected = lbnn.LBNNRegressor(depth=2, width=4, beta=10.0, prior_scale=1.0)
    expected.fit(frame[FEATURES], frame[TARGETS])
    assert f"Log evidence {expected.log_evidence_:.2f}" in output
    scale = expected.scale_mean_
    assert f"{scale[0, 1] / np.sqrt(scale[0, 0] * scale[1, 1]):.2f}" in output
    scores = expected.leave_one_out()
    residual = frame["fat"].to_numpy() - scores.mean[:, 0]
    fat = next(line.split() for line in output.splitlines() if line.startswith("fat") and "%" in line)
    about = (frame["fat"] - frame["fat"].mean()) * 20 / 19  # about the mean of the other rows
    assert fat[1] == f"{1 - (residual**2).sum() / (about**2).sum():.3f}"
    ridge, of_mean = float(fat[3]), float(fat[4])
    assert of_mean == pytest.approx(np.sqrt((about**2).mean()), rel=1e-3)
    best = min(_left_out_ridge(frame, penalty) for penalty in np.geomspace(1e-4, 1e4, 50))
    assert ridge == pytest.approx(best, rel=0.01)  # the report's penalties are a coarser grid
    inside = np.abs(residual) < 1.6448536269514722 * np.sqrt(scores.variance[:, 0])
    assert fat[5] == f"{inside.mean():.0%}"
    written = Path("fit.txt").read_text(encoding="utf-8")
    for section in output.partition("\n\n")[2].partition("\n\nWritten")[0].split("\n\n"):
        assert " ".join(section.split()) in " ".join(written.split())  # lines are wrapped elsewhere


def _left_out_ridge(frame, penalty):
    """Left-out error of a ridge regression of fat, by twenty refits of the normal equations."""
    X, y, errors = frame[FEATURES].to_numpy(), frame["fat"].to_numpy(), []
    for row in range(len(y)):
        rest = np.arange(len(y)) != row
        level, about = X[rest].mean(axis=0), y[rest].mean()
        Z = X[rest] - level
        weights = np.linalg.solve(Z.T @ Z + penalty * np.eye(6), Z.T @ (y[rest] - about))
        errors.append(y[row] - about - (X[row] - level) @ weights)
    return np.sqrt(np.mean(np.square(errors)))


def test_fit_chooses_by_evidence(data):
    output = ok("fit", data, "-t", "fat", "--drop", "water", "-o", "m.lbnn", "--report", "fit.html")
    assert "a difference of 3 is a factor of 20 in odds" in output
    page = Path("fit.html").read_text(encoding="utf-8")
    assert '<h2 id="evidence">Evidence</h2>' in page
    assert '<a href="#evidence">Evidence</a>' in page
    assert "Coupling" not in page  # one target
    assert "://" not in page  # nothing from elsewhere


def test_html_report_escapes_names(frame):
    frame.rename(columns={"fat": "<b>fat"}).to_csv("data.csv", index=False)
    ok("fit", "data.csv", "-t", "<b>fat", "-x", "x0,x1", *QUICK, "-o", "m.lbnn", "--report", "fit.html")
    page = Path("fit.html").read_text(encoding="utf-8")
    assert "<b>" not in page
    assert "&lt;b&gt;fat" in page


def test_document_escapes_everything():
    grid = Grid(("<h>",), [("<c>",)], "<caption>")
    page = Document("<title>", [Section("<section>", ["a < b", grid])]).html()
    assert "<title><title>" not in page
    for text in ("<h>", "<c>", "<caption>", "<section>", "a < b", "<title>"):
        assert text.replace("<", "&lt;").replace(">", "&gt;") in page


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("-o", "model.pkl"), "--out must end in .lbnn, got model.pkl"),
        (("-o", "m.lbnn", "--report", "fit.pdf"), "--report must end in .html or .txt or .md, got fit.pdf"),
        (("-o", "m.lbnn", "--depth", "0"), "--depth must be positive whole numbers or evidence, got '0'"),
        (
            ("-o", "m.lbnn", "--depth", "deep"),
            "--depth must be whole numbers separated by commas, got 'deep'",
        ),
        (("-o", "m.lbnn", "--width", "0"), "--width must be positive whole numbers or evidence, got '0'"),
        (("-o", "m.lbnn", "--depth", "2", "--width", "3,4"), "depth 2 has 1 hidden width"),
        (("-o", "m.lbnn", "--beta", "nan"), "--beta must be a positive number or evidence, got 'nan'"),
    ],
)
def test_bad_fit_options_are_refused(data, options, message):
    assert message in refused("fit", data, "-t", "fat", *options)
    assert files() == {"data.csv"}


def test_failed_fit_leaves_nothing(data, monkeypatch):
    def torn(self, path):
        Path(path).write_bytes(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(lbnn.LBNNRegressor, "save", torn)
    assert refused("fit", data, "-t", "fat", *QUICK, "-o", "m.lbnn", code=1) == "lbnn: disk full"
    assert files() == {"data.csv"}


def test_predictions_are_those_of_the_library(frame, model):
    new = frame[FEATURES].head(4) + 0.5
    new.to_csv("new.csv", index=False)
    ok("predict", model, "new.csv", "-o", "out.csv", "--interval", "0.8")
    table = pd.read_csv("out.csv")
    law = lbnn.LBNNRegressor.load(model).predictive(new).with_noise()
    low, high = law.interval(0.8)
    assert list(table.columns) == [
        *(f"{name}{end}" for name in TARGETS for end in ("", "_std", "_low", "_high")),
        "leverage",
    ]
    assert table["leverage"].to_numpy() == pytest.approx(law.leverage)
    for j, name in enumerate(TARGETS):
        assert table[name].to_numpy() == pytest.approx(law.mean[:, j])
        assert table[f"{name}_std"].to_numpy() ** 2 == pytest.approx(law.variance[:, j])
        assert table[f"{name}_low"].to_numpy() == pytest.approx(low[:, j])
        assert table[f"{name}_high"].to_numpy() == pytest.approx(high[:, j])


def test_joint_covariance(frame, model):
    frame[FEATURES].head(3).to_csv("new.csv", index=False)
    ok("predict", model, "new.csv", "-o", "out.parquet", "--joint-covariance", "c.npz")
    ok("predict", model, "new.csv", "-o", "out.csv", "--joint-covariance", "c.csv")
    with np.load("c.npz", allow_pickle=False) as file:
        stored = dict(file)
    std = pd.read_parquet("out.parquet")[["fat_std", "water_std"]].to_numpy().ravel()
    assert np.diag(stored["covariance"]) == pytest.approx(std**2)
    assert list(stored["targets"]) == TARGETS
    named = pd.read_csv("c.csv", index_col=0)
    assert named.to_numpy() == pytest.approx(stored["covariance"])
    assert named.loc["1:fat", "2:water"] == pytest.approx(stored["covariance"][0, 3])


def test_joint_covariance_is_not_written_beside_predictions_given_known_targets(frame, model):
    frame.head(3).to_csv("new.csv", index=False)
    said = refused("predict", model, "new.csv", "--given", "--joint-covariance", "c.npz")
    assert "--joint-covariance is of targets that are all unknown" in said
    assert not Path("out.csv").exists()


def test_columns_are_found_by_name(frame, model):
    frame[FEATURES].head(3).to_csv("new.csv", index=False)
    frame[FEATURES[::-1]].head(3).assign(id="a").to_csv("shuffled.csv", index=False)
    ok("predict", model, "new.csv", "-o", "a.csv")
    assert "Not used: id" in ok("predict", model, "shuffled.csv", "-o", "b.csv")
    assert Path("a.csv").read_bytes() == Path("b.csv").read_bytes()


def test_scores_where_the_truth_is_known(frame, data, model):
    output = ok("predict", model, data, "-o", "out.csv")
    mean = pd.read_csv("out.csv")["fat"]
    expected = 1 - ((frame["fat"] - mean) ** 2).sum() / ((frame["fat"] - frame["fat"].mean()) ** 2).sum()
    fat = next(line.split() for line in output.splitlines() if line.startswith("fat"))
    assert fat[1] == f"{expected:.3f}"
    density = lbnn.LBNNRegressor.load(model).predictive(frame[FEATURES]).with_noise()
    assert f"{density.pointwise_log_density(frame[TARGETS].to_numpy()).mean():.3f}" in output


def test_predictions_in_parts_are_the_same(data, model, monkeypatch):
    whole = ok("predict", model, data, "-o", "whole.csv")
    monkeypatch.setattr("lbnn.cli.predict._ROWS_AT_ONCE", 7)
    parts = ok("predict", model, data, "-o", "parts.csv")
    assert parts.replace("parts.csv", "whole.csv") == whole
    assert pd.read_csv("parts.csv").to_numpy() == pytest.approx(pd.read_csv("whole.csv").to_numpy())


def test_rows_without_truth_are_predicted_and_not_scored(frame, model):
    frame.assign(fat=[np.nan, *frame["fat"][1:]]).to_csv("new.csv", index=False)
    output = ok("predict", model, "new.csv", "-o", "out.csv")
    assert "Against the targets in new.csv, 19 rows" in output  # the row without is predicted, not scored
    assert len(pd.read_csv("out.csv")) == len(frame)
    frame.astype({"fat": str}).assign(fat="much").to_csv("text.csv", index=False)
    assert "Not scored: text.csv" in ok("predict", model, "text.csv", "-o", "text_out.csv")
    assert "text in fat ('much' in line 2)" in refused("predict", model, "text.csv", "--given")


def test_without_a_file_the_first_rows_are_printed(frame, model):
    frame[FEATURES].to_csv("new.csv", index=False)
    output = ok("predict", model, "new.csv")
    assert "10 of 20 rows; --out writes all" in output
    first = next(line.split() for line in output.splitlines() if line.startswith("line 2"))
    law = lbnn.LBNNRegressor.load(model).predictive(frame[FEATURES].head(1)).with_noise()
    assert float(first[2]) == pytest.approx(law.mean[0, 0], rel=1e-3)
    assert files() == {"data.csv", "model.lbnn", "new.csv"}


def test_output_columns_do_not_collide(frame):
    frame.rename(columns={"water": "fat_std"}).to_csv("data.csv", index=False)
    ok("fit", "data.csv", "-t", "fat,fat_std", *QUICK, "-o", "m.lbnn")
    message = refused("predict", "m.lbnn", "data.csv", "-o", "out.csv")
    assert "columns of the output must be distinct, got fat_std more than once" in message


@pytest.mark.filterwarnings("ignore:6 linear combinations")
def test_many_targets_are_coupled_in_pairs():
    rng = np.random.default_rng(1)
    X, cause = rng.normal(size=(15, 3)), rng.normal(size=(3, 9))
    frame = pd.DataFrame(np.hstack([X, X @ cause]), columns=[f"c{j}" for j in range(12)])
    frame["c11"] = -frame["c10"]
    frame.to_csv("data.csv", index=False)
    names = ",".join(frame.columns[3:])
    output = ok("fit", "data.csv", "-t", names, *QUICK[:2], "--width", "20", *QUICK[4:], "-o", "m.lbnn")
    scale = lbnn.LBNNRegressor.load("m.lbnn").scale_mean_
    strongest = output.partition("12 strongest of 36 pairs")[2].splitlines()[2].split()
    assert strongest == ["c10", "c11", f"{scale[7, 8] / np.sqrt(scale[7, 7] * scale[8, 8]):.2f}"]


def test_one_target_and_one_row(frame):
    frame.to_csv("data.csv", index=False)
    ok("fit", "data.csv", "-t", "fat", "--drop", "water", *QUICK, "-o", "m.lbnn")
    frame.head(1).to_csv("one.csv", index=False)
    output = ok("predict", "m.lbnn", "one.csv", "-o", "out.csv")
    assert "Not used: water" in output
    assert pd.read_csv("out.csv").shape == (1, 5)


def test_model_of_python_has_plain_target_names(frame, data):
    estimator = lbnn.LBNNRegressor(depth=1, beta=10.0, prior_scale=1.0)
    estimator.fit(frame[FEATURES], frame[TARGETS].to_numpy()).save("python.lbnn")
    ok("predict", "python.lbnn", data, "-o", "out.csv")
    assert {"y1", "y2"} <= set(pd.read_csv("out.csv").columns)
    estimator.fit(frame[FEATURES].to_numpy(), frame["fat"]).save("bare.lbnn")
    assert "must have names of its features" in refused("predict", "bare.lbnn", data, "-o", "o.csv")


def test_bad_predictions_are_refused(frame, data, model):
    frame.drop(columns=["x1", "x4"]).to_csv("less.csv", index=False)
    Path("foreign.lbnn").write_bytes(b"PK not a model")
    Path("torn.lbnn").write_bytes(Path(model).read_bytes()[:-100])
    out = ("-o", "out.csv")
    assert "the model needs its 6 features, got no column x1, x4" in refused(
        "predict", model, "less.csv", *out
    )
    assert "foreign.lbnn" in refused("predict", "foreign.lbnn", data, *out)
    assert "torn.lbnn" in refused("predict", "torn.lbnn", data, *out)
    assert "must be a file that exists, got absent.lbnn" in refused("predict", "absent.lbnn", data, *out)
    assert "--interval must lie strictly between 0 and 1" in refused(
        "predict", model, data, *out, "--interval", "1"
    )
    assert "--out must end in .csv or .parquet" in refused("predict", model, data, "-o", "out.txt")
    assert "must not replace an input" in refused("predict", model, data, "-o", data, "--force")
    same = ("--joint-covariance", "out.csv")
    assert "outputs must be different files" in refused("predict", model, data, *out, *same)
    assert not Path("out.csv").exists()


# ---------------------------------------------------------------------- evidence


def test_evidence_of_the_gaussian_process(frame, data):
    """Depth one against a dense Gaussian: with an intercept, p − 1 orthonormal contrasts of the targets."""
    output = ok(*f"evidence {data} -t fat --drop water --depths 1 --betas 4 --prior-scale 2 -o t.csv".split())
    contrasts = np.linalg.qr(np.column_stack([np.ones(20), np.eye(20)[:, 1:]]))[0][:, 1:]
    X, y = contrasts.T @ frame[FEATURES].to_numpy(), contrasts.T @ frame["fat"].to_numpy()
    covariance = 2 * X @ X.T / 6 + np.eye(19) / 4
    expected = -0.5 * (y @ np.linalg.solve(covariance, y) + np.linalg.slogdet(2 * np.pi * covariance)[1])
    table = pd.read_csv("t.csv")
    assert table["log_evidence"].to_numpy() == pytest.approx([expected])
    assert f"{expected:.2f}" in output


def test_evidence_table_has_every_cell(data):
    ok(*f"evidence {data} -t fat --depths 1,2,3 --widths 3,9 --betas 1,4 --prior-scale 1 -o t.csv".split())
    table = pd.read_csv("t.csv")
    cells = set(zip(table["depth"], table["width"].fillna(0), table["beta"].round(9), strict=True))
    assert cells == {(1, 0, 1), (1, 0, 4)} | {(d, w, b) for d in (2, 3) for w in (3, 9) for b in (1, 4)}


def test_chosen_beta_is_at_least_as_good(data):
    options = f"evidence {data} -t fat --depths 2 --widths 5 --prior-scale 1"
    ok(*f"{options} --betas 1,4,16 -o given.csv".split())
    ok(*f"{options} --betas evidence -o chosen.csv".split())
    given, chosen = pd.read_csv("given.csv"), pd.read_csv("chosen.csv")
    assert chosen["log_evidence"].max() > given["log_evidence"].max() - 0.01


# ---------------------------------------------------------------------- compare, reproduce


def test_compare_shows_the_errors_of_the_library(frame, data):
    ok(*f"compare {data} -t fat,water --widths 5,50 --beta 4 -o errors.csv".split())
    table = pd.read_csv("errors.csv")
    standard = (frame - frame.mean()) / frame.std(ddof=0)
    X, Y = standard[FEATURES].to_numpy(), standard[TARGETS].to_numpy()
    result = lbnn.compare(lbnn.Network((50,)), X, Y, beta=4.0)
    rows = table[table["network"] == "depth 2, width 50"].set_index(["theory", "quantity"])["error"]
    assert rows["infinite width", "kernel"] == pytest.approx(result.error("infinite width", "kernel"))
    assert set(table["network"]) == {"depth 2, width 5", "depth 2, width 50"}


def test_compare_draws(data):
    ok(*f"compare {data} -t fat --widths 5,50 --beta 4 --plot errors.svg".split())
    assert Path("errors.svg").read_text(encoding="utf-8").count('id="axes_') == 2  # one panel for each width
    refusal = refused(*f"compare {data} -t fat --widths 5 --beta 4 --plot e.jpg".split())
    assert "--plot must end in .svg or .png or .pdf, got e.jpg" in refusal


def test_compare_at_zero_temperature_needs_raw(data):
    wide = ("-t", "fat", "--widths", "30", "--beta", "inf")
    assert "invertible Gram" in refused("compare", data, *wide)
    pd.read_csv(data).head(5).to_csv("few.csv", index=False)
    assert "invertible Gram" in refused("compare", "few.csv", *wide)
    assert "infinite data" in ok("compare", "few.csv", *wide, "--raw")


def test_compare_refuses_constant_columns(frame):
    frame.assign(x0=1.0).to_csv("data.csv", index=False)
    message = refused("compare", "data.csv", "-t", "fat", "--widths", "5", "--beta", "1")
    assert "a constant column cannot be standardised, got x0" in message


def test_reproduce_writes_the_page():
    ok("reproduce", "--only", "prior.gamma", "--quick", "--out", "page")
    assert {"index.html", "claims.json"} <= {path.name for path in Path("page").iterdir()}


def test_reproduce_fails_with_a_claim(monkeypatch):
    from lbnn.scale.gamma_product import GammaProduct

    honest = GammaProduct.log_density
    monkeypatch.setattr(GammaProduct, "log_density", lambda self, x: honest(self, x) + 1e-3)
    result = run("reproduce", "--only", "prior.gamma", "--quick", "--out", "page")
    assert result.exit_code == 1, result.output
    assert "1 fails" in result.output


def test_reproduce_refuses_unknown_claims():
    assert "astrology" in refused("reproduce", "--only", "astrology", "--out", "page")
    assert not Path("page").exists()


@pytest.mark.parametrize(
    ("correlation", "shown"), [(0.0, "not coupled"), (1e-16, "not coupled"), (0.4, "0.40")]
)
def test_targets_that_cannot_be_coupled_have_no_table_of_zeros(frame, correlation, shown):
    """At infinite width the scale is a multiple of the identity by construction."""
    model = lbnn.LBNNRegressor(depth=2, width=4, beta=10.0, prior_scale=1.0)
    model.fit(frame[FEATURES], frame[TARGETS])
    model.scale_mean_ = np.array([[1.0, correlation], [correlation, 1.0]])
    labels = [f"row {number}" for number in range(len(frame))]
    examples = Examples(frame[FEATURES], frame[TARGETS], Preparation(FEATURES), labels, [])
    (coupling,) = [
        each for each in FitReport(model, examples).document("", {}).sections if "Coupling" in each.title
    ]
    assert shown in str(coupling.parts)
    assert sum(isinstance(part, Picture) for part in coupling.parts) == (correlation > 0.1)


@pytest.mark.parametrize("command", ["fit", "evidence", "predict"])
def test_help_is_one_screen_and_more_is_the_rest(command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    text, rest = ok(command, "--help"), ok(command, "--more") if command != "predict" else ""
    assert len(text.splitlines()) <= 45
    assert "--target-error" not in text
    if rest:
        assert "--target-error" in rest
        assert set(re.findall(r"--[a-z-]+", text)) <= set(re.findall(r"--[a-z-]+", rest))
    if command == "fit":
        assert "--missing-targets" in text


def test_a_fit_without_files_only_reports(data):
    assert "Log evidence" in ok("fit", data, "-t", "fat", "--drop", "water", *QUICK)
    assert files() == {"data.csv"}


def test_commands_and_options_are_completed(monkeypatch):
    assert "--install-completion" in ok("--help")
    monkeypatch.setenv("_LBNN_COMPLETE", "complete_bash")
    program = "import sys; sys.argv[0] = 'lbnn'; from lbnn.cli import main; main()"
    for words, expected in (("lbnn ", "fit\npredict\n"), ("lbnn fit --missing-t", "--missing-targets\n")):
        monkeypatch.setenv("COMP_WORDS", words)
        monkeypatch.setenv("COMP_CWORD", str(words.count(" ")))
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
        assert done.stdout.startswith(expected)
