"""The server: on this machine's own address unless told otherwise."""

from __future__ import annotations

import errno
import ipaddress
import logging
import socket
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from bokeh.application import Application
from bokeh.application.handlers.function import FunctionHandler
from bokeh.server.server import Server

from lbnn._base.errors import AccuracyWarning
from lbnn.explore.document import Pages
from lbnn.explore.session import Reader
from lbnn.explore.table import Table

LOOPBACK, PORT = "127.0.0.1", 5007
_THREADS = 4
_LARGEST_MESSAGE = 10_000_000  # bytes; a picked file of the largest size in UTF-8


class BusyPortError(OSError):
    """The port is taken."""


def make_server(
    host: str = LOOPBACK, port: int = PORT, table: Table | None = None, reader: Reader | None = None
) -> Server:
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
    warnings.simplefilter("ignore", AccuracyWarning)  # the page shows the messages where they belong
    logging.getLogger("bokeh").setLevel(logging.WARNING)
    pages = Pages(ThreadPoolExecutor(_THREADS, "lbnn-explore"), table, reader)
    return Server(
        {"/": Application(FunctionHandler(pages))},
        address=host,
        port=free,
        allow_websocket_origin=sorted(f"{name}:{free}" for name in _names(host)),
        websocket_max_message_size=_LARGEST_MESSAGE,
        unused_session_lifetime_milliseconds=10_000,
        check_unused_sessions_milliseconds=5_000,
    )


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


def _names(host: str) -> set[str]:
    """The names by which a browser may address the server."""
    names = {host, "localhost"}
    try:
        if ipaddress.ip_address(
            host
        ).is_unspecified:  # all addresses: those of this machine by its name as well
            names |= {socket.gethostname(), socket.getfqdn(), LOOPBACK}
    except ValueError:
        pass  # a name, not a number
    return names


def address_of(server: Server) -> str:
    """The address to open in a browser."""
    host = str(server.address or LOOPBACK)
    shown = LOOPBACK if host in ("0.0.0.0", "::") else f"[{host}]" if ":" in host else host
    return f"http://{shown}:{server.port}/"


def serve(server: Server, ready: Callable[[str], None]) -> None:
    """Run until interrupted; `ready` is told the address once browsers may come."""
    server.start()
    server.io_loop.add_callback(ready, address_of(server))
    try:
        server.io_loop.start()
    except KeyboardInterrupt:
        pass
    finally:
        server.stop(wait=False)
