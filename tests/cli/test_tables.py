"""Tables as instruments and spreadsheets write them, with the options that say how they are to be read."""

from __future__ import annotations

import datetime
import sys
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import lbnn
from lbnn.cli.columns import TableOptions, numbers, read_examples
from lbnn.cli.problems import BadInputError
from lbnn.cli.reading import Reading, read_table
from tests.cli import test_cli
from tests.cli.test_cli import QUICK, files, ok, refused, run

empty_folder = test_cli.empty_folder

#: What is in the file, how it is read, and the columns that pandas gives when it is called by hand.
READ = {
    "plain": ("a,y\n1.5,2\n-3e-2,4\n", {}, {"a": [1.5, -0.03], "y": [2, 4]}),
    "german": (
        "a;y\n1,5;2\n1.234,5;4\n",
        {"sep": ";", "decimal": ",", "thousands": "."},
        {"a": [1.5, 1234.5]},
    ),
    "french": (
        "a\ty\n1 234,5\t2\n-7\t4\n",
        {"sep": "tab", "decimal": ",", "thousands": " "},
        {"a": [1234.5, -7]},
    ),
    "swiss": ("a,y\n1'234.5,2\n12'345'678,4\n", {"thousands": "'"}, {"a": [1234.5, 12345678]}),
    "percent": ("a,y\n12.5%,2\n3 %,4\n", {"percent": True}, {"a": [0.125, 0.03], "y": [2, 4]}),
    "percent of thousands": (
        "a;y\n1.200,5%;2\n;4\n",
        {"sep": ";", "decimal": ",", "thousands": ".", "percent": True},
        {"a": [12.005, np.nan]},
    ),
    "title": ("made on Monday\n\na,y\n1,2\n", {"skip_rows": "2"}, {"a": [1], "y": [2]}),
    "units": ("a,y\nmg,%\n1,2\n", {"skip_rows": "2,"}, {"a": [1], "y": [2]}),
    "title and units": ("made\na,y\nmg,%\n1,2\n", {"skip_rows": "1,3"}, {"a": [1], "y": [2]}),
    "latin": ("Größe,y\n1,2\n", {"encoding": "cp1252"}, {"Größe": [1]}),
    "mark": ("\ufeff a ,y\n1,2\n", {}, {"a": [1], "y": [2]}),
    "missing": (
        "a,y\n-999,2\n5,n.d.\n3,NA\n1,1\n",
        {"na": ["-999", "n.d."]},
        {"a": [np.nan, 5, 3, 1], "y": [2, np.nan, np.nan, 1]},
    ),
    "trailing separators": ("a,y,,\n1,2,,\n3,4,,\n,,,\n", {}, {"a": [1, 3], "y": [2, 4]}),
    "booleans": ("a,y\nTrue,2\nFalse,4\n", {}, {"a": [1, 0]}),
    "quotes": ('a,"y\n[%]"\n"1",2\n3,"4"\n', {}, {"a": [1, 3], "y\n[%]": [2, 4]}),
}


@pytest.mark.parametrize("name", READ)
def test_options_of_reading(name):
    text, options, expected = READ[name]
    Path("a.csv").write_bytes(text.encode(options.get("encoding", "utf-8")))
    table = read_table(Path("a.csv"), Reading(**options))
    found = numbers(table, list(expected), list(expected))
    np.testing.assert_array_equal(found.to_numpy(), np.array(list(expected.values()), float).T)


def test_every_digit_is_read():
    values = np.random.default_rng(0).normal(size=200) * 10.0 ** np.arange(-100, 100)
    Path("a.csv").write_text("a\n" + "\n".join(map(repr, values.tolist())))
    assert read_table(Path("a.csv")).frame["a"].tolist() == values.tolist()


