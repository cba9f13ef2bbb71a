"""Files as instruments and spreadsheets write them: units, empty cells, marks of missing values, Excel."""

from __future__ import annotations

import datetime
import json
import re
import shlex
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import lbnn
from lbnn.cli.cells import MISSING_TEXTS, is_units_row, read_cells
from lbnn.cli.reading import Dialect
from lbnn.cli.tables import read_table
from tests.cli import test_cli
from tests.cli.test_cli import QUICK, files, ok, refused, run

empty_folder = test_cli.empty_folder
HEADER = ["sample", "date", "pH", "cond.", "density", "temp.", "fat", "water"]
UNITS = ["", "", "-", "µS/cm", "g/ml", "°C", "%", "%"]


@pytest.fixture
def numbers():
    """Forty rows: four features, two targets."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(40, 4)) * [1, 10, 0.1, 3] + [5, 100, 1, 0]
    fat = X @ [1.0, 0.05, 3.0, 0.2] + 0.2 * rng.normal(size=40)
    return np.column_stack([X, fat, 80 - fat + 0.3 * rng.normal(size=40)])


def cells(numbers, decimal="."):
    """The rows of the messy file: ids, dates, numbers, and two texts in the place of numbers."""
    rows = [
        [f"P-{i + 1:03d}", f"{i % 28 + 1:02d}.03.2024", *(f"{v:.3f}".replace(".", decimal) for v in row)]
        for i, row in enumerate(numbers)
    ]
    rows[11][3] = rows[25][6] = "n.a."  # lines 14 and 28 below a header and a row of units
    return rows


@pytest.fixture
def messy(numbers):
    """The file of issue 30: semicolons, BOM, units, id, dates, n.a., decimal commas, trailing separators."""
    rows = [HEADER, UNITS, *cells(numbers, ","), [""] * 8, [""] * 8]
    text = "\r\n".join(";".join([*row, "", ""]) for row in rows) + "\r\n"
    Path("messy.csv").write_bytes(text.encode("utf-8-sig"))
    return "messy.csv"


def advice(message: str) -> list[str]:
    """The options that a message says to try, as a newcomer copies them."""
    found = []
    for part in message.partition("Try: ")[2].split("; "):
        copied = re.match(r"((--[a-z]+ ('[^']*'|\S+) ?)+)", part)
        found += shlex.split(copied[1]) if copied else []
    return found


def test_a_newcomer_succeeds_with_at_most_two_corrections(messy, numbers):
    """Before: ten failed fits. The corrections are what the messages print, copied without thinking."""
    command, corrections = ["fit", messy, "-t", "fat,water", *QUICK, "-o", "m.lbnn"], 0
    while (result := run(*command)).exit_code:
        assert files() == {"messy.csv"}
        command += advice(result.stderr)
        corrections += 1
        assert corrections <= 2, result.stderr
    assert "38 rows, 4 features, 2 targets" in result.stdout
    assert corrections == 1
    model = lbnn.LBNNRegressor.load("m.lbnn")
    kept = np.delete(np.round(numbers, 3), [11, 25], axis=0)
    expected = lbnn.LBNNRegressor(depth=2, width=4, beta=10.0, prior_scale=1.0).fit(kept[:, :4], kept[:, 4:])
    assert model.log_evidence_ == pytest.approx(expected.log_evidence_, abs=1e-9)
    assert model.feature_names_in_.tolist() == HEADER[2:6]
    ok("predict", "m.lbnn", messy, "-o", "p.csv")
    assert "P-012" not in set(pd.read_csv("p.csv")["sample"])  # a feature is missing there


def test_all_that_was_done_is_said(messy):
    said = run("fit", messy, "-t", "fat,water", *QUICK, "-o", "m.lbnn").stderr
    assert "--sep ';' --decimal ',' --encoding utf-8 (guessed" in said
    assert (
        "line 2 holds units and no data (pH in -, cond. in µS/cm, density in g/ml, temp. in °C and 2 more)"
        in said
    )
    assert "2 empty columns and 2 empty rows are left out" in said
    assert "sample ('P-001' in line 3), date ('01.03.2024' in line 3) are text" in said
    assert "cond. in line 14 ('n.a.'), fat in line 28 ('n.a.')" in said
    done = run("fit", messy, "-t", "fat,water", *QUICK, "-o", "m.lbnn", *advice(said))
    assert "1 row of messy.csv with missing values in cond. left out: line 14" in done.stderr
    assert "1 row of messy.csv with missing values in fat left out: line 28" in done.stderr


def test_a_gap_in_a_target_gets_advice_that_can_be_followed(messy):
    """Before: `--missing median` advised `--missing median`."""
    common = ("fit", messy, "-t", "fat,water", "--id", "sample", "--drop", "date", *QUICK, "-o", "m.lbnn")
    message = refused(*common, "--missing", "median")
    assert "fat in line 28 ('n.a.')" in message
    assert "cond." not in message  # a feature, which is filled
    assert "--missing median" not in message.partition("Try")[2]
    ok(*common, *advice(message))


def test_a_stray_text_is_named_by_its_own_cell(numbers):
    """Before: the first cell of the column, a good one, where decimals were commas."""
    rows = cells(numbers, ",")
    rows[11][3], rows[25][6], rows[30][6] = "1,2*", "<0,5", "12.7"
    Path("a.csv").write_text("\n".join(";".join(row) for row in [HEADER, *rows]), encoding="utf-8")
    common = ("fit", "a.csv", "-t", "fat,water", "--id", "sample", "--drop", "date", *QUICK, "-o", "m.lbnn")
    message = refused(*common)
    assert "cond. is '1,2*' in line 13; fat is '<0,5' in line 27, '12.7' in line 32" in message
    assert "--na '1,2*' --na '<0,5' --na 12.7 --missing drop" in message
    result = run(*common, "--na", "1,2*", "--na", "<0,5", "--na", "12.7", "--missing", "drop")
    assert "37 rows, 4 features" in result.stdout
    assert "left out: line 13" in result.stderr
    assert "2 rows" in result.stderr
    ok("predict", "m.lbnn", "a.csv", "-o", "p.csv")  # the model remembers the texts
    assert len(pd.read_csv("p.csv")) == 39


@pytest.mark.parametrize("mark", [",", "'", " "])
def test_thousands_separators_are_named_with_their_cell(numbers, mark):
    rows = [[*(f"{value:.3f}" for value in row[:4]), f"{1000 * row[4]:,.0f}"] for row in numbers]
    lines = ["\t".join([*"abcd", "y"]), *("\t".join(row).replace(",", mark) for row in rows)]
    Path("prices.tsv").write_text("\n".join(lines))
    message = refused("fit", "prices.tsv", "-t", "y", "-o", "m.lbnn", *QUICK)
    cell = rows[0][-1].replace(",", mark)
    assert f"{cell!r} in line 2" in message
    assert f"without thousands separators, {cell.replace(mark, '')} for {cell!r}" in message
    as_feature = refused("fit", "prices.tsv", "-t", "a", "-o", "m.lbnn", *QUICK)
    assert "--categorical" not in as_feature
    assert "without thousands separators" in as_feature


def test_a_comma_that_may_separate_thousands_is_not_guessed():
    rows = [f"{i + 990:,d}\t{2 * i + 1990:,d}" for i in range(20)]  # 990 ... 1,009: 990 and 1.009 if guessed
    Path("counts.tsv").write_text("\n".join(["a\tb", *rows]))
    assert "--decimal ," in refused("fit", "counts.tsv", "-t", "b", "-o", "m.lbnn", *QUICK)
    assert read_table(Path("counts.tsv"), Dialect(decimal=",")).frame["b"].iloc[-1] == 2.028
    Path("clear.tsv").write_text("\n".join(["a\tb\tc", *(f"{row}\t0,5" for row in rows)]))
    assert read_table(Path("clear.tsv")).frame["b"].iloc[-1] == 2.028  # 0,5 has a decimal comma


def test_a_number_can_stand_for_a_missing_value(numbers):
    frame = pd.DataFrame(np.round(numbers, 3), columns=HEADER[2:])
    frame.loc[3, "pH"] = -999
    frame.to_csv("a.csv", index=False)
    common = ("fit", "a.csv", "-t", "fat,water", *QUICK, "-o", "m.lbnn", "--missing", "drop")
    assert "39 rows" in ok(*common, "--na", "-999")
    assert "40 rows" in ok(*common, "--force")


def test_lines_are_counted_as_an_editor_counts_them():
    """Line breaks within quotes, empty lines, and a header of two lines."""
    Path("a.csv").write_text('a,"y\n[%]"\nmg,%\n"1",2\n\n3,"4\n"\n5,6\n7,x\n9,1\n11,12\n', encoding="utf-8")
    table = read_table(Path("a.csv"))
    assert table.columns == ["a", "y\n[%]"]
    assert list(table.frame.index) == [4, 6, 8, 9, 10, 11]
    assert table.frame["a"].tolist() == [1, 3, 5, 7, 9, 11]
    assert table.problems(table.columns).strays == {"y\n[%]": {9: "x"}}


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([["", "mg", "%"], ["a", "1", "2"], ["b", "3", "4"]], True),
        ([["", "mg", ""], ["a", "1", "2"], ["b", "3", "n.a."]], True),  # a column without a unit
        ([["a", "n.a.", "1"], ["b", "1", "2"], ["c", "3", "4"]], False),  # a number in the row
        ([["a", "n.a.", "-"], ["b", "1", "2"], ["c", "3", "4"]], False),  # nothing but missing values
        ([["x", "y", "z"], ["a", "b", "c"], ["d", "e", "f"]], False),  # no column of numbers
        ([["mg", "%"], ["1", "2"]], False),  # too few rows to tell
        ([["one", "a"], ["1", "b"], ["2", "c"]], False),  # a stray in the only column of numbers
        ([], False),
    ],
)
def test_units_are_told_from_data(rows, expected):
    assert is_units_row(rows, ".") is expected


def test_cells_are_read_with_every_digit_and_nothing_else():
    values = [
        "0.1",
        " 1e-3 ",
        "-7",
        "+2.50",
        ".5",
        "3.",
        "inf",
        "1_000",
        "0x10",
        "1,5",
        "١",
        "",
        None,
        4,
        np.nan,
    ]
    found = read_cells(values, ".")
    assert found.values[:7] == [0.1, 1e-3, -7, 2.5, 0.5, 3, np.inf]
    assert set(found.strays.values()) == {"1_000", "0x10", "1,5"} | (
        {"١"} - {"١" if found.values[10] == 1 else ""}
    )
    assert found.values[13] == 4
    assert not found.marks
    assert read_cells(["1.5", "1,5"], ",").strays == {0: "1.5"}
    assert read_cells(list(MISSING_TEXTS), ".").strays == {}


def test_a_long_column_of_text_is_not_read_to_its_end():
    assert len(read_cells(["P"] * 100_000, ".").values) < 1000


def test_marks_of_missing_values_are_levels_of_categories():
    """+ and - are two results of a test, not a number and a gap."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=20)
    table = pd.DataFrame({"x": x, "test": ["+", "-"] * 10, "y": x + 0.1 * rng.normal(size=20)})
    table.to_csv("a.csv", index=False)
    assert "--categorical test" in refused("fit", "a.csv", "-t", "y", *QUICK, "-o", "m.lbnn")
    ok("fit", "a.csv", "-t", "y", *QUICK, "-o", "m.lbnn", "--categorical", "test")
    assert lbnn.LBNNRegressor.load("m.lbnn").feature_names_in_.tolist() == ["x", "test=-"]


