"""What a fit says of itself: reports, JSON, names of rows."""

from __future__ import annotations

import datetime
import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import lbnn
from tests.cli import test_cli
from tests.cli.test_cli import QUICK, ok, run

empty_folder, frame = test_cli.empty_folder, test_cli.frame


@pytest.fixture
def nir():
    """Forty spectra of which one has a wrong target, one is out of range and one has a gap."""
    rng = np.random.default_rng(3)
    wavelengths = np.arange(1100, 1500, 10)
    parts = rng.dirichlet([4, 3, 2], size=40)
    bands = np.array([np.exp(-0.5 * ((wavelengths - m) / 60) ** 2) for m in (1150, 1300, 1450)])
    X = parts @ bands + 0.01 * rng.normal(size=(40, len(wavelengths)))
    frame = pd.DataFrame(X, columns=[f"{each} nm" for each in wavelengths])
    frame["fat"], frame["water"] = (100 * parts[:, :2] + 0.8 * rng.normal(size=(40, 2))).T
    frame.insert(0, "sample", [f"S{i:02d}" for i in range(40)])
    frame.loc[17, "fat"] += 30
    frame.loc[30, frame.columns[1:-2]] *= 4
    frame.loc[33, "1200 nm"] = np.nan
    frame.round(5).to_csv("nir.csv", index=False)
    return "nir.csv"


NIR = ("-t", "fat,water", "--id", "sample", "--missing", "drop", "--depth", "1", "--no-average")


def test_the_report_names_rows_and_tells_where_it_comes_from(nir):
    output = ok("fit", nir, *NIR, "-o", "m.lbnn", "--report", "r.html")
    ok("fit", nir, *NIR, "-o", "m.lbnn", "--report", "r.txt", "--force")
    text, page = Path("r.txt").read_text(encoding="utf-8"), Path("r.html").read_text(encoding="utf-8")
    assert re.search(r"^S17 +fat +[\d.]+ +\+\d", text, re.MULTILINE)
    assert "S30" in text  # a note of rows far from the others
    assert "S17" in output  # on the terminal as well
    assert "nir.csv: 1 row with missing or infinite values in 1200 nm left out: line 35" in text
    assert " lbnn fit nir.csv -t fat,water --id sample --missing drop --depth 1 --no-average" in text
    assert re.search(rf"^version +{lbnn.__version__}$", text, re.MULTILINE)
    assert re.search(rf"^date +{datetime.date.today().isoformat()[:7]}", text, re.MULTILINE)
    titles = re.findall(r'<h2 id="([^"]+)">', page)
    assert titles == re.findall(r'<li><a href="#([^"]+)">', page)
    assert {"the-table", "rows-to-look-at", "coefficients", "how-this-was-made"} <= set(titles)
    assert "the targets are not coupled" in " ".join(text.split())  # at infinite width, so without a picture
    assert page.count("data:image/svg+xml") == 2  # left-out predictions of two targets


def test_coefficients_have_the_intervals_of_a_dense_posterior(nir):
    """Against the ridge posterior by its normal equations, with a flat intercept, at the noise of the fit."""
    result = run("fit", nir, *NIR, "--noise", "independent", "-o", "m.lbnn", "--json")
    found = json.loads(result.stdout)
    table = pd.read_csv(nir).dropna()
    names = [name for name in table if name.endswith("nm")]
    goals = found["targets"]
    X, Y = (table[each] - table[each].mean() for each in (names, goals))
    model = lbnn.LBNNRegressor.load("m.lbnn")
    assert model.widths_ == ()
    noise = dict(zip(goals, np.sqrt(np.atleast_1d(model.noise_variance_)), strict=True))
    deviations = X.std(ddof=0) if model.kernel_.columns == "standardised" else pd.Series(1.0, names)
    Z = (X / deviations).to_numpy()
    for target in goals:
        own = [each for each in found["coefficients"] if each["target"] == target]
        values = pd.DataFrame(own).set_index("feature").loc[names]
        # prior variance of a weight, from the mean: the ridge that gives it
        penalty = _penalty_of(Z, Y[target].to_numpy(), values["value"].to_numpy() * deviations.to_numpy())
        covariance = noise[target] ** 2 * np.linalg.inv(Z.T @ Z + penalty * np.eye(len(names)))
        half = 1.6448536269514722 * np.sqrt(np.diag(covariance)) / deviations.to_numpy()
        np.testing.assert_allclose(values["high"] - values["value"], half, rtol=1e-4)
        np.testing.assert_allclose(values["value"] - values["low"], half, rtol=1e-4)
        np.testing.assert_allclose(values["effect"], values["value"] * X.std(ddof=0), rtol=1e-9)


def _penalty_of(Z, y, weights):
    """λ with (ZᵀZ + λ) w = Zᵀy: least squares over the equations."""
    rest = Z.T @ y - Z.T @ (Z @ weights)
    return float(rest @ weights / (weights @ weights))


