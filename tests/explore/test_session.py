"""One browser's session, called directly: answers, errors, the newest wins; and the server around it."""

from __future__ import annotations

import gc
import json
import re
import resource
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from bokeh.core.property.vectorization import Value

from lbnn.explore.presets import PRESETS
from lbnn.explore.state import State

pytest.importorskip("bokeh")

from bokeh.document import Document

from lbnn.cli.explore import read_picked
from lbnn.explore import session as session_module
from lbnn.explore.document import Pages, page_variables
from lbnn.explore.numbers.theories import Errors, TheoryNumbers, closest_of, slope_of
from lbnn.explore.server import BusyPortError, address_of, free_port, make_server
from lbnn.explore.wire import LARGEST_FILE, read_request

QUICK = "examples=6&inputs=8&widths=5"


class Page:
    """A session with a document but without a browser: callbacks are run when `settle` is called."""

    def __init__(self, pages: Pages) -> None:
        self.document = Document()
        pages(self.document)
        self.session = pages.open[-1]
        self.waiting: list = []
        self.lock = threading.Lock()
        self.session.later = self.later
        self.answers: list[dict] = []
        self.session.wire.on_change("answered", lambda _, __, new: self.answers.append(json.loads(new)))
        self.number = 0

    def later(self, function):
        with self.lock:
            self.waiting.append(function)

    def send(self, kind, content):
        self.number += 1
        self.session.receive(json.dumps({"number": self.number, "kind": kind, "content": content}))

    def settle(self, seconds=60.0):
        """Run callbacks until no one is at work."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            with self.lock:
                ready, self.waiting = self.waiting, []
            for function in ready:
                function()
            if not ready and not self.session._started and not self.waiting:
                return
            time.sleep(0.002)
        pytest.fail("the session did not come to rest")

    def ask(self, query):
        before = len(self.answers)
        self.send("state", query)
        self.settle()
        return self.answers[before:]


@pytest.fixture
def pages():
    with ThreadPoolExecutor(4) as pool:
        yield Pages(pool, reader=read_picked)


@pytest.fixture(scope="module")
def one_page():
    """A page that several tests write to: making one takes half a second."""
    with ThreadPoolExecutor(4) as pool:
        yield Page(Pages(pool, reader=read_picked))


@pytest.fixture
def page(pages):
    return Page(pages)


@pytest.mark.parametrize(
    "view", ["scale", "function", "features", "theories", pytest.param("learning", marks=pytest.mark.slow)]
)
def test_every_view_answers_and_draws(one_page, view):
    page = one_page
    answers = page.ask(f"view={view}&{QUICK}")
    assert answers[-1]["done"]
    shown = answers[-2]
    assert shown["fields"]["view"] == view
    assert shown["values"]
    assert shown["sentence"]
    assert "import lbnn" in shown["code"]
    assert State.from_address(shown["query"]).view == view
    assert not [answer for answer in answers if "error" in answer]


def test_the_legend_of_the_theories_names_them_and_their_slopes(page):
    """Bokeh takes a string for the name of a column, and writes "Invalid field" where there is none."""
    page.ask("view=theories&examples=8&inputs=12&widths=16&depth=2")
    view = page.session.views["theories"]
    labels = [item.label for item in view.errors.legend[0].items]
    assert all(isinstance(label, Value) for label in labels)
    assert any("slope −" in label.value for label in labels)
    assert len(view.errors.yaxis[0].axis_label) < 20  # longer ones are cut off


def test_widths_beyond_the_depth_are_named(page):
    *_, shown, _ = page.ask("view=scale&examples=6&depth=3&widths=20,10,5,7")
    assert shown["messages"][0] == "widths 5, 7 are not used: depth 3 has 2 hidden layers"
    *_, shown, _ = page.ask("view=scale&examples=6&depth=3&widths=20,10")
    assert not shown["messages"]


def test_figures_hold_the_numbers(page):
    page.ask(QUICK)
    curves = page.session.views["scale"]._curves.data
    _, numbers = page.session.shown["scale"]
    assert len(curves["x"]) == len(numbers.curves) == 8
    assert curves["width"][-1] < curves["width"][-2] == 3.0  # the network of the controls is drawn last
    page.ask(QUICK + "&outputs=2")
    view = page.session.views["scale"]
    assert (view.density.visible, view.ellipse.visible) == (False, True)
    page.ask("view=features&" + QUICK)
    image = page.session.views["features"]._sources["gram"].data["image"][0]
    assert image.dtype == np.uint8
    assert image.shape == (6, 6)
    page.ask("view=function&points=0:1,1:2")
    bands = page.session.views["function"]._bands.data
    assert (bands["network q5"] <= bands["network q95"]).all()


def test_bad_state_is_told_and_the_page_goes_on(page):
    (answer,) = page.ask("depth=99")
    assert answer["error"] == "depth must be from 1 to 20, got 99"
    assert page.ask(QUICK)[-1]["done"]


def test_a_rule_of_the_library_is_told(page):
    answers = page.ask("view=function&beta=inf&points=0:1,0:2")
    assert "error" in answers[-1]
    assert page.ask("view=features&depth=1")[-1]["error"].startswith("features need a hidden layer")


def test_an_unforeseen_failure_is_told_and_the_page_goes_on(page, monkeypatch, caplog):
    def broken(state, table):
        raise RuntimeError("secret path")
        yield

    monkeypatch.setitem(session_module.NUMBERS, "scale", broken)
    (answer,) = page.ask(QUICK)
    assert "could not be computed" in answer["error"]
    assert "secret" not in answer["error"]
    assert "secret" in caplog.text
    monkeypatch.undo()
    assert page.ask(QUICK)[-1]["done"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no json",
        "[]",
        "{}",
        '{"number": 1, "kind": "state"}',
        '{"number": 1, "kind": "eval", "content": "1"}',
        '{"number": 1, "kind": "state", "content": 5}',
        '{"number": true, "kind": "state", "content": ""}',
        '{"number": 1, "kind": "refine", "content": ["a", "b"]}',
        '{"number": 1, "kind": "refine", "content": [1e9, 1]}',
        '{"number": 1, "kind": "csv", "content": "../etc"}',
        '{"number": 1, "kind": "scheme", "content": "pink"}',
        "[" * 100_000,
    ],
)
def test_messages_that_no_page_sends(one_page, text):
    page = one_page
    page.session.receive(text)
    page.settle()
    assert "error" in page.answers[-1]


def test_requests_are_read():
    request = read_request('{"number": 3, "kind": "state", "content": "depth=2"}')
    assert (request.number, request.kind, request.content) == (3, "state", "depth=2")


def test_ten_thousand_moves_end_at_the_last_and_stay_small(page):
    page.ask(QUICK)
    gc.collect()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.monotonic()
    for move in range(10_000):
        page.send("state", f"{QUICK}&seed={move}")
        if move % 100 == 0:  # the loop of the server turns now and then
            with page.lock:
                ready, page.waiting = page.waiting, []
            for function in ready:
                function()
    page.settle()
    shown = [answer for answer in page.answers if "query" in answer]
    assert State.from_address(shown[-1]["query"]).seed == 9999
    assert [answer["number"] for answer in shown] == sorted(answer["number"] for answer in shown)
    assert len(shown) < 2000
    assert time.monotonic() - started < 60
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # kilobytes


def test_a_slow_request_does_not_keep_a_newer_one_waiting(page, monkeypatch):
    free = threading.Event()
    real = session_module.NUMBERS["scale"]

    def slow(state, table):
        if state.seed == 1:
            free.wait(20)
        yield from real(state, table)

    monkeypatch.setitem(session_module.NUMBERS, "scale", slow)
    page.send("state", f"{QUICK}&seed=1")
    time.sleep(0.4)
    page.send("state", f"{QUICK}&seed=2")
    end = time.monotonic() + 15
    while not page.answers and time.monotonic() < end:
        with page.lock:
            ready, page.waiting = page.waiting, []
        for function in ready:
            function()
        time.sleep(0.01)
    assert page.answers[0]["fields"]["seed"] == "2"
    free.set()
    page.settle()
    seeds = [answer["fields"]["seed"] for answer in page.answers if "fields" in answer]
    assert seeds == ["2"]  # the older answer came later and is not shown


def test_two_pages_do_not_disturb_each_other(pages):
    one, two = Page(pages), Page(pages)
    one.send("state", f"{QUICK}&seed=1")
    two.send("state", f"{QUICK}&seed=2&depth=5")
    one.settle()
    two.settle()
    assert one.session.shown["scale"][0].seed == 1
    assert two.session.shown["scale"][0].seed == 2
    assert len(one.session.views["scale"]._curves.data["x"]) == 8


def test_numbers_are_delivered_as_a_file(page):
    page.ask(QUICK)
    page.send("csv", "scale")
    delivered = json.loads(page.session.wire.delivered)
    assert delivered["name"] == "lbnn-scale.csv"
    assert delivered["text"].startswith("depth,data,scale,density of log scale\n")


def test_the_map_is_refined_where_one_taps(page):
    page.send("refine", [0.3, 0.5])
    page.settle()
    assert page.answers[-1]["refined"] > 0
    assert len(page.session.views["theories"]._finer.data["alpha"]) == page.answers[-1]["refined"]


def test_scheme_repaints(page):
    page.send("scheme", "dark")
    figure = page.session.views["scale"].density
    assert figure.xaxis[0].axis_label_text_color == "#e6e9ee"
    assert figure.background_fill_color is None


# ---------------------------------------------------------------------- answers that take long

SLOW = "widths=1&depth=20&outputs=4&examples=200&inputs=400&beta=1e9"  # 50 seconds of processor time


def watched(page, query, seconds, then=lambda page: None):
    """Seconds until the first picture and until the end, while the loop of the server turns."""
    began, first = time.monotonic(), None
    page.send("state", query)
    while time.monotonic() - began < seconds:
        with page.lock:
            ready, page.waiting = page.waiting, []
        for function in ready:
            function()
        if first is None and any("query" in answer for answer in page.answers):
            first = time.monotonic() - began
            then(page)
        if any("done" in answer for answer in page.answers):
            return first, time.monotonic() - began
        time.sleep(0.005)
    pytest.fail("the session did not come to rest")


@pytest.fixture(scope="module")
def warm_pages():
    with ThreadPoolExecutor(4) as pool:
        pages = Pages(pool, reader=read_picked)
        pages.workers.warm()
        yield pages
        pages.workers.close()


@pytest.mark.parametrize(
    "view", ["scale", *(pytest.param(view, marks=pytest.mark.slow) for view in ("features", "theories"))]
)
def test_a_slow_answer_has_a_rough_picture_at_once_and_can_be_stopped(warm_pages, view):
    page = Page(warm_pages)
    assert warm_pages.workers.warm() is None
    first, end = watched(page, f"view={view}&{SLOW}", 60, lambda page: page.send("cancel", ""))
    assert first < 2.0 * slowness()
    assert end < 4.0 * slowness()
    shown = next(answer for answer in page.answers if "query" in answer)
    assert any("rough picture" in message for message in shown["messages"])
    assert page.answers[-1]["stopped"] == "stopped"
    assert all(value["text"].startswith("about") for value in shown["values"] if "E L" in value["name"])
    assert page.ask(QUICK)[-1]["done"]  # and the page goes on


@pytest.mark.slow
def test_no_answer_takes_longer_than_its_budget(warm_pages, monkeypatch):
    monkeypatch.setattr("lbnn.explore.workers.BUDGET", 1.5)
    page = Page(warm_pages)
    _, end = watched(page, SLOW, 60)
    assert end < 1.5 + 2.0 * slowness()
    assert page.answers[-1]["stopped"].startswith("stopped after 1.5 seconds, the budget of an answer")
    monkeypatch.undo()
    assert page.ask(QUICK + "&outputs=2")[-1] == {"number": 2, "done": True}  # a fresh process


def slowness():
    """How much slower this machine is just now than when it has nothing else to do: threads share the "
    "cores."""
    start, own = time.perf_counter(), time.process_time()
    sum(number * number for number in range(300_000))
    return max(1.0, (time.perf_counter() - start) / max(time.process_time() - own, 1e-3)) * 1.5


