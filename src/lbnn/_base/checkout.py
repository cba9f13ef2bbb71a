"""Where a result comes from: the commit whose code runs, date, machine and command."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path


def commit() -> str:
    """The commit whose code this is, "+" if files were changed since; empty where there is no checkout."""
    here = Path(__file__)
    try:
        _git(here.parent, "ls-files", "--error-unmatch", here.name)  # not a checkout of something else
        return _git(here.parent, "describe", "--always", "--dirty=+", "--abbrev=10", "--exclude=*")
    except (OSError, subprocess.CalledProcessError):
        return ""


def provenance(command: str, of: str = "") -> dict[str, str]:
    """What a stored result says of itself; the build of the documentation prints it under the table.

    Parameters
    ----------
    command
        The line that computes the result again.
    of
        Which part of the file, where the parts were computed at different times.
    """
    part = {"of": of} if of else {}
    machine = f"{os.cpu_count()} CPU cores, {platform.system()} {platform.machine()}"
    today = datetime.now(UTC).date().isoformat()
    return part | {"commit": commit(), "date": today, "machine": machine, "command": command}


def _git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", folder, *arguments], check=True, capture_output=True, text=True)
    return done.stdout.strip()
