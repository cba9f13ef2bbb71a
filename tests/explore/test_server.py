"""Who is answered by `lbnn explore`: forged requests against the command itself, in a process of its own."""

from __future__ import annotations

import base64
import http.client
import re
import socket
import subprocess
import sys
from urllib.parse import urlsplit

import pytest

pytest.importorskip("bokeh")

from lbnn.explore.server import BusyPortError, OwnNamesOnly, names_of, serve


class Running:
    """The command, its address and what it has written."""

    def __init__(self, process, address, log):
        self.process, self.log = process, log
        parts = urlsplit(address)
        self.port = parts.port
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

    def socket(self, **headers):
        """Status of an attempt to open the socket."""
        upgrade = {
            "Upgrade": "websocket",
            "Connection": "Upgrade",
            "Sec_WebSocket_Version": "13",
            "Sec_WebSocket_Key": base64.b64encode(bytes(16)).decode(),
        }
        return self.ask("/ws", **upgrade, **headers)[0]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("explore")
    command = [sys.executable, "-m", "lbnn.cli", "explore"]
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


@pytest.mark.parametrize(
    "path", ["/", "/?depth=3", "/ws", "/static/js/bokeh.min.js", "/metadata", "/autoload.js"]
)
@pytest.mark.parametrize("host", STRANGERS)
def test_another_name_is_refused_everywhere(server, path, host):
    """DNS rebinding: the browser asks this server for a page under a stranger's name."""
    name = host.format(port=server.port, other=server.port + 1)
    for origin in ({}, {"Origin": f"http://{name}"}):
        status, _, text = server.ask(path, Host=name, **origin)
        assert status in (400, 403)
        assert '"token"' not in text


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH"])
def test_no_method_passes_by_the_guard(server, method):
    assert server.ask("/", method, Host=f"evil.example:{server.port}", Content_Length="0")[0] == 403


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "https://{own}", "http://{own}/", "file://"]
)
def test_another_origin_is_refused(server, origin):
    given = origin.format(own=server.own)
    for path in ("/", "/static/js/bokeh.min.js", "/autoload.js"):
        assert server.ask(path, Origin=given)[0] == 403
    assert server.socket(Origin=given) == 403


def test_the_page_and_its_socket_are_there_for_the_page_itself(server):
    status, headers, page = server.ask("/?depth=3")
    assert status == 200
    assert "Set-Cookie" not in headers
    assert "viewport" in page
    sources = re.findall(r'(?:src|href)="([^"]*)"', page)
    assert sources
    assert all(source.startswith(("/static/", "data:")) for source in sources)  # nothing from elsewhere
    assert server.ask("/static/js/bokeh.min.js")[0] == 200
    origin = f"http://{server.own}"
    token = re.search(r'"token":"([^"]+)', page)[1]
    offered = f"bokeh, {token}"
    assert server.socket(Origin=origin, Sec_WebSocket_Protocol=offered) == 101
    assert server.socket(Sec_WebSocket_Protocol=offered) == 403


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
    application = OwnNamesOnly(host, 5007)
    assert "localhost" in names_of(host)
    refusal = application.refusal({"Host": header})
    assert refusal == "" if allowed else "the address must be one of" in refusal


def test_a_port_that_is_taken_is_told():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(BusyPortError, match="--port 0 for any that is free"):
            serve("127.0.0.1", taken.getsockname()[1], print)


def test_an_address_of_another_machine_is_told():
    with pytest.raises(OSError, match=r"cannot listen at 192\.0\.2\.1"):
        serve("192.0.2.1", 0, print)


def test_the_command_tells_what_is_wrong():
    from typer.testing import CliRunner

    from lbnn.cli.app import app

    result = CliRunner().invoke(app, ["explore", "--no-browser", "--host", "192.0.2.1", "--port", "0"])
    assert result.exit_code in (1, 2)
    assert "cannot listen at 192.0.2.1" in result.output
    assert "Traceback" not in result.output