def test_a_quick_answer_of_several_outputs_is_not_shown_twice(warm_pages):
    page = Page(warm_pages)
    page.ask(QUICK + "&outputs=2")
    page.answers.clear()
    answers = page.ask(QUICK + "&outputs=2&seed=3")
    assert [list(answer)[1] for answer in answers][-1] == "done"
    assert not any("rough" in str(answer.get("messages")) for answer in answers)


def test_a_rule_that_a_process_finds_broken_is_told(warm_pages):
    page = Page(warm_pages)
    (answer,) = page.ask("view=theories&depth=1&outputs=2")
    assert answer["error"].startswith("theories are compared at depth 2 or more")
    assert page.ask(QUICK + "&outputs=2")[-1]["done"]


def test_a_process_that_dies_is_replaced(warm_pages, monkeypatch):
    from lbnn.explore import workers

    real = workers.Worker.ask

    def fatal(self, state, table):
        real(self, state, table)
        self.process.kill()
        self.process.join()

    page = Page(warm_pages)
    monkeypatch.setattr(workers.Worker, "ask", fatal)
    assert "has ended" in page.ask(QUICK + "&outputs=2&seed=9")[-1]["stopped"]
    monkeypatch.undo()
    assert page.ask(QUICK + "&outputs=2&seed=9")[-1] == {"number": 2, "done": True}


