"""`lbnn explore` in real Chromium, driven by Selenium: `make test-browser`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time

import pytest

if not os.environ.get("LBNN_BROWSER"):  # one line for all of them
    pytest.skip("lbnn explore in a browser: `make test-browser` runs it", allow_module_level=True)

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains

from lbnn.explore.state import State

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
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
PHONE, DESKTOP = (390, 844), (1280, 950)
#: All text of the page, that within Bokeh's widgets too.
TEXT = (
    "const all = node => [...node.querySelectorAll('*')].flatMap(each => each.shadowRoot ?"
    " [...each.shadowRoot.querySelectorAll('p, td, th'), ...all(each.shadowRoot)] : []);"
    "return all(document).map(each => each.textContent).join('\\n')"
)
MODEL = "const model = Bokeh.documents[0].get_model_by_name(arguments[0]);"


class Browser:
    """Chromium at one address."""

    def __init__(self, address, size):
        self.address = address
        options = webdriver.ChromeOptions()
        options.binary_location = CHROMIUM
        for flag in (*FLAGS, f"--window-size={size[0]},{size[1]}"):
            options.add_argument(flag)
        if size == PHONE:
            metrics = {"width": size[0], "height": size[1], "pixelRatio": 1, "touch": True}
            options.add_experimental_option("mobileEmulation", {"deviceMetrics": metrics})
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self.driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))

    def open(self, query=""):
        self.driver.get(self.address + ("?" + query if query else ""))
        self.wait(lambda: self.script("return !!window.Bokeh && Bokeh.documents.length > 0"))
        self.rest()
        return self

    def script(self, text, *arguments):
        return self.driver.execute_script(text, *arguments)

    def wait(self, true, seconds=60):
        end = time.monotonic() + seconds
        while not true():
            assert time.monotonic() < end, "the page did not get there: " + self.text
            time.sleep(0.1)

    def rest(self):
        """Wait until there is an answer or an error, and nothing changes any more."""
        before, quiet = "", 0
        end = time.monotonic() + 60
        while quiet < 6:
            assert time.monotonic() < end, "the page is still busy: " + self.text
            now = self.text
            done = "computing" not in now and now.strip() != ""
            quiet = quiet + 1 if done and now == before else 0
            before = now
            time.sleep(0.1)

    @property
    def text(self):
        return self.script(TEXT)

    @property
    def state(self):
        return State.from_address(self.driver.current_url.partition("?")[2])

    def set(self, name, value):
        """What a hand does with a slider or a field, through Bokeh's model of it."""
        self.script(MODEL + "model.value = arguments[1]", name, value)
        time.sleep(0.2)
        self.rest()


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """The command itself, in a process of its own."""
    command = [sys.executable, "-m", "lbnn.cli", "explore", "--no-browser", "--port", "0"]
    log = tmp_path_factory.mktemp("server") / "log"
    with (
        log.open("w") as sink,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=sink, text=True) as running,
    ):
        running.address = running.stdout.readline().split()[2]
        yield running
        alive, said = running.poll() is None, log.read_text()
        running.terminate()  # before anything can fail: the process is waited for
        assert alive, "the server has died: " + said
        assert "Traceback" not in said, said


@pytest.fixture(scope="module", params=[DESKTOP, PHONE], ids=["desktop", "phone"])
def browser(server, request):
    made = Browser(server.address, request.param)
    yield made
    severe = [each["message"] for each in made.driver.get_log("browser") if each["level"] == "SEVERE"]
    made.driver.quit()
    assert not [message for message in severe if "evil.example" not in message]  # that one is refused


@pytest.mark.parametrize(
    "query",
    [QUICK, QUICK + "&outputs=2", "view=function&depth=4", "view=theories&depth=2&examples=8&inputs=12"],
)
def test_every_picture_fits_the_screen_and_its_address_restores_it(browser, query):
    browser.open(query)
    assert browser.state == State.from_address(query)
    assert "log evidence" in browser.text or "change of the kernel" in browser.text
    width, page = browser.script("return [innerWidth, document.documentElement.scrollWidth]")
    assert page <= width + 1
    folder = os.environ.get("LBNN_SCREENSHOTS")
    if folder:
        browser.driver.save_screenshot(f"{folder}/{browser.state.view}{browser.state.outputs}-{width}.png")


def test_sliders_and_fields_move_the_answer_and_the_address(browser):
    browser.open(QUICK)
    before = browser.text
    browser.set("depth slider", 5)
    assert browser.state.depth == 6
    assert browser.text != before
    browser.set("widths", "7,3")
    assert browser.state.widths == (7, 3)
    browser.set("depth", "99")
    assert "depth must be from 1 to 20, got 99" in browser.text


def test_a_hostile_address_is_text(browser):
    browser.open("view=<img src=x onerror=document.title='taken'>")
    assert "<img src=x" in browser.text
    assert browser.driver.title == "lbnn explore"


def test_a_point_can_be_dragged(browser):
    browser.open("view=function&depth=3&points=0:0,2:1,-2:0.3")
    view = "const view = Bokeh.index.find_one(Bokeh.documents[0].get_model_by_name('band'));"
    canvas = browser.script(view + "return view.canvas_view.el")
    x, y, width, height = browser.script(
        view + "const box = arguments[0].getBoundingClientRect();"
        "return [view.frame.x_scale.compute(0), view.frame.y_scale.compute(0), box.width, box.height]",
        canvas,
    )
    hand = ActionChains(browser.driver)
    hand.move_to_element_with_offset(canvas, round(x - width / 2), round(y - height / 2)).click_and_hold()
    hand.move_by_offset(0, -30).move_by_offset(0, -10).release().perform()
    browser.wait(lambda: browser.state.points[0][1] > 0.05)


def test_a_name_that_leads_here_is_refused(browser):
    browser.driver.get(browser.address.replace("127.0.0.1", "evil.example"))
    assert "the address must be one of" in browser.driver.page_source
