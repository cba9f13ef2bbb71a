"""The commit whose code runs, where that is known."""

from __future__ import annotations

import subprocess
from pathlib import Path


def commit() -> str:
    """The commit whose code this is, "+" if files were changed since; empty where there is no checkout."""
    here = Path(__file__)
    try:
        _git(here.parent, "ls-files", "--error-unmatch", here.name)  # not a checkout of something else
        return _git(here.parent, "describe", "--always", "--dirty=+", "--abbrev=10", "--exclude=*")
    except (OSError, subprocess.CalledProcessError):
        return ""


def _git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", folder, *arguments], check=True, capture_output=True, text=True)
    return done.stdout.strip()