def test_trailing_separators_in_rows_only(numbers):
    """Also where they begin far below the lines that guesses rest on."""
    frame = pd.DataFrame(np.round(np.tile(numbers, (3, 1)), 3), columns=HEADER[2:])
    lines = frame.to_csv(index=False).splitlines()
    Path("rows.csv").write_text("\n".join([lines[0], *(line + ",," for line in lines[1:])]))
    Path("late.csv").write_text("\n".join([*lines[:100], *(line + ",,," for line in lines[100:])]))
    for name, count in (("rows.csv", 2), ("late.csv", 3)):
        table = read_table(Path(name))
        assert f"{count} empty columns are left out" in table.notes[0]
        np.testing.assert_array_equal(table.numbers(HEADER[2:]), frame)
    lines[110] += ",,7"
    Path("wrong.csv").write_text("\n".join(lines))
    message = refused("fit", "wrong.csv", "-t", "fat", "-o", "m.lbnn")
    assert "got 8 fields in line 111 below a header of 6" in message


def test_columns_without_values_are_left_out(numbers):
    frame = pd.DataFrame(np.round(numbers, 3), columns=HEADER[2:]).assign(notes=np.nan)
    frame.to_csv("a.csv", index=False)
    result = run("fit", "a.csv", "-t", "fat,water", *QUICK, "-o", "m.lbnn")
    assert "a.csv: notes has no values: left out" in result.stderr
    assert "40 rows, 4 features" in result.stdout
    assert "notes in lines" in refused("fit", "a.csv", "-t", "fat", "-x", "pH,notes", *QUICK, "-o", "n.lbnn")


