"""`lbnn explore` in real Chromium, driven by Selenium: `make test-browser`."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

if not os.environ.get("LBNN_BROWSER"):  # one line for all of them
    pytest.skip("lbnn explore in a browser: `make test-browser` runs it", allow_module_level=True)

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select

from lbnn.explore.controls import CONTROLS
from lbnn.explore.presets import PRESETS
from lbnn.explore.state import State

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
DRIVER = shutil.which("chromedriver")
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--hide-scrollbars",
    # nothing but this machine can be reached, a stranger's name leads to it as after DNS rebinding
    "--host-resolver-rules=MAP evil.example 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)
QUICK = "examples=8&inputs=12&widths=5"


class Browser:
    """Chromium at one address."""

    def __init__(self, address: str, folder: Path, width=1280, height=950, scheme="light", token=True):
        options = webdriver.ChromeOptions()
        options.binary_location = CHROMIUM
        for flag in (*FLAGS, f"--window-size={width},{height}"):
            options.add_argument(flag)
        options.add_argument(f"--blink-settings=preferredColorScheme={int(scheme == 'light')}")
        options.add_experimental_option(
            "prefs", {"download.default_directory": str(folder), "download.prompt_for_download": False}
        )
        if width < 500:
            metrics = {"width": width, "height": height, "pixelRatio": 1, "touch": True}
            options.add_experimental_option("mobileEmulation", {"deviceMetrics": metrics})
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self.driver = webdriver.Chrome(options=options, service=Service(DRIVER))
        self.address, self.folder = address.partition("?")[0], folder
        if token:
            self.driver.get(address)  # with the token, for the cookie

    def open(self, query=""):
        self.driver.get(self.address + ("?" + query if query else ""))
        self.rest()
        return self

    def script(self, text, *arguments):
        return self.driver.execute_script(text, *arguments)

    def find(self, selector):
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def rest(self, seconds=90):
        """Wait until the page has an answer and nothing is under way."""
        ready = (
            "const s = document.querySelector('.view:not([hidden]) .sentence');"
            "return s && s.textContent !== '' && document.querySelector('#busy').hidden"
            " && document.querySelector('#main').ariaBusy !== 'true'"
        )
        end, quiet = time.monotonic() + seconds, 0
        while time.monotonic() < end:
            quiet = quiet + 1 if self.script(ready) else 0
            if quiet >= 4:  # also the time in which a spinner would come up
                return
            time.sleep(0.1)
        pytest.fail(f"the page is still busy after {seconds} s")

    def move(self, name, position):
        """Set a slider as a hand would, and wait for the answer."""
        number = self.number
        self.script(
            "const s = document.querySelector(`[data-slides=${arguments[0]}]`); s.focus();"
            "s.value = arguments[1];"
            "s.dispatchEvent(new Event('input', {bubbles: true}));",
            name,
            position,
        )
        self.answered(number)

    def answered(self, number, seconds=60):
        end = time.monotonic() + seconds
        while time.monotonic() < end and self.number == number:
            time.sleep(0.02)
        assert self.number > number, "no answer came"
        self.rest()

    @property
    def number(self):
        text = "return Number(document.querySelector('.view:not([hidden])').dataset.number || 0)"
        return self.script(text)

    @property
    def query(self):
        return self.driver.current_url.partition("?")[2]

    @property
    def error(self):
        return self.script("const e = document.querySelector('#error'); return e.hidden ? '' : e.textContent")

    @property
    def values(self):
        cells = "[...document.querySelectorAll('.view:not([hidden]) .values tr')]"
        return dict(
            self.script(f"return {cells}.map(r => [r.cells[0].textContent, r.cells[1].dataset.number])")
        )

    @property
    def code(self):
        return self.script("return document.querySelector('.view:not([hidden]) .code').textContent")

    def complaints(self):
        """What the console says that should not be there."""
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] == "SEVERE"]

    def screenshot(self, name):
        folder = Path(os.environ.get("LBNN_SCREENSHOTS", self.folder))
        self.driver.save_screenshot(str(folder / name))


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """The command itself, in a process of its own."""
    command = [sys.executable, "-m", "lbnn.cli", "explore", "--no-browser", "--port", "0"]
    log = tmp_path_factory.mktemp("server") / "log"
    with (
        log.open("w") as sink,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=sink, text=True) as running,
    ):
        line = running.stdout.readline()
        assert line.startswith("lbnn explore: http://127.0.0.1:"), line + log.read_text()
        running.address = line.split()[2]
        yield running
        alive, said = running.poll() is None, log.read_text()
        running.terminate()  # before anything can fail: the process is waited for
        assert alive, "the server has died: " + said
        assert "Traceback" not in said, said


@pytest.fixture(scope="module")
def browsers(server, tmp_path_factory):
    made = []

    def start(**options):
        made.append(Browser(server.address, tmp_path_factory.mktemp("downloads"), **options))
        return made[-1]

    yield start
    for each in made:
        complaints = each.complaints()
        each.driver.quit()
        assert not complaints


@pytest.fixture(scope="module")
def browser(browsers):
    return browsers()


def memory_of(process) -> float:
    """Resident megabytes."""
    text = Path(f"/proc/{process.pid}/status").read_text()
    return int(text.partition("VmRSS:")[2].split()[0]) / 1024


@pytest.mark.parametrize("control", [c for c in CONTROLS if c.stops], ids=lambda control: control.name)
def test_every_slider_moves_the_answer(browser, control):
    view = control.views[0]
    browser.open(
        f"view={view}&{QUICK}&depth=3&outputs=2" if control.name == "rank" else f"view={view}&{QUICK}&depth=3"
    )
    for position in (0, len(control.stops) - 1, len(control.stops) // 2):
        browser.move(control.name, position)
        if not browser.error:
            state = State.from_address(browser.query)
            wanted = State.from_address(f"{control.name}={control.stops[position].replace('+', '%2B')}")
            assert getattr(state, control.name) == getattr(wanted, control.name)
        else:  # features of depth one
            assert control.name == "depth"
    assert not browser.complaints()


@pytest.mark.parametrize("control", [c for c in CONTROLS if c.choices], ids=lambda control: control.name)
def test_every_choice_is_taken(browser, control):
    browser.open(f"view=theories&{QUICK}&depth=2")
    for choice in reversed(control.choices):
        number = browser.number
        Select(browser.find(f"#{control.name}")).select_by_visible_text(choice)
        browser.answered(number)
        assert getattr(State.from_address(browser.query), control.name) == choice
        assert not browser.error
    assert not browser.complaints()


@pytest.mark.parametrize("preset", PRESETS, ids=lambda preset: preset.name)
def test_every_preset_opens(browser, preset):
    browser.open(QUICK)
    before = browser.number
    Select(browser.find("#preset")).select_by_visible_text(preset.name)
    end = time.monotonic() + 60
    while time.monotonic() < end and State.from_address(browser.query) != preset.state:
        time.sleep(0.1)
    browser.rest()
    assert before > 0
    assert State.from_address(browser.query) == preset.state
    assert browser.find("#story").text == preset.story
    assert browser.values
    assert not browser.error
    assert not browser.complaints()


def slowness():
    """How much slower than alone: the processes that wait for each core."""
    return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


def first_picture(browser, query, seconds=30):
    """Seconds until something is drawn after a fresh page has its socket."""
    browser.open(QUICK)
    before, began = browser.number, time.monotonic()
    browser.script(
        "const m = Bokeh.documents[0].get_model_by_name('wire');"
        "m.asked = JSON.stringify({number: 500, kind: 'state', content: arguments[0]});",
        query,
    )
    while time.monotonic() - began < seconds and not browser.script(
        "return [...document.querySelectorAll('.view')].some(v => Number(v.dataset.number) >= 500)"
    ):
        time.sleep(0.02)
    assert before < 500
    return time.monotonic() - began


SLOW = (
    "widths=1&depth=20&outputs=4&examples=200&inputs=400&beta=1e9",
    "view=theories&depth=20&widths=3&outputs=4",
    "view=features&widths=1&depth=20&outputs=4&examples=200&inputs=400&beta=1e9",
)


@pytest.mark.parametrize("query", [*SLOW, *(preset.state.address() for preset in PRESETS)])
def test_a_first_picture_within_two_seconds(browser, query):
    assert first_picture(browser, query) < 2.0 * slowness()
    assert browser.script(
        "return [...document.querySelectorAll('.view')].some(v => v.dataset.number && "
        "v.querySelector('canvas'))"
        " || document.querySelectorAll('.view .figure').length > 0"
    )


@pytest.mark.parametrize("query", SLOW[:2])
def test_a_slow_answer_is_rough_first_and_can_be_stopped(browsers, query):
    one = browsers()
    one.driver.get(one.address + "?" + query)
    assert one.find("#depth").get_attribute("value") == "20"  # at once, before any answer
    end = time.monotonic() + 20
    while time.monotonic() < end and "rough picture" not in one.script(
        "return document.querySelector('.view:not([hidden]) .messages').textContent"
    ):
        time.sleep(0.05)
    assert one.script("return document.querySelector('#cancel').offsetParent !== null")
    one.find("#cancel").click()
    one.rest()
    messages = one.script("return document.querySelector('.view:not([hidden]) .messages').textContent")
    assert "stopped: the picture is the best one so far" in messages
    assert one.open(QUICK).values  # and the server goes on
    assert one.error == ""


def test_the_guided_tour_runs_through(browser):
    from lbnn.explore.steps import STEPS

    browser.open(QUICK)
    browser.find("#guide").click()
    for number, step in enumerate(STEPS):
        end = time.monotonic() + 60
        while time.monotonic() < end and State.from_address(browser.query) != step.state:
            time.sleep(0.05)
        browser.rest()
        assert State.from_address(browser.query) == step.state
        assert browser.find("#tour-title").text == f"{number + 1} of {len(STEPS)}: {step.title}"
        assert browser.find("#tour-words").text == step.words
        pointed = browser.script(
            "return [...document.querySelectorAll('.pointed [data-field]')].map(f => f.id)"
        )
        assert pointed == [step.control]
        assert not browser.error
        if number + 1 < len(STEPS):
            browser.find("#tour-next").click()
    assert not browser.find("#tour-next").is_displayed()
    browser.find("#tour-back").click()
    assert browser.find("#tour-title").text.startswith(f"{len(STEPS) - 1} of")
    browser.find("#tour-end").click()
    assert not browser.find("#tour").is_displayed()
    browser.rest()
    assert not browser.complaints()


def test_the_network_is_drawn_as_the_controls_say(browser):
    browser.open("depth=4&widths=3,5,9&inputs=12&examples=6&outputs=2")
    assert browser.find("#network-words").text == "4 weight matrices: 12 → 3 → 5 → 9 → 2"
    assert len(browser.driver.find_elements(By.CSS_SELECTOR, "#network circle")) == 6 + 3 + 5 + 6 + 2
    browser.move("depth", 0)
    assert browser.find("#network-words").text == "1 weight matrix: 12 → 2"


def test_functions_are_drawn_with_the_scale_of_their_dot(browser):
    browser.open("view=function&depth=4&widths=5")
    drawn = browser.script(
        "const renderers = n => Bokeh.documents[0].get_model_by_name(n).renderers;"
        "const data = (n, key) => renderers(n).map(r => r.data_source.data).find(d => key in d);"
        "const c = data('band', 'scale'), d = data('law', 'colour');"
        "return [[...c.scale], [...d.x], c.colour.join() === d.colour.join()]"
    )
    assert drawn[0] == drawn[1]
    assert drawn[2]
    assert len(drawn[0]) == 8


def test_figures_that_appear_have_no_old_frame(browsers):
    """From one output to several: the outline and the axes of the ellipse are those of its frame."""
    browser = browsers().open(QUICK)
    browser.move("outputs", 1)
    time.sleep(1.0)
    boxes = browser.script(
        "const v = Bokeh.index.find_one(Bokeh.documents[0].get_model_by_name('ellipse'));"
        "const b = v.frame.bbox, w = v.canvas_view.el.getBoundingClientRect();"
        "return [b.left, b.right, b.top, b.bottom, w.width, w.height]"
    )
    left, right, top, bottom, width, height = boxes
    assert 20 < left < right <= width
    assert 0 < top < bottom < height
    marks = browser.script(  # in the first columns of pixels, where nothing has its place
        "const v = Bokeh.index.find_one(Bokeh.documents[0].get_model_by_name('ellipse'));"
        "return [...v.canvas_view.shadow_el.querySelectorAll('canvas')].map(c =>"
        " c.getContext('2d').getImageData(0, 0, 3, c.height).data"
        ".filter((a, i) => i % 4 === 3 && a > 20).length)"
    )
    assert sum(marks) == 0


@pytest.mark.parametrize("scheme", ["default", "slate"])
@pytest.mark.parametrize("width", [375, 1280])
def test_the_page_to_play_with_works_from_disk(browsers, tmp_path, width, scheme):
    """Without a server: sliders, steps, drawing; on a phone and in the dark."""
    root = Path(__file__).resolve().parents[2]
    text = (root / "docs" / "play.md").read_text()
    body = text[text.index("<div id=") : text.rindex("</script>") + 9]
    body = body.replace('src="assets/', f'src="file://{root}/docs/assets/')
    style = (root / "docs" / "assets" / "site.css").read_text()
    page = tmp_path / "play.html"
    page.write_text(
        f"<!doctype html><meta charset=utf-8><meta name=viewport content='width=device-width'>"
        f"<style>{style}</style><body data-md-color-scheme={scheme} class=md-typeset>{body}"
    )
    one = browsers(width=width, height=812, token=False)
    one.driver.get(page.as_uri())
    buttons = one.driver.find_elements(By.CSS_SELECTOR, ".play-steps button")
    sentences = set()
    for button in buttons:
        button.click()
        sentences.add(one.find("#play-sentence").text)
        assert one.find(".play-words").text
        assert one.find("label.pointed")
        assert one.script("return document.querySelectorAll('.play-law path').length") == 2
    assert len(buttons) == len(sentences) == 4
    for name in ("depth", "width", "size"):
        count = int(one.find(f"#play-{name}").get_attribute("max"))
        for place in range(count + 1):
            one.script(
                "const s = document.querySelector(arguments[0]); s.value = arguments[1];"
                "s.dispatchEvent(new Event('input'));",
                f"#play-{name}",
                place,
            )
            assert "NaN" not in one.script("return document.querySelector('#play-page').innerHTML")
    assert one.script("return document.documentElement.scrollWidth") <= width
    assert not one.complaints()


@pytest.mark.parametrize("view", ["scale", "function", "features", "theories", "learning"])
def test_copied_code_prints_the_numbers_of_the_page(browser, view, tmp_path, monkeypatch):
    browser.open(f"view={view}&{QUICK}&depth=3&variances=1,2")
    browser.find(".view:not([hidden]) [data-save=code]").click()
    monkeypatch.chdir(tmp_path)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(browser.code, "copied", "exec"), {"__name__": "__main__"})
    pairs = (line.rpartition(" = ") for line in printed.getvalue().splitlines())
    shown = {name: float(number) for name, number in browser.values.items()}
    assert {name: float(number) for name, _, number in pairs} == pytest.approx(shown, rel=1e-9)


def test_points_are_dragged_added_and_removed(browser):
    browser.open("view=function")
    start = State.from_address(browser.query).points
    place = (  # of a point on the screen
        "const m = Bokeh.documents[0].get_model_by_name('band'), v = Bokeh.index.find_one(m);"
        "const r = v.canvas_view.el.getBoundingClientRect();"
        "const f = v.frame, [x, y] = arguments;"
        "return [r.left + f.x_scale.compute(x), r.top + f.y_scale.compute(y)]"
    )
    at = browser.script(place, *start[4])
    target = browser.script(place, 0.3, -1.2)
    before, number = browser.values, browser.number
    mouse = ActionChains(browser.driver)
    mouse.w3c_actions.pointer_action.move_to_location(*map(round, at))
    mouse.w3c_actions.pointer_action.pointer_down()
    for share in (0.25, 0.5, 0.75, 1.0):
        way = [round(a + share * (b - a)) for a, b in zip(at, target, strict=True)]
        mouse.w3c_actions.pointer_action.move_to_location(*way)
        mouse.w3c_actions.pointer_action.pause(0.1)
    mouse.w3c_actions.pointer_action.pointer_up()
    mouse.perform()
    browser.answered(number)
    moved = State.from_address(browser.query).points
    assert len(moved) == len(start)
    assert moved[4] == pytest.approx((0.3, -1.2), abs=0.06)  # the axis stays while one drags
    assert moved[:4] == start[:4]
    assert browser.values != before

    number = browser.number
    x, y = map(round, browser.script(place, 3.5, 0.5))
    tap = ActionChains(browser.driver)
    tap.w3c_actions.pointer_action.move_to_location(x, y).click()
    tap.perform()
    browser.answered(number)
    added = State.from_address(browser.query).points
    assert len(added) == len(start) + 1
    assert added[-1] == pytest.approx((3.5, 0.5), abs=0.06)

    number = browser.number
    x, y = map(round, browser.script(place, *added[-1]))
    tap = ActionChains(browser.driver)
    tap.w3c_actions.pointer_action.move_to_location(x, y).click()
    tap.perform()
    ActionChains(browser.driver).send_keys(Keys.BACKSPACE).perform()
    browser.answered(number)
    assert State.from_address(browser.query).points == added[:-1]

    number = browser.number
    browser.find("#fewer").click()
    browser.answered(number)
    assert State.from_address(browser.query).points == added[:-2]
    assert not browser.complaints()


def test_a_link_restores_the_view_in_a_fresh_browser(browser, browsers):
    browser.open("view=features&depth=4&widths=6,3&layer=2&beta=inf&examples=9&inputs=20&seed=5")
    other = browsers().open(browser.query)
    assert other.query == browser.query
    assert other.values == browser.values
    shown = "return [...document.querySelectorAll('[data-field]')].map(f => f.value)"
    assert other.script(shown) == browser.script(shown)


def test_two_browsers_do_not_disturb_each_other(browser, browsers):
    other = browsers().open(f"{QUICK}&depth=7")
    browser.open(f"{QUICK}&depth=2")
    mine = other.values
    for position in range(3, 9):
        browser.move("widths", position)
    assert other.values == mine
    assert State.from_address(other.query).depth == 7
    other.move("depth", 9)
    assert State.from_address(browser.query).depth == 2


def test_bad_address_is_told_and_the_page_works(browser):
    browser.open("depth=99&evil=<script>alert(1)</script>")
    assert browser.error.startswith("the address may name view")
    assert browser.values
    browser.move("depth", 4)
    assert browser.error == ""


def test_500_hostile_addresses_leave_the_server_up(browser, server):
    """Random names with random values, sent as fast as the socket takes them."""
    rng = np.random.default_rng(0)
    names = [*(control.name for control in CONTROLS), "points", "view", "source", "x", ""]
    texts = [
        "0",
        "-1",
        "1e999",
        "nan",
        "inf",
        "💥",
        "a" * 500,
        "%3Csvg%3E",
        "",
        "7,7,7",
        "1:2",
        "../../etc/passwd",
    ]
    addresses = [
        "&".join(f"{rng.choice(names)}={rng.choice(texts)}" for _ in range(rng.integers(1, 4)))
        for _ in range(500)
    ]
    browser.open(QUICK)
    memory = memory_of(server)
    browser.script(
        "const m = Bokeh.documents[0].get_model_by_name('wire');"
        "arguments[0].forEach((content, i) =>"
        " { m.asked = JSON.stringify({number: 1000 + i, kind: 'state', content}); });",
        addresses,
    )
    time.sleep(2)
    browser.rest()
    assert browser.open(QUICK).values
    assert memory_of(server) - memory < 200
    assert not browser.complaints()


def test_ten_thousand_moves_of_one_client(browser, server):
    browser.open(QUICK)
    memory = memory_of(server)
    browser.script(
        "const m = Bokeh.documents[0].get_model_by_name('wire');"
        "for (let i = 0; i < 10000; i++) m.asked = JSON.stringify("
        "{number: 1000 + i, kind: 'state', content: `examples=8&inputs=12&seed=${i}`});"
    )
    end = time.monotonic() + 400  # some seconds on a machine that has nothing else to do
    while time.monotonic() < end and "seed=9999" not in browser.query:
        time.sleep(0.5)
    assert State.from_address(browser.query).seed == 9999
    assert memory_of(server) - memory < 200
    assert not browser.complaints()


def test_figures_and_numbers_are_saved(browser):
    browser.open(f"view=scale&{QUICK}")
    for kind, name, begin in (("svg", "lbnn-density.svg", "<svg"), ("csv", "lbnn-scale.csv", "depth,data")):
        browser.find(f".view:not([hidden]) [data-save={kind}]").click()
        end = time.monotonic() + 20
        while time.monotonic() < end and not (browser.folder / name).exists():
            time.sleep(0.1)
        time.sleep(0.2)
        assert begin in (browser.folder / name).read_text()[:200]


def test_a_picked_file_is_used(browser, tmp_path):
    file = tmp_path / "mine.csv"
    file.write_text("a,b,y\n" + "\n".join(f"{i},{i * i % 7},{i % 3}" for i in range(12)))
    browser.open(QUICK)
    number = browser.number
    browser.find("#targets").send_keys("y")
    browser.find("#file").send_keys(str(file))
    browser.answered(number)
    assert "mine.csv: 12 rows" in browser.find("#table").text
    assert State.from_address(browser.query).source == "file"
    browser.script("arguments[0].value = 'nothing'", browser.find("#targets"))
    browser.find("#file").send_keys(str(file))
    end = time.monotonic() + 20
    while time.monotonic() < end and not browser.error:
        time.sleep(0.1)
    assert "has no column nothing" in browser.error


def test_the_map_is_refined_by_a_tap(browser):
    browser.open(f"view=theories&{QUICK}&depth=2")
    count = "return Bokeh.documents[0].get_model_by_name('phase').renderers[1].data_source.data.alpha.length"
    assert browser.script(count) == 0
    place = (
        "const v = Bokeh.index.find_one(Bokeh.documents[0].get_model_by_name('phase'));"
        "v.canvas_view.el.scrollIntoView({block: 'center'});"
        "const r = v.canvas_view.el.getBoundingClientRect();"
        "return [r.left + v.frame.x_scale.compute(1), r.top + v.frame.y_scale.compute(0.5)].map(Math.round)"
    )
    tap = ActionChains(browser.driver)
    tap.w3c_actions.pointer_action.move_to_location(*browser.script(place)).click()
    tap.perform()
    end = time.monotonic() + 60
    while time.monotonic() < end and not browser.script(count):
        time.sleep(0.2)
    assert browser.script(count) >= 4


def test_keyboard_alone_suffices(browser):
    browser.open(QUICK)
    browser.script("document.querySelector('#tab-scale').focus()")
    number = browser.number
    ActionChains(browser.driver).send_keys(Keys.ARROW_RIGHT).perform()
    browser.rest()
    assert State.from_address(browser.query).view == "function"
    browser.script("document.querySelector('[data-slides=depth]').focus()")
    number = browser.number
    ActionChains(browser.driver).send_keys(Keys.ARROW_RIGHT).perform()
    browser.answered(number)
    assert State.from_address(browser.query).depth == 4
    number = browser.number
    field = browser.find("#widths")
    field.send_keys(Keys.CONTROL + "a")
    field.send_keys("7,3" + Keys.ENTER)
    browser.answered(number)
    assert State.from_address(browser.query).widths == (7, 3)
    field.clear()  # an empty field is told, and not taken for the default
    end = time.monotonic() + 20
    while time.monotonic() < end and not browser.error:
        time.sleep(0.1)
    assert browser.error.startswith("widths must be numbers")


def test_names_for_screen_readers(browser):
    browser.open(QUICK)
    nameless = browser.script(
        "const all = 'input:not([type=hidden]), select, button, [role=img]';"
        "const named = n => (n.labels && n.labels.length) || n.ariaLabel || n.textContent.trim();"
        "return [...document.querySelectorAll(all)].filter(n => !named(n)).map(n => n.outerHTML.slice(0, 90))"
    )
    assert not nameless
    assert browser.script("return document.documentElement.lang") == "en"
    assert browser.script("return document.querySelectorAll('[role=tab][aria-selected=true]').length") == 1


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [375, 1280])
def test_fits_the_screen_and_can_be_read(browsers, width, scheme):
    one = browsers(width=width, height=812 if width < 500 else 950, scheme=scheme)
    for view in ("scale", "function", "features", "theories"):
        one.open(f"view={view}&{QUICK}&depth=3")
        assert one.script("return document.documentElement.scrollWidth") <= width
        faint = one.script(CONTRAST)
        assert not faint
        ground = one.script("return getComputedStyle(document.body).backgroundColor")
        assert (sum(map(int, ground.strip("rgb() ").split(","))) < 384) == (scheme == "dark")
        one.screenshot(f"explore-{view}-{width}-{scheme}.png")
        assert one.script("return document.querySelectorAll('.view:not([hidden]) math').length") == 1
    asked = one.script("return performance.getEntriesByType('resource').map(e => e.name)")
    assert all(each.startswith(one.address) for each in asked)
    assert not one.complaints()


CONTRAST = """
const channel = v => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
const luminance = c => 0.2126 * channel(c[0]) + 0.7152 * channel(c[1]) + 0.0722 * channel(c[2]);
const rgb = text => text.match(/[\\d.]+/g).map(Number);
const ground = node => { for (; node; node = node.parentElement) {
  const c = rgb(getComputedStyle(node).backgroundColor); if (c.length < 4 || c[3] > 0) return c; } };
