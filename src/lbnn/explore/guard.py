"""Who may ask the server: requests to one of its own names, from its own page, by those who have the token.

A foreign page can make a name of its own resolve to this machine (DNS rebinding); the browser then
takes the server for a part of that page. Such requests carry the foreign name as `Host`, and so they are
refused. The token stands in the address that the command prints, as Jupyter's does, and is made anew at
every start; the first visit exchanges it for a cookie, so that it stays out of the addresses that are
copied and kept in the history.
"""

from __future__ import annotations

import hmac
import ipaddress
import secrets
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from bokeh.util.token import check_token_signature, get_token_payload

LOOPBACK = "127.0.0.1"


class RefusedError(Exception):
    """A request that is not answered: an HTTP status and the reason."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status, self.reason = status, reason


@dataclass(frozen=True)
class Guard:
    """The rules for requests to a server.

    Attributes
    ----------
    host, port
        Where the server listens.
    token : str
        In the address to open first.
    cookie : str
        What a browser holds that has opened it.
    secret : bytes
        Signs the tokens of Bokeh's sessions.
    """

    host: str
    port: int
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    cookie: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    secret: bytes = field(default_factory=lambda: secrets.token_bytes(32))

    @property
    def cookie_name(self) -> str:
        """Browsers share cookies among the ports of a host."""
        return f"lbnn-explore-{self.port}"

    @property
    def origins(self) -> tuple[str, ...]:
        """Names with ports by which a browser may address the server."""
        shown = (f"[{name}]" if ":" in name else name for name in names_of(self.host))
        return tuple(sorted(f"{name}:{self.port}" for name in shown))

    def require_own_name(self, headers: Mapping[str, str]) -> None:
        """Raise unless `Host` is a name of the server and `Origin`, where there is one, is the same."""
        host = headers.get("Host", "")
        if not self._is_own(host):
            raise RefusedError(
                403, f"the address must be one of {', '.join(self.origins)}, got {host[:80]!r}"
            )
        origin = headers.get("Origin")
        if origin is not None and origin.lower() != f"http://{host.lower()}":
            raise RefusedError(403, f"requests must come from the page itself, got {origin[:80]!r}")

    def _is_own(self, host: str) -> bool:
        """Whether a `Host` header names this server."""
        if host.lower() in self.origins:
            return True
        try:
            address = urlsplit(f"//{host}")
            name, port = address.hostname, address.port
        except ValueError:
            return False
        if name is None or (80 if port is None else port) != self.port or address.username is not None:
            return False
        # Where the server listens at all addresses of the machine, each may be used: a stranger's page cannot
        # have a number as its name.
        return name in names_of(self.host) or (_is_unspecified(self.host) and _is_number(name))

    def is_token(self, token: str) -> bool:
        """Whether this is the token, compared in constant time."""
        return hmac.compare_digest(token.encode(), self.token.encode())

    def require_cookie(self, cookie: str | None) -> None:
        """Raise unless the browser has opened the address with the token before."""
        if cookie is None or not hmac.compare_digest(cookie.encode(), self.cookie.encode()):
            raise RefusedError(
                403,
                "open the address that `lbnn explore` has printed, which ends in a token; to open a link, "
                "add &token= and the token to it",
            )

    def require_session(self, headers: Mapping[str, str]) -> None:
        """Raise unless a socket comes from a page that this server made not too long ago."""
        if "Origin" not in headers:
            raise RefusedError(403, "a socket must name the page that opens it, got no Origin")
        offered = [part.strip() for part in headers.get("Sec-WebSocket-Protocol", "").split(",")]
        if len(offered) != 2 or offered[0] != "bokeh" or not self._is_session(offered[1]):
            raise RefusedError(403, "a socket must offer the token of a page of this server: reload the page")

    def _is_session(self, token: str) -> bool:
        try:
            signed = check_token_signature(token, self.secret, signed=True)
            return signed and float(get_token_payload(token)["session_expiry"]) > time.time()
        except (ValueError, TypeError, LookupError, AttributeError, AssertionError, RecursionError):
            return False  # no token at all: bytes that do not decode, JSON of something else


def names_of(host: str) -> set[str]:
    """The names by which a browser may address a server at this address."""
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