def test_a_feature_that_is_mostly_missing_is_to_be_left_out(numbers):
    frame = pd.DataFrame(np.round(numbers, 3), columns=HEADER[2:])
    frame.loc[5:, "pH"] = np.nan
    frame.to_csv("a.csv", index=False)
    message = refused("fit", "a.csv", "-t", "fat,water", *QUICK, "-o", "m.lbnn")
    assert message.endswith("Try: --drop pH")
    ok("fit", "a.csv", "-t", "fat,water", *QUICK, "-o", "m.lbnn", *advice(message))


def test_tabs(numbers):
    frame = pd.DataFrame(np.round(numbers, 3), columns=HEADER[2:])
    frame.to_csv("a.tsv", index=False, sep="\t")
    frame.to_csv("b.txt", index=False, sep="\t", decimal=",")
    frame.to_csv("c.csv", index=False)
    tables = [read_table(Path(name)) for name in ("a.tsv", "b.txt", "c.csv")]
    for table in tables:
        np.testing.assert_array_equal(table.numbers(HEADER[2:]), frame)
    assert tables[0].notes == []
    assert "--sep 'tab' --decimal ','" in tables[1].notes[0]


def test_rows_that_have_all_targets_are_predicted_without_them(numbers):
    """Before: a single gap in the targets made predictions of all other rows the targets themselves, ± 0."""
    frame = pd.DataFrame(np.round(numbers, 3), columns=HEADER[2:])
    frame.to_csv("a.csv", index=False)
    ok("fit", "a.csv", "-t", "fat,water", *QUICK, "-o", "m.lbnn")
    frame.loc[3, "fat"] = np.nan
    frame.to_csv("gap.csv", index=False)
    assert "1 row has some of the targets" in ok("predict", "m.lbnn", "gap.csv", "-o", "p.csv")
    predicted = pd.read_csv("p.csv")
    assert (predicted["fat_std"] > 0).all()
    assert predicted["water_std"].drop(index=3).min() > 0
    assert predicted["water"][3] == pytest.approx(frame["water"][3])


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