# ---------------------------------------------------------------------- words


def test_theories_that_noise_does_not_tell_apart_are_a_tie():
    rows = (
        ("many outputs", 0.1140, 0.0073),
        ("proportional", 0.1022, 0.0073),
        ("infinite width", 0.2, 0.0073),
    )
    assert [name for name, _, _ in closest_of(rows)] == ["proportional", "many outputs"]
    state = State(view="theories", outputs=4)
    here = Errors(8, rows, (), ())
    sentence = TheoryNumbers(state, here, (here,), 1.0, 1.0, 0.1).sentence
    assert "does not distinguish between “proportional” (0.1022), “many outputs” (0.114)" in sentence
    assert [name for name, _, _ in closest_of([("a", 0.1, 0.0), ("b", 0.1001, 0.0)])] == ["a"]


def test_slopes_of_errors():
    sizes = [Errors(n, (("a", 3.0 / n**2, 0.0), ("b", 1.0, 5.0)), (), ()) for n in (10, 20, 40, 80)]
    assert slope_of("a", sizes) == pytest.approx(-2)
    assert slope_of("b", sizes) is None  # noise


def test_a_scale_that_does_not_move_is_said_so(one_page):
    answers = one_page.ask("widths=1000&depth=2&beta=0")
    sentence = next(answer["sentence"] for answer in answers if "sentence" in answer)
    assert sentence.startswith("The data leave the mean of λ at 1.")


