"""Who is answered by `lbnn explore`: forged requests against the command itself, in a process of its own."""

from __future__ import annotations

import base64
import http.client
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest

pytest.importorskip("bokeh")

from lbnn.explore.guard import Guard, RefusedError, names_of

SECRET = "secret-column"


class Running:
    """The command, its address and what it has written."""

    def __init__(self, process, address, log):
        self.process, self.log = process, log
        parts = urlsplit(address)
        self.port, self.token = parts.port, parts.query.removeprefix("token=")
        self.own = f"127.0.0.1:{self.port}"

    def ask(self, path="/", method="GET", **headers):
        """Status, headers and text of a request; a Host among the headers replaces the true one."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.putrequest(method, path, skip_host="Host" in named)
        for name, value in named.items():
            connection.putheader(name, value)
        connection.endheaders()
        answer = connection.getresponse()
        text = answer.read().decode("utf-8", "replace") if answer.status != 101 else ""
        connection.close()
        return answer.status, dict(answer.getheaders()), text

    def cookie(self):
        status, headers, _ = self.ask(f"/?token={self.token}")
        assert status == 303
        return headers["Set-Cookie"].partition(";")[0]

    def socket(self, **headers):
        """Status of an attempt to open the socket."""
        upgrade = {
            "Upgrade": "websocket",
            "Connection": "Upgrade",
            "Sec_WebSocket_Version": "13",
            "Sec_WebSocket_Key": base64.b64encode(bytes(16)).decode(),
        }
        return self.ask("/ws", **upgrade, **headers)[0]

    def session_token(self, cookie):
        page = self.ask("/", Cookie=cookie)[2]
        return re.search(r'"token":"([^"]+)"', page)[1]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("explore")
    rows = "\n".join(f"{i},{i * i % 7}" for i in range(12))
    (folder / "data.csv").write_text(f"{SECRET},y\n{rows}")
    command = [sys.executable, "-m", "lbnn.cli", "explore", str(folder / "data.csv"), "-t", "y"]
    with (
        (folder / "log").open("w") as sink,
        subprocess.Popen(
            [*command, "--no-browser", "--port", "0"], stdout=subprocess.PIPE, stderr=sink, text=True
        ) as process,
    ):
        line = process.stdout.readline()
        yield Running(process, line.split()[2], folder / "log")
        alive = process.poll() is None
        process.terminate()
    assert alive
    assert (folder / "log").read_text() == ""  # no request of a stranger writes to the terminal


STRANGERS = [
    "evil.example",
    "evil.example:{port}",
    "127.0.0.1",
    "127.0.0.1:{other}",
    "127.0.0.1.evil.example:{port}",
    "localhost.evil.example:{port}",
    "localhost@evil.example:{port}",
    "evil.example@127.0.0.1:{port}",
    "[::1]:{port}",
    "0.0.0.0:{port}",
    "127.0.0.1:{port}:80",
    "127.0.0.1:99999999",
    "[",
    "",
    "127.0.0.1:{port}, evil.example:{port}",
]


@pytest.mark.parametrize("path", ["/", "/?token={token}", "/ws", "/static/js/bokeh.min.js", "/metadata"])
@pytest.mark.parametrize("host", STRANGERS)
def test_another_name_is_refused_everywhere(server, path, host):
    """DNS rebinding: the browser asks this server for a page under a stranger's name, the cookie included."""
    name = host.format(port=server.port, other=server.port + 1)
    cookie = server.cookie()
    for origin in ({}, {"Origin": f"http://{name}"}):
        status, headers, text = server.ask(
            path.format(token=server.token), Host=name, Cookie=cookie, **origin
        )
        assert status in (400, 403)
        assert "Set-Cookie" not in headers
        assert not any(word in text for word in (SECRET, server.token, '"token"'))


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH"])
def test_no_method_passes_by_the_guard(server, method):
    assert server.ask("/", method, Host=f"evil.example:{server.port}", Content_Length="0")[0] == 403


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "https://{own}", "http://{own}/", "file://"]
)
def test_another_origin_is_refused(server, origin):
    cookie = server.cookie()
    given = origin.format(own=server.own)
    assert server.ask("/", Origin=given, Cookie=cookie)[0] == 403
    assert server.ask("/static/js/bokeh.min.js", Origin=given)[0] == 403
    offered = f"bokeh, {server.session_token(cookie)}"
    assert server.socket(Origin=given, Cookie=cookie, Sec_WebSocket_Protocol=offered) == 403