def test_excel_as_csv(numbers):
    """The messy file as a workbook: numbers, dates and gaps are cells; a cover sheet, empty rows above."""
    rows = [[None] * 8, HEADER, [unit or None for unit in UNITS]]
    rows += [
        [f"P-{i + 1:03d}", datetime.date(2024, 3, i % 28 + 1), *map(float, row)]
        for i, row in enumerate(np.round(numbers, 3))
    ]
    rows[14][3], rows[20][3], rows[28][6] = "n.a.", None, "#DIV/0!"
    rows[10:10] = [[None] * 8]
    workbook("a.xlsx", ("cover", []), ("data", rows), ("more", [["a"], [1]]))
    message = refused("fit", "a.xlsx", "-t", "fat,water", *QUICK, "-o", "m.lbnn")
    assert "cond. in rows 16, 22 ('n.a.'), fat in row 30 ('#DIV/0!')" in message
    assert "sample ('P-001' in row 4), date ('2024-03-01 00:00:00' in row 4) are text" in message
    assert advice(message) == ["--id", "sample", "--drop", "date", "--missing", "drop"]
    result = run("fit", "a.xlsx", "-t", "fat,water", *QUICK, "-o", "m.lbnn", *advice(message))
    assert "37 rows, 4 features, 2 targets" in result.stdout
    assert "sheet data is read; --sheet takes another of cover, more" in result.stderr
    assert "row 3 holds units and no data (pH in -, cond. in µS/cm" in result.stderr
    assert "1 empty row is left out" in result.stderr
    kept = np.delete(np.round(numbers, 3), [11, 17, 25], axis=0)
    expected = lbnn.LBNNRegressor(depth=2, width=4, beta=10.0, prior_scale=1.0).fit(kept[:, :4], kept[:, 4:])
    assert lbnn.LBNNRegressor.load("m.lbnn").log_evidence_ == pytest.approx(expected.log_evidence_, abs=1e-9)
    assert "has no column fat" in refused("fit", "a.xlsx", "-t", "fat", "--sheet", "more", "-o", "n.lbnn")
    assert "has no sheet 'x'; it has cover, data, more" in refused(
        "fit", "a.xlsx", "-t", "fat", "--sheet", "x", "-o", "n.lbnn"
    )
    assert "got an empty sheet" in refused("fit", "a.xlsx", "-t", "fat", "--sheet", "cover", "-o", "n.lbnn")


