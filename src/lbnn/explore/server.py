"""Bokeh's server, on this machine's own address by default, for requests under its own names only.

A page from another machine can make a name of its own resolve to this one (DNS rebinding); the browser then
takes the server for a part of that page. Such requests carry the foreign name as `Host`, and so they are
refused. Requests from another page carry another `Origin`, and are refused as well.
"""

from __future__ import annotations

import errno
import ipaddress
import logging
import socket
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

from bokeh.application import Application
from bokeh.application.handlers.function import FunctionHandler
from bokeh.server.server import BaseServer
from bokeh.server.tornado import BokehTornado
from bokeh.server.util import bind_sockets
from tornado.httpserver import HTTPServer
from tornado.ioloop import IOLoop
from tornado.web import RequestHandler

from lbnn.explore.page import Page

LOOPBACK = "127.0.0.1"


class BusyPortError(OSError):
    """The port is taken."""


class OwnNamesOnly(BokehTornado):
    """Bokeh's application, which gets requests under the names of the server and from its own page only."""

    def __init__(self, host: str, port: int) -> None:
        self.names, self.port = names_of(host), port
        self.all_addresses = _is_unspecified(host)
        shown = (f"[{name}]" if ":" in name else name for name in self.names)
        super().__init__(
            {"/": Application(FunctionHandler(Page))},
            extra_websocket_origins=[f"{name}:{port}" for name in shown],
            log_function=lambda handler: None,  # a foreign page could fill the terminal
        )

    def find_handler(self, request: Any, **options: Any) -> Any:
        """Tornado asks here for every request, those that open a socket among them."""
        reason = self.refusal(request.headers)
        if reason:
            return self.get_handler_delegate(request, Refusal, {"reason": reason})
        return super().find_handler(request, **options)

    def refusal(self, headers: Mapping[str, str]) -> str:
        """Why a request is not answered; empty where it is."""
        host, origin = headers.get("Host", ""), headers.get("Origin")
        if not self._is_own(host):
            names = ", ".join(sorted(self.names))
            return f"the address must be one of {names}, with port {self.port}, got {host[:80]!r}"
        if origin is not None and origin.lower() != f"http://{host.lower()}":
            return f"requests must come from the page itself, got {origin[:80]!r}"
        if headers.get("Upgrade") and origin is None:
            return "a socket must name the page that opens it, got no Origin"
        return ""

    def _is_own(self, host: str) -> bool:
        try:
            address = urlsplit(f"//{host}")
            name, port = address.hostname, address.port or 80
        except ValueError:
            return False
        if name is None or port != self.port or address.username is not None:
            return False
        # A page from another machine cannot have a number as its name.
        return name in self.names or (self.all_addresses and _is_number(name))


class Refusal(RequestHandler):
    """Says why a request is not answered, whatever its method."""

    def initialize(self, reason: str) -> None:
        """Called by Tornado."""
        self.reason = reason

    def prepare(self) -> None:
        """Answer before the method is looked at."""
        self.set_status(403)
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        self.finish(f"lbnn explore: {self.reason}\n")


def names_of(host: str) -> set[str]:
    """The names by which a browser may address a server at this address.

    Examples
    --------
    >>> sorted(names_of("127.0.0.1"))
    ['127.0.0.1', 'localhost']
    """
    names = {host.lower(), "localhost"}
    if _is_unspecified(host):  # all addresses: those of this machine by its name as well
        names |= {socket.gethostname().lower(), socket.getfqdn().lower(), LOOPBACK, "::1"}
    return names


def _is_unspecified(host: str) -> bool:
    return _is_number(host) and ipaddress.ip_address(host).is_unspecified


def _is_number(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def serve(host: str, port: int, ready: Callable[[str], None]) -> None:
    """Serve the page until interrupted.

    Parameters
    ----------
    host : str
        Address to listen at; the loopback address is reached from this machine only.
    port : int
        0 takes any that is free.
    ready : callable
        Gets the address of the page once browsers may connect.

    Raises
    ------
    BusyPortError
        If the port is taken.
    """
    for name in ("bokeh", "tornado.general", "tornado.access"):  # a page that was closed is no news
        logging.getLogger(name).setLevel(logging.ERROR)
    port = free_port(host, port)
    sockets, _ = bind_sockets(host, port)
    application = OwnNamesOnly(host, port)
    http = HTTPServer(application)
    http.add_sockets(sockets)
    server = BaseServer(IOLoop.current(), application, http)
    server.start()
    shown = LOOPBACK if _is_unspecified(host) else f"[{host}]" if ":" in host else host
    server.io_loop.add_callback(ready, f"http://{shown}:{port}/")
    try:
        server.io_loop.start()
    except KeyboardInterrupt:
        pass
    finally:
        server.stop(wait=False)


def free_port(host: str, port: int) -> int:
    """The port, or for 0 one that is free; raise where another program has it or the address is not ours."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
            return int(probe.getsockname()[1])
        except OSError as problem:
            if problem.errno == errno.EADDRINUSE:
                raise BusyPortError(
                    f"port {port} of {host} is taken by another program: choose one with --port, "
                    "or --port 0 for any that is free"
                ) from problem
            raise OSError(f"cannot listen at {host}, port {port}: {problem.strerror}") from problem
