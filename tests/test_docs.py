"""Every example of the documentation runs and prints what the page says; the site needs no network.

Python blocks run in the order of their page, in one namespace, in an empty folder. A `text` block right after
one is what it prints; numbers may differ by a share that a comment between the two blocks allows, and which
readers do not see: `<!-- within 0.1 -->` is a tenth of a number, or of one where it is smaller. In `sh`
blocks the lines that begin with `lbnn ` run as well. A block after `<!-- not run: reason -->` does not run.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import json
import os
import re
import shlex
import subprocess
import symtable
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
BLOCK = re.compile(
    r"^(?P<mark><!-- not run: [^\n]+ -->\n\n?)?"
    r"^```(?P<language>python|sh)\n(?P<code>.*?)^```\n"
    r"(?:\n(?:<!-- within (?P<within>[\d.e-]+) -->\n)?```text\n(?P<output>.*?)^```\n)?",
    re.DOTALL | re.MULTILINE,
)
OPTIONS = doctest.NORMALIZE_WHITESPACE
#: Seven hexadecimal digits or more, of which some are letters and some are not.
COMMIT = re.compile(r"\b(?=[0-9a-f]*[a-f])(?=[0-9a-f]*[0-9])[0-9a-f]{7,40}\b")
NUMBER = re.compile(r"[-−]?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?")


def blocks(page: Path) -> list[tuple[int, re.Match[str]]]:
    """The examples of a page that run, each with the line where its code begins."""
    text = page.read_text(encoding="utf-8")
    found = [(text.count("\n", 0, match.start("code")), match) for match in BLOCK.finditer(text)]
    return [(line, match) for line, match in found if not match["mark"]]


def runs(page: Path) -> bool:
    return any(
        match["language"] == "python" or "\nlbnn " in "\n" + match["code"] for _, match in blocks(page)
    )


PAGES = [page for page in sorted(DOCS.rglob("*.md")) if runs(page)]
#: Pages whose examples take more than five seconds; README and tests of the commands have the same calls.
LONG = {
    DOCS / page
    for page in (
        "benchmark.md",
        "command-line.md",
        "estimator.md",
        "bands.md",
        "start.md",
        "guides/theorists.md",
        "results/ten-weights.md",
        "sweeps.md",
        "views.md",
    )
}


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=pytest.mark.slow) if page in LONG else page for page in PAGES],
    ids=lambda page: page.relative_to(ROOT).as_posix(),
)
def test_examples_of_page_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("Agg")
    namespace: dict[str, object] = {"__name__": "__main__"}
    for line, match in blocks(page):
        run = run_python if match["language"] == "python" else run_shell
        printed = run(match["code"], page, line, namespace)
        if match["output"] is not None:
            where = f"{page.relative_to(ROOT)}, line {line}"
            assert_prints(match["output"], printed, where, float(match["within"] or 0.0))
    pyplot.close("all")


def run_python(code: str, page: Path, line: int, namespace: dict[str, object]) -> str:
    """Run a block; the traceback of a failure has the line numbers of the page."""
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile("\n" * line + code, str(page), "exec"), namespace)
    return printed.getvalue()


def run_shell(code: str, page: Path, line: int, namespace: dict[str, object]) -> str:
    """Run the `lbnn` commands of a block."""
    from typer.testing import CliRunner

    from lbnn.cli.app import app

    printed = ""
    for command in code.replace("\\\n", " ").splitlines():
        if command.startswith("lbnn "):
            result = CliRunner().invoke(app, shlex.split(command, comments=True)[1:], env={"COLUMNS": "120"})
            assert result.exit_code == 0, f"{page.name}, line {line}: {command}\n{result.output}"
            printed += result.output
    return printed


def assert_prints(expected: str, printed: str, where: str, within: float = 0.0) -> None:
    message = f"{where}: the page says\n{expected}\nbut the example prints\n{printed}"
    if not within:
        assert doctest.OutputChecker().check_output(expected, printed, OPTIONS), message
        return
    texts = [NUMBER.sub("0", each).split() for each in (expected, printed)]
    assert texts[0] == texts[1], message
    numbers = [[number(each) for each in NUMBER.findall(text)] for text in (expected, printed)]
    for one, other in zip(*numbers, strict=True):
        assert abs(one - other) <= within * max(1.0, abs(one)), f"{other} for {one}: {message}"


def number(text: str) -> float:
    return float(text.replace("−", "-").replace(",", "").rstrip("."))


def test_checker_notices_a_wrong_output():
    with pytest.raises(AssertionError, match="the page says"):
        assert_prints("depth 2\n", "depth 3\n", "here")


def test_numbers_may_differ_as_far_as_a_page_allows():
    assert_prints("error 2.00 of 1,000\n", "error 2.05  of 1,010\n", "here", 0.05)
    with pytest.raises(AssertionError, match=r"2\.3 for 2\.0"):
        assert_prints("error 2.00\n", "error 2.3\n", "here", 0.05)
    with pytest.raises(AssertionError, match="the page says"):
        assert_prints("error 2.00\n", "errors 2.00\n", "here", 0.05)


def test_readme_is_short_and_its_examples_run_by_themselves(tmp_path):
    """Each Python block in an interpreter of its own: nothing is defined by an earlier block."""
    readme = ROOT / "README.md"
    assert len(readme.read_text("utf-8").split()) <= 900
    examples = [match for _, match in blocks(readme) if match["language"] == "python"]
    assert len(examples) == 3
    for match in examples:
        command = [sys.executable, "-c", match["code"]]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert_prints(match["output"], done.stdout, "README.md", float(match["within"] or 0.0))


def test_mark_spares_a_block(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```python\nfirst\n```\n\n<!-- not run: needs a GPU -->\n```python\nsecond\n```\n")
    assert [match["code"] for _, match in blocks(page)] == ["first\n"]


QUOTED = {
    name for page in DOCS.rglob("*.md") for name in re.findall(r"measured: (\S+)", page.read_text("utf-8"))
}


@pytest.mark.parametrize("name", sorted(QUOTED))
def test_stored_results_say_where_they_come_from(name):
    """The build prints it under the table (docs/hooks.py); `lbnn._base.checkout.provenance` makes it."""
    (file,) = (found for folder in ("benchmarks/results", "studies") for found in (ROOT / folder).glob(name))
    records = json.loads(file.read_text("utf-8"))["provenance"]
    assert records
    for record in records:
        assert re.match(r"\d{4}-\d\d-\d\d", record["date"])
        assert record["machine"]
        assert record["command"]


@pytest.mark.parametrize(
    "page", sorted(DOCS.rglob("*.md")), ids=lambda page: page.relative_to(DOCS).as_posix()
)
def test_page_is_written_for_its_readers(page):
    """Outputs are printed in full, and no page names a commit: that stands in the stored result."""
    assert not complaints(page.read_text("utf-8"))


def complaints(text: str) -> list[str]:
    outputs = re.findall(r"^```text\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    shortened = [f"an output is cut short: {output}" for output in outputs if "..." in output]
    return shortened + [f"a commit is named: {found[0]}" for found in COMMIT.finditer(text)]


def test_shortened_outputs_and_commits_are_found():
    assert complaints("```text\nlog evidence 2...\n```\n")
    assert complaints("measured at 9b987f8 on one core")
    assert not complaints("```python\nprint(...)\n```\n\n```text\n1234567 draws, a facade\n```\n")


def borrowed_names(page: Path) -> set[str]:
    """Names that a Python block of the page uses and an earlier one defines."""
    known: set[str] = set()
    borrowed: set[str] = set()
    for _, match in blocks(page):
        if match["language"] == "python":
            table = symtable.symtable(match["code"], page.name, "exec")
            symbols = {symbol.get_name(): symbol for symbol in table.get_symbols()}
            inner = {name for each in table.get_children() for name in global_names(each)}
            own = {name for name, symbol in symbols.items() if symbol.is_assigned() or symbol.is_imported()}
            used = {name for name, symbol in symbols.items() if symbol.is_referenced()} | inner
            borrowed |= (used - own) & known
            known |= own
    return borrowed


def global_names(table: symtable.SymbolTable) -> set[str]:
    """Names of a function and of those inside it that it takes from the module."""
    own = {symbol.get_name() for symbol in table.get_symbols() if symbol.is_global()}
    return own.union(*(global_names(each) for each in table.get_children()))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(DOCS).as_posix())
def test_examples_run_alone_or_say_what_they_build_on(page):
    if borrowed_names(page):
        text = " ".join(page.read_text("utf-8").split())
        says = (
            "The examples on this page build on one another" in text or "All examples use these data" in text
        )
        assert says, f"{sorted(borrowed_names(page))} come from an earlier example: say so on the page"


def test_borrowed_names_are_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```python\nx, y = 1, 2\n```\n\n```python\ny = 3\ndef f(z):\n    return x + y + z\n```\n")
    assert borrowed_names(page) == {"x"}


def test_page_prints_where_a_result_comes_from(site):
    page = html_pages(site)["results/index.html"]
    assert re.search(r'class="?measured"?>.*: measured on \d+ November 2026; ', page)


# ---------------------------------------------------------------------- the site


@pytest.fixture(scope="module")
def build(tmp_path_factory):
    """The folder of the site and what the build said."""
    pytest.importorskip("mkdocs")  # not among the lowest versions
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--site-dir", str(folder)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1", "PYTHONWARNINGS": "ignore"}
    result = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    return folder, result.stderr


@pytest.fixture(scope="module")
def site(build):
    return build[0]


def test_site_builds_strictly(build):
    """No broken link, no page outside the menu, no docstring that cannot be read: what --strict refuses."""
    complaints = [line for line in build[1].splitlines() if line.startswith(("WARNING", "ERROR"))]
    assert not complaints, "\n".join(complaints)


def html_pages(site: Path) -> dict[str, str]:
    return {
        file.relative_to(site).as_posix(): file.read_text("utf-8") for file in sorted(site.rglob("*.html"))
    }


def test_site_has_every_page(site):
    pages = {page.relative_to(DOCS).with_suffix(".html").as_posix() for page in DOCS.rglob("*.md")}
    assert pages <= set(html_pages(site))


def test_site_needs_no_network(site):
    """No script, style, picture or font comes from elsewhere; links in the text may."""
    outside = re.compile(
        r"<(?:script|img|iframe|source)[^>]*\ssrc=\"?(?:https?:)?//|<link[^>]*href=\"?(?:https?:)?//"
    )
    for name, page in html_pages(site).items():
        assert not outside.search(page), f"{name}: {outside.search(page)[0]}"
    for style in site.rglob("*.css"):
        assert not re.search(r"url\(\s*[\"']?(?:https?:)?//|@import", style.read_text("utf-8")), style.name


def test_site_searches_from_disk(site):
    """A page opened from disk may not fetch the index: it is a script."""
    index = (site / "search" / "search_index.js").read_text("utf-8")
    documents = json.loads(index.partition("=")[2])["docs"]
    assert any("Bartlett" in document["text"] for document in documents)


def test_equations_are_mathml(site):
    pages = html_pages(site)
    assert "<math alttext=" in pages["concepts.html"]
    assert not [name for name, page in pages.items() if "arithmatex" in page]


def test_subscripts_of_docstrings_are_not_emphasis(site):
    assert "[W_ℓ]_ij ~ N(0, σ_ℓ²/n_{ℓ−1})" in html_pages(site)["api/networks.html"]


def test_reference_has_every_public_name(site):
    import lbnn

    anchors = set(re.findall(r'id="(lbnn\.[\w.]+)"', "".join(html_pages(site).values())))
    missing = [name for name in lbnn.__all__ if not any(each.endswith("." + name) for each in anchors)]
    assert not missing, f"public names without an entry in docs/api: {missing}"