def test_a_sheet_that_pretends_to_be_large(numbers):
    """A format in the last cell makes Excel store a million empty rows; only those with values count."""
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in [HEADER[2:], *np.round(numbers, 3).tolist()]:
        book.active.append(row)
    book.active["XFD5000"].number_format = "0.00"
    book.save("a.xlsx")
    table = read_table(Path("a.xlsx"))
    assert table.columns == HEADER[2:]
    np.testing.assert_array_equal(table.numbers(HEADER[2:]), np.round(numbers, 3))


@pytest.mark.parametrize(
    "content", [b"", b"PK", b"\xd0\xcf\x11\xe0 an old or encrypted workbook", b"a,b\n1,2\n"]
)
def test_files_that_are_no_workbooks_are_refused_in_a_line(content):
    pytest.importorskip("openpyxl")
    Path("a.xlsx").write_bytes(content)
    assert "a.xlsx: must be a workbook" in refused("fit", "a.xlsx", "-t", "y", "-o", "m.lbnn")


def test_damaged_and_oversized_workbooks_are_refused_in_a_line(monkeypatch):
    workbook("a.xlsx", ("data", [["a", "y"], [1, 2], [3, 4]]))
    with zipfile.ZipFile("a.xlsx") as file, zipfile.ZipFile("torn.xlsx", "w") as torn:
        for part in file.infolist():
            torn.writestr(part, file.read(part)[:60])
    with zipfile.ZipFile("other.xlsx", "w") as file:
        file.writestr("readme.txt", "not a workbook")
    for name in ("torn.xlsx", "other.xlsx"):
        assert "cannot be read as an Excel file" in refused("fit", name, "-t", "y", "-o", "m.lbnn")
    monkeypatch.setattr("lbnn.cli.excel._LARGEST", 100)
    assert "GiB when unpacked" in refused("fit", "a.xlsx", "-t", "y", "-o", "m.lbnn")


