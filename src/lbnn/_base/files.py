"""Files written in one step: a reader sees the old file or the whole new one."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a temporary file beside `path`, then put it in its place in one step."""
    handle, name = tempfile.mkstemp(prefix=".lbnn-", suffix=path.suffix, dir=path.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        write(temporary)
        temporary.chmod(0o666 & ~_umask())  # mkstemp made it private
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _umask() -> int:
    """The process's mask of permissions; it can only be read by setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


def text_writer(text: str) -> Callable[[Path], object]:
    """A `write` for `write_atomically` that puts text (UTF-8) into the file."""
    return lambda path: path.write_text(text, encoding="utf-8")


def bytes_writer(content: bytes) -> Callable[[Path], object]:
    """A `write` for `write_atomically` that puts bytes into the file."""
    return lambda path: path.write_bytes(content)
