"""The report and the site in a real browser: laid out, legible, within a phone's screen, asking for nothing.

`make test-browser` installs Chromium where it can and runs all of this file.
"""

from __future__ import annotations

import functools
import html
import http.server
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest

from lbnn import paper

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")

if CHROMIUM is None or not os.environ.get("LBNN_BROWSER"):  # one line for all of them
    pytest.skip("the report and the site in a browser: `make test-browser` runs it", allow_module_level=True)

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",  # as on a phone
    "--virtual-time-budget=10000",
)
PHONE, DESKTOP = 375, 1280
ROOT = Path(__file__).resolve().parents[1]

#: Claims with a long equation, a correction, a table of records and a figure.
CLAIMS = ("kernel.infinite-width", "kernel.finite-temperature", "posterior.appendix", "kernel.definition")

#: A page around the report that measures it at both widths and leaves the numbers in its own text.
HARNESS = """<!doctype html><meta charset="utf-8"><pre id="result"></pre>
<script>
const channel = v => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
const rgba = text => text.match(/[\\d.]+/g).map(Number);
const luminance = c => 0.2126 * channel(c[0]) + 0.7152 * channel(c[1]) + 0.0722 * channel(c[2]);
const backgroundOf = (view, node) => {
  for (; node; node = node.parentElement) {
    const c = rgba(view.getComputedStyle(node).backgroundColor);
    if (c.length < 4 || c[3] > 0) return c;
  }
};
const contrast = (view, node) => {
  const [a, b] = [rgba(view.getComputedStyle(node).color), backgroundOf(view, node)].map(luminance);
  return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
};
const box = node => { const r = node.getBoundingClientRect(); return [r.left, r.top, r.right, r.bottom]; };
function inks(image) {  // opacity of a corner, and pixels in the dark and in the light ink
  const canvas = document.createElement("canvas"), pen = canvas.getContext("2d");
  [canvas.width, canvas.height] = [image.naturalWidth, image.naturalHeight];
  pen.drawImage(image, 0, 0);
  const data = pen.getImageData(0, 0, canvas.width, canvas.height).data;
  const count = ink => {
    let found = 0;
    for (let i = 0; i < data.length; i += 4)
      found += data[i + 3] > 200 && ink.every((value, c) => Math.abs(data[i + c] - value) < 8);
    return found;
  };
  return [data[3], count([27, 31, 36]), count([230, 233, 238])];
}
function measure(frame) {
  const view = frame.contentWindow, page = view.document, all = s => [...page.querySelectorAll(s)];
  return {
    width: page.documentElement.clientWidth,
    scroll: page.documentElement.scrollWidth,
    outside: all("body *").filter(n => !n.closest(".equation, .scroll, pre, .skip")
      && box(n)[2] > page.documentElement.clientWidth + 1).map(n => n.outerHTML.slice(0, 80)),
    math: all("math").map(box),
    fractions: all("math mfrac").map(n => [box(n.children[0]), box(n.children[1])]),
    subscripts: all("math msub").map(n => [box(n.children[0]), box(n.children[1])]),
    boxes: all(".equation, .scroll").map(n => [
      n.clientWidth, n.scrollWidth, view.getComputedStyle(n).overflowX,
      box(n)[0], box(n.firstElementChild)[0]]),
    images: all("img").map(n => [n.complete, n.naturalWidth, box(n), inks(n)]),
    contrast: all("p, a, h1, h2, h3, dt, dd, small, figcaption, .verdict, th, td, li, .note strong, math")
      .map(n => [contrast(view, n), n.outerHTML.slice(0, 80)]),
    background: view.getComputedStyle(page.body).backgroundColor,
    resources: view.performance.getEntriesByType("resource").map(e => e.name),
  };
}
addEventListener("load", () => {
  const frames = [...document.querySelectorAll("iframe")];
  document.getElementById("result").textContent = JSON.stringify(frames.map(measure));
});
</script>
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A small report, and the page that measures it."""
    path = tmp_path_factory.mktemp("browser")
    paper.run(path, CLAIMS, quick=True)
    frames = "".join(
        f'<iframe src="index.html" style="border:0;width:{width}px;height:900px"></iframe>'
        for width in (PHONE, DESKTOP)
    )
    (path / "harness.html").write_text(HARNESS + frames, encoding="utf-8")
    return path