def test_excel_without_openpyxl_says_how_to_install_it(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "openpyxl", None)
    Path("a.xlsx").write_bytes(b"PK")
    message = refused("fit", "a.xlsx", "-t", "y", "-o", "m.lbnn")
    assert re.search(r"needs openpyxl: pip install .*\[excel\]'", message)


def test_excel_cells_that_are_formulas_or_booleans(numbers):
    rows = [[*HEADER[2:], "ripe"], *([*map(float, row), bool(i % 2)] for i, row in enumerate(numbers))]
    workbook("a.xlsx", ("data", rows))
    result = run("fit", "a.xlsx", "-t", "fat,water", *QUICK, "-o", "m.lbnn")
    assert result.exit_code == 0
    assert "true and false are read as 1 and 0 in ripe" in result.stderr


# ---------------------------------------------------------------------- any text at all


@pytest.mark.parametrize("seed", range(30))
def test_no_text_ends_in_a_traceback(seed):
    """Characters that mean something to readers of CSV, at random: a table, or one line that says why not."""
    rng = np.random.default_rng(seed)
    alphabet = [*"ab1.,;\t|\"'\n\r -+é\u2028", "1.5", "y", "a,y\n", "n.a.", "\ufeff", "1e999", "=1+1"]
    Path("a.csv").write_text("".join(rng.choice(alphabet, size=rng.integers(1, 200))), encoding="utf-8")
    result = run("fit", "a.csv", "-t", "y", *QUICK, "-o", "m.lbnn")
    assert result.exit_code in (0, 2), result.output
    assert not result.exception or isinstance(result.exception, SystemExit), result.exception


def test_dialects_remember_texts_for_missing_values():
    assert Dialect.of(None, None, None, None, [" x "]).na == ("x",)
    assert json.dumps(Dialect().na) == "[]"


# ---------------------------------------------------------------------- reports and numbers


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


NIR = ("-t", "fat,water", "--id", "sample", "--missing", "drop", "--depth", "1", "--no-integrate")


def test_the_report_names_rows_and_tells_where_it_comes_from(nir):
    output = ok("fit", nir, *NIR, "-o", "m.lbnn", "--report", "r.html")
    ok("fit", nir, *NIR, "-o", "m.lbnn", "--report", "r.txt", "--force")
    text, page = Path("r.txt").read_text(encoding="utf-8"), Path("r.html").read_text(encoding="utf-8")
    assert re.search(r"^S17 +fat +[\d.]+ +[\d.]+ +\+\d", text, re.MULTILINE)
    assert re.search(r"^S30 +\d+\.\d$", text, re.MULTILINE)
    assert "S17" in output  # on the terminal as well
    assert "1 row of nir.csv with missing values in 1200 nm left out: line 35" in text
    assert (
        "Command: lbnn fit nir.csv -t fat,water --id sample --missing drop --depth 1 --no-integrate" in text
    )
    assert f"lbnn {lbnn.__version__}" in text
    assert f"Date: {datetime.date.today().isoformat()[:7]}" in text
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
    noise = found["chosen"]["noise_deviation"]
    deviations = X.std(ddof=0) if model.inputs_ == "standardised" else pd.Series(1.0, names)
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
    assert [each["row"] for each in found["large_leverage"]] == ["S30"]
    assert found["written"] == ["m.lbnn"]
    assert found["origin"]["version"] == lbnn.__version__
    assert found["origin"]["command"].startswith("lbnn fit nir.csv -t fat,water")
    scores = model.leave_one_out()
    assert found["left_out"][0]["sd_z"] == pytest.approx(scores.z[:, 0].std())
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
    said = run(
        "evidence", nir, "-t", "fat", "--drop", "sample,water", "--missing", "drop", "--depths", "1,2"
    ).stderr
    assert said.count("line 19 (z = +") == 1  # of several networks, once
