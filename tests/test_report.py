"""The report: its claims hold, its files have the promised form, and a broken claim is noticed."""

from __future__ import annotations

import json
import re
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
import pytest

from lbnn.report import registry
from lbnn.report.cli import main

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
PAPER_MAP = ROOT / "docs" / "paper-map.md"
FIELDS = {"id", "equation", "statement", "route", "discrepancy", "tolerance", "verdict"}


def read(folder: Path) -> list[dict]:
    return json.loads((folder / "claims.json").read_text(encoding="utf-8"))


@pytest.fixture
def register(monkeypatch):
    """Register a claim for the length of a test."""
    registry.load()
    monkeypatch.setattr(registry, "CLAIMS", dict(registry.CLAIMS))

    def add(check, **overrides):
        words = {"id": "test.claim", "equation": "(0)", "statement": "1 = 1", "route": "by hand"}
        registry.claim(**{**words, "tolerance": 1e-9, **overrides})(check)

    return add


def test_every_claim_holds(tmp_path, capsys):
    assert main(["--quick", "--out", str(tmp_path)]) == 0
    records = read(tmp_path)
    assert {record["section"] for record in records} == {
        section.replace("_", "-") for section in registry.SECTIONS
    }
    assert len({record["id"] for record in records}) == len(records)
    for record in records:
        assert record.keys() >= FIELDS
        assert record["verdict"] == ("corrected" if record["correction"] else "holds"), record
        assert 0 <= record["discrepancy"] <= record["tolerance"]
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert all(f'id="{record["id"]}"' in page for record in records)
    assert not re.search(r"(src|href)=|https?:|@import|url\(", page)  # no outside assets
    printed = capsys.readouterr().out
    assert all(printed.count(record["id"] + ":") == 1 for record in records)  # one progress line each


def test_a_broken_claim_gives_exit_code_one(tmp_path, register):
    register(lambda run: 1.0)
    assert main(["--only", "test.claim", "--out", str(tmp_path)]) == 1
    (record,) = read(tmp_path)
    assert record["verdict"] == "fails"
    assert record["discrepancy"] == 1.0


def test_a_correction_does_not_excuse_a_broken_claim(tmp_path, register):
    register(lambda run: 1.0, correction="the printed sign is wrong")
    assert main(["--only", "test", "--out", str(tmp_path)]) == 1


def test_a_claim_that_is_not_a_number_fails(tmp_path, register):
    register(lambda run: float("nan"))
    assert main(["--only", "test", "--out", str(tmp_path)]) == 1
    assert read(tmp_path)[0]["discrepancy"] is None


def test_an_error_fails_its_claim_and_is_told(tmp_path, register, capsys):
    def broken(run):
        raise ZeroDivisionError("no such <scale>")

    register(broken)
    assert main(["--only", "test", "--out", str(tmp_path)]) == 1
    assert read(tmp_path)[0]["error"] == "ZeroDivisionError: no such <scale>"
    assert "no such &lt;scale&gt;" in (tmp_path / "index.html").read_text(encoding="utf-8")
    assert "ZeroDivisionError" in capsys.readouterr().out


def test_only_picks_sections_and_claims(capsys):
    assert main(["--list", "--only", "kernel", "prior.gamma"]) == 0
    listed = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert "prior.gamma" in listed
    assert all(name == "prior.gamma" or name.startswith("kernel.") for name in listed)


def test_an_unknown_claim_is_refused(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["--only", "no-such-claim"])
    assert stop.value.code == 2
    assert "no-such-claim" in capsys.readouterr().err


def test_identifiers_are_unique(register):
    register(lambda run: 0.0)
    with pytest.raises(ValueError, match="unique"):
        register(lambda run: 0.0)


def test_same_seed_same_discrepancy():
    registry.load()
    claim = registry.CLAIMS["prior.scale-draws"]
    first, again, other = (registry.judge(claim, seed, quick=True).discrepancy for seed in (3, 3, 4))
    assert first == again != other


def test_the_paper_map_names_every_claim_and_no_other():
    registry.load()
    named = set(
        re.findall(
            r"`((?:prior|posterior|one-output|zero-temperature|kernel)\.[a-z-]+)`", PAPER_MAP.read_text()
        )
    )
    assert named == set(registry.CLAIMS)


def test_the_example_of_the_readme_runs_as_written(tmp_path, monkeypatch, capsys):
    example, printed = re.search(
        r"```python\n(.*?)```\n.*?```text\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL
    ).groups()
    monkeypatch.chdir(tmp_path)
    matplotlib.use("Agg")
    exec(compile(example, "README.md", "exec"), {})
    plt.close("all")
    assert capsys.readouterr().out == printed
    assert (tmp_path / "scale.svg").stat().st_size > 0