def test_json_is_alone_on_stdout_and_says_what_the_tables_say(nir):
    result = run("fit", nir, *NIR, "-o", "m.lbnn", "--json")
    found = json.loads(result.stdout)
    assert result.exit_code == 0
    assert "left out: line 35" in result.stderr
    model = lbnn.LBNNRegressor.load("m.lbnn")
    assert found["chosen"]["log_evidence"] == model.log_evidence_
    assert [each["row"] for each in found["outliers"]] == ["S17"]
    codes = {each["code"]: each for each in found["notices"]}
    assert "S30" in codes["extrapolation"]["text"]
    assert set(codes["extrapolation"]["fields"])
    assert found["written"] == ["m.lbnn"]
    assert found["origin"]["version"] == lbnn.__version__
    assert found["origin"]["command"].startswith("lbnn fit nir.csv -t fat,water")
    scores = model.leave_one_out()
    assert found["left_out"][0]["error"] == pytest.approx(np.sqrt(np.mean(scores.residual[:, 0] ** 2)))
    assert found["left_out_log_density"] == pytest.approx(scores.elpd)


def test_json_of_evidence(nir):
    options = ("-t", "fat", "--drop", "sample,water", "--missing", "drop", "--depths", "1,2", "--widths", "3")
    result = run("evidence", nir, *options, "--prior-scale", "1", "--betas", "1,inf", "--json", "-o", "e.csv")
    if result.exit_code:  # zero temperature has no posterior here: a line on stderr, nothing on stdout
        assert result.stdout == ""
        result = run("evidence", nir, *options, "--prior-scale", "1", "--betas", "1", "--json", "-o", "e.csv")
    found = json.loads(result.stdout)
    table = pd.read_csv("e.csv")
    assert [each["log_evidence"] for each in found["networks"]] == pytest.approx(list(table["log_evidence"]))
    assert found["targets"] == ["fat"]


def test_json_of_bands(nir):
    bands = ("--band", "low=11*", "--band", "high=14*", "--drop", "sample,water", "--missing", "drop")
    result = run(
        "fit", nir, "-t", "fat", *bands, "--width", "3", "-o", "m.lbnn", "--json", "--report", "r.html"
    )
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert set(found["targets"][0]["shares"]) == {"low", "high"}
    assert "how-this-was-made" in Path("r.html").read_text(encoding="utf-8")


def test_rows_far_out_are_named_by_predict(nir):
    """Before: new rows in other units came back with the usual intervals and no word."""
    ok("fit", nir, *NIR, "-o", "m.lbnn")
    table = pd.read_csv(nir).dropna()
    names = [name for name in table if name.endswith("nm")]
    table.loc[table["sample"] == "S05", names] *= 1000
    table.drop(columns=["fat", "water"]).to_csv("new.csv", index=False)
    result = run("predict", "m.lbnn", "new.csv", "-o", "p.csv")
    assert result.exit_code == 0
    assert "far outside the range of the training data" in result.stderr
    assert "see the column leverage" in result.stderr
    assert re.search(r"leverage above 4: S05 \(", result.stderr)
    predicted = pd.read_csv("p.csv").set_index("sample")
    assert predicted["leverage"].idxmax() == "S05"
    assert predicted["leverage"].drop("S05").max() <= 1.0


def test_messages_name_rows_as_the_table_does_and_options_as_the_command_does(nir):
    result = run("fit", nir, *NIR, "-o", "m.lbnn")
    assert result.exit_code == 0, result.output
    note = next(line for line in result.stdout.splitlines() if line.startswith("Note:") and "S17" in line)
    assert "S17 (z = +" in note
    text = " ".join(result.stdout.split())
    assert "smaller weights" in text


def test_reports_in_markdown_are_markdown(frame):
    frame.to_csv("data.csv", index=False)
    ok("fit", "data.csv", "-t", "fat,water", *QUICK, "-o", "m.lbnn", "--report", "r.md")
    text = Path("r.md").read_text(encoding="utf-8")
    assert text.startswith("# Fit of fat, water to data.csv\n")
    assert "\n## Leave-one-out predictions\n" in text
    assert "|:--|--:|" in text
    assert (
        "![fat: left-out predictions with 90% intervals, and their calibration](data:image/svg+xml;base64,"
        in text
    )


def test_evidence_is_sorted_and_names_the_noise(frame):
    frame.to_csv("data.csv", index=False)
    output = ok(
        "evidence", "data.csv", "-t", "fat,water", "--depths", "1,2", "--widths", "2,8", "-o", "e.csv"
    )
    table = pd.read_csv("e.csv")
    assert (np.diff(table["log_evidence"]) <= 0).all()
    assert set(table["inputs"]) <= {"raw", "standardised"}
    assert set(table["noise"]) <= set(output.split())


def test_few_rows_are_averaged_over_hyperparameters_unless_told_not_to():
    """The default is `average="auto"`: of twelve rows the noise is uncertain, and models are mixed."""
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(rng.normal(size=(12, 3)), columns=["a", "b", "y"])
    frame["y"] += frame["a"]
    frame.to_csv("few.csv", index=False)
    options = ("fit", "few.csv", "-t", "y", "--depth", "1", "-o", "m.lbnn")
    assert "Predictions average" in ok(*options)
    assert "Predictions average" not in ok(*options, "--no-average", "--force")


def test_the_kernel_that_was_chosen_is_named():
    rng = np.random.default_rng(2)
    X = rng.uniform(-2, 2, size=(40, 1))
    pd.DataFrame({"x": X[:, 0], "y": np.sin(3 * X[:, 0]) + 0.1 * rng.normal(size=40)}).to_csv(
        "data.csv", index=False
    )
    told = ok("fit", "data.csv", "-t", "y", "-o", "m.lbnn", "--depth", "1", "--kernel", "auto")
    assert "kernel auto" not in told
    assert "; kernel" in told