#: A file, how it is read, and the line that refuses it: each was silent nonsense with pandas alone.
REFUSED = {
    "decimal comma as thousands": (
        "a;y\n1,5;2\n",
        {"sep": ";", "thousands": ","},
        "got '1,5' for a in line 2",
    ),
    "groups of two": ("a;y\n1.234.5;2\n", {"sep": ";", "decimal": ",", "thousands": "."}, "got '1.234.5'"),
    "groups in percent": ("a;y\n1,20%;2\n", {"sep": ";", "thousands": ",", "percent": True}, "got '1,20%'"),
    "rows that are longer": ("a,y\n1,2,3\n4,5,6\n", {}, "rows have more fields than the first"),
    "no names": ("\na,y\n1,2\n", {}, "the first line must name the columns"),
    "utf-16": ("a,y\n1,2\n", {"write": "utf-16"}, "--encoding utf-8: 'utf-8' codec can't decode"),
    "an encoding that is none": ("a,y\n1,2\n", {"encoding": "klingon"}, "unknown encoding: klingon"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_files_that_do_not_follow_their_options(name):
    text, options, message = REFUSED[name]
    Path("a.csv").write_text(text, encoding=options.pop("write", "utf-8"))
    with pytest.raises(BadInputError, match=r"a\.csv") as problem:
        read_table(Path("a.csv"), Reading(**options))
    assert message in str(problem.value)


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--sep", ";;", "--sep must be one character"),
        ("--decimal", "x", "--decimal must be . or a comma"),
        ("--thousands", ".", "--thousands must be one character other than --decimal"),
        ("--skip-rows", "two", "--skip-rows must be a number of lines, or lines as 1,3"),
        ("--sheet", "Data", "--sheet is for .xlsx files"),
    ],
)
def test_options_that_make_no_sense(option, value, message):
    Path("a.csv").write_text("a,y\n1,2\n")
    assert message in refused("fit", "a.csv", "-t", "y", "-o", "m.lbnn", option, value)


#: What is not numbers is named, with the first cell that is none and its line.
NAMED = {
    "decimal commas": ("a;y\n1,5;2\n2,5;3\n", ["--sep", ";"], "text in a ('1,5' in line 2) (--decimal,"),
    "dates": ("d,a,y\n2024-03-01,1,2\n", [], "d ('2024-03-01' in line 2)"),
    "a stray": ("a,y\n1,2\n3,4\nbelow 5,6\n", [], "a ('below 5' in line 4)"),
    "below a title": ("t\na,y\n1,2\nx,6\n", ["--skip-rows", "1"], "a ('x' in line 4)"),
    "below an empty line": ("a,y\n1,2\n\nx,6\n", [], "a ('x' in line 4)"),
    "digits of another script": ("a,y\n١,2\n1_000,3\n", [], "a ('١' in line 2)"),
    "a gap": ("a,y\n1,2\n,3\n4,\n", [], "a in line 3, y in line 4 (--missing drop leaves such rows out"),
    "breaks within cells": ('a,n,y\n1,"x\ny",2\n1,z,3\nq,z,4\n', ["--drop", "n"], "a ('q' in record 4)"),
}


@pytest.mark.parametrize("name", NAMED)
def test_cells_that_are_no_numbers_are_named(name):
    text, options, message = NAMED[name]
    Path("a.csv").write_text(text, encoding="utf-8")
    assert message in refused("fit", "a.csv", "-t", "y", *QUICK, "-o", "m.lbnn", *options)
    assert files() == {"a.csv"}


@pytest.mark.parametrize("seed", range(30))
def test_no_text_ends_in_a_traceback(seed):
    """Characters that mean something to readers of CSV, at random: a table, or one line that says why not."""
    rng = np.random.default_rng(seed)
    alphabet = [*"ab1.,;\t|\"'\n\r -+é\u2028", "1.5", "y", "a,y\n", "n.a.", "\ufeff", "1e999", "=1+1"]
    Path("a.csv").write_text("".join(rng.choice(alphabet, size=rng.integers(1, 200))), encoding="utf-8")
    options = [[], ["--thousands", ","], ["--percent", "--decimal", ","]][seed % 3]
    result = run("fit", "a.csv", "-t", "y", *QUICK, "-o", "m.lbnn", *options)
    assert result.exit_code in (0, 2), result.output
    assert not result.exception or isinstance(result.exception, SystemExit), result.exception


# ---------------------------------------------------------------------- columns


@pytest.fixture
def frame():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(24, 2)) * [1.0, 1000.0]
    kind = rng.choice(["red", "blue", "green"], size=24)
    fat = X[:, 0] + X[:, 1] / 1000 + pd.Series(kind).map({"red": 0, "blue": 2, "green": -1}).to_numpy()
    fat = fat + 0.3 * rng.normal(size=24)
    table = pd.DataFrame({"id": [f"P{j}" for j in range(24)], "a": X[:, 0], "b": X[:, 1], "kind": kind})
    return table.assign(fat=fat, water=80 - fat + 0.2 * rng.normal(size=24))


