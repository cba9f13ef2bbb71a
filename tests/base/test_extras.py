"""Advice on installing extras: one function makes it, and nothing names an index that does not have lbnn."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

from lbnn._base import extras

ROOT = Path(__file__).resolve().parents[2]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
    "optional-dependencies"
]


def test_a_checkout_names_its_folder() -> None:
    assert extras.install_command("sklearn") == f"pip install --editable '{ROOT}[sklearn]'"
    message = extras.needed("lbnn.sweep", "dask, zarr", "scale")
    assert message == f"lbnn.sweep needs dask, zarr: pip install --editable '{ROOT}[scale]'"


def test_an_installed_copy_says_where_to_run_the_command(tmp_path) -> None:
    copy = tmp_path / "site-packages" / "lbnn" / "_base"
    copy.mkdir(parents=True)
    shutil.copy(extras.__file__, copy / "extras.py")
    program = (
        f"import sys; sys.path.insert(0, {str(copy)!r}); import extras; print(extras.install_command('cli'))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == (
        "pip install '.[cli]' in the source folder of lbnn, which is on no package index"
    )


TEXTS = [
    *(ROOT / "src" / "lbnn").rglob("*.py"),
    *(ROOT / "docs").rglob("*.md"),
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
]


def test_no_message_and_no_page_installs_lbnn_from_an_index() -> None:
    """Neither `pip install lbnn` nor an extra of it; other packages are on the index."""
    wrong = re.compile(r"pip\s+install\s+(-\S+\s+)*['\"]?lbnn\b")
    found = [
        f"{path.relative_to(ROOT)}: {match[0]}"
        for path in TEXTS
        if path.name != "extras.py"
        for match in wrong.finditer(path.read_text(encoding="utf-8"))
    ]
    assert not found


def test_extras_that_are_named_exist() -> None:
    for path in TEXTS:
        text = path.read_text(encoding="utf-8")
        named = re.findall(r"pip install [^\n]*?\.\[([a-z,]+)\]", text)
        if path.suffix == ".py":
            named += re.findall(r"needed\((?:[^()]|\([^()]*\))*?\"([a-z]+)\"\)", text)
        assert {each for group in named for each in group.split(",")} <= set(EXTRAS), path
