"""BandedRegressor: units, kernels, files, pandas, pipelines, bad input; the command line."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator
from typer.testing import CliRunner

import lbnn
from lbnn import archive
from lbnn.cli.app import app
from lbnn.estimator.banded import KIND, LAYOUT

BANDS = [("a", slice(0, 4)), ("b", slice(4, 9))]


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 9)) + 3
    Y = 50 * X[:, :4] @ rng.normal(size=(4, 2)) + 30 * rng.normal(size=(30, 2)) + 1000
    return X, Y


@pytest.fixture(scope="module")
def model(data):
    return lbnn.BandedRegressor(BANDS, width=3).fit(*data)


def test_shares_and_predictions(model, data):
    X, Y = data
    assert model.ok_.all()
    assert (model.band_shares_[:, 0] > 5 * model.band_shares_[:, 1]).all()
    assert model.score(X, Y) > 0.8
    mean, deviation = model.predict(X[:3], return_std=True)
    low, high = model.predictive(X[:3]).with_noise().interval(0.9)
    assert mean.shape == deviation.shape == low.shape == (3, 2)
    assert ((low < mean) & (mean < high)).all()
    np.testing.assert_allclose((high - low) / deviation, 3.35, atol=0.25)  # Student's, nearly normal
    np.testing.assert_allclose(model.contributions(X).sum(axis=0) + Y.mean(axis=0), model.predict(X))
    assert "2 of 2 targets ok" in model.summary()


def test_units_do_not_matter(model, data):
    X, Y = data
    other = lbnn.BandedRegressor(BANDS, width=3).fit(X * np.repeat([1e3, 1e-3], [4, 5]), 1e-4 * Y - 7)
    np.testing.assert_allclose(other.band_shares_, model.band_shares_, rtol=1e-6)
    np.testing.assert_allclose(other.log_evidence_, model.log_evidence_ + 29 * np.log(1e4), rtol=1e-8)


def test_kernels_give_what_columns_give(model, data):
    X, Y = data
    linear = [(name, columns, lambda a, b: a @ b.T / a.shape[1]) for name, columns in BANDS]
    by_kernel = lbnn.BandedRegressor(linear, width=3).fit(X, Y)
    for ours, theirs in zip(
        by_kernel.predict(X[:3], return_std=True), model.predict(X[:3], return_std=True), strict=True
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-8)
    grams = np.stack([X[:, columns] @ X[:, columns].T for _, columns in BANDS])
    precomputed = lbnn.BandedRegressor(["a", "b"], kernel="precomputed", width=3).fit(grams, Y)
    np.testing.assert_allclose(precomputed.predict(grams[:, :3]), model.predict(X[:3]), rtol=1e-8)
    with pytest.raises(ValueError, match="test_diagonals"):
        precomputed.predict(grams[:, :3], return_std=True)


def test_one_target_names_of_columns_and_files(data, tmp_path):
    X, Y = data
    frame = pd.DataFrame(X, columns=[f"{'ab'[i > 3]}{i}" for i in range(9)])
    bands = [("a", ["a0", "a1", "a2", "a3"]), ("b", [f"b{i}" for i in range(4, 9)])]
    model = lbnn.BandedRegressor(bands, width=3).fit(frame, Y[:, 0])
    mean, deviation = model.predict(frame[:3], return_std=True)
    assert mean.shape == deviation.shape == (3,)
    model.save(tmp_path / "model.lbnn")
    again = lbnn.BandedRegressor.load(tmp_path / "model.lbnn")
    # Products of the same numbers elsewhere in memory may be summed in another order: a hundred terms.
    for ours, theirs in zip(again.predict(frame[:3], return_std=True), (mean, deviation), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-13)
    with pytest.raises(ValueError, match="archive"):
        lbnn.BandedRegressor.load(__file__)


def test_targets_without_an_answer_do_not_stop_the_others(model, data, tmp_path):
    X, Y = data
    with_dead = pd.DataFrame(
        {"a": Y[:, 0], "none": np.nan, "b": Y[:, 1], "same": 3.0, "exact": X @ np.ones(9)}
    )
    with_dead.iloc[2, 1] = 1.0
    with pytest.warns(lbnn.DataWarning, match="3 of 5 targets have no answer.*got targets none, same, exact"):
        fitted = lbnn.BandedRegressor(BANDS, width=3).fit(X, with_dead)
    np.testing.assert_array_equal(fitted.dead_targets_, [1, 3, 4])
    np.testing.assert_array_equal(fitted.ok_, [True, False, True, False, False])
    for name in ("band_shares_", "log_evidence_", "noise_variance_"):
        np.testing.assert_allclose(getattr(fitted, name)[[0, 2]], getattr(model, name), rtol=1e-9)
        assert np.isnan(getattr(fitted, name)[[1, 3, 4]]).all()
    fitted.save(tmp_path / "model.lbnn")
    again = lbnn.BandedRegressor.load(tmp_path / "model.lbnn")
    for each in (fitted, again):
        for ours, theirs in zip(
            each.predict(X[:3], return_std=True), model.predict(X[:3], return_std=True), strict=True
        ):
            np.testing.assert_allclose(ours[:, [0, 2]], theirs, rtol=1e-7)
            assert np.isnan(ours[:, [1, 3, 4]]).all()
    assert "3 targets have no answer" in again.summary()


def test_the_middle_of_the_summary_is_inside_of_its_interval(model, data):
    rng = np.random.default_rng(5)
    X, _ = data
    Y = X[:, :4] @ rng.normal(size=(4, 3)) * [1.0, 0.0, 0.0] + 20 * rng.normal(size=(30, 3))
    for fitted in (model, *(lbnn.BandedRegressor(BANDS, width=1).fit(X, each) for each in (Y, Y[:, 0]))):
        for line in fitted.summary().splitlines()[2:]:
            middle, low, _, high = line.split()[1:]
            assert float(low) <= float(middle) <= float(high)


@pytest.mark.parametrize(
    ("bands", "changed"),
    [
        (BANDS, {"width": "evidence", "prior_scale": 2.0, "target_error": 0.3, "max_directions": 64}),
        ([("a", [0, 1]), ("b", np.arange(9) > 4, "rbf")], {"width": (2, 3), "fit_intercept": False}),
        ([("a", slice(None, 6, 2))], {"width": 2, "noise_variance": [500.0, 700.0], "random_state": 5}),
    ],
)
def test_pickles_and_files_keep_everything(data, tmp_path, bands, changed):
    X, Y = data
    fitted = lbnn.BandedRegressor(bands, **changed).fit(X, Y)
    fitted.save(tmp_path / "model.lbnn")
    loaded = lbnn.BandedRegressor.load(tmp_path / "model.lbnn")
    for again in (loaded, pickle.loads(pickle.dumps(fitted))):
        wanted, kept = fitted.get_params(), again.get_params()
        wanted["bands"], kept["bands"] = (
            [(name, np.arange(9)[columns].tolist(), *kernel) for name, columns, *kernel in each["bands"]]
            for each in (wanted, kept)
        )
        assert kept == wanted
        assert again.widths_ == fitted.widths_
        for ours, theirs in zip(again.predict(X[:3], True), fitted.predict(X[:3], True), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-12)
        again.fit(X, Y)
        np.testing.assert_allclose(again.band_shares_, fitted.band_shares_, rtol=1e-12)


def test_before_fit_and_files_of_something_else(data, tmp_path):
    X, _ = data
    with pytest.raises(NotFittedError):
        lbnn.BandedRegressor(BANDS).predict(X)
    for number, about in enumerate(({}, {"layout": LAYOUT}, {"layout": LAYOUT, "parameters": {"bands": 3}})):
        path = tmp_path / f"{number}.lbnn"
        archive.write(path, KIND, about, {"X": X})
        with pytest.raises(ValueError, match=r"must hold a (fitted )?BandedRegressor"):
            lbnn.BandedRegressor.load(path)


@pytest.mark.slow
def test_checks_of_scikit_learn():
    exact = {"check_regressors_no_decision_function": "ten targets that four columns reproduce exactly"}
    check_estimator(
        lbnn.BandedRegressor([("all", slice(None))], width=3), expected_failed_checks=exact, on_skip=None
    )


def test_in_a_pipeline(model, data):
    X, Y = data
    piped = make_pipeline(StandardScaler(), lbnn.BandedRegressor(BANDS, width=3)).fit(X, Y)
    assert piped.score(X, Y) == pytest.approx(model.score(X, Y), abs=0.02)


@pytest.mark.slow
def test_widths_by_evidence(data):
    model = lbnn.BandedRegressor(BANDS).fit(*data)
    scores = [row["log_evidence"] for row in model.evidence_table_]
    assert scores == sorted(scores, reverse=True)
    assert model.widths_ == model.evidence_table_[0]["widths"]


@pytest.mark.parametrize(
    ("bands", "message"),
    [
        ([], "got none"),
        ([("a", [0, 1]), ("b", [1, 2])], "column 1 in bands 'a' and 'b'"),
        ([("a", [0, 1]), ("b", [])], "got none in band 'b'"),
        ([("a", [0]), ("a", [1])], "more than once"),
        ([("a", [0, 99])], "numbers from 0 to 8"),
        ([("a", ["x"])], "must be columns of X"),
        ([("a",)], r"\(name, columns\)"),
    ],
)
def test_bad_bands(data, bands, message):
    with pytest.raises(ValueError, match=message):
        lbnn.BandedRegressor(bands, width=3).fit(*data)


def test_bad_data(data):
    X, Y = data
    with pytest.raises(ValueError, match=r"constants in bands \['b'\]"):
        lbnn.BandedRegressor(BANDS, width=3).fit(np.where(np.arange(9) < 4, X, 5.0), Y)
    with pytest.raises(ValueError, match="contains NaN"):
        lbnn.BandedRegressor(BANDS, width=3).fit(X, np.nan * Y)
    with pytest.raises(ValueError, match="got constants in all of 2 targets"):
        lbnn.BandedRegressor(BANDS, width=3).fit(X, 0 * Y)
    with pytest.raises(ValueError, match="n_samples=1"):
        lbnn.BandedRegressor(BANDS, width=3).fit(X[:1], Y[:1])


def test_command_line(data, tmp_path):
    X, Y = data
    frame = pd.DataFrame(X, columns=[f"{'ab'[i > 3]}{i}" for i in range(9)]).assign(y=Y[:, 0])
    frame.to_csv(tmp_path / "t.csv", index=False)
    files = {name: str(tmp_path / name) for name in ("t.csv", "m.lbnn", "r.html", "p.csv")}
    bands = ["--band", "first=a*", "--band", "second=b4,b5,b6"]

    def run(*arguments):
        return CliRunner().invoke(app, list(arguments))

    done = run(
        "fit",
        files["t.csv"],
        "-t",
        "y",
        *bands,
        "--width",
        "3",
        "-o",
        files["m.lbnn"],
        "--report",
        files["r.html"],
    )
    assert done.exit_code == 0, done.output
    assert "first" in done.output
    assert "not used: b7, b8" in done.output
    assert "svg" in (tmp_path / "r.html").read_text(encoding="utf-8")
    done = run("predict", files["m.lbnn"], files["t.csv"], "-o", files["p.csv"])
    assert done.exit_code == 0, done.output
    joint = run(
        "predict",
        files["m.lbnn"],
        files["t.csv"],
        "-o",
        files["p.csv"],
        "--force",
        "--joint-covariance",
        str(tmp_path / "c.npz"),
    )
    assert joint.exit_code == 2
    assert "--joint-covariance and --given are for a model of one network" in joint.output
    predicted = pd.read_csv(tmp_path / "p.csv")
    assert ((predicted.y_low < predicted.y) & (predicted.y < predicted.y_high)).all()
    assert (
        run("fit", files["t.csv"], "-t", "y", "--band", "first=z*", "-o", str(tmp_path / "n.lbnn")).exit_code
        == 2
    )


@pytest.mark.parametrize(
    "given",
    [
        ["--average"],
        ["--weights", "x0"],
        ["--noise", "coupled"],
        ["--column-scales", "raw"],
    ],
)
def test_options_that_bands_do_not_have_are_refused(data, tmp_path, given):
    X, Y = data
    table = tmp_path / "t.csv"
    pd.DataFrame(X, columns=[f"x{i}" for i in range(9)]).assign(y=Y[:, 0]).to_csv(table, index=False)
    done = CliRunner().invoke(
        app, ["fit", str(table), "-t", "y", "--band", "all=x*", "-o", str(tmp_path / "m.lbnn"), *given]
    )
    assert done.exit_code == 2
    assert f"{given[0]} is for fits without --band" in " ".join(done.output.split())


@pytest.mark.filterwarnings("ignore:1 of 2 targets have no answer")
def test_a_target_without_an_answer_on_the_command_line(data, tmp_path, monkeypatch):
    X, Y = data
    monkeypatch.chdir(tmp_path)
    frame = pd.DataFrame(X, columns=[f"x{i}" for i in range(9)]).assign(y=Y[:, 0], same=3.0)
    frame.to_csv("t.csv", index=False)
    with pytest.warns(lbnn.DataWarning, match="got targets same"):
        fitted = lbnn.BandedRegressor([("all", [f"x{i}" for i in range(9)])], width=3).fit(
            frame.iloc[:, :9], frame[["y", "same"]]
        )
    alone = lbnn.BandedRegressor([("all", slice(None))], width=3).fit(X, Y[:, 0])
    density = fitted.predictive(frame.iloc[:, :9]).pointwise_log_density(frame[["y", "same"]])
    np.testing.assert_allclose(density, alone.predictive(X).pointwise_log_density(Y[:, 0]), rtol=1e-9)
    for arguments in (
        ["fit", "t.csv", "-t", "y,same", "--band", "all=x*", "--width", "3", "-o", "m.lbnn"],
        ["predict", "m.lbnn", "t.csv", "-o", "p.csv"],
    ):
        done = CliRunner().invoke(app, arguments)
        assert done.exit_code == 0, done.output
    predicted = pd.read_csv("p.csv")
    assert predicted.filter(like="same").isna().all(axis=None)
    assert predicted.filter(like="y").notna().all(axis=None)