@pytest.fixture
def german(frame):
    holes = frame.assign(b=frame["b"].mask(frame.index.isin([3, 7])))
    holes.rename(columns={"a": "Größe"}).to_csv(
        "data.csv", index=False, sep=";", decimal=",", encoding="cp1252", float_format="%.5f"
    )
    return "data.csv"


READING = ("--sep", ";", "--decimal", ",", "--encoding", "cp1252")
COMMON = (*READING, "--id", "id", "--categorical", "kind", *QUICK, "-o", "m.lbnn")


def test_gaps_are_filled_with_medians_of_the_fit(german, frame):
    output = ok("fit", german, "-t", "fat,water", *COMMON, "--missing", "median", "--report", "r.txt")
    assert "2 missing values replaced by medians of the fit, in b" in output
    assert "2 missing values replaced" in Path("r.txt").read_text(encoding="utf-8")
    model = lbnn.LBNNRegressor.load("m.lbnn")
    assert model.feature_names_in_.tolist() == ["Größe", "b", "kind=green", "kind=red"]
    output = ok("predict", "m.lbnn", german, "-o", "p.csv", *READING)  # the model knows the column of the ids
    assert "Not used" not in output
    found = pd.read_csv("p.csv")
    assert list(found["id"]) == list(frame["id"])
    kept = frame["b"].round(5).mask(frame.index.isin([3, 7]))
    X = pd.DataFrame({"Größe": frame["a"].round(5), "b": kept.fillna(kept.median())})
    X = X.assign(**{"kind=green": frame["kind"] == "green", "kind=red": frame["kind"] == "red"}).astype(float)
    np.testing.assert_allclose(found["fat"], model.predict(X)[:, 0], rtol=1e-9)


def test_rows_with_gaps_are_left_out(german):
    output = ok("fit", german, "-t", "fat,water", *COMMON, "--missing", "drop")
    assert "2 rows with missing or infinite values in b left out: lines 5, 9" in output
    assert "22 rows, 4 features, 2 targets" in output
    ok("predict", "m.lbnn", german, "-o", "p.csv", *READING)
    assert len(pd.read_csv("p.csv")) == 22


def test_unseen_levels_are_the_first_one_unless_that_is_an_error(frame):
    frame.to_csv("data.csv", index=False)
    ok("fit", "data.csv", "-t", "fat", "--drop", "water", *COMMON[6:])
    frame.assign(kind=["violet", *frame["kind"][1:]]).to_csv("new.csv", index=False)
    frame.assign(kind=["blue", *frame["kind"][1:]]).to_csv("blue.csv", index=False)
    said = ok("predict", "m.lbnn", "new.csv", "-o", "p.csv")
    assert "kind is violet in line 2, which the fit has not seen: taken as blue" in said
    ok("predict", "m.lbnn", "blue.csv", "-o", "q.csv")
    assert Path("p.csv").read_bytes() == Path("q.csv").read_bytes()
    message = refused("predict", "m.lbnn", "new.csv", "-o", "r.csv", "--strict")
    assert "kind must be one of blue, green, red, as in the fit, got violet in line 2" in message


def test_known_targets_are_used_on_request_alone(frame):
    frame.drop(columns=["kind", "id"]).to_csv("data.csv", index=False)
    ok("fit", "data.csv", "-t", "fat,water", *QUICK, "--noise", "coupled", "-o", "m.lbnn")
    frame.drop(columns=["kind", "id", "water", "fat"]).to_csv("none.csv", index=False)
    some = frame.drop(columns=["kind", "id"]).astype({"water": float})
    some.loc[some.index != 3, "water"] = np.nan
    some.to_csv("some.csv", index=False)
    ok("predict", "m.lbnn", "none.csv", "-o", "without.csv")
    assert "given these" not in ok("predict", "m.lbnn", "some.csv", "-o", "ignored.csv")
    assert Path("ignored.csv").read_bytes() == Path("without.csv").read_bytes()
    assert "23 rows with some of the targets" in ok(
        "predict", "m.lbnn", "some.csv", "-o", "with.csv", "--given"
    )
    told, untold = pd.read_csv("with.csv"), pd.read_csv("without.csv")
    others = told.index != 3
    np.testing.assert_allclose(told["fat"][others], frame["fat"][others])
    assert told["water_std"][others].mean() < 0.5 * untold["water_std"][others].mean()
    np.testing.assert_allclose(told.loc[3], untold.loc[3])  # a row that has all is predicted without them
    model = lbnn.LBNNRegressor.load("m.lbnn")
    law = model.predictive(frame[["a", "b"]].iloc[:1]).with_noise().given([[frame["fat"][0], np.nan]])
    np.testing.assert_allclose(told["water"][0], law.mean[0, 1])


