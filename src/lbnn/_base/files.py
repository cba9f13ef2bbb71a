"""Files written in one step: a reader finds the old file or the whole new one."""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from collections.abc import Callable, Mapping
from pathlib import Path

TEMPORARY_PREFIX = ".lbnn-"
_STALE = 3600.0  # seconds


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a temporary file beside `path`, then put it in its place in one step."""
    write_all_atomically({path: write})


def write_all_atomically(writers: Mapping[Path, Callable[[Path], object]]) -> None:
    """The same for several files: none is put in its place before all are complete."""
    temporaries: dict[Path, Path] = {}
    try:
        for path, write in writers.items():
            _remove_stale(path.parent)
            temporaries[path] = path.with_name(f"{TEMPORARY_PREFIX}{secrets.token_hex(8)}{path.suffix}")
            temporaries[path].touch(exist_ok=False)  # with usual permissions, which those of tempfile lack
            write(temporaries[path])
            with temporaries[path].open("rb+") as file:
                os.fsync(file.fileno())
        for path, temporary in temporaries.items():
            os.replace(temporary, path)
    finally:
        for temporary in temporaries.values():
            temporary.unlink(missing_ok=True)


def _remove_stale(folder: Path) -> None:
    """Remove what a process that was killed left an hour or longer ago."""
    for path in folder.glob(f"{TEMPORARY_PREFIX}*"):
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime > _STALE:
                path.unlink()


def text_writer(text: str) -> Callable[[Path], object]:
    """A `write` for `write_atomically` that puts text (UTF-8) into the file."""
    return lambda path: path.write_text(text, encoding="utf-8")


def bytes_writer(content: bytes) -> Callable[[Path], object]:
    """A `write` for `write_atomically` that puts bytes into the file."""
    return lambda path: path.write_bytes(content)
