"""The server: on this machine's own address by default, and for its own page only."""

from __future__ import annotations

import errno
import logging
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlencode

from bokeh.application import Application
from bokeh.application.handlers.function import FunctionHandler
from bokeh.server.connection import ServerConnection
from bokeh.server.server import BaseServer
from bokeh.server.tornado import BokehTornado
from bokeh.server.util import bind_sockets
from bokeh.util.token import generate_jwt_token, generate_session_id
from tornado.httpserver import HTTPServer
from tornado.ioloop import IOLoop
from tornado.web import RequestHandler

from lbnn.explore.document import Pages
from lbnn.explore.guard import LOOPBACK, Guard, RefusedError
from lbnn.explore.session import Reader
from lbnn.explore.table import Table

PORT = 5007
_THREADS = 4
_LARGEST_MESSAGE = 10_000_000  # bytes; a picked file of the largest size in UTF-8
_PAGE_LIFETIME = 86_400  # seconds within which a page opens its socket: a tab may sleep over night
_SAFE_HEADERS = {
    "Cache-Control": "no-store",  # the page holds the token of its session
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "frame-ancestors 'none'",
}


class BusyPortError(OSError):
    """The port is taken."""


class ExploreServer(BaseServer):
    """Bokeh's server with a guard before every request."""

    def __init__(self, guard: Guard, pages: Pages, sockets: list[socket.socket]) -> None:
        self.guard, self.pages = guard, pages
        application = GuardedApplication(guard, pages)
        http = HTTPServer(application)
        http.add_sockets(sockets)
        super().__init__(IOLoop.current(), application, http)

    @property
    def address(self) -> str:
        """Where it listens."""
        return self.guard.host

    @property
    def port(self) -> int:
        """Where it listens."""
        return self.guard.port


class GuardedApplication(BokehTornado):
    """The page, its socket and the scripts of Bokeh; nothing else, and nothing before the guard was asked."""

    def __init__(self, guard: Guard, pages: Pages) -> None:
        self.guard, self.pages = guard, pages
        super().__init__(
            {"/": Application(FunctionHandler(pages))},
            extra_websocket_origins=list(guard.origins),
            secret_key=guard.secret,
            sign_sessions=True,
            unused_session_lifetime_milliseconds=10_000,
            check_unused_sessions_milliseconds=5_000,
            websocket_max_message_size_bytes=_LARGEST_MESSAGE,
            log_function=_no_log,
        )

    def client_lost(self, connection: ServerConnection) -> None:
        """Detach a page that was closed; a second close of the same socket then finds nothing to detach.

        Tornado reports both the close frame and the end of the stream. Bokeh would look for the session again
        and log an AssertionError.
        """
        super().client_lost(connection)
        connection._socket.connection = None

    def find_handler(self, request: Any, **options: Any) -> Any:
        """Tornado asks here for every request, those that open a socket among them."""
        try:
            return self._found(request, **options)
        except RefusedError as problem:
            return self.get_handler_delegate(request, Refusal, {"problem": problem})

    def _found(self, request: Any, **options: Any) -> Any:
        self.guard.require_own_name(request.headers)
        path = request.path
        if path.startswith("/static/"):
            return super().find_handler(request, **options)
        if path == "/":
            return self.get_handler_delegate(request, PageHandler, {"guard": self.guard, "pages": self.pages})
        if path != "/ws":
            raise RefusedError(404, "there is nothing at this address")
        self.guard.require_cookie(_cookie(request, self.guard))
        self.guard.require_session(request.headers)
        if self.pages.full:
            raise RefusedError(503, self.pages.full)
        return super().find_handler(request, **options)


class PageHandler(RequestHandler):
    """The page. It makes no session: its socket does, when the page is there."""

    def initialize(self, guard: Guard, pages: Pages) -> None:
        """Called by Tornado."""
        self.guard, self.pages = guard, pages

    def get(self) -> None:
        """The page; with the token in the address first a cookie and the address without the token."""
        for name, value in _SAFE_HEADERS.items():
            self.set_header(name, value)
        token = self.get_query_argument("token", None)
        if token is not None and self.guard.is_token(token):
            self._exchange()
            return
        try:
            self.guard.require_cookie(_cookie(self.request, self.guard))
        except RefusedError as problem:
            _refuse(self, problem)
            return
        session = generate_session_id(self.guard.secret, signed=True)
        own = generate_jwt_token(session, self.guard.secret, signed=True, expiration=_PAGE_LIFETIME)
        self.set_header("Content-Type", "text/html; charset=utf-8")
        self.write(self.pages.html(own))

    def _exchange(self) -> None:
        """Give the browser its cookie, and the address without the token."""
        name, value = self.guard.cookie_name, self.guard.cookie
        self.set_cookie(name, value, path="/", httponly=True, samesite="Lax")
        given = [
            (key, each)
            for key in self.request.query_arguments
            for each in self.get_query_arguments(key)
            if key != "token"
        ]
        self.redirect("/?" + urlencode(given) if given else "/", status=303)


class Refusal(RequestHandler):
    """Says why a request is not answered, whatever its method."""

    def initialize(self, problem: RefusedError) -> None:
        """Called by Tornado."""
        self.problem = problem

    def prepare(self) -> None:
        """Answer before the method is looked at."""
        _refuse(self, self.problem)


def _refuse(handler: RequestHandler, problem: RefusedError) -> None:
    handler.set_status(problem.status)
    handler.set_header("Content-Type", "text/plain; charset=utf-8")
    handler.finish(f"lbnn explore: {problem.reason}\n")


def _cookie(request: Any, guard: Guard) -> str | None:
    found = request.cookies.get(guard.cookie_name)
    return None if found is None else str(found.value)


def _no_log(handler: RequestHandler) -> None:
    """Requests are not logged: a foreign page could fill the terminal."""


def make_server(
    host: str = LOOPBACK, port: int = PORT, table: Table | None = None, reader: Reader | None = None
) -> ExploreServer:
    """A server that has its port and is ready to start; port 0 takes any that is free.

    Parameters
    ----------
    host : str
        Address to listen at; the loopback address is reached from this machine only.
    port : int
    table : Table, optional
        The user's data.
    reader : callable, optional
        Reads files that are picked on the page.

    Raises
    ------
    BusyPortError
        If the port is taken.
    """
    free = free_port(host, port)
    for name in (
        "bokeh",
        "tornado.general",
    ):  # a page that was closed and an address that is not there are no news
        logging.getLogger(name).setLevel(logging.ERROR)
    pages = Pages(ThreadPoolExecutor(_THREADS, "lbnn-explore"), table, reader)
    pages.workers.warm()
    sockets, _ = bind_sockets(host, free)
    return ExploreServer(Guard(host, free), pages, sockets)


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


def address_of(server: ExploreServer) -> str:
    """The address to open in a browser, with the token of this start."""
    host = server.address
    shown = LOOPBACK if host in ("0.0.0.0", "::") else f"[{host}]" if ":" in host else host
    return f"http://{shown}:{server.port}/?token={server.guard.token}"


def serve(server: ExploreServer, ready: Callable[[str], None]) -> None:
    """Run until interrupted; `ready` gets the address once browsers may connect."""
    server.start()
    server.io_loop.add_callback(ready, address_of(server))
    try:
        server.io_loop.start()
    except KeyboardInterrupt:
        pass
    finally:
        server.stop(wait=False)
        server.pages.workers.close()