def test_copied_code_imports_what_it_uses(one_page):
    for view in ("scale", "function", "features"):
        for beta in ("4", "inf"):
            answers = one_page.ask(f"view={view}&{QUICK}&beta={beta}&noise=0.1")
            lines = next(answer["code"] for answer in answers if "code" in answer)
            assert ("import math" in lines) == ("math." in lines)


# ---------------------------------------------------------------------- files


CSV = "a,b,y\n" + "\n".join(f"{i},{i * i % 7},{i % 3}" for i in range(12))


def test_a_picked_file_is_used(page):
    page.send("file", {"name": "C:\\\\x/mine.csv", "text": CSV, "targets": "y"})
    page.settle()
    assert page.answers[-1]["table"] == "mine.csv: 12 rows, 2 features, targets y"
    answers = page.ask("source=file")
    assert "mine.csv" in answers[-2]["code"]


@pytest.mark.parametrize(
    ("text", "targets", "message"),
    [
        (CSV, "", "name the target columns"),
        (CSV, "z", "has no column z"),
        ("", "y", "mine.csv"),
        ("\x00\x01\x02", "y", "mine.csv"),
        ("y\n1\n2\n", "y", "at least one feature"),
        ("a,y\n1,2\n1,3,4\n", "y", "one field for each column"),
        ("a,y\n1,x\n2,3\n", "y", "y is 'x' in line 2"),
        ("a,y\n1,\n2,3\n", "y", "missing or infinite value: y in line 2"),
        ("a,y\n1,1e999\n2,3\n", "y", "missing or infinite value: y in line 2"),
        ("a,y\n1,1\n1,2\n", "y", "constant column"),
        ("a,a,y\n1,1,2\n2,1,3\n", "y", "distinct"),
        ("a,y\n" + "1,2\n" * (LARGEST_FILE // 4 + 10), "y", "characters"),
        ("a,b,c,d,e,x\n1,2,3,4,5,6\n2,1,4,3,6,5\n", "a,b,c,d,e", "targets must be 1 to 4"),
    ],
)
def test_absurd_files(one_page, text, targets, message):
    page = one_page
    page.send("file", {"name": "mine.csv", "text": text, "targets": targets})
    page.settle()
    assert message in page.answers[-1]["error"]
    assert "/tmp" not in page.answers[-1]["error"]
    assert page.session.table is None


def test_a_server_without_a_reader_takes_no_files():
    with ThreadPoolExecutor(1) as pool:
        page = Page(Pages(pool))
        page.send("file", {"name": "a.csv", "text": CSV, "targets": "y"})
        assert "takes no files" in page.answers[-1]["error"]


# ---------------------------------------------------------------------- the page and the server


def test_page_is_whole_and_asks_for_nothing_from_elsewhere():
    with ThreadPoolExecutor(1) as pool:
        shown = Pages(pool).html("mine")
    assert '"token":"mine"' in shown
    assert "<math" in shown
    assert all(preset.name in shown for preset in PRESETS)
    assert not re.findall(r"""(?:src|href|url)\s*[=(]\s*["']?(https?://[^"')]+)""", shown)
    assert 'src="/static/js/bokeh.min.js' in shown
    for name in ("depth", "beta", "seed"):
        assert f'for="{name}"' in shown


def test_too_many_pages_are_turned_away(pages):
    made = Page(pages)
    assert "pages are open" not in pages.html("")
    pages.open *= 40
    assert "pages are open" in pages.html("")
    assert made


def test_a_closed_page_is_forgotten(pages):
    page = Page(pages)
    pages._close(page.session)
    assert not pages.open
    page.send("state", QUICK)  # a message that was on its way
    page.settle()
    assert not page.answers


def test_busy_port_is_told():
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(BusyPortError, match=rf"port {port} of 127[.]0[.]0[.]1 is taken.*--port 0"):
            make_server(port=port)
    assert free_port("127.0.0.1", 0) > 0
    with pytest.raises(OSError, match=r"cannot listen at 203\.0\.113\.7"):
        free_port("203.0.113.7", 0)


def test_server_listens_on_this_machine_only(recwarn):
    server = make_server(port=0)
    try:
        assert address_of(server) == f"http://127.0.0.1:{server.port}/?token={server.guard.token}"
        names = {each.getsockname()[0] for each in server._http._sockets.values()}
        assert names == {"127.0.0.1"}
    finally:
        server.stop()
        server.unlisten()


# ---------------------------------------------------------------------- the command


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["data.csv"], "data and --targets belong together"),
        (["--targets", "y"], "data and --targets belong together"),
        (["none.csv", "--targets", "y"], "must be a file that exists"),
        (["data.csv", "--targets", "z"], "has no column z"),
        (["--host", "203.0.113.7", "--port", "0"], "cannot listen at 203.0.113.7"),
    ],
)
def test_command_tells_what_is_wrong(arguments, message, tmp_path, monkeypatch):
    from typer.testing import CliRunner

    from lbnn.cli.app import app

    monkeypatch.chdir(tmp_path)
    (tmp_path / "data.csv").write_text(CSV)
    result = CliRunner().invoke(app, ["explore", "--no-browser", *arguments])
    assert result.exit_code in (1, 2)
    assert message in result.output
    assert "Traceback" not in result.output


