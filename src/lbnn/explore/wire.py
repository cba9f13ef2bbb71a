"""What passes between the page and the server beside the figures' data: texts in JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from bokeh.core.properties import String
from bokeh.model import DataModel

LARGEST_FILE = 2_000_000  # characters of a picked file


class Wire(DataModel):
    """`asked` is written by the page, the others by the server."""

    asked: Any = String(default="")
    answered: Any = String(default="")
    delivered: Any = String(default="")  # a file to download


@dataclass(frozen=True)
class Request:
    """What the page asks for: a number that grows, a kind, and what belongs to it."""

    number: int
    kind: str
    content: Any


#: Kinds of requests and the type of their content.
KINDS: dict[str, type] = {
    "state": str,
    "refine": list,
    "csv": str,
    "scheme": str,
    "file": dict,
    "cancel": str,
}


def read_request(text: str) -> Request:
    """The request in a message; anything that the page would not send is a ValueError."""
    try:
        message = json.loads(text)
    except (ValueError, RecursionError) as problem:
        raise ValueError(f"a request must be JSON, got {text[:40]!r}") from problem
    if not isinstance(message, dict) or message.keys() != {"number", "kind", "content"}:
        raise ValueError(f"a request must have number, kind and content, got {text[:40]!r}")
    number, kind, content = message["number"], message["kind"], message["content"]
    if kind not in KINDS or not isinstance(content, KINDS[kind]) or type(number) is not int:
        raise ValueError(f"a request must be of a kind in {tuple(KINDS)}, got {text[:40]!r}")
    return Request(number, kind, content)
