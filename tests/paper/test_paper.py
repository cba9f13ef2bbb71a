"""The report: its claims hold, its files have the promised form, and a broken claim is noticed."""

from __future__ import annotations

import json
import os
import re
import sys
from html.parser import HTMLParser
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
import pytest

from lbnn import paper
from lbnn._base import mathml
from lbnn.paper import registry
from lbnn.paper.cli import main
from lbnn.paper.page import Document, number, prose
from lbnn.predict.process import Process

ROOT = Path(__file__).resolve().parents[2]
CONCEPTS = ROOT / "docs" / "concepts.md"
PAPER_MAP = ROOT / "docs" / "paper-map.md"
FIELDS = {"id", "equation", "statement", "route", "discrepancy", "tolerance", "verdict"}
#: Claims that take long, since they simulate a peer or many sizes: left to the slow run and `make reproduce`.
HEAVY = {"several-outputs.coupling", "several-outputs.dimension-reduction", "dual.engine", "asymptotics"}

registry.load()


def read(folder: Path) -> list[dict]:
    return json.loads((folder / "claims.json").read_text(encoding="utf-8"))


def page(folder: Path) -> str:
    return (folder / "index.html").read_text(encoding="utf-8")


@pytest.fixture
def register(monkeypatch):
    """Register a claim for the length of a test."""
    monkeypatch.setattr(registry, "CLAIMS", dict(registry.CLAIMS))

    def add(check, **overrides):
        words = {"id": "test.claim", "equation": "(0)", "statement": "1 = 1", "route": "by hand"}
        limit = {"tolerance": 1e-9, "tolerance_reason": "rounding"}
        registry.claim(**{**words, **limit, **overrides})(check)

    return add


def line(run):
    """A figure for a claim of a test."""
    figure, axes = plt.subplots()
    axes.plot([0, 1])
    return registry.Picture(figure, "A line: it rises with n_1.", "a <rising> line")