const words = 'p, label, small, th, td, button, summary, caption, li, legend, math, h1';
return [...document.querySelectorAll(words)]
  .filter(n => n.offsetParent && n.textContent.trim()).filter(n => {
    const [a, b] = [rgb(getComputedStyle(n).color), ground(n)].map(luminance);
    return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05) < 4.5; }).map(n => n.outerHTML.slice(0, 80));
"""


# what a page of a stranger can try, in his own name that now leads to this machine
ATTACK = """
const [port, pageToken, done] = arguments;
const own = `${location.hostname}:${location.port}`, out = {};
const read = async address => { try { const a = await fetch(address, {credentials: 'include'});
  return [a.status, (await a.text()).includes('token":')]; } catch { return 'blocked'; } };
const socket = (address, token) => new Promise(resolve => { try {
  const s = new WebSocket(address, ['bokeh', token]);
  s.onopen = () => resolve('open'); s.onerror = () => resolve('refused'); } catch { resolve('blocked'); } });
(async () => {
  out.page = await read(`http://${own}/`);
  out.other = await read(`http://127.0.0.1:${port}/`);
  out.socket = await socket(`ws://${own}/ws`, pageToken);
  out.otherSocket = await socket(`ws://127.0.0.1:${port}/ws`, pageToken);
  out.framed = await new Promise(resolve => { const f = document.createElement('iframe');
    f.src = `http://${own}/`; f.onload = () => { let t = ''; try { t = f.contentDocument.body.textContent; }
    catch {}
      resolve(t.includes('token":')); }; document.body.append(f); });
  done(out);
})();
"""


def test_a_stranger_s_page_cannot_drive_the_server(server, browsers):
    """DNS rebinding in Chromium: the stranger's name leads to this server, in a browser that has its
    cookie."""
    victim = browsers().open(QUICK)
    page_token = victim.script('return document.documentElement.innerHTML.match(/"token":"([^"]+)/)[1]')
    port = server.address.partition("?")[0].rstrip("/").rpartition(":")[2]
    victim.driver.get(f"http://evil.example:{port}/")
    assert "the address must be one of" in victim.script("return document.body.textContent")
    found = victim.driver.execute_async_script(ATTACK, port, page_token)
    assert found["page"] == [403, False]
    assert found["other"] == "blocked"
    assert found["socket"] == found["otherSocket"] == "refused"
    assert found["framed"] is False
    victim.driver.get_log("browser")  # the refusals
    assert victim.open(QUICK).values  # and the victim's own page works as before


def test_a_browser_without_the_token_is_told(browsers):
    one = browsers(token=False)
    one.driver.get(one.address)
    assert "which ends in a token" in one.script("return document.body.textContent")
    one.driver.get_log("browser")


def test_server_is_reached_from_this_machine_only(server):
    port = server.address.partition("?")[0].rstrip("/").rpartition(":")[2]
    listening = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    ours = [each for each in listening if each[1].endswith(f":{int(port):04X}") and each[3] == "0A"]
    assert {each[1].partition(":")[0] for each in ours} == {"0100007F"}
