"""Warnings that point at the line of the caller, and messages in their place inside the library.

Python's warning filters belong to the whole process: a thread that changes them for a while changes them
for all threads, and two that do so at once leave them changed. So the library never touches them. Where an
answer of its own is only a part of another one, `collected` takes the messages of that part instead of
warnings.
"""

from __future__ import annotations

import functools
import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from types import FrameType

from lbnn._base.errors import AccuracyWarning

_PACKAGE = Path(__file__).resolve().parent.parent
#: Where messages of the running thread go instead of warnings; None outside of `collected`.
_COLLECTED: ContextVar[list[str] | None] = ContextVar("lbnn_collected_messages", default=None)


def warn(message: str | Warning, category: type[Warning] = AccuracyWarning, *, at_once: bool = False) -> None:
    """Warn at the line that called the library, however deep inside it the reason was found.

    A warning that is given as such keeps its own category. With `at_once` also where messages are collected:
    what is of use only before the work is done.
    """
    kept = _COLLECTED.get()
    if kept is not None and not at_once:
        kept.append(str(message))
        return
    warnings.warn(message, category, stacklevel=_frames_inside() + 1)


def warn_of(messages: Iterable[str], category: type[Warning] = AccuracyWarning) -> None:
    """A warning for each of an answer's messages."""
    for message in messages:
        warn(message, category)


@contextmanager
def collected() -> Iterator[list[str]]:
    """Messages of what the library would warn of in the running thread, instead of warnings.

    Examples
    --------
    >>> from lbnn._base.warn import collected, warn
    >>> with collected() as messages:
    ...     warn("few draws")
    >>> messages
    ['few draws']
    """
    messages: list[str] = []
    token = _COLLECTED.set(messages)
    try:
        yield messages
    finally:
        _COLLECTED.reset(token)


def _frames_inside() -> int:
    """Number of frames from the caller of this function to the last one that is of the package.

    Frames of functools between frames of the package, those of cached properties, count as its own.
    """
    frame: FrameType | None = sys._getframe(1)
    count = passed = 0
    while frame is not None:
        file = frame.f_code.co_filename
        inside = _of_package(file)
        if not inside and file != functools.__file__:
            break
        frame, passed = frame.f_back, passed + 1
        if inside:
            count = passed
    return count


def _of_package(file: str) -> bool:
    return Path(file).is_relative_to(_PACKAGE)