def test_ids_and_constants_among_the_features_are_named():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {"no": range(12), "year": rng.integers(1990, 2020, 12), "c": 3.0, "x": rng.normal(size=12)}
    )
    table["y"] = table["x"] + 0.1 * rng.normal(size=12)
    table.to_csv("a.csv", index=False)
    said = ok("fit", "a.csv", "-t", "y", *QUICK, "-o", "m.lbnn")
    assert "whole numbers in order: no; columns that only name rows are for --id or --drop" in said
    assert "constant, so without effect: c" in said
    assert "year" not in said.partition("Written")[0].partition("Fit of")[0]


def test_columns_without_values_are_left_out(frame):
    frame.drop(columns=["id", "kind"]).assign(notes=np.nan).to_csv("a.csv", index=False)
    said = ok("fit", "a.csv", "-t", "fat,water", *QUICK, "-o", "m.lbnn")
    assert "without values, left out: notes" in said
    assert "24 rows, 2 features" in said
    message = refused("fit", "a.csv", "-t", "fat", "-x", "a,notes", *QUICK, "-o", "n.lbnn")
    assert "notes in lines" in message


def test_a_category_with_too_many_levels_is_no_category():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {"who": [f"P{j}" for j in range(60)], "x": rng.normal(size=60), "y": rng.normal(size=60)}
    )
    table.to_csv("a.csv", index=False)
    assert "is it an id?" in refused("fit", "a.csv", "-t", "y", "--categorical", "who", "-o", "m.lbnn")


def test_everything_that_is_wrong_is_in_one_message(frame):
    frame.assign(b=frame["b"].mask(frame.index == 4), water=frame["water"].mask(frame.index == 6)).to_csv(
        "a.csv", index=False
    )
    message = refused("fit", "a.csv", "-t", "fat,water", *QUICK, "-o", "m.lbnn")
    assert "text in id ('P0' in line 2), kind ('red' in line 2)" in message.replace(
        "'blue'", "'red'"
    ).replace("'green'", "'red'")
    assert "missing or infinite values of b in line 6, water in line 8" in message


def test_parquet_index_is_a_column(frame):
    frame.drop(columns=["kind", "id"]).assign(wet=frame["a"] > 0).set_index("b").to_parquet("a.parquet")
    output = ok("fit", "a.parquet", "-t", "fat,water", *QUICK, "-o", "m.lbnn")
    assert "the index b is a column like the others" in output
    assert set(lbnn.LBNNRegressor.load("m.lbnn").feature_names_in_) == {"a", "b", "wet"}


# ---------------------------------------------------------------------- Excel


def workbook(name: str, *sheets) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.remove(book.active)
    for title, rows in sheets:
        sheet = book.create_sheet(title)
        for row in rows:
            sheet.append(row)
    book.save(name)