def test_the_token_opens_the_page_and_leaves_the_address(server):
    assert server.ask("/")[0] == 403
    assert server.ask("/?token=wrong")[0] == 403
    assert server.ask("/?token=%C3%A9")[0] == 403
    assert server.ask("/", Cookie=f"lbnn-explore-{server.port}=%C3%A9")[0] == 403
    status, headers, _ = server.ask(f"/?depth=3&token={server.token}&widths=4%2C5")
    assert (status, headers["Location"]) == (303, "/?depth=3&widths=4%2C5")
    assert "HttpOnly" in headers["Set-Cookie"]
    assert "SameSite=Lax" in headers["Set-Cookie"]
    status, headers, page = server.ask("/?depth=3", Cookie=server.cookie())
    assert status == 200
    assert SECRET not in server.ask("/")[2]
    assert "1 features" in page or SECRET in page or "data.csv" in page
    assert headers["Cache-Control"] == "no-store"


def test_sockets_need_cookie_origin_and_the_token_of_a_page(server):
    cookie, origin = server.cookie(), f"http://{server.own}"
    offered = f"bokeh, {server.session_token(cookie)}"
    assert server.socket(Origin=origin, Cookie=cookie, Sec_WebSocket_Protocol=offered) == 101
    assert server.socket(Cookie=cookie, Sec_WebSocket_Protocol=offered) == 403
    assert server.socket(Origin=origin, Sec_WebSocket_Protocol=offered) == 403
    assert server.socket(Origin=origin, Cookie=cookie) == 403


def test_malformed_tokens_are_refused_without_a_word_in_the_terminal(server):
    cookie, origin = server.cookie(), f"http://{server.own}"
    good = server.session_token(cookie)
    rng = np.random.default_rng(0)

    def coded(value):
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    offered = [
        "",
        "bokeh",
        "bokeh, ",
        "bokeh, x",
        "bokeh, .",
        "bokeh, a.b",
        f"bokeh, {good}, more",
        good,
        "x, y",
    ]
    offered += [
        f"bokeh, {coded(each)}.sig" for each in ({}, [], 3, None, {"session_id": 5}, {"session_id": "a"})
    ]
    offered += [f"bokeh, {base64.urlsafe_b64encode(b'[' * 20_000).decode().rstrip('=')}.x"]
    for _ in range(100):  # one character changed
        place = int(rng.integers(len(good)))
        letter = "a" if good[place] != "a" else "b"
        offered.append(f"bokeh, {good[:place]}{letter}{good[place + 1 :]}")
    statuses = {server.socket(Origin=origin, Cookie=cookie, Sec_WebSocket_Protocol=each) for each in offered}
    assert statuses == {403}
    assert server.log.read_text() == ""


def test_many_pages_do_not_hold_the_server(server):
    """Forty-five GETs and as many refused ones: milliseconds each, and no session is made."""
    cookie = server.cookie()
    server.ask("/", Cookie=cookie)  # the page is made once
    clock = os.sysconf("SC_CLK_TCK")

    def cpu():
        fields = Path(f"/proc/{server.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / clock

    before, started = cpu(), time.monotonic()
    for _ in range(45):
        assert server.ask("/", Cookie=cookie)[0] == 200
        assert server.ask("/")[0] == 403
    assert cpu() - before < 1.0
    assert time.monotonic() - started < 10


def test_nothing_else_is_served(server):
    cookie = server.cookie()
    for path in ("/metadata", "/autoload.js", "/index", "/static/../server.py", "/favicon.ico"):
        assert server.ask(path, Cookie=cookie)[0] in (403, 404)
    assert server.ask("/static/js/bokeh.min.js")[0] == 200


@pytest.mark.parametrize(
    ("host", "header", "allowed"),
    [
        ("127.0.0.1", "LOCALHOST:5007", True),
        ("0.0.0.0", "192.168.1.7:5007", True),
        ("0.0.0.0", "[fe80::1]:5007", True),
        ("0.0.0.0", "evil.example:5007", False),
        ("::1", "[::1]:5007", True),
        ("127.0.0.1", "192.168.1.7:5007", False),
        ("box.example", "box.example:5007", True),
    ],
)
def test_names_of_the_server(host, header, allowed):
    guard = Guard(host, 5007)
    assert "localhost" in names_of(host)
    if allowed:
        guard.require_own_name({"Host": header})
    else:
        with pytest.raises(RefusedError, match="the address must be one of"):
            guard.require_own_name({"Host": header})


def test_a_socket_may_be_closed_twice():
    """By its close frame and by the end of the stream: the second finds no session, and says nothing."""
    from types import SimpleNamespace

    from bokeh.server.views.ws import WSHandler

    from lbnn.explore.server import GuardedApplication

    lost = []
    application = GuardedApplication.__new__(GuardedApplication)  # no server: only its list of clients
    application._clients = SimpleNamespace(discard=lambda one: None)
    session = SimpleNamespace(notify_connection_lost=lambda: lost.append(1))
    socket = SimpleNamespace(application=application, close_code=1001, close_reason=None)
    socket.connection = SimpleNamespace(_socket=socket, session=session, detach_session=lambda: None)
    WSHandler.on_close(socket)
    WSHandler.on_close(socket)
    assert lost == [1]
