"""How to install an optional dependency: the one place that writes this sentence.

The name `lbnn` is on no package index, so `pip install 'lbnn[sklearn]'` would fail, or install what somebody
else publishes under that name. Extras are installed from the source.
"""

from __future__ import annotations

from pathlib import Path


def install_command(extra: str) -> str:
    """The command that installs an extra of lbnn.

    Where lbnn runs from its source folder (an editable installation), the command names that folder; an
    installed copy does not record where its source is, and the command is for use in that folder.

    Examples
    --------
    >>> from lbnn._base.extras import install_command
    >>> install_command("sklearn").startswith("pip install")
    True
    """
    source = Path(__file__).resolve().parents[3]  # src/lbnn/_base/extras.py
    if (source / "pyproject.toml").is_file() and (source / "src" / "lbnn").is_dir():
        return f"pip install --editable '{source}[{extra}]'"
    return f"pip install '.[{extra}]' in the source folder of lbnn, which is on no package index"


def needed(what: str, package: str, extra: str) -> str:
    """The message for a package that is absent: what needs it, and how to install it.

    Examples
    --------
    >>> from lbnn._base.extras import needed
    >>> needed("lbnn.sweep", "dask", "scale").startswith("lbnn.sweep needs dask: pip install ")
    True
    """
    return f"{what} needs {package}: {install_command(extra)}"
