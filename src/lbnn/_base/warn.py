"""Warnings that point at the line of the caller: the first frame outside the package."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable
from pathlib import Path
from types import FrameType

from lbnn._base.errors import AccuracyWarning

_PACKAGE = str(Path(__file__).resolve().parent.parent) + "/"


def warn(message: str, category: type[Warning] = AccuracyWarning) -> None:
    """Warn at the line that called the library, however deep inside it the reason was found."""
    warnings.warn(message, category, stacklevel=_frames_inside() + 1)


def warn_of(messages: Iterable[str]) -> None:
    """An `AccuracyWarning` for each of an inference's messages."""
    for message in messages:
        warn(message)


def _frames_inside() -> int:
    """Number of frames from the caller of this function to the last one that is of the package."""
    frame: FrameType | None = sys._getframe(1)
    count = 0
    while frame is not None and str(Path(frame.f_code.co_filename)).startswith(_PACKAGE):
        frame, count = frame.f_back, count + 1
    return count