@contextmanager
def serving(folder):
    """The folder on a port of this machine, and the paths that were asked for."""
    asked = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *arguments):
            asked.append(self.path)

    handler = functools.partial(Handler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{running.server_address[1]}", asked
        running.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def server(folder):
    with serving(folder) as running:
        yield running


def browse(profile: Path, address: str, *options: str) -> str:
    """What Chromium prints, with a profile of its own; no address but this machine's can be reached."""
    command = [CHROMIUM, *FLAGS, f"--user-data-dir={profile}", *options]
    command += ["--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", address]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout


@pytest.fixture(scope="module", params=["light", "dark"])
def measured(request, server, tmp_path_factory):
    """Measurements at phone and desktop width."""
    address, _ = server
    scheme = f"--blink-settings=preferredColorScheme={int(request.param == 'light')}"
    profile = tmp_path_factory.mktemp("profile")
    dom = browse(profile, f"{address}/harness.html", "--dump-dom", "--window-size=1700,950", scheme)
    text = re.search(r'<pre id="result">(.*?)</pre>', dom, re.DOTALL)[1]
    phone, desktop = json.loads(html.unescape(text))
    return request.param, phone, desktop


def test_no_horizontal_scroll(measured):
    _, phone, desktop = measured
    assert (phone["width"], desktop["width"]) == (PHONE, DESKTOP)
    for view in (phone, desktop):
        assert view["scroll"] <= view["width"]
        assert not view["outside"]


def test_equations_are_laid_out(measured):
    for view in measured[1:]:
        assert len(view["math"]) == 6
        assert all(right - left > 50 and bottom - top > 10 for left, top, right, bottom in view["math"])
        assert view["fractions"]
        assert all(
            above[3] <= below[1] + 2 for above, below in view["fractions"]
        )  # numerator over denominator
        assert view["subscripts"]
        assert all(base[3] < index[3] + 8 and index[0] >= base[2] - 4 for base, index in view["subscripts"])


def test_figures_are_shown_within_the_screen(measured):
    for view in measured[1:]:
        assert len(view["images"]) == 2
        for complete, natural_width, (left, _, right, _), _ in view["images"]:
            assert complete
            assert natural_width > 0
            assert 0 <= left < right <= view["width"]


def test_figures_have_no_ground_and_ink_that_stands_out(measured):
    """Axes and words are in the ink of the page's scheme."""
    scheme, *views = measured
    for view in views:
        for *_, (opacity, dark, light) in view["images"]:
            assert opacity == 0
            assert (light > 200 and not dark) if scheme == "dark" else dark > 200


def test_what_is_too_wide_scrolls(measured):
    """Formulas and tables begin at the edge of their box and go on inside it."""
    _, phone, desktop = measured
    assert any(whole > shown for shown, whole, *_ in phone["boxes"])
    for view in (phone, desktop):
        for _, _, overflow, edge, begin in view["boxes"]:
            assert overflow == "auto"
            assert begin >= edge - 1


def test_text_has_the_contrast_of_aa_in_both_schemes(measured):
    scheme, *views = measured
    for view in views:
        dark = sum(map(int, re.findall(r"\d+", view["background"])[:3])) < 384
        assert dark == (scheme == "dark")
        assert len(view["contrast"]) > 50
        faint = [each for each in view["contrast"] if each[0] < 4.5]
        assert not faint


def test_nothing_is_asked_for_but_the_page(measured, server):
    assert not measured[1]["resources"]
    assert set(server[1]) <= {"/harness.html", "/index.html", "/favicon.ico"}


def test_the_page_prints(server, tmp_path):
    target = tmp_path / "page.pdf"
    browse(tmp_path / "profile", f"{server[0]}/index.html", f"--print-to-pdf={target}")
    assert target.read_bytes().startswith(b"%PDF")


# ---------------------------------------------------------------------- the site

#: Pages with wide tables, long formulas, long signatures.
PAGES = (
    "index",
    "start",
    "glossary",
    "results/index",
    "results/what-depth-buys",
    "concepts",
    "data-and-files",
    "api/networks",
)

SITE_HARNESS = """<!doctype html><meta charset="utf-8"><pre id="result"></pre>
<script>
const box = node => node.getBoundingClientRect();
const scrolls = (view, node) => {
  for (; node.parentElement; node = node.parentElement)
    if (["auto", "scroll"].includes(view.getComputedStyle(node).overflowX)) return true;
};
function measure(frame) {
  const view = frame.contentWindow, page = view.document, main = page.querySelector("article");
  const width = page.documentElement.clientWidth;
  return {
    page: frame.src, width, scroll: page.documentElement.scrollWidth,
    cut: [...main.querySelectorAll("table, math, pre, img, p")]
      .filter(n => box(n).right > width + 1 && !scrolls(view, n)).map(n => n.outerHTML.slice(0, 80)),
    tables: main.querySelectorAll("table").length,
  };
}
addEventListener("load", () => setTimeout(() => {
  const frames = [...document.querySelectorAll("iframe")];
  document.getElementById("result").textContent = JSON.stringify(frames.map(measure));
}, 2000));
</script>
"""


@pytest.mark.slow
def test_the_site_fits_a_phone(tmp_path):
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(tmp_path / "site")]
    quiet = os.environ | {"NO_MKDOCS_2_WARNING": "1", "PYTHONWARNINGS": "ignore"}
    subprocess.run(command, cwd=ROOT, env=quiet, check=True, capture_output=True, timeout=300)
    frames = "".join(
        f'<iframe src="{page}.html" style="border:0;width:{PHONE}px;height:900px"></iframe>' for page in PAGES
    )
    (tmp_path / "site" / "harness.html").write_text(SITE_HARNESS + frames, encoding="utf-8")
    with serving(tmp_path / "site") as (address, _):
        dom = browse(tmp_path / "profile", f"{address}/harness.html", "--dump-dom", "--window-size=1700,950")
    views = json.loads(html.unescape(re.search(r'<pre id="result">(.*?)</pre>', dom, re.DOTALL)[1]))
    assert len(views) == len(PAGES)
    assert sum(view["tables"] for view in views) > 10
    for view in views:
        assert view["scroll"] <= view["width"], view["page"]
        assert not view["cut"], (view["page"], view["cut"])