def test_command_prepares_columns_as_the_others_do(tmp_path, monkeypatch):
    """--id, --categorical and --missing, a file with units, and the lines of Python that do the same."""
    from typer.testing import CliRunner

    from lbnn.cli.app import app
    from lbnn.explore import server as server_module

    rng = np.random.default_rng(0)
    kinds = rng.choice(["red", "blue", "green"], size=20)
    rows = [f"P{i},{rng.normal():.4f},{'' if i == 3 else f'{rng.normal():.4f}'},{kind},{rng.normal():.4f}"
            for i, kind in enumerate(kinds)]  # fmt: skip
    rows[6] = rows[6].replace(rows[6].split(",")[1], "n.a.")
    text = "\n".join(["who,a,b,kind,y", ",mg,%,,g", *rows, ",,,,"])
    (tmp_path / "data.csv").write_text(text.replace(",", ";").replace(".", ",").replace("n,a,", "n.a."))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(server_module, "serve", lambda made, ready: None)
    common = ["explore", "data.csv", "-t", "y", "--no-browser", "--id", "who", "--categorical", "kind"]
    assert "--missing" in CliRunner().invoke(app, common).output
    for missing in ("drop", "median"):
        served = {}
        monkeypatch.setattr(server_module, "make_server", lambda *given: served.update(table=given[2]))  # noqa: B023
        result = CliRunner().invoke(app, [*common, "--missing", missing])
        assert result.exit_code == 0, result.output
        table = served["table"]
        assert table.features == ("a", "b", "kind=green", "kind=red")
        with ThreadPoolExecutor(1) as pool:
            page = Page(Pages(pool, table))
            answers = page.ask(f"source=file&depth=2&widths=4&examples={len(table.X)}")
        shown = next(answer for answer in answers if "code" in answer)
        found = {}
        exec(shown["code"].partition("lbnn.plots.scale_density")[0], found)
        np.testing.assert_allclose(found["X"], table.X, atol=1e-12)
        np.testing.assert_allclose(found["Y"], table.Y[:, 0], atol=1e-12)


def test_command_serves_the_named_file(tmp_path, monkeypatch):
    from typer.testing import CliRunner

    from lbnn.cli.app import app
    from lbnn.explore import server as server_module

    (tmp_path / "data.csv").write_text(CSV)
    served = {}
    monkeypatch.setattr(server_module, "make_server", lambda *given: served.update(given=given))
    monkeypatch.setattr(server_module, "serve", lambda made, ready: ready("http://127.0.0.1:1/"))
    result = CliRunner().invoke(app, ["explore", str(tmp_path / "data.csv"), "-t", "y", "--no-browser"])
    assert result.exit_code == 0, result.output
    assert "lbnn explore: http://127.0.0.1:1/" in result.output
    host, port, table, reader = served["given"]
    assert (host, port, reader) == ("127.0.0.1", 5007, read_picked)
    assert table.targets == ("y",)
    assert page_variables(table)["start"] == "source=file"