# ---------------------------------------------------------------------- claims


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The report of all claims but the heavy ones, with a tenth of the draws."""
    folder = tmp_path_factory.mktemp("report")
    light = [each.id for each in registry.CLAIMS.values() if not {each.id, each.section} & HEAVY]
    outcomes = paper.run(folder, light, quick=True)
    return folder, outcomes


def test_every_claim_holds(whole):
    folder, outcomes = whole
    records = read(folder)
    assert [record["id"] for record in records] == [outcome.claim.id for outcome in outcomes]
    for record in records:
        assert record.keys() >= FIELDS
        assert record["verdict"] == ("corrected" if record["correction"] else "holds"), record
        assert 0 <= record["discrepancy"] <= record["tolerance"]


def test_every_claim_says_where_its_tolerance_comes_from():
    assert {each.section for each in registry.CLAIMS.values()} == {
        section.replace("_", "-") for section in registry.SECTIONS
    }
    for claim in registry.CLAIMS.values():
        assert len(claim.tolerance_reason) > 20, claim.id


def test_every_equation_is_typeset():
    equations = [(each.id, latex) for each in registry.CLAIMS.values() for latex in each.latex]
    assert len(equations) > 50
    for name, latex in equations:
        markup = mathml.display(latex)
        assert markup.startswith("<math"), name
        assert not re.search(
            r'<m[io]>(\\|&(?!#))|\\[a-z]|mathvariant="script"', markup.partition("<annotation")[0]
        ), name


@pytest.mark.slow
def test_every_claim_holds_with_all_draws_and_another_seed(tmp_path):
    assert main(["--seed", "1", "--out", str(tmp_path)]) == 0


def test_a_broken_formula_fails_its_claim(tmp_path, monkeypatch):
    honest = Process.left
    monkeypatch.setattr(Process, "left", lambda self, some: 1.01 * honest(self, some))
    assert main(["--only", "posterior.given-scale", "posterior.mean", "--out", str(tmp_path)]) == 1
    covariance, mean = read(tmp_path)
    assert (covariance["verdict"], mean["verdict"]) == ("fails", "holds")


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
    assert "not computed" in page(tmp_path)


def test_an_error_fails_its_claim_and_is_told(tmp_path, register, capsys):
    def broken(run):
        raise ZeroDivisionError("no such <scale>")

    register(broken)
    assert main(["--only", "test", "--out", str(tmp_path)]) == 1
    assert read(tmp_path)[0]["error"] == "ZeroDivisionError: no such <scale>"
    assert "no such &lt;scale&gt;" in page(tmp_path)
    assert "ZeroDivisionError" in capsys.readouterr().out


def test_an_error_in_a_figure_fails_its_claim(tmp_path, register):
    register(lambda run: 0.0, figure=lambda run: run.record["absent"])
    assert main(["--only", "test", "--out", str(tmp_path)]) == 1
    assert read(tmp_path)[0]["verdict"] == "fails"


def test_same_seed_same_discrepancy():
    claim = registry.CLAIMS["prior.scale-draws"]
    first, again, other = (registry.judge(claim, seed, quick=True).discrepancy for seed in (3, 3, 4))
    assert first == again != other


def test_identifiers_are_unique(register):
    register(lambda run: 0.0)
    with pytest.raises(ValueError, match="unique"):
        register(lambda run: 0.0)


# ---------------------------------------------------------------------- command line


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


def test_a_file_in_the_place_of_the_folder_is_refused_before_the_work(tmp_path, capsys, register):
    register(lambda run: pytest.fail("the check ran"))
    (tmp_path / "file").write_text("mine")
    with pytest.raises(SystemExit):
        main(["--only", "test", "--out", str(tmp_path / "file")])
    assert "into a folder, got the file" in capsys.readouterr().err


@pytest.mark.parametrize("module", ["latex2mathml.converter", "jinja2"])
def test_a_missing_extra_is_told_before_the_work(tmp_path, monkeypatch, register, module):
    register(lambda run: pytest.fail("the check ran"))
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=r"pip install .*\[report\]"):
        paper.run(tmp_path, ["test"])


def test_progress_is_one_plain_line_a_claim_off_a_terminal(tmp_path, capsys):
    assert paper.reproduce(tmp_path, ["prior.gamma", "prior.wishart"]) == 0
    printed = capsys.readouterr().out
    assert "[1/2] prior.wishart: holds" in printed
    assert "[2/2] prior.gamma: holds" in printed


# ---------------------------------------------------------------------- files


def test_the_run_leaves_no_figure_open_and_the_style_alone(tmp_path, register):
    register(lambda run: 0.0, figure=line)
    before = dict(matplotlib.rcParams), plt.get_fignums()
    paper.run(tmp_path, ["test"])
    assert (dict(matplotlib.rcParams), plt.get_fignums()) == before


def test_figures_are_written_in_both_formats_and_inlined(tmp_path, register):
    register(lambda run: 0.0, figure=line)
    paper.run(tmp_path, ["test"])
    svg, png = (tmp_path / name for name in read(tmp_path)[0]["figures"])
    assert svg.read_bytes().startswith(b"<svg")
    assert png.read_bytes().startswith(b"\x89PNG")
    assert 'src="data:image/svg+xml;base64,' in page(tmp_path)
    assert 'alt="a &lt;rising&gt; line"' in page(tmp_path)
    assert "rises with n<sub>1</sub>" in page(tmp_path)


def test_everything_a_claim_says_is_escaped(tmp_path, register):
    words = dict.fromkeys(("equation", "statement", "route", "tolerance_reason", "correction"), "<b> & `<i>`")
    picture = registry.Picture(line(None).figure, "<b>", '"><b>')
    register(lambda run: run.record.update({"<b>": 1.0}) or 2.0, figure=lambda run: picture, **words)
    paper.run(tmp_path, ["test"])
    assert not re.search("<[bi]>", page(tmp_path))
    assert page(tmp_path).count("&lt;b&gt;") >= 8
    assert "<code>&lt;i&gt;</code>" in page(tmp_path)


def test_the_page_begins_with_the_pictures_and_claims_lead_to_them(tmp_path, register):
    register(lambda run: 0.0, figure=line)
    paper.run(tmp_path, ["test", "prior.gamma"])
    text = page(tmp_path)
    assert text.index("<img") < text.index('id="summary"') < text.index('href="#picture-test.claim"')
    assert text.count("<img") == 1


def test_pictures_have_no_ground_and_light_ink_on_dark_pages(tmp_path, register):
    register(lambda run: 0.0, figure=line)
    paper.run(tmp_path, ["test"])
    svg = (tmp_path / "figures" / "test.claim.svg").read_text(encoding="utf-8")
    assert "#ffffff" not in svg
    assert svg.count("#1b1f24") > 10
    assert "prefers-color-scheme: dark" in svg
    png = plt.imread(tmp_path / "figures" / "test.claim.png")
    assert (png[0, 0] == 1).all()  # white, for slides


def test_figures_of_the_last_report_do_not_stay(tmp_path, register):
    register(lambda run: 0.0, figure=line)
    paper.run(tmp_path, ["test"])
    (tmp_path / "figures" / "mine.svg").write_text("somebody's own file")
    paper.run(tmp_path, ["prior.gamma"])
    assert [path.name for path in (tmp_path / "figures").iterdir()] == ["mine.svg"]


def test_the_record_of_a_check_reaches_json_page_and_figure(tmp_path, register):
    def check(run):
        run.record["rates"] = [10.0, 2.5]
        return 0.0

    seen = []
    register(check, figure=lambda run: seen.append(dict(run.record)) or line(run))
    paper.run(tmp_path, ["test"])
    assert seen == [{"rates": [10.0, 2.5]}] == [read(tmp_path)[0]["record"]]
    assert "<td>2.5</td>" in page(tmp_path)


@pytest.mark.parametrize("stage", ["check", "render"])
def test_a_run_that_stops_half_way_leaves_the_old_report(tmp_path, register, monkeypatch, stage):
    paper.run(tmp_path, ["prior.gamma"])
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}

    def stop(*arguments):
        raise KeyboardInterrupt

    if stage == "check":
        register(stop)
    else:
        register(lambda run: 0.0)
        monkeypatch.setattr(Document, "html", stop)
    with pytest.raises(KeyboardInterrupt):
        paper.run(tmp_path, ["prior.gamma", "test"])
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_a_disk_that_fails_leaves_no_scraps(tmp_path, monkeypatch):
    paper.run(tmp_path, ["prior.gamma"])
    before = sorted(tmp_path.rglob("*"))
    monkeypatch.setattr(os, "replace", lambda *paths: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        paper.run(tmp_path, ["prior.wishart"])
    assert sorted(tmp_path.rglob("*")) == before
    assert read(tmp_path)[0]["id"] == "prior.gamma"


# ---------------------------------------------------------------------- the page


class Outline(HTMLParser):
    """Tags in order, anchors, addresses; fails on tags that do not close in order."""

    VOID = frozenset({"meta", "img", "br", "mspace"})

    def __init__(self):
        super().__init__()
        self.open, self.headings, self.ids, self.links, self.sources, self.tags = [], [], [], [], [], set()

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.tags.add(tag)
        self.headings += [int(tag[1])] if re.fullmatch("h[1-6]", tag) else []
        self.ids += [values["id"]] if "id" in values else []
        self.links += [values["href"]] if "href" in values else []
        self.sources += [values["src"]] if "src" in values else []
        if tag == "img":
            assert values["alt"]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.add(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, self.getpos()


@pytest.fixture(scope="module")
def outline(whole):
    parser = Outline()
    parser.feed(page(whole[0]))
    assert not parser.open
    return parser


def test_the_page_needs_nothing_from_outside(whole, outline):
    assert all(link.startswith("#") for link in outline.links)
    assert all(source.startswith("data:image/svg+xml;base64,") for source in outline.sources)
    assert not outline.tags & {"script", "link", "iframe", "object"}
    text = page(whole[0]).replace("http://www.w3.org/1998/Math/MathML", "")
    assert not re.search(r"https?:|@import|url\(", text)
    for path in (whole[0] / "figures").glob("*.svg"):
        addresses = set(re.findall(r"https?://[^\s\"<]*", path.read_text(encoding="utf-8")))
        assert all(
            re.match(r"https?://(www\.w3\.org|purl\.org|creativecommons\.org)/", each) for each in addresses
        )


def test_every_claim_has_an_anchor_and_every_link_leads_somewhere(whole, outline):
    assert len(set(outline.ids)) == len(outline.ids)
    assert {outcome.claim.id for outcome in whole[1]} <= set(outline.ids)
    assert {link[1:] for link in outline.links} <= set(outline.ids)


def test_headings_come_in_order(outline):
    assert outline.headings[0] == 1
    assert outline.headings.count(1) == 1
    steps = zip(outline.headings, outline.headings[1:], strict=False)
    assert all(after <= before + 1 for before, after in steps)
    assert outline.tags >= {"header", "main", "nav", "footer", "math", "figcaption"}


def test_the_page_tells_the_run(whole):
    text = page(whole[0])
    for words in ('<html lang="en">', "Seed", "numpy", "a tenth (--quick)", "How to cite", "@media print"):
        assert words in text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (2.0361, "2.04"),
        (0.05, "0.05"),
        (1.24e-14, "1.2 × 10<sup>−14</sup>"),
        (-3e5, "-3.0 × 10<sup>5</sup>"),
        (float("inf"), "∞"),
    ],
)
def test_numbers_read_well(value, text):
    assert prose(number(value)) == text


def test_prose_sets_indices_and_code():
    assert prose("W_2W_2ᵀ < det(Γ_L)^{−1/2}, `log_density` of G_xx̂") == (
        "W<sub>2</sub>W<sub>2</sub>ᵀ &lt; det(Γ<sub>L</sub>)<sup>−1/2</sup>, <code>log_density</code> "
        "of G<sub>xx̂</sub>"
    )


# ---------------------------------------------------------------------- documents


def test_the_paper_map_names_every_claim_and_no_other():
    sections = "|".join(section.replace("_", "-") for section in registry.SECTIONS)
    named = set(re.findall(rf"`((?:{sections})\.[a-z-]+)`", PAPER_MAP.read_text(encoding="utf-8")))
    assert named == set(registry.CLAIMS)


def test_the_example_of_the_concepts_page_runs_as_written(tmp_path, monkeypatch, capsys):
    examples = re.findall(
        r"```python\n(.*?)```\n.*?```text\n(.*?)```", CONCEPTS.read_text(encoding="utf-8"), re.DOTALL
    )
    ((example, printed),) = (pair for pair in examples if "scale.svg" in pair[0])
    monkeypatch.chdir(tmp_path)
    matplotlib.use("Agg")
    exec(compile(example, "concepts.md", "exec"), {})
    plt.close("all")
    assert capsys.readouterr().out == printed
    assert (tmp_path / "scale.svg").stat().st_size > 0