def test_the_sheet_that_has_the_targets_is_read(frame):
    rows = [
        ["a title"],
        ["id", "when", "a", "b", "ripe", "fat", "water"],
        [None, None, "mg", "g", None, "%", "%"],
    ]
    rows += [
        [name, datetime.date(2024, 3, j + 1), a, b, bool(j % 2), fat, water]
        for j, (name, a, b, fat, water) in enumerate(frame[["id", "a", "b", "fat", "water"]].values.tolist())
    ]
    rows[8][2], rows[9][5] = "n.a.", "#DIV/0!"
    rows[12:12] = [[None] * 7]
    workbook("a.xlsx", ("cover", []), ("data", rows), ("more", [["fat"], [1]]))
    options = ("-t", "fat,water", "--skip-rows", "1,3", "--na", "n.a.")
    message = refused("fit", "a.xlsx", *options, *QUICK, "-o", "m.lbnn")
    assert "id ('P0' in row 4), when ('2024-03-01' in row 4)" in message
    assert "missing or infinite values of a in row 9, fat in row 10" in message
    more = ("--id", "id", "--drop", "when", "--missing", "drop")
    result = run("fit", "a.xlsx", *options, *more, *QUICK, "-o", "m.lbnn")
    assert "sheet data is read" in result.stderr
    assert "1 empty row left out" in result.stderr
    assert "22 rows, 3 features, 2 targets" in result.stdout
    kept = frame.drop(index=[5, 6])
    X = np.column_stack([kept[["a", "b"]], kept.index % 2])
    expected = lbnn.LBNNRegressor(depth=2, width=4, beta=10.0, prior_scale=1.0)
    expected.fit(X, kept[["fat", "water"]])
    assert lbnn.LBNNRegressor.load("m.lbnn").log_evidence_ == pytest.approx(expected.log_evidence_, abs=1e-9)
    assert "has no sheet 'x'; it has cover, data, more" in refused(
        "fit", "a.xlsx", "-t", "fat", "--sheet", "x", "-o", "n.lbnn"
    )
    assert "must name the columns" in refused(
        "fit", "a.xlsx", "-t", "fat", "--sheet", "cover", "-o", "n.lbnn"
    )


def test_sheets_that_leave_a_choice_are_listed():
    workbook("a.xlsx", ("one", [["a", "y"], [1, 2]]), ("two", [["y", "a"], [1, 2]]), ("three", [["a"], [1]]))
    message = refused("fit", "a.xlsx", "-t", "y", "-o", "m.lbnn")
    assert (
        "one sheet must have all of y, got 2, one, two, of one, two, three: name one with --sheet" in message
    )
    assert "one sheet must have all of z, got none of one, two, three" in refused(
        "fit", "a.xlsx", "-t", "z", "-o", "m.lbnn"
    )
    assert read_table(Path("a.xlsx"), Reading(sheet="two"), ["y"]).columns == ["y", "a"]


def test_a_sheet_that_pretends_to_be_large(frame):
    """A format in the last cell makes Excel store a million empty rows; only those with values count."""
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    table = frame[["a", "b", "fat"]].round(3)
    for row in [list(table.columns), *table.to_numpy().tolist()]:
        book.active.append(row)
    book.active["XFD5000"].number_format = "0.00"
    book.save("a.xlsx")
    np.testing.assert_array_equal(numbers(read_table(Path("a.xlsx")), table.columns), table)


@pytest.mark.parametrize(
    "content", [b"", b"PK", b"\xd0\xcf\x11\xe0 an old or encrypted workbook", b"a,b\n1,2\n"]
)
def test_files_that_are_no_workbooks_are_refused_in_a_line(content):
    Path("a.xlsx").write_bytes(content)
    message = refused("fit", "a.xlsx", "-t", "y", "-o", "m.lbnn")
    assert "a.xlsx: cannot be read as an Excel file of 2007 or later without a password" in message


def test_damaged_workbooks_are_refused_in_a_line():
    workbook("a.xlsx", ("data", [["a", "y"], [1, 2], [3, 4]]))
    with zipfile.ZipFile("a.xlsx") as file, zipfile.ZipFile("torn.xlsx", "w") as torn:
        for part in file.infolist():
            torn.writestr(part, file.read(part)[:60])
    with zipfile.ZipFile("other.xlsx", "w") as file:
        file.writestr("readme.txt", "not a workbook")
    for name in ("torn.xlsx", "other.xlsx"):
        assert "cannot be read as an Excel file" in refused("fit", name, "-t", "y", "-o", "m.lbnn")


def test_excel_without_openpyxl_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    workbook_bytes = b"PK"
    Path("a.xlsx").write_bytes(workbook_bytes)
    assert "openpyxl" in refused("fit", "a.xlsx", "-t", "y", "-o", "m.lbnn")


def test_weights_must_be_positive(frame):
    frame.assign(w=frame["a"]).to_csv("a.csv", index=False)
    options = TableOptions(Path("a.csv"), ["fat"], drop=["id", "kind", "water"])
    with pytest.raises(BadInputError, match="positive numbers in w, got"):
        read_examples(options, Reading(), weights="w")
